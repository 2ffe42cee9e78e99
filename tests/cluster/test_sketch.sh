# test_sketch.sh - four nodes count in a sketch, each key at its home or all in shared memory, also when connections are cut: no
# estimate is too low, and the heaviest keys come with true errors.
. "$(dirname "$0")/lib.sh"

steps=100
cut_s=2
$quick && steps=40

right() {
    [ -z "$(echo "$statuses" | tr -d '0 ')" ] &&
        [ "$(grep -c ' 0 too low, few too high, 0 wrong heaviest$' "$out")" -eq "${1:-4}" ]
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

# A checkpoint of four nodes, read by as many, by fewer, and by processes that share the table.
new_unix
for i in 0 1 2 3; do
    start "$i" 4 "$programs/sketch" static $steps '' "$tmp/saved"
done
collect 0 1 2 3
check 'sketch: a checkpoint is written' right
read_by() {
    new_unix
    for i in $(seq 0 $(($1 - 1))); do
        TERN_SHARE=$2 start "$i" "$1" "$programs/sketch" static 0 '' "$tmp/saved"
    done
    collect $(seq 0 $(($1 - 1)))
}
for n in 4 3; do
    read_by $n 0
    check "sketch: a checkpoint is read by $n nodes" right $n
done
if is_followed sparse shared; then
    read_by 2 1
    check 'sketch: a checkpoint is read by processes that share the table' right 2
fi
"$tern" checkpoint ls "$tmp/saved" >"$tmp/listed" 2>&1
check 'sketch: tern checkpoint lists it' grep -q 'sketch *sketch, ' "$tmp/listed"

run_cut 4 "$programs/sketch" static 200
check "sketch: right although $n_cut connections were cut" right
finish
