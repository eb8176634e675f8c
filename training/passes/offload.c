/* SPDX-License-Identifier: BSD-3-Clause */
/* offload.c: a second memory, "host", which is larger than the device's and slower to reach.
 *
 *   optimizer    the optimizer's states and a copy of what this rank updates are on the host, and so is
 *                the update (ZeRO-Offload, Ren et al. 2021): a gradient goes down, the parameter comes
 *                up, 4 bytes each of an updated element; in bfloat16 2, as it is rounded there
 *   activations  what the backward part reads of the forward part goes down after its last forward reader,
 *                and comes up before the first backward one (vDNN, Rhu et al. 2016), each byte once
 *
 * The only bridge is a copy, an instruction. Its result is another value, with a place and a lifetime of its
 * own, so that the place on the device is free between. The numbers are the same, and so are all bits.
 *
 * With a delay of one step, which is what lets a host's optimizer run beside the device's next step, a step
 * updates with the gradient of the step before. That is other mathematics: the golden programs' delay=1. */
#include "training/parallel/registry.h"
#include "training/passes/pass.h"

#include <stdlib.h>

/* ---- its options, and what they go with ---- */

enum { MOST_THREADS = 256 };

const char *const tr_offload_names[TR_OFFLOADS] = { "none", "optimizer", "activations", "both" };

static const struct tr_option options[] = {
    { "offload", TR_CHOICE, TR_PLAN(offload.what),
        "in the host's memory: none, optimizer (states and update), activations, both",
        TR_NAMES(tr_offload_names) },
    { "offload-delay", TR_WHOLE, TR_PLAN(offload.delay),
        "1: the host updates with the gradient of the step before", .bits = true },
    { "optimizer-threads", TR_WHOLE, TR_PLAN(offload.threads), "of the update on the host", .least = 1 },
};

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->offload.delay > 1)
        return tr_fail(
            e, "--offload-delay %d: one gradient waits at most; legal are 0 and 1", p->offload.delay);
    if (p->offload.delay && !(p->offload.what & TR_OFFLOAD_OPTIMIZER))
        return tr_fail(
            e, "--offload-delay 1: the gradient waits on the host; legal with --offload optimizer or both");
    if (p->offload.threads > 1 && !(p->offload.what & TR_OFFLOAD_OPTIMIZER))
        return tr_fail(e,
            "--optimizer-threads %d run the update on the host; with --offload %s it runs on the device; "
            "legal with --offload optimizer or both",
            p->offload.threads, tr_offload_names[p->offload.what]);
    if (p->offload.threads > MOST_THREADS)
        return tr_fail(e, "--optimizer-threads %d: legal are 1 to %d", p->offload.threads, MOST_THREADS);
    return true;
}

const struct tr_paradigm tr_offloading = { .name = "offload", TR_OPTIONS(options), .check = check };

/* ---- what it does to a list ---- */

static bool offloads_optimizer(const struct tr_tape *t)
{
    return t->placed->plan->offload.what & TR_OFFLOAD_OPTIMIZER;
}

/* ---- the optimizer ---- */

static bool is_on(const struct tr_plan *p)
{
    return p->offload.what != TR_OFFLOAD_NONE;
}

static void hold(const struct tr_lowering *l, const struct tr_tensor *w, struct tr_held *held)
{
    (void)w;
    held->host = offloads_optimizer(l->t);
}

static struct tr_instr *copy(struct tr_tape *t, enum tr_code code, int from, int to)
{
    struct tr_instr *i = tr_add_instr(t, code);
    i->in[i->ins++] = from, i->out[i->outs++] = to;
    i->times = 1;
    return i;
}

static int on_host(struct tr_tape *t, int value)
{
    const struct tr_value v = t->values[value];
    int host = tr_add_array(t, v.shard, v.micro, v.memory, v.element, tr_count(t, value));
    t->values[host].host = true;
    return host;
}

/* With a delay the gradient that goes down waits there for the next step: it lasts, and enters behind the
 * update. */
static bool update(struct tr_lowering *l, struct tr_param_state *h)
{
    struct tr_tape *t = l->t;
    if (h->on_host < 0)
        return false;
    int gradient = on_host(t, h->gradient);
    bool waits = t->placed->plan->offload.delay > 0;
    t->values[gradient].lasts = waits;
    if (waits)
        h->waiting = gradient;
    else
        copy(t, TR_DOWN, h->gradient, gradient)->parameter = h->parameter;
    struct tr_instr *i = tr_add_update(t, h, gradient);
    i->out[i->outs++] = h->on_host;
    if (h->master >= 0)
        i->out[i->outs++] = h->master;
    i = copy(t, TR_UP, h->on_host, h->values);
    i->parameter = h->parameter, i->place = h->shard_from;
    if (waits)
        copy(t, TR_DOWN, h->gradient, gradient)->parameter = h->parameter;
    tr_passes_share(l, h, h->values);
    return true;
}

/* ---- activations ---- */

/* Of a value: its last forward use and its first backward one, as instructions; -1. */
struct trip {
    int down, up;
    bool stays; /* what is sent is awaited backward, and has its place until then */
    int host, back; /* the values of it while it is away, and afterwards */
};

static struct trip *list_trips(const struct tr_tape *t)
{
    struct trip *trips = tr_new((size_t)t->n_values, sizeof *trips);
    for (int v = 0; v < t->n_values; v++)
        trips[v] = (struct trip){ .down = -1, .up = -1, .host = -1, .back = -1 };
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        for (int x = 0; x < i->ins + i->outs; x++) {
            struct trip *trip = &trips[x < i->ins ? i->in[x] : i->out[x - i->ins]];
            if (i->part == TR_F)
                trip->down = n;
            else if (i->code == TR_WAIT)
                trip->stays = true;
            else if (i->part > TR_F && trip->up < 0)
                trip->up = n;
        }
    }
    return trips;
}

static bool goes(const struct tr_tape *t, const struct trip *trip, int v)
{
    return t->values[v].memory == TR_MEM_ACTIVATION && trip->down >= 0 && trip->up > trip->down &&
           !trip->stays;
}

static void put(struct tr_tape *t, enum tr_code code, int from, int to, const struct tr_instr *beside)
{
    struct tr_instr *i = copy(t, code, from, to);
    i->stage = beside->stage, i->micro = beside->micro, i->part = beside->part, i->unit = beside->unit;
}

/* What a backward part reads, and what it would write in the place of that, is what came up. */
static void take_back(struct tr_tape *t, struct tr_instr *i, const struct trip *trips, int n_trips)
{
    for (int x = 0; x < i->ins && i->part > TR_F; x++)
        if (i->in[x] < n_trips && trips[i->in[x]].back >= 0)
            i->in[x] = trips[i->in[x]].back;
    for (int x = 0; x < i->outs && i->part > TR_F; x++) {
        int *takes = &t->values[i->out[x]].takes;
        if (*takes >= 0 && *takes < n_trips && trips[*takes].back >= 0)
            *takes = trips[*takes].back;
    }
}

/* Activations go down, and come up again. */
static void rewrite(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    if (!(t->placed->plan->offload.what & TR_OFFLOAD_ACTIVATIONS))
        return;
    struct trip *trips = list_trips(t);
    struct tr_instr *before = t->instrs;
    int n_before = t->n_instrs, n_trips = t->n_values;
    t->instrs = NULL, t->n_instrs = t->room_instrs = 0;
    for (int n = 0; n < n_before; n++) {
        struct tr_instr i = before[n];
        for (int x = 0; x < i.ins; x++) {
            struct trip *trip = i.in[x] < n_trips ? &trips[i.in[x]] : NULL;
            if (!trip || trip->host < 0 || trip->up != n || trip->back >= 0)
                continue;
            const struct tr_value v = t->values[i.in[x]];
            trip->back = tr_add_array(t, v.shard, v.micro, v.memory, v.element, tr_count(t, i.in[x]));
            put(t, TR_UP, trip->host, trip->back, &i);
        }
        take_back(t, &i, trips, n_trips);
        *tr_add_instr(t, i.code) = i;
        for (int x = 0; x < i.ins + i.outs; x++) {
            int v = x < i.ins ? i.in[x] : i.out[x - i.ins];
            if (v >= n_trips || trips[v].down != n || trips[v].host >= 0 || !goes(t, &trips[v], v))
                continue;
            trips[v].host = on_host(t, v);
            put(t, TR_DOWN, v, trips[v].host, &i);
        }
    }
    free(before);
    free(trips);
}

const struct tr_pass tr_pass_offload = { .on = is_on, .hold = hold, .update = update, .rewrite = rewrite };
