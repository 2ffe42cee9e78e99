# test_bench_stale.sh - tern bench stale: its lines, its figures and its picture.
. "$(dirname "$0")/lib.sh"

try "$tern" bench stale --nodes 2 --clocks 40 --cells 2000 --staleness 0,2 --json --svg "$tmp/stale.svg"
check 'a quick run succeeds' [ "$status" -eq 0 ]
check 'a line for each policy and bound' [ "$(grep -c '^{"bench":"stale",.*}$' "$out")" -eq 4 ]
check 'with a bound of 0 all there can be is read' \
    [ "$(grep -c '"staleness":0,.*"mean":-1.0000,"differentials":\[1.0000\]' "$out")" -eq 2 ]
check 'shares add up' awk -F'[][]' '{
    n = split($2, share, ","); sum = 0
    for (i = 1; i <= n; i++) sum += share[i]
    if (sum < 0.998 || sum > 1.002) exit 1 }' "$out"
check 'the loss falls' awk -F'"first_loss":|,"last_loss":|}' '$3 >= $2 { exit 1 }' "$out"
check 'the picture has two panels' [ "$(grep -c '>s = ' "$tmp/stale.svg")" -eq 2 ]
check 'and one with the times of each run' [ "$(grep -c 'class="compute"' "$tmp/stale.svg")" -eq 4 ]
check 'workers compute and communicate' \
    [ "$(grep -cE '"link":null,"slow":-1,.*"compute":0\.[0-9]*,"communicate":[0-9.]+,"bytes":[1-9]' "$out")" -eq 4 ]
try "$tern" bench stale --nodes 2 --clocks 40 --cells 2000 --staleness 0 --clock-ms 2 --slow 1 --json
check 'with a straggler' [ "$(grep -c '"slow":1,' "$out")" -eq 2 ]
try "$tern" bench stale --nodes 2 --slow 2
check 'a straggler that is none of the nodes' [ "$status" -eq 2 ]
check 'is named' grep -q 'slow 2' "$err"
try "$tern" bench stale --link fast
check 'a link that is none' [ "$status" -eq 2 ]
try "$tern" run --link 1gbit true
if [ "$status" -eq 0 ]; then
    try "$tern" bench stale --nodes 2 --clocks 10 --cells 500 --staleness 1 --link 10gbit,0.1ms --json
    check 'on a link' [ "$(grep -c '"link":"10gbit,0.1ms"' "$out")" -eq 2 ]
fi
try "$tern" bench stale --nodes 2 --clocks 5 --cells 100 --staleness 1 --svg /nowhere/at/all.svg
check 'a picture that cannot be written is a failure' [ "$status" -eq 1 ]
check 'and is named' grep -q '/nowhere/at/all.svg' "$err"
finish
