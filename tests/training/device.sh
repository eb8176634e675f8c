#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# device.sh: tutti-train --device cuda without a device: over the stub of a device's runtime, with
# emulated kernels. The host cannot touch the memory of such a device, so who forgets where values lie ends
# by a signal. Bits are those of the processor, and what is missing or fails is said.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
stub=$PWD/tests/.libs/libtutti_stub.so
kernels=$PWD/tests/.libs/libtutti_train_stub.so
stand_in=$PWD/tests/training/kernels/.libs/cublas_stand_in.so
info=$PWD/tutti-info
gpt='--data grammar --layers 1 --heads 2 --context 8 --vocabulary 64 --batch 2 --steps 2'
llama='--model llama:nano --data grammar --layers 1 --hidden 64 --context 8 --vocabulary 64 --batch 2'
mlp='--model mlp:nano --inputs 8 --batch 4 --steps 2'

# shows_devices LINE [PROGRAM]...: both kinds side by side, and what is here.
shows_devices()
{
    line=$1
    shift
    "$@" "$train" devices >"$scratch/out" 2>"$scratch/said" || fail "devices: $(cat "$scratch/said")"
    grep -q "$line" "$scratch/out" || fail "devices: not $line but $(cat "$scratch/out")"
}
shows_devices '^GPU: none can be used: .*/nowhere' env TRAIN_DEVICE_LIBRARY=/nowhere
fails_with 'it has no options' '^GPU' "$train" devices --dp 2

# Without the library nothing begins, and the error says what is legal.
fails_with 'the kernels for devices cannot be used: /nowhere' '^ *[0-9]' env TRAIN_DEVICE_LIBRARY=/nowhere \
    "$train" --device cuda --steps 1
fails_with 'legal is --device host' '^ *[0-9]' env TRAIN_DEVICE_LIBRARY=/nowhere "$train" --device cuda
if [ ! -f "$stub" ] || [ ! -f "$kernels" ]; then
    [ "$failures" -eq 0 ]
    exit
fi

# Both modules have threads' variables at fixed places; and stacks of emulated threads come and go.
GLIBC_TUNABLES=glibc.rtld.optional_static_tls=8192:glibc.malloc.trim_threshold=1073741824
GLIBC_TUNABLES=$GLIBC_TUNABLES:glibc.malloc.arena_max=1
TUTTI_DEVICE_LIBRARY=$stub TRAIN_DEVICE_LIBRARY=$kernels STUB_GPU=devices=1,memory=40960
export GLIBC_TUNABLES TUTTI_DEVICE_LIBRARY TRAIN_DEVICE_LIBRARY STUB_GPU

shows_devices '^GPU 0: Stub.*, [0-9]* multiprocessors, [1-9][0-9]* bytes free' env
shows_devices '^GPU: none: .*devices=0' env STUB_GPU=devices=0

only_there=
# same OPTIONS: loss and norm of each step, and the state in the end, are those of the processor.
same()
{
    for device in cuda host; do
        rm -f "$scratch/shared"
        [ $device = cuda ] && more=$only_there || more=
        # shellcheck disable=SC2086 # options are words
        STUB_GPU=devices=1,memory=40960,delay=200,share=$scratch/shared \
            "$train" --device $device --hex --quiet --save "$scratch/$device" "$@" $more >"$scratch/out" \
            2>"$scratch/said" ||
            fail "--device $device $*: $(cat "$scratch/said")"
        grep '^step' "$scratch/out" >"$scratch/$device.steps"
    done
    cmp -s "$scratch/cuda.steps" "$scratch/host.steps" ||
        fail "$*: $(cat "$scratch/cuda.steps") and not $(cat "$scratch/host.steps")"
    cmp -s "$scratch/cuda" "$scratch/host" || fail "$*: another state"
}

# counted STEPS OPTIONS: how often the processor waited for all of a stream, and for something on one.
counted()
{
    steps=$1
    shift
    rm -f "$scratch/counts"
    TRAIN_STUB_COUNTS=$scratch/counts "$train" --device cuda --quiet "$@" --steps "$steps" \
        >"$scratch/out" 2>"$scratch/said" || fail "$*: $(cat "$scratch/said")"
    grep -q 'timed 0 ' "$scratch/counts" || fail "$*: there are times that nobody asked for"
    sed -n 's/^syncs \([0-9]*\) waits \([0-9]*\) .*/\1 \2/p' "$scratch/counts"
}

# waits SYNCS WAITS OPTIONS: so often in a step.
waits()
{
    syncs=$1 points=$2
    shift 2
    few=$(counted 3 "$@")
    more=$(counted 5 "$@")
    each=$(echo "$few $more" | awk '{ print ($3 - $1) / 2, ($4 - $2) / 2 }')
    [ "$each" = "$syncs $points" ] ||
        fail "$*: in a step the processor waits $each times, for all and for a point, and not $syncs $points"
}

# near MOST OPTIONS: losses and norms in free order are so near to those of the canonical one, and not equal.
near()
{
    most=$1
    shift
    "$train" --device host --hex --quiet --order canonical "$@" >"$scratch/host.steps" || fail "$*: no steps"
    rm -f "$scratch/shared"
    # shellcheck disable=SC2086 # options are words
    STUB_GPU=devices=1,memory=40960,delay=200,share=$scratch/shared TRAIN_STUB_CUBLAS=$stand_in \
        "$train" --device cuda --hex --quiet --order free "$@" $only_there >"$scratch/out" \
        2>"$scratch/said" ||
        fail "--order free $*: $(cat "$scratch/said")"
    cmp -s "$scratch/out" "$scratch/host.steps" && fail "--order free $*: the bits of the canonical order"
    paste -d' ' "$scratch/out" "$scratch/host.steps" | awk -v most="$most" '
        { for (i = 4; i < 8; i += 3) off[i] = ($i - $(i + 8)) / $(i + 8)
          bad = bad || off[4] ^ 2 > most ^ 2 || off[7] ^ 2 > most ^ 2 }
        END { exit bad || NR < 3 }' ||
        fail "--order free $*: $(cat "$scratch/out") is not near $(cat "$scratch/host.steps")"
}

# replays GRAPHS OPTIONS: so many graphs in a step, but for the first one.
replays()
{
    graphs=$1
    shift
    counted 3 "$@" >"$scratch/waits"
    [ "$(sed -n 's/.* replays //p' "$scratch/counts")" -eq $((2 * graphs)) ] ||
        fail "$*: $(cat "$scratch/counts") in three steps, and not $graphs graphs in each but the first"
}

# compares WORDS OPTIONS: what compare says of ranks that share the device.
stub_gpu=memory=40960
compares()
{
    words=$1
    shift
    rm -f "$scratch/shared"
    # shellcheck disable=SC2086 # options are words
    STUB_GPU=devices=1,$stub_gpu,share=$scratch/shared "$train" compare $words --device cuda "$@" \
        >"$scratch/out" 2>"$scratch/said" || fail "compare $words: $(cat "$scratch/said")"
}

# shellcheck disable=SC2086 # options are words
{
    same $gpt --steps 3
    same $mlp --offload both --micro 2 --steps 4
    same $gpt --offload activations --steps 4
    same $gpt --graphs off --micro 2 --steps 3
    same $mlp --pp 2 --micro 2 --steps 5
    same $mlp --tp 2 --sp --clip 0.5 --steps 5
    same $gpt --precision bfloat16 --dp 2 --zero 1 --steps 4
    same $mlp --optimizer sgd --micro 2 --dp 2 --zero 2 --overlap --steps 4
    same $mlp --schedule zb-h2 --clip 0 --pp 2 --micro 4 --steps 4
    same $gpt --offload both --offload-delay 1 --precision bfloat16 --steps 3
    same --model cnn:nano --batch 1 --steps 1

    # The processor waits for the device once a step, and for what it computes itself.
    waits 1 0 $gpt
    waits 1 0 $mlp --graphs off
    waits 1 0 $mlp --offload activations
    waits 1 9 $mlp --offload optimizer

    # A step is one graph up to where the processor adds up, and one for the updates behind that; where the
    # processor has a part of it, and where it is not to be, it is none.
    replays 2 $gpt
    replays 2 $mlp --offload activations
    replays 0 $mlp --graphs off
    for graphs in on off; do
        rm -f "$scratch/shared"
        STUB_GPU=devices=1,memory=40960,share=$scratch/shared \
            "$train" $mlp --dp 2 --offload activations --steps 3 --device cuda --json --graphs $graphs |
            tail -1 | grep -o '"messages".*' >"$scratch/$graphs"
    done
    grep -q '"copies": 10' "$scratch/on" && cmp -s "$scratch/on" "$scratch/off" ||
        fail "messages and copies of a replay: $(cat "$scratch/on" "$scratch/off")"
    replays 0 $mlp --offload optimizer
    replays 0 $mlp --precision bfloat16 --rounding stochastic
    replays 0 --model moe:nano --data grammar --layers 1 --heads 2 --context 8 --batch 2

    # Products by cuBLAS have other bits, and factors the precision that is asked for.
    near 1e-5 $gpt --steps 3
    near 1e-5 $mlp --dp 2 --steps 4
    only_there=--tf32
    near 1e-2 $mlp --steps 4
    only_there=
    near 5e-2 $gpt --precision bfloat16 --steps 3

    # Tiles are measured once, and whatever is chosen changes no bit.
    rm -f "$scratch/tiles"
    only_there="--tune $scratch/tiles"
    same $gpt --steps 3
    grep -q '^product ' "$scratch/tiles" && grep -q '^end [1-9]' "$scratch/tiles" ||
        fail "--tune: $(cat "$scratch/tiles")"
    cp "$scratch/tiles" "$scratch/measured"
    same $gpt --steps 3
    only_there=
    cmp -s "$scratch/tiles" "$scratch/measured" || fail "--tune: what was known was measured again"
    sed 's/^device .*/device Another/' "$scratch/measured" >"$scratch/tiles"
    fails_with 'this was measured on Another, and this device is Stub' '^ *[0-9]' "$train" $gpt \
        --device cuda --tune "$scratch/tiles"

    # A trace has the device's times: no instruction, the one that waits for all before it neither, takes as
    # long as half of them; and what ran beside the list has rows of its own.
    STUB_GPU=memory=40960,delay=2000 "$train" $mlp --offload activations --device cuda --quiet \
        --trace "$scratch/trace" >"$scratch/out" 2>"$scratch/said" || fail "--trace: $(cat "$scratch/said")"
    sed -n 's/.*"tid": 1,.*"dur": \([0-9.]*\).*/\1/p' "$scratch/trace" |
        awk '{ all += $1; most = $1 > most ? $1 : most }
             END { exit !(NR > 50 && 2 * most < all) }' ||
        fail "the device's times: $(cat "$scratch/trace")"
    [ "$(grep -c '"tid": 2,.*"dur"' "$scratch/trace")" -eq 20 ] || fail "copies: $(cat "$scratch/trace")"
    grep -q '"args": {"name": "copies"}' "$scratch/trace" || fail "the row of copies has no name"

    # Profilers see each instruction as a range, in the order of the list: in the first step, and when it is
    # kept as graphs, each of which is then a range in each step.
    TRAIN_STUB_RANGES=$scratch/ranges "$train" $mlp --device cuda --quiet --steps 3 >"$scratch/out" \
        2>"$scratch/said" || fail "ranges: $(cat "$scratch/said")"
    "$train" explain $mlp --device cuda --tape 0 | sed '1,/^tape of/d' | cut -c 14-56 |
        awk 'NF { print $1, $2 }' >"$scratch/list"
    sed -n 'n;p' "$scratch/ranges" | grep -vxq 'end of it' && fail "ranges: $(cat "$scratch/ranges")"
    sed -n 'p;n' "$scratch/ranges" | grep -v ^replay >"$scratch/begun"
    [ -s "$scratch/list" ] && cat "$scratch/list" "$scratch/list" | cmp -s - "$scratch/begun" ||
        fail "ranges: $(cat "$scratch/begun")"
    [ "$(grep ^replay "$scratch/ranges" | tr -dc '0-9')" = 0101 ] || fail "ranges: $(cat "$scratch/ranges")"

    # The plan has the device's memory by kind, as much as the run takes, and what kernels have beside it.
    "$train" explain $gpt --device cuda --offload optimizer >"$scratch/out" || fail "explain: no memory"
    grep -q '^device memory of rank 0, bytes' "$scratch/out" &&
        grep -q '^host memory of rank 0, bytes' "$scratch/out" &&
        grep -q "^  kernels' own *16777216 beside it" "$scratch/out" || fail "explain: $(cat "$scratch/out")"

    # Ranks that are threads have the bits of processes.
    only_there='--ranks-as threads'
    same $mlp --dp 2 --steps 3
    same $gpt --tp 2 --sp --micro 2 --steps 3
    same $mlp --dp 2 --zero 3 --overlap --steps 3
    same $mlp --dp 2 --tp 2 --offload both --steps 3
    same $gpt --cp 2 --cp-attention ring --steps 3
    same $llama --dp 2 --cp 2 --steps 3
    same $mlp --pp 2 --micro 4 --steps 3
    same $mlp --dp 2 --pp 2 --micro 2 --schedule interleaved --chunks 2 --steps 3
    same $mlp --pp 2 --micro 40 --batch 40 --schedule gpipe --steps 1 # more sends than wait at once
    only_there=

    # compare has rows of devices, each with the golden program's bits, beside one of the processor; and says
    # where they ran in each of its forms.
    compares "-n 2 $mlp --layers 2 --batch 1 --steps 3" --json
    if command -v python3 >/dev/null 2>&1; then
        python3 "$(dirname "$0")/compare_json.py" "$scratch/out" >"$scratch/said" ||
            fail "compare --json: $(cat "$scratch/said")"
    fi
    row='.*"name": "\([^"]*\)", .*"device": "\([^"]*\)".* "equal": true.* "exposed": [0-9].*'
    rows=$(sed -n "s/$row/\1: \2,/p" "$scratch/out")
    [ "$(echo "$rows" | head -4 | tr '\n' ' ')" = \
        'one device: Stub, the processor: host, tensor parallel: Stub, tensor + sp: Stub, ' ] ||
        fail "compare: rows $rows"
    compares "zero 1 2 -n 2 $mlp --layers 2 --batch 2 --steps 3" --markdown --html "$scratch/page"
    grep -q '^| ZeRO 1 .* equal ' "$scratch/out" &&
        grep -q '^# ranks compute on 1 device, a Stub$' "$scratch/out" ||
        fail "compare --markdown: $(cat "$scratch/out")"
    grep -q ', 3 steps with AdamW, on 1 device, a Stub\.' "$scratch/page" ||
        fail "compare --html: $(grep -o '<p>.*' "$scratch/page" | head -2)"
    compares "server ring --workers 2 $mlp --layers 2 --batch 2 --steps 4" # bytes are counted
    stub_gpu=memory=1
    compares "-n 2 $mlp --layers 2 --batch 2 --steps 3"
    grep -q ' data parallel .* not run ' "$scratch/out" &&
        grep -q ' the processor .* equal ' "$scratch/out" &&
        grep -q '^# left out, data parallel: .* of its device it may have 524288, .* on the host$' \
            "$scratch/out" ||
        fail "compare without memory: $(cat "$scratch/out")"
    compares "async server -n 2 $mlp --layers 2 --batch 2 --steps 3"
    grep -q '^# left out, server, asynchronous: servers that take pushes' "$scratch/out" ||
        fail "compare async: $(cat "$scratch/out")"

    # What cannot be is refused before a step.
    begun='^ *[0-9]'
    fails_with 'there is no device: STUB_GPU has devices=0' "$begun" env STUB_GPU=devices=0 "$train" $mlp \
        --device cuda
    fails_with 'rank 0 has no device' "$begun" env TUTTI_DEVICE_LIBRARY=/nowhere "$train" $mlp \
        --device cuda
    fails_with 'of its device it may have 1048576' "$begun" env STUB_GPU=memory=1 "$train" $mlp --device cuda
    fails_with 'peaks are parameters' "$begun" env STUB_GPU=memory=1 "$train" $mlp --device cuda
    fails_with 'legal is --device host, or no --kernels' "$begun" "$train" $mlp --device cuda \
        --kernels generic
    fails_with 'needs cuBLAS on a device, and /nowhere cannot be loaded' "$begun" \
        env TRAIN_STUB_CUBLAS=/nowhere "$train" $mlp --device cuda --order free
    fails_with 'legal is --order canonical' "$begun" env TRAIN_STUB_CUBLAS=/nowhere "$train" $mlp \
        --device cuda --order free
    fails_with 'legal with --order free' "$begun" "$train" $mlp --device cuda --tf32
    fails_with 'legal with --device cuda' "$begun" "$train" $mlp --tf32 --order free
    fails_with 'legal with --device cuda' "$begun" "$train" $mlp --tune "$scratch/tiles"
    fails_with 'legal is one of both' "$begun" env TRAIN_STUB_CUBLAS=$stand_in "$train" $mlp --device cuda \
        --order free --tune "$scratch/tiles"
    fails_with 'one by one have no place on devices' "$begun" "$train" $mlp --device cuda --dp 2 --servers 1 \
        --server-mode async
    fails_with 'layers are measured on the processor' "$begun" "$train" $mlp --device cuda --pp 2 \
        --balance measured
    fails_with 'legal are host and cuda' "$begun" "$train" $mlp --device gpu
    fails_with 'is for train, explain, verify, compare and sample' "$begun" "$train" plan --device cuda

    fails_with 'legal is -n 2 without it' "$begun" env RANK=0 "$train" $mlp --dp 2 --ranks-as threads
    fails_with 'legal is --ranks-as processes' "$begun" "$train" $mlp --dp 2 --servers 1 --ranks-as threads
    fails_with 'is an option of train' "$begun" "$train" explain $mlp --dp 2 --ranks-as threads

    # Threads end together: for one that fails, whose instruction is named, and for a signal that asks.
    fails_with 'kernels cuda: host_call: told to fail' '^ *1' env STUB_GPU=fail=host_call:160:broken \
        timeout 20 "$train" $mlp --device cuda --dp 2 --ranks-as threads
    "$train" --model mlp:nano --dp 2 --ranks-as threads --steps 1000000 --save "$scratch/asked" \
        >"$scratch/out" 2>&1 &
    asked=$!
    until grep -q '^ *1 ' "$scratch/out"; do
        sleep 0.1
    done
    kill -TERM $asked
    wait $asked
    [ $? -eq 143 ] && [ -s "$scratch/asked" ] ||
        fail "threads that a signal asks to end: $(tail -3 "$scratch/out")"

    # A start that fails names its instruction.
    fails_with 'instruction ' '^ *1' env STUB_GPU=fail=host_call:60:broken "$train" $mlp --device cuda
    fails_with 'kernels cuda: host_call: told to fail' '^ *1' env STUB_GPU=fail=host_call:60:broken "$train" \
        $mlp --device cuda
}

# What fails behind its start shows where the processor waits, and in no other words.
for before in 2 7; do
    # shellcheck disable=SC2086 # options are words
    last=$(counted 5 $mlp | cut -d' ' -f1)
    # shellcheck disable=SC2086
    fails_with 'something that was begun in this step failed later: kernels cuda: stream_sync' '^ *4' \
        env STUB_GPU=memory=40960,fail=stream_sync:$((last - before)):broken "$train" $mlp \
        --device cuda --steps 5
done

# ranks WORDS0 WORDS1 STUB0 STUB1: two ranks, which some launcher started, each with its own device to see;
# each ends with its words, within two seconds of the other.
ranks()
{
    rm -f "$scratch/shared" "$scratch/id"
    : >"$scratch/said0"
    : >"$scratch/said1"
    "$info" id >"$scratch/id" &
    holder=$!
    while [ ! -s "$scratch/id" ]; do
        sleep 0.1
    done
    for rank in 0 1; do
        [ $rank -eq 0 ] && more=$3 || more=$4
        # shellcheck disable=SC2086 # options are words
        TUTTI_ID=$(cat "$scratch/id") TUTTI_SIZE=2 TUTTI_RANK=$rank \
            STUB_GPU=memory=40960,share=$scratch/shared$more "$train" $mlp --dp 2 --device cuda \
            >"$scratch/out$rank" 2>"$scratch/said$rank" && : >"$scratch/good$rank" &
    done
    tries=0
    while ! grep -q '^tutti-train:' "$scratch/said0" && ! grep -q '^tutti-train:' "$scratch/said1" &&
        [ $tries -lt 600 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    tries=0
    while ! { grep -q '^tutti-train:' "$scratch/said0" && grep -q '^tutti-train:' "$scratch/said1"; } &&
        [ $tries -lt 20 ]; do
        sleep 0.1
        tries=$((tries + 1))
    done
    kill "$holder"
    grep -q -- "$1" "$scratch/said0" || fail "rank 0 of ranks $3 and $4: $(cat "$scratch/said0")"
    grep -q -- "$2" "$scratch/said1" || fail "rank 1 of ranks $3 and $4: $(cat "$scratch/said1")"
    [ ! -f "$scratch/good0" ] && [ ! -f "$scratch/good1" ] || fail "ranks $3 and $4: taken"
    wait
}
ranks 'rank 1 a Stub of 4; legal are devices of one kind' 'legal are devices of one kind' '' ,sms=4
ranks 'rank 1 died' 'instruction .* kernels cuda: host_call: told to fail' '' ,fail=host_call:60:broken
ranks 'rank 1 died\|for a rank that has ended' 'graph_launch: told to fail' '' ,fail=graph_launch:1:broken
ranks 'rank 1 died' 'is broken\|told to fail' '' ,fail=copy:40:broken

# A text is that of the processor.
# shellcheck disable=SC2086 # options are words
"$train" $gpt --quiet --save "$scratch/learned" >"$scratch/out" 2>"$scratch/said" ||
    fail "a model to go on with a text: $(cat "$scratch/said")"
for mesh in '--device host' '--device cuda' '--device cuda --tp 2'; do
    rm -f "$scratch/shared"
    # shellcheck disable=SC2086 # options are words
    STUB_GPU=devices=1,memory=40960,share=$scratch/shared "$train" sample --load "$scratch/learned" --quiet \
        --prompt '  ' --tokens 6 --temperature 2 $mesh >"$scratch/text" 2>"$scratch/said" ||
        fail "sample $mesh: $(cat "$scratch/said")"
    [ "$mesh" != '--device host' ] || cp "$scratch/text" "$scratch/expected"
    cmp -s "$scratch/text" "$scratch/expected" || fail "sample $mesh: another text"
done
[ "$(wc -c <"$scratch/expected")" -eq 9 ] || fail "a text has $(wc -c <"$scratch/expected") bytes, not 9"

# All paradigms, and many of their products.
rm -f "$scratch/shared"
STUB_GPU=devices=2,memory=20480,share=$scratch/shared "$train" verify --quick --device cuda >"$scratch/out" \
    2>"$scratch/said" || fail "verify: $(grep -a '^DIFFER' "$scratch/out") $(cat "$scratch/said")"
grep -q '^46 of 46 configurations are equal' "$scratch/out" || fail "verify: $(tail -1 "$scratch/out")"
[ "$failures" -eq 0 ]
