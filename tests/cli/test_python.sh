# test_python.sh - the Python package with numpy: tests/python but for what needs torch, and both ways of installing it.
#
# Uses the first interpreter, from Python 3.11 on, that has its headers, numpy and pytest; Debian's own has them as
# python3-dev, python3-numpy and python3-pytest. Says so when there is none.
. "$(dirname "$0")/lib.sh"

# Prints the interpreter; fails when there is none.
find_python() {
    for candidate in ${PYTHON:-} /usr/bin/python3 python3; do
        "$candidate" - 2>/dev/null <<'END' && echo "$candidate" && return
import os, sys, sysconfig, numpy, pytest
sys.exit(sys.version_info < (3, 11) or not os.path.exists(sysconfig.get_path("include") + "/Python.h"))
END
    done
    return 1
}

if ! python=$(find_python); then
    echo 'ok python (skipped: no Python from 3.11 on has its headers, numpy and pytest; on Debian install' \
        'python3-dev, python3-numpy and python3-pytest)'
    finish
fi

try make -C "$ROOT" BUILD="$BUILD" PYTHON="$python" $san python
check 'make python' test "$status" -eq 0

# report FILE: the lines of pytest's report as tests.
report() {
    sed -nE 's|^tests/python/(\S+) (PASSED\|SKIPPED).*|ok python \1|p; s|^tests/python/(.*) (FAILED\|ERROR).*|not ok python \1|p' "$1"
    ! grep -qE '^tests/python/.* (FAILED|ERROR)' "$1"
}

# Python itself is not built with the sanitizer, so its library comes first. Python frees nothing at its end.
case $BUILD in
*/address)
    LD_PRELOAD=$(cc -print-file-name=libasan.so)
    ASAN_OPTIONS=detect_leaks=0
    export LD_PRELOAD ASAN_OPTIONS
    ;;
esac

cd "$ROOT" || exit 1
export PYTHONPATH="$BUILD/python" PYTHONDONTWRITEBYTECODE=1
try "$python" -m pytest -v -p no:cacheprovider -m "${PYTEST_MARK:-not torch}" tests/python
report "$out" || failures=$((failures + 1))
check 'pytest' test "$status" -eq 0
[ "$status" -eq 0 ] || cat "$out"

# Both ways of installing, without a network: the backend needs nothing that is not here.
case $BUILD,${PYTEST_MARK:-} in
*/address,* | *,torch) finish ;;
esac
unset PYTHONPATH
export TERN_BUILD="$BUILD"
installed() {
    "$1" -c 'import tern; tern.Node().close()'
}
if "$python" -m venv "$tmp/venv" >/dev/null 2>&1; then
    try "$tmp/venv/bin/pip" install --no-index .
    check 'pip install .' test "$status" -eq 0
    check 'the installed package' installed "$tmp/venv/bin/python3"
    try "$python" -m pip install --no-build-isolation --no-index --target "$tmp/target" .
    check 'pip install --no-build-isolation .' test "$status" -eq 0
    check 'a wheel for every later Python' test -n "$(ls "$tmp"/target/tern/_tern.abi3.so)"
else
    echo '# there is no venv (Debian: python3-venv): left out'
fi

finish
