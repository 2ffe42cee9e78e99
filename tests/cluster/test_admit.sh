# test_admit.sh - four nodes count, push and pull in a table that admits keys: under every policy that takes it exactly the
# keys that were counted often enough have rows, with exact sums.
. "$(dirname "$0")/lib.sh"

steps=100
cut_s=2
$quick && steps=40

right() {
    [ "$statuses" = '0 0 0 0' ] &&
        [ "$(grep -c ' 0 wrong rows, 0 wrong sums, nothing lost$' "$out")" -eq 4 ]
}

# No answer may look wrong to the node that asked: it would break the connection, which then resumes.
TERN_LOG=$tmp/log
export TERN_LOG
for policy in static adaptive relocate multi adaptive-replicate; do
    new_unix
    for i in 0 1 2 3; do
        start "$i" 4 "$programs/admit" $policy $steps 3
    done
    collect 0 1 2 3
    check "admission: $policy" right
done
check 'no link resumed' eval '! grep -q " resumes after: " "$TERN_LOG"'
unset TERN_LOG

if is_followed sparse shared; then
    new_unix
    for i in 0 1 2 3; do
        TERN_SHARE=1 start "$i" 4 "$programs/admit" adaptive $steps
    done
    collect 0 1 2 3
    check 'admission: shared memory' right
fi

run_cut 4 "$programs/admit" static 200
check "admission: right although $n_cut connections were cut" right
finish
