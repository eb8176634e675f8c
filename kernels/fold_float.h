/* fold_float.h: floats between memory, where they are as narrow as their type, and the fp32 or fp64 that they
 * are computed in.
 *
 * The includer has defined vec_uppers and _lowers, vec_even_ties, halves_widen and _merge, f32_at_most,
 * _at_least and _fused_difference, i32_lesser and _greater, float16_widen, _sum_f32 and _narrow.
 *
 * Of a NaN only that it is one is kept: a NaN that is computed is all ones, in every type. Which payload
 * survives x + y differs between processors, and compilers may swap x and y. Sums are looked at several
 * vectors at a time and mended only where there is a NaN, before they are narrowed. */
#ifndef TT_KERNELS_FOLD_FLOAT_H
#define TT_KERNELS_FOLD_FLOAT_H
#include "kernels/fold_vector.h"

INLINE struct wide plain_widen(const uint8_t *from)
{
    return (struct wide){ .a = vec_load(from) };
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
INLINE struct wide bfloat16_widen(const uint8_t *from)
{
    vec raw = vec_load(from);
    return (struct wide){ .a = raw << 16, .b = raw & 0xffff0000 };
}
/* NaN to ones in the half that is kept; in the other one zeros, so that nothing carries: the NaNs that come
 * here are widened bfloat16s or a processor's own, and their lower halves are 0. */
INLINE vec bfloat16_mended(vec x)
{
    return x | ((vec)((vec_f32)x != (vec_f32)x) & 0xffff0000);
}
/* Adding half of the last bit that is kept rounds to nearest, and a tie upwards; there the rest is 0 then,
 * and the last bit is cleared. */
INLINE vec bfloat16_narrow(struct wide w)
{
    vec a = w.a + 0x8000, b = w.b + 0x8000;
    return vec_even_ties(vec_uppers(a, b), vec_lowers(a, b));
}

/* Rounding in a register, for the inner nodes of trees: Veltkamp's splitting (T. J. Dekker, "A floating-point
 * technique for extending the available precision", 1971). `scaled` less its difference from x is the nearest
 * number of 24 - s bits, for a power 2^s. That ties go to even was tried for the powers below, with every
 * significand of one exponent. It holds where x * 2^s does not overflow. In a sum of two narrow numbers
 * denormals are right, too: they have no more bits than the type. */
INLINE vec f32_rounded(vec x, float power)
{
    vec_f32 scaled = (vec_f32)x * (power + 1);
    return (vec)(scaled - (vec_f32)f32_fused_difference((vec)scaled, x));
}
INLINE vec bfloat16_rounded(vec x)
{
    return f32_rounded(x, 0x1p16F);
}
INLINE vec saturated(vec x, float most)
{
    vec_f32 all = (vec_f32){ 0 } + most;
    return f32_at_least((vec)-all, f32_at_most((vec)all, x));
}
INLINE vec float8_e4m3_rounded(vec x)
{
    return f32_rounded(saturated(x, 448), 0x1p20F);
}
INLINE vec float8_e5m2_rounded(vec x)
{
    return f32_rounded(saturated(x, 57344), 0x1p21F);
}

/* Of numbers that are rounded already. */
INLINE vec bfloat16_pack(struct wide w)
{
    return vec_uppers(w.a, w.b);
}

/* A float narrower than fp32, and how to get there. Beyond `most` a number becomes `most`, and NaN the number
 * whose code is all ones but for its sign, which a mended one has. Then `unit` is the power of two whose last
 * bit is worth the last one of the result: adding it rounds, of denormals too, and leaves the significand
 * with its leading one. Exponents are counted from that of the least normal number. */
struct narrow_float {
    int bits, fraction, least; /* of all; of the fraction; the least exponent */
    float most, nan;
};
static const struct narrow_float half = { 16, 10, -14, 65536, 131008 }; /* 65536 stands for infinity */
static const struct narrow_float e4m3 = { 8, 3, -6, 448, 480 };
static const struct narrow_float e5m2 = { 8, 2, -14, 57344, 114688 };

INLINE vec narrow_code(vec x, struct narrow_float t)
{
    const uint32_t least = (uint32_t)(127 + t.least) << 23, shift = (uint32_t)(23 - t.fraction);
    vec_f32 most = (vec_f32){ 0 } + t.most, nan = (vec_f32){ 0 } + t.nan;
    vec magnitude = f32_at_most((vec)most, x & 0x7fffffff);
    magnitude = i32_lesser(magnitude, (vec)nan);
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
    return (struct wide){ w.a, w.b, v.a, v.b };
}
INLINE vec quarters_narrow(struct wide w, struct narrow_float t)
{
    vec even = halves_merge(narrow_code(w.a, t), narrow_code(w.b, t));
    vec odd = halves_merge(narrow_code(w.c, t), narrow_code(w.d, t));
    return even | odd << 8;
}

INLINE struct wide float8_e5m2_widen(const uint8_t *from)
{
    vec raw = vec_load(from);
    return widened_halves((vec)((vec_u16)raw << 8), raw & 0xff00ff00);
}
INLINE vec float8_e5m2_narrow(struct wide w)
{
    return quarters_narrow(w, e5m2);
}

/* Its exponent is one bit shorter and 8 less, and it has one NaN of each sign, which must be told. */
INLINE vec half_of_e4m3(vec code)
{
    vec_u16 nan = (vec_u16)(((vec_u16)code & 0x7f00) == 0x7f00);
    return (vec)(((vec_u16)((vec_i16)code >> 1) & 0xbf80) | nan);
}
INLINE struct wide float8_e4m3_widen(const uint8_t *from)
{
    vec raw = vec_load(from);
    struct wide w = widened_halves(half_of_e4m3((vec)((vec_u16)raw << 8)), half_of_e4m3(raw & 0xff00ff00));
    return (struct wide){ (vec)((vec_f32)w.a * 256), (vec)((vec_f32)w.b * 256), (vec)((vec_f32)w.c * 256),
        (vec)((vec_f32)w.d * 256) };
}
INLINE vec float8_e4m3_narrow(struct wide w)
{
    return quarters_narrow(w, e4m3);
}

#endif
