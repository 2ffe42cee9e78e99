# test_shards.sh - nodes whose keys are cut into shards, each with its own managers, rounds and connections: sums are exact
# under every policy, also when connections break, and everything else that is said of keys holds.
. "$(dirname "$0")/lib.sh"

export TERN_SHARDS=3
steps=150
cut_steps=1000
cut_s=2
cut_least=20
policies='adaptive adaptive-replicate relocate multi replicate static ssp:2'
cases='closing closed-table localize localize-much flush updaters sets under-way called ranges much tables again'
if $quick; then
    steps=40
    cut_steps=200
    cut_s=1
    policies='adaptive relocate static'
    cases='closed-table localize called tables'
fi

exact() {
    [ "$statuses" = "$1" ] &&
        [ "$(grep -c ', 0 wrong sums, right range' "$out")" -eq "$(echo "$1" | wc -w)" ]
}

for policy in $policies; do
    for index in dense sparse; do
        is_followed $index $policy || continue
        new_unix
        for i in 0 1 2; do
            start $i 3 "$programs/sums" $index 3000 2 $steps $policy 20
        done
        collect 0 1 2
        check "sums: $policy, $index" exact '0 0 0'
    done
done

case_holds() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c "$1 holds" "$out")" -eq 3 ]
}

for case in $cases; do
    new_unix
    for i in 0 1 2; do
        start $i 3 "$(has_case $case)" $case
    done
    collect 0 1 2
    check "case: $case" case_holds $case
done

run_cut 3 "$programs/sums" sparse 3000 2 $cut_steps adaptive 20
check "sums: adaptive, exact although $n_cut connections were cut" exact '0 0 0'
check "connections were cut" [ "$n_cut" -gt $cut_least ]

# ---- What they agree on --------------------------------------------------------------------------

# What the first node says counts.
new_unix
TERN_SHARDS=2 start 0 3 "$programs/sums" dense 3000 2 $steps adaptive 20
TERN_SHARDS=5 start 1 3 "$programs/sums" dense 3000 2 $steps adaptive 20
TERN_SHARDS=1 start 2 3 "$programs/sums" dense 3000 2 $steps adaptive 20
collect 0 1 2
check 'nodes that were told different numbers use the first one' exact '0 0 0'

new_unix
TERN_SHARDS=17 start 0 1 "$programs/sums" dense 100 1 1 adaptive 20
collect 0
check 'a number that makes no sense is refused' grep -q "TERN_SHARDS is '17'" "$err"

if ! $quick; then
    make_certificates
    new_tcp
    for i in 0 1 2; do
        with_tls $i start $i 3 "$programs/sums" dense 3000 2 $steps adaptive 20
    done
    collect 0 1 2
    check 'sums: adaptive, TLS' exact '0 0 0'
fi
finish
