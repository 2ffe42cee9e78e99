# test_sample.sh - sampling on several nodes: the levels hold over all of them, NON_CONFORM stays local,
# and every sum is exact, under every policy.
. "$(dirname "$0")/lib.sh"

policies='static replicate adaptive adaptive-replicate adaptive-relocate relocate multi'
steps=500
$quick && steps=250

nothing_wrong() {
    case " $statuses " in *' '[1-9]*) return 1 ;; esac
    [ "$(grep -c ', 0 wrong' "$out")" -eq "$1" ] && [ ! -s "$err" ]
}

# The sums are read as ranges, which sparse tables with bounded reads have not.
for policy in $policies ssp:2 essp:2; do
    for index in dense sparse; do
        case $index,$policy in sparse,*ssp*) continue ;; esac
        new_unix
        for k in 0 1 2; do
            start $k 3 "$programs/sample" $index "$policy" $steps
        done
        collect 0 1 2
        check "three nodes: $index, $policy" nothing_wrong 3
    done
done

for index in dense sparse; do
    "$programs/sample" $index static $steps >"$out" 2>"$err"
    statuses=$?
    check "a node that is alone: $index" nothing_wrong 1
done
finish
