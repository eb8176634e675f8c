/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h: the GPU that a rank of collperf measures on: its memory, its stream, its events.
 *
 * Everything else of perf/ sees lib/tutti.h only, which has no memory of devices: a program takes it from the
 * device's own runtime. So does this file, by the library's table of that runtime (lib/base/dev.h), which it
 * finds in the very plugin that the library names. */
#ifndef PERF_DEVICE_H
#define PERF_DEVICE_H
#include <stdbool.h>
#include <stdint.h>

#include "tutti.h"

/* The kinds of memory that buffers lie in. From HOST on, calls are made on a device's stream. */
enum perf_memory {
    PERF_MALLOC,
    PERF_REGISTERED,
    PERF_HUGE,
    PERF_HOST,
    PERF_PINNED,
    PERF_MANAGED,
    PERF_DEVICE,
    PERF_MEMORIES
};
extern const char *const perf_memory_names[PERF_MEMORIES];
static inline bool perf_memory_on_stream(enum perf_memory memory)
{
    return memory >= PERF_HOST;
}

enum { PERF_DEVICE_MARKS = 65, PERF_DEVICE_ANY = -1 };

struct tt_dev;
struct perf_device { /* of a rank; its thread's current one */
    const struct tt_dev *dev;
    int rank, number, count;
    void *stream;
    void *marks[PERF_DEVICE_MARKS];
    void *graph, *runnable; /* between keep and drop; else NULL */
    char name[64];
};

/* The device of that number, or with PERF_DEVICE_ANY the rank modulo their count. What fails is printed, here
 * and below; UNSUPPORTED: there is no such device. */
tutti_status perf_device_open(struct perf_device *d, int rank, int64_t asked);
void perf_device_close(struct perf_device *d); /* also one that is all zeros */

/* Memory from PINNED on. */
tutti_status perf_device_alloc(struct perf_device *d, enum perf_memory memory, uint64_t bytes, void **block);
void perf_device_free(struct perf_device *d, enum perf_memory memory, void *block);

tutti_status perf_device_copy(
    struct perf_device *d, void *to, const void *from, uint64_t bytes); /* enqueues */
tutti_status perf_device_sync(struct perf_device *d); /* until all that was enqueued is done */
/* Marks on the stream, and the seconds from one to a later one when the stream has passed both. */
tutti_status perf_device_mark(struct perf_device *d, int mark);
tutti_status perf_device_between(struct perf_device *d, int from, int to, double *seconds);

/* `record` begins a graph: what is enqueued before `keep` becomes part of it, and is done at each replay. */
tutti_status perf_device_record(struct perf_device *d);
tutti_status perf_device_keep(struct perf_device *d);
tutti_status perf_device_replay(struct perf_device *d); /* enqueues */
void perf_device_drop(struct perf_device *d); /* also where there is none */

#endif
