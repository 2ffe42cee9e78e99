# test_partition_bad.sh - tern partition and --placement with input that is wrong: a sentence with file, line and reason, exit
# status 1, and nothing half-written. What only looks wrong does no harm. And --split and --links.
. "$(dirname "$0")/lib.sh"

# refused NAME PATTERN ARGUMENTS...: fails with exit status 1 and a sentence, and writes nothing.
refused() {
    name=$1 pattern=$2
    shift 2
    try "$tern" partition "$@" --out "$tmp/none"
    check "$name" [ "$status" -eq 1 ]
    check "$name: says why" grep -q "$pattern" "$err"
    check "$name: writes nothing" [ -z "$(find "$tmp" -maxdepth 1 -name '*none*')" ]
}

awk 'BEGIN { srand(2); for (r = 0; r < 200; r++) for (i = 0; i < 5; i++) print r, r % 4 * 50 + int(rand() * 50) }' >"$tmp/edges.txt"
: >"$tmp/empty.txt"
printf '# nothing\n%% here\n' >"$tmp/comments.txt"
printf '1\n-1\n1\n' >"$tmp/labels.svm"
printf '0 1\n1 1\n' >"$tmp/two.txt"
refused 'no rows' 'empty.txt has no row' "$tmp/empty.txt"
refused 'comments alone' 'comments.txt has no row' "$tmp/comments.txt"
refused 'rows without keys' 'labels.svm has no row with a key' --parts 2 "$tmp/labels.svm"
refused 'more parts than rows' 'fewer than the 3 parts' --parts 3 "$tmp/two.txt"
refused 'no file' 'cannot open .*nowhere' "$tmp/nowhere"

# METIS' format.
printf '3 2\n2\n1 3\n2\n' >"$tmp/good.graph"
try "$tern" partition --parts 2 "$tmp/good.graph"
check 'a graph' [ "$status" -eq 0 ]
printf '4 2\n2\n1 3\n2\n' >"$tmp/vertices.graph"
refused 'a graph with fewer vertices than it says' 'has 3 lines of vertices, but its heading says 4' --parts 2 "$tmp/vertices.graph"
printf '2 2\n2\n1 2\n2\n' >"$tmp/more.graph"
refused 'a graph with more vertices than it says' 'more.graph:4: there are more lines' --parts 2 "$tmp/more.graph"
printf '3 9\n2\n1 3\n2\n' >"$tmp/halves.graph"
refused 'a graph with other edges than it says' 'its heading says 9 edges' --parts 2 "$tmp/halves.graph"
printf '3 2\n2\n1 7\n2\n' >"$tmp/range.graph"
refused 'an edge out of range' 'range.graph:3: neighbour 7 is not among the vertices' --parts 2 "$tmp/range.graph"
printf '0 1\n5000000000 1\n' >"$tmp/range.txt"
refused 'a row out of range' 'range.txt:2: row 5000000000 is above' --parts 2 "$tmp/range.txt"
printf '0 1\n1 99999999999999999999999\n' >"$tmp/long.txt"
refused 'a key above 64 bits' 'long.txt:2: .* is above 64 bits' --parts 2 "$tmp/long.txt"

# Repeated edges and self-loops do no harm; nor does one part.
{ cat "$tmp/edges.txt" "$tmp/edges.txt" && awk '{ print $1, $1 }' "$tmp/edges.txt"; } >"$tmp/repeated.txt"
for method in auto parsa hybrid random; do
    try "$tern" partition --method $method --parts 4 "$tmp/repeated.txt" --out "$tmp/repeated"
    check "$method: repeated edges and self-loops" [ "$status" -eq 0 ]
    try "$tern" partition --method $method --parts 1 "$tmp/edges.txt"
    check "$method: one part" [ "$status" -eq 0 ]
done

# Costs of links.
hybrid() { echo "--method hybrid --parts 4 --links $tmp/links.txt $tmp/edges.txt"; }
printf '0 1 9 9\n1 0 9 9\n# halves\n9,9,0,1\n9,9,1,0\n' >"$tmp/links.txt"
try "$tern" partition $(hybrid) --out "$tmp/linked"
check 'a matrix of costs' [ "$status" -eq 0 ]
try "$tern" partition --method hybrid --parts 4 --hosts 2x2 "$tmp/edges.txt"
check 'hosts' [ "$status" -eq 0 ]
printf '0 1 9 9\n1 0 9\n9 9 0 1\n9 9 1 0\n' >"$tmp/links.txt"
refused 'a line of costs that is too short' 'links.txt:2: the line has 3 costs' $(hybrid)
printf '0 1 9 9\n1 0 9 9\n9 9 0 1\n' >"$tmp/links.txt"
refused 'a matrix that is not square' 'has 3 lines of costs, but there are 4 parts' $(hybrid)
printf '0 1 9 9\n1 0 9 9\n9 9 0 1\n9 9 1 0\n1 1 1 1\n' >"$tmp/links.txt"
refused 'a matrix with too many lines' 'links.txt:5: .* not square' $(hybrid)
printf '0 1 9 9\n1 0 -9 9\n9 9 0 1\n9 9 1 0\n' >"$tmp/links.txt"
refused 'a negative cost' "links.txt:2: '-9 9' is not the cost" $(hybrid)
try "$tern" partition --links "$tmp/links.txt" "$tmp/edges.txt"
check 'links without hybrid: usage' [ "$status" -eq 2 ]

# A disk that is full: no file may grow beyond some blocks.
(
    ulimit -f 1
    trap '' XFSZ
    "$tern" partition --parts 4 --split "$tmp/edges.txt" --out "$tmp/none" 2>"$tmp/full"
    echo $? >"$tmp/full.status"
)
check 'a full disk' [ "$(cat "$tmp/full.status")" -eq 1 ]
check 'a full disk: names the file' grep -q 'cannot write .*none/' "$tmp/full"
check 'a full disk: writes nothing' [ -z "$(find "$tmp" -maxdepth 1 -name '*none*')" ]

# The rows in files.
{ echo 'row,key' && tr ' ' , <"$tmp/edges.txt"; } >"$tmp/edges.csv"
try "$tern" partition --parts 20 --split "$tmp/edges.csv" --out "$tmp/split"
check 'split' [ "$status" -eq 0 ]
check 'split: a file for each part' [ "$(ls "$tmp/split" | grep -c '^part-')" -eq 20 ]
check 'split: every line once' \
    [ "$(sort "$tmp/edges.csv" | sed 1d | md5sum)" = "$(sed -s 1d "$tmp/split"/part-* | { cat; echo row,key; } | sort | sed 1d | md5sum)" ]
check 'split: every line in the file of its part' awk -F, 'FILENAME ~ /rows/ { part[FNR - 1] = $1; next }
    FNR > 1 && sprintf("part-%04d.txt", part[$1]) != substr(FILENAME, length(FILENAME) - 12) { bad = 1 }
    END { exit bad }' "$tmp/split/rows.txt" "$tmp/split"/part-*.txt
refused 'split: a graph' 'cannot be split' --parts 2 --split "$tmp/good.graph"
try "$tern" partition --split "$tmp/edges.txt"
check 'split without a folder: usage' [ "$status" -eq 2 ]

# Placements of other keys, or of more nodes.
try "$tern" partition --parts 4 "$tmp/edges.txt" --out "$tmp/parts"
awk '{ print $1, $2 + 100000, 1 + $2 % 5 }' "$tmp/edges.txt" >"$tmp/ratings.txt"
try "$tern" train mf --data "$tmp/ratings.txt" --test-share 0 --epochs 1 --placement "$tmp/parts"
check 'a placement of other keys' [ "$status" -eq 1 ]
check 'a placement of other keys: says so' grep -q 'names none of the items; it is the partition of other data' "$err"
try "$tern" train mf --data "$tmp/ratings.txt" --nodes 3 --epochs 1 --placement "$tmp/parts"
check 'a placement for more nodes' [ "$status" -eq 1 ]
check 'a placement for more nodes: says so' grep -q '4 parts, which is no multiple of the 3 nodes' "$err"
head -c 100 "$tmp/parts/frequencies.npy" >"$tmp/short" && mv "$tmp/short" "$tmp/parts/frequencies.npy"
try "$tern" train mf --data "$tmp/ratings.txt" --epochs 1 --placement "$tmp/parts"
check 'a placement that is cut off' grep -q 'frequencies.npy' "$err"

finish
