#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_manuals.sh: the manual pages are well formed and say neither less nor more than there is: the options
# of --help, the commands of tutti-info and tutti-train, the functions of tutti.h.
#
# usage: COLLPERF=path INFO=path TRAIN=path test_manuals.sh
#        (default: ./collperf, ./tutti-info, ./tutti-sim, ./tutti-train); and ./tutti-nccl, where it is
set -u
LC_ALL=C
export LC_ALL
collperf=${COLLPERF:-./collperf}
info=${INFO:-./tutti-info}
sim=${SIM:-./tutti-sim}
train=${TRAIN:-./tutti-train}
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -d "$sources/docs/man" ] || sources=$(dirname "$sources")
pages=$sources/docs/man
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

# same WHAT: the sorted lists there and described are equal, and not empty.
same()
{
    sort -u "$scratch/there" >"$scratch/a"
    sort -u "$scratch/described" >"$scratch/b"
    if [ -s "$scratch/a" ] && diff "$scratch/a" "$scratch/b" >"$scratch/difference"; then
        echo "manuals: $1: $(wc -l <"$scratch/a") described"
    else
        echo "FAILED: $1; there but not described is <, described but not there >:"
        sed 's/^/    /' "$scratch/difference"
        failures=$((failures + 1))
    fi
}

# lint TOOL arguments.. PAGE: says nothing.
lint()
{
    command -v "$1" >/dev/null 2>&1 || return 0
    linted=yes
    "$@" 2>&1 >/dev/null | grep -v 'mandoc.db' >"$scratch/said"
    [ "$1" != mandoc ] || "$@" 2>/dev/null >>"$scratch/said"
    [ -s "$scratch/said" ] || return 0
    echo "FAILED: $*"
    sed 's/^/    /' "$scratch/said"
    failures=$((failures + 1))
}

linted=
for page in "$pages"/*.[0-9]; do
    lint groff -ww -mandoc -Tutf8 "$page"
    lint mandoc -T lint -W warning "$page"
done
[ -n "$linted" ] || echo "skipped: the form of the manual pages (neither groff nor mandoc is here)"

# "-x, --name" at the beginning of a line of --help; ".It Fl x , Fl Fl name" in a page.
options_of_help()
{
    sed -n 's/^  *\(-[-a-zA-Z].*\)/\1/p' | awk '
        { for (i = 1; i <= NF && $i ~ /^-/; i++) { sub(/,$/, "", $i); print $i } }'
}
options_of_page()
{
    awk '/^\.It Fl/ {
        for (i = 2; i <= NF; i++)
            if ($i == "Fl" && $(i + 1) == "Fl")
                print "--" $(i++ + 2)
            else if ($i == "Fl")
                print "-" $(i + 1)
    }' "$1"
}

"$collperf" --help | options_of_help >"$scratch/there"
options_of_page "$pages/collperf.1" >"$scratch/described"
same "options of collperf"
"$collperf" --list options >"$scratch/there"
same "options that collperf takes"
"$info" --help | options_of_help >"$scratch/there"
options_of_page "$pages/tutti-info.1" >"$scratch/described"
same "options of tutti-info"
"$info" --help | sed -n 's/^\(usage:\)\{0,1\} *tutti-info \([a-z][a-z]*\)  *.*/\2/p' >"$scratch/there"
awk '/^\.It Cm/ { print $3 }' "$pages/tutti-info.1" >"$scratch/described"
same "commands of tutti-info"
"$sim" --help | options_of_help >"$scratch/there"
options_of_page "$pages/tutti-sim.1" >"$scratch/described"
same "options of tutti-sim"
if [ -x ./tutti-nccl ]; then
    ./tutti-nccl --help | options_of_help >"$scratch/there"
    options_of_page "$pages/tutti-nccl.1" >"$scratch/described"
    same "options of tutti-nccl"
fi
"$train" --help | sed -n 's/^  \([a-z][a-z]*\)  *.*/\1/p' >"$scratch/commands"
while read -r command; do
    "$train" "$command" --help | options_of_help
done <"$scratch/commands" >"$scratch/there"
options_of_page "$pages/tutti-train.1" >"$scratch/described"
same "options of tutti-train"
cp "$scratch/commands" "$scratch/there"
awk '/^\.It Cm/ { print $3 }' "$pages/tutti-train.1" >"$scratch/described"
same "commands of tutti-train"

# Functions: a name before a parenthesis, outside of comments.
awk '{
    line = $0
    while (line != "")
        if (inside) {
            at = index(line, "*/")
            inside = at == 0
            line = at == 0 ? "" : substr(line, at + 2)
        } else {
            at = index(line, "/*")
            printf "%s", at == 0 ? line : substr(line, 1, at - 1)
            inside = at > 0
            line = at == 0 ? "" : substr(line, at + 2)
        }
    print ""
}' "$sources/lib/tutti.h" | grep -v '^#' | grep -o 'tutti_[a-z_0-9]*(' | tr -d '(' >"$scratch/there"
grep -o 'Fn tutti_[a-z_0-9]*' "$pages/tutti.7" | sed 's/Fn //' >"$scratch/described"
same "functions of tutti.h"

[ "$failures" -eq 0 ]
