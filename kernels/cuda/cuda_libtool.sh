#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# cuda_libtool.sh: nvcc as libtool calls a compiler: what libtool adds for the host's compiler is handed on.
#
# usage: [KEPT=DIRECTORY] cuda_libtool.sh NVCC ARGUMENTS
#
# With KEPT, the PTX and what the compiler says of registers stay there, for tests/check_cuda_compile.sh,
# which else compiles everything once more.
n=$#
while [ "$n" -gt 0 ]; do
    case $1 in
    -fPIC | -DPIC | -pthread) set -- "$@" -Xcompiler "$1" ;;
    *) set -- "$@" "$1" ;;
    esac
    shift
    n=$((n - 1))
done
[ -n "${KEPT:-}" ] || exec "$@"
rm -rf "$KEPT"
mkdir -p "$KEPT" || exit 1
"$@" -Xptxas -v --keep --keep-dir "$KEPT" >"$KEPT/said" 2>&1
code=$?
grep -v -e '^ptxas info' -e '^ *[0-9]* bytes stack frame' "$KEPT/said" >&2
for file in "$KEPT"/*; do
    case $file in
    *.ptx | */said) ;;
    *) rm -f "$file" ;;
    esac
done
exit $code
