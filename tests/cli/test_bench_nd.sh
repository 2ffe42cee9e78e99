# test_bench_nd.sh - tern bench nd: its table, its figures, and what holds on any machine.
. "$(dirname "$0")/lib.sh"

has_number() {
    grep -qE "\"$1\":[0-9]" "$out"
}
n_lines() {
    [ "$(wc -l <"$out")" -eq "$1" ]
}

try "$tern" bench nd --repeats 1 --elements 10000
check 'bench nd succeeds' [ "$status" -eq 0 ]
check 'bench nd: the table has at most 80 columns' [ "$(awk '{ print length }' "$out" | sort -n | tail -1)" -le 80 ]
check 'bench nd: every network is planned' [ "$(grep -cE '^(alexnet|googlenet|vgg-16|resnet-152) +training' "$out")" -eq 4 ]

try "$tern" bench nd --json --repeats 1 --elements 10000
check 'bench nd --json succeeds' [ "$status" -eq 0 ]
check 'bench nd --json gives one line' n_lines 1
for name in step_ms arena_bytes fma_ms loop_ms operation_ns parameter_bytes plan_ms; do
    check "bench nd: field $name is a number" has_number $name
done
check 'bench nd: steps of training leave nothing allocated' [ "$(grep -o '"grown_bytes":0' "$out" | wc -l)" -eq 2 ]

# Plans depend on the code alone: training takes at most half, predicting a quarter, of one piece of memory per value.
ratios() {
    grep -o "\"$1\":{[^}]*" "$out" | grep -o '"ratio":[0-9.]*' | cut -d: -f2
}
# at_least LEAST N: N numbers come in, none below LEAST.
at_least() {
    awk -v least="$1" -v n="$2" '$1 < least { bad = 1 } END { exit bad || NR != n }'
}
training_ratios() { ratios training | at_least 2.0 4; }
predicting_ratios() { ratios predicting | at_least 4.0 4; }
over_alive() {
    grep -o '"over_alive":[0-9.]*' "$out" | cut -d: -f2 | awk '$1 > 1.15 { bad = 1 } END { exit bad || NR != 8 }'
}
check 'bench nd: plans take at most 1.15 of the bytes alive' over_alive
check 'bench nd: training takes at most half the memory' training_ratios
check 'bench nd: predicting takes at most a quarter of the memory' predicting_ratios

try env TERN_ND_LIBRARY=/nowhere/libternnd.so "$tern" bench nd
check 'bench nd names the library that is missing' grep -q '/nowhere/libternnd.so' "$err"
finish
