# test_log.sh - the debug log (TERN_LOG): joins, resumed links, a death and the rounds that fail after it; nothing by
# default.
. "$(dirname "$0")/lib.sh"

TERN_DEADLINE=$(paced 2)
export TERN_DEADLINE
log=$tmp/log

# victim_dies HOW...: three nodes do HOW, and the last is killed once all are there; the others end with an error.
victim_dies() {
    new_unix
    for k in 0 1 2; do
        start $k 3 "$programs/until_error" "$@"
    done
    for k in 0 1 2; do
        until_says $k ready || return 1
    done
    eval "kill -KILL \$pid_2"
    collect 0 1 2
}

# logged N TEXT: N lines of the log have TEXT, of as many processes.
logged() {
    [ "$(grep "$2" "$log" | sed 's/.*\[\([0-9]*\)\].*/\1/' | sort -u | wc -l)" -eq "$1" ]
}

victim_dies intend
check 'nothing is logged by default' [ ! -e "$log" ]
check 'nor printed' eval '! grep -q "^tern [0-9]" "$tmp"/[01].err'

export TERN_LOG="$log"
victim_dies intend
check 'all nodes log that they have joined' logged 3 'joined a cluster of 3 nodes'
check 'a line names time, process and node' \
    eval '! grep -Evq "^tern [0-9]+\.[0-9]{6} \[[0-9]+\] node (-1|[0-2]): " "$log"'
check 'for its user alone' [ "$(stat -c %a "$log")" = 600 ]

rm "$log"
victim_dies copies # they wait for the round, so it is the round that fails
check 'and that a round failed' logged 2 'a round failed, and is the last: .*node 2'

rm "$log"
victim_dies late "$(paced 4)" # they make no call meanwhile, and hear of the death by their pulse
check 'the others log a death' logged 2 'node 2 at .* is dead'

rm "$log"
cut_s=1
run_cut 3 "$programs/sums" dense 3000 2 100
check 'connections were cut' [ "$n_cut" -gt 0 ]
check 'and resumed links are logged' grep -q 'the link to node [01] resumes after: ' "$log"

rm "$log"
export TERN_LOG=stderr
victim_dies barrier
check 'stderr takes it, too' grep -q 'joined a cluster of 3 nodes' "$tmp/0.err"

export TERN_LOG="$tmp/none/log"
new_unix
start 0 1 "$programs/sums" dense 30 1 1
collect 0
check 'a log that cannot be written is an error' grep -q "TERN_LOG is '$tmp/none/log', which cannot be opened: No such file" "$tmp/0.err"
finish
