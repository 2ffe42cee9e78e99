# test_manage.sh - four nodes with two workers each push and pull under every policy, with intents and
# requests to have keys here; after tern_quiesce every sum is exact at every node, also when connections
# break all the time.
. "$(dirname "$0")/lib.sh"

steps=300
cut_steps=1500
cut_s=2
cut_least=20
keys=3000
if $quick; then
    steps=60
    cut_steps=300
    cut_s=1
fi

exact() {
    [ "$statuses" = "$1" ] &&
        [ "$(grep -c ', 0 wrong sums, right range' "$out")" -eq "$(echo "$1" | wc -w)" ]
}

for policy in adaptive cached adaptive-replicate adaptive-relocate adaptive-at-once relocate multi replicate replicate-doubling \
    static; do
    for index in dense sparse; do
        is_followed $index $policy || continue
        new_unix
        for i in 0 1 2 3; do
            start $i 4 "$programs/sums" $index $keys 2 $steps $policy 20
        done
        collect 0 1 2 3
        check "sums: $policy, $index" exact '0 0 0 0'
    done
done

# The same where all nodes share their memory.
for policy in adaptive relocate multi replicate static; do
    for index in dense sparse; do
        is_followed $index shared || continue
        new_unix
        for i in 0 1 2 3; do
            TERN_SHARE=1 start $i 4 "$programs/sums" $index $keys 2 $steps $policy 20
        done
        collect 0 1 2 3
        check "sums in shared memory: $policy, $index" exact '0 0 0 0'
    done
done

# The same on two hosts with two nodes each: those of a host share their memory.
for what in adaptive,dense adaptive,sparse adaptive-replicate,dense adaptive-relocate,sparse relocate,sparse multi,dense \
    replicate,dense replicate,sparse replicate-doubling,dense static,dense static,sparse; do
    policy=${what%,*}
    index=${what#*,}
    is_followed $index shared || continue
    new_unix
    for i in 0 1 2 3; do
        TERN_SHARE=1 TERN_HOST=host$((i / 2)) start $i 4 "$programs/sums" $index $keys 2 $steps $policy 20
    done
    collect 0 1 2 3
    check "sums on two hosts: $policy, $index" exact '0 0 0 0'
done

# Few keys that all workers use all the time, and no intent at all.
new_unix
for i in 0 1 2 3; do
    start $i 4 "$programs/sums" dense 60 2 $steps adaptive 3
done
collect 0 1 2 3
check 'sums: adaptive, 60 keys' exact '0 0 0 0'
new_unix
for i in 0 1 2 3; do
    start $i 4 "$programs/sums" sparse $keys 2 $steps adaptive
done
collect 0 1 2 3
check 'sums: adaptive, no intent' exact '0 0 0 0'

# ---- What becomes of keys, case by case ------------------------------------------------------------

case_holds() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c "$1 holds" "$out")" -eq 3 ]
}

cases='bounds closing closed-table closed-copies late-table close-beside-flush infinite-copies full-copies localize localize-started flush updaters sets under-way started agree called ranges much tables'
$quick || cases="$cases pinned-copies localize-much again"
for case in $cases; do
    new_unix
    for i in 0 1 2; do
        start $i 3 "$(has_case $case)" $case
    done
    collect 0 1 2
    check "case: $case" case_holds $case
done

# Two of the three nodes are on one host. (The other cases count what each node has moved; of a host, its first node counts.)
for case in retired localize-started closing closed-table closed-copies late-table close-beside-flush infinite-copies localize \
    sets under-way started agree called ranges tables; do
    new_unix
    for i in 0 1 2; do
        TERN_SHARE=1 TERN_HOST=host$((i / 2)) start $i 3 "$(has_case $case)" $case
    done
    collect 0 1 2
    check "case on two hosts: $case" case_holds $case
done

if ! $quick; then
    new_unix
    for i in 0 1 2; do
        TERN_DEADLINE=$(paced 2) start $i 3 "$programs/tables" late
    done
    collect 0 1 2
    check 'case: late' case_holds late
fi

# ---- Broken connections ---------------------------------------------------------------------------

for policy in adaptive relocate; do
    run_cut 3 "$programs/sums" sparse $keys 2 $cut_steps $policy 20
    check "sums: $policy, exact although $n_cut connections were cut" exact '0 0 0'
    check "connections were cut ($policy)" [ "$n_cut" -gt $cut_least ]
done
cut_least=0
run_cut 3 "$programs/tables" tables
check "case: tables, although $n_cut connections were cut" case_holds tables
finish
