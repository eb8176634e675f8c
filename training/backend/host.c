/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: the host's memory, for kernels of the processor: nothing is ever begun and not over. */
#include "training/backend/backend.h"

#include <stdlib.h>
#include <string.h>

static bool open_host(struct tr_context *x, struct tr_error *e)
{
    (void)x, (void)e;
    return true;
}

static void nothing(struct tr_context *x)
{
    (void)x;
}

static void *alloc(struct tr_context *x, int64_t bytes, bool on_host)
{
    (void)x, (void)on_host;
    return aligned_alloc(64, (size_t)(bytes + 64) / 64 * 64);
}

static void release(struct tr_context *x, void *memory, bool on_host)
{
    (void)x, (void)on_host;
    free(memory);
}

static void copy(struct tr_context *x, void *to, const void *from, int64_t bytes)
{
    (void)x;
    memcpy(to, from, (size_t)bytes);
}

static void clear(struct tr_context *x, void *to, int byte, int64_t bytes)
{
    (void)x;
    memset(to, byte, (size_t)bytes);
}

static uint64_t record(struct tr_context *x)
{
    (void)x;
    return 0;
}

static void after(struct tr_context *x, tutti_stream stream, uint64_t point)
{
    (void)x, (void)stream, (void)point;
}

const struct tr_backend tr_backend_host = { .name = "host",
    .open = open_host,
    .close = nothing,
    .alloc = alloc,
    .release = release,
    .copy = copy,
    .clear = clear,
    .record = record,
    .after = after,
    .sync = nothing };

const struct tr_backend *tr_backend_of(const struct tr_kernels *k)
{
    return k->backend ? k->backend : &tr_backend_host;
}
