#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# same_bits.sh: a run has the golden program's bits with every set of kernels that this machine has, and
# whatever compiler and optimisation made it.
#
# usage: same_bits.sh [TUTTI_TRAIN]...     in a build directory; without programs, that of this build
#
# The golden program is this build's, and golden.sh holds its bits against those of all builds. .ci/run runs
# this in the other compiler's build, .ci/nightly with the programs of other optimisations.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
golden=$PWD/training/reference
runs=0
[ $# -gt 0 ] || set -- "$PWD/tutti-train"

# Each line: what the golden program gets | what tutti-train gets. All paradigms are among them.
lines='
gpt|
gpt sgd=1 lr=0.1|--optimizer sgd --rate 0.1 --dp 2 --micro 2 --bucket 64K --overlap
gpt|--tp 4
gpt|--dp 2 --tp 2 --sp --zero 1
gpt|--dp 2 --zero 2 --micro 2
gpt|--dp 4 --zero 3 --micro 2 --zero3-prefetch 1
gpt|--pp 4 --micro 4 --schedule gpipe
gpt|--pp 2 --chunks 2 --micro 4 --schedule interleaved
gpt|--dp 2 --tp 2 --pp 2 --micro 4 --sp --zero 3 --schedule zb-h1
gpt vocab=257 tied=0|--vocabulary 257 --untied --tp 2 --pp 2 --micro 2
mlp|--model mlp:nano --dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 2
cnn|--model cnn:nano --dp 2 --tp 2 --pp 2 --micro 2 --zero 2
gpt bf16=1|--precision bfloat16 --dp 2 --tp 2 --pp 2 --micro 2 --sp --zero 3
gpt bf16=1 stochastic=1|--precision bfloat16 --rounding stochastic --dp 2 --micro 2
moe bf16=1|--model moe:nano --precision bfloat16 --dp 2 --tp 2
'

# compare PROGRAM KERNELS OPTIONS...
compare()
{
    program=$1 kernels=$2
    shift 2
    "$program" --hex --data grammar --steps 2 --kernels "$kernels" "$@" >"$scratch/out" 2>"$scratch/said" ||
        fail "$program, $kernels, $*: $(cat "$scratch/said")"
    runs=$((runs + 1))
    grep '^step' "$scratch/out" | cut -d ' ' -f 1-8 | cmp -s - "$bits" ||
        fail "$program, $kernels, $*: $(grep '^step' "$scratch/out") is not $(cat "$bits")"
}

for program in "$@"; do
    sets=
    for kernels in generic avx2 avx512; do
        if "$program" --kernels $kernels --data grammar --steps 0 >/dev/null 2>"$scratch/said"; then
            sets="$sets $kernels"
        else
            grep -q 'where the machine has them' "$scratch/said" || fail "$program: $(cat "$scratch/said")"
        fi
    done
    echo "$lines" | sed '/^$/d' >"$scratch/lines"
    number=0
    while IFS='|' read -r what options; do
        model=${what%% *} bits=$scratch/$(echo "$what" | tr ' ' _)
        # shellcheck disable=SC2086 # words
        [ -f "$bits" ] || "$golden/$model" steps=2 ${what#"$model"} >"$bits"
        number=$((number + 1))
        for kernels in $sets; do
            [ "$kernels" != generic ] || [ $((number % 4)) -eq 1 ] || continue # it is slow
            # shellcheck disable=SC2086
            compare "$program" "$kernels" $options
        done
    done <"$scratch/lines"
done
[ "$failures" -eq 0 ] && echo "same_bits: $runs runs with$sets have the golden program's bits"
exit "$failures"
