#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# train.sh: one check of tutti-train on one GPU, for stage 6 of tests/gpu/run, in a build folder.
#
# usage: train.sh --list | CHECK
#
# Checks come in the order of their value: does each model have the bits of the processor, do meshes, does a
# model of 124 million parameters; then how long a step takes, beside PyTorch, where python3 has it with a
# GPU, and beside llm.c, where LLMC_GPU names its train_gpt2_fp32.cu, compiled. Each prints a line of JSON.
# With STUB_GPU in the environment models are small, and what measures others is left out.
set -u -o pipefail
here=$(cd "$(dirname "$0")" && pwd)
train=./tutti-train
[ ! -x .libs/tutti-train ] || train=.libs/tutti-train
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
stub=${STUB_GPU:+yes}
check=${1:-}

tell() # OUTCOME WHY NUMBERS
{
    printf '{"program": "train", "check": "%s", "outcome": "%s", "why": "%s", "numbers": {%s}}\n' \
        "$check" "$1" "$(tr -d '\\"\000-\037' <<<"$2")" "${3:-}"
    [ "$1" != failed ]
    exit
}

# runs FILE OPTIONS...: a run's lines; ranks of the stub have a file in common.
runs()
{
    local to=$1
    shift
    rm -f "$scratch/shared"
    STUB_GPU=${STUB_GPU:+$STUB_GPU,share=$scratch/shared} "$train" "$@" >"$to" 2>"$scratch/said" ||
        tell failed "$*: exit code $?: $(grep -m 1 tutti-train: "$scratch/said" || tail -n 1 "$scratch/said")"
}

# same CUDA-OPTIONS HOST-OPTIONS COMMON..: each loss and norm, and with --save the state in the end.
same()
{
    local device apart state=equal options
    for device in cuda host; do
        apart=$1
        [ $device = cuda ] || apart=$2
        options=("${@:3}" --device $device --hex --quiet)
        [ -n "$big" ] || options+=(--save "$scratch/$device.state")
        # shellcheck disable=SC2086 # options are words
        runs "$scratch/$device" "${options[@]}" $apart
    done
    [ -n "$big" ] || cmp -s "$scratch/cuda.state" "$scratch/host.state" || state=other
    grep -q '^step' "$scratch/host" || tell failed 'the processor made no step'
    cmp -s "$scratch/cuda" "$scratch/host" && [ $state = equal ] ||
        tell failed "state: $state; the GPU has $(tail -n 1 "$scratch/cuda"), the processor $(
            tail -n 1 "$scratch/host")"
    tell passed '' "\"steps\": $(grep -c '^step' "$scratch/host")"
}

# Milliseconds in, one a line, those of the first steps too: the median of the others.
median()
{
    tail -n +4 | sort -n | awk '{ x[NR] = $1 } END { if (NR) print x[int((NR + 1) / 2)] }'
}

speed() # TOKENS-OF-A-STEP MS
{
    [ -n "$2" ] || tell failed "no time was printed: $(tail -n 1 "$scratch/said")"
    tell passed '' "$(awk -v ms="$2" -v tokens="$1" \
        'BEGIN { printf "\"ms\": %.3f, \"tokens_per_second\": %.0f", ms, tokens / ms * 1000 }')"
}

ours() # TOKENS OPTIONS..
{
    local tokens=$1
    shift
    runs "$scratch/steps" --device cuda --json --data grammar "$@"
    speed "$tokens" "$(sed -n 's/.*"event": "step".*"ms": \([0-9.e+-]*\).*/\1/p' "$scratch/steps" | median)"
}

torch() # TOKENS NUMBERS SIZES..
{
    [ -z "$stub" ] && python3 -c 'import torch; exit(not torch.cuda.is_available())' 2>/dev/null ||
        tell skipped 'there is no PyTorch with a GPU'
    local tokens=$1 numbers=$2
    shift 2
    python3 "$here/../training/bench/bench_torch.py" "$@" "$numbers" >"$scratch/steps" 2>"$scratch/said" ||
        tell failed "PyTorch: $(tail -n 1 "$scratch/said")"
    speed "$tokens" "$(median <"$scratch/steps")"
}

llmc()
{
    [ -x "${LLMC_GPU:-}" ] || tell skipped 'LLMC_GPU names no train_gpt2_fp32.cu that was compiled'
    local program
    program=$(cd "$(dirname "$LLMC_GPU")" && pwd)/${LLMC_GPU##*/}
    python3 "$here/llmc_files.py" "$scratch" ${stub:+small} || tell failed 'its files cannot be written'
    (cd "$scratch" && "$program" -i train.bin -j val.bin -b 8 -t 1024 -v 1000 -s 1000 -m 1 -g 1) \
        >"$scratch/steps" 2>"$scratch/said" || tell failed "llm.c: $(tail -n 1 "$scratch/said")"
    speed 8192 "$(sed -n 's/^step .*(\([0-9.]*\) ms.*/\1/p' "$scratch/steps" | median)"
}

small='12 768 12 1024 50257 8' micro='6 128 8 128 256 16' big=
nano=(--model gpt:nano --data grammar) brief=(--steps 5)
deep=(--model gpt:micro --data grammar --batch 8 --steps 3)
large=(--model gpt2:124M --batch 8 --steps 12)
if [ -n "$stub" ]; then
    nano+=(--layers 1 --heads 2 --context 8 --batch 2 --vocabulary 64) brief=(--steps 3)
    deep=(--model mlp:nano --inputs 8 --batch 4 --steps 3)
fi
case $check in
--list)
    if [ -n "$stub" ]; then
        printf '%s\n' bits-gpt:nano bits-mlp:nano mesh-dp-4 mesh-threads-4 speed-micro speed-micro-torch \
            speed-124M-llmc
    else
        printf '%s\n' bits-{gpt:nano,mlp:nano,gpt:micro,llama:nano,cnn:nano,moe:nano,gpt2:124M} verify \
            mesh-{dp-4,threads-4,dp-2-tp-2-zero-3,tp-4,pp-4,cp-4} bits-offload \
            speed-{micro,micro-torch,124M,124M-torch,124M-llmc,124M-tuned,124M-free,124M-free-tf32} \
            speed-124M-{free-bfloat16,torch-tf32,torch-bfloat16,threads-4}
    fi
    ;;
bits-gpt:nano) same '' '' "${nano[@]}" "${brief[@]}" ;;
bits-gpt2:124M) big=yes && same '' '--dp 4 --threads 4' --model gpt2:124M --data grammar --batch 4 \
    --context 256 --steps 3 ;;
bits-offload) same '--offload both' '' "${deep[@]}" ;;
bits-gpt:* | bits-llama:* | bits-moe:*)
    same '' '' --model "${check#bits-}" --data grammar --batch 4 --steps 5
    ;;
bits-mlp:*) same '' '' --model "${check#bits-}" --batch 4 --steps 5 ${stub:+--inputs 8} ;;
bits-cnn:*) same '' '' --model "${check#bits-}" --batch 4 --steps 5 ;;
mesh-dp-4) same '--dp 4' '' "${deep[@]}" ;;
mesh-threads-4) same '--dp 4 --ranks-as threads' '' "${deep[@]}" ;;
mesh-dp-2-tp-2-zero-3) same '--dp 2 --tp 2 --zero 3 --overlap' '' "${deep[@]}" ;;
mesh-tp-4) same '--tp 4 --sp' '' "${deep[@]}" ;;
mesh-pp-4) same '--layers 4 --pp 4 --micro 4' '--layers 4' "${deep[@]}" ;;
mesh-cp-4) same '--cp 4 --cp-attention ring' '' "${deep[@]}" ;;
verify)
    runs "$scratch/cases" verify --quick --device cuda
    grep -q 'configurations are equal' "$scratch/cases" || tell failed "$(tail -n 1 "$scratch/cases")"
    tell passed '' "\"configurations\": $(sed -n 's/^\([0-9]*\) of .* configurations are equal.*/\1/p' \
        "$scratch/cases")"
    ;;
speed-micro)
    [ -z "$stub" ] || ours 16 "${nano[@]}" --steps 6
    ours 2048 --model gpt:micro --batch 16 --steps 30
    ;;
# shellcheck disable=SC2086 # sizes are words
speed-micro-torch) torch 2048 float32 $micro 30 ;;
speed-124M) ours 8192 "${large[@]}" ;;
speed-124M-tuned) ours 8192 "${large[@]}" --tune "$scratch/tiles" ;;
speed-124M-free) ours 8192 "${large[@]}" --order free ;;
speed-124M-free-tf32) ours 8192 "${large[@]}" --order free --tf32 ;;
speed-124M-free-bfloat16) ours 8192 "${large[@]}" --order free --precision bfloat16 ;;
speed-124M-threads-4) ours 8192 "${large[@]}" --dp 4 --ranks-as threads ;;
# shellcheck disable=SC2086
speed-124M-torch) torch 8192 float32 $small 12 ;;
# shellcheck disable=SC2086
speed-124M-torch-*) torch 8192 "${check##*-}" $small 12 ;;
speed-124M-llmc) llmc ;;
*) echo "train.sh: legal are --list and a check that it lists" >&2 && exit 2 ;;
esac
