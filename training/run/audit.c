/* SPDX-License-Identifier: BSD-3-Clause */
/* audit.c: count what changes in poisoned memory, value by value. */
#include "training/run/audit.h"

#include "training/tape/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 64, POISON = 0xFF };

static int64_t lines(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Memory is read in pieces, of whole lines. */
enum { PIECE = 1024 * LINE };
struct piece {
    unsigned char bytes[PIECE];
    int64_t n;
};

/* What is left of `bytes` from `at` on, or as much of it as fits. */
static void read_piece(struct piece *p, const struct tr_arenas *m, bool host, int64_t at, int64_t bytes)
{
    p->n = bytes < PIECE ? bytes : PIECE;
    tr_arenas_read(m, host, at, p->n, p->bytes);
}

/* All are poison: the first is, and each is as the one before. */
static bool untouched(const unsigned char *p, int64_t bytes)
{
    return p[0] == POISON && !memcmp(p, p + 1, (size_t)bytes - 1);
}

/* Bytes from `at` on that are no poison. */
static int64_t changed(const struct tr_arenas *m, bool host, int64_t at, int64_t bytes)
{
    struct piece p;
    int64_t n = 0;
    for (int64_t i = 0; i < bytes; i += p.n) {
        read_piece(&p, m, host, at + i, bytes - i);
        if (untouched(p.bytes, p.n))
            continue;
        for (int64_t x = 0; x < p.n; x++)
            n += p.bytes[x] != POISON;
    }
    return n;
}

/* Of parts of so many bytes, the bytes of those that have a changed byte, or of those that have none; a part
 * that is cut off at the end is as if it had one. */
static int64_t in_parts(
    const struct tr_arenas *m, const struct tr_value *v, int64_t bytes, int64_t part, bool touched)
{
    struct piece p;
    int64_t n = 0;
    for (int64_t i = 0; i < bytes; i += p.n) {
        read_piece(&p, m, v->host, v->offset + i, bytes - i);
        for (int64_t x = 0; x + part <= p.n; x += part)
            n += untouched(p.bytes + x, part) != touched ? part : 0;
    }
    return n;
}

/* Bytes of the elements that are nothing but poison. No number that is computed has all bits set; tokens and
 * words may have, so of them a whole line counts. */
static int64_t unwritten(const struct tr_arenas *m, const struct tr_value *v, int64_t bytes)
{
    return in_parts(m, v, bytes,
        v->element == TR_TOKEN || v->element == TR_WORD ? LINE : tr_element_bytes(v->element), false);
}

void tr_audit_make(struct tr_audit *a, const struct tr_tape *t, const int64_t *used)
{
    *a = (struct tr_audit){ .bad = -1,
        .used = used,
        .touched = tr_new((size_t)t->n_values, sizeof *a->touched),
        .rest = tr_new((size_t)t->n_values, sizeof *a->rest),
        .scratch = tr_new(tr_stages_scratch(t), sizeof *a->scratch) };
}

void tr_audit_free(struct tr_audit *a)
{
    free(a->touched), free(a->rest), free(a->scratch);
    *a = (struct tr_audit){ .bad = -1 };
}

/* Where what lasts ends in a memory. */
static int64_t lasting(const struct tr_tape *t, bool host)
{
    int64_t end = 0;
    for (int v = 0; v < t->n_values; v++)
        if (t->values[v].lasts && t->values[v].host == host)
            end += lines(t->values[v].bytes);
    return end;
}

static int64_t arena_bytes(const struct tr_tape *t, bool host)
{
    return host ? t->host.arena : t->arena;
}

void tr_audit_begin(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m)
{
    for (int host = 0; host < 2; host++) {
        int64_t from = lasting(t, host), end = arena_bytes(t, host);
        if (end > from)
            tr_arenas_clear(m, host, from, POISON, end - from);
    }
    *a = (struct tr_audit){
        .bad = -1, .used = a->used, .touched = a->touched, .rest = a->rest, .scratch = a->scratch
    };
}

/* Who works in the place of another value may need less of it. The rest is nobody's, and full of numbers. */
static uint64_t rest_of(const struct tr_tape *t, const struct tr_value *v, const struct tr_arenas *m)
{
    struct piece p;
    uint64_t sum = 0;
    int64_t end = lines(t->values[v->takes].bytes);
    for (int64_t i = v->bytes; i < end; i += p.n) {
        read_piece(&p, m, v->host, v->offset + i, end - i);
        for (int64_t x = 0; x < p.n; x++)
            sum = sum * 31 + p.bytes[x];
    }
    return sum;
}

void tr_audit_before(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, int instr)
{
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        if (v->first == instr && !v->lasts && v->takes < 0 && v->within < 0)
            a->outside += changed(m, v->host, v->offset, lines(v->bytes));
        if (v->first != instr || v->takes < 0)
            continue;
        a->rest[n] = rest_of(t, v, m);
        for (int64_t i = lines(t->values[v->takes].bytes); i < v->bytes; i += LINE) /* nobody had it yet */
            a->outside += changed(m, v->host, v->offset + i, LINE);
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
static void settle(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, int n)
{
    const struct tr_value *v = &t->values[n];
    bool scratch = v->memory == TR_MEM_SCRATCH, tensor = v->shard >= 0 || n == t->losses || n == t->leaves;
    bool gaps = !scratch && (!tensor || is_bucket(t, n)); /* what is no tensor is a part of a bucket */
    int64_t used = a->used[n] < 0 ? v->bytes : a->used[n],
            missing = scratch || gaps ? 0 : unwritten(m, v, used);
    a->touched[n] += gaps ? lines(used) : in_parts(m, v, lines(used), LINE, true);
    a->outside += changed(m, v->host, v->offset + used, lines(v->bytes) - used);
    a->touched[n] += lines(v->bytes) - lines(used); /* room for more, which is planned */
    if (missing && a->bad < 0)
        a->bad = n, a->missing = missing;
}

/* The value that takes the place of another one as that ends; -1. */
static int taker(const struct tr_tape *t, int n)
{
    for (int v = 0; v < t->n_values; v++)
        if (t->values[v].takes == n && t->values[v].first == t->values[n].last)
            return v;
    return -1;
}

void tr_audit_after(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, int instr)
{
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        if (v->last != instr || v->lasts || v->within >= 0) /* a bucket is looked at as one */
            continue;
        settle(a, t, m, n);
        int by = taker(t, n);
        int64_t kept = by < 0 ? 0 : t->values[by].bytes, all = lines(v->bytes);
        if (by >= 0 && a->rest[by] != rest_of(t, &t->values[by], m))
            a->outside += all - kept;
        if (kept < all)
            tr_arenas_clear(m, v->host, v->offset + kept, POISON, all - kept);
    }
}

static void add_up(struct tr_audit *a, const struct tr_tape *t)
{
    for (int i = 0; i < t->n_instrs; i++) {
        int64_t now[2][TR_MEMORIES] = { { 0 } }, total = 0;
        for (int n = 0; n < t->n_values; n++) {
            const struct tr_value *v = &t->values[n];
            bool lives = v->lasts || (v->first >= 0 && v->first <= i && i <= v->last);
            int by = lives && i == v->last && !v->lasts ? taker(t, n) : -1;
            int64_t kept = by < 0 ? 0 : lines(t->values[by].bytes);
            if (lives && kept < a->touched[n])
                now[v->host][v->memory] += a->touched[n] - kept;
        }
        for (int k = 0; k < TR_MEMORIES; k++) {
            total += now[0][k];
            a->peak[k] = now[0][k] > a->peak[k] ? now[0][k] : a->peak[k];
            a->host_peak[k] = now[1][k] > a->host_peak[k] ? now[1][k] : a->host_peak[k];
        }
        a->peak_total = total > a->peak_total ? total : a->peak_total;
    }
}

static bool as_predicted(const struct tr_tape *t, bool host, const int64_t *measured, struct tr_error *e)
{
    const int64_t *predicted = host ? t->host.peak : t->peak;
    for (int k = 0; k < TR_MEMORIES; k++)
        if (k == TR_MEM_SCRATCH ? measured[k] > predicted[k] : measured[k] != predicted[k])
            return tr_fail(e,
                "rank %d: %s%s: the tape predicts a peak of %" PRId64 " bytes, and %" PRId64 " were touched",
                t->rank, host ? "the host's " : "", tr_memory_names[k], predicted[k], measured[k]);
    return true;
}

bool tr_audit_end(struct tr_audit *a, const struct tr_tape *t, const struct tr_arenas *m, struct tr_error *e)
{
    for (int n = 0; n < t->n_values; n++)
        if (t->values[n].lasts)
            settle(a, t, m, n);
    for (int host = 0; host < 2; host++) {
        int64_t from = lasting(t, host), end = arena_bytes(t, host);
        if (end > from)
            a->outside += changed(m, host, from, end - from);
    }
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
    return as_predicted(t, false, a->peak, e) && as_predicted(t, true, a->host_peak, e) &&
           tr_stages_as_planned(t, a->touched, a->scratch, e);
}
