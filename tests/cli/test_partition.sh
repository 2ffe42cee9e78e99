# test_partition.sh - tern partition: every method, its files, several nodes, later data, and what is wrong.
. "$(dirname "$0")/lib.sh"

# 3000 rows of 12 groups, each with keys of its own; every fifth entry is a key that all groups use.
awk 'BEGIN { srand(5); for (r = 0; r < 3000; r++) for (i = 0; i < 10; i++)
    print r, i % 5 ? 1000 + r % 12 * 100 + int(rand() * 100) : int(rand() * 50) }' >"$tmp/edges.txt"

# The value of a field of the JSON line in $out.
field() {
    sed -n "s/.*\"$1\": \"\{0,1\}\([^,}\"]*\).*/\1/p" "$out"
}

at_most() {
    awk -v a="$1" -v b="$2" 'BEGIN { exit !(a <= b) }'
}

# The remote pairs that rows.txt and the keys in the data give: for each key the parts that use it, less one.
count_pairs() {
    awk 'NR == FNR { part[FNR - 1] = $1; next }
        !((part[$1], $2) in seen) { seen[part[$1], $2] = 1; n[$2]++ }
        END { for (key in n) sum += n[key] - 1; print sum }' "$1/rows.txt" "$2"
}

try "$tern" partition --method random --json "$tmp/edges.txt"
check 'random' [ "$status" -eq 0 ]
random=$(field remote_pairs)
for method in auto parsa hybrid metis; do
    if [ $method = metis ] && ! ldconfig -p | grep -q 'libmetis\.so\.5'; then
        try "$tern" partition --method metis "$tmp/edges.txt"
        check 'metis: says that it is not installed' grep -q 'METIS is not installed' "$err"
        continue
    fi
    try "$tern" partition --method $method --parts 6 --json "$tmp/edges.txt" --out "$tmp/$method"
    check "$method" [ "$status" -eq 0 ]
    check "$method: fewer pairs than at random" at_most "$(field remote_pairs)" $((random / 2))
    check "$method: rows within 5 %" at_most "$(field row_balance)" 1.0501
    check "$method: a part for each row" [ "$(wc -l <"$tmp/$method/rows.txt")" -eq 3000 ]
    check "$method: the pairs are those of the rows" \
        [ "$(count_pairs "$tmp/$method" "$tmp/edges.txt")" -eq "$(field remote_pairs)" ]
done
try "$tern" partition --balance entries --parts 6 --json "$tmp/edges.txt"
check 'entries within 5 %' at_most "$(field entry_balance)" 1.0501
try "$tern" partition --parts 1 --json "$tmp/edges.txt"
check 'one part shares nothing' [ "$(field remote_pairs)" -eq 0 ]
try "$tern" partition --replicas 0.05 --json "$tmp/edges.txt"
check 'replicas save accesses' at_most "$(field remote_share_with_replicas)" "$(field remote_share)"
check 'replicas are counted' [ "$(field replicas)" -gt 0 ]
used=$(field remote_share)
try "$tern" partition --homes balanced --json "$tmp/edges.txt"
check 'homes where keys are used have fewer remote accesses' at_most "$used" "$(field remote_share)"

# The same seed gives the same; a temporary file makes no difference.
try "$tern" partition --parts 6 --json "$tmp/edges.txt" --out "$tmp/again"
check 'the same seed, the same parts' cmp -s "$tmp/again/rows.txt" "$tmp/auto/rows.txt"
awk 'BEGIN { srand(9); for (r = 0; r < 40000; r++) print r, r % 50, 100 + int(rand() * 1000) }' |
    awk '{ print $1, $2; print $1, $3 }' >"$tmp/large.txt"
try "$tern" partition --json "$tmp/large.txt" --memory 1 --out "$tmp/spilled"
check 'more than fits into the memory allowed' [ "$status" -eq 0 ]
try "$tern" partition --json "$tmp/large.txt" --out "$tmp/kept"
check 'a temporary file makes no difference' cmp -s "$tmp/spilled/rows.txt" "$tmp/kept/rows.txt"

for nodes in 2 3; do
    try "$tern" run -n $nodes --no-prefix -- "$tern" partition --parts 6 --json "$tmp/edges.txt" --out "$tmp/$nodes"
    check "$nodes nodes" [ "$status" -eq 0 ]
    check "$nodes nodes: as good as one, nearly" at_most "$(field remote_pairs)" $((random / 2))
    check "$nodes nodes: the pairs are those of the rows" \
        [ "$(count_pairs "$tmp/$nodes" "$tmp/edges.txt")" -eq "$(field remote_pairs)" ]
done

# Data that came later go where their keys are used.
awk '$1 < 1500' "$tmp/edges.txt" >"$tmp/first.txt"
awk '$1 >= 1500 { print $1 - 1500, $2 }' "$tmp/edges.txt" >"$tmp/second.txt"
try "$tern" partition --parts 6 --json "$tmp/first.txt" --out "$tmp/first"
try "$tern" partition --parts 6 --method parsa --json "$tmp/second.txt" --resume "$tmp/first" --out "$tmp/second"
check 'later data' [ "$status" -eq 0 ]
cat "$tmp/first/rows.txt" "$tmp/second/rows.txt" >"$tmp/second/both.txt"
mkdir "$tmp/both"
mv "$tmp/second/both.txt" "$tmp/both/rows.txt"
check 'later data go to where their keys are used' at_most "$(count_pairs "$tmp/both" "$tmp/edges.txt")" $((random * 6 / 10))
try "$tern" partition --parts 70 --json "$tmp/second.txt" --resume "$tmp/first"
check 'a resumed partition of another number of parts is refused' [ "$status" -eq 1 ]

# NumPy reads the files.
for python in python3 /usr/bin/python3; do
    "$python" -c 'import numpy' 2>/dev/null || continue
    try "$python" -c "
import numpy as n, sys
d = sys.argv[1]
keys, homes, sets = n.load(d + '/keys.npy'), n.load(d + '/homes.npy'), n.load(d + '/sets.npy')
parts = n.loadtxt(d + '/rows.txt', dtype=int)
edges = n.unique(n.loadtxt(sys.argv[2], dtype=n.uint64), axis=0)
at = n.searchsorted(keys, edges[:, 1])
assert (keys[at] == edges[:, 1]).all() and len(keys) == len(n.unique(edges[:, 1]))
mine = parts[edges[:, 0].astype(int)]
assert ((sets[at] >> mine.astype(n.uint64)) & n.uint64(1) == 1).all()
print('%.6f' % (homes[at] != mine).mean())" "$tmp/auto" "$tmp/edges.txt"
    check 'NumPy reads the placement' [ "$status" -eq 0 ]
    check 'its share of remote accesses is that of the report' \
        grep -q "^remote_share $(cat "$out")$" "$tmp/auto/partition.txt"
    break
done

try "$tern" partition --parts 5000 "$tmp/edges.txt"
check 'too many parts: usage' [ "$status" -eq 2 ]
try "$tern" partition
check 'no file: usage' [ "$status" -eq 2 ]
printf '1 2\n3\n' >"$tmp/bad.txt"
try "$tern" partition "$tmp/bad.txt" --out "$tmp/bad"
check 'a bad line is named' grep -q 'bad.txt:2: the line has a row and no key' "$err"
check 'and nothing is written' [ ! -e "$tmp/bad" ]
printf '0 1\n1 1\n' >"$tmp/two.txt"
try "$tern" partition --parts 2 "$tmp/two.txt"
check 'it tells of no model' [ "$status,$(grep -c model "$err")" = 0,0 ]
try "$tern" partition --parts 3 "$tmp/two.txt"
check 'more parts than rows' grep -q 'fewer than the 3 parts' "$err"
: >"$tmp/empty.txt"
try "$tern" partition "$tmp/empty.txt"
check 'no rows' grep -q 'has no row with a key' "$err"
try "$tern" partition --method hybrid --hosts 3x3 --parts 6 "$tmp/edges.txt"
check 'hosts that do not fit the parts' grep -q 'product of 6' "$err"

finish
