#!/usr/bin/env bash
# `tern bench linear`: every figure has its rows and its picture, and the filters do what they claim; no figure is a time.
. "$(dirname "$0")/lib.sh"

bench() {
    try "$tern" bench linear --json --rows 1000 --features 2000 --repeats 1 --limit 300 --svg "$tmp/figure.svg" "$@"
}

# field NAME SETTING - a figure of a row.
field() {
    grep "\"setting\":\"$2\"" "$out" | sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p"
}

bench --figure kkt --epochs 20
check "the filter of weights is measured" [ "$(wc -l <"$out")" -eq 3 ]
check "it skips most of them" awk -v x="$(field 'skipped_%_after_10' '--kkt 0.1')" 'BEGIN { exit !(x > 60) }'
check "without it none is skipped" [ "$(field 'skipped_%_after_10' '--kkt 1 (no filter)')" = 0 ]
check "the objective is the same" awk -v a="$(field objective '--kkt 0.1')" -v b="$(field objective '--kkt 1 (no filter)')" \
    'BEGIN { d = a / b - 1; exit !(d < 0.002 && d > -0.002) }'
check "a picture is drawn" grep -q '</svg>' "$tmp/figure.svg"

bench --figure bytes --epochs 12 --nodes 2
check "bytes are measured with and without filters" [ "$(wc -l <"$out")" -eq 4 ]
check "the KKT filter saves some" awk -v a="$(field MB_by_workers KKT)" -v b="$(field MB_by_workers none)" 'BEGIN { exit !(a > 0 && a < b) }'

bench --figure objective --epochs 30
check "three ways of dbpg and two of emso, and the baselines that are installed" [ "$(wc -l <"$out")" -ge 5 ]
check "dbpg comes within 1 % of the optimum" awk -v x="$(field 's_to_1%' 'dbpg, 1 thread')" 'BEGIN { exit !(x > 0) }'
check "so it does on two nodes" awk -v x="$(field 's_to_1%' 'dbpg, 2 nodes')" 'BEGIN { exit !(x > 0) }'

bench --figure stragglers
check "late updates are measured: two rules, three updaters, four delays, and the curves" [ "$(wc -l <"$out")" -eq 30 ]
check "without delay all updaters are the same" \
    [ "$(field log_loss 'adaptiverevision, uniform 0 %')" = "$(field log_loss 'asyncadagrad, half-slow 0 %')" ]
check "with delays they are not" \
    [ "$(field log_loss 'adadelay, half-slow 4 %')" != "$(field log_loss 'asyncadagrad, half-slow 4 %')" ]

try "$tern" bench linear --figure nothing
check "an unknown figure is refused" [ "$status" -eq 2 ]
finish
