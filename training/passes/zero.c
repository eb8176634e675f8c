/* SPDX-License-Identifier: BSD-3-Clause */
/* zero.c: ZeRO (Rajbhandari et al. 2020): data-parallel ranks hold parts of what they would all have alike.
 *
 *            a rank has             gradients                        parameters
 *   ZeRO-1   part of the optimizer  reduce_scatter, once a step      all_gather after the update
 *   ZeRO-2   and of the gradients   reduce_scatter, each micro-batch all_gather after the update
 *   ZeRO-3   and of the parameters  reduce_scatter, each micro-batch all_gather where a part uses them
 *
 * ZeRO-3 gathers a parameter at its first use in a part (F, B, I, W) of a stage and micro-batch. Its place is
 * free after its last use in that part, so the layers in use are whole and no others. Its policies:
 *
 *   persist   a small tensor is worth no call: it stays whole, as with ZeRO-2
 *   keep      what the forward part gathered stays for the backward parts: one all_gather less, more memory
 *   prefetch  the calls of the next units are on a host stream while this unit computes */
#include "training/passes/pass.h"

#include <stdlib.h>

/* ---- what ZeRO puts into the tape ---- */

static struct tr_instr *collective(struct tr_tape *t, enum tr_code code, const struct tr_param_state *h,
    const struct tr_slot *slot, int unit, int from, int to)
{
    const struct tr_tensor *w = &t->placed->g->tensors[h->parameter];
    struct tr_instr *i = tr_add_call(t, code, tr_replica_axes(t->placed->plan, w), h->shard_count);
    tr_put_in_slot(i, slot, unit);
    i->in[i->ins++] = from, i->out[i->outs++] = to;
    return i;
}

static bool is_on(const struct tr_plan *p)
{
    return p->zero.level > 0;
}

static void hold(const struct tr_lowering *l, const struct tr_tensor *w, struct tr_held *held)
{
    const struct tr_plan *plan = l->p->plan;
    if (!tr_zero_cuts(plan, w))
        return;
    held->ways = tr_replicas(plan, w), held->way = tr_replica_rank(plan, w, l->t->at);
    held->part = tr_zero_cuts_parameter(plan, w);
}

/* ZeRO-3: gathered when a part first uses it, and forgotten after the part. */
static int use(
    struct tr_lowering *l, const struct tr_param_state *h, int shard, const struct tr_slot *slot, int unit)
{
    if (!tr_zero_cuts_parameter(l->p->plan, &l->p->g->tensors[h->parameter]))
        return -1;
    if (!l->gathered)
        l->gathered = tr_new((size_t)l->p->n_shards, sizeof *l->gathered);
    struct tr_gathered *whole = &l->gathered[shard];
    if (whole->slot == slot)
        return whole->value;
    *whole = (struct tr_gathered){ tr_add_array(l->t, shard, slot->micro, TR_MEM_BUFFER,
                                       l->t->values[h->values].element, tr_shard_count(l->p, shard, 1)),
        slot };
    collective(l->t, TR_ALL_GATHER, h, slot, unit, h->values, whole->value);
    return whole->value;
}

/* Each rank has renewed its part of a parameter that all have whole. */
static void shared(struct tr_lowering *l, const struct tr_param_state *h, int values)
{
    const struct tr_plan *plan = l->p->plan;
    const struct tr_tensor *w = &l->p->g->tensors[h->parameter];
    if (tr_zero_cuts(plan, w) && !tr_zero_cuts_parameter(plan, w))
        collective(l->t, TR_ALL_GATHER, h, NULL, -1, values, values)->parameter = h->parameter;
}

/* ---- policies of ZeRO-3 ---- */

static bool gathers_parameter(const struct tr_tape *t, const struct tr_instr *i)
{
    return i->code == TR_ALL_GATHER && i->part >= 0 && t->values[i->in[0]].lasts;
}

static bool same_slot(const struct tr_instr *a, const struct tr_instr *b)
{
    return a->part == b->part && a->stage == b->stage && a->micro == b->micro;
}

/* The forward part's call for the same parameter, stage and micro-batch; -1. */
static int gathered_forward(const struct tr_tape *t, int n)
{
    const struct tr_instr *i = &t->instrs[n];
    for (int f = 0; f < n; f++) {
        const struct tr_instr *x = &t->instrs[f];
        if (gathers_parameter(t, x) && x->part == TR_F && x->stage == i->stage && x->micro == i->micro &&
            t->values[x->out[0]].shard == t->values[i->out[0]].shard)
            return f;
    }
    return -1;
}

static void keep(struct tr_tape *t)
{
    for (int n = 0; n < t->n_instrs; n++) {
        if (!gathers_parameter(t, &t->instrs[n]) || t->instrs[n].part == TR_F)
            continue;
        int forward = gathered_forward(t, n);
        if (forward < 0)
            continue;
        int again = t->instrs[n].out[0], kept = t->instrs[forward].out[0];
        tr_remove_instr(t, n--);
        for (int i = n + 1; i < t->n_instrs; i++)
            for (int x = 0; x < t->instrs[i].ins; x++)
                if (t->instrs[i].in[x] == again)
                    t->instrs[i].in[x] = kept;
    }
}

/* Where the unit begins that computes `ahead` units before the one of instruction n, in the same part. Calls
 * that are beside the list already stand before units that are not theirs. */
static int earlier_unit(const struct tr_tape *t, int n, int ahead)
{
    int begin = n, unit = t->instrs[n].unit;
    for (int i = n - 1; i >= 0 && same_slot(&t->instrs[i], &t->instrs[n]); i--) {
        const struct tr_instr *x = &t->instrs[i];
        if (x->beside || x->unit < 0)
            continue;
        if (x->unit != unit && ahead-- == 0)
            break;
        unit = x->unit, begin = i;
    }
    return begin;
}

/* The wait stands where the parameter is first used. */
static void prefetch(struct tr_tape *t)
{
    for (int n = 0; n < t->n_instrs; n++) {
        if (!gathers_parameter(t, &t->instrs[n]) || t->instrs[n].beside)
            continue;
        int to = earlier_unit(t, n, t->placed->plan->zero.prefetch);
        int wait = tr_put_beside(t, n, 1);
        tr_move_instr(t, n, to);
        n = wait;
    }
}

static void rewrite(struct tr_lowering *l)
{
    if (l->p->plan->zero.keep)
        keep(l->t);
    if (l->p->plan->zero.prefetch)
        prefetch(l->t);
}

static void end(struct tr_lowering *l)
{
    free(l->gathered);
}

const struct tr_pass tr_pass_zero = {
    .on = is_on, .hold = hold, .use = use, .shared = shared, .rewrite = rewrite, .end = end
};
