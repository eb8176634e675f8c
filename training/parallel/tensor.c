/* SPDX-License-Identifier: BSD-3-Clause */
/* tensor.c: tensor parallelism (Megatron-LM, Shoeybi et al. 2019): each layer's matrices are cut by rows.
 *
 *                    x  R                         all have the input
 *           qkv, fc1  Sr: each has some rows      column: y = x W', each has some heads, some of 4C
 *          proj, fc2  Sr: the rows that fit these row: a partial sum of y
 *                    y  P+ -> R                   one all-reduce forward; and one backward, of dx of qkv and
 *                       fc1
 *
 * The layers of the mlp are fc1 and fc2 by turns, so these lines are theirs, too. Convolutions go in the same
 * pairs (Dryden et al. 2019): conv1 by filters, conv2 by its input channels.
 *
 * The vocabulary is cut as well: who has a token's row embeds it (P1), and the softmax folds its maximum and
 * its sums. Parts are equal: rows as if padded to a multiple of 64; what is padding is in no sum. */
#include "training/parallel/registry.h"

#include <stdio.h>

static const struct tr_option options[] = {
    { "tp", TR_WHOLE, TR_PLAN(sizes.tp), "tensor parallel", .least = 1 },
};

static const struct tr_table matrices = { "tp", TR_TP,
    { { "wte", "Sr" }, { "*qkv.weight", "Sr" }, { "*qkv.bias", "Sr" }, { "*proj.weight", "Sr" },
        { "*fc1.weight", "Sr" }, { "*fc1.bias", "Sr" }, { "*fc2.weight", "Sr" }, { "head.weight", "Sr" },
        { "*conv1.weight", "Sr" }, { "*conv1.bias", "Sr" }, { "*conv2.weight", "Sr" },
        { "*gn1.weight", "Sr" }, { "*gn1.bias", "Sr" } } };

static void cuts(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    (void)g;
    snprintf(to, room, "each layer: one part in %d of every matrix on each rank, and all sequences",
        p->mesh.size[TR_TP]);
}

static bool check_heads(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    int64_t parts = TR_CUT, heads = g->attention.kv_heads ? g->attention.kv_heads : g->heads;
    while (heads && heads % parts)
        parts /= 2;
    if (tp <= parts && parts % tp == 0)
        return true;
    if (g->heads)
        tr_fail(e, "--tp %d: a sum is cut into %d parts, and %lld heads%s must be cut alike", tp, TR_CUT,
            (long long)heads, g->attention.kv_heads ? " of keys and values" : "");
    else
        tr_fail(e, "--tp %d: a sum is cut into %d parts", tp, TR_CUT);
    return tr_offer_divisors(e, "tp", (long)parts);
}

/* Tensor parallelism cuts the channels that a norm takes in groups. */
static bool check_groups(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    if (!g->groups || g->groups % tp == 0 || (g->layers == 1 && g->cut.split == TR_CONV_PAIRS))
        return true;
    return tr_fail(e,
               "--tp %d with --norm-groups %lld: the sums of a group of channels are made on one rank, which "
               "must have all of it",
               tp, (long long)g->groups) ||
           tr_offer_divisors(e, "tp", TR_CUT) || tr_offer_divisors(e, "norm-groups", (long)g->channels);
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    return check_heads(p, g, e) && check_groups(p, g, e);
}

const struct tr_paradigm tr_tensor_parallel = { .word = "tp",
    .name = "tensor parallel",
    .axis = TR_TP,
    TR_OPTIONS(options),
    .compared = { { "tensor parallel", "--tp N" } },
    .table = &matrices,
    .check = check,
    .cuts = cuts,
    .when = "a layer is too large for a rank, and links are fast" };
