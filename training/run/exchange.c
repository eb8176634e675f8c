/* SPDX-License-Identifier: BSD-3-Clause */
/* exchange.c: all_to_all_v of rows, and what is used of values that hold some.
 *
 * Counts lie in parts, one for each rank of ep: what goes to it, or what comes from it. So do the rows. */
#include "training/run/exchange.h"

#include "training/run/compute.h"
#include "training/run/host.h"

/* Of an all_to_all_v: elements for each rank, and where they begin. */
struct parts {
    size_t count[TR_NORM_LEAVES], place[TR_NORM_LEAVES], sum;
};

static const struct tr_tensor *tensor_of(const struct tr_tape *t, int value)
{
    return &t->placed->g->tensors[t->placed->shards[t->values[value].shard].tensor];
}

/* Whether it has the rows for the experts that are here, or their counts. */
static bool of_experts(const struct tr_tape *t, int value)
{
    return t->placed->shards[t->values[value].shard].on[TR_EP].dim == 'e';
}

static int64_t rows_in(const struct tr_runner *r, int counts, int64_t from, int64_t n)
{
    enum { PIECE = 256 };
    int32_t rows[PIECE];
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i % PIECE == 0)
            tr_fetch(r, counts, from + i, n - i < PIECE ? n - i : PIECE, rows);
        sum += rows[i % PIECE];
    }
    return sum;
}

static struct parts parts_of(const struct tr_runner *r, int counts, int64_t width)
{
    const struct tr_tape *t = r->tape;
    int ranks = t->mesh->size[TR_EP];
    int64_t n = tr_count(t, counts) / ranks;
    struct parts p = { .sum = 0 };
    for (int x = 0; x < ranks; p.sum += p.count[x++]) {
        p.place[x] = p.sum;
        p.count[x] = (size_t)(rows_in(r, counts, x * n, n) * width);
    }
    return p;
}

static int64_t used_bytes(const struct tr_runner *r, int value)
{
    return r->used[value] < 0 ? r->tape->values[value].bytes : r->used[value];
}

bool tr_run_exchange(struct tr_runner *r, const struct tr_instr *i, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    int64_t width = tensor_of(t, i->in[0])->size[2];
    bool go = of_experts(t, i->out[0]);
    struct parts here = parts_of(r, i->in[1], width), there = parts_of(r, i->in[2], width);
    const struct parts *send = go ? &here : &there, *recv = go ? &there : &here;
    tutti_comm *comm = r->groups.of[i->axes];
    tutti_status s = tutti_all_to_all_v(tr_at(r, i->in[0]), send->count, send->place, tr_at(r, i->out[0]),
        recv->count, recv->place, TUTTI_FLOAT32, comm, r->own);
    struct tr_entry *entry = tr_ledger_entry(&r->predicted, t, i, i->code);
    int64_t bytes = used_bytes(r, i->in[0]), kept = (int64_t)send->count[t->at[TR_EP]] * 4;
    entry->bytes += bytes, entry->least += bytes - kept, entry->wire += bytes - kept;
    tr_ledger_count(&r->counted, t, i, i->code, (int64_t)send->sum * 4);
    return s == TUTTI_OK || tr_fail(e, "step %lld, rank %d: all_to_all_v of %s: %s", (long long)r->step,
                                t->rank, tr_instr_name(t, i), tr_why(comm));
}

void tr_exchange_begin(struct tr_ledger *predicted)
{
    for (int n = 0; n < predicted->n; n++)
        if (predicted->entries[n].code == TR_ALL_TO_ALL_V)
            predicted->entries[n].bytes = predicted->entries[n].least = predicted->entries[n].wire = 0;
}

/* The counts of these rows, which the instruction reads or makes; -1. */
static int counts_of(const struct tr_tape *t, const struct tr_instr *i, int rows)
{
    for (int x = 0; x < i->ins + i->outs; x++) {
        int v = x < i->ins ? i->in[x] : i->out[x - i->ins];
        if (t->placed->shards[t->values[v].shard].tensor == tensor_of(t, rows)->counts &&
            of_experts(t, v) == of_experts(t, rows))
            return v;
    }
    return -1;
}

void tr_note_used(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    for (int x = 0; x < i->outs && (i->code == TR_COMPUTE || i->code == TR_ALL_TO_ALL_V); x++) {
        int v = i->out[x], counts;
        if (t->values[v].shard < 0 || tensor_of(t, v)->counts < 0 || (counts = counts_of(t, i, v)) < 0)
            continue;
        int64_t rows = rows_in(r, counts, 0, tr_count(t, counts)), width = tensor_of(t, v)->size[2];
        r->used[v] = rows * width * tr_element_bytes(t->values[v].element);
    }
    if (i->code == TR_DOWN || i->code == TR_UP)
        r->used[i->out[0]] = r->used[i->in[0]];
}
