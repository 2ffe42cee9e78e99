# test_bench_converge.sh - tern bench converge: its lines, its picture, and what it says when it cannot.
. "$(dirname "$0")/lib.sh"

data=$tmp/matrix
try "$tern" data zipf-matrix "$data" --rows 600 --columns 200 --cells 20000
try "$tern" bench converge mf --data "$data" --nodes 2 --epochs 6 --staleness 0,3 --json \
    --svg "$tmp/mf.svg"
check 'a quick run succeeds' [ "$status" -eq 0 ]
check 'a line for each policy and bound' \
    [ "$(grep -c '^{"bench":"converge","task":"mf",.*}$' "$out")" -eq 4 ]
check 'with a point for each epoch' [ "$(grep -c '"clocks":\[2,4,6,8,10,12\]' "$out")" -eq 4 ]
check 'and a share for each worker' [ "$(grep -cE '"waited":\[[0-9.e-]+,[0-9.e-]+\]' "$out")" -eq 4 ]
check 'the objective falls' awk -F'"objective":\\[|\\]}' '{
    n = split($2, value, ",")
    if (n != 6 || value[6] >= value[1]) exit 1 }' "$out"
check 'it is measured in the end' [ "$(grep -c '"quality":0\.' "$out")" -eq 4 ]
check 'the picture has a line for each over clocks and over seconds' \
    [ "$(grep -c 'clip-path=' "$tmp/mf.svg")" -eq 8 ]

{
    for i in $(seq 60); do
        echo "apple pear plum cherry apple pear"
        echo "iron steel copper zinc iron steel"
    done
} >"$tmp/text.txt"
try "$tern" data bow --from "$tmp/text.txt" --max-share 0.9 "$tmp/bags"
try "$tern" bench converge lda --data "$tmp/bags" --nodes 2 --epochs 4 --staleness 1 -- --topics 2
check 'topics, as a table' [ "$(grep -cE '^  e?ssp +1 ' "$out")" -eq 2 ]

try "$tern" bench converge mf --data "$data" --nodes 2 --epochs 2 --staleness 1 --slow 1 --json
check 'with a straggler' [ "$(grep -c '"slow":1,' "$out")" -eq 2 ]
try "$tern" bench converge mf --data "$data" --nodes 2 --slow 2
check 'a straggler that is none of the nodes' [ "$status" -eq 2 ]

try "$tern" bench converge kge
check 'a model whose updates do not add up is refused' [ "$status" -eq 2 ]
check 'and it is said which are not' grep -q 'mf or lda' "$err"
try "$tern" bench converge mf --data "$tmp/nothing" --staleness 1 --nodes 2
check 'a training that fails is a failure' [ "$status" -eq 1 ]
check 'and is named' grep -q "the training under 'ssp:1' failed" "$err"
try "$tern" train mf --data "$data" --clocks 3
check '--clocks without a bound is a mistake' [ "$status" -eq 2 ]
check 'and it is said why' grep -q 'goes with a policy that bounds reads' "$err"
try "$tern" train mf --data "$data" --slow 0
check '--slow without --clocks is one as well' grep -q -- '--slow goes with --clocks' "$err"
finish
