# test_install.sh - what `make install` puts there can be compiled against and run.
. "$(dirname "$0")/lib.sh"

CC=${CC:-cc}
CXX=${CXX:-c++}
# The make that runs this script shares its job server with nobody. Its variables, such as CC, are how this build was made.
case ${MAKEFLAGS:-} in
*' -- '*) MAKEFLAGS=" -- ${MAKEFLAGS#* -- }" ;;
*) unset MAKEFLAGS ;;
esac
unset MFLAGS MAKELEVEL

# The compiler, which may be two words ("ccache gcc").
compile() {
    # shellcheck disable=SC2086
    $CC "$@"
}

root=$tmp/root
# shellcheck disable=SC2086
try make -C "$ROOT" install "BUILD=$BUILD" "DESTDIR=$root" PREFIX=/usr $san
check 'make install' [ "$status" -eq 0 ]
for file in include/tern/tern.h include/tern/nd.h lib/libtern.a lib/libtern.so lib/libternnd.a lib/libternnd.so \
    lib/pkgconfig/tern.pc lib/pkgconfig/ternnd.pc bin/tern \
    share/man/man1/tern.1 share/man/man1/tern-bench.1 share/man/man1/tern-train-kge.1 \
    share/bash-completion/completions/tern; do
    check "installs $file" [ -e "$root/usr/$file" ]
done
try "$root/usr/bin/tern" --version
check 'the installed command runs' [ "$status" -eq 0 ]
if command -v readelf >/dev/null; then
    try readelf -S "$root/usr/bin/tern"
    check 'the installed command is stripped' sh -c '! grep -Eq "\.(symtab|debug_info)" "$1"' - "$out"
    try readelf -S "$root/usr/lib/libtern.so"
    check 'so is the installed library' sh -c '! grep -Fq .debug_info "$1"' - "$out"
fi
# bash-completion finds it by its name, and man by its folder.
check 'the installed completion works' bash --norc -c \
    'source "$1" && COMP_WORDS=(tern tr) COMP_CWORD=1 && _tern && [ "${COMPREPLY[*]}" = "trace train" ]' \
    - "$root/usr/share/bash-completion/completions/tern"
if command -v man >/dev/null; then
    try man -M "$root/usr/share/man" -P cat tern-train-kge
    check 'man finds the installed page' grep -q 'learning-rate' "$out"
fi

for standard in c11 c17; do
    try compile -x c -std=$standard -Wall -Wextra -pedantic -Werror -fsyntax-only \
        "$root/usr/include/tern/tern.h"
    check "tern.h compiles alone as $standard" [ "$status" -eq 0 ]
done
if command -v "$CXX" >/dev/null; then
    try "$CXX" -x c++ -Wall -Wextra -pedantic -Werror -fsyntax-only "$root/usr/include/tern/tern.h"
    check 'tern.h compiles alone as C++' [ "$status" -eq 0 ]
fi

# What pkg-config would say, with the paths of the root that was installed to.
flags() {
    if command -v pkg-config >/dev/null; then
        PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_PATH=$root/usr/lib/pkgconfig \
            PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 \
            pkg-config "$@" tern
    else
        echo "-I$root/usr/include -L$root/usr/lib -ltern -lm -pthread"
    fi
}

same_version() {
    [ "tern $(sed -n 's/^Version: //p' "$root/usr/lib/pkgconfig/tern.pc")" = \
        "$("$tern" --version | sed 's/ (.*//')" ]
}
check 'tern.pc has the version of the command' same_version

if nm "$BUILD/libtern.a" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    echo '# a build with sanitizers: programs are not linked against it'
else
    # shellcheck disable=SC2046
    try compile -std=c17 "$ROOT/examples/first.c" -o "$tmp/shared" $(flags --cflags --libs)
    check 'first.c compiles against the shared library' [ "$status" -eq 0 ]
    try env "LD_LIBRARY_PATH=$root/usr/lib" "$tmp/shared"
    check 'and runs' [ "$status" -eq 0 ]
    # shellcheck disable=SC2046
    try compile -std=c17 "$ROOT/examples/first.c" -o "$tmp/static" $(flags --cflags) \
        "$root/usr/lib/libtern.a" -lssl -lcrypto -llz4 -lm -pthread
    check 'first.c compiles against the static library' [ "$status" -eq 0 ]
    try "$tmp/static"
    check 'and runs alone' [ "$status" -eq 0 ]
fi

# A private prefix, as README says.
if command -v pkg-config >/dev/null && ! nm "$BUILD/libtern.a" 2>/dev/null | grep -Eq '__(asan|tsan)_'; then
    PREFIX=$tmp/own
    try make -C "$ROOT" install "BUILD=$BUILD" "PREFIX=$PREFIX"
    export PKG_CONFIG_PATH="$PREFIX/lib/pkgconfig"
    # shellcheck disable=SC2046
    try compile -std=c17 "$ROOT/examples/first.c" -o "$tmp/private" $(pkg-config --cflags --libs tern)
    check 'first.c compiles against a private prefix' [ "$status" -eq 0 ]
    try "$tmp/private"
    check 'and does not find the library by itself' [ "$status" -eq 127 ]
    try env "LD_LIBRARY_PATH=$PREFIX/lib" "$tmp/private"
    check 'but with LD_LIBRARY_PATH' [ "$status" -eq 0 ]
    # shellcheck disable=SC2046
    try compile -std=c17 "$ROOT/examples/first.c" -o "$tmp/private" $(pkg-config --cflags --libs tern) \
        "-Wl,-rpath,$PREFIX/lib"
    try "$tmp/private"
    check 'and alone, if it was linked with its path' [ "$status" -eq 0 ]
    check 'README says both' [ "$(grep -c -e 'LD_LIBRARY_PATH=$PREFIX/lib' -e '-Wl,-rpath,$PREFIX/lib' "$ROOT/README.md")" -ge 2 ]
    unset PKG_CONFIG_PATH
fi

try make -C "$ROOT" uninstall "BUILD=$BUILD" "DESTDIR=$root" PREFIX=/usr
check 'make uninstall leaves no file' [ -z "$(find "$root" -type f -o -type l)" ]

finish
