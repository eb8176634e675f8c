/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_async.c: the errors of those who keep several versions of their weights. */
#include "training/parallel/async.h"
#include "training/tape/plant.h"

/* The first buffer, beside the one of the first version, that a parameter's updates write to; -1. */
static int other_buffer(const struct tr_tape *t, const struct tr_holding *h)
{
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == TR_UPDATE && t->instrs[n].parameter == h->parameter &&
            t->instrs[n].out[0] != h->values)
            return t->instrs[n].out[0];
    return -1;
}

/* In parts of a micro-batch from `micro` on, in these parts: value `from` becomes `to`. */
static void replace(struct tr_tape *t, int part, int micro, int from, int to)
{
    for (int n = 0; n < t->n_instrs; n++)
        for (int x = 0; x < t->instrs[n].ins; x++)
            if (t->instrs[n].part == part && t->instrs[n].micro == micro && t->instrs[n].in[x] == from)
                t->instrs[n].in[x] = to;
}

/* The first forward part that is due to read another version than the first reads that one still. */
static bool stale_version(struct tr_tape *tapes, int n)
{
    int stages = tapes[0].placed->plan->mesh.size[TR_PP], micros = tapes[0].placed->plan->micros;
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int i = 0; i < t->n_holdings && t->at[TR_PP] == 0; i++) {
            int buffer = other_buffer(t, &t->holdings[i]);
            if (buffer < 0 || micros <= stages)
                return false;
            replace(t, TR_F, stages, buffer, t->holdings[i].values);
        }
        tr_plan_memory(t);
    }
    return true;
}

/* One buffer serves for two, so that a version is overwritten which a backward part still needs. */
static bool stash_too_small(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int h = 0; h < t->n_holdings && t->at[TR_PP] == 0; h++) {
            int buffer = other_buffer(t, &t->holdings[h]), home = t->holdings[h].values;
            if (buffer < 0)
                return false;
            for (int i = 0; i < t->n_instrs; i++) {
                for (int x = 0; x < t->instrs[i].ins; x++)
                    if (t->instrs[i].in[x] == buffer)
                        t->instrs[i].in[x] = home;
                if (t->instrs[i].outs && t->instrs[i].out[0] == buffer)
                    t->instrs[i].out[0] = home;
            }
        }
        tr_plan_memory(t);
    }
    return true;
}

/* The gradient of old weights is subtracted from these, and not from the newest: updates are lost. */
static bool update_of_the_stashed(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int i = 0, second = 0; i < t->n_instrs && t->at[TR_PP] == 0; i++) {
            struct tr_instr *u = &t->instrs[i];
            if (u->code != TR_UPDATE || u->parameter != t->holdings[0].parameter || second++ != 1)
                continue;
            if (u->in[u->ins - 1] == t->holdings[0].values)
                return false;
            u->in[u->ins - 1] = t->holdings[0].values;
        }
        tr_plan_memory(t);
    }
    return true;
}

/* Each rank of ZeRO goes on with a version of which it has renewed its part alone. */
static bool version_not_shared(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_GATHER, "ln1.weight", TR_DP);
}

static const struct tr_injection list[] = {
    { "stale-version", "a forward part reads weights that are older than the newest",
        "--pp 4 --micro 8 --async stash --untied --clip 0", TR_BY_ORDER, stale_version },
    { "stash-too-small", "one buffer too few for the versions that are in use",
        "--pp 4 --micro 8 --async stash --untied --clip 0", TR_BY_ORDER, stash_too_small },
    { "update-of-stashed", "an update starts from the stashed weights, and not from the newest",
        "--pp 2 --micro 4 --async stash --untied --clip 0", TR_BY_ORDER, update_of_the_stashed },
    { "version-not-shared", "of a new version each rank of ZeRO has its own part, and no all_gather follows",
        "--dp 2 --pp 2 --micro 4 --async stash --zero 1 --untied --clip 0", TR_BY_TYPES, version_not_shared },
};
const struct tr_injections tr_injections_async = { list, sizeof list / sizeof *list };
