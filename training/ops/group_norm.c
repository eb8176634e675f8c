/* SPDX-License-Identifier: BSD-3-Clause */
/* group_norm.c: group norm (Wu, He 2018): the channels of a picture are normalised in groups, each over
 * all of its cells.
 *
 * The sums over the cells are operations of their own, for each channel, since an axis that cuts the cells
 * must complete them. A group is made of neighbouring channels and whole on its rank, so that what follows
 * from the sums is made here: one number for each group. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

#include <math.h>

enum { LANES = 16 };

/* Lane i % 16 takes summand i, ascending, fused with a factor y[i] if there is one; then the tree. */
static float along(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] = y ? fmaf(x[i], y[i], lane[i % LANES]) : lane[i % LANES] + x[i];
    for (int step = 1; step < LANES; step *= 2)
        for (int i = 0; i < LANES; i += 2 * step)
            lane[i] = lane[i] + lane[i + step];
    return lane[0];
}

/* to[channel] = the mean over its group, of what sums[channel], times factor[channel], are the sums of. */
static void means(const struct tr_call *c, float *to, const float *sums, const float *factor, int64_t width)
{
    int64_t size = c->g->channels / c->g->groups;
    for (int64_t first = 0; first < width; first += size) {
        float mean = along(sums + first, factor ? factor + first : NULL, size);
        mean = mean / (float)(c->g->context * size);
        for (int64_t i = first; i < first + size; i++)
            to[i] = mean;
    }
}

/* One over the deviation, from the sums of the squares. */
static void scales(const struct tr_call *c, float *to, const float *squares, int64_t width)
{
    means(c, to, squares, NULL, width);
    for (int64_t i = 0; i < width; i++)
        to[i] = 1 / sqrtf(to[i] + 1e-5f);
}

static int64_t scratch(const struct tr_call *c)
{
    return 3 * c->in[0].d[2];
}

/* Where sequence s of a tensor begins that has the rows of the first operand. */
static int64_t at(const struct tr_call *c, int64_t s)
{
    return s * c->in[0].d[1] * c->in[0].d[2];
}

/* x less its mean. */
static void centre(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    float *less = c->scratch;
    for (int64_t s = 0; s < c->n; s++) {
        means(c, less, c->in[1].p + s * width, NULL, width);
        for (int64_t i = 0; i < width; i++)
            less[i] = -less[i];
        c->k->add_bias(c->x, c->out[0].p + at(c, s), c->in[0].p + at(c, s), less, rows, width);
    }
}

static void sum_squares(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    for (int64_t s = 0; s < c->n; s++) {
        const float *x = c->in[0].p + at(c, s);
        c->k->sum_products(c->x, c->out[0].p + s * width, x, x, NULL, rows, width, c->block);
    }
}

static void norm(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    for (int64_t s = 0; s < c->n; s++) {
        scales(c, c->scratch, c->in[1].p + s * width, width);
        c->k->group_norm.forward(c->x, c->out[0].p + at(c, s), c->in[0].p + at(c, s), c->scratch, c->in[2].p,
            c->in[3].p, rows, width);
    }
}

static void norm_dw(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    for (int64_t s = 0; s < c->n; s++) {
        const float *dy = c->in[0].p + at(c, s);
        scales(c, c->scratch, c->in[2].p + s * width, width);
        c->k->sum_products(
            c->x, c->out[0].p + s * width, dy, c->in[1].p + at(c, s), c->scratch, rows, width, c->block);
        c->k->sum_tokens(c->x, c->out[1].p + s * width, dy, rows, width, c->block);
    }
}

/* The sums over a group follow from the gradients of scale and shift, each of this picture. */
static void norm_dx(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    const float *w = c->in[3].p;
    float *scale = c->scratch, *sum = scale + width, *dot = sum + width;
    for (int64_t s = 0; s < c->n; s++) {
        scales(c, scale, c->in[2].p + s * width, width);
        means(c, sum, w, c->in[5].p + s * width, width);
        means(c, dot, w, c->in[4].p + s * width, width);
        c->k->group_norm.dx(c->x, c->out[0].p + at(c, s), c->in[0].p + at(c, s), c->in[1].p + at(c, s),
            &(struct tr_group_norm){ scale, sum, dot }, w, rows, width);
    }
}

/* ---- the rows ---- */

/* group_norm_dx is of the sums that are taken off, too. */
static void centre_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
{
    p->d[n->in[0]] = dy;
}

/* The gradient of the input takes the sums of those of scale and shift over the cells of each picture, which
 * are their leaves: so these come first, and then the tree over pictures, which uses them up. */
static void norm_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], squares = n->in[1], w = n->in[2], leaves[2];
    for (int i = 0; i < 2; i++)
        leaves[i] = tr_gradient_of_parameter(p, TR_LEAVES, n->in[2 + i]);
    tr_add_node(p->g, TR_GROUP_NORM_DW, TR_BACKWARD, n->unit, (int[]){ dy, x, squares }, 3, leaves, 2);
    int in[] = { dy, x, squares, w, leaves[0], leaves[1] }, dx = tr_gradient_of(p, x);
    tr_add_node(p->g, TR_GROUP_NORM_DX, TR_BACKWARD, n->unit, in, 6, &dx, 1);
    tr_give(p, x, dx, n->unit);
    for (int i = 0; i < 2; i++) {
        int dw = tr_gradient_of_parameter(p, TR_D_PARAMETER, n->in[2 + i]);
        tr_add_node(p->g, TR_FOLD, TR_WEIGHT, n->unit, &leaves[i], 1, &dw, 1);
    }
}

const struct tr_op_row tr_op_centre = { .name = "centre",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St R -> St", "Sc Sc -> Sc" },
    .in_place = true,
    .gradient = centre_gradient,
    .scratch = scratch,
    .run = centre };
const struct tr_op_row tr_op_sum_squares = {
    .name = "sum_squares", .rules = { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sc" }, .run = sum_squares
};
const struct tr_op_row tr_op_group_norm = { .name = "group_norm",
    .rules = { "R R R R -> R", "Sb Sb R R -> Sb", "St R R R -> St", "Sc Sc Sr Sr -> Sc" },
    .gradient = norm_gradient,
    .scratch = scratch,
    .run = norm };
const struct tr_op_row tr_op_group_norm_dw = { .name = "group_norm_dw",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St St R -> Pb Pb", "Sc Sc Sc -> Sr Sr" },
    .scratch = scratch,
    .run = norm_dw };
const struct tr_op_row tr_op_group_norm_dx = { .name = "group_norm_dx",
    .rules = { "R R R R R R -> R", "Sb Sb Sb R Sb Sb -> Sb", "St St R R R R -> St",
        "Sc Sc Sc Sr Sr Sr -> Sc" },
    .in_place = true,
    .scratch = scratch,
    .run = norm_dx };
