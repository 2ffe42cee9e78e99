# test_graph.sh - the policy graph:S: real processes with two workers each read what they pushed, and in the end the same sums;
# also with an updater and when connections break. Nodes whose placements differ in a replica are told so.
. "$(dirname "$0")/lib.sh"

steps=300
cut_s=3
$quick && steps=60

right() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c ': 0 wrong values, 0 wrong sums' "$out")" -eq 3 ]
}

# graph POLICY STEPS [KIND]: three nodes.
graph() {
    new_unix
    for i in 0 1 2; do
        start "$i" 3 "$programs/graph" "$@"
    done
    collect 0 1 2
}

for policy in graph:0 graph:5 graph:100 graph:inf; do
    graph $policy $steps
    check "$policy: nothing is lost, and a worker reads what it pushed" right
done
graph graph:5 $steps sgd
check 'with an updater' right
check 'replicas were checked, and some too old' grep -q ' [1-9][0-9]* checked, [1-9][0-9]* within' "$out"
graph graph:5 0 other
check 'a placement with another replica is refused' [ "$statuses" = '0 0 0' ]

new_tcp
cut_ms=20
run_cut 3 "$programs/graph" graph:5 $steps
check "right although $n_cut connections were cut" right
finish
