/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.c: the embedding of tokens, and of their places in the sequence. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

/* ---- tokens ---- */

static void embed(const struct tr_call *c)
{
    const struct tr_operand *w = &c->in[0], *token = &c->in[1];
    c->k->embed.forward(c->x, c->out[0].p, w->p, tr_token_numbers(token), c->n * token->d[1], w->d[1],
        tr_first_row(c, w->of, w->d[0]), w->d[0]);
}

/* These are leaves, or the tree over sequences follows. */
static struct tr_embedded embedded(const struct tr_call *c)
{
    bool leaves = c->op == TR_EMBED_LEAVES;
    int64_t rows = c->out[0].d[leaves];
    return (struct tr_embedded){ .here = tr_tokens_of(c, leaves ? c->runs : 1),
        .first = tr_first_row(c, &c->g->tensors[c->out[0].of->of], rows),
        .rows = rows,
        .leaves = leaves };
}

static void embed_dw(const struct tr_call *c)
{
    struct tr_embedded e = embedded(c);
    c->k->embed.dw(c->x, c->out[0].p, c->in[0].p, tr_token_numbers(&c->in[1]), &e, c->scratch);
}

static int64_t embed_dw_scratch(const struct tr_call *c)
{
    struct tr_embedded e = embedded(c);
    return c->k->embed.scratch(&e);
}

/* ---- places ---- */

static struct tr_positions positions(const struct tr_call *c, int64_t rows)
{
    return (struct tr_positions){ .sequences = c->n,
        .runs = c->runs,
        .tokens = c->in[0].d[1] / c->runs,
        .columns = c->in[0].d[2],
        .context = c->g->context,
        .first = { c->first, c->second },
        .striped = c->striped,
        .rows = rows };
}

static void position(const struct tr_call *c)
{
    struct tr_positions p = positions(c, c->in[1].d[0]);
    c->k->embed.position(c->x, c->out[0].p, c->in[0].p, c->in[1].p, &p);
}

static void position_dw(const struct tr_call *c)
{
    struct tr_positions p = positions(c, c->out[0].d[1]);
    c->k->embed.position_dw(c->x, c->out[0].p, c->in[0].p, &p);
}

/* ---- the rows ---- */

static void embed_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->in[1] };
    tr_matrix_gradient(p, TR_EMBED_DW, TR_EMBED_LEAVES, n->unit, in, 2, n->in[0]);
}

static void position_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    p->d[n->in[0]] = dy;
    tr_weight_leaves(p, TR_POSITION_DW, n->unit, &dy, 1, &n->in[1], 1);
}

const struct tr_op_row tr_op_embed = { .name = "embed",
    .rules = { "R R -> R", "R Sb -> Sb", "R St -> St", "Sr R -> P1" },
    .gradient = embed_gradient,
    .run = embed };
const struct tr_op_row tr_op_embed_dw = { .name = "embed_dw",
    .rules = { "R R -> R", "Sb Sb -> Ps", "R R -> Sr" },
    .scratch = embed_dw_scratch,
    .run = embed_dw };
const struct tr_op_row tr_op_embed_leaves = { .name = "embed_dw",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "R R -> Sr" },
    .scratch = embed_dw_scratch,
    .run = embed_dw };
const struct tr_op_row tr_op_position = { .name = "position",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St" },
    .in_place = true,
    .tokens_of = 1,
    .gradient = position_gradient,
    .run = position };
const struct tr_op_row tr_op_position_dw = {
    .name = "position_dw", .rules = { "R -> R", "Sb -> Sb", "St -> P1" }, .tokens_of = 1, .run = position_dw
};
