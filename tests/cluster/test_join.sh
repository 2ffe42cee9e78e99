# test_join.sh [TRIES] - nodes that come late, never or twice, or are not as they should be: each call fails with a sentence that
# names the node, or goes on where nothing is wrong, and nothing hangs. The last test kills a node at a random moment while nodes
# may still join, TRIES times (4; 2 with a sanitizer).
. "$(dirname "$0")/until_error.sh"

tries_wanted=${1:-$($quick && echo 2 || echo 4)}

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

# ---- Random moments --------------------------------------------------------------------------------------

# While nodes join, it may be another one that a node misses first.
all_name_one() {
    all_name '[0-2]' "$@"
}
n_good=0
policy=adaptive
for i in $(seq "$tries_wanted"); do
    if [ $((i % 2)) -eq 0 ]; then new_unix; else new_tcp; fi
    start_three
    kill_at_random
    # shellcheck disable=SC2086
    counts "early try $i" all_name_one $rest
done
check "$tries_wanted kills while nodes may still join: nobody hangs" [ $n_good -eq "$tries_wanted" ]
finish
