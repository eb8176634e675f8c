#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_exact.sh: what TUTTI_COMM_EXACT costs: all_reduce with the canonical tree beside the default.
#
# usage: bench_exact.sh [COLLPERF]
#   COLLPERF  the program to measure (default: ./collperf)
# The environment changes what is measured: BENCH_ROUNDS (5), BENCH_RANKS ("2 8"), BENCH_TYPES ("float
# bfloat16"), BENCH_FROM (64K) and BENCH_TO (8M): each size is four times the one before.
#
# Default and exact alternate within each round, and the medians of all rounds are compared.
set -u
LC_ALL=C
export LC_ALL

collperf=${1:-./collperf}
if [ $# -gt 1 ] || [ ! -x "$collperf" ]; then
    echo "usage: bench_exact.sh [COLLPERF]; $collperf must be a program" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
rounds=${BENCH_ROUNDS:-5}

# The words of a command are split on purpose.
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
failed=$scratch/failed
: >"$failed"
for round in $(seq 1 "$rounds"); do
    for n in ${BENCH_RANKS:-2 8}; do
        for type in ${BENCH_TYPES:-float bfloat16}; do
            for exact in '' --exact; do
                [ ! -t 2 ] || printf '\r\033[Kround %s: %s ranks, %s' "$round" "$n" "$type" >&2
                "$collperf" all_reduce -g "$n" -d "$type" -b "${BENCH_FROM:-64K}" -e "${BENCH_TO:-8M}" -f 4 \
                    $exact --json </dev/null || echo "$n $type $exact" >>"$failed"
            done
        done
    done
done >"$scratch/lines"
[ ! -t 2 ] || printf '\r\033[K' >&2
awk -f "$here/bench_json.awk" -f "$here/bench_exact.awk" "$scratch/lines"
[ ! -s "$failed" ] || {
    echo "bench_exact.sh: these failed:" >&2
    cat "$failed" >&2
    exit 1
}
