# lib.sh - what the scripts of tests/cli share; each begins with:  . "$(dirname "$0")/lib.sh"
#
#   try COMMAND...          runs it; then $status, $out and $err (files) say how it ended
#   try_apart COMMAND...    the same with two nodes, each in a folder of its own under $tmp/apart, as on hosts
#                           that share none
#   check NAME COMMAND...   one test: prints "ok NAME" when the command succeeds, else "not ok NAME"
#                           and what the last `try` left
#   soon COMMAND...         waits until it succeeds, for 30 paced seconds at most
#   paced N                 prints N times $TEST_PACE: all deadlines and patience are given so
#   is_gone PID             whether the process has ended; its parent may not have looked at it yet
#   finish                  the last line of a script
#
# $tern is the command, $tmp a folder of the script's own, $ROOT the source tree, $BUILD the build under test. `make` with
# $san, which is SAN=address or nothing, takes that build as it is. $TEST_PACE says how many times longer than on a quiet machine
# a wait may take; unless it is set already, it is measured here.
set -u

ROOT=${ROOT:-$(cd "$(dirname "$0")/../.." && pwd)}
BUILD=${BUILD:-$ROOT/build}
tern=$BUILD/tern
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
out=$tmp/out
err=$tmp/err
status=0
failures=0
case ${BUILD##*/} in
address | thread) san=SAN=${BUILD##*/} ;;
*) san= ;;
esac
: >"$out"
: >"$err"

# One such loop per core takes 0.1 s on a quiet machine. Up to 0.3 s is a pace of 1, and each 0.4 s more add 1. A build
# with a sanitizer is given twice the time.
measure_pace() {
    began_ns=$(date +%s%N)
    for _ in $(seq "$(nproc)"); do
        sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done' &
    done
    wait
    TEST_PACE=$((1 + ($(date +%s%N) - began_ns + 100000000) / 400000000))
    case $BUILD in
    */address | */thread | *-address | *-thread) TEST_PACE=$((2 * TEST_PACE)) ;;
    esac
    export TEST_PACE
}
[ -n "${TEST_PACE:-}" ] || measure_pace

paced() {
    echo $(($1 * TEST_PACE))
}

try() {
    "$@" >"$out" 2>"$err" && status=0 || status=$?
}

try_apart() {
    try "$tern" run -n 2 --no-prefix -- \
        sh -c 'mkdir -p "$0/$TERN_NODE" && cd "$0/$TERN_NODE" && exec "$@"' "$tmp/apart" "$@"
}

check() {
    name=$1
    shift
    if "$@" >/dev/null 2>&1; then
        echo "ok $name"
        return
    fi
    failures=$((failures + 1))
    echo "not ok $name"
    echo "# failed: $*"
    echo "# exit status $status, standard output and error:"
    sed 's/^/#   /' "$out" "$err"
}

soon() {
    for _ in $(seq "$(paced 300)"); do
        "$@" && return 0
        sleep 0.1
    done
    return 1
}

is_gone() {
    [ ! -e "/proc/$1" ] || grep -q '^State:[[:space:]]*[ZX]' "/proc/$1/status" 2>/dev/null ||
        [ ! -e "/proc/$1" ]
}

finish() {
    [ $failures -eq 0 ]
    exit
}
