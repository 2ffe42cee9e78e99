# test_bench.sh - tern bench local: its figures, its table, and output that cannot be written.
. "$(dirname "$0")/lib.sh"

quick='--keys 1000 --len 8 --batch 10 --threads 1 --repeats 1 --seconds-per-point 0.01'

# Every line of $out is one JSON object with a number in field $1.
has_number() {
    ! grep -Evq "^\{(.*,)?\"$1\":[0-9]+(\.[0-9]+)?(,.*)?\}$" "$out"
}

# Every line has one of the words $2 in field $1.
has_word() {
    ! grep -Evq "^\{(.*,)?\"$1\":\"($2)\"(,.*)?\}$" "$out"
}

# The value of field $1 of line $2.
field() {
    sed -n "$2s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

n_lines() {
    [ "$(wc -l <"$out")" -eq "$1" ]
}

# shellcheck disable=SC2086
try "$tern" bench local --json $quick
check 'a quick run succeeds' [ "$status" -eq 0 ]
check 'is silent on stderr' [ ! -s "$err" ]
check 'a line per combination' n_lines 8
for name in len batch threads ns_per_key raw_ns_per_key ratio ratio_min ratio_max repeats keys; do
    check "field $name is a number" has_number $name
done
check 'field bench' has_word bench local
check 'field op' has_word op 'pull|push'
check 'field table' has_word table 'dense|sparse'
check 'field dist' has_word dist 'uniform|zipf'
check 'field raw' has_word raw 'simple|prefetch|far'
check 'fields have the values asked for' \
    [ "$(field len 1) $(field batch 1) $(field threads 1) $(field keys 1)" = '8 10 1 1000' ]
check 'all combinations differ' \
    [ "$(sed 's/,"ns_per_key.*//' "$out" | sort -u | wc -l)" -eq 8 ]
check 'ratio is raw over ours, of figures above 0' \
    awk -v ns="$(field ns_per_key 1)" -v raw="$(field raw_ns_per_key 1)" \
    -v ratio="$(field ratio 1)" \
    'BEGIN { d = raw / ns - ratio; exit !(ns > 0 && raw > 0 && d * d < 1e-4) }'

try "$tern" bench local --json --keys 1 --len 1,3 --batch 7 --threads 3 --repeats 2 --dist zipf \
    --table sparse --op push --seconds-per-point 0.01
check 'one key, odd lengths, three threads' [ "$status" -eq 0 ]
check 'gives its lines' n_lines 2

# shellcheck disable=SC2086
try "$tern" bench local $quick
check 'the table has a heading' grep -q '^  op .* ratio ' "$out"
check 'the table has a row per combination' [ "$(grep -Ec '^  (pull|push) ' "$out")" -eq 8 ]
check 'the table explains the ratio' grep -q 'ratio = raw / Tern' "$out"

# 10^9 rows of 65536 floats are 262 TB.
try "$tern" bench local --keys 1000000000 --len 65536
check 'more memory than there is' [ "$status" -eq 1 ]
check 'says how much it needs' grep -q 'GB' "$err"

to_full() {
    "$tern" "$@" >/dev/full
}
to_closed() {
    "$tern" "$@" >&-
}
complains() {
    [ "$status" -eq 1 ] && [ "$(grep -c 'cannot write to standard output' "$err")" -eq 1 ]
}
for arguments in --help --version 'bench local --help' "bench local --json $quick" \
    "bench local $quick"; do
    # shellcheck disable=SC2086
    try to_full $arguments
    check "full output: tern $arguments" complains
    # shellcheck disable=SC2086
    try to_closed $arguments
    check "closed output: tern $arguments" complains
done

finish
