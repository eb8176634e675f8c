/* SPDX-License-Identifier: BSD-3-Clause */
/* sequence.c: sequence parallelism inside tensor parallelism (Korthikanti et al. 2022): between the matrices
 * each rank has a part of the tokens.
 *
 *        x St -> layer norm St -> all-gather -> column, row -> P+ -> reduce-scatter -> y St
 *
 * Bytes are those of the all-reduce, but layer norms, sums and their activations are cut, too. The gradients
 * of layer norms then are sums over the tokens that are here: Pb, completed for each sequence. */
#include "training/parallel/registry.h"

static const struct tr_option options[] = {
    { "sp", TR_FLAG, TR_PLAN(tokens.sp), "sequence parallel between the matrices of tp" },
};

static const struct tr_table stream = { "sp", TR_TP, { { "stream", "St" } } };

static bool asked(const struct tr_plan *p)
{
    return p->tokens.sp && p->sizes.tp > 1;
}

/* Experts have the tokens that are here. */
static void model(const struct tr_plan *p, struct tr_model_options *to)
{
    if (asked(p) && to->experts && to->leaves == TR_NONE_AS_LEAVES)
        to->leaves = TR_EXPERTS_AS_LEAVES;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    return !p->tokens.sp || !g->grid ||
           tr_fail(e, "--sp: cnn has no stream of tokens that it could cut; leave --sp out");
}

const struct tr_paradigm tr_sequence_parallel = { .name = "sequence parallel",
    TR_OPTIONS(options),
    .compared = { { "tensor + sp", "--tp N --sp" } },
    .asked = asked,
    .table = &stream,
    .model = model,
    .check = check };
