/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_cnn.c: convolutions, which are products of patches, and the mean over the cells of a picture. */
#include "training/tape/call.h"

/* Whether what is made is of a weight; then the first input, and not the result, has the own cells alone. */
static bool is_gradient(const struct tr_call *c)
{
    return c->i->op == TR_FILTERS_DW || c->i->op == TR_CHANNELS_DW || c->i->op == TR_FILTERS_LEAVES ||
           c->i->op == TR_CHANNELS_LEAVES;
}

/* The rows of a product that are the patches of sequence s, behind the scratch of that product. */
static float *patches(const struct tr_call *c, const struct tr_operand *x, int64_t s, int64_t kernel_floats,
    bool channels_outside, int64_t direction)
{
    int64_t side = c->g->grid, own = (is_gradient(c) ? c->in[0].d[1] : c->out[0].d[1]) / side;
    struct tr_grid g = { own, side, x->d[1] > own * side };
    float *to = c->scratch + (kernel_floats + 15) / 16 * 16;
    c->k->patches(to, x->p + s * x->d[1] * x->d[2], &g, x->d[2], channels_outside, direction);
    return to;
}

/* A convolution, or the gradient of its input, which is one with the taps the other way round. Where the rows
 * of w are summed over (channels, and backward filters), each row is one for every tap. */
void tr_convolve(const struct tr_call *c, const struct tr_tensor *w)
{
    bool forward = c->i->op == TR_FILTERS || c->i->op == TR_CHANNELS;
    bool sums_rows = c->i->op == TR_CHANNELS || c->i->op == TR_FILTERS_DX;
    const struct tr_operand *x = &c->in[0];
    int64_t t = c->out[0].d[1], k = TR_TAPS * x->d[2], n = c->out[0].d[2], chunks, chunk;
    tr_chunks_of(w, c->in[1].d[0], &chunks, &chunk);
    struct tr_gemm g = { .m = t,
        .n = n,
        .k = k,
        .a_row = k,
        .a_column = 1,
        .b = c->in[1].p,
        .b_row = sums_rows ? n : 1,
        .b_column = sums_rows ? 1 : k,
        .c_row = n,
        .chunks = sums_rows ? chunks : 1,
        .chunk = sums_rows ? TR_TAPS * chunk : k };
    for (int64_t s = 0; s < c->n; s++) {
        g.a = patches(c, x, s, tr_scratch_gemm(t, n, k), sums_rows, forward ? 1 : -1);
        g.c = c->out[0].p + s * t * n;
        c->k->gemm(&g, c->scratch);
    }
}

/* dw = dy' patches, or for channels patches' dy, of each sequence. These are leaves; or else the tree over
 * sequences follows. */
void tr_convolve_gradient(const struct tr_call *c)
{
    bool filters = c->i->op == TR_FILTERS_DW || c->i->op == TR_FILTERS_LEAVES;
    bool leaves = c->i->op == TR_FILTERS_LEAVES || c->i->op == TR_CHANNELS_LEAVES;
    const struct tr_operand *dy = &c->in[0], *x = &c->in[1];
    int64_t t = dy->d[1], k = TR_TAPS * x->d[2], rows = filters ? dy->d[2] : k,
            columns = filters ? k : dy->d[2];
    int64_t kernel = tr_scratch_gemm(rows, columns, t);
    float *level[32];
    if (!leaves)
        tr_levels_of(c, (kernel + 15) / 16 * 16 + t * k, rows * columns, level);
    for (int64_t s = 0; s < c->n; s++) {
        const float *y = dy->p + s * t * dy->d[2], *taps = patches(c, x, s, kernel, !filters, 1);
        struct tr_gemm g = { .m = rows,
            .n = columns,
            .k = t,
            .a = filters ? y : taps,
            .a_row = 1,
            .a_column = rows,
            .b = filters ? taps : y,
            .b_row = columns,
            .b_column = 1,
            .c = c->out[0].p + (leaves ? s * rows * columns : 0),
            .c_row = columns,
            .chunks = t / c->block,
            .chunk = c->block };
        c->k->gemm(&g, c->scratch);
        if (!leaves)
            tr_tree_in(c->k, c->out[0].p, level, rows * columns, (int)s, (int)c->n);
    }
}

/* The sum over the cells of each picture, and that over their number; backward each cell gets its part. */
void tr_mean_of_cells(const struct tr_call *c)
{
    int64_t width = c->in[0].d[2], in = c->in[0].d[1], out = c->out[0].d[1];
    float cells = (float)c->g->context;
    for (int64_t s = 0; s < c->n; s++)
        if (c->i->op == TR_SUM_CELLS)
            c->k->sum_tokens(c->out[0].p + s * width, c->in[0].p + s * in * width, in, width, c->block);
        else
            for (int64_t i = 0; i < out * width; i++)
                c->out[0].p[s * out * width + i] = c->in[0].p[s * width + i % width] / cells;
}
