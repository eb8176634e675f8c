/* SPDX-License-Identifier: BSD-3-Clause */
/* rope.c: queries and keys are turned by their tokens' places, and the keys and values of a group of heads
 * are laid out for each of its heads. So attention is the same for one head in a group and for many; and a
 * sum over the heads of a group is made when each head's is whole, whoever had a part of its tokens. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

/* The groups that are here: grouped[token][group][share + 2][size]. */
static struct tr_rope shape_of(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0], *grouped = c->op == TR_ROPE ? x : &c->out[0];
    int64_t size = c->g->channels / c->g->heads, share = c->g->heads / c->g->attention.kv_heads;
    return (struct tr_rope){ .at = { .sequences = c->n,
                                 .runs = c->runs,
                                 .tokens = x->d[1] / c->runs,
                                 .context = c->g->context,
                                 .first = { c->first, c->second },
                                 .striped = c->striped },
        .groups = grouped->d[2] / ((share + 2) * size),
        .share = share,
        .size = size };
}

static void run(const struct tr_call *c)
{
    struct tr_rope r = shape_of(c);
    (c->op == TR_ROPE ? c->k->rope.forward : c->k->rope.dx)(c->x, c->out[0].p, c->in[0].p, &r, c->scratch);
}

static int64_t scratch(const struct tr_call *c)
{
    struct tr_rope r = shape_of(c);
    return c->k->rope.scratch(&r);
}

/* ---- the rows ---- */

static void gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0];
    tr_give(p, x, tr_input_gradient(p, TR_ROPE_DX, n->unit, &dy, 1, x), n->unit);
}

const struct tr_op_row tr_op_rope = { .name = "rope",
    .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc" },
    .tokens_of = 1,
    .gradient = gradient,
    .scratch = scratch,
    .run = run };
const struct tr_op_row tr_op_rope_dx = { .name = "rope_dx",
    .rules = { "R -> R", "Sb -> Sb", "St -> St", "Sc -> Sc" },
    .tokens_of = 1,
    .scratch = scratch,
    .run = run };
