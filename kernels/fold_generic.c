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

/* Bits of x where the mask is set, of y elsewhere. */
INLINE vec vec_select(vec mask, vec x, vec y)
{
    return (mask & x) | (~mask & y);
}

/* The upper halves of 32 bits, of a in the lower and of b in the upper half of a lane; and the lower ones. */
INLINE vec vec_uppers(vec a, vec b)
{
    return a >> 16 | (b & 0xffff0000);
}
INLINE vec vec_lowers(vec a, vec b)
{
    return (a & 0xffff) | b << 16;
}

/* In 16 bits: x with its last bit cleared where the rest is 0. */
INLINE vec vec_even_ties(vec x, vec rest)
{
    return (vec)((vec_u16)x & ~((vec_u16)((vec_u16)rest == 0) & 1));
}

/* The lesser of `most` and x, and the greater of `least` and x; x if it is NaN. */
INLINE vec f32_at_most(vec most, vec x)
{
    return vec_select((vec)((vec_f32)x > (vec_f32)most), most, x);
}
INLINE vec f32_at_least(vec least, vec x)
{
    return vec_select((vec)((vec_f32)x < (vec_f32)least), least, x);
}
/* x - y; where there are units that multiply and add, by one of those. */
INLINE vec f32_fused_difference(vec x, vec y)
{
    return (vec)((vec_f32)x - (vec_f32)y);
}
INLINE vec i32_lesser(vec x, vec y)
{
    return vec_select((vec)((vec_i32)x < (vec_i32)y), x, y);
}
INLINE vec i32_greater(vec x, vec y)
{
    return vec_select((vec)((vec_i32)x > (vec_i32)y), x, y);
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

/* Halves of one vector to two of fp32 and back; a half is the low 16 bits of a lane on its way. */
INLINE struct wide halves_widen(vec halves)
{
    return (struct wide){ .a = f32_of_half(halves & 0xffff), .b = f32_of_half(halves >> 16) };
}
INLINE vec halves_merge(vec a, vec b)
{
    return a | b << 16;
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

/* The biases of the exponents differ by 112. */
static __attribute__((noinline)) vec f32_of_half(vec code)
{
    vec magnitude = (code & 0x7fff) << 13;
    vec normal = magnitude + (112u << 23);
    vec infinite = magnitude | (255u << 23); /* or NaN */
    vec_f32 least = (vec_f32)vec_all(113u << 23); /* 2^-14, the least normal number */
    vec denormal = (vec)((vec_f32)(magnitude | (vec)least) - least);
    vec value = vec_select((vec)((vec_i32)magnitude < 1 << 23), denormal, normal);
    value = vec_select((vec)((vec_i32)magnitude >= 31 << 23), infinite, value);
    return value | (code & 0x8000) << 16;
}

static __attribute__((noinline)) vec half_code(vec x)
{
    return narrow_code(x, half);
}
