# test_bench_net.sh - the benches of clusters, tern bench net, idle, intent and manage: their figures, and
# what they leave behind.
. "$(dirname "$0")/lib.sh"

export TMPDIR="$tmp"
quick='--keys 2000 --repeats 2 --seconds-per-point 0.01'

# Every line of $out is one JSON object with a number in field $1.
has_number() {
    ! grep -Evq "^\{(.*,)?\"$1\":[0-9]+(\.[0-9]+)?(,.*)?\}$" "$out"
}

# Every line has one of the words $2 in field $1.
has_word() {
    ! grep -Evq "^\{(.*,)?\"$1\":\"($2)\"(,.*)?\}$" "$out"
}

# The value of field $1 of the line with operation $2.
field() {
    sed -n "/\"op\":\"$2\"/s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

n_lines() {
    [ "$(wc -l <"$out")" -eq "$1" ]
}

nothing_left() {
    [ -z "$(find "$tmp" -name 'tern-*')" ]
}

# shellcheck disable=SC2086
try "$tern" bench net --json $quick
check 'a quick run succeeds' [ "$status" -eq 0 ]
check 'is silent on stderr' [ ! -s "$err" ]
check 'a line per operation and transport' n_lines 21
for name in len value raw ratio ratio_min ratio_max repeats keys; do
    check "field $name is a number" has_number $name
done
check 'field bench' has_word bench net
check 'field op' has_word op \
    'pull1_p50|pull1_p99|push1_rate|pull_bulk|push_bulk|pull_len1|push_len1'
check 'field transport' has_word transport 'tcp|unix|tls'
check 'field unit' has_word unit 'us|pushes/s|MB/s|keys/s'
check 'all lines differ' [ "$(sed 's/,"value.*//' "$out" | sort -u | wc -l)" -eq 21 ]
check 'sockets and certificates are gone' nothing_left

# shellcheck disable=SC2086
try "$tern" bench net --json --transport unix --op pull1_p50,push1_rate --sorted $quick
check 'operations and transports can be chosen' n_lines 2
check 'the ratio of a time is raw over ours' \
    awk -v value="$(field value pull1_p50)" -v raw="$(field raw pull1_p50)" \
    -v ratio="$(field ratio pull1_p50)" \
    'BEGIN { d = raw / value - ratio; exit !(value > 0 && raw > 0 && d * d < 1e-4) }'
check 'the ratio of a rate is ours over raw' \
    awk -v value="$(field value push1_rate)" -v raw="$(field raw push1_rate)" \
    -v ratio="$(field ratio push1_rate)" \
    'BEGIN { d = value / raw - ratio; exit !(value > 0 && raw > 0 && d * d < 1e-4) }'

# shellcheck disable=SC2086
try "$tern" bench net --transport tcp --op pull1_p50,pull_len1 $quick
check 'the table has a heading' grep -q '^  over .* ratio ' "$out"
check 'the table has a row per operation' [ "$(grep -c '^  tcp ' "$out")" -eq 2 ]
check 'the table explains the ratio' grep -q 'At a ratio of 1 Tern costs no more' "$out"

try "$tern" bench net --transport carrier-pigeon
check 'an unknown transport is a mistake' [ "$status" -eq 2 ]

try "$tern" bench idle --json --nodes 3 --seconds 0.2
check 'bench idle succeeds' [ "$status" -eq 0 ]
check 'bench idle gives one line' n_lines 1
check 'bench idle: field bench' has_word bench idle
for name in nodes seconds cpu_ms percent; do
    check "bench idle: field $name is a number" has_number $name
done

try "$tern" bench survive --json --nodes 3 --keys 20000 --kills 1 --seconds 0.2 --disk "$tmp"
check 'bench survive succeeds' [ "$status" -eq 0 ]
check 'bench survive gives one line' n_lines 1
check 'bench survive: field bench' has_word bench survive
for name in nodes keys length kills wait_ms wait_ms_max bytes_ratio memory_ratio keys_per_s throughput_ratio \
    checkpoint_mb checkpoint_mb_per_s plain_mb_per_s disk_ratio pause_ms working_ratio copied_ratio; do
    check "bench survive: field $name is a number" has_number $name
done

try "$tern" bench idle --nodes 1 --seconds 0.05
check 'bench idle in words' grep -q '1 idle nodes took .* % of one core' "$out"

# With many keys what they take is far more than what the allocator has left over from before.
try "$tern" bench intent --json --keys 1000000 --repeats 1
check 'bench intent succeeds' [ "$status" -eq 0 ]
check 'bench intent gives one line' n_lines 1
for name in keys ns_per_key raw_ns_per_key waiting_bytes_per_key active_bytes_per_key; do
    check "bench intent: field $name is a number" has_number $name
done
check 'bench intent: intents that are acted on take memory' \
    [ "$(sed -n 's/.*"active_bytes_per_key":\([0-9]*\).*/\1/p' "$out")" -ge 8 ]

try "$tern" bench manage --json --keys 5000 --length 4 --repeats 1 --warm-up 0.1 --seconds 0.1 \
    --policies adaptive,multi --dists zipf,local
check 'bench manage succeeds' [ "$status" -eq 0 ]
check 'bench manage gives a line for each policy and draw' n_lines 4
for name in accesses_s single_node_accesses_s ratio remote_share bytes_per_access staleness_ms_mean \
    staleness_ms_p99; do
    check "bench manage: field $name is a number" has_number $name
done
try "$tern" bench manage --json --keys 5000 --length 4 --repeats 1 --warm-up 0.1 --seconds 0.1 \
    --policies static,multi --staleness 40
check 'bench manage --staleness is for policies that have replicas' n_lines 2
check 'nothing is left behind' nothing_left

finish
