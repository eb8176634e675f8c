/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_numbers.cuh: types and operations as the kernels' templates take them. What they mean stands in
 * fold_float.h, fold_math.h and fold_divide.h, which the processors' kernels are made of, too. */
#ifndef TT_KERNELS_CUDA_NUMBERS_CUH
#define TT_KERNELS_CUDA_NUMBERS_CUH
#include "kernels/cuda/cuda_vector.cuh"

/* PARTS: vectors that one vector of elements widens to. ROUNDS: inner nodes of a tree are narrower than what
 * they are computed in. */
#define INTEGER(name)                                                                                        \
    struct name##_number {                                                                                   \
        using element = name##_t;                                                                            \
        enum { PARTS = 1, ROUNDS = 0 };                                                                      \
        static MEMBER struct wide widen(vec raw)                                                             \
        {                                                                                                    \
            return plain_parts(raw);                                                                         \
        }                                                                                                    \
        static MEMBER vec narrow(struct wide w)                                                              \
        {                                                                                                    \
            return plain_narrow(w);                                                                          \
        }                                                                                                    \
        static MEMBER vec mended(vec x)                                                                      \
        {                                                                                                    \
            return x;                                                                                        \
        }                                                                                                    \
        static MEMBER vec divided(vec x, uint32_t divisor)                                                   \
        {                                                                                                    \
            lanes<name##_t> l(x);                                                                            \
            UNROLL                                                                                           \
            for (int i = 0; i < lanes<name##_t>::COUNT; i++)                                                 \
                l.of[i] = quotient_##name(l.of[i], divisor);                                                 \
            return vec(l);                                                                                   \
        }                                                                                                    \
    }
#define FLOAT(name, stored, bits, parts, rounds, widens, narrows, mends)                                     \
    struct name##_number {                                                                                   \
        using element = stored;                                                                              \
        enum { PARTS = parts, ROUNDS = rounds };                                                             \
        static MEMBER struct wide widen(vec raw)                                                             \
        {                                                                                                    \
            return widens(raw);                                                                              \
        }                                                                                                    \
        static MEMBER vec narrow(struct wide w)                                                              \
        {                                                                                                    \
            return narrows(w);                                                                               \
        }                                                                                                    \
        static MEMBER vec mended(vec x)                                                                      \
        {                                                                                                    \
            return mends(x);                                                                                 \
        }                                                                                                    \
        static MEMBER vec divided(vec x, uint32_t divisor)                                                   \
        {                                                                                                    \
            return divide_f##bits(x, divisor);                                                               \
        }                                                                                                    \
    }

INTEGER(int8);
INTEGER(uint8);
INTEGER(int32);
INTEGER(uint32);
INTEGER(int64);
INTEGER(uint64);
FLOAT(float16, uint16_t, 32, 2, 1, float16_parts, float16_narrow, f32_mended);
FLOAT(float32, uint32_t, 32, 1, 0, plain_parts, plain_narrow, f32_mended);
FLOAT(float64, uint64_t, 64, 1, 0, plain_parts, plain_narrow, f64_mended);
FLOAT(bfloat16, uint16_t, 32, 2, 1, bfloat16_parts, bfloat16_narrow, bfloat16_mended);
FLOAT(float8_e4m3, uint8_t, 32, 4, 1, float8_e4m3_parts, float8_e4m3_narrow, f32_mended);
FLOAT(float8_e5m2, uint8_t, 32, 4, 1, float8_e5m2_parts, float8_e5m2_narrow, f32_mended);

/* DIVIDES: ends in a division, if the caller gives a divisor. */
#define OPERATION(name, divides)                                                                             \
    struct name##_of_lanes {                                                                                 \
        enum { DIVIDES = divides };                                                                          \
        static MEMBER vec combined(vec x, vec y)                                                             \
        {                                                                                                    \
            return name(x, y);                                                                               \
        }                                                                                                    \
    }
#define ARITHMETIC_OF(lane)                                                                                  \
    OPERATION(sum_##lane, 1);                                                                                \
    OPERATION(prod_##lane, 0)
#define ORDER_OF(lane)                                                                                       \
    OPERATION(max_##lane, 0);                                                                                \
    OPERATION(min_##lane, 0)
ARITHMETIC_OF(u8);
ARITHMETIC_OF(u32);
ARITHMETIC_OF(u64);
ARITHMETIC_OF(f32);
ARITHMETIC_OF(f64);
ORDER_OF(i8);
ORDER_OF(u8);
ORDER_OF(i32);
ORDER_OF(u32);
ORDER_OF(i64);
ORDER_OF(u64);
ORDER_OF(f32);
ORDER_OF(f64);
OPERATION(and_bits, 0);
OPERATION(or_bits, 0);
OPERATION(xor_bits, 0);

/* --- One vector, widened. */

template <class Operation, class Number>
INLINE struct wide combined(Number, struct wide left, struct wide right)
{
    left.a = Operation::combined(left.a, right.a);
    if (Number::PARTS > 1)
        left.b = Operation::combined(left.b, right.b);
    if (Number::PARTS > 2) {
        left.c = Operation::combined(left.c, right.c);
        left.d = Operation::combined(left.d, right.d);
    }
    return left;
}

template <class Number> INLINE struct wide divided(Number, struct wide w, uint32_t divisor)
{
    if (divisor <= 1)
        return w;
    w.a = Number::divided(w.a, divisor);
    if (Number::PARTS > 1)
        w.b = Number::divided(w.b, divisor);
    if (Number::PARTS > 2) {
        w.c = Number::divided(w.c, divisor);
        w.d = Number::divided(w.d, divisor);
    }
    return w;
}

/* Returns a number as it is stored. A device mends without looking first whether there is a NaN. */
template <class Number> INLINE vec stored(Number, struct wide w)
{
    w.a = Number::mended(w.a);
    if (Number::PARTS > 1)
        w.b = Number::mended(w.b);
    if (Number::PARTS > 2) {
        w.c = Number::mended(w.c);
        w.d = Number::mended(w.d);
    }
    return Number::narrow(w);
}

#endif
