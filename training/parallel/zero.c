/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.c: what ZeRO (Rajbhandari et al. 2020) cuts among the ranks that would have it alike, and which sizes
 * fit it; passes/zero.c does it. */
#include "training/parallel/registry.h"

static const struct tr_option options[] = {
    { "zero", TR_WHOLE, TR_PLAN(zero.level),
        "ZeRO: 1 shards the optimizer, 2 and gradients, 3 and parameters" },
    { "zero3-keep", TR_FLAG, TR_PLAN(zero.keep),
        "gathered parameters stay until the backward pass has used them" },
    { "zero3-prefetch", TR_WHOLE, TR_PLAN(zero.prefetch),
        "parameters are gathered N units ahead, beside the computing" },
    { "zero3-persist", TR_WHOLE, TR_PLAN(zero.persist),
        "parameters of fewer than N elements stay whole on every rank" },
};

bool tr_zero_cuts(const struct tr_plan *p, const struct tr_tensor *parameter)
{
    return p->zero.level > 0 && tr_replicas(p, parameter) > 1;
}

bool tr_zero_cuts_parameter(const struct tr_plan *p, const struct tr_tensor *parameter)
{
    int64_t elements = parameter->size[0] * (parameter->dims > 1 ? parameter->size[1] : 1);
    return p->zero.level == 3 && tr_replicas(p, parameter) > 1 && elements >= p->zero.persist;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    int dp = tr_data_ranks(p), parts = dp * p->mesh.size[TR_TP];
    if (p->zero.level > 3)
        return tr_fail(e, "--zero %d: legal are 0 to 3", p->zero.level);
    if (p->zero.level && parts > TR_NORM_LEAVES)
        return tr_fail(e, "--zero: dp x tp is %d; legal are up to %d", parts, TR_NORM_LEAVES);
    if (p->zero.level && dp & (dp - 1))
        return tr_fail(e, "--zero with --dp %d: shards are whole leaves, so dp is a power of two", dp) ||
               tr_offer_divisors(e, "dp", TR_NORM_LEAVES) || tr_offer(e, "zero", 0);
    if (p->zero.level != 3 && (p->zero.keep || p->zero.prefetch || p->zero.persist))
        return tr_fail(e,
            "--zero3-keep, --zero3-prefetch and --zero3-persist say when parameters are gathered; with "
            "--zero %d every rank has them; legal with --zero 3",
            p->zero.level);
    return true;
}

const struct tr_paradigm tr_zero = { .name = "ZeRO",
    TR_OPTIONS(options),
    .compared = { { "ZeRO 1", "--dp N --zero 1" }, { "ZeRO 2", "--dp N --zero 2" },
        { "ZeRO 3", "--dp N --zero 3" } },
    .check = check };
