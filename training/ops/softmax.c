/* SPDX-License-Identifier: BSD-3-Clause */
/* softmax.c: the softmax over a vocabulary, of which an axis may cut the columns, and the loss. */
#include "training/ops/site.h"

#include <math.h>
#include <string.h>

static void row_max(const struct tr_call *c)
{
    int64_t stride = c->in[0].d[2], rows = c->n * c->in[0].d[1];
    if (c->valid == 0) /* padding alone: less than what others have */
        for (int64_t i = 0; i < rows; i++)
            c->out[0].p[i] = -INFINITY;
    else
        c->k->softmax.max(c->x, c->out[0].p, c->in[0].p, rows, c->valid, stride);
}

/* Forward and backward: the first operand is changed in its place, or in that of the result. */
static void softmax(const struct tr_call *c)
{
    int64_t stride = c->in[0].d[2], padded = (c->g->vocabulary + TR_PAD - 1) / TR_PAD * TR_PAD;
    int64_t rows = c->n * c->in[0].d[1], first = stride < padded ? c->tp_rank * stride : 0;
    const uint16_t *target = tr_tokens(&c->in[2]);
    if (c->out[0].p != c->in[0].p)
        memcpy(c->out[0].p, c->in[0].p, (size_t)(rows * stride) * sizeof(float));
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
    int64_t leaves = c->g->grid ? TR_BLOCKS : rows / block; /* a picture's only row is in the first */
    double *leaf = (double *)(void *)c->out[0].p;
    memset(leaf, 0, (size_t)(c->n * leaves) * sizeof *leaf);
    for (int64_t s = 0; s < c->n; s++)
        c->k->softmax.loss(c->x, leaf + s * leaves, c->in[0].p + s * rows, c->in[1].p + s * rows,
            c->in[2].p + s * rows, rows, block);
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
