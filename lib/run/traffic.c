/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.c: the costs of calls, and their sum. */
#include "run/traffic.h"

#include <string.h>

#include "base/status.h"
#include "exec/exec_internal.h"
#include "run/call_cache.h"

/* Elements of a message, of all its slices. */
static uint64_t elements_of(const struct tt_layout *layout, uint32_t chunk, uint32_t nchunks)
{
    uint64_t elements = 0;
    if (nchunks == layout->chunks)
        return layout->count;
    for (uint32_t c = chunk; c < chunk + nchunks; c++) /* of TMP: the cell; see struct tt_view */
        elements += tt_layout_chunk(layout, c < layout->chunks ? c : c % layout->chunks).count;
    return elements;
}

/* Elements of the type. Who knows no counts but its own has one block. */
static uint64_t called_by(const struct tt_call *call)
{
    bool block = tt_call_is_one_sided(call) && call->blocks[TT_IN].counts == NULL &&
                 call->blocks[TT_OUT].counts == NULL;
    return call->collective == TT_BARRIER ? 0 : block ? call->count : call->total;
}

struct tt_call_traffic tt_call_traffic_of(const struct tt_call *call, const struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    struct tt_call_traffic cost = { .called = called_by(call) * tutti_type_bytes(call->type) };
    for (const struct tt_step *step = s->steps; step < s->steps + s->nsteps; step++) {
        bool sends = step->verb == TT_VERB_SEND;
        const struct tt_layout *layout =
            op->one_sided && sends && step->src_buffer == TT_IN ? &op->given : &op->layout;
        if (step->peer == TT_NONE || step->peer == s->key.me)
            continue;
        if (sends)
            cost.sent += elements_of(layout, step->src_chunk, step->nchunks);
        else
            cost.received += elements_of(layout, step->dst_chunk, step->nchunks);
    }
    cost.sent *= op->layout.element_bytes;
    cost.received *= op->layout.element_bytes;
    return cost;
}

static void add(_Atomic uint64_t *word, uint64_t value)
{
    uint64_t before = atomic_load_explicit(word, memory_order_relaxed);
    atomic_store_explicit(word, before + value, memory_order_relaxed);
}

void tt_traffic_add(struct tt_traffic *traffic, const struct tt_call_traffic *cost, uint64_t calls)
{
    add(&traffic->calls, calls);
    add(&traffic->called, calls * cost->called);
    add(&traffic->sent, calls * cost->sent);
    add(&traffic->received, calls * cost->received);
}

tutti_traffic tt_traffic_total(const struct tt_comm *comm)
{
    tutti_traffic known = { .calls = atomic_load_explicit(&comm->traffic.calls, memory_order_relaxed),
        .called_bytes = atomic_load_explicit(&comm->traffic.called, memory_order_relaxed),
        .sent_bytes = atomic_load_explicit(&comm->traffic.sent, memory_order_relaxed),
        .received_bytes = atomic_load_explicit(&comm->traffic.received, memory_order_relaxed) };
    for (const struct tt_cached *cached = comm->calls.cached; cached < comm->calls.cached + TT_CACHED_CALLS;
         cached++) {
        known.calls += cached->fast_calls;
        known.called_bytes += cached->fast_calls * cached->cost.called;
        known.sent_bytes += cached->fast_calls * cached->cost.sent;
        known.received_bytes += cached->fast_calls * cached->cost.received;
    }
    return known;
}

tutti_status tt_traffic_check(const tutti_traffic *traffic, const char *function)
{
    if (traffic != NULL && traffic->size >= sizeof traffic->size + sizeof traffic->calls)
        return TUTTI_OK;
    return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: %s; set traffic->size to sizeof(tutti_traffic), %zu",
        function, traffic == NULL ? "traffic is NULL" : "traffic->size is too small", sizeof *traffic);
}

void tt_traffic_give(tutti_traffic *to, const tutti_traffic *known)
{
    tutti_traffic full = *known;
    full.size = to->size;
    memcpy(to, &full, full.size < sizeof full ? full.size : sizeof full);
}
