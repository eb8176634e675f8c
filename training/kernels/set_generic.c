/* SPDX-License-Identifier: BSD-3-Clause */
/* set_generic.c: the kernels for any processor, with vectors of 16 bytes.
 *
 * Without an instruction that multiplies and adds at once, fmaf is a slow call into the C library, but its
 * bits are right. */
#define TR_VECTOR_BYTES 16
#include "training/kernels/vector.h"

enum { TILE_ROWS = 4, TILE_VECTORS = 2 };

INLINE vec vec_all(float x)
{
    return (vec){ x, x, x, x };
}
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return (vec){ fmaf(a[0], b[0], c[0]), fmaf(a[1], b[1], c[1]), fmaf(a[2], b[2], c[2]),
        fmaf(a[3], b[3], c[3]) };
}
/* x < y ? a : b */
INLINE vec vec_where_less(vec x, vec y, vec a, vec b)
{
    vec_i32 less = (vec_i32)(x < y);
    return (vec)((less & (vec_i32)a) | (~less & (vec_i32)b));
}
/* Both give x where it is no number. */
INLINE vec vec_at_most(vec most, vec x)
{
    return vec_where_less(most, x, most, x);
}
INLINE vec vec_at_least(vec least, vec x)
{
    return vec_where_less(x, least, least, x);
}
INLINE vec vec_root(vec x)
{
    return (vec){ sqrtf(x[0]), sqrtf(x[1]), sqrtf(x[2]), sqrtf(x[3]) };
}
INLINE vec vec_low_pairs(vec a, vec b)
{
    return (vec){ a[0], b[0], a[1], b[1] };
}
INLINE vec vec_high_pairs(vec a, vec b)
{
    return (vec){ a[2], b[2], a[3], b[3] };
}
/* The first n lanes of v, and those of `other` behind them. */
INLINE vec vec_first(vec v, int64_t n, vec other)
{
    return (vec){ n > 0 ? v[0] : other[0], n > 1 ? v[1] : other[1], n > 2 ? v[2] : other[2],
        n > 3 ? v[3] : other[3] };
}
INLINE vec vec_load_first(const float *from, int64_t n)
{
    vec v = { 0 };
    memcpy(&v, from, (size_t)n * sizeof(float));
    return v;
}
INLINE void vec_store_first(float *to, vec v, int64_t n)
{
    memcpy(to, &v, (size_t)n * sizeof(float));
}

/* The tree over 16 lanes, the pairs (0, 1) (2, 3) .. first. */
INLINE float vec_fold_lanes(const vec *x)
{
    float quad[4];
    for (int i = 0; i < 4; i++)
        quad[i] = (x[i][0] + x[i][1]) + (x[i][2] + x[i][3]);
    return (quad[0] + quad[1]) + (quad[2] + quad[3]);
}

#define TR_SET tr_kernels_generic
#define TR_SET_NAME "generic"
#include "training/kernels/set.h"
