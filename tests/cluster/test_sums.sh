# test_sums.sh - four nodes with two workers each push and pull at 100,000 keys; every sum is exact
# afterwards, over every kind of connection.
. "$(dirname "$0")/lib.sh"

steps=500
$quick && steps=60

sums_are_exact() {
    [ "$statuses" = '0 0 0 0' ] && [ "$(grep -c ', 0 wrong sums' "$out")" -eq 4 ]
}

says_error() {
    case " $statuses " in *' 0 '*) return 1 ;; esac
    grep -q "$1" "$err"
}

# sums INDEX [PREFIX]: runs the cluster; PREFIX K COMMAND... starts node K.
sums() {
    index=$1
    prefix=${2:-plain}
    for i in 0 1 2 3; do
        $prefix "$i" "$programs/sums" "$index" 100000 2 $steps static
    done
    collect 0 1 2 3
}

plain() {
    i=$1
    shift
    start "$i" 4 "$@"
}

tls() {
    with_tls "$1" plain "$@"
}

for index in dense sparse; do
    new_unix
    sums $index
    check "sums: $index, Unix sockets" sums_are_exact
    new_tcp
    sums $index
    check "sums: $index, TCP" sums_are_exact
done

check 'tern ca makes certificates for four nodes' make_certificates
for index in dense sparse; do
    new_tcp
    sums $index tls
    check "sums: $index, TLS" sums_are_exact
done

if grep -q '^00000000000000000000000000000001 ' /proc/net/if_inet6 2>/dev/null; then
    new_tcp '[::1]'
    sums dense
    check 'sums: dense, TCP over IPv6' sums_are_exact
    new_tcp '[::1]'
    sums sparse tls
    check 'sums: sparse, TLS over IPv6' sums_are_exact
else
    echo '# no IPv6 on loopback: left out'
fi

# A node may be quick to come to the next cluster at an address whose last one is still about to end.
for where in unix tcp; do
    new_$where
    for i in 0 1 2; do
        start $i 3 sh -c '"$@" && "$@" && "$@"' - "$programs/sums" dense 1000 1 5 static
    done
    collect 0 1 2
    check "three clusters one after the other ($where)" \
        [ "$statuses $(grep -c ', 0 wrong sums' "$out")" = '0 0 0 9' ]
done

check 'no socket is left behind' [ -z "$(find "$tmp" -type s)" ]

# Each worker has a connection to each other node. A limit of open files that the program may raise is no
# matter; one that it may not is named.
few_files() {
    i=$1
    shift
    start "$i" 4 sh -c 'ulimit '"$files"' && exec "$@"' - "$@"
}

many_workers() {
    for i in 0 1 2 3; do
        few_files "$i" "$programs/sums" dense 1000 60 "$1" static
    done
    collect 0 1 2 3
}

new_unix
files='-Sn 40'
many_workers 5
check 'sums: 60 workers, 40 open files that can be more' sums_are_exact
new_unix
files='-n 40'
TERN_DEADLINE=$(paced 2) many_workers 100000
check 'too few open files: the limit is named' says_error 'open files'

# ---- Four hosts: network namespaces joined by a bridge in a fifth -----------------------------------

net=tern$$

end_hosts() {
    for i in 0 1 2 3 b; do
        ip netns del $net-$i 2>/dev/null
    done
}

make_hosts() {
    [ "$(id -u)" -eq 0 ] && command -v ip >/dev/null && ip netns add $net-b 2>/dev/null || return 1
    trap 'end_hosts; tidy' EXIT
    ip -n $net-b link add name bridge type bridge && ip -n $net-b link set bridge up || return 1
    for i in 0 1 2 3; do
        ip netns add $net-$i &&
            ip -n $net-b link add name to$i type veth peer name eth netns $net-$i &&
            ip -n $net-b link set to$i master bridge up &&
            ip -n $net-$i link set lo up &&
            ip -n $net-$i address add 10.211.7.1$i/24 dev eth &&
            ip -n $net-$i link set eth up || return 1
    done
}

host() {
    i=$1
    shift
    start "$i" 4 ip netns exec $net-"$i" "$@"
}

host_tls() {
    with_tls "$1" host "$@"
}

host_insecure() {
    TERN_INSECURE=1 TERN_TOKEN=sums host "$@"
}

# Node 0 knows its own name as loopback, as on Debian; the others know its address. None has a way to the world
# at large, and all but node 0 listen at all their addresses.
host_named() {
    i=$1 its_address=10.211.7.10
    shift
    [ "$i" -eq 0 ] && its_address=127.0.1.1
    echo "$its_address alpha" >"$tmp/hosts.$i"
    TERN_LISTEN=0.0.0.0:7472 host_tls "$i" \
        sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "$tmp/hosts.$i" "$@"
}

if make_hosts; then
    coordinator=10.211.7.10:7471
    for index in dense sparse; do
        sums $index host_tls
        check "sums: $index, four hosts, TLS" sums_are_exact
    done
    sums dense host_insecure
    check 'sums: dense, four hosts, TERN_INSECURE=1' sums_are_exact
    coordinator=alpha:7471
    sums dense host_named
    check 'sums: dense, four hosts, a name that is loopback at home' sums_are_exact
    coordinator=10.211.7.10:7471
    TERN_DEADLINE=$(paced 2) sums dense host
    check 'plain TCP between hosts is refused without TERN_INSECURE=1' says_error 'without certificates'
    end_hosts
else
    end_hosts
    echo '# network namespaces cannot be made here (root and ip are needed): left out'
fi
finish
