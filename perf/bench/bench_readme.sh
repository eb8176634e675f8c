#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_readme.sh: the tables of speed in README.md and perf/results/README.md are generated from a committed
# run, never written.
#
# usage: bench_readme.sh FILE [RESULTS]   put the tables of RESULTS (a path from where FILE is) between the
#                                         markers of FILE; without it, of the run that is named there
#        bench_readme.sh --check FILE     fail if FILE has anything else between the markers
#
# The markers are "<!-- bench: RESULTS -->", which makes one small table, or "<!-- bench full: RESULTS -->", a
# table of each class, and "<!-- bench: end -->".
set -eu
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
check=
[ "${1:-}" != --check ] || { check=1 && shift; }
[ $# -eq 1 ] || { [ $# -eq 2 ] && [ -z "$check" ]; } || {
    echo "usage: bench_readme.sh FILE [RESULTS]; bench_readme.sh --check FILE" >&2
    exit 2
}
readme=$1
marker=$(sed -n 's/^\(<!-- bench.*\): .* -->$/\1/p' "$readme" | head -n 1)
case $marker in '<!-- bench full') form=full ;; *) form=small ;; esac
results=${2:-$(sed -n 's/^<!-- bench.*: \(.*\) -->$/\1/p' "$readme" | head -n 1)}
if [ "$(grep -c '^<!-- bench\( full\)\{0,1\}: ' "$readme")" -ne 2 ] ||
    ! grep -q '^<!-- bench: end -->$' "$readme"; then
    echo "bench_readme.sh: $readme: legal is one line <!-- bench: RESULTS -->, or <!-- bench full:" \
        "RESULTS -->, and one <!-- bench: end -->" >&2
    exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk -v form=$form -f "$here/bench_json.awk" -f "$here/bench_readme.awk" "$(dirname "$readme")/$results" \
    >"$scratch/tables"
awk -v first="$marker: $results -->" -v tables="$scratch/tables" '
    /^<!-- bench: end -->$/ {
        inside = 0
    }
    /^<!-- bench( full)?: / && !/^<!-- bench: end -->$/ {
        inside = 1
        print first
        while ((getline line <tables) > 0)
            print line
    }
    !inside
    ' "$readme" >"$scratch/readme"
if [ -n "$check" ]; then
    diff "$readme" "$scratch/readme" >"$scratch/diff" || {
        echo "bench_readme.sh: $readme differs from what $results says:" >&2
        cat "$scratch/diff" >&2
        exit 1
    }
else
    cat "$scratch/readme" >"$readme"
fi
