# test_link.sh - tern run --link: nodes as hosts of their own, joined by links.
. "$(dirname "$0")/lib.sh"

is_usage_error() {
    [ "$status" -eq 2 ] && [ "$(wc -l <"$err")" -eq 1 ] && grep -qF -- "$1" "$err"
}

# The relay of run $1, which is one of its children.
find_relay() {
    relay=
    for child in $(cat "/proc/$1/task/$1/children"); do
        if [ "$(cat "/proc/$child/comm")" = tern-links ]; then
            relay=$child
        fi
    done
    [ -n "$relay" ]
}

for link in '' fast 1 1gb 1gbit, 1gbit,1 1gbit,1h 0.5mbit 101gbit 1gbit,2s -1gbit nangbit 1gbit,0.1ms,1; do
    try "$tern" run -n 2 --link "$link" true
    check "--link '$link'" is_usage_error 'such as 1gbit or 1gbit,0.1ms'
done
try "$tern" run -n 2 --link 1gbit --tcp true
check '--link with --tcp' is_usage_error 'exclude each other'
try "$tern" train mf --data x --link 1gbit
check 'a link of one node' is_usage_error 'goes with --nodes'
try "$tern" run -n 65 --link 1gbit true
check 'too many hosts: a failure' [ "$status" -eq 1 ]
check 'too many hosts: how many there can be' grep -q 'at most 64' "$err"

try "$tern" run --link 1gbit true
if [ "$status" -ne 0 ]; then
    check 'without root: what it takes' grep -q 'takes root and /dev/net/tun' "$err"
    echo '# hosts cannot be made here: the rest is left out'
    finish
fi

# shellcheck disable=SC2016
try "$tern" run -n 2 --link 1gbit sh -c 'grep -c : /proc/net/dev; echo $TERN_COORDINATOR'
check 'a host has loopback and its link' [ "$(grep -c '\] 2$' "$out")" -eq 2 ]
check 'hosts meet at an address' [ "$(grep -c '10.211.0.1:' "$out")" -eq 2 ]

for link in 1gbit 10mbit,5ms 100gbit; do
    try "$tern" run -n 3 --link $link -- "$BUILD/tests/cluster/sums" dense 2000 2 20 adaptive
    check "sums are exact over $link" [ "$status" -eq 0 ]
done

"$tern" run -n 2 --link 1gbit sleep 600 2>"$err" &
run=$!
check 'there is a relay' soon find_relay $run
kill -KILL $run
wait $run
check 'it ends when tern run is killed' soon is_gone "$relay"

awk 'BEGIN { srand(1); for (i = 0; i < 20000; i++) print int(rand() * 200), int(rand() * 50), int(rand() * 5) }' \
    >"$tmp/ratings.tsv"
try "$tern" train mf --data "$tmp/ratings.tsv" --nodes 2 --threads 1 --link 1gbit,0.1ms --epochs 2 --json
check 'a model trains over a link' [ "$status" -eq 0 ]
check 'all of its epochs' [ "$(grep -c '"epoch":' "$out")" -eq 2 ]

try "$tern" bench manage --json --link 10gbit,0.1ms --keys 5000 --length 4 --repeats 1 --warm-up 0.1 \
    --seconds 0.1 --policies adaptive,static --dists zipf,ranked --scatter
check 'bench manage over a link' [ "$status" -eq 0 ]
check 'bench manage over a link: a line for each policy and draw' [ "$(wc -l <"$out")" -eq 4 ]
check 'and what the busiest node has sent' [ "$(grep -cE '"scatter":true,"busiest":[1-9]' "$out")" -eq 4 ]

finish
