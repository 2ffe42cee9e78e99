# test_layers.sh - tools/check-layers and tools/check-sizes find what they promise to find, and nothing else.
. "$(dirname "$0")/lib.sh"

tree=$tmp/tree
mkdir -p "$tree/src/base" "$tree/src/store" "$tree/src/core" "$tree/src/node" "$tree/cli"
echo 'int x;' >"$tree/cli/own.h"

# put FILE LINE: the tree's only file with that include line, as its second line.
put() {
    file=$1
    mkdir -p "$(dirname "$tree/$file")"
    printf '/* */\n%s\n' "$2" >"$tree/$file"
    try "$ROOT/tools/check-layers" "$tree"
    rm "$tree/$file"
}

allows() {
    put "$1" "$2"
    check "$1 may hold $2" [ "$status" -eq 0 ]
}

is_reported() {
    [ "$status" -eq 1 ] && [ "$(wc -l <"$out")" -eq 1 ] && grep -q "^$file:$1: ." "$out"
}

forbids() {
    put "$1" "$2"
    check "$1 may not hold $2" is_reported "${3:-2}"
}

try "$ROOT/tools/check-layers" "$ROOT"
check 'this tree keeps the rules' [ "$status" -eq 0 ]
check 'says how many files' grep -Eq '^[0-9]+ files checked, no violation$' "$out"

allows src/store/a.c '#include "store/a.h"'
allows src/store/a.c '#include "base/status.h"'
allows src/store/a.c '#include "tern/tern.h"'
allows src/store/a.c '#include <pthread.h>'
allows src/core/a.c '#include <string.h>'
allows src/core/a.c '#include "base/hash.h"'
allows cli/a.c '#include <tern/tern.h>'
allows cli/a.c '#include "tern/tern.h"'
allows cli/a.c '#include "own.h"'
allows cli/a.c '#include <stdio.h>'
allows tasks/a.c '#include <pthread.h>'
allows examples/a.c '#include <tern/nd.h>'
allows src/nd/a.c '#include "tern/nd.h"'
allows src/nd/a.c '#include "wire/json.h"'

allows src/update/a.c '#include "store/a.h"'
allows src/core/a.c '#include "update/update.h"'
allows include/tern/a.h '#include <tern/tern.h>'
allows include/tern/a.h '#include <stdint.h>'

forbids src/node/a.c '#include "tern/nd.h"'
forbids src/node/a.c '#include "nd/graph.h"'
forbids src/update/a.c '#include "core/core.h"'
forbids src/store/a.c '#include "update/update.h"'
forbids include/tern/a.h '#include "base/status.h"'
forbids include/tern/a.h '#include <base/status.h>'
forbids src/base/a.c '#include "store/store.h"'
forbids src/base/a.h '#include "kernel/kernel.h"'
forbids src/store/a.c '  #  include  "node/node.h" /* why */'
forbids src/store/a.c '#include <node/node.h>'
forbids src/store/a.c '#include "store.h"'
forbids src/store/a.c '#include "../node/node.h"'
forbids src/core/a.c '#include "base/clock.h"'
forbids src/core/a.c '#include "base/thread_pool.h"'
forbids src/core/a.c '#include <pthread.h>'
forbids src/core/a.c '#include <time.h>'
forbids src/core/a.c '#include <sys/socket.h>'
forbids src/other/a.c '' 1
forbids src/a.c '' 1
forbids cli/a.c '#include "store/store.h"'
forbids cli/a.c '#include <base/status.h>'
forbids cli/a.c '#include "../src/base/status.h"'
forbids cli/a.c '#include "missing.h"'
forbids examples/a.c '#include "cli/own.h"'
forbids python/a.c '#include "node/node.h"'
forbids tasks/a.c '#include "node/node.h"'

# Through headers, however many.
echo '#include "base/clock.h"' >"$tree/src/base/timer.h"
echo '#include "base/timer.h"' >"$tree/src/store/timed.h"
echo '#include <pthread.h>' >"$tree/src/store/latch.h"
forbids src/core/a.c '#include "base/timer.h"'
forbids src/core/a.c '#include "store/timed.h"'
check 'the way is told' grep -q 'base/clock.h, which comes through store/timed.h, base/timer.h' "$out"
allows src/node/a.c '#include "store/timed.h"'
allows src/core/a.c '#include "store/latch.h"'

try "$ROOT/tools/check-layers" "$tmp"
check 'an empty tree is an error' [ "$status" -eq 1 ]

# ---- tools/check-sizes --------------------------------------------------------------------------------

# sizes FUNCTION FILE: a function of so many lines, at the end of a file of so many.
sizes() {
    mkdir -p "$tmp/sizes/src"
    awk -v f="$1" -v n="$2" 'BEGIN {
        for (i = 0; i < n - f; i++)
            print "int x" i ";"
        print "static int f(int a,\n             int b)\n{"
        for (i = 4; i < f; i++)
            print "    ;"
        print "}"
    }' >"$tmp/sizes/src/a.c"
    try "$ROOT/tools/check-sizes" "$tmp/sizes"
}
reported() {
    [ "$status" -eq 1 ] && [ "$(wc -l <"$out")" -eq 1 ] && grep -q "$1" "$out"
}
try "$ROOT/tools/check-sizes" "$ROOT"
check 'this tree keeps the sizes' [ "$status" -eq 0 ]
sizes 60 900
check 'what is as long as it may be passes' [ "$status" -eq 0 ]
sizes 61 900
check 'a function that is longer is reported' reported '^src/a.c:840: the function has 61 lines'
sizes 60 901
check 'and a file' reported '^src/a.c:901: the file'

finish
