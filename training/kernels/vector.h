/* SPDX-License-Identifier: BSD-3-Clause */
/* vector.h: the vectors that kernels are written in, TR_VECTOR_BYTES long.
 *
 * These are the vector extensions of gcc and clang, so that one text serves each instruction set and + - * /
 * are the operations of IEEE 754 on each lane. What they lack, the includer defines: vec_all, vec_fma,
 * vec_at_most, vec_at_least, vec_where_less, vec_root, vec_low_pairs, vec_high_pairs, vec_load_first,
 * vec_store_first, vec_first and vec_fold_lanes. Kernels never hang on what a compiler manages to vectorise
 * or to contract. */
#ifndef TRAINING_KERNELS_VECTOR_H
#define TRAINING_KERNELS_VECTOR_H
#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __FAST_MATH__
#error "kernels promise bits: build them without -ffast-math"
#endif
_Static_assert(FLT_EVAL_METHOD == 0, "float is computed as float, else the bits differ between machines");

#define INLINE static inline __attribute__((always_inline))

/* The first argument of each function of the table, which a processor's kernels have no use for. */
#define CONTEXT struct tr_context *context __attribute__((unused))

typedef float vec __attribute__((vector_size(TR_VECTOR_BYTES)));
typedef int32_t vec_i32 __attribute__((vector_size(TR_VECTOR_BYTES)));

enum { WIDTH = TR_VECTOR_BYTES / 4 }; /* floats of a vector */

INLINE vec vec_load(const float *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return v;
}
INLINE void vec_store(float *to, vec v)
{
    memcpy(to, &v, sizeof v);
}
INLINE int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
#endif
