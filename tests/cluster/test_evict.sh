# test_evict.sh - four nodes push to, pull from and sweep a table with little memory, whose keys stay at home or that they share:
# no row is that of another key, and nothing fails. Other policies refuse rules of eviction.
. "$(dirname "$0")/lib.sh"

steps=200
$quick && steps=60

right() {
    [ "$statuses" = '0 0 0 0' ] &&
        [ "$(grep -c ': 0 rows are wrong, the limit holds$' "$out")" -eq 4 ]
}

run_four() {
    share=$1
    new_unix
    for i in 0 1 2 3; do
        start "$i" 4 env TERN_SHARE="$share" "$programs/evict" "$2" $steps
    done
    collect 0 1 2 3
}

run_four 0 static
check 'rows leave: static' right
run_four 0 adaptive
check 'adaptive refuses' grep -q "rows that are copied cannot leave: use policy 'static'" "$tmp/0.err"

if is_followed sparse shared; then
    run_four 1 adaptive
    check 'rows leave: shared memory' right
fi
finish
