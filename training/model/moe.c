/* SPDX-License-Identifier: BSD-3-Clause */
/* moe.c: the mixture of experts of training/reference/moe.c as a part of a graph.
 *
 *   x -> column (router) -> gate -> probabilities, choices
 *   x, choices -> dispatch -> rows, counts      a row for each token and choice: by experts, then by tokens
 *   rows -> expert_up -> expert_down -> combine -> y
 *
 * With a capacity, or a loss of balance, ranks must know what all tokens of the micro-batch chose:
 *
 *   choices -> wanted      of each block of a sequence, how many tokens chose each expert; gathered from all
 *   choices, wanted -> admit -> choices         an expert that is full refuses
 *
 * The weights of all experts are one tensor each, by experts outermost, so that those of some experts are
 * neighbours. How many rows an expert has is known when the step runs: counts[expert][sequence][block] are a
 * value like any other. */
#include "training/model/moe.h"

#include "training/model/op.h"

int64_t tr_moe_hidden(const struct tr_graph *g)
{
    return 2 * g->channels;
}

bool tr_moe_legal(const struct tr_model_options *o, struct tr_error *e)
{
    if (o->experts < 1 || o->experts > 1024)
        return tr_fail(e, "--experts %lld: legal are 1 to 1024", (long long)o->experts);
    if (o->choices < 1 || o->choices > o->experts)
        return tr_fail(e, "--top-k %lld: a token has some of the %lld experts; legal are 1 to %lld",
            (long long)o->choices, (long long)o->experts, (long long)o->experts);
    if (!(o->capacity >= 0 && o->capacity < 1e6))
        return tr_fail(e, "--capacity-factor %g: legal are 0, which has no limit, and more", o->capacity);
    if (!(o->balance >= 0 && o->balance < 1e6))
        return tr_fail(e, "--aux-loss %g: legal are 0 and more", o->balance);
    return true;
}

void tr_moe_parameters(struct tr_builder *b, int w[TR_MOE_PARAMETERS], double deviation)
{
    int64_t c = b->g->channels, n = b->g->experts, hidden = tr_moe_hidden(b->g);
    w[TR_MOE_ROUTER] = tr_build_parameter(b, "router.weight", n, c, 0.02, 0);
    w[TR_MOE_UP] = tr_build_parameter(b, "up.weight", n * hidden, c, 0.02, 0);
    w[TR_MOE_UP_BIAS] = tr_build_parameter(b, "up.bias", n * hidden, 1, 0, 0);
    w[TR_MOE_DOWN] = tr_build_parameter(b, "down.weight", n * hidden, c, deviation, 0);
    w[TR_MOE_DOWN_BIAS] = tr_build_parameter(b, "down.bias", n * c, 1, 0, 0);
}

/* [b][choices x t][c]: a row for each choice of each token. */
static int rows(struct tr_builder *b, const char *name, int64_t c, int counts)
{
    int64_t size[] = { 1, b->g->context * b->g->choices, c };
    int t = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, "btc", size, "%s%s", b->prefix, name);
    b->g->tensors[t].counts = counts;
    return t;
}

/* Of the choices those that are admitted, where not all are. */
static int admitted(struct tr_builder *b, int choices)
{
    int64_t size[] = { 1, TR_BLOCKS, b->g->experts };
    if (b->g->capacity == 0 && b->g->balance == 0)
        return choices;
    int wanted = tr_add_tensor(b->g, TR_ACTIVATION, b->unit, "btc", size, "%swanted", b->prefix);
    b->g->tensors[wanted].wide = true;
    tr_build_node(b, TR_WANTED, &choices, 1, &wanted, 1);
    if (b->g->capacity == 0)
        return choices;
    int some = tr_build_activation(b, "admitted", b->g->choices, false);
    b->g->tensors[some].wide = true;
    tr_build_node(b, TR_ADMIT, (int[]){ choices, wanted }, 2, &some, 1);
    return some;
}

int tr_moe_forward(struct tr_builder *b, int x, const int w[TR_MOE_PARAMETERS])
{
    struct tr_graph *g = b->g;
    int64_t size[] = { 1, TR_BLOCKS, g->experts }, padded = g->tensors[w[TR_MOE_ROUTER]].size[0];
    int logits = tr_build_apply(b, TR_COLUMN, x, w[TR_MOE_ROUTER], "router", padded, false);
    int p = tr_build_activation(b, "probabilities", g->experts, false);
    int choices = tr_build_activation(b, "choices", g->choices, false);
    tr_build_node(b, TR_GATE, &logits, 1, (int[]){ p, choices }, 2);
    /* Choices and counts are integers. The router is float32 in mixed precision, too (Fedus et al. 2022), as
     * which experts are chosen hangs on it. */
    g->tensors[logits].wide = g->tensors[p].wide = g->tensors[choices].wide = true;
    choices = admitted(b, choices);
    int counts = tr_add_tensor(g, TR_ACTIVATION, b->unit, "btc", size, "%scounts", b->prefix);
    g->tensors[counts].wide = true;
    int sent = rows(b, "rows", g->channels, counts);
    tr_build_node(b, TR_DISPATCH, (int[]){ x, choices }, 2, (int[]){ sent, counts }, 2);
    int up = rows(b, "up", tr_moe_hidden(g), counts), down = rows(b, "down", g->channels, counts);
    tr_build_node(b, TR_EXPERT_UP, (int[]){ sent, counts, w[TR_MOE_UP], w[TR_MOE_UP_BIAS] }, 4, &up, 1);
    tr_build_node(b, TR_EXPERT_DOWN, (int[]){ up, counts, w[TR_MOE_DOWN], w[TR_MOE_DOWN_BIAS] }, 4, &down, 1);
    int y = tr_build_activation(b, "experts", g->channels, true);
    tr_build_node(b, TR_COMBINE, (int[]){ down, p, choices }, 3, &y, 1);
    return y;
}
