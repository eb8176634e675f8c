/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_float.h: floats between memory, where they are as narrow as their type, and the fp32 or fp64 that they
 * are computed in. C for processors, and C++ for CUDA devices.
 *
 * The includer has defined the vectors (fold_vector.h or cuda_vector.cuh), vec_uppers and _lowers,
 * vec_even_ties, halves_widen and _merge, f32_at_most, i32_lesser and _greater: fold_words.h has them for any
 * machine. What is widened is a whole vector of elements.
 *
 * Of a NaN only that it is one is kept: a NaN that is computed is all ones, in every type. Which payload
 * survives x + y differs between processors, and compilers may swap x and y. Sums are looked at several
 * vectors at a time and mended only where there is a NaN, before they are narrowed. */
#ifndef TT_KERNELS_FOLD_FLOAT_H
#define TT_KERNELS_FOLD_FLOAT_H

INLINE struct wide plain_parts(vec raw)
{
    return wide_of_one(raw);
}
INLINE vec plain_narrow(struct wide w)
{
    return w.a;
}

/* NaN to all ones. */
INLINE vec f32_mended(vec x)
{
    return x | (vec)((vec_f32)x != (vec_f32)x);
}
INLINE vec f64_mended(vec x)
{
    return x | (vec)((vec_f64)x != (vec_f64)x);
}

/* A bfloat16 is the upper half of an fp32: of two in a lane one is in place already. */
INLINE struct wide bfloat16_parts(vec raw)
{
    return wide_of_two(raw << 16, raw & 0xffff0000);
}
/* NaN to ones in the half that is kept; in the other one zeros, so that nothing carries: a device's own NaN
 * has ones there. */
INLINE vec bfloat16_mended(vec x)
{
    vec nan = (vec)((vec_f32)x != (vec_f32)x);
    return (x & ~nan) | (nan & 0xffff0000);
}
/* Adding half of the last bit that is kept rounds to nearest, and a tie upwards; there the rest is 0 then,
 * and the last bit is cleared. */
INLINE vec bfloat16_narrow(struct wide w)
{
    vec a = w.a + 0x8000, b = w.b + 0x8000;
    return vec_even_ties(vec_uppers(a, b), vec_lowers(a, b));
}

/* A float narrower than fp32, and how to get there. Beyond `most` a number becomes `most`, and NaN the number
 * whose code is all ones but for its sign, which a mended one has. Then `unit` is the power of two whose last
 * bit is worth the last one of the result: adding it rounds, of denormals too, and leaves the significand
 * with its leading one. Exponents are counted from that of the least normal number. */
struct narrow_float {
    int bits, fraction, least; /* of all; of the fraction; the least exponent */
    float most, nan;
};
INLINE struct narrow_float half(void)
{
    struct narrow_float t = { 16, 10, -14, 65536, 131008 }; /* 65536 stands for infinity */
    return t;
}
INLINE struct narrow_float e4m3(void)
{
    struct narrow_float t = { 8, 3, -6, 448, 480 };
    return t;
}
INLINE struct narrow_float e5m2(void)
{
    struct narrow_float t = { 8, 2, -14, 57344, 114688 };
    return t;
}

INLINE vec narrow_code(vec x, struct narrow_float t)
{
    const uint32_t least = (uint32_t)(127 + t.least) << 23, shift = (uint32_t)(23 - t.fraction);
    vec magnitude = f32_at_most((vec)vec_f32_all(t.most), x & 0x7fffffff);
    magnitude = i32_lesser(magnitude, (vec)vec_f32_all(t.nan));
    vec exponent = i32_greater(magnitude & 0x7f800000, vec_all(least));
    vec unit = exponent + (shift << 23);
    vec significand = (vec)((vec_f32)magnitude + (vec_f32)unit) - unit;
    vec code = significand + ((exponent - least) >> shift);
    return code | (x >> (32 - t.bits) & 1u << (t.bits - 1));
}

/* Quarters widen by way of halves, of which all of them are: the odd bytes and the even ones. */
INLINE struct wide widened_halves(vec even, vec odd)
{
    struct wide w = halves_widen(even), v = halves_widen(odd);
    return wide_of_four(w.a, w.b, v.a, v.b);
}
INLINE vec quarters_narrow(struct wide w, struct narrow_float t)
{
    vec even = halves_merge(narrow_code(w.a, t), narrow_code(w.b, t));
    vec odd = halves_merge(narrow_code(w.c, t), narrow_code(w.d, t));
    return even | odd << 8;
}

INLINE struct wide float8_e5m2_parts(vec raw)
{
    return widened_halves((vec)((vec_u16)raw << 8), raw & 0xff00ff00);
}
INLINE vec float8_e5m2_narrow(struct wide w)
{
    return quarters_narrow(w, e5m2());
}

/* Its exponent is one bit shorter and 8 less, and it has one NaN of each sign, which must be told. */
INLINE vec half_of_e4m3(vec code)
{
    vec_u16 nan = (vec_u16)(((vec_u16)code & 0x7f00) == 0x7f00);
    return (vec)(((vec_u16)((vec_i16)code >> 1) & 0xbf80) | nan);
}
INLINE struct wide float8_e4m3_parts(vec raw)
{
    struct wide w = widened_halves(half_of_e4m3((vec)((vec_u16)raw << 8)), half_of_e4m3(raw & 0xff00ff00));
    return wide_of_four((vec)((vec_f32)w.a * 256), (vec)((vec_f32)w.b * 256), (vec)((vec_f32)w.c * 256),
        (vec)((vec_f32)w.d * 256));
}
INLINE vec float8_e4m3_narrow(struct wide w)
{
    return quarters_narrow(w, e4m3());
}

#endif
