/* SPDX-License-Identifier: BSD-3-Clause */
/* lower.c: from the placed graph and a schedule to the list of what one rank does.
 *
 * For each part of the schedule, the steps of the graph that belong to it; before them what comes from
 * another stage, after them what goes to one (borders.c). */
#include "training/passes/lower.h"

#include "training/passes/pass.h"
#include "training/tape/site_of.h"

#include <stdlib.h>
#include <string.h>

static struct tr_current *current(const struct tr_lowering *l, int shard, int micro)
{
    if (!l->now[shard]) {
        l->now[shard] = tr_new((size_t)l->p->plan->micros, sizeof **l->now);
        for (int m = 0; m < l->p->plan->micros; m++)
            l->now[shard][m].value = -1;
    }
    return &l->now[shard][micro];
}

int *tr_now(const struct tr_lowering *l, int shard, int micro)
{
    return &current(l, shard, micro)->value;
}

static enum tr_memory memory_of(const struct tr_placed *p, int shard)
{
    switch (p->g->tensors[p->shards[shard].tensor].role) {
    case TR_PARAMETER:
        return TR_MEM_PARAMETER;
    case TR_D_PARAMETER:
    case TR_LEAVES:
        return TR_MEM_GRADIENT;
    default:
        return TR_MEM_ACTIVATION;
    }
}

int tr_new_value(struct tr_lowering *l, int shard, int micro)
{
    int64_t count = tr_shard_count(l->p, shard, tr_micro_batch(l->p->plan));
    int v = tr_add_array(l->t, shard, micro, memory_of(l->p, shard), tr_shard_element(l->p, shard), count);
    *tr_now(l, shard, micro) = v;
    return v;
}

static int parameter_value(struct tr_lowering *l, int shard, const struct tr_slot *slot, int unit)
{
    struct tr_param_state *h = tr_param_state_of(l->t, l->p->shards[shard].tensor);
    return tr_passes_use(l, h, shard, slot, unit);
}

static void emit(struct tr_lowering *l, const struct tr_step *s, const struct tr_slot *slot, int unit);

/* What the forward part did not keep is computed again when a backward part first needs it, and stays until
 * the last one has read it: another value of the same shard. What that step reads comes back the same way. */
static void renew(struct tr_lowering *l, int shard, const struct tr_slot *slot, int unit)
{
    int maker = l->producer[shard];
    if (slot->part == TR_F || maker < 0 || current(l, shard, slot->micro)->renewed)
        return;
    const struct tr_step *s = &l->p->steps[maker];
    if (tr_stage_of(l->p, s->unit) != slot->stage || !l->again[maker])
        return;
    emit(l, s, slot, unit);
    for (int x = 0; x < s->outs; x++)
        current(l, s->out[x], slot->micro)->renewed = true;
}

static int input_value(struct tr_lowering *l, int shard, const struct tr_slot *slot, int unit)
{
    enum tr_role role = l->p->g->tensors[l->p->shards[shard].tensor].role;
    if (role == TR_PARAMETER)
        return parameter_value(l, shard, slot, unit);
    if (role == TR_INPUT && *tr_now(l, shard, slot->micro) < 0) {
        int v = tr_new_value(l, shard, slot->micro);
        struct tr_instr *i = tr_add_in_slot(l->t, TR_LOAD, slot, unit);
        i->out[i->outs++] = v;
        i->update = slot->micro / tr_update_micros(l->p->plan), i->times = tr_micro_batch(l->p->plan);
        i->place = tr_first_sequence(l->p->plan, tr_data_rank(l->p->plan, l->t->at), slot->micro);
        i->first = tr_first_token(l->p, l->p->shards[shard].on, l->t->at);
        i->second = tr_second_token(l->p, l->p->shards[shard].on, l->t->at);
        i->striped = tr_map_of(l->p->plan).striped;
    }
    renew(l, shard, slot, unit);
    return *tr_now(l, shard, slot->micro);
}

static bool of_experts(const struct tr_tape *t, int value)
{
    return t->placed->shards[t->values[value].shard].on[TR_EP].dim == 'e';
}

static bool may_take(const struct tr_step *s)
{
    return s->code == TR_COMPUTE && tr_op(s->op)->in_place;
}

/* What the operation's row says of it here. */
static int64_t scratch_bytes(const struct tr_placed *p, const struct tr_step *s, const struct tr_call *c)
{
    int64_t floats = tr_op(s->op)->scratch ? tr_op(s->op)->scratch(c) : 0;
    return floats * 4 + tr_float_image_bytes(p, s);
}

static const struct tr_site *site_of(struct tr_lowering *l, const struct tr_step *s)
{
    struct tr_site *site = &l->sites[s - l->p->steps];
    if (site->known)
        return site;
    struct tr_call c = tr_site_of(l->p, s, l->t->at);
    *site = (struct tr_site){ .known = true,
        .scratch = scratch_bytes(l->p, s, &c),
        .flops = tr_work(l->p, s, &c),
        .scale = c.scale,
        .first = c.first,
        .second = c.second,
        .valid = c.valid,
        .place = c.earlier,
        .striped = c.striped };
    return site;
}

static void put_site(struct tr_instr *i, const struct tr_site *x)
{
    i->first = x->first, i->second = x->second, i->striped = x->striped;
    i->valid = x->valid, i->place = x->place, i->scale = x->scale;
    i->flops = x->flops;
}

static void emit(struct tr_lowering *l, const struct tr_step *s, const struct tr_slot *slot, int unit)
{
    const struct tr_placed *p = l->p;
    int in[TR_INS];
    for (int n = 0; n < s->ins; n++)
        in[n] = input_value(l, s->in[n], slot, unit);
    const struct tr_site *site = s->code == TR_COMPUTE ? site_of(l, s) : NULL;
    int scratch =
        site && site->scratch ? tr_add_value(l->t, -1, slot->micro, TR_MEM_SCRATCH, site->scratch) : -1;
    struct tr_instr *i = tr_add_in_slot(l->t, s->code, slot, unit);
    i->shift = s->shift, i->axis = s->axis;
    i->op = s->op, i->ins = s->ins, i->outs = s->outs, i->scratch = scratch;
    memcpy(i->in, in, sizeof in);
    for (int n = 0; n < s->outs; n++)
        i->out[n] = tr_new_value(l, s->out[n], slot->micro);
    if (may_take(s))
        l->t->values[i->out[0]].takes = i->in[0];
    if (site) {
        put_site(i, site);
        return;
    }
    /* A collective: of the whole at once, or, where it cuts tokens, of each sequence. */
    const struct tr_tensor *tensor = &p->g->tensors[p->shards[s->in[0]].tensor];
    bool whole = s->code == TR_ALL_REDUCE || s->code == TR_SHIFT || s->axis == TR_EP || s->axis == TR_DP;
    bool each = !whole && tensor->letter[0] == 'b';
    int k = tr_micro_batch(p->plan);
    int smaller = s->code == TR_ALL_GATHER ? s->in[0] : s->out[0];
    i->axes = 1 << s->axis, i->fold = tr_fold_op(p->shards[s->in[0]].on[s->axis]);
    i->times = each ? k : 1;
    i->count = tr_shard_count(p, smaller, each ? 1 : k);
    if (s->code == TR_ALL_TO_ALL) /* of what goes to one rank */
        i->count /= p->plan->mesh.size[s->axis];
    if (s->code == TR_HALO)
        tr_put_halo(l->t, i, s->axis);
    if (s->code == TR_ALL_TO_ALL_V)
        i->count = tr_count(l->t, of_experts(l->t, i->out[0]) ? i->in[0] : i->out[0]);
    tr_need_group(l->t, i->axes);
    if (s->code == TR_ALL_REDUCE)
        l->t->values[i->out[0]].takes = i->in[0];
}

/* Whether what this rank adds up is all of a gradient: no other rank has a part of it that comes later. */
static bool is_whole_here(const struct tr_lowering *l, const struct tr_tensor *w)
{
    const struct tr_plan *plan = l->p->plan;
    return !l->summed_elsewhere && (tr_replicas(plan, w) == 1 || tr_reduces_each_micro(plan));
}

/* The gradient of a parameter over this micro-batch is there: it enters the sum over the step. */
static void count_in(struct tr_lowering *l, const struct tr_step *s, const struct tr_slot *slot, int out)
{
    const struct tr_plan *plan = l->p->plan;
    int shard = s->out[out], parameter = l->p->g->tensors[l->p->shards[shard].tensor].of;
    struct tr_param_state *h = tr_param_state_of(l->t, parameter);
    int v = tr_passes_gradient(l, h, *tr_now(l, shard, slot->micro), slot, s->unit);
    int micros = tr_update_micros(plan);
    if (micros > 1) {
        for (int level = 0; level < tr_waiting_sums(l->t->step.free_order, micros); level++)
            if (h->level[level] < 0)
                h->level[level] = tr_add_value(l->t, shard, -1, TR_MEM_GRADIENT, l->t->values[v].bytes);
        struct tr_instr *i = tr_add_in_slot(l->t, TR_ACCUMULATE, slot, s->unit);
        i->in[i->ins++] = v, i->parameter = parameter, i->count = tr_count(l->t, v);
        i->times = micros;
    }
    if (slot->micro == plan->micros - 1 && is_whole_here(l, &l->p->g->tensors[parameter]))
        v = tr_passes_whole(l, h, v, slot, s->unit);
    h->gradient = v;
}

/* Of ranks that have the same scores the first one gives them. */
static bool gives(const struct tr_lowering *l, const struct tr_shard *scores)
{
    for (int a = 0; a < TR_AXES; a++)
        if (a != TR_PP && scores->on[a].kind == TR_R && l->t->at[a])
            return false;
    return true;
}

static void give_scores(struct tr_lowering *l, int shard, const struct tr_slot *slot, int unit)
{
    const struct tr_shard *scores = &l->p->shards[shard];
    if (!gives(l, scores))
        return;
    struct tr_instr *i = tr_add_in_slot(l->t, TR_SCORES, slot, unit);
    i->in[i->ins++] = *tr_now(l, shard, slot->micro);
    i->first = tr_first_token(l->p, scores->on, l->t->at);
    i->second = tr_second_token(l->p, scores->on, l->t->at);
    i->striped = tr_map_of(l->p->plan).striped;
    i->place = tr_first_column(l->p, shard, l->t->at[TR_TP]);
    i->valid = tr_valid_columns(l->p, shard, l->t->at[TR_TP]);
}

static bool in_part(enum tr_phase phase, int part)
{
    switch (part) {
    case TR_F:
        return phase == TR_FORWARD;
    case TR_B:
        return phase != TR_FORWARD;
    case TR_I:
        return phase == TR_BACKWARD;
    default:
        return phase == TR_WEIGHT;
    }
}

static void lower_slot(struct tr_lowering *l, const struct tr_slot *slot)
{
    const struct tr_placed *p = l->p;
    tr_receive(l, slot);
    for (int n = 0; n < l->n_steps; n++) {
        const struct tr_step *s = &p->steps[l->steps[n]];
        if (tr_stage_of(p, s->unit) != slot->stage || !in_part(s->phase, slot->part))
            continue;
        emit(l, s, slot, s->unit);
        for (int x = 0; x < s->outs; x++)
            if (p->g->tensors[p->shards[s->out[x]].tensor].role == TR_D_PARAMETER)
                count_in(l, s, slot, x);
            else if (p->g->tensors[p->shards[s->out[x]].tensor].role == TR_LOSS)
                l->losses[slot->micro] = *tr_now(l, s->out[x], slot->micro);
            else if (l->p->plan->forward && p->shards[s->out[x]].tensor == p->g->scores)
                give_scores(l, s->out[x], slot, s->unit);
    }
    tr_send(l, slot);
    tr_passes_slot_end(l, slot);
}

static void list_producers(struct tr_lowering *l)
{
    for (int i = 0; i < l->p->n_shards; i++)
        l->producer[i] = -1;
    for (int n = l->p->n_steps - 1; n >= 0; n--)
        for (int x = 0; x < l->p->steps[n].outs; x++)
            l->producer[l->p->steps[n].out[x]] = n;
}

static void list_steps(struct tr_lowering *l)
{
    for (int n = 0; n < l->p->n_steps; n++)
        if (tr_has_stage(l->t, tr_stage_of(l->p, l->p->steps[n].unit)))
            l->steps[l->n_steps++] = n;
}

/* Passes are asked once: there may be hundreds of micro-batches. */
static void list_what_is_computed_again(struct tr_lowering *l)
{
    for (int n = 0; n < l->n_steps; n++)
        l->again[l->steps[n]] = tr_passes_again(l, &l->p->steps[l->steps[n]]);
}

bool tr_lower(
    struct tr_tape *t, const struct tr_placed *p, const struct tr_schedule *s, int rank, struct tr_error *e)
{
    const struct tr_plan *plan = p->plan;
    if (s->ranks != plan->mesh.size[TR_PP] || s->micros != plan->micros || s->chunks != plan->pipeline.chunks)
        return tr_fail(e,
            "schedule %s is for %d ranks, %d stages each and %d micro-batches; this run has %d, %d, %d",
            s->name, s->ranks, s->chunks, s->micros, plan->mesh.size[TR_PP], plan->pipeline.chunks,
            plan->micros);
    tr_tape_begin(t, p, rank);
    size_t shards = (size_t)p->n_shards, micros = (size_t)plan->micros;
    struct tr_lowering l = { .t = t,
        .p = p,
        .slots = s->slots[t->at[TR_PP]],
        .n_slots = s->count[t->at[TR_PP]],
        .now = tr_new(shards, sizeof *l.now),
        .producer = tr_new(shards, sizeof(int)),
        .steps = tr_new((size_t)p->n_steps, sizeof(int)),
        .sites = tr_new((size_t)p->n_steps, sizeof *l.sites),
        .again = tr_new((size_t)p->n_steps, sizeof(bool)),
        .losses = tr_new(micros, sizeof(int)) };
    memset(l.losses, -1, micros * sizeof(int));
    list_producers(&l);
    list_steps(&l);
    tr_list_borders(&l);
    tr_hold_parameters(&l);
    tr_passes_begin(&l);
    list_what_is_computed_again(&l);
    for (int i = 0; i < l.n_slots; i++)
        lower_slot(&l, &l.slots[i]);
    tr_wait_for_all(&l);
    if (!plan->forward)
        tr_lower_end(&l);
    tr_passes_rewrite(&l);
    tr_plan_memory(t);
    tr_passes_end(&l);
    for (size_t i = 0; i < shards; i++)
        free(l.now[i]);
    free(l.now), free(l.producer), free(l.steps), free(l.borders);
    free(l.sites), free(l.again), free(l.sent_back), free(l.sent_ahead), free(l.losses);
    return true;
}
