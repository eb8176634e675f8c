/* SPDX-License-Identifier: BSD-3-Clause */
/* recompute.c: what goes with activation recomputation; passes/recompute.c says what is computed again. */
#include "training/parallel/registry.h"

const char *const tr_recompute_names[TR_RECOMPUTES] = { "none", "gelu", "selective", "full" };
static const char *const comms[] = { "redo", "save" }, *const wgrads[] = { "hold", "regather" };

static const struct tr_option options[] = {
    { "recompute", TR_CHOICE, TR_PLAN(recompute.what),
        "not kept but computed again: none, gelu, selective (and attention), full",
        TR_NAMES(tr_recompute_names) },
    { "recompute-comm", TR_CHOICE, TR_PLAN(recompute.saves),
        "full: collectives of a layer are called again (redo), or save", TR_NAMES(comms) },
    { "wgrad", TR_CHOICE, TR_PLAN(recompute.regathers),
        "what --sp has cut is held whole for a weight's gradient (hold), or regather", TR_NAMES(wgrads) },
};

static bool regather_fits(const struct tr_plan *p, struct tr_error *e)
{
    if (!p->tokens.sp || p->mesh.size[TR_TP] == 1)
        return tr_fail(
            e, "--wgrad regather gathers again what --sp has cut; legal with --sp and --tp 2 and more");
    return !p->recompute.saves ||
           tr_fail(e, "--wgrad regather gathers again what --recompute-comm save keeps; legal with redo");
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->recompute.regathers && !regather_fits(p, e))
        return false;
    return !p->recompute.saves || p->recompute.what == TR_RECOMPUTE_FULL ||
           tr_fail(e,
               "--recompute-comm save keeps what collectives gave where all else of a layer is computed "
               "again; with --recompute %s none is called again; legal with --recompute full",
               tr_recompute_names[p->recompute.what]);
}

const struct tr_paradigm tr_recomputation = { .name = "recomputation", TR_OPTIONS(options), .check = check };
