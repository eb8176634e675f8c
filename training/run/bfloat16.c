/* SPDX-License-Identifier: BSD-3-Clause */
/* bfloat16.c: bfloat16 in memory, float32 in kernels. */
#include "training/run/bfloat16.h"

#include "training/tape/site_of.h"

static void widen(const struct tr_runner *r, float *to, int value)
{
    r->x->k->bfloat16.to_float(r->x, to, tr_at(r, value), tr_count(r->tape, value));
}

static bool shares_image(const struct tr_tape *t, const struct tr_instr *i)
{
    return i->ins && i->outs &&
           tr_shares_image(i->op, t->values[i->in[0]].element, tr_count(t, i->in[0]),
               t->values[i->out[0]].element, tr_count(t, i->out[0]));
}

void tr_operands_to_float(const struct tr_runner *r, const struct tr_instr *i, struct tr_call *c)
{
    const struct tr_tape *t = r->tape;
    bool shared = shares_image(t, i);
    for (int x = shared; x < i->ins + i->outs; x++) {
        bool reads = x < i->ins;
        int value = reads ? i->in[x] : i->out[x - i->ins];
        struct tr_operand *o = reads ? &c->in[x] : &c->out[x - i->ins];
        if (t->values[value].element != TR_BFLOAT16)
            continue;
        o->p = c->scratch;
        c->scratch += tr_lines(tr_count(t, value));
        if (reads)
            widen(r, o->p, value);
    }
    if (shared) {
        c->in[0].p = c->out[0].p;
        widen(r, c->in[0].p, i->in[0]);
    }
}

void tr_results_to_bfloat16(const struct tr_runner *r, const struct tr_instr *i, const struct tr_call *c)
{
    for (int x = 0; x < i->outs; x++) {
        int value = i->out[x];
        if (r->tape->values[value].element == TR_BFLOAT16)
            r->x->k->bfloat16.from_float(r->x, tr_at(r, value), c->out[x].p, tr_count(r->tape, value), NULL);
    }
}

void tr_add_values(
    const struct tr_runner *r, enum tr_element e, void *sum, const void *a, const void *b, int64_t count)
{
    if (e == TR_FLOAT32)
        r->x->k->add(r->x, sum, a, b, count);
    else
        r->x->k->bfloat16.add(r->x, sum, a, b, count);
}

void tr_round_masters(const struct tr_runner *r, struct tr_context *x, int parameter, uint16_t *values,
    const float *masters, int64_t from, int64_t count, int64_t updates)
{
    const struct tr_graph *g = r->tape->placed->g;
    uint64_t key = tr_hash(tr_hash(tr_hash(r->data->seed) + (uint64_t)updates) +
                           (uint64_t)tr_ordinal(g, g->tensors[parameter].values_of));
    struct tr_chance chance = { from, key };
    x->k->bfloat16.from_float(x, values, masters, count, r->tape->step.stochastic ? &chance : NULL);
}
