/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_avx512.c: the folds with 64-byte vectors, for CPUs with AVX-512 F, BW, DQ and VL.
 *
 * The build compiles this file alone with these flags; tt_isa_best looks at the CPU, and at what the system
 * saves of its registers, before anything in here runs. Without the flags the table is empty. AVX-512's own
 * conversion to bfloat16 is not used: it takes denormals for zero. What the functions mean stands in
 * fold_generic.c. */
#include "kernels/fold_table.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#include <immintrin.h>
#define TT_VECTOR_BYTES 64
#include "kernels/fold_vector.h"

/* Indices into the 16-bit words of two vectors: of each lane the upper, or the lower, ones. */
static const _Alignas(64) uint16_t upper_words[32] = { 1, 33, 3, 35, 5, 37, 7, 39, 9, 41, 11, 43, 13, 45, 15,
    47, 17, 49, 19, 51, 21, 53, 23, 55, 25, 57, 27, 59, 29, 61, 31, 63 };
static const _Alignas(64) uint16_t lower_words[32] = { 0, 32, 2, 34, 4, 36, 6, 38, 8, 40, 10, 42, 12, 44, 14,
    46, 16, 48, 18, 50, 20, 52, 22, 54, 24, 56, 26, 58, 28, 60, 30, 62 };

/* Returns the mask of the first bytes. What is masked out is not touched: memory may end there. */
INLINE __mmask64 first_bytes(size_t bytes)
{
    return ~(__mmask64)0 >> (64 - bytes);
}
/* A load that crosses into the next cache line fetches that line, though all of it is masked out. Behind a
 * small message lies the line that its sender writes next, so a load is no wider than it must be. */
INLINE vec vec_load_first(const void *from, size_t bytes)
{
    if (bytes > 48)
        return (vec)_mm512_maskz_loadu_epi8(first_bytes(bytes), from);
    if (bytes <= 32)
        return (vec)_mm512_zextsi256_si512(_mm256_maskz_loadu_epi8((__mmask32)first_bytes(bytes), from));
    __m512i low = _mm512_zextsi256_si512(_mm256_loadu_si256(from));
    __m128i high = _mm_maskz_loadu_epi8((__mmask16)first_bytes(bytes - 32), (const __m256i *)from + 1);
    return (vec)_mm512_inserti32x4(low, high, 2);
}
INLINE void vec_store_first(void *to, vec v, size_t bytes)
{
    _mm512_mask_storeu_epi8(to, first_bytes(bytes), (__m512i)v);
}
INLINE void vec_stream(void *to, vec v)
{
    _mm512_stream_si512((__m512i *)to, (__m512i)v);
}
INLINE vec vec_uppers(vec a, vec b)
{
    return (vec)_mm512_permutex2var_epi16((__m512i)a, (__m512i)vec_load(upper_words), (__m512i)b);
}
INLINE vec vec_lowers(vec a, vec b)
{
    return (vec)_mm512_permutex2var_epi16((__m512i)a, (__m512i)vec_load(lower_words), (__m512i)b);
}
/* x and (the lesser of the rest and 1, or all other bits). */
INLINE vec vec_even_ties(vec x, vec rest)
{
    __m512i any = _mm512_min_epu16((__m512i)rest, _mm512_set1_epi16(1));
    return (vec)_mm512_ternarylogic_epi32((__m512i)x, any, _mm512_set1_epi16(-2), 0xe0);
}
INLINE vec f32_at_most(vec most, vec x)
{
    return (vec)_mm512_min_ps((__m512)most, (__m512)x);
}
INLINE vec f32_at_least(vec least, vec x)
{
    return (vec)_mm512_max_ps((__m512)least, (__m512)x);
}
INLINE vec f32_fused_difference(vec x, vec y)
{
    __m512 one = _mm512_set1_ps(1);
    __asm__("" : "+v"(one));
    return (vec)_mm512_fnmadd_ps((__m512)y, one, (__m512)x);
}
INLINE vec i32_lesser(vec x, vec y)
{
    return (vec)_mm512_min_epi32((__m512i)x, (__m512i)y);
}
INLINE vec i32_greater(vec x, vec y)
{
    return (vec)_mm512_max_epi32((__m512i)x, (__m512i)y);
}

typedef uint32_t nans; /* a bit for each lane */
INLINE nans f32_nans(vec x, vec y)
{
    return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_UNORD_Q);
}
INLINE nans f64_nans(vec x, vec y)
{
    return _mm512_cmp_pd_mask((__m512d)x, (__m512d)y, _CMP_UNORD_Q);
}
INLINE nans f32_not_finite(vec x)
{
    enum { QUIET_NAN = 0x01, INFINITIES = 0x18, SIGNALLING_NAN = 0x80 };
    return _mm512_fpclass_ps_mask((__m512)x, QUIET_NAN | INFINITIES | SIGNALLING_NAN);
}
INLINE bool nans_any(nans n)
{
    return n != 0;
}

/* Comparisons give masks here, so order has its own words. The processor's minimum and maximum give y where
 * one operand is NaN or both are zeros. */
#define TT_OWN_ORDER
#define INTEGER_ORDER(lane, suffix)                                                                          \
    INLINE vec max_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        return (vec)_mm512_max_##suffix((__m512i)x, (__m512i)y);                                             \
    }                                                                                                        \
    INLINE vec min_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        return (vec)_mm512_min_##suffix((__m512i)x, (__m512i)y);                                             \
    }
INTEGER_ORDER(i8, epi8)
INTEGER_ORDER(u8, epu8)
INTEGER_ORDER(i32, epi32)
INTEGER_ORDER(u32, epu32)
INTEGER_ORDER(i64, epi64)
INTEGER_ORDER(u64, epu64)

#define FLOAT_ORDER(lane, type, mask, suffix)                                                                \
    INLINE vec max_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        mask equal = _mm512_cmp_##suffix##_mask((type)x, (type)y, _CMP_EQ_OQ);                               \
        mask nan = _mm512_cmp_##suffix##_mask((type)y, (type)y, _CMP_UNORD_Q);                               \
        type r = _mm512_max_##suffix((type)x, (type)y);                                                      \
        r = _mm512_mask_and_##suffix(r, equal, (type)x, (type)y);                                            \
        return (vec)_mm512_mask_mov_##suffix(r, nan, (type)x);                                               \
    }                                                                                                        \
    INLINE vec min_##lane(vec x, vec y)                                                                      \
    {                                                                                                        \
        mask equal = _mm512_cmp_##suffix##_mask((type)x, (type)y, _CMP_EQ_OQ);                               \
        mask nan = _mm512_cmp_##suffix##_mask((type)y, (type)y, _CMP_UNORD_Q);                               \
        type r = _mm512_min_##suffix((type)x, (type)y);                                                      \
        r = _mm512_mask_or_##suffix(r, equal, (type)x, (type)y);                                             \
        return (vec)_mm512_mask_mov_##suffix(r, nan, (type)x);                                               \
    }
FLOAT_ORDER(f32, __m512, __mmask16, ps)
FLOAT_ORDER(f64, __m512d, __mmask8, pd)

/* Sums that the floating-point environment changes in one way only: denormals may count as zeros, and sums
 * that are such become zeros. (So do classes of vfpclass; hence the bits.) A NaN is all ones. */
#define TT_STEADY_SUMS
enum { NEAREST = _MM_FROUND_TO_NEAREST_INT };
#define STEADY_SUM(lane, type, suffix, mask, width, exponent)                                                \
    INLINE vec lane##_steady_sum(vec x, vec y)                                                               \
    {                                                                                                        \
        type sum = _mm512_add_round_##suffix((type)x, (type)y, NEAREST | _MM_FROUND_NO_EXC);                 \
        mask nan = _mm512_cmp_round_##suffix##_mask(sum, sum, _CMP_UNORD_Q, _MM_FROUND_NO_EXC);              \
        return (vec)_mm512_mask_set1_epi##width((__m512i)sum, nan, -1);                                      \
    }                                                                                                        \
    INLINE bool lane##_may_flush(vec x, vec y, vec sum)                                                      \
    {                                                                                                        \
        __m512i exponents = _mm512_set1_epi##width(exponent);                                                \
        __m512i all = _mm512_set1_epi##width(INT##width##_MAX);                                              \
        mask x_is_not_0 = _mm512_test_epi##width##_mask((__m512i)x, all);                                    \
        mask y_is_not_0 = _mm512_test_epi##width##_mask((__m512i)y, all);                                    \
        mask found = _mm512_mask_testn_epi##width##_mask(x_is_not_0, (__m512i)x, exponents);                 \
        found |= _mm512_mask_testn_epi##width##_mask(y_is_not_0, (__m512i)y, exponents);                     \
        found |= _mm512_mask_testn_epi##width##_mask(x_is_not_0, (__m512i)sum, all);                         \
        return found != 0;                                                                                   \
    }
STEADY_SUM(f32, __m512, ps, __mmask16, 32, 0x7f800000)
STEADY_SUM(f64, __m512d, pd, __mmask8, 64, 0x7ff0000000000000)

/* The empty asm is for clang, as in fold_avx2.c. */
INLINE vec f32_of_halves(__m256i halves)
{
    __m512 f = _mm512_cvtph_ps(halves);
    __asm__("" : "+v"(f));
    return (vec)f;
}
INLINE struct wide halves_widen(vec halves)
{
    return wide_of_two(f32_of_halves(_mm512_castsi512_si256((__m512i)halves)),
        f32_of_halves(_mm512_extracti64x4_epi64((__m512i)halves, 1)));
}
INLINE vec halves_merge(vec a, vec b)
{
    __m512i merged = _mm512_castsi256_si512(_mm512_cvtepi32_epi16((__m512i)a));
    return (vec)_mm512_inserti64x4(merged, _mm512_cvtepi32_epi16((__m512i)b), 1);
}

INLINE struct wide float16_widen(const uint8_t *from)
{
    return wide_of_two(f32_of_halves(_mm256_loadu_si256((const __m256i *)from)),
        f32_of_halves(_mm256_loadu_si256((const __m256i *)(from + 32))));
}
/* x * 1 + y, as in fold_avx2.c. */
INLINE vec float16_sum_f32(vec x, vec y)
{
    __m512 one = _mm512_set1_ps(1);
    __asm__("" : "+v"(one));
    return (vec)_mm512_fmadd_ps((__m512)y, one, (__m512)x);
}
INLINE vec float16_narrow(struct wide w)
{
    __m512i a = _mm512_castsi256_si512(_mm512_cvtps_ph((__m512)w.a, _MM_FROUND_TO_NEAREST_INT));
    return (vec)_mm512_inserti64x4(a, _mm512_cvtps_ph((__m512)w.b, _MM_FROUND_TO_NEAREST_INT), 1);
}

#define TT_FOLD_TABLE tt_folds_avx512
#include "kernels/fold_loops.h"
#else
const struct tt_fold_table tt_folds_avx512;
#endif
