# test_sketch.sh - four nodes count in a sketch, each key at its home or all in shared memory, also when connections are cut: no
# estimate is too low, and the heaviest keys come with true errors.
. "$(dirname "$0")/lib.sh"

steps=100
cut_s=2
$quick && steps=40

right() {
    [ "$statuses" = '0 0 0 0' ] &&
        [ "$(grep -c ' 0 too low, few too high, 0 wrong heaviest$' "$out")" -eq 4 ]
}

for update in '' conservative; do
    new_unix
    for i in 0 1 2 3; do
        start "$i" 4 "$programs/sketch" static $steps $update
    done
    collect 0 1 2 3
    check "sketch: static $update" right
    if is_followed sparse shared; then
        new_unix
        for i in 0 1 2 3; do
            TERN_SHARE=1 start "$i" 4 "$programs/sketch" adaptive $steps $update
        done
        collect 0 1 2 3
        check "sketch: shared memory $update" right
    fi
done

run_cut 4 "$programs/sketch" static 200
check "sketch: right although $n_cut connections were cut" right
finish
