/* SPDX-License-Identifier: BSD-3-Clause */
/* check_versions.c: which version of its weights each part of an asynchronous pipeline reads.
 *
 * Buffers are written again and again, so that a buffer tells nothing about what is in it. The list is walked
 * with the number of the version that each one holds: an update must read the newest version and writes the
 * next; a forward part must read the one that its rule says; a backward part the one that its forward part
 * read, or with --async newest the newest. What is overwritten too early is found so, too. */
#include "training/check/check.h"

#include <stdlib.h>

struct versions {
    const struct tr_tape *t;
    const struct tr_plan *plan;
    int *held; /* of each value of the tape: the version in it */
    int *newest; /* of each tensor that is a parameter */
    int *forward; /* [tensor][micro-batch]: the version that the forward part read, plus 1; 0: it has not */
};

static int parameter_in(const struct tr_tape *t, int value)
{
    const struct tr_placed *p = t->placed;
    int shard = t->values[value].shard, tensor = shard < 0 ? -1 : p->shards[shard].tensor;
    return tensor >= 0 && p->g->tensors[tensor].role == TR_PARAMETER ? tensor : -1;
}

static bool wrong(
    const struct versions *v, int n, int parameter, int read, int due, const char *why, struct tr_error *e)
{
    const struct tr_instr *i = &v->t->instrs[n];
    return tr_fail(e,
        "rank %d, instruction %d, %s of %s, micro-batch %d: it reads version %d of %s, and version %d is "
        "due: %s",
        v->t->rank, n, tr_instr_does(i), tr_instr_name(v->t, i), i->micro, read,
        v->t->placed->g->tensors[parameter].name, due, why);
}

static bool forward_reads(struct versions *v, int n, int parameter, int version, struct tr_error *e)
{
    int micro = v->t->instrs[n].micro, update = micro / tr_update_micros(v->plan);
    bool two = v->plan->pipeline.async == TR_ASYNC_TWO;
    int due = !two ? v->newest[parameter] : update > 0 ? update - 1 : 0;
    v->forward[parameter * v->plan->micros + micro] = version + 1;
    return version == due ||
           wrong(v, n, parameter, version, due, two ? "the one before the newest" : "the newest", e);
}

static bool backward_reads(struct versions *v, int n, int parameter, int version, struct tr_error *e)
{
    int read = v->forward[parameter * v->plan->micros + v->t->instrs[n].micro];
    if (v->plan->pipeline.async == TR_ASYNC_NEWEST)
        return version == v->newest[parameter] ||
               wrong(v, n, parameter, version, v->newest[parameter], "the newest", e);
    return !read || version == read - 1 ||
           wrong(v, n, parameter, version, read - 1, "the one that the forward part read", e);
}

static bool update(struct versions *v, int n, struct tr_error *e)
{
    const struct tr_instr *i = &v->t->instrs[n];
    int p = i->parameter, from = v->held[i->in[i->ins - 1]];
    if (from != v->newest[p])
        return wrong(
            v, n, p, from, v->newest[p], "an update that starts from another one loses those between", e);
    v->held[i->out[0]] = ++v->newest[p];
    return true;
}

static bool instruction(struct versions *v, int n, struct tr_error *e)
{
    const struct tr_instr *i = &v->t->instrs[n];
    if (i->code == TR_UPDATE)
        return update(v, n, e);
    for (int x = 0; x < i->ins && i->part >= 0; x++) {
        int p = parameter_in(v->t, i->in[x]);
        if (p >= 0 && !(i->part == TR_F ? forward_reads : backward_reads)(v, n, p, v->held[i->in[x]], e))
            return false;
    }
    return true;
}

bool tr_check_versions(const struct tr_tape *t, struct tr_error *e)
{
    const struct tr_plan *plan = t->placed->plan;
    size_t tensors = (size_t)t->placed->g->n_tensors;
    if (!plan->pipeline.async)
        return true;
    struct versions v = { .t = t,
        .plan = plan,
        .held = tr_new((size_t)t->n_values, sizeof(int)),
        .newest = tr_new(tensors, sizeof(int)),
        .forward = tr_new(tensors * (size_t)plan->micros, sizeof(int)) };
    bool ok = true;
    for (int n = 0; n < t->n_instrs && ok; n++)
        ok = instruction(&v, n, e);
    for (int n = 0; n < t->n_states && ok; n++) {
        const struct tr_param_state *h = &t->states[n];
        if (v.held[h->values] != tr_updates(plan))
            ok = tr_fail(e, "rank %d: the next step begins with version %d of %s, and the last is %d",
                t->rank, v.held[h->values], t->placed->g->tensors[h->parameter].name, tr_updates(plan));
    }
    free(v.held), free(v.newest), free(v.forward);
    return ok;
}
