# test_trace.sh - the trace of keys that come and go tells what happened, as the statistics of the table
# do; `tern trace` draws it; tern_why names one owner for each key.
. "$(dirname "$0")/lib.sh"

steps=1000
$quick && steps=300

# trace NODES POLICY [KEY...]: the nodes, given by their numbers, leave their traces in $tmp/life.K.
trace() {
    nodes=$1 policy=$2
    n_nodes=$(echo "$nodes" | wc -w)
    shift 2
    rm -f "$tmp"/life.* "$tmp"/life-closed.*
    new_unix
    for i in $nodes; do
        start "$i" "$n_nodes" "$programs/trace" "$tmp/life" $steps 20 "$policy" "$@"
    done
    # shellcheck disable=SC2086
    collect $nodes
}

nothing_wrong() {
    case " $statuses " in *' '[1-9]*) return 1 ;; esac
    [ "$(grep -c ', 0 wrong' "$out")" -eq "$n_nodes" ] && [ ! -s "$err" ]
}

# The changes in a node's file, in the words of what the program printed.
count_changes() {
    awk '!/^#/ {
        had = state[$3]
        if ($4 == "intent" || $4 == "idle")
            next
        came += had != "" && $4 == "main"
        left += had == "main" && $4 == "none"
        made += had != "" && $4 == "replica"
        ended += had == "replica" && $4 != "replica"
        state[$3] = $4
    }
    END { printf "came %d, left %d, made %d, ended %d, 0 wrong\n", came, left, made, ended }' "$1"
}

agrees_with_statistics() {
    for k in $nodes; do
        [ "$(count_changes "$tmp/life.$k")" = "$(cat "$tmp/$k.out")" ] || return 1
    done
}

# No key has two main copies at any time, and at the end each has one.
has_one_main_copy() {
    cat "$tmp"/life.* | grep -v '^#' | LC_ALL=C sort -s -k1,1n | awk '
    $4 == "intent" || $4 == "idle" { next }
    {
        was = state[$2, $3] == "main"
        is = $4 == "main"
        state[$2, $3] = $4
        mains[$3] += is - was
        wrong += mains[$3] > 1
        n++
    }
    END {
        for (key in mains)
            wrong += mains[key] != 1
        exit wrong > 0 || n == 0
    }'
}

# Every intent that begins is over at the end, and they take turns.
intents_take_turns() {
    awk '$4 == "intent" { wrong += on[$3]++; n++ }
         $4 == "idle" { wrong += !on[$3]; on[$3] = 0 }
         END { for (key in on) wrong += on[key]; exit wrong > 0 || n == 0 }' "$1"
}

all_intents_take_turns() {
    for k in $nodes; do
        intents_take_turns "$tmp/life.$k" || return 1
    done
}

for policy in adaptive adaptive-replicate adaptive-relocate adaptive-at-once; do
    trace '0 1 2 3' $policy
    check "$policy: one owner for each key, by tern_why" nothing_wrong
    check "$policy: the trace agrees with the statistics" agrees_with_statistics
    check "$policy: the trace has one main copy of each key at any time" has_one_main_copy
    check "$policy: intents begin and end in turns" all_intents_take_turns
    check "$policy: a table closed while it is traced completes its file" \
        [ "$(cat "$tmp"/life-closed.* | grep -c '^# end ')" -eq 4 ]
done

trace '0 1 2' static 1 2
check 'static: the places are told' nothing_wrong
check 'static: only the places are written' [ "$(cat "$tmp"/life.* | grep -c main)" -eq 2 ]
TERN_SHARE=1
trace '0 1 2' adaptive 1 2
TERN_SHARE=0
check 'adaptive: that all share the rows is told' nothing_wrong
check 'adaptive: every node has them' [ "$(cat "$tmp"/life.* | grep -c main)" -eq 6 ]

# ---- A disk that is full -----------------------------------------------------------------------------

says_full() {
    [ "$statuses" = '1 1' ] &&
        [ "$(grep -c "trace file '.*/full.[01]' could not be written: No space left" "$err")" -eq 2 ]
}

if [ -c /dev/full ]; then
    new_unix
    for i in 0 1; do
        ln -s /dev/full "$tmp/full.$i"
        start $i 2 "$programs/trace" "$tmp/full" $steps 20 adaptive
    done
    collect 0 1
    check 'a full disk is reported when the trace is stopped' says_full
fi

# ---- tern trace -------------------------------------------------------------------------------------

is_svg() {
    [ $status -eq 0 ] && grep -q '^<svg ' "$1" && [ "$(tail -1 "$1")" = '</svg>' ] &&
        [ "$(grep -c 'class="key" x="78" y="[0-9]*">key ' "$1")" -eq "$2" ] &&
        grep -q 'class="main" d="M' "$1" && grep -q 'class="replica" d="M' "$1" &&
        grep -q 'class="intent" d="M' "$1" &&
        { ! command -v xmllint >/dev/null || xmllint --noout "$1"; }
}

fails_with() {
    [ $status -eq "$1" ] && grep -q "$2" "$err" && [ ! -s "$out" ]
}

# Times in the figures are at most those of the trace, and a node with intent mostly had what it wanted.
figures_make_sense() {
    [ $status -eq 0 ] && [ "$(wc -l <"$out")" -eq 12 ] && tr ',:{}' '    ' <"$out" | awk '{
        for (i = 1; i < NF; i++)
            value[$i] = $(i + 1)
        wrong += value["\"local_s\""] > value["\"intent_s\""] + 1e-6
        intent += value["\"intent_s\""]
        here += value["\"local_s\""]
    } END { exit wrong > 0 || intent <= 0 || here <= 0 }'
}

trace '0 1 2 3' adaptive 0 4 20
try "$tern" trace "$tmp"/life.[0-3]
check 'the picture of four nodes' is_svg "$out" 3
try "$tern" trace "$tmp"/life.[0-3] -o "$tmp/life.svg"
check 'the picture in a file' is_svg "$tmp/life.svg" 3
try "$tern" trace --json "$tmp"/life.[0-3]
check 'figures' figures_make_sense
try "$tern" trace
check 'no file' fails_with 2 'needs the files'
try "$tern" trace "$tmp/missing"
check 'a file that is not there' fails_with 1 'cannot read .*missing'
try "$tern" trace "$tmp/life.0" "$tmp/life.0"
check 'a node twice' fails_with 1 'both of node 0'
sed 's/table life/table other/' "$tmp/life.1" >"$tmp/other.1"
try "$tern" trace "$tmp/life.0" "$tmp/other.1"
check 'two tables' fails_with 1 "of table 'other'"
try "$tern" trace "$tern"
check 'a file that is no trace' fails_with 1 'is not a trace'
: >"$tmp/empty"
try "$tern" trace "$tmp/empty"
check 'an empty file' fails_with 1 'is empty'
for line in 'x 0 1 main' '1 0 1 mani' '1 0 1' '1 9 1 main' '-1 0 1 main' '1 0 18446744073709551616 main' ''; do
    { head -1 "$tmp/life.0" && echo "$line"; } >"$tmp/bad"
    try "$tern" trace "$tmp/bad"
    check "the line '$line'" fails_with 1 'bad, line 2'
done
head -1 "$tmp/life.0" >"$tmp/cut"
try "$tern" trace "$tmp/cut"
check 'a trace without lines' [ $status -eq 0 ]
{ head -1 "$tmp/life.0" && printf '0 0 1 main\n18446744073709551615 0 1 none\n'; } >"$tmp/long"
try "$tern" trace "$tmp/long"
check 'a trace of all time' [ $status -eq 0 ]
try "$tern" trace "$tmp/life.0" -o "$tmp/no/where.svg"
check 'a picture that cannot be written' fails_with 1 'cannot write .*no/where.svg'
finish
