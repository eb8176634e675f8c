/* SPDX-License-Identifier: BSD-3-Clause */
/* check_places.c: memory and time of the type check: a place belongs to who wrote it last, and what a call
 * beside the list is making is nobody's until it is awaited. */
#include "training/check/checking.h"

#include <string.h>

const struct tr_tensor *tr_checked_tensor(const struct tr_checking *c, int value)
{
    int shard = c->t->values[value].shard;
    return shard < 0 ? NULL : &c->g->tensors[c->t->placed->shards[shard].tensor];
}

struct tr_placement tr_checked_placement(
    const struct tr_checking *c, const struct tr_tensor *t, enum tr_axis axis)
{
    struct tr_wanted *x = &c->wanted[(t - c->g->tensors) * TR_AXES + axis];
    if (!x->known)
        *x = (struct tr_wanted){ true, tr_table_placement(c->plan, t, axis) };
    return x->at;
}

const char *tr_checked_name(const struct tr_checking *c, int value)
{
    const struct tr_tensor *t = tr_checked_tensor(c, value);
    return t ? t->name : value == c->t->losses ? "the loss" : value == c->t->leaves ? "the norm" : "scratch";
}

bool tr_checked_wrong(const struct tr_checking *c, int n, struct tr_error *e, const char *what)
{
    const struct tr_instr *i = &c->t->instrs[n];
    return tr_fail(e, "rank %d, instruction %d, %s of %s, micro-batch %d: %s", c->t->rank, n,
        tr_instr_does(i), tr_instr_name(c->t, i), i->micro, what);
}

bool tr_checked_said(
    const struct tr_checking *c, int n, struct tr_error *e, int value, enum tr_axis a, const char *rest)
{
    char text[256], place[3];
    snprintf(text, sizeof text, "%s is %.2s on axis %s; %s", tr_checked_name(c, value),
        tr_placement_text(c->values[value].on[a], place), tr_axis_names[a], rest);
    return tr_checked_wrong(c, n, e, text);
}

void tr_check_write(struct tr_checking *c, int n, int value)
{
    const struct tr_value *v = &c->t->values[value];
    int *live = c->live[v->host], *count = &c->n_live[v->host], from = 0, to = *count;
    while (from < to) { /* the first one that does not end before this begins */
        int middle = (from + to) / 2;
        const struct tr_value *x = &c->t->values[live[middle]];
        if (x->offset + x->bytes <= v->offset)
            from = middle + 1;
        else
            to = middle;
    }
    for (; to < *count && c->t->values[live[to]].offset < v->offset + v->bytes; to++)
        if (live[to] != value)
            c->values[live[to]].written = false, c->values[live[to]].lost = n;
    memmove(live + from + 1, live + to, (size_t)(*count - to) * sizeof *live);
    live[from] = value;
    *count += from + 1 - to;
    c->values[value].written = true;
}

/* Whether instruction n may touch a value that a call beside the list is making: the wait for it may, and a
 * call that comes after that one on the same stream. */
static bool in_flight(const struct tr_checking *c, int n, int value)
{
    const struct tr_instr *i = &c->t->instrs[n];
    return c->values[value].flight >= 0 && !i->beside;
}

static bool read_value(struct tr_checking *c, int n, int value, struct tr_error *e)
{
    char text[160];
    if (in_flight(c, n, value)) {
        int flight = c->values[value].flight;
        snprintf(text, sizeof text, "%s is read while its %s, instruction %d, is under way; a wait is due",
            tr_checked_name(c, value), tr_codes[c->t->instrs[flight].code].name, flight);
        return tr_checked_wrong(c, n, e, text);
    }
    if (c->values[value].written || value == c->t->losses || value == c->t->leaves)
        return true;
    snprintf(text, sizeof text, "%s is read, but it was never written, or freed before this",
        tr_checked_name(c, value));
    return tr_checked_wrong(c, n, e, text);
}

/* The next value that lies in the bucket, after `last`; -1. */
int tr_check_member(const struct tr_checking *c, int bucket, int last)
{
    if (!c->values[bucket].holds)
        return -1;
    for (int v = last + 1; v < c->t->n_values; v++)
        if (c->t->values[v].within == bucket)
            return v;
    return -1;
}

bool tr_check_reads(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    for (int x = 0; x < i->ins; x++) {
        if (!c->values[i->in[x]].holds && !read_value(c, n, i->in[x], e))
            return false;
        for (int v = -1; (v = tr_check_member(c, i->in[x], v)) >= 0;)
            if (!read_value(c, n, v, e))
                return false;
    }
    return true;
}

/* To write a bucket is to write all that lies in it. */
void tr_check_writes(struct tr_checking *c, int n)
{
    const struct tr_instr *i = &c->t->instrs[n];
    for (int x = 0; x < i->outs; x++) {
        int flight = i->beside ? n : -1;
        if (!c->values[i->out[x]].holds)
            tr_check_write(c, n, i->out[x]);
        for (int v = -1; (v = tr_check_member(c, i->out[x], v)) >= 0; c->values[v].flight = flight)
            tr_check_write(c, n, v);
        c->values[i->out[x]].flight = flight;
        c->values[i->out[x]].flew |= i->beside;
    }
}

/* The instruction of the list that took the place of what a call beside it reads; -1. */
static int lost_in_flight(const struct tr_checking *c, int value)
{
    const struct tr_known *k = &c->values[value];
    if (!k->holds && !k->written && k->lost >= 0 && !c->t->instrs[k->lost].beside)
        return k->lost;
    for (int v = -1; (v = tr_check_member(c, value, v)) >= 0;)
        if (lost_in_flight(c, v) >= 0)
            return c->values[v].lost;
    return -1;
}

/* A call beside the list is over, and those before it on its stream. What it read must have stayed in its
 * place until now, unless a call of the same stream wrote there. */
bool tr_check_wait(struct tr_checking *c, int n, struct tr_error *e)
{
    const struct tr_instr *i = &c->t->instrs[n];
    int last = i->beside ? c->values[i->in[0]].flight : -1;
    char text[200];
    if (i->beside && !c->values[i->in[0]].flew)
        return tr_checked_wrong(c, n, e, "no call beside the list is making this");
    for (int v = 0; v < c->t->n_values && last >= 0; v++) {
        int f = c->values[v].flight;
        if (f < 0 || f > last)
            continue;
        c->values[v].flight = -1;
        int lost = lost_in_flight(c, c->t->instrs[f].in[0]);
        if (lost < 0)
            continue;
        snprintf(text, sizeof text, "instruction %d writes where %s, instruction %d, still reads", lost,
            tr_codes[c->t->instrs[f].code].name, f);
        return tr_checked_wrong(c, n, e, text);
    }
    return true;
}
