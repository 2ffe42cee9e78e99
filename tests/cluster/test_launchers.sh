# test_launchers.sh - the same program under every launcher: tern run, mpirun, shells with TERN_*, and
# the variables that torchrun and srun set.
. "$(dirname "$0")/lib.sh"

# Under a name of this script's own, so that its processes are not taken for those of another.
ln -s "$programs/sums" "$tmp/sums"
sums="$tmp/sums dense 20000 2 100"

# exact N: as many nodes said that all is well, and nothing failed.
exact() {
    case " $statuses " in *[1-9]*) return 1 ;; esac
    [ "$(grep -c "of $1: .*, 0 wrong sums" "$out")" -eq "$1" ]
}

launched() {
    try "$@"
    statuses=$status
}

# shellcheck disable=SC2086
{
    launched "$tern" run -n 4 $sums
    check 'tern run -n 4' exact 4
    launched "$tern" run -n 4 --tcp $sums
    check 'tern run -n 4 --tcp' exact 4
    launched "$tern" run -n 1 $sums
    check 'tern run -n 1' exact 1
    launched $sums
    check 'no launcher: a node alone' exact 1
}

if command -v mpirun >/dev/null; then
    mkdir "$tmp/mpi"
    # shellcheck disable=SC2086
    launched env TMPDIR="$tmp/mpi" mpirun --allow-run-as-root --oversubscribe -n 3 $sums
    check 'mpirun -n 3' exact 3
    check 'mpirun leaves no socket behind' [ -z "$(find "$tmp/mpi" -name 'mpi-*')" ]
else
    echo '# no mpirun: left out'
fi

new_unix
for k in 0 1 2; do
    # shellcheck disable=SC2086
    start $k 3 $sums
done
collect 0 1 2
check 'three shells with TERN_*' exact 3

# as K NAME=VALUE...: starts node K with another launcher's variables alone.
as() {
    k=$1
    shift
    # shellcheck disable=SC2086
    env "$@" $sums >"$tmp/$k.out" 2>"$tmp/$k.err" </dev/null &
    eval "pid_$k=$!"
    running="$running $!"
}

new_tcp
port=${coordinator#*:}
for k in 0 1 2; do
    as $k RANK=$k WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" TORCHELASTIC_RUN_ID=job$$
done
collect 0 1 2
check "torchrun's variables" exact 3
for k in 0 1 2; do
    as $k RANK=$k WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" TMPDIR="$tmp"
done
collect 0 1 2
check "torchrun's variables on one host" exact 3

for k in 0 1 2; do
    as $k SLURM_PROCID=$k SLURM_NTASKS=3 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=127.0.0.1
done
collect 0 1 2
check "srun's variables" exact 3
for k in 0 1 2; do
    as $k SLURM_PROCID=$k SLURM_NTASKS=3 SLURM_JOB_ID=$$ SLURM_STEP_ID=0 SLURM_STEP_NODELIST=127.0.0.1 \
        SLURM_STEP_NUM_NODES=1 TMPDIR="$tmp"
done
collect 0 1 2
check "srun's variables on one host" exact 3

check 'no process is left behind' [ -z "$(pgrep -f "^$tmp/sums" || true)" ]
finish
