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

struct tt_active;
struct tt_call;
struct tt_endpoint;
struct tt_op;
struct tt_slice;
struct tt_trace;

/* NULL in *trace where TUTTI_TRACE is not set. */
tutti_status tt_trace_open(int n, int rank, const char *name, struct tt_trace **trace);
void tt_trace_identify(struct tt_trace *trace, uint64_t id);
void tt_trace_close(struct tt_trace *trace);

/* Of an operation whose `trace` is set. */
void tt_trace_begin(struct tt_op *op);
void tt_trace_end(const struct tt_call *call, const struct tt_op *op);
void tt_trace_unit(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active);
/* The path of the message that was sent last: enum tt_path. */
uint8_t tt_trace_path(struct tt_trace *trace, const struct tt_endpoint *endpoint);

#endif
