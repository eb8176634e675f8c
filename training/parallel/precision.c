/* SPDX-License-Identifier: BSD-3-Clause */
/* precision.c: what goes with bfloat16; passes/precision.c says where sums are rounded. */
#include "training/parallel/paradigms.h"

bool tr_precision_check(const struct tr_plan *p, struct tr_error *e)
{
    if (p->numbers.stochastic && !p->numbers.bfloat16)
        return tr_fail(e, "--rounding stochastic rounds parameters from their masters, and with --precision "
                          "float32 they have none; legal with --precision bfloat16");
    if (p->numbers.bfloat16 && p->servers.async)
        return tr_fail(e,
            "--precision bfloat16 with --server-mode async: the simulator that its pushes are compared with "
            "has float32 alone; legal is --server-mode sync, or --precision float32");
    return true;
}
