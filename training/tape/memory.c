/* SPDX-License-Identifier: BSD-3-Clause */
/* memory.c: each value's lifetime, its place in the memory of the device or of the host, and the peaks of
 * each kind in each.
 *
 * What lasts comes first. The others get, in the order of their births, the lowest gap that is large enough
 * among those that live at the same time. A value that takes another's place begins where that one ends. One
 * that lies in a bucket has no place of its own: the bucket lives from the first to the last use of any. */
#include "training/tape/tape.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

static int64_t aligned(int64_t bytes)
{
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

static void seen(struct tr_tape *t, int value, int i)
{
    for (int v = value; v >= 0; v = t->values[v].within) {
        if (t->values[v].first < 0)
            t->values[v].first = i;
        t->values[v].last = i;
    }
}

static void lifetimes(struct tr_tape *t)
{
    for (int n = 0; n < t->n_values; n++)
        t->values[n].first = t->values[n].last = -1, t->values[n].offset = -1;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        for (int x = 0; x < i->ins; x++)
            seen(t, i->in[x], n);
        for (int x = 0; x < i->outs; x++)
            seen(t, i->out[x], n);
        if (i->scratch >= 0)
            seen(t, i->scratch, n);
        const struct tr_param_state *h = i->code == TR_ACCUMULATE ? tr_param_state_of(t, i->parameter) : NULL;
        for (int level = 0; h && level < 32; level++)
            if (h->level[level] >= 0)
                seen(t, h->level[level], n);
    }
}

/* Whether v may really begin in the place of the value it would take: that one must end here, and be as
 * large, or elements that were narrow before would overwrite others. */
static bool takes(const struct tr_tape *t, const struct tr_value *v)
{
    const struct tr_value *from = v->takes >= 0 ? &t->values[v->takes] : NULL;
    return from && !from->lasts && from->within < 0 && v->within < 0 && from->last == v->first &&
           from->bytes >= v->bytes;
}

struct block {
    int64_t offset, bytes;
    int value;
};

/* Blocks in the order of offsets; the lowest gap that fits. */
static int64_t place(struct block *live, int *n, int64_t from, int64_t bytes, int value)
{
    int at = 0;
    int64_t offset = from;
    for (; at < *n && live[at].offset - offset < bytes; at++)
        offset = live[at].offset + live[at].bytes;
    for (int i = (*n)++; i > at; i--)
        live[i] = live[i - 1];
    live[at] = (struct block){ offset, bytes, value };
    return offset;
}

/* The values of one memory that live at an instruction, and the bytes of each kind. */
struct planning {
    bool host;
    int64_t from; /* where what lasts ends */
    struct tr_room *room;
    struct block *live;
    int n;
    int64_t now[TR_MEMORIES];
    int *dying, *next; /* of each instruction the last value that it uses, and of each value the one before */
};

/* Where a value's block stands, which begins at the value's offset; -1. */
static int block_of(const struct tr_tape *t, const struct planning *p, int value)
{
    int from = 0, to = p->n;
    while (from < to) {
        int middle = (from + to) / 2;
        if (p->live[middle].offset < t->values[value].offset)
            from = middle + 1;
        else
            to = middle;
    }
    while (from < p->n && p->live[from].offset == t->values[value].offset && p->live[from].value != value)
        from++;
    return from < p->n && p->live[from].value == value ? from : -1;
}

static void born(struct tr_tape *t, struct planning *p, int v)
{
    struct tr_value *x = &t->values[v];
    if (x->lasts || x->offset >= 0 || x->host != p->host)
        return;
    if (x->within >= 0) {
        born(t, p, x->within);
        x->offset = t->values[x->within].offset + x->inside;
        return;
    }
    if (takes(t, x)) {
        int at = block_of(t, p, x->takes);
        x->offset = t->values[x->takes].offset;
        if (at >= 0) {
            p->now[t->values[x->takes].memory] -= p->live[at].bytes, p->now[x->memory] += p->live[at].bytes;
            p->live[at].value = v;
        }
    } else {
        x->takes = -1;
        x->offset = place(p->live, &p->n, p->from, aligned(x->bytes), v);
        p->now[x->memory] += aligned(x->bytes);
    }
    if (x->offset + aligned(x->bytes) > p->room->arena)
        p->room->arena = x->offset + aligned(x->bytes);
}

static void measure(struct tr_room *r, const int64_t *now)
{
    int64_t total = 0;
    for (int k = 0; k < TR_MEMORIES; k++) {
        total += now[k];
        if (now[k] > r->peak[k])
            r->peak[k] = now[k];
    }
    if (total > r->peak_total)
        r->peak_total = total;
}

/* After instruction n what it was the last to use is gone, and who took a larger place keeps what it
 * needs. */
static void bury(const struct tr_tape *t, struct planning *p, int n)
{
    const struct tr_instr *i = &t->instrs[n];
    for (int v = p->dying[n]; v >= 0; v = p->next[v]) {
        int at = block_of(t, p, v);
        if (at < 0)
            continue;
        p->now[t->values[v].memory] -= p->live[at].bytes;
        memmove(&p->live[at], &p->live[at + 1], (size_t)(--p->n - at) * sizeof *p->live);
    }
    for (int x = 0; x < i->outs; x++) {
        const struct tr_value *v = &t->values[i->out[x]];
        int at = v->takes >= 0 ? block_of(t, p, i->out[x]) : -1;
        if (at < 0)
            continue;
        p->now[v->memory] -= p->live[at].bytes - aligned(v->bytes);
        p->live[at].bytes = aligned(v->bytes);
    }
}

static void list_deaths(const struct tr_tape *t, struct planning *p)
{
    for (int n = 0; n < t->n_instrs; n++)
        p->dying[n] = -1;
    for (int v = 0; v < t->n_values; v++) {
        int last = t->values[v].last;
        if (last >= 0)
            p->next[v] = p->dying[last], p->dying[last] = v;
    }
}

static void plan(struct tr_tape *t, bool host, struct tr_room *r)
{
    struct planning p = { .host = host, .room = r };
    for (int n = 0; n < t->n_values; n++)
        if (t->values[n].lasts && t->values[n].host == host) {
            t->values[n].offset = r->arena;
            r->arena += aligned(t->values[n].bytes);
            p.now[t->values[n].memory] += aligned(t->values[n].bytes);
        }
    p.from = r->arena;
    p.live = tr_new((size_t)t->n_values + 1, sizeof *p.live);
    p.dying = tr_new((size_t)t->n_instrs + 1, sizeof(int)),
    p.next = tr_new((size_t)t->n_values + 1, sizeof(int));
    list_deaths(t, &p);
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        for (int x = 0; x < i->outs; x++)
            born(t, &p, i->out[x]);
        if (i->scratch >= 0)
            born(t, &p, i->scratch);
        const struct tr_param_state *h = i->code == TR_ACCUMULATE ? tr_param_state_of(t, i->parameter) : NULL;
        for (int level = 0; h && level < 32; level++)
            if (h->level[level] >= 0)
                born(t, &p, h->level[level]);
        measure(r, p.now);
        bury(t, &p, n);
    }
    free(p.live), free(p.dying), free(p.next);
}

void tr_plan_memory(struct tr_tape *t)
{
    struct tr_room device = { .arena = 0 };
    t->host = (struct tr_room){ .arena = 0 };
    lifetimes(t);
    plan(t, false, &device);
    plan(t, true, &t->host);
    for (int v = 0; v < t->n_values; v++) /* a call on a bucket makes all that lies in it */
        if (t->values[v].within >= 0)
            t->values[v].offset = t->values[t->values[v].within].offset + t->values[v].inside;
    t->arena = device.arena, t->peak_total = device.peak_total;
    memcpy(t->peak, device.peak, sizeof t->peak);
}

static void add(int64_t *to, int from, int until, enum tr_memory kind, int64_t bytes)
{
    to[from * TR_MEMORIES + (int)kind] += bytes;
    to[(until + 1) * TR_MEMORIES + (int)kind] -= bytes;
}

/* At the instruction at which a value takes the place of another, which ends there, the two are one block, as
 * large as the other was. */
void tr_memory_over(const struct tr_tape *t, bool host, int64_t *to)
{
    memset(to, 0, (size_t)(t->n_instrs + 1) * TR_MEMORIES * sizeof *to);
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        const struct tr_value *from = v->takes >= 0 && !v->lasts ? &t->values[v->takes] : NULL;
        if (v->host != host || v->within >= 0 || (!v->lasts && v->first < 0))
            continue;
        if (v->lasts)
            add(to, 0, t->n_instrs - 1, v->memory, aligned(v->bytes));
        else
            add(to, v->first, v->last, v->memory, aligned(v->bytes));
        if (!from)
            continue;
        add(to, v->first, v->first, from->memory, -aligned(from->bytes));
        add(to, v->first, v->first, v->memory, aligned(from->bytes) - aligned(v->bytes));
    }
    for (int n = 1; n <= t->n_instrs; n++)
        for (int k = 0; k < TR_MEMORIES; k++)
            to[n * TR_MEMORIES + k] += to[(n - 1) * TR_MEMORIES + k];
}
