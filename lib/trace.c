/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c: noting events. All of it runs only where TUTTI_TRACE is set. */
#include "trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/status.h"
#include "call.h"
#include "exec_internal.h"
#include "trace_internal.h"
#include "transports/registry.h"

tutti_status tt_trace_open(int n, int rank, const char *name, struct tt_trace **trace)
{
    *trace = NULL;
    if (!tt_trace_file_open(rank))
        return TUTTI_OK;
    struct tt_trace *t = calloc(1, sizeof *t);
    struct tt_trace_event *events = calloc(TT_TRACE_EVENTS, sizeof *events);
    if (t == NULL || events == NULL) {
        free(t);
        free(events);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the trace");
    }
    t->events = events;
    t->n = n;
    t->rank = rank;
    snprintf(t->name, sizeof t->name, "%s", name);
    tt_trace_file_add(t);
    *trace = t;
    return TUTTI_OK;
}

void tt_trace_identify(struct tt_trace *t, uint64_t id)
{
    if (t != NULL)
        t->id = id;
}

void tt_trace_close(struct tt_trace *t)
{
    if (t == NULL)
        return;
    tt_trace_file_write(t);
    tt_trace_file_remove(t);
    free(t->events);
    free(t);
}

/* One more event; NULL if there is no room. It counts once tt_trace's `count` is one more. */
static struct tt_trace_event *room(struct tt_trace *t)
{
    size_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    if (count < TT_TRACE_EVENTS)
        return &t->events[count];
    t->dropped++;
    return NULL;
}

static void note(struct tt_trace *t, const struct tt_trace_event *event)
{
    struct tt_trace_event *place = room(t);
    if (place == NULL)
        return;
    *place = *event;
    atomic_store_explicit(&t->count, (size_t)(place - t->events) + 1, memory_order_release);
}

void tt_trace_begin(struct tt_op *op)
{
    struct tt_trace *t = op->trace;
    uint64_t wanted = (uint64_t)op->schedule->nsteps * op->layout.slices + 1;
    if (atomic_load_explicit(&t->count, memory_order_relaxed) + wanted > TT_TRACE_EVENTS)
        tt_trace_file_write(t);
    op->serial = ++t->operations;
    op->began_ns = tt_now_ns();
}

void tt_trace_end(const struct tt_call *call, const struct tt_op *op)
{
    struct tt_trace_event e = { .began = op->began_ns,
        .ended = tt_now_ns(),
        .serial = op->serial,
        .number = op->sequence,
        .bytes = call->total * tutti_type_bytes(call->type),
        .count = call->count,
        .peer = call->root,
        .slice = op->layout.slices,
        .op = tt_call_shared_op(call),
        .operator= call->op,
        .verb = (uint8_t)call->collective,
        .type = (uint8_t)call->type,
        .algorithm = op->schedule->algorithm };
    note(op->trace, &e);
}

void tt_trace_unit(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_trace_event e = { .began = active->began_ns,
        .ended = tt_now_ns(),
        .serial = op->serial,
        .slice = slice->index,
        .step = 1,
        .path = active->path,
        .class = (uint8_t)op->class };
    for (int i = 0; i < step->fold_count; i++) {
        const struct tt_step *s = &step[i];
        bool sends = s->verb == TT_VERB_SEND;
        unsigned buffer = sends ? s->src_buffer : s->dst_buffer;
        e.chunk = sends ? s->src_chunk : s->dst_chunk;
        e.nchunks = s->nchunks;
        struct tt_view view = tt_exec_view(op, slice, buffer, e.chunk, e.nchunks);
        e.bytes = tt_view_count(&view) * op->layout.element_bytes;
        if (e.bytes == 0) /* nothing is sent, awaited or done */
            continue;
        e.verb = s->verb;
        e.peer = s->peer;
        e.number = s->peer != TT_NONE ? tt_exec_number(op, slice, s) : 0;
        note(op->trace, &e);
    }
}

uint8_t tt_trace_path(struct tt_trace *t, const struct tt_endpoint *endpoint)
{
    uint8_t path = 0;
    for (uint8_t p = 0; p < TT_PATHS; p++) {
        uint64_t bytes = tt_endpoint_path_bytes(endpoint, (enum tt_path)p);
        if (bytes != t->seen[p])
            path = p;
        t->seen[p] = bytes;
    }
    return path;
}
