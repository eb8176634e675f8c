#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# bench_readme.sh: README's tables of speed are generated from a committed run, never written.
#
# usage: bench_readme.sh README [RESULTS]   put the tables of RESULTS (a file of perf/results beside README)
#                                           between the markers; without it, of the run that is there
#        bench_readme.sh --check README     fail if README has anything else between the markers
#
# The markers are "<!-- bench: RESULTS -->" and "<!-- bench: end -->".
set -eu
LC_ALL=C
export LC_ALL

here=$(cd "$(dirname "$0")" && pwd)
check=
[ "${1:-}" != --check ] || { check=1 && shift; }
[ $# -eq 1 ] || { [ $# -eq 2 ] && [ -z "$check" ]; } || {
    echo "usage: bench_readme.sh README [RESULTS]; bench_readme.sh --check README" >&2
    exit 2
}
readme=$1
results=${2:-$(sed -n 's/^<!-- bench: \(.*\) -->$/\1/p' "$readme" | head -n 1)}
if [ "$(grep -c '^<!-- bench: ' "$readme")" -ne 2 ] || ! grep -q '^<!-- bench: end -->$' "$readme"; then
    echo "bench_readme.sh: $readme: legal is one line <!-- bench: RESULTS --> and one <!-- bench: end -->" >&2
    exit 1
fi
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
awk -f "$here/bench_json.awk" -f "$here/bench_readme.awk" "$(dirname "$readme")/$results" >"$scratch/tables"
awk -v results="$results" -v tables="$scratch/tables" '
    /^<!-- bench: end -->$/ {
        inside = 0
    }
    /^<!-- bench: / && !/^<!-- bench: end -->$/ {
        inside = 1
        print "<!-- bench: " results " -->"
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
