/* SPDX-License-Identifier: BSD-3-Clause */
/* softmax.h: the softmax over a vocabulary of which a part is here, and the loss. */

/* The largest of a row; n is at least 1. Which zero is taken does not matter to what follows. */
INLINE float max_row(const float *x, int64_t n)
{
    vec most = vec_all(x[0]);
    for (int64_t i = 0; i < n; i += WIDTH)
        most = vec_at_least(vec_some(vec_load_some(x + i, n - i), n - i, most), most);
    return vec_greatest(most)[0];
}

static void row_max(CONTEXT, float *max, const float *x, int64_t rows, int64_t columns, int64_t stride)
{
    for (int64_t t = 0; t < rows; t++)
        max[t] = columns > 0 ? max_row(x + t * stride, columns) : -INFINITY;
}

/* x = exp(x - max); returns the sum. */
INLINE float exponential_row(float *x, float max, int64_t n)
{
    struct lanes s = lanes_none();
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t p = 0, at = i; p < PARTS && at < n; p++, at += WIDTH) {
            vec e = exponential(vec_load_some(x + at, n - at) - vec_all(max));
            vec_store_some(x + at, e, n - at);
            s.part[p] = s.part[p] + vec_some(e, n - at, vec_all(0));
        }
    return lanes_fold(&s);
}

static void softmax(CONTEXT, float *x, float *sum, float *wanted, const float *max, const uint16_t *target,
    int64_t rows, int64_t columns, int64_t stride, int64_t first, int64_t chunk, int64_t chunks)
{
    for (int64_t t = 0; t < rows; t++, x += stride) {
        int64_t at = target[t] - first;
        wanted[t] = at >= 0 && at < columns ? x[at] + 0 : 0;
        float waiting[LEVELS], part = 0;
        for (int64_t g = 0; g < chunks; g++) {
            int64_t begin = lesser(g * chunk, columns);
            part = exponential_row(x + begin, max[t], lesser(chunk, columns - begin));
            bool last = g == chunks - 1;
            int level = 0;
            for (; g >> level && (last || g >> level & 1); level++)
                if (g >> level & 1)
                    part = waiting[level] + part;
            waiting[level] = part;
        }
        sum[t] = part;
    }
}

static void softmax_dx(CONTEXT, float *x, const float *sum, const uint16_t *target, int64_t rows,
    int64_t columns, int64_t stride, int64_t first, float scale)
{
    for (int64_t t = 0; t < rows; t++, x += stride) {
        int64_t at = target[t] - first;
        bool here = at >= 0 && at < columns;
        float wanted = here ? (x[at] / sum[t] - 1) * scale : 0;
        for (int64_t i = 0; i < columns; i += WIDTH)
            vec_store_some(
                x + i, vec_load_some(x + i, columns - i) / vec_all(sum[t]) * vec_all(scale), columns - i);
        if (here)
            x[at] = wanted;
        memset(x + columns, 0, (size_t)(stride - columns) * sizeof(float));
    }
}

static void loss(CONTEXT, double *leaf, int64_t leaves, const float *sum, const float *max,
    const float *wanted, const struct tr_tokens *t)
{
    memset(leaf, 0, (size_t)(t->sequences * leaves) * sizeof *leaf);
    for (int64_t i = 0; i < t->sequences; i++, leaf += leaves)
        for (int64_t n = 0; n < t->tokens; n++, sum++, max++, wanted++)
            leaf[n / t->block] += (double)(logarithm(*sum) + *max - *wanted);
}
