/* SPDX-License-Identifier: BSD-3-Clause */
/* end.c: the end of a step: the gradients of all ranks become one, its norm, the loss, and the optimizer.
 *
 * The norm and the loss are vectors of leaves, each of which one rank has and the others have as +0; their
 * sum over the world is exact in any order, and every rank then adds all leaves up in one order. */
#include "training/passes/pass.h"

#include <string.h>

/* In the place of the parameter's gradient. */
static int gradient_like(struct tr_tape *t, const struct tr_param_state *h)
{
    const struct tr_value *of = &t->values[h->gradient];
    int v = tr_add_array(t, of->shard, -1, TR_MEM_GRADIENT, of->element, h->shard_count);
    t->values[v].takes = h->gradient;
    return v;
}

/* The head's gradient and the embedding's: added where both are, else exchanged between first and last
 * stage. */
static void tie(struct tr_tape *t)
{
    const struct tr_graph *g = t->placed->g;
    for (int n = 0; n < t->n_states; n++) {
        struct tr_param_state *h = &t->states[n];
        int home = g->tensors[h->parameter].values_of;
        bool is_head = home != h->parameter, is_home = false;
        for (int x = 0; x < g->n_tensors && !is_head; x++)
            is_home |= g->tensors[x].role == TR_PARAMETER && x != h->parameter &&
                       g->tensors[x].values_of == h->parameter;
        if (!is_head && !is_home)
            continue;
        struct tr_param_state *other = is_head ? tr_param_state_of(t, home) : NULL;
        bool together = !tr_ends_apart(t->placed->plan);
        if (together && !is_head)
            continue;
        struct tr_instr *i = tr_add_instr(t, TR_TIE);
        i->parameter = home, i->count = h->shard_count, i->times = 1;
        if (together) {
            i->in[i->ins++] = other->gradient, i->in[i->ins++] = h->gradient;
            int sum = gradient_like(t, other);
            t->instrs[t->n_instrs - 1].out[0] = sum;
            t->instrs[t->n_instrs - 1].outs = 1;
            other->gradient = sum;
            continue;
        }
        int scratch = tr_add_array(t, -1, -1, TR_MEM_BUFFER, t->values[h->gradient].element, h->shard_count);
        int sum = gradient_like(t, h);
        i = &t->instrs[t->n_instrs - 1];
        i->in[i->ins++] = h->gradient, i->out[i->outs++] = sum, i->scratch = scratch, i->edge = TR_HOME;
        h->gradient = sum;
    }
}

static bool is_updated(const struct tr_tape *t, const struct tr_param_state *h)
{
    int home = t->placed->g->tensors[h->parameter].values_of;
    return home == h->parameter || tr_ends_apart(t->placed->plan);
}

void tr_lower_leaves(struct tr_tape *t)
{
    const struct tr_graph *g = t->placed->g;
    int64_t count = tr_ordinal(g, g->n_tensors) * TR_NORM_LEAVES * tr_updates(t->placed->plan);
    t->leaves = tr_add_array(t, -1, -1, TR_MEM_BUFFER, TR_FLOAT64, count);
}

/* The embedding's counts for a tied head, too. */
static void norm(struct tr_tape *t)
{
    const struct tr_graph *g = t->placed->g;
    bool each_has_one = t->step.norm == TR_NORM_OF_EACH_PUSH;
    for (int n = 0; n < t->n_states; n++) {
        const struct tr_param_state *h = &t->states[n];
        if (g->tensors[h->parameter].values_of == h->parameter && (each_has_one || tr_owns(t, h)))
            tr_add_norm(t, h, 0);
    }
}

/* The leaves of all ranks; or the loss's. */
static void add_leaves(struct tr_tape *t, int leaves)
{
    if (t->mesh->n == 1 || t->step.norm == TR_NORM_OF_EACH_PUSH)
        return;
    struct tr_instr *i = tr_add_call(t, TR_ALL_REDUCE, TR_WORLD, t->values[leaves].bytes / 8);
    i->in[i->ins++] = leaves, i->out[i->outs++] = leaves;
}

/* Whether a rank of cp has its part of the leaves alone: a picture has one loss, which all ranks have. */
static bool cuts_loss(const struct tr_tape *t, int value)
{
    return t->placed->shards[t->values[value].shard].on[TR_CP].kind != TR_R;
}

static void losses(struct tr_tape *t, const int *loss_values)
{
    const struct tr_plan *plan = t->placed->plan;
    int64_t count = (int64_t)plan->batch * TR_BLOCKS;
    t->losses = tr_add_array(t, -1, -1, TR_MEM_BUFFER, TR_FLOAT64, count);
    struct tr_map map = tr_map_of(plan);
    struct tr_runs runs = tr_runs_of(&map, TR_BLOCKS, t->at[TR_CP]);
    for (int n = 0; n < plan->micros * runs.n && t->at[TR_TP] == 0; n++) {
        int m = n / runs.n, run = n % runs.n;
        if (loss_values[m] < 0)
            continue; /* another rank has it */
        struct tr_instr *i = tr_add_instr(t, TR_LOSSES);
        i->micro = m, i->in[i->ins++] = loss_values[m], i->out[i->outs++] = t->losses;
        i->count = runs.count / plan->mesh.size[TR_ULYSSES], i->times = tr_micro_batch(plan),
        i->first = cuts_loss(t, loss_values[m]) ? run * runs.count : runs.first[run];
        i->place = tr_losses_place(t, m, run, i->count);
    }
}

static void updates(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    for (int n = 0; n < t->n_states; n++)
        if (is_updated(t, &t->states[n]))
            tr_passes_update(l, &t->states[n]);
}

void tr_lower_end(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    /* Then what all ranks add up comes after the updates, which need none of it. */
    bool updates_first = t->step.norm == TR_NORM_AFTER_UPDATES;
    bool no_leaves = t->leaves < 0; /* else a pass made their vector, and fills it */
    tr_passes_reduce(l);
    if (!l->summed_elsewhere)
        tie(t);
    if (t->losses < 0)
        losses(t, l->losses);
    if (no_leaves)
        tr_lower_leaves(t);
    if (!updates_first)
        add_leaves(t, t->losses);
    if (no_leaves)
        norm(t);
    if (!updates_first)
        add_leaves(t, t->leaves);
    updates(l);
    if (updates_first)
        add_leaves(t, t->losses), add_leaves(t, t->leaves);
}
