#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_train.sh: a training step of one rank on one thread, beside llm.c's train_gpt2.c and PyTorch.
#
# usage: bench_train.sh TUTTI_TRAIN     LLMC=FILE names train_gpt2.c; without it that column is left out
#
# Programs run by turns. What is compared is CPU time of a step, from runs with few and with more steps; the
# median of five rounds. PyTorch runs where PYTHON (python3) has it, with one thread.
set -u
train=$1
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
few=2
rounds=5

# cpu COMMAND...: seconds of CPU time, user and system.
cpu()
{
    bash -c 'TIMEFORMAT="%U %S"; time "$@" >/dev/null 2>&1' bash "$@" 2>&1 | awk '{ print $1 + $2 }'
}

# a_step MORE COMMAND...: milliseconds of a step; the word STEPS in the command is replaced by their number.
a_step()
{
    more=$1
    shift
    for steps in $few "$more"; do
        words=
        for word in "$@"; do
            [ "$word" = STEPS ] && word=$steps
            words="$words $word"
        done
        # shellcheck disable=SC2086
        cpu $words
    done | awk -v n=$((more - few)) 'NR == 1 { a = $1 } NR == 2 { print ($1 - a) / n * 1000 }'
}

median()
{
    sort -n | awk '{ x[NR] = $1 } END { print x[int((NR + 1) / 2)] }'
}

llmc=
if [ -n "${LLMC:-}" ]; then
    llmc=$scratch/llmc
    ${CC:-cc} -Ofast -march=native -w -DLLMC="\"$LLMC\"" -I"$(dirname "$LLMC")" -o "$llmc" \
        "$here/bench_llmc.c" -lm || exit 1
fi
torch=
"${PYTHON:-python3}" -c 'import torch' 2>/dev/null && torch=$here/bench_torch.py

printf '%-8s %12s %12s %8s %12s %8s\n' model 'ms a step' 'llm.c ms' ratio 'PyTorch ms' ratio
while read -r name layers channels heads context batch more; do
    : >"$scratch/ours" >"$scratch/llmc_ms" >"$scratch/torch_ms"
    for _ in $(seq $rounds); do
        sizes="$layers $channels $heads $context 256 $batch"
        a_step "$more" "$train" --model "$name" --batch "$batch" --data grammar --steps STEPS \
            >>"$scratch/ours"
        # shellcheck disable=SC2086
        [ -z "$llmc" ] || a_step "$more" "$llmc" $sizes STEPS >>"$scratch/llmc_ms"
        # shellcheck disable=SC2086
        [ -z "$torch" ] || a_step "$more" env OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 \
            "${PYTHON:-python3}" "$torch" $sizes STEPS >>"$scratch/torch_ms"
    done
    ours=$(median <"$scratch/ours")
    printf '%-8s %12.1f' "${name#gpt:}" "$ours"
    for other in llmc_ms torch_ms; do
        if [ -s "$scratch/$other" ]; then
            median <"$scratch/$other" | awk -v ours="$ours" '{ printf " %12.1f %8.2f", $1, $1 / ours }'
        else
            printf ' %12s %8s' - -
        fi
    done
    printf '\n'
done <<END
gpt:nano 4 64 4 64 8 42
gpt:micro 6 128 8 128 16 8
END
