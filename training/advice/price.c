/* SPDX-License-Identifier: BSD-3-Clause */
/* price.c: what a step takes, by tapes. */
#include "training/advice/price.h"

#include <stdlib.h>

double tr_part_seconds(const struct tr_part_price *x)
{
    double uncovered = x->beside - x->compute;
    return x->compute + x->messages + (uncovered > 0 ? uncovered : 0);
}

double tr_bytes_of_call(const struct tr_tape *t, const struct tr_instr *i)
{
    const struct tr_value *in = i->ins ? &t->values[i->in[0]] : NULL;
    const struct tr_value *out = i->outs ? &t->values[i->out[0]] : NULL;
    if (i->code == TR_ALL_TO_ALL_V)
        return (double)i->count * 4;
    if (i->code == TR_HALO)
        return (double)(i->count * tr_element_bytes(in->element));
    const struct tr_value *whole = !in || (out && out->bytes > in->bytes) ? out : in;
    return (double)whole->bytes / (double)(i->times > 0 ? i->times : 1);
}

static enum tr_reach reach_of(const struct tr_tape *t, const struct tr_machine *m)
{
    return tr_reach_of_stage(t->mesh, m);
}

static double message_seconds(const struct tr_tape *t, const struct tr_instr *i, const struct tr_machine *m)
{
    double times = i->times > 0 ? (double)i->times : 1, bytes = tr_bytes_of_call(t, i);
    if (!i->axes || i->code == TR_TIE || i->code == TR_SEND || i->code == TR_RECV)
        return times * tr_message_seconds(m, bytes, reach_of(t, m));
    return times * tr_call_seconds(m, i->code, bytes, tr_spread_of(t->mesh, m, t->rank, i->axes));
}

/* Along the pipeline the schedule counts messages, between the parts. */
static bool is_counted(const struct tr_instr *i)
{
    bool border = (i->code == TR_SEND || i->code == TR_RECV) && i->edge != TR_NO_EDGE && i->edge < TR_HOME;
    if (i->code == TR_TIE)
        return i->edge == TR_HOME;
    return tr_codes[i->code].talks && !border;
}

void tr_price_tape(struct tr_tape_price *p, const struct tr_tape *t, const struct tr_machine *m)
{
    *p = (struct tr_tape_price){ 0 };
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        bool narrow = t->placed->plan->numbers.bfloat16;
        struct tr_part_price *part = i->part < 0 || i->part >= TR_PARTS ? &p->end : &p->parts[i->part];
        part->compute += i->flops / (m->peak[narrow] * m->efficiency);
        if (is_counted(i))
            *(i->beside && m->covers ? &part->beside : &part->messages) += message_seconds(t, i, m);
    }
}

/* The longest message to another stage. */
static double hop_of(const struct tr_tape *t, const struct tr_machine *m)
{
    double most = 0;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        bool border = i->code == TR_SEND && i->edge != TR_NO_EDGE && i->edge < TR_HOME;
        double seconds = border ? message_seconds(t, i, m) : 0;
        most = seconds > most ? seconds : most;
    }
    return most;
}

/* Which of the three tapes has a stage like this one. */
static int like(const struct tr_schedule *s, int stage)
{
    int rank = tr_stage_rank(stage, s->ranks, s->vee);
    return rank == 0 ? 0 : rank == s->ranks - 1 ? 2 : 1;
}

static struct tr_stage_costs costs_of(const struct tr_tape_price *p, const struct tr_schedule *s)
{
    double each = 1.0 / (s->micros * s->chunks);
    double whole = tr_part_seconds(&p->parts[TR_B]) * each;
    struct tr_stage_costs c = { .f = tr_part_seconds(&p->parts[TR_F]) * each,
        .i = tr_part_seconds(&p->parts[TR_I]) * each,
        .w = tr_part_seconds(&p->parts[TR_W]) * each };
    c.i += whole / 2, c.w += whole / 2; /* B is both together */
    return c;
}

static double sum(const struct tr_tape_price *p, bool messages)
{
    double all = 0;
    for (int k = 0; k <= TR_PARTS; k++) {
        const struct tr_part_price *x = k < TR_PARTS ? &p->parts[k] : &p->end;
        all += messages ? tr_part_seconds(x) - x->compute : x->compute;
    }
    return all;
}

bool tr_price_step(struct tr_price *p, const struct tr_schedule *s, const struct tr_tape *const of[3],
    const struct tr_machine *m, struct tr_error *e)
{
    struct tr_tape_price prices[3];
    struct tr_timing timing;
    int stages = s->ranks * s->chunks, slowest = 0;
    struct tr_stage_costs *costs = tr_new((size_t)stages, sizeof *costs);
    double end = 0;
    for (int k = 0; k < 3; k++) {
        tr_price_tape(&prices[k], of[k], m);
        double after = tr_part_seconds(&prices[k].end);
        end = after > end ? after : end;
        if (sum(&prices[k], false) + sum(&prices[k], true) >
            sum(&prices[slowest], false) + sum(&prices[slowest], true))
            slowest = k;
    }
    for (int stage = 0; stage < stages; stage++)
        costs[stage] = costs_of(&prices[like(s, stage)], s);
    struct tr_costs c = { .hop = s->ranks > 1 ? hop_of(of[0], m) : 0, .stage = costs };
    bool ok = tr_schedule_simulate(s, &c, &timing, e);
    free(costs);
    if (!ok)
        return false;
    double pipeline = s->no_flush ? timing.period : timing.total;
    *p = (struct tr_price){ .step = pipeline + end,
        .compute = sum(&prices[slowest], false),
        .messages = sum(&prices[slowest], true),
        .bubble = tr_bubble(s, &timing) };
    p->waits = p->step - p->compute - p->messages;
    p->waits = p->waits > 0 ? p->waits : 0; /* of rounding a little below */
    tr_timing_free(&timing, s->ranks);
    return true;
}
