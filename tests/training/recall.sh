#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# recall.sh: attention that stays in a rank's own part of a sequence cannot recall what stood half a sequence
# before, and what exchanges keys can. The seed is fixed, so the numbers are always these.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
gpt=$PWD/training/reference/gpt

# learn FILE OPTION...: the lines of the steps go into the file.
learn()
{
    to=$1
    shift
    "$train" --data recall --context 16 --layers 1 --batch 16 --decay 0 --rate 0.01 --hex --quiet "$@" \
        >"$scratch/$to" 2>"$scratch/said" || fail "$*: $(cat "$scratch/said")"
}

# loss FILE TEST: the loss of the last step passes the test, an expression of awk's.
loss()
{
    tail -n 1 "$scratch/$1" | awk "{ exit !(\$4 $2) }" || fail "$1: not $2: $(tail -n 1 "$scratch/$1")"
}

# Nobody can know the first half of a sequence: 7/16 log 16 = 1.21 is the least. Who learns nothing has log
# 16 = 2.77.
learn one --steps 200
learn gather --steps 200 --cp 2
learn ring --steps 200 --cp 4 --cp-attention ring
learn local --steps 200 --cp 4 --cp-attention local
loss one '< 1.8'
loss local '> 2.6'
for how in gather ring; do
    cmp -s "$scratch/one" "$scratch/$how" || fail "$how is not one device"
done

# What local attention computes is what the golden program does in parts.
"$gpt" data=recall context=16 layers=1 batch=16 decay=0 lr=0.01 steps=3 parts=4 >"$scratch/golden" ||
    fail "the golden program"
head -n 3 "$scratch/local" | cmp -s - "$scratch/golden" || fail "local is not the golden program in 4 parts"

"$train" --data recall --vocabulary 15 --steps 1 >"$scratch/out" 2>&1 && fail "a vocabulary of 15 was taken"
grep -q 'recall has 16 tokens, and the vocabulary is 15; legal are 16 and more' "$scratch/out" ||
    fail "not why a vocabulary of 15 is illegal: $(cat "$scratch/out")"

[ "$failures" -eq 0 ] || exit 1
echo "recall: ring and gather learn what local attention cannot"
