#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# train.sh: tutti-train as a user meets it: it learns, it equals one device on a cut of all meshes, it finds
# planted errors before a step, and it says what is wrong.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
gpt=$PWD/training/reference/gpt
llama=$PWD/training/reference/llama
mlp=$PWD/training/reference/mlp
cnn=$PWD/training/reference/cnn

# refused WORDS OPTIONS...: the options are refused, in these words, before anything ran.
refused()
{
    why=$1
    shift
    fails_with "$why" '^ *[0-9]' "$train" --data grammar --steps 1 "$@"
}

# ZeRO without another rank of dp cuts nothing, and that is said.
"$train" --data grammar --steps 1 --zero 3 >"$scratch/out" 2>&1
grep -qx -- '# --zero 3 cuts among the ranks of dp, and there is one: nothing is cut' "$scratch/out" ||
    fail "--zero 3 of one rank: $(cat "$scratch/out")"
"$train" --data grammar --steps 1 --zero 3 --dp 2 2>&1 | grep 'nothing is cut' &&
    fail "--zero 3 --dp 2 cuts nothing"

# What others call --lr is --rate.
for name in --rate --lr; do
    "$train" --hex --data grammar --steps 2 --optimizer sgd $name 0.5 --quiet | cut -d ' ' -f 1-8
done >"$scratch/out" 2>&1
[ "$(sort -u "$scratch/out" | grep -c '^step')" -eq 2 ] || fail "--lr is not --rate: $(cat "$scratch/out")"

# Bits: --hex tells the golden program's lines, with every set of kernels.
"$gpt" steps=2 >"$scratch/golden"
for kernels in generic avx2 avx512; do
    if "$train" --kernels $kernels --data grammar --steps 2 --tp 2 --sp --cp 2 --hex --quiet >"$scratch/out" \
        2>"$scratch/said"; then
        cmp -s "$scratch/out" "$scratch/golden" ||
            fail "$kernels: $(cat "$scratch/out") is not $(cat "$scratch/golden")"
    else
        grep -q 'where the machine has them' "$scratch/said" || fail "$kernels: $(cat "$scratch/said")"
    fi
done

"$mlp" steps=2 layers=3 >"$scratch/golden_mlp"
"$train" --hex --model mlp:nano --layers 3 --steps 2 --dp 2 --tp 2 --zero 2 >"$scratch/out" 2>"$scratch/said"
grep '^step' "$scratch/out" | cut -d ' ' -f 1-8 | cmp -s - "$scratch/golden_mlp" ||
    fail "mlp: $(cat "$scratch/said" "$scratch/out") is not $(cat "$scratch/golden_mlp")"

"$cnn" steps=2 layers=3 batch=4 >"$scratch/golden_cnn"
"$train" --hex --model cnn:nano --layers 3 --batch 4 --steps 2 --dp 2 --tp 2 --zero 1 >"$scratch/out" \
    2>"$scratch/said"
grep '^step' "$scratch/out" | cut -d ' ' -f 1-8 | cmp -s - "$scratch/golden_cnn" ||
    fail "cnn: $(cat "$scratch/said" "$scratch/out") is not $(cat "$scratch/golden_cnn")"

# What is held out has the golden program's loss on any mesh, and the steps behind an evaluation have theirs.
"$gpt" steps=4 eval=2 batches=3 >"$scratch/golden_eval"
for mesh in '' '--dp 2 --zero 3' '--pp 2 --micro 2 --schedule zb-h1' '--tp 2 --sp --cp 2' \
    '--dp 2 --zero 1 --offload both'; do
    # shellcheck disable=SC2086 # words
    "$train" --hex --quiet --data grammar --steps 4 --eval-every 2 --eval-batches 3 $mesh >"$scratch/out" \
        2>"$scratch/said"
    cmp -s "$scratch/out" "$scratch/golden_eval" ||
        fail "held out, $mesh: $(cat "$scratch/said" "$scratch/out")"
done
# Where elements are dropped, none are in what is held out.
"$gpt" steps=4 eval=2 batches=3 dropout=0.2 >"$scratch/golden_eval"
for mesh in "" "--dp 2 --tp 2 --sp"; do
    # shellcheck disable=SC2086
    "$train" --hex --quiet --data grammar --steps 4 --eval-every 2 --eval-batches 3 --dropout 0.2 $mesh \
        >"$scratch/out" 2>&1 || fail "dropout and an evaluation, $mesh: $(cat "$scratch/out")"
    cmp -s "$scratch/out" "$scratch/golden_eval" || fail "dropout and an evaluation, $mesh: other numbers"
done
"$llama" steps=2 eval=1 batches=2 dropout=0.2 layers=2 >"$scratch/golden_eval"
"$train" --model llama:nano --layers 2 --hex --quiet --data grammar --steps 2 --eval-every 1 \
    --eval-batches 2 --dropout 0.2 --cp 2 --cp-attention ring >"$scratch/out" 2>&1 ||
    fail "dropout of a Llama: $(cat "$scratch/out")"
cmp -s "$scratch/out" "$scratch/golden_eval" || fail "dropout of a Llama and an evaluation: other numbers"
for model in mlp:nano cnn:nano; do
    refused "legal with gpt, llama and moe, and not with $model" --model $model --dropout 0.1
done
refused 'legal are 0, for none, and what is below 1' --dropout 1
"$train" --steps 2 --eval-every 2 --json >"$scratch/out" 2>&1
tail -n 1 "$scratch/out" | grep -q '^{"event": "evaluation", "steps": 2, "loss": [0-9.]*}$' ||
    fail "held out as JSON: $(tail -n 1 "$scratch/out")"
fails_with 'learns what was half a sequence before; legal is a text' '^ *[0-9]' "$train" --data recall \
    --eval-every 1
refused 'with --offload-delay: gradients or weights wait' --offload optimizer --offload-delay 1 \
    --eval-every 1
refused 'with --async: gradients or weights wait' --untied --clip 0 --pp 2 --micro 2 --async stash \
    --eval-every 1
refused 'a context of 8192 needs at least 8193' --context 8192 --layers 1 --eval-every 1
fails_with 'is an option of train' '^ *[0-9]' "$train" explain --eval-every 1

# Rates that go nowhere.
refused 'rate-min 3: legal are 0 to the --rate' --rate-schedule linear --rate-min 3
refused 'rate-min: the rate is constant' --rate-min 0.0001
refused 'rate-steps: the rate is constant' --rate-steps 5
refused 'warmup 5 takes longer than --rate-steps 3' --rate-schedule cosine --rate-steps 3 --warmup 5
refused 'legal is --rate-schedule constant without --warmup' --dp 2 --servers 1 --server-mode async --warmup 2

# Free order: other bits than the canonical ones, and the same loss to six digits.
for options in '--dp 2 --tp 2' '--micro 8' '--pp 2 --micro 4 --dp 2 --zero 2'; do
    # shellcheck disable=SC2086 # words
    "$train" --order free --hex --data grammar --steps 2 $options >"$scratch/free" 2>"$scratch/said" ||
        fail "--order free $options: $(cat "$scratch/said")"
    grep -q '^# sums are in free order, products by ' "$scratch/free" ||
        fail "--order free $options says nothing: $(cat "$scratch/free")"
    [ "$(grep '^step' "$scratch/free" | cut -d ' ' -f 1-4)" = "$(cut -d ' ' -f 1-4 "$scratch/golden")" ] ||
        fail "--order free $options: $(cat "$scratch/free")"
done
refused '--cp 8 --cp-map zigzag cuts a sequence into 16 runs' --cp 8 --cp-map zigzag
refused 'legal is --cp-map contiguous, or no --sp' --cp 2 --tp 2 --sp --cp-map zigzag
refused 'legal with gather and ring' --cp 2 --cp-attention ulysses --cp-map zigzag
refused 'legal are contiguous, zigzag and striped' --cp 2 --cp-map cyclic
refused 'legal with gather, ring and ulysses+ring' --cp 2 --cp-attention ulysses --cp-map striped
refused 'legal with gpt, not mlp' --model mlp:nano --cp 2 --cp-map striped
refused '--order fast: legal are canonical and free' --order fast

# launch COMMAND OPTION...: rank 0 with the command, rank 1 with the option, too, as a launcher would start
# them.
launch()
{
    command=$1
    shift
    ./tutti-info id >"$scratch/id" &
    holder=$!
    while [ ! -s "$scratch/id" ]; do
        kill -0 $holder 2>/dev/null || {
            echo "train: tutti-info id ended without an id" >&2
            exit 1
        }
        sleep 0.1
    done
    TUTTI_ID=$(cat "$scratch/id") TUTTI_SIZE=2
    export TUTTI_ID TUTTI_SIZE
    # shellcheck disable=SC2086 # words
    TUTTI_RANK=1 "$train" $command "$@" >"$scratch/out1" 2>"$scratch/said1" &
    # shellcheck disable=SC2086
    TUTTI_RANK=0 "$train" $command >"$scratch/out0" 2>"$scratch/said0"
    kill $holder
    wait
    unset TUTTI_ID TUTTI_SIZE
    rm "$scratch/id"
}

# The mesh follows from how many ranks there are.
launch '--hex --data grammar --steps 2'
grep '^step' "$scratch/out0" | cut -d ' ' -f 1-8 | cmp -s - "$scratch/golden" ||
    fail "ranks of a launcher: $(cat "$scratch/said0" "$scratch/said1" "$scratch/out0")"

# Options that differ are named, by all ranks, before a step.
launch '--data grammar --steps 2' --optimizer sgd
for rank in 0 1; do
    grep -q '^tutti-train: rank 0 has --optimizer adamw, and rank 1 --optimizer sgd; legal are the same' \
        "$scratch/said$rank" || fail "other options on rank 1, rank $rank: $(cat "$scratch/said$rank")"
    grep -q '^ *0 ' "$scratch/out$rank" && fail 'other options on rank 1: a step ran'
done
launch 'verify --quick'
grep -Fq 'verify takes 8 ranks, and 2 were started; legal is -n 8, or no launcher' "$scratch/said0" ||
    fail "verify by two ranks: $(cat "$scratch/said0")"

"$train" verify --quick >"$scratch/verify" 2>&1 ||
    fail "verify: $(grep -v '^equal\|^found' "$scratch/verify")"
grep -Eq '^([3-9][0-9]|[1-9][0-9]{2}) of [0-9]+ configurations are equal' "$scratch/verify" ||
    fail "verify ran too little"
grep -q '^equal .*bfloat16.*stochastic' "$scratch/verify" || fail "verify --quick has no run in bfloat16"
grep -q "^$(grep -c '^equal' "$scratch/verify") of [0-9]* configurations are equal" "$scratch/verify" ||
    fail "verify calls equal what is only near"

# Sets that nobody chose are equal, or refused with a reason, and the same seed draws the same ones.
"$train" verify --random 40 --seed 3 >"$scratch/verify" 2>&1 ||
    fail "verify --random: $(grep -v '^equal\|^refused' "$scratch/verify")"
grep -Eq '^[1-9][0-9]* of 40 option sets are refused' "$scratch/verify" || fail "verify --random refused none"
grep -Eq '^[1-9][0-9]* of [0-9]+ configurations are equal' "$scratch/verify" ||
    fail "verify --random ran none"
"$train" verify --random 5 --seed 3 2>/dev/null | grep '^refused' >"$scratch/again"
[ -s "$scratch/again" ] || fail "verify --random 5 refused none"
head -n "$(wc -l <"$scratch/again")" "$scratch/verify" | cmp -s - "$scratch/again" ||
    fail "verify --random 5 drew other sets than the first of verify --random 40"

# Real text is learned: the loss of the twentieth step is far below that of the first.
"$train" --steps 20 -n 2 >"$scratch/out" 2>"$scratch/said" || fail "the default run: $(cat "$scratch/said")"
awk '$1 == "0" { a = $2 } $1 == "19" { b = $2 } END { exit !(a > 5.4 && b < a - 0.5) }' "$scratch/out" ||
    fail "it does not learn: $(cat "$scratch/out")"

# A line of each step: no longer than a page is wide, with a bubble where there is a pipeline.
"$train" --data grammar --steps 2 --pp 2 --micro 4 >"$scratch/out" 2>"$scratch/said" ||
    fail "a pipeline: $(cat "$scratch/said")"
awk 'length($0) > 110' "$scratch/out" | grep . && fail "lines of more than 110 columns"
awk '$1 == "1" && NF == 11 && $6 == "20.0" && $7 == "20.0" && $8 + 0 > 0 && $8 < 100 && $10 == 448512' \
    "$scratch/out" | grep -q . || fail "a pipeline's line: $(cat "$scratch/out")"
"$train" --data grammar --steps 1 -n 4 --batch 4 >"$scratch/out" 2>"$scratch/said" ||
    fail "4 ranks: $(cat "$scratch/said")"
[ "$(nproc)" -ge 4 ] || grep -q '^# 4 ranks share [123] cores*: these times are no' "$scratch/out" ||
    fail "4 ranks: nothing is said of cores: $(cat "$scratch/out")"

# JSON: one object a line, the run and two steps; the first of them tells the memory that was measured.
"$train" --data grammar --steps 2 --tp 2 --json --save "$scratch/state" >"$scratch/out" 2>"$scratch/said" ||
    fail "--json: $(cat "$scratch/said")"
grep -qv '^{' "$scratch/out" && fail "--json: what is no object: $(grep -v '^{' "$scratch/out")"
grep -q '^# saved ' "$scratch/said" || fail "--json: not told what was saved: $(cat "$scratch/said")"
[ "$(sed -n 's/^{"event": "\([a-z]*\)", .*}$/\1/p' "$scratch/out" | tr '\n' ' ')" = 'run step step ' ] ||
    fail "--json: $(cat "$scratch/out")"
grep -q '"step": 0, .*"bubble_formula": null, .*"memory_measured": {"parameters": 452608, ' "$scratch/out" ||
    fail "--json, step 0: $(cat "$scratch/out")"
grep -q '"resident_shared": [1-9][0-9]*, "resident_groups": [0-9]' "$scratch/out" ||
    fail "--json: no memory of Tutti: $(cat "$scratch/out")"
"$train" --data grammar --steps 1 --dp 2 >"$scratch/out"
grep -q '^# resident outside the arena of rank 0: [1-9][0-9]* bytes' "$scratch/out" ||
    fail "no line of Tutti's own memory"

# The Gantt chart of a pipeline shows the order of its schedule; the trace has a span for each instruction,
# and takes Tutti's own beside them.
TUTTI_TRACE=$scratch/own.%r.json "$train" --data grammar --steps 2 --pp 2 --micro 4 --gantt \
    --trace "$scratch/trace.json" >"$scratch/out" 2>"$scratch/said" || fail "--trace: $(cat "$scratch/said")"
grep '^r0|' "$scratch/out" | tr -d '. ' | grep -q '^r0|0*1*a*2*b*3*c*d*|$' ||
    fail "--gantt, rank 0: $(cat "$scratch/out")"
grep '^r1|' "$scratch/out" | tr -d '. ' | grep -q '^r1|0*a*1*b*2*c*3*d*|$' ||
    fail "--gantt, rank 1: $(cat "$scratch/out")"
[ "$(grep -c '^r[01]|.*[0-9].*[a-d]' "$scratch/out")" = 2 ] || fail "--gantt is empty: $(cat "$scratch/out")"
instructions=$("$train" explain --pp 2 --micro 4 | sed -n 's/^checked: 2 tapes, \([0-9]*\) .*/\1/p')
[ "$(grep -c '^{"ph": "X", .*}},\{0,1\}$' "$scratch/trace.json")" = "$instructions" ] ||
    fail "--trace: not $instructions spans"
grep -q '"name": "send layer1.out", "cat": "message".*"group": "to next", "calls": 1, "bytes": 32768' \
    "$scratch/trace.json" || fail "--trace: no send"
[ "$(sed -n '1p;$p' "$scratch/trace.json" | tr '\n' ' ')" = '[ ] ' ] || fail "--trace: no array"
sed -n 'x;$p' "$scratch/trace.json" | grep -q ',$' && fail "--trace: a comma at the end"
"$PWD/tutti-info" merge "$scratch/trace.json" "$scratch/own.0.json" "$scratch/own.1.json" >"$scratch/merged" \
    2>"$scratch/said" || fail "merge: $(cat "$scratch/said")"
refused 'legal with --pp 2' --gantt

# What each stage holds is what was planned.
for how in '--schedule gpipe' '--schedule 1f1b' '--schedule zb-h1' '--schedule zb-h2 --clip 0' \
    '--schedule interleaved --chunks 2' '--schedule dualpipev --chunks 2'; do
    # shellcheck disable=SC2086
    "$train" --data grammar --steps 1 --pp 2 --micro 4 --stage-memory $how >"$scratch/out" \
        2>"$scratch/said" || fail "--stage-memory $how: $(cat "$scratch/said")"
    awk '/^# +[0-9]+ +[01] / { n++; wrong += NF != 7 || !$5 || $6 != $7 } END { exit n < 2 || wrong }' \
        "$scratch/out" || fail "--stage-memory $how: $(cat "$scratch/out")"
done
refused '--stage-memory is of a pipeline' --stage-memory

# Layers are cut by times that are measured: a head that takes longer than all layers leaves its stage one.
large='--data grammar --steps 1 --layers 4 --pp 2 --micro 2 --vocabulary 16384 --context 16'
# shellcheck disable=SC2086
"$train" $large --balance measured >"$scratch/out" || fail "--balance measured: exit status $?"
grep -qx '# cut as by --stage-layers 3,1' "$scratch/out" || fail "--balance measured: $(cat "$scratch/out")"
refused 'both cut the layers' --pp 2 --balance measured --stage-layers 1,3
"$train" explain --pp 2 --balance measured >"$scratch/said" 2>&1 && fail "explain measures"
grep -q 'legal with tutti-train train' "$scratch/said" || fail "explain: $(cat "$scratch/said")"
refused 'cannot be written' --trace "$scratch/none/trace"
refused 'legal are 0 to 0' --trace-step 1

for wrong in '--batch 0' '--batch 99999999999' '--micro 0' '--layers 0' '--chunks 0' '--tp 0' '-n 0'; do
    # shellcheck disable=SC2086
    refused 'legal are 1 to' $wrong
done
for wrong in '--steps -5' '--dp -1' '--seed -1' '--zero -1' '--trace-step -2'; do
    # shellcheck disable=SC2086
    refused 'legal are 0 to' $wrong
done
for wrong in '--rate nan' '--clip -1' '--decay inf'; do
    # shellcheck disable=SC2086
    refused 'a number that is not negative' $wrong
done
refused 'the nearest is --layers' --layer 3
refused 'legal: --tp 1, 2, 4' --tp 3
refused '8 blocks of its tokens; legal: --cp 1, 2, 4, 8' --cp 3
refused '8 blocks of its tokens; legal: --cp 1, 2, 4, 8' --cp 16
refused 'legal: --cp 1, 2 or --tp 1, 2' --cp 4 --tp 4 --sp
refused '4 heads are cut into tp x cp = 8 parts' --cp 8 --cp-attention ulysses
refused 'legal are gather, ulysses, ring, local, ulysses+ring and scores' --cp 2 --cp-attention all
refused 'dp 1 x tp 2 x pp 1 x cp 2 is 4' -n 6 --cp 2 --tp 2
refused '3 ranks, but dp 1 x tp 4 x pp 1 is 4; legal: --ranks 4' -n 3 --tp 4
refused 'legal are 1 and more, and 1048576 in all' --pp 1000000000 --tp 1000000000 --cp 1000000000
refused 'do not divide 4 layers; legal: --pp 1, 2, 4' --pp 3
refused 'legal: --dp 1, 2, 4, 8 or --batch 6, 12' --dp 3
refused 'legal: --dp 1, 5, 10 or --batch 8, 16' --dp 4 --batch 10
refused '12 sequences a rank in 3 micro-batches: canonical' --dp 3 --batch 36 --micro 3
refused 'in each part of the batch; legal: --micro 5 or --dp 1, 5, 10 or --batch 8, 16' --dp 2 --batch 10
refused 'no other --tp alone makes it legal, for with --tp 1: --dp 3 does not divide' --dp 3 --tp 3
refused '3 ranks, but dp' -n 3 --dp 2
refused 'legal are gpt:nano' --model gpt:giant
refused 'legal: --tp 1, 2, 4, 8' --model mlp:nano --tp 3
refused '--heads is no option of mlp:nano, which has --layers' --model mlp:nano --heads 4
refused '--context is no option of mlp:nano' --model mlp:nano --context 64
refused '--untied is no option of mlp:nano' --model mlp:nano --untied
refused '--inputs is no option of gpt:nano' --inputs 32
refused 'rows that are made up' --model mlp:nano --data "$0"
refused 'legal are 2 to 65536' --model mlp:nano --inputs 1
refused '--inputs is no option of cnn:nano' --model cnn:nano --inputs 4
refused '--context is no option of cnn:nano' --model cnn:nano --context 64
refused 'legal with --labels FILE' --model cnn:nano --data "$0"
refused 'leave --sp out' --model cnn:nano --tp 2 --sp
refused 'has no pictures' --cnn-cut columns
refused 'has no pictures' --grid 16
refused 'cnn:micro, and gpt:nano is none' --norm group
refused 'legal are none and group' --model cnn:nano --norm batch
refused 'legal are pairs, filters and channels' --model cnn:nano --conv-split both
refused 'has no convolutions' --conv-split filters
refused 'legal with --norm group' --model cnn:nano --norm-groups 4
refused 'that divide 64 channels' --model cnn:nano --norm group --norm-groups 24
refused 'legal: --tp 1, 2, 4 or --norm-groups 8, 16, 32, 64' \
    --model cnn:nano --norm group --norm-groups 4 --tp 8
refused 'legal are multiples of 8' --model cnn:nano --grid 12
refused 'legal are rows and columns' --model cnn:nano --cnn-cut diagonal
refused 'blocks of rows (or columns); legal: --cp 1, 2, 4, 8' --model cnn:nano --cp 3
refused 'a picture has no attention' --model cnn:nano --cp 2 --cp-attention ring
refused 'so a rank has neighbouring rows' --model cnn:nano --cp 2 --cp-map zigzag
refused 'legal are 2 to 16' --model cnn:nano --vocabulary 17
refused 'a whole number is legal' --steps many
refused 'multiples of 64' --channels 100
refused 'legal are adamw and sgd' --optimizer adam
refused 'needs a value' --steps 1 --rate
refused 'naive' --schedule fastest --pp 2
refused 'and of activations with --recompute' --memory 1M
refused 'legal is a number of bytes, with K, M, G or T' --memory much
refused '--host-memory much: legal is a number of bytes' --offload both --host-memory much
refused 'with --offload optimizer 10930688 here and 2712064 on the host' --memory 8M
refused 'legal with --offload optimizer or both' --optimizer-threads 2
refused 'legal are 0 and 1' --offload both --offload-delay 2
refused 'legal with --offload optimizer or both' --offload activations --offload-delay 1
refused 'bytes of the host' --memory 8M --host-memory 1M --offload both
refused 'legal are none, optimizer, activations and both' --offload everything
refused 'legal are all-reduce-missing' --inject nothing
refused 'needs --dp 2' --inject all-reduce-missing
refused 'generic, avx2, avx512' --kernels sse
printf 'F0,B0\nB0,F0\n' >"$scratch/wrong.csv"
refused "$scratch/wrong.csv" --pp 2 --schedule "$scratch/wrong.csv"

# What one memory has no room for trains with a second one, and the bits are those of a run without a limit.
large='--data grammar --channels 256 --layers 6 --hex --quiet --steps 2'
# shellcheck disable=SC2086
refused 'both 4' $large --memory 64M
# shellcheck disable=SC2086
"$train" $large --memory 64M --host-memory 1G >"$scratch/out" 2>"$scratch/said" ||
    fail "--host-memory: $(cat "$scratch/said")"
# shellcheck disable=SC2086
"$train" $large | cmp -s - "$scratch/out" || fail "--host-memory gives other bits: $(cat "$scratch/out")"

# A state that a run with --offload wrote and read has lost nothing.
"$train" --data grammar --steps 2 --dp 2 --zero 1 --offload both --save "$scratch/state" --quiet >/dev/null
"$train" --data grammar --steps 4 --dp 2 --zero 2 --offload optimizer --load "$scratch/state" --quiet --hex |
    cut -d ' ' -f 1-8 >"$scratch/out"
"$train" --data grammar --steps 4 --quiet --hex | tail -n 2 | cmp -s - "$scratch/out" ||
    fail "--offload after --load: $(cat "$scratch/out")"

# --log has the losses of the run to the last digit, with the rates and what was held out, for readers of JSON
# and of CSV; a run that goes on adds its lines.
curve='--data grammar --warmup 2 --eval-every 2 --eval-batches 2'
# shellcheck disable=SC2086
"$train" $curve --steps 2 --log "$scratch/log.csv" --save "$scratch/state" --hex --quiet >"$scratch/out" &&
    "$train" $curve --steps 3 --log "$scratch/log.csv" --load "$scratch/state" --hex --quiet \
        >>"$scratch/out" &&
    "$train" $curve --steps 3 --dp 2 --log "$scratch/log.jsonl" --quiet >/dev/null || fail "--log: no run"
if command -v python3 >/dev/null; then
    python3 - "$scratch/log.csv" "$scratch/log.jsonl" "$scratch/out" <<'END' || fail "--log: see above"
import csv, json, sys
table = csv.DictReader(open(sys.argv[1]))
rows = [{k: float(v) if v else None for k, v in row.items()} for row in table]
objects = [json.loads(line) for line in open(sys.argv[2])]
words = [line.split() for line in open(sys.argv[3])]
losses = [(float.fromhex(w[4]), float.fromhex(w[7])) for w in words if w[0] == "step"]
held_out = [float.fromhex(w[4]) for w in words if w[0] == "eval"]
for lines in rows, objects:
    assert [line["step"] for line in lines] == [0, 1, 2], lines
    assert [(line["loss"], line["norm"]) for line in lines] == losses, lines
    assert [line["rate"] for line in lines] == [0.0005, 0.001, 0.001], lines
    assert [line["held_out_loss"] for line in lines] == [None, *held_out, None], lines
    assert all(line["seconds"] > 0 and line["tokens_per_second"] > 0 for line in lines), lines
END
else
    [ "$(wc -l <"$scratch/log.csv")" -eq 4 ] || fail "--log: $(cat "$scratch/log.csv")"
fi
refused 'cannot be written: No such file' --data grammar --steps 1 --log "$scratch/nowhere/log"
refused '--log with --server-mode async' -n 2 --servers 1 --server-mode async --log "$scratch/log"
"$train" --data grammar --steps 1 --log /dev/full >/dev/null 2>"$scratch/said" &&
    fail "--log: a full disk is taken"
grep -q 'cannot be written after step 0: No space' "$scratch/said" || fail "--log: $(cat "$scratch/said")"

# A killed rank ends the job, with the cause.
"$train" -n 2 --data grammar --steps 100000 >"$scratch/out" 2>"$scratch/said" &
job=$!
while ! grep -q '^ *1 ' "$scratch/out"; do
    kill -0 $job 2>/dev/null || break
    sleep 0.1
done
victim=$(ps -o pid= --ppid $job | tail -n 1)
kill -9 "$victim" || fail "there was no rank to kill"
wait $job && fail "a job with a killed rank ended as if nothing was wrong"
grep -q 'rank [01] was ended by signal 9' "$scratch/said" || fail "a killed rank: $(cat "$scratch/said")"

[ "$failures" -eq 0 ] && echo "train: it learns, equals one device, and says what is wrong"
exit "$failures"
