/* SPDX-License-Identifier: BSD-3-Clause */
/* set_avx2.c: the kernels with vectors of 32 bytes.
 *
 * The build compiles this file alone with -mavx2 -mfma; kernels.c looks at the processor before anything in
 * here runs. Without these flags the set has no name. */
#include "training/kernels/sets.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#define TR_VECTOR_BYTES 32
#include "training/kernels/vector.h"

enum { TILE_ROWS = 6, TILE_VECTORS = 2 };

INLINE vec vec_all(float x)
{
    return _mm256_set1_ps(x);
}
INLINE vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
/* x < y ? a : b */
INLINE vec vec_where_less(vec x, vec y, vec a, vec b)
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}
/* Both give x where it is no number. */
INLINE vec vec_at_most(vec most, vec x)
{
    return _mm256_min_ps(most, x);
}
INLINE vec vec_at_least(vec least, vec x)
{
    return _mm256_max_ps(least, x);
}
INLINE vec vec_root(vec x)
{
    return _mm256_sqrt_ps(x);
}
/* a[0] b[0] a[1] b[1] .. */
INLINE vec vec_low_pairs(vec a, vec b)
{
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
INLINE vec vec_high_pairs(vec a, vec b)
{
    return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}
INLINE __m256i first_lanes(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
/* The first n lanes of v, and those of `other` behind them. */
INLINE vec vec_first(vec v, int64_t n, vec other)
{
    return _mm256_blendv_ps(other, v, (__m256)first_lanes(n));
}
INLINE vec vec_load_first(const float *from, int64_t n)
{
    return _mm256_maskload_ps(from, first_lanes(n));
}
INLINE void vec_store_first(float *to, vec v, int64_t n)
{
    _mm256_maskstore_ps(to, first_lanes(n), v);
}

/* The tree over 16 lanes, the pairs (0, 1) (2, 3) .. first. */
INLINE float vec_fold_lanes(const vec *x)
{
    __m256 pairs = _mm256_hadd_ps(x[0], x[1]);
    __m256 fours = _mm256_hadd_ps(pairs, pairs); /* lanes 0-3, 8-11; 4-7, 12-15 */
    __m128 eights = _mm_add_ps(_mm256_castps256_ps128(fours), _mm256_extractf128_ps(fours, 1));
    return _mm_cvtss_f32(_mm_add_ss(eights, _mm_movehdup_ps(eights)));
}

#define TR_SET tr_kernels_avx2
#define TR_SET_NAME "avx2"
#include "training/kernels/set.h"
#else
const struct tr_kernels tr_kernels_avx2;
#endif
