#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# sample.sh: a trained model goes on with a text: with the same one on any mesh, byte for byte; with that of
# its vocabulary; and what is not asked well is refused in words. That the text is the right one is held
# against numpy in weights.sh.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
here=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
[ -d "$here/tests/training" ] || here=$(dirname "$(dirname "$here")")
bpe=$here/tests/training/bpe

trained()
{
    name=$1
    shift
    "$train" --quiet --save "$scratch/$name" "$@" >"$scratch/out" 2>"$scratch/said" ||
        fail "train $name: $(cat "$scratch/said")"
}
# sampled NAME OPTIONS...: to $scratch/text
sampled()
{
    name=$1
    shift
    "$train" sample --load "$scratch/$name" "$@" >"$scratch/text" 2>"$scratch/said" ||
        fail "sample $name $*: $(cat "$scratch/said")"
}
trained gpt --steps 30 -n 2 --dp 2
trained llama --steps 2 --model llama:nano
trained untied --steps 2 --untied --optimizer sgd --seed 5
trained moe --steps 2 --model moe:nano --experts 4 --top-k 3 --capacity-factor 1 --untied

# On any mesh the same text, which begins with the prompt and goes on beyond the window of 64.
prompt='The words that it goes on with, on this mesh and on that: '
same_on()
{
    name=$1
    shift
    sampled $name --prompt "$prompt" --tokens 12 --temperature 1.5
    mv "$scratch/text" "$scratch/one"
    [ "$(head -c ${#prompt} "$scratch/one")" = "$prompt" ] || fail "$name: another beginning"
    grep -q "of 4 layers, 64 channels, context 64; 1 rank" "$scratch/said" ||
        fail "$name: $(cat "$scratch/said")"
    grep -q '^# 12 tokens in ' "$scratch/said" || fail "$name: $(cat "$scratch/said")"
    for mesh; do
        # shellcheck disable=SC2086 # words
        sampled $name --prompt "$prompt" --tokens 12 --temperature 1.5 --quiet $mesh
        [ -s "$scratch/said" ] && fail "$name $mesh: not quiet: $(cat "$scratch/said")"
        cmp -s "$scratch/one" "$scratch/text" || fail "$name $mesh: another text"
    done
}
same_on gpt '--tp 2 --sp' '--cp 2' '--cp 2 --cp-attention ring --cp-map zigzag' '--cp 2 --cp-map striped' \
    '--pp 2 --stage-layers 3,1' '--tp 2 --pp 2' '--kernels generic --threads 2'
same_on llama '--tp 2' '--cp 2 --cp-attention ulysses'
same_on untied '--pp 2'
same_on moe '--tp 2 --sp' '--cp 2 --cp-map zigzag' '--pp 2'
sampled gpt --prompt "$prompt" --tokens 12 --temperature 1.5
mv "$scratch/text" "$scratch/one"
sampled gpt --prompt "$prompt" --tokens 12 --temperature 1.5 --seed 2
cmp -s "$scratch/one" "$scratch/text" && fail "--seed 2: the same text"
sampled gpt --prompt T --tokens 40 --top-k 1
mv "$scratch/text" "$scratch/one"
sampled gpt --prompt T --tokens 40 --temperature 0 --seed 9
cmp -s "$scratch/one" "$scratch/text" || fail "one of the likeliest is not the likeliest"

# A long prompt is told; a reader that has enough ends it.
sampled gpt --prompt "$prompt$prompt" --tokens 1
grep -q 'has 116 tokens, of which the model sees the last 64' "$scratch/said" || fail "$(cat "$scratch/said")"
"$train" sample --load "$scratch/gpt" --prompt T --tokens 100000 2>"$scratch/said" |
    head -c 20 >"$scratch/text"
[ "$(wc -c <"$scratch/text")" -eq 20 ] || fail "a reader that ends: $(cat "$scratch/said")"

# A vocabulary of byte pairs: made into tokens, learned, and written as text again.
echo 'the the the words, the words of the trainer' >"$scratch/words"
"$train" data --tokenizer "$bpe" -o "$scratch/words.bin" "$scratch/words" >"$scratch/out" 2>&1 ||
    fail "data: $(cat "$scratch/out")"
grep -q '20 tokens of 457 .* of 44 bytes' "$scratch/out" || fail "data: $(cat "$scratch/out")"
grep -q -- '--vocabulary 457' "$scratch/out" || fail "data: $(cat "$scratch/out")"
trained pairs --steps 40 --data "$scratch/words.bin" --vocabulary 457 --context 16 --rate 0.01
trained experts --steps 80 --data "$scratch/words.bin" --vocabulary 457 --context 16 --rate 0.01 \
    --model moe:nano
for name in experts pairs; do
    sampled $name --tokenizer "$bpe" --prompt 'the the' --tokens 8 --temperature 0
    grep -q '^the the the words' "$scratch/text" || fail "$name: $(cat "$scratch/text")"
done
mv "$scratch/text" "$scratch/one"
sampled pairs --tokenizer "$bpe" --prompt 'the the' --tokens 8 --temperature 0 --tp 2
cmp -s "$scratch/one" "$scratch/text" || fail "pairs on a mesh: another text"

# What cannot be.
trained mlp --steps 1 --model mlp:nano
trained few --steps 1 --data recall --vocabulary 64
refused()
{
    words=$1
    shift
    fails_with "$words" . "$train" sample "$@"
}
refused 'there is no model; legal is --load FILE' --prompt a
refused 'missing cannot be read: No such file' --load "$scratch/missing" --prompt a
refused 'words is no file of safetensors' --load "$scratch/words" --prompt a
refused 'there is no prompt; legal is --prompt TEXT' --load "$scratch/gpt"
refused 'there is no prompt; legal is --prompt TEXT' --load "$scratch/gpt" --prompt ''
refused 'is of a mlp, which goes on with no text' --load "$scratch/mlp" --prompt a
refused 'is of model moe, and --model is llama:nano' --load "$scratch/moe" --prompt a --model llama:nano
refused 'is of model gpt, and --model is llama:nano' --load "$scratch/gpt" --prompt a --model llama:nano
refused 'run with layers 4, and this one has 2; legal is --layers 4' --load "$scratch/gpt" --prompt a \
    --layers 2
refused 'token 1 of the prompt is 97; the model has 0 to 63' --load "$scratch/few" --prompt '!a'
refused '457 tokens, and a byte is one of 256; legal is --tokenizer' --load "$scratch/pairs" --prompt a
refused 'has not learned this vocabulary' --load "$scratch/gpt" --tokenizer "$bpe" --prompt 'the words'
refused 'has neither vocab.json nor encoder.json' --load "$scratch/gpt" --tokenizer "$scratch" --prompt a
refused 'data parallelism cuts a batch, and a text is one sequence; legal is --dp 1' --load "$scratch/gpt" \
    --prompt a -n 2
refused 'sees a part of the text' --load "$scratch/gpt" --prompt a --cp 2 --cp-attention local
refused '--zero is no option of sample' --load "$scratch/gpt" --prompt a --zero 1
refused '--tokens 0: legal are 1 to' --load "$scratch/gpt" --prompt a --tokens 0
refused '--temperature -1: legal is a number that is not negative' --load "$scratch/gpt" --prompt a \
    --temperature -1
refused 'legal: --tp' --load "$scratch/gpt" --prompt a --tp 3
refused 'bytes, and --memory 64K is' --load "$scratch/gpt" --prompt a --memory 64K
fails_with '--prompt is an option of sample, and this is another command' . "$train" --prompt a
fails_with 'has neither vocab.json nor encoder.json' . "$train" data --tokenizer "$scratch" "$scratch/words"
head -c 9000 "$scratch/gpt" >"$scratch/cut"
refused 'cut is cut' --load "$scratch/cut" --prompt a
cp "$scratch/gpt" "$scratch/hurt"
printf 'x' | dd of="$scratch/hurt" bs=1 seek=9000 conv=notrunc 2>"$scratch/dd"
fails_with 'checksum of values of wte is wrong' . "$train" sample --load "$scratch/hurt" --prompt a

[ "$failures" -eq 0 ] && echo "sample: a text goes on alike on every mesh"
exit "$failures"
