# test_bench_task.sh - tern bench task: what it compares, its figures, and what it says when it cannot.
. "$(dirname "$0")/lib.sh"

# Every line of $out has a number, or what $2 matches, in field $1.
has() {
    ! grep -Evq "^\{(.*,)?\"$1\":${2:-[0-9]+(\.[0-9]+)?}(,.*)?\}$" "$out"
}

n_lines() {
    [ "$(wc -l <"$out")" -eq "$1" ]
}

systems() {
    sed 's/.*"system":"\([^"]*\)".*/\1/' "$out" | tr '\n' ' '
}

# The value of field $1 in the line of system $2.
field() {
    sed -n "/\"system\":\"$2\"/s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$out"
}

number='(null|[0-9]+(\.[0-9]+)?)'
two="\[$number,$number\]"

# ---- Matrix factorization: all fields ----------------------------------------------------------

"$tern" data zipf-matrix "$tmp/matrix" --rows 300 --columns 60 --cells 5000
try "$tern" bench task mf --data "$tmp/matrix" --json --epochs 2 --repeats 2 --policies adaptive,static \
    -- --rank 4
check 'mf: succeeds' [ "$status" -eq 0 ]
check 'mf: is silent on stderr' [ ! -s "$err" ]
check 'mf: a line per way, plain first' [ "$(systems)" = 'plain one-node adaptive static ' ]
for name in nodes threads epochs repeats seconds_per_epoch speed speed_min speed_max cpu_speed remote_share; do
    check "mf: field $name is a number" has $name
done
for name in epoch_quality epoch_seconds epoch_bytes epoch_remote_share epoch_staleness_ms; do
    check "mf: field $name has a value for each epoch" has $name "$two"
done
check 'mf: the quality is an RMSE' has measure '"RMSE"'
check 'mf: the time to 90 % is told' has seconds_to_90 "$number"
check 'mf: plain arrays are the measure' [ "$(field speed plain)" = 1.0000 ]
check 'mf: plain is one process with two threads' [ "$(field nodes plain) $(field threads plain)" = '1 2' ]
check 'mf: a policy is two nodes with one' [ "$(field nodes static) $(field threads static)" = '2 1' ]
check 'mf: plain arrays have nothing remote' [ "$(field remote_share plain)" = 0.0000000 ]
check 'mf: under static half of the columns are' [ "$(field remote_share static)" != 0.0000000 ]

# ---- The others, as tables ---------------------------------------------------------------------

awk 'BEGIN { for (i = 0; i < 400; i++) printf "e%d\tr%d\te%d\n", i % 50, i % 3, (i * 7 + i % 3) % 50 }' \
    >"$tmp/facts"
try "$tern" bench task kge --data "$tmp/facts,$tmp/facts" --epochs 1 --policies adaptive -- --dim 8 \
    --negatives 10
check 'kge: succeeds' [ "$status" -eq 0 ]
check 'kge: the table has a row per way' [ "$(grep -Ec '^  (plain|one-node|adaptive) ' "$out")" -eq 3 ]
check 'kge: the goal is told' grep -q 'a MRR of 0\.[0-9]' "$out"

awk 'BEGIN { for (i = 0; i < 3000; i++) printf "w%d%s", (i * i) % 37, i % 20 == 19 ? "\n" : " " }' \
    >"$tmp/text"
try "$tern" bench task wordvec --data "$tmp/text" --epochs 1 --policies adaptive --json -- --dim 8
check 'wordvec: succeeds' [ "$status" -eq 0 ]
check 'wordvec: without a test the loss counts' has measure '"loss"'
check 'wordvec: a line per way' n_lines 3

# ---- When it cannot ----------------------------------------------------------------------------

try "$tern" bench task
check 'no model is a mistake' [ "$status" -eq 2 ]
try "$tern" bench task tree
check 'so is an unknown one' [ "$status" -eq 2 ]
check 'and the models are named' grep -q 'kge, wordvec or mf' "$err"
try "$tern" bench task wordvce
check 'a misspelt one is suggested' grep -q "did you mean 'wordvec'" "$err"
try "$tern" bench task mf --data "$tmp/nowhere"
check 'no data: a failure' [ "$status" -eq 1 ]
check 'no data: the path is named' grep -q "$tmp/nowhere" "$err"
try "$tern" bench task mf --data "$tmp/matrix" --epochs 1 --policies nonsense
check 'an unknown policy: a failure' [ "$status" -eq 1 ]
check 'an unknown policy: it is named' grep -q "under 'nonsense' failed" "$err"
try "$tern" bench task mf --data "$tmp/matrix" --epochs 1 -- --colour red
check 'an unknown option of the model: a failure' [ "$status" -eq 1 ]
check 'an unknown option of the model: it is named' grep -q -- "no option '--colour'" "$err"
try "$tern" bench task mf --data "$tmp/matrix" --limit 1 --epochs 2 -- --epochs 1000000
check 'a training that takes too long is ended' [ "$status" -eq 1 ]
check 'and it is said why' grep -q 'longer than 1 s; --limit' "$err"

finish
