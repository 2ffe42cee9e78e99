# test_task.sh - tasks among four nodes: their order, who runs them, failures, broken connections, death.
. "$(dirname "$0")/lib.sh"

n=60
n_sums=600
cut_s=1
cut_least=10
if $quick; then
    n=20
    n_sums=150
fi

holds() {
    [ "$statuses" = '0 0 0 0' ] && [ "$(grep -c ": $1 holds" "$out")" -eq 4 ]
}

# run CASE N
run() {
    for k in 0 1 2 3; do
        start $k 4 "$programs/task" "$@"
    done
    collect 0 1 2 3
}

new_unix
run order $n
check 'sequential, eventual and bounded delay: nothing starts too early' holds order
new_tcp
run change $n
check 'the delay may change while tasks run' holds change
new_unix
run groups
check 'groups, homes of a range, tasks of tasks' holds groups
run failures
check 'failures name function and node' holds failures
run opening
check 'a table is opened beside a barrier that waits for a task' holds opening
run bounded
check 'functions that add to bounded tables hold nobody back' holds bounded
new_tcp
run sums $n_sums
check 'each task runs once at each node' holds sums

run_cut 4 "$programs/task" sums $n_sums
check "each task runs once although $n_cut connections were cut" holds sums
check 'connections were cut' [ "$n_cut" -gt $cut_least ]

# ---- Death ------------------------------------------------------------------------------------------

TERN_DEADLINE=$(paced 2)
export TERN_DEADLINE

names_2() {
    [ "$statuses" = '0 0 0' ] || return 1
    for k in 0 1 3; do
        grep -q '^error TERN_PEER .*node 2\b' "$tmp/$k.out" || return 1
        grep -q '^again TERN_PEER .*node 2\b' "$tmp/$k.out" || return 1
    done
}

for how in KILL STOP; do
    new_unix
    for k in 0 1 2 3; do
        start $k 4 "$programs/task" kill
    done
    for k in 0 1 2 3; do
        until_says $k ready
    done
    kill -$how "$pid_2"
    collect 0 1 3
    check "SIG$how of the node a task is at: all others name it" names_2
    end "$pid_2"
done
finish
