/* SPDX-License-Identifier: BSD-3-Clause */
/* precision.c: what goes with bfloat16; passes/precision.c says where sums are rounded. */
#include "training/parallel/registry.h"

static bool asked(const struct tr_plan *p)
{
    return p->numbers.bfloat16;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->numbers.stochastic && !p->numbers.bfloat16)
        return tr_fail(e, "--rounding stochastic rounds parameters from their masters, and with --precision "
                          "float32 they have none; legal with --precision bfloat16");
    if (p->numbers.bfloat16 && p->servers.async)
        return tr_fail(e,
            "--precision bfloat16 with --server-mode async: the simulator that its pushes are compared with "
            "has float32 alone; legal is --server-mode sync, or --precision float32");
    return true;
}

const struct tr_paradigm tr_mixed_precision = { .name = "mixed precision", .asked = asked, .check = check };
