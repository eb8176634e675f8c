#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_bench.sh: what make bench says of its measurements, and that README's tables are those of a run.
#
# No time is tested here: the verdicts are those of measurements that were made up.
set -u
LC_ALL=C
export LC_ALL
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -d "$here/perf" ] || here=$(dirname "$here")
programs=$here/perf/bench
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "test_bench: $1"
    [ $# -lt 2 ] || sed 's/^/    /' "$2"
    failures=$((failures + 1))
}

# Lines are compared as a whole.
demand() # file line
{
    grep -qxF -e "$2" "$1" || fail "not said: $2" "$1"
}

show() # program files
{
    program=$1
    shift
    awk -f "$programs/bench_json.awk" -f "$programs/$program" "$@"
}

# --- Medians: of each class by itself, the better variant of a peer, and nothing that was measured while the
# class changed or another program took the cores, unless there is nothing else.
round() # collective ranks round class tutti openmpi-default openmpi-bound [others [class after]]
{
    point="{\"point\": \"steady $1 $2 4096 $3\", \"library\":"
    rest="\"collective\": \"$1\", \"ranks\": $2, \"flag_us\": 0.1, \"class\": \"$4\", \
\"class_after\": \"${9:-$4}\", \"size\": 4096, \"others\": ${8:-0}}"
    for memory in malloc registered; do
        echo "$point \"tutti\", \"variant\": \"default\", \"memory\": \"$memory\", \"time_us\": $5, \
\"path\": \"line\", \"algorithm\": \"ring\", $rest"
    done
    echo "$point \"openmpi\", \"variant\": \"default\", \"time_us\": $6, $rest"
    echo "$point \"openmpi\", \"variant\": \"bound\", \"time_us\": $7, $rest"
}
ladder() # bytes us limit
{
    echo "{\"point\": \"ladder reduce 2 0 1\", \"collective\": \"reduce\", \"memory\": \"registered\", \
\"class\": \"NEAR\", \"class_after\": \"NEAR\", \"ranks\": 2, \"bytes\": $1, \"time_us\": $2, \
\"limit_us\": $3, \"others\": 0}"
}
instead() # collective round us calls...: what programs could call instead of it
{
    collective=$1 round=$2 us=$3
    shift 3
    for calls; do
        for memory in malloc registered; do
            echo "{\"point\": \"steady $collective 2 4096 $round\", \"library\": \"tutti\", \
\"variant\": \"$calls\", \"memory\": \"$memory\", \"time_us\": $us, \"ranks\": 2, \"flag_us\": 0.1, \
\"class\": \"FAR\", \"class_after\": \"FAR\", \"size\": 4096, \"others\": 0}"
        done
    done
}
{
    echo '{"command": "x", "date": "2026-01-02", "cores": 2, "machine": "m", "openmpi": "4", "mpich": "5"}'
    round all_reduce 2 1 NEAR 1 9 9
    round all_reduce 2 2 NEAR 3 9 9
    round all_reduce 2 3 NEAR 2 8 7
    round all_reduce 2 4 FAR 4 6 5
    instead all_reduce 4 3.5 reduce+broadcast reduce_scatter+all_gather
    round all_reduce 2 5 NEAR 100 1 1 50
    round all_reduce 2 6 NEAR 100 1 1 0 FAR
    round reduce 2 1 NEAR 1 1 1 0 FAR
    round broadcast 2 1 NEAR 1 2 0.5
    round barrier 2 1 FAR 4 4 4
    instead barrier 1 3 all_reduce
    round broadcast 8 1 'ONE CORE' 1 13 14 0 FAR
    ladder 8 1 1
    ladder 16 2 1.5
    ladder 32 7 3
    ladder 64 42 12
    echo '{"instructions": 321, "least": 321, "most": 321, "collective": "all_reduce", "ranks": 2, "size": 8}'
    echo '{"instructions": 654, "collective": "barrier", "fused": "off", "ranks": 2, "size": 0}'
} >"$scratch/raw"
show bench_sum.awk "$scratch/raw" >"$scratch/sums"
sum() # collective ranks memory class rounds tutti openmpi ratio [more]
{
    demand "$scratch/sums" "{\"mode\": \"steady\", \"collective\": \"$1\", \"ranks\": $2, \"size\": 4096, \
\"memory\": \"$3\", \"class\": \"$4\", \"rounds\": $5, \"tutti_us\": $6, \"openmpi_us\": $7, \"ratio\": $8, \
${9:-}\"flag_us\": 0.100, \"path\": \"line\", \"algorithm\": \"ring\"}"
}
sum all_reduce 2 malloc NEAR 3 2 9 4.5
sum all_reduce 2 registered FAR 1 4 5 1.25 \
    '"reduce_broadcast_us": 3.5, "reduce_scatter_all_gather_us": 3.5, '
sum reduce 2 malloc MIXED 1 1 1 1
sum broadcast 2 malloc NEAR 1 1 0.5 0.5
sum barrier 2 malloc FAR 1 4 4 1 '"all_reduce_us": 3, '
sum broadcast 8 malloc SHARED 1 1 13 13
[ "$(wc -l <"$scratch/sums")" -eq 16 ] || fail "other lines than those of a class" "$scratch/sums"
steps='8:1:1 16:2:1.5 32:7:3 64:42:12' # bytes, us, the limit
demand "$scratch/sums" '{"ladder": "reduce", "memory": "registered", "class": "NEAR", "us": "'"$steps"'"}'

# --- The table has a row for each of them, ladders have none.
show bench_table.awk "$scratch/sums" | sed 1,2d >"$scratch/table"
grep -q '^broadcast  *8  *4096 ' "$scratch/table" || fail "a row is missing" "$scratch/table"
! grep -qv '^[a-z]' "$scratch/table" || fail "rows of nothing" "$scratch/table"

# --- Verdicts: met, missed with the worst row, not measured; a mixed class judges nothing.
cat >"$scratch/bars" <<'END'
# a comment
faster all_reduce 2 4K 4K malloc 4 5
faster broadcast  2 4K 1M any    1 1
faster broadcast  8 4K 4K any    2 4
faster any        2 8  8  any    1 1
END
show bench_bars.awk "$scratch/bars" "$scratch/sums" >"$scratch/verdicts"
demand "$scratch/verdicts" "    NEAR   met: 4.5 at all_reduce 4096 malloc"
demand "$scratch/verdicts" "    FAR    MISSED in 1 of 1: 1.25 at all_reduce 4096 malloc, 25%"
demand "$scratch/verdicts" "    NEAR   MISSED in 2 of 2: 0.5 at broadcast 4096 malloc, 50%"
demand "$scratch/verdicts" "    SHARED met: 13 at broadcast 4096 malloc"
demand "$scratch/verdicts" "    NEAR   not measured"
demand "$scratch/verdicts" "# Instructions of one all_reduce of 8 bytes, 2 ranks: 321"
demand "$scratch/verdicts" "# Instructions of one barrier of 0 bytes, 2 ranks, TUTTI_FUSED=off: 654"
twice="twice the bytes take at most 3 times as long, or 1.5 times what the limit grows"
demand "$scratch/verdicts" "$twice: BROKEN"
demand "$scratch/verdicts" "    7 us instead of 6: reduce, registered, NEAR, 32 B"
demand "$scratch/verdicts" "More than 3 times as long, where the machine's limit grows as fast:"
steep="reduce, registered, NEAR, 64 B; the machine's limit grows 4 times"
demand "$scratch/verdicts" "    42 us, not 21: $steep"
demand "$scratch/verdicts" "all_reduce <= reduce_scatter + all_gather: BROKEN"
demand "$scratch/verdicts" "    4 us instead of 3.5: 2 ranks, 4096 B, malloc, FAR"
demand "$scratch/verdicts" "barrier <= all_reduce of 8 bytes: BROKEN"
demand "$scratch/verdicts" "    4 us instead of 3: 2 ranks, 4096 B, malloc, FAR"
echo '{"mode": "steady", "collective": "reduce", "ranks": 2, "size": 1048576, "memory": "malloc",
 "class": "NEAR", "tutti_us": 1, "ratio": 3, "off_us": 2}' | tr -d '\n' >"$scratch/off"
echo 'faster reduce 2 1M 1M any 2 2' >"$scratch/bars_off"
show bench_bars.awk "$scratch/bars_off" "$scratch/off" >"$scratch/verdicts"
demand "$scratch/verdicts" "    NEAR   MISSED in 1 of 2: 1.5 at reduce 1048576 malloc TUTTI_FUSED=off, 75%"
show bench_bars.awk -v list=1 "$scratch/bars" "$scratch/sums" | sort >"$scratch/missed"
{
    echo 'ladder reduce 2 0'
    printf 'steady %s 2 4096\n' all_reduce barrier broadcast
} | cmp -s - "$scratch/missed" ||
    fail "other points than those that miss a bar or break a guideline" "$scratch/missed"

# --- The bars themselves: eight words, a judgement that there is, numbers, names that collperf knows.
./collperf --list collectives >"$scratch/collectives"
echo any >>"$scratch/collectives"
awk '
    FNR == NR { known[$1] = 1; next }
    /^#/ { next }
    NF != 8 || $1 !~ /^(faster|dirty|limit|threads|off|startup|rest)$/ ||
        !($2 in known) || $3 !~ /^([0-9]+|any)$/ ||
        $4 !~ /^[0-9]+[KM]?$/ || $5 !~ /^[0-9]+[KM]?$/ || $6 !~ /^(malloc|registered|any)$/ ||
        $7 !~ /^[0-9.]+$/ || $8 !~ /^[0-9.]+$/ { print FILENAME ":" FNR ": " $0 }' \
    "$scratch/collectives" "$programs/bars.txt" >"$scratch/bad"
[ ! -s "$scratch/bad" ] || fail "not a bar" "$scratch/bad"

# --- A run of the whole, as short as can be and without peers: every program of a point, once each; a run
# that was interrupted measures only what is missing; points that miss a bar or break a guideline, and
# only they, get a round more.
cp -r "$here/perf" "$scratch"
chmod -R u+w "$scratch/perf"
bench() # rounds-more ranks
{
    BENCH_QUICK=1 BENCH_PEERS='' BENCH_ROUNDS=1 BENCH_AGAIN=$1 BENCH_RANKS=$2 BENCH_SIZES=8 BENCH_PATIENCE=0 \
        BENCH_COLLECTIVES='broadcast barrier' \
        sh "$scratch/perf/bench/bench.sh" ./collperf "$scratch/bench.jsonl" >"$scratch/out" 2>&1 ||
        fail "bench.sh failed" "$scratch/out"
}
bench 0 2
grep -c '"point": "steady b[a-z]* 2 8 1"' "$scratch/bench.jsonl" >"$scratch/lines"
lines=$(cat "$scratch/lines")
[ "$lines" -ge 4 ] || fail "$lines measurements instead of at least 4" "$scratch/bench.jsonl"
grep -q '"point": "steady barrier 2 8 1".*"collective": "all_reduce"' "$scratch/bench.jsonl" ||
    fail "barrier is not compared with an all_reduce" "$scratch/bench.jsonl"
grep -q '"collective": "broadcast".*"in_place": true' "$scratch/bench.jsonl" ||
    fail "broadcast is not compared in place" "$scratch/bench.jsonl"
grep -v -e '"point": "steady barrier' -e '^{"finished"' "$scratch/bench.jsonl" >"$scratch/part"
cp "$scratch/part" "$scratch/bench.jsonl"
bench 0 2
grep 'steady broadcast' "$scratch/bench.jsonl" >"$scratch/kept"
grep 'steady broadcast' "$scratch/part" | cmp -s - "$scratch/kept" ||
    fail "one measured again what was there" "$scratch/bench.jsonl"
grep -q '"point": "steady barrier 2 8 1"' "$scratch/bench.jsonl" || fail "what was missing still is"
echo 'off any any 8 8 any 1e-9 1e-9' >"$scratch/perf/bench/bars.txt" # which nobody reaches
BENCH_UNDER=env bench 1 3 # whatever else this machine does, and of no class
more=$(grep -o '"point": "[a-z]* [a-z]* 3 8 2"' "$scratch/bench.jsonl" | sort -u | wc -l)
demand "$scratch/out" "# $more points missed a bar or a guideline, and are measured 1 times more"
[ "$(nproc)" -gt 2 ] || [ "$more" -eq 2 ] || fail "$more points of 2 were measured again" "$scratch/out"

# --- README has one small table, perf/results all of them; they are generated, and a changed figure is found.
for file in README.md perf/results/README.md; do
    sh "$programs/bench_readme.sh" --check "$here/$file" >"$scratch/out" 2>&1 || fail "$file" "$scratch/out"
done
mkdir "$scratch/tree"
cp "$scratch/sums" "$scratch/tree/run.jsonl"
printf '# Title\n<!-- bench full: run.jsonl -->\n<!-- bench: end -->\nthe rest\n' >"$scratch/tree/README.md"
sh "$programs/bench_readme.sh" "$scratch/tree/README.md" || fail "bench_readme.sh failed"
demand "$scratch/tree/README.md" '| all_reduce | 4.5 / 4.5 |'
demand "$scratch/tree/README.md" '| broadcast | **0.50** / **0.50** |'
demand "$scratch/tree/README.md" '| broadcast | 13 / 13 |'
demand "$scratch/tree/README.md" 'the rest'
demand "$scratch/tree/README.md" '| 2 ranks, FAR | 4 KiB |'
sh "$programs/bench_readme.sh" --check "$scratch/tree/README.md" || fail "its own tables are refused"
sed 's/4\.5 /4.6 /' "$scratch/tree/README.md" >"$scratch/tree/changed.md"
! sh "$programs/bench_readme.sh" --check "$scratch/tree/changed.md" >/dev/null 2>&1 ||
    fail "a figure that was changed by hand is not found"

sed 's/bench full:/bench:/' "$scratch/tree/README.md" >"$scratch/tree/small.md"
sh "$programs/bench_readme.sh" "$scratch/tree/small.md" || fail "bench_readme.sh failed on a small table"
demand "$scratch/tree/small.md" '<!-- bench: run.jsonl -->'
demand "$scratch/tree/small.md" '| 2 cores | 8 B | 4 KiB | 64 KiB | 8 MiB | 64 MiB |'
demand "$scratch/tree/small.md" '| all_reduce, 2 ranks | - | 4.5 / 4.5 | - | - | - |'
demand "$scratch/tree/small.md" '| broadcast, 8 ranks | - | 13 / 13 | - | - | - |'
[ "$(grep -c '^| [a-z_]*, [0-9]* ranks |' "$scratch/tree/small.md")" -eq 3 ] ||
    fail "a small table has FAR rows, or other collectives" "$scratch/tree/small.md"
! grep -q 'NEAR\|FAR\|SHARED' "$scratch/tree/small.md" || fail "a small table speaks of classes"

[ "$failures" -eq 0 ] && echo "test_bench: all passed"
exit "$failures"
