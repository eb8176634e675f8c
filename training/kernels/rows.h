/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h: layer norm, RMS norm, GELU, SwiGLU, additions and the embedding: what works on rows of tokens. */
#include "training/kernels/stripes.h"

/* ---- sums along a row: lane i % 16 takes element i, ascending; behind the end, nothing ---- */

/* A summand that is not there is +0. A lane is never -0, so that adding it changes nothing. */
INLINE float sum_row(const float *x, int64_t n)
{
    struct lanes s = lanes_none();
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t p = 0, at = i; p < PARTS && at < n; p++, at += WIDTH)
            s.part[p] = s.part[p] + vec_load_some(x + at, n - at);
    return lanes_fold(&s);
}

/* A fused sum may be -0, so that lanes without a summand stay as they are. */
INLINE void lanes_product(struct lanes *s, int64_t p, vec x, vec y, int64_t left)
{
    s->part[p] = vec_some(vec_fma(x, y, s->part[p]), left, s->part[p]);
}
INLINE float dot_row(const float *x, const float *y, int64_t n)
{
    struct lanes s = lanes_none();
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t p = 0, at = i; p < PARTS && at < n; p++, at += WIDTH)
            lanes_product(&s, p, vec_load_some(x + at, n - at), vec_load_some(y + at, n - at), n - at);
    return lanes_fold(&s);
}

/* ---- layer norm ---- */

static void layer_norm(CONTEXT, float *y, float *mean, float *scale, const float *x, const float *w,
    const float *b, int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, y += c) {
        mean[t] = sum_row(x, c) / (float)c;
        struct lanes s = lanes_none();
        for (int64_t i = 0; i < c; i += LANES)
            for (int64_t p = 0, at = i; p < PARTS && at < c; p++, at += WIDTH) {
                vec centred = vec_load_some(x + at, c - at) - vec_all(mean[t]);
                lanes_product(&s, p, centred, centred, c - at);
            }
        scale[t] = 1 / sqrtf(lanes_fold(&s) / (float)c + 1e-5f);
        for (int64_t i = 0; i < c; i += WIDTH) {
            vec normed = (vec_load_some(x + i, c - i) - vec_all(mean[t])) * vec_all(scale[t]);
            vec_store_some(
                y + i, vec_fma(normed, vec_load_some(w + i, c - i), vec_load_some(b + i, c - i)), c - i);
        }
    }
}

/* The result gets + 0, as if it were added to nothing: what it is added to next is never -0, so that this
 * changes no sum. */
static void layer_norm_dx(CONTEXT, float *dx, const float *dy, const float *x, const float *w,
    const float *mean, const float *scale, int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, dy += c, dx += c) {
        struct lanes sum = lanes_none(), dot = lanes_none();
        const vec m = vec_all(mean[t]), r = vec_all(scale[t]);
        for (int64_t i = 0; i < c; i += LANES)
            for (int64_t p = 0, at = i; p < PARTS && at < c; p++, at += WIDTH) {
                vec normed = (vec_load_some(x + at, c - at) - m) * r;
                vec g = vec_load_some(dy + at, c - at) * vec_load_some(w + at, c - at);
                sum.part[p] = sum.part[p] + g;
                lanes_product(&dot, p, g, normed, c - at);
            }
        const vec a = vec_all(lanes_fold(&sum) / (float)c), b = vec_all(lanes_fold(&dot) / (float)c);
        for (int64_t i = 0; i < c; i += WIDTH) {
            vec normed = (vec_load_some(x + i, c - i) - m) * r;
            vec g = vec_load_some(dy + i, c - i) * vec_load_some(w + i, c - i);
            vec_store_some(dx + i, (g - a - normed * b) * r + vec_all(0), c - i);
        }
    }
}

/* ---- RMS norm ---- */

static void rms_norm(CONTEXT, float *y, float *scale, const float *x, const float *w, int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, y += c) {
        scale[t] = 1 / sqrtf(dot_row(x, x, c) / (float)c + 1e-5f);
        for (int64_t i = 0; i < c; i += WIDTH)
            vec_store_some(
                y + i, vec_load_some(x + i, c - i) * vec_all(scale[t]) * vec_load_some(w + i, c - i), c - i);
    }
}

/* + 0 as in layer_norm_dx. */
static void rms_norm_dx(CONTEXT, float *dx, const float *dy, const float *x, const float *w,
    const float *scale, int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, dy += c, dx += c) {
        const vec r = vec_all(scale[t]);
        struct lanes dot = lanes_none();
        for (int64_t i = 0; i < c; i += LANES)
            for (int64_t p = 0, at = i; p < PARTS && at < c; p++, at += WIDTH)
                lanes_product(&dot, p, vec_load_some(dy + at, c - at) * vec_load_some(w + at, c - at),
                    vec_load_some(x + at, c - at) * r, c - at);
        const vec along = vec_all(lanes_fold(&dot) / (float)c);
        for (int64_t i = 0; i < c; i += WIDTH) {
            vec normed = vec_load_some(x + i, c - i) * r;
            vec g = vec_load_some(dy + i, c - i) * vec_load_some(w + i, c - i);
            vec_store_some(dx + i, (g - normed * along) * r + vec_all(0), c - i);
        }
    }
}

/* ---- sums over tokens: a chain of additions in each block, a tree over the blocks ---- */

/* Strips of columns stay in registers; sums of blocks wait in a binary counter, as in gemm.h. */
enum { STRIP = 4 };
struct strip {
    vec sum[STRIP], waiting[LEVELS][STRIP];
};

/* The block g of `blocks` is done: the root is in sum after the last. */
INLINE void strip_count(struct strip *s, int64_t g, int64_t blocks)
{
    bool last = g == blocks - 1;
    int level = 0;
    for (; g >> level && (last || g >> level & 1); level++)
        for (int v = 0; v < STRIP && g >> level & 1; v++)
            s->sum[v] = s->waiting[level][v] + s->sum[v];
    for (int v = 0; v < STRIP && !last; v++)
        s->waiting[level][v] = s->sum[v];
}
INLINE void strip_clear(struct strip *s)
{
    for (int v = 0; v < STRIP; v++)
        s->sum[v] = vec_all(0);
}
INLINE void strip_load(struct strip *s, const float *x, int64_t left)
{
    for (int64_t v = 0; v < STRIP && v * WIDTH < left; v++)
        s->sum[v] = vec_load_some(x + v * WIDTH, left - v * WIDTH);
}
INLINE void strip_store(float *to, const struct strip *s, int64_t left)
{
    for (int64_t v = 0; v < STRIP && v * WIDTH < left; v++)
        vec_store_some(to + v * WIDTH, s->sum[v], left - v * WIDTH);
}
INLINE void strip_add(struct strip *s, const float *x, int64_t left)
{
    for (int64_t v = 0; v < STRIP && v * WIDTH < left; v++)
        s->sum[v] = s->sum[v] + vec_load_some(x + v * WIDTH, left - v * WIDTH);
}

static void sum_tokens(CONTEXT, float *sums, const float *x, const struct tr_tokens *t)
{
    int64_t columns = t->columns, blocks = t->tokens / t->block;
    for (int64_t i = 0; i < t->sequences; i++, sums += columns, x += t->tokens * columns)
        for (int64_t j = 0; j < columns; j += STRIP * WIDTH) {
            struct strip s;
            for (int64_t b = 0; b < blocks; b++) {
                strip_clear(&s);
                for (int64_t n = b * t->block; n < (b + 1) * t->block; n++)
                    strip_add(&s, x + n * columns + j, columns - j);
                strip_count(&s, b, blocks);
            }
            strip_store(sums + j, &s, columns - j);
        }
}

/* Of one sequence. */
static void sum_normed(float *dw, const float *dy, const float *x, const float *mean, const float *scale,
    const struct tr_tokens *t)
{
    int64_t c = t->columns, blocks = t->tokens / t->block;
    for (int64_t j = 0; j < c; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t b = 0; b < blocks; b++) {
            strip_clear(&s);
            for (int64_t n = b * t->block; n < (b + 1) * t->block; n++)
                for (int64_t v = 0, at = j; v < STRIP && at < c; v++, at += WIDTH) {
                    vec normed =
                        (vec_load_some(x + n * c + at, c - at) - vec_all(mean[n])) * vec_all(scale[n]);
                    s.sum[v] = s.sum[v] + normed * vec_load_some(dy + n * c + at, c - at);
                }
            strip_count(&s, b, blocks);
        }
        strip_store(dw + j, &s, c - j);
    }
}

static void layer_norm_dw(CONTEXT, float *dw, float *db, const float *dy, const float *x, const float *mean,
    const float *scale, const struct tr_tokens *t)
{
    sum_tokens(context, db, dy, t);
    for (int64_t i = 0; i < t->sequences; i++) {
        int64_t at = i * t->tokens;
        sum_normed(dw + i * t->columns, dy + at * t->columns, x + at * t->columns, mean + at, scale + at, t);
    }
}

/* Of one sequence. */
static void sum_scaled(
    float *dw, const float *dy, const float *x, const float *scale, const struct tr_tokens *t)
{
    int64_t c = t->columns, blocks = t->tokens / t->block;
    for (int64_t j = 0; j < c; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t b = 0; b < blocks; b++) {
            strip_clear(&s);
            for (int64_t n = b * t->block; n < (b + 1) * t->block; n++)
                for (int64_t v = 0, at = j; v < STRIP && at < c; v++, at += WIDTH)
                    s.sum[v] = s.sum[v] + vec_load_some(x + n * c + at, c - at) * vec_all(scale[n]) *
                                              vec_load_some(dy + n * c + at, c - at);
            strip_count(&s, b, blocks);
        }
        strip_store(dw + j, &s, c - j);
    }
}

static void rms_norm_dw(
    CONTEXT, float *dw, const float *dy, const float *x, const float *scale, const struct tr_tokens *t)
{
    for (int64_t i = 0; i < t->sequences; i++) {
        int64_t at = i * t->tokens;
        sum_scaled(dw + i * t->columns, dy + at * t->columns, x + at * t->columns, scale + at, t);
    }
}

/* Each strip has its tree: leaves are read once, and stay as they are. */
static void fold(CONTEXT, float *to, const float *from, int64_t n, int64_t count, int64_t sequences)
{
    for (int64_t i = 0; i < sequences; i++, to += count, from += n * count)
        for (int64_t j = 0; j < count; j += STRIP * WIDTH) {
            struct strip s;
            for (int64_t g = 0; g < n; g++) {
                strip_load(&s, from + g * count + j, count - j);
                strip_count(&s, g, n);
            }
            strip_store(to + j, &s, count - j);
        }
}

static void fold_parts(CONTEXT, const struct tr_partial *to, const struct tr_partial *from, int64_t n,
    int64_t count, int64_t sequences)
{
    for (int64_t i = 0; i < sequences; i++)
        for (int64_t j = 0; j < count; j += STRIP * WIDTH) {
            struct strip s;
            for (int64_t g = 0; g < n; g++) {
                strip_clear(&s);
                if (from[g].p)
                    strip_load(&s, from[g].p + i * from[g].next + j, count - j);
                strip_count(&s, g, n);
            }
            strip_store(to->p + i * to->next + j, &s, count - j);
        }
}

/* ---- element by element ---- */

INLINE vec gelu_argument(vec x)
{
    return vec_all((float)0.7978845608028654) * vec_fma(vec_all((float)0.044715) * (x * x), x, x);
}

static void gelu(CONTEXT, float *y, const float *x, int64_t count)
{
    for (int64_t i = 0; i < count; i += WIDTH) {
        vec in = vec_load_some(x + i, count - i);
        vec th = hyperbolic_tangent(gelu_argument(in));
        vec_store_some(y + i, vec_all(0.5f) * in * (vec_all(1) + th), count - i);
    }
}

static void gelu_dx(CONTEXT, float *dx, const float *dy, const float *x, int64_t count)
{
    const vec half = vec_all(0.5f), one = vec_all(1);
    for (int64_t i = 0; i < count; i += WIDTH) {
        vec in = vec_load_some(x + i, count - i);
        vec th = hyperbolic_tangent(gelu_argument(in));
        vec du = vec_all((float)0.7978845608028654) * vec_fma(vec_all((float)(3 * 0.044715)), in * in, one);
        vec slope = half * (one + th) + half * in * (one - th * th) * du;
        vec_store_some(dx + i, vec_load_some(dy + i, count - i) * slope, count - i);
    }
}

INLINE vec sigmoid(vec x)
{
    return vec_all(1) / (exponential(-x) + vec_all(1));
}

static void swiglu(CONTEXT, float *y, const float *x, int64_t pairs, int64_t chunk)
{
    for (int64_t p = 0; p < pairs; p++, y += chunk, x += 2 * chunk)
        for (int64_t i = 0; i < chunk; i += WIDTH) {
            vec gate = vec_load_some(x + i, chunk - i), beside = vec_load_some(x + chunk + i, chunk - i);
            vec_store_some(y + i, gate * sigmoid(gate) * beside, chunk - i);
        }
}

static void swiglu_dx(CONTEXT, float *dx, const float *dy, const float *x, int64_t pairs, int64_t chunk)
{
    const vec one = vec_all(1);
    for (int64_t p = 0; p < pairs; p++, dy += chunk, x += 2 * chunk, dx += 2 * chunk)
        for (int64_t i = 0; i < chunk; i += WIDTH) {
            vec gate = vec_load_some(x + i, chunk - i), beside = vec_load_some(x + chunk + i, chunk - i);
            vec d = vec_load_some(dy + i, chunk - i), s = sigmoid(gate);
            vec_store_some(dx + i, d * beside * (s * (one + gate * (one - s))), chunk - i);
            vec_store_some(dx + chunk + i, d * (gate * s), chunk - i);
        }
}

static void add(CONTEXT, float *out, const float *a, const float *b, int64_t count)
{
    add_arrays(out, a, b, count);
}

static void add_bias(CONTEXT, float *out, const float *x, const float *b, int64_t rows, int64_t columns)
{
    for (int64_t t = 0; t < rows; t++)
        add_arrays(out + t * columns, x + t * columns, b, columns);
}

/* ---- the embedding ---- */

static void embed(CONTEXT, float *out, const float *w, const uint16_t *token, int64_t tokens, int64_t c,
    int64_t first, int64_t rows)
{
    for (int64_t t = 0; t < tokens; t++) {
        int64_t row = token[t] - first;
        bool here = row >= 0 && row < rows;
        for (int64_t i = 0; i < c; i += WIDTH)
            vec_store_some(out + t * c + i,
                here ? vec_load_some(w + row * c + i, c - i) + vec_all(0) : vec_all(0), c - i);
    }
}

/* Only rows that tokens name have a sum. It is that of sum_tokens over those tokens: the others would add +0
 * to what is never -0. */
static void embed_back(float *dw, const float *dy, const uint16_t *token, const struct tr_embedded *e)
{
    const struct tr_tokens *t = &e->here;
    int64_t c = t->columns, blocks = t->tokens / t->block;
    memset(dw, 0, (size_t)(e->rows * c) * sizeof(float));
    for (int64_t named = 0; named < t->tokens; named++) {
        int64_t row = token[named] - e->first, before = 0;
        while (token[before] != token[named])
            before++;
        if (before < named || row < 0 || row >= e->rows)
            continue;
        for (int64_t j = 0; j < c; j += STRIP * WIDTH) {
            struct strip s;
            for (int64_t b = 0; b < blocks; b++) {
                strip_clear(&s);
                for (int64_t n = b * t->block; n < (b + 1) * t->block; n++)
                    if (token[n] == token[named])
                        strip_add(&s, dy + n * c + j, c - j);
                strip_count(&s, b, blocks);
            }
            strip_store(dw + row * c + j, &s, c - j);
        }
    }
}

static int64_t embed_scratch(const struct tr_embedded *e)
{
    return e->leaves ? 0 : tr_levels(e->here.sequences) * e->rows * e->here.columns;
}

static void embed_dw(
    CONTEXT, float *dw, const float *dy, const uint16_t *token, const struct tr_embedded *e, float *scratch)
{
    int64_t count = e->rows * e->here.columns, n = e->here.sequences, tokens = e->here.tokens;
    float *level[TR_LEVELS];
    if (!e->leaves)
        levels_at(level, scratch, n, count);
    for (int64_t s = 0; s < n; s++, dw += e->leaves ? count : 0) {
        embed_back(dw, dy + s * tokens * e->here.columns, token + s * tokens, e);
        if (!e->leaves)
            tree_in(context, dw, level, count, s, n);
    }
}

/* The row of the table for token t of run r. */
INLINE int64_t position_of(const struct tr_positions *p, int64_t r, int64_t t)
{
    int64_t place = p->first[r] + t;
    return p->striped ? tr_striped_token(p->context, place) : place;
}

static void position(CONTEXT, float *y, const float *x, const float *w, const struct tr_positions *p)
{
    int64_t c = p->columns, some = p->striped ? 1 : p->tokens; /* neighbours are one array */
    for (int64_t s = 0; s < p->sequences; s++)
        for (int64_t r = 0; r < p->runs; r++)
            for (int64_t t = 0; t < p->tokens; t += some, y += some * c, x += some * c)
                add_arrays(y, x, w + position_of(p, r, t) * c, some * c);
}

static void position_dw(CONTEXT, float *dw, const float *dy, const struct tr_positions *p)
{
    int64_t c = p->columns, whole = p->rows * c;
    memset(dw, 0, (size_t)(p->sequences * whole) * sizeof *dw);
    for (int64_t s = 0; s < p->sequences; s++, dw += whole)
        for (int64_t r = 0; r < p->runs; r++)
            for (int64_t t = 0; t < p->tokens; t++, dy += c) {
                float *to = dw + position_of(p, r, t) * c;
                add_arrays(to, dy, to, c);
            }
}
