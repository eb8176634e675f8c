#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# weights.sh: weights of other programs give their loss here, and weights from here are what others read: a
# GPT-2 in numpy, which knows nothing of the trainer, writes, reads and computes. Files that lie are refused.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
find_numpy
gpt2()
{
    $numpy "$here/tests/training/weights.py" "$@"
}
gpt2 make "$scratch/made" "$scratch/tokens" F32 || fail "weights.py makes no model"

# first_loss CHECKPOINT OPTIONS...
first_loss()
{
    checkpoint=$1
    shift
    "$train" --load "$checkpoint" --data "$scratch/tokens" --batch 4 --steps 1 --layers 2 --channels 64 \
        --context 16 --vocabulary 48 "$@" 2>"$scratch/said" | awk '$1 == 0 { print $2 }'
}
near()
{
    awk -v a="$1" -v b="$2" 'BEGIN { d = a - b; exit !(a > 0 && d < 3e-6 && d > -3e-6) }'
}

# What another program made: its loss, on one rank and on a mesh.
for kind in F32 F16 BF16; do
    for heads in 1 4; do
        gpt2 make "$scratch/made" "$scratch/tokens" $kind
        "$train" import "$scratch/made" "$scratch/checkpoint" --heads $heads >"$scratch/out" 2>&1 ||
            fail "$kind: $(cat "$scratch/out")"
        there=$(gpt2 loss "$scratch/made" "$scratch/tokens" 4 $heads)
        loss=$(first_loss "$scratch/checkpoint" --heads $heads)
        near "$loss" "$there" || fail "$kind, $heads heads: a loss of $loss, and numpy's GPT-2 has $there"
        "$train" export "$scratch/checkpoint" "$scratch/back" >"$scratch/out" 2>&1 ||
            fail "$kind: $(cat "$scratch/out")"
        [ "$(gpt2 same "$scratch/made" "$scratch/back")" = "28 tensors" ] ||
            fail "$kind: other numbers came back"
    done
done
loss=$(first_loss "$scratch/checkpoint" --heads 4 -n 4 --dp 2 --tp 2 --zero 1)
near "$loss" "$there" || fail "dp 2 x tp 2: a loss of $loss, and numpy's GPT-2 has $there"

# Without --heads, those of GPT-2: one in 64 channels. With a head of its own.
gpt2 make "$scratch/made" "$scratch/tokens" F32 untied
"$train" import "$scratch/made" "$scratch/checkpoint" >"$scratch/out" 2>&1 ||
    fail "untied: $(cat "$scratch/out")"
grep -q -- '--heads 1 .*--untied$' "$scratch/out" || fail "untied: not told: $(cat "$scratch/out")"
there=$(gpt2 loss "$scratch/made" "$scratch/tokens" 4 1)
loss=$(first_loss "$scratch/checkpoint" --heads 1 --untied)
near "$loss" "$there" || fail "untied: a loss of $loss, and numpy's GPT-2 has $there"

# Back: the tensors are those that came; and of a run that has learned, numpy has the loss of its next step.
"$train" export "$scratch/checkpoint" "$scratch/back" >"$scratch/out" 2>&1 ||
    fail "back: $(cat "$scratch/out")"
[ "$(gpt2 same "$scratch/made" "$scratch/back")" = "29 tensors" ] || fail "back: other tensors"
sizes='"n_layer": 2, "n_embd": 64, "n_head": 1, "n_positions": 16, "vocab_size": 48'
grep -q "$sizes, \"tie_word_embeddings\": false" "$scratch/out" || fail "config: $(cat "$scratch/out")"
"$train" --data "$scratch/tokens" --layers 2 --channels 64 --context 16 --vocabulary 48 --steps 3 --batch 4 \
    -n 2 --tp 2 --save "$scratch/learned" >"$scratch/out" 2>&1 || fail "learned: $(tail -n 1 "$scratch/out")"
"$train" export "$scratch/learned" "$scratch/learned.st" >"$scratch/out" 2>&1 ||
    fail "$(cat "$scratch/out")"
grep -q 'gpt of step 3$' "$scratch/out" || fail "learned: $(cat "$scratch/out")"
"$train" import "$scratch/learned.st" "$scratch/again" --heads 4 >"$scratch/out" 2>&1 ||
    fail "$(cat "$scratch/out")"
loss=$(first_loss "$scratch/again") there=$(gpt2 loss "$scratch/learned.st" "$scratch/tokens" 4 4)
near "$loss" "$there" || fail "after 3 steps: a loss of $loss, and numpy's GPT-2 has $there"
if [ -z "${SANITIZE:-}" ]; then # Python cannot load a library that needs the runtime of a sanitizer
    (
        export TUTTI_LIBRARY="$PWD/.libs/libtutti.so.0" PYTHONPATH="$here/python" PYTHONDONTWRITEBYTECODE=1
        gpt2 read "$scratch/learned" "$scratch/learned.st"
    ) >"$scratch/out" 2>&1
    grep -qx 'step 3 28' "$scratch/out" || fail "tutti.checkpoint: $(tail -n 1 "$scratch/out")"
fi

# A Llama as transformers has it, with heads that share keys and values and with heads that do not.
llama='--model llama:nano --layers 2 --context 16'
for shape in "2 192" "4 128"; do
    # shellcheck disable=SC2086 # words
    gpt2 llama "$scratch/made" "$scratch/tokens" F32 $shape
    # shellcheck disable=SC2086
    "$train" import "$scratch/made" "$scratch/checkpoint" $llama --heads 4 >"$scratch/out" 2>&1 ||
        fail "llama: $(cat "$scratch/out")"
    grep -q -- "--kv-heads ${shape% *} --hidden ${shape#* }\$" "$scratch/out" ||
        fail "llama: $(cat "$scratch/out")"
    there=$(gpt2 llama_loss "$scratch/made" "$scratch/tokens" 4 4 16)
    for mesh in '' '-n 4 --dp 2 --tp 2 --sp --zero 1' '-n 2 --cp 2 --cp-attention ring'; do
        # shellcheck disable=SC2086
        loss=$(first_loss "$scratch/checkpoint" $llama --kv-heads "${shape% *}" --hidden "${shape#* }" $mesh)
        near "$loss" "$there" || fail "llama $mesh: a loss of $loss, and numpy's Llama has $there"
    done
    "$train" export "$scratch/checkpoint" "$scratch/back" >"$scratch/out" 2>&1 || fail "$(cat "$scratch/out")"
    grep -q "\"num_key_value_heads\": ${shape% *}, \"intermediate_size\": ${shape#* }, " "$scratch/out" ||
        fail "llama's config: $(cat "$scratch/out")"
    [ "$(gpt2 same "$scratch/made" "$scratch/back")" = "21 tensors" ] || fail "llama: other numbers came back"
done

# What a model goes on with, from its file, by sample's rule: the likeliest token, and by chance. The window
# slides over the text, and on a mesh it is the same.
goes_on()
{
    file=$1 mesh=$2 heads=$3
    shift 3
    gpt2 next "$file" "$heads" 16 '#!* %' 30 "$@" >"$scratch/there"
    # shellcheck disable=SC2086 # words
    "$train" sample --quiet --load "$file" --heads "$heads" $mesh --prompt '#!* %' --tokens 30 \
        --temperature "${1:-0}" ${2:+--top-k "$2" --seed "$3"} >"$scratch/here" 2>"$scratch/said" ||
        fail "sample: $(cat "$scratch/said")"
    cmp -s "$scratch/there" "$scratch/here" || fail "$file, $mesh, $*: another text than numpy's"
}
gpt2 make "$scratch/made" "$scratch/tokens" F32
gpt2 llama "$scratch/made.llama" "$scratch/tokens" F32
goes_on "$scratch/made" '' 4
goes_on "$scratch/made" '-n 2 --tp 2' 2 2.5 8 5
goes_on "$scratch/made.llama" '--context 16' 4 3 40 1
goes_on "$scratch/made.llama" '--context 16 -n 2 --pp 2' 4

# The other models keep names and layouts, and come back as they were.
for model in mlp:nano cnn:nano moe:nano; do
    "$train" --model $model --steps 1 --save "$scratch/old" >/dev/null 2>"$scratch/said" ||
        fail "$model: no run"
    "$train" export "$scratch/old" "$scratch/st" >"$scratch/out" 2>&1 &&
        "$train" import "$scratch/st" "$scratch/new" --model $model >"$scratch/out" 2>&1 &&
        "$train" export "$scratch/new" "$scratch/st2" >"$scratch/out" 2>&1 ||
        fail "$model: $(cat "$scratch/out")"
    cmp -s "$scratch/st" "$scratch/st2" || fail "$model: another file came back"
done

# Files that lie, and what is not asked well: a word, and no file is begun.
refused()
{
    words=$1
    shift
    fails_with "$words" '^# ' "$train" "$@"
    [ ! -e "$scratch/none" ] && [ ! -e "$scratch/none.part" ] || fail "$*: it left a file"
}
lies()
{
    words=$1
    shift
    gpt2 head "$scratch/lie" "$@" && refused "$words" import "$scratch/lie" "$scratch/none"
}
one='"dtype": "F32", "shape": [4, 4]'
lies "has no transformer.wte.weight" "{}"
odd='{"__metadata__": {"a": [{"b\u0041": "\\\"}"}, -1.5e3, null, true]}, "\u0078\/": '
lies "has no transformer.wte.weight" "$odd{$one, \"more\": {}, \"data_offsets\": [0, 64]}}"
lies "has x/ twice" "$odd{$one, \"data_offsets\": [0, 64]}, \"x/\": {$one, \"data_offsets\": [0, 64]}}"
lies "lies from byte 0 to 64 of 63" "{\"x\": {$one, \"data_offsets\": [0, 64]}}" 1
lies "lies from byte 64 to 0" "{\"x\": {$one, \"data_offsets\": [64, 0]}}"
lies "16 elements of F32 in 60 bytes" "{\"x\": {$one, \"data_offsets\": [4, 64]}}"
lies "has x twice" "{\"x\": {$one, \"data_offsets\": [0, 64]}, \"x\": {$one, \"data_offsets\": [0, 64]}}"
lies "more elements than the file" \
    '{"x": {"dtype": "F32", "shape": [4294967296, 4294967296], "data_offsets": [0, 64]}}'
lies "cannot be read behind its beginning" '{"x": {"dtype": "F32", "shape": [4, 4]}}'
lies "cannot be read behind its beginning" '{"x": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 64]}}'
lies "cannot be read behind its beginning" '{"x": [[[[[[[[[[[[[[[[[[[['
lies "no object of JSON" '[]'
lies "does not end where it should" "{\"x\": {$one, \"data_offsets\": [0, 64]}} {}"
lies "or is cut" '{"x": 1}' 68
printf 'abc' >"$scratch/short"
refused "has 3 bytes" import "$scratch/short" "$scratch/none"
refused "cannot be read: No such file" import "$scratch/missing" "$scratch/none"
refused "is not a file" import "$scratch" "$scratch/none"
gpt2 make "$scratch/made" "$scratch/tokens" F32
refused "and of the model that is asked for it is [40, 64]" import "$scratch/made" "$scratch/none" \
    --vocabulary 40
refused "transformer.h.2.ln_1.weight" import "$scratch/made" "$scratch/none" --layers 3
refused "64 channels" import "$scratch/made" "$scratch/none" --heads 5
refused "no checkpoint of tutti-train" export "$scratch/made" "$scratch/none"
head -c 9000 "$scratch/learned" >"$scratch/cut"
refused "is cut" export "$scratch/cut" "$scratch/none"
cp "$scratch/learned" "$scratch/hurt"
printf 'x' | dd of="$scratch/hurt" bs=1 seek=8200 conv=notrunc 2>"$scratch/dd"
refused "checksum of values of wte is wrong" export "$scratch/hurt" "$scratch/none"
refused "two files are needed" export "$scratch/learned"
refused "one word too many" export "$scratch/learned" "$scratch/none" more
refused "cannot be written" export "$scratch/learned" "$scratch/nowhere/none"
# A pipe or a device stays, and so does the file that is read.
mkfifo "$scratch/pipe"
refused "pipe is not a file" export "$scratch/learned" "$scratch/pipe"
refused "pipe is not a file" import "$scratch/made" "$scratch/pipe"
[ -p "$scratch/pipe" ] || fail "a file took the place of a pipe"
cp "$scratch/learned" "$scratch/kept"
ln "$scratch/learned" "$scratch/link"
refused "are one file" export "$scratch/learned" "$scratch/learned"
refused "are one file" export "$scratch/learned" "$scratch/link"
refused "are one file" import "$scratch/made" "$scratch/made"
cmp -s "$scratch/learned" "$scratch/kept" || fail "a file took the place of the one that was read"

# The gradients of the last step are one file, on any mesh; oracle.sh has what stands in it.
gradients="--data grammar --layers 2 --batch 4 --steps 2 --quiet --save-gradients"
"$train" $gradients "$scratch/one" >"$scratch/out" 2>&1 || fail "gradients: $(cat "$scratch/out")"
for mesh in '--dp 2 --zero 3' '--dp 2 --zero 2 --micro 2' '--tp 2 --sp' '--pp 2 --micro 2 --schedule zb-h1' \
    '--cp 2' '--offload optimizer --recompute full'; do
    # shellcheck disable=SC2086 # words
    "$train" $gradients "$scratch/two" $mesh >"$scratch/out" 2>&1 || fail "$mesh: $(cat "$scratch/out")"
    cmp -s "$scratch/one" "$scratch/two" || fail "$mesh: other gradients"
done
# The first step, too, which is audited if nobody asks for its gradients; and clipping comes after them.
for clip in 1 1e-3; do
    "$train" $gradients "$scratch/$clip" --steps 1 --clip $clip >"$scratch/out" 2>&1 ||
        fail "clip $clip: $(cat "$scratch/out")"
done
cmp -s "$scratch/1" "$scratch/1e-3" || fail "gradients were clipped"
refused "no step has any; legal is --steps 1 and more" --steps 0 --save-gradients "$scratch/none"
refused "legal is one without the other" --servers 1 -n 2 --save-gradients "$scratch/none"
refused "legal is one without the other" --pp 2 --micro 2 --async two --untied --clip 0 --save-gradients \
    "$scratch/none"
refused "with --schedule zb-h2: its ranks update before all" --pp 2 --micro 4 --schedule zb-h2 --clip 0 \
    --save-gradients "$scratch/none"
refused "nowhere/none" --steps 1 --save-gradients "$scratch/nowhere/none"

[ "$failures" -eq 0 ] && echo "weights: a GPT-2 from elsewhere has its loss here, and what is written is read"
exit "$failures"
