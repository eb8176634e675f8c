#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_launchers.sh: the launchers that are on this machine, as a user meets them; each that is not is named.
#
# usage: COLLPERF=path MPI_RANKS=path test_launchers.sh   (default: ./collperf and tests/mpi_ranks)
#
# All ranks run here, and more of them than cores. Nothing is measured.
set -u
LC_ALL=C
export LC_ALL

# --torch N command..: N processes in the environment that torchrun gives its workers; rank 0 starts last.
if [ "${1:-}" = --torch ]; then
    WORLD_SIZE=$2 LOCAL_WORLD_SIZE=$2 MASTER_ADDR=localhost MASTER_PORT=29500
    TORCHELASTIC_RUN_ID=test-$$ TORCHELASTIC_RESTART_COUNT=0
    export WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_RESTART_COUNT
    rank=$2
    shift 2
    pids=
    while [ "$rank" -gt 0 ]; do
        rank=$((rank - 1))
        RANK=$rank LOCAL_RANK=$rank "$@" &
        pids="$pids $!"
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=1
    done
    exit $worst
fi

for name in ID RANK SIZE ROOT SECRET_FILE; do
    unset TUTTI_$name
done
unset PMIX_RANK PMIX_NAMESPACE PMI_RANK PMI_FD PMI_SIZE RANK WORLD_SIZE TORCHELASTIC_RUN_ID
collperf=${COLLPERF:-./collperf}
mpi_ranks=${MPI_RANKS:-tests/mpi_ranks}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
few="all_reduce -b 8 -e 8 -n 2 -w 1"
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM

skip() # WHAT WHY
{
    echo "skipped: $1 ($2)"
}

# expect PATTERN what command..: it ends well, and says this.
expect()
{
    pattern=$1 what=$2
    shift 2
    if ! timeout 1800 "$@" >"$scratch/out" 2>&1 </dev/null || ! grep -q "$pattern" "$scratch/out"; then
        echo "FAILED: $what"
        sed 's/^/    /' "$scratch/out" | tail -n 20
        failures=$((failures + 1))
    fi
}

if command -v mpirun.openmpi >/dev/null 2>&1; then
    mpirun=mpirun.openmpi
elif mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
    mpirun=mpirun
else
    mpirun=
fi
good='Out of bounds values : 0 OK'
if [ -z "$mpirun" ]; then
    skip "mpirun of Open MPI" "it is not here"
else
    # shellcheck disable=SC2086
    expect "$good" "mpirun of Open MPI" $mpirun --oversubscribe -n 4 "$collperf" $few
    # shellcheck disable=SC2086
    expect "$good" "threads of mpirun's processes" \
        $mpirun --oversubscribe --bind-to none -n 2 "$collperf" -t 3 $few
    pids=$(sed -n "s/^#  Rank  *[0-9]* Pid  *\([0-9]*\) .*/\1/p" "$scratch/out" | tr '\n' ' ')
    echo "$pids" | awk '{ exit !(NF == 6 && $1 == $2 && $2 == $3 && $4 == $5 && $5 == $6 && $1 != $4) }' || {
        echo "FAILED: ranks of -t 3 in two processes are in $pids"
        failures=$((failures + 1))
    }
    # shellcheck disable=SC2086
    expect ', 2 ranks of a launcher' "-g 1, as nccl-tests have it" \
        $mpirun --oversubscribe -n 2 "$collperf" -g 1 $few
    if [ -x "$mpi_ranks" ]; then
        ASAN_OPTIONS=detect_leaks=0 # what MPI leaves is not ours
        export ASAN_OPTIONS
        expect '4 ranks of MPI agree' "tutti_comm_init_mpi" $mpirun --oversubscribe -n 4 "$mpi_ranks"
        expect '1 ranks of MPI agree' "tutti_comm_init_mpi alone" $mpirun --oversubscribe -n 1 "$mpi_ranks"
        unset ASAN_OPTIONS
    else
        skip tutti_comm_init_mpi "built without Open MPI's headers"
    fi
fi
if command -v mpirun.mpich >/dev/null 2>&1; then
    # shellcheck disable=SC2086
    expect "$good" "mpirun of MPICH" mpirun.mpich -n 4 "$collperf" $few
    if grep -q 'BAD TERMINATION' "$scratch/out"; then
        echo "FAILED: MPICH's mpirun takes a rank that ended well for one that failed"
        failures=$((failures + 1))
    fi
else
    skip "mpirun of MPICH" "it is not here"
fi
for kind in pmi2 pmix; do
    if timeout 20 srun --overcommit --mpi=$kind -n 1 true >/dev/null 2>&1; then
        # shellcheck disable=SC2086
        expect "$good" "srun --mpi=$kind" srun --overcommit --mpi=$kind -n 4 "$collperf" $few
    else
        skip "srun --mpi=$kind" "it starts nothing here"
    fi
done
# shellcheck disable=SC2086
expect "$good" "the environment of torchrun" sh "$0" --torch 4 "$collperf" $few

[ "$failures" -eq 0 ]
