/* SPDX-License-Identifier: BSD-3-Clause */
/* update.h: the norm of the gradient by leaves, and the optimizers. */

/* A leaf of the norm is the sum of 256 lanes, of which lane i % 256 takes the square of element i, and then
 * of their tree. So no addition waits for the one before: a processor adds whole vectors, and a device has
 * a thread for each lane. The square of a float is exact in float64, and so a fused multiply-add gives the
 * same. */
enum { SQUARE_LANES = 256, DOUBLES = TR_VECTOR_BYTES / 8 };
typedef double vec_f64 __attribute__((vector_size(TR_VECTOR_BYTES)));
typedef float half_vec __attribute__((vector_size(TR_VECTOR_BYTES / 2)));
typedef uint32_t half_vec_u32 __attribute__((vector_size(TR_VECTOR_BYTES / 2)));
typedef uint16_t half_vec_u16 __attribute__((vector_size(TR_VECTOR_BYTES / 4)));

INLINE vec_f64 squares_of(const void *x, int64_t i, bool narrow)
{
    half_vec g;
    if (narrow) {
        half_vec_u16 upper;
        memcpy(&upper, (const uint16_t *)x + i, sizeof upper);
        g = (half_vec)(__builtin_convertvector(upper, half_vec_u32) << 16);
    } else {
        memcpy(&g, (const float *)x + i, sizeof g);
    }
    vec_f64 wide = __builtin_convertvector(g, vec_f64);
    return wide * wide;
}

INLINE double square_of(const void *x, int64_t i, bool narrow)
{
    float g;
    uint32_t bits = narrow ? (uint32_t)((const uint16_t *)x)[i] << 16 : 0;
    memcpy(&g, narrow ? (const void *)&bits : (const void *)((const float *)x + i), sizeof g);
    return (double)g * (double)g;
}

/* Neighbours are added; an odd one passes up. */
INLINE void fold_pairs(double *restrict to, const double *restrict from, int64_t n)
{
    for (int64_t i = 0; i < n / 2; i++)
        to[i] = from[2 * i] + from[2 * i + 1];
    if (n % 2)
        to[n / 2] = from[n - 1];
}

/* The tree over n lanes; those that are not there would be +0. */
INLINE double fold_squares(double *lane, int64_t n)
{
    double half[SQUARE_LANES / 2];
#pragma GCC unroll 4
    for (; n > 2; n = (n + 3) / 4) {
        fold_pairs(half, lane, n);
        fold_pairs(lane, half, (n + 1) / 2);
    }
    return n > 1 ? lane[0] + lane[1] : lane[0];
}

INLINE double leaf_of(const void *x, int64_t from, int64_t count, bool narrow)
{
    double lane[SQUARE_LANES];
    int64_t lanes = lesser(count, SQUARE_LANES), i = 0;
    memset(lane, 0, sizeof *lane * (size_t)lanes);
    for (; i + DOUBLES <= count; i += DOUBLES) {
        vec_f64 part;
        memcpy(&part, lane + i % SQUARE_LANES, sizeof part);
        part += squares_of(x, from + i, narrow);
        memcpy(lane + i % SQUARE_LANES, &part, sizeof part);
    }
    for (; i < count; i++)
        lane[i % SQUARE_LANES] += square_of(x, from + i, narrow);
    return lanes == SQUARE_LANES ? fold_squares(lane, SQUARE_LANES) : fold_squares(lane, lanes);
}

INLINE void leaves_of(double *out, const void *x, bool narrow, int64_t count, int64_t leaf)
{
    for (int64_t i = 0; i * leaf < count; i++)
        out[i] = leaf == 1 ? square_of(x, i, narrow)
                           : leaf_of(x, i * leaf, lesser(count - i * leaf, leaf), narrow);
}

static void square_leaves(CONTEXT, double *out, const void *x, bool bfloat16, int64_t count, int64_t leaf)
{
    if (bfloat16)
        leaves_of(out, x, true, count, leaf);
    else
        leaves_of(out, x, false, count, leaf);
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

/* Of elements from `from` on, whose gradient begins at g. */
static void update_some(const struct tr_update *u, const float *g, int64_t from, int64_t count)
{
    if (u->m)
        adamw(u->p + from, u->m + from, u->v + from, g, count, &u->a);
    else
        sgd(u->p + from, g, count, u->a.rate, u->a.scale);
}

/* A gradient in bfloat16 becomes float32 piece by piece. */
static void update(CONTEXT, const struct tr_update *u)
{
    enum { PIECE = 1024 };
    if (u->g) {
        update_some(u, u->g, 0, u->count);
        return;
    }
    for (int64_t n = 0; n < u->count; n += PIECE) {
        float g[PIECE];
        int64_t some = lesser(u->count - n, PIECE);
        to_float(context, g, u->narrow + n, some);
        update_some(u, g, n, some);
    }
}
