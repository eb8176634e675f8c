/* SPDX-License-Identifier: BSD-3-Clause */
/* linear.c: products of rows with a weight. A column-parallel one has each row of w as an element of y, a
 * row-parallel one sums over them. */
#include "training/ops/linear.h"

#include "training/model/autodiff.h"

/* ---- y and dx ---- */

/* y[rows][n] = x[rows][k] w. Each element of y is one row of w, in one chunk; or it is the sum over the rows
 * of w, by their chunks. */
static struct tr_gemm product_of(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0], *w = &c->in[1];
    bool columns = c->op == TR_COLUMN || c->op == TR_ROW_DX;
    int64_t chunks = 1, chunk = w->d[1];
    if (!columns)
        tr_chunks_of(w->of, w->d[0], &chunks, &chunk);
    return (struct tr_gemm){ .m = c->n * x->d[1],
        .n = columns ? w->d[0] : w->d[1],
        .k = columns ? w->d[1] : w->d[0],
        .a = x->p,
        .a_row = x->d[2],
        .a_column = 1,
        .b = w->p,
        .b_row = columns ? 1 : w->d[1],
        .b_column = columns ? w->d[1] : 1,
        .c = c->out[0].p,
        .c_row = columns ? w->d[0] : w->d[1],
        .chunks = chunks,
        .chunk = chunk };
}

static int64_t rows_scratch(const struct tr_call *c)
{
    struct tr_gemm g = product_of(c);
    return c->k->scratch_gemm(&g);
}

static double rows_work(const struct tr_call *c)
{
    return 2.0 * (double)(c->n * c->in[0].d[1]) * (double)c->in[1].d[0] * (double)c->in[1].d[1];
}

/* Rows that are padding are left out of dx. */
struct tr_gemm tr_row_product(const struct tr_call *c)
{
    const struct tr_operand *w = &c->in[1];
    struct tr_gemm g = product_of(c);
    int64_t real = w->of->rows - tr_first_row(c, w->of, w->d[0]);
    if (c->op == TR_COLUMN_DX)
        g.k = real < 0 ? 0 : real < g.k ? real : g.k;
    return g;
}

static void multiply(const struct tr_call *c)
{
    struct tr_gemm g = tr_row_product(c);
    c->k->gemm(c->x, &g, c->scratch);
}

/* ---- dw: a' b of each sequence, a[t][rows], b[t][columns]; the tree over sequences follows, or these are
 * leaves ---- */

static bool gives_leaves(const struct tr_call *c)
{
    return c->op == TR_COLUMN_LEAVES || c->op == TR_ROW_LEAVES;
}

/* Sequences are summed over, or their products are leaves; so are those of the runs of their tokens. */
static struct tr_gemm gradient_of(const struct tr_call *c)
{
    bool column = c->op == TR_COLUMN_DW || c->op == TR_COLUMN_LEAVES; /* dw = dy' x, or x' dy */
    const struct tr_operand *a = &c->in[column ? 0 : 1], *b = &c->in[column ? 1 : 0];
    bool leaves = gives_leaves(c);
    int64_t runs = leaves ? c->runs : 1, t = a->d[1] / runs;
    int64_t block = t < c->block ? t : c->block; /* of a picture's one row: itself */
    return (struct tr_gemm){ .m = a->d[2],
        .n = b->d[2],
        .k = t,
        .a = a->p,
        .a_row = 1,
        .a_column = a->d[2],
        .b = b->p,
        .b_row = b->d[2],
        .b_column = 1,
        .c = c->out[0].p,
        .c_row = b->d[2],
        .chunks = t / block,
        .chunk = block,
        .sequences = c->n * runs,
        .c_next = leaves ? a->d[2] * b->d[2] : 0 };
}

/* As if all tokens of a sequence were one run. */
static int64_t weight_scratch(const struct tr_call *c)
{
    struct tr_gemm g = gradient_of(c);
    g.k = c->in[0].d[1];
    return c->k->scratch_gemm(&g);
}

static double weight_work(const struct tr_call *c)
{
    return 2.0 * (double)(c->n * c->in[0].d[1]) * (double)c->in[0].d[2] * (double)c->in[1].d[2];
}

static void weight_gradient(const struct tr_call *c)
{
    struct tr_gemm g = gradient_of(c);
    c->k->gemm(c->x, &g, c->scratch);
}

/* ---- the rows ---- */

static void column_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_COLUMN_DX, TR_COLUMN_DW, TR_COLUMN_LEAVES);
}

static void row_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_ROW_DX, TR_ROW_DW, TR_ROW_LEAVES);
}

const struct tr_op_row tr_op_column = { .name = "column",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" },
    .gradient = column_gradient,
    .scratch = rows_scratch,
    .work = rows_work,
    .run = multiply };
const struct tr_op_row tr_op_column_dx = { .name = "column_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> P+" },
    .scratch = rows_scratch,
    .work = rows_work,
    .run = multiply };
const struct tr_op_row tr_op_column_dw = { .name = "column_dw",
    .rules = { "R R -> R", "Sb Sb -> Ps", "Sc R -> Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .run = weight_gradient };
const struct tr_op_row tr_op_column_leaves = { .name = "column_dw",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "Sc R -> Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .run = weight_gradient };
const struct tr_op_row tr_op_row_parallel = { .name = "row",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> P+" },
    .gradient = row_gradient,
    .scratch = rows_scratch,
    .work = rows_work,
    .run = multiply };
const struct tr_op_row tr_op_row_dx = { .name = "row_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" },
    .scratch = rows_scratch,
    .work = rows_work,
    .run = multiply };
const struct tr_op_row tr_op_row_dw = { .name = "row_dw",
    .rules = { "R R -> R", "Sb Sb -> Ps", "R Sc -> Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .run = weight_gradient };
const struct tr_op_row tr_op_row_leaves = { .name = "row_dw",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "R Sc -> Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .run = weight_gradient };
