#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# commands.sh: `tutti-train data` does what its help says, and says what is wrong.
set -u
train=$PWD/tutti-train
[ -x "$train" ] || train=$PWD/tests/training/commands_main
source=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "commands: $1"
    failures=$((failures + 1))
}

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

[ "$failures" -eq 0 ] && echo "commands: data is as it should be"
exit "$failures"
