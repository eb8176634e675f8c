/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce.c: how the gradients of data-parallel ranks become whole: forms, buckets, overlap.
 *
 *   ring      all_reduce                           every rank adds and has all
 *   root      reduce to the first, then broadcast  the historic form: one rank is the bottleneck
 *   sharded   reduce_scatter, then all_gather      what all_reduce is made of; ZeRO-1 updates in between
 *
 * A bucket is a vector in which gradients lie side by side, so that one call reduces them. The canonical sum
 * goes element by element, so form and buckets change no bit.
 *
 * Overlap: a bucket is reduced on a host stream as soon as its last gradient of the last micro-batch is
 * there, and the wait stands where the step ends. Where each micro-batch is reduced (ZeRO-2, ZeRO-3), the
 * call runs while the next unit computes, and the part enters the sum after that. */
#include "training/passes/pass.h"

enum { ALIGN = 64 };

/* The parameter of a bucket's first member: all have the same replicas. */
static const struct tr_tensor *parameter_of(const struct tr_tape *t, const struct tr_bucket *b)
{
    return &t->placed->g->tensors[t->states[t->bucketed[b->first]].parameter];
}

static int64_t up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- buckets ---- */

static void add(struct tr_tape *t, struct tr_param_state *h, bool alone, int64_t *bytes)
{
    int64_t more = up(h->shard_count * 4, ALIGN);
    if (alone || *bytes + more > t->placed->plan->reduce.bucket) {
        int first =
            t->n_buckets ? t->buckets[t->n_buckets - 1].first + t->buckets[t->n_buckets - 1].members : 0;
        t->buckets[t->n_buckets++] = (struct tr_bucket){ first, 0, -1 };
        *bytes = 0;
    }
    struct tr_bucket *b = &t->buckets[t->n_buckets - 1];
    t->bucketed[b->first + b->members++] = (int)(h - t->states);
    h->bucket = t->n_buckets - 1, h->inside = *bytes;
    *bytes += more;
}

/* A bucket is a value if it has several members, or if its one must be padded to be cut into equal parts. */
static void give_value(struct tr_tape *t, struct tr_bucket *b)
{
    const struct tr_plan *plan = t->placed->plan;
    const struct tr_param_state *last = &t->states[t->bucketed[b->first + b->members - 1]];
    int dp = tr_replicas(plan, parameter_of(t, b));
    bool sharded = plan->reduce.form == TR_DP_SHARDED;
    if (b->members > 1 || (sharded && last->shard_count % dp))
        b->value = tr_add_value(t, -1, -1, TR_MEM_GRADIENT,
            up(last->inside + last->shard_count * 4, sharded ? (int64_t)ALIGN * dp : ALIGN));
}

/* The gradients of a stage that these axes reduce. */
static void fill(struct tr_tape *t, int stage, int axes)
{
    const struct tr_placed *p = t->placed;
    int64_t bytes = 0;
    bool first = true;
    for (int n = 0; n < p->n_steps; n++)
        for (int x = 0; x < p->steps[n].outs; x++) {
            const struct tr_tensor *d = &p->g->tensors[p->shards[p->steps[n].out[x]].tensor];
            if (d->role != TR_D_PARAMETER || tr_stage_of(p, p->steps[n].unit) != stage ||
                tr_replica_axes(p->plan, &p->g->tensors[d->of]) != axes)
                continue;
            add(t, tr_param_state_of(t, d->of), first, &bytes);
            first = false;
        }
}

static void begin(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    const struct tr_plan *plan = l->p->plan;
    t->buckets = tr_new((size_t)t->n_states + 1, sizeof *t->buckets);
    t->bucketed = tr_new((size_t)t->n_states + 1, sizeof *t->bucketed);
    if (tr_reduces_each_micro(plan) || plan->pipeline.async ||
        l->n_slots == 0) /* who runs no part makes none */
        return;
    for (int stage = plan->mesh.size[TR_PP] * plan->pipeline.chunks - 1; stage >= 0; stage--)
        for (int axes = 1; axes < TR_WORLD && tr_has_stage(t, stage); axes++)
            if (!(axes & ~TR_DATA) && tr_mesh_group_size(&plan->mesh, axes) > 1)
                fill(t, stage, axes);
    for (int b = 0; b < t->n_buckets; b++)
        give_value(t, &t->buckets[b]);
}

/* ---- each micro-batch ---- */

/* To this rank's part of it, or without ZeRO to all of it. */
static int reduce_now(
    struct tr_tape *t, const struct tr_param_state *h, int gradient, const struct tr_slot *slot, int unit)
{
    const struct tr_plan *plan = t->placed->plan;
    bool cuts = plan->zero.level;
    int sum = tr_add_value(t, t->values[gradient].shard, slot->micro, TR_MEM_GRADIENT, h->shard_count * 4);
    if (!cuts)
        t->values[sum].takes = gradient;
    struct tr_instr *i = tr_add_call(t, cuts ? TR_REDUCE_SCATTER : TR_ALL_REDUCE,
        tr_replica_axes(plan, &t->placed->g->tensors[h->parameter]), h->shard_count);
    tr_put_in_slot(i, slot, unit);
    i->parameter = h->parameter;
    i->in[i->ins++] = gradient, i->out[i->outs++] = sum;
    return sum;
}

/* The gradient of the last micro-batch, into which the others are added, lies in its bucket. */
static void put_in_bucket(struct tr_tape *t, const struct tr_param_state *h, int gradient)
{
    if (h->bucket < 0 || t->buckets[h->bucket].value < 0)
        return;
    struct tr_value *v = &t->values[gradient];
    v->within = t->buckets[h->bucket].value, v->inside = h->inside, v->takes = -1;
}

static int gradient(
    struct tr_lowering *l, const struct tr_param_state *h, int value, const struct tr_slot *slot, int unit)
{
    const struct tr_plan *plan = l->p->plan;
    if (slot->micro == plan->micros - 1)
        put_in_bucket(l->t, h, value);
    bool now = tr_reduces_each_micro(plan) && tr_replicas(plan, &l->p->g->tensors[h->parameter]) > 1;
    return now ? reduce_now(l->t, h, value, slot, unit) : value;
}

/* ---- forms ---- */

/* A call that makes a value of so many bytes; in place if they are as many as before. */
static int call(struct tr_tape *t, enum tr_code code, int parameter, int from, int64_t bytes)
{
    int64_t before = t->values[from].bytes;
    int to = tr_add_value(t, t->values[from].shard, -1, TR_MEM_GRADIENT, bytes);
    if (before == bytes)
        t->values[to].takes = from;
    int axes = tr_replica_axes(t->placed->plan, &t->placed->g->tensors[parameter]);
    struct tr_instr *i = tr_add_call(t, code, axes, (before < bytes ? before : bytes) / 4);
    i->parameter = parameter;
    i->in[i->ins++] = from, i->out[i->outs++] = to;
    return to;
}

static void reduce_bucket(struct tr_lowering *l, const struct tr_bucket *b)
{
    struct tr_tape *t = l->t;
    const struct tr_plan *plan = t->placed->plan;
    struct tr_param_state *h = &t->states[t->bucketed[b->first]];
    int from = b->value >= 0 ? b->value : h->gradient, p = h->parameter, to;
    int64_t bytes = t->values[from].bytes, part = bytes / tr_replicas(plan, parameter_of(t, b));
    if (plan->zero.level)
        to = call(t, TR_REDUCE_SCATTER, p, from, part);
    else if (plan->reduce.form == TR_DP_ROOT)
        to = call(t, TR_BROADCAST, p, call(t, TR_REDUCE, p, from, bytes), bytes);
    else if (plan->reduce.form == TR_DP_SHARDED)
        to = call(t, TR_ALL_GATHER, p, call(t, TR_REDUCE_SCATTER, p, from, part), bytes);
    else
        to = call(t, TR_ALL_REDUCE, p, from, bytes);
    if (b->value < 0)
        h->gradient = tr_passes_whole(l, h, to, NULL, -1);
    for (int m = 0; m < b->members && b->value >= 0; m++) {
        h = &t->states[t->bucketed[b->first + m]];
        int whole = tr_add_value(t, t->values[h->gradient].shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
        t->values[whole].within = to, t->values[whole].inside = h->inside;
        h->gradient = tr_passes_whole(l, h, whole, NULL, -1);
    }
}

static bool reduce(struct tr_lowering *l)
{
    for (int b = 0; b < l->t->n_buckets; b++)
        reduce_bucket(l, &l->t->buckets[b]);
    return false;
}

/* ---- overlap ---- */

static bool reduces_gradient(const struct tr_instr *i)
{
    return (i->code == TR_ALL_REDUCE || i->code == TR_REDUCE_SCATTER || i->code == TR_REDUCE) &&
           !(i->axes & ~TR_DATA) && i->parameter >= 0 && !i->beside;
}

static bool touches(const struct tr_tape *t, const struct tr_instr *i, int value)
{
    for (int x = 0; x < i->ins + i->outs; x++) {
        int v = x < i->ins ? i->in[x] : i->out[x - i->ins];
        if (v == value || t->values[v].within == value)
            return true;
    }
    return false;
}

/* The call at n, and the one that follows in its form, begin when the last gradient is there. The wait stays.
 * Returns where it stands. */
static int begin_early(struct tr_tape *t, int n)
{
    int at = n - 1, from = t->instrs[n].in[0], calls = 1;
    while (at > 0 && !touches(t, &t->instrs[at], from))
        at--;
    if (n + 1 < t->n_instrs && t->instrs[n + 1].ins && t->instrs[n + 1].in[0] == t->instrs[n].out[0] &&
        (t->instrs[n + 1].code == TR_BROADCAST || t->instrs[n + 1].code == TR_ALL_GATHER))
        calls = 2;
    int wait = tr_put_beside(t, n, calls);
    for (int k = 0; k < calls; k++) {
        tr_move_instr(t, n + k, at + 1 + k);
        struct tr_instr *i = &t->instrs[at + 1 + k], *last = &t->instrs[at];
        i->stage = last->stage, i->micro = last->micro, i->part = last->part, i->unit = last->unit;
    }
    return wait;
}

static bool rounds(const struct tr_instr *i)
{
    return i->code == TR_COMPUTE && i->op == TR_ROUND;
}

/* Before which instruction the next unit of this part has computed; or the part ends, or sends. */
static int after_next_unit(const struct tr_tape *t, int n)
{
    const struct tr_instr *now = &t->instrs[n];
    int unit = now->unit, m = n + 1;
    for (bool next = false; m < t->n_instrs; m++) {
        const struct tr_instr *x = &t->instrs[m];
        if (x->part != now->part || x->stage != now->stage || x->micro != now->micro)
            break;
        if (x->beside || x->code == TR_ACCUMULATE || rounds(x))
            continue;
        if (x->unit < 0 || (x->unit != unit && next))
            break;
        next |= x->unit != unit;
        unit = x->unit;
    }
    return m;
}

/* The wait for the call at n comes later, and with it the counting and rounding of what the call makes. */
static void end_late(struct tr_tape *t, int n)
{
    int wait = tr_put_beside(t, n, 1), to = after_next_unit(t, n), last = wait;
    while (last + 1 < to && t->instrs[last + 1].ins && t->instrs[last + 1].in[0] == t->instrs[n].out[0])
        last++;
    for (int i = wait; i <= last; i++)
        tr_move_instr(t, wait, to - 1);
}

/* Reductions run beside the backward pass. */
static void rewrite(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    for (int n = 0; n < t->n_instrs && l->p->plan->reduce.overlap; n++)
        if (reduces_gradient(&t->instrs[n]) && t->instrs[n].part < 0)
            n = begin_early(t, n);
        else if (reduces_gradient(&t->instrs[n]))
            end_late(t, n);
}

static bool is_on(const struct tr_plan *p)
{
    return tr_data_ranks(p) > 1;
}

const struct tr_pass tr_pass_reduce = {
    .on = is_on, .begin = begin, .gradient = gradient, .reduce = reduce, .rewrite = rewrite
};
