#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# mutants.sh: planted bugs, each of which some test must find.
#
# usage: mutants.sh [--run [NAME]...]     in a build directory
#
# tests/mutants/ROOM/NAME.patch is one small bug. Its first line, "red: COMMAND", is what must fail with it in
# a build directory; the next ones say what it is. As a part of `make check` this only demands that each patch
# still fits the sources, and that its command names what is there: who changes such a line carries the bug
# along. With --run (`make mutants`: by hand, or nightly, for it takes minutes) a copy of the sources is built
# with each of them, one at a time, and its command must fail. A survivor is a hole in the tests.
set -u
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$here/tests/mutants.sh" ] || here=$(dirname "$here")
tree=$PWD/mutants.tmp
jobs=$(nproc 2>/dev/null || echo 2)
failures=0
count=0
if ! command -v patch >/dev/null; then
    echo "skipped: planted bugs (there is no patch)"
    exit 0
fi

fail()
{
    echo "mutants: $1"
    failures=$((failures + 1))
}

# What a command names: suites of tests (a filter before its "/" holds their names, or how they begin), or a
# program.
is_there()
{
    case $1 in
    "tests/suite --filter '"*/*"'" | "tests/train_suite --filter '"*/*"'")
        for suite in $(echo "$1" | sed "s|^[^']*'||; s|/.*||" | tr '@(|)*' ' '); do
            cat "$here"/tests/*/*.c "$here"/tests/*/*/*.c | grep -q "^Test($suite" || return 1
        done
        ;;
    tests/*) ls "$here"/tests/*/"$(basename "${1%% *}")"*.c >/dev/null 2>&1 ;;
    "tutti-train verify "*) ;;
    *) return 1 ;;
    esac
}

check()
{
    red=$(sed -n '1s/^red: //p' "$1")
    if [ -z "$red" ] || ! is_there "$red"; then
        fail "$2: its first line is not 'red: COMMAND', or names what is not there"
    elif ! (cd "$here" && patch --dry-run -s -f -p1 -F0 -o /dev/null) <"$1" >/dev/null 2>&1; then
        fail "$2: it does not fit the sources any more"
    fi
}

prepare()
{
    rm -rf "$tree"
    trap 'rm -rf "$tree"' EXIT
    trap 'exit 1' HUP INT TERM
    make -s distdir distdir="$(basename "$tree")" >/dev/null && mkdir "$tree/build" && cd "$tree/build" &&
        eval "../configure -q $(../../config.status --config)" >/dev/null && make -s -j"$jobs" >/dev/null &&
        make -s -j"$jobs" check TESTS= >/dev/null
}

run()
{
    red=$(sed -n '1s/^red: //p' "$1")
    patch -s -f -p1 -d "$tree" <"$1" || { fail "$2: it does not fit"; return; }
    if make -s -j"$jobs" "${red%% *}" >said 2>&1; then
        # The first test that fails is enough: where a bug hangs, each further one would wait for its limit.
        case $red in
        tests/suite* | tests/train_suite*) red="$red --fail-fast" ;;
        tutti-train*) red="./$red" ;;
        esac
        timeout -k 5 300 sh -c "$red" >said 2>&1
        case $? in
        0) fail "$2: NOT FOUND by $red" ;;
        124 | 137) echo "mutants: $2: found by $red, which hangs" ;;
        *) echo "mutants: $2: found by $red" ;;
        esac
    else
        fail "$2: it does not build"
        tail -n 5 said
    fi
    patch -s -f -R -p1 -d "$tree" <"$1" || { fail "$2: the tree cannot be restored"; exit 1; }
}

doing=check
if [ "${1:-}" = --run ]; then
    doing=run
    shift
    prepare || { echo "mutants: the copy cannot be built in $tree"; exit 1; }
fi
for file in "$here"/tests/mutants/*/*.patch; do
    name=$(basename "$file" .patch)
    case " $* " in
    '  ' | *" $name "*) ;;
    *) continue ;;
    esac
    count=$((count + 1))
    "$doing" "$file" "$name"
done
echo "mutants: $count planted bugs, $failures wrong"
[ "$failures" -eq 0 ] && [ "$count" -gt 0 ]
