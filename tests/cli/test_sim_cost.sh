# test_sim_cost.sh - tern sim --cost: its predictions beside real runs, its picture, and what it says when it cannot.
. "$(dirname "$0")/lib.sh"

# The value of field $1 in the line of what $2 about $3 nodes.
field() {
    sed -n "/\"what\":\"$2\",\"nodes\":$3,/s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

is_number() {
    printf '%s\n' "$1" | grep -Eq '^-?[0-9]+(\.[0-9]+)?$'
}

is_usage_error() {
    [ "$status" -eq 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] && grep -qF -- "$1" "$err"
}

# Whether a number is above another one.
above() {
    awk "BEGIN { exit !($1 > $2) }"
}

is_narrow() {
    [ "$(awk '{ print length }' "$out" | sort -n | tail -1)" -le 80 ]
}

quick='--keys 2000 --len 8 --batch 20 --ahead 20 --compute 20 --warm-up 0.02 --seconds 0.05 --repeats 1 --steps 2000'

# shellcheck disable=SC2086
try "$tern" sim --cost --json --nodes 1,2,8 --real 2,3 $quick --svg "$tmp/speed.svg"
check 'succeeds' [ "$status" -eq 0 ]
check 'is silent on stderr' [ ! -s "$err" ]
check 'a line of costs, and one per run' [ "$(wc -l <"$out")" -eq 6 ]
check 'the costs come first' sh -c "head -1 '$out' | grep -q '\"what\":\"costs\".*\"message\":[0-9]'"
for nodes in 2 3; do
    for name in cores steps_s predicted_steps_s time_error bytes_per_step predicted_bytes_per_step bytes_error \
        remote_share predicted_remote_share relay_cores cpu_us_per_step predicted_cpu_us_per_step cpu_error; do
        check "real, $nodes nodes: $name" is_number "$(field $name real $nodes)"
    done
done
for nodes in 1 2 8; do
    for name in steps_s speedup bytes_per_step remote_share messages_per_step rounds_s staleness_ms step_us rounds_us \
        transfer_us wait_us link_mean link_busiest; do
        check "prediction, $nodes nodes: $name" is_number "$(field $name prediction $nodes)"
    done
done
check 'one node sends nothing' [ "$(field bytes_per_step prediction 1)" = 0.0 ]
check 'eight nodes do' above "$(field bytes_per_step prediction 8)" 0
check 'eight nodes are faster than two' above "$(field speedup prediction 8)" "$(field speedup prediction 2)"
check 'no speed-up is above the number of nodes' above 8.01 "$(field speedup prediction 8)"
check 'the picture has a dot for each number' [ "$(grep -c '<circle' "$tmp/speed.svg")" -eq 3 ]

# shellcheck disable=SC2086
try "$tern" sim --cost --nodes 2,70 --real 0 $quick --steps 1 --link 1gbit,0.1ms --policy static --progress
check 'a link and static keys' [ "$status" -eq 0 ]
check 'a table' grep -Eq '^     70 ' "$out"
check 'of 80 columns' is_narrow
check 'with progress' grep -q 'one node' "$err"

# ---- When it cannot ------------------------------------------------------------------------------

try "$tern" sim --cost --nodes 100000
check 'too many nodes' is_usage_error '--nodes'
try "$tern" sim --cost --link fast
check 'a link that is none' is_usage_error 'such as 1gbit'
try "$tern" sim --cost --seeds 3
check 'an option of the other command' is_usage_error '--seeds'
# shellcheck disable=SC2086
try "$tern" sim --cost --real 0 $quick --policy ssp:1
check 'a policy that cannot be predicted' [ "$status" -eq 1 ]
check 'is named' grep -q "'ssp:1'" "$err"
try "$tern" sim --help
check 'tern sim names it' grep -q -- '--cost' "$out"

finish
