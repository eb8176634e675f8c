/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_math.h: what an operation does to one vector of numbers, lane by lane. C for processors, and C++ for
 * CUDA devices.
 *
 * The includer has defined the vectors (fold_vector.h or cuda_vector.cuh) and vec_select. An instruction set
 * that orders numbers by itself defines TT_OWN_ORDER and the functions min_ and max_ of each lane. */
#ifndef TT_KERNELS_FOLD_MATH_H
#define TT_KERNELS_FOLD_MATH_H
/* Arithmetic. Signed integers add and multiply as unsigned ones: the same bits, and they may wrap. */

#define ARITHMETIC(lane, type)                                                                               \
    INLINE vec sum_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        return (vec)((type)x + (type)y);                                                                     \
    }                                                                                                        \
    INLINE vec prod_##lane(vec x, vec y)                                                                     \
    {                                                                                                        \
        return (vec)((type)x * (type)y);                                                                     \
    }
ARITHMETIC(u32, vec)
ARITHMETIC(u64, vec_u64)
ARITHMETIC(f32, vec_f32)
ARITHMETIC(f64, vec_f64)

INLINE vec sum_u8(vec x, vec y)
{
    return (vec)((vec_u8)x + (vec_u8)y);
}
/* No processor multiplies bytes: the even ones in 16 bits, and the odd ones in the upper half of 16 bits. */
INLINE vec prod_u8(vec x, vec y)
{
    vec_u16 even = (vec_u16)x * (vec_u16)y & 0xff, odd = ((vec_u16)x >> 8) * ((vec_u16)y & 0xff00);
    return (vec)(even | odd);
}

/* Bits, of any integer. */

INLINE vec and_bits(vec x, vec y)
{
    return x & y;
}
INLINE vec or_bits(vec x, vec y)
{
    return x | y;
}
INLINE vec xor_bits(vec x, vec y)
{
    return x ^ y;
}

/* Order. */

#ifndef TT_OWN_ORDER
#define INTEGER_ORDER(lane, type)                                                                            \
    INLINE vec max_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        return vec_select((vec)((type)x > (type)y), x, y);                                                   \
    }                                                                                                        \
    INLINE vec min_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        return vec_select((vec)((type)x < (type)y), x, y);                                                   \
    }
INTEGER_ORDER(i8, vec_i8)
INTEGER_ORDER(u8, vec_u8)
INTEGER_ORDER(i32, vec_i32)
INTEGER_ORDER(u32, vec)
INTEGER_ORDER(i64, vec_i64)
INTEGER_ORDER(u64, vec_u64)

/* y is taken unless x wins or y is NaN. Equal numbers have equal bits but for the sign of zero, so that
 * `and` of both gives +0 before -0 and `or` gives -0. */
#define FLOAT_ORDER(lane, type)                                                                              \
    INLINE vec max_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        vec first = (vec)((type)x > (type)y) | (vec)((type)y != (type)y);                                    \
        return vec_select(first, x, y) & (x | ~(vec)((type)x == (type)y));                                   \
    }                                                                                                        \
    INLINE vec min_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        vec first = (vec)((type)x < (type)y) | (vec)((type)y != (type)y);                                    \
        return vec_select(first, x, y) | (x & (vec)((type)x == (type)y));                                    \
    }
FLOAT_ORDER(f32, vec_f32)
FLOAT_ORDER(f64, vec_f64)
#endif

/* Division, at the end of an average. That of integers is in fold_divide.h. */

INLINE vec divide_f32(vec x, uint32_t divisor)
{
    return (vec)((vec_f32)x / (float)divisor);
}
INLINE vec divide_f64(vec x, uint32_t divisor)
{
    return (vec)((vec_f64)x / (double)divisor);
}

#endif
