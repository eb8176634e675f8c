/* SPDX-License-Identifier: BSD-3-Clause */
/* set_avx512.c: the kernels with vectors of 64 bytes.
 *
 * The build compiles this file alone with -mavx512f and its company; kernels.c looks at the processor before
 * anything in here runs. Without these flags the set has no name. */
#include "training/kernels/sets.h"

#if defined(__AVX512F__)
#include <immintrin.h>
#define TR_VECTOR_BYTES 64
#include "training/kernels/vector.h"

enum { TILE_ROWS = 8, TILE_VECTORS = 2 };

INLINE vec vec_all(float x)
{
    return _mm512_set1_ps(x);
}
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
/* x < y ? a : b */
INLINE vec vec_where_less(vec x, vec y, vec a, vec b)
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
/* Both give x where it is no number. */
INLINE vec vec_at_most(vec most, vec x)
{
    return _mm512_min_ps(most, x);
}
INLINE vec vec_at_least(vec least, vec x)
{
    return _mm512_max_ps(least, x);
}
INLINE vec vec_root(vec x)
{
    return _mm512_sqrt_ps(x);
}
/* a[0] b[0] a[1] b[1] .. */
INLINE vec vec_low_pairs(vec a, vec b)
{
    const __m512i from = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    return _mm512_permutex2var_ps(a, from, b);
}
INLINE vec vec_high_pairs(vec a, vec b)
{
    const __m512i from = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    return _mm512_permutex2var_ps(a, from, b);
}
INLINE __mmask16 first_lanes(int64_t n)
{
    return (__mmask16)((1u << n) - 1);
}
/* The first n lanes of v, and those of `other` behind them. */
INLINE vec vec_first(vec v, int64_t n, vec other)
{
    return _mm512_mask_blend_ps(first_lanes(n), other, v);
}
INLINE vec vec_load_first(const float *from, int64_t n)
{
    return _mm512_maskz_loadu_ps(first_lanes(n), from);
}
INLINE void vec_store_first(float *to, vec v, int64_t n)
{
    _mm512_mask_storeu_ps(to, first_lanes(n), v);
}

/* The tree over 16 lanes, the pairs (0, 1) (2, 3) .. first. */
INLINE float vec_fold_lanes(const vec *x)
{
    __m256 pairs = _mm256_hadd_ps(_mm512_castps512_ps256(x[0]), _mm512_extractf32x8_ps(x[0], 1));
    __m256 fours = _mm256_hadd_ps(pairs, pairs); /* lanes 0-3, 8-11; 4-7, 12-15 */
    __m128 eights = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
    return _mm_cvtss_f32(_mm_add_ss(eights, _mm_movehdup_ps(eights)));
}

#define TR_SET tr_kernels_avx512
#define TR_SET_NAME "avx512"
#include "training/kernels/set.h"
#else
const struct tr_kernels tr_kernels_avx512;
#endif
