/* SPDX-License-Identifier: BSD-3-Clause */
/* convert_loops.h: arrays of fp32 from and to narrower floats, element by element.
 *
 * Integers only, without a branch, so that compilers make vectors of the loops with what each instruction
 * set has, and so that neither a rounding mode nor FTZ or DAZ changes a bit. (The one product is exact.) The
 * folds' conversions in fold_float.h know no NaN but their own, and leave the order of a vector open. */
#ifndef TT_KERNELS_CONVERT_LOOPS_H
#define TT_KERNELS_CONVERT_LOOPS_H
#include <stddef.h>
#include <stdint.h>

static inline uint32_t convert_bfloat16_widen(uint32_t code)
{
    uint32_t x = code << 16;
    return (x & 0x7fffffff) > 0x7f800000 ? x | 0x400000 : x;
}

static inline uint32_t convert_bfloat16_narrow(uint32_t x)
{
    uint32_t rounded = (x + 0x7fff + (x >> 16 & 1)) >> 16;
    return (x & 0x7fffffff) > 0x7f800000 ? x >> 16 | 0x40 : rounded;
}

static inline uint32_t convert_float16_widen(uint32_t code)
{
    union {
        float f;
        uint32_t bits;
    } denormal;
    uint32_t magnitude = code & 0x7fff;
    denormal.f = (float)(int32_t)magnitude * 0x1p-24F;
    uint32_t x = (magnitude << 13) + 0x38000000;
    x = magnitude < 0x400 ? denormal.bits : x;
    x = magnitude >= 0x7c00 ? (magnitude << 13) + 0x70000000 : x;
    x = magnitude > 0x7c00 ? x | 0x400000 : x;
    return x | (code & 0x8000) << 16;
}

/* Narrows a number. If it is less than the least normal one, 2^-14, its significand is shifted until its last
 * bit is worth 2^-24. */
static inline uint32_t convert_float16_narrow(uint32_t x)
{
    uint32_t magnitude = x & 0x7fffffff, exponent = magnitude >> 23;
    uint32_t normal = magnitude - 0x38000000;
    normal = (normal + 0xfff + (normal >> 13 & 1)) >> 13;
    uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    uint32_t shift = exponent < 113 ? 126 - exponent : 14;
    shift = shift < 30 ? shift : 30;
    uint32_t last = significand >> shift & 1;
    uint32_t small = (significand + (1u << (shift - 1)) - 1 + last) >> shift;
    uint32_t code = exponent < 113 ? small : normal;
    code = magnitude >= 0x47800000 ? 0x7c00 : code;
    code = magnitude > 0x7f800000 ? 0x7e00 | (magnitude >> 13 & 0x3ff) : code;
    return code | (x >> 16 & 0x8000);
}

#define CONVERT_LOOPS(type)                                                                                  \
    static void convert_from_##type(void *restrict to, const void *restrict from, size_t count)              \
    {                                                                                                        \
        const uint16_t *restrict in = from;                                                                  \
        uint32_t *restrict out = to;                                                                         \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = convert_##type##_widen(in[i]);                                                          \
    }                                                                                                        \
    static void convert_to_##type(void *restrict to, const void *restrict from, size_t count)                \
    {                                                                                                        \
        const uint32_t *restrict in = from;                                                                  \
        uint16_t *restrict out = to;                                                                         \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = (uint16_t)convert_##type##_narrow(in[i]);                                               \
    }

CONVERT_LOOPS(bfloat16)
CONVERT_LOOPS(float16)

#endif
