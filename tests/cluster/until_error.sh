# until_error.sh - what the scripts share whose nodes call until a call fails (until_error.c); each begins with:
# . "$(dirname "$0")/until_error.sh"
#
#   ready N HOW...      starts nodes 0 .. N-1, each with its own HOW, and waits until all are there; with `per_host`, so many of
#                       them are on each host
#   all_name CULPRIT K...   whether those nodes ended well, each after an error that names the culprit
#   tell K...           says how long after $began_ms they had their error
#   others CULPRIT      prints the numbers of the other three of four nodes
#   random N            prints a number below N
#   start_three, kill_at_random   three nodes that do something each, of which $victim dies; the others are $rest
#   counts WHAT COMMAND...   one more is good ($n_good) if it succeeds; if not it is said what happened
. "$(dirname "$0")/lib.sh"

TERN_DEADLINE=$(paced 2)
TERN_JOIN_DEADLINE=$TERN_DEADLINE # to join takes no longer here
export TERN_DEADLINE TERN_JOIN_DEADLINE

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

others() {
    for k in 0 1 2 3; do
        [ $k -eq "$1" ] || echo $k
    done
}

random() {
    od -An -N2 -tu2 /dev/urandom | awk -v n="$1" '{ print $1 % n }'
}

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
