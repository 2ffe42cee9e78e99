# test_hostile.sh [SECONDS] - strangers send nonsense to a running cluster, keep connections open in
# silence and repeat what they overheard: they are refused, and every sum is exact afterwards. Then an
# insider sends frames with a right header and any contents for SECONDS (3): the nodes do not mind.
. "$(dirname "$0")/lib.sh"

fuzz_s=${1:-3}
endless=1000000000 # steps: the nodes take them until add_up

exact() {
    [ "$statuses" = '0 0' ] && [ "$(grep -c ', 0 wrong sums' "$out")" -eq 2 ]
}

# Waits until node 0 listens at its Unix socket; fails after 60 paced seconds.
until_listens() {
    tries=0
    until [ "$(stat -c %a "${coordinator#unix:}" 2>/dev/null)" = 600 ]; do
        tries=$((tries + 1))
        [ $tries -le "$(paced 3000)" ] || return 1
        sleep 0.02
    done
}

# Ends the steps of both nodes and waits for their sums.
add_up() {
    kill -USR1 "$pid_0" "$pid_1"
    collect 0 1
}

hostile() {
    "$programs/hostile" "$@"
}

crowd() {
    "$programs/crowd" "$@"
}

# While two nodes add up: everything strangers do, at both. PREFIX K start ... starts node K.
attack() {
    first=$1 second=$2 prefix=${3:-plainly}
    for i in 0 1; do
        $prefix $i start $i 2 "$programs/sums" dense 10000 2 $endless
    done
    until_says 0 ready
    until_says 1 ready
    crowd silent 3 300 "$first" >"$tmp/silent.out" 2>&1 &
    silent=$!
    running="$running $silent"
    try hostile stranger 4 tern 2 "$first" "$second"
    wait $silent
    forget $silent
    sed 's/^/# /' "$out" "$tmp/silent.out"
}

plainly() {
    shift
    "$@"
}

refused() {
    [ "$status" -eq 0 ] && grep -q '^0 not refused' "$out" && ! grep -q ': 0 tried' "$out"
}

new_unix
attack "$coordinator" "$coordinator.1"
check 'strangers are refused (Unix sockets)' refused
try crowd welcome 300 tern 2 0 "$coordinator"
check 'of 300 who call at once all are welcomed' [ "$status" -eq 0 ]
descriptors() {
    find "/proc/$pid_0/fd" -type l | wc -l
}
few_descriptors() {
    [ "$(descriptors)" -lt $((n_before + 50)) ]
}
n_before=$(descriptors)
try crowd descriptors 200 "$coordinator"
check 'two descriptors come with each of 200 offers' [ "$status" -eq 0 ]
check 'and none of them stays open' soon few_descriptors
add_up
check 'sums are exact after their attacks' exact

TERN_TOKEN=tern # on TCP there is a secret in it otherwise
export TERN_TOKEN
new_tcp
second=127.0.0.1:$((${coordinator#*:} - 12000)) # below those the system gives to callers
TERN_LISTEN=$second
export TERN_LISTEN
attack "$coordinator" "$second"
unset TERN_LISTEN
check 'strangers are refused (TCP)' refused
try crowd welcome 600 tern 2 1 "$second"
check 'of 600 who call at once all are welcomed' [ "$status" -eq 0 ]
add_up
check 'sums are exact after their attacks, too' exact

new_tcp
second=127.0.0.1:$((${coordinator#*:} - 12000)) # below those the system gives to callers
TERN_LISTEN=$second
export TERN_LISTEN
make_certificates
attack "$coordinator" "$second" with_tls
unset TERN_LISTEN
check 'strangers are refused (TLS)' refused
add_up
check 'sums are exact after their attacks on TLS' exact

# They come first: 300 connections that say nothing do not keep a cluster from forming.
new_unix
start 0 2 "$programs/sums" dense 10000 2 50
until_listens
crowd silent "$(paced 60)" 300 "$coordinator" >"$tmp/silent.out" 2>&1 &
silent=$!
running="$running $silent"
until_says silent connected
TERN_DEADLINE=$(paced 3) start 1 2 "$programs/sums" dense 10000 2 50
collect 0 1
check 'a cluster forms beside 300 silent connections' exact
check 'they were there all the while' kill -0 $silent
end $silent

# slowly ATTACK...: node 0 is there first, then those who attack it, then node 1 joins.
slowly() {
    $prefix 0 start 0 2 "$programs/sums" dense 10000 2 $steps
    soon is_port_used "$port"
    crowd "$@" >"$tmp/slow.out" 2>&1 &
    slow=$!
    running="$running $slow"
    until_says slow connected
    TERN_DEADLINE=$(paced 5) TERN_JOIN_DEADLINE=$(paced 5) $prefix 1 start 1 2 "$programs/sums" dense 10000 2 $steps
}

steps=50
many=2500
$quick && many=1200
new_tcp
prefix=with_tls
slowly slow "$(paced 60)" $many "$coordinator"
collect 0 1
check "a node joins over TLS beside $many connections that send a byte now and then" exact
check 'they were there all the while, too' kill -0 $slow
end $slow

new_tcp
prefix=plainly
slowly slow "$(paced 60)" $many "$coordinator"
collect 0 1
check "and so it does over TCP" exact
end $slow

# Somebody has the token, and never joins.
new_tcp
steps=$endless
slowly hold 3 3000 tern 2 0 "$coordinator"
until_says 0 ready
wait $slow
forget $slow
sed 's/^/# /' "$tmp/slow.out"
add_up
check 'a node joins beside 3,000 connections of a process that does not' exact
check 'of which few are held' [ "$(sed -n 's/ of .*//p' "$tmp/slow.out")" -le 600 ]

unset TERN_TOKEN
# What node 1 sent to node 0 is recorded on the way, and sent again.
new_unix
start 0 2 "$programs/sums" dense 10000 2 $endless
until_listens
path=${coordinator#unix:}
mv "$path" "$path.real"
"$programs/proxy" -r "$tmp/record" "$coordinator" "$coordinator.real" >"$tmp/proxy.out" &
proxy=$!
running="$running $proxy"
start 1 2 "$programs/sums" dense 10000 2 $endless
until_says 0 ready
until_says 1 ready
sleep 1
for i in 1 2 3; do
    try hostile replay "$coordinator.real" "$tmp"/record.*
    sed 's/^/# /' "$out"
    sleep 0.2
done
check 'recorded connections are sent again' [ "$status" -eq 0 ]
add_up
check 'what is sent again has no effect' exact
kill $proxy
wait $proxy
forget $proxy

new_unix
work_s=$((fuzz_s + 3))
TERN_DEADLINE=$(paced 20)
export TERN_DEADLINE
start 0 2 "$programs/until_error" work $work_s
start 1 2 "$programs/until_error" work $work_s
until_says 0 ready
until_says 1 ready
hostile stranger "$fuzz_s" tern 2 "$coordinator" "$coordinator.1" >"$tmp/stranger.out" 2>&1 &
stranger=$!
running="$running $stranger"
try hostile insider "$fuzz_s" tern 2 "$coordinator" "$coordinator.1"
sed 's/^/# /' "$out"
wait $stranger
fuzzed=$?
forget $stranger
sed 's/^/# /' "$tmp/stranger.out"
check "an insider fuzzes for $fuzz_s s" [ "$status" -eq 0 ]
check "strangers are refused meanwhile" [ $fuzzed -eq 0 ]
collect 0 1
well() {
    [ "$statuses" = '0 0' ] && [ "$(grep -c '\] closed [0-9]* TERN_OK' "$out")" -eq 2 ] &&
        [ "$(grep -c '\] done [0-9]* TERN_OK' "$out")" -eq 2 ]
}
check 'the nodes do not mind' well
finish
