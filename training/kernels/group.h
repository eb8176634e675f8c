/* SPDX-License-Identifier: BSD-3-Clause */
/* group.h: group norm: what works on columns with one number for each, and the sums of products over rows.
 *
 * Who calls has made one number for each group, and gives it for each of its columns. */

static void group_norm(CONTEXT, float *y, const float *x, const float *scale, const float *w, const float *b,
    int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, y += c)
        for (int64_t i = 0, left = c; left > 0; i += WIDTH, left -= WIDTH) {
            vec normed = vec_load_some(x + i, left) * vec_load_some(scale + i, left);
            vec_store_some(
                y + i, vec_fma(normed, vec_load_some(w + i, left), vec_load_some(b + i, left)), left);
        }
}

static void group_norm_dx(CONTEXT, float *dx, const float *dy, const float *x, const struct tr_group_norm *n,
    const float *w, int64_t rows, int64_t c)
{
    for (int64_t t = 0; t < rows; t++, x += c, dy += c, dx += c)
        for (int64_t i = 0, left = c; left > 0; i += WIDTH, left -= WIDTH) {
            vec scale = vec_load_some(n->scale + i, left), normed = vec_load_some(x + i, left) * scale;
            vec d = vec_load_some(dy + i, left) * vec_load_some(w + i, left);
            d = d - vec_load_some(n->sum + i, left) - normed * vec_load_some(n->dot + i, left);
            vec_store_some(dx + i, d * scale, left);
        }
}

static void sum_products(CONTEXT, float *out, const float *x, const float *y, const float *scale,
    int64_t tokens, int64_t columns, int64_t block)
{
    for (int64_t j = 0; j < columns; j += STRIP * WIDTH) {
        struct strip s;
        for (int64_t first = 0; first < tokens; first += block) {
            strip_clear(&s);
            for (int64_t t = first; t < first + block; t++)
                for (int64_t v = 0, at = j; v < STRIP && at < columns; v++, at += WIDTH) {
                    vec factor = vec_load_some(y + t * columns + at, columns - at);
                    if (scale)
                        factor = factor * vec_load_some(scale + at, columns - at);
                    s.sum[v] = vec_fma(vec_load_some(x + t * columns + at, columns - at), factor, s.sum[v]);
                }
            strip_count(&s, first / block, tokens / block);
        }
        strip_store(out + j, &s, columns - j);
    }
}
