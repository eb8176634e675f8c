/* SPDX-License-Identifier: BSD-3-Clause */
/* train_sums.cu: sums over the tokens of each sequence, and the norm over groups of columns, as rows.h and
 * group.h of training/kernels/ define them.
 *
 * A sum over tokens is a chain in each block of tokens, a leaf. All leaves of all sequences are computed side
 * by side, in the workspace, and a second kernel has the tree of each sequence. */
#include "training/kernels/cuda/launch.cuh"

/* What is added up for token t and column j, and how. */
struct plain_summand {
    const float *x;
    int64_t columns;

    MEMBER float after(float sum, int64_t t, int64_t j) const
    {
        return sum + x[t * columns + j];
    }
};
struct normed_summand {
    const float *dy, *x, *mean, *scale;
    int64_t columns;

    MEMBER float after(float sum, int64_t t, int64_t j) const
    {
        const float normed = (x[t * columns + j] - mean[t]) * scale[t];
        return sum + normed * dy[t * columns + j];
    }
};
struct scaled_summand {
    const float *dy, *x, *scale;
    int64_t columns;

    MEMBER float after(float sum, int64_t t, int64_t j) const
    {
        return sum + x[t * columns + j] * scale[t] * dy[t * columns + j];
    }
};
/* Of y times scale of its sequence and column, if there is one. */
struct product_summand {
    const float *x, *y, *scale;
    int64_t columns, tokens;

    MEMBER float after(float sum, int64_t t, int64_t j) const
    {
        float factor = y[t * columns + j];
        if (scale != nullptr)
            factor = factor * scale[t / tokens * columns + j];
        return fused(x[t * columns + j], factor, sum);
    }
};

/* leaf[sequence and block][column], of `width` columns from `first` on. */
template <class Summand> struct token_leaves {
    int64_t count;
    Summand of;
    float *leaf;
    int64_t first, width, block;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t g = i / width, j = first + i % width;
        float sum = 0;
        for (int64_t t = g * block; t < (g + 1) * block; t++)
            sum = of.after(sum, t, j);
        leaf[i] = sum;
    }
};
struct fold_token_leaves {
    int64_t count;
    float *sums;
    const float *leaf;
    int64_t blocks, first, width, columns;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t sequence = i / width, j = i % width;
        counter<float> tree;
        float sum = 0;
        for (int64_t b = 0; b < blocks; b++)
            sum = tree.after(leaf[(sequence * blocks + b) * width + j], b, blocks);
        sums[sequence * columns + first + j] = sum;
    }
};

/* As many columns at once as the workspace has room for their leaves. */
template <class Summand>
static void sum_over(struct tr_context *x, float *sums, const Summand &of, const struct tr_tokens *t)
{
    float *leaf = cuda_of(x)->workspace;
    const int64_t blocks = t->tokens / t->block, leaves = t->sequences * blocks;
    const int64_t most = cuda_of(x)->workspace_floats / (leaves > 0 ? leaves : 1);
    if (most == 0)
        fail(x, TR_CUDA_INVALID);
    for (int64_t first = 0; most > 0 && first < t->columns; first += most) {
        const int64_t width = lesser(most, t->columns - first);
        start_each(x, token_leaves<Summand>{ leaves * width, of, leaf, first, width, t->block });
        start_each(
            x, fold_token_leaves{ t->sequences * width, sums, leaf, blocks, first, width, t->columns });
    }
}

struct mean_each {
    int64_t count;
    float *y;
    const float *sums;
    float cells;
    int64_t columns, tokens;

    MEMBER void operator()(int64_t i) const
    {
        y[i] = sums[i / (tokens * columns) * columns + i % columns] / cells;
    }
};

/* ---- the norm over groups ---- */

/* to[sequence][column] = the mean over its group, of what sums[sequence][column], times factor[column], are
 * the sums of; or one over the deviation that follows from it. */
struct group_means {
    int64_t rows;
    float *to;
    const float *sums, *factor;
    int64_t size, columns, cells;
    bool scales;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const float *from = sums + row * size;
        float sum = 0;
        for (int64_t i = lane; i < size; i += LANES)
            sum = factor != nullptr ? fused(from[i], factor[row * size % columns + i], sum) : sum + from[i];
        float mean = fold_lanes(sum) / static_cast<float>(cells * size);
        if (scales)
            mean = 1.0f / root(mean + 1e-5f);
        for (int64_t i = lane; here && i < size; i += LANES)
            to[row * size + i] = mean;
    }
};

static void find_means(
    struct tr_context *x, float *to, const float *sums, const float *factor, const struct tr_grouped *g)
{
    start_rows(x, group_means{ g->here.sequences * g->here.columns / g->size, to, sums, factor, g->size,
                      g->here.columns, g->cells, false });
}
static void find_scales(struct tr_context *x, float *to, const float *squares, const struct tr_grouped *g)
{
    start_rows(x, group_means{ g->here.sequences * g->here.columns / g->size, to, squares, nullptr, g->size,
                      g->here.columns, g->cells, true });
}

/* The cells of a norm: for element i, its column, and where what its picture has for it lies. */
struct cells {
    int64_t columns, picture;

    MEMBER int64_t column(int64_t i) const
    {
        return i % columns;
    }
    MEMBER int64_t of_picture(int64_t i) const
    {
        return i / picture * columns + i % columns;
    }
};
static cells cells_of(const struct tr_grouped *g)
{
    return { g->here.columns, g->here.tokens * g->here.columns };
}
static int64_t elements_of(const struct tr_grouped *g)
{
    return g->here.sequences * g->here.tokens * g->here.columns;
}

struct group_centre_each {
    int64_t count;
    float *y;
    const float *x, *mean;
    cells at;

    MEMBER void operator()(int64_t i) const
    {
        y[i] = x[i] - mean[at.of_picture(i)];
    }
};
struct group_norm_each {
    int64_t count;
    float *y;
    const float *x, *scale, *w, *b;
    cells at;

    MEMBER void operator()(int64_t i) const
    {
        y[i] = fused(x[i] * scale[at.of_picture(i)], w[at.column(i)], b[at.column(i)]);
    }
};
struct group_norm_dx_each {
    int64_t count;
    float *dx;
    const float *dy, *x, *scale, *sum, *dot, *w;
    cells at;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t j = at.of_picture(i);
        const float factor = scale[j], normed = x[i] * factor, d = dy[i] * w[at.column(i)];
        dx[i] = (d - sum[j] - normed * dot[j]) * factor;
    }
};

/* ---- the set's functions ---- */

void tr_cuda_layer_norm_dw(struct tr_context *x, float *dw, float *db, const float *dy, const float *in,
    const float *mean, const float *scale, const struct tr_tokens *t)
{
    sum_over(x, db, plain_summand{ dy, t->columns }, t);
    sum_over(x, dw, normed_summand{ dy, in, mean, scale, t->columns }, t);
}

void tr_cuda_rms_norm_dw(struct tr_context *x, float *dw, const float *dy, const float *in,
    const float *scale, const struct tr_tokens *t)
{
    sum_over(x, dw, scaled_summand{ dy, in, scale, t->columns }, t);
}

void tr_cuda_sum_tokens(struct tr_context *x, float *sums, const float *in, const struct tr_tokens *t)
{
    sum_over(x, sums, plain_summand{ in, t->columns }, t);
}

void tr_cuda_sum_squares(struct tr_context *x, float *sums, const float *in, const struct tr_tokens *t)
{
    sum_over(x, sums, product_summand{ in, in, nullptr, t->columns, t->tokens }, t);
}

void tr_cuda_mean(struct tr_context *x, float *y, const float *sums, float number, const struct tr_tokens *t)
{
    start_each(x, mean_each{ t->sequences * t->tokens * t->columns, y, sums, number, t->columns, t->tokens });
}

/* Three numbers for each picture and column. */
int64_t tr_cuda_scratch_group(const struct tr_grouped *g)
{
    return 3 * g->here.sequences * g->here.columns;
}

void tr_cuda_group_centre(struct tr_context *x, float *y, const float *in, const float *sums,
    const struct tr_grouped *g, float *scratch)
{
    find_means(x, scratch, sums, nullptr, g);
    start_each(x, group_centre_each{ elements_of(g), y, in, scratch, cells_of(g) });
}

void tr_cuda_group_norm(struct tr_context *x, float *y, const float *in, const float *squares, const float *w,
    const float *b, const struct tr_grouped *g, float *scratch)
{
    find_scales(x, scratch, squares, g);
    start_each(x, group_norm_each{ elements_of(g), y, in, scratch, w, b, cells_of(g) });
}

void tr_cuda_group_norm_dw(struct tr_context *x, float *dw, float *db, const float *dy, const float *in,
    const float *squares, const struct tr_grouped *g, float *scratch)
{
    find_scales(x, scratch, squares, g);
    tr_cuda_sum_tokens(x, db, dy, &g->here);
    sum_over(x, dw, product_summand{ dy, in, scratch, g->here.columns, g->here.tokens }, &g->here);
}

void tr_cuda_group_norm_dx(struct tr_context *x, float *dx, const float *dy, const float *in,
    const float *squares, const float *w, const float *dw, const float *db, const struct tr_grouped *g,
    float *scratch)
{
    const int64_t each = g->here.sequences * g->here.columns;
    float *scale = scratch, *sum = scale + each, *dot = sum + each;
    find_scales(x, scale, squares, g);
    find_means(x, sum, db, w, g);
    find_means(x, dot, dw, w, g);
    start_each(x, group_norm_dx_each{ elements_of(g), dx, dy, in, scale, sum, dot, w, cells_of(g) });
}
