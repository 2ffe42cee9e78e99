# test_shared.sh - processes of one host share the memory of their tables: what becomes of rows, tables and memory, also
# where the memory cannot be had. (Exact sums are in test_manage.sh, nodes that die in test_kill_shared.sh.)
. "$(dirname "$0")/lib.sh"
export TERN_SHARE=1

case_holds() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c "$1 holds" "$out")" -eq 3 ]
}

for index in dense sparse; do
    for case in at-once numbers pinned updater late again limited; do
        new_unix
        for i in 0 1 2; do
            start $i 3 "$programs/shared" $case $index
        done
        collect 0 1 2
        check "case: $case, $index" case_holds $case
    done
done

# Nodes that are to meet over TCP on one host do not share memory.
new_tcp
for i in 0 1 2; do
    start $i 3 "$programs/shared" without
done
collect 0 1 2
check 'case: without (TCP)' case_holds without

# Sharing is switched off, or the first to open the table can make no memory: each node has its own.
new_unix
for i in 0 1 2; do
    TERN_SHARE=0 start $i 3 "$programs/shared" without
done
collect 0 1 2
check 'case: without (TERN_SHARE=0)' case_holds without
new_unix
for i in 0 1 2; do
    start $i 3 sh -c 'trap "" XFSZ && ulimit -f 1 && exec "$@"' - "$programs/shared" without
done
collect 0 1 2
check 'case: without (no shared memory)' case_holds without
new_unix
for i in 0 1 2; do
    start $i 3 "$programs/shared" apart
done
collect 0 1 2
check 'case: policy adaptive-apart does not share' case_holds apart

# The process that made the memory of a table is gone before another one has opened it.
new_unix
export GO="$tmp/go"
for i in 0 1; do
    TERN_DEADLINE=$(paced 2) start $i 2 "$programs/shared" orphan
done
until_says 1 made
end "$pid_1"
touch "$GO"
collect 0
check 'a table whose memory died with its maker: the error names it' [ "$statuses" = 0 ]

# A node that does not share is a member of its own.
new_unix
TERN_SHARE=0 start 0 3 "$programs/shared" without
for i in 1 2; do
    TERN_HOST=host$i start $i 3 "$programs/shared" without
done
collect 0 1 2
check 'case: without (three hosts)' case_holds without
TERN_SHARE=2 "$programs/shared" at-once >"$out" 2>"$err"
check 'a TERN_SHARE that makes no sense is refused' grep -q "TERN_SHARE is '2'" "$err"

finish
