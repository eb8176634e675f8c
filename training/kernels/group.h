/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h: the norm over groups of columns: one picture after the other, with numbers for each column in
 * scratch; and what else goes over the cells of a picture. */

/* The sum of x y of a sequence, y times scale of its column if there is one. */
static void sum_products(
    float *out, const float *x, const float *y, const float *scale, const struct tr_tokens *t)
{
    int64_t columns = t->columns, blocks = t->tokens / t->block;
    for (int64_t j = 0; j < columns; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t b = 0; b < blocks; b++) {
            strip_clear(&s);
            for (int64_t n = b * t->block; n < (b + 1) * t->block; n++)
                for (int64_t v = 0, at = j; v < STRIP && at < columns; v++, at += WIDTH) {
                    vec factor = vec_load_some(y + n * columns + at, columns - at);
                    if (scale)
                        factor = factor * vec_load_some(scale + at, columns - at);
                    s.sum[v] = vec_fma(vec_load_some(x + n * columns + at, columns - at), factor, s.sum[v]);
                }
            strip_count(&s, b, blocks);
        }
        strip_store(out + j, &s, columns - j);
    }
}

static void sum_squares(CONTEXT, float *sums, const float *x, const struct tr_tokens *t)
{
    for (int64_t i = 0; i < t->sequences; i++, sums += t->columns, x += t->tokens * t->columns)
        sum_products(sums, x, x, NULL, t);
}

static void mean(CONTEXT, float *y, const float *sums, float cells, const struct tr_tokens *t)
{
    int64_t c = t->columns;
    for (int64_t i = 0; i < t->sequences; i++, sums += c)
        for (int64_t n = 0; n < t->tokens; n++, y += c)
            for (int64_t j = 0; j < c; j += WIDTH)
                vec_store_some(y + j, vec_load_some(sums + j, c - j) / vec_all(cells), c - j);
}

/* to[column] = the mean over its group, of what sums[column], times factor[column], are the sums of. */
static void group_means(float *to, const float *sums, const float *factor, const struct tr_grouped *g)
{
    for (int64_t first = 0; first < g->here.columns; first += g->size) {
        float sum = factor ? dot_row(sums + first, factor + first, g->size) : sum_row(sums + first, g->size);
        for (int64_t i = first; i < first + g->size; i++)
            to[i] = sum / (float)(g->cells * g->size);
    }
}

/* One over the deviation, from the sums of the squares. */
static void group_scales(float *to, const float *squares, const struct tr_grouped *g)
{
    group_means(to, squares, NULL, g);
    for (int64_t i = 0; i < g->here.columns; i++)
        to[i] = 1 / sqrtf(to[i] + 1e-5f);
}

static int64_t group_scratch(const struct tr_grouped *g)
{
    return 3 * g->here.columns;
}

static void group_centre(
    CONTEXT, float *y, const float *x, const float *sums, const struct tr_grouped *g, float *scratch)
{
    int64_t c = g->here.columns;
    for (int64_t i = 0; i < g->here.sequences; i++, sums += c) {
        group_means(scratch, sums, NULL, g);
        for (int64_t t = 0; t < g->here.tokens; t++, y += c, x += c)
            for (int64_t j = 0; j < c; j += WIDTH)
                vec_store_some(y + j, vec_load_some(x + j, c - j) - vec_load_some(scratch + j, c - j), c - j);
    }
}

static void group_norm(CONTEXT, float *y, const float *x, const float *squares, const float *w,
    const float *b, const struct tr_grouped *g, float *scale)
{
    int64_t c = g->here.columns;
    for (int64_t i = 0; i < g->here.sequences; i++, squares += c) {
        group_scales(scale, squares, g);
        for (int64_t t = 0; t < g->here.tokens; t++, x += c, y += c)
            for (int64_t j = 0, left = c; left > 0; j += WIDTH, left -= WIDTH) {
                vec normed = vec_load_some(x + j, left) * vec_load_some(scale + j, left);
                vec_store_some(
                    y + j, vec_fma(normed, vec_load_some(w + j, left), vec_load_some(b + j, left)), left);
            }
    }
}

static void group_norm_dw(CONTEXT, float *dw, float *db, const float *dy, const float *x,
    const float *squares, const struct tr_grouped *g, float *scale)
{
    int64_t c = g->here.columns, picture = g->here.tokens * c;
    sum_tokens(context, db, dy, &g->here);
    for (int64_t i = 0; i < g->here.sequences; i++) {
        group_scales(scale, squares + i * c, g);
        sum_products(dw + i * c, dy + i * picture, x + i * picture, scale, &g->here);
    }
}

/* The sums over a group follow from the gradients of scale and shift. */
static void group_norm_dx(CONTEXT, float *dx, const float *dy, const float *x, const float *squares,
    const float *w, const float *dw, const float *db, const struct tr_grouped *g, float *scratch)
{
    int64_t c = g->here.columns;
    float *scale = scratch, *sum = scale + c, *dot = sum + c;
    for (int64_t i = 0; i < g->here.sequences; i++, squares += c, dw += c, db += c) {
        group_scales(scale, squares, g);
        group_means(sum, w, db, g);
        group_means(dot, w, dw, g);
        for (int64_t t = 0; t < g->here.tokens; t++, x += c, dy += c, dx += c)
            for (int64_t j = 0, left = c; left > 0; j += WIDTH, left -= WIDTH) {
                vec factor = vec_load_some(scale + j, left), normed = vec_load_some(x + j, left) * factor;
                vec d = vec_load_some(dy + j, left) * vec_load_some(w + j, left);
                d = d - vec_load_some(sum + j, left) - normed * vec_load_some(dot + j, left);
                vec_store_some(dx + j, d * factor, left);
            }
    }
}
