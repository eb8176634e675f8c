/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.h: layer norm, GELU, additions and the embedding: what works on rows of tokens. */

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

static void sum_tokens(CONTEXT, float *out, const float *x, int64_t tokens, int64_t columns, int64_t block)
{
    for (int64_t j = 0; j < columns; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t first = 0; first < tokens; first += block) {
            strip_clear(&s);
            for (int64_t t = first; t < first + block; t++)
                strip_add(&s, x + t * columns + j, columns - j);
            strip_count(&s, first / block, tokens / block);
        }
        strip_store(out + j, &s, columns - j);
    }
}

static void layer_norm_dw(CONTEXT, float *dw, float *db, const float *dy, const float *x, const float *mean,
    const float *scale, int64_t tokens, int64_t c, int64_t block)
{
    sum_tokens(context, db, dy, tokens, c, block);
    for (int64_t j = 0; j < c; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t first = 0; first < tokens; first += block) {
            strip_clear(&s);
            for (int64_t t = first; t < first + block; t++)
                for (int64_t v = 0, at = j; v < STRIP && at < c; v++, at += WIDTH) {
                    vec normed =
                        (vec_load_some(x + t * c + at, c - at) - vec_all(mean[t])) * vec_all(scale[t]);
                    s.sum[v] = s.sum[v] + normed * vec_load_some(dy + t * c + at, c - at);
                }
            strip_count(&s, first / block, tokens / block);
        }
        strip_store(dw + j, &s, c - j);
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
static void embed_dw(CONTEXT, float *dw, const float *dy, const uint16_t *token, int64_t tokens, int64_t c,
    int64_t first, int64_t rows, int64_t block)
{
    memset(dw, 0, (size_t)(rows * c) * sizeof(float));
    for (int64_t named = 0; named < tokens; named++) {
        int64_t row = token[named] - first, before = 0;
        while (token[before] != token[named])
            before++;
        if (before < named || row < 0 || row >= rows)
            continue;
        for (int64_t j = 0; j < c; j += STRIP * WIDTH) {
            struct strip s;
            for (int64_t begin = 0; begin < tokens; begin += block) {
                strip_clear(&s);
                for (int64_t t = begin; t < begin + block; t++)
                    if (token[t] == token[named])
                        strip_add(&s, dy + t * c + j, c - j);
                strip_count(&s, begin / block, tokens / block);
            }
            strip_store(dw + row * c + j, &s, c - j);
        }
    }
}
