# test_kill.sh [TRIES] - nodes that die, stop or leave while others work: every other node's calls fail with a sentence that
# names the node, and nothing hangs. The last test kills a node at a random moment, TRIES times (10; 4 with a sanitizer).
. "$(dirname "$0")/until_error.sh"

tries_wanted=${1:-$($quick && echo 4 || echo 10)}

for victim in 0 2; do
    rest=$(others $victim)
    for how in work test barrier; do
        new_unix
        ready 4 $how $how $how $how
        began_ms=$(now_ms)
        eval "end \$pid_$victim"
        # shellcheck disable=SC2086
        collect $rest
        # shellcheck disable=SC2086
        check "kill -9 of node $victim ($how): all others name it" all_name $victim $rest
        # shellcheck disable=SC2086
        tell $rest
    done
    # Every node has every row, so nobody needs the dead one; but the copies would no longer be exchanged.
    new_unix
    POLICY=replicate
    export POLICY
    ready 4 work test work work
    began_ms=$(now_ms)
    eval "end \$pid_$victim"
    unset POLICY
    # shellcheck disable=SC2086
    collect $rest
    # shellcheck disable=SC2086
    check "kill -9 of node $victim, of whose rows all have replicas: all others name it" all_name $victim $rest
    # shellcheck disable=SC2086
    tell $rest
    new_tcp
    ready 4 work barrier test work
    began_ms=$(now_ms)
    eval "kill -STOP \$pid_$victim"
    # shellcheck disable=SC2086
    collect $rest
    # shellcheck disable=SC2086
    check "SIGSTOP of node $victim (TCP): all others name it" all_name $victim $rest
    # shellcheck disable=SC2086
    tell $rest
    eval "kill -CONT \$pid_$victim"
    collect $victim
    check "node $victim ends, too, once it goes on" [ "$statuses" = 0 ]
done

# all_blame CULPRIT K...: as all_name, whether the node is known to be dead or just does not answer.
all_blame() {
    culprit=$1
    shift
    for k in "$@"; do
        grep -Eq "^error [0-9]* TERN_(PEER|LATE) .*node $culprit\b" "$tmp/$k.out" || return 1
    done
}

# Updates beyond a bound wait until all have seen them: the dead node is to blame, and not the one that waits.
for how in work intend; do
    new_unix
    POLICY=vap:2
    export POLICY
    ready 3 $how $how $how
    began_ms=$(now_ms)
    end "$pid_1"
    unset POLICY
    collect 0 2
    check "kill -9 of node 1 under vap ($how): all others name it" all_blame 1 0 2
    tell 0 2
done

# A node that stops holds up the rounds of the others, which then do not answer either; but they are not to blame.
for victim in 0 2; do
    rest=$(others $victim)
    new_unix
    ready 4 intend intend intend intend
    sleep 0.5
    began_ms=$(now_ms)
    eval "kill -STOP \$pid_$victim"
    # shellcheck disable=SC2086
    collect $rest
    # shellcheck disable=SC2086
    check "SIGSTOP of node $victim under adaptive management: all others name it" all_name $victim $rest
    # shellcheck disable=SC2086
    tell $rest
    eval "kill -CONT \$pid_$victim"
    collect $victim
done

# Node 0 exchanges sums with 1 and 2, and learns from the coordinator that it is 3 for which these wait in vain.
new_unix
idle_s=$((2 * TERN_DEADLINE + 1))
ready 4 copies "copies $idle_s" "copies $idle_s" copies
for k in 0 1 2 3; do
    until_says $k opened
done
sleep 0.5
began_ms=$(now_ms)
end "$pid_3"
collect 0 1 2
check 'kill -9 of a node that an all-reduce needs: all others name it' all_name 3 0 1 2
check 'node 0 does not wait for those who wait for it' \
    [ "$(delay_ms 0 error)" -lt "$(delay_ms 1 error)" ]
tell 0 1 2

new_unix
ready 4 work barrier leave test
began_ms=$(now_ms)
collect 0 1 3 2
check 'a program that ends without closing is named' all_name 2 0 1 3
tell 0 1 3

new_unix
ready 4 barrier desert test work
collect 0 1 2 3
check 'a program that ends during a barrier is named' all_name 1 0 2 3

new_unix
ready 4 close work close close
eval "end \$pid_1"
began_ms=$(now_ms)
collect 0 2 3
closed_naming() {
    [ "$statuses" = '0 0 0' ] &&
        [ "$(cat "$tmp"/[023].out | grep -c '^closed [0-9]* TERN_PEER .*node 1\b')" -eq 3 ]
}
check 'tern_node_close reports who died meanwhile' closed_naming

# ---- Random moments --------------------------------------------------------------------------------------

n_good=0
: >"$tmp/delays"
i=0
while [ $i -lt "$tries_wanted" ]; do
    i=$((i + 1))
    if [ $((i % 2)) -eq 0 ]; then new_unix; else new_tcp; fi
    policy=adaptive
    start_three
    for k in 0 1 2; do
        until_says $k ready
    done
    kill_at_random
    # shellcheck disable=SC2086
    counts "try $i" all_name "$victim" $rest
    for k in $rest; do
        delay_ms "$k" error >>"$tmp/delays"
    done
done
sort -n "$tmp/delays" | awk '{ d[NR] = $1 } END {
    print "# " NR " errors after a kill: least " d[1] ", median " d[int((NR + 1) / 2)] \
        ", most " d[NR] " ms" }'
check "$tries_wanted kills at random moments: all others name the node" \
    [ $n_good -eq "$tries_wanted" ]
finish
