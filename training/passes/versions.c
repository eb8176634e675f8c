/* SPDX-License-Identifier: BSD-3-Clause */
/* versions.c: asynchronous pipelines: no flush between mini-batches.
 *
 *   stash    a backward part reads the version that its forward part read; as many are kept as are in flight
 *            (PipeDream: Narayanan et al. 2019)
 *   two      an update is made of as many micro-batches as there are stages, and its weights are one update
 *            old on every stage, so that two versions are enough (PipeDream-2BW: Narayanan et al. 2021)
 *   newest   a backward part reads the newest version, whatever its forward part read; one is kept
 *
 * With ZeRO-1 a data-parallel rank updates its part of the next version, which is gathered then. More is not
 * cut: a gradient lives until its update alone, and versions are read whole.
 *
 * A stage's order is that of 1F1B. Between the forward part of a micro-batch and its backward part it runs
 * the backward parts of those in flight before it, which are as many as stages follow: so stage s reads
 * weights that are P - 1 - s updates old. A step of the list is a window of mini-batches; its pipeline drains
 * at the end, as PipeDream's does at the end of an epoch. */
#include "training/passes/versions.h"

#include "training/passes/pass.h"

#include <stdlib.h>
#include <string.h>

/* ---- versions and buffers ---- */

/* What a forward part reads, when so many updates are done. */
static int read_forward(const struct tr_plan *p, int micro, int done)
{
    int before = micro / tr_update_micros(p) - 1;
    return p->pipeline.async != TR_ASYNC_TWO ? done : before < 0 ? 0 : before;
}

/* Where the last backward part stands that reads the version; -1: none does. */
static int last_read(const struct tr_versions *v, const struct tr_slot *slots, int n, int version)
{
    while (--n >= 0)
        if (slots[n].part == TR_B && v->backward[slots[n].micro] == version)
            return n;
    return -1;
}

/* A buffer for the version that update `done` writes in slot `at`: one whose version nobody reads again. */
static int free_buffer(
    const struct tr_versions *v, const int *held, const int *last, int buffers, int done, int at)
{
    int b = 0;
    if (done + 1 == v->updates) /* nobody reads any other, so the first buffer is free */
        return 0;
    if (last[done] <= at) /* in place */
        return v->buffer[done];
    while (b < buffers && last[held[b]] > at)
        b++;
    return b;
}

static void place_versions(struct tr_versions *v, const struct tr_plan *p, const struct tr_slot *slots, int n)
{
    int *held = tr_new((size_t)v->updates + 1, sizeof *held); /* of each buffer: its version */
    int *last = tr_new((size_t)v->updates + 1, sizeof *last);
    for (int version = 0; version <= v->updates; version++)
        last[version] = last_read(v, slots, n, version);
    v->buffers = 1;
    for (int k = 0, done = 0; k < n; k++) {
        if (slots[k].part != TR_B || (slots[k].micro + 1) % tr_update_micros(p))
            continue;
        int b = p->pipeline.async == TR_ASYNC_NEWEST ? 0 : free_buffer(v, held, last, v->buffers, done, k);
        v->buffers += b == v->buffers;
        v->buffer[++done] = b;
        held[b] = done;
    }
    free(held), free(last);
}

void tr_versions_make(struct tr_versions *v, const struct tr_plan *p, const struct tr_slot *slots, int n)
{
    size_t micros = (size_t)p->micros;
    *v = (struct tr_versions){ .updates = tr_updates(p),
        .forward = tr_new(micros, sizeof(int)),
        .backward = tr_new(micros, sizeof(int)),
        .buffer = tr_new((size_t)tr_updates(p) + 1, sizeof(int)) };
    for (int k = 0, done = 0; k < n; k++) {
        int micro = slots[k].micro;
        if (slots[k].part == TR_F) {
            v->forward[micro] = read_forward(p, micro, done);
            continue;
        }
        v->backward[micro] = p->pipeline.async == TR_ASYNC_NEWEST ? done : v->forward[micro];
        done += (micro + 1) % tr_update_micros(p) == 0;
    }
    place_versions(v, p, slots, n);
}

void tr_versions_free(struct tr_versions *v)
{
    free(v->forward), free(v->backward), free(v->buffer), free(v->values);
    *v = (struct tr_versions){ 0 };
}

/* ---- into the tape ---- */

static bool is_on(const struct tr_plan *p)
{
    return p->pipeline.async != TR_ASYNC_OFF;
}

/* The buffers. Each update fills its leaves of the norm, so their vector comes first. */
static void begin(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    struct tr_versions *v = l->versions = tr_new(1, sizeof *v);
    tr_lower_leaves(t);
    tr_versions_make(v, l->p->plan, l->slots, l->n_slots);
    v->values = tr_new((size_t)t->n_states * (size_t)v->buffers, sizeof *v->values);
    for (int n = 0; n < t->n_states; n++)
        for (int b = 0; b < v->buffers; b++) {
            int home = t->states[n].values;
            v->values[n * v->buffers + b] =
                b == 0 ? home
                       : tr_add_value(t, t->values[home].shard, -1, TR_MEM_PARAMETER, t->values[home].bytes);
        }
}

static void end(struct tr_lowering *l)
{
    tr_versions_free(l->versions);
    free(l->versions);
}

static int value_of(
    const struct tr_versions *v, const struct tr_tape *t, const struct tr_param_state *h, int version)
{
    return v->values[(h - t->states) * v->buffers + v->buffer[version]];
}

static int use(
    struct tr_lowering *l, const struct tr_param_state *h, int shard, const struct tr_slot *slot, int unit)
{
    const struct tr_versions *v = l->versions;
    (void)shard, (void)unit;
    return value_of(v, l->t, h, (slot->part == TR_F ? v->forward : v->backward)[slot->micro]);
}

/* The ranks of dp have the sum over the mini-batch, or with ZeRO a part of it. */
static void reduce(struct tr_tape *t, struct tr_param_state *h, const struct tr_slot *slot)
{
    bool part = tr_zero_cuts(t->placed->plan, &t->placed->g->tensors[h->parameter]);
    int to = tr_add_value(t, t->values[h->gradient].shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
    if (!part)
        t->values[to].takes = h->gradient;
    struct tr_instr *i = tr_add_call(t, part ? TR_REDUCE_SCATTER : TR_ALL_REDUCE, 1 << TR_DP, h->shard_count);
    tr_put_in_slot(i, slot, -1);
    i->parameter = h->parameter;
    i->in[i->ins++] = h->gradient, i->out[i->outs++] = to;
    h->gradient = to;
}

/* After the last part of an update. */
static void slot_end(struct tr_lowering *l, const struct tr_slot *slot)
{
    const struct tr_versions *v = l->versions;
    struct tr_tape *t = l->t;
    const struct tr_plan *p = t->placed->plan;
    int update = slot->micro / tr_update_micros(p);
    if (slot->part != TR_B || (slot->micro + 1) % tr_update_micros(p))
        return;
    for (int n = 0; n < t->n_states && p->mesh.size[TR_DP] > 1; n++)
        reduce(t, &t->states[n], slot);
    for (int n = 0; n < t->n_states; n++) {
        struct tr_param_state *h = &t->states[n];
        if (tr_owns(t, h))
            tr_put_in_slot(tr_add_norm(t, h, update), slot, -1);
        struct tr_instr *i = tr_add_update(t, h, h->gradient);
        tr_put_in_slot(i, slot, -1);
        i->update = update;
        i->in[i->ins++] = value_of(v, t, h, update);
        i->out[i->outs++] = value_of(v, t, h, update + 1);
        tr_passes_share(l, h, i->out[0]);
    }
}

/* It was made as soon as its gradient was there. */
static bool update(struct tr_lowering *l, struct tr_param_state *h)
{
    (void)l, (void)h;
    return true;
}

const struct tr_pass tr_pass_versions = {
    .on = is_on, .begin = begin, .use = use, .slot_end = slot_end, .update = update, .end = end
};
