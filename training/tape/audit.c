/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.c: count what changes in poisoned memory, value by value. */
#include "training/tape/audit.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, POISON = 0xFF };

static int64_t lines(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static int64_t changed(const unsigned char *p, int64_t bytes)
{
    int64_t n = 0;
    for (int64_t i = 0; i < bytes; i++)
        n += p[i] != POISON;
    return n;
}

/* Bytes of the elements that are nothing but poison. No number that is computed has all bits set; a token may
 * have, so of tokens a whole line counts. */
static int64_t unwritten(const struct tr_tape *t, const struct tr_value *v, const unsigned char *p)
{
    const struct tr_placed *placed = t->placed;
    bool token = v->shard >= 0 && placed->g->tensors[placed->shards[v->shard].tensor].role == TR_INPUT;
    int64_t element = token ? LINE : 4, n = 0;
    for (int64_t i = 0; i + element <= v->bytes; i += element)
        if (!changed(p + i, element))
            n += element;
    return n;
}

/* The value that the place was given to first. */
static const struct tr_value *owner(const struct tr_tape *t, const struct tr_value *v)
{
    while (v->takes >= 0)
        v = &t->values[v->takes];
    return v;
}

void tr_audit_make(struct tr_audit *a, const struct tr_tape *t)
{
    *a = (struct tr_audit){ .bad = -1, .touched = tr_new((size_t)t->n_values, sizeof *a->touched) };
}

void tr_audit_free(struct tr_audit *a)
{
    free(a->touched);
    *a = (struct tr_audit){ .bad = -1 };
}

void tr_audit_begin(struct tr_audit *a, const struct tr_tape *t, unsigned char *arena)
{
    int64_t from = 0;
    for (int v = 0; v < t->n_values; v++)
        if (t->values[v].lasts && t->values[v].offset + lines(t->values[v].bytes) > from)
            from = t->values[v].offset + lines(t->values[v].bytes);
    memset(arena + from, POISON, (size_t)(t->arena - from));
    *a = (struct tr_audit){ .bad = -1, .touched = a->touched };
}

void tr_audit_before(struct tr_audit *a, const struct tr_tape *t, const unsigned char *arena, int instr)
{
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        if (v->first == instr && !v->lasts && v->takes < 0 && v->within < 0)
            a->outside += changed(arena + v->offset, lines(v->bytes));
    }
}

/* Between the members of a bucket there are gaps, so all of it counts as touched. */
static bool is_bucket(const struct tr_tape *t, int n)
{
    for (int v = 0; v < t->n_values; v++)
        if (t->values[v].within == n)
            return true;
    return false;
}

/* A value's life is over: how much of its place was touched, and whether all of it was written. Kernels
 * leave some of their scratch alone: its size is that of the set of kernels that needs most. */
static void settle(struct tr_audit *a, const struct tr_tape *t, const unsigned char *arena, int n)
{
    const struct tr_value *v = &t->values[n], *place = owner(t, v);
    const unsigned char *p = arena + place->offset;
    bool scratch = v->memory == TR_MEM_SCRATCH, tensor = v->shard >= 0 || n == t->losses || n == t->leaves;
    bool gaps = !scratch && (!tensor || is_bucket(t, n)); /* what is no tensor is a part of a bucket */
    int64_t missing = scratch || gaps ? 0 : unwritten(t, v, p);
    for (int64_t i = 0; i < lines(place->bytes); i += LINE)
        a->touched[n] += gaps || changed(p + i, LINE) ? LINE : 0;
    a->outside += changed(p + place->bytes, lines(place->bytes) - place->bytes);
    if (missing && a->bad < 0)
        a->bad = n, a->missing = missing;
}

static bool is_taken(const struct tr_tape *t, int n)
{
    for (int v = 0; v < t->n_values; v++)
        if (t->values[v].takes == n && t->values[v].first == t->values[n].last)
            return true;
    return false;
}

void tr_audit_after(struct tr_audit *a, const struct tr_tape *t, unsigned char *arena, int instr)
{
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n], *place = owner(t, v);
        if (v->last != instr || v->lasts || v->within >= 0) /* a bucket is looked at as one */
            continue;
        settle(a, t, arena, n);
        if (!is_taken(t, n))
            memset(arena + place->offset, POISON, (size_t)lines(place->bytes));
    }
}

static void add_up(struct tr_audit *a, const struct tr_tape *t)
{
    for (int i = 0; i < t->n_instrs; i++) {
        int64_t now[TR_MEMORIES] = { 0 }, total = 0;
        for (int n = 0; n < t->n_values; n++) {
            const struct tr_value *v = &t->values[n];
            bool lives = v->lasts || (v->first >= 0 && v->first <= i && i <= v->last);
            if (lives && !(i == v->last && !v->lasts && is_taken(t, n)))
                now[v->memory] += a->touched[n];
        }
        for (int k = 0; k < TR_MEMORIES; k++) {
            total += now[k];
            a->peak[k] = now[k] > a->peak[k] ? now[k] : a->peak[k];
        }
        a->peak_total = total > a->peak_total ? total : a->peak_total;
    }
}

bool tr_audit_end(struct tr_audit *a, const struct tr_tape *t, const unsigned char *arena, struct tr_error *e)
{
    int64_t at = 0;
    for (int n = 0; n < t->n_values; n++)
        if (t->values[n].lasts) {
            settle(a, t, arena, n);
            at += lines(t->values[n].bytes);
        }
    a->outside += changed(arena + at, t->arena - at);
    add_up(a, t);
    if (a->outside)
        return tr_fail(
            e, "rank %d: %" PRId64 " bytes were written that belong to no value", t->rank, a->outside);
    if (a->bad >= 0) {
        int shard = t->values[a->bad].shard;
        return tr_fail(e, "rank %d: %" PRId64 " of %" PRId64 " bytes of %s were never written", t->rank,
            a->missing, t->values[a->bad].bytes,
            shard < 0 ? "leaves" : t->placed->g->tensors[t->placed->shards[shard].tensor].name);
    }
    for (int k = 0; k < TR_MEMORIES; k++)
        if (k == TR_MEM_SCRATCH ? a->peak[k] > t->peak[k] : a->peak[k] != t->peak[k])
            return tr_fail(e,
                "rank %d: %s: the tape predicts a peak of %" PRId64 " bytes, and %" PRId64 " were touched",
                t->rank, tr_memory_names[k], t->peak[k], a->peak[k]);
    return true;
}
