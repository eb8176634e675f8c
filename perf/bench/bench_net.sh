#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_net.sh: Tutti between hosts beside Open MPI, by turns, between namespaces of this machine
# (tests/net/hosts.sh), whose links are no slower than its memory.
#
# usage: bench_net.sh [COLLPERF]     (default: ./collperf)
#
# The environment changes what is measured: BENCH_ROUNDS (3), BENCH_LAYOUTS ("2x1 2x2"), BENCH_SIZES
# ("8 4096 65536 1048576 8388608"), BENCH_COLLECTIVES ("all_reduce"), BENCH_PLACES: the cores that ranks are
# bound to: "each" of this machine's, by turns (the default), "one" for all, or "none"; TUTTI_CONGESTION.
# Where ranks run, and how congestion is controlled, changes times by factors; so both are printed.
# Prints the median time of all rounds in microseconds: Tutti by TCP and by UCX; Open MPI by TCP (ob1), by
# UCX, and by its hierarchical module (HAN); and how many times as long as Tutti by TCP its best takes.
set -u
LC_ALL=C OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
TUTTI_CONGESTION=${TUTTI_CONGESTION:-system}
export TUTTI_CONGESTION LC_ALL OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
hosts_sh=$top/tests/net/hosts.sh

if [ "${1:-}" = --inside ]; then
    hosts=$2 per_host=$3 collperf=$4 peer=$5 scratch=$6 place=$6/place
    list=$(for i in $(seq 0 $((hosts - 1))); do printf 'h%d:%d,' "$i" "$per_host"; done)
    # A host takes all cores for its own, so mpirun would bind the first ranks of two hosts to the same one.
    set -- mpirun.openmpi --mca plm_rsh_agent "$hosts_sh on" --mca oob_tcp_if_include 10.77.0.0/24 \
        --mca btl_tcp_if_include 10.77.0.0/24 --mca mpi_yield_when_idle 1 --bind-to none \
        --host "${list%,}" -np $((hosts * per_host))
    ours() # NETWORK
    {
        timeout 120 "$@" </dev/null 2>/dev/null | sed -n 's/.*"time_us": *\([0-9.]*\).*/\1/p' | head -n 1
    }
    for round in $(seq "${BENCH_ROUNDS:-3}"); do
        for collective in ${BENCH_COLLECTIVES:-all_reduce}; do
            for bytes in ${BENCH_SIZES:-8 4096 65536 1048576 8388608}; do
                for what in tcp ucx ob1 mpi_ucx han; do
                    case $what in
                    tcp | ucx) time=$(ours "$@" -x TUTTI_NETWORK=$what -x TUTTI_CONGESTION "$place" \
                        "$collperf" "$collective" -b "$bytes" -e "$bytes" --json) ;;
                    ob1) time=$(ours "$@" --mca pml ob1 "$place" "$peer" "$collective" "$bytes") ;;
                    mpi_ucx) time=$(ours "$@" --mca pml ucx --mca opal_common_ucx_tls any \
                        --mca opal_common_ucx_devices any "$place" "$peer" "$collective" "$bytes") ;;
                    han) time=$(ours "$@" --mca pml ob1 --mca coll_han_priority 100 "$place" "$peer" \
                        "$collective" "$bytes") ;;
                    esac
                    echo "${hosts}x$per_host $collective $bytes $what ${time:-nan}" >>"$scratch/times"
                done
            done
        done
        echo "bench_net: ${hosts}x$per_host, round $round is done" >&2
    done
    exit 0
fi

collperf=$(readlink -f "${1:-./collperf}")
command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null || {
    echo "bench_net.sh: Open MPI is needed (openmpi-bin, libopenmpi-dev)" >&2
    exit 77
}
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
set -- "$here/bench_mpi.c"
for part in clock rewrite flag iterations size; do
    set -- "$@" "$top/perf/collperf/$part.c"
done
mpicc.openmpi -std=c11 -O2 -D_GNU_SOURCE -I"$top" -o "$scratch/peer" "$@" || exit 2
cores=$(awk '/^Cpus_allowed_list/ {
    n = split($2, ranges, ",")
    for (i = 1; i <= n; i++) {
        split(ranges[i] "-" ranges[i], ends, "-")
        for (core = ends[1]; core <= ends[2]; core++)
            printf "%s ", core
    }
}' /proc/self/status)
case ${BENCH_PLACES:-each} in
each) places=$cores words='ranks are bound to cores, by turns:' ;;
one) places=${cores%% *} words='all ranks are bound to one core:' ;;
none) places='' words='ranks are bound to no core of' ;;
*)
    echo "bench_net.sh: BENCH_PLACES is $BENCH_PLACES; legal: each, one, none" >&2
    exit 2
    ;;
esac
cat >"$scratch/place" <<END
#!/bin/sh
set -- $places -- "\$@"
places=0
for word; do
    [ "\$word" != -- ] || break
    places=\$((places + 1))
done
[ \$places -gt 0 ] || { shift; exec "\$@"; }
eval "core=\\\${\$((OMPI_COMM_WORLD_RANK % places + 1))}"
shift \$((places + 1))
exec taskset -c "\$core" "\$@"
END
chmod +x "$scratch/place"
echo "# $words ${places:-$cores}"
echo "# net.ipv4.tcp_congestion_control is $(cat /proc/sys/net/ipv4/tcp_congestion_control)," \
    "TUTTI_CONGESTION $TUTTI_CONGESTION"
for layout in ${BENCH_LAYOUTS:-2x1 2x2}; do
    set -- "${layout%x*}" "${layout#*x}" "$collperf" "$scratch/peer" "$scratch"
    "$hosts_sh" "$1" sh "$0" --inside "$@" || exit $?
done
sort -k1,1 -k2,2 -k3,3n -k4,4 -k5,5g "$scratch/times" | awk '
function out() {
    if (key == "")
        return
    best = 1e30
    for (w in mid)
        if (w != "tcp" && w != "ucx" && mid[w] > 0 && mid[w] < best)
            best = mid[w]
    mine = mid["ucx"] > 0 && mid["ucx"] < mid["tcp"] ? mid["ucx"] : mid["tcp"]
    printf "%-4s %-14s %9d %10.1f %10.1f %10.1f %10.1f %10.1f %8.2f\n", part[1], part[2], part[3], mid["tcp"],
        mid["ucx"], mid["ob1"], mid["mpi_ucx"], mid["han"], best / mid["tcp"]
    delete mid
}
BEGIN { printf "%-4s %-14s %9s %10s %10s %10s %10s %10s %8s\n", "", "", "bytes", "tutti tcp", "tutti ucx",
        "ompi ob1", "ompi ucx", "ompi han", "best/tcp" }
{
    if ($1 " " $2 " " $3 != key) {
        out()
        key = $1 " " $2 " " $3
        split(key, part, " ")
    }
    n[$1, $2, $3, $4]++
    time[$1, $2, $3, $4, n[$1, $2, $3, $4]] = $5
    mid[$4] = time[$1, $2, $3, $4, int((n[$1, $2, $3, $4] + 1) / 2)]
}
END { out() }'
