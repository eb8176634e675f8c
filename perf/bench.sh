#!/bin/sh
# bench.sh: Tutti beside Open MPI on this machine, in one run.
#
# usage: bench.sh [COLLPERF [FILE]]
#   COLLPERF  the program to measure (default: ./collperf); bench_mpi is compiled beside it
#   FILE      where every measurement goes as a JSON line (default: bench.jsonl beside COLLPERF)
# The environment changes what is measured: BENCH_ROUNDS (5), BENCH_RANKS ("2 8"), BENCH_COLLECTIVE
# (all_reduce), BENCH_SIZES ("8 65536 1048576 8388608").
#
# The distance between two virtual cores changes from minute to minute, so the programs alternate within each
# round, medians are compared, and the class that was seen is printed. The peer counts at the better of its
# default and of a run bound to cores. Rows where Tutti loses are printed like the others. Needs no root.
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
rounds=${BENCH_ROUNDS:-5}
ranks_list=${BENCH_RANKS:-2 8}
sizes=${BENCH_SIZES:-8 65536 1048576 8388608}
collective=${BENCH_COLLECTIVE:-all_reduce}
cores=$(nproc)

: >"$results" || exit 2
mpi=
mpirun=$(command -v mpirun.openmpi) && mpicc=$(command -v mpicc.openmpi) && mpi=$build/bench_mpi
if [ -n "$mpi" ]; then
    "$mpicc" -std=c11 -O2 -D_GNU_SOURCE -o "$mpi" "$here/bench_mpi.c" "$here/clock.c" "$here/pace.c" || exit 1
    root=
    [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
    echo "# $("$mpirun" --version | head -n 1); built with: $(basename "$mpicc") -O2"
else
    echo "# Open MPI is not here (mpirun.openmpi, mpicc.openmpi): only Tutti is measured"
fi

# --- The command lines. Each prints JSON lines; a failure is a message and no line.
tutti_command() # ranks bytes memory
{
    echo "$collperf $collective -g $1 -b $2 -e $2 --memory $3 --json"
}
mpi_command() # ranks bytes variant
{
    echo "$mpirun $root -n $1$([ "$1" -le "$cores" ] || echo " --oversubscribe --mca mpi_yield_when_idle 1")$(
        [ "$3" = default ] || echo " --bind-to core$([ "$1" -le "$cores" ] || echo :overload-allowed)"
    ) $mpi $collective $2 openmpi"
}

# The words of a command are split on purpose: no path here may hold a blank.
measure() # label command
{
    lines=$(timeout 300 $2 </dev/null) || {
        echo "bench.sh: this failed: $2" >&2
        failed=1
        return
    }
    printf '%s\n' "$lines" |
        sed -e 's/"library": "[^"]*", //' -e "s/^{/{\"library\": \"$1\", \"round\": $round, /" >>"$results"
}

echo "# Command lines:"
for n in $ranks_list; do
    for memory in malloc registered; do
        echo "#   $(tutti_command "$n" BYTES $memory)" | sed "s,$build/,,"
    done
    [ -z "$mpi" ] || for variant in default bound; do
        echo "#   $(mpi_command "$n" BYTES $variant)" | sed -e "s,$build/,,g" -e 's,[^ ]*/mpirun,mpirun,'
    done
done
echo "# $rounds alternating rounds on $cores cores, medians; sizes in bytes, fp32 sum, out of place"
load() # how busy the machine was with other things
{
    [ ! -r /proc/loadavg ] || echo "# Load average $1: $(cut -d ' ' -f 1-2 /proc/loadavg)"
}
load before

failed=0
for round in $(seq 1 "$rounds"); do
    for n in $ranks_list; do
        for bytes in $sizes; do
            [ ! -t 2 ] || printf '\r\033[Kround %s of %s: %s ranks, %s B' "$round" "$rounds" "$n" "$bytes" >&2
            measure "tutti malloc" "$(tutti_command "$n" "$bytes" malloc)"
            [ -z "$mpi" ] || measure "openmpi default" "$(mpi_command "$n" "$bytes" default)"
            measure "tutti registered" "$(tutti_command "$n" "$bytes" registered)"
            [ -z "$mpi" ] || measure "openmpi bound" "$(mpi_command "$n" "$bytes" bound)"
        done
    done
done
[ ! -t 2 ] || printf '\r\033[K' >&2

load after

# --- The table: medians in microseconds; a ratio above 1 says how many times faster Tutti is.
awk -v sizes="$sizes" -v ranks_list="$ranks_list" '
function field(name,    value)
{
    if (!match($0, "\"" name "\": [^,}]*"))
        return ""
    value = substr($0, RSTART, RLENGTH)
    sub(/^[^:]*: /, "", value)
    gsub(/"/, "", value)
    return value
}
function median(key,    i, j, n, t, v)
{
    n = count[key]
    if (n == 0)
        return 0
    for (i = 1; i <= n; i++) {
        t = value[key, i]
        for (j = i - 1; j > 0 && v[j] > t; j--)
            v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}
function add(key, what)
{
    value[key, ++count[key]] = what + 0
}
function time(us)
{
    return us > 0 ? sprintf(us < 10 ? "%.3f" : us < 1000 ? "%.1f" : "%.0f", us) : "-"
}
function ratio(peer, own)
{
    return peer > 0 && own > 0 ? sprintf("%.2fx%s", peer / own, peer < own ? " LOSS" : "") : "-"
}
field("in_place") == "false" {
    point = field("ranks") SUBSEP field("bytes")
    add(point SUBSEP field("library"), field("time_us"))
    if (field("flag_us") != "" && field("flag_us") != "null") {
        add(point SUBSEP "flag", field("flag_us"))
        if (!((point, field("class")) in seen))
            classes[point] = classes[point] (classes[point] == "" ? "" : "+") field("class")
        seen[point, field("class")] = 1
    }
}
END {
    printf "%15s | %21s | %23s | %23s |\n", "", "Open MPI, us", "Tutti, us", "Tutti is faster by"
    printf "%5s %9s | %10s %10s | %11s %11s | %11s %11s | %s\n", "ranks", "bytes", "default", "bound",
        "malloc", "registered", "malloc", "registered", "flag us"
    n_ranks = split(ranks_list, r, " ")
    n_sizes = split(sizes, s, " ")
    for (i = 1; i <= n_ranks; i++)
        for (j = 1; j <= n_sizes; j++) {
            point = r[i] SUBSEP s[j]
            plain = median(point SUBSEP "openmpi default")
            bound = median(point SUBSEP "openmpi bound")
            best = bound > 0 && bound < plain ? bound : plain
            own = median(point SUBSEP "tutti malloc")
            mapped = median(point SUBSEP "tutti registered")
            printf "%5s %9s | %10s %10s | %11s %11s | %11s %11s | %.3f %s\n", r[i], s[j], time(plain),
                time(bound), time(own), time(mapped), ratio(best, own), ratio(best, mapped),
                median(point SUBSEP "flag"), classes[point]
        }
}' "$results"
echo "# Every measurement: $(basename "$results")"
exit "$failed"
