#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commands.sh: `tutti-train data`, `demo`, `mesh`, `explain` and `staleness` do what their help says, and say
# what is wrong.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
source=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1

# said STATUS TEXT ARGUMENTS...: the program ends with this status and says the text, on one line.
said()
{
    wanted=$1 words=$2
    shift 2
    "$train" "$@" >"$scratch/said" 2>&1
    status=$?
    [ "$status" -eq "$wanted" ] || fail "$*: exit status $status, not $wanted: $(cat "$scratch/said")"
    grep -Fq -- "$words" "$scratch/said" || fail "$*: not \"$words\" but: $(cat "$scratch/said")"
}

# bytes FILE FROM COUNT: these bytes, in octal.
bytes()
{
    tail -c "+$(($2 + 1))" "$1" | head -c "$3" | od -An -v -to1 | tr -d ' \n'
}

# --- plan: an answer, what it is for, and words for what it cannot answer.
said 0 'agrees     a model that fits one device: data parallel' plan -n 2 --batch 8
said 0 'data parallel    it is the answer' plan -n 2 --batch 8
said 0 '2 ranks of a100, 80.0 GB each' plan -n 2 --batch 8 --precision bfloat16 --machine a100
said 0 '"binds": "compute"' plan -n 2 --batch 8 --json
said 1 'nothing fits 1024 bytes a rank' plan -n 2 --batch 8 --memory 1K
said 1 'of the first it says: --zero3-keep, --zero3-prefetch and --zero3-persist say' plan --zero3-persist 3
grep -q 'nothing fits' "$scratch/said" && fail "plan: what is refused is said not to fit"
said 1 'the machines that have a name are host, selene' plan -n 2 --machine nowhere
said 1 'plan knows no parameter servers' plan -n 3 --servers 1
said 1 'nothing divides' plan -n 7 --batch 8 --layers 4
said 2 '--machine is an option of plan' train --machine host
said 1 'both say what runs it' plan -n 2 --machine host --measure
said 1 'up to 64 are started here' plan -n 65 --measure
said 2 '--measure is an option of plan' train --measure
said 0 'byte_near 235 GB/s' plan --machine list
"$train" plan -n 2 --batch 8 --json | python3 -m json.tool >"$scratch/said" 2>&1 ||
    fail "plan --json is no JSON"

# --- data: what is gathered, in which order, and what the file is.
text=$scratch/text
mkdir -p "$text/b/c" "$text/empty"
printf 'last' >"$text/z.txt"
printf 'A\n' >"$text/B.txt"
printf '\303\251' >"$text/b/c/deep"
printf 'x\000y' >"$text/b/binary"
printf '\001\002\003 text' >"$text/b/control"
: >"$text/nothing"
ln -s z.txt "$text/a-link"
out=$scratch/out.bin
said 0 'out.bin: 8 tokens, one a byte, of 4 files' data -o "$out" "$text"
grep -q '^left out, for they are no text: 2 files' "$scratch/said" ||
    fail "what is no text is not counted: $(cat "$scratch/said")"
sum=$(grep -o 'checksum [0-9a-f]*' "$scratch/said")
[ "$(wc -c <"$out")" -eq 1040 ] || fail "a file of 8 tokens has $(wc -c <"$out") bytes"
header=$(bytes "$out" 0 12)
[ "$header" = 210330064001001000000000010000000000 ] || fail "header: $header"
tail -c +13 "$out" | head -c 1012 | tr -d '\000' | grep -q . && fail "the header's rest is not zero"
tokens=$(bytes "$out" 1024 16)
[ "$tokens" = 101000012000303000251000154000141000163000164000 ] || fail "tokens: $tokens"

# Whether a text comes from a directory or by name, the tokens are the same; with other bytes the sum differs.
cp "$out" "$scratch/first"
said 0 "$sum" data "$text/B.txt" "$text/b/c" "$text/a-link" -o "$out"
cmp -s "$out" "$scratch/first" || fail "the same text gives other tokens"
said 0 'of 1 file' data -o "$out" -- "$text/z.txt"
sum=$(grep -o 'checksum [0-9a-f]*' "$scratch/said")
printf 'lost' >"$scratch/other"
said 0 'tokens' data -o "$out" "$scratch/other"
grep -q "$sum" "$scratch/said" && fail "another text has the same checksum"
(cd "$scratch" && "$train" data text >said 2>&1 && cmp -s corpus.bin first) || fail "no -o: no corpus.bin"

# A longer text arrives whole, and is known as text by more than its beginning.
awk 'BEGIN { for (i = 0; i < 9000; i++) print "line", i }' >"$scratch/long"
said 0 "$(wc -c <"$scratch/long" | tr -d ' ') tokens" data -o "$out" "$scratch/long"
tail -c +1025 "$out" | tr -d '\000' | cmp -s - "$scratch/long" || fail "a long text did not arrive whole"

# The documents that are here, or the licences of the machine.
said 0 'tokens, one a byte' data -o "$out"
case $PWD in
"$source"/*)
    tail -c +1025 "$out" | tr -d '\000' | grep -q Tutti || fail "the default corpus has no word of Tutti"
    ;;
esac

# --- data: what is wrong, and that a file is there as a whole or not at all.
cp "$out" "$scratch/first"
said 1 'nowhere cannot be opened: No such file' data -o "$out" "$text/z.txt" "$scratch/nowhere"
said 1 'binary is no text' data -o "$out" "$text/b/binary"
said 1 'there is no text' data -o "$out" "$text/empty"
said 1 'is no regular file' data -o "$scratch" "$text"
mkfifo "$scratch/pipe"
said 1 'pipe is a pipe or a device, and each rank reads all of it' train --data "$scratch/pipe" --steps 1
said 1 'zero is a pipe or a device' train --data /dev/zero --steps 1
said 1 'is no regular file' data -o "$scratch/pipe" "$text"
said 1 'cannot be written: No such file' data -o "$scratch/none/out.bin" "$text"
said 2 'legal are -o FILE' data --colour
said 2 'needs a FILE' data "$text" -o
cmp -s "$out" "$scratch/first" || fail "a refused call changed the file"
# A disk that is full: the old file stays, and nothing lies beside it.
(
    ulimit -f 1
    trap '' XFSZ
    "$train" data -o "$out" "$scratch/long" >"$scratch/said" 2>&1
) && fail "a file that cannot grow was taken for written"
cmp -s "$out" "$scratch/first" || fail "a write that failed changed the file"
for left in "$scratch"/*.part; do
    [ ! -e "$left" ] || fail "a write that failed left $left"
done
said 0 'usage: tutti-train data' data --help

# --- mesh: where ranks stand, their groups, and what is legal.
said 0 'pp 2 x dp 2 x tp 2: 8 ranks' mesh --pp 2 --dp 2 --tp 2
for line in '   5    1    0    1' 'pp     0-4 1-5 2-6 3-7   stage after stage' \
    'tp     0-1 2-3 4-5 6-7   parts of each layer' \
    'dp     0-2 1-3 4-6 5-7   the same part of the model, other sequences' \
    'model  0-1-4-5 2-3-6-7   together one model; dp replicates it'; do
    grep -qxF -- "$line" "$scratch/said" || fail "mesh: not \"$line\" but: $(cat "$scratch/said")"
done
said 0 'meshes of 8 ranks that are legal' mesh -n 8
grep -qx '  --pp 4 --dp 1 --tp 2' "$scratch/said" && [ "$(grep -c '^  --pp' "$scratch/said")" -eq 8 ] ||
    fail "mesh: not the 8 meshes of 8 ranks: $(cat "$scratch/said")"
grep -q -e '--pp 8\|--tp 8' "$scratch/said" && fail "mesh: 4 layers have 8 stages, or 4 heads 8 parts"
said 0 '--pp 2 --dp 1 --tp 2 --cp 2' mesh -n 8 --cp 2
said 1 'meshes of 7 ranks' mesh -n 7
grep -qx '  none' "$scratch/said" || fail "mesh: 7 ranks have a mesh: $(cat "$scratch/said")"
said 0 'gpt:nano with a batch of 8 cannot be trained on it: --tp 3: a sum is cut into 8 parts' mesh --tp 3
grep -qxF 'tp     0-1-2   parts of each layer' "$scratch/said" || fail "mesh --tp 3: $(cat "$scratch/said")"
said 0 'pp 64 x dp 6 x tp 8: 3072 ranks' mesh --pp 64 --dp 6 --tp 8
said 1 '1048576 ranks: legal are up to 16384' mesh --pp 1048576
said 1 'with --cp-ulysses 3' mesh --cp 4 --cp-attention ulysses+ring --cp-ulysses 3
said 1 '3 ranks, but dp' mesh -n 3 --dp 2
said 1 'of which there are 1; legal: --ep 1' mesh --ep 4096
said 2 'the nearest is --chunks' mesh --chunk 2
said 0 'usage: tutti-train mesh' mesh --help

# --- demo matmul: what the ranks have, the collective that follows, and the product.
product='^     [ 0-9-]*$'
said 0 'then all_gather_v of the ranks'"'"' rows, 128 bytes in all' \
    demo matmul --x 4x5 --w 5x8 -n 2 --split x0
grep -q '^rank 1: X 2x5 (rows 2 to 3, .*), W 5x8 .* -> 2x8, rows of Y$' "$scratch/said" || fail "x0: shapes"
grep "$product" "$scratch/said" | tail -n 4 >"$scratch/y"
# The product, from the X and W that are printed.
awk '
    /^[XW]$/ { what = $1; rows = 0; next }
    /^[^ ]/ { what = "" }
    what != "" { rows++; for (i = 1; i <= NF; i++) at[what, rows, i] = $i }
    END {
        for (i = 1; i <= 4; i++) {
            for (j = 1; j <= 8; j++) {
                sum = 0
                for (k = 1; k <= 5; k++)
                    sum += at["X", i, k] * at["W", k, j]
                printf j < 8 ? "%d " : "%d\n", sum
            }
        }
    }' "$scratch/said" >"$scratch/wanted"
awk '{ $1 = $1; print }' "$scratch/y" | cmp -s - "$scratch/wanted" ||
    fail "x0: Y is not X W: $(cat "$scratch/said")"
said 0 'of the ranks'"'"' columns' demo matmul --split w1
grep -q '^rank 1: X 4x5 .*, W 5x4 (.*, columns 4 to 7) -> 4x4, columns of Y$' "$scratch/said" ||
    fail "w1: shapes"
grep "$product" "$scratch/said" | tail -n 4 | cmp -s - "$scratch/y" || fail "w1: another Y"
said 0 'then all_reduce (sum) of 4x8, 128 bytes a rank' demo matmul --split w0
grep -q '^rank 0: X 4x3 .*, W 3x8 .* -> 4x8, a part of each sum$' "$scratch/said" ||
    fail "w0: rank 0 has not 3 of 5"
grep -q '^rank 1: X 4x2 .*, W 2x8 (rows 3 to 4, ' "$scratch/said" ||
    fail "w0: rank 1 has not 2 of 5"
grep "$product" "$scratch/said" | tail -n 4 | cmp -s - "$scratch/y" || fail "w0: another Y"
for how in "--x 7x3 --w 3x5 -n 3 --split x0" "--x 3x3 --w 3x11 -n 4 --split w1" \
    "--x 2x7 --w 7x2 -n 4 --split w0" "--x 1x1 --w 1x1 -n 1" "--x 16x16 --w 16x16 -n 8 --split w1"; do
    # shellcheck disable=SC2086
    said 0 'equal to the product of the whole matrices, on' demo matmul $how
done

# --- demo ring: the steps, who has which chunk, and the sum.
said 0 '2 (n - 1) = 6 steps' demo ring -n 4
grep -q "^equal to Tutti's all_reduce, on all ranks" "$scratch/said" ||
    fail "ring: $(tail -n 1 "$scratch/said")"
[ "$(grep -c '^step [1-6] of 6, ' "$scratch/said")" -eq 6 ] || fail "ring: not six steps"
grep -q 'owner: chunk 0 on rank 3, chunk 1 on rank 0, chunk 2 on rank 1, chunk 3 on rank 2' "$scratch/said" ||
    fail "ring: not the owners"
# After step 3 each rank has one whole chunk, and says so; after step 6 each has all.
awk '/^step 4/ { exit } /^step 3/ { on = 1 } on' "$scratch/said" >"$scratch/third"
[ "$(grep -c ' \([1-4]\)\1\1\1<' "$scratch/third")" -eq 4 ] || fail "ring: step 3: $(cat "$scratch/third")"
grep -q '^  rank 3 *1111< .* sent chunk 1 to rank 0, added chunk 0$' "$scratch/third" ||
    fail "ring: step 3, rank 3"
awk '/^step 6/ { on = 1 } on' "$scratch/said" >"$scratch/last"
[ "$(grep -c 'rank . *1111<* *2222<* *3333<* *4444' "$scratch/last")" -eq 4 ] ||
    fail "ring: step 6: $(cat "$scratch/said")"
for how in "-n 2" "-n 3 --count 5" "-n 8 --count 8" "-n 5 --count 64"; do
    # shellcheck disable=SC2086
    said 0 "equal to Tutti's all_reduce, on all ranks" demo ring $how
done

# --- demo: the pictures of textbooks, equal to what one device does.
said 0 'model parallel: a layer on each' demo paradigms
[ "$(grep -c '^  equal to one device$' "$scratch/said")" -eq 3 ] || fail "paradigms: not three are equal"
grep -q '^    rank 0: a part  *-14  *-15  *4  *-17$' "$scratch/said" || fail "paradigms: no part of a sum"
said 0 'equal to one device' demo sequence
grep -q '^    rank 2  *3  *2  *1  *-$' "$scratch/said" || fail "sequence: $(cat "$scratch/said")"
for n in 2 3 8; do
    said 0 'equal to one device' demo sequence -n $n
    said 0 "equal to an update with Tutti's all_reduce, on all ranks" demo server -n $n
    said 0 'equal to an update of all parameters on every rank' demo zero -n $n
done
said 0 'here the server had 48 in and 48 out' demo server -n 4
[ "$(grep -c '^    worker [0-2]  *94  *88  *82  *76$' "$scratch/said")" -eq 3 ] ||
    fail "server: not all pulled"
said 0 'stage 3: parameters, too' demo zero
for line in 'rank 3  WWWWWWWW  GGGGGGGG  ......OO  20 numbers' \
    'rank 1  ..WW....  ..GG....  ..OO....  8 numbers'; do
    grep -qF -- "$line" "$scratch/said" || fail "zero: no \"$line\""
done
said 0 '96 units of time, 75 % of it idle' demo pipeline
grep -q '33 units of time, 27 % of it idle, at most 4 micro' "$scratch/said" || fail "pipeline: 1F1B"
grep -qxF 'r2|..0...aa    |' "$scratch/said" || fail "pipeline: no picture of one batch"

# --- demo --svg: one picture of each: XML, with as many drawings as it should have, and no other file.
pictures=0
while read -r drawings colours which; do
    pictures=$((pictures + 1))
    # shellcheck disable=SC2086 # words
    said 0 '' demo $which --svg "$scratch/picture.svg"
    [ "$(grep -c '^<g transform=' "$scratch/picture.svg")" -eq "$drawings" ] ||
        fail "demo $which --svg: $(grep -c '^<g transform=' "$scratch/picture.svg") drawings of $drawings"
    found=$(grep -o 'class="k[0-9]"' "$scratch/picture.svg" | sort -u | wc -l)
    [ "$found" -eq "$colours" ] || fail "demo $which --svg: $found colours of $colours"
    grep -q 'var(' "$scratch/picture.svg" && fail "demo $which --svg: colours that few programs know"
    grep -q 'href\|url(\|<script' "$scratch/picture.svg" && fail "demo $which --svg: it asks for other files"
    if command -v python3 >/dev/null; then
        python3 -c 'import sys, xml.dom.minidom as x; x.parse(sys.argv[1])' "$scratch/picture.svg" ||
            fail "demo $which --svg: no XML"
    fi
done <<EOF
1 2 matmul --split x0
1 4 matmul --split w1 -n 4
1 3 matmul --split w0 -n 3
1 4 ring
3 2 paradigms
1 4 sequence
2 3 server
1 3 zero
3 2 pipeline -n 3
1 8 matmul --split w1 -n 8
1 8 sequence -n 8
EOF
[ "$pictures" -eq 11 ] || fail "$pictures pictures of 11"
said 1 'cannot be written' demo zero --svg "$scratch/none/picture.svg"
said 2 'legal are -n, each with a value' demo zero --svg

# --- demo: what is wrong.
said 2 'it takes no option' demo paradigms -n 2
said 2 'legal is 2 to 8' demo sequence -n 9
said 2 'legal is 2 to 8' demo server -n 1
said 2 'legal are -n, each with a value' demo zero --count 4
said 2 '-n needs a value' demo pipeline -n
said 0 'usage: tutti-train demo matmul' demo --help
said 2 'legal are matmul, ring' demo
said 2 'colour is not known; legal are matmul, ring' demo colour
said 2 'legal are --x --w -n --split' demo matmul --colour 1
said 2 '-n needs a value' demo matmul -n
said 2 '--w 6x8; legal is 5x8, for X has 5 columns' demo matmul --w 6x8
said 2 'legal is ROWSxCOLUMNS, 1 to 16 each' demo matmul --x 17x5
said 2 'legal is ROWSxCOLUMNS, 1 to 16 each' demo matmul --x 4
said 2 'legal is ROWSxCOLUMNS, 1 to 16 each' demo matmul --w 5x17
said 2 'legal is x0 (rows of X), w1' demo matmul --split x1
said 2 '-n 5; legal is 1 to 4, as many as split x0' demo matmul --split x0 -n 5
said 2 '-n 0; legal is 1 to 5, as many as split w0' demo matmul --split w0 -n 0
said 2 '-n 1; legal is 2 to 8' demo ring -n 1
said 2 '-n 9; legal is 2 to 8' demo ring -n 9
said 2 '--count 3; legal is 4 to 64' demo ring --count 3
said 2 'legal are -n --count' demo ring --colour 1
(
    TUTTI_ISA=abacus
    export TUTTI_ISA
    said 1 'TUTTI_ISA="abacus" is not legal' demo ring
    exit "$failures"
) || fail "ranks that cannot begin"

# --- staleness, verify and explain say at once what they cannot do.
for wrong in '--servers 1' '--precision bfloat16' '--pp 2' '--async stash' '--hex'; do
    # shellcheck disable=SC2086 # words
    said 1 "$wrong is no option of staleness" staleness $wrong
done
said 1 '--model moe:nano: what computes the lines has no experts' staleness --model moe:nano
grep -q '^ *1 ' "$scratch/said" && fail "staleness computed a line before it refused: $(cat "$scratch/said")"
for wrong in '--dp 2' '--model mlp:nano' '--steps 3'; do
    # shellcheck disable=SC2086 # words
    said 1 "$wrong is no option of verify" verify --quick $wrong
done
# --- An option of one command is refused by the others, which would ignore it.
said 2 '--quick is an option of verify' train --quick --steps 1
said 2 '--all is an option of verify' --all --steps 1
said 2 '--random is an option of verify' explain --random 3
said 2 '--tape is an option of explain' mesh --tape 0
said 2 '--markdown is an option of compare' staleness --markdown
said 1 'legal is one of them' verify --quick --random 3
said 1 '--tape 2: legal are ranks 0 to 1' explain --dp 2 --tape 2
said 1 '--dp 2097152: legal are 1 to 1048576' mesh --dp 2097152 --batch 1048576


# --- explain keeps to the limits of memory as train does, and says so
said 1 'rank 0 needs 12695040 bytes, and --memory 8M is 8388608: peaks are' explain --memory 8M
said 0 'it fits: no rank needs more than 12695040 bytes, and --memory is 16M' explain --memory 16M
said 0 'it fits: no rank needs more than 16155648 bytes' explain --memory 1G --pp 2 --vocabulary 2048
said 0 'no rank needs more than 11892224 bytes of the host, and --host-memory is 1G' \
    explain --memory 4M --host-memory 1G
said 1 'bytes of the host' explain --memory 4M --host-memory 1M --offload both
said 0 '--zero 3 cuts among the ranks of dp, and there is one: nothing is cut' explain --zero 3 --tp 2
said 2 '--memory much: legal is a number of bytes' explain --memory much

[ "$failures" -eq 0 ] && echo "commands: data, demo, mesh, explain and staleness are as they should be"
exit "$failures"
