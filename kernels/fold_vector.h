/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_vector.h: the vectors that the folds are written in, TT_VECTOR_BYTES long.
 *
 * These are the vector extensions of gcc and clang: one text gives SSE2, AVX2, AVX-512, NEON or plain scalar
 * code, and the speed does not hang on what a compiler manages to vectorise. A value travels as `vec`, raw
 * bits; an operation looks at them as what they are. The includer defines TT_VECTOR_BYTES first. */
#ifndef TT_KERNELS_FOLD_VECTOR_H
#define TT_KERNELS_FOLD_VECTOR_H
#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "kernels promise bits: build them without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "float is computed as float, else the bits differ between machines");

#define INLINE static inline __attribute__((always_inline))
#define VECTOR __attribute__((vector_size(TT_VECTOR_BYTES)))

typedef uint32_t vec VECTOR;
typedef uint8_t vec_u8 VECTOR;
typedef int8_t vec_i8 VECTOR;
typedef uint16_t vec_u16 VECTOR;
typedef int16_t vec_i16 VECTOR;
typedef int32_t vec_i32 VECTOR;
typedef uint64_t vec_u64 VECTOR;
typedef int64_t vec_i64 VECTOR;
typedef float vec_f32 VECTOR;
typedef double vec_f64 VECTOR;

#include "kernels/fold_wide.h"

INLINE vec vec_load(const void *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}

INLINE void vec_store(void *to, vec v)
{
    memcpy(to, &v, sizeof v);
}

/* A 32-bit lane of memory that has `bytes`, which may end within it or before: what is missing is 0. Put
 * together in a register, because a load waits for stores that are narrower. */
INLINE uint32_t lane_at(const uint8_t *from, size_t bytes, size_t lane)
{
    size_t at = 4 * lane;
    uint32_t x = 0;
    if (at + 4 <= bytes) {
        memcpy(&x, from + at, sizeof x);
        return x;
    }
    for (size_t i = 0; at + i < bytes; i++)
        x |= (uint32_t)from[at + i] << (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 8 * i : 24 - 8 * i);
    return x;
}

/* x in each 32-bit lane. */
INLINE vec vec_all(uint32_t x)
{
    return (vec){ 0 } + x;
}
INLINE vec_f32 vec_f32_all(float x)
{
    return (vec_f32){ 0 } + x;
}

#endif
