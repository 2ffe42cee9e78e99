# test_survive.sh [KILLS] - nodes of a job whose tables have backups are killed at random moments while all nodes push:
# the others continue, no call of theirs fails, and each push of theirs counts exactly once. Of the killed nodes' pushes those
# are there that were safe. At least KILLS (4) are killed, up to two of four nodes in each job, one after the other; two at the
# same moment where tables have two backups; and as many that share their rows in memory, half of them in the middle of an update.
. "$(dirname "$0")/lib.sh"

kills_wanted=${1:-4}
TERN_DEADLINE=$(paced 1)
TERN_JOIN_DEADLINE=$(paced 20)
export TERN_DEADLINE TERN_JOIN_DEADLINE

# wind_up K...: ends the work of the nodes that are left, and collects them.
wind_up() {
    for k in "$@"; do
        eval "kill -USR1 \$pid_$k"
    done
    collect "$@"
}

# is_exact N K...: N nodes are left, namely these, and each has found all its pushes, once.
is_exact() {
    n_left=$1
    shift
    for k in "$@"; do
        grep -q "^exact $n_left$" "$tmp/$k.out" || return 1
    done
}

# has_safe VICTIM K: what node K found of the victim's pushes is at least what was safe.
has_safe() {
    safe=$(sed -n 's/^safe //p' "$tmp/$1.out" | tail -1)
    found=$(sed -n "s/^sum $1 //p" "$tmp/$2.out")
    [ "${found:-0}" -ge "${safe:-0}" ]
}

new_unix
begin dense 300
until_safer 0
wind_up 0 1 2 3
check "nobody is killed: exact sums" is_exact 4 0 1 2 3

n_killed=0
job=0
while [ $n_killed -lt "$kills_wanted" ]; do
    job=$((job + 1))
    [ $((job % 4)) -ge 2 ] && new_tcp || new_unix
    index=$([ $((job % 2)) -eq 0 ] && echo sparse || echo dense)
    begin $index 300
    first=$((1 + ($(date +%N | sed 's/^0*//;s/^$/0/') / 1000) % 3))
    sleep "0.$(date +%N | cut -c1-2)"
    eval "end \$pid_$first"
    n_killed=$((n_killed + 1))
    present=$(for k in 0 1 2 3; do [ $k -eq $first ] || echo $k; done)
    for k in $present; do
        until_safer "$k"
    done
    # shellcheck disable=SC2086
    second=$(echo $present | cut -d' ' -f$((2 + job % 2)))
    eval "end \$pid_$second"
    n_killed=$((n_killed + 1))
    present=$(for k in $present; do [ "$k" -eq "$second" ] || echo "$k"; done)
    for k in $present; do
        until_safer "$k"
    done
    # shellcheck disable=SC2086
    wind_up $present
    # shellcheck disable=SC2086
    check "job $job ($index): nodes $first and $second killed, exact sums at the others" is_exact 2 $present
    check "what node $first had flushed is there" has_safe "$first" 0
    check "what node $second had flushed is there" has_safe "$second" 0
done

# two_die HOW: two of four nodes are killed, one after the other, under the policy POLICY.
two_die() {
    job=$((job + 1))
    [ $((job % 4)) -ge 2 ] && new_tcp || new_unix
    index=$([ $((job % 2)) -eq 0 ] && echo sparse || echo dense)
    begin $index 300
    first=$((1 + ($(date +%N | sed 's/^0*//;s/^$/0/') / 1000) % 3))
    sleep "0.$(date +%N | cut -c1-2)"
    eval "end \$pid_$first"
    present=$(for k in 0 1 2 3; do [ $k -eq $first ] || echo $k; done)
    for k in $present; do
        until_safer "$k"
    done
    # shellcheck disable=SC2086
    second=$(echo $present | cut -d' ' -f$((2 + job % 2)))
    eval "end \$pid_$second"
    present=$(for k in $present; do [ "$k" -eq "$second" ] || echo "$k"; done)
    for k in $present; do
        until_safer "$k"
    done
    # shellcheck disable=SC2086
    wind_up $present
    # shellcheck disable=SC2086
    check "$POLICY ($index): nodes $first and $second killed, exact sums at the others" is_exact 2 $present
    check "what node $first had flushed is there" has_safe "$first" 0
    check "what node $second had flushed is there" has_safe "$second" 0
}

# The same where nodes have replicas of the keys that they want, or of those that the table's placement lists.
job=0
export POLICY INTENTS
for POLICY in adaptive multi adaptive-replicate adaptive-at-once replicate replicate cached adaptive-relocate; do
    INTENTS=1
    two_die
done
unset INTENTS
for POLICY in graph:3 graph:inf ssp:3 essp:1 vap:60 relocate; do
    two_die
done
unset POLICY

# With two backups two neighbours may die at the same moment: each has a backup of the other's rows.
for index in dense sparse; do
    new_unix
    begin $index 300 1 2
    for k in 0 1 2 3; do
        until_safer $k
    done
    first=$((1 + ($(date +%N | sed 's/^0*//;s/^$/0/') / 1000) % 2))
    second=$((first + 1))
    eval "kill -KILL \$pid_$first \$pid_$second"
    eval "end \$pid_$first; end \$pid_$second"
    present=$(for k in 0 1 2 3; do [ $k -eq $first ] || [ $k -eq $second ] || echo $k; done)
    for k in $present; do
        until_safer "$k"
    done
    # shellcheck disable=SC2086
    wind_up $present
    # shellcheck disable=SC2086
    check "two backups ($index): nodes $first and $second killed at once, exact sums" is_exact 2 $present
    check "what node $first had flushed is there" has_safe $first 0
    check "what node $second had flushed is there" has_safe $second 0
done

# A node that stands still for longer than the deadline is given up; what it says afterwards does not count.
new_unix
begin dense 300
kill -STOP "$pid_2"
for k in 0 1 3; do
    until_safer $k
    until_safer $k
done
tries=0
until grep -q "node 2 was given up" "$tmp/0.log" || [ $tries -gt "$(paced 600)" ]; do
    tries=$((tries + 1))
    sleep 0.1
done
kill -CONT "$pid_2"
collect 2
check "a stopped node is told that it was given up" grep -q "node 2 .*was given up" "$err"
wind_up 0 1 3
check "the others continue, with exact sums" is_exact 3 0 1 3

# Processes that share their rows: one is killed at a random moment, one kills itself in an updater with a row half written. The
# third of them stops itself there; the others wait until it is given up, and killed.
TERN_SHARE=1
n_killed=0
job=0
while [ $n_killed -lt $((kills_wanted + 2)) ]; do
    job=$((job + 1))
    n_killed=$((n_killed + 2))
    index=$([ $((job % 2)) -eq 0 ] && echo dense || echo sparse)
    case $((job % 3)) in
    1) POLICY=adaptive ;;
    2) POLICY=static ;;
    *) POLICY=ssp:3 ;;
    esac
    export POLICY
    is_followed $index shared || continue
    new_unix
    begin $index 300
    sleep "0.$(date +%N | cut -c1-2)"
    end "$pid_1"
    until_safer 0
    if [ $POLICY = ssp:3 ]; then
        end "$pid_2"
    else
        kill -USR2 "$pid_2"
        collect 2
        check "job $job ($POLICY, $index): node 2 dies in an updater" [ "$statuses" = 137 ]
    fi
    if [ $job -eq 1 ]; then
        kill -HUP "$pid_3"
        collect 3
        check 'a process that is stopped in an updater is killed before the others go on' [ "$statuses" = 137 ]
        until_safer 0
        wind_up 0
        check "job $job: exact sums at the one that is left" is_exact 1 0
    else
        until_safer 0
        until_safer 3
        wind_up 0 3
        check "job $job ($POLICY, $index): exact sums at the others" is_exact 2 0 3
    fi
    check 'what node 1 had flushed is there' has_safe 1 0
    check 'what node 2 had flushed is there' has_safe 2 0
done
unset POLICY
TERN_SHARE=0

# Those that are left after a death write a checkpoint and go on from it; so does another job, of two nodes. Also the keys that the
# dead node had are in it, once.
# same_sums FILE...: whether all files have the same sums.
same_sums() {
    for file in "$@"; do
        grep '^sum' "$file" >"$file.sums"
        cmp -s "$1.sums" "$file.sums" && [ "$(wc -l <"$file.sums")" -eq 8 ] || return 1
    done
}

for how in "dense 0" "sparse 0" "dense 1" "sparse 1"; do
    index=${how% *}
    TERN_SHARE=${how#* }
    is_followed $index "$([ "$TERN_SHARE" = 1 ] && echo shared)" || continue
    CHECKPOINT=$tmp/$index$TERN_SHARE
    export CHECKPOINT
    new_unix
    begin $index 300
    until_safer 0
    end "$pid_2"
    until_safer 1
    wind_up 0 1 3
    check "after a death ($index, TERN_SHARE=$TERN_SHARE) the others go back to a checkpoint of theirs: exact sums" \
        is_exact 3 0 1 3
    cp "$tmp/0.out" "$tmp/written"
    READ=$CHECKPOINT.1
    export READ
    rm -r "$CHECKPOINT.0"
    new_unix
    for k in 0 1; do
        start $k 2 "$programs/survive" $index 300
    done
    collect 0 1
    check 'two nodes of another job read the same from it' same_sums "$tmp/written" "$tmp/0.out" "$tmp/1.out"
    unset CHECKPOINT READ
done
TERN_SHARE=0

# More nodes die at the same moment than there are backups: their keys are lost, and without `recover` calls on them fail.
# kill_both: nodes 1 and 2, of which the second has the backups of the first.
kill_both() {
    kill -KILL "$pid_1" "$pid_2"
    end "$pid_1"
    end "$pid_2"
}

# is_part N: whether that may be the keys of one node of four, of 300.
is_part() {
    [ "$1" -gt 20 ] && [ "$1" -lt 150 ]
}

recovered() {
    cat "$tmp/0.out" "$tmp/3.out" | sed -n 's/^recovered //p' | awk '{ n += $1 } END { print n }'
}

new_unix
begin dense 300
kill_both
collect 0 3
check 'calls on keys that are lost say so' grep -q "of node 1, which was given up, as were the nodes with their backups" "$err"

for index in dense sparse; do
    mkdir "$tmp/recover-$index"
    RECOVER=$tmp/recover-$index
    export RECOVER
    new_unix
    begin $index 300
    kill_both
    until_safer 0
    until_safer 3
    wind_up 0 3
    check "recover ($index): no call of the others fails, and no key lacks what the checkpoint has" is_exact 2 0 3
    check "the keys that were lost are counted ($(recovered))" is_part "$(recovered)"
    check 'and there is a notice' grep -q "keys of node 1, whose backups died with it, are as in .*ones. again" "$tmp/3.log"
done
unset RECOVER

# The coordinator cannot be done without.
new_unix
begin dense 300
end "$pid_0"
collect 1 2 3
check "node 0 dies: the others stop, and name it" grep -q "TERN_PEER.*node 0" "$err"
finish
