# lib.sh - what the scripts of tests/cli share; each begins with:  . "$(dirname "$0")/lib.sh"
#
#   try COMMAND...          runs it; then $status, $out and $err (files) say how it ended
#   try_apart COMMAND...    the same with two nodes, each in a folder of its own under $tmp/apart, as on hosts
#                           that share none
#   check NAME COMMAND...   one test: prints "ok NAME" when the command succeeds, else "not ok NAME"
#                           and what the last `try` left
#   soon COMMAND...         waits until it succeeds, for 30 seconds at most
#   is_gone PID             whether the process has ended; its parent may not have looked at it yet
#   finish                  the last line of a script
#
# $tern is the command, $tmp a folder of the script's own, $ROOT the source tree, $BUILD the build
# under test.
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
: >"$out"
: >"$err"

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
    for _ in $(seq 300); do
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
