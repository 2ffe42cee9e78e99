# test_train_placement.sh - tern train --placement: rows and keys go where tern partition says, and the remote accesses are
# those that it predicted; what is wrong is refused.
. "$(dirname "$0")/lib.sh"
export TERN_SHARE=0

# 800 users of 4 groups, each with items of its own; every fifth rating is of an item that all groups know.
awk 'BEGIN { srand(7); for (u = 0; u < 800; u++) for (i = 0; i < 10; i++) {
    item = i % 5 ? 100 + u % 4 * 100 + int(rand() * 100) : int(rand() * 50)
    if (!((u, item) in seen)) { seen[u, item] = 1; print u, item, 1 + int(rand() * 5) } } }' >"$tmp/ratings.txt"
awk '{ print $1, $2 }' "$tmp/ratings.txt" >"$tmp/edges.txt"

# The value of a field of the last line of JSON in $out.
field() {
    sed -n "s/.*\"$1\": \{0,1\}\([^,}]*\).*/\1/p" "$out" | tail -1
}

# remote_accesses: of the last epoch.
remote_accesses() {
    awk -v a="$(field accesses)" -v s="$(field remote_share)" 'BEGIN { printf "%.0f", a * s }'
}

# between: the bytes between nodes, all together. all NAME: the sum of a field over the epochs.
between() {
    sed -n 's/.*"traffic"://p' "$out" | grep -o '[0-9]*' | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

all() {
    sed -n "s/.*\"$1\": \{0,1\}\([^,}]*\).*/\1/p" "$out" | awk '{ sum += $1 } END { printf "%.0f", sum }'
}

mf() {
    try "$tern" train mf --data "$tmp/ratings.txt" --test-share 0 --threads 1 --policy static --epochs 2 --rank 4 --json "$@"
}

for nodes in 2 4; do
    try "$tern" partition --parts $nodes --json "$tmp/edges.txt" --out "$tmp/parts$nodes"
    check "$nodes parts" [ "$status" -eq 0 ]
    predicted=$(field t_sum) predicted_share=$(field remote_share_once)
    mf --nodes $nodes
    check "$nodes nodes: the bytes between each two are all bytes" \
        [ "$(between)" -eq "$(($(all request_bytes) + $(all reply_bytes)))" ]
    check "mf, $nodes nodes" [ "$status" -eq 0 ]
    bytes=$(field bytes)
    mf --nodes $nodes --placement "$tmp/parts$nodes"
    check "mf, $nodes nodes, placed" [ "$status" -eq 0 ]
    check "mf, $nodes nodes: all examples" [ "$(field examples)" -eq "$(wc -l <"$tmp/ratings.txt")" ]
    check "mf, $nodes nodes: as many remote accesses as predicted" [ "$(remote_accesses)" -eq "$predicted" ]
    check "mf, $nodes nodes: the predicted share of remote accesses" awk -v a="$predicted_share" -v b="$(field remote_share)" \
        'BEGIN { exit !(b > 0 && a - b < 0.01 && b - a < 0.01) }'
    check "mf, $nodes nodes: fewer bytes" [ "$(field bytes)" -lt $((bytes / 2)) ]
done
mf --nodes 2 --placement "$tmp/parts4"
check 'parts may be a multiple of the nodes' [ "$status" -eq 0 ]

# With replicas of a tenth of the items.
try "$tern" partition --parts 4 --replicas 0.1 "$tmp/edges.txt" --out "$tmp/copies"
for policy in graph:0 graph:inf; do
    try "$tern" train mf --data "$tmp/ratings.txt" --test-share 0 --threads 1 --policy $policy --epochs 2 --rank 4 --json \
        --nodes 4 --placement "$tmp/copies"
    check "mf, 4 nodes, $policy" [ "$status" -eq 0 ]
done
mf --placement "$tmp/parts4"
check 'also of one node' [ "$status" -eq 0 ]

# 800 examples of 4 groups, as lines of libsvm. With batches of one example, what tern partition counts is what is accessed.
{
    echo '# a comment is no row'
    awk '{ if (NR == 1 || $1 != row) { if (NR > 1) print line; row = $1; line = $3 % 2 ? "1" : "-1" } line = line " " $2 + 1 ":1" }
        END { print line }' "$tmp/ratings.txt"
} >"$tmp/examples.svm"
try "$tern" partition --parts 4 --format libsvm --json "$tmp/examples.svm" --out "$tmp/parts_linear"
check 'examples: 4 parts' [ "$status" -eq 0 ]
share=$(field remote_share)
try "$tern" train linear --solver online --batch 1 --intercept none --data "$tmp/examples.svm" --nodes 4 --threads 1 \
    --policy static --epochs 1 --json --placement "$tmp/parts_linear"
check 'linear, 4 nodes, placed' [ "$status" -eq 0 ]
check 'linear: all examples' [ "$(field examples)" -eq 800 ]
check 'linear: the share of remote accesses is the predicted one' \
    awk -v a="$share" -v b="$(field remote_share)" 'BEGIN { exit !(a - b < 0.001 && b - a < 0.001 && a > 0) }'
try "$tern" train linear --data "$tmp/examples.svm" --nodes 2 --threads 1 --epochs 2 --json --placement "$tmp/parts_linear"
check 'linear by dbpg, two parts for each node' [ "$status" -eq 0 ]
check 'linear by dbpg: all examples' [ "$(field examples)" -eq 800 ]
try "$tern" train fm --data "$tmp/examples.svm" --nodes 4 --threads 1 --policy static --epochs 1 --json \
    --placement "$tmp/parts_linear"
check 'fm, 4 nodes, placed' [ "$status" -eq 0 ]
check 'fm: all examples' [ "$(field examples)" -eq 800 ]
bytes=$(field bytes)
try "$tern" train fm --data "$tmp/examples.svm" --nodes 4 --threads 1 --policy static --epochs 1 --json
check 'fm: fewer bytes than without a placement' [ "$bytes" -lt "$(field bytes)" ]
echo '1 5:1' >>"$tmp/examples.svm"
try "$tern" train linear --data "$tmp/examples.svm" --nodes 2 --threads 1 --epochs 2 --placement "$tmp/parts_linear"
check 'linear: other data, with file and line' grep -q 'examples.svm:802: .*the partition of other data' "$err"

mf --nodes 3 --placement "$tmp/parts4"
check 'parts are a multiple of the nodes' [ "$status" -eq 1 ]
check 'that is told' grep -q 'no multiple of the 3 nodes' "$err"
try "$tern" train mf --data "$tmp/ratings.txt" --plain --placement "$tmp/parts4"
check '--plain has no nodes' grep -q 'plain has none' "$err"
mf --placement "$tmp/none"
check 'no such folder' grep -q 'cannot open .*none/partition.txt' "$err"
echo '900 3 1' >>"$tmp/ratings.txt"
mf --nodes 2 --placement "$tmp/parts4"
check 'other data' grep -q 'the partition of other data' "$err"
sed 's/^/u/' "$tmp/ratings.txt" >"$tmp/named.txt"
try "$tern" train mf --data "$tmp/named.txt" --nodes 2 --placement "$tmp/parts4"
check 'rows are numbers' grep -q "'u0' is not a number" "$err"
sed '7s/.*/9/' "$tmp/parts2/rows.txt" >"$tmp/rows.txt" && mv "$tmp/rows.txt" "$tmp/parts2"
mf --nodes 2 --placement "$tmp/parts2"
check 'a part that there is not' grep -q 'rows.txt:7: ' "$err"
printf x >"$tmp/parts4/homes.npy"
mf --nodes 2 --placement "$tmp/parts4"
check 'no array' grep -q 'homes.npy is not an array' "$err"

finish
