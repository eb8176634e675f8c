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

# --- Flags of nccl-tests and of OSU's benchmarks that collperf has not: what to write instead is told.
while read -r flag pattern; do
    refused "$flag: unknown flag; instead of nccl-tests': .*$pattern" "$flag" 1
done <<TABLE
-a slowest rank
-C on the clock
-D --algo NAME
-F --csv --output FILE
-I median and p99
-J --json --output FILE
-K -w N
-M rest_kib
-N -n N
-R --memory registered
-S date
-T --timeout MS
-V CTAs
-m -G N
-p at once
-u aligned
-x CTAs
-y -z 0
--agg_iters -G N
--agg_iters=4 -G N
--average slowest rank
--cta_policy CTAs
--device_cta_count CTAs
--device_implementation --algo NAME
--local_register --memory registered
--output_file --json --output FILE
--parallel_init at once
--per_iter_skip -w N
--per_iter_timing median and p99
--report_cputime on the clock
--report_timestamps date
--run_cycles -n N
--stream_null -z 0
--unalign aligned
TABLE
while read -r flag pattern; do
    refused "$flag: unknown flag; .*instead of OSU's: .*$pattern" "$flag" 1
done <<TABLE
-m -b MIN -e MAX
-x -w N
-M -e SIZE
-T -d TYPE
-D -d TYPE
-k -r RANK
-l in place
-u -w N
--message-size -b MIN -e MAX
--iterations -n N
--validation -c N
--root-rank -r RANK
--in-place in place
--full --json
--tail-lat p99
--mem-limit -e SIZE
--type -d TYPE
--accelerator --memory device
TABLE
refused '--minbytess: unknown flag; the nearest is --minbytes ' --minbytess 8
refused '--bogus: unknown flag (collperf --help' --bogus
refused '-q: unknown flag (collperf --help' -q
refused '-z/--blocking 2: .*legal are 0 .* and 1 .*nccl-tests. 2' -z 2

# --- Those whose meaning is the same are taken, by nccl-tests' name as well.
run 0 --nthreads 2 --ngpus 2 --cudagraph 2 --warmup 1 -b 64 -e 64 -n 1
says out '(processes 2, threads in each 2)' '--nthreads and --ngpus'
says out '; program of 2 calls' '--cudagraph'

# --- Names: those of nccl-tests', OSU's and NCCL's programs and functions, of MPI and of PyTorch.
while read -r name words; do
    for word in $words; do
        run 0 "$word" -b 64 -e 64 -n 1 -w 0 -c 0 -g 2 --json
        says out "^{\"collective\": \"$name\"," "$word"
    done
done <<TABLE
all_reduce all_reduce_perf all_reduce_perf_mpi allreduce all-reduce AllReduce ALL_REDUCE ncclAllReduce
all_reduce MPI_Allreduce osu_allreduce
reduce_scatter reduce_scatter_perf reducescatter ReduceScatter
reduce_scatter osu_reduce_scatter_block MPI_Reduce_scatter_block reduce_scatter_tensor
all_gather all_gather_perf allgather osu_allgather all_gather_into_tensor
broadcast broadcast_perf bcast ncclBcast MPI_Bcast osu_bcast
reduce reduce_perf ncclReduce osu_reduce
barrier osu_barrier MPI_Barrier
all_gather_v allgatherv osu_allgatherv MPI_Allgatherv
all_to_all alltoall_perf alltoall AlltoAll osu_alltoall all_to_all_single
gather gather_perf osu_gather
scatter scatter_perf osu_scatter
reduce_scatter_v reduce_scatterv
all_to_all_v alltoallv_perf alltoallv MPI_Alltoallv
gather_v gatherv osu_gatherv
scatter_v scatterv osu_scatterv
sendrecv sendrecv_perf send_recv MPI_Sendrecv
TABLE
refused 'all_reduc: not a collective; the nearest is all_reduce; legal are all_reduce ' all_reduc
refused 'osu_iallreduce: not a collective; the nearest is all_reduce; ' osu_iallreduce
refused 'bogus: not a collective; legal are ' bogus
for word in perf osu mpi _ ''; do
    refused "$word: not a collective; " "$word"
done

# --- OSU's -i is a number of calls, which is no step from size to size.
refused "-i/--stepbytes 1000: .*OSU's -i .* -n N" osu_allreduce -i 1000
run 0 all_reduce -i 8 -b 8 -e 16 -n 1 -w 0 -c 0 -g 2

# --- Types and operations: names of NCCL, MPI, numpy and PyTorch, and the short ones.
while read -r name words; do
    for word in $words; do
        run 0 -d "$word" -b 64 -e 64 -n 1 -w 0 -c 0 -g 2 --json
        says out "\"type\": \"$name\"," "-d $word"
    done
done <<TABLE
int8 int8 i8 char ncclInt8 ncclChar MPI_CHAR MPI_INT8_T INT8
uint8 uint8 u8 ubyte byte ncclUint8 MPI_BYTE
int32 int32 i32 int intc ncclInt32 ncclInt MPI_INT
uint32 uint32 u32 ncclUint32 MPI_UNSIGNED
int64 int64 i64 long longlong ncclInt64 MPI_LONG
uint64 uint64 u64 ulong ulonglong ncclUint64 MPI_UNSIGNED_LONG
half half fp16 f16 float16 ncclFloat16 ncclHalf FP16
bfloat16 bfloat16 bf16 ncclBfloat16 BF16
float float fp32 f32 float32 single ncclFloat32 ncclFloat MPI_FLOAT TUTTI_FLOAT32
double double fp64 f64 float64 ncclFloat64 MPI_DOUBLE
f8e4m3 f8e4m3 fp8_e4m3 e4m3 float8_e4m3fn ncclFloat8e4m3
f8e5m2 f8e5m2 fp8_e5m2 e5m2 float8_e5m2 ncclFloat8e5m2
TABLE
while read -r name words; do
    for word in $words; do
        run 0 -d int32 -o "$word" -b 64 -e 64 -n 1 -w 0 -c 0 -g 2 --json
        says out "\"op\": \"$name\"," "-o $word"
    done
done <<TABLE
sum ncclSum MPI_SUM SUM TUTTI_SUM
prod ncclProd product
max MAX ncclMax
avg ncclAvg mean average
band MPI_BAND TUTTI_BIT_AND
mulsum premul_sum PREMUL_SUM
TABLE
refused '-d/--datatype fp8: legal are int8 ' -d fp8
refused '-d/--datatype fp: legal are int8 ' -d fp
refused '-d/--datatype nccl: legal are int8 ' -d nccl
refused '-o/--op summ: legal are sum ' -o summ

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
