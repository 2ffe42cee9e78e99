#!/usr/bin/env bash
# `tern train MODEL --backups 1`: a node is killed in the middle of training. The others say so, learn also from its examples, and
# end with the quality of an undisturbed run.
. "$(dirname "$0")/lib.sh"

TERN_DEADLINE=$(paced 1)
export TERN_DEADLINE

# Three relations that are functions of 60 entities, which a model can learn by heart: the MRR of an undisturbed run is 1.
mkdir "$tmp/graph"
awk 'BEGIN { for (e = 0; e < 60; e++) for (r = 0; r < 3; r++)
     printf "e%d\tr%d\te%d\n", e, r, (e * (r + 1) + 7 * r + 1) % 60 }' >"$tmp/graph/train.txt"
awk 'NR % 4 == 0' "$tmp/graph/train.txt" >"$tmp/graph/valid.txt"
awk 'NR % 4 == 2' "$tmp/graph/train.txt" >"$tmp/graph/test.txt"
kge="kge --data $tmp/graph --dim 32 --epochs 200 --eval-every 50 --batch 10 --patience 0 --threads 1 --nodes 3"

# pid_of NODE RUN: the process of a node that RUN has started.
pid_of() {
    for pid in $(pgrep -P "$2"); do
        tr '\0' '\n' <"/proc/$pid/environ" | grep -qx "TERN_NODE=$1" && echo "$pid"
    done
}

# A few epochs take no longer than a glance at a file. So what training prints goes through a pipe that holds 4 KiB: training comes
# no further than that, some 15 lines of JSON or 50 of a table, while nobody reads.
#
#   narrow          makes the pipe; 3 is its end for training
#   read_to TEXT    prints what came through it, up to a line that begins with TEXT and perhaps spaces before it. From now on
#                   training alone can write to it
#   read_rest       prints the rest, and closes it
narrow() {
    rm -f "$tmp/pipe"
    mkfifo "$tmp/pipe"
    exec 3<>"$tmp/pipe"
    python3 -c 'import fcntl; fcntl.fcntl(3, 1031, 4096)' # F_SETPIPE_SZ
}
read_to() {
    exec 4<"$tmp/pipe"
    exec 3>&-
    while IFS= read -r line <&4; do
        printf '%s\n' "$line"
        printf '%s\n' "$line" | grep -q "^ *$1" && return
    done
}
read_rest() {
    cat <&4
    exec 4<&-
}

# mrr LEAST: whether the MRR of the test triples is at least that.
mrr() {
    sed -n 's/^test: MRR \([0-9.]*\).*/\1/p' "$out" | awk -v least="$1" '{ found = $1 >= least } END { exit !found }'
}

# By copies at other nodes, of rows that stay and of rows with replicas; and by the memory that the nodes share.
for policy in static apart adaptive replicate; do
    TERN_SHARE=$([ $policy = adaptive ] && echo 1 || echo 0)
    export TERN_SHARE
    [ $policy = apart ] && policy=adaptive-apart
    narrow
    # shellcheck disable=SC2086
    "$tern" train $kge --backups 1 --policy $policy --checkpoint-every 100 --checkpoints "$tmp/$policy" >"$out" 2>&3 3>&- &
    run=$!
    read_to 20/200 >"$err"
    kill -KILL "$(pid_of 1 "$run")"
    read_rest >>"$err"
    wait $run
    status=$?
    check "training ends well though a node was killed ($policy)" [ "$status" -eq 0 ]
    check 'the launcher says that the others continue' \
        grep -q 'node 1 .*was killed by signal 9 .*; the others continue' "$err"
    check 'training says who has the keys and the examples' \
        grep -q '^node 1 is gone; 2 nodes have its keys, and from the next epoch on its examples' "$err"
    check 'all epochs are done' grep -q "^ *200/200" "$out" "$err"
    check 'the quality is that of an undisturbed run within 1 %' mrr 0.99
    check 'the last checkpoint is there' [ -e "$tmp/$policy/epoch-200/manifest.json" ]
    check 'and is good' "$tern" checkpoint verify "$tmp/$policy/epoch-200"
done

# ---- Other models --------------------------------------------------------------------------------

"$tern" data zipf-matrix "$tmp/matrix" --rows 2000 --columns 100 --cells 60000 >/dev/null 2>&1
awk 'BEGIN { srand(2); for (i = 0; i < 8000; i++) { a = int(rand() * 16)
     for (j = 0; j < 12; j++) printf "w%d ", a * 5 + rand() * 5; print "" } }' >"$tmp/text"
awk 'BEGIN { srand(3); for (i = 0; i < 8000; i++) { l = rand() < 0.4 ? 1 : -1; printf "%d", l
     for (j = 0; j < 8; j++) printf " %d:%.3f", 1 + j * 10 + int(rand() * 10), l * 0.1 + rand(); print "" } }' >"$tmp/examples"

# examples N: those of an epoch.
examples() {
    sed -n "s/.*\"epoch\":$1,.*\"examples\":\([0-9]*\),.*/\1/p" "$out"
}

# survives MODEL EPOCHS WORDS... - kills node 1 after the second epoch, before the twentieth; there are at least 30. From the next
# epoch on the others learn from all examples.
survives() {
    model=$1 epochs=$2
    shift 2
    narrow
    "$tern" train "$model" "$@" --epochs "$epochs" --patience 0 --threads 1 --nodes 3 --backups 1 --json >&3 2>"$err" 3>&- &
    run=$!
    read_to '{"epoch":2,' >"$out"
    kill -KILL "$(pid_of 1 "$run")"
    read_rest >>"$out"
    wait $run
    check "$model: training ends well though a node was killed" [ "$?" -eq 0 ]
    check "$model: it says who is left" grep -qx '{"given_up":1,"nodes_left":2}' "$out"
    check "$model: the others learn from all examples" \
        [ "$(examples "$epochs")" -eq "$(examples 1)" ]
}

# ends NAME LEAST MOST: whether a figure of the last epoch is that of an undisturbed run, give or take 1 %.
ends() {
    grep '"epoch"' "$out" | tail -1 | sed -n "s/.*\"$1\":\([0-9.]*\),.*/\1/p" |
        awk -v least="$2" -v most="$3" '{ found = $1 >= least && $1 <= most } END { exit !found }'
}

TERN_SHARE=0
survives mf 300 --data "$tmp/matrix" --rank 4
check 'mf: with the quality of an undisturbed run' ends rmse 0.8 0.91
survives wordvec 300 --data "$tmp/text" --dim 8 --min-count 1
check 'wordvec: with the loss of an undisturbed run' ends loss 0 1
TERN_SHARE=1
survives linear 30 --data "$tmp/examples" --test "$tmp/examples" --solver online
check 'linear: with the quality of an undisturbed run' ends auc 0.911 1
survives fm 30 --data "$tmp/examples" --test "$tmp/examples" --dims 4
check 'fm: with the quality of an undisturbed run' ends auc 0.91 1

# ---- A node leaves -------------------------------------------------------------------------------

# By copies at other nodes, and from memory that the nodes share.
for TERN_SHARE in 0 1; do
    export TERN_SHARE
    narrow
    # shellcheck disable=SC2086
    "$tern" train $kge --backups 1 >"$out" 2>&3 3>&- &
    run=$!
    read_to 20/200 >"$err"
    kill -USR1 "$(pid_of 1 "$run")"
    read_rest >>"$err"
    wait $run
    status=$?
    check "training ends well though a node leaves (TERN_SHARE=$TERN_SHARE)" [ "$status" -eq 0 ]
    check 'it says so' grep -q 'node 1 has left the training after epoch .*; the others continue' "$err"
    check 'the others learn from its examples' grep -q '^node 1 is gone; 2 nodes have its keys' "$err"
    check 'all epochs are done' grep -q "^ *200/200" "$out" "$err"
    check 'the quality is that of an undisturbed run within 1 %' mrr 0.99
done

# ---- What cannot be ------------------------------------------------------------------------------

try "$tern" train kge --data "$tmp/graph" --backups 1 --plain
check '--plain has no backups' grep -q -- '--plain' "$err"
try "$tern" train kge --data "$tmp/graph" --backups 1
check 'nor has one process alone' [ "$status,$(grep -c -- '--backups goes with --nodes 2' "$err")" = 2,1 ]
try "$tern" train linear --data "$tmp/examples" --nodes 2 --backups 1
check 'dbpg has none' grep -q -- '--backups goes with --solver online' "$err"
try "$tern" train linear --data "$tmp/examples" --nodes 2 --backups 1 --solver emso-cd
check 'a model that cannot share out its data is refused' \
    grep -q -- '--backups is for models whose data can be shared out anew: kge' "$err"
try "$tern" train fm --data "$tmp/examples" --nodes 2 --backups 1
check 'features that are counted have no backups' grep -q -- '--backups goes with --dims K' "$err"
finish
