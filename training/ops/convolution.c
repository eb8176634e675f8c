/* SPDX-License-Identifier: BSD-3-Clause */
/* convolution.c: convolutions, which are products of patches, and the mean over the cells of a picture. A
 * weight's rows are filters, or input channels, as a column-parallel and a row-parallel matrix's are. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

/* Of a weight's gradient. */
static bool of_filters(const struct tr_call *c)
{
    return c->op == TR_FILTERS_DW || c->op == TR_FILTERS_LEAVES;
}

static bool gives_leaves(const struct tr_call *c)
{
    return c->op == TR_FILTERS_LEAVES || c->op == TR_CHANNELS_LEAVES;
}

/* Whether what is made is of a weight; then the first input, and not the result, has the own cells alone. */
static bool is_gradient(const struct tr_call *c)
{
    return of_filters(c) || c->op == TR_CHANNELS_DW || c->op == TR_CHANNELS_LEAVES;
}

/* The rows of a product that are the patches of sequence s, behind the scratch of that product. */
static float *patches(const struct tr_call *c, const struct tr_operand *x, int64_t s, int64_t kernel_floats,
    bool channels_outside, int64_t direction)
{
    int64_t side = c->g->grid, own = (is_gradient(c) ? c->in[0].d[1] : c->out[0].d[1]) / side;
    struct tr_grid g = { own, side, x->d[1] > own * side };
    float *to = c->scratch + tr_lines(kernel_floats);
    c->k->patches(c->x, to, x->p + s * x->d[1] * x->d[2], &g, x->d[2], channels_outside, direction);
    return to;
}

static bool sums_rows(const struct tr_call *c)
{
    return c->op == TR_CHANNELS || c->op == TR_FILTERS_DX;
}

/* Of one sequence, without its patches and its place. Where the rows of w are summed over (channels, and
 * backward filters), each row is one for every tap. */
static struct tr_gemm product_of(const struct tr_call *c)
{
    bool sums = sums_rows(c);
    int64_t t = c->out[0].d[1], k = TR_TAPS * c->in[0].d[2], n = c->out[0].d[2], chunks, chunk;
    tr_chunks_of(c->in[1].of, c->in[1].d[0], &chunks, &chunk);
    return (struct tr_gemm){ .m = t,
        .n = n,
        .k = k,
        .a_row = k,
        .a_column = 1,
        .b = c->in[1].p,
        .b_row = sums ? n : 1,
        .b_column = sums ? 1 : k,
        .c_row = n,
        .chunks = sums ? chunks : 1,
        .chunk = sums ? TR_TAPS * chunk : k };
}

/* A convolution, or the gradient of its input, which is one with the taps the other way round. */
static void convolve(const struct tr_call *c)
{
    bool forward = c->op == TR_FILTERS || c->op == TR_CHANNELS;
    struct tr_gemm g = product_of(c);
    int64_t kernel = c->k->scratch_gemm(&g);
    for (int64_t s = 0; s < c->n; s++) {
        g.a = patches(c, &c->in[0], s, kernel, sums_rows(c), forward ? 1 : -1);
        g.c = c->out[0].p + s * g.m * g.n;
        c->k->gemm(c->x, &g, c->scratch);
    }
}

/* Of one sequence, without its operands. */
static struct tr_gemm gradient_product_of(const struct tr_call *c)
{
    bool filters = of_filters(c);
    int64_t k = TR_TAPS * c->in[1].d[2], width = c->in[0].d[2];
    int64_t rows = filters ? width : k, columns = filters ? k : width;
    return (struct tr_gemm){ .m = rows,
        .n = columns,
        .k = c->in[0].d[1],
        .a_row = 1,
        .a_column = rows,
        .b_row = columns,
        .b_column = 1,
        .c_row = columns,
        .chunks = c->in[0].d[1] / c->block,
        .chunk = c->block };
}

/* dw = dy' patches, or for channels patches' dy, of each sequence. These are leaves; or else the tree over
 * sequences follows. */
static void convolve_dw(const struct tr_call *c)
{
    bool filters = of_filters(c), leaves = gives_leaves(c);
    const struct tr_operand *dy = &c->in[0], *x = &c->in[1];
    struct tr_gemm g = gradient_product_of(c);
    int64_t t = dy->d[1], kernel = c->k->scratch_gemm(&g), count = g.m * g.n;
    float *level[32];
    if (!leaves)
        tr_levels_of(c, tr_lines(kernel) + t * TR_TAPS * x->d[2], count, level);
    for (int64_t s = 0; s < c->n; s++) {
        const float *y = dy->p + s * t * dy->d[2], *taps = patches(c, x, s, kernel, !filters, 1);
        g.a = filters ? y : taps, g.b = filters ? taps : y;
        g.c = c->out[0].p + (leaves ? s * count : 0);
        c->k->gemm(c->x, &g, c->scratch);
        if (!leaves)
            c->k->tree_in(c->x, g.c, level, count, s, c->n);
    }
}

/* Products, and the patches that they take. */
static int64_t convolve_scratch(const struct tr_call *c)
{
    int64_t t = c->out[0].d[1], k = TR_TAPS * c->in[0].d[2]; /* the input may have a halo */
    struct tr_gemm g = product_of(c);
    return tr_lines(c->k->scratch_gemm(&g)) + t * k;
}

static int64_t convolve_dw_scratch(const struct tr_call *c)
{
    int64_t t = c->in[0].d[1], taps = TR_TAPS * c->in[1].d[2], columns = c->in[0].d[2];
    struct tr_gemm g = gradient_product_of(c);
    int64_t product = c->k->scratch_gemm(&g);
    int64_t levels = gives_leaves(c) ? 0 : tr_levels(c->n);
    return tr_lines(product) + tr_lines(t * taps) + levels * columns * taps;
}

static double convolve_work(const struct tr_call *c)
{
    return 2.0 * (double)(c->n * c->out[0].d[1]) * (double)c->in[1].d[0] * (double)c->in[1].d[1];
}

static double convolve_dw_work(const struct tr_call *c)
{
    return 2.0 * (double)(c->n * c->in[0].d[1]) * (double)c->in[0].d[2] * (double)(TR_TAPS * c->in[1].d[2]);
}

/* ---- the mean over the cells ---- */

static void sum_cells(const struct tr_call *c)
{
    struct tr_tokens t = tr_tokens_of(c, 1);
    c->k->sum_tokens(c->x, c->out[0].p, c->in[0].p, &t);
}

/* That sum over the number of cells; backward each cell gets its part. */
static void mean(const struct tr_call *c)
{
    struct tr_tokens t = { c->n, c->out[0].d[1], c->in[0].d[2], 1 };
    c->k->mean(c->x, c->out[0].p, c->in[0].p, (float)c->g->context, &t);
}

/* ---- the rows ---- */

static void filters_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_FILTERS_DX, TR_FILTERS_DW, TR_FILTERS_LEAVES);
}

static void channels_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_CHANNELS_DX, TR_CHANNELS_DW, TR_CHANNELS_LEAVES);
}

/* mean_dx is of the sum and the division; the sums of a norm have a gradient of their own. */
static void sum_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    if (dy < 0)
        return;
    int x = n->in[0];
    tr_give(p, x, tr_input_gradient(p, TR_MEAN_DX, n->unit, &dy, 1, x), n->unit);
}

static void mean_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    p->d[n->in[0]] = dy;
}

const struct tr_op_row tr_op_filters = { .name = "filters",
    .rules = { "R R -> R", "Sb R -> Sb", "Nt R -> St", "R Sr -> Sc" },
    .gradient = filters_gradient,
    .scratch = convolve_scratch,
    .work = convolve_work,
    .run = convolve };
const struct tr_op_row tr_op_filters_dx = { .name = "filters_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "Nt R -> St", "Sc Sr -> P+" },
    .scratch = convolve_scratch,
    .work = convolve_work,
    .run = convolve };
const struct tr_op_row tr_op_filters_dw = { .name = "filters_dw",
    .rules = { "R R -> R", "Sb Sb -> Ps", "Sc R -> Sr" },
    .scratch = convolve_dw_scratch,
    .work = convolve_dw_work,
    .run = convolve_dw };
const struct tr_op_row tr_op_filters_leaves = { .name = "filters_dw",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St Nt -> Pb", "Sc R -> Sr" },
    .scratch = convolve_dw_scratch,
    .work = convolve_dw_work,
    .run = convolve_dw };
const struct tr_op_row tr_op_channels = { .name = "channels",
    .rules = { "R R -> R", "Sb R -> Sb", "Nt R -> St", "Sc Sr -> P+" },
    .gradient = channels_gradient,
    .scratch = convolve_scratch,
    .work = convolve_work,
    .run = convolve };
const struct tr_op_row tr_op_channels_dx = { .name = "channels_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "Nt R -> St", "R Sr -> Sc" },
    .scratch = convolve_scratch,
    .work = convolve_work,
    .run = convolve };
const struct tr_op_row tr_op_channels_dw = { .name = "channels_dw",
    .rules = { "R R -> R", "Sb Sb -> Ps", "R Sc -> Sr" },
    .scratch = convolve_dw_scratch,
    .work = convolve_dw_work,
    .run = convolve_dw };
const struct tr_op_row tr_op_channels_leaves = { .name = "channels_dw",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St Nt -> Pb", "R Sc -> Sr" },
    .scratch = convolve_dw_scratch,
    .work = convolve_dw_work,
    .run = convolve_dw };
const struct tr_op_row tr_op_sum_cells = { .name = "sum_cells",
    .rules = { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sc" },
    .gradient = sum_gradient,
    .run = sum_cells };
const struct tr_op_row tr_op_mean = { .name = "mean",
    .rules = { "R -> R", "Sb -> Sb", "Sc -> Sc" },
    .in_place = true,
    .gradient = mean_gradient,
    .run = mean };
const struct tr_op_row tr_op_mean_dx = {
    .name = "mean_dx", .rules = { "R -> R", "Sb -> Sb", "R -> St", "Sc -> Sc" }, .run = mean
};
