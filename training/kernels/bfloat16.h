/* SPDX-License-Identifier: BSD-3-Clause */
/* bfloat16.h: float32 from bfloat16, which is its upper half, and back. */

typedef uint32_t vec_u32 __attribute__((vector_size(TR_VECTOR_BYTES)));
typedef uint16_t vec_u16 __attribute__((vector_size(TR_VECTOR_BYTES / 2)));

INLINE vec_u32 bits_all(uint32_t x)
{
    return (vec_u32)((vec_i32){ 0 }) + x;
}

static void to_float(CONTEXT, float *to, const uint16_t *from, int64_t count)
{
    int64_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
        vec_u16 x;
        memcpy(&x, from + i, sizeof x);
        vec_store(to + i, (vec)(__builtin_convertvector(x, vec_u32) << 16));
    }
    for (; i < count; i++) {
        uint32_t bits = (uint32_t)from[i] << 16;
        memcpy(&to[i], &bits, sizeof bits);
    }
}

/* The upper half of what `add` is added to: carries round up, beyond the greatest number to infinity. A NaN
 * stays one: it gets no carry, and its quiet bit. */
INLINE vec_u16 upper_half(vec x, vec_u32 add)
{
    vec_u32 bits = (vec_u32)x, nan = (vec_u32)(x != x);
    vec_u32 half = (((bits + add) & ~nan) | ((bits | bits_all(0x400000)) & nan)) >> 16;
    return __builtin_convertvector(half, vec_u16);
}

/* Nearest, ties to even: just less than half of the last place is added, and 1 where that place is odd. */
INLINE vec_u32 nearest(vec x)
{
    return ((vec_u32)x >> 16 & bits_all(1)) + bits_all(0x7FFF);
}

static void round_to_nearest(uint16_t *to, const float *from, int64_t count)
{
    for (int64_t i = 0; i < count; i += WIDTH) {
        vec x = vec_load_some(from + i, count - i);
        vec_u16 half = upper_half(x, nearest(x));
        memcpy(to + i, &half, sizeof half[0] * (size_t)lesser(count - i, WIDTH));
    }
}

/* A hash of 32 bits (Wellons' lowbias32). */
INLINE vec_u32 mixed_bits(vec_u32 x)
{
    x = (x ^ x >> 16) * bits_all(0x7FEB352Du);
    x = (x ^ x >> 15) * bits_all(0x846CA68Bu);
    return x ^ x >> 16;
}

/* Up with the probability that the lower half says, which is a number of 16 bits: so the mean is x. */
static void round_by_chance(uint16_t *to, const float *from, int64_t first, int64_t count, uint64_t key)
{
    vec_u32 lane;
    for (uint32_t n = 0; n < WIDTH; n++)
        lane[n] = n;
    for (int64_t i = 0; i < count; i += WIDTH) {
        vec x = vec_load_some(from + i, count - i);
        vec_u32 place = lane + bits_all((uint32_t)(first + i));
        vec_u32 chance =
            mixed_bits(mixed_bits(place ^ bits_all((uint32_t)key)) + bits_all((uint32_t)(key >> 32)));
        vec_u16 half = upper_half(x, chance >> 16);
        memcpy(to + i, &half, sizeof half[0] * (size_t)lesser(count - i, WIDTH));
    }
}

static void from_float(CONTEXT, uint16_t *to, const float *from, int64_t count, const struct tr_chance *by)
{
    if (by)
        round_by_chance(to, from, by->first, count, by->key);
    else
        round_to_nearest(to, from, count);
}

static void add_bfloat16(CONTEXT, uint16_t *sum, const uint16_t *a, const uint16_t *b, int64_t count)
{
    enum { PIECE = 1024 };
    float left[PIECE], right[PIECE];
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t n = lesser(count - i, PIECE);
        to_float(context, left, a + i, n);
        to_float(context, right, b + i, n);
        add_arrays(left, left, right, n);
        round_to_nearest(sum + i, left, n);
    }
}
