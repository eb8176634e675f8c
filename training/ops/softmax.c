/* SPDX-License-Identifier: BSD-3-Clause */
/* softmax.c: the softmax over a vocabulary, of which an axis may cut the columns, and the loss. */
#include "training/ops/site.h"

static void row_max(const struct tr_call *c)
{
    c->k->softmax.max(c->x, c->out[0].p, c->in[0].p, c->n * c->in[0].d[1], c->valid, c->in[0].d[2]);
}

/* Forward and backward: the first operand is changed in its place, or in that of the result. */
static void softmax(const struct tr_call *c)
{
    int64_t stride = c->in[0].d[2], padded = (c->g->vocabulary + TR_PAD - 1) / TR_PAD * TR_PAD;
    int64_t rows = c->n * c->in[0].d[1], first = stride < padded ? c->tp_rank * stride : 0;
    const uint16_t *target = tr_token_numbers(&c->in[2]);
    if (c->out[0].p != c->in[0].p)
        tr_copy_bytes(c->x, c->out[0].p, c->in[0].p, rows * stride * TR_FLOAT_BYTES);
    if (c->op == TR_SOFTMAX)
        c->k->softmax.forward(c->x, c->out[0].p, c->out[1].p, c->out[2].p, c->in[1].p, target, rows, c->valid,
            stride, first, padded / TR_CUT, stride / (padded / TR_CUT));
    else
        c->k->softmax.dx(
            c->x, c->out[0].p, c->in[1].p, target, rows, c->valid, stride, first, (float)c->scale);
}

/* A picture has one loss, which is in its first leaf. */
static void loss(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], block = rows < c->block ? rows : c->block;
    struct tr_tokens t = { c->n, rows, 1, block };
    c->k->softmax.loss(c->x, (double *)(void *)c->out[0].p, c->g->grid ? TR_BLOCKS : rows / block, c->in[0].p,
        c->in[1].p, c->in[2].p, &t);
}

/* ---- the rows; autodiff.c has their gradient, which is a node of the forward part ---- */

const struct tr_op_row tr_op_row_max = {
    .name = "row_max", .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Pm" }, .run = row_max
};
const struct tr_op_row tr_op_softmax = { .name = "softmax",
    .rules = { "R R R -> R R R", "Sb Sb Sb -> Sb Sb Sb", "St St St -> St St St", "Sc R R -> Sc P+ P1" },
    .in_place = true,
    .run = softmax };
const struct tr_op_row tr_op_softmax_dx = { .name = "softmax_dx",
    .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St", "Sc R R -> Sc" },
    .in_place = true,
    .run = softmax };
const struct tr_op_row tr_op_loss = {
    .name = "loss", .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St" }, .run = loss
};
