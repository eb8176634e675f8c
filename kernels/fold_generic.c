/* fold_generic.c: the folds for any CPU: 16-byte vectors, which every 64-bit machine has.
 *
 * It is also the measure: other instruction sets must give its bits. float16 is converted with integers,
 * two numbers per 32-bit lane, so that nothing moves between lanes. These conversions are calls, which costs
 * a tenth of the time and saves half of the code: processors that matter convert by themselves. */
#define TT_VECTOR_BYTES 16
#include "kernels/fold_vector.h"

/* Bits of a where the mask is set, of b elsewhere. */
INLINE vec vec_select(vec mask, vec a, vec b)
{
    return (mask & a) | (~mask & b);
}

/* Per 32 bits the upper half of one and the lower half of the other. */
INLINE vec vec_merge_halves(vec upper, vec lower)
{
    return (upper & 0xffff0000) | (lower & 0xffff);
}

/* The float16 in the low 16 bits of each lane. The biases of the exponents differ by 112. */
static __attribute__((noinline)) vec f32_from_half(vec half)
{
    vec magnitude = (half & 0x7fff) << 13;
    vec normal = magnitude + (112u << 23);
    vec infinite = magnitude | (255u << 23); /* or NaN */
    vec_f32 least = (vec_f32)((vec){ 0 } + (113u << 23)); /* 2^-14, the least normal number */
    vec denormal = (vec)((vec_f32)(magnitude | (vec)least) - least);
    vec value = vec_select((vec)((vec_i32)magnitude < 1 << 23), denormal, normal);
    value = vec_select((vec)((vec_i32)magnitude >= 31 << 23), infinite, value);
    return value | (half & 0x8000) << 16;
}

/* Rounded to nearest even; a NaN becomes all ones, as fold_loops.h says. */
static __attribute__((noinline)) vec half_from_f32(vec x)
{
    vec magnitude = x & 0x7fffffff;
    vec normal = (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13;
    vec_f32 shift = (vec_f32)((vec){ 0 } + (126u << 23)); /* the last bit of 0.5 is worth 2^-24 */
    vec denormal = (vec)((vec_f32)magnitude + shift) - (vec)shift;
    vec half = vec_select((vec)((vec_i32)magnitude < 113 << 23), denormal, normal);
    half = vec_select((vec)((vec_i32)magnitude >= 143 << 23), (vec){ 0 } + 0x7c00, half);
    half |= x >> 16 & 0x8000;
    return half | ((vec)((vec_i32)magnitude > 255 << 23) & 0xffff);
}

INLINE struct wide float16_widen(const uint8_t *from)
{
    vec raw = vec_load(from);
    return (struct wide){ f32_from_half(raw & 0xffff), f32_from_half(raw >> 16) };
}

INLINE void float16_narrow(uint8_t *to, struct wide w)
{
    vec_store(to, half_from_f32(w.low) | half_from_f32(w.high) << 16);
}

INLINE vec float16_round(vec x)
{
    return f32_from_half(half_from_f32(x));
}

#define TT_FOLD_TABLE tt_folds_generic
#include "kernels/fold_loops.h"
