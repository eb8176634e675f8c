#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_narrow.sh: how good the choices are where links are narrow: what is chosen beside other algorithms,
# by turns, between hosts that are namespaces of this machine (tests/net/hosts.sh), a rank on each, of which
# each sends no faster than a rate. The choice knows of the network what it measures.
#
# usage: bench_narrow.sh [COLLPERF]     (default: ./collperf)
#
# The environment changes what is measured: BENCH_HOSTS (6), BENCH_RATES ("100mbit 1gbit"; "none": what the
# processors let pass), BENCH_SIZES ("64K 1M 4M 16M"), BENCH_COLLECTIVES ("broadcast all_reduce all_gather"),
# BENCH_ROUNDS (3), BENCH_CALLS (3, timed after one that is not), BENCH_LEAVE: algorithms that are left out,
# besides those that take twice as long as others on such hosts by any count; TUTTI_PROBE, TUTTI_CONGESTION.
# A line for each cell: the algorithm that is chosen (of several, the last), its time and that of the best in
# ms, medians of the rounds, of the mean of the calls, for calls overlap, out of place; how many times as long
# as the best it takes; the times of the others.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
hosts_sh=$top/tests/net/hosts.sh

# Runs collperf on all hosts; what rank 0 prints goes to $scratch/out.
ranks() # WORDS..
{
    pids=
    port=$((port + 1))
    for rank in $(seq 0 $((hosts - 1))); do
        place="TUTTI_ROOT=10.77.0.1:$port TUTTI_SECRET_FILE=$scratch/secret TUTTI_RANK=$rank"
        out=/dev/null
        [ "$rank" -gt 0 ] || out=$scratch/out
        "$hosts_sh" on "h$rank" "exec env $place TUTTI_SIZE=$hosts $collperf $*" \
            >"$out" 2>/dev/null </dev/null &
        pids="$pids $!"
    done
    for pid in $pids; do
        wait "$pid"
    done
}

# Of the calls out of place: the algorithm, and how many microseconds it takes.
taken()
{
    sed -n '/"in_place": *false/s/.*"algorithm": *"\([a-z_]*\)".*"time_us": *\([0-9.]*\).*/\1 \2/p' \
        "$scratch/out"
}

algorithms() # COLLECTIVE
{
    case $1 in
    broadcast) names='circulant split tree' ;;
    all_reduce) names='direct ring circulant halving double_tree tree' ;;
    *) names='direct ring circulant bruck' ;;
    esac
    for name in $names; do
        case " ${BENCH_LEAVE:-} " in
        *" $name "*) ;;
        *) echo "$name" ;;
        esac
    done
}

measure_cell() # RATE COLLECTIVE BYTES
{
    call="$2 -b $3 -e $3 -n ${BENCH_CALLS:-3} -w 1 -c 0 --json"
    : >"$scratch/times"
    for _ in $(seq "${BENCH_ROUNDS:-3}"); do
        ranks "$call" -n 1 -w 0
        chosen=$(taken | cut -d' ' -f1)
        echo "chosen $chosen" >>"$scratch/times"
        for algorithm in $( (echo "$chosen" && algorithms "$2") | awk '!seen[$0]++'); do
            ranks "$call" --algo "$algorithm"
            taken >>"$scratch/times"
        done
    done
    sort -k1,1 -k2,2n "$scratch/times" | awk -v rate="$1" -v collective="$2" -v bytes="$3" '
        $1 == "chosen" { chosen = $2; next }
        { time[$1, ++count[$1]] = $2 / 1000 }
        END {
            for (a in count) {
                median[a] = time[a, int((count[a] + 1) / 2)]
                if (best == "" || median[a] < median[best])
                    best = a
            }
            if (!(chosen in median)) {
                print rate, collective, bytes, "failed"
                exit
            }
            printf "%-8s %-10s %5s %-10s %8.1f %-10s %8.1f %6.2f ", rate, collective, bytes, chosen,
                median[chosen], best, median[best], median[chosen] / median[best]
            for (a in count)
                if (a != best && a != chosen)
                    printf " %s %.1f", a, median[a]
            print ""
        }'
}

if [ "${1:-}" = --inside ]; then
    collperf=$2 scratch=$3 hosts=$4 port=4000
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 >"$scratch/secret")
    for rate in ${BENCH_RATES:-100mbit 1gbit}; do
        for i in $(seq 0 $((hosts - 1))); do
            [ "$rate" = none ] || "$hosts_sh" narrow "h$i" "$rate" || exit 77
        done
        for collective in ${BENCH_COLLECTIVES:-broadcast all_reduce all_gather}; do
            for bytes in ${BENCH_SIZES:-64K 1M 4M 16M}; do
                measure_cell "$rate" "$collective" "$bytes"
            done
        done
    done
    exit 0
fi

collperf=$(readlink -f "${1:-./collperf}")
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
echo "# $(uname -sr), $(nproc) cores, ${BENCH_HOSTS:-6} hosts, ${BENCH_ROUNDS:-3} rounds; load" \
    "$(cut -d' ' -f1 /proc/loadavg); net.ipv4.tcp_congestion_control is" \
    "$(cat /proc/sys/net/ipv4/tcp_congestion_control), TUTTI_CONGESTION ${TUTTI_CONGESTION:-system}"
printf '%-8s %-10s %5s %-10s %8s %-10s %8s %6s  %s\n' rate collective bytes chosen ms best ms ratio others
"$hosts_sh" "${BENCH_HOSTS:-6}" sh "$0" --inside "$collperf" "$scratch" "${BENCH_HOSTS:-6}"
