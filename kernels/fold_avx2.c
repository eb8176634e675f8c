/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_avx2.c: the folds with 32-byte vectors, and float16 converted by the processor (F16C).
 *
 * The build compiles this file alone with -mavx2 -mfma -mf16c; tt_isa_best looks at the CPU before anything
 * in here runs. Without those flags the table is empty. What the functions mean stands in fold_generic.c. */
#include "kernels/fold_table.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define TT_VECTOR_BYTES 32
#include "kernels/fold_vector.h"

/* Masks are of whole lanes, and what they leave out is not touched: memory may end there. */
INLINE __m256i first_lanes(size_t bytes)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)bytes / 4), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vec vec_load_first(const void *from, size_t bytes)
{
    vec whole = (vec)_mm256_maskload_epi32(from, first_lanes(bytes));
    if (bytes % 4 == 0)
        return whole;
    vec next = (vec)_mm256_xor_si256(first_lanes(bytes), first_lanes(bytes + 4));
    return whole | (next & lane_at(from, bytes, bytes / 4));
}
INLINE void vec_store_first(void *to, vec v, size_t bytes)
{
    if (bytes % 4 == 0)
        _mm256_maskstore_epi32(to, first_lanes(bytes), (__m256i)v);
    else
        memcpy(to, &v, bytes);
}
INLINE void vec_stream(void *to, vec v)
{
    _mm256_stream_si256((__m256i *)to, (__m256i)v);
}
INLINE vec vec_select(vec mask, vec x, vec y)
{
    return (vec)_mm256_blendv_epi8((__m256i)y, (__m256i)x, (__m256i)mask);
}
INLINE vec vec_uppers(vec a, vec b)
{
    return (vec)_mm256_blend_epi16((__m256i)(a >> 16), (__m256i)b, 0xaa);
}
INLINE vec vec_lowers(vec a, vec b)
{
    return (vec)_mm256_blend_epi16((__m256i)a, (__m256i)(b << 16), 0xaa);
}
INLINE vec vec_even_ties(vec x, vec rest)
{
    return (vec)((vec_u16)x & ~((vec_u16)((vec_u16)rest == 0) & 1));
}
INLINE vec f32_at_most(vec most, vec x)
{
    return (vec)_mm256_min_ps((__m256)most, (__m256)x);
}
INLINE vec f32_at_least(vec least, vec x)
{
    return (vec)_mm256_max_ps((__m256)least, (__m256)x);
}
/* Subtracts by x - y * 1, as float16_sum_f32 adds: the adders have more to do than the multipliers. */
INLINE vec f32_fused_difference(vec x, vec y)
{
    __m256 one = _mm256_set1_ps(1);
    __asm__("" : "+x"(one));
    return (vec)_mm256_fnmadd_ps((__m256)y, one, (__m256)x);
}
INLINE vec i32_lesser(vec x, vec y)
{
    return (vec)_mm256_min_epi32((__m256i)x, (__m256i)y);
}
INLINE vec i32_greater(vec x, vec y)
{
    return (vec)_mm256_max_epi32((__m256i)x, (__m256i)y);
}

typedef vec nans;
INLINE nans f32_nans(vec x, vec y)
{
    return (vec)_mm256_cmp_ps((__m256)x, (__m256)y, _CMP_UNORD_Q);
}
INLINE nans f64_nans(vec x, vec y)
{
    return (vec)_mm256_cmp_pd((__m256d)x, (__m256d)y, _CMP_UNORD_Q);
}
INLINE nans f32_not_finite(vec x)
{
    __m256 difference = _mm256_sub_ps((__m256)x, (__m256)x);
    return f32_nans((vec)difference, (vec)difference);
}
INLINE bool nans_any(nans n)
{
    return !_mm256_testz_si256((__m256i)n, (__m256i)n);
}

/* The empty asm hides from clang where the fp32 came from; else it compares as fp16, for which there are no
 * instructions. */
INLINE vec f32_of_halves(__m128i halves)
{
    __m256 f = _mm256_cvtph_ps(halves);
    __asm__("" : "+x"(f));
    return (vec)f;
}
INLINE struct wide halves_widen(vec halves)
{
    return wide_of_two(f32_of_halves(_mm256_castsi256_si128((__m256i)halves)),
        f32_of_halves(_mm256_extracti128_si256((__m256i)halves, 1)));
}
INLINE vec halves_merge(vec a, vec b)
{
    return (vec)_mm256_permute4x64_epi64(_mm256_packus_epi32((__m256i)a, (__m256i)b), 0xd8);
}

/* Straight from and to memory: the conversion does without a shuffle there. */
INLINE struct wide float16_widen(const uint8_t *from)
{
    return wide_of_two(f32_of_halves(_mm_loadu_si128((const __m128i *)from)),
        f32_of_halves(_mm_loadu_si128((const __m128i *)(from + 16))));
}
/* x * 1 + y has the bits of x + y, and leaves the adders to the conversions, which need them, too: a third
 * faster. The empty asm hides the 1 from compilers that would make an addition of it. */
INLINE vec float16_sum_f32(vec x, vec y)
{
    __m256 one = _mm256_set1_ps(1);
    __asm__("" : "+x"(one));
    return (vec)_mm256_fmadd_ps((__m256)y, one, (__m256)x);
}
INLINE vec float16_narrow(struct wide w)
{
    __m256i a = _mm256_castsi128_si256(_mm256_cvtps_ph((__m256)w.a, _MM_FROUND_TO_NEAREST_INT));
    return (vec)_mm256_inserti128_si256(a, _mm256_cvtps_ph((__m256)w.b, _MM_FROUND_TO_NEAREST_INT), 1);
}

#define TT_FOLD_TABLE tt_folds_avx2
#include "kernels/fold_loops.h"
#else
const struct tt_fold_table tt_folds_avx2;
#endif
