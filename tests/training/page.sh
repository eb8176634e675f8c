#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# page.sh: the page of `tutti-train compare --html`: it is whole, says what --json says, and has the figures
# of textbooks with this run's numbers; a page that cannot be written is refused before anything runs.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
LC_ALL=C
export LC_ALL
tests=$(cd "$(dirname "$0")" && pwd) || exit 1
page=$scratch/page.html

# paged OPTIONS...: a page in $page, of which the objects are in $scratch/out.
paged()
{
    "$train" compare "$@" --html "$page" --steps 3 --json >"$scratch/out" 2>"$scratch/said" ||
        fail "$*: $(cat "$scratch/said")"
    if command -v python3 >/dev/null 2>&1; then
        python3 "$tests/page_check.py" "$page" "$scratch/out" >"$scratch/said" 2>&1 ||
            fail "$*: $(cat "$scratch/said")"
    fi
    [ ! -e "$page.part" ] || fail "$*: a part of a page is left"
}

# shows TEXT...: the page has each.
shows()
{
    for text; do
        grep -Fq -- "$text" "$page" || fail "the page has no \"$text\""
    done
}

paged
[ "$(grep -c '"event": "configuration"' "$scratch/out")" = 18 ] || fail "not 18 configurations"
[ "$(grep -c '"event": "aside".*"equal": true' "$scratch/out")" = 8 ] || fail "not 8 servers and rings"
for name in time memory over sends losses product mp dp tp cp server ring hottest speed-up; do
    shows "<figure data-name=\"$name\">"
done
# Of gpt:nano: 882176 bytes of parameters; fc1 has 256 x 64 numbers; of 64 tokens a rank of four has 16. A
# server of 8 workers has 8 times 947712 and 882176 bytes, a rank of the ring 2 * 7 of 8 parts, twice.
shows '18 of the 18 that ran have all bits of one device' \
    'X 512 x 64' 'W 64 x 256' 'Each rank has 16.4 kB of the 65.5 kB of W' '4 sums of 512 x 64' \
    'Each of 4 ranks has 16 of 64 tokens and the whole model, 882 kB' \
    '<td class="w" data-of="data parallel">parameters 882176 (100 %)' \
    "data-value=\"$((8 * (947712 + 882176)))\"" "data-value=\"$((2 * 2 * 7 * 947712 / 8))\"" \
    '18 of 18 configurations have the same curve to the last bit' '3.32 MB: 4.4 times as many' \
    'Left out, expert parallel'
# Of three steps one is timed, which has no spread.
[ "$(grep -c '<td data-of="spread">-</td>' "$page")" -eq 18 ] || fail "a step alone has a spread"
shows 'the stronger the colour the more' 'computes while the others wait'
shows "prefers-color-scheme:dark" "@media(max-width:900px)"
if grep -q 'differs' "$page"; then fail "something differs"; fi

# What does not fit is not run, and the limit is drawn.
paged -n 2 --memory 7M
shows 'fits with' 'limit 7.34 MB' '<td class="w" data-of="verdict">not run</td>' 'class="h"'
# More ranks, other models, other forms; options with what HTML would take for its own.
paged -n 8 --layers 8
paged -n 2 --model moe:nano
paged -n 4 --model cnn:nano
paged dp mp tp -n 2 --layers 2
shows 'Model parallel: layers in a row'
paged server ring --workers 1,2,4
shows 'Servers against rings'
paged async stash newest delay -n 2 --layers 2
shows 'one device, and 2 with its bits'
paged zero -n 2

# Markdown has the same tables and sentences.
"$train" compare --steps 3 --markdown >"$scratch/out" 2>"$scratch/said" ||
    fail "--markdown: $(cat "$scratch/said")"
for text in '## Memory' '## Who sends to whom' '## The figures of textbooks' '| what a rank stores |' \
    '| 8 | 14.6 MB | 3.32 MB | 4.41 times |' '- data parallel (--dp 4): '; do
    grep -Fq -- "$text" "$scratch/out" || fail "--markdown has no \"$text\""
done
if grep -q '<' "$scratch/out"; then fail "--markdown has HTML: $(grep '<' "$scratch/out")"; fi

# A page that has no place: said before anything runs. An old page stays as it was.
fails_with 'cannot be written: No such file' '.' "$train" compare --html "$scratch/none/page.html"
fails_with 'is no regular file' '.' "$train" compare -n 2 --steps 3 --html "$scratch"
fails_with '--html is an option of compare' '.' "$train" train --html "$page"
[ -s "$page" ] || fail "the old page is gone"

[ "$failures" -eq 0 ] && echo "page: pages are whole, and say what the objects say"
exit "$failures"
