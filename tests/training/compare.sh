#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# compare.sh: what `tutti-train compare` tells of each configuration: bytes are those of the closed formulas,
# memory is what was measured, the bits are one device's; a planted error is shown as different.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
LC_ALL=C
export LC_ALL
gpt=$PWD/training/reference/gpt
tests=$(cd "$(dirname "$0")" && pwd) || exit 1

# compared OPTIONS...: JSON in $scratch/out; all are equal, and all that is predicted was measured.
compared()
{
    "$train" compare "$@" --steps 3 --json >"$scratch/out" 2>"$scratch/said" ||
        fail "$*: $(cat "$scratch/said")"
    if command -v python3 >/dev/null 2>&1; then
        python3 "$tests/compare_json.py" "$scratch/out" >"$scratch/said" ||
            fail "$*: $(cat "$scratch/said" "$scratch/out")"
    fi
}

# has NAME TEXT..: the line of this configuration has all texts.
has()
{
    name=$1
    shift
    for text; do
        grep -F "\"name\": \"$name\"" "$scratch/out" | grep -Fq -- "$text" ||
            fail "$name: no $text in $(grep -F "\"name\": \"$name\"" "$scratch/out")"
    done
}

# refused WORDS OPTIONS...
refused()
{
    why=$1
    shift
    fails_with "$why" '.' "$train" compare "$@"
}

# All paradigms of four ranks. Of gpt:nano, 4 bytes a number, embedding twice: 947712 bytes of gradients,
# which four ranks reduce by 2 * 3 times as many. A tensor-parallel vector of tokens has 131072 bytes
# (4 * 8 * 64 * 64): 18 reductions, and 3 of 4 * 8 * 64, over 4 ranks. Over each of 3 borders go 131072
# bytes, there and back; the tied embedding of 65536 goes both ways; leaves are (8 * 64 + 53 * 512) * 6.
compared
[ "$(grep -c '"ran": true, "equal": true' "$scratch/out")" = 18 ] || fail "not 18 are equal"
[ "$(wc -l <"$scratch/out")" -eq 18 ] || fail "not 18 lines"
has "one device" '"sent_all": 0,' '"activations": 9377280' '"class": "A"'
has "data parallel" "\"dp\": $((6 * 947712))," "\"world\": $(((8 * 64 + 53 * 512) * 6))" '"class": "B"'
has "ZeRO 1" "\"dp\": $((3 * (947712 + 882176))),"
has "tensor parallel" "\"tp\": $((6 * (18 * 131072 + 3 * 2048)))," '"class": "B"'
has "context parallel" '"options": "--cp 4"' '"class": "B"'
has "naive pipeline" "\"pp\": $((3 * 2 * 131072))," "\"tied\": $((2 * 65536))" \
    '"bubble_formula": 0.75,' '"class": "A"'
has "1f1b" '"options": "--pp 4 --micro 8"' "\"pp\": $((3 * 2 * 131072)),"
"$gpt" steps=3 | awk 'END { print $4 }' >"$scratch/loss"
[ "$(sed -n 's/.*"loss": \(5\.[0-9]*\).*/\1/p' "$scratch/out" | awk '{ printf "%.6f\n", $1 }' | sort -u)" = \
    "$(cat "$scratch/loss")" ] || fail "the loss is not the golden program's"
# What lies whole on the ranks of tp is computed by each of them: 62 operations on the stream and its gradient
# (layer norms, additions, biases, positions), and on the leaves of 26 vectors, and the loss.
has "pp x dp" '"flops_extra": 0,'
extra=$((3 * (8 * 64 * 64 * 62 + 8 * 64 * 27)))
has "tensor parallel" "\"flops_extra\": $extra,"

# Experts that ranks share, of 4 layers 8 with 2 x 64 x 128 weights and 128 + 64 biases: a rank has a part of
# them, and all else of 2540032 bytes.
experts=$((4 * 8 * (2 * 64 * 128 + 128 + 64) * 4))
compared --model moe:nano
[ "$(grep -c '"ran": true, "equal": true' "$scratch/out")" = 23 ] || fail "moe: not 23 are equal"
has "data parallel" '"parameters": 2540032'
has "expert parallel" '"options": "--dp 4 --ep 4"' '"class": "B"' \
    "\"parameters\": $((2540032 - experts + experts / 4))"
has "dp x ep" '"options": "--dp 4 --ep 2"' "\"parameters\": $((2540032 - experts + experts / 2))"
has "ep x tp" '"options": "--dp 2 --ep 2 --tp 2"'
has "pp x ep" '"options": "--dp 2 --ep 2 --pp 2 --micro 4"'

# Of what cannot be alone one line says so, and none of its variants.
"$train" compare -n 2 --steps 3 --layers 3 >"$scratch/out" 2>"$scratch/said" ||
    fail "--layers 3: $(cat "$scratch/said")"
[ "$(sed -n 's/^# left out, \([^:]*\):.*/\1/p' "$scratch/out" | tr '\n' ,)" = \
    'expert parallel,naive pipeline,' ] || fail "--layers 3: $(grep '^# left out' "$scratch/out")"

# The forms of the reduction send alike; ZeRO-3 gathers less where it keeps.
compared dp-reduce
for form in ring root sharded; do
    has $form "\"dp\": $((6 * 947712))"
done
has ring "\"sent_all\": $((6 * 947712 + 165888))," "\"sent_most\": $((6 * 947712 / 4 + 165888 / 4)),"
has root "\"sent_most\": $((2 * 947712 + 165888 / 4)),"
# Paradigms that are named, in six rows: each stores and sends what its tapes say; the one that needs least
# memory and the one that needs most are told apart. JSON has the same configurations.
compared dp cp
has "context parallel" '"cp": 4,' "\"dp\": 0,"
# Computed again are the GELUs of 256 channels, and attention: 2 products for 64 * 65 / 2 pairs.
compared mp -n 2 --recompute selective --layers 2
has "one device" "\"flops_extra\": $((2 * 8 * (64 * 256 + 2 * 64 * 65 * 64))),"
"$train" compare dp mp tp --steps 3 >"$scratch/out" 2>"$scratch/said" ||
    fail "dp mp tp: $(cat "$scratch/said")"
for line in 'model parallel     parameters 265984 (30 %), gradients 271616 (27 %), optimizer 531968 (30 %)' \
    'data parallel      gradients: 1421568 bytes by 53 x all_reduce, dp; loss and norm' \
    'tensor parallel    activations: 3548160 bytes by 21 x all_reduce, tp; loss and norm' \
    'model parallel     least memory: 4504832 bytes of a rank, 35 % of one device'; do
    grep -Fq -- "$line" "$scratch/out" || fail "dp mp tp: no \"$line\" in: $(cat "$scratch/out")"
done
sed -n '/^# bottleneck/,/^$/p' "$scratch/out" | grep -q '^data parallel .*most memory: 5304448 bytes' ||
    fail "dp mp tp: the bottleneck of data parallelism is not its memory"
"$train" compare ep dp -n 2 --steps 3 --model moe:nano >"$scratch/out" 2>&1 ||
    fail "ep dp: $(cat "$scratch/out")"
grep -q '^expert parallel    the experts: 4 of the 8 of a layer on each rank' "$scratch/out" ||
    fail "ep dp: not what is cut: $(cat "$scratch/out")"
refused 'gpt has no experts' ep -n 2
refused '--ep is no option of compare here' --model moe:nano --ep 2
[ "$("$train" compare dp mp --steps 3 --markdown | grep -c '^| .* | .* | .* | .* |$')" -ge 7 ] ||
    fail "dp mp: no seven rows of Markdown"
# Numbers of ranks: each sends as a ring of so many does, and the rate is told against the first one's.
"$train" compare scaling 1 2 4 --steps 3 >"$scratch/out" 2>"$scratch/said" ||
    fail "scaling: $(cat "$scratch/said")"
grep -q "^  3 4 ranks  *$((6 * 947712)) " "$scratch/out" || fail "scaling: 4 ranks do not send as a ring"
awk '/^# the rate against that of 1 rank/ { on = 1; next } on && $4 == "times" && $3 > 0 { n++ }
    END { exit n != 3 }' "$scratch/out" || fail "scaling: no rates of three: $(cat "$scratch/out")"
# What computes with old weights, or an old gradient, is equal to its simulator; its loss is another one.
compared async stash newest delay -n 2 --layers 2
for way in stash newest "delayed offload"; do
    has "$way" '"equal": true, "class": "D"' '"compared_with": "simulator"'
done
has 1f1b '"equal": true, "class": "A"' '"compared_with": "golden program"'
[ "$(sed -n 's/.*"loss": \([0-9.]*\),.*/\1/p' "$scratch/out" | sort -u | wc -l)" -eq 4 ] ||
    fail "async: not four losses in $(cat "$scratch/out")"
compared async server -n 5 --model mlp:nano
has "server, in step" '"options": "--dp 4 --servers 1"' '"equal": true, "class": "B"'
has "server, asynchronous" '"equal": true, "class": "D"' '"compared_with": "simulator"' \
    '"differing_losses": 0'
"$train" compare async stash -n 2 --layers 2 --steps 3 --inject update-of-stashed >"$scratch/out" 2>&1 &&
    fail "a stale update: exit status 0"
grep -q '^  3 stash .* D  refused' "$scratch/out" || fail "a stale update: $(cat "$scratch/out")"
# Sums in any order are near, and the floor stands beside. In bfloat16 all have the golden program's bits.
compared tp -n 2 --order free --layers 1
has "tensor parallel" '"class": "C"' '"off_losses_legal": 3.9' '"off_gradients_legal": 7.9'
compared dp -n 2 --precision bfloat16 --layers 1
has "one device" '"class": "A", ' '"compared_with": "golden program"' '"differing_gradients": 0'
has "data parallel" '"class": "B", ' '"compared_with": "golden program"' '"differing_gradients": 0'
# Parameter servers and a ring: the bytes of the hottest rank are those of the formulas, as Tutti counts them.
compared server ring --workers 2,8 --model mlp:nano
has "server, 8 workers" "\"in_formula\": $((8 * 74752))," "\"in_counted\": $((8 * 74752))," \
    "\"out_ledger\": $((8 * 74752))," "\"out_counted\": $((8 * 74752))," '"class": "B"'
has "ring, 8 workers" "\"out_formula\": $((2 * 7 * 74752 / 8))," "\"out_counted\": $((2 * 7 * 74752 / 8)),"
"$train" compare server ring --workers 1,4 --servers 2 --steps 3 --model mlp:nano >"$scratch/out" 2>&1 ||
    fail "two servers: $(cat "$scratch/out")"
awk '/^# bytes of a step at/ { on = 1; next } on && $2 ~ /server|ring/ { n += $(NF - 5) == $(NF - 3) &&
    $(NF - 4) == $(NF - 3) && $(NF - 2) == $NF && $(NF - 1) == $NF } /^$/ { on = 0 } END { exit n != 4 }' \
    "$scratch/out" || fail "two servers: formula, ledger and counters differ: $(cat "$scratch/out")"
grep -Eq '^# 4 workers: 1.33 times the bytes of a rank in the ring' "$scratch/out" ||
    fail "two servers: $(cat "$scratch/out")"
compared zero 2 3
[ "$(sed 's/.*"name": "\([^"]*\)".*/\1/' "$scratch/out" | tr '\n' ,)" = \
    'ZeRO 2,ZeRO 3,ZeRO 3 keep,ZeRO 3 prefetch,ZeRO 3 persist,ZeRO 3 all three,' ] ||
    fail "zero: $(cat "$scratch/out")"
has "ZeRO 3 keep" "\"dp\": $((3 * 2 * 947712))" # each use of the embedding gathers it

# A limit: who does not fit does not run, and each change that is named makes it fit.
compared -n 2 --memory 8M
has "one device" '"ran": false' '"fits": false' '"what_to_do": "fits with --micro '
sed -n 's/.*"name": "one device".*"fits with \([^"]*\)".*/\1/p' "$scratch/out" |
    sed 's/, or /\n/g' >"$scratch/cures"
[ "$(cut -d ' ' -f 1 "$scratch/cures" | tr '\n' ' ')" = "--micro --recompute --offload " ] ||
    fail "cures: $(cat "$scratch/cures")"
while read -r cure; do
    # shellcheck disable=SC2086
    "$train" --data grammar --steps 1 --memory 8M $cure >/dev/null 2>&1 || fail "$cure does not fit"
done <"$scratch/cures"
has "tensor + sp" '"ran": true, "equal": true' '"fits": true'

# The host's memory has a limit of its own: activations do not fit there.
compared dp -n 2 --memory 8M --host-memory 4M
has "one device" '"what_to_do": "fits with --micro 4, or --recompute full"'
compared dp -n 2 --memory 3M --host-memory 6M
has "data parallel" '"what_to_do": "fits with --micro 2 --offload both"'

# A planted error: the check's words, and what it does to the numbers; others are equal still.
if "$train" compare --steps 3 -n 2 --inject all-reduce-missing >"$scratch/out" 2>&1; then
    fail "a planted error: exit status 0"
fi
grep -q '^  2 data parallel .* off [0-9]' "$scratch/out" || fail "a planted error: $(cat "$scratch/out")"
grep -q '^# 2, data parallel: .*the gradient is still a partial sum' "$scratch/out" ||
    fail "no words of the check"
grep -q '^# 2, data parallel differs: [1-9]' "$scratch/out" || fail "no numbers that differ"
grep -q '^  1 one device .* equal ' "$scratch/out" || fail "one device differs"

# Text and Markdown have a line for each; what the model cannot have is named.
"$train" compare --steps 3 --markdown >"$scratch/all" 2>"$scratch/said" ||
    fail "--markdown: $(cat "$scratch/said")"
sed '/^# gpt:nano on/q' "$scratch/all" >"$scratch/out" # page.sh looks at the rest
[ "$(grep -c '^| .* |$' "$scratch/out")" = 19 ] || fail "--markdown: $(cat "$scratch/out")"
for head in options loss class verdict ms spread tokens/s 'bubble: formula' 'exposed, %' 'extra FLOPs' \
    'sent: dp' 'sent: busiest rank' activations measured; do
    head -n 1 "$scratch/out" | grep -Fq "| $head |" || fail "--markdown: no $head"
done
awk -F '[|]' '/^[|]/ && NF != 29 && NF != w { if (w) bad = 1; w = NF } END { exit bad }' "$scratch/out" ||
    fail "--markdown: rows of different lengths"
grep -q '^# left out, interleaved: .* do not divide 4 layers' "$scratch/out" || fail "nothing is left out"
[ "$(nproc)" -ge 4 ] || grep -q 'no measurement of scaling' "$scratch/out" || fail "nothing is said of cores"

refused 'colour is not known; legal are dp-reduce, zero' colour
refused '4 is not known; legal are 0, 1, 2, 3' zero 4
for workers in 8..1 0..3 1..65 2,2 1.. x; do
    refused "--workers $workers: legal are numbers from 1 to 64 that grow" server --workers "$workers"
done
refused 'Legal numbers of workers: 1, 2, 4, 8' server --workers 3
refused 'a tensor is cut into 64 parts, of which each has as many; legal: --servers 1, 2, 4, 8, 16, 32, 64' \
    server --servers 3
refused '--workers says how many workers there are' ring -n 4
refused 'its servers are synchronous' server --server-mode async
refused 'legal with compare server and ring' dp --workers 2
refused 'nothing to compare: there are not as many' scaling 4 -n 2
refused 'root is there twice' dp-reduce root root
refused 'it makes the meshes itself' --tp 2
refused '-n 1: compare takes 2 to 256 ranks' -n 1
refused 'Legal numbers of ranks: 2, 4, 8' -n 5
refused 'that is tutti-train compare async' --async stash
refused 'legal are stash, two, newest, delay, server' async oldest
refused 'legal are 3 and more' --steps 2
refused 'legal is one of --json and --markdown' --json --markdown
refused 'legal are all-reduce-missing' --inject nothing
refused 'legal is a number of bytes, with K, M, G or T' --memory much
refused '--host-memory much: legal is' --host-memory much

[ "$failures" -eq 0 ] && echo "compare: configurations are told as they are"
exit "$failures"
