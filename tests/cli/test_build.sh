# test_build.sh - the build notices what changed besides files: flags, the compiler, and the list of sources.
. "$(dirname "$0")/lib.sh"

# The build that runs this script shares its job server with nobody.
unset MAKEFLAGS MFLAGS MAKELEVEL

# Makes something in a folder of its own.
build() {
    try make -C "$ROOT" "BUILD=$tmp/b" "$@"
}
object=$tmp/b/obj/src/base/status.o
compiled() {
    [ "$status" -eq 0 ] && grep -q 'CC src/base/status.c' "$out"
}
idle() {
    [ "$status" -eq 0 ] && ! grep -q 'CC src/base/status.c' "$out"
}

build "$object"
check 'an object is made' compiled
build "$object"
check 'but not twice' idle
build "$object" WERROR=1
check 'nor because warnings are errors' idle
build "$object" OPT=-O0
check 'other flags make it anew' compiled
build "$object" OPT=-O0 CPPFLAGS=-DNDEBUG
check 'so do those of the preprocessor' compiled
CFLAGS=-g1 build "$object"
check 'and those of the environment' compiled
printf '%s\n' '#!/bin/sh' 'exec cc "$@"' >"$tmp/cc2"
chmod +x "$tmp/cc2"
CFLAGS=-g1 build "$object" CC="$tmp/cc2"
check 'and another compiler' compiled

library=$tmp/b/obj/libtern.a
CFLAGS=-g1 build "$library" CC="$tmp/cc2" LIB_SRC='src/base/status.c src/base/buffer.c'
check 'a library of two files' [ "$(ar t "$library" | wc -l)" -eq 2 ]
CFLAGS=-g1 build "$library" CC="$tmp/cc2" LIB_SRC='src/base/status.c'
check 'loses the one that is gone' [ "$(ar t "$library")" = status.o ]
check 'and nothing is compiled for that' idle

finish
