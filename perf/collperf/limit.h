/* SPDX-License-Identifier: BSD-3-Clause */
/* limit.h: how long this machine needs at this moment for the bytes that a collective must move.
 *
 * What must move follows from the collective alone, perf_point_pass. How fast it moves is measured in the
 * same run: all ranks at once read and write as many streams, as long ones, in their own part of the very
 * buffers of the row, so that caches and memory serve what they serve in the row. On a device's stream what
 * moves the bytes is the device, by copies within its memory. Between hosts it is at least what the links
 * need for the bytes that must cross them. */
#ifndef PERF_LIMIT_H
#define PERF_LIMIT_H
#include "check.h"
#include "launch.h"
#include "price.h"
#include "table.h"

enum { PERF_LIMITS_KEPT = 64 };

/* The limits that were measured so far in this run: collectives that move the same share one figure. */
struct perf_limits {
    struct perf_limit {
        struct perf_pass pass;
        double seconds;
    } kept[PERF_LIMITS_KEPT];
    int count; /* ever made; the oldest is written over */
    struct perf_link link;
};

/* The shortest time in which all ranks together moved what this point must; the same on all ranks. 0 where it
 * is less than a line of the cache. The buffers are written over. An error of the library is printed and
 * returned. */
tutti_status perf_limits_bytes(struct perf_limits *l, struct perf_rank_group *group,
    const struct perf_buffers *b, const struct perf_point *p, bool in_place, double *seconds);

#endif
