/* SPDX-License-Identifier: BSD-3-Clause */
/* group_norm.c: group norm (Wu, He 2018): the channels of a picture are normalised in groups, each over
 * all of its cells.
 *
 * The sums over the cells are operations of their own, for each channel, since an axis that cuts the cells
 * must complete them. A group is made of neighbouring channels and whole on its rank, so that what follows
 * from the sums, one number for each group, is made by the kernels. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

static struct tr_grouped groups(const struct tr_call *c)
{
    return (struct tr_grouped){ tr_tokens_of(c, 1), c->g->channels / c->g->groups, c->g->context };
}

static int64_t scratch(const struct tr_call *c)
{
    struct tr_grouped g = groups(c);
    return c->k->group_norm.scratch(&g);
}

static void centre(const struct tr_call *c)
{
    struct tr_grouped g = groups(c);
    c->k->group_norm.centre(c->x, c->out[0].p, c->in[0].p, c->in[1].p, &g, c->scratch);
}

static void sum_squares(const struct tr_call *c)
{
    struct tr_tokens t = tr_tokens_of(c, 1);
    c->k->sum_squares(c->x, c->out[0].p, c->in[0].p, &t);
}

static void norm(const struct tr_call *c)
{
    struct tr_grouped g = groups(c);
    c->k->group_norm.forward(
        c->x, c->out[0].p, c->in[0].p, c->in[1].p, c->in[2].p, c->in[3].p, &g, c->scratch);
}

static void norm_dw(const struct tr_call *c)
{
    struct tr_grouped g = groups(c);
    c->k->group_norm.dw(c->x, c->out[0].p, c->out[1].p, c->in[0].p, c->in[1].p, c->in[2].p, &g, c->scratch);
}

static void norm_dx(const struct tr_call *c)
{
    struct tr_grouped g = groups(c);
    c->k->group_norm.dx(c->x, c->out[0].p, c->in[0].p, c->in[1].p, c->in[2].p, c->in[3].p, c->in[4].p,
        c->in[5].p, &g, c->scratch);
}

/* ---- the rows ---- */

/* group_norm_dx is of the sums that are taken off, too. */
static void centre_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    p->d[n->in[0]] = dy;
}

/* The gradient of the input takes the sums of those of scale and shift over the cells of each picture, which
 * are their leaves: so these come first, and then the tree over pictures, which uses them up. */
static void norm_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
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
