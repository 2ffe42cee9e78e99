# test_checkpoint.sh - N nodes write a checkpoint of tables of all policies, M nodes go on from it; every value is exact.
# What is killed, damaged or does not fit on the disk leaves the last checkpoint good, and says so.
. "$(dirname "$0")/lib.sh"

steps=30
$quick && steps=8

# together N COMMAND...: runs N nodes and collects them.
together() {
    n_together=$1 list=
    shift
    new_unix
    for i in $(seq 0 $((n_together - 1))); do
        start "$i" "$n_together" "$@"
        list="$list $i"
    done
    # shellcheck disable=SC2086
    collect $list
}

all_ended_well() {
    case " $statuses " in *' '[1-9]*) return 1 ;; esac
}

all_exact() {
    all_ended_well && [ "$(grep -c 'read: 0 wrong values' "$out")" -eq "$n_together" ]
}

all_refused() {
    case " $statuses " in *' 0 '*) return 1 ;; esac
    grep -q "$1" "$err"
}

for share in 0 1; do
    export TERN_SHARE=$share
    is_followed sparse "$([ $share = 1 ] && echo shared)" || continue
    for writers in 1 3; do
        together $writers "$programs/checkpoint" write "$tmp/saved$share$writers" $steps
        check "$writers nodes write a checkpoint (TERN_SHARE=$share)" all_ended_well
        for readers in 1 2 4; do
            [ $readers != $writers ] || continue
            together $readers "$programs/checkpoint" read "$tmp/saved$share$writers" $steps
            check "$readers nodes read what $writers wrote: exact (TERN_SHARE=$share)" all_exact
        done
    done
done

# Checkpoints of changes, by nodes between which keys move: the last one is complete when the others are gone.
for share in 0 1; do
    export TERN_SHARE=$share
    is_followed sparse "$([ $share = 1 ] && echo shared)" || continue
    together 3 "$programs/checkpoint" changes "$tmp/changed$share" $steps
    check "3 nodes write checkpoints of changes (TERN_SHARE=$share)" all_ended_well
    n_linked=$(find "$tmp/changed$share" -links +1 | wc -l)
    check "the last one has $n_linked files of earlier ones" [ "$n_linked" -gt 3 ]
    rm -r "$tmp/changed$share".?
    for readers in 1 3; do
        together $readers "$programs/checkpoint" read "$tmp/changed$share" $steps
        check "$readers nodes read the last of them: exact (TERN_SHARE=$share)" all_exact
    done
done
export TERN_SHARE=0
check 'nothing temporary is left' [ -z "$(find "$tmp" -name '*.new')" ]

together 2 "$programs/checkpoint" write "$tmp/saved03" $steps
check 'a name that is taken is refused, at all nodes' all_refused 'exists already'

# ---- Ten lines of numpy, those of docs/survive.md -----------------------------------------------------

python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import numpy' 2>/dev/null && python=$candidate
done
sums_in_python() {
    { sed -n '/^```python/,/^```/p' "$ROOT/docs/survive.md" | grep -v '^```' && cat <<END; } >"$tmp/read.py"
for name in ("adaptive dense", "adaptive sparse", "static dense"):
    keys, values = (np.concatenate(x) for x in zip(*read_table("$tmp/saved03", name)))
    print(name, len(keys) - len(np.unique(keys)), values.sum() - 5 * values.size)
END
    "$python" "$tmp/read.py" >"$out" 2>"$err"
    [ "$(cat "$out")" = "adaptive dense 0 $((steps * 180))
adaptive sparse 0 $((steps * 180))
static dense 0 $((steps * 180))" ]
}
if [ -n "$python" ]; then
    check 'ten lines of numpy read it' sums_in_python
else
    echo '# there is no numpy: left out'
fi

# ---- Damage: nothing is restored ------------------------------------------------------------------

# damaged: a copy of a checkpoint to be changed, in $bad.
damaged() {
    bad=$tmp/bad
    rm -rf "$bad"
    cp -r "$tmp/saved03" "$bad"
}

damaged
printf 'X' | dd of="$bad/part-1-2.safetensors" bs=1 seek=900 conv=notrunc 2>/dev/null
together 2 "$programs/checkpoint" read "$bad" $steps
check 'a flipped byte is found, and named at all nodes' all_refused 'part-1-2.safetensors. is damaged'
damaged
truncate -s 900 "$bad/part-2-3.safetensors"
together 2 "$programs/checkpoint" read "$bad" $steps
check 'a part that is cut short is found' all_refused 'part-2-3.safetensors. has 900 bytes'
damaged
mv "$bad/part-0-1.safetensors" "$bad/part-0-x.safetensors"
together 2 "$programs/checkpoint" read "$bad" $steps
check 'a missing part is found' all_refused 'part-0-1.safetensors. of node 0 is not there'
damaged
cp "$bad/part-0-0.safetensors" "$bad/part-0-2.safetensors"
together 2 "$programs/checkpoint" read "$bad" $steps
check 'a part of another table is found' all_refused 'part-0-2.safetensors'

# ---- A disk that takes no more ----------------------------------------------------------------------

# Each file of node 1 may have 2 KiB: SIGXFSZ is ignored, so that a write fails as on a full disk.
new_unix
start 0 2 "$programs/checkpoint" write "$tmp/full" $steps
start 1 2 sh -c 'trap "" XFSZ; ulimit -f 4; exec "$@"' - "$programs/checkpoint" write "$tmp/full" $steps
collect 0 1
check 'one node cannot write: all hear of it' all_refused 'cannot write .*full.new/part-1-'
check 'and nothing is left' [ -z "$(find "$tmp" -name 'full*')" ]

# ---- Kill -9 at any time ------------------------------------------------------------------------------

kills=4
$quick && kills=1
for round in $(seq $kills); do
    new_unix
    start 0 2 "$programs/checkpoint" rewrite "$tmp/k$round"
    start 1 2 "$programs/checkpoint" rewrite "$tmp/k$round"
    until_says 0 "complete $round"
    sleep 0.0$((round * 17 % 10))
    end "$pid_1"
    end "$pid_0"
    n_there=$(find "$tmp" -maxdepth 1 -name "k$round.*" ! -name '*.new' | wc -l)
    n_said=$(grep -c complete "$tmp/0.out")
    check "kill $round: those that were complete are there" [ "$n_there" -ge "$n_said" ]
    last=$(find "$tmp" -maxdepth 1 -name "k$round.*" ! -name '*.new' | sort -t. -k2 -n | tail -n 1)
    together 1 "$programs/checkpoint" verify "$last"
    check "kill $round: the last one is good" all_ended_well
done
finish
