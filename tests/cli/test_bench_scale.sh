# test_bench_scale.sh - tern bench scale: its figures, and what it says when it cannot.
. "$(dirname "$0")/lib.sh"

# Every line of $out has a number, or what $2 matches, in field $1.
has() {
    ! grep -Evq "^\{(.*,)?\"$1\":${2:-[0-9]+(\.[0-9]+)?}(,.*)?\}$" "$out"
}

# The value of field $1 in the line of $2 nodes.
field() {
    sed -n "/\"nodes\":$2,/s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

is_narrow() {
    [ "$(awk '{ print length }' "$out" | sort -n | tail -1)" -le 80 ]
}

is_usage_error() {
    [ "$status" -eq 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] && grep -qF -- "$1" "$err"
}

number='(null|[0-9]+(\.[0-9]+)?)'
"$tern" data zipf-matrix "$tmp/matrix" --rows 300 --columns 60 --cells 5000

# ---- A training ----------------------------------------------------------------------------------

try "$tern" bench scale mf --data "$tmp/matrix" --json --nodes 1,2,3 --repeats 2 --epochs 2 -- --rank 4
check 'mf: succeeds' [ "$status" -eq 0 ]
check 'mf: is silent on stderr' [ ! -s "$err" ]
check 'mf: a line per number of nodes' [ "$(wc -l <"$out")" -eq 3 ]
for name in nodes threads repeats speedup speedup_min speedup_max ratio ratio_min ratio_max remote_share \
    seconds_per_epoch bytes_per_epoch quality; do
    check "mf: field $name is a number" has $name
done
for name in effective_speedup effective_ratio seconds_to_90; do
    check "mf: field $name is a number or null" has $name "$number"
done
check 'mf: the measure is named' has measure '"RMSE"'
check 'mf: one node is the measure of itself' [ "$(field speedup 1) $(field ratio 1)" = '1.0000 1.0000' ]
check 'mf: one node sends nothing' [ "$(field bytes_per_epoch 1)" = 0 ]
check 'mf: two nodes without shared memory do' [ "$(field bytes_per_epoch 2)" -gt 0 ]

try "$tern" bench scale mf --data "$tmp/matrix" --nodes 2 --repeats 1 --epochs 2 --progress
check 'a table' grep -Eq '^      2 ' "$out"
check 'of 80 columns' is_narrow
check 'with a line of progress per training' [ "$(grep -c '^[123] of 3: ' "$err")" -eq 3 ]

try "$tern" run --link 1gbit true
if [ "$status" -eq 0 ]; then
    try "$tern" bench scale mf --data "$tmp/matrix" --json --nodes 2 --repeats 1 --epochs 1 --link 1gbit,0.1ms
    check 'mf: on a link' [ "$status" -eq 0 ]
    check 'mf: the link is named' has link '"1gbit,0.1ms"'
fi

# ---- The workload of bench manage ----------------------------------------------------------------

quick='--keys 1000 --len 8 --warm-up 0.02 --seconds 0.02 --repeats 2'
# shellcheck disable=SC2086
try "$tern" bench scale manage --json --nodes 1,2 $quick
check 'manage: succeeds' [ "$status" -eq 0 ]
check 'manage: a line per number of nodes' [ "$(wc -l <"$out")" -eq 2 ]
for name in speedup ratio remote_share accesses_s bytes_per_access; do
    check "manage: field $name is a number" has $name
done
check 'manage: it has no quality to reach' has effective_speedup null
# shellcheck disable=SC2086
try "$tern" bench scale manage --nodes 2 $quick --threads 2
check 'manage: a table' grep -Eq '^      2 ' "$out"
check 'manage: of 80 columns' is_narrow

# ---- When it cannot ------------------------------------------------------------------------------

try "$tern" bench scale
check 'no task' is_usage_error 'kge, wordvec, mf or manage'
try "$tern" bench scale lda
check 'a task without a goal' is_usage_error 'kge, wordvec, mf or manage'
try "$tern" bench scale manage -- --rank 4
check 'manage trains nothing' is_usage_error "'--'"
try "$tern" bench scale mf --nodes 64 --threads 2
check 'too many workers' is_usage_error 'at most 64'
try "$tern" bench scale mf --link fast
check 'a link that is none' is_usage_error 'such as 1gbit'
try "$tern" bench scale mf --data "$tmp/nowhere"
check 'no data: a failure' [ "$status" -eq 1 ]
check 'no data: the path is named' grep -q "$tmp/nowhere" "$err"

finish
