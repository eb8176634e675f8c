#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# oracle.sh: who has read docs/training-models.md alone computes what the trainer computes: oracle.py, in
# numpy, has the initial values, the loss, the gradient and the next parameters of each model.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
find_numpy

# same "KEY=VALUE.." OPTIONS..: two steps of the trainer with these options have the oracle's numbers; keys
# tell it of options that no checkpoint has.
cases=0
same()
{
    told=$1
    shift
    cases=$((cases + 1))
    for step in 0 1 2; do
        written=
        [ $step -eq 0 ] || written="--save-gradients $scratch/$step.gradients"
        # shellcheck disable=SC2086 # words
        "$train" --data grammar --layers 2 --batch 3 --hex "$@" --steps $step --save "$scratch/$step" \
            $written >"$scratch/printed" 2>"$scratch/said" || fail "$*: $(tail -n 1 "$scratch/said")"
    done
    # shellcheck disable=SC2086 # words
    $numpy "$here/tests/training/oracle.py" "$scratch/printed" "$scratch/0" "$scratch/1" "$scratch/2" $told \
        >"$scratch/out" 2>&1 || fail "$*: $(tail -n 12 "$scratch/out")"
}
same '' --model gpt:nano
same 'dropout=0.1' --model gpt:nano --dropout 0.1 --seed 3
same '' --model llama:nano --seed 2 --decay 0.2
same 'dropout=0.3' --model llama:nano --dropout 0.3 --context 136
same '' --model mlp:nano --lr 0.01
same '' --model cnn:nano --layers 1 --vocabulary 16 --batch 48 # all digits
same '' --model cnn:nano --layers 3 --clip 0.5
same 'groups=8' --model cnn:nano --norm group
same 'top=1 capacity=1 balance=0.1' --model moe:nano --top-k 1 --capacity-factor 1 --aux-loss 0.1
same 'top=2 capacity=0.7' --model moe:nano --capacity-factor 0.7 --optimizer sgd --lr 0.5 --untied --seed 3
same 'top=2 capacity=1 dropout=0.2' --model moe:nano --capacity-factor 1 --dropout 0.2
same 'top=2 balance=0.5' --model moe:nano --experts 5 --aux-loss 0.5

[ "$failures" -eq 0 ] && echo "oracle: $cases runs have the numbers of docs/training-models.md"
exit "$failures"
