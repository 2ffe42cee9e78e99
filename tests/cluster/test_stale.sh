# test_stale.sh - four nodes with two workers each use tables with bounded reads: every read is compared
# with what it must show, and after tern_quiesce every sum is exact. A worker that stops, a process that is
# stopped and one that is killed are named by all others within two deadlines.
. "$(dirname "$0")/lib.sh"

clocks=150
$quick && clocks=40
TERN_DEADLINE=$(paced 20)
export TERN_DEADLINE

holds() {
    [ "$statuses" = '0 0 0 0' ] && [ "$(grep -c ', 0 wrong, sums are right' "$out")" -eq 4 ]
}

# bounds POLICY [WORDS]: four nodes keep within the bound of the policy.
bounds() {
    new_unix
    for i in 0 1 2 3; do
        start $i 4 "$programs/stale" $1 2 $clocks
    done
    collect 0 1 2 3
    check "$1${2:-}: every read shows what it must, and every sum is exact" holds
}

for policy in bsp ssp:1 ssp:3 essp:0 essp:3 vap:2 vap:4/sqrt; do
    bounds $policy
done

TERN_SHARE=1
for policy in bsp ssp:1 essp:3 vap:2; do
    bounds $policy ' in shared memory'
done
TERN_SHARE=0

# On a node that is alone workers wait for each other, too.
for policy in bsp ssp:3 essp:1 vap:2; do
    (unset TERN_COORDINATOR; "$programs/stale" $policy 4 $clocks) >"$out" 2>"$err"
    status=$?
    check "$policy on a node that is alone" grep -q ', 0 wrong, sums are right' "$out"
done

# ---- Who holds everybody back --------------------------------------------------------------------

TERN_DEADLINE=$(paced 2)
names_worker() {
    [ "$(grep -c "^\[[023]\] error TERN_LATE .*worker 0 of node 1 holds everybody back" "$out")" -eq 3 ]
}
# stops POLICY [WORDS]: worker 0 of node 1 does not advance, and the others say so.
stops() {
    new_unix
    for i in 0 1 2 3; do
        start $i 4 "$programs/stale" $1 2 200 1
    done
    # It goes on when all others have given up, so that they can close their nodes.
    for i in 0 2 3; do
        until_says $i error
    done
    kill -USR1 "$pid_1"
    collect 0 2 3
    check "$1${2:-}: a worker that stops is named by all others" names_worker
    end "$pid_1"
}
stops ssp:1
stops essp:1
TERN_SHARE=1
stops ssp:1 ' in shared memory'
TERN_SHARE=0

names_node() {
    [ "$(grep -cE "^\[[013]\] error TERN_(LATE|PEER) .*node 2\b" "$out")" -eq 3 ]
}
# loses SIGNAL [WORDS]: node 2 gets the signal, and the others name it.
loses() {
    new_unix
    for i in 0 1 2 3; do
        start $i 4 "$programs/stale" ssp:1 2 20000
    done
    for i in 0 1 2 3; do
        until_says $i ready
    done
    sleep 0.3
    kill -$1 "$pid_2"
    collect 0 1 3
    check "SIG$1 of a node${2:-}: all others name it" names_node
    end "$pid_2"
}
for signal in STOP KILL; do
    loses $signal
    TERN_SHARE=1
    loses $signal ' that shares its tables'
    TERN_SHARE=0
done
finish
