/* SPDX-License-Identifier: BSD-3-Clause */
/* way.h: how the calls of a loop are made: blocking, queued on a host stream, or enqueued on the stream of a
 * device; each by itself, or bound once as a program that is started again and again.
 *
 * A unit is what is made at once: a call, or a start of the program. */
#ifndef PERF_WAY_H
#define PERF_WAY_H
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "device.h"
#include "table.h"

struct perf_way {
    bool streamed;
    struct perf_device *device; /* whose stream it is; NULL: it is the host's, or none */
    tutti_stream stream; /* of every call */
    tutti_program *program; /* between bind and unbind; NULL: a unit is a call */
    const struct perf_point *point; /* what is called, */
    const struct perf_pointers *at; /* with which pointers, */
    tutti_comm *comm; /* and where */
};

tutti_status perf_way_open(struct perf_way *way, bool blocking);
/* On the device's stream. */
void perf_way_open_device(struct perf_way *way, struct perf_device *device);
void perf_way_close(struct perf_way *way);

/* From now on a unit is a program of `calls` calls of what way->point says, or a graph of them on a device;
 * 0: a call. What it points to must stay as it is until unbind. */
tutti_status perf_way_bind(struct perf_way *way, long calls);
void perf_way_unbind(struct perf_way *way);

/* Make `units`. On a stream they are queued, and *end is the point behind them on one of the host; else they
 * are done. */
tutti_status perf_way_make(struct perf_way *way, long units, uint64_t *end);
/* Wait until all up to `end` is done; of a device's stream, all there is. */
tutti_status perf_way_wait(struct perf_way *way, uint64_t end);

#endif
