#!/bin/sh
# call.sh [BUILD] - prints the instructions of one public call on keys that are here (call.c): what 2,000 calls take more than
# 1,000, as valgrind counts them.
set -eu

call=${1:-build}/bench/call
for how in 'pull 1' 'push 1' 'set 1' 'pull 64' 'push 64' 'set 64'; do
    for calls in 1000 2000; do
        # shellcheck disable=SC2086
        valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect="tern_${how% *}" \
            "$call" $how $calls 2>&1 | sed -n 's/.*Collected : //p'
    done | awk -v how="$how" 'NR == 1 { first = $1 } NR == 2 { printf "%-8s %7.0f\n", how, ($1 - first) / 1000 }'
done
