/* fold_avx2.c: the folds with 32-byte vectors, and float16 converted by the processor (F16C).
 *
 * The build compiles this file alone with -mavx2 -mfma -mf16c; tt_isa_best looks at the CPU before anything
 * in here runs. Without those flags the table is empty. */
#include "kernels/fold_table.h"

#if defined(__AVX2__) && defined(__F16C__)
#include <immintrin.h>
#define TT_VECTOR_BYTES 32
#include "kernels/fold_vector.h"

/* Bits of a where the mask is set, of b elsewhere; a mask is all ones or all zeros per 32 bits. */
INLINE vec vec_select(vec mask, vec a, vec b)
{
    return (vec)_mm256_blendv_ps((__m256)b, (__m256)a, (__m256)mask);
}

/* Per 32 bits the upper half of one and the lower half of the other. */
INLINE vec vec_merge_halves(vec upper, vec lower)
{
    return (vec)_mm256_blend_epi16((__m256i)lower, (__m256i)upper, 0xaa);
}

/* A NaN becomes all ones, as fold_loops.h says; the processor alone would keep its payload. */
INLINE __m128i half_from_f32(vec x)
{
    __m256 f = (__m256)x;
    __m256 nan = _mm256_cmp_ps(f, f, _CMP_UNORD_Q);
    return _mm256_cvtps_ph(_mm256_or_ps(f, nan), _MM_FROUND_TO_NEAREST_INT);
}

/* Straight from and to memory: the conversion does without a shuffle there. The empty asm hides from clang
 * where the fp32 came from; else it compares as fp16, for which there are no instructions. */
INLINE vec f32_from_half(const uint8_t *from)
{
    __m256 f = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)from));
    __asm__("" : "+x"(f));
    return (vec)f;
}

INLINE struct wide float16_widen(const uint8_t *from)
{
    return (struct wide){ f32_from_half(from), f32_from_half(from + 16) };
}

INLINE void float16_narrow(uint8_t *to, struct wide w)
{
    _mm_storeu_si128((__m128i *)to, half_from_f32(w.low));
    _mm_storeu_si128((__m128i *)(to + 16), half_from_f32(w.high));
}

INLINE vec float16_round(vec x)
{
    return (vec)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
}

#define TT_FOLD_TABLE tt_folds_avx2
#include "kernels/fold_loops.h"
#else
const struct tt_fold_table tt_folds_avx2;
#endif
