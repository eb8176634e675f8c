/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.c: noting events. All of it runs only where TUTTI_TRACE is set. */
#include "observe/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/status.h"
#include "observe/trace_internal.h"
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

void tt_trace_identify(struct tt_trace *t, uint64_t id, const char *name)
{
    if (t == NULL)
        return;
    t->id = id;
    snprintf(t->name, sizeof t->name, "%s", name);
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

/* Returns the place of the next event; NULL if there is no room. The event counts once `count` of tt_trace
 * is one more. */
static struct tt_trace_event *room(struct tt_trace *t)
{
    size_t count = atomic_load_explicit(&t->count, memory_order_relaxed);
    if (count < TT_TRACE_EVENTS)
        return &t->events[count];
    t->dropped++;
    return NULL;
}

void tt_trace_note(struct tt_trace *t, const struct tt_trace_event *event)
{
    struct tt_trace_event *place = room(t);
    if (place == NULL)
        return;
    *place = *event;
    atomic_store_explicit(&t->count, (size_t)(place - t->events) + 1, memory_order_release);
}

uint64_t tt_trace_reserve(struct tt_trace *t, uint64_t events)
{
    if (atomic_load_explicit(&t->count, memory_order_relaxed) + events > TT_TRACE_EVENTS)
        tt_trace_file_write(t);
    return ++t->operations;
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
