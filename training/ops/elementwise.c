/* SPDX-License-Identifier: BSD-3-Clause */
/* elementwise.c: what works on each element alone: sums, biases, GELU, SwiGLU,
 * rounding; and the tree that folds the
 * leaves of a gradient. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

static int64_t rows_of(const struct tr_call *c)
{
    return c->n * c->in[0].d[1];
}

static void bias(const struct tr_call *c)
{
    c->k->add_bias(c->x, c->out[0].p, c->in[0].p, c->in[1].p, rows_of(c), c->in[0].d[2]);
}

static void bias_leaves(const struct tr_call *c)
{
    struct tr_tokens t = tr_tokens_of(c, c->runs);
    c->k->sum_tokens(c->x, c->out[0].p, c->in[0].p, &t);
}

static void gelu(const struct tr_call *c)
{
    c->k->gelu.forward(c->x, c->out[0].p, c->in[0].p, rows_of(c) * c->in[0].d[2]);
}

static void gelu_dx(const struct tr_call *c)
{
    c->k->gelu.dx(c->x, c->out[0].p, c->in[0].p, c->in[1].p, rows_of(c) * c->in[0].d[2]);
}

/* Chunks of gates lie beside what they gate, so a rank that has some of the chunks has both. */
static int64_t gates_of(const struct tr_operand *x)
{
    return x->of->size[2] / (2 * TR_CUT);
}

static void swiglu(const struct tr_call *c)
{
    int64_t chunk = gates_of(&c->in[0]);
    c->k->swiglu.forward(c->x, c->out[0].p, c->in[0].p, rows_of(c) * c->in[0].d[2] / (2 * chunk), chunk);
}

static void swiglu_dx(const struct tr_call *c)
{
    int64_t chunk = gates_of(&c->in[1]);
    c->k->swiglu.dx(c->x, c->out[0].p, c->in[0].p, c->in[1].p, rows_of(c) * c->in[0].d[2] / chunk, chunk);
}

static void add(const struct tr_call *c)
{
    c->k->add(c->x, c->out[0].p, c->in[0].p, c->in[1].p, rows_of(c) * c->in[0].d[2]);
}

/* The tree over the leaves. Of a sequence there may be two, neighbours. */
static void fold(const struct tr_call *c)
{
    int64_t count = c->out[0].count;
    c->k->fold(c->x, c->out[0].p, c->in[0].p, c->in[0].count / count, count, 1);
}

static void round_sums(const struct tr_call *c)
{
    c->k->bfloat16.from_float(c->x, (uint16_t *)(void *)c->out[0].p, c->in[0].p, c->in[0].count, NULL);
}

/* ---- the rows ---- */

/* Its own gradient comes after that of the matrix before it: one gathering of dy serves both. */
static void bias_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    p->d[n->in[0]] = dy;
    p->bias = n;
}

static void gelu_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0];
    tr_give(p, x, tr_input_gradient(p, TR_GELU_DX, n->unit, (int[]){ dy, x }, 2, x), n->unit);
}

static void swiglu_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0];
    tr_give(p, x, tr_input_gradient(p, TR_SWIGLU_DX, n->unit, (int[]){ dy, x }, 2, x), n->unit);
}

static void add_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    tr_give(p, n->in[0], dy, n->unit);
    tr_give(p, n->in[1], dy, n->unit);
}

const struct tr_op_row tr_op_bias = { .name = "bias",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St", "Sc Sr -> Sc" },
    .in_place = true,
    .gradient = bias_gradient,
    .run = bias };
const struct tr_op_row tr_op_bias_dw = {
    .name = "bias_dw", .rules = { "R -> R", "Sb -> Sb", "St -> Pb", "Sc -> Sr" }, .run = bias_leaves
};
const struct tr_op_row tr_op_gelu = { .name = "gelu",
    .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc" },
    .again = TR_RECOMPUTE_GELU,
    .gradient = gelu_gradient,
    .run = gelu };
const struct tr_op_row tr_op_gelu_dx = { .name = "gelu_dx",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" },
    .in_place = true,
    .run = gelu_dx };
const struct tr_op_row tr_op_swiglu = { .name = "swiglu",
    .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc" },
    .again = TR_RECOMPUTE_GELU,
    .gradient = swiglu_gradient,
    .run = swiglu };
const struct tr_op_row tr_op_swiglu_dx = { .name = "swiglu_dx",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" },
    .run = swiglu_dx };
const struct tr_op_row tr_op_add = { .name = "add",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" },
    .in_place = true,
    .gradient = add_gradient,
    .run = add };
const struct tr_op_row tr_op_fold = {
    .name = "fold", .rules = { "R -> R", "Sb -> Ps", "Sr -> Sr", "Gr -> Sr", "Hz -> R" }, .run = fold
};
const struct tr_op_row tr_op_round = { .name = "round",
    .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc", "Sr -> Sr", "F -> F" },
    .in_place = true,
    .as_stored = true,
    .run = round_sums };
