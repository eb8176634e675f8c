/* SPDX-License-Identifier: BSD-3-Clause */
/* recompute.c: what goes with activation recomputation; passes/recompute.c says what is computed again. */
#include "training/parallel/paradigms.h"

const char *const tr_recompute_names[TR_RECOMPUTES] = { "none", "gelu", "selective", "full" };

static bool regather_fits(const struct tr_plan *p, struct tr_error *e)
{
    if (!tr_plan_has(p, &tr_sequence_parallel) || p->mesh.size[TR_TP] == 1)
        return tr_fail(
            e, "--wgrad regather gathers again what --sp has cut; legal with --sp and --tp 2 and more");
    return !p->recompute.saves ||
           tr_fail(e, "--wgrad regather gathers again what --recompute-comm save keeps; legal with redo");
}

bool tr_recompute_check(const struct tr_plan *p, struct tr_error *e)
{
    if (p->recompute.regathers && !regather_fits(p, e))
        return false;
    return !p->recompute.saves || p->recompute.what == TR_RECOMPUTE_FULL ||
           tr_fail(e,
               "--recompute-comm save keeps what collectives gave where all else of a layer is computed "
               "again; with --recompute %s none is called again; legal with --recompute full",
               tr_recompute_names[p->recompute.what]);
}
