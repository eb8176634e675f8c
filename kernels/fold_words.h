/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_words.h: words of fold_math.h and fold_float.h for a machine that has no instructions of its own for
 * them. C for processors, and C++ for CUDA devices; the includer has defined the vectors. */
#ifndef TT_KERNELS_FOLD_WORDS_H
#define TT_KERNELS_FOLD_WORDS_H

/* Bits of x where the mask is set, of y elsewhere. */
INLINE vec vec_select(vec mask, vec x, vec y)
{
    return (mask & x) | (~mask & y);
}

/* The upper halves of 32 bits, of a in the lower and of b in the upper half of a lane; and the lower ones. */
INLINE vec vec_uppers(vec a, vec b)
{
    return a >> 16 | (b & 0xffff0000);
}
INLINE vec vec_lowers(vec a, vec b)
{
    return (a & 0xffff) | b << 16;
}

/* Returns, in 16 bits, x with its last bit cleared where the rest is 0. */
INLINE vec vec_even_ties(vec x, vec rest)
{
    return (vec)((vec_u16)x & ~((vec_u16)((vec_u16)rest == 0) & 1));
}

/* The lesser of `most` and x, and the greater of `least` and x; x if it is NaN. */
INLINE vec f32_at_most(vec most, vec x)
{
    return vec_select((vec)((vec_f32)x > (vec_f32)most), most, x);
}
INLINE vec f32_at_least(vec least, vec x)
{
    return vec_select((vec)((vec_f32)x < (vec_f32)least), least, x);
}
INLINE vec i32_lesser(vec x, vec y)
{
    return vec_select((vec)((vec_i32)x < (vec_i32)y), x, y);
}
INLINE vec i32_greater(vec x, vec y)
{
    return vec_select((vec)((vec_i32)x > (vec_i32)y), x, y);
}

/* Two vectors of halves, each the low 16 bits of a lane, as one; and the fp32 of a half. */
INLINE vec halves_merge(vec a, vec b)
{
    return a | b << 16;
}
/* The biases of the exponents differ by 112. */
INLINE vec f32_of_half_code(vec code)
{
    vec magnitude = (code & 0x7fff) << 13;
    vec normal = magnitude + (112u << 23);
    vec infinite = magnitude | (255u << 23); /* or NaN */
    vec_f32 least = (vec_f32)vec_all(113u << 23); /* 2^-14, the least normal number */
    vec denormal = (vec)((vec_f32)(magnitude | (vec)least) - least);
    vec value = vec_select((vec)((vec_i32)magnitude < 1 << 23), denormal, normal);
    value = vec_select((vec)((vec_i32)magnitude >= 31 << 23), infinite, value);
    return value | (code & 0x8000) << 16;
}

#endif
