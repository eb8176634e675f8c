/* SPDX-License-Identifier: BSD-3-Clause */
/* tape.c: values, instructions and what a rank holds from step to step. */
#include "training/tape/tape.h"

#include <stdlib.h>
#include <string.h>

const char *const tr_memory_names[TR_MEMORIES] = { "parameters", "gradients", "optimizer", "activations",
    "buffers", "kernel scratch" };

static enum tr_norm_known norm_known(const struct tr_plan *p)
{
    return p->servers.async       ? TR_NORM_OF_EACH_PUSH
           : p->pipeline.async    ? TR_NORM_OF_EACH_UPDATE
           : p->pipeline.no_flush ? TR_NORM_AFTER_UPDATES
                                  : TR_NORM_BEFORE_UPDATES;
}

void tr_tape_begin(struct tr_tape *t, const struct tr_placed *p, int rank)
{
    const struct tr_plan *plan = p->plan;
    *t = (struct tr_tape){ .placed = p,
        .mesh = &plan->mesh,
        .step = { .updates = tr_updates(plan),
            .sequences = plan->batch / tr_updates(plan),
            .norm = norm_known(plan),
            .stochastic = plan->numbers.stochastic,
            .free_order = plan->numbers.free_order,
            .host_threads = plan->offload.threads,
            .staleness = plan->servers.staleness },
        .rank = rank,
        .tickets = -1,
        .losses = -1,
        .leaves = -1,
        .server = tr_mesh_server(&plan->mesh, rank),
        .stage_layout = plan->pipeline.vee          ? TR_VEE
                        : plan->pipeline.chunks > 1 ? TR_RING
                                                    : TR_LINE };
    tr_mesh_place(&plan->mesh, rank, t->at);
}

int tr_add_value(struct tr_tape *t, int shard, int micro, enum tr_memory memory, int64_t bytes)
{
    t->values = tr_grow(t->values, t->n_values, &t->room_values, sizeof *t->values);
    t->values[t->n_values] = (struct tr_value){ .shard = shard,
        .micro = micro,
        .memory = memory,
        .bytes = bytes,
        .first = -1,
        .last = -1,
        .offset = -1,
        .takes = -1,
        .within = -1 };
    return t->n_values++;
}

int tr_add_array(
    struct tr_tape *t, int shard, int micro, enum tr_memory memory, enum tr_element element, int64_t count)
{
    int v = tr_add_value(t, shard, micro, memory, count * tr_element_bytes(element));
    t->values[v].element = element;
    return v;
}

int64_t tr_count(const struct tr_tape *t, int value)
{
    return t->values[value].bytes / tr_element_bytes(t->values[value].element);
}

struct tr_instr *tr_add_instr(struct tr_tape *t, enum tr_code code)
{
    t->instrs = tr_grow(t->instrs, t->n_instrs, &t->room_instrs, sizeof *t->instrs);
    struct tr_instr *i = &t->instrs[t->n_instrs++];
    *i = (struct tr_instr){
        .code = code, .scratch = -1, .stage = -1, .micro = -1, .part = -1, .unit = -1, .parameter = -1
    };
    return i;
}

void tr_put_in_slot(struct tr_instr *i, const struct tr_slot *slot, int unit)
{
    if (slot)
        i->stage = slot->stage, i->micro = slot->micro, i->part = slot->part, i->unit = unit;
}

struct tr_instr *tr_add_in_slot(struct tr_tape *t, enum tr_code code, const struct tr_slot *slot, int unit)
{
    struct tr_instr *i = tr_add_instr(t, code);
    tr_put_in_slot(i, slot, unit);
    return i;
}

struct tr_instr *tr_add_call(struct tr_tape *t, enum tr_code code, int axes, int64_t count)
{
    struct tr_instr *i = tr_add_instr(t, code);
    i->axes = axes, i->count = count, i->times = 1, i->fold = TUTTI_SUM;
    tr_need_group(t, axes);
    return i;
}

int tr_waiting_sums(bool free_order, int gradients)
{
    int sums = 0;
    while ((gradients - 1) >> sums)
        sums++;
    return free_order && sums ? 1 : sums;
}

struct tr_instr *tr_add_norm(struct tr_tape *t, const struct tr_param_state *h, int update)
{
    struct tr_instr *i = tr_add_instr(t, TR_NORM);
    i->place = tr_norm_place(t, h, update);
    i->parameter = h->parameter, i->count = h->shard_count;
    i->in[i->ins++] = h->gradient, i->out[i->outs++] = t->leaves;
    return i;
}

struct tr_instr *tr_add_update(struct tr_tape *t, const struct tr_param_state *h, int gradient)
{
    struct tr_instr *i = tr_add_instr(t, TR_UPDATE);
    i->parameter = h->parameter, i->count = h->shard_count;
    i->optimizer = t->placed->plan->optimizer;
    if (t->placed->g->tensors[h->parameter].dims == 1)
        i->optimizer.decay = 0;
    i->in[i->ins++] = gradient;
    if (h->m >= 0)
        i->in[i->ins++] = h->m, i->in[i->ins++] = h->v;
    return i;
}

struct tr_instr *tr_insert_instr(struct tr_tape *t, int at, enum tr_code code)
{
    tr_add_instr(t, code);
    tr_move_instr(t, t->n_instrs - 1, at);
    return &t->instrs[at];
}

void tr_remove_instr(struct tr_tape *t, int at)
{
    tr_move_instr(t, at, t->n_instrs - 1);
    t->n_instrs--;
}

void tr_move_instr(struct tr_tape *t, int from, int to)
{
    struct tr_instr moved = t->instrs[from], *list = t->instrs;
    if (from < to)
        memmove(&list[from], &list[from + 1], (size_t)(to - from) * sizeof *list);
    else
        memmove(&list[to + 1], &list[to], (size_t)(from - to) * sizeof *list);
    list[to] = moved;
}

static void need(struct tr_masks *masks, int axes)
{
    for (int i = 0; i < masks->n; i++)
        if (masks->of[i] == axes)
            return;
    masks->of[masks->n++] = axes;
}

void tr_need_group(struct tr_tape *t, int axes)
{
    need(&t->needed.groups, axes);
}

int tr_put_beside(struct tr_tape *t, int n, int calls)
{
    struct tr_instr *wait = tr_insert_instr(t, n + calls, TR_WAIT);
    const struct tr_instr *i = &t->instrs[n + calls - 1];
    wait->stage = i->stage, wait->micro = i->micro, wait->part = i->part, wait->unit = i->unit;
    wait->parameter = i->parameter, wait->beside = true;
    wait->in[wait->ins++] = i->out[0];
    for (; i >= &t->instrs[n]; i--)
        if (t->values[i->out[0]].takes != i->in[0])
            wait->in[wait->ins++] = i->in[0];
    for (int k = 0; k < calls; k++) {
        t->instrs[n + k].beside = true;
        need(&t->needed.beside, t->instrs[n + k].axes);
    }
    return n + calls;
}

static void need_all(struct tr_masks *masks, const struct tr_masks *more)
{
    for (int i = 0; i < more->n; i++)
        need(masks, more->of[i]);
}

void tr_need_groups(struct tr_needed *all, const struct tr_tape *t)
{
    need_all(&all->groups, &t->needed.groups);
    need_all(&all->beside, &t->needed.beside);
}

/* In the order of their numbers. */
static struct tr_masks in_order(const struct tr_masks *masks)
{
    struct tr_masks sorted = { .n = 0 };
    for (int axes = 0; axes <= TR_WORLD; axes++)
        for (int i = 0; i < masks->n; i++)
            if (masks->of[i] == axes)
                need(&sorted, axes);
    return sorted;
}

void tr_take_groups(struct tr_tape *t, const struct tr_needed *all)
{
    t->needed = (struct tr_needed){ in_order(&all->groups), in_order(&all->beside) };
}

int tr_stage_of(const struct tr_placed *p, int unit)
{
    int stages = p->plan->mesh.size[TR_PP] * p->plan->pipeline.chunks, layers = (int)p->g->layers;
    if (unit <= 0)
        return 0;
    if (unit > layers)
        return stages - 1;
    if (p->plan->pipeline.stage_layers[0]) {
        int stage = 0;
        for (int end = p->plan->pipeline.stage_layers[0]; unit > end;
             end += p->plan->pipeline.stage_layers[stage])
            stage++;
        return stage;
    }
    return (unit - 1) / (layers / stages);
}

bool tr_has_stage(const struct tr_tape *t, int stage)
{
    return tr_plan_rank(t->placed->plan, stage) == t->at[TR_PP];
}

struct tr_param_state *tr_param_state_of(struct tr_tape *t, int parameter)
{
    int of = t->placed->g->tensors[parameter].values_of;
    for (int pass = 0; pass < 2;
         pass++, parameter = of) /* a tied head has its own only if it is alone here */
        for (int i = 0; i < t->n_states; i++)
            if (t->states[i].parameter == parameter)
                return &t->states[i];
    return NULL;
}

int tr_parameter_shard(const struct tr_placed *p, int parameter)
{
    return p->of[parameter].first;
}

int64_t tr_held_from(const struct tr_tape *t, const struct tr_param_state *h)
{
    int shard = tr_parameter_shard(t->placed, h->parameter);
    for (int a = TR_EP; a <= TR_TP; a++) /* one of them cuts it, or none */
        if (t->placed->shards[shard].on[a].kind == TR_S)
            return t->at[a] * tr_shard_count(t->placed, shard, 1);
    return 0;
}

bool tr_holds_part(const struct tr_tape *t, const struct tr_tensor *parameter)
{
    return t->server >= 0 || tr_zero_cuts_parameter(t->placed->plan, parameter);
}

int64_t tr_updated_from(const struct tr_tape *t, const struct tr_param_state *h)
{
    if (t->server >= 0)
        return h->shard_count * t->server;
    const struct tr_plan *plan = t->placed->plan;
    int part = plan->zero.level ? tr_replica_rank(plan, &t->placed->g->tensors[h->parameter], t->at) : 0;
    return tr_held_from(t, h) + h->shard_count * part;
}

int64_t tr_values_from(const struct tr_tape *t, const struct tr_param_state *h)
{
    bool part = tr_holds_part(t, &t->placed->g->tensors[h->parameter]);
    return part ? tr_updated_from(t, h) : tr_held_from(t, h);
}

int64_t tr_ordinal(const struct tr_graph *g, int parameter)
{
    int64_t n = 0;
    for (int i = 0; i < parameter; i++)
        n += g->tensors[i].role == TR_PARAMETER;
    return n;
}

int64_t tr_leaf(const struct tr_tensor *w)
{
    return w->size[0] / TR_NORM_LEAVES * (w->dims > 1 ? w->size[1] : 1);
}

void tr_tape_free(struct tr_tape *t)
{
    free(t->values);
    free(t->instrs);
    free(t->states);
    free(t->buckets);
    free(t->bucketed);
    *t = (struct tr_tape){ 0 };
}

double tr_tape_flops(const struct tr_tape *t)
{
    double sum = 0;
    for (int n = 0; n < t->n_instrs; n++)
        sum += t->instrs[n].flops;
    return sum;
}

bool tr_is_masked(const struct tr_instr *i)
{
    return i->code == TR_COMPUTE && tr_op(i->op)->masked;
}

/* Of a parameter that other ranks have as well, the first of them owns the leaves. */
bool tr_owns(const struct tr_tape *t, const struct tr_param_state *h)
{
    const struct tr_plan *plan = t->placed->plan;
    if (plan->mesh.servers)
        return t->server >= 0;
    const struct tr_tensor *w = &t->placed->g->tensors[h->parameter];
    bool cut = tr_table_placement(plan, w, TR_TP).kind == TR_S;
    bool first = t->at[TR_CP] == 0 && t->at[TR_ULYSSES] == 0;
    return (cut || t->at[TR_TP] == 0) && (plan->zero.level || tr_replica_rank(plan, w, t->at) == 0) && first;
}

int64_t tr_norm_place(const struct tr_tape *t, const struct tr_param_state *h, int update)
{
    const struct tr_graph *g = t->placed->g;
    return (tr_ordinal(g, g->n_tensors) * update + tr_ordinal(g, h->parameter)) * TR_NORM_LEAVES +
           tr_updated_from(t, h) / tr_leaf(&g->tensors[h->parameter]);
}

int64_t tr_losses_place(const struct tr_tape *t, int micro, int run, int64_t count)
{
    const struct tr_plan *plan = t->placed->plan;
    struct tr_map map = tr_map_of(plan);
    return (int64_t)tr_first_sequence(plan, tr_data_rank(plan, t->at), micro) * TR_BLOCKS +
           tr_runs_of(&map, TR_BLOCKS, t->at[TR_CP]).first[run] + t->at[TR_ULYSSES] * count;
}

void tr_put_halo(const struct tr_tape *t, struct tr_instr *i, enum tr_axis axis)
{
    const struct tr_placed *p = t->placed;
    i->count = p->g->grid * tr_shard_size(p, t->values[i->in[0]].shard, 2);
    i->first = t->at[axis] > 0;
    i->second = t->at[axis] + 1 < p->plan->mesh.size[axis];
}
