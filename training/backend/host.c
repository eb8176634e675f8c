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

static tutti_stream stream(struct tr_context *x)
{
    (void)x;
    return tutti_no_stream();
}

static bool make_stream(struct tr_context *x, tutti_stream *made, struct tr_error *e)
{
    (void)x;
    return tutti_stream_create(made) == TUTTI_OK || tr_fail(e, "%s", tutti_get_last_error(NULL));
}

static void end_stream(struct tr_context *x, tutti_stream ended)
{
    (void)x;
    tutti_stream_destroy(ended);
}

static bool is_own(tutti_stream s)
{
    return s.kind == TUTTI_STREAM_NONE;
}

static tutti_status record(struct tr_context *x, tutti_stream s, uint64_t *point)
{
    (void)x;
    *point = 0;
    return is_own(s) ? TUTTI_OK : tutti_stream_record(s, point);
}

static void copy_later(struct tr_context *x, tutti_stream on, void *to, const void *from, int64_t bytes)
{
    (void)on;
    copy(x, to, from, bytes);
}

/* What is the context's own is over already, and what it does next begins when this returns. */
static tutti_status after(struct tr_context *x, tutti_stream later, tutti_stream earlier, uint64_t point)
{
    (void)x;
    return is_own(earlier) ? TUTTI_OK
           : is_own(later) ? tutti_stream_wait(earlier, point, -1)
                           : tutti_stream_after(later, earlier, point);
}

static tutti_status wait(struct tr_context *x, tutti_stream earlier, uint64_t point)
{
    return after(x, tutti_no_stream(), earlier, point);
}

const struct tr_backend tr_backend_host = { .name = "host",
    .open = open_host,
    .close = nothing,
    .alloc = alloc,
    .release = release,
    .copy = copy,
    .copy_later = copy_later,
    .clear = clear,
    .sync = nothing,
    .stream = stream,
    .make_stream = make_stream,
    .end_stream = end_stream,
    .record = record,
    .after = after,
    .wait = wait };

const struct tr_backend *tr_backend_of(const struct tr_kernels *k)
{
    return k->backend ? k->backend : &tr_backend_host;
}
