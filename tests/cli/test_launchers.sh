# test_launchers.sh - programs find their place under other people's launchers.
#
# Needs the example `hello`, which prints "node K of N" once its cluster has formed, and mpirun
# (Debian: openmpi-bin).
. "$(dirname "$0")/lib.sh"

hello=$BUILD/examples/hello

if [ ! -x "$hello" ]; then
    echo "ok launchers (skipped: there is no $hello)"
    finish
fi

# Each of the four nodes said hello once.
all_said_hello() {
    [ "$status" -eq 0 ] || return 1
    for node in 0 1 2 3; do
        [ "$(grep -c "node $node of 4" "$out")" -eq 1 ] || return 1
    done
}

try "$tern" run -n 4 "$hello"
check 'tern run' all_said_hello
try "$tern" run -n 4 --tcp "$hello"
check 'tern run --tcp' all_said_hello

if command -v mpirun >/dev/null 2>&1; then
    as_root=
    [ "$(id -u)" -ne 0 ] || as_root=--allow-run-as-root
    # shellcheck disable=SC2086
    try mpirun $as_root --oversubscribe -n 4 "$hello"
    check 'mpirun' all_said_hello
    # shellcheck disable=SC2086
    try mpirun $as_root --oversubscribe -n 1 "$hello"
    check 'mpirun of one process' grep -q 'node 0 of 1' "$out"
else
    echo '# mpirun is not installed: left out'
fi

# Debian's torchrun 1.13 needs -r and -t under Python 3.11: without them it fails before it starts a program.
if /usr/bin/python3 -c 'import torch.distributed.run' 2>/dev/null; then
    try timeout 300 /usr/bin/python3 -m torch.distributed.run -r 9:1 -t 9:1 --no_python --nproc_per_node 4 "$hello"
    check 'torchrun' all_said_hello
else
    echo '# torch is not installed (Debian: python3-torch): torchrun is left out'
fi

finish
