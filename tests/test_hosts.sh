#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_hosts.sh: jobs over several hosts, as a user meets them: every collective is right, and what goes wrong
# on one host is told on all.
#
# usage: COLLPERF=path test_hosts.sh    (default: ./collperf)
#
# Hosts are ranks of different TUTTI_HOSTID; and, where the system allows them, namespaces
# (tests/net/hosts.sh), with mpirun of Open MPI if it is here.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$here/tests/net/hosts.sh" ] || here=$(dirname "$here")
hosts_sh=$here/tests/net/hosts.sh
collperf=$(readlink -f "${COLLPERF:-./collperf}")
for name in ID RANK SIZE ROOT SECRET_FILE INTERFACE HOSTID; do
    unset TUTTI_$name
done
unset PMIX_RANK PMIX_NAMESPACE PMI_RANK PMI_FD PMI_SIZE RANK WORLD_SIZE TORCHELASTIC_RUN_ID
OMPI_ALLOW_RUN_AS_ROOT=1
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
TUTTI_INIT_TIMEOUT=60000
TUTTI_PROBE=off # but where a network is made to be measured: of others that hangs on who else is busy here
export TUTTI_PROBE
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM TUTTI_INIT_TIMEOUT
good='Out of bounds values : 0 OK'
wire=$(dirname "$collperf")/tests/net/wire
endless="$collperf all_reduce -b 64K -e 64K -n 100000000 -w 1"

# --ranks HOSTS PER_HOST HOW WORDS..: starts all ranks, waits for them; HOW is `ids`, or `on` for namespaces.
# Their output is in $scratch/out.RANK, their processes in $scratch/pid.RANK. Fails if one of them did.
if [ "${1:-}" = --ranks ]; then
    hosts=$2 per_host=$3 how=$4
    shift 4
    rank=0
    pids=
    for host in $(seq 0 $((hosts - 1))); do
        for _ in $(seq "$per_host"); do
            place="TUTTI_ROOT=$root TUTTI_SECRET_FILE=$scratch/secret TUTTI_RANK=$rank"
            place="$place TUTTI_SIZE=$((hosts * per_host))"
            if [ "$how" = on ]; then
                "$hosts_sh" on "h$host" "exec env $place $*" >"$scratch/out.$rank" 2>&1 </dev/null &
            else
                # shellcheck disable=SC2086
                env $place TUTTI_INTERFACE="${interface:-127.0.0.1}" TUTTI_HOSTID="h$host" "$@" \
                    >"$scratch/out.$rank" 2>&1 </dev/null &
            fi
            pids="$pids $!"
            echo $! >"$scratch/pid.$rank"
            rank=$((rank + 1))
        done
    done
    worst=0
    for pid in $pids; do
        wait "$pid" || worst=1
    done
    exit $worst
fi

case ${1:-} in
--*) scratch=$2 ;; # of who started this
*)
    scratch=$(mktemp -d) || exit 1
    trap 'rm -rf "$scratch"' EXIT
    ;;
esac
trap 'exit 1' HUP INT TERM
failures=0
root=127.0.0.1:$((20000 + $$ % 20000))
(umask 077 && head -c 32 /dev/urandom | od -An -tx1 >"$scratch/secret")
export scratch root hosts_sh

fail() # WHAT
{
    echo "FAILED: $1"
    for file in "$scratch"/out.*; do
        sed "s/^/    ${file##*.}: /" "$file" | tail -n 6
    done
    failures=$((failures + 1))
}

ranks() # HOSTS PER_HOST HOW WORDS..
{
    rm -f "$scratch"/out.* "$scratch"/pid.*
    timeout -k 5 300 sh "$0" --ranks "$@"
}

# The bytes that came out of a host so far, where hosts are namespaces.
came_from_h0()
{
    ip -s link show v0 | awk '/RX:/ { getline; print $1 }'
}

# At each port at which a rank listens somebody comes, says what no rank says, and goes.
visit()
{
    tries=0
    until [ $tries -ge 100 ] ||
        ss -tlnpH 2>/dev/null | grep -qF "pid=$(cat "$scratch/pid.1" 2>/dev/null),"; do
        tries=$((tries + 1))
        sleep 0.05
    done
    for file in "$scratch"/pid.*; do
        for port in $(ss -tlnpH | grep -F "pid=$(cat "$file")," | sed 's/.*:\([0-9]*\) .*:.*/\1/'); do
            echo "$port" >>"$scratch/visited"
            visitors=
            for words in "printf 'GET / HTTP/1.0\r\n\r\n'" "head -c 100000 /dev/urandom" \
                "head -c 4096 /dev/zero" :; do
                timeout 0.3 bash -c "$words >/dev/tcp/127.0.0.1/$port" 2>/dev/null &
                visitors="$visitors $!"
            done
            # shellcheck disable=SC2086
            wait $visitors
        done
    done
}
# A row of collperf takes a part of a second on any machine: the rows last longer than the visits, which come
# all at once.
survive() # WHAT
{
    rm -f "$scratch/visited"
    visit &
    ranks 2 1 ids "$collperf" all_reduce -b 32K -e 64K -i 2K && grep -q "$good" "$scratch/out.0" ||
        fail "strangers at the ports of $1"
    wait $!
    [ -s "$scratch/visited" ] || fail "strangers at the ports of $1: there were no ports"
}

# Kills rank 3 of 2 x 2, in its calls: when the link between the hosts has been measured.
kill_one()
{
    tries=0
    until grep -qs '^# 2 hosts; out of each' "$scratch/out.0" || [ $tries -ge 200 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    sleep 0.5
    kill -9 "$(cat "$scratch/pid.3")"
}

# All ranks but the one that is killed say that it died, and soon.
expect_told() # WHAT LOST PATTERN SECONDS
{
    took=$(($(date +%s) - began))
    for file in "$scratch"/out.*; do
        if [ "${file##*.}" != "$2" ] && ! grep -q "$3" "$file"; then
            fail "$1: rank ${file##*.} does not say '$3'"
            return
        fi
    done
    [ "$took" -le "$4" ] || fail "$1 took $took s"
}

# --apart: by hosts.sh, among four hosts, of which two cannot reach each other.
if [ "${1:-}" = --apart ]; then
    root=10.77.0.1:4000
    if command -v mpirun.openmpi >/dev/null; then
        mpirun.openmpi --mca plm_rsh_agent "$hosts_sh on" --mca oob_tcp_if_include 10.77.0.0/24 \
            --host h0:1,h1:1,h2:2,h3:1 -np 5 "$collperf" all_reduce -b 8 -e 64K -f 64 -n 3 -w 1 \
            >"$scratch/out.0" 2>&1 </dev/null &&
            grep -q "$good" "$scratch/out.0" || fail "mpirun over four hosts"
    fi
    # Narrow hosts find out that they are, and choose as a user does who knows it. A busy machine may take a
    # network for a slower one, so the faster ones have several tries.
    for rate in 100mbit:100m 1gbit:1g; do
        for i in 0 1 2 3; do
            "$hosts_sh" narrow "h$i" "${rate%:*}" 2>/dev/null || rate=
        done
        [ -n "$rate" ] || echo "skipped: a network that is measured (the kernel has no htb)"
        for setting in ${rate:+"${rate#*:}" auto}; do
            tries=0
            until ranks 4 1 on TUTTI_PROBE=$setting "$collperf" broadcast -b 256K -e 256K -n 1 -w 1 &&
                grep -q "class ${rate#*:},lan, " "$scratch/out.0"; do
                tries=$((tries + 1))
                [ $tries -lt 4 ] || break
            done
            grep -q "class ${rate#*:},lan, " "$scratch/out.0" ||
                fail "a network of ${rate%:*}, by probe=$setting"
            awk '/^ *262144 / { print $(NF - 1) }' "$scratch/out.0" >"$scratch/chosen.$setting"
        done
        [ -z "$rate" ] || cmp -s "$scratch/chosen.auto" "$scratch/chosen.${rate#*:}" ||
            fail "what is chosen on a network of ${rate%:*}"
        for i in 0 1 2 3; do
            "$hosts_sh" on "h$i" "tc qdisc del dev eth0 root 2>/dev/null"
        done
    done
    began=$(date +%s)
    "$hosts_sh" on h1 "ip route add unreachable 10.77.0.3"
    ranks 3 1 on "$collperf" all_reduce -b 8 -e 8 --algo one_shot && fail "two hosts apart: nobody sees it"
    expect_told "two hosts apart" 99 'rank 1, at 10.77.0.2, cannot connect to rank 2 at 10.77.0.3' 20
    exit $failures
fi

# --inside: by hosts.sh, among two hosts.
if [ "${1:-}" = --inside ]; then
    root=10.77.0.1:4000
    ranks 2 2 on "$collperf" all -b 4 -e 64K -f 64 -n 3 -w 1 && grep -q "$good" "$scratch/out.0" ||
        fail "2 x 2 between namespaces"
    # The clocks of the hosts are hours apart; a call takes what it takes, and so does its limit.
    ranks 2 2 on "$collperf" all_reduce --dirty -b 64K -e 64K -n 20 -w 1 --json ||
        fail "app mode between namespaces"
    awk -F'_us": *' '
        /"time_us"/ { found = 1; for (i = 2; i <= NF; i++) bad = bad || $i + 0 < 0 || $i + 0 > 1e7 }
        END { exit !found || bad }' "$scratch/out.0" || fail "a call is timed by the clocks of two hosts"
    if command -v mpirun.openmpi >/dev/null; then
        rm -f "$scratch"/out.*
        mpirun.openmpi --mca plm_rsh_agent "$hosts_sh on" --mca oob_tcp_if_include 10.77.0.0/24 \
            --host h0:2,h1:2 -np 4 "$collperf" all_reduce -b 8 -e 64K -f 64 -n 3 -w 1 \
            >"$scratch/out.0" 2>&1 </dev/null &&
            grep -q "$good" "$scratch/out.0" || fail "mpirun over two hosts"
    else
        echo "skipped: mpirun over two hosts (it is not here)"
    fi
    # A link of 5 ms, which wire.c keeps. No message is lost, and none is asked for twice.
    if [ -e /dev/net/tun ] && [ -x "$wire" ]; then
        "$hosts_sh" wire h0 h1 "$wire" 5000 1 >"$scratch/wire" 2>&1 &
        tries=0
        until grep -qs up "$scratch/wire" || [ $tries -ge 50 ]; do
            tries=$((tries + 1))
            sleep 0.1
        done
        root=10.78.0.1:4001
        ranks 2 2 on TUTTI_INTERFACE=wire0 "$collperf" all -b 4 -e 64K -f 64 -n 3 -w 1 &&
            grep -q "$good" "$scratch/out.0" || fail "2 x 2 over a link of 5 ms"
        root=10.77.0.1:4000
        kill $!
    else
        echo "skipped: a link with a delay (no /dev/net/tun, or tests/net/wire is not built)"
    fi
    began=$(date +%s)
    ranks 2 1 on TUTTI_INTERFACE=lo "$collperf" all_reduce -b 8 -e 8 && fail "addresses of loopback serve"
    expect_told "addresses of loopback" 99 'rank 0 is at 127.0.0.1, which is loopback' 20
    # Long messages by a host that sends a hundredth as fast as it could.
    if "$hosts_sh" narrow h0 100mbit 2>/dev/null; then
        ranks 2 1 on "$collperf" all -b 4 -e 1M -f 512 -n 2 -w 1 && grep -q "$good" "$scratch/out.0" ||
            fail "2 x 1, one of them narrow"
        # 1 MiB takes 84 ms on this link, and memory would let it pass in less than one.
        ranks 2 1 on "$collperf" all_reduce -b 1M -e 1M -n 1 -w 1 --json &&
            awk -F'"limit_us": *' '/"limit_us"/ { found = 1; bad = bad || $2 + 0 < 50000 || $2 + 0 > 1000000 }
                END { exit !found || bad }' "$scratch/out.0" || fail "the limit of a narrow link"
        # Before the first row the link is measured. However many ranks share a host, that takes what the link
        # takes for some 8 MiB a try; with 8 MiB of each rank, 4 x 16 ranks waited 15 s for their first row.
        before=$(came_from_h0)
        ranks 2 4 on "$collperf" all_reduce -b 8 -e 8 -n 1 -w 1 &&
            awk '/^# 2 hosts; out of each/ { found = $10 > 0.0095 && $10 < 0.0128 } END { exit !found }' \
                "$scratch/out.0" || fail "what a narrow link carries"
        [ $(($(came_from_h0) - before)) -lt 50000000 ] || fail "a narrow link is measured with too many bytes"
        # Few bytes beside 16 MiB: they do not wait until what another communicator has in flight has gone,
        # which takes 23 ms on this link where UCX has one connection for both.
        for network in tcp ucx; do
            [ $network = tcp ] || [ -e "$(dirname "$collperf")/.libs/libtutti_ucx.so" ] || continue
            ranks 2 1 on TUTTI_NETWORK=$network "$(dirname "$wire")/beside" &&
                awk '/^[0-9]+$/ { found = $1 } END { exit !(found > 0 && found < 12000) }' "$scratch/out.0" ||
                fail "few bytes beside many, by $network"
        done
        "$hosts_sh" on h0 "tc qdisc del dev eth0 root"
    else
        echo "skipped: a narrow link (the kernel has no htb)"
    fi
    # A switch that takes shorter packets than the interfaces send: no rank waits longer than the heartbeat,
    # and a reconnection; the reason is a guess that helps.
    for i in 0 1; do
        ip link set "v$i" mtu 9000
        "$hosts_sh" on "h$i" "ip link set eth0 mtu 9000"
    done
    for narrow in 0 1; do
        ip link set "v$narrow" mtu 1500
        began=$(date +%s)
        ranks 2 1 on TUTTI_HEARTBEAT=1000 "$collperf" all_reduce -b 8 -e 8 &&
            fail "long packets do not arrive: nobody sees it"
        expect_told "long packets do not arrive" 99 'long packets do not arrive' 30
        ip link set "v$narrow" mtu 9000
    done
    for i in 0 1; do
        ip link set "v$i" mtu 1500
        "$hosts_sh" on "h$i" "ip link set eth0 mtu 1500"
    done
    (sleep 3 && "$hosts_sh" cut h1) &
    began=$(date +%s)
    ranks 2 1 on TUTTI_HEARTBEAT=1000 $endless &&
        fail "a link that is cut: nobody sees it"
    expect_told "a link that is cut" 99 'rank [01] is on a host that does not answer .* at 10.77.0.[12])' 20
    exit $failures
fi

for layout in '2 2' '3 1' '4 2'; do
    # shellcheck disable=SC2086
    ranks $layout ids "$collperf" all -b 4 -e 64K -f 64 -n 3 -w 1 && grep -q "$good" "$scratch/out.0" &&
        grep -q "^# ${layout% *} hosts; out of each and into it [0-9.]* GB/s" "$scratch/out.0" ||
        fail "hosts and ranks of each: $layout"
done

# Blocks in one direction, more of them than there are slots: who waits for a slot is not forgotten until he
# looks again, 100 ms later, as every seventh call was once.
ranks 2 2 ids "$collperf" broadcast --algo hierarchical_circulant -b 512K -e 512K -n 60 -w 2 --json ||
    fail "many blocks in one direction"
awk '/"in_place": false/ {
    split($0, mean, /"time_us": */)
    split($0, middle, /"median_us": */)
    found = 1
    slow = mean[2] - middle[2] > 4000
} END { exit !found || slow }' "$scratch/out.0" || fail "calls that wait for slots take 100 ms now and then"

# What messages cost, inside a host and between two.
ranks 2 2 ids "$collperf" all_reduce -b 8 -e 8K -f 32 -n 5 --tune "$scratch/rules" &&
    grep -q '^cost latency_near' "$scratch/rules" && grep -q '^cost byte_away' "$scratch/rules" &&
    grep -q '^cost link [0-9.]* GB/s' "$scratch/rules" ||
    fail "costs of messages over two hosts"

began=$(date +%s)
kill_one &
ranks 2 2 ids $endless && fail "a rank that is killed: nobody sees it"
expect_told "a rank that is killed" 3 'rank 3 died' 60

# A communicator of the others goes on.
outlive() # NETWORK
{
    ranks 3 1 ids TUTTI_NETWORK="$1" "$(dirname "$wire")/survivors"
    grep -qx good "$scratch/out.0" && grep -qx good "$scratch/out.1" ||
        fail "what survives a dead rank, by $1"
}
outlive tcp

survive TCP
if [ -e "$(dirname "$collperf")/.libs/libtutti_ucx.so" ]; then
    TUTTI_NETWORK=ucx && export TUTTI_NETWORK
    survive UCX
    outlive ucx
    ranks 2 2 ids "$collperf" all -b 4 -e 1M -f 64 -n 3 -w 1 && grep -q "$good" "$scratch/out.0" ||
        fail "2 x 2 by UCX"
    began=$(date +%s)
    kill_one &
    ranks 2 2 ids $endless && fail "a rank that is killed, by UCX: nobody sees it"
    expect_told "a rank that is killed, by UCX" 3 'rank 3 died' 60
    unset TUTTI_NETWORK
else
    echo "skipped: several hosts by UCX (configured without it)"
fi

# Buffers of a device, on its streams: what leaves the host goes by way of pinned memory.
stub=${STUB:-tests/.libs/libtutti_stub.so}
if [ -f "$stub" ]; then
    TUTTI_DEVICE_LIBRARY=$(readlink -f "$stub") STUB_GPU=devices=1
    export TUTTI_DEVICE_LIBRARY STUB_GPU
    ranks 2 2 ids "$collperf" all --memory device --device 0 -b 4 -e 256K -f 64 -n 3 -w 1 &&
        grep -q "$good" "$scratch/out.0" && grep -q 'executor H' "$scratch/out.0" ||
        fail "buffers of devices on 2 x 2"
    began=$(date +%s)
    kill_one &
    ranks 2 2 ids $endless --memory device --device 0 && fail "a killed rank with a device: nobody sees it"
    expect_told "a killed rank with a device" 3 'rank 3 died' 60
    unset TUTTI_DEVICE_LIBRARY STUB_GPU
else
    echo "skipped: buffers of devices over hosts (the stub is not built)"
fi

interface=nowhere0 && export interface
ranks 2 1 ids "$collperf" all_reduce -b 8 -e 8 && fail "an interface that is not there: it is used"
expect_told "an interface that is not there" 99 'TUTTI_INTERFACE is "nowhere0"; legal: the name of' 60
grep -q '^collperf: rank ' "$scratch/out.1" && fail "who has no rank yet says one"
unset interface

# Also calls of no elements, of one rank and of odd counts, in place and not, with more ranks than cores.
# Ranks that are threads of one process are on one host, whatever this asks for; and hosts have unequal
# numbers of ranks with 4, 5 and 8 as with 7.
suite=$(dirname "$collperf")/tests/suite
if [ -x "$suite" ]; then
    what='@(api_matrix/processes_@(1|4|8)*|api_empty*/*|api_self*/*|api_split*/*)'
    TUTTI_TEST_HOSTS=3 timeout -k 5 900 "$suite" --filter "$what" >"$scratch/out.suite" 2>&1 ||
        fail "the matrix of the API over three hosts"
    # Communicators that come and go share what a process has of UCX.
    if [ -e "$(dirname "$collperf")/.libs/libtutti_ucx.so" ]; then
        what='@(api_split|api_empty|api_kills)*/*'
        TUTTI_NETWORK=ucx TUTTI_TEST_HOSTS=3 timeout -k 5 300 "$suite" --filter "$what" \
            >"$scratch/out.suite" 2>&1 || fail "communicators that are split over three hosts, by UCX"
    fi
else
    echo "skipped: the matrix of the API over three hosts (tests/suite is not built)"
fi

"$hosts_sh" 2 sh "$0" --inside "$scratch" && "$hosts_sh" 4 sh "$0" --apart "$scratch"
case $? in
0) ;;
77) echo "skipped: hosts as namespaces (the system allows none here)" ;;
*) failures=$((failures + 1)) ;;
esac
echo "hosts: $failures failures"
[ "$failures" -eq 0 ]
