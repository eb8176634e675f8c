#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_nccl.sh: libnccl.so.2 as programs see it: its names, programs in C, C++ and Python, a program that was
# linked to another library of its name, what is printed and what is not, and docs/nccl.md. Run in the build
# directory.
set -u
LC_ALL=C
export LC_ALL
unset LD_PRELOAD NCCL_DEBUG NCCL_DEBUG_FILE NCCL_CONF_FILE
unset TUTTI_DEBUG TUTTI_DEBUG_FILE TUTTI_ID TUTTI_RANK TUTTI_SIZE
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$sources/README.md" ] || sources=$(dirname "$sources")
here=$PWD
library=$here/.libs/libnccl.so.2
if [ ! -f "$library" ]; then
    echo "skipped: libnccl.so.2 (it is not built here)"
    exit 0
fi
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
export TUTTI_DEVICE=none HOME="$scratch" LD_LIBRARY_PATH="$here/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# works WHAT command..
works()
{
    what=$1
    shift
    if "$@" >"$scratch/said" 2>&1 </dev/null; then
        echo "nccl: $what"
    else
        echo "FAILED: $what:"
        sed 's/^/    /' "$scratch/said" | tail -n 20
        failures=$((failures + 1))
    fi
}

# --- Names: all of NCCL's, and none but those.
${NM:-nm} -D --defined-only "$library" | awk '{ print $NF, $(NF - 1) }' | sort >"$scratch/exported"
awk '!/^#/ { print $2; if ($3 == "") print "p" $2 }' "$sources/tests/nccl/names.txt" | sort >"$scratch/names"
all_names()
{
    [ "$(wc -l <"$scratch/names")" -ge 193 ] || return 1
    awk '{ print $1 }' "$scratch/exported" | diff "$scratch/names" - && return
    echo 'legal is <, exported is >'
    return 1
}
works "every name of NCCL is exported, and nothing else" all_names
weak() # over strong ones, for tools that come in between
{
    awk '{ kind = ($1 ~ /^nccl/ && $1 !~ /Internal$/) ? "W" : "T" }
        $2 != kind { print; wrong = 1 }
        END { exit wrong }' "$scratch/exported"
}
works "ncclX is weak, pncclX strong" weak
clients()
{
    awk '!/^#/ { for (i = 2; i <= NF; i++) print $i }' "$sources/tests/nccl/clients.txt" | sort -u |
        grep -vxF -f "$scratch/names" && return 1
    return 0
}
works "what programs look up is there" clients
needs()
{
    readelf -d "$library" >"$scratch/dynamic"
    grep -q 'SONAME.*\[libnccl.so.2\]' "$scratch/dynamic" && ! grep 'NEEDED.*stdc' "$scratch/dynamic"
}
works "its SONAME is NCCL's, and it needs no C++ library" needs

# --- Programs: C and C++, against our header; against one of NVIDIA's, where there is one.
build() # compiler, output, flags..
{
    compiler=$1 output=$2
    shift 2
    # shellcheck disable=SC2086
    $compiler ${SANITIZE:-} -Wall -Wextra -Werror "$@" -o "$output"
}
said_right() { grep -qx 'version 22809, 3 ranks: right' "$scratch/out" && [ ! -s "$scratch/err" ]; }
runs() # what is printed is the program's line, and nothing on standard error
{
    "$@" >"$scratch/out" 2>"$scratch/err" && said_right && return
    cat "$scratch/out" "$scratch/err"
    return 1
}
program=$sources/tests/nccl/program.c
in_c()
{
    build "${CC:-cc}" "$scratch/program" -I"$sources/lib/nccl" "$program" "$library" &&
        runs "$scratch/program"
}
works "a program in C, and nothing is printed but by itself" in_c
in_cxx()
{
    build "$CXX" "$scratch/cxx" -std=c++11 -I"$sources/lib/nccl" -x c++ "$program" -x none "$library" &&
        runs "$scratch/cxx"
}
if [ "${CXX:-none}" != none ]; then
    works "a program in C++" in_cxx
else
    echo "skipped: a program in C++ (there is no compiler)"
fi
nvidia=${NCCL_HEADERS:-}
for each in /usr/include /usr/local/cuda/include; do
    [ -n "$nvidia" ] || [ ! -f $each/nccl.h ] || nvidia=$each
done
of_nvidia()
{
    build "${CC:-cc}" "$scratch/nvidia" -isystem "$nvidia" "$program" "$library" && runs "$scratch/nvidia"
}
echo '#include <nccl.h>' >"$scratch/header.c"
if [ -n "$nvidia" ] && ${CC:-cc} -fsyntax-only -isystem "$nvidia" "$scratch/header.c" 2>/dev/null; then
    works "a program against NVIDIA's header in $nvidia" of_nvidia
else
    echo "skipped: a program against NVIDIA's header (it is not here)"
fi

# --- A program that was linked to another library of this name runs over Tutti's, by what tutti-nccl sets.
over_a_fake()
{
    mkdir -p "$scratch/fake" &&
        build "${CC:-cc}" "$scratch/fake/libnccl.so.2" -fPIC -shared -Wl,-soname,libnccl.so.2 \
            "$sources/tests/nccl/fake.c" &&
        build "${CC:-cc}" "$scratch/linked" -I"$sources/lib/nccl" "$program" "$scratch/fake/libnccl.so.2" \
            -Wl,--disable-new-dtags,-rpath,"$scratch/fake" || return 1
    "$scratch/linked" && return 1 # it finds the fake by its own path
    LD_PRELOAD=$library runs "$scratch/linked"
}
if [ -z "${SANITIZE:-}" ]; then
    works "a program that is linked to another libnccl.so.2" over_a_fake
    over_a_fake_by_nvidia() # as a program of theirs: their header, and their library's name
    {
        build "${CC:-cc}" "$scratch/theirs" -isystem "$nvidia" "$program" "$scratch/fake/libnccl.so.2" \
            -Wl,--disable-new-dtags,-rpath,"$scratch/fake" && LD_PRELOAD=$library runs "$scratch/theirs"
    }
    if [ -x "$scratch/nvidia" ]; then
        works "a program by NVIDIA's header, linked to another libnccl.so.2" over_a_fake_by_nvidia
    else
        echo "skipped: a program by NVIDIA's header, linked to another libnccl.so.2 (it is not here)"
    fi
    by_command() { ./tutti-nccl "$scratch/linked" >"$scratch/out" 2>"$scratch/err"; }
    told()
    {
        by_command && grep -q 'right$' "$scratch/out" &&
            grep -q "^tutti-nccl: NCCL is $library" "$scratch/err"
    }
    works "tutti-nccl says which library serves" told
    two_are_told()
    {
        cp "$scratch/fake/libnccl.so.2" "$scratch/libnccl.so.2"
        LD_PRELOAD="$library $scratch/libnccl.so.2" NCCL_DEBUG=INFO "$scratch/linked" >"$scratch/out" 2>&1
        grep "another libnccl is loaded, too.*: $scratch/libnccl.so.2" "$scratch/out"
    }
    works "another library beside it is told" two_are_told
    both_libraries() # handles and ids of one are told by the other
    {
        timeout 60 python3 "$sources/tests/nccl/both.py" "$library" "$theirs"
    }
    theirs=
    for each in lib lib64; do
        [ -n "$theirs" ] || [ ! -f "${nvidia:-/none}/../$each/libnccl.so.2" ] ||
            theirs=$nvidia/../$each/libnccl.so.2
    done
    if [ -n "$theirs" ] && command -v python3 >/dev/null 2>&1; then
        works "NVIDIA's library beside it" both_libraries
    else
        echo "skipped: NVIDIA's library beside it (it is not here)"
    fi
    quietly() { runs ./tutti-nccl --quiet "$scratch/linked" && [ "$(./tutti-nccl --path)" = "$library" ]; }
    works "tutti-nccl --quiet says nothing" quietly
    vllm() { ./tutti-nccl sh -c 'echo $VLLM_NCCL_SO_PATH' 2>&1 | grep -qx "$library"; }
    works "tutti-nccl tells vLLM" vllm
    wrongly() # option or command, exit code
    {
        ./tutti-nccl "$1" >"$scratch/out" 2>&1
        [ $? -eq "$2" ] && [ -s "$scratch/out" ]
    }
    works "tutti-nccl of a command that there is not" wrongly no-such-command 127
    works "tutti-nccl of an option that there is not" wrongly --no-such-option 2
    works "tutti-nccl --help" wrongly --help 0
    works "tutti-nccl of nothing" wrongly '' 2
    factors() # name of the library, what comes of 3, result for a factor on the device
    {
        printf '%s\n' '#include <stdio.h>' 'int product(void), product_of_device(void);' \
            'int main(void) { return printf("%x %d\n", product(), product_of_device()) < 0; }' \
            >"$scratch/main.c"
        build "${CC:-cc}" "$scratch/$1" -fPIC -shared -I"$sources/lib/nccl" \
            "$sources/tests/nccl/factor.c" "$library" &&
            build "${CC:-cc}" "$scratch/main" "$scratch/main.c" "$scratch/$1" "$library" || return 1
        "$scratch/main" | tee "$scratch/out" | grep -qx "$2 $3" || { cat "$scratch/out"; return 1; }
    }
    works "PyTorch's factors of bfloat16 are float32" factors libtorch_factor.so 40c0 5
    works "other factors of bfloat16 are bfloat16" factors libother_factor.so 0 5
    open_now() # everything is resolved when it is opened
    {
        printf '%s\n' '#include <dlfcn.h>' \
            'int main(int c, char **v) { return !dlopen(v[c - 1], RTLD_NOW); }' >"$scratch/now.c"
        build "${CC:-cc}" "$scratch/now" "$scratch/now.c" -ldl && "$scratch/now" "$library"
    }
    works "dlopen with RTLD_NOW" open_now
    if command -v python3 >/dev/null 2>&1; then
        sequences() { timeout 300 python3 "$sources/tests/nccl/sequences.py" "$library"; }
        works "the sequences of vLLM and CuPy" sequences
        quiet_failure() # as NCCL's users know it: a rank dies, and nobody prints a word but the program
        {
            timeout 300 python3 "$sources/tests/nccl/sequences.py" "$library" killed >"$scratch/out" 2>&1
            code=$?
            [ $code -eq 0 ] && [ "$(wc -l <"$scratch/out")" -eq 1 ] && return
            cat "$scratch/out"
            return 1
        }
        works "a rank that dies: ncclRemoteError, and nothing is printed" quiet_failure
        late() # environment..
        {
            timeout 300 env TUTTI_WAIT_WARNING=500 "$@" \
                python3 "$sources/tests/nccl/sequences.py" "$library" late >"$scratch/out" 2>&1
        }
        waits_in_silence() { late NCCL_DEBUG= && ! grep -i 'rank 3' "$scratch/out"; }
        works "who comes late is awaited" waits_in_silence
        who_waits() { late NCCL_DEBUG=WARN && grep -q 'WARN.*rank 3' "$scratch/out"; }
        works "NCCL_DEBUG=WARN says whom a call waits for" who_waits
        works "TUTTI_TIMEOUT gives a deadline" late TUTTI_TIMEOUT=1000 TUTTI_INIT_TIMEOUT=120000
    else
        echo "skipped: the sequences of vLLM and CuPy (there is no python3)"
    fi
else
    echo "skipped: programs that load it late (a sanitizer comes first)"
fi

# --- What is printed: nothing unless NCCL_DEBUG is set; then what people look for, on the standard output.
printed() # level, patterns that are there, separated by |; the standard error is empty
{
    NCCL_DEBUG=$1 PROGRAM_IS_WRONG=1 "$scratch/program" >"$scratch/out" 2>"$scratch/err" || return 1
    [ ! -s "$scratch/err" ] || { cat "$scratch/err"; return 1; }
    echo "$2" | tr '|' '\n' >"$scratch/patterns"
    while read -r pattern; do
        grep -q "$pattern" "$scratch/out" || { echo "no $pattern in:"; cat "$scratch/out"; return 1; }
    done <"$scratch/patterns"
}
not_printed() { ! grep "$1" "$scratch/out"; }
works "NCCL_DEBUG=VERSION" printed VERSION '^NCCL version 2.28.9+tutti[0-9.]*$'
works "NCCL_DEBUG=VERSION, no more" not_printed 'WARN\|INFO'
works "NCCL_DEBUG=WARN" printed WARN \
    '^NCCL version|^[^ ]*:[0-9]*:[0-9]* NCCL WARN ncclCommInitRank: rank is 5'
works "NCCL_DEBUG=WARN, no more" not_printed INFO
informed()
{
    NCCL_DEBUG=INFO NCCL_PROTO=LL NCCL_NO_SUCH=1 TUTTI_DEBUG=none "$scratch/program" >"$scratch/out" 2>&1
    for pattern in "NCCL INFO NCCL is served by Tutti, by .*/libnccl.so.2" \
        'NCCL INFO .*rank 1 nranks 3 .* "comm-1" - Init COMPLETE' 'NCCL INFO NCCL_PROTO is set: no effect' \
        'NCCL INFO NCCL_NO_SUCH is set: not known'; do
        grep -q "$pattern" "$scratch/out" || { echo "no $pattern in:"; cat "$scratch/out"; return 1; }
    done
    [ "$(grep -c NCCL_PROTO "$scratch/out")" -eq 1 ]
}
works "NCCL_DEBUG=INFO, and what came of variables, once" informed
newer()
{
    PROGRAM_IS_NEWER=1 NCCL_DEBUG=INFO "$scratch/program" >"$scratch/out" 2>&1 &&
        grep -q 'NCCL INFO ncclCommInitRankConfig: config is of NCCL 2.32.7: .* is not read' "$scratch/out"
}
works "a config of a newer header: what of it is not read" newer
to_a_file()
{
    NCCL_DEBUG=VERSION NCCL_DEBUG_FILE="$scratch/log.%h.%p" "$scratch/program" >"$scratch/out" &&
        ! grep -q 'NCCL version' "$scratch/out" && grep -q '^NCCL version' "$scratch"/log.*.[0-9]*
}
works "NCCL_DEBUG_FILE" to_a_file
from_a_file()
{
    printf '%s\n' '# a comment' 'NCCL_DEBUG = VERSION' 'NONSENSE' >"$scratch/.nccl.conf"
    "$scratch/program" >"$scratch/out" && grep -q '^NCCL version' "$scratch/out" || return 1
    NCCL_DEBUG=NONE "$scratch/program" >"$scratch/out" && ! grep -q '^NCCL version' "$scratch/out" || return 1
    echo 'NCCL_DEBUG=VERSION' >"$scratch/other.conf"
    rm "$scratch/.nccl.conf"
    NCCL_CONF_FILE=$scratch/other.conf "$scratch/program" >"$scratch/out" &&
        grep -q '^NCCL version' "$scratch/out"
}
works ".nccl.conf of the user, and NCCL_CONF_FILE" from_a_file
interfaces() # of a list, the first that is there; of one that excludes, all are left
{
    for list in nothere,lo =lo lo ^docker0; do
        NCCL_SOCKET_IFNAME=$list runs "$scratch/program" || { echo "$list"; return 1; }
    done
}
works "NCCL_SOCKET_IFNAME" interfaces

# --- It is small: beside libtutti and the plugin.
small()
{
    total=0
    for file in "$library" .libs/libtutti.so.0 .libs/libtutti_cuda.so; do
        [ -f "$file" ] || continue
        cp "$file" "$scratch/stripped" && strip --strip-unneeded "$scratch/stripped" || return 1
        total=$((total + $(wc -c <"$scratch/stripped")))
    done
    echo "$total bytes" && [ $total -lt 5000000 ]
}
[ -n "${SANITIZE:-}" ] || works "libnccl.so.2, libtutti and the plugin have less than 5 MB" small

# --- docs/nccl.md is what the sources say.
fresh() { sh "$sources/docs/nccl.sh" "$sources" | diff - "$sources/docs/nccl.md"; }
works "docs/nccl.md is what docs/nccl.sh makes of the sources" fresh

echo "nccl: $failures failures"
[ "$failures" -eq 0 ]
