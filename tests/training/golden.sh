#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# golden.sh: the golden programs of training/reference are right: their gradients are those of central
# differences, float32 agrees with float64, and the bits are those of golden.txt, with any compiler.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
here=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
[ -d "$here/tests/training" ] || here=$(dirname "$(dirname "$here")")
golden=$here/tests/training/golden.txt
gpt=training/reference/gpt
mlp=training/reference/mlp
cnn=training/reference/cnn
moe=training/reference/moe
llama=training/reference/llama

small="layers=1 channels=64 heads=4 context=16 batch=3"
for model in "tied=1 vocab=70" "tied=0 vocab=33 layers=2" "tied=1 vocab=33 stripes=1" \
    "tied=1 vocab=33 dropout=0.2"; do
    # shellcheck disable=SC2086
    ${gpt}64 $small $model check=64 >"$scratch/said" || fail "$model: $(tail -n 1 "$scratch/said")"
    tensors=$(grep -c ' 64 elements: ' "$scratch/said")
    case $model in
    tied=1*) [ "$tensors" -eq 16 ] || fail "$tensors tensors were checked where there are 16" ;;
    *) [ "$tensors" -eq 29 ] || fail "$tensors tensors were checked where there are 29" ;;
    esac
done

for model in "layers=4 tensors=9" "layers=3 classes=100 inputs=7 tensors=7" \
    "layers=1 inputs=1 classes=2 tensors=3"; do
    # shellcheck disable=SC2086
    ${mlp}64 batch=3 check=64 ${model% *} >"$scratch/said" || fail "mlp $model: $(tail -n 1 "$scratch/said")"
    tensors=$(grep -c ' 64 elements: ' "$scratch/said")
    [ "$tensors" -eq "${model##*=}" ] || fail "mlp $model: $tensors tensors were checked"
done

for model in "layers=2 batch=2 tensors=5" "layers=3 norm=1 classes=16 batch=1 tensors=13" \
    "layers=1 norm=1 groups=1 size=16 classes=2 batch=1 tensors=5"; do
    # shellcheck disable=SC2086
    ${cnn}64 check=64 ${model% *} >"$scratch/said" || fail "cnn $model: $(tail -n 1 "$scratch/said")"
    tensors=$(grep -c ' 64 elements: ' "$scratch/said")
    [ "$tensors" -eq "${model##*=}" ] || fail "cnn $model: $tensors tensors were checked"
done

for model in "layers=1 vocab=70 tensors=17" "layers=1 vocab=33 dropout=0.2 tensors=17" \
    "layers=2 vocab=33 tied=0 top=1 experts=5 capacity=1 balance=0.1 tensors=31"; do
    # shellcheck disable=SC2086
    ${moe}64 context=16 batch=2 check=16 ${model% *} >"$scratch/said" ||
        fail "moe $model: $(tail -n 1 "$scratch/said")"
    tensors=$(grep -c ' 16 elements: ' "$scratch/said")
    [ "$tensors" -eq "${model##*=}" ] || fail "moe $model: $tensors tensors were checked"
done

for model in "layers=2 vocab=70 tensors=15" "layers=2 vocab=33 dropout=0.2 tensors=15" \
    "layers=1 vocab=33 kv=4 stripes=1 tensors=9" \
    "layers=1 vocab=33 channels=128 heads=8 kv=2 hidden=64 parts=2 tensors=9"; do
    # shellcheck disable=SC2086
    ${llama}64 context=16 batch=2 check=16 ${model% *} >"$scratch/said" ||
        fail "llama $model: $(tail -n 1 "$scratch/said")"
    tensors=$(grep -c ' 16 elements: ' "$scratch/said")
    [ "$tensors" -eq "${model##*=}" ] || fail "llama $model: $tensors tensors were checked"
done

# The loss of the first step in both precisions: what a float32 can hold.
for each in $gpt $mlp $cnn $moe $llama; do
    for precision in "" 64; do
        "$each$precision" steps=1 | awk '{ print $4 }'
    done | awk 'NR == 1 { a = $1 } NR == 2 { d = (a - $1) / $1; exit d > 1e-6 || d < -1e-6 }' ||
        fail "$each: float32 and float64 give another loss"
done

# And in bfloat16 as in float32: what its 8 bits can hold, since every rounding goes to the nearest.
for each in $gpt $mlp $cnn $moe $llama; do
    for precision in 0 1; do
        "$each" steps=1 bf16=$precision | awk '{ print $4 }'
    done | awk 'NR == 1 { a = $1 } NR == 2 { d = (a - $1) / $1; exit d == 0 || d > 1e-3 || d < -1e-3 }' ||
        fail "$each: float32 and bfloat16 give a loss that is the same, or far off"
done

# Bits. "model" lines name the options of gpt, others those of the program that they name, the lines below
# what they must print.
while read -r first rest; do
    if [ "$first" = model ] || [ "$first" = mlp ] || [ "$first" = cnn ] || [ "$first" = moe ] ||
        [ "$first" = llama ]; then
        [ "$first" = model ] && program=$gpt || program=training/reference/$first
        # shellcheck disable=SC2086
        $program $rest >"$scratch/said" || fail "$first $rest: exit status $?"
        model=$first\ $rest
    elif [ "$first" = step ] || [ "$first" = eval ]; then
        grep -Fqx "$first $rest" "$scratch/said" || fail "$model: not \"$first $rest\""
    fi
done <"$golden"

# What is wrong is said, and what would be legal.
for wrong in dropout=1 dropout=-0.1 channels=100 context=12 heads=5 vocab=1 batch=0 colour=1 layers; do
    if $gpt $wrong >/dev/null 2>"$scratch/said"; then
        fail "$wrong was taken"
    elif ! grep -q 'must be\|KEY=VALUE' "$scratch/said"; then
        fail "$wrong: $(cat "$scratch/said")"
    fi
done
for wrong in width=100 inputs=0 classes=1 layers=0 batch=0 colour=1 layers; do
    if $mlp $wrong >/dev/null 2>"$scratch/said"; then
        fail "mlp $wrong was taken"
    elif ! grep -q 'must be\|KEY=VALUE' "$scratch/said"; then
        fail "mlp $wrong: $(cat "$scratch/said")"
    fi
done
for wrong in channels=100 size=12 size=0 classes=1 classes=17 groups=0 groups=7 split=3 layers=0 batch=0 \
    colour=1 layers; do
    if $cnn $wrong >/dev/null 2>"$scratch/said"; then
        fail "cnn $wrong was taken"
    elif ! grep -q 'must be\|KEY=VALUE' "$scratch/said"; then
        fail "cnn $wrong: $(cat "$scratch/said")"
    fi
done
for wrong in dropout=1 channels=100 context=12 heads=5 vocab=1 batch=0 experts=0 top=9 micros=3 colour=1 \
    layers; do
    if $moe $wrong >/dev/null 2>"$scratch/said"; then
        fail "moe $wrong was taken"
    elif ! grep -q 'must be\|KEY=VALUE' "$scratch/said"; then
        fail "moe $wrong: $(cat "$scratch/said")"
    fi
done
for wrong in dropout=1 channels=100 context=12 heads=5 heads=64 kv=3 kv=1 hidden=100 vocab=1 batch=0 \
    parts=3 colour=1 layers; do
    if $llama $wrong >/dev/null 2>"$scratch/said"; then
        fail "llama $wrong was taken"
    elif ! grep -q 'must be\|KEY=VALUE' "$scratch/said"; then
        fail "llama $wrong: $(cat "$scratch/said")"
    fi
done
printf 'abc' >"$scratch/short"
$gpt data="$scratch/short" 2>"$scratch/said" && fail "a corpus of three bytes was taken"
grep -q 'needs at least 65' "$scratch/said" || fail "a corpus of three bytes: $(cat "$scratch/said")"

[ "$failures" -eq 0 ] && echo "golden: gradients, precision and bits are as they should be"
exit "$failures"
