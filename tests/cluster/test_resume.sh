# test_resume.sh - connections break every few milliseconds, in the middle of frames; every push counts
# exactly once all the same.
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
