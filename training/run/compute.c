/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.c: a compute instruction: its operands in memory, then what the operation's row says. */
#include "training/tape/site_of.h"
#include "training/run/bfloat16.h"

void *tr_at(const struct tr_runner *r, int value)
{
    return r->arena.at[r->tape->values[value].host] + r->tape->values[value].offset;
}

/* The step that the instruction was made of. */
static struct tr_call site_of(const struct tr_tape *t, const struct tr_instr *i)
{
    struct tr_step s = { .op = i->op, .ins = i->ins, .outs = i->outs, .turn = i->turn, .axis = i->axis };
    for (int x = 0; x < i->ins; x++)
        s.in[x] = t->values[i->in[x]].shard;
    for (int x = 0; x < i->outs; x++)
        s.out[x] = t->values[i->out[x]].shard;
    return tr_site_of(t->placed, &s, t->at);
}

static void put_operand(const struct tr_runner *r, int value, struct tr_operand *o)
{
    o->p = tr_at(r, value);
    o->count = tr_count(r->tape, value);
}

/* What the tape says counts, and not what its step would say again. What takes values as they are stored
 * takes those that passes made, too, which are of no step. */
void tr_compute(struct tr_runner *r, const struct tr_instr *i)
{
    bool as_stored = tr_op(i->op)->as_stored;
    struct tr_call c = { .op = i->op };
    if (!as_stored)
        c = site_of(r->tape, i);
    c.k = r->x->k, c.x = r->x;
    c.scratch = i->scratch < 0 ? NULL : tr_at(r, i->scratch);
    c.first = i->first, c.second = i->second, c.striped = i->striped;
    c.valid = i->valid, c.earlier = i->place, c.scale = i->scale;
    for (int x = 0; x < i->ins; x++)
        put_operand(r, i->in[x], &c.in[x]);
    for (int x = 0; x < i->outs; x++)
        put_operand(r, i->out[x], &c.out[x]);
    if (!as_stored)
        tr_operands_to_float(r, i, &c);
    tr_op(i->op)->run(&c);
    if (!as_stored)
        tr_results_to_bfloat16(r, i, &c);
}
