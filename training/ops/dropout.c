/* SPDX-License-Identifier: BSD-3-Clause */
/* dropout.c: dropout: of what enters the residual stream a part becomes +0, by chance. The chance of an
 * element follows from what its sequences brought along, from the site in the model, and from its place in
 * the sequence, so each rank draws for the elements that it has, and nobody keeps a mask: the backward pass
 * draws again. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

_Static_assert((int)TR_DRAWS == (int)TR_DRAW_WORDS, "the model and the kernels speak of the same words");

static void run(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0];
    struct tr_dropped d = { .at = { .sequences = c->n,
                                .runs = c->runs,
                                .tokens = x->d[1] / c->runs,
                                .columns = x->d[2],
                                .context = c->g->context,
                                .first = { c->first, c->second },
                                .striped = c->striped },
        .site = c->part,
        .scale = (float)(1 / (1 - c->g->dropout.part)) };
    c->k->embed.dropout(c->x, c->out[0].p, x->p, (const uint32_t *)(const void *)c->in[1].p, &d);
}

static void gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], site = n->shift;
    tr_give(p, x, tr_input_gradient(p, TR_DROPOUT_DX, n->unit, (int[]){ dy, n->in[1] }, 2, x), n->unit);
    p->g->nodes[p->g->n_nodes - 1].shift = site;
}

/* Who has a part of the tokens has the draws of the whole sequence. */
#define ROW(is)                                                                                              \
    .name = is, .rules = { "R R -> R", "Sb Sb -> Sb", "St R -> St" }, .in_place = true, .tokens_of = 1,      \
    .run = run

const struct tr_op_row tr_op_dropout = { ROW("dropout"), .gradient = gradient };
const struct tr_op_row tr_op_dropout_dx = { ROW("dropout_dx") };
