# lib.sh - what the scripts of tests/cluster share, beside tests/cli/lib.sh; each begins with:
# . "$(dirname "$0")/lib.sh"
#
#   start K N COMMAND...    starts node K of N at $coordinator in the background; its process is $pid_K,
#                           what it prints goes to $tmp/K.out and $tmp/K.err
#   collect K...            waits for those nodes; $statuses has their exit statuses in a row, $out and
#                           $err all they printed
#   until_says K WORD       waits until node K has printed WORD; fails after 60 paced seconds
#   end PID                 kills a process of the script's own and waits for it
#   new_unix, new_tcp       set $coordinator to a fresh address; of the second, $port is the port
#   intercept PATH [OPT...] a proxy ($proxy) takes the place of a node's socket, once that is there; pass_on PATH [OPT...] starts
#                           a further one. Options are those of proxy.c
#   run_cut N COMMAND...    runs N nodes while their connections are cut, $cut_ms paced milliseconds apart on average (5), for
#                           $cut_s paced seconds, and collects them; $n_cut is how many were, and $path*.log tell.
#                           If no more than $cut_least (0) were, because the machine was slower when the pace was measured, it
#                           does so again, four times as often, up to three times
#   is_followed INDEX shared   whether ThreadSanitizer, if this is its build, can follow such a table
#   has_case CASE           prints the program that has the case: manage or tables
#   make_certificates       certificates for TLS in $tmp/certs; with_tls K COMMAND... runs one with them
#
# Programs end themselves by SIGALRM (status 142) when they hang. Everything started is ended with the
# script. $quick is true in the builds with a sanitizer, which take less to do.
. "$(dirname "$0")/../cli/lib.sh"

programs=$BUILD/tests/cluster
running=
n_addresses=0
case $BUILD in
*/address | */thread | *-address | *-thread) quick=true ;;
*) quick=false ;;
esac
unset TERN_NODE TERN_NODES TERN_COORDINATOR TERN_LISTEN TERN_TOKEN TERN_DEADLINE TERN_INSECURE
unset TERN_CERTIFICATE TERN_KEY TERN_AUTHORITY TERN_SHARDS TERN_JOIN_DEADLINE TERN_LOG TERN_NOTICES
export TERN_SHARE=0 # what is tested is what nodes of different hosts do, unless a script says otherwise
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:exitcode=99" TSAN_OPTIONS="${TSAN_OPTIONS:-}:exitcode=98"

# An index that processes share may be moved by another one, which orders accesses of two threads here unseen.
is_followed() {
    case $BUILD,$1,$2 in
    */thread,sparse,shared | *-thread,sparse,shared) return 1 ;;
    esac
}

end_all() {
    for pid in $running; do
        kill -KILL "$pid" 2>/dev/null
    done
    running=
}

tidy() {
    end_all
    rm -rf "$tmp"
}
trap tidy EXIT
trap 'exit 1' INT TERM HUP

start() {
    k=$1 n=$2
    shift 2
    TERN_NODE=$k TERN_NODES=$n TERN_COORDINATOR=$coordinator "$@" \
        >"$tmp/$k.out" 2>"$tmp/$k.err" </dev/null &
    eval "pid_$k=$!"
    running="$running $!"
}

# Forgets a process that has been waited for.
forget() {
    left=
    for pid in $running; do
        [ "$pid" = "$1" ] || left="$left $pid"
    done
    running=$left
}

collect() {
    statuses=
    : >"$out"
    : >"$err"
    for k in "$@"; do
        eval "p=\$pid_$k"
        wait "$p" 2>/dev/null
        statuses="$statuses $?"
        forget "$p"
        sed "s/^/[$k] /" "$tmp/$k.out" >>"$out"
        sed "s/^/[$k] /" "$tmp/$k.err" >>"$err"
    done
    statuses=${statuses# }
    status=$statuses
}

end() {
    kill -CONT "$1" 2>/dev/null
    kill -KILL "$1" 2>/dev/null
    wait "$1" 2>/dev/null
    forget "$1"
}

until_says() {
    tries=0
    until grep -q "$2" "$tmp/$1.out" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -le "$(paced 3000)" ] || return 1
        sleep 0.02
    done
}

# begin HOW...: starts four nodes of `survive` and waits until all push.
begin() {
    for k in 0 1 2 3; do
        TERN_LOG=$tmp/$k.log
        export TERN_LOG
        rm -f "$tmp/$k.log"
        start $k 4 "$programs/survive" "$@"
    done
    for k in 0 1 2 3; do
        until_says $k ready || return 1
    done
}

# until_safer K: waits until node K of these has made more safe pushes.
until_safer() {
    n=$(grep -c safe "$tmp/$1.out")
    tries=0
    until [ "$(grep -c safe "$tmp/$1.out")" -gt "$n" ]; do
        tries=$((tries + 1))
        [ $tries -le "$(paced 3000)" ] || return 1
        sleep 0.02
    done
}

new_unix() {
    n_addresses=$((n_addresses + 1))
    coordinator=unix:$tmp/c$n_addresses
}

# Whether a socket of this host has the port, in any state.
is_port_used() {
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qi "^ *[0-9]*: [0-9A-F]*:$(printf %04X "$1") "
}

# Scripts that run beside each other have different processes, so they hardly ever try the same port at once.
new_tcp() {
    while
        n_addresses=$((n_addresses + 1))
        port=$((20000 + ($$ * 16 + n_addresses) % 12000))
        is_port_used $port || is_port_used $((port - 12000))
    do :; done
    coordinator=${1:-127.0.0.1}:$port
}

has_case() {
    case $1 in
    *table* | closed-copies | close-beside-flush | late | started | again) echo "$programs/tables" ;;
    *) echo "$programs/manage" ;;
    esac
}

make_certificates() {
    [ -d "$tmp/certs" ] && return
    "$tern" ca new "$tmp/certs" >/dev/null || return 1
    for k in 0 1 2 3; do
        "$tern" ca node "$tmp/certs" "n$k" >/dev/null || return 1
    done
}

with_tls() {
    tls_k=$1
    shift
    TERN_CERTIFICATE=$tmp/certs/n$tls_k.crt TERN_KEY=$tmp/certs/n$tls_k.key \
        TERN_AUTHORITY=$tmp/certs/ca.crt "$@"
}

now_ms() {
    date +%s%3N
}

# A proxy listens at the path of a node's socket, and passes connections on to the node itself, at $path.real. It is $proxy.
pass_on() {
    path_taken=$1
    shift
    "$programs/proxy" "$@" "unix:$path_taken" "unix:$path_taken.real" >"$path_taken.log" 2>&1 &
    proxy=$!
    running="$running $proxy"
}

# A proxy takes the place of a node's socket; the node itself is reached behind it. The node changes the mode of its socket
# after it has bound it, and uses the path no more.
intercept() {
    tries=0
    until [ "$(stat -c %a "$1" 2>/dev/null)" = 600 ] || [ $tries -gt "$(paced 3000)" ]; do
        tries=$((tries + 1))
        sleep 0.01
    done
    mv "$1" "$1.real"
    pass_on "$@"
}

# One of the runs of run_cut, in which connections are cut $every_ms apart.
cut_once() {
    n_nodes=$1
    shift
    new_unix
    path=${coordinator#unix:}
    proxies=
    for node in $(seq 1 $((n_nodes - 1))) 0; do
        start "$node" "$n_nodes" "$@"
        [ "$node" -eq 0 ] && at=$path || at=$path.$node
        intercept "$at" -c "$every_ms" -f "$(paced "$cut_s")"
        proxies="$proxies $proxy"
    done
    # shellcheck disable=SC2046
    collect $(seq 0 $((n_nodes - 1)))
    for p in $proxies; do
        kill -TERM "$p"
        wait "$p"
        forget "$p"
    done
    n_cut=$(cat "$path"*.log | awk '{ n += $3 } END { print n + 0 }')
}

run_cut() {
    every_ms=$(paced "${cut_ms:-5}")
    for cut_again in 1 2 3 4; do
        cut_once "$@"
        case " $statuses " in *' '[1-9]*) return ;; esac
        [ "$n_cut" -le "${cut_least:-0}" ] || return 0
        echo "# $n_cut connections were cut, $every_ms ms apart: again"
        every_ms=$((every_ms / 4 + 1))
    done
}
