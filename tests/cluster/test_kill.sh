# test_kill.sh [TRIES] - nodes that die, stop, leave or never come: every other node's calls fail with a
# sentence that names the node, and nothing hangs. The last tests kill a node at a random moment, TRIES
# times (10; 4 with a sanitizer) once all have joined, and a third as often while they join.
. "$(dirname "$0")/lib.sh"

tries_wanted=${1:-$($quick && echo 4 || echo 10)}
TERN_DEADLINE=$(paced 2)
TERN_JOIN_DEADLINE=$TERN_DEADLINE # to join takes no longer here
export TERN_DEADLINE TERN_JOIN_DEADLINE

# ready N HOW...: starts nodes 0 .. N-1, each with its own HOW, and waits until all are there. With `per_host`, so many of them
# are on each host.
ready() {
    n_nodes=$1
    shift
    i=0
    for how in "$@"; do
        [ -z "${per_host:-}" ] || export TERN_HOST=host$((i / per_host))
        # shellcheck disable=SC2086
        TERN_JOIN_DEADLINE=$(paced 20) start $i "$n_nodes" "$programs/until_error" $(echo "$how" | tr , ' ')
        i=$((i + 1))
    done
    unset TERN_HOST
    i=0
    for how in "$@"; do
        until_says $i ready || return 1
        i=$((i + 1))
    done
}

# How long after $began_ms node K said WORD, in ms.
delay_ms() {
    ns=$(sed -n "s/^$2 \([0-9]*\) .*/\1/p" "$tmp/$1.out" | head -1)
    echo $((${ns:-0} / 1000000 - began_ms))
}

# all_name CULPRIT K...: those nodes ended well, each after an error that names the culprit.
all_name() {
    culprit=$1
    shift
    for s in $statuses; do
        [ "$s" = 0 ] || return 1
    done
    for k in "$@"; do
        grep -q "^error [0-9]* TERN_PEER .*node $culprit\b" "$tmp/$k.out" || return 1
    done
}

tell() {
    for k in "$@"; do
        echo "# node $k: error after $(delay_ms "$k" error) ms, closed after" \
            "$(delay_ms "$k" closed) ms"
    done
}

# others CULPRIT: the numbers of the other three.
others() {
    for k in 0 1 2 3; do
        [ $k -eq "$1" ] || echo $k
    done
}

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
    new_unix
    TERN_SHARE=1
    ready 4 work test work intend
    TERN_SHARE=0
    began_ms=$(now_ms)
    eval "end \$pid_$victim"
    # shellcheck disable=SC2086
    collect $rest
    # shellcheck disable=SC2086
    check "kill -9 of node $victim, with which all share their rows: all others name it" all_name $victim $rest
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

# Who stops holds up the rounds of the others, which then do not answer either; but they are not to blame.
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

# A node dies in the middle of a write to a row that all share.
TERN_SHARE=1
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
TERN_SHARE=0

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

new_unix
ready 3 "late $((TERN_DEADLINE + 1))" 'late 0' 'late 0'
collect 0 1 2
all_done() {
    [ "$statuses" = '0 0 0' ] && [ "$(cat "$tmp"/[012].out | grep -c '^done .* TERN_OK')" -eq 3 ]
}
check 'a node that works longer than the deadline is not dead' all_done

late_s=$((TERN_DEADLINE + 1))
new_tcp
make_certificates
for k in 0 1 2; do
    with_tls $k start $k 3 "$programs/until_error" lazy $late_s
done
collect 0 1 2
check 'who waits for an answer late gets it' all_done

# Hosts are started one after the other: to come late is not to be dead.
silence_s=$(paced 1)
for last in 0 2; do
    new_unix
    for k in 0 1 2; do
        [ $k -eq $last ] || TERN_DEADLINE=$silence_s TERN_JOIN_DEADLINE=120 TERN_NOTICES=stderr start $k 3 \
            "$programs/until_error" work 1
    done
    sleep $((2 * silence_s + 5))
    TERN_DEADLINE=$silence_s TERN_JOIN_DEADLINE=120 start $last 3 "$programs/until_error" work 1
    collect 0 1 2
    check "node $last comes later than the deadline for silence" all_done
    check 'who waits says for whom' \
        grep -Eq "tern: node [01] waits for node $last( at .*| to join) \([0-9]+ of 120 s" "$err"
done

# ---- Nodes that are not as they should be ------------------------------------------------------------

missing() {
    new_unix
    for k in $2; do
        start "$k" 4 "$programs/until_error" work
    done
    # shellcheck disable=SC2086
    collect $2
    # shellcheck disable=SC2086
    check "node $1 never starts: all others name it" all_name "$1" $2
}
missing 3 '0 1 2'
missing 0 '1 2 3'

# Node 0 stops while node 1 waits for node 2.
new_unix
for k in 0 1; do
    start $k 3 "$programs/until_error" work
done
sleep 0.5
kill -STOP "$pid_0"
collect 1
end "$pid_0"
check 'node 0 stops before all are there: who waits names it' all_name 0 1

new_unix
TERN_JOIN_DEADLINE=$(paced 5) start 0 2 "$programs/until_error" work
TERN_JOIN_DEADLINE=$(paced 5) TERN_TOKEN=other start 1 2 "$programs/until_error" work
collect 0 1
names_both() {
    all_name 1 0 && all_name 0 1 && grep -q "^error .*$1" "$tmp/1.out"
}
check 'a wrong token is refused' names_both TERN_TOKEN

new_unix
start 0 2 "$programs/until_error" work
start 1 3 "$programs/until_error" work
collect 0 1
check 'a wrong number of nodes is refused' names_both 'node 1 of 3'

# Node 1 trusts node 0, but node 0 does not trust node 1, which is told so.
new_tcp
make_certificates
"$tern" ca new "$tmp/others" >/dev/null
"$tern" ca node "$tmp/others" n1 >/dev/null
cat "$tmp/certs/ca.crt" "$tmp/others/ca.crt" >"$tmp/both.crt"
TERN_DEADLINE=60 with_tls 0 start 0 2 "$programs/until_error" work
TERN_AUTHORITY=$tmp/both.crt TERN_KEY=$tmp/others/n1.key TERN_CERTIFICATE=$tmp/others/n1.crt \
    start 1 2 "$programs/until_error" work
collect 1
end "$pid_0"
is_told() {
    grep -q "^error .*node 0 .*refused this node's certificate" "$tmp/1.out"
}
check 'a node whose certificate is refused says so' is_told

# One certificate does not serve two nodes if it is bound to one.
for k in 0 1; do
    "$tern" ca node "$tmp/certs" bound$k --nodes $k >/dev/null
done
bound() {
    bound_k=$1
    shift
    TERN_CERTIFICATE=$tmp/certs/bound$bound_k.crt TERN_KEY=$tmp/certs/bound$bound_k.key \
        TERN_AUTHORITY=$tmp/certs/ca.crt "$@"
}
new_tcp
for k in 0 1; do
    bound $k start $k 2 "$programs/until_error" work 0.5
done
collect 0 1
both_done() {
    [ "$statuses" = '0 0' ] && [ "$(cat "$tmp"/[01].out | grep -c '^done .* TERN_OK')" -eq 2 ]
}
check 'nodes with certificates bound to them join' both_done
new_tcp
bound 0 start 0 2 "$programs/until_error" work
bound 0 start 1 2 "$programs/until_error" work
collect 0 1
is_not() {
    grep -q "^error .*the certificate of .* is not one of node 1" "$tmp/1.out"
}
check "node 0's certificate does not serve node 1" is_not
new_tcp
bound 0 start 0 2 "$programs/until_error" work
with_tls 1 start 1 2 "$programs/until_error" work
collect 0 1
check 'nor does one that names no node, where the others name theirs' grep -q '^error .*names no node' "$tmp/1.out"
chmod 644 "$tmp/certs/bound1.key"
new_tcp
for k in 0 1; do
    TERN_NOTICES=stderr bound $k start $k 2 "$programs/until_error" work 0.2
done
collect 0 1
check 'a key that others can read is noticed' grep -q 'bound1.key can be used by others' "$tmp/1.err"

# A second process with a number that is taken: the cluster goes on as if it were not there.
for where in unix tcp; do
    new_$where
    for k in 0 1 2; do
        start $k 3 "$programs/sums" dense 20000 2 1000000000
    done
    for k in 0 1 2; do
        until_says $k ready
    done
    start double 3 env TERN_NODE=1 "$programs/until_error" work
    p=$pid_double
    wait "$p"
    forget "$p"
    kill -USR1 "$pid_0" "$pid_1" "$pid_2"
    collect 0 1 2
    exact() {
        [ "$statuses" = '0 0 0' ] && [ "$(grep -c ', 0 wrong sums' "$out")" -eq 3 ] &&
            grep -qE '^(error|broken) ' "$tmp/double.out"
    }
    check "a second node 1 ($where) is refused, and the sums are exact" exact
done

# A process that is started again with the number of one that died does not take its place.
for where in unix tcp; do
    new_$where
    ready 3 work work work
    end "$pid_1"
    start again 3 env TERN_NODE=1 "$programs/until_error" work
    collect 0 2 again
    restarted() {
        all_name 1 0 2 && grep -q '^error [0-9]* TERN_PEER ' "$tmp/again.out"
    }
    check "node 1 started again ($where) is refused, and the others name it" restarted
done

# ---- Random moments ------------------------------------------------------------------------------------

random() {
    od -An -N2 -tu2 /dev/urandom | awk -v n="$1" '{ print $1 % n }'
}

# start_three: three nodes that do something each, one of which is $victim; the others are $rest.
start_three() {
    victim=$(random 3)
    rest=
    for k in 0 1 2; do
        POLICY=$policy start $k 3 "$programs/until_error" "$(echo work test barrier | cut -d' ' -f$((1 + $(random 3))))"
        [ $k -eq "$victim" ] || rest="$rest $k"
    done
}

kill_at_random() {
    sleep "0.$(printf %03d "$(random 400)")"
    began_ms=$(now_ms)
    eval "end \$pid_$victim"
    # shellcheck disable=SC2086
    collect $rest
    rm -f "$tmp"/c[0-9]*
}

# counts WHAT COMMAND...: one more is good if it succeeds; if not it is said what happened.
counts() {
    what=$1
    shift
    if "$@"; then
        n_good=$((n_good + 1))
    else
        echo "# $what, victim $victim: statuses $statuses"
        sed 's/^/#   /' "$out" "$err"
    fi
}

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

# While nodes join, it may be another one that a node misses first.
all_name_one() {
    all_name '[0-2]' "$@"
}
n_early=$(((tries_wanted + 2) / 3))
n_good=0
policy=adaptive
for i in $(seq $n_early); do
    if [ $((i % 2)) -eq 0 ]; then new_unix; else new_tcp; fi
    start_three
    kill_at_random
    # shellcheck disable=SC2086
    counts "early try $i" all_name_one $rest
done
check "$n_early kills while nodes may still join: nobody hangs" [ $n_good -eq "$n_early" ]
finish
