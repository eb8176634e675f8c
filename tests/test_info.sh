#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_info.sh: tutti-info where a user needs it: what is in force, and why a process stands still.
#
# usage: COLLPERF=path INFO=path test_info.sh   (default: ./collperf and ./tutti-info)
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK TUTTI_DEBUG TUTTI_DEBUG_FILE
collperf=${COLLPERF:-./collperf}
info=${INFO:-./tutti-info}
scratch=$(mktemp -d) || exit 1
running=
stop() # the ranks of the background job, then the job
{
    for pid in $running; do
        kill -KILL "$pid" 2>/dev/null
    done
    rm -rf "$scratch"
}
trap stop EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 20
    failures=$((failures + 1))
}

expect() # code command..
{
    code=$1
    shift
    timeout 600 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

says() # where pattern
{
    grep -q -e "$2" "$scratch/$1" || fail "no '$2' on $1"
}

# --- What is in force, and from where.
TUTTI_SLICE=64K TUTTI_DEBUG=info TUTTI_ID=abcd expect 0 "$info" config
says out '^slice=64K  *# shared, environment: '
says out '^map=on  *# local, default: '
says out '^TUTTI_DEBUG=info  *# process, environment: '
says out '^TUTTI_ID=(secret)  *# process, environment: '
says out '^TUTTI_RECORDER_FILE=  *# process, default: '
TUTTI_SLIZE=64K expect 0 "$info" config
says err 'WARN: TUTTI_SLIZE is not a variable that Tutti reads; the nearest one is TUTTI_SLICE'
TUTTI_SLICE=64X expect 2 "$info" config
says err 'TUTTI_SLICE.*64X'

# --- A secret: random, for this user alone, and not written over by mistake.
expect 0 "$info" secret "$scratch/secret"
grep -qxE '[0-9a-f]{64}' "$scratch/secret" && [ "$(stat -c %a "$scratch/secret")" = 600 ] ||
    fail "secret wrote $(ls -l "$scratch/secret"): $(cat "$scratch/secret")"
cp "$scratch/secret" "$scratch/before"
expect 2 "$info" secret "$scratch/secret"
says err 'it is there already; --force'
cmp -s "$scratch/secret" "$scratch/before" || fail "secret wrote over a file"
expect 0 "$info" secret --force "$scratch/secret"
cmp -s "$scratch/secret" "$scratch/before" && fail "secret --force left the file"
[ "$(stat -c %a "$scratch/secret")" = 600 ] || fail "secret --force: mode $(stat -c %a "$scratch/secret")"
expect 3 "$info" secret "$scratch/no/such/folder"
says err 'No such file'
expect 2 "$info" secret
expect 2 "$info" cpu --force
TUTTI_ROOT=127.0.0.1:$((20000 + $$ % 20000)) TUTTI_SECRET_FILE=$scratch/secret TUTTI_RANK=0 TUTTI_SIZE=1 \
    expect 0 "$collperf" all_reduce -b 8 -e 8 -n 1

# --- Devices: those of the stub, and why there are none.
stub=tests/.libs/libtutti_stub.so
STUB_GPU=devices=2 TUTTI_DEVICE_LIBRARY=$stub expect 0 "$info" devices
says out "^  library  *$stub (stub)$"
says out '^  device 0  *Stub 0 at stub:00.0, sm_90, 8 multiprocessors, [0-9.]* GB, words, fds, managed'
says out '^  device 1  *Stub 1 at stub:01.0'
STUB_GPU=devices=2 TUTTI_DEVICE_LIBRARY=$stub expect 0 "$info" devices --json
says out '^{"library": ".*"devices": \[{"device": 0, .*}, {"device": 1, "name": "Stub 1", .*}\]}$'
if python3 -c 'import json' 2>/dev/null; then
    python3 -m json.tool <"$scratch/out" >/dev/null 2>"$scratch/err" || fail "it is not JSON"
fi
STUB_GPU=devices=0 TUTTI_DEVICE_LIBRARY=$stub expect 0 "$info" devices
says out "^no device can be used: $stub: count: "
TUTTI_DEVICE_LIBRARY=$scratch/none.so expect 0 "$info" devices
says out "^no device can be used: $scratch/none.so: cannot open shared object file"
TUTTI_DEVICE_LIBRARY=$stub expect 0 "$info"
says out '^Devices$'
says out '^  device 0  *Stub 0'
expect 2 "$info" devices 0
expect 2 "$info" cpu --json
says err 'it belongs to attach and to devices'

# --- The plugin is looked for beside the library, and in a folder there.
mkdir -p "$scratch/lib/tutti"
cp .libs/libtutti.so "$scratch/lib/libtutti.so.0"
cp "$stub" "$scratch/lib/tutti/libtutti_cuda.so"
beside() # the library of this program is the copy
{
    LD_LIBRARY_PATH=$scratch/lib expect 0 "$program" devices
}
program=$(dirname "$info")/.libs/tutti-info
beside
says out "^  library  *$scratch/lib/tutti/libtutti_cuda.so (stub)$"
cp "$stub" "$scratch/lib/libtutti_cuda.so"
beside
says out "^  library  *$scratch/lib/libtutti_cuda.so (stub)$"
rm "$scratch/lib/libtutti_cuda.so" "$scratch/lib/tutti/libtutti_cuda.so"
beside
grep -q "$scratch/lib" "$scratch/out" || says out '/libtutti_cuda.so' # one is installed
grep -q 'looked for' "$scratch/out" && says out "for $scratch/lib/libtutti_cuda.so $scratch/lib/tutti/lib"

# --- Processes that have nothing to show.
expect 2 "$info" --attach
expect 2 "$info" --attach nobody
says err 'attach nobody'
expect 2 "$info" --attach $$
says err "process $$ has made no communicator of Tutti"
expect 2 "$info" --attach 4194305
expect 2 "$info" --attach $$ cpu
says err 'one word too many cpu: the form is: tutti-info attach PID'
expect 2 "$info" --json

# --- Commands that are none, and words that are wrong.
expect 2 "$info" bogus
says err '^tutti-info: bogus: not a command; legal are cpu .* why attach merge id secret$'
expect 2 "$info" schedule all_reduce bogus
says err '^tutti-info: all_reduce has no algorithm "bogus"; legal: one_shot, direct, '
says err '^tutti-info: the form is: tutti-info schedule COLLECTIVE ALGORITHM '
expect 2 "$info" schedule al_reduce ring
says err 'there is no collective "al_reduce", the nearest is all_reduce; legal: all_reduce, reduce_scatter, '
expect 2 "$info" schedule all_reduce
says err '^tutti-info: schedule: the form is: tutti-info schedule COLLECTIVE ALGORITHM '
expect 2 "$info" algorithms allreduce
says err 'the nearest is all_reduce'
expect 2 "$info" --why all_reduce 64K --attach 1
says err 'legal is one command'

# --- Why this algorithm.
expect 0 "$info" --why all_reduce 64K -n 8
says out '^all_reduce of 65536 bytes on 8 ranks, '
says out '^  one_shot  *[0-9.]* us: messages '
says out '^  hierarchical  *cannot serve: it needs at least two cache domains'
says out ' <- chosen$'
says out '^chosen: [a-z_]*, by its predicted time$'
says out '^  latency_near  *[0-9.]* ns until a rank of the same cache domain sees a message$'
says out '^  byte_far  *[0-9.]* GB/s to read what '
expect 0 "$info" --why all_reduce 64K -n 6 --exact --topology 2x3
says out 'on 6 ranks under exact, '
says out '^  ring  *cannot serve: its association is not the canonical tree'
TUTTI_ALGO=all_reduce:tree expect 0 "$info" --why all_reduce 64K
says out '^chosen: tree, because the setting algo forces it$'
TUTTI_ALGO=all_reduce:rnig expect 2 "$info" --why all_reduce 64K
says err "there is none of that name, the nearest is ring; eligible: one_shot, "
TUTTI_ALGO=all_reduce:doubling expect 2 "$info" --why all_reduce 64K -n 6 --exact
says err "'doubling' cannot serve all_reduce on 6 ranks under exact"
printf 'all_reduce 4 0-64K ring\n' >"$scratch/rules"
TUTTI_RULES=$scratch/rules expect 0 "$info" --why all_reduce 64K
says out '^chosen: ring, because a rule of .*/rules names it$'
TUTTI_RULES=$scratch/rules expect 0 "$info" --why all_reduce 64K --exact
says out "^chosen: [a-z_]*, by its predicted time; a rule of .*/rules names ring, which cannot serve$"
TUTTI_RULES=$scratch/no_rules expect 2 "$info" --why all_reduce 64K
says err 'no_rules. cannot be read'
expect 2 "$info" --why all_induce 64K
says err 'there is no collective "all_induce", the nearest is all_reduce'
expect 2 "$info" --why all_reduce
says err 'the form is: tutti-info why COLLECTIVE SIZE'
expect 2 "$info" --why all_reduce 64Q
says err '"64Q" is no size; legal: bytes, as 64K, 1.5M or 1MiB'
expect 2 "$info" why all_reduce 64K -n 8 --topology 2x3
says err 'topology 2x3 has 6 ranks; legal: as many as there are, 8'
expect 0 "$info" why all_reduce 64K -n 8
says out '^all_reduce of 65536 bytes on 8 ranks, '

# --- Traces: whole ones merge, one that was cut does, what is none does not.
TUTTI_TRACE="$scratch/t.%r.json" expect 0 "$collperf" all_reduce -g 2 -b 64K -e 64K -n 5 -w 1
expect 0 "$info" merge "$scratch/t.0.json" "$scratch/t.1.json"
says out '"rank 0, host '
says out '"rank 1, host '
says out '"name": "all_reduce", "cat": "operation"'
says out '"cat": "step".*"path": "'
cp "$scratch/out" "$scratch/all.json"
head -c 3000 "$scratch/t.1.json" >"$scratch/cut.json"
expect 0 "$info" merge "$scratch/t.0.json" "$scratch/cut.json"
cp "$scratch/out" "$scratch/some.json"
if python3 -c 'import json' 2>/dev/null; then
    for trace in t.0 t.1 all some; do
        python3 -m json.tool <"$scratch/$trace.json" >/dev/null 2>"$scratch/err" || fail "$trace is not JSON"
    done
fi
[ "$(wc -l <"$scratch/some.json")" -lt "$(wc -l <"$scratch/all.json")" ] || fail "the cut trace lost nothing"
expect 2 "$info" merge "$scratch/t.0.json" "$scratch/t.0.json"
says err 'merged already'
expect 2 "$info" merge "$info"
says err 'not a trace'
expect 2 "$info" merge "$scratch/none.json"
expect 2 "$info" merge
# Two processes, one name.
TUTTI_TRACE="$scratch/one.json" expect 0 "$collperf" all_reduce -g 2 -b 8 -e 8 -n 2 -w 1
[ "$(ls "$scratch"/one.json*  | wc -l)" -eq 2 ] || fail "one name for two processes: $(ls "$scratch")"
TUTTI_TRACE="$scratch/none/t.json" expect 0 "$collperf" all_reduce -g 2 -b 8 -e 8 -n 2 -w 1
says err 'TUTTI_TRACE=.*/none/t.json cannot be written'

# --- A rank that is stopped: the other one says whom it waits for.
children() # of a process
{
    for status in /proc/[0-9]*/status; do
        awk -v parent="$1" '
            /^Pid:/ { pid = $2 }
            /^PPid:/ && $2 == parent { print pid }' "$status" 2>/dev/null
    done
}

"$collperf" all_reduce -g 2 -b 8 -e 8 -n 1000000000 >"$scratch/job" 2>&1 </dev/null &
job=$!
running=$job
tries=0
while [ "$tries" -lt 6000 ]; do # until both ranks have called something
    tries=$((tries + 1))
    running="$(children $job) $job"
    if [ "$(echo "$running" | wc -w)" -eq 3 ]; then
        set -- $running
        "$info" --attach "$1" 2>/dev/null | grep -q 'all_reduce of 2 float32' && break
    fi
    sleep 0.1
done
[ "$tries" -lt 6000 ] || fail "the job did not begin: $(cat "$scratch/job")"
kill -STOP "$1"
tries=0
while [ "$tries" -lt 6000 ]; do
    tries=$((tries + 1))
    "$info" --attach "$2" 2>/dev/null | grep -q 'running for .*; nothing moved for .*, waits for' && break
    sleep 0.1
done
expect 0 "$info" --attach "$2"
says out ', rank [01] of 2: [0-9]* calls*; no error'
says out 'all_reduce of 2 float32, sum  *8 bytes  *[a-z_]*  *done in '
says out 'running for .*; nothing moved for .*, waits for rank [01]$'
expect 0 "$info" --attach "$2" --json
says out "^{\"process\": $2, .*\"state\": \"running\", .*\"waits_for\": [01]}\]}$"
if python3 -c 'import json' 2>/dev/null; then
    python3 -m json.tool <"$scratch/out" >/dev/null 2>"$scratch/err" || fail "it is not JSON"
fi

# How long nothing moved, in both forms: the seconds between two looks, whatever they are on this machine.
look() # NAME PID: what stands there, and the seconds before and after
{
    read -r before rest </proc/uptime
    "$info" attach "$2" >"$scratch/words" 2>&1
    "$info" attach "$2" --json >"$scratch/json" 2>&1
    read -r after rest </proc/uptime
    words=$(sed -n 's/.*running for .*; nothing moved for \([0-9.]*\) s, waits for.*/\1/p' "$scratch/words")
    json=$(sed 's/.*"state": "running", //; s/.*"stalled_ns": \([0-9]*\).*/\1/' "$scratch/json")
    echo "$before $after ${words:-none} ${json:-none}" >"$scratch/$1"
}
sleep 1
look early "$2"
sleep 2
look late "$2"
cat "$scratch/early" "$scratch/late" | awk '
    { before[NR] = $1; after[NR] = $2; words[NR] = $3 + 0; json[NR] = $4 / 1e9 }
    function passed(seconds)
    {
        return seconds >= before[2] - after[1] - 0.4 && seconds <= after[2] - before[1] + 0.4
    }
    END { exit !(words[1] >= 1 && passed(words[2] - words[1]) && passed(json[2] - json[1])) }' ||
    fail "how long nothing moved: $(cat "$scratch/early" "$scratch/late")"
expect 0 "$info" attach "$1" # also of a stopped process

# --- A rank that waits for another one to come.
"$info" id >"$scratch/id" &
running="$running $!"
tries=0
while [ ! -s "$scratch/id" ] && [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
TUTTI_ID=$(cat "$scratch/id") TUTTI_SIZE=3 TUTTI_RANK=1 \
    "$collperf" all_reduce -b 8 -e 8 >"$scratch/job" 2>&1 &
waiter=$!
running="$running $waiter"
tries=0
while [ "$tries" -lt 200 ]; do
    tries=$((tries + 1))
    "$info" --attach "$waiter" 2>/dev/null | grep -q '; not all ranks have come$' && break
    sleep 0.1
done
expect 0 "$info" --attach "$waiter"
says out ', rank 1 of 3: is being made for [0-9.]* m*s; not all ranks have come$'
expect 0 "$info" --attach "$waiter" --json
says out '"rank": 1, "ranks": 3, .*"joining_ns": [0-9]*, "waits": "not all ranks have come", '

[ "$failures" -eq 0 ] && echo "info: all is well"
[ "$failures" -eq 0 ]
