# test_bench_sample.sh - tern bench sample: its figures, its tables, and what they say of each level.
. "$(dirname "$0")/lib.sh"

quick='--keys 20000 --len 4 --ahead 5 --repeats 1 --seconds-per-point 0.1'

# Every line of $out is one JSON object with a number in field $1.
has_number() {
    ! grep -Evq "^\{(.*,)?\"$1\":[0-9]+(\.[0-9]+)?(,.*)?\}$" "$out"
}

# Every line has one of the words $2 in field $1.
has_word() {
    ! grep -Evq "^\{(.*,)?\"$1\":\"($2)\"(,.*)?\}$" "$out"
}

# The value of field $1 of the line of level or target $2.
field() {
    sed -n "/:\"$2\"/s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

n_lines() {
    [ "$(wc -l <"$out")" -eq "$1" ]
}

# shellcheck disable=SC2086
try "$tern" bench sample --json --part draw $quick
check 'drawing succeeds' [ "$status" -eq 0 ]
check 'is silent on stderr' [ ! -s "$err" ]
check 'a line per target' n_lines 2
check 'field target' has_word target 'uniform|alias'
for name in keys batch ns_per_key raw_ns_per_key ratio repeats; do
    check "field $name is a number" has_number $name
done

for policy in static replicate; do
    # shellcheck disable=SC2086
    try "$tern" bench sample --json --part mix --policy $policy $quick
    check "$policy: the mix succeeds" [ "$status" -eq 0 ]
    check "$policy: is silent on stderr" [ ! -s "$err" ]
    check "$policy: a line per level" n_lines 4
    check "$policy: field level" has_word level 'CONFORM|BOUNDED|LONG_TERM|NON_CONFORM'
    check "$policy: field policy" has_word policy $policy
    for name in nodes keys len ahead accesses_s speed_to_conform remote_share bytes_per_access \
        sampled_remote_share sampled_bytes_per_access repeats; do
        check "$policy: field $name is a number" has_number $name
    done
    check "$policy: NON_CONFORM is local" [ "$(field sampled_remote_share NON_CONFORM)" = 0.000000 ]
done

# shellcheck disable=SC2086
try "$tern" bench sample --json --part mix --policy static --level BOUNDED $quick
check 'levels can be chosen' n_lines 1
check 'without CONFORM there is nothing to compare with' [ "$(field speed_to_conform BOUNDED)" = null ]

# shellcheck disable=SC2086
try "$tern" bench sample --policy static $quick
check 'the tables have headings' [ "$(grep -c '^  \(target\|level\) ' "$out")" -eq 2 ]
check 'the tables have a row each' \
    [ "$(grep -Ec '^  (uniform|alias|CONFORM|BOUNDED|LONG_TERM|NON_CONFORM) ' "$out")" -eq 6 ]

try "$tern" bench sample --part mix --policy nonsense --keys 1000 --repeats 1 --seconds-per-point 0.01
check 'an unknown policy is a failure' [ "$status" -eq 1 ]
check 'and is named' grep -q "no policy 'nonsense'" "$err"
for policy in bsp ssp:2 essp:1; do
    try "$tern" bench sample --policy $policy
    check "$policy is a mistake" [ "$status" -eq 2 ]
    check "and $policy is refused before anything is measured" \
        [ "$(wc -c <"$out"),$(grep -c -- "--policy $policy;" "$err")" = 0,1 ]
done
try "$tern" bench sample --level SUPERB
check 'an unknown level is a mistake' [ "$status" -eq 2 ]

finish
