#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_static.sh: programs with the library in them. One that is dynamic otherwise runs as ever; one that is
# static in all of it is told what it cannot have, where it would crash. Run in the build directory.
set -u
LC_ALL=C
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export LC_ALL OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE TUTTI_ROOT TUTTI_SECRET_FILE TUTTI_DEBUG
sources=${srcdir:-$(dirname "$0")/..}
archive=.libs/libtutti_core.a # what libtutti.a is made of
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

if [ -n "${SANITIZE:-}" ]; then
    echo "skipped: static programs (the runtime of a sanitizer is not for them)"
    exit 0
fi
cat >"$scratch/sum.c" <<'END'
#include <stdio.h>
#include <tutti.h>

int main(void)
{
    tutti_comm *comm;
    float one = 1, sum = 0;
    if (tutti_comm_init_env(NULL, &comm) != TUTTI_OK ||
        tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()) != TUTTI_OK) {
        printf("%s\n", tutti_get_last_error(NULL));
        return 1;
    }
    printf("the sum is %g\n", sum);
    return tutti_comm_finalize(comm) != TUTTI_OK || tutti_comm_destroy(comm) != TUTTI_OK;
}
END

# link NAME flags..
link()
{
    name=$1
    shift
    ${CC:-cc} "$@" -o "$scratch/$name" "$scratch/sum.c" -I"$sources/lib" "$archive" -lpthread -ldl \
        >"$scratch/said" 2>&1
}

# expect CODE WORDS what command..: it ends so, and says this.
expect()
{
    wanted=$1 words=$2 what=$3
    shift 3
    timeout 1800 "$@" >"$scratch/out" 2>&1 </dev/null
    code=$?
    if [ $code -eq "$wanted" ] && grep -q "$words" "$scratch/out"; then
        echo "static: $what"
        return
    fi
    echo "FAILED: $what: exit code $code, expected $wanted and '$words':"
    tail -n 20 "$scratch/out" | sed 's/^/    /'
    failures=$((failures + 1))
}

link whole || { cat "$scratch/said"; exit 1; }
kinds=whole
for flags in -static -static-pie; do
    if link "program$flags" $flags; then
        kinds="$kinds program$flags"
    else
        echo "skipped: a program by $flags (it does not link here)"
    fi
done

# by_hand KIND: a job of one rank, by an id of its own.
by_hand()
{
    rm -f "$scratch/id"
    ./tutti-info id >"$scratch/id" &
    holder=$!
    until [ -s "$scratch/id" ]; do
        kill -0 $holder || exit 1
        sleep 0.1
    done
    TUTTI_ID=$(cat "$scratch/id") TUTTI_RANK=0 TUTTI_SIZE=1
    export TUTTI_ID TUTTI_RANK TUTTI_SIZE
    expect 0 'the sum is 1' "$1, by hand" "$scratch/$1"
    unset TUTTI_ID TUTTI_RANK TUTTI_SIZE
    kill $holder
}
for kind in $kinds; do
    by_hand $kind
done

mpirun=$(command -v mpirun.openmpi)
if [ -z "$mpirun" ] || [ "${PMIX:-yes}" != yes ]; then
    echo "skipped: static programs under PMIx (no Open MPI, or no PMIx in this build)"
else
    for kind in $kinds; do
        if [ $kind = whole ]; then
            expect 0 'the sum is 2' "$kind, by PMIx" "$mpirun" --oversubscribe -n 2 "$scratch/$kind"
        else
            expect 1 'linked statically' "$kind, by PMIx" "$mpirun" --oversubscribe -n 2 "$scratch/$kind"
        fi
    done
fi
[ "$failures" -eq 0 ]
