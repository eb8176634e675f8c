#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench.sh: Tutti beside Open MPI and MPICH on this machine, in one run, judged by perf/bench/bars.txt.
#
# usage: bench.sh [COLLPERF [FILE]]
#   COLLPERF  the program to measure (default: ./collperf); bench_mpi is compiled beside it for each MPI
#   FILE      where every measurement goes as a JSON line (default: bench.jsonl beside COLLPERF). A run that
#             was interrupted goes on where it was if the programs and what is asked are the same. FILE.sums
#             gets the medians, which is what perf/results keeps.
# The environment changes what is measured:
#   BENCH_QUICK=1     all_reduce and broadcast at few sizes, some minutes instead of about an hour
#   BENCH_ROUNDS (3)  BENCH_AGAIN (4)  BENCH_RANKS ("2 8")  BENCH_COLLECTIVES (all)
#   BENCH_SIZES (8 B to 64 MiB, in bytes)
#   BENCH_PEERS ("openmpi mpich")
#   BENCH_TIMEOUT     seconds that one measurement may take (60)
#   BENCH_PATIENCE    seconds that one waits for a busy machine to become quiet (20)
#   BENCH_UNDER       a command that ranks run under instead of waiting, such as "chrt -r 1" on a machine that
#                     never is quiet; not with more ranks than cores
#
# The distance between two virtual cores changes from minute to minute, so the programs alternate within each
# round of a point, each measures the round trip of a flag before and after, and what was measured in one
# class is compared. Tutti's ranks are bound to cores; a peer counts at the better of its default and of a run
# bound to cores. Points that miss a bar or break a guideline are measured in BENCH_AGAIN more rounds, so that
# the noise of a few does not decide. Rows where Tutti loses are printed like the others. Needs no root.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK

collperf=${1:-./collperf}
if [ $# -gt 2 ] || [ ! -x "$collperf" ]; then
    echo "usage: bench.sh [COLLPERF [FILE]]; $collperf must be a program" >&2
    exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$(dirname "$collperf")" && pwd)
collperf=$build/$(basename "$collperf")
results=${2:-$build/bench.jsonl}
if [ "${BENCH_QUICK:-0}" != 0 ]; then
    rounds=2 again=2 ranks_list='2 8' sizes='8 65536 1048576' collectives='all_reduce broadcast'
else
    rounds=3 again=4 ranks_list='2 8' sizes='8 4096 65536 1048576 8388608 67108864'
    collectives=$("$collperf" --list collectives | tr '\n' ' ')
fi
rounds=${BENCH_ROUNDS:-$rounds}
again=${BENCH_AGAIN:-$again}
ranks_list=${BENCH_RANKS:-$ranks_list}
sizes=${BENCH_SIZES:-$sizes}
collectives=${BENCH_COLLECTIVES:-$collectives}
limit=${BENCH_TIMEOUT:-60}
patience=${BENCH_PATIENCE:-20}
under=${BENCH_UNDER:-}
cores=$(nproc)
failed=0
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
# shellcheck source=perf/bench/bench_run.sh
. "$here/bench_run.sh"

# --- The peers. One that is not installed is left out, and the table shows it.
peers=
as_root=
[ "$(id -u)" -ne 0 ] || as_root=--allow-run-as-root
for peer in ${BENCH_PEERS-openmpi mpich}; do
    if ! command -v "mpirun.$peer" >/dev/null || ! command -v "mpicc.$peer" >/dev/null; then
        echo "# $peer is not here (mpirun.$peer, mpicc.$peer)"
        continue
    fi
    set -- "$here/bench_mpi.c"
    for part in clock rewrite flag iterations size; do
        set -- "$@" "$here/../collperf/$part.c"
    done
    "mpicc.$peer" -std=c11 -O2 -D_GNU_SOURCE -I"$here/../.." -o "$build/bench_$peer" "$@" || exit 1
    peers="$peers $peer"
done
version_of() # peer
{
    mpirun."$1" --version | sed -n -e 's/^ *Version: *//p' -e 's/.*(Open.*) *//p' | head -n 1
}

# --- What Tutti is measured with besides its default: without the fused paths where the library has them,
# threads instead of processes where each has a core, and what guidelines compare: beside an all_reduce what
# programs could make it of, beside a barrier an all_reduce of 8 bytes, which is one, too.
fused=$("$build/tutti-info" config 2>/dev/null | grep -q '^fused=' && echo fused_off)
variants_of() # ranks mode collective
{
    echo default
    [ "$2" = steady ] || return
    echo "$fused"
    [ "$1" -gt "$cores" ] || echo threads
    case $3 in
    all_reduce) echo "reduce+broadcast reduce_scatter+all_gather" ;;
    barrier) echo all_reduce ;;
    esac
}

# Every point of a round: mode, collective, ranks, bytes. A barrier has no size. Ladders are left to equal
# blocks: they take long, and those of different length say little more.
list_points()
{
    for n in $ranks_list; do
        for bytes in $sizes; do
            for collective in $collectives; do
                case $collective in
                barrier) [ "$bytes" = "${sizes%% *}" ] || continue ;;
                esac
                echo "steady $collective $n $bytes"
                # what bars.txt asks of programs that rewrite their input
                [ "$collective" != all_reduce ] || [ "$n" -gt "$cores" ] || [ "$bytes" -lt 65536 ] ||
                    echo "dirty $collective $n $bytes"
            done
        done
    done
    [ "${BENCH_QUICK:-0}" = 0 ] || return
    for collective in $collectives; do
        case $collective in
        barrier | *_v) ;;
        *) echo "ladder $collective 2 0" ;;
        esac
    done
}

# --- What is asked, and whether the file already has a part of it.
asked="make bench BENCH_ROUNDS=$rounds BENCH_AGAIN=$again BENCH_RANKS='$ranks_list' BENCH_SIZES='$sizes'"
asked="$asked BENCH_COLLECTIVES='$(echo "$collectives" | sed 's/ $//')' BENCH_PEERS='${peers# }'"
[ -z "$under" ] || asked="$asked BENCH_UNDER='${under##*/}'"
[ "${BENCH_QUICK:-0}" = 0 ] || asked="$asked BENCH_QUICK=1"
built=$(cat "$collperf" "$build"/.libs/collperf "$build"/.libs/libtutti.so 2>/dev/null | cksum)
header="{\"command\": \"$asked\", \"built\": \"$built\","
if ! head -n 1 "$results" 2>/dev/null | grep -qF "$header" ||
    tail -n 1 "$results" | grep -q '^{"finished"'; then
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    {
        printf '%s "date": "%s", "cores": %s' "$header" "$(date -u +%Y-%m-%d)" "$cores"
        printf ', "machine": "%s cores, %s, Linux %s"' "$cores" "$cpu" "$(uname -r | sed 's/[^0-9.].*//')"
        printf ', "tutti": "%s"' "$("$collperf" --version | sed 's/.* //')"
        for peer in $peers; do
            printf ', "%s": "%s"' "$peer" "$(version_of "$peer")"
        done
        printf '}\n'
    } >"$results" || exit 2
fi

echo "# Command lines:"
for n in $ranks_list; do
    for variant in $(variants_of "$n" steady all_reduce); do
        echo "#   $(tutti_command COLLECTIVE "$n" BYTES BYTES MEMORY "$variant" steady)" | sed "s,$build/,,"
    done
    for peer in $peers; do
        for variant in default bound; do
            echo "#   $(peer_command COLLECTIVE "$n" BYTES "$peer" $variant steady)" | sed "s,$build/,,"
        done
    done
done
echo "# $rounds alternating rounds on $cores cores, medians; sizes in bytes, fp32 sum, out of place"

# --- Instructions of a small collective, which no noise changes.
grep -q '^{"instructions"' "$results" || [ ! -x "$build/perf/bench_count" ] ||
    for collective in all_reduce broadcast barrier all_gather_v sendrecv; do
        for paths in on off; do
            timeout "$limit" "$build/perf/bench_count" $collective $paths >>"$results" || failed=1
        done
    done

show() # program files
{
    program=$1
    shift
    awk -f "$here/bench_json.awk" -f "$here/$program" "$@"
}

# --- Measure. The time left is what is left of the points, at the pace so far.
measure_rounds() # first last: all of $scratch/points
{
    total=$(($(wc -l <"$scratch/points") * ($2 - $1 + 1)))
    at=0 measured=0 began=$(date +%s)
    for round in $(seq "$1" "$2"); do
        while read -r mode collective n bytes; do
            at=$((at + 1))
            point="$mode $collective $n $bytes $round"
            ! grep -qF "\"point\": \"$point\"" "$results" || continue
            [ ! -t 2 ] || printf '\r\033[K%s of %s, about %s minutes left: %s %s, %s ranks, %s B' \
                "$at" "$total" "$([ "$measured" -eq 0 ] && echo '?' ||
                    echo $(((total - at + 1) * ($(date +%s) - began) / measured / 60)))" \
                "$collective" "$mode" "$n" "$bytes" >&2
            case $mode in
            ladder) measure_ladder ;;
            *) measure_point ;;
            esac
            measured=$((measured + 1))
        done <"$scratch/points"
    done
    [ ! -t 2 ] || printf '\r\033[K' >&2
}
list_points >"$scratch/points"
measure_rounds 1 "$rounds"
show bench_sum.awk "$results" >"$scratch/sums" || exit 1
show bench_bars.awk -v list=1 "$here/bars.txt" "$scratch/sums" | sort >"$scratch/points"
echo "# $(wc -l <"$scratch/points") points missed a bar or a guideline, and are measured $again times more"
measure_rounds $((rounds + 1)) $((rounds + again))
[ "$failed" -ne 0 ] || echo '{"finished": true}' >>"$results"

# --- Report.
show bench_sum.awk "$results" >"$results.sums" || exit 1
show bench_table.awk "$results.sums"
show bench_bars.awk "$here/bars.txt" "$results.sums"
echo "# Every measurement: $(basename "$results"); medians: $(basename "$results").sums"
exit "$failed"
