# test_part.sh - nodes leave a running job whose tables have backups, while all nodes push: no call of the others fails, and
# every push counts exactly once, also those that the leaving node had not flushed. Two leave one after the other; one leaves while
# another is killed; and one of several that share their rows in memory leaves.
. "$(dirname "$0")/lib.sh"

TERN_DEADLINE=$(paced 2)
TERN_JOIN_DEADLINE=$(paced 20)
export TERN_DEADLINE TERN_JOIN_DEADLINE

# part K: has node K leave.
part() {
    eval "kill -TERM \$pid_$1"
    collect "$1"
    [ "$statuses" = 0 ] && grep -q '^left' "$tmp/$1.out"
}

# until_logs K TEXT: waits until node K has logged it.
until_logs() {
    tries=0
    until grep -q "$2" "$tmp/$1.log"; do
        tries=$((tries + 1))
        [ $tries -le "$(paced 3000)" ] || return 1
        sleep 0.02
    done
}

# is_whole N PARTED K...: N nodes are left, namely these, each has found all its pushes, and all of the nodes of the list PARTED.
is_whole() {
    n_left=$1 parted=$2
    shift 2
    for k in "$@"; do
        grep -q "^exact $n_left$" "$tmp/$k.out" || return 1
        for p in $parted; do
            grep -q "^sum $p $(sed -n 's/^left //p' "$tmp/$p.out")$" "$tmp/$k.out" || return 1
        done
    done
}

wind_up() {
    for k in "$@"; do
        eval "kill -USR1 \$pid_$k"
    done
    collect "$@"
}

export POLICY
job=0
for POLICY in static adaptive multi replicate cached graph:3; do
    job=$((job + 1))
    [ $((job % 2)) -eq 0 ] && new_tcp || new_unix
    index=$([ $((job % 2)) -eq 0 ] && echo sparse || echo dense)
    case $POLICY in
    adaptive | multi | replicate | cached) export INTENTS=1 ;;
    *) unset INTENTS ;;
    esac
    begin $index 300
    until_safer 0
    check "$POLICY ($index): node 2 leaves" part 2
    check 'the others say so' until_logs 0 'node 2 has left; node 3 has its keys now'
    until_safer 0
    check 'node 3, which has its keys, leaves as well' part 3
    until_safer 0
    until_safer 1
    wind_up 0 1
    check "$POLICY ($index): the others have all pushes of all, once" is_whole 2 '2 3' 0 1
done
unset INTENTS

# The next node, which is to have the keys, or the one before, is killed at the same moment.
POLICY=static
for victim in 3 1; do
    for index in dense sparse; do
        new_unix
        begin $index 300
        until_safer 0
        kill -TERM "$pid_2"
        sleep "0.0$(date +%N | cut -c1-2)"
        eval "end \$pid_$victim"
        collect 2
        check "node 2 leaves while node $victim is killed ($index)" [ "$statuses" = 0 ]
        other=$((4 - victim))
        until_safer 0
        until_safer $other
        wind_up 0 $other
        check 'the others have all pushes of all that are left, and of node 2' is_whole 2 2 0 $other
    done
done

# One of several processes that share their rows in memory.
TERN_SHARE=1
for POLICY in adaptive ssp:3; do
    is_followed dense shared || continue
    new_unix
    begin dense 300
    until_safer 0
    check "$POLICY, in shared memory: node 2 leaves" part 2
    until_safer 0
    wind_up 0 1 3
    check 'the others have all pushes of all, once' is_whole 3 2 0 1 3
done
TERN_SHARE=0

# Who cannot leave.
POLICY=static
new_unix
begin dense 300
eval "kill -TERM \$pid_0"
collect 0
check 'node 0 cannot leave' grep -q 'node 0 coordinates the job, and cannot leave before the others' "$err"
end "$pid_1"; end "$pid_2"; end "$pid_3"
new_unix
begin dense 300 1 0
kill -TERM "$pid_1"
collect 1
check 'nobody leaves a table without backups' grep -q "table 'sums' has no backups" "$err"
end "$pid_0"; end "$pid_2"; end "$pid_3"
mkdir "$tmp/recover"
RECOVER=$tmp/recover
export RECOVER
new_unix
begin dense 300
kill -TERM "$pid_1"
collect 1
check 'nor one that is read from a checkpoint when its backups die' grep -q "table 'sums' has \`recover\`" "$err"
end "$pid_0"; end "$pid_2"; end "$pid_3"
finish
