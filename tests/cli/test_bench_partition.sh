# test_bench_partition.sh - tern bench partition: all methods on one graph; --sweep: blocks and nodes; --train: models under each
# placement and policy.
. "$(dirname "$0")/lib.sh"

# 400 rows of 4 groups, each with keys of its own; every fourth entry is a key that all groups use.
awk 'BEGIN { srand(2); for (r = 0; r < 400; r++) for (i = 0; i < 8; i++)
    print r, i % 4 ? r % 4 * 50 + int(rand() * 50) : 200 + int(rand() * 20) }' >"$tmp/edges.txt"

# The value of a field of the line of JSON in $out that has the two texts.
field() {
    grep "$2" "$out" | grep "$3" | sed -n "s/.*\"$1\": \([^,}]*\).*/\1/p" | head -1
}

metis=0
! ldconfig -p | grep -q 'libmetis\.so\.5' || metis=1

try "$tern" bench partition --parts 4 --repeats 1 --json "$tmp/edges.txt"
check 'methods' [ "$status" -eq 0 ]
check 'methods: all of them' [ "$(wc -l <"$out")" -eq $((4 + 2 * metis)) ]

try "$tern" bench partition --sweep --parts 4 --repeats 1 --json "$tmp/edges.txt"
check 'sweep' [ "$status" -eq 0 ]
check 'sweep: blocks, initial blocks, threads and nodes' [ "$(grep -c '"sweep"' "$out"),$(grep -c '"nodes": 4' "$out")" = 16,1 ]
check 'sweep: every partition has its figures' [ "$(grep -c nan "$out")" -eq 0 ]
try "$tern" bench partition --sweep --train "$tmp/edges.txt"
check 'two measurements: usage' [ "$status" -eq 2 ]

try "$tern" bench partition --train --nodes 2 --epochs 1 --replicas 0.1 --json --svg "$tmp/map.svg" "$tmp/edges.txt"
check 'training' [ "$status" -eq 0 ]
for model in mf linear fm; do
    # Without a placement, with that of each method, and under five bounds with replicas, and without any and with those of all keys.
    check "$model: all trainings" [ "$(grep -c "\"model\": \"$model\"" "$out")" -eq $((12 + metis)) ]
    check "$model: a placement saves bytes" \
        [ "$(field bytes "$model" '"auto", "policy": "static"')" -lt "$(field bytes "$model" '"none"')" ]
    check "$model: a quality under each policy" [ "$(grep "$model" "$out" | grep -c '"quality": nan')" -eq 0 ]
    check "$model: fewer remote accesses without a bound than with 0" \
        awk -v a="$(field remote_share "$model" '"auto, replicas", "policy": "graph:inf"')" -v b="$(field remote_share "$model" '"auto, replicas", "policy": "graph:0"')" 'BEGIN { exit !(a <= b) }'
done
check 'a map for each placement' [ "$(grep -c '"map"' "$out")" -eq $((5 + metis)) ]
check 'the picture' grep -q '</svg>' "$tmp/map.svg"
try "$tern" bench partition --svg "$tmp/other.svg" "$tmp/edges.txt"
check 'a picture without training: usage' [ "$status" -eq 2 ]
try "$tern" bench partition --train "$tmp/nowhere"
check 'no such file' grep -q 'cannot open .*nowhere' "$err"

finish
