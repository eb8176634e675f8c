#!/bin/sh
# bench.sh: Tutti beside Open MPI and MPICH on this machine, in one run.
#
# usage: bench.sh [COLLPERF [FILE]]
#   COLLPERF  the program to measure (default: ./collperf); bench_mpi is compiled beside it for each MPI
#   FILE      where every measurement goes as a JSON line (default: bench.jsonl beside COLLPERF). A run that
#             was interrupted goes on where it was if the programs and what is asked are the same.
# The environment changes what is measured: BENCH_QUICK=1 (all_reduce and few sizes, some minutes),
# BENCH_ROUNDS, BENCH_RANKS, BENCH_COLLECTIVES, BENCH_SIZES; BENCH_TIMEOUT, seconds for one measurement.
#
# The distance between two virtual cores changes from minute to minute, so the programs alternate within each
# round of a point, each measures the round trip of a flag, and only rounds count in which all were in one
# class; one that was not is tried once more. A peer counts at the better of its default and of a run bound to
# cores. Rows where Tutti loses are printed like the others. Needs no root.
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
    rounds=3 ranks_list='2 8' sizes='8 65536 1048576' collectives=all_reduce
else
    rounds=3 ranks_list='2 8' sizes='8 4096 65536 1048576 8388608 67108864'
    collectives=$("$collperf" --list collectives | tr '\n' ' ')
fi
rounds=${BENCH_ROUNDS:-$rounds}
ranks_list=${BENCH_RANKS:-$ranks_list}
sizes=${BENCH_SIZES:-$sizes}
collectives=${BENCH_COLLECTIVES:-$collectives}
limit=${BENCH_TIMEOUT:-60}
patience=${BENCH_PATIENCE:-20}
cores=$(nproc)
failed=0
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

# --- The peers. One that is not installed is left out, and the table says so.
peers=
root=
[ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
for peer in openmpi mpich; do
    if ! command -v mpirun.$peer >/dev/null || ! command -v mpicc.$peer >/dev/null; then
        echo "# $peer is not here (mpirun.$peer, mpicc.$peer)"
        continue
    fi
    set --
    for part in bench_mpi clock flag pace size; do
        set -- "$@" "$here/$part.c"
    done
    mpicc.$peer -std=c11 -O2 -D_GNU_SOURCE -o "$build/bench_$peer" "$@" || exit 1
    peers="$peers $peer"
done
version_of() # peer
{
    mpirun."$1" --version | sed -n -e 's/^ *Version: *//p' -e 's/.*(Open.*) *//p' | head -n 1
}

# --- The command lines. Each prints JSON lines; a failure is a message and no line.
tutti_command() # collective ranks bytes memory
{
    echo "$collperf $1 -g $2 -b $3 -e $3 --memory $4 --json"
}
peer_command() # collective ranks bytes peer variant
{
    crowded=$([ "$2" -le "$cores" ] || echo 1)
    case $4,$5 in
    openmpi,default) options=$root ;;
    openmpi,bound) options="$root --bind-to core${crowded:+:overload-allowed}" ;;
    mpich,default) options= ;;
    mpich,bound) options='-bind-to core' ;;
    esac
    [ "$4" != openmpi ] || options="$options${crowded:+ --oversubscribe --mca mpi_yield_when_idle 1}"
    echo "mpirun.$4${options:+ $options} -n $2 $build/bench_$4 $1 $3"
}

# --- A machine that does other things is waited for, if it becomes quiet within BENCH_PATIENCE seconds. Who
# else used the cores while a measurement ran is known, in percent of them, from what lies between two marks.
mark() # name
{
    [ -r /proc/stat ] || return
    times >"$scratch/$1"
    sed -n 's/^cpu  *//p' /proc/stat >>"$scratch/$1"
    cut -d ' ' -f 1 /proc/uptime >>"$scratch/$1"
}
others()
{
    [ -r /proc/stat ] || { echo 0; return; }
    awk -v cores="$cores" -v hz="$(getconf CLK_TCK)" '
        function seconds(text,    p) { split(text, p, /[ms]/); return 60 * p[1] + p[2] }
        FNR == 1 || FNR == 2 { own += sign * (seconds($1) + seconds($2)) }
        FNR == 3 { busy += sign * ($1 + $2 + $3 + $6 + $7 + $8) / hz }
        FNR == 4 { wall += sign * $1 }
        END { printf("%.0f", wall > 0 && busy > own ? 100 * (busy - own) / (wall * cores) : 0) }
        ' sign=-1 "$scratch/before" sign=1 "$scratch/after"
}
wait_for_quiet()
{
    [ -r /proc/loadavg ] || return
    while [ "$waited" -lt $((5 * patience)) ]; do
        read -r _ _ _ running _ </proc/loadavg
        [ "${running%%/*}" -gt 1 ] || return
        waited=$((waited + 1))
        sleep 0.2
    done
}

# Broadcast is compared in place, since MPI has no other form of it, and everything else out of place. The
# words of a command are split on purpose: no path here may hold a blank.
measure() # library variant command
{
    waited=0
    for try in 1 2 3 4 5; do
        wait_for_quiet
        mark before
        # shellcheck disable=SC2086
        timeout -k 5 "$limit" $3 </dev/null >"$scratch/lines" 2>"$scratch/errors" || {
            [ $? -ne 124 ] || echo "more than $limit s" >"$scratch/errors"
            echo "bench.sh: this failed: $3: $(head -n 3 "$scratch/errors")" >&2
            failed=1
            return
        }
        mark after
        others=$(others)
        [ "$others" -gt 8 ] || break
    done
    grep "\"in_place\": $([ "$collective" = broadcast ] && echo true || echo false)" "$scratch/lines" |
        sed "s/^{/{\"point\": \"$point\", \"library\": \"$1\", \"variant\": \"$2\", \"size\": $bytes, \
\"tries\": $try, \"others\": $others, /" >>"$scratch/round"
}

# All programs of one point, once.
measure_round()
{
    : >"$scratch/round"
    for step in 1 2; do
        memory=$([ $step = 1 ] && echo malloc || echo registered)
        variant=$([ $step = 1 ] && echo default || echo bound)
        measure tutti default "$(tutti_command "$collective" "$n" "$bytes" "$memory")"
        for peer in $peers; do
            measure "$peer" "$variant" "$(peer_command "$collective" "$n" "$bytes" "$peer" "$variant")"
        done
    done
}

count_classes()
{
    sed -n 's/.*"class": "\([^"]*\)".*/\1/p' "$scratch/round" | sort -u | wc -l
}

# --- What is asked, and whether the file already has a part of it.
asked="rounds $rounds; ranks $ranks_list; sizes $sizes; $collectives;$peers"
built=$(cat "$collperf" "$build"/.libs/collperf "$build"/.libs/libtutti.so 2>/dev/null | cksum)
header="{\"asked\": \"$asked\", \"built\": \"$built\","
if ! head -n 1 "$results" 2>/dev/null | grep -qF "$header" ||
    tail -n 1 "$results" | grep -q '^{"finished"'; then
    cpu=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo | head -n 1)
    {
        printf '%s "date": "%s", "machine": "%s cores, %s, Linux %s"' "$header" "$(date -u +%Y-%m-%d)" \
            "$cores" "$cpu" "$(uname -r | sed 's/[^0-9.].*//')"
        printf ', "tutti": "%s"' "$("$collperf" --version | sed 's/.* //')"
        for peer in $peers; do
            printf ', "%s": "%s"' "$peer" "$(version_of "$peer")"
        done
        printf '}\n'
    } >"$results" || exit 2
fi

echo "# Command lines:"
for n in $ranks_list; do
    for memory in malloc registered; do
        echo "#   $(tutti_command COLLECTIVE "$n" BYTES $memory)" | sed "s,$build/,,"
    done
    for peer in $peers; do
        for variant in default bound; do
            echo "#   $(peer_command COLLECTIVE "$n" BYTES "$peer" $variant)" | sed "s,$build/,,"
        done
    done
done
echo "# $rounds alternating rounds on $cores cores, medians; sizes in bytes, fp32 sum, out of place"
load() # how busy the machine was with other things
{
    [ ! -r /proc/loadavg ] || echo "# Load average $1: $(cut -d ' ' -f 1-2 /proc/loadavg)"
}
load before

# --- Measure.
for round in $(seq 1 "$rounds"); do
    for n in $ranks_list; do
        for bytes in $sizes; do
            for collective in $collectives; do
                # a barrier has no size
                [ "$collective" != barrier ] || [ "$bytes" = "${sizes%% *}" ] || continue
                point="$collective $n $bytes $round"
                ! grep -qF "\"point\": \"$point\"" "$results" || continue
                [ ! -t 2 ] || printf '\r\033[Kround %s of %s: %s ranks, %s B, %s' "$round" "$rounds" "$n" \
                    "$bytes" "$collective" >&2
                measure_round
                [ "$(count_classes)" -le 1 ] || measure_round
                cat "$scratch/round" >>"$results"
            done
        done
    done
done
[ ! -t 2 ] || printf '\r\033[K' >&2
load after
[ "$failed" -ne 0 ] || echo '{"finished": true}' >>"$results"

awk -f "$here/bench_json.awk" -f "$here/bench_sum.awk" "$results" >"$scratch/sums" &&
    awk -f "$here/bench_json.awk" -f "$here/bench_table.awk" "$scratch/sums"
echo "# Every measurement: $(basename "$results")"
exit "$failed"
