/* SPDX-License-Identifier: BSD-3-Clause */
/* trace.h: what every operation and step did, when, as a file for Perfetto or chrome://tracing.
 *
 * TUTTI_TRACE names the file: one for each process, an event in a line, times in microseconds of the
 * monotonic clock, which all processes of a host share. Off, it costs a test of a pointer. On, events are
 * kept in memory of the communicator and written when it is full at the beginning of an operation, at
 * destroy, and at exit. Every step that ended is a slice of its operation's; a message is an arrow from its
 * send to its receive. */
#ifndef TT_TRACE_H
#define TT_TRACE_H
#include <stdint.h>

#include "tutti.h"

struct tt_endpoint;
struct tt_trace;

struct tt_trace_event { /* an operation, or a step of one */
    int64_t began, ended; /* ns */
    uint64_t serial; /* of the operation in its communicator */
    uint64_t number; /* of the operation, or of the message */
    uint64_t bytes, count;
    int32_t peer; /* or root */
    uint32_t chunk, nchunks, slice; /* of an operation: slice is their number */
    uint32_t op, operator; /* as all ranks name it, and as this one does */
    uint8_t step; /* 0: an operation */
    uint8_t verb; /* of an operation: the collective */
    uint8_t path, class, type;
    uint8_t served; /* of an operation: enum tt_served */
    const char *algorithm;
};

/* Opens the trace of a communicator; *trace is NULL where TUTTI_TRACE is not set. */
tutti_status tt_trace_open(int n, int rank, const char *name, struct tt_trace **trace);
void tt_trace_identify(struct tt_trace *trace, uint64_t id, const char *name);
void tt_trace_close(struct tt_trace *trace);

/* Makes room for the events of an operation that begins, and returns its number. */
uint64_t tt_trace_reserve(struct tt_trace *trace, uint64_t events);
void tt_trace_note(struct tt_trace *trace, const struct tt_trace_event *event);
/* Returns the path of the message that was sent last (enum tt_path). */
uint8_t tt_trace_path(struct tt_trace *trace, const struct tt_endpoint *endpoint);

#endif
