# test_resume.sh - connections break every few milliseconds, in the middle of frames, and at the very end: every push counts
# exactly once all the same, and every node hears that all have left.
. "$(dirname "$0")/lib.sh"

steps=8000
cut_s=3
cut_least=50
$quick && steps=4000

exact() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c ', 0 wrong sums' "$out")" -eq 3 ]
}

for index in dense sparse; do
    run_cut 3 "$programs/sums" $index 20000 2 $steps
    cat "$path"*.log | sed 's/^/# /'
    check "sums: $index, exact although $n_cut connections were cut" exact
    check "connections were cut ($index)" [ "$n_cut" -gt $cut_least ]
done

# Node 1 leaves first. Its connection breaks, and it does not run when node 0 leaves as well: only then it comes back and asks
# whether all have left.
new_unix
path=${coordinator#unix:}
export TERN_DEADLINE="$(paced 10)"
start 1 2 "$programs/leave"
start 0 2 "$programs/leave"
intercept "$path"
until_says 0 ready && until_says 1 ready
kill -USR1 "$pid_1"
sleep 0.3
kill -STOP "$pid_1"
end "$proxy"
rm "$path"
pass_on "$path"
kill -USR1 "$pid_0"
sleep 1
kill -CONT "$pid_1"
collect 1 0
check 'a node that was cut off when all left hears it later' [ "$statuses" = '0 0' ]
end "$proxy"
unset TERN_DEADLINE

# TCP in a network of its own, where ss may destroy every connection.
net=tern$$
if [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && command -v ss >/dev/null &&
    ip netns add $net 2>/dev/null && ip -n $net link set lo up; then
    trap 'ip netns del $net; tidy' EXIT
    coordinator=127.0.0.1:7471
    n_killed=0
    for k in 0 1 2; do
        start $k 3 ip netns exec $net "$programs/sums" dense 20000 2 $steps
    done
    # For 3 s, and where nodes are slow to start until some connections were destroyed.
    begin=$(now_ms)
    while [ "$(now_ms)" -lt $((begin + 3000)) ] ||
        { [ $n_killed -le 5 ] && [ "$(now_ms)" -lt $((begin + $(paced 20000))) ]; }; do
        n=$(ip netns exec $net ss -HKtn state established 2>/dev/null | wc -l)
        n_killed=$((n_killed + n))
        sleep 0.02
    done
    collect 0 1 2
    check "sums: exact although ss destroyed $n_killed ends of TCP connections" exact
    check 'connections were destroyed' [ "$n_killed" -gt 5 ]
else
    echo '# ss cannot be tried here (root, ip and ss are needed): left out'
fi
finish
