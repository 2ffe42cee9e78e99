# test_evict.sh - four nodes push to, pull from and sweep a table with little memory, whose keys stay at home, have replicas where they
# are wanted, or are shared: no row is that of another key, and nothing fails. Policies whose rows could never leave refuse rules of
# eviction.
. "$(dirname "$0")/lib.sh"

steps=200
$quick && steps=60

right() {
    [ "$statuses" = '0 0 0 0' ] &&
        [ "$(grep -c ': 0 rows are wrong, the limit holds; '"$1"' replicas$' "$out")" -eq 4 ]
}

run_four() {
    share=$1
    new_unix
    for i in 0 1 2 3; do
        start "$i" 4 env TERN_SHARE="$share" TERN_HOST="host$((i / $3))" "$programs/evict" "$2" $steps "$4"
    done
    collect 0 1 2 3
}

run_four 0 static 4 1
check 'rows leave: static' right no
for policy in adaptive adaptive-relocate; do
    run_four 0 $policy 4 1
    check "rows leave: $policy" right some
done
run_four 0 multi 4 1
check 'rows leave: multi' right no
# Two hosts with two nodes each: those of a host share a static table.
run_four 1 adaptive 2 1
check 'rows leave: adaptive on two hosts' right some
run_four 0 replicate 4 1
check 'replicate refuses' grep -q "rows that are copied would never leave: use 'static'" "$tmp/0.err"
run_four 0 relocate 4 1
check 'relocate refuses' grep -q "than where they moved: use 'static'" "$tmp/0.err"

if is_followed sparse shared; then
    run_four 1 static 2 2
    check 'rows leave: static on two hosts' right no
    run_four 1 adaptive 4 4
    check 'rows leave: shared memory' right no
fi
finish
