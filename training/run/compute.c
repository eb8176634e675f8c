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
    struct tr_step s = { .op = i->op, .ins = i->ins, .outs = i->outs, .shift = i->shift, .axis = i->axis };
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

/* ---- operations that work on elements themselves ---- */

static int operand_of(const struct tr_instr *i, int x)
{
    return x < i->ins ? i->in[x] : i->out[x - i->ins];
}

/* Of what the operation sees: of bfloat16 that is its float32 image. */
static int64_t operand_bytes(const struct tr_tape *t, const struct tr_instr *i, int x)
{
    const struct tr_value *v = &t->values[operand_of(i, x)];
    return v->element == TR_BFLOAT16 ? 2 * v->bytes : v->bytes;
}

static int64_t in_lines(int64_t bytes)
{
    return tr_lines((bytes + TR_FLOAT_BYTES - 1) / TR_FLOAT_BYTES) * TR_FLOAT_BYTES;
}

int64_t tr_operands_bytes(const struct tr_tape *t, const struct tr_instr *i, const struct tr_kernels *host)
{
    struct tr_call c = site_of(t, i);
    c.k = host;
    int64_t bytes = tr_op(i->op)->scratch ? in_lines(tr_op(i->op)->scratch(&c) * TR_FLOAT_BYTES) : 0;
    for (int x = 0; x < i->ins + i->outs; x++)
        bytes += in_lines(operand_bytes(t, i, x));
    return bytes;
}

/* On copies of its operands in the host's memory, by the processor's kernels. What lies in one place there
 * does so here. */
static void run_on_host(const struct tr_runner *r, const struct tr_instr *i, struct tr_call *c)
{
    const struct tr_backend *b = r->arena.b;
    void *there[TR_INS + TR_OUTS], *here[TR_INS + TR_OUTS];
    unsigned char *at = r->staged.operands;
    int n = i->ins + i->outs;
    for (int x = 0; x < n; x++) {
        struct tr_operand *o = x < i->ins ? &c->in[x] : &c->out[x - i->ins];
        int64_t bytes = operand_bytes(r->tape, i, x);
        int same = 0;
        there[x] = o->p;
        while (there[same] != o->p)
            same++;
        o->p = here[x] = same < x ? here[same] : (void *)at;
        b->copy_later(r->x, r->own, here[x], there[x], bytes);
        at += in_lines(bytes);
    }
    b->sync(r->x);
    c->scratch = (float *)(void *)at, c->k = r->host.k;
    struct tr_context host = r->host;
    c->x = &host;
    tr_op(i->op)->run(c);
    for (int x = i->ins; x < n; x++)
        b->copy(r->x, there[x], here[x], operand_bytes(r->tape, i, x));
}

/* ---- all ---- */

/* What the tape says counts, and not what its step would say again. What takes values as they are stored
 * takes those that passes made, too, which are of no step. */
static struct tr_call call_of(const struct tr_runner *r, const struct tr_instr *i)
{
    struct tr_call c = { .op = i->op };
    if (!tr_op(i->op)->as_stored)
        c = site_of(r->tape, i);
    c.k = r->x->k, c.x = r->x;
    c.scratch = i->scratch < 0 ? NULL : tr_at(r, i->scratch);
    c.first = i->first, c.second = i->second, c.striped = i->striped;
    c.valid = i->valid, c.earlier = i->place, c.scale = i->scale;
    for (int x = 0; x < i->ins; x++)
        put_operand(r, i->in[x], &c.in[x]);
    for (int x = 0; x < i->outs; x++)
        put_operand(r, i->out[x], &c.out[x]);
    return c;
}

static void compute_chain(const struct tr_runner *r, const struct tr_fusion *f)
{
    struct tr_call calls[TR_CHAIN];
    for (int k = 0; k < f->row->length; k++)
        calls[k] = call_of(r, &r->tape->instrs[f->at[k]]);
    f->row->run(calls);
}

void tr_compute(struct tr_runner *r, const struct tr_instr *i)
{
    int n = (int)(i - r->tape->instrs), chain = r->fused.on ? r->fused.of[n] : -1;
    if (chain >= 0) {
        if (r->fused.list[chain].at[0] == n)
            compute_chain(r, &r->fused.list[chain]);
        return;
    }
    bool as_stored = tr_op(i->op)->as_stored;
    struct tr_call c = call_of(r, i);
    if (!as_stored)
        tr_operands_to_float(r, i, &c);
    if (tr_op(i->op)->on_host && r->arena.b->apart)
        run_on_host(r, i, &c);
    else
        tr_op(i->op)->run(&c);
    if (!as_stored)
        tr_results_to_bfloat16(r, i, &c);
}
