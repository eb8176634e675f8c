#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# checkpoint.sh: a run that is cut in two, with another mesh for the second half, is the run that was not cut:
# bit for bit, whatever the meshes. A file that is not whole, or not of this run, is refused; a kill at any
# moment leaves a file that can be read.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
gpt=$PWD/training/reference/gpt
mlp=$PWD/training/reference/mlp
old=$(cd "$(dirname "$0")" && pwd)/checkpoint_v2.bin
cd "$scratch" || exit 1

# lines: the steps of a run, as the golden program prints them.
lines()
{
    grep '^step' "$1" | cut -d ' ' -f 1-8
}

# save FILE STEPS OPTIONS...
save()
{
    file=$1 steps=$2
    shift 2
    "$train" --hex --data grammar --steps "$steps" --save "$file" "$@" >out 2>said ||
        fail "--save with $*: $(cat said)"
}

# goes_on FILE GOLDEN OPTIONS...: steps 3 to 5 are the last three lines of GOLDEN.
goes_on()
{
    file=$1 golden=$2
    shift 2
    "$train" --hex --data grammar --steps 6 --load "$file" "$@" >out 2>said ||
        fail "--load with $*: $(cat said)"
    lines out >got
    tail -n 3 "$golden" | cmp -s - got || fail "from $file, $*: $(cat got), not $(tail -n 3 "$golden")"
}

# refused WORDS OPTIONS...: the options are refused, in these words, before a step ran.
refused()
{
    why=$1
    shift
    fails_with "$why" '^step' "$train" --hex --data grammar --steps 6 "$@"
}

# --- one run, cut in two, on any meshes
"$gpt" steps=6 >golden
save first 3 --dp 2 --tp 2 --zero 1
goes_on first golden
goes_on first golden --tp 2 --pp 2 --micro 2
goes_on first golden --dp 4 --zero 3
goes_on first golden --dp 2 --zero 3 --zero3-persist 200
goes_on first golden --dp 2 --servers 2
goes_on first golden --dp 2 --zero 2 --micro 2 --pp 2 --schedule gpipe
goes_on first golden --tp 2 --sp --dp 2

# The file knows no mesh: all write the same bytes.
for mesh in '--tp 1' '--dp 4 --zero 3' '--tp 2 --pp 2 --micro 2 --sp' '--dp 2 --pp 2 --zero 2'; do
    # shellcheck disable=SC2086 # words
    save other 3 $mesh
    cmp -s first other || fail "another file with $mesh"
done

# What is padding on some meshes, and a head of its own; SGD, which has neither m nor v.
"$gpt" steps=6 vocab=257 tied=0 >golden257
save untied 3 --vocabulary 257 --untied --tp 4 --sp
goes_on untied golden257 --vocabulary 257 --untied --dp 2 --zero 3
goes_on untied golden257 --vocabulary 257 --untied --pp 2
"$gpt" steps=6 sgd=1 lr=0.1 >golden_sgd
save sgd 3 --optimizer sgd --rate 0.1 --pp 2 --tp 2
goes_on sgd golden_sgd --optimizer sgd --rate 0.1 --dp 2 --zero 3
[ "$(wc -c <sgd)" -lt $(($(wc -c <first) / 2)) ] || fail "SGD's file is as large as AdamW's"

# A gradient that waits for the next step is a part of the state, and so is the norm that will clip it.
"$gpt" steps=6 delay=1 clip=0.3 >golden_delay
save delayed 3 --offload optimizer --offload-delay 1 --clip 0.3 --dp 2 --zero 1
goes_on delayed golden_delay --offload both --offload-delay 1 --clip 0.3
goes_on delayed golden_delay --offload optimizer --offload-delay 1 --clip 0.3 --tp 2 --pp 2 --micro 2
refused 'delayed has a gradient that waits (--offload-delay 1), and this run has none; legal is' \
    --load delayed --clip 0.3
refused 'first has no gradient that waits (--offload-delay 1), and this run has one; legal is to leave' \
    --load first --offload optimizer --offload-delay 1

# uncut FILE STEPS OPTIONS...: saved in FILE is what a run has that was cut after half of the steps.
uncut()
{
    resumed=$1 all=$2
    shift 2
    save uncut "$all" "$@"
    save half $((all / 2)) "$@"
    save "$resumed" "$all" --load half "$@"
    cmp -s uncut "$resumed" || fail "cut in two, $* ends in another state"
}

# In bfloat16 what waits is bfloat16, and masters are rounded by chance as if nothing had been cut.
uncut mixed 4 --offload optimizer --offload-delay 1 --precision bfloat16 --rounding stochastic --dp 2 --zero 2

# An asynchronous pipeline drains at the end of a step; the file counts its updates, of which a step makes 4.
for versions in stash two newest; do
    uncut apart 4 --untied --clip 0 --async $versions --pp 2 --micro 4
done
refused 'after 16 updates, and a step of this one makes 3, of which it may not begin in the middle' \
    --load apart --untied --clip 0 --async newest --pp 2 --micro 3 --batch 6
"$train" --hex --data grammar --steps 18 --load apart --untied --clip 0 --batch 2 >out 2>said ||
    fail "an asynchronous run's file: $(cat said)"
grep -q '^# apart: goes on after 16 steps$' out || fail "not 16 updates of 2 sequences: $(cat out)"

# A file that goes on is as good as one that was never cut.
"$train" --hex --data grammar --steps 6 --load first --save whole --tp 2 >out 2>said ||
    fail "on and saved: $(cat said)"
save uncut 6 --dp 2
cmp -s whole uncut || fail "a run that was cut ends in another state"
"$train" --hex --data grammar --steps 6 --load first --batch 16 >out 2>said ||
    fail "another batch: $(cat said)"
grep -q '^# first: goes on after 3 steps; the batch was 8$' out ||
    fail "another batch is not said: $(cat out)"

# What may change is told, if it did: the data by what it has, and not by where it lies.
seq 1 2000 >numbers
seq 1 2001 >longer
mkdir -p elsewhere
cp numbers elsewhere/numbers
moe="--model moe:nano --batch 2 --steps"
# told WORDS OPTIONS...: of a run that goes on.
told()
{
    words=$1
    shift
    "$train" "$@" >out 2>said || fail "$*: $(cat said)"
    grep -qxF -- "# learned: goes on after 1 steps$words" out || fail "$*: not \"$words\" but: $(cat out)"
}
# shellcheck disable=SC2086 # words
{
    "$train" $moe 1 --data numbers --capacity-factor 1 --save learned >out 2>said || fail "moe: $(cat said)"
    told '' $moe 2 --load learned --data elsewhere/numbers --capacity-factor 1 --tp 2
    told '; the data was numbers, 8893 tokens' $moe 2 --load learned --data longer --capacity-factor 1
    told '; the capacity factor was 1; the auxiliary loss was 0; the precision was float32' $moe 2 \
        --load learned --data numbers --capacity-factor 2 --aux-loss 0.1 --precision bfloat16
    printf 'X' | dd of=numbers bs=1 seek=100 conv=notrunc 2>/dev/null
    told '; the data was numbers, 8893 tokens, and they are others now' $moe 2 --load learned --data numbers \
        --capacity-factor 1
    falls='--data grammar --rate-schedule cosine'
    "$train" $falls --steps 1 --warmup 1 --rate-min 0.0001 --save learned >out 2>said ||
        fail "a rate that falls: $(cat said)"
    told '' $falls --steps 2 --warmup 1 --rate-min 0.0001 --rate-steps 1 --load learned --dp 2
    told '; the rate went by --rate-schedule cosine --warmup 1 --rate-steps 1 --rate-min 0.0001' \
        $falls --steps 2 --warmup 1 --rate-min 0.0001 --load learned
    told '; the rate went by --rate-schedule cosine --warmup 1 --rate-steps 1 --rate-min 0.0001' \
        --data grammar --steps 2 --load learned
    told '; the rate went by --rate-schedule cosine --warmup 1 --rate-steps 1 --rate-min 0.0001' \
        $falls --steps 2 --warmup 1 --rate-min 0.0002 --rate-steps 1 --load learned
    "$train" --data grammar --steps 1 --save learned >out 2>said || fail "constant: $(cat said)"
    told '; the rate went by --rate-schedule constant --warmup 0' --data grammar --steps 2 --warmup 1 \
        --load learned
    told '; the dropout was 0' --data grammar --steps 2 --load learned --dropout 0.1
    "$train" --data grammar --steps 1 --dropout 0.1 --save learned >out 2>said || fail "dropout: $(cat said)"
    told '' --data grammar --steps 2 --dropout 0.1 --load learned --tp 2
    told '; the dropout was 0.1' --data grammar --steps 2 --dropout 0.2 --load learned
    told '; the dropout was 0.1' --data grammar --steps 2 --load learned
}

# The initial values are those of --steps 0, and a run from them is the run.
"$train" --data grammar --steps 0 --save initial --dp 2 >out 2>said || fail "--steps 0: $(cat said)"
grep -qx '# saved initial after 0 steps' out || fail "--steps 0: $(cat out)"
"$train" --hex --data grammar --steps 6 --load initial --tp 2 >out 2>said ||
    fail "from initial values: $(cat said)"
lines out | cmp -s - golden || fail "from initial values: $(cat out), not $(cat golden)"

# A file of version 2, by the program of that time, after 2 steps.
"$mlp" steps=4 layers=1 inputs=2 classes=2 sgd=1 lr=0.1 >golden_old
goes_on_old='--model mlp:nano --layers 1 --inputs 2 --vocabulary 2 --optimizer sgd --lr 0.1'
# shellcheck disable=SC2086 # words
"$train" --hex $goes_on_old --steps 4 --load "$old" --dp 2 >out 2>said || fail "version 2: $(cat said)"
grep -qx "# $old: goes on after 2 steps" out || fail "version 2 says: $(cat out)"
lines out >got
tail -n 2 golden_old | cmp -s - got || fail "version 2: $(cat out), not $(cat golden_old)"

# With three layers the table of parameters is so long that arrays lie elsewhere in version 2.
if command -v python3 >/dev/null 2>&1; then
    "$gpt" steps=6 layers=3 >golden3
    save three 3 --layers 3 --dp 2
    for version in 2 3 4; do
        python3 "$(dirname "$old")/older_checkpoint.py" three older $version >out ||
            fail "no version $version"
        moved=$(sed 's/arrays moved by //' out)
        [ $version -ne 2 ] || [ "$moved" -eq 4096 ] || fail "version 2 has its arrays where 5 has them"
        goes_on older golden3 --layers 3 --tp 2
        rates=' --rate-schedule constant --warmup 0'
        [ $version -eq 4 ] && rates="; the rate went by$rates" || rates=
        "$train" --data grammar --steps 4 --layers 3 --load older --warmup 1 --dropout 0.1 >out 2>said ||
            fail "version $version goes on otherwise: $(cat said)"
        grep -qxF -- "# older: goes on after 3 steps$rates" out ||
            fail "version $version says what it has not, or not what it has: $(cat out)"
    done
else
    echo "skipped: an older file of many parameters (no python3)"
fi

# --- what does not fit, is cut, damaged, foreign
refused 'layers 4, and this one has 2; legal is --layers 4' --load first --layers 2
refused 'vocabulary 256, and this one has 257' --load first --vocabulary 257
refused 'seed 1, and this one has 2; legal is --seed 1' --load first --seed 2
refused 'is of optimizer adamw, and this run has sgd; legal is --optimizer adamw' --load first --optimizer sgd
refused 'has a tied head' --load first --untied
refused 'after 6 steps' --load whole
refused 'cannot be read: No such file' --load nothing
refused 'is not a file' --load .
refused 'no checkpoint of tutti-train' --load golden
: >empty
refused 'no checkpoint of tutti-train' --load empty
for bytes in 8 100 500 5000 100000 $(($(wc -c <first) - 1)); do
    head -c "$bytes" first >cut
    refused "is cut: it has $bytes bytes" --load cut --dp 2
done
printf 'x' | cat first - >long
refused 'checksum of its head is wrong' --load long

# changed AT: first, with another byte there.
changed()
{
    cp first damaged
    byte=$(tail -c "+$(($1 + 1))" first | head -c 1 | od -An -to1 | tr -d ' ')
    printf "\\$(printf %o $((0$byte ^ 1)))" | dd of=damaged bs=1 seek="$1" conv=notrunc 2>/dev/null
}
for at in 8 64 240 312 336 1000; do
    changed $at
    refused 'checksum of its head is wrong' --load damaged
done
changed 9
refused 'is of version 261; legal are 2 to 5' --load damaged
changed 20000
"$train" --hex --data grammar --steps 6 --load damaged --dp 2 --zero 1 >out 2>said &&
    fail "a damaged file is taken"
grep -q 'damaged is damaged: the checksum of [a-z0-9]* of [a-z0-9.]* is wrong' said ||
    fail "a damaged array: $(cat said)"
changed $(($(wc -c <first) - 2))
refused 'the checksum of v of lnf.bias is wrong' --load damaged --tp 2 --pp 2

"$train" --data grammar --steps 5 --save every --save-every 2 >out 2>said || fail "--save-every: $(cat said)"
[ "$(grep -c '^# saved' out)" -eq 3 ] && [ "$(grep -c '^# saved every after [245] steps$' out)" -eq 3 ] ||
    fail "--save-every 2 is not after 2, 4 and 5 steps: $(grep '^# saved' out)"

refused 'is not a file' --save .
refused 'cannot be written' --save nowhere/file
refused 'legal are whole numbers from 0, with --save FILE' --save-every 2

# --- a kill at any moment: the file is the one before or the one after, whole
cp first kept
for delay in 0.02 0.11 0.23 0.31; do
    "$train" --hex --data grammar --steps 100000 --load kept --save kept --save-every 1 \
        --dp 2 --quiet >out 2>said &
    job=$!
    tries=0
    until grep -q '^step' out || [ $tries -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    sleep "$delay"
    kill -9 $job
    wait $job 2>/dev/null
    "$train" --hex --data grammar --steps 100000 --load kept --memory 1K >out 2>said
    grep -q 'needs .* bytes' said || fail "after a kill: $(cat said)"
done
done=$("$train" --hex --data grammar --steps 1 --load kept 2>&1 | sed -n 's/.* after \([0-9]*\) steps.*/\1/p')
[ "${done:-0}" -gt 3 ] || fail "nothing was saved before the kills"
"$train" --hex --data grammar --steps $((done + 1)) --load kept >out 2>said || fail "after kills: $(cat said)"
"$gpt" steps=$((done + 1)) | tail -n 1 >got
lines out | cmp -s - got || fail "after kills: $(cat out), not $(cat got)"

# --- ^C: the step is finished on all ranks, and saved
# ask SIGNAL TO STATUS OPTIONS...: a signal to the program (job), to a rank, or, as a terminal does it, to
# all.
ask()
{
    signal=$1 to=$2 status=$3
    shift 3
    rm -f kept
    # sh ignores SIGINT for what runs behind it; env gives it back.
    env --default-signal=INT setsid "$train" --hex --data grammar --steps 100000 --save kept "$@" \
        >out 2>said &
    job=$!
    tries=0
    until grep -q '^step 2 ' out || [ $tries -ge 600 ]; do
        tries=$((tries + 1))
        sleep 0.1
    done
    case $to in
    job) kill -s "$signal" $job ;;
    rank) kill -s "$signal" "$(ps -o pid= --ppid $job | tail -n 1)" ;;
    all) kill -s "$signal" -- -$job ;;
    esac
    wait $job
    got=$?
    [ $got -eq "$status" ] || fail "$signal to $to, $*: exit status $got, not $status: $(cat said)"
}

# continued WORDS: that run said the words, and its file goes on as the golden program does.
continued()
{
    done=$(sed -n "s/^tutti-train: $1 after \([0-9]*\) of 100000 steps; --load kept goes on\$/\1/p" said)
    [ "${done:-0}" -ge 3 ] || fail "not \"$1 after ... steps\" but: $(cat said)"
    "$train" --hex --data grammar --steps $((${done:-0} + 1)) --load kept --tp 2 >out 2>said ||
        fail "after $1: $(cat said)"
    "$gpt" steps=$((${done:-0} + 1)) | tail -n 1 >golden1
    lines out | cmp -s - golden1 || fail "after $1: $(cat out), not $(cat golden1)"
}

ask INT job 130 --dp 2
continued 'ended by ^C'
ask INT all 130 --dp 2 --tp 2 --zero 1
continued 'ended by ^C'
ask TERM rank 143 --pp 2 --micro 2
continued 'ended by SIGTERM'
ask INT job 130
continued 'ended by ^C'

# Without --save it says that nothing was kept. Where ^C is ignored, as behind a shell, SIGTERM asks.
"$train" --hex --data grammar --steps 100000 --dp 2 >out 2>said &
job=$!
until grep -q '^step 1 ' out || ! kill -0 $job; do
    sleep 0.1
done
kill -s INT $job
sleep 0.5
kill -s TERM $job
wait $job
got=$?
[ $got -eq 143 ] || fail "SIGTERM where SIGINT is ignored: exit status $got: $(cat said)"
grep -q 'ended by SIGTERM .*; nothing is saved' said || fail "without --save: $(cat said)"

# A second ^C ends at once: here a step is so long that the first is not heard before.
env --default-signal=INT setsid "$train" --hex --data grammar --model gpt:micro --batch 2048 --micro 512 \
    --dp 2 --save kept >out 2>said &
job=$!
until grep -q '^# memory' out || ! kill -0 $job; do
    sleep 0.1
done
begun=$(date +%s)
kill -s INT $job
sleep 0.5
kill -s INT $job
wait $job
got=$?
[ $got -eq 130 ] || fail "a second ^C: exit status $got: $(cat said)"
[ $(($(date +%s) - begun)) -lt 10 ] || fail "a second ^C is not heard at once"
grep -q 'ended by' said && fail "a second ^C: the step was finished"

# No room on the disk: the old file stays, nothing else does.
cp first kept
(
    trap '' XFSZ
    ulimit -f 1000
    "$train" --hex --data grammar --steps 4 --load kept --save kept >out 2>said
) && fail "a file without room is taken"
grep -q 'kept.part: .* cannot be written\|kept.part cannot be written' said || fail "no room: $(cat said)"
cmp -s first kept || fail "no room: the old file has changed"
[ -e kept.part ] && fail "no room: the new file stays"

# --- a loss that is no number ends the run, and says where that began; what was saved before stays
for mesh in '--tp 1' '--dp 2 --zero 3' '--tp 2 --pp 2 --micro 2'; do
    rm -f kept
    # shellcheck disable=SC2086 # words
    "$train" --hex --data grammar --rate 1e30 --save kept --save-every 1 $mesh >out 2>said
    got=$?
    [ $got -eq 1 ] || fail "NaN with $mesh: exit status $got"
    words="step 1: the loss is nan and the gradient's norm nan; the first that is not finite is"
    words="$words layer0.qkv.sum, which has inf on rank 0, after column of micro-batch 0"
    grep -Fq "$words" said || fail "NaN with $mesh: $(cat said)"
    "$train" --hex --data grammar --steps 1 --load kept 2>&1 | grep -q 'after 1 steps' ||
        fail "NaN with $mesh is saved"
done

# --- replicas are compared; in a sound run they are alike
"$train" --hex --data grammar --steps 3 --check-replicas 1 --dp 2 --tp 2 >out 2>said ||
    fail "replicas: $(cat said)"
grep -q '^# replicas: 231 arrays are on several ranks, and compared every 1 steps$' out ||
    fail "replicas are not said: $(cat out)"
refused 'no two ranks have the same; legal with --server-mode sync' --check-replicas 1 --dp 2 --servers 1 \
    --server-mode async
refused '--check-replicas -1: legal are 0 to 1073741824' --check-replicas -1

[ "$failures" -eq 0 ] && echo "checkpoint: a run can be cut anywhere, and go on with any mesh, bit for bit"
exit "$failures"
