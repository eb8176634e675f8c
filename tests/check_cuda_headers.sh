#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# check_cuda_headers.sh: the table over CUDA compiles with the headers of older toolkits, and passes its tests
# on the fake runtime then: a plugin that serves a driver of 12.2 is one that was built by such a toolkit.
#
# usage: check_cuda_headers.sh [VERSION..]     in a build directory; default: the first and last of CUDA 12
#
# The headers are those of NVIDIA's packages nvidia-cuda-runtime-cu12, which pip fetches; nightly, as
# the checks of every change fetch nothing. The kernels need the toolkit's compiler, which is in no package.
set -u
LC_ALL=C
export LC_ALL
sources=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' HUP INT TERM
failures=0
[ $# -gt 0 ] || set -- 12.2.140 12.9.79

# suite VERSION: fetches its headers, compiles, and runs.
suite()
{
    folder=$scratch/$1
    python3 -m pip download -q --no-deps -d "$folder" "nvidia-cuda-runtime-cu12==$1" &&
        python3 -m zipfile -e "$folder"/*.whl "$folder" &&
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -Wall -Wextra -Werror -I"$sources" -I"$sources/lib" \
            -I"$sources/tests/cuda" -isystem "$folder/nvidia/cuda_runtime/include" \
            $(pkg-config --cflags criterion) \
            "$sources"/transports/cuda/*.c "$sources"/tests/cuda/cuda_fake*.c \
            "$sources"/tests/cuda/table_rig.c "$sources"/tests/cuda/test_cuda_[pst]*.c \
            -o "$folder/suite" $(pkg-config --libs criterion) -lpthread &&
        "$folder/suite"
}

for version; do
    suite "$version" >"$scratch/said" 2>&1 && continue
    echo "check_cuda_headers: CUDA $version:"
    tail -n 20 "$scratch/said"
    failures=$((failures + 1))
done
echo "check_cuda_headers: $# toolkits, $failures failures"
[ "$failures" -eq 0 ]
