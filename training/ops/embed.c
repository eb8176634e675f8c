/* SPDX-License-Identifier: BSD-3-Clause */
/* embed.c: the embedding of tokens, and of their places in the sequence. */
#include "training/kernels/stripes.h"
#include "training/model/autodiff.h"
#include "training/ops/site.h"

#include <string.h>

/* ---- tokens ---- */

static void embed(const struct tr_call *c)
{
    const struct tr_operand *w = &c->in[0], *token = &c->in[1];
    c->k->embed.forward(c->x, c->out[0].p, w->p, tr_tokens(token), c->n * token->d[1], w->d[1],
        tr_first_row(c, w->of, w->d[0]), w->d[0]);
}

/* These are leaves, or the tree over sequences follows. */
static void embed_dw(const struct tr_call *c)
{
    bool leaves = c->op == TR_EMBED_LEAVES;
    int64_t runs = leaves ? c->runs : 1, t = c->in[0].d[1] / runs, columns = c->in[0].d[2],
            rows = c->out[0].d[leaves];
    const uint16_t *token = tr_tokens(&c->in[1]);
    int64_t first = tr_first_row(c, &c->g->tensors[c->out[0].of->of], rows);
    float *level[32];
    if (!leaves)
        tr_levels_of(c, 0, rows * columns, level);
    for (int64_t s = 0; s < c->n * runs; s++) {
        float *dw = c->out[0].p + (leaves ? s * rows * columns : 0);
        c->k->embed.dw(
            c->x, dw, c->in[0].p + s * t * columns, token + s * t, t, columns, first, rows, c->block);
        if (!leaves)
            c->k->tree_in(c->x, dw, level, rows * columns, s, c->n);
    }
}

static int64_t embed_dw_scratch(const struct tr_call *c)
{
    return tr_levels(c->n) * c->out[0].d[0] * c->out[0].d[1];
}

/* ---- places ---- */

/* The token of the sequence that is the t-th of run r here. */
static int64_t token_here(const struct tr_call *c, int64_t r, int64_t t)
{
    int64_t place = (r % c->runs ? c->second : c->first) + t;
    return c->striped ? tr_striped_token(c->g->context, place) : place;
}

/* Neighbours are one call, tokens of stripes one each. */
static void position(const struct tr_call *c)
{
    int64_t tokens = c->in[0].d[1] / c->runs, width = c->in[0].d[2], some = c->striped ? 1 : tokens;
    for (int64_t r = 0; r < c->n * c->runs; r++)
        for (int64_t t = 0; t < tokens; t += some) {
            int64_t at = (r * tokens + t) * width;
            c->k->add(c->x, c->out[0].p + at, c->in[0].p + at, c->in[1].p + token_here(c, r, t) * width,
                some * width);
        }
}

/* A sequence's leaf is its gradient itself: +0 is added, as the sum with the ranks that have other tokens
 * does. */
static void position_dw(const struct tr_call *c)
{
    int64_t width = c->in[0].d[2], tokens = c->in[0].d[1] / c->runs, whole = c->out[0].d[1] * width;
    memset(c->out[0].p, 0, (size_t)(c->n * whole) * sizeof(float));
    for (int64_t r = 0; r < c->n * c->runs; r++)
        for (int64_t t = 0; t < tokens; t++) {
            float *to = c->out[0].p + r / c->runs * whole + token_here(c, r, t) * width;
            for (int64_t i = 0; i < width; i++)
                to[i] = c->in[0].p[(r * tokens + t) * width + i] + 0.0f;
        }
}

/* ---- the rows ---- */

static void embed_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->in[1] };
    tr_matrix_gradient(p, TR_EMBED_DW, TR_EMBED_LEAVES, n->unit, in, 2, n->in[0]);
}

static void position_gradient(struct tr_pass *p, const struct tr_node *n, int dy)
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
const struct tr_op_row tr_op_embed_leaves = {
    .name = "embed_dw", .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> Pb", "R R -> Sr" }, .run = embed_dw
};
const struct tr_op_row tr_op_position = { .name = "position",
    .rules = { "R R -> R", "Sb R -> Sb", "St R -> St" },
    .in_place = true,
    .tokens_of = 1,
    .gradient = position_gradient,
    .run = position };
const struct tr_op_row tr_op_position_dw = {
    .name = "position_dw", .rules = { "R -> R", "Sb -> Sb", "St -> P1" }, .tokens_of = 1, .run = position_dw
};
