# test_common.sh - nodes of one host have their tables in common: what becomes of rows, tables and memory, also where
# the memory cannot be had. (Exact sums are in test_manage.sh, nodes that die in test_kill.sh.)
. "$(dirname "$0")/lib.sh"

case_holds() {
    [ "$statuses" = '0 0 0' ] && [ "$(grep -c "$1 holds" "$out")" -eq 3 ]
}

for index in dense sparse; do
    for case in at-once numbers pinned updater late again limited; do
        new_unix
        for i in 0 1 2; do
            start $i 3 "$programs/common" $case $index
        done
        collect 0 1 2
        check "case: $case, $index" case_holds $case
    done
done

# Over TCP nobody knows who is on which host: each node has its own memory.
new_tcp
for i in 0 1 2; do
    start $i 3 "$programs/common" without
done
collect 0 1 2
check 'case: without (TCP)' case_holds without

# A system without shared memory, and nodes that do not see each other's.
if unshare -i sh -c 'echo 0 >/proc/sys/kernel/shmmni' 2>/dev/null; then
    new_unix
    for i in 0 1 2; do
        start $i 3 unshare -i sh -c 'echo 0 >/proc/sys/kernel/shmmni && exec "$@"' - "$programs/common" without
    done
    collect 0 1 2
    check 'case: without (no shared memory)' case_holds without

    new_unix
    for i in 0 1; do
        TERN_DEADLINE=1 start $i 2 unshare -i "$programs/common" at-once
    done
    collect 0 1
    says_why() {
        grep -q "table 'at once': memory that the nodes of this host share cannot be had: .*adaptive-apart" "$err"
    }
    check 'a node that does not see the memory says so' says_why
else
    echo '# namespaces cannot be made here: two tests are left out'
fi
finish
