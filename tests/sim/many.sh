#!/bin/sh
# many.sh TERN [SEEDS [JOBS]] - runs `TERN sim` over SEEDS seeds (10000), shared by JOBS processes (all
# processors). Prints one JSON line per process; exits 1 if one found something wrong.
set -eu

# The tables are small and many: huge pages would only have to be cleared.
export TERN_HUGE_PAGES="${TERN_HUGE_PAGES:-off}"

tern=${1:?usage: many.sh TERN [SEEDS [JOBS]]}
seeds=${2:-10000}
jobs=${3:-$(nproc)}
each=$(((seeds + jobs - 1) / jobs))

pids=
for job in $(seq 0 $((jobs - 1))); do
    "$tern" sim --json --seed $((1 + job * each)) --seeds $each &
    pids="$pids $!"
done
status=0
for pid in $pids; do
    wait "$pid" || status=1
done
exit $status
