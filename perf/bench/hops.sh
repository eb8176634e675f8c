#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# hops.sh: how many functions a call goes through, from the public one to the first byte that it sends and to
# the loop that adds, counted in backtraces and not guessed. ARCHITECTURE.md has the result.
#
# usage: perf/bench/hops.sh [DIR]   builds in DIR (default: build-hops), without inlining, as a debugger sees
#                                   only what is called. Needs gdb.
set -eu
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=${1:-build-hops}
command -v gdb >/dev/null || {
    echo "hops: gdb is not here" >&2
    exit 1
}
mkdir -p "$dir"
cd "$dir"
[ -e Makefile ] || "$top/configure" --disable-cuda >hops.log
plain='-O1 -fno-inline -fno-optimize-sibling-calls'
make -s -j"$(nproc)" OPTIMIZE="$plain" libtutti.la >>hops.log 2>&1
${CC:-cc} -g -I"$top/lib" -o hops "$top/perf/bench/hops.c" -L.libs -Wl,-rpath,"$PWD/.libs" -ltutti

# Rank 0 of a call of $1 bytes that was made $2 times before, at the first of the functions $3: its frames
# from the public function on, in one line.
backtrace()
{
    {
        printf 'set %s\n' 'pagination off' 'follow-fork-mode parent' 'print frame-arguments none'
        printf 'break hops_begin\nrun\ndelete\n'
        for name in $3; do
            echo "break $name"
        done
        printf 'continue\nbacktrace\nkill\n'
    } >hops.gdb
    gdb -q -batch -x hops.gdb --args ./hops "$1" "$2" 2>&1 |
        awk '/^#[0-9]+ / && !over {
                name = ($3 == "in") ? $4 : $2
                way = (hops++ ? name " > " way : name)
                over = name ~ /^tutti_/
            }
            END { print hops "  " way }'
}

adds='float32_few float32_spread float32_sum_chain'
for call in '8 3' '8 0' '16384 3' '16384 0' '4194304 3' '4194304 0'; do
    set -- $call
    [ "$2" = 0 ] && made='the first of its kind' || made='made before'
    echo "$1 bytes, $made"
    echo "  first byte: $(backtrace "$1" "$2" 'tt_copy_few fill_room')"
    echo "  first sum:  $(backtrace "$1" "$2" "$adds")"
done
