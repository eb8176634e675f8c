#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# exercise.sh: `tutti-train exercise`: answers follow from what the lists say and from what ran, whatever the
# model; and a rank of several threads has the bits of one.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
LC_ALL=C
export LC_ALL

# asked WORDS...: $scratch/out has the answer.
asked()
{
    "$train" exercise "$@" >"$scratch/out" 2>"$scratch/said" || fail "$*: $(cat "$scratch/said")"
}

# says TEXT...
says()
{
    for text; do
        grep -Fq -- "$text" "$scratch/out" || fail "no \"$text\" in: $(cat "$scratch/out")"
    done
}

# --- 7-1: of gpt:nano 452608 bytes of parameters on a rank of two, so 905216 of m and v; 7666688 in all.
asked 7-1
says 'A rank may have 7214080 bytes' 'That are 905216 bytes of a rank, 2 times its' 'SGD keeps neither.' \
    '452608 more than the limit' \
    'of three cures 3 fit and ran'
[ "$(grep -c ' fits .* equal to one device$' "$scratch/out")" -eq 4 ] ||
    fail "7-1: not four fit and are equal"
grep -q '^tp 2, Adam .* 905216 .* 7666688  too big -  *not run$' "$scratch/out" ||
    fail "7-1: Adam is not refused"
# With another limit a cure may not be enough, and the answer says so; one that asks nothing is refused.
asked 7-1 --memory 7666687 --steps 3
says '1 more than the limit'
asked 7-1 --model mlp:nano --steps 3
says 'What helps:'
asked 7-1 --precision bfloat16 --steps 3
says 'That are 905216 bytes of a rank, 4 times its' 'both keep the float32 values'
fails_with 'legal is what lies between, as 7214080' '^tp 2' "$train" exercise 7-1 --memory 8M
fails_with 'legal is what lies between, as 7214080' '^tp 2' "$train" exercise 7-1 --memory 6M

# --- 7-2: the memory of two ranks, and the bits of three ways; times are of the machine.
asked 7-2 --model gpt:nano --steps 4
[ "$(grep -c ' times as fast .*same bits$' "$scratch/out")" -eq 3 ] ||
    fail "7-2: not three ways: $(cat "$scratch/out")"
says '15.4 MB of both ranks against 12.7 MB' '1.95 MB are sent in a step'
grep -q '^  1 rank x 2 threads .* 12.7 MB of memory  *0 B sent' "$scratch/out" ||
    fail "7-2: threads send, or have copies"
grep -Eq '^It (pays|does not pay) here|^This machine gives one core' "$scratch/out" || fail "7-2: no answer"

# --- claims: seven, of which each has numbers of this run.
asked claims
[ "$(grep -c '^"' "$scratch/out")" -eq 7 ] || fail "claims: not seven"
says 'and 0 bytes of parameters' 'the same to the last bit' '5852160 bytes in a step' \
    '25 % of them on a rank' \
    'gpt:1T' '1008 billion' 'those of 4'
fails_with 'claims are of a model with attention' '^"' "$train" exercise claims --model mlp:nano
fails_with '1f1b cannot be: ' '^"' "$train" exercise claims --layers 3

# --- A rank of several threads: the golden program's line, with any model, and beside other paradigms.
for options in "" "--model moe:nano" "--model cnn:nano" "--model mlp:nano" "--precision bfloat16" \
    "--channels 128 --context 128 --batch 16" "--recompute full --offload optimizer"; do
    # shellcheck disable=SC2086 # words
    one=$("$train" --hex --data grammar --steps 2 $options | tail -n 1)
    # shellcheck disable=SC2086
    many=$("$train" --hex --data grammar --steps 2 $options --threads 3 | tail -n 1)
    [ "$one" = "$many" ] || fail "--threads 3 $options: $many, and one thread has $one"
done
one=$("$train" --hex --data grammar --steps 2 | tail -n 1)
many=$("$train" --hex --data grammar --steps 2 --dp 2 --tp 2 --threads 2 | tail -n 1)
[ "$one" = "$many" ] || fail "--threads 2 --dp 2 --tp 2: $many"
fails_with 'legal are 1 to 64' '^step' "$train" --threads 65
fails_with '--threads 0' '^step' "$train" --threads 0

# --- What is wrong.
fails_with '7-3 is not known; legal are' '.' "$train" exercise 7-3
fails_with 'which exercise is not said' '.' "$train" exercise
fails_with '--tp 4 is no option of exercise' '.' "$train" exercise 7-1 --tp 4
fails_with 'legal are 3 and more' '.' "$train" exercise 7-2 --steps 2
fails_with 'legal with 7-1' '.' "$train" exercise claims --memory 8M
"$train" exercise --help | grep -q '7-1 .*SGD' || fail "--help"
"$train" exercise 7-1 --help | grep -q 'three cures' || fail "7-1 --help"

[ "$failures" -eq 0 ] && echo "exercise: questions are answered by what ran"
exit "$failures"
