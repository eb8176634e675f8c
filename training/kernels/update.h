/* SPDX-License-Identifier: BSD-3-Clause */
/* update.h: the norm of the gradient by leaves, and the optimizers. */

/* A leaf is one chain of additions; several leaves at once keep the adders busy. The product of two floats is
 * exact in float64, so that a fused multiply-add would give the same. */
enum { AT_ONCE = 8 };

/* Element i of an array, which is exact in float64. */
INLINE double element(const void *x, int64_t i, bool narrow)
{
    float g;
    uint32_t bits = narrow ? (uint32_t)((const uint16_t *)x)[i] << 16 : 0;
    memcpy(&g, narrow ? (const void *)&bits : (const void *)((const float *)x + i), sizeof g);
    return (double)g;
}

INLINE void leaves_of(double *out, const void *x, bool narrow, int64_t count, int64_t leaf)
{
    int64_t whole = count / leaf, i = 0;
    for (; i + AT_ONCE <= whole; i += AT_ONCE) {
        double part[AT_ONCE] = { 0 };
        for (int64_t j = 0; j < leaf; j++)
#pragma GCC unroll 8
            for (int n = 0; n < AT_ONCE; n++) {
                double g = element(x, (i + n) * leaf + j, narrow);
                part[n] += g * g;
            }
        memcpy(out + i, part, sizeof part);
    }
    for (; i * leaf < count; i++) {
        double part = 0;
        for (int64_t j = i * leaf; j < lesser((i + 1) * leaf, count); j++)
            part += element(x, j, narrow) * element(x, j, narrow);
        out[i] = part;
    }
}

static void square_leaves(double *out, const float *x, int64_t count, int64_t leaf)
{
    leaves_of(out, x, false, count, leaf);
}

static void square_leaves_of_bfloat16(double *out, const uint16_t *x, int64_t count, int64_t leaf)
{
    leaves_of(out, x, true, count, leaf);
}

/* Loshchilov, Hutter 2019 */
static void adamw(float *p, float *m, float *v, const float *g, int64_t count, const struct tr_adamw *a)
{
    const vec b1 = vec_all(0.9f), c1 = vec_all(1 - 0.9f), b2 = vec_all(0.95f), c2 = vec_all(1 - 0.95f);
    for (int64_t i = 0; i < count; i += WIDTH) {
        int64_t left = count - i;
        vec slope = vec_load_some(g + i, left) * vec_all(a->scale), old = vec_load_some(p + i, left);
        vec first = b1 * vec_load_some(m + i, left) + c1 * slope;
        vec second = b2 * vec_load_some(v + i, left) + c2 * (slope * slope);
        vec root = vec_root(second * vec_all(a->correct2)) + vec_all(1e-8f);
        vec change = first * vec_all(a->correct1) / root + vec_all(a->decay) * old;
        vec_store_some(m + i, first, left);
        vec_store_some(v + i, second, left);
        vec_store_some(p + i, old - vec_all(a->rate) * change, left);
    }
}

static void sgd(float *p, const float *g, int64_t count, float rate, float scale)
{
    for (int64_t i = 0; i < count; i += WIDTH)
        vec_store_some(p + i,
            vec_load_some(p + i, count - i) -
                vec_all(rate) * (vec_load_some(g + i, count - i) * vec_all(scale)),
            count - i);
}
