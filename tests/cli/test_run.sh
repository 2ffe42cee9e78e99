# test_run.sh - tern run: every node runs in its place, what they print arrives whole, and nothing is
# left behind however the run ends.
#
# shellcheck disable=SC2016
. "$(dirname "$0")/lib.sh"

# The folder of a run's sockets is made here; each run must remove it.
TMPDIR=$tmp/sockets
export TMPDIR
mkdir "$TMPDIR"
pids=$tmp/pids

is_usage_error() {
    [ "$status" -eq 2 ] && [ ! -s "$out" ] && [ "$(wc -l <"$err")" -eq 1 ] || return 1
    for word in "$@"; do
        grep -qF -- "$word" "$err" || return 1
    done
}

no_folder_left() {
    [ -z "$(ls -A "$TMPDIR")" ]
}

# $pids holds N numbers or more, and none of them is a process any more.
all_gone() {
    [ "$(wc -l <"$pids")" -ge "$1" ] || return 1
    while read -r pid; do
        is_gone "$pid" || return 1
    done <"$pids"
}

has_lines() {
    [ "$(wc -l <"$2")" -ge "$1" ]
}

# A node that writes down itself and a process it starts, then waits.
cat >"$tmp/sleeper" <<END
#!/bin/sh
sleep 1000 &
printf '%s\n%s\n' \$\$ \$! >>'$pids'
wait
END

# The same, but deaf to SIGTERM.
cat >"$tmp/stubborn" <<END
#!/bin/sh
trap '' TERM
sleep 1000 &
printf '%s\n%s\n' \$\$ \$! >>'$pids'
wait
END
chmod +x "$tmp/sleeper" "$tmp/stubborn"

# ---- Every node runs -----------------------------------------------------------------------------

try "$tern" run -n 3 sh -c 'echo node $TERN_NODE of $TERN_NODES; echo trouble $TERN_NODE >&2'
check 'three nodes run' [ "$status" -eq 0 ]
printf '[%d] node %d of 3\n' 0 0 1 1 2 2 >"$tmp/wanted"
sort "$out" >"$tmp/sorted"
check 'each line has its prefix' cmp "$tmp/wanted" "$tmp/sorted"
printf '[%d] trouble %d\n' 0 0 1 1 2 2 >"$tmp/wanted"
sort "$err" >"$tmp/sorted"
check 'errors go to standard error' cmp "$tmp/wanted" "$tmp/sorted"
check 'the folder is removed' no_folder_left

try "$tern" run -n16 -- sh -c 'echo $TERN_NODE'
seq 0 15 | sed 's/.*/[&] &/' >"$tmp/wanted"
sort -t ' ' -k 2n "$out" >"$tmp/sorted"
check 'sixteen nodes run' cmp "$tmp/wanted" "$tmp/sorted"

try "$tern" run --nodes=2 --no-prefix sh -c 'echo $TERN_NODE'
printf '0\n1\n' >"$tmp/wanted"
sort "$out" >"$tmp/sorted"
check '--no-prefix leaves lines alone' cmp "$tmp/wanted" "$tmp/sorted"

try "$tern" run sh -c 'echo $TERN_NODES "$@"' name -n 7 -- --tcp 'a  b'
printf '[0] 1 -n 7 -- --tcp a  b\n' >"$tmp/wanted"
check "the program's arguments are its own" cmp "$tmp/wanted" "$out"

# ---- The environment -----------------------------------------------------------------------------

TERN_NODE=9 TERN_LISTEN=0.0.0.0:1 TERN_TOKEN=old TERN_DEADLINE=7 \
    try "$tern" run -n 2 --no-prefix sh -c '
    echo "$TERN_COORDINATOR" "$TERN_TOKEN" "${TERN_LISTEN-none}" "$TERN_DEADLINE" \
        "$(stat -c %a "$(dirname "${TERN_COORDINATOR#unix:}")")"'
check 'both nodes have one coordinator and one token' [ "$(sort -u "$out" | wc -l)" -eq 1 ]
check 'the coordinator is in a private folder' \
    grep -Eq "^unix:$TMPDIR/[^ ]+ run-[0-9a-f]{32} none 7 700\$" "$out"

try "$tern" run --tcp --deadline 0.5 sh -c 'echo "$TERN_COORDINATOR" "$TERN_DEADLINE"'
check '--tcp and --deadline' grep -Eq '^\[0\] 127\.0\.0\.1:[1-9][0-9]* 0\.5$' "$out"

echo hello >"$tmp/input"
"$tern" run -n 3 cat <"$tmp/input" >"$out" 2>"$err"
status=$?
echo '[0] hello' >"$tmp/wanted"
check 'node 0 alone reads the input' cmp "$tmp/wanted" "$out"

# On a terminal, which `script` (bsdutils) makes. The shell keeps the terminal open a while.
if command -v script >/dev/null 2>&1; then
    { echo typed && sleep "$(paced 1)"; } | NO_COLOR=1 timeout 60 script -qec \
        "'$tern' run -n 2 sh -c 'read word; echo got \$word on \$TERN_NODE'" /dev/null >"$out" 2>"$err"
    check 'what is typed reaches node 0' grep -q '^\[0\] got typed on 0' "$out"
    check 'and no other' grep -q '^\[1\] got on 1' "$out"
fi

# ---- Output --------------------------------------------------------------------------------------

# Too much to be shown when a test fails, so not in $out.
big=$tmp/big

# Three lines of a megabyte, each of another letter, and a short one, for the node $1.
cat >"$tmp/long" <<'END'
#!/bin/sh
for letter in a b c; do
    head -c 1000000 /dev/zero | tr '\0' "$letter"
    echo "$1"
done
echo "end $1"
END
cat >"$tmp/longest" <<'END'
#!/bin/sh
head -c 9000000 /dev/zero | tr '\0' "$1"
echo
END
chmod +x "$tmp/long" "$tmp/longest"

same_as_alone() {
    for node in 0 1 2 3; do
        "$tmp/long" $node >"$tmp/wanted"
        sed -n "s/^\[$node\] //p" "$big" | cmp - "$tmp/wanted" || return 1
    done
    [ "$(wc -l <"$big")" -eq 16 ]
}
"$tern" run -n 4 sh -c '"$0" $TERN_NODE' "$tmp/long" >"$big"
check 'lines of a megabyte are whole' same_as_alone
"$tern" run -n 4 sh -c '"$0" $TERN_NODE; "$0" $TERN_NODE | sed "s/^/error /" >&2' "$tmp/long" \
    >"$tmp/both" 2>&1
sed '/^\[[0-3]\] error /d' "$tmp/both" >"$big"
check 'also when errors go to the same file' same_as_alone
sed -n 's/^\(\[[0-3]\] \)error /\1/p' "$tmp/both" >"$big"
check 'and so are the errors' same_as_alone

"$tern" run -n 1 "$tmp/longest" x >"$big"
{ printf '[0] ' && "$tmp/longest" x; } >"$tmp/wanted"
check 'a line of nine megabytes is whole' cmp "$tmp/wanted" "$big"

joined_is_whole() {
    for node in 0 1 2; do
        "$tmp/longest" $node | tr -d '\n' >"$tmp/wanted"
        sed -n "s/^\[$node\] //p" "$big" | tr -d '\n' | cmp - "$tmp/wanted" || return 1
    done
    ! sed 's/\(....\).*/\1/' "$big" | grep -qv '^\[[0-2]\] $'
}
"$tern" run -n 3 sh -c '"$0" $TERN_NODE' "$tmp/longest" >"$big"
check 'nothing is lost of several such lines, and none is mixed' joined_is_whole

try "$tern" run -n 1 printf 'one\n\ntwo\0\377'
printf '[0] one\n[0] \n[0] two\0\377' >"$tmp/wanted"
check 'any bytes, and a last line without an end' cmp "$tmp/wanted" "$out"

try "$tern" run -n 2 sh -c 'printf $TERN_NODE'
printf '[%d] %d\n' 0 0 1 1 >"$tmp/wanted"
{ sort "$out" && echo; } | sed '/^$/d' >"$tmp/sorted"
check 'lines without an end do not run together' cmp "$tmp/wanted" "$tmp/sorted"

: >"$pids"
{
    # Both say who they are before the first line can end the run.
    "$tern" run -n 2 sh -c 'echo $$ >>"$0"
        until [ "$(wc -l <"$0")" -eq 2 ]; do sleep 0.01; done
        exec yes' "$pids" 2>"$err"
    echo $? >"$tmp/status"
} | head -n 1 >"$out"
status=$(cat "$tmp/status")
check 'a closed output fails the run' [ "$status" -eq 1 ]
check 'and says so' grep -q 'standard output' "$err"
check 'and ends the nodes' soon all_gone 2

try "$tern" run sh -c 'sleep 1000 & echo $! >"$0"' "$pids"
check 'a process left behind by a good node does not hold up the run' [ "$status" -eq 0 ]
check 'and lives on' [ -e "/proc/$(cat "$pids")" ]
kill "$(cat "$pids")"

# ---- Failure -------------------------------------------------------------------------------------

: >"$pids"
try "$tern" run -n 3 sh -c '
    [ $TERN_NODE != 1 ] || { echo cause >&2; until [ "$(wc -l <"$1")" -ge 4 ]; do sleep 0.1; done; exit 3; }
    exec "$0"' "$tmp/sleeper" "$pids"
check 'a node that fails fails the run' [ "$status" -eq 1 ]
check 'it is named' \
    grep -Eq '^tern: node 1 \(pid [0-9]+\) exited with status 3; ending the others$' "$err"
check 'after what it said' [ "$(head -n 1 "$err")" = '[1] cause' ]
check 'the others and what they started are ended' soon all_gone 4
check 'the folder is removed after a failure' no_folder_left

# The node's number, the signal and its name.
: >"$pids"
"$tern" run -n 3 sh -c 'echo $$ >"$1.$TERN_NODE"; exec "$0"' "$tmp/sleeper" "$pids" >"$out" 2>"$err" &
run=$!
soon has_lines 6 "$pids"
victim=$(cat "$pids.2")
kill -9 "$victim"
wait $run
status=$?
check 'kill -9 of a node fails the run' [ "$status" -eq 1 ]
check 'the node, its process and the signal are named' [ "$(cat "$err")" = \
    "tern: node 2 (pid $victim) was killed by signal 9 (Killed); ending the others" ]
check 'nothing is left of the other nodes' soon all_gone 6

: >"$pids"
try "$tern" run -n 3 sh -c '
    [ $TERN_NODE != 0 ] || { until [ "$(wc -l <"$1")" -ge 4 ]; do sleep 0.1; done; exit 1; }
    exec "$0"' "$tmp/stubborn" "$pids"
check 'nodes that ignore SIGTERM are killed' all_gone 4

try "$tern" run -n 3 sh -c '[ $TERN_NODE = 2 ] || exit 0; sleep 0.5; echo still here'
check 'nodes may end at different times' [ "$status$(cat "$out")" = '0[2] still here' ]

try "$tern" run -n 2 "$tmp/missing" argument
check 'a program that is not there' [ "$status" -eq 1 ]
check 'is named with the reason' grep -q "cannot execute '$tmp/missing': No such file" "$err"
try "$tern" run -n 2 "$tmp/input"
check 'so is one that is no program' grep -q "cannot execute '$tmp/input': Permission denied" "$err"
check 'the folder is removed then, too' no_folder_left

TMPDIR=$tmp/nowhere try "$tern" run true
check 'a folder that cannot be made fails the run' [ "$status" -eq 1 ]
check 'and is named' grep -q "$tmp/nowhere" "$err"

TMPDIR=relative try "$tern" run sh -c 'cd / && test -d "$(dirname "${TERN_COORDINATOR#unix:}")"'
check 'the folder is found from everywhere' [ "$status" -eq 0 ]

# Closed descriptors are not those of something else.
timeout 60 "$tern" run -n 2 echo lost >&- 2>"$err"
check 'a closed output fails the run' [ $? -eq 1 ]
check 'and is blamed' grep -q 'cannot write to standard output' "$err"
timeout 60 "$tern" run -n 2 sh -c 'echo here; echo lost >&2' >"$out" 2>&-
check 'closed errors do not' [ $? -eq 0 ]
check 'and the output is whole' [ "$(grep -c here "$out")" -eq 2 ]

# ---- Signals -------------------------------------------------------------------------------------

# interrupted SIGNAL PROGRAM: sends the signal once three nodes are up.
interrupted() {
    : >"$pids"
    # A shell starts what runs in the background deaf to SIGINT; env undoes that.
    env --default-signal=INT "$tern" run -n 3 "$2" >"$out" 2>"$err" &
    run=$!
    soon has_lines 6 "$pids"
    kill "-$1" $run
    wait $run
    status=$?
}

interrupted INT "$tmp/sleeper"
check 'Ctrl-C ends the run' [ "$status" -eq 130 ]
check 'and all nodes' soon all_gone 6
check 'and says so' grep -q 'signal 2 (Interrupt); ending the nodes' "$err"
interrupted TERM "$tmp/stubborn"
check 'SIGTERM ends the run' [ "$status" -eq 143 ]
check 'and even stubborn nodes' soon all_gone 6
check 'the folder is removed after a signal' no_folder_left
interrupted KILL "$tmp/stubborn"
check 'kill -9 of tern run leaves no process behind' soon all_gone 6
check 'nor a folder' soon no_folder_left

mkfifo "$tmp/fifo"
exec 9<>"$tmp/fifo"
timeout 60 "$tern" run -n 2 yes >"$tmp/fifo" 2>"$err" 9>&- &
run=$!
sleep 0.5
kill -TERM $run
wait $run
status=$?
exec 9>&-
check 'a reader that does not read does not hold up the end' [ "$status" -eq 143 ]
check 'no folder is left' no_folder_left

# ---- --survive -----------------------------------------------------------------------------------

try timeout 60 "$tern" run -n 3 --survive -- sh -c '[ $TERN_NODE -ne 1 ] || kill -KILL $$; sleep 0.3; echo done'
check '--survive: the others continue' \
    sh -c "[ $status -eq 0 ] && [ \$(grep -c done '$out') -eq 2 ] && grep -q 'node 1 .*signal 9.*; the others continue' '$err'"
try timeout 60 "$tern" run -n 3 --survive -- sh -c '[ $TERN_NODE -ne 0 ] || exit 3; sleep 30'
check '--survive: not without node 0' sh -c "[ $status -eq 1 ] && grep -q 'node 0 .*status 3; ending' '$err'"

# ---- The command line ----------------------------------------------------------------------------

try "$tern" run --help
check 'tern run --help explains itself' grep -q 'tern run \[OPTION\]... \[--\] PROGRAM' "$out"
try "$tern" run
check 'no program' is_usage_error 'which program'
try "$tern" run -n 2 --
check 'no program after --' is_usage_error 'which program'
for n in 0 1025 -1 x 2x ''; do
    try "$tern" run -n "$n" true
    check "-n '$n'" is_usage_error --nodes 'from 1 to 1024'
done
try "$tern" run -n
check '-n without a number' is_usage_error '--nodes N'
for deadline in 0 0.09 86401 nan inf x ''; do
    try "$tern" run --deadline "$deadline" true
    check "--deadline '$deadline'" is_usage_error --deadline 'from 0.1 to 86400'
done
try "$tern" run --unix --tcp true
check '--unix with --tcp' is_usage_error --unix --tcp
try "$tern" run --no-prefxi true
check 'misspelt option' is_usage_error "did you mean '--no-prefix'"
try "$tern" run -x true
check 'unknown option' is_usage_error -x

finish
