/* SPDX-License-Identifier: BSD-3-Clause */
/* norm.c: layer norm: each row less its mean, over its deviation, scaled and shifted; and RMS norm: each row
 * over the root of its mean square, scaled. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

static void forward(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0];
    c->k->layer_norm.forward(
        c->x, c->out[0].p, c->out[1].p, c->out[2].p, x->p, c->in[1].p, c->in[2].p, c->n * x->d[1], x->d[2]);
}

static void backward(const struct tr_call *c)
{
    const struct tr_operand *dy = &c->in[0];
    c->k->layer_norm.dx(
        c->x, c->out[0].p, dy->p, c->in[1].p, c->in[2].p, c->in[3].p, c->in[4].p, c->n * dy->d[1], dy->d[2]);
}

static void leaves(const struct tr_call *c)
{
    struct tr_tokens t = tr_tokens_of(c, c->runs);
    c->k->layer_norm.dw(c->x, c->out[0].p, c->out[1].p, c->in[0].p, c->in[1].p, c->in[2].p, c->in[3].p, &t);
}

static void rms_forward(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0];
    c->k->rms_norm.forward(c->x, c->out[0].p, c->out[1].p, x->p, c->in[1].p, c->n * x->d[1], x->d[2]);
}

static void rms_backward(const struct tr_call *c)
{
    const struct tr_operand *dy = &c->in[0];
    c->k->rms_norm.dx(
        c->x, c->out[0].p, dy->p, c->in[1].p, c->in[2].p, c->in[3].p, c->n * dy->d[1], dy->d[2]);
}

static void rms_leaves(const struct tr_call *c)
{
    struct tr_tokens t = tr_tokens_of(c, c->runs);
    c->k->rms_norm.dw(c->x, c->out[0].p, c->in[0].p, c->in[1].p, c->in[2].p, &t);
}

/* ---- the rows ---- */

static void gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], mean = n->out[1], scale = n->out[2];
    int in[] = { dy, x, n->in[1], mean, scale };
    tr_give(p, x, tr_input_gradient(p, TR_LAYER_NORM_DX, n->unit, in, 5, x), n->unit);
    tr_weight_leaves(p, TR_LAYER_NORM_DW, n->unit, (int[]){ dy, x, mean, scale }, 4, &n->in[1], 2);
}

static void rms_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], scale = n->out[1];
    tr_give(p, x, tr_input_gradient(p, TR_RMS_NORM_DX, n->unit, (int[]){ dy, x, n->in[1], scale }, 4, x),
        n->unit);
    tr_weight_leaves(p, TR_RMS_NORM_DW, n->unit, (int[]){ dy, x, scale }, 3, &n->in[1], 1);
}

const struct tr_op_row tr_op_layer_norm = { .name = "layer_norm",
    .rules = { "R R R -> R R R", "Sb R R -> Sb Sb Sb", "St R R -> St St St" },
    .gradient = gradient,
    .run = forward };
const struct tr_op_row tr_op_layer_norm_dx = { .name = "layer_norm_dx",
    .rules = { "R R R R R -> R", "Sb Sb R Sb Sb -> Sb", "St St R St St -> St" },
    .run = backward };
const struct tr_op_row tr_op_layer_norm_dw = { .name = "layer_norm_dw",
    .rules = { "R R R R -> R R", "Sb Sb Sb Sb -> Sb Sb", "St St St St -> Pb Pb" },
    .run = leaves };
const struct tr_op_row tr_op_rms_norm = { .name = "rms_norm",
    .rules = { "R R -> R R", "Sb R -> Sb Sb", "St R -> St St" },
    .gradient = rms_gradient,
    .run = rms_forward };
const struct tr_op_row tr_op_rms_norm_dx = { .name = "rms_norm_dx",
    .rules = { "R R R R -> R", "Sb Sb R Sb -> Sb", "St St R St -> St" },
    .run = rms_backward };
const struct tr_op_row tr_op_rms_norm_dw = {
    .name = "rms_norm_dw", .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> Pb" }, .run = rms_leaves
};
