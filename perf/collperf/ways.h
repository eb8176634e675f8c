/* SPDX-License-Identifier: BSD-3-Clause */
/* ways.h: what the ways of a collective cost where several processes share a device, in the numbers of the
 * library's prices: by the host's memory, and by a leader's kernel. */
#ifndef PERF_WAYS_H
#define PERF_WAYS_H
#include "device.h"
#include "launch.h"

enum perf_way { PERF_STAGED, PERF_CELLS, PERF_PADS, PERF_MAPPED, PERF_WAYS };

struct perf_ways {
    bool known; /* false: there is one way, or no device */
    struct {
        double call, byte; /* seconds: of a call (of pads, per rank), and per byte of its vector and rank */
    } of[PERF_WAYS];
};

/* All ranks call it, with their device; *ways is set at all of them. An error is printed and returned. */
tutti_status perf_ways_measure(
    struct perf_rank_group *group, struct perf_device *device, int64_t timeout_ms, struct perf_ways *ways);
#endif
