#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_cuda_compile.sh: what the compiler makes of the kernels, for each generation of devices, without one.
#
# usage: NVCC=... NVCC_FLAGS=... check_cuda_compile.sh [FILE.cu...]   (default: all kernels)
#
# Of all kernels it reads what the build in this directory has kept (cuda_libtool.sh), if that is for all
# these devices; else it compiles.
#
# Refused are a spilled register and a stack frame, of any function, unless a line "STACK of NAME: BYTES" says
# what an array takes that must lie there; and an instruction that a kernel asks for and the compiler did not
# write: a line "PTX of NAME: INSTRUCTIONS" in one of the files, or in a .cuh beside
# them, says what each kernel must hold whose name, as the linker sees it, contains NAME; "nothing" is legal,
# silence is not. ARCHS, if set, replaces the devices.
set -u
LC_ALL=C
export LC_ALL
archs=${ARCHS:-75 80 90 100 120}
jobs=${JOBS:-$(nproc 2>/dev/null || echo 2)}
if [ "${CUDA:-yes}" != yes ]; then
    echo "skipped: what the compiler makes of the kernels (configured without CUDA)"
    exit 0
fi
[ -n "${NVCC:-}" ] || { echo "check_cuda_compile: NVCC is not set" >&2; exit 2; }
top=${srcdir:-$(dirname "$0")/..}
[ $# -gt 0 ] || set -- "$top"/kernels/cuda/*.cu "$top"/training/kernels/cuda/*.cu
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM

codes=$(for arch in $archs; do printf 'sm_%s,' "$arch"; done)
gencode="-gencode arch=compute_${archs%% *},code=[${codes}compute_${archs%% *}]"
for file; do
    grep -h -o 'PTX of [A-Za-z_0-9]*: [a-z0-9_. ]*' "$file" "$(dirname "$file")"/*.cuh
done 2>/dev/null | sort -u | sed 's/^PTX of //; s/://' >"$scratch/promises"
for file; do
    grep -h -o 'STACK of [A-Za-z_0-9]*: [0-9]*' "$file" "$(dirname "$file")"/*.cuh
done 2>/dev/null | sort -u | sed 's/^STACK of //; s/://' >"$scratch/stacks"

# is_kept DIRECTORY: the compiler has spoken of a function for each device.
is_kept()
{
    for arch in $archs; do
        grep -q "Compiling entry function .* for 'sm_$arch'" "$1/said" 2>/dev/null || return 1
    done
}

# compile FILE: ptxas tells of registers in FILE.said; the PTX stays in a directory.
compile()
{
    kept=$scratch/$(basename "$1")
    mkdir "$kept"
    built=${1#"$top"/}
    built=${built%.cu}.kept
    if is_kept "$built"; then
        cp "$built"/*.ptx "$kept" && cp "$built/said" "$kept.said"
        return
    fi
    $NVCC $NVCC_FLAGS $gencode -Xptxas -v --keep --keep-dir "$kept" -c -o "$kept/object.o" "$1" \
        >"$kept.said" 2>&1 || touch "$kept.failed"
}
running=0
for file; do
    compile "$file" &
    running=$((running + 1))
    [ $((running % jobs)) -ne 0 ] || wait
done
wait

for file; do
    kept=$scratch/$(basename "$file")
    if [ -f "$kept.failed" ]; then
        echo "$file: does not compile"
        grep -m 5 -A 2 error "$kept.said"
        continue
    fi
    awk -v file="$file" -v list="$scratch/stacks" '
        function legal_stack(name,    needle, most) {
            for (needle in stack)
                if (index(name, needle) > 0 && stack[needle] > most)
                    most = stack[needle]
            return most + 0
        }
        BEGIN {
            while ((getline line <list) > 0) {
                split(line, word, " ")
                stack[word[1]] = word[2] + 0
            }
        }
        /Compiling entry function/ { split($0, word, "\047"); device = word[4] }
        /Function properties for/ { name = $NF }
        /bytes stack frame/ {
            functions++
            if ($1 > legal_stack(name) || $5 + $9 > 0) {
                sub(/^ */, "")
                printf "%s: %s for %s: %s\n", file, name, device, $0
            }
        }
        END { print functions + 0 >> counted }' counted="$scratch/functions" "$kept.said"
    for ptx in "$kept"/*.ptx; do
        [ -f "$ptx" ] || echo "$file: no PTX was kept"
        awk -v file="$file" -v list="$scratch/promises" '
            function ends(    i, w, word, told) {
                for (i = 1; i <= promises; i++) {
                    if (index(name, needle[i]) == 0)
                        continue
                    told = 1
                    for (w = split(words[i], word, " "); w > 0; w--)
                        if (word[w] != "nothing" && index(body, word[w]) == 0)
                            printf "%s: %s: no %s\n", file, name, word[w]
                }
                if (!told)
                    printf "%s: %s: no line \"PTX of ...\" tells what it needs\n", file, name
            }
            BEGIN {
                while ((getline <list) > 0) {
                    needle[++promises] = $1
                    $1 = ""
                    words[promises] = $0
                }
            }
            /\.entry/ {
                name = $0
                sub(/.*\.entry */, "", name)
                sub(/\(.*/, "", name)
                body = ""
                inside = 1
            }
            inside { body = body $0 }
            /^}/ && inside { ends(); inside = 0 }' "$ptx"
    done
done >"$scratch/found"

sort -u "$scratch/found"
functions=$(awk '{ n += $1 } END { print n + 0 }' "$scratch/functions" 2>/dev/null)
echo "check_cuda_compile: $# files, ${functions:-0} functions for sm_$(echo $archs | sed 's/ /, sm_/g')," \
    "$(sort -u "$scratch/found" | grep -c ':') refusals"
[ "${functions:-0}" -gt 0 ] && [ ! -s "$scratch/found" ]
