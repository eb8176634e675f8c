#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_sim.sh: tutti-sim as a user meets it: what it says of machines that are not here, its files,
# its refusals.
#
# usage: SIM=path test_sim.sh   (default: ./tutti-sim; in srcdir stands this file)
set -u
LC_ALL=C
export LC_ALL
sim=${SIM:-./tutti-sim}
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

expect() # code command..
{
    code=$1
    shift
    timeout 300 "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

says() # out|err pattern what
{
    grep -q -e "$2" "$scratch/$1" || fail "$3 does not say \"$2\""
}

time_of() # file
{
    awk '/<- chosen/ { print $2 }' "$1"
}

# --- What it says.

expect 0 "$sim" --help
says out 'usage: tutti-sim COLLECTIVE SIZE -n RANKS' "the help"
expect 0 "$sim" --machines
says out 'dgx-h100' "the list of machines"
says out '#.*NCCL' "the list of machines, of its sources,"

expect 0 "$sim" all_reduce 1M -n 64
head -n 1 "$scratch/out" | grep -q '64 ranks on 8 hosts, machine dgx-h100, costs of Tutti$' ||
    fail "the first line says whose costs these are"
[ "$(grep -c 'chosen$' "$scratch/out")" -eq 1 ] || fail "one algorithm is chosen"
says out '  ring  *[0-9.]* us' "a report"
says out 'LogGP bound  *[0-9.]* us; [0-9.]* times that' "a report"
says out 'critical path: [0-9]* messages in flight' "a report"
# No algorithm is below the bound, also where a rank of another host tells all ranks of a host itself.
for call in 'all_reduce 1M -n 64' 'all_reduce 8 -n 4 --per-host 3' 'broadcast 8 -n 9 --per-host 8' \
    'all_gather 64 -n 16'; do
    # shellcheck disable=SC2086
    expect 0 "$sim" $call
    awk '/LogGP bound/ { found = $5 + 0 >= 1 } END { exit !found }' "$scratch/out" ||
        fail "a time is below the bound: $call"
done

# Beyond a GiB eight times the bytes take eight times the time.
expect 0 "$sim" all_reduce 1G -n 16
cp "$scratch/out" "$scratch/one"
expect 0 "$sim" all_reduce 8G -n 16
awk -v a="$(time_of "$scratch/one")" -v b="$(time_of "$scratch/out")" \
    'BEGIN { exit !(b > 7.9 * a && b < 8.1 * a) }' || fail "8 GiB do not take eight times as long as one"
expect 0 "$sim" broadcast 1T -n 64 -m ethernet --per-host 1
says out 'direct .*more than' "a broadcast of 1 TiB"
expect 3 "$sim" broadcast 1T -n 64 -m ethernet --per-host 1 --algo direct
says err 'direct takes more than five hours' "what takes too long to be told"

# A root sends to other hosts one after the other: five of them take five times as long as one.
for n in 2 6; do
    expect 0 "$sim" broadcast 4M -n $n -m ethernet --per-host 1 --algo direct --slice 4M
    awk '/^  direct / { print $2 }' "$scratch/out" >"$scratch/root.$n"
done
awk -v a="$(cat "$scratch/root.2")" -v b="$(cat "$scratch/root.6")" \
    'BEGIN { exit !(b > 3 * a && b < 6 * a) }' || fail "a root sends to five hosts as fast as to one"
expect 0 "$sim" broadcast 4M -n 6 -m ethernet --per-host 1
grep -q '^  direct .*chosen' "$scratch/out" && fail "a root is to send to five hosts itself"
# On one host, where readers copy, it sends to five as fast as to one.
for n in 2 6; do
    expect 0 "$sim" broadcast 4M -n $n -m ethernet --per-host 6 --algo direct --slice 4M
    awk '/^  direct / { print $2 }' "$scratch/out" >"$scratch/root.$n"
done
awk -v a="$(cat "$scratch/root.2")" -v b="$(cat "$scratch/root.6")" \
    'BEGIN { exit !(b < 1.1 * a) }' || fail "on one host a root waits for its readers"

# Another library's costs: a call has the protocol that is fastest, and only algorithms that are there.
expect 0 "$sim" all_reduce 8 -n 16 -m dgx-h100-nccl
head -n 1 "$scratch/out" | grep -q 'machine dgx-h100-nccl, costs of NCCL$' ||
    fail "the first line does not say that these are NCCL's costs"
says out 'tree, LL  .*<- chosen' "few bytes by NCCL"
says out 'tree, Simple  *[0-9.]* us' "few bytes by NCCL"
says out 'doubling .*cannot serve: this machine.s library has it not' "few bytes by NCCL"
expect 0 "$sim" all_reduce 1G -n 8 -m dgx-h100-nccl
says out 'ring, Simple  .*<- chosen' "many bytes by NCCL"
says out 'tree .*cannot serve: .* between hosts' "many bytes by NCCL"
expect 2 "$sim" broadcast 8 -n 16 -m dgx-h100-nccl
says err 'on this machine, the collective "broadcast" is not legal' "what NCCL does as no algorithm here"
expect 2 "$sim" all_reduce 8 -n 16 -m dgx-h100-nccl --algo doubling
says err 'library has it not' "an algorithm that NCCL has not"
# What is added to each call is added to all.
expect 0 "$sim" all_reduce 8 -n 16 -m dgx-h100 --algo doubling
says out 'launch and the like 18.400' "the critical path of a call that is staged"
expect 0 "$sim" all_reduce 1M -n 16 -m dgx-h100 --algo doubling
says out 'launch and the like 56.6[67]' "the critical path of a long call that is staged"

# On one host of GPUs kernels do the call, and no message is simulated.
expect 0 "$sim" all_reduce 8 -n 8
says out 'kernels that meet  *12.000 us .*<- chosen' "eight ranks of one host"
grep -q 'LogGP bound' "$scratch/out" && fail "kernels are compared with a bound of messages"
expect 0 "$sim" all_reduce 8 -n 9 --per-host 9
grep -q '^  kernels that meet' "$scratch/out" && fail "more ranks than devices meet"
expect 2 "$sim" all_reduce 8 -n 8 --svg "$scratch/a.svg"
says err 'no message is simulated; --algo names' "a drawing of kernels"
expect 0 "$sim" all_reduce 8 -n 8 --algo ring --svg "$scratch/a.svg"

# A hundred thousand ranks; of those that all do the same, one is simulated.
expect 0 "$sim" all_reduce 1M -n 100000
says out '100000 ranks on 12500 hosts' "the report of very many ranks"
says out 'some for all   <- chosen' "the report of very many ranks"

# Also where each has a message for each: within a minute of a core, and a GB.
# shellcheck disable=SC2016
expect 0 sh -c 'ulimit -t 60; ulimit -v 1000000; exec "$0" all_to_all 1G -n 100000' "$sim"
says out 'some for all   <- chosen' "all_to_all of very many ranks"

# By the real executor it takes as long as was predicted, or nearly so where some were simulated for all.
for call in 'all_reduce 64K -n 48' 'all_reduce 8 -n 128 -m slingshot-11' 'broadcast 1M -n 33 -m ethernet' \
    'all_gather 256K -n 40 --per-host 4' 'barrier -n 96' \
    'all_reduce 100K -n 24 --slice 4K --algo hierarchical'; do
    # shellcheck disable=SC2086
    expect 0 "$sim" $call --execute
    awk '/by the real executor/ { sub(/^\(/, "", $7); found = $7 > 0.95 && $7 < 1.05 } END { exit !found }' \
        "$scratch/out" || fail "the executor does not agree: $call"
done

# --- Hosts and machines as files.

printf 'a slots=3\n# none\nb slots=1\nc\n' >"$scratch/hosts"
expect 0 "$sim" all_gather 4K -n 5 --hosts "$scratch/hosts"
says out '5 ranks on 3 hosts' "hosts of a file"
expect 2 "$sim" all_gather 4K -n 6 --hosts "$scratch/hosts"
says err 'fewer slots than there are ranks' "too few slots"
expect 2 "$sim" all_gather 4K -n 6 --hosts "$scratch/none"
says err 'NAME \[slots=K\]' "hosts of no file"
printf 'a slots=2\nb\na slots=2\n' >"$scratch/hosts2"
expect 0 "$sim" all_gather 4K -n 5 --hosts "$scratch/hosts2"
says out '5 ranks on 2 hosts' "a host that is named twice"
# A thousand hosts that are named twice are a thousand, as if each were named once.
for _ in 1 2; do
    seq -f 'node%g' 1000
done >"$scratch/hosts4"
seq -f 'node%g slots=2' 1000 >"$scratch/hosts5"
expect 0 "$sim" barrier -n 2000 --hosts "$scratch/hosts5"
cp "$scratch/out" "$scratch/one"
expect 0 "$sim" barrier -n 2000 --hosts "$scratch/hosts4"
says out '2000 ranks on 1000 hosts' "very many hosts"
cmp -s "$scratch/out" "$scratch/one" || fail "hosts that are named twice are other ones"
# All of these would have the last place of a table of 64.
printf 'n%s\n' 105 149 170 224 268 286 343 422 105 149 170 224 268 286 343 422 >"$scratch/hosts6"
expect 0 "$sim" barrier -n 16 --hosts "$scratch/hosts6"
says out '16 ranks on 8 hosts' "hosts whose names meet"
for wrong in 'b slot=4' 'b slots=x' 'b slots=1 slots=2' 'b 4'; do
    printf 'a\n%s\n' "$wrong" >"$scratch/hosts3"
    expect 2 "$sim" all_gather 4K -n 1 --hosts "$scratch/hosts3"
    says err 'line 2: "[^"]*" is no slots=K' "hosts with $wrong"
done

# A machine of lstopo: two caches, of three cores and of one.
for type in L3Cache Core Core Core L3Cache Core; do
    printf '  <object type="%s" os_index="0">\n' $type
done >"$scratch/machine.xml"
expect 0 "$sim" all_gather 4K -n 4 --hwloc "$scratch/machine.xml"
says out '4 ranks on 2 cache domains' "a machine of lstopo"
expect 2 "$sim" all_gather 4K -n 5 --hwloc "$scratch/machine.xml"
says err 'a core for each rank' "too few cores"
expect 2 "$sim" all_gather 4K -n 2 --hwloc "$scratch/machine.xml" --hosts "$scratch/hosts"

# What --costs prints is a machine again, and a faster network takes less time.
expect 0 "$sim" -m ethernet --costs
cp "$scratch/out" "$scratch/machine"
expect 0 "$sim" all_reduce 1M -n 16 -m ethernet
cp "$scratch/out" "$scratch/one"
expect 0 "$sim" all_reduce 1M -n 16 -m "$scratch/machine"
awk -v a="$(time_of "$scratch/one")" -v b="$(time_of "$scratch/out")" \
    'BEGIN { exit !(b > 0.99 * a && b < 1.01 * a) }' ||
    fail "a machine that was printed takes another time"
sed 's/^byte_away.*/byte_away 16 GB\/s/; s/^link.*/link 13 GB\/s/' "$scratch/machine" >"$scratch/faster"
expect 0 "$sim" all_reduce 1M -n 16 -m "$scratch/faster"
awk -v a="$(time_of "$scratch/one")" -v b="$(time_of "$scratch/out")" 'BEGIN { exit !(b < a / 2) }' ||
    fail "ten times the bandwidth takes more than half the time"
# A class of networks says what the four costs between hosts are; a line behind it says it better.
printf 'network 1g,wan\nlink 0.05 GB/s\n' >"$scratch/class"
expect 0 "$sim" -m "$scratch/class" --costs
says out '^latency_away *5000000.0 ns' "a class of networks"
says out '^byte_away *0.1.* GB/s' "a class of networks"
says out '^link *0.050 GB/s' "a cost behind a class"
printf 'latency_near 5 ns\nbyte_awy 3 GB/s\n' >"$scratch/wrong"
expect 2 "$sim" barrier -n 4 -m "$scratch/wrong"
says err 'line 2: "byte_awy"' "a wrong machine"
for wrong in 'latency_near -5 ns' 'launch -1 ns' 'staging 0 GB/s' 'meets 1.5' 'proxy' 'protocol' 'library' \
    'protocol abcdefghijklmnopq' 'algorithms all_reduced ring' 'algorithms all_reduce rong' \
    'algorithms' 'network 1g,moon' 'network'; do
    echo "$wrong" >"$scratch/wrong"
    expect 2 "$sim" barrier -n 4 -m "$scratch/wrong"
    says err "line 1: \"${wrong%% *}\"" "a machine with $wrong"
done
for i in 1 2 3 4 5; do
    echo "protocol p$i"
done >"$scratch/wrong"
expect 2 "$sim" barrier -n 4 -m "$scratch/wrong"
says err 'line 5: "protocol".*up to 4 protocols' "a machine with many protocols"
# A machine with protocols that was printed is the same machine.
expect 0 "$sim" -m dgx-h100-nccl --costs
cp "$scratch/out" "$scratch/machine2"
for call in 'all_reduce 64M -n 16' 'all_reduce 8 -n 8' 'all_to_all 1M -n 24'; do
    # shellcheck disable=SC2086
    expect 0 "$sim" $call -m dgx-h100-nccl
    sed 1,2d "$scratch/out" >"$scratch/one"
    # shellcheck disable=SC2086
    expect 0 "$sim" $call -m "$scratch/machine2"
    sed 1d "$scratch/out" | sed 's/[0-9.]* us.*//' >"$scratch/two"
    sed 's/[0-9.]* us.*//' "$scratch/one" | cmp -s - "$scratch/two" ||
        fail "a machine that was printed: $call"
done
expect 2 "$sim" barrier -n 4 -m nowhere
says err 'no machine, and no file, "nowhere"' "an unknown machine"

# --- Blocks of any length.

# Without --counts all are alike, as in the form without v.
for c in all_gather reduce_scatter all_to_all gather scatter; do
    expect 0 "$sim" $c 1M -n 16 -m ethernet --algo direct
    awk '/^  direct  / { print $2; exit }' "$scratch/out" >"$scratch/one"
    expect 0 "$sim" ${c}_v 1M -n 16 -m ethernet --algo direct
    awk '/^  direct  / { print $2; exit }' "$scratch/out" | cmp -s - "$scratch/one" ||
        fail "${c}_v of even blocks takes another time than $c"
    expect 0 "$sim" ${c}_v 1M -n 16 -m ethernet --algo direct --counts 7
    awk '/^  direct  / { print $2; exit }' "$scratch/out" | cmp -s - "$scratch/one" ||
        fail "${c}_v of blocks that are told to be even takes another time than $c"
done
# One rank has nearly all: the others get it from there, one after the other.
expect 0 "$sim" all_gather_v 4M -n 4 -m ethernet --per-host 1 --algo direct --counts 1000,1,1,1
awk '/^  direct  / { exit !($2 > 7000) }' "$scratch/out" ||
    fail "a rank that has nearly all is as fast as others"
says out 'sends to other hosts .* peers' "blocks of any length"
# What ranks send is as long as they say, and comes so.
expect 0 "$sim" all_to_all_v 64K -n 4 -m ethernet --counts 1,3 --goal "$scratch/v.goal"
awk '/^rank/ { me = $2 }
     / send / { sub(/b$/, "", $3); n++; bad = bad || $3 != (me % 2 == 0 ? 8192 : 24576) }
     / recv / { sub(/b$/, "", $3); n++; bad = bad || $3 != ($5 % 2 == 0 ? 8192 : 24576) }
     END { exit bad || n != 24 }' "$scratch/v.goal" || fail "the blocks of an all_to_all_v"
# One rank has all, or none: still no time is below the bound, and no number is none.
for call in 'gather_v 1M -n 5 --counts 1,0,0,0,0' 'scatter_v 1M -n 5 --counts 0,1,1,1,1' \
    'reduce_scatter_v 8 -n 5 --counts 0,0,0,0,1' 'all_to_all_v 1M -n 5 --counts 0,0,9,0,0'; do
    # shellcheck disable=SC2086
    expect 0 "$sim" $call -m ethernet
    awk '/LogGP bound/ { found = $5 + 0 >= 1 } END { exit !found }' "$scratch/out" || fail "the bound: $call"
    grep -q -i -w -e '-\{0,1\}nan' -e inf "$scratch/out" && fail "$call: a number is none"
done
for wrong in x 1, ,1 0 0,0 -1 1001 1.5 '1 2'; do
    expect 2 "$sim" all_gather_v 1M -n 4 --counts "$wrong"
    says err 'weights of ranks in turn' "--counts $wrong"
done
expect 2 "$sim" all_gather 1M -n 4 --counts 1,2
says err 'collectives with _v' "--counts of even blocks"
expect 2 "$sim" all_gather_v 1M -n 1025 --counts 1,2
says err 'up to 1024 ranks' "--counts of many ranks"
expect 2 "$sim" all_gather_v 1M -n 4 --counts 1,2 --execute
says err 'blocks of one length' "--counts and --execute"

# --- JSON.

printf 'library a"b\\c\n' >"$scratch/ma\"chine"
for call in 'all_reduce 1M -n 64' 'all_reduce 8 -n 8' 'barrier -n 1' \
    'all_reduce 8 -n 16 -m dgx-h100-nccl --execute' \
    'all_gather_v 1M -n 12 --counts 1,2 -m ethernet' 'broadcast 1T -n 64 -m ethernet --per-host 1' \
    'all_reduce 0 -n 3' "all_reduce 8 -n 3 -m $scratch/ma\"chine"; do
    # shellcheck disable=SC2086
    expect 0 "$sim" $call --json
    cp "$scratch/out" "$scratch/json"
    # shellcheck disable=SC2086
    expect 0 "$sim" $call
    python3 - "$scratch/json" "$scratch/out" <<'END' || fail "JSON and text differ: $call"
import json, re, sys
data, text = json.load(open(sys.argv[1])), open(sys.argv[2]).read()
chosen = [way for way in data['ways'] if way.get('chosen')]
told = re.search(r'^  (.*?) +([0-9.]+) us +[0-9.]+ .*<- chosen$', text, re.M)
name = chosen[0]['algorithm'] + (', ' + chosen[0]['protocol'] if chosen[0]['protocol'] else '')
rows = re.findall(r'^  \S.* (us +[0-9.]+ |cannot serve|more than 20)', text, re.M)
sys.exit(not (len(chosen) == 1 and told.group(1) == name
              and abs(chosen[0]['us'] - float(told.group(2))) < 0.001
              and chosen[0]['us'] == data['way']['us'] and len(data['ways']) == len(rows)
              and ('executor' in data) == ('by the real executor' in text)
              and all((way['us'] is None) == ('none' in way) for way in data['ways'])))
END
done

# --- Files that it writes.

expect 0 "$sim" all_reduce 64K -n 16 --svg "$scratch/a.svg" --goal "$scratch/a.goal"
python3 - "$scratch/a.svg" <<'END' || fail "the drawing is no SVG, or lacks ranks or the critical path"
import sys, xml.etree.ElementTree as tree
bars = [e for e in tree.parse(sys.argv[1]).iter() if e.tag.endswith('rect') and len(e)]
sys.exit(not (len({e[0].text.split(',')[0] for e in bars}) == 16 and any(e.get('stroke') for e in bars)))
END
# Each message is sent once and received once, with one length and tag.
awk '/^rank/ { me = $2 }
     / send / { sub(/b$/, "", $3); sent[me " " $5 " " $7 " " $3]++ }
     / recv / { sub(/b$/, "", $3); sent[$5 " " me " " $7 " " $3]-- ; received++ }
     / requires / { required++ }
     END { for (m in sent) if (sent[m]) exit 1; exit !(received >= 64 && required >= 48) }' \
    "$scratch/a.goal" || fail "the ends of messages in GOAL do not match"
# Somebody else's arithmetic comes to the same times, where messages cost as in LogGOPS: L 1000, o 200, g 0,
# G 1. What differs is which of several messages leaves first: the executor takes them as its list of ready
# steps has them, in which the last takes the place of one that is done, and a broadcast by circulant feels
# that.
for level in near far away; do
    printf 'latency_%s 1000 ns\nmessage_%s 200 ns\nbyte_%s 1 GB/s\n' $level $level $level
done >"$scratch/flat"
printf 'ranks_per_host 1\nfold_byte inf\ncopy_byte inf\nlink inf\neager 64\n' >>"$scratch/flat"
compared=0
for n in 7 16; do
    for c in all_reduce reduce_scatter all_gather broadcast reduce barrier all_to_all gather scatter; do
        expect 0 "$sim" $c 1M -n $n -m "$scratch/flat"
        for a in $(awk '/^  [a-z_]+ +[0-9.]+ us +[0-9.]+  / { print $1 }' "$scratch/out"); do
            expect 0 "$sim" $c 1M -n $n -m "$scratch/flat" --algo "$a" --goal "$scratch/b.goal"
            theirs=$(python3 "${srcdir:-..}/tests/goal_time.py" "$scratch/b.goal" 1000 200 0 1)
            most=0.05
            [ "$c $a" = "broadcast circulant" ] && most=0.16
            awk -v a="$a" -v theirs="$theirs" -v most=$most \
                '$1 == a && $3 == "us" { r = $2 / theirs; found = r > 1 - most && r < 1 + most }
                 END { exit !found }' "$scratch/out" || fail "$c $a, $n ranks: LogGOPS says $theirs us"
            compared=$((compared + 1))
        done
    done
done
[ "$compared" -ge 50 ] || fail "only $compared schedules are compared with LogGOPS"
# What is computed has its price in the file, too: of several operands at once, and of one after the other.
sed 's/^fold_byte.*/fold_byte 2 GB\/s/' "$scratch/flat" >"$scratch/folds"
for call in 'all_reduce ring' 'all_reduce star' 'reduce direct' 'reduce tree'; do
    a=${call#* }
    expect 0 "$sim" "${call% *}" 1M -n 7 -m "$scratch/folds" --algo "$a" --goal "$scratch/b.goal"
    theirs=$(python3 "${srcdir:-..}/tests/goal_time.py" "$scratch/b.goal" 1000 200 0 1)
    awk -v a="$a" -v theirs="$theirs" \
        '$1 == a && $3 == "us" { r = $2 / theirs; found = r > 0.99 && r < 1.01 } END { exit !found }' \
        "$scratch/out" || fail "$call with folds: LogGOPS says $theirs us"
done
# Of vectors with fewer elements than ranks, messages without bytes are in no file: LogGOPSim takes those as
# endless.
expect 0 "$sim" all_reduce 8 -n 12 --algo direct --goal "$scratch/b.goal"
grep -q ' 0b ' "$scratch/b.goal" && fail "a message of GOAL has no bytes"
expect 3 "$sim" all_reduce 64K -n 4 -m ethernet --svg "$scratch/no/such"
says err 'could not be written' "a file that cannot be written"

# --- Refusals.

expect 2 "$sim" allreduce 1M -n 4
says err 'all_reduce, reduce_scatter' "an unknown collective"
expect 2 "$sim" send 1M -n 4
says err 'with _v reduce_scatter' "messages are no collective"
expect 2 "$sim" all_reduce -n 4
expect 2 "$sim" all_reduce 1X -n 4
expect 2 "$sim" all_reduce 1M
says err 'a number of ranks must be given' "no number of ranks"
expect 2 "$sim" all_reduce 1M -n 0
expect 2 "$sim" all_reduce 1M -n 4 --algo rong
expect 2 "$sim" all_reduce 1M -n 4 --algo hierarchical
says err 'domains' "an algorithm that cannot serve"
# Nothing to send, and nobody to send it to.
for few in '0 -n 9' '0 -n 1' '1M -n 1'; do
    # shellcheck disable=SC2086
    expect 0 "$sim" all_reduce $few --execute
    says out '<- chosen' "$few"
    grep -q -i -w -e '-\{0,1\}nan' -e inf "$scratch/out" && fail "$few: a number is none"
done

expect 2 "$sim" all_reduce 1M -n 2048 --execute
says err 'with --execute, -n "2048" is not legal; 1 to 1024' "too many ranks for the executor"
expect 2 "$sim" all_reduce 8G -n 512 --execute
says err 'with --execute, the size "8589934592"' "too many bytes for the executor"
expect 2 "$sim" all_reduce 1T -n 2 --slice 64
says err 'slices' "a slice that is too short"
expect 0 "$sim" all_reduce 1M -n 1
says out 'one rank sends nothing: it copies' "a report of one rank"
expect 2 "$sim" all_reduce 1M -n 4 --rong
expect 2 "$sim" all_reduce 1M -n
says err 'a value must follow' "a flag without its value"
expect 0 "$sim" all_reduce 0 -n 4
expect 0 "$sim" all_reduce 8 -n 1

[ "$failures" -eq 0 ] || exit 1
echo "tutti-sim says what it should"
