/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_pipeline.c: the errors of those who let the stages of a pipeline lie on ranks in another way, or
 * its ranks step apart. */
#include "training/tape/plant.h"

/* At the turning point of a V the last rank goes on with what it has; here it sends that on and receives, as
 * at any other border. */
static bool sent_at_the_turning_point(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[n - 1];
    const struct tr_plan *plan = t->placed->plan;
    int turn = 0, stage = plan->mesh.size[TR_PP];
    while (turn < t->n_instrs && t->instrs[turn].stage != stage)
        turn++;
    if (!plan->vee || turn == t->n_instrs)
        return false;
    int x = t->instrs[turn].in[0], micro = t->instrs[turn].micro;
    for (int k = 0; k < 2; k++) {
        struct tr_instr *i = tr_insert_instr(t, turn + k, k ? TR_RECV : TR_SEND);
        i->stage = stage - 1 + k, i->micro = micro, i->part = TR_F, i->times = 1;
        i->edge = k ? TR_FROM_PREVIOUS : TR_TO_NEXT, i->count = t->values[x].bytes / 4;
        if (k)
            i->out[i->outs++] = x;
        else
            i->in[i->ins++] = x;
    }
    return true;
}

/* The first rank has both homes of a tied embedding, and asks the last one for the other. */
static bool tied_with_the_last_rank(struct tr_tape *tapes, int n)
{
    (void)n;
    for (int i = 0; i < tapes[0].n_instrs && tapes[0].placed->plan->vee; i++)
        if (tapes[0].instrs[i].code == TR_TIE) {
            tapes[0].instrs[i].edge = TR_HOME;
            return true;
        }
    return false;
}

/* The first update of the last rank, whose weights wait longest, comes before its last sum over micro-
 * batches. */
static bool updated_before_the_last_weights(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[n - 1];
    int update = 0, count = t->n_instrs - 1;
    while (update < t->n_instrs && t->instrs[update].code != TR_UPDATE)
        update++;
    while (count >= 0 && (t->instrs[count].code != TR_COUNT || update == t->n_instrs ||
                             t->instrs[count].parameter != t->instrs[update].parameter))
        count--;
    if (!t->placed->plan->no_flush || count < 0)
        return false;
    tr_move_instr(t, update, count);
    tr_plan_memory(t);
    return true;
}

/* The updates do not wait for the norm, though they clip by it. */
static bool clipped_by_no_norm(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int norm = t->n_instrs - 1, update = 0;
        while (norm >= 0 && (t->instrs[norm].code != TR_ALL_REDUCE || t->instrs[norm].out[0] != t->leaves))
            norm--;
        while (update < t->n_instrs && t->instrs[update].code != TR_UPDATE)
            update++;
        if (norm < 0 || update == t->n_instrs)
            return false;
        tr_move_instr(t, update, norm);
    }
    return true;
}

#define VEE "--pp 2 --chunks 2 --micro 4 --schedule dualpipev"

static const struct tr_injection list[] = {
    { "turn-sent", "the rank at the turning point of a V sends to its neighbour what it goes on with", VEE,
        TR_BY_ORDER, sent_at_the_turning_point },
    { "tied-with-nobody", "in a V the rank of both ends asks the last rank for the head's gradient", VEE,
        TR_BY_ORDER, tied_with_the_last_rank },
    { "update-before-weights", "the optimizer renews a parameter before the last gradient of it is there",
        "--pp 2 --micro 4 --schedule zb-h2 --clip 0", TR_BY_TYPES, updated_before_the_last_weights },
    { "clip-before-norm", "the gradient is clipped before the ranks have added up its norm", "--pp 2",
        TR_BY_TYPES, clipped_by_no_norm },
};
const struct tr_injections tr_injections_pipeline = { list, sizeof list / sizeof *list };
