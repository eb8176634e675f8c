/* SPDX-License-Identifier: BSD-3-Clause */
/* check.h: buffers, their contents before a call, and what must stand there after it.
 *
 * Every byte that a call may not touch is watched: guards on both sides of both buffers, the send buffer out
 * of place, and the recv buffer where this rank has no result. What the call must write is poisoned before.
 */
#ifndef PERF_CHECK_H
#define PERF_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device.h"
#include "table.h"
#include "values.h"

/* One rank's memory, allocated once for the largest point. */
struct perf_buffers {
    uint8_t *send, *recv; /* page-aligned in malloc'ed memory, PERF_MARGIN bytes usable on both sides */
    uint8_t *pattern; /* one period of contributions */
    void *blocks[2];
    uint64_t bytes; /* of a block */
    enum perf_memory memory;
    struct perf_device *device; /* NULL: calls are the processor's */
    void *twins[2]; /* of the blocks, where calls find them; NULL: in the blocks themselves */
    void *areas[2]; /* memory of the device, as long, to measure what it can do */
};

enum { PERF_MARGIN = 4096, PERF_GUARD = 64 };

/* Two buffers of `bytes`; TUTTI_OUT_OF_MEMORY, or what tutti_mem_alloc or the device said. */
tutti_status perf_buffers_alloc(
    struct perf_buffers *b, uint64_t bytes, enum perf_memory memory, struct perf_device *device);
void perf_buffers_free(struct perf_buffers *b);

/* The pointers to call with. */
struct perf_pointers {
    uint8_t *send, *recv;
    bool in_place;
};
struct perf_pointers perf_buffers_place(
    const struct perf_buffers *b, const struct perf_point *p, bool in_place);

/* Returns the addresses at which calls find these buffers. */
struct perf_pointers perf_buffers_called(const struct perf_buffers *b, const struct perf_pointers *at);
/* Bring what was prepared for this point to where calls find it, or what is there now back. */
tutti_status perf_buffers_put(const struct perf_buffers *b, const struct perf_point *p);
tutti_status perf_buffers_fetch(const struct perf_buffers *b, const struct perf_point *p);

/* Input that calls find at `input` is kept, to be written there again and again: what a device has on its
 * stream, from a copy of its own, and that is waited for; the rest by the processor, from a part of it. */
tutti_status perf_buffers_keep(const struct perf_buffers *b, const uint8_t *input, uint64_t bytes);
tutti_status perf_buffers_rewrite(const struct perf_buffers *b, uint8_t *input, uint64_t bytes, int call);

/* Bytes of recv that are watched. In place both buffers are one, as long as the longer of the two. */
uint64_t perf_check_length(const struct perf_point *p);

/* Poison, guards, contributions. */
void perf_check_prepare(const struct perf_buffers *b, const struct perf_point *p, const struct perf_values *v,
    const struct perf_pointers *at);

/* Returns how many elements are wrong, each touched guard or send element counting as one; the first is
 * described in `text`. */
uint64_t perf_check_count(const struct perf_buffers *b, const struct perf_point *p,
    const struct perf_values *v, const struct perf_pointers *at, char *text, size_t text_bytes);

#endif
