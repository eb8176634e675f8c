#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_collperf_words.sh: habits of nccl-tests, sizes as people write them, and names that are nearly right.
#
# usage: COLLPERF=path INFO=path test_collperf_words.sh   (default: ./collperf and ./tutti-info)
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

run() # code arguments..: the exit code of collperf; output is kept in out and err
{
    code=$1
    shift
    timeout 900 "$collperf" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
    got=$?
    [ "$got" -eq "$code" ] || fail "exit code $got, expected $code: $*"
}

says() # where pattern what
{
    grep -q -e "$2" "$scratch/$1" || fail "$3: no '$2' on $1"
}

refused() # pattern arguments..: one line, which says so; nothing started
{
    pattern=$1
    shift
    run 2 "$@"
    says err "^collperf: $pattern" "collperf $*"
    [ "$(wc -l <"$scratch/err")" -eq 1 ] || fail "more than one line for: $*"
    [ ! -s "$scratch/out" ] || fail "output before the refusal of: $*"
}

# --- Sizes: the same spellings for collperf and for the library's settings, of the same value.
while read -r word bytes; do
    run 0 -b "$word" -e "$word" -d int8 -n 1 -w 0 -c 0 -g 2
    [ "$(awk '!/^#/ { print $1 }' "$scratch/out")" = "$bytes" ] || fail "-b $word is $bytes bytes"
    set=$(TUTTI_SLICE=$word "$info" config 2>&1 | sed -n 's/^slice=\([^ ]*\) .*/\1/p')
    run 0 -b "$set" -e "$set" -d int8 -n 1 -w 0 -c 0 -g 2
    [ "$(awk '!/^#/ { print $1 }' "$scratch/out")" = "$bytes" ] || fail "TUTTI_SLICE=$word is $bytes bytes"
done <<TABLE
8 8
64K 65536
64k 65536
64KB 65536
64KiB 65536
1.5M 1572864
0.5mib 524288
1.2K 1228
0.000001T 1099511
TABLE
for word in 9x 8KK 1.5 .5K 1.K 8B 1KiBB 1P -1 ''; do
    refused "-b/--minbytes .*: legal is a number of bytes, as 8, 64K, 1.5M or 1MiB" -b "$word"
    ! TUTTI_SLICE=$word "$info" config >"$scratch/out" 2>&1 || fail "TUTTI_SLICE=$word is taken"
done
says err ' K, M, G and T are powers of 1024$' 'the end of the text'
refused '-b/--minbytes 9999999999999999999: too large, the most is 4T; ' -b 9999999999999999999
refused '-e/--maxbytes 5T: too large, the most is 4T; ' -e 5T
refused '-e/--maxbytes 99999999T: too large' -e 99999999T
refused '-n/--iters 99999999999: too large, the most is 1000000000; ' -n 99999999999
refused '-e/--maxbytes 4398046511104: the ranks would need' -e 4T

# --- Flags of nccl-tests that collperf has not: the replacement is named. The others are taken.
refused '-m: unknown flag; .*: -G N ' -m 4
refused '-a: unknown flag; .*slowest rank' -a 1
refused '-p: unknown flag; .*at once' -p 1
refused '-F: unknown flag; .*: --csv --output FILE' -F out.csv
refused '-J: unknown flag; .*: --json --output FILE' -J out.json
refused '-T: unknown flag; .*: --timeout MS' -T 10
refused '-R: unknown flag; .*: --memory registered' -R 1
refused '--agg_iters: unknown flag; .*: -G N ' --agg_iters 4
refused '--agg_iters=4: unknown flag; .*: -G N ' --agg_iters=4
refused '--ngpus: unknown flag; .*: -g/--ranks N' --ngpus 2
refused '--minbytess: unknown flag; the nearest is --minbytes ' --minbytess 8
refused '--bogus: unknown flag (collperf --help' --bogus
refused '-q: unknown flag (collperf --help' -q

# --- Names: nccl-tests' programs, and what is nearly right.
for word in allreduce all_reduce_perf ALL_REDUCE all_reduc; do
    refused "$word: not a collective; the nearest is all_reduce; legal are all_reduce " "$word"
done
refused 'alltoall_perf: not a collective; the nearest is all_to_all; ' alltoall_perf
refused 'sendrecv_perf: not a collective; the nearest is sendrecv; ' sendrecv_perf
refused 'bogus: not a collective; legal are ' bogus

# --- -c is a count, as in nccl-tests: of calls beside the one that is timed, out of place and in place.
for count in 1 2 5; do
    TUTTI_TRACE=$scratch/trace.%r run 0 -b 64 -e 64 -n 1 -w 0 -g 2 -c $count
    calls=$(grep -o '"name": "all_reduce"' "$scratch/trace.0" | wc -l)
    [ "$calls" -eq $((2 * (1 + count))) ] || fail "-c $count makes $calls calls"
    says out "; check $count; " "-c $count"
    says out '^# Out of bounds values : 0 OK$' "-c $count"
done
refused '-c/--check -1: legal is how many' -c -1
run 0 -b 64 -e 64 -n 1 -w 0 -g 2 -c 0
says out '^# Out of bounds values : not checked (-c 0)$' '-c 0'
says out '^# Avg bus bandwidth    : [0-9.e+-]* GB/s$' 'a unit'

# --- The last column is the one that may be long, so the others stand below their names.
run 0 all_gather_v -b 128 -e 256 -n 3 -w 1 -g 4
awk '/%limit  algorithm/ { at = index($0, "path"); named = index($0, "algorithm") }
    !/^#/ { rows++; if (substr($0, at - 1, 1) != " " || substr($0, at, 1) == " " ||
        substr($0, named - 1, 1) != " " || substr($0, named, 1) == " ") bad = 1 }
    END { exit bad || rows != 2 || !at }' "$scratch/out" || fail 'a column is shifted'

# --- One rank: no algorithm serves it, and in place nothing is done that has a rate.
run 0 all_reduce -b 1M -e 1M -n 3 -w 1 -g 1
awk '!/^#/ { rows++; if ($7 == "N/A" || $11 != "N/A" || $12 != "N/A" || $13 != 0 || $17 != "-") bad = 1 }
    END { exit bad || rows != 1 }' "$scratch/out" || fail 'rates and algorithm of one rank'
run 0 broadcast -b 1M -e 1M -n 3 -w 1 -g 1 --json
[ "$(grep -c '"algorithm": "-".*"in_place": true.*"algbw": null, "busbw": null, "wrong": 0' \
    "$scratch/out")" -eq 1 ] || fail 'the record of one rank in place'

[ "$failures" -eq 0 ] && echo "collperf's words: all good"
[ "$failures" -eq 0 ]
