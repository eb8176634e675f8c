#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# listings.sh: what the chapters of docs/training.md show is what is printed, and what docs/training-models.md
# says of models and checkpoints is what a program finds that knows nothing else; and
# docs/training-checklist.md has all 56 rows, each of which names a command that prints what the row
# promises, or says that it is not there yet.
set -u
# shellcheck source=tests/training/gate.sh
. "$(dirname "$0")/gate.sh"
LC_ALL=C
export LC_ALL
build=$(pwd)
sources=$(cd "${srcdir:-$(dirname "$0")/../..}" && pwd) || exit 1
[ -d "$sources/tests/training" ] || sources=$(dirname "$(dirname "$sources")")
checklist=$sources/docs/training-checklist.md

set --
for chapter in "$sources"/docs/training-*.md; do
    case $chapter in
    *-models.md | *-checklist.md) ;;
    *) set -- "$@" "$chapter" ;;
    esac
done
set -- "$@" "$sources/docs/training-other-models.md"
if command -v python3 >/dev/null 2>&1; then
    set -- "$@" "$sources/docs/training-models.md"
else
    echo "skipped: docs/training-models.md (no python3)"
fi
srcdir=$sources sh "$sources/tests/test_listings.sh" "$@" || failures=1

# Of "| 7 | what | `tutti-train ..` | `what it prints` |" or "| 8 | what | not yet | |": the number, the
# command and what it prints, with tabs between.
awk -F '[|]' '/^[|] [0-9]+ [|] / {
    for (i = 2; i <= 5; i++)
        gsub(/^ *`?|`? *$/, "", $i)
    print $2 "\t" $4 "\t" $5
}' "$checklist" >"$scratch/rows"
seq 56 >"$scratch/wanted"
cut -f 1 "$scratch/rows" | sort -n | cmp -s - "$scratch/wanted" ||
    fail "there are not the rows 1 to 56, once each"
tab=$(printf '\t')
ran=0
PATH=$build:$PATH
export PATH
cd "$scratch" || exit 1
ln -s "$sources/training" training
while IFS=$tab read -r number command shown; do
    case $command in
    "not yet") continue ;;
    "tutti-train "* | "wc -l training/"*) ;; # the latter at the root of the sources
    *) fail "row $number has neither a command nor the words \"not yet\"" && continue ;;
    esac
    ran=$((ran + 1))
    [ -n "$shown" ] || fail "row $number does not say what $command prints"
    timeout 300 sh -c "$command" >said 2>&1 </dev/null
    grep -qF -- "$shown" said || fail "row $number: $command does not print \"$shown\": $(tail -n 5 said)"
done <rows
[ "$ran" -gt 0 ] || fail "no row has a command"
[ "$failures" -eq 0 ] && echo "checklist: $ran of 56 rows have a command, and each prints what the row says"
exit "$failures"
