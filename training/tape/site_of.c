/* SPDX-License-Identifier: BSD-3-Clause */
/* site_of.c: local sizes, and where in sequences, batch and vocabulary a rank's part lies. */
#include "training/tape/site_of.h"

/* Of the operand whose tokens have places that the operation must know. */
static void put_places(const struct tr_placed *p, int shard, const int at[TR_AXES], struct tr_call *c)
{
    c->first = tr_first_token(p, p->shards[shard].on, at);
    c->second = tr_second_token(p, p->shards[shard].on, at);
    c->striped = c->map.striped;
}

/* Of attention's operand: heads are cut by tensor parallelism, and within its parts by who exchanges tokens
 * for them. */
static int64_t first_head(const struct tr_placed *p, int shard, const int at[TR_AXES])
{
    static const enum tr_axis axes[] = { TR_TP, TR_CP, TR_ULYSSES };
    int64_t part = 0, parts = 1;
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        const struct tr_placement *on = &p->shards[shard].on[axes[a]];
        if (on->kind != TR_S || on->dim != 'c')
            continue;
        parts *= p->plan->mesh.size[axes[a]];
        part = part * p->plan->mesh.size[axes[a]] + at[axes[a]];
    }
    return part * (p->g->heads / parts);
}

struct tr_call tr_site_of(const struct tr_placed *p, const struct tr_step *s, const int at[TR_AXES])
{
    const struct tr_plan *plan = p->plan;
    int tokens_of = tr_op(s->op)->tokens_of;
    struct tr_call c = { .k = p->kernels,
        .g = p->g,
        .op = s->op,
        .part = s->shift,
        .n = tr_micro_batch(plan),
        .block = p->g->context / TR_BLOCKS,
        .map = tr_map_of(plan),
        .cp_rank = at[TR_CP],
        .tp_rank = at[TR_TP],
        .ranks = plan->mesh.size[s->axis],
        .data_ranks = tr_data_ranks(plan),
        .micros = plan->micros,
        .valid = tr_valid_columns(p, s->in[0], at[TR_TP]) };
    c.runs = tr_runs_of(&c.map, p->g->context, 0).n;
    if (tokens_of)
        put_places(p, s->in[tokens_of - 1], at, &c);
    if (tr_op(s->op)->masked)
        c.head = first_head(p, s->in[tokens_of - 1], at);
    if (s->op == TR_SOFTMAX_DX)
        c.scale = 1.0f / (float)((int64_t)plan->batch / tr_updates(plan) * tr_targets(p->g));
    if (s->op == TR_ADMIT) /* of the micro-batch of all ranks */
        c.earlier = (int64_t)tr_data_rank(plan, at) * c.n;
    for (int x = 0; x < s->ins + s->outs; x++) {
        int shard = x < s->ins ? s->in[x] : s->out[x - s->ins];
        struct tr_operand *o = x < s->ins ? &c.in[x] : &c.out[x - s->ins];
        o->of = &p->g->tensors[p->shards[shard].tensor];
        o->count = tr_shard_count(p, shard, c.n);
        for (int i = 0; i < o->of->dims; i++)
            o->d[i] = tr_shard_size(p, shard, i);
    }
    return c;
}

/* Among how many ranks an operation is shared: those of the axes that cut something of it. What lies whole on
 * all ranks of an axis is computed by each of them. */
static int sharers(const struct tr_placed *p, const struct tr_step *s)
{
    static const enum tr_axis axes[] = { TR_CP, TR_ULYSSES, TR_TP };
    int n = 1;
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        bool cut = false;
        for (int x = 0; x < s->ins; x++)
            cut |= p->shards[s->in[x]].on[axes[a]].kind != TR_R;
        for (int x = 0; x < s->outs; x++)
            cut |= p->shards[s->out[x]].on[axes[a]].kind != TR_R;
        n *= cut ? p->plan->mesh.size[axes[a]] : 1;
    }
    return n;
}

double tr_work(const struct tr_placed *p, const struct tr_step *s, const struct tr_call *c)
{
    const struct tr_tensor *x = c->in[0].of;
    double elements = (double)c->n;
    if (tr_op(s->op)->work)
        return tr_op(s->op)->work(c);
    for (int i = 0; i < x->dims; i++)
        elements *= (double)x->size[i];
    return elements / sharers(p, s);
}

static int64_t image(const struct tr_placed *p, int shard)
{
    bool narrow = tr_shard_element(p, shard) == TR_BFLOAT16;
    return narrow ? tr_lines(tr_shard_count(p, shard, tr_micro_batch(p->plan))) : 0;
}

bool tr_shares_image(int op, enum tr_element in, int64_t ins, enum tr_element out, int64_t outs)
{
    return tr_op(op)->in_place && in == TR_BFLOAT16 && (out == TR_BFLOAT16 || out == TR_FLOAT32) &&
           ins == outs;
}

int64_t tr_float_image_bytes(const struct tr_placed *p, const struct tr_step *s)
{
    int64_t floats = 0;
    if (tr_op(s->op)->as_stored)
        return 0;
    int n = tr_micro_batch(p->plan);
    bool shared = s->ins && s->outs &&
                  tr_shares_image(s->op, tr_shard_element(p, s->in[0]), tr_shard_count(p, s->in[0], n),
                      tr_shard_element(p, s->out[0]), tr_shard_count(p, s->out[0], n));
    for (int x = shared; x < s->ins; x++)
        floats += image(p, s->in[x]);
    for (int x = 0; x < s->outs; x++)
        floats += image(p, s->out[x]);
    return floats * 4;
}
