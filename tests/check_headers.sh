#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_headers.sh: lib/tutti.h compiles alone in each language that it promises, and the shared library
# exports tutti_* and nothing else. Run by `make check` in the build directory.
set -u
LC_ALL=C
export LC_ALL
header=${srcdir:-.}/lib/tutti.h
library=.libs/libtutti.so
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0

fail()
{
    echo "check_headers: $1"
    failures=$((failures + 1))
}

# compile COMPILER LANGUAGE STANDARD
compile()
{
    case $2 in
    c++) more=-Wzero-as-null-pointer-constant ;;
    *) more= ;;
    esac
    # shellcheck disable=SC2086
    if $1 -x "$2" -std="$3" -Wall -Wextra $more -Werror -pedantic -fsyntax-only "$scratch/alone.c"; then
        echo "check_headers: tutti.h compiles as $3"
    else
        fail "tutti.h does not compile as $3"
    fi
}

cp "$header" "$scratch/tutti.h"
printf '#include "tutti.h"\n#include "tutti.h"\nint main(void) { return TUTTI_OK; }\n' >"$scratch/alone.c"
compile "${CC:-cc}" c c99
compile "${CC:-cc}" c c11
if [ "${CXX:-none}" = none ]; then
    echo "skipped: tutti.h as C++ (there is no C++ compiler)"
else
    compile "$CXX" c++ c++11
    compile "$CXX" c++ c++20
fi

number=$(awk '$2 == "TUTTI_VERSION" { printf "%d.%d.%d", $3 / 10000, $3 / 100 % 100, $3 % 100 }' "$header")
[ "$number" = "${VERSION:-$number}" ] || fail "tutti.h says version $number, configure.ac $VERSION"

# Every function of the header is in the library, and nothing that is not tutti_*.
${NM:-nm} -D --defined-only "$library" | awk '$2 ~ /^[TDBRVW]$/ { sub(/@.*/, "", $3); print $3 }' |
    sort -u >"$scratch/exported"
grep -v '^tutti_' "$scratch/exported" >"$scratch/foreign"
[ ! -s "$scratch/foreign" ] || fail "$library exports $(tr '\n' ' ' <"$scratch/foreign")"
${CC:-cc} -E -P "$header" | awk '/^static/ { own = 1 } !own { print } /}/ { own = 0 }' |
    grep -o 'tutti_[a-z_]*(' | tr -d '(' | sort -u >"$scratch/declared"
comm -23 "$scratch/declared" "$scratch/exported" >"$scratch/missing"
[ ! -s "$scratch/missing" ] || fail "$library lacks $(tr '\n' ' ' <"$scratch/missing")"
comm -13 "$scratch/declared" "$scratch/exported" >"$scratch/undeclared"
[ ! -s "$scratch/undeclared" ] || fail "tutti.h does not declare $(tr '\n' ' ' <"$scratch/undeclared")"
echo "check_headers: $(($(wc -l <"$scratch/exported"))) functions exported, $failures wrong answers"
[ "$failures" -eq 0 ]
