# test_install.sh - what `make install` puts there can be compiled against and run.
. "$(dirname "$0")/lib.sh"

CC=${CC:-cc}
CXX=${CXX:-c++}
# The build that runs this script shares its job server with nobody.
unset MAKEFLAGS MFLAGS MAKELEVEL

root=$tmp/root
try make -C "$ROOT" install "BUILD=$BUILD" "DESTDIR=$root" PREFIX=/usr
check 'make install' [ "$status" -eq 0 ]
for file in include/tern/tern.h lib/libtern.a lib/libtern.so lib/pkgconfig/tern.pc bin/tern; do
    check "installs $file" [ -e "$root/usr/$file" ]
done
try "$root/usr/bin/tern" --version
check 'the installed command runs' [ "$status" -eq 0 ]

for standard in c11 c17; do
    try "$CC" -x c -std=$standard -Wall -Wextra -pedantic -Werror -fsyntax-only \
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
    try "$CC" -std=c17 "$ROOT/examples/first.c" -o "$tmp/shared" $(flags --cflags --libs)
    check 'first.c compiles against the shared library' [ "$status" -eq 0 ]
    try env "LD_LIBRARY_PATH=$root/usr/lib" "$tmp/shared"
    check 'and runs' [ "$status" -eq 0 ]
    # shellcheck disable=SC2046
    try "$CC" -std=c17 "$ROOT/examples/first.c" -o "$tmp/static" $(flags --cflags) \
        "$root/usr/lib/libtern.a" -lssl -lcrypto -lm -pthread
    check 'first.c compiles against the static library' [ "$status" -eq 0 ]
    try "$tmp/static"
    check 'and runs alone' [ "$status" -eq 0 ]
fi

try make -C "$ROOT" uninstall "BUILD=$BUILD" "DESTDIR=$root" PREFIX=/usr
check 'make uninstall leaves no file' [ -z "$(find "$root" -type f -o -type l)" ]

finish
