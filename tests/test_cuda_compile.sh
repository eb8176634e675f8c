#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# test_cuda_compile.sh: check_cuda_compile.sh must refuse one planted kernel of each kind, and no other: a
# check that cannot fail is worse than none. For one device, so that this takes seconds.
set -u
if [ "${CUDA:-no}" != yes ]; then
    echo "skipped: kernels that the compiler spoils (configured without CUDA)"
    exit 0
fi
here=$(cd "${srcdir:-$(dirname "$0")/..}" && pwd) || exit 1
[ -f "$here/tests/check_cuda_compile.sh" ] || here=$(dirname "$here")
tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
trap 'exit 1' HUP INT TERM
NVCC_FLAGS="-std=c++17 -O3 -I$here -I$here/lib"
ARCHS=90
export NVCC NVCC_FLAGS ARCHS
failures=0

# planted PATTERN: the kernel on stdin is refused with words that match; without PATTERN it is legal.
planted()
{
    { echo '#include "kernels/cuda/cuda_primitives.cuh"'; cat; } >"$tree/planted.cu"
    sh "$here/tests/check_cuda_compile.sh" "$tree/planted.cu" >"$tree/said" 2>&1
    status=$?
    if [ $# -eq 0 ]; then
        [ $status -eq 0 ] && return
    elif [ $status -ne 0 ] && grep -q "planted.cu: .*$1" "$tree/said"; then
        return
    fi
    echo "test_cuda_compile: ${1:-legal}:"
    sed 's/^/    /' "$tree/said"
    failures=$((failures + 1))
}

planted <<'END'
/* PTX of pass: ld.global.v4.u32 st.release.sys.global.u32 */
KERNEL void pass(uint32_t *flag, const void *from)
{
    store_release(flag, load_packet(from).word[3]);
}
END
planted 'bytes spill stores' <<'END'
/* PTX of spill: nothing */
KERNEL void __launch_bounds__(1024, 2) spill(float *x)
{
    float many[64];
    UNROLL
    for (int i = 0; i < 64; i++)
        asm volatile("ld.volatile.global.f32 %0, [%1];" : "=f"(many[i]) : "l"(x + i));
    UNROLL
    for (int i = 0; i < 64; i++)
        asm volatile("st.volatile.global.f32 [%0], %1;" : : "l"(x + 64 - i), "f"(many[i]) : "memory");
}
END
planted '[1-9][0-9]* bytes stack frame' <<'END'
/* PTX of frame: nothing */
KERNEL void frame(int *x, int n)
{
    int table[64];
    for (int i = 0; i < n; i++)
        table[x[i] & 63] = x[i + 1];
    x[0] = table[x[n] & 63];
}
END
planted <<'END'
/* PTX of frame: nothing
 * STACK of frame: 256 */
KERNEL void frame(int *x, int n)
{
    int table[64];
    for (int i = 0; i < n; i++)
        table[x[i] & 63] = x[i + 1];
    x[0] = table[x[n] & 63];
}
END
planted '[1-9][0-9]* bytes stack frame' <<'END'
/* PTX of frame: nothing
 * STACK of frame: 252 */
KERNEL void frame(int *x, int n)
{
    int table[64];
    for (int i = 0; i < n; i++)
        table[x[i] & 63] = x[i + 1];
    x[0] = table[x[n] & 63];
}
END
planted 'no ld.global.v4.u32' <<'END'
/* PTX of vector: ld.global.v4.u32 st.global.v4.u32 */
KERNEL void vector(void *to, const uint32_t *from)
{
    store_packet(to, packet{ { from[0], from[1], from[2], from[3] } });
}
END
planted 'no st.release' <<'END'
/* PTX of release: st.release.sys.global.u32 */
KERNEL void release(uint32_t *flag)
{
    store_relaxed(flag, 1);
}
END
planted 'tells what it needs' <<'END'
KERNEL void silent(int *x)
{
    *x = 1;
}
END
planted 'does not compile' <<'END'
KERNEL void broken(int *x)
{
    *x = y;
}
END
echo "test_cuda_compile: $failures failures"
[ "$failures" -eq 0 ]
