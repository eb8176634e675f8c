#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_gloo.sh: Tutti beside Gloo (torch.distributed) from Python, by turns, a rank on each of several hosts,
# which are namespaces of this machine (tests/net/hosts.sh).
#
# usage: PYTHON=python3 bench_gloo.sh LIBRARY [HOSTS [ROUNDS]]     LIBRARY: libtutti.so; HOSTS: 4
#
# The Python needs numpy and torch. Ranks are bound to this machine's cores, by turns.
set -u
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)
hosts_sh=$top/tests/net/hosts.sh

if [ "${1:-}" = --inside ]; then
    library=$2 hosts=$3 rounds=$4 scratch=$5
    (umask 077 && head -c 32 /dev/urandom | od -An -tx1 >"$scratch/secret")
    pids=
    for rank in $(seq 0 $((hosts - 1))); do
        place="PYTHONPATH=$top/python TUTTI_LIBRARY=$library TUTTI_ROOT=10.77.0.1:4000 TUTTI_RANK=$rank"
        place="$place TUTTI_SIZE=$hosts TUTTI_SECRET_FILE=$scratch/secret GLOO_SOCKET_IFNAME=eth0"
        "$hosts_sh" on "h$rank" "exec env $place taskset -c $((rank % $(nproc))) ${PYTHON:-python3} \
            $here/bench_gloo.py 10.77.0.1:4001 $rounds" </dev/null &
        pids="$pids $!"
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=1
    done
    exit $worst
fi

library=$(readlink -f "${1:?"LIBRARY is missing: libtutti.so"}")
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
echo "# ${2:-4} hosts, a rank on each, bound to cores by turns; net.ipv4.tcp_congestion_control is" \
    "$(cat /proc/sys/net/ipv4/tcp_congestion_control)"
printf '%-12s %9s %10s %10s %8s\n' '' bytes 'tutti us' 'gloo us' ratio
"$hosts_sh" "${2:-4}" sh "$0" --inside "$library" "${2:-4}" "${3:-11}" "$scratch"
