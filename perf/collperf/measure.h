/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.h: time one point, check it, and know the same figures on every rank.
 *
 * Timing and checking are two calls on different data, so that the check costs the timed loop nothing and
 * sees the state that many calls left behind. */
#ifndef PERF_MEASURE_H
#define PERF_MEASURE_H
#include <stdbool.h>
#include <stdint.h>

#include "check.h"
#include "launch.h"
#include "limit.h"
#include "options.h"
#include "samples.h"
#include "table.h"
#include "call_mode.h"

enum { PERF_PATHS = 5 };
extern const char *const perf_path_names[PERF_PATHS];

struct perf_result {
    bool measured; /* false: the collective cannot be called so */
    bool checked;
    bool rated; /* false: one rank in place has nothing to do, and a rate would mean nothing */
    double seconds; /* of one call, on the slowest rank: the mean */
    double median, p99; /* of the samples of that rank, in seconds */
    double bytes_seconds; /* what the bytes that must move need: perf_limits_bytes */
    long calls; /* in the timed loop */
    uint64_t wrong; /* of all ranks */
    uint64_t path_bytes[PERF_PATHS]; /* sent by all ranks in the timed loop */
    uint64_t rewritten; /* bytes of input, by all ranks in the timed loop */
};

/* A rank keeps this while it measures. */
struct perf_session {
    const struct perf_options *options;
    struct perf_rank_group *group;
    tutti_comm *comm; /* under test: the rank group's, or one with a forced algorithm */
    struct perf_buffers buffers;
    struct perf_pointers called; /* by the calls */
    struct perf_samples samples;
    struct perf_limits limits;
    struct perf_call_mode call_mode;
    bool settled; /* a point was timed before */
    uint64_t seed;
    int complaints; /* wrong results described by this rank so far */
};

/* The result is the same on all ranks. An error of the library is printed and returned. */
tutti_status perf_measure(
    struct perf_session *s, const struct perf_point *p, bool in_place, struct perf_result *result);

/* Does every damage of defect.h, one at a time: *missed of them were not counted exactly by the check. */
tutti_status perf_self_test(struct perf_session *s, const struct perf_point *p, int *missed);

#endif
