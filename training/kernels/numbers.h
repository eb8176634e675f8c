/* SPDX-License-Identifier: BSD-3-Clause */
/* numbers.h: exp, tanh and log whose bits no C library decides, and sums along a row by 16 lanes.
 *
 * Loops go by whole vectors; the last one loads and stores as many lanes as there are. */

/* A vector of which `left` lanes or all are there; the others are 0. */
INLINE vec vec_load_some(const float *from, int64_t left)
{
    return left >= WIDTH ? vec_load(from) : vec_load_first(from, left);
}
INLINE void vec_store_some(float *to, vec v, int64_t left)
{
    if (left >= WIDTH)
        vec_store(to, v);
    else
        vec_store_first(to, v, left);
}
INLINE vec vec_some(vec v, int64_t left, vec other)
{
    return left >= WIDTH ? v : vec_first(v, left, other);
}

/* 2^k e^f with k = round(x / ln 2), f from a polynomial (Cephes' expf); 0 below -87, so that no subnormal
 * appears. */
INLINE vec exponential(vec x)
{
    const vec least = vec_all(-87.0f), magic = vec_all(12582912.0f), one = vec_all(1);
    vec z = vec_at_least(least, vec_at_most(vec_all(88.0f), x));
    vec k = vec_fma(z, vec_all(1.44269504f), magic) - magic;
    vec f = vec_fma(k, vec_all(-0.693145751953125f), z);
    f = vec_fma(k, vec_all(-1.42860682e-6f), f);
    vec p = vec_all(1.9875691500e-4f);
    p = vec_fma(p, f, vec_all(1.3981999507e-3f));
    p = vec_fma(p, f, vec_all(8.3334519073e-3f));
    p = vec_fma(p, f, vec_all(4.1665795894e-2f));
    p = vec_fma(p, f, vec_all(1.6666665459e-1f));
    p = vec_fma(p, f, vec_all(5.0000001201e-1f));
    p = vec_fma(p, f * f, f) + one;
    vec power = (vec)((__builtin_convertvector(k, vec_i32) + 127) << 23);
    return vec_where_less(x, least, vec_all(0), p * power);
}
INLINE vec hyperbolic_tangent(vec x)
{
    return vec_all(1) - vec_all(2) / (exponential(vec_all(2) * x) + vec_all(1));
}
/* By way of double: its last bits, where C libraries differ, are lost in the rounding. Of the numbers from 1
 * to 2^18 there are two for which they might not be; a test asks the library for these. */
INLINE float logarithm(float x)
{
    return (float)log((double)x);
}

/* The 16 lanes of a sum along a row. */
enum { LANES = 16, PARTS = LANES / WIDTH };
struct lanes {
    vec part[PARTS];
};

INLINE struct lanes lanes_none(void)
{
    struct lanes s;
    for (int i = 0; i < PARTS; i++)
        s.part[i] = vec_all(0);
    return s;
}
/* The tree over the lanes. */
INLINE float lanes_fold(const struct lanes *s)
{
    return vec_fold_lanes(s->part);
}

/* The greatest lane, in each lane. */
INLINE vec vec_greatest(vec x)
{
    for (int n = 1; n < WIDTH; n *= 2)
        x = vec_at_least(vec_low_pairs(x, x), vec_high_pairs(x, x));
    return x;
}
