/* SPDX-License-Identifier: BSD-3-Clause */
/* linear.c: products of rows with a weight. A column-parallel one has each row of w as an element of y, a
 * row-parallel one sums over them. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

/* ---- y and dx ---- */

/* y[rows][n] = x[rows][k] w, w as b_row and b_column say. */
static void rows_times(const struct tr_call *c, int64_t n, int64_t k, int64_t stride, int64_t b_row,
    int64_t b_column, int64_t chunks, int64_t chunk)
{
    struct tr_gemm g = { .m = c->n * c->in[0].d[1],
        .n = n,
        .k = k,
        .a = c->in[0].p,
        .a_row = stride,
        .a_column = 1,
        .b = c->in[1].p,
        .b_row = b_row,
        .b_column = b_column,
        .c = c->out[0].p,
        .c_row = n,
        .chunks = chunks,
        .chunk = chunk };
    c->k->gemm(&g, c->scratch);
}

static int64_t rows_scratch(const struct tr_call *c)
{
    return tr_scratch_gemm(c->n * c->in[0].d[1], c->out[0].d[2], c->in[0].d[2]);
}

static double rows_work(const struct tr_call *c)
{
    return 2.0 * (double)(c->n * c->in[0].d[1]) * (double)c->in[1].d[0] * (double)c->in[1].d[1];
}

/* Each element of y is one row of w: one chunk. */
static void along_columns(const struct tr_call *c)
{
    const struct tr_operand *w = &c->in[1];
    rows_times(c, w->d[0], w->d[1], c->in[0].d[2], 1, w->d[1], 1, w->d[1]);
}

/* The sum over the rows of w, by their chunks; rows that are padding are left out of dx. */
static void along_rows(const struct tr_call *c)
{
    const struct tr_operand *w = &c->in[1];
    int64_t chunks, chunk, k = w->d[0], real = w->of->rows - tr_first_row(c, w->of, w->d[0]);
    tr_chunks_of(w->of, w->d[0], &chunks, &chunk);
    if (c->op == TR_COLUMN_DX)
        k = real < 0 ? 0 : real < k ? real : k;
    rows_times(c, w->d[1], k, c->in[0].d[2], w->d[1], 1, chunks, chunk);
}

/* ---- dw: a' b of each sequence, a[t][rows], b[t][columns]; the tree over sequences follows, or these are
 * leaves ---- */

struct factors {
    const struct tr_operand *a, *b;
    bool leaves;
};

static struct factors factors_of(const struct tr_call *c)
{
    bool column = c->op == TR_COLUMN_DW || c->op == TR_COLUMN_LEAVES; /* dw = dy' x, or x' dy */
    return (struct factors){ &c->in[column ? 0 : 1], &c->in[column ? 1 : 0],
        c->op == TR_COLUMN_LEAVES || c->op == TR_ROW_LEAVES };
}

static int64_t weight_scratch(const struct tr_call *c)
{
    struct factors f = factors_of(c);
    int64_t floats = tr_scratch_gemm(f.a->d[2], f.b->d[2], f.a->d[1]);
    return f.leaves ? floats : tr_lines(floats) + tr_levels(c->n) * f.a->d[2] * f.b->d[2];
}

static double weight_work(const struct tr_call *c)
{
    struct factors f = factors_of(c);
    return 2.0 * (double)(c->n * f.a->d[1]) * (double)f.a->d[2] * (double)f.b->d[2];
}

static void weight_gradient(const struct tr_call *c)
{
    struct factors f = factors_of(c);
    int64_t runs = f.leaves ? c->runs : 1, n = c->n * runs;
    int64_t t = f.a->d[1] / runs, rows = f.a->d[2], columns = f.b->d[2];
    int64_t block = t < c->block ? t : c->block; /* of a picture's one row: itself */
    float *level[32];
    if (!f.leaves)
        tr_levels_of(c, tr_scratch_gemm(rows, columns, t), rows * columns, level);
    int64_t sums = c->k->free && !f.leaves ? 1 : n; /* in free order, one sum over all tokens */
    for (int64_t s = 0; s < sums; s++) {
        struct tr_gemm g = { .m = rows,
            .n = columns,
            .k = t * (n / sums),
            .a = f.a->p + s * t * rows,
            .a_row = 1,
            .a_column = rows,
            .b = f.b->p + s * t * columns,
            .b_row = columns,
            .b_column = 1,
            .c = c->out[0].p + (f.leaves ? s * rows * columns : 0),
            .c_row = columns,
            .chunks = t / block,
            .chunk = block };
        c->k->gemm(&g, c->scratch);
        if (!f.leaves)
            tr_tree_in(c->k, c->out[0].p, level, rows * columns, (int)s, (int)sums);
    }
}

/* ---- the rows ---- */

static void column_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_COLUMN_DX, TR_COLUMN_DW, TR_COLUMN_LEAVES);
}

static void row_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
{
    tr_product_gradient(p, n, dy, TR_ROW_DX, TR_ROW_DW, TR_ROW_LEAVES);
}

const struct tr_op_row tr_op_column = { .name = "column",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" },
    .gradient = column_gradient,
    .scratch = rows_scratch,
    .work = rows_work,
    .run = along_columns };
const struct tr_op_row tr_op_column_dx = { .name = "column_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> P+" },
    .scratch = rows_scratch,
    .work = rows_work,
    .run = along_rows };
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
    .run = along_rows };
const struct tr_op_row tr_op_row_dx = { .name = "row_dx",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "R Sr -> Sc" },
    .scratch = rows_scratch,
    .work = rows_work,
    .run = along_columns };
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
