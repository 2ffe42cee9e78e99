# test_kill_shared.sh - as test_kill.sh, for nodes that die or stop beside others of their host, which use the same rows in
# place: also in the middle of a write, where no other may see half of it.
. "$(dirname "$0")/until_error.sh"

TERN_SHARE=1
for victim in 0 2; do
    rest=$(others $victim)
    new_unix
    ready 4 work test work intend
    began_ms=$(now_ms)
    eval "end \$pid_$victim"
    # shellcheck disable=SC2086
    collect $rest
    # shellcheck disable=SC2086
    check "kill -9 of node $victim, with which all share their rows: all others name it" all_name $victim $rest
    # shellcheck disable=SC2086
    tell $rest
done

# A node dies in the middle of a write to a row that all share.
for victim in 0 2; do
    rest=$(others $victim)
    new_unix
    # shellcheck disable=SC2046
    ready 4 $(for k in 0 1 2; do [ $k -eq $victim ] && echo latch,0.3 || echo latch; done) latch
    # shellcheck disable=SC2086
    collect $rest
    check "node $victim dies with a latch that all wait for: all others name it" all_name $victim $rest
    check 'nor can they pin the row' [ -z "$(cat "$tmp"/[0-3].out | grep '^broken')" ]
done

# all_fail K...: those nodes ended well, each after an error.
all_fail() {
    for s in $statuses; do
        [ "$s" = 0 ] || return 1
    done
    for k in "$@"; do
        grep -Eq '^error [0-9]* TERN_(PEER|LATE) ' "$tmp/$k.out" || return 1
    done
}

# Two hosts with two nodes each: a node dies that shares the memory of its host with another, which may manage it for both. If
# it dies in the middle of a write, what its leader does for others waits for the row as well, and they may blame the leader.
per_host=2
for victim in 1 2; do
    rest=$(others $victim)
    # shellcheck disable=SC2046
    for how in $($quick || echo work) intend; do
        new_unix
        ready 4 $how $how $how $how
        began_ms=$(now_ms)
        eval "end \$pid_$victim"
        # shellcheck disable=SC2086
        collect $rest
        # shellcheck disable=SC2086
        check "kill -9 of node $victim of two hosts ($how): all others end with an error" all_fail $rest
        # shellcheck disable=SC2086
        tell $rest
    done
done
new_unix
ready 4 latch latch,0.3 latch latch
collect 0 2 3
check 'node 1 of two hosts dies with a latch: all others end with an error' all_fail 0 2 3
unset per_host

# Those who read that row get what was there before, or an error: never half of a push.
for stops in '' 1; do
    [ -z "$stops" ] || export STOPS=1
    for victim in 0 2; do
        rest=$(others $victim)
        new_unix
        # shellcheck disable=SC2046
        ready 4 $(for k in 0 1 2; do [ $k -eq $victim ] && echo latch,0.3 || echo peek; done) peek
        # shellcheck disable=SC2086
        collect $rest
        check "node $victim $([ "$stops" ] && echo stops || echo dies) in a write: all others name it" all_name $victim $rest
        check 'and none saw half of it' [ -z "$(cat "$tmp"/[0-3].out | grep '^torn')" ]
        eval "end \$pid_$victim"
    done
done
unset STOPS
finish
