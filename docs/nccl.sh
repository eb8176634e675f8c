#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl.sh: prints docs/nccl.md with its tables as the sources have them now: of functions, from the lines of PUBLIC
# and ABSENT in lib/nccl/, and of variables, from lib/nccl/variables.c. A test compares.
#
# usage: docs/nccl.sh [SOURCES]     to write it: docs/nccl.sh >docs/nccl.new && mv docs/nccl.new docs/nccl.md
set -u
LC_ALL=C
export LC_ALL
sources=${1:-$(dirname "$0")/..}
functions()
{
    echo '| function | since | state |'
    echo '|---|---|---|'
    awk '
        FILENAME ~ /names.txt$/ { if ($0 !~ /^#/) since[substr($2, 5)] = $1; next }
        /^\/\* Partly: / { note = $0; sub(/^\/\* Partly: /, "", note); open = note !~ /\*\//; }
        open && !/^\/\* Partly/ { line = $0; sub(/^ \*/, "", line); note = note line; open = line !~ /\*\// }
        /^PUBLIC\(/ {
            name = $0; sub(/^PUBLIC\([^,]*, /, "", name); sub(/,.*/, "", name)
            sub(/\.? *\*\/.*/, "", note)
            print name "|" (note == "" ? "yes" : "partly: " note)
        }
        /^#define [A-Z]+ "/ { value = $0; sub(/^[^"]*"/, "", value); sub(/"$/, "", value); text[$2] = value }
        /^ABSENT\(/ {
            line = $0; sub(/^ABSENT\(/, "", line); sub(/\)$/, "", line); split(line, part, ", ")
            instead = part[3] in text ? text[part[3]] : part[3]
            gsub(/"/, "", instead)
            print part[1] "|no; what works: " instead
        }
        !/^\/\* Partly/ && !open { note = "" }' "$sources/tests/nccl/names.txt" "$sources"/lib/nccl/*.c | sort -t'|' -k1,1 |
        awk -F'|' '
            FNR == NR { if ($0 !~ /^#/) { split($0, word, " "); since[substr(word[2], 5)] = word[1] } next }
            { print "| `nccl" $1 "` | " since[$1] " | " $2 " |" }' "$sources/tests/nccl/names.txt" -
}
variables()
{
    echo '| variable | what becomes of it |'
    echo '|---|---|'
    awk '/^} rows\[\]/ { inside = 1; next } /^};/ { inside = 0 } inside { text = text $0 }
        END {
            gsub(/"[ ]*"/, "", text)
            n = split(text, row, /{ "/)
            for (i = 2; i <= n; i++) {
                split(row[i], part, "\"")
                print "| `" part[1] "` | " part[3] " |"
            }
        }' "$sources/lib/nccl/variables.c"
}
functions >"${TMPDIR:-/tmp}/nccl.functions.$$"
variables >"${TMPDIR:-/tmp}/nccl.variables.$$"
trap 'rm -f "${TMPDIR:-/tmp}"/nccl.*.$$' EXIT
awk -v where="${TMPDIR:-/tmp}" -v pid=$$ '
    /^<!-- end -->$/ { skip = 0 }
    !skip { print }
    /^<!-- (functions|variables) -->$/ {
        file = where "/nccl." $2 "." pid
        while ((getline line <file) > 0)
            print line
        skip = 1
    }' "$sources/docs/nccl.md"
