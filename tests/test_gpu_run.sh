#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_gpu_run.sh: tests/gpu/run on the stub, so that the script works when a GPU is there for a few minutes.
# Its first stage; that it is not run twice; that a build can be carried; that it tells what failed, or that
# there is no device; and the trainer's checks.
set -u
LC_ALL=C
export LC_ALL
unset OUT STUB_GPU
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -d "$sources/tests/gpu" ] || sources=$(dirname "$sources")
if ! command -v bash >/dev/null 2>&1 || [ ! -f tests/.libs/libtutti_stub.so ]; then
    echo "skipped: tests/gpu/run (there is no bash, or no stub)"
    exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "FAILED: $*"
    tail -n 20 "$scratch/said"
    failures=$((failures + 1))
}

runs() # CODE FOLDER [BUILD]: the first stage, on the stub
{
    bash "$sources/tests/gpu/run" --stub --build "${3:-.}" --out "$scratch/$2" 1 >"$scratch/said" 2>&1
    got=$?
    [ $got -eq "$1" ] || fail "exit code $got, expected $1, in $2"
}

has() # FOLDER/FILE PATTERN
{
    grep -q -e "$2" "$scratch/$1" || fail "no '$2' in $1"
}

is_json() # FOLDER/FILE: each of its lines
{
    command -v python3 >/dev/null || return 0
    python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$scratch/$1" \
        >"$scratch/said" 2>&1 || fail "$1 is not JSON"
}

runs 0 good
has good/stage1.jsonl '^{"stage": 1, "date": "20.*"gpu": "the stub: .*"command": ".*--stub'
has good/stage1.jsonl '"program": "table", "check": "segments", "outcome": "passed"'
has good/stage1.jsonl '"check": "doorbell", "outcome": "passed".*"round_trip_us": [0-9]'
has good/stage1.jsonl '"item": "table/devices", "outcome": "passed"'
has good/stage1.jsonl '"item": "folds/bfloat16", "outcome": "\(passed\|skipped\)"' # no C++: no kernels
has good/stage1.jsonl '"item": "questions/events_between_processes", "outcome": "skipped".*"why": "the table'
items=$(grep -c '"item": ' "$scratch/good/stage1.jsonl")
checks=$(grep -c '"check": ' "$scratch/good/stage1.jsonl")
[ "$items" -eq $((checks + 1)) ] || fail "$items items of $checks checks and the devices"
is_json good/stage1.jsonl
has good/stage1.jsonl '^{"library": .*"devices": \[{"device": 0'
has good/report.md 'nothing here has run on a GPU'
has good/report.md '^- doorbell: round_trip_us: [0-9]'
grep '"check": ' "$scratch/good/stage1.jsonl" >"$scratch/said"
grep -q '"outcome": "failed"' "$scratch/said" && fail 'a check failed on the stub'
cp "$scratch/good/stage1.jsonl" "$scratch/before"
runs 0 good
cmp -s "$scratch/before" "$scratch/good/stage1.jsonl" || fail 'what was done is done again'

# Ways: each is asked in each mode, and answers right.
bash "$sources/tests/gpu/run" --stub --build . --out "$scratch/good" 5 >"$scratch/said" 2>&1 || fail 'stage 5'
has good/stage5.jsonl '"program": "copies", "check": "behind_a_gate", "outcome": "\(passed\|skipped\)"'
has good/stage5.jsonl '"check": "bases", "outcome": "\(passed.*"pinned_8_bytes_us": [0-9]\|skipped\)'
for way in H-processes W-processes W-mps L-threads H-threads; do
    for mode in eager sync group chain; do
        grep -q '"check": "room", "outcome": "skipped"' "$scratch/good/stage5.jsonl" || # no C++: no kernels
            has good/stage5.jsonl \
                "\"way\": \"${way%-*}\", \"kind\": \"${way#*-}\", .*\"mode\": \"$mode\", .*\"right\": true"
    done
done
has good/report.md '^| H | processes | 2 | graph | 8 | [0-9.]* | true |'
is_json good/stage5.jsonl

# The trainer: bits and times, beside an llm.c of which only the words that it prints are there; and what
# fails keeps nothing else from its turn.
if [ -f tests/.libs/libtutti_train_stub.so ] && command -v python3 >/dev/null; then
    cat >"$scratch/llmc" <<'END'
#!/bin/sh
[ "${*#-i train.bin -j val.bin -b 8 -t 1024 }" != "$*" ] || exit 1
[ -s gpt2_124M.bin ] && [ -s train.bin ] && [ -s val.bin ] || exit 1
for step in 1 2 3 4 5 6; do
    echo "step    $step/12: train loss 10.9 ($step.500000 ms, 4000 tok/s)"
done
END
    chmod +x "$scratch/llmc"
    LLMC_GPU=$scratch/llmc bash "$sources/tests/gpu/run" --train --stub --build . --out "$scratch/trained" \
        >"$scratch/said" 2>&1 || fail "--train: exit code $?"
    for check in bits-gpt:nano bits-mlp:nano mesh-dp-4 mesh-threads-4; do
        has trained/stage6.jsonl "\"check\": \"$check\", \"outcome\": \"passed\".*\"steps\": [35]"
    done
    has trained/stage6.jsonl '"check": "speed-124M-llmc", "outcome": "passed".*"ms": 5.500, "tokens_per_'
    has trained/report.md '^| speed-micro | passed | [0-9.]* | [1-9][0-9]* |'
    has trained/report.md '^| speed-micro-torch | skipped |'
    is_json trained/stage6.jsonl
    sed -n 's/speed-124M-llmc\(.*\)5\.500/speed-124M\111.000/p' "$scratch/trained/stage6.jsonl" \
        >"$scratch/more"
    cat "$scratch/more" >>"$scratch/trained/stage6.jsonl" # as if it had run there
    bash "$sources/tests/gpu/run" --train --stub --build . --out "$scratch/trained" >"$scratch/said" 2>&1
    has trained/report.md '^- speed-124M: 0.50 of the rate of speed-124M-llmc$'
    STUB_GPU=devices=1,fail=host_call:60:broken bash "$sources/tests/gpu/run" --train --stub --build . \
        --out "$scratch/broken" >"$scratch/said" 2>&1
    [ $? -eq 1 ] || fail '--train with a device that breaks'
    has broken/stage6.jsonl '"item": "train/bits-gpt:nano", "outcome": "failed".*told to fail'
    has broken/stage6.jsonl '"item": "train/speed-micro-torch", "outcome": "skipped"'

    # A bit is seen: of a step (here of the GPU's with four ranks), or of the state (of the mlp).
    mkdir "$scratch/other"
    cat >"$scratch/other/tutti-train" <<'END'
#!/bin/sh
device=cpu norm=0x1p+0 last=''
case "$*" in
*"--device cuda"*) device=cuda ;;
esac
case "$device $*" in
cuda*"--dp 4"*) norm=0x1.0000000000001p+0 ;;
esac
case "$*" in
*"--model mlp:nano --batch"*) ;;
*) device=any ;;
esac
for word; do
    [ "$last" != --save ] || echo $device >"$word"
    last=$word
done
echo "step 0 loss 1.5 0x1.8p+0 norm 1 $norm"
END
    chmod +x "$scratch/other/tutti-train"
    for check in bits-gpt:nano=passed bits-mlp:nano=failed.*other mesh-dp-4=failed.*0001p; do
        (cd "$scratch/other" && STUB_GPU=devices=1 bash "$sources/tests/gpu/train.sh" "${check%%=*}") \
            >"$scratch/said" 2>&1
        grep -q "\"outcome\": \"${check#*=}" "$scratch/said" || fail "$check of numbers that differ"
    done
fi

# What is carried is enough, wherever it lies.
bash "$sources/tests/gpu/run" --pack "$scratch/pack" --build . >"$scratch/said" 2>&1 || fail '--pack'
mv "$scratch/pack" "$scratch/carried"
[ "$(du -sm "$scratch/carried" | cut -f 1)" -lt 64 ] || fail 'the pack has 64 MiB or more'
runs 0 elsewhere "$scratch/carried"
has elsewhere/stage1.jsonl '"item": "devices", "outcome": "passed"'
LD_LIBRARY_PATH=$scratch/carried/tests/carried "$scratch/carried/tests/suite" --list >"$scratch/said" 2>&1 ||
    fail 'the suite that is carried does not start'
ldd "$scratch/carried/tests/suite" | awk '$2 == "=>" && !/^.lib(c|m|resolv|dl|rt|pthread)\.so/ { print $1 }' |
    while read -r library; do
        [ -f "$scratch/carried/tests/carried/$library" ] || echo "$library"
    done >"$scratch/said"
[ ! -s "$scratch/said" ] || fail 'libraries that the pack lacks'

# What is not the stub, by its name, can be one device and no other: a test of others has not passed.
mkdir -p "$scratch/carried/.libs"
cp tests/.libs/libtutti_stub.so "$scratch/carried/.libs/libtutti_cuda.so"
mv "$scratch/carried/tests/suite" "$scratch/carried/tests/whole"
cat >"$scratch/carried/tests/suite" <<'END'
#!/bin/sh
[ "$1" != --list ] ||
    exec printf '%s\n' 'api_device_memory: 1 test' '+-- refusals' 'api_device_factor: 1 test' '+-- wrong'
exec tests/whole "$@"
END
chmod +x "$scratch/carried/tests/suite"
bash "$sources/tests/gpu/run" --build "$scratch/carried" --out "$scratch/real" 2 >"$scratch/said" 2>&1 ||
    fail 'stage 2 of what is not the stub'
has real/stage2.jsonl '"api_device_memory/refusals", "outcome": "skipped", .*"why": "it needs the stub'
has real/stage2.jsonl '"api_device_factor/wrong", "outcome": "passed", .*"without 2 processes .*=2"'
has real/report.md "api_device_factor/wrong | passed | .* | without 2 processes with .*devices=2 |"

# One wrong expectation, be it that of the first check, takes no other item with it.
STUB_GPU=devices=1,fail=copy_rows:1,fail=use:3 runs 1 bad
has bad/stage1.jsonl '"item": "table/devices", "outcome": "failed", .*"why": ".*use'
has bad/stage1.jsonl '"check": "copy_rows", "outcome": "failed", "why": "copy_rows: copy_rows: told to fail'
has bad/stage1.jsonl '"check": "fill", "outcome": "passed"'
has bad/stage1.jsonl '"item": "table/copy_rows", "outcome": "failed", .*"why": "copy_rows: copy_rows: told'
is_json bad/stage1.jsonl
has bad/stage1.jsonl '"item": "table/fill", "outcome": "passed"'
has bad/report.md '^- table copy_rows: failed: '
STUB_GPU=devices=0 runs 2 none
has said 'no device: .*devices=0'
# What measures PyTorch's steps, where no PyTorch is: each way has communicators of its own, told by name.
if command -v python3 >/dev/null; then
    export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$sources/tests/gpu"
    python3 - >"$scratch/steps" 2>&1 <<'END' || fail 'the steps of PyTorch'
import os
from unittest import mock

import torch_nccl

made = []
me = mock.MagicMock(rank=0, n=2)
me.init = lambda: made.append((os.environ["TUTTI_EXECUTOR"], os.environ["TUTTI_DEVICE_IMPORT"]))
torch_nccl.CASES["step"](me)
assert made == 2 * [("host", "given"), ("led", "given"), ("led", "all")], made
END
    has steps '"check": "step-2", .*"alone_us": .*"host_us": .*"led_us": .*"mapped_us": '
    is_json steps
fi

[ $failures -eq 0 ] && echo "tests/gpu/run: all good"
exit $failures
