#!/usr/bin/env bash
# `tern train kge --backups 1`: a node is killed in the middle of training. The others say so, learn also from its triples, and
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

# mrr LEAST: whether the MRR of the test triples is at least that.
mrr() {
    sed -n 's/^test: MRR \([0-9.]*\).*/\1/p' "$out" | awk -v least="$1" '{ found = $1 >= least } END { exit !found }'
}

# By copies at other nodes, and by the memory that the nodes share.
for policy in static adaptive; do
    TERN_SHARE=$([ $policy = adaptive ] && echo 1 || echo 0)
    export TERN_SHARE
    # shellcheck disable=SC2086
    "$tern" train $kge --backups 1 --policy $policy >"$out" 2>"$err" &
    run=$!
    soon grep -q "^ *20/200" "$out" "$err"
    kill -KILL "$(pid_of 1 "$run")"
    wait $run
    status=$?
    check "training ends well though a node was killed ($policy)" [ "$status" -eq 0 ]
    check 'the launcher says that the others continue' \
        grep -q 'node 1 .*was killed by signal 9 .*; the others continue' "$err"
    check 'training says who has the keys and the examples' \
        grep -q '^node 1 was given up; 2 nodes have its keys, and from the next epoch on its examples' "$err"
    check 'all epochs are done' grep -q "^ *200/200" "$out" "$err"
    check 'the quality is that of an undisturbed run within 1 %' mrr 0.99
done

TERN_SHARE=0 try "$tern" train kge --data "$tmp/graph" --nodes 2 --backups 1 --policy adaptive
check 'another policy is refused' grep -q "for policy 'static'" "$err"
try "$tern" train kge --data "$tmp/graph" --backups 1 --plain
check '--plain has no backups' grep -q -- '--plain' "$err"
awk 'BEGIN { srand(2); for (i = 0; i < 50; i++) { for (j = 0; j < 25; j++) printf "w%d ", rand() * 40; print "" } }' >"$tmp/text"
try "$tern" train wordvec --data "$tmp/text" --dim 4 --min-count 1 --nodes 2 --backups 1
check 'a model that cannot share out its data is refused' \
    grep -q -- '--backups is for models whose data can be shared out anew: kge' "$err"
finish
