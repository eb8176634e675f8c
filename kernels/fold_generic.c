/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_generic.c: the folds for any CPU: 16-byte vectors, which every 64-bit machine has.
 *
 * It is also the measure: other instruction sets must give its bits. float16 is converted with integers,
 * two numbers per 32-bit lane, so that nothing moves between lanes. These conversions are calls, which costs
 * a tenth of the time and saves half of the code: processors that matter convert by themselves. */
#define TT_VECTOR_BYTES 16
#include "kernels/fold_vector.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* The first bytes of a vector, fewer than all; the others are 0. */
static __attribute__((noinline)) vec vec_load_first(const void *from, size_t bytes)
{
    return (vec){ lane_at(from, bytes, 0), lane_at(from, bytes, 1), lane_at(from, bytes, 2),
        lane_at(from, bytes, 3) };
}
static __attribute__((noinline)) void vec_store_first(void *to, vec v, size_t bytes)
{
    memcpy(to, &v, bytes);
}

/* A store past the caches, where `to` is aligned to a vector. */
INLINE void vec_stream(void *to, vec v)
{
#if defined(__SSE2__)
    _mm_stream_si128((__m128i *)to, (__m128i)v);
#else
    vec_store(to, v);
#endif
}

#include "kernels/fold_words.h"

/* x - y; where there are units that multiply and add, by one of those. */
INLINE vec f32_fused_difference(vec x, vec y)
{
    return (vec)((vec_f32)x - (vec_f32)y);
}
/* Is there a NaN? */
typedef vec nans;
INLINE nans f32_nans(vec x, vec y)
{
    return (vec)((vec_f32)x != (vec_f32)x) | (vec)((vec_f32)y != (vec_f32)y);
}
INLINE nans f64_nans(vec x, vec y)
{
    return (vec)((vec_f64)x != (vec_f64)x) | (vec)((vec_f64)y != (vec_f64)y);
}
INLINE nans f32_not_finite(vec x)
{
    return (vec)((vec_f32)x - (vec_f32)x != 0);
}
INLINE bool nans_any(nans n)
{
    return (((vec_u64)n)[0] | ((vec_u64)n)[1]) != 0;
}

static vec half_code(vec x);
static vec f32_of_half(vec code);

/* Halves of one vector to two of fp32; a half is the low 16 bits of a lane on its way. */
INLINE struct wide halves_widen(vec halves)
{
    return wide_of_two(f32_of_half(halves & 0xffff), f32_of_half(halves >> 16));
}

INLINE struct wide float16_widen(const uint8_t *from)
{
    return halves_widen(vec_load(from));
}
/* The sum of two that were widened. */
INLINE vec float16_sum_f32(vec x, vec y)
{
    return (vec)((vec_f32)x + (vec_f32)y);
}
INLINE vec float16_narrow(struct wide w)
{
    return halves_merge(half_code(w.a), half_code(w.b));
}

#define TT_FOLD_TABLE tt_folds_generic
#include "kernels/fold_loops.h"

static __attribute__((noinline)) vec f32_of_half(vec code)
{
    return f32_of_half_code(code);
}

static __attribute__((noinline)) vec half_code(vec x)
{
    return narrow_code(x, half());
}
