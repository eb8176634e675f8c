/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.h: how many bytes the calls of a communicator were, asked and sent.
 *
 * What a call sends follows from its schedule and its layout, so nothing is counted while it runs. A call
 * that is done adds what its operation was bound to; one that takes the fast path (fast_path.c) adds 1 to its
 * cached call, and whoever asks multiplies. Only the thread that uses the communicator touches the cache; the
 * rest may be written by the threads of streams, one at a time, hence atomic words that are loaded and
 * stored. */
#ifndef TT_TRAFFIC_H
#define TT_TRAFFIC_H
#include <stdatomic.h>
#include <stdint.h>

#include "call/call.h"
#include "tutti.h"

struct tt_op;

struct tt_traffic { /* of a communicator since it began, without what its cached calls still have */
    _Atomic uint64_t calls, called, sent, received;
};

/* Returns what a call sends and receives, by the schedule and the layouts of the operation that it has just
 * been bound to. */
struct tt_call_traffic tt_call_traffic_of(const struct tt_call *call, const struct tt_op *op);
/* Counts so many calls of this cost as done. */
void tt_traffic_add(struct tt_traffic *traffic, const struct tt_call_traffic *cost, uint64_t calls);

/* Returns the sum over all calls of a communicator. None of its calls may be queued or running. */
tutti_traffic tt_traffic_total(const struct tt_comm *comm);

/* The caller's struct, which may be an older, shorter one: is it one; fill what it has room for. */
tutti_status tt_traffic_check(const tutti_traffic *traffic, const char *function);
void tt_traffic_give(tutti_traffic *to, const tutti_traffic *known);

#endif
