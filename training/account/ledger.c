/* SPDX-License-Identifier: BSD-3-Clause */
/* ledger.c: messages predicted from a tape, and messages counted.
 *
 * A rank cannot send less than this of a vector of B bytes, of which c are its own chunk among n ranks:
 *
 *   reduce_scatter, all_gather   B (n-1)/n         each byte leaves all ranks but one
 *   all_reduce                   B - c + (n-1) c   both, one after the other: 2 B (n-1)/n where n divides
 *   send                         B */
#include "training/account/ledger.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

const char *const tr_cargo_names[TR_CARGOES] = { "parameters", "gradients", "gradient leaves", "activations",
    "loss and norm" };

const char *tr_entry_group(const struct tr_entry *entry, char text[32])
{
    int used = 0;
    if (!entry->axes || entry->axes == TR_WORLD)
        return entry->axes ? "world" : tr_edge_kinds[entry->edge].name;
    for (int a = 0; a < TR_AXES; a++)
        if (entry->axes & 1 << a)
            used += snprintf(text + used, 32 - (size_t)used, "%s%s", used ? "+" : "", tr_axis_names[a]);
    return text;
}

static enum tr_cargo cargo_of(const struct tr_tape *t, int value)
{
    if (value == t->losses || value == t->leaves)
        return TR_OF_SCALARS;
    if (t->values[value].shard < 0) /* a bucket, or a part of one */
        return TR_OF_GRADIENTS;
    switch (t->placed->g->tensors[t->placed->shards[t->values[value].shard].tensor].role) {
    case TR_PARAMETER:
        return TR_OF_PARAMETERS;
    case TR_D_PARAMETER:
        return TR_OF_GRADIENTS;
    case TR_LEAVES:
        return TR_OF_LEAVES;
    default:
        return TR_OF_ACTIVATIONS;
    }
}

static int order(const void *left, const void *right)
{
    const struct tr_entry *a = left, *b = right;
    if (a->code != b->code)
        return a->code < b->code ? -1 : 1;
    if (a->axes != b->axes)
        return a->axes < b->axes ? -1 : 1;
    if (a->edge != b->edge)
        return a->edge < b->edge ? -1 : 1;
    return (a->cargo > b->cargo) - (a->cargo < b->cargo);
}

/* A full ledger shares its last entry. */
struct tr_entry *tr_ledger_entry(
    struct tr_ledger *l, const struct tr_tape *t, const struct tr_instr *i, enum tr_code code)
{
    int value = i->ins ? i->in[0] : i->out[0];
    struct tr_entry key = { .code = code, .axes = i->axes, .edge = i->edge, .cargo = cargo_of(t, value) };
    for (int n = 0; n < l->n; n++)
        if (!order(&l->entries[n], &key))
            return &l->entries[n];
    if (l->n < TR_ENTRIES)
        l->entries[l->n++] = key;
    return &l->entries[l->n - 1];
}

/* ---- predicted ---- */

/* Of one call, whose vector has `bytes` in elements of `element`. */
static int64_t least_bytes(
    const struct tr_tape *t, const struct tr_instr *i, enum tr_code code, int64_t bytes, int64_t element)
{
    if (code == TR_SEND || code == TR_RECV)
        return code == TR_SEND ? bytes : 0;
    const struct tr_mesh *m = &t->placed->plan->mesh;
    int64_t n = tr_mesh_group_size(m, i->axes), rank = tr_mesh_group_rank(m, t->rank, i->axes);
    if (code == TR_REDUCE ||
        code == TR_BROADCAST) /* along a chain, whose end is the root, or the last rank */
        return rank == (code == TR_REDUCE ? 0 : n - 1) ? 0 : bytes;
    int64_t count = bytes / element, chunk = (count / n + (rank < count % n)) * element;
    return bytes - chunk + (code == TR_ALL_REDUCE ? (n - 1) * chunk : 0);
}

static void predict(struct tr_ledger *l, const struct tr_tape *t, const struct tr_instr *i, enum tr_code code)
{
    const struct tr_value *in = i->ins ? &t->values[i->in[0]] : NULL, *out = &t->values[i->out[0]];
    const struct tr_value *whole = !in || (i->outs && out->bytes > in->bytes) ? out : in;
    struct tr_entry *entry = tr_ledger_entry(l, t, i, code);
    bool part = (i->edge == TR_TO_SERVER || i->edge == TR_FROM_SERVER) && entry->cargo != TR_OF_SCALARS;
    int64_t bytes = part ? whole->bytes / t->placed->plan->mesh.servers : whole->bytes;
    if (code == TR_ALL_TO_ALL_V) /* as if every expert got as many; the run knows (exchange.c) */
        bytes = i->count * 4;
    int64_t element = tr_element_bytes(whole->element);
    entry->calls += i->times;
    entry->bytes += bytes;
    entry->least += i->times * least_bytes(t, i, code, bytes / i->times, element);
}

/* A row to each neighbour, and one from it. */
static void predict_halo(
    struct tr_ledger *l, const struct tr_tape *t, const struct tr_instr *i, enum tr_code code)
{
    struct tr_entry *entry = tr_ledger_entry(l, t, i, code);
    int64_t calls = i->times * (i->first + i->second);
    int64_t bytes = calls * i->count * tr_element_bytes(t->values[i->in[0]].element);
    entry->calls += calls, entry->bytes += bytes;
    entry->least += code == TR_SEND ? bytes : 0;
}

static void predict_instr(struct tr_ledger *l, const struct tr_tape *t, const struct tr_instr *i)
{
    if (i->code == TR_HALO) {
        predict_halo(l, t, i, TR_SEND);
        predict_halo(l, t, i, TR_RECV);
        return;
    }
    bool both = i->code == TR_SHIFT || (i->code == TR_TIE && i->edge == TR_HOME);
    if (tr_codes[i->code].talks && !both)
        predict(l, t, i, i->code);
    if (both) {
        predict(l, t, i, TR_SEND);
        predict(l, t, i, TR_RECV);
    }
}

void tr_ledger_predict(struct tr_ledger *l, const struct tr_tape *t)
{
    *l = (struct tr_ledger){ .n = 0 };
    for (int n = 0; n < t->n_instrs; n++)
        predict_instr(l, t, &t->instrs[n]);
    qsort(l->entries, (size_t)l->n, sizeof *l->entries, order);
}

int64_t tr_least_sent(const struct tr_tape *t, const struct tr_instr *i)
{
    struct tr_ledger l;
    l.n = 0;
    predict_instr(&l, t, i);
    return tr_ledger_sum(&l, -1, -1, -1, -1).least;
}

/* A parameter comes up to where it lies in a larger one, so what is copied is what is read. */
void tr_copies_predict(struct tr_ledger *l, const struct tr_tape *t)
{
    *l = (struct tr_ledger){ .n = 0 };
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (i->code != TR_DOWN && i->code != TR_UP)
            continue;
        struct tr_entry *entry = tr_ledger_entry(l, t, i, i->code);
        entry->calls++;
        entry->bytes += t->values[i->in[0]].bytes;
    }
    qsort(l->entries, (size_t)l->n, sizeof *l->entries, order);
}

/* ---- counted ---- */

void tr_ledger_begin(struct tr_ledger *counted, const struct tr_ledger *predicted)
{
    counted->n = predicted->n;
    for (int n = 0; n < predicted->n; n++) {
        counted->entries[n] = predicted->entries[n];
        counted->entries[n].calls = counted->entries[n].bytes = 0;
    }
}

void tr_ledger_count(struct tr_ledger *counted, const struct tr_tape *t, const struct tr_instr *i,
    enum tr_code code, int64_t bytes)
{
    struct tr_entry *entry = tr_ledger_entry(counted, t, i, code);
    entry->calls++;
    entry->bytes += bytes;
}

bool tr_ledger_equal(const struct tr_ledger *counted, const struct tr_ledger *predicted,
    const struct tr_tape *t, struct tr_error *e)
{
    for (int n = 0; n < counted->n; n++) {
        const struct tr_entry *c = &counted->entries[n];
        struct tr_entry none = { .calls = 0 };
        const struct tr_entry *p = n < predicted->n ? &predicted->entries[n] : &none;
        char group[32];
        if (c->calls != p->calls || c->bytes != p->bytes)
            return tr_fail(e,
                "rank %d: %s over %s of %s: the tape predicts %" PRId64 " calls and %" PRId64
                " bytes, and %" PRId64 " calls and %" PRId64 " bytes were made",
                t->rank, tr_codes[c->code].name, tr_entry_group(c, group), tr_cargo_names[c->cargo], p->calls,
                p->bytes, c->calls, c->bytes);
    }
    return true;
}

struct tr_entry tr_ledger_sum(const struct tr_ledger *l, int code, int axes, int edge, int cargo)
{
    struct tr_entry sum = { .calls = 0 };
    for (int n = 0; n < l->n; n++) {
        const struct tr_entry *x = &l->entries[n];
        if ((code >= 0 && (int)x->code != code) || (axes >= 0 && x->axes != axes) ||
            (edge >= 0 && (int)x->edge != edge) || (cargo >= 0 && (int)x->cargo != cargo))
            continue;
        sum.calls += x->calls, sum.bytes += x->bytes, sum.least += x->least, sum.wire += x->wire;
    }
    return sum;
}
