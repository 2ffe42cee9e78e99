# test_bench_loop.sh - tern bench loop: its figures, its check of sums; and that benches and simulations show
# progress and keep to 80 columns.
. "$(dirname "$0")/lib.sh"

# Every line of $out has a number, or what $2 matches, in field $1.
has() {
    ! grep -Evq "^\{(.*,)?\"$1\":${2:-[0-9]+(\.[0-9]+)?}(,.*)?\}$" "$out"
}

# The value of field $1 of line $2.
field() {
    sed -n "$2s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

is_narrow() {
    [ "$(awk '{ print length }' "$out" | sort -n | tail -1)" -le 80 ]
}

is_usage_error() {
    [ "$status" -eq 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] && grep -qF -- "$1" "$err"
}

quick='--keys 2000 --warm-up 0.1 --seconds 0.1 --repeats 2'

# ---- Figures -------------------------------------------------------------------------------------

# shellcheck disable=SC2086
try "$tern" bench loop --json $quick --compute 0,20 --len 8 --batch 50 --ahead 20
check 'a quick run succeeds' [ "$status" -eq 0 ]
check 'is silent on stderr' [ ! -s "$err" ]
check 'a line per compute time' [ "$(wc -l <"$out")" -eq 2 ]
for name in nodes threads compute_us len keys batch ahead repeats steps_s single_steps_s ratio ratio_min \
    ratio_max cpu_us_per_step cpu_ratio cpu_ratio_min cpu_ratio_max remote_share remote_share_min remote_share_max bytes_per_batch bytes_per_batch_min \
    bytes_per_batch_max rounds_s staleness_ms_mean staleness_ms_p99 relay_cores ratio_less_relay \
    values_checked; do
    check "field $name is a number" has $name
done
check 'field bench' has bench '"loop"'
check 'field policy' has policy '"adaptive"'
check 'field link' has link null
check 'a step takes at least the CPU time that it computes' \
    awk -v us="$(field cpu_us_per_step 2)" 'BEGIN { exit !(us >= 20) }'
check 'fields have the values asked for' \
    [ "$(field compute_us 2) $(field len 1) $(field batch 1) $(field ahead 1) $(field keys 1)" = '20 8 50 20 2000' ]
check 'all values are checked' [ "$(field values_checked 1)" -eq 16000 ]
check 'nodes that share no memory send bytes' [ "$(field bytes_per_batch 1)" != 0.0 ]
check 'the ratio is of a median between the extremes' awk -v low="$(field ratio_min 1)" \
    -v middle="$(field ratio 1)" -v high="$(field ratio_max 1)" \
    'BEGIN { exit !(0 < low && low <= middle && middle <= high) }'

# shellcheck disable=SC2086
try "$tern" bench loop --json $quick --compute 0 --share
check 'with --share' [ "$status" -eq 0 ]
check 'there is nothing remote' [ "$(field remote_share 1)" = 0.00000000 ]
for policy in static replicate adaptive-relocate; do
    # shellcheck disable=SC2086
    try "$tern" bench loop --json $quick --compute 0 --nodes 3 --policy $policy
    check "three nodes under $policy: sums are exact" [ "$status" -eq 0 ]
done
# shellcheck disable=SC2086
try "$tern" bench loop --json $quick --compute 0 --threads 2
check 'two threads each: sums are exact' [ "$status" -eq 0 ]

try "$tern" run --link 1gbit true
if [ "$status" -eq 0 ]; then
    # shellcheck disable=SC2086
    try "$tern" bench loop --json $quick --compute 0 --link 10gbit,0.1ms --seconds 0.5
    check 'on a link' [ "$status" -eq 0 ]
    check 'field link' has link '"10gbit,0.1ms"'
    check "the relay's CPU time is told" [ "$(field relay_cores 1)" != 0.000 ]
fi

try "$tern" bench loop --nodes 64 --threads 2
check 'too many workers' is_usage_error 'at most 64'
try "$tern" bench loop --link fast
check 'a link that is none' is_usage_error 'such as 1gbit'
# shellcheck disable=SC2086
try "$tern" bench loop $quick --policy nonsense
check 'an unknown policy: a failure' [ "$status" -eq 1 ]
check 'and it is named' grep -q nonsense "$err"
# shellcheck disable=SC2086
try "$tern" bench loop --json $quick --compute 0 --staleness 50
check 'older replicas: sums are exact' [ "$status" -eq 0 ]
# shellcheck disable=SC2086
try "$tern" bench loop $quick --compute 0 --staleness 50 --policy static
check 'staleness of a policy without replicas: a failure' [ "$status" -eq 1 ]
check 'with a sentence' grep -q 'has no replicas that staleness_ms' "$err"

# ---- Progress ------------------------------------------------------------------------------------

# shellcheck disable=SC2086
try "$tern" bench loop $quick --compute 0 --progress
check 'bench --progress: a line per step' [ "$(grep -Ec '^[1-4] of 4: .* \([0-9]+ s' "$err")" -eq 4 ]
check 'bench loop has 80 columns' is_narrow
# The terminal is standard error; what the command prints to standard output stays as it is.
if command -v script >/dev/null; then
    # shellcheck disable=SC2086
    try script -qec "'$tern' bench loop --json $quick --compute 0 >'$tmp/figures'" /dev/null
    check 'on a terminal progress is shown' grep -q 'of 4: ' "$out"
    check 'and the figures stay clean' [ "$(wc -l <"$tmp/figures")" -eq 1 ]
fi
try "$tern" sim --seeds 3 --progress
check 'sim --progress shows seeds' grep -q '^1 of 3: seed 1 ' "$err"
try "$tern" sim --seeds 3
check 'sim is silent otherwise' [ ! -s "$err" ]

# ---- 80 columns ----------------------------------------------------------------------------------

check 'sim has 80 columns' is_narrow
"$tern" data zipf-matrix "$tmp/matrix" --rows 100 --columns 30 --cells 1000
point='--keys 1000 --repeats 1 --seconds-per-point 0.005'
while read -r command; do
    # shellcheck disable=SC2086
    try "$tern" bench $command
    check "bench $command: succeeds" [ "$status" -eq 0 ]
    check "bench ${command%% *} has 80 columns" is_narrow
done <<EOF
local $point --len 8 --batch 1000 --threads 1
net $point --transport unix
sample $point
manage --keys 1000 --warm-up 0 --seconds 0.02 --repeats 1 --policies adaptive,adaptive-replicate
idle --seconds 0.02
intent --keys 100000 --repeats 1
stale --clocks 2 --cells 500 --staleness 0,20
converge mf --data $tmp/matrix --epochs 2 --staleness 0,10
task mf --data $tmp/matrix --epochs 12 --policies adaptive
EOF

finish
