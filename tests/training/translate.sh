#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# translate.sh: a run in the words of other trainers comes back as the same run, each key is one that was
# found in their sources (dialects.txt), and what cannot be said is named.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
here=$(cd "$(dirname "$0")" && pwd)

# to TRAINER OPTIONS...: its text in $scratch/there, and what cannot be said in $scratch/left
to()
{
    trainer=$1
    "$train" translate "$@" >"$scratch/there" 2>"$scratch/left" || fail "$*: $(cat "$scratch/left")"
    grep '^#' "$scratch/there" >>"$scratch/left"
}

# back [RANKS]: of what `to` wrote, the options in $scratch/here
back()
{
    case $trainer in
    megatron | torchtitan)
        # shellcheck disable=SC2046
        "$train" translate $trainer ${1:+-n "$1"} -- $(grep -v '^#' "$scratch/there" | tr -d '\\')
        ;;
    *) "$train" translate $trainer -n "$1" --from "$scratch/there" ;;
    esac >"$scratch/here" 2>&1 || fail "$trainer, back: $(cat "$scratch/here")"
}

# is WANTED WHAT: the first line of $scratch/here
is()
{
    [ "$(head -n 1 "$scratch/here")" = "$1" ] || fail "$trainer: $2: $(cat "$scratch/here"), not $1"
}

# Each way there and back. The sizes of a model are no words of deepspeed's and torchtitan's.
model="--layers 8 --channels 128 --heads 8 --context 128 --vocabulary 512"
mesh="--dp 2 --tp 2 --pp 2"
learn="--steps 7 --rate 0.0003 --decay 0.01 --clip 0.5 --seed 3"
full="tutti-train --model gpt:nano $model"
# shellcheck disable=SC2086
{
    to megatron $model --untied $mesh --sp --schedule interleaved --chunks 2 --micro 4 --batch 16 --zero 1 \
        --recompute full --overlap --precision bfloat16 $learn
    back 8
    is "$full --untied --dp 2 --tp 2 --sp --pp 2 --schedule interleaved --chunks 2 --zero 1 --recompute full\
 --overlap --precision bfloat16 --batch 16 --micro 4 $learn" "all of it"
    to megatron $model --dp 2 --cp 4 --cp-attention ring --cp-map zigzag --zero 3 --recompute selective $learn
    back 8
    is "$full --dp 2 --cp 4 --cp-attention ring --cp-map zigzag --zero 3 --recompute selective --batch 8\
 $learn" "cp, ZeRO 3"
    to megatron $model --dp 4 --zero 2 --offload optimizer $learn
    grep -q -- '--data-parallel-sharding-strategy optim_grads ' "$scratch/there" ||
        fail "ZeRO 2: not optim_grads"
    back 4
    is "$full --dp 4 --zero 2 --offload optimizer --batch 8 $learn" "ZeRO 2"
    to megatron --model moe:nano --experts 4 --top-k 1 --capacity-factor 1.5 --aux-loss 0.01 --dp 4 --ep 2
    back 4
    is "tutti-train --model moe:nano --layers 4 --channels 64 --heads 4 --context 64 --vocabulary 256\
 --experts 4 --top-k 1 --capacity-factor 1.5 --aux-loss 0.01 --dp 4 --ep 2 --batch 8 --steps 50 --rate 0.001\
 --decay 0.1 --clip 1 --seed 1" "experts"
    llama="--layers 8 --channels 128 --heads 8 --kv-heads 2 --hidden 384 --context 128 --vocabulary 512"
    falls="--rate-schedule cosine --warmup 2 --rate-steps 6 --rate-min 1e-05"
    to nanotron --model llama:nano $llama $mesh --sp --schedule gpipe --micro 4 --batch 16 --zero 1 \
        --recompute full --precision bfloat16 $learn
    back 8
    is "tutti-train --model llama:nano $llama --dp 2 --tp 2 --sp --pp 2 --schedule gpipe --zero 1\
 --recompute full --precision bfloat16 --batch 16 --micro 4 $learn" "all of it"
    to picotron --model llama:nano --layers 8 --context 128 $mesh --micro 4 --batch 16 \
        --precision bfloat16 $learn
    back 8
    is "tutti-train --model llama:nano --layers 8 --heads 4 --kv-heads 2 --context 128 --dp 2 --tp 2 --pp 2\
 --precision bfloat16 --batch 16 --micro 4 --steps 7 --rate 0.0003 --seed 3" "all of it"
    to deepspeed $model --dp 2 --tp 2 --zero 2 --overlap --offload optimizer --micro 2 --optimizer sgd $learn
    back 4
    is "tutti-train --model gpt:nano --dp 2 --tp 2 --zero 2 --offload optimizer --overlap --batch 8 --micro 2\
 --optimizer sgd --rate 0.0003 --clip 0.5" "all of it"
    to megatron --model llama:nano $llama $mesh --micro 2 $learn $falls
    back 8
    is "tutti-train --model llama:nano $llama $mesh --batch 8 --micro 2 --steps 7 --rate 0.0003 $falls\
 --decay 0.01 --clip 0.5 --seed 3" "a Llama"
    [ ! -s "$scratch/left" ] || grep -v torchrun "$scratch/left" && fail "a Llama: $(cat "$scratch/left")"
    to nanotron --model llama:nano $llama $mesh --micro 2 $learn $falls
    back 8
    is "tutti-train --model llama:nano $llama $mesh --batch 8 --micro 2 --steps 7 --rate 0.0003 $falls\
 --decay 0.01 --clip 0.5 --seed 3" "a Llama"
    grep '^#' "$scratch/left" && fail "nanotron, a Llama: $(cat "$scratch/left")"
    for zero in 0 2 3; do
        to torchtitan $model --tp 2 --pp 2 --dp 2 --zero $zero --schedule gpipe --micro 2 --batch 8 $learn \
            >"$scratch/out"
        [ $zero -eq 0 ] && said= || said=" --zero $zero"
        back ""
        is "tutti-train --model gpt:nano --context 128 --dp 2 --tp 2 --pp 2 --schedule gpipe$said\
 --batch 8 --micro 2 --steps 7 --clip 0.5 --seed 3" "ZeRO $zero"
    done
}

# Each key that was written is one of theirs; of the nested ones, by the last name.
for trainer in megatron torchtitan; do
    to $trainer --model moe:nano --untied --dp 2 --tp 2 --sp --pp 2 --ep 2 --zero 1 --recompute full \
        --micro 2 --capacity-factor 1 --overlap
    sed -n 's/^ *--\([^ ]*\).*/\1/p' "$scratch/there" >"$scratch/keys"
    [ "$(wc -l <"$scratch/keys")" -gt 10 ] || fail "$trainer: $(wc -l <"$scratch/keys") keys"
    while read -r key; do
        grep -q "^$trainer $key " "$here/dialects.txt" || fail "$trainer: $key is none of its words"
    done <"$scratch/keys"
done
for trainer in deepspeed nanotron picotron; do
    to $trainer --dp 2 --tp 2 --pp 2 --schedule gpipe --micro 2 --zero 1
    sed -n 's/^ *"\{0,1\}\([a-z_0-9]*\)"\{0,1\}: *[^ {].*/\1/p' "$scratch/there" >"$scratch/keys"
    [ "$(wc -l <"$scratch/keys")" -gt 10 ] || fail "$trainer: $(wc -l <"$scratch/keys") keys"
    while read -r key; do
        grep -q "^$trainer \([a-z_0-9.]*\.\)\{0,1\}$key " "$here/dialects.txt" ||
            fail "$trainer: $key is none of its words"
    done <"$scratch/keys"
    case $trainer in
    nanotron) ;;
    *) python3 -m json.tool "$scratch/there" >/dev/null 2>&1 || fail "$trainer: no JSON" ;;
    esac
done

# What cannot be said is named, there and here.
left()
{
    words=$1
    shift
    to "$@"
    grep -q "^# cannot be said: $words\$" "$scratch/left" || fail "$*: not \"$words\": $(cat "$scratch/left")"
}
left "recompute gelu" megatron --recompute gelu
left "schedule zb-h1" megatron --pp 2 --schedule zb-h1 --micro 2
left "cp-map contiguous" megatron --cp 2
left "zero3-keep" megatron --dp 2 --zero 3 --zero3-keep
left "pp 2" deepspeed --pp 2
left "layers 4" deepspeed
left "zero 1" torchtitan --dp 2 --zero 1
left "zero 2" nanotron --dp 2 --zero 2
left "decay 0.1" picotron
to megatron --model llama:nano --kv-heads 4 --rate-schedule linear --steps 9
grep -q group-query "$scratch/there" && fail "each head of queries has keys of its own, and heads are grouped"
grep -q -- '--lr-decay-iters 9 ' "$scratch/there" || fail "the rate does not go down until the last step"
to megatron --dropout 0.1
grep -q -- '--hidden-dropout 0.1 ' "$scratch/there" || fail "dropout is not Megatron's"
grep -q -- '--attention-dropout 0.1 ' "$scratch/there" || fail "attention has another dropout there"
to megatron --model llama:nano
grep -q -- '--hidden-dropout 0 ' "$scratch/there" || fail "a Llama has dropout there, and none here"
grep -q -- '--attention-dropout 0 ' "$scratch/there" || fail "a Llama's attention has dropout there"
to megatron --model llama:nano --dropout 0.2
grep -q -- '--hidden-dropout 0.2 ' "$scratch/there" || fail "a Llama has no dropout there"
left "dropout 0.1" deepspeed --dropout 0.1
left "model gpt" nanotron
left "model gpt" picotron
left "model llama" deepspeed --model llama:nano
left "rate-schedule linear" deepspeed --rate-schedule linear
left "rate-schedule cosine" torchtitan --rate-schedule cosine --rate-min 0.0001
left "warmup 3" picotron --warmup 3

# here WORDS FLAGS...: what flags of Megatron-LM come to
here()
{
    words=$1
    shift
    "$train" translate megatron -n 1 -- "$@" >"$scratch/here" 2>&1 || fail "$*: $(cat "$scratch/here")"
    tr '\n' ' ' <"$scratch/here" | grep -qF -- "$words " || fail "$*: not \"$words\": $(cat "$scratch/here")"
}
llama="--normalization RMSNorm --position-embedding-type rope --swiglu --disable-bias-linear"
here "tutti-train --model llama:nano # cannot be said here: untied 0" $llama
here "tutti-train --model llama:nano --heads 4 --kv-heads 2" $llama --untie-embeddings-and-output-weights \
    --num-attention-heads 4 --group-query-attention --num-query-groups 2
here "tutti-train --model gpt:nano # cannot be said here: norm rms" --normalization RMSNorm
here "gpt:nano # cannot be said here: positions rope # cannot be said here: feed-forward swiglu # cannot\
 be said here: biases 0" --swiglu --disable-bias-linear --position-embedding-type rope
here "tutti-train --model gpt:nano --channels 64 --heads 4" --hidden-size 64 --num-attention-heads 4 \
    --num-query-groups 4 --ffn-hidden-size 256
here "# cannot be said here: kv-heads 2 # cannot be said here: hidden 128" --hidden-size 64 \
    --num-attention-heads 4 --num-query-groups 2 --ffn-hidden-size 128
here "tutti-train --model gpt:nano --dropout 0.1" --hidden-dropout 0.1 --attention-dropout 0.10
here "tutti-train --model gpt:nano --dropout 0.1 # cannot be said here: attention-dropout 0" \
    --hidden-dropout 0.1 --attention-dropout 0
here "tutti-train --model gpt:nano # cannot be said here: attention-dropout 0.2" --attention-dropout 0.2
here "tutti-train --model llama:nano --dropout 0.1" $llama --hidden-dropout 0.1 \
    --untie-embeddings-and-output-weights
here "--rate 1e-3 --warmup 2" --lr 1e-3 --min-lr 1e-3 --lr-decay-style linear --lr-warmup-iters 2
left "order" nanotron --order free
"$train" translate megatron -n 2 -- torchrun pretrain_gpt.py --num-layers=4 --swiglu --adam-beta2 0.999 \
    --adam-eps 1.0e-8 --clip-grad 0 >"$scratch/here" 2>&1 || fail "flags: $(cat "$scratch/here")"
printf '%s\n' "tutti-train --model gpt:nano --layers 4 --dp 2 --clip 0" \
    "# cannot be said here: adam-beta2 0.999" \
    "# cannot be said here: feed-forward swiglu" | cmp -s - "$scratch/here" ||
    fail "flags: $(cat "$scratch/here")"

# A file as people write it: remarks, quotes, lists, sections in any order.
cat >"$scratch/there" <<'END'
# a run
data_stages:
- data:
    seed: 42
    dataset: null
  name: "first: stage" # remark
parallelism:
  tp: 2   # inside a host
  dp: 4
  pp: 2
  pp_engine: 'afab'

  tp_mode: REDUCE_SCATTER
tokens: { }
optimizer:
  learning_rate_scheduler:
    learning_rate: 3.0e-04
    lr_decay_style: cosine
    lr_warmup_style: constant
    min_decay_lr: 0
  zero_stage: 1
END
trainer=nanotron
back 16
is "tutti-train --model llama:nano --dp 4 --tp 2 --sp --pp 2 --schedule gpipe --zero 1 --rate 3.0e-04\
 --rate-schedule cosine --rate-min 0" "a file by hand"
grep -q '^# cannot be said here: optimizer.*lr_warmup_style constant$' "$scratch/here" ||
    fail "a constant start was taken: $(cat "$scratch/here")"
cat >"$scratch/there" <<'END'
{"train_batch_size": 8, "fp16": {"enabled": "auto", "list": [1, {"a": 2}]}, "bf16": {"enabled": true}}
END
trainer=deepspeed
back 2
is "tutti-train --model gpt:nano --dp 2 --precision bfloat16 --batch 8" "a file by hand"

# What is wrong is said.
fails_with "legal are megatron, deepspeed" '^tutti' "$train" translate horovod
fails_with "legal is -- and its flags" '^tutti' "$train" translate megatron --from "$scratch/there"
fails_with "legal is --from FILE" '^tutti' "$train" translate picotron -- --tp_size 2
fails_with "no flag stands behind --" '^tutti' "$train" translate megatron -- pretrain_gpt.py
fails_with "cannot be opened" '^tutti' "$train" translate nanotron --from "$scratch/none"
fails_with "legal are gpt, llama and moe" '^tutti' "$train" translate megatron --model mlp:nano
fails_with "is no JSON" '^tutti' "$train" translate deepspeed --from "$scratch/keys"
printf 'a:\n  b: 1\n c: 2\n' >"$scratch/there"
fails_with "line 3 cannot be read" '^tutti' "$train" translate nanotron --from "$scratch/there"
fails_with "legal: --tp 1, 2, 4" '^nothing' "$train" translate megatron -- --tensor-model-parallel-size 3
fails_with "--ranks four: a whole number is legal" '^tutti' "$train" translate megatron -n four -- --bf16
# A product that is too large for a number is no small one.
fails_with "--dp 9223372036854775807: legal are" '^nothing' "$train" translate torchtitan -n 8 -- \
    --parallelism.data_parallel_replicate_degree 4294967296 \
    --parallelism.data_parallel_shard_degree 4294967296
"$train" translate >"$scratch/out" 2>&1
[ $? -eq 2 ] || fail "no trainer: not status 2"

[ "$failures" -eq 0 ] && echo "translate: five trainers' words, there and back"
exit "$failures"
