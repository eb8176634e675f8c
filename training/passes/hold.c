/* SPDX-License-Identifier: BSD-3-Clause */
/* hold.c: of each parameter of its stages what a rank has from step to step: values, optimizer states, a
 * master; the whole, or the part that it updates. */
#include "training/passes/pass.h"

#include <string.h>

/* Of the optimizer, from step to step. */
static int lasting(struct tr_tape *t, int64_t count)
{
    int v = tr_add_array(t, -1, -1, TR_MEM_OPTIMIZER, TR_FLOAT32, count);
    t->values[v].lasts = true;
    return v;
}

/* What lasts there is float32: the values, or of bfloat16 the master, whose rounding has done with when it is
 * up. */
static void put_on_host(struct tr_tape *t, struct tr_param_state *h)
{
    const struct tr_value v = t->values[h->values];
    bool mixed = h->master >= 0;
    h->on_host = tr_add_array(t, v.shard, -1, TR_MEM_PARAMETER, v.element, h->shard_count);
    t->values[h->on_host].host = true;
    t->values[h->on_host].lasts = !mixed;
    if (mixed)
        t->values[h->master].host = true;
    if (h->m >= 0)
        t->values[h->m].host = t->values[h->v].host = true;
}

static void hold(struct tr_lowering *l, int parameter)
{
    struct tr_tape *t = l->t;
    const struct tr_plan *plan = t->placed->plan;
    const struct tr_graph *g = t->placed->g;
    int shard = tr_parameter_shard(t->placed, parameter);
    int64_t count = tr_shard_count(t->placed, shard, 1);
    const struct tr_tensor *w = &g->tensors[parameter];
    struct tr_held held = tr_passes_hold(l, w);
    struct tr_param_state *h = &t->states[t->n_states++];
    *h = (struct tr_param_state){ .parameter = parameter,
        .values = -1,
        .m = -1,
        .v = -1,
        .on_host = -1,
        .master = -1,
        .waiting = -1,
        .gradient = -1,
        .bucket = -1 };
    memset(h->level, -1, sizeof h->level);
    h->shard_count = count / held.ways;
    h->shard_from = h->shard_count * held.way;
    int home = g->tensors[parameter].values_of;
    if (home != parameter && tr_has_stage(t, tr_stage_of(t->placed, g->tensors[home].unit)))
        return; /* a tied head beside its embedding: a gradient of its own, but the embedding's values */
    enum tr_element element = tr_shard_element(t->placed, shard);
    h->values = tr_add_array(t, shard, -1, TR_MEM_PARAMETER, element, held.part ? h->shard_count : count);
    if (held.part)
        h->shard_from = 0;
    t->values[h->values].lasts = true;
    if (held.elsewhere)
        return;
    if (held.master)
        h->master = lasting(t, h->shard_count);
    if (!plan->optimizer.sgd && !plan->forward) {
        h->m = lasting(t, h->shard_count);
        h->v = lasting(t, h->shard_count);
    }
    if (held.host)
        put_on_host(t, h);
}

void tr_hold_parameters(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    const struct tr_graph *g = t->placed->g;
    t->states = tr_new((size_t)g->n_tensors, sizeof *t->states);
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == TR_PARAMETER && tr_has_stage(t, tr_stage_of(t->placed, g->tensors[i].unit)))
            hold(l, i);
    for (int i = 0; i < t->n_states; i++) {
        struct tr_param_state *h = &t->states[i];
        const struct tr_param_state *home = tr_param_state_of(t, g->tensors[h->parameter].values_of);
        if (h->values < 0)
            h->values = home->values, h->master = home->master;
    }
}
