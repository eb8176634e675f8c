#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hosts.sh: several hosts on one machine, as namespaces: each has its own network, name, processes, IPC, clock
# (CLOCK_MONOTONIC, where the kernel can) and directories of local sockets, so that two of them reach each
# other by TCP/IP and by nothing else.
#
# usage: hosts.sh K COMMAND..      makes the hosts h0 .. h(K-1), 10.77.0.1 and up, runs the command beside
#                                  them (10.77.0.254), and takes all down, however it ends
#        hosts.sh on HOST WORDS..  by that command: runs the words on a host, by a shell; this is also an
#                                  agent of mpirun: --mca plm_rsh_agent "hosts.sh on"
#        hosts.sh cut HOST         by that command: cuts the host's link
#        hosts.sh narrow HOST RATE by that command: the host sends no faster than that, as 100mbit
#        hosts.sh wire A B PROGRAM DELAY_US GBIT_PER_S
#                                  by that command: a link more, wire0, between two hosts, which PROGRAM
#                                  (wire.c) keeps until it is killed
#
# Exits with 77 where the system allows no namespaces. What is shared unless it is made private: the local
# sockets of Tutti in /tmp (they cross namespaces of networks), /dev/shm, and /sys, where UCX looks for
# devices.
set -eu
self=$(readlink -f "$0")

fail() # WHAT STATUS
{
    echo "hosts.sh: $1" >&2
    exit "$2"
}

# The inside of a host: its first process, which sleeps. All its processes end with it.
be_host() # NUMBER HOSTS
{
    hostname "h$1"
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    mount -t tmpfs tmpfs /dev/shm
    private=/tmp/tutti-$(id -u)
    # It stays when the host is gone, and Tutti refuses a directory that others may enter.
    mkdir -p -m 700 "$private"
    mount -t tmpfs -o mode=700 tmpfs "$private"
    {
        echo 127.0.0.1 localhost
        for i in $(seq 0 $(($2 - 1))); do
            echo "10.77.0.$((i + 1)) h$i"
        done
    } >/dev/shm/hosts
    mount --bind /dev/shm/hosts /etc/hosts
    ip link set lo up
    : >"$NET_HOSTS/ready$1"
    exec sleep infinity
}

make_host() # NUMBER HOSTS
{
    log=$NET_HOSTS/log$1
    clock=
    if unshare -T --monotonic 1 --fork true 2>/dev/null; then
        clock="-T --monotonic $((10000 * ($1 + 1)))"
    fi
    # shellcheck disable=SC2086
    unshare -nuimp $clock --fork --kill-child "$self" be_host "$1" "$2" </dev/null >/dev/null 2>"$log" &
    outer=$!
    tries=0
    until [ -e "$NET_HOSTS/ready$1" ]; do
        tries=$((tries + 1))
        if [ $tries -ge 500 ]; then
            cat "$log" >&2
            fail "host $1 does not start" 77
        fi
        sleep 0.02
    done
    inner=$(cat "/proc/$outer/task/$outer/children")
    inner=${inner%% *}
    echo "$inner" >"$NET_HOSTS/h$1"
    ip link add "v$1" type veth peer name eth0 netns "$inner"
    ip link set "v$1" master br0 up
    nsenter -t "$inner" -n ip addr add "10.77.0.$(($1 + 1))/24" dev eth0
    nsenter -t "$inner" -n ip link set eth0 up
}

case ${1:-} in
be_host) be_host "$2" "$3" ;;
inside)
    hosts=$2
    shift 2
    mount -t proc proc /proc
    ip link set lo up
    ip link add br0 type bridge
    ip link set br0 up
    ip addr add 10.77.0.254/24 dev br0
    for i in $(seq 0 $((hosts - 1))); do
        make_host "$i" "$hosts"
    done
    "$@" # no exec: with the end of this process, the first of its namespace, all hosts end
    ;;
on)
    host=$2
    shift 2
    # shellcheck disable=SC2016
    exec nsenter -t "$(cat "$NET_HOSTS/$host")" -n -u -i -m -p -T \
        sh -c 'cd "$0" 2>/dev/null; exec sh -c "$1"' "$PWD" "$*"
    ;;
cut) ip link set "v${2#h}" down ;;
narrow)
    # A line passes no byte faster than others. So it is no tbf: that lets a burst pass at once, which must be
    # as long as a packet of 64 KB and its heads, or each of these is cut into frames, at the cost of the
    # processors.
    "$self" on "$2" "tc qdisc del dev eth0 root 2>/dev/null
        tc qdisc add dev eth0 root handle 1: htb default 1 &&
        tc class add dev eth0 parent 1: classid 1:1 htb rate $3 burst 2k cburst 2k quantum 60000"
    ;;
wire) exec "$4" "$(cat "$NET_HOSTS/$2")" "$(cat "$NET_HOSTS/$3")" "$5" "$6" ;;
[1-9]*)
    hosts=$1
    shift
    command -v ip >/dev/null && command -v unshare >/dev/null || fail "iproute2 and util-linux are needed" 77
    if [ "$(id -u)" = 0 ] && unshare -mnp --fork true 2>/dev/null; then
        flags=-mnp
    elif unshare -Urmnp --fork true 2>/dev/null; then
        flags=-Urmnp
    else
        fail "the system allows no namespaces here" 77
    fi
    NET_HOSTS=$(mktemp -d)
    export NET_HOSTS
    trap 'rm -rf "$NET_HOSTS"' EXIT
    trap 'exit 130' INT TERM
    unshare $flags --fork --kill-child "$self" inside "$hosts" "$@"
    ;;
*) sed -n '3,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
