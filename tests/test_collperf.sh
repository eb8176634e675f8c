#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_collperf.sh: collperf and tutti-info as a user meets them: flags, exit codes, report, starting ranks.
#
# usage: COLLPERF=path INFO=path test_collperf.sh   (default: ./collperf and ./tutti-info)
#
# A benchmark that cannot fail is worth nothing, so most of this looks at how they refuse, and
# test_collperf_check.sh at --self-test.
# No figure is compared with anything: this runs on loaded machines.
set -u
LC_ALL=C
export LC_ALL
unset TUTTI_ID TUTTI_RANK TUTTI_SIZE PMIX_RANK PMI_RANK
collperf=${COLLPERF:-./collperf}
info=${INFO:-./tutti-info}
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "FAILED: $*"
    sed 's/^/    /' "$scratch/out" "$scratch/err" | tail -n 20
    failures=$((failures + 1))
}

# expect CODE command..: the exit code; output is kept in out and err.
expect()
{
    code=$1
    shift
    timeout 1800 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

says() # where pattern what
{
    grep -q -e "$2" "$scratch/$1" || fail "$3: no '$2' on $1"
}

# refused FLAG arguments..: exit code 2, one line that names the flag, nothing started.
refused()
{
    flag=$1
    shift
    expect 2 "$collperf" "$@"
    says err "^collperf: .*$flag" "collperf $*"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "more than one line for: $*"
    [ ! -s "$scratch/out" ] || fail "output before the refusal of: $*"
}

few="-b 8 -e 4K -f 8 -n 3 -w 1"

# --- Bad usage.
refused '-g/--ranks 0' -g 0
refused '-g/--ranks 99999' -g 99999
refused '-t/--threads 0' -t 0
refused '-b/--minbytes 9x' -b 9x
refused '-b/--minbytes 8KK' -b 8KK
refused '-e/--maxbytes 8' -b 64 -e 8
refused '-e/--maxbytes ' -e 4096G
refused '-f/--stepfactor 1' -f 1
refused '-i/--stepbytes 0' -i 0
refused '-i/--stepbytes 8' -f 2 -i 8
refused '-n/--iters 0' -n 0
refused '-w/--warmup_iters -1' -w -1
refused '-o/--op xor' -o xor
refused '-r/--root 3' -g 3 -r 3
refused '-r/--root one' -r one
refused '-c/--check x' -c x
refused '--memory gpu' --memory gpu
refused '--device 1: --memory malloc' --device 1
refused '--device 5000' --memory device --device 5000
refused '-G/--program 257: .*256' --memory device -G 257
refused '-G/--program 2: .*a device each' --memory device -G 2 -t 2 --device 0
refused '-z/--blocking 1: .*enqueued' --memory pinned -z 1
PMI_RANK=0 refused '--memory device: under a launcher' --memory device
refused '--timeout 0' --timeout 0
refused '--output' --output "$scratch/none/report"
refused '--bogus' --bogus
refused '-z/--blocking 2' -z 2
refused '-G/--program 5000' -G 5000
refused '-G/--program 2: --dirty' --dirty -G 2
refused '--list gpus' --list gpus
refused '--csv' --json --csv
refused '--plot .*\.svg or \.png' --plot picture.jpg
refused '--plot' --plot "$scratch/none/picture.svg"
refused '--plot' --plot "$scratch/picture.svg" --self-test
refused '--plot' barrier --plot "$scratch/picture.svg"
expect 2 env PATH=/nowhere "$collperf" --plot "$scratch/picture.svg"
says err 'install gnuplot' '--plot without gnuplot'
[ ! -s "$scratch/out" ] || fail 'measured before gnuplot was missed'
refused '--tune' --tune "$scratch/rules" --algo ring
refused '--tune' --tune "$scratch/rules" --self-test
refused 'must follow' -b
refused 'all_induce' all_induce
refused 'broadcast' all_reduce broadcast
refused 'barrier' barrier --self-test
PMIX_RANK=0 refused '-g/--ranks 2' -g 2
PMIX_RANK=0 refused '--bind: PMIX_RANK' --bind
PMI_RANK=0 refused '-g/--ranks 2' -g 2
expect 2 "$collperf" --algo no_such -e 8
says err 'algo no_such.*legal are all [a-z]' 'an unknown algorithm'

# --- Help and version.
expect 0 "$collperf" --help
says out 'usage: collperf' 'help'
says out 'Examples' 'help'
expect 0 "$collperf" --version
says out '^collperf of Tutti [0-9]' 'version'
expect 0 "$collperf" --list collectives
says out '^sendrecv$' 'names of collectives'
expect 0 "$collperf" --list types
says out '^bfloat16$' 'names of types'
says out '^f8e4m3$' 'names of types'
expect 0 "$collperf" --list ops
says out '^avg$' 'names of operations'
expect 0 "$collperf" --list options
says out '^--minbytes$' 'names of options'
says out '^-b$' 'names of options'
refused '-d/--datatype .*uint64 half' -d int7
refused '-o/--op band.*integer' -o band -d half

# --- On the streams of a device: of the stub, where the tests have it.
stub=${STUB:-tests/.libs/libtutti_stub.so}
on_stub="env TUTTI_DEVICE_LIBRARY=$stub"
if [ -f "$stub" ]; then
    for memory in device managed pinned host; do
        expect 0 $on_stub STUB_GPU=devices=1 "$collperf" all $few -g 2 --memory $memory
        says out "memory $memory\$" "--memory $memory"
        says out '^# on streams of device 0 (Stub 0 at rank 0); executor W' "--memory $memory"
        says out '^# Out of bounds values : 0 OK' "--memory $memory"
    done
    expect 0 $on_stub STUB_GPU=devices=1 TUTTI_EXECUTOR=host "$collperf" all_reduce $few -g 2 --memory device
    says out '; executor H' 'TUTTI_EXECUTOR=host'
    expect 0 $on_stub STUB_GPU=devices=1 TUTTI_EXECUTOR=led "$collperf" all $few -g 2 --memory device
    says out '^# Out of bounds values : 0 OK' 'TUTTI_EXECUTOR=led'
    two=STUB_GPU=devices=2
    expect 0 $on_stub $two "$collperf" all_reduce $few -t 3 --memory device --json
    says out '"device": "rank%2", "device_name": "Stub 0", "executor": "H"' 'ranks on devices'
    expect 0 $on_stub $two "$collperf" all_reduce $few -g 2 --memory device --device 1 --algo all
    says out '^# on streams of device 1 (Stub 1 at rank 0)' '--device 1'
    expect 0 $on_stub $two "$collperf" all $few -g 3 --memory device -G 3
    says out '; graph of 3 calls$' '-G 3 on a device'
    says out '^# Out of bounds values : 0 OK' '-G 3 on a device'
    expect 0 $on_stub $two "$collperf" all $few -t 2 --memory device -G 3
    says out '^# Out of bounds values : 0 OK' '-G 3 of threads on devices'
    expect 0 $on_stub $two "$collperf" all_reduce $few -g 2 -t 2 --memory device -G 1
    expect 2 $on_stub $two "$collperf" all_reduce $few -t 3 --memory device -G 3
    says err '-G/--program 3: .*a device each; legal: at most 2 of them here (-t' 'threads on one device'
    for memory in device managed pinned host; do
        expect 0 $on_stub $two "$collperf" all $few -g 2 --memory $memory --dirty --json
        says out '"mode": "dirty"' "--dirty --memory $memory"
        says out '"wrong": 0' "--dirty --memory $memory"
    done
    expect 0 $on_stub $two "$collperf" all_reduce -b 64 -e 64 -n 600 -w 0 -t 2 --memory device --dirty -G 1
    for mode in '' --dirty; do # two copies each of 800 calls, and with --dirty a third
        expect $([ -z "$mode" ] && echo 0 || echo 3) $on_stub STUB_GPU=fail=copy:2000 "$collperf" all_reduce \
            -b 64 -e 64 -n 400 -w 0 -c 0 -g 2 --memory device $mode
    done
    expect 1 $on_stub "$collperf" all --memory device -g 2 --self-test
    expect 1 $on_stub "$collperf" all --memory device -g 2 --self-test -G 1
    expect 3 $on_stub $two "$collperf" --memory device --device 2 -g 2
    says err '--device 2: legal are 0 to 1' 'a device that is not there'
    expect 3 $on_stub STUB_GPU=devices=0 "$collperf" --memory device -g 2
    says err 'rank 0: --memory: no device can be used: .*there is no device' 'no device'
    expect 3 $on_stub STUB_GPU=memory=1 "$collperf" --memory device -g 2 -e 4M
    says err 'memory for the buffers: alloc' 'a device that is too small'
    expect 3 $on_stub STUB_GPU=fail=graph_launch:1 "$collperf" --memory device -g 2 -e 4K -G 2
    says err 'graph: graph_launch' 'a graph that cannot be replayed'
    expect 3 $on_stub STUB_GPU=fail=event_elapsed:1 "$collperf" --memory device -g 2 -e 4K
    says err 'event: event_elapsed' 'a device that fails'

    # A trace names the way of each call.
    for way in H:host W:led; do
        rm -f "$scratch"/trace*
        expect 0 $on_stub STUB_GPU=devices=1 TUTTI_EXECUTOR=${way#*:} TUTTI_TRACE="$scratch/trace.%p" \
            "$collperf" all_reduce -b 8 -e 8 -n 5 -g 2 --memory device
        grep -q "\"name\": \"all_reduce\".*\"executor\": \"${way%:*}\"" "$scratch"/trace* ||
            fail "no $way in a trace"
    done
    rm -f "$scratch"/trace*
    expect 0 $on_stub STUB_GPU=devices=1 TUTTI_TRACE="$scratch/trace.%p" "$collperf" all_reduce -b 8 -e 8 \
        -n 5 -t 2 --memory device
    grep -q '"name": "all_reduce".*"executor": "L"' "$scratch"/trace* || fail 'no L in a trace'

    # What the ways of a collective cost, where processes share a device, and that the library goes by it.
    ways=$scratch/ways.rules
    one=STUB_GPU=devices=1
    tunes="all_reduce -b 8 -e 8 -n 5 -c 0"
    expect 0 $on_stub $one "$collperf" $tunes -g 2 --memory device --tune "$ways"
    for way in staged cells pads mapped; do
        awk -v call="${way}_call" -v byte="${way}_byte" '
            $1 == "cost" && $2 == call && $4 == "ns" && $3 > 1000 && $3 < 1e7 { calls++ }
            $1 == "cost" && $2 == byte && $4 == "GB/s" && $3 > 0.09 { bytes++ }
            END { exit !(calls == 1 && bytes == 1) }' "$ways" || fail "what is $way has no costs that can be"
    done
    TUTTI_RULES=$ways expect 0 $on_stub $one "$collperf" all_reduce -b 8 -e 8 -n 5 -g 2 --memory device
    says out "; executor W" 'measured costs'
    expect 0 $on_stub $one TUTTI_EXECUTOR=host "$collperf" $tunes -g 2 --memory device --tune "$ways"
    ! grep -q staged "$ways" || fail 'one way has costs'
    expect 0 "$collperf" $tunes -g 2 --tune "$ways"
    ! grep -q staged "$ways" || fail 'memory of the host has ways'
    expect 3 $on_stub STUB_GPU=devices=1,memory=4 "$collperf" $tunes -g 2 --memory device --tune "$ways"
    says err 'the costs of a device' 'a device that has no room for what is measured'
fi

# --- What is fastest, as rules that the next run obeys.
expect 0 "$collperf" all_reduce --tune "$scratch/rules" -g 2 -b 8 -e 4K -f 8 -n 20 -c 0
sed 's/[a-z_]*$/ring/' "$scratch/rules" | grep '^all_reduce  *2 ' >"$scratch/ring.rules"
grep -q '^all_reduce  *2  *[0-9K]*-  *[a-z_]*$' "$scratch/rules" || fail 'the last rule has an end'
grep -q '^cost latency_near [0-9.]* ns$' "$scratch/rules" || fail 'no cost of a message is written'
grep '^cost byte_near' "$scratch/rules" | awk '{ exit !($3 > 0.05 && $3 < 10000) }' ||
    fail 'a byte costs what it cannot'
TUTTI_RULES=$scratch/rules expect 0 "$collperf" all_reduce -g 2 -b 8 -e 8 -n 5
TUTTI_RULES=$scratch/ring.rules expect 0 "$collperf" all_reduce -g 2 -b 8 -e 8 -n 5
says out ' ring  ' 'a rule of rank 0'
refused '--tune .*none/rules: No such file or directory; legal is a file' --tune "$scratch/none/rules" -g 2
echo '# of before' >"$scratch/kept.rules"
TUTTI_RULES=$scratch/none/rules expect 3 "$collperf" --tune "$scratch/kept.rules" -g 2 -b 8 -e 8 -n 5
[ "$(cat "$scratch/kept.rules")" = '# of before' ] || fail 'a run that failed has taken the rules of before'
expect 0 "$collperf" broadcast --tune "$scratch/kept.rules" -g 2 -b 8 -e 8 -n 5
! grep -q 'of before' "$scratch/kept.rules" || fail 'new rules stand behind those of before'
expect 3 "$collperf" --tune /dev/full -g 2 -b 8 -e 8 -n 5
says err '^collperf: --tune /dev/full: No space left on device; the rules are:$' 'rules that find no place'
says err '^all_reduce  *2  *0-  *[a-z_]*$' 'the rules that found no place'
TUTTI_RULES=$scratch/none/rules expect 3 "$collperf" all_reduce -g 2 -b 8 -e 8 -n 5
says err 'none/rules. cannot be read' 'rules that cannot be read'

# --- Threads of a launcher's processes are ranks, with numbers that follow each other.
"$info" id >"$scratch/launched.id" &
holder=$!
until [ -s "$scratch/launched.id" ]; do sleep 0.1; done
for rank in 0 1; do
    TUTTI_ID=$(cat "$scratch/launched.id") TUTTI_RANK=$rank TUTTI_SIZE=2 timeout 600 "$collperf" \
        reduce_scatter_v -t 2 -b 8 -e 64K -f 8 -n 3 -w 1 -z 0 --algo all --output "$scratch/launched.$rank" \
        2>"$scratch/err" </dev/null &
    launched="${launched:-} $!"
done
for each in $launched; do
    wait "$each" || fail "threads of a launcher's processes"
done
kill $holder
grep -q ', 4 ranks of a launcher.*(threads in each process 2)$' "$scratch/launched.0" &&
    grep -q '^# Out of bounds values : 0 OK$' "$scratch/launched.0" || fail "threads under a launcher"
TUTTI_ID=0 refused '-g/--ranks 2: .*TUTTI_ID is set.*; legal is 1, and -t N' -g 2

# --- Right results, in each way to start ranks, for all collectives.
good()
{
    expect 0 "$@"
    says out 'Out of bounds values : 0 OK' "$*"
}
for ranks in "-g 2" "-g 3" "-g 1" "-t 3" "-g 2 -t 2"; do
    good "$collperf" all $few $ranks
    ! grep -q 'reduce+' "$scratch/out" || fail 'what is composed is no collective'
    for composed in reduce+broadcast reduce_scatter+all_gather; do
        good "$collperf" $composed -b 8 -e 6000 -i 1000 -n 3 -w 1 $ranks
    done
done
good "$collperf" all $few -g 2 --memory registered
good "$collperf" all $few -g 2 -z 0
says out '; on a host stream$' '-z 0'
good "$collperf" all_reduce -b 8 -e 64K -f 8 -t 3 -z 0
good "$collperf" all $few -g 2 -G 3
says out '; program of 3 calls$' '-G 3'
good "$collperf" all $few -t 2 -G 1 -z 0
good "$collperf" reduce_scatter+all_gather $few -g 2 -G 3
good "$collperf" reduce+broadcast $few -g 3 -z 0 -d all -o all
good "$collperf" all $few -t 2 --dirty -z 0
says out '; mode dirty; ' '--dirty'
good "$collperf" all $few -g 3 --bind
says out '; bound to cores' '--bind'
good "$collperf" all_reduce -b 8 -e 8 -n 1100 -w 0 -g 3 --dirty -G 1 --memory registered
good "$collperf" all $few -g 4 -d all -o all -e 64
good "$collperf" all_reduce $few -g 5 -d int8 -o bxor
good "$collperf" reduce_scatter $few -t 16 -d f8e5m2 -o sum
good "$collperf" reduce $few -g 3 -r all
for op in mulsum user; do
    for ranks in 2 3 5; do
        good "$collperf" all_reduce -b 8 -e 1M -f 64 -n 3 -w 1 -o $op -d all -g $ranks
    done
    good "$collperf" all_reduce $few -o $op -d float -g 3 --algo all
    good "$collperf" all_reduce $few -o $op -d float -g 3 --exact
done
good "$collperf" all_reduce $few -g 3 -d all -o all --exact
good "$collperf" all_reduce $few -g 3 --algo all
[ "$(grep -c ', algorithm: ' "$scratch/out")" -gt 1 ] || fail 'one table for --algo all'
good "$collperf" all -b 0 -e 24 -i 1 -n 1 -w 0 -g 3

# --- The report.
expect 0 "$collperf" $few -g 2
[ "$(grep -c -v '^#' "$scratch/out")" -eq 4 ] || fail 'there are four sizes from 8 to 4K by 8'
says out '^#  *size  *count  *type  *redop  *root  *time' 'header'
says out '; mode steady; ' 'steady is the default'
says out '^# start-up [0-9.]* ms; a rank at rest holds [0-9.]* MiB beyond the bare process$' 'start-up'
says out '^# a rank at rest holds [0-9.]* MiB in the end, without .*; the mean of all is [0-9.]*$' \
    'what is held in the end'
says out '^# flag round trip before [0-9.]* us: \(NEAR\|FAR\|ONE CORE\)' 'class before'
says out '^# flag round trip after [0-9.]* us: .*; the class \(did not change\|changed [1-9]\)' 'class after'
[ "$(sed -n 's/.*; the class changed \([0-9]*\) times.*/\1/p' "$scratch/out")" = \
    "$(grep -c '^# the class changed here' "$scratch/out" | sed 's/^0$//')" ] || fail 'changes of the class'
says out '#wrong  *median  *p99  *%limit  *algorithm  *path$' 'header'
awk '!/^#/ && (NF != 18 || !($14 > 0 && $15 >= $14)) { bad = 1 }
    !/^#/ && $16 !~ /^([0-9]+|N\/A)$/ { bad = 1 }
    END { exit bad }' "$scratch/out" ||
    fail 'a row has 18 columns, of which the 14th to 16th are median, p99 and %limit'
expect 0 "$collperf" all_gather_v -b 128 -e 256 -f 2 -n 3 -w 1 -g 4
awk '!/^#/ && $18 ~ /%/ {
        mixed++
        sides = split($18, side, "/")
        for (s = 1; s <= sides; s++) {
            parts = split(side[s], part, "+")
            for (sum = i = 0; i <= parts; i++)
                if (sub(/^[a-z]+:/, "", part[i]) == 1)
                    sum += part[i] == "<1%" ? 1 : part[i]
            if (parts > 1 && (sum < 98 || sum > 102))
                bad = 1
        }
    }
    END { exit bad || mixed == 0 }' "$scratch/out" || fail 'the parts of mixed paths come to 100%'
expect 0 "$collperf" all $few -g 2 --json --output "$scratch/report"
[ ! -s "$scratch/out" ] || fail '--output leaves stdout alone'
for field in collective algorithm type op root in_place bytes count ranks time_us algbw busbw wrong path \
    limit iterations median_us p99_us blocking program mode limit_us flag_after_us class_after startup_ms \
    rest_kib rewritten_bytes line_bytes mapped_bytes placed_bytes copied_bytes pulled_bytes bound; do
    grep -q "\"$field\": " "$scratch/report" || fail "--json without the field $field"
done
if command -v python3 >/dev/null 2>&1; then
    expect 0 python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
assert len({r["collective"] for r in rows}) == 15
assert all(r["time_us"] > 0 and r["ranks"] == 2 and r["mode"] == "steady" and not r["bound"] for r in rows)
assert all(r["wrong"] == 0 for r in rows if r["collective"] != "barrier")
assert {r["in_place"] for r in rows} == {True, False}
assert all(0 < r["median_us"] <= r["p99_us"] for r in rows)
paths = ["line", "mapped", "placed", "copied"]
for r in rows:
    assert abs(r["algbw"] - r["bytes"] / r["time_us"] / 1e3) <= 2e-3 * max(r["algbw"], 1e-3), r
    assert r["rewritten_bytes"] == 0
    assert r["path"].replace("-", "") == "+".join(p for p in paths if r[p + "_bytes"] > 0), r
for one, next in zip(rows, rows[1:]):
    if not next["in_place"]:
        assert one["flag_after_us"] == next["flag_us"] and one["class_after"] == next["class"], next
' "$scratch/report"
    # The limit: the flag where nothing moves, the bytes where many do; no core moves a terabyte a second.
    expect 0 "$collperf" all -b 8 -e 4M -f 524288 -n 2 -w 1 -c 0 -g 2 --json --output "$scratch/report"
    expect 0 python3 -c '
import json, sys
for r in map(json.loads, open(sys.argv[1])):
    flags = [us for us in (r["flag_us"], r["flag_after_us"]) if us <= 5]
    if r["limit"] is None:
        assert not flags and r["bytes"] <= 64, r
        continue
    assert abs(r["limit"] - 100 * r["limit_us"] / r["time_us"]) <= 0.01 + 1e-2 * r["limit"], r
    assert not flags or r["limit_us"] >= min(flags) - 1e-3, r
    assert r["bytes"] > 64 or min(flags) - 1e-3 <= r["limit_us"] <= min(flags) + 1e-3, r
    assert r["bytes"] < 4000000 or r["limit_us"] > 1, r
' "$scratch/report"
    expect 0 "$collperf" all -b 64 -e 4K -f 64 -n 2 -w 1 -g 2 --dirty --json --output "$scratch/report"
    expect 0 python3 -c '
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
inputs = {"all_reduce": 2, "reduce": 2, "all_gather": 1, "broadcast": 1, "gather": 1, "scatter": 1,
    "all_to_all": 2, "sendrecv": 2, "barrier": 0}
assert {r["mode"] for r in rows} == {"dirty"}
for r in rows:
    if r["collective"] in inputs:
        assert r["rewritten_bytes"] == inputs[r["collective"]] * r["bytes"], r
' "$scratch/report"
fi

# --- What a rank holds: at rest, and after it has worked. An instrumented library holds more.
in_the_end() # what the greediest holds, and the mean
{
    sed -n 's/.* holds \([0-9.]*\) MiB in the end, .* the mean of all is \([0-9.]*\)$/\1 \2/p' "$scratch/out"
}
if ! ldd "$(dirname "$collperf")/.libs/collperf" "$collperf" 2>/dev/null | grep -q 'lib[at]san'; then
    expect 0 "$collperf" all_reduce -b 8 -e 1M -f 8 -n 2 -w 1 -g 8
    sed -n 's/.*a rank at rest holds \([0-9.]*\) MiB.*/\1/p' "$scratch/out" >"$scratch/held"
    awk '!($1 > 0 && $1 <= 8) { bad = 1 } END { exit bad || NR != 2 }' "$scratch/held" ||
        fail 'one of 8 ranks holds at most 8 MiB at rest'
    expect 0 env TUTTI_SLICE=128K "$collperf" all -b 64 -e 8M -f 16 -n 1 -w 1 -c 0 -g 8
    in_the_end >"$scratch/held"
    awk '!($2 > 0 && $2 <= 8) { bad = 1 } END { exit bad || NR != 1 }' "$scratch/held" ||
        fail 'after all collectives 8 ranks hold at most 8 MiB each, on average'
    awk '$2 <= $1 && $2 > $1 / 8 { good = 1 } END { exit !good }' "$scratch/held" ||
        fail 'the mean of 8 ranks is more than the most that one holds, or less than an eighth'
    expect 0 "$collperf" all_reduce -b 8 -e 8 -n 2 -w 1 -g 1
    in_the_end >"$scratch/held"
    awk '$1 > 0 && $2 == $1 { good = 1 } END { exit !good }' "$scratch/held" ||
        fail 'the mean of one rank is what that holds'
fi

expect 0 "$collperf" -b 4K -e 4K -n 1 -w 0 -g 2 --csv
[ "$(wc -l <"$scratch/out")" -eq 3 ] || fail '--csv: a line of names, and two results'
awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; names = NF }
    NF != names { bad = 1 }
    NR > 1 && ($at["collective"] != "all_reduce" || $at["bytes"] != 4096 || $at["wrong"] != "0") { bad = 1 }
    NR > 1 && $at["in_place"] != (NR == 2 ? "false" : "true") { bad = 1 }
    NR > 1 && ($at["median_us"] != $at["time_us"] || $at["p99_us"] != $at["time_us"]) { bad = 1 }
    END { exit bad }' "$scratch/out" || fail '--csv of one call: its time is mean, median and p99'
tr ',' '\n' <"$scratch/out" | head -n "$(head -n 1 "$scratch/out" | tr ',' '\n' | wc -l)" >"$scratch/names"
expect 0 "$collperf" -b 8 -e 8 -n 1 -g 2 --json
head -n 1 "$scratch/out" | grep -o '"[a-z0-9_]*": ' | tr -d '": ' >"$scratch/fields"
cmp -s "$scratch/names" "$scratch/fields" || fail '--json and --csv have the same fields'

# --- Progress: only on a terminal, only of what takes long.
if script -qec true /dev/null >/dev/null 2>&1; then
    script -fqec "echo \$\$ >'$scratch/pid'; exec timeout 600 '$collperf' -b 8 -e 8 -n 1000000000 -g 2" \
        /dev/null >"$scratch/out" 2>&1 &
    terminal=$!
    tries=0
    while [ -d /proc/$terminal ] && [ $tries -lt 6000 ] && ! grep -q ' s so far' "$scratch/out"; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill "$(cat "$scratch/pid")"
    wait $terminal
    says out '^.*# all_reduce float, 8 bytes: point 1 of 1; [0-9]* s so far' 'progress on a terminal'
else
    echo "skipped: progress (script cannot make a terminal)"
fi
expect 124 timeout 3 "$collperf" -b 8 -e 8 -n 1000000000 -g 2
[ ! -s "$scratch/err" ] || fail 'progress where stderr is no terminal'

# --- Bound ranks: those of processes and of threads have a core each, and share them by turns.
cores_of() # status files: where their tasks may run, sorted
{
    sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$@" 2>/dev/null | sort
}
three=$(cores_of /proc/$$/status | tr ',' '\n' |
    awk -F- '{ for (core = $1; core <= $NF; core++) all[n++] = core }
        END { for (rank = 0; rank < 3; rank++) print all[rank % n] }' | sort)
for ranks in -g -t; do
    "$collperf" -b 8 -e 8 -n 1000000000 -w 0 -c 0 --bind $ranks 3 >"$scratch/out" 2>"$scratch/err" &
    parent=$!
    tries=0
    seen=
    while [ "$seen" != "$three" ] && [ $tries -lt 3000 ]; do
        sleep 0.1
        set --
        for child in $(cat "/proc/$parent/task/$parent/children" 2>/dev/null); do
            for task in "/proc/$child/task"/*; do
                [ $ranks = -t ] && [ "${task##*/}" = "$child" ] || set -- "$@" "$task/status"
            done
        done
        seen=$([ $# -eq 0 ] || cores_of "$@")
        tries=$((tries + 1))
    done
    kill "$parent"
    wait "$parent" 2>/dev/null
    [ "$seen" = "$three" ] || fail "--bind $ranks 3: cores $(echo $seen) instead of $(echo $three)"
done

# --- A rank that dies is named, nothing is left behind.
"$collperf" -b 1M -e 1M -n 100000000 -g 2 >"$scratch/out" 2>"$scratch/err" &
parent=$!
tries=0
children=
while [ "$(echo "$children" | wc -w)" -lt 2 ] && [ $tries -lt 3000 ]; do
    sleep 0.1
    children=$(cat "/proc/$parent/task/$parent/children" 2>/dev/null)
    tries=$((tries + 1))
done
if [ "$(echo "$children" | wc -w)" -eq 2 ]; then
    sleep 0.5
    kill -KILL "$(echo "$children" | awk '{ print $2 }')"
    wait "$parent"
    got=$?
    [ "$got" -eq 3 ] || fail "exit code $got after a rank was killed, expected 3"
    says err 'rank 1 died of signal 9' 'a killed rank'
    for child in $children; do
        [ ! -d "/proc/$child" ] || fail "process $child is left behind"
    done
else
    echo "skipped: a killed rank (the children of the program could not be seen)"
    kill "$parent" 2>/dev/null
    wait "$parent"
fi

# --- Who has read enough ends it without a word, as other programs end.
for ranks in -g -t; do
    {
        env --default-signal=PIPE "$collperf" -b 8 -e 64M -n 20 -w 0 $ranks 3 2>"$scratch/err"
        echo $? >"$scratch/code"
    } | head -n 1 >"$scratch/out"
    got=$(cat "$scratch/code")
    [ "$got" -eq 141 ] || fail "$ranks 3 | head: exit code $got, expected 141"
    [ ! -s "$scratch/err" ] || fail "$ranks 3 | head: a complaint"
done

# --- Under a launcher.
mpirun=$(command -v mpirun.openmpi)
if [ -n "$mpirun" ] && "$info" cpu >/dev/null 2>&1; then
    root=
    [ "$(id -u)" -ne 0 ] || root=--allow-run-as-root
    good "$mpirun" $root --oversubscribe -n 3 "$collperf" all $few
    says out "3 ranks of a launcher's job" 'mpirun'
fi

# --- Two ranks without a launcher.
"$info" id >"$scratch/id" &
holder=$!
tries=0
while [ ! -s "$scratch/id" ] && [ $tries -lt 3000 ]; do
    sleep 0.1
    tries=$((tries + 1))
done
TUTTI_ID=$(cat "$scratch/id") TUTTI_SIZE=2
export TUTTI_ID TUTTI_SIZE
TUTTI_RANK=1 timeout 1800 "$collperf" all $few >"$scratch/out1" 2>&1 &
other=$!
TUTTI_RANK=0 good "$collperf" all $few
wait "$other" || fail "rank 1 under TUTTI_ID ended with $?"
unset TUTTI_ID TUTTI_SIZE
kill "$holder"
wait "$holder"

# --- tutti-info.
if [ -x "$info" ]; then
    expect 0 "$info"
    says out 'Settings' 'tutti-info'
    says out 'ring' 'tutti-info'
    expect 0 "$info" schedule all_reduce ring -n 3
    says out 'recv_reduce' 'a schedule'
    expect 2 "$info" schedule all_reduce no_such
    says err 'schedule COLLECTIVE ALGORITHM' 'an unknown algorithm'
    expect 2 "$info" schedule all_reduce ring -n 3 --rank 3
    says err '--rank 3' 'a rank that is none'
    expect 2 "$info" nonsense
    expect 0 "$info" --help
fi

[ "$failures" -eq 0 ] && echo "collperf: all good"
[ "$failures" -eq 0 ]
