/* SPDX-License-Identifier: BSD-3-Clause */
/* numbers.cuh: single operations of IEEE 754, and the functions made of them, as training/kernels/numbers.h
 * defines them.
 *
 * Nothing is contracted here (-fmad=false -ftz=false): a fused multiply-add stands where it is named. So a
 * device, and a processor that emulates it, give the bits of the processor's sets. The logarithm alone is the
 * library's: by way of double, as there. */
#ifndef TRAINING_KERNELS_CUDA_NUMBERS_CUH
#define TRAINING_KERNELS_CUDA_NUMBERS_CUH
#include <math.h>

#include "kernels/cuda/cuda_primitives.cuh"

#if defined(__CUDACC__)
/* That many blocks of n threads find room on a multiprocessor: so many registers a thread may have. */
#define RESIDENT(n, blocks) __launch_bounds__(n, blocks)
using quad = float4;
INLINE float fused(float x, float y, float z)
{
    return __fmaf_rn(x, y, z);
}
INLINE float root(float x)
{
    return __fsqrt_rn(x);
}
/* x, of which the compiler knows nothing: what hangs on it is computed where it is needed, and has no
 * register in between. */
INLINE int32_t anew(int32_t x)
{
    asm volatile("" : "+r"(x));
    return x;
}
#else
#define RESIDENT(n, blocks)
struct alignas(16) quad {
    float x, y, z, w;
};
INLINE float fused(float x, float y, float z)
{
    return fmaf(x, y, z);
}
INLINE float root(float x)
{
    return sqrtf(x);
}
INLINE int32_t anew(int32_t x)
{
    return x;
}
#endif

/* The lanes of a sum along a row: half a warp adds up a row, a thread for each lane. */
enum { LANES = 16 };

INLINE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE float number_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Four floats at once; a device refuses what is not aligned, and so does this. */
INLINE quad load_quad(const float *from)
{
#if !defined(__CUDACC__)
    if (reinterpret_cast<uintptr_t>(from) % sizeof(quad) != 0)
        __builtin_trap();
#endif
    return *reinterpret_cast<const quad *>(from);
}
INLINE void store_quad(float *to, quad q)
{
#if !defined(__CUDACC__)
    if (reinterpret_cast<uintptr_t>(to) % sizeof(quad) != 0)
        __builtin_trap();
#endif
    *reinterpret_cast<quad *>(to) = q;
}

INLINE float exponential(float x)
{
    const float least = -87.0f;
    float z = 88.0f < x ? 88.0f : x;
    z = z < least ? least : z;
    const float k = fused(z, 1.44269504f, 12582912.0f) - 12582912.0f;
    float f = fused(k, -0.693145751953125f, z);
    f = fused(k, -1.42860682e-6f, f);
    float p = 1.9875691500e-4f;
    p = fused(p, f, 1.3981999507e-3f);
    p = fused(p, f, 8.3334519073e-3f);
    p = fused(p, f, 4.1665795894e-2f);
    p = fused(p, f, 1.6666665459e-1f);
    p = fused(p, f, 5.0000001201e-1f);
    p = fused(p, f * f, f) + 1.0f;
    const float power = number_of(static_cast<uint32_t>(static_cast<int32_t>(k) + 127) << 23);
    return x < least ? 0.0f : p * power;
}
INLINE float hyperbolic_tangent(float x)
{
    return 1.0f - 2.0f / (exponential(2.0f * x) + 1.0f);
}
INLINE float logarithm(float x)
{
    return static_cast<float>(log(static_cast<double>(x)));
}

INLINE float gelu_argument(float x)
{
    return static_cast<float>(0.7978845608028654) * fused(static_cast<float>(0.044715) * (x * x), x, x);
}
INLINE float gelu_of(float x)
{
    return 0.5f * x * (1.0f + hyperbolic_tangent(gelu_argument(x)));
}
INLINE float gelu_slope(float x)
{
    const float th = hyperbolic_tangent(gelu_argument(x));
    const float du =
        static_cast<float>(0.7978845608028654) * fused(static_cast<float>(3 * 0.044715), x * x, 1.0f);
    return 0.5f * (1.0f + th) + 0.5f * x * (1.0f - th * th) * du;
}

INLINE float sigmoid(float x)
{
    return 1.0f / (exponential(-x) + 1.0f);
}

INLINE float greater(float x, float y)
{
    return x < y ? y : x;
}

/* What another lane of the warp has; all lanes come here. */
INLINE float across(float x, uint32_t mask)
{
    return number_of(shuffle(bits_of(x), lane_index() ^ mask));
}
/* The tree over the lanes of half a warp, in each of them: x + y is y + x. */
INLINE float fold_lanes(float sum)
{
    for (uint32_t mask = 1; mask < LANES; mask *= 2)
        sum = sum + across(sum, mask);
    return sum;
}
INLINE float greatest_lane(float most)
{
    for (uint32_t mask = 1; mask < LANES; mask *= 2)
        most = greater(most, across(most, mask));
    return most;
}

/* Which stripe a block of places is: see stripes.h. */
INLINE int64_t stripe_of(int64_t block)
{
    return (block & 1) << 2 | (block & 2) | block >> 2;
}

/* The canonical tree over parts that come one by one: a binary counter, of which each level has what waits
 * for its right neighbour; behind the last part, an odd one passes up. Which level that is shows only at run
 * time, so that it lies on the stack.
 * STACK of fold_token_leaves: 64
 * STACK of fold_each: 64
 * STACK of fold_parts_each: 64
 * STACK of fold_splits: 64
 * STACK of merge_each: 192 */
INLINE float joined(float left, float right)
{
    return left + right;
}
template <class Part, int LEVELS = 16> struct counter {
    Part waiting[LEVELS];

    /* Part i of n is done. After the last, the root is returned. */
    MEMBER Part after(Part part, int64_t i, int64_t n)
    {
        const bool last = i == n - 1;
        int level = 0;
        for (; i >> level && (last || (i >> level & 1)); level++)
            if (i >> level & 1)
                part = joined(waiting[level], part);
        if (!last)
            waiting[level] = part;
        return part;
    }
};

#endif
