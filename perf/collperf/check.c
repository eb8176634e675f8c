/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: see check.h; expected contents are images of runs, each painted from one period.
 *
 * A run is compared period by period with memcmp, and only a period that differs is looked at element by
 * element: the usual case costs one pass over memory. */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rewrite.h"

enum { POISON = 0xa5, GUARD = 0x5c, HUGE_BYTES = 2 << 20 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* True if calls find the bytes of a buffer at another address, since the processor does not write and read
 * them in place. */
static bool has_twin(const struct perf_buffers *b)
{
    return b->memory == PERF_MANAGED || b->memory == PERF_DEVICE;
}

static tutti_status alloc_block(const struct perf_buffers *b, void **block)
{
    if (b->memory == PERF_REGISTERED)
        return tutti_mem_alloc((size_t)b->bytes, TUTTI_MEM_HOST, block);
    if (b->memory == PERF_PINNED || has_twin(b))
        return perf_device_alloc(b->device, PERF_PINNED, b->bytes, block);
    bool huge = b->memory == PERF_HUGE;
    size_t align = huge ? HUGE_BYTES : PERF_MARGIN, bytes = ((size_t)b->bytes + align - 1) / align * align;
    if (posix_memalign(block, align, bytes) != 0)
        return TUTTI_OUT_OF_MEMORY;
    if (huge) /* a system that has none gives small ones */
        (void)madvise(*block, bytes, MADV_HUGEPAGE);
    return TUTTI_OK;
}

static void free_block(const struct perf_buffers *b, void *block)
{
    if (b->memory == PERF_REGISTERED)
        tutti_mem_free(block);
    else if (b->memory == PERF_PINNED || has_twin(b))
        perf_device_free(b->device, PERF_PINNED, block);
    else
        free(block);
}

tutti_status perf_buffers_alloc(
    struct perf_buffers *b, uint64_t bytes, enum perf_memory memory, struct perf_device *device)
{
    *b = (struct perf_buffers){ .memory = memory, .device = device, .bytes = bytes + 2 * PERF_MARGIN };
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && status == TUTTI_OK; i++) {
        status = alloc_block(b, &b->blocks[i]);
        if (status == TUTTI_OK && has_twin(b))
            status = perf_device_alloc(device, memory, b->bytes, &b->twins[i]);
        if (status == TUTTI_OK && device != NULL)
            status = perf_device_alloc(device, PERF_DEVICE, b->bytes, &b->areas[i]);
    }
    b->pattern = calloc(PERF_PERIOD, sizeof(uint64_t));
    if (status == TUTTI_OK && b->pattern == NULL)
        status = TUTTI_OUT_OF_MEMORY;
    if (status != TUTTI_OK) {
        perf_buffers_free(b);
        return status;
    }
    b->send = (uint8_t *)b->blocks[0] + PERF_MARGIN;
    b->recv = (uint8_t *)b->blocks[1] + PERF_MARGIN;
    return TUTTI_OK;
}

void perf_buffers_free(struct perf_buffers *b)
{
    for (int i = 0; i < 2; i++) {
        if (b->blocks[i] != NULL)
            free_block(b, b->blocks[i]);
        if (b->twins[i] != NULL)
            perf_device_free(b->device, b->memory, b->twins[i]);
        if (b->areas[i] != NULL)
            perf_device_free(b->device, PERF_DEVICE, b->areas[i]);
    }
    free(b->pattern);
    *b = (struct perf_buffers){ .memory = b->memory };
}

struct perf_pointers perf_buffers_place(
    const struct perf_buffers *b, const struct perf_point *p, bool in_place)
{
    struct perf_pointers at = { b->send, b->recv, in_place };
    if (!in_place)
        return at;
    at.send = b->recv;
    if (p->collective->in_place == PERF_IN_PLACE_SEND_IN_RECV)
        at.send += p->own_first * p->type->bytes;
    if (p->collective->in_place == PERF_IN_PLACE_RECV_IN_SEND)
        at.recv += p->own_first * p->type->bytes;
    return at;
}

static uint8_t *called(const struct perf_buffers *b, uint8_t *at)
{
    for (int i = 0; i < 2; i++) {
        uint64_t offset = (uint64_t)(at - (uint8_t *)b->blocks[i]);
        if (b->twins[i] != NULL && offset < b->bytes)
            return (uint8_t *)b->twins[i] + offset;
    }
    return at;
}

struct perf_pointers perf_buffers_called(const struct perf_buffers *b, const struct perf_pointers *at)
{
    return (struct perf_pointers){ called(b, at->send), called(b, at->recv), at->in_place };
}

tutti_status perf_buffers_keep(const struct perf_buffers *b, const uint8_t *input, uint64_t bytes)
{
    return has_twin(b) ? perf_device_copy(b->device, b->areas[0], input, bytes) : TUTTI_OK;
}

tutti_status perf_buffers_rewrite(const struct perf_buffers *b, uint8_t *input, uint64_t bytes, int call)
{
    if (!has_twin(b)) {
        perf_rewrite_input(input, bytes, b->pattern, call);
        return TUTTI_OK;
    }
    tutti_status status = perf_device_copy(b->device, input, b->areas[0], bytes);
    return status == TUTTI_OK ? perf_device_sync(b->device) : status;
}

static uint64_t element_of(const struct perf_values *v, int rank, uint64_t index, double *tolerance)
{
    *tolerance = 0;
    return rank < 0 ? perf_value_reduced(v, index, tolerance) : perf_value_given(v, rank, index);
}

/* Elements first, first + 1, .. of a source, at most one period of them. The tolerance is the same for all.
 */
static uint64_t make_pattern(
    const struct perf_buffers *b, const struct perf_values *v, struct perf_run run, double *tolerance)
{
    uint64_t count = least(run.count, PERF_PERIOD);
    *tolerance = 0;
    for (uint64_t i = 0; i < count; i++)
        perf_value_store(
            v->type, b->pattern + i * v->type->bytes, element_of(v, run.rank, run.first + i, tolerance));
    return count;
}

static void paint(const struct perf_buffers *b, const struct perf_values *v, struct perf_run run, uint8_t *to)
{
    double tolerance;
    uint64_t period = make_pattern(b, v, run, &tolerance), width = v->type->bytes;
    for (uint64_t done = 0; done < run.count; done += period)
        memcpy(to + done * width, b->pattern, (size_t)(least(period, run.count - done) * width));
}

static void poison(uint8_t *buffer, uint64_t bytes)
{
    memset(buffer - PERF_GUARD, GUARD, PERF_GUARD);
    memset(buffer, POISON, (size_t)bytes);
    memset(buffer + bytes, GUARD, PERF_GUARD);
}

uint64_t perf_check_length(const struct perf_point *p)
{
    uint64_t count = p->send_count > p->recv_count ? p->send_count : p->recv_count;
    return count * p->type->bytes;
}

tutti_status perf_buffers_put(const struct perf_buffers *b, const struct perf_point *p)
{
    uint64_t bytes = PERF_MARGIN + perf_check_length(p) + PERF_GUARD;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && b->twins[i] != NULL && status == TUTTI_OK; i++)
        status = perf_device_copy(b->device, b->twins[i], b->blocks[i], bytes);
    return status;
}

tutti_status perf_buffers_fetch(const struct perf_buffers *b, const struct perf_point *p)
{
    uint64_t bytes = PERF_MARGIN + perf_check_length(p) + PERF_GUARD;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 && b->twins[i] != NULL && status == TUTTI_OK; i++)
        status = perf_device_copy(b->device, b->blocks[i], b->twins[i], bytes);
    return status == TUTTI_OK && b->device != NULL ? perf_device_sync(b->device) : status;
}

void perf_check_prepare(const struct perf_buffers *b, const struct perf_point *p, const struct perf_values *v,
    const struct perf_pointers *at)
{
    if (!at->in_place)
        poison(b->send, p->send_count * p->type->bytes);
    poison(b->recv, perf_check_length(p));
    paint(b, v, (struct perf_run){ p->rank, 0, p->send_count }, at->send);
}

/* The findings so far; the first one keeps the text. */
struct findings {
    uint64_t wrong;
    char *text;
    size_t text_bytes;
};

static void compare_elements(struct findings *f, const struct perf_values *v, const uint8_t *got,
    const uint8_t *want, uint64_t count, uint64_t first, const char *where, double tolerance)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t g = perf_value_load(v->type, got + i * v->type->bytes);
        uint64_t w = perf_value_load(v->type, want + i * v->type->bytes);
        if (perf_value_matches(v, g, w, tolerance))
            continue;
        if (f->wrong++ == 0)
            snprintf(f->text, f->text_bytes,
                "%s element %" PRIu64 " has the bits 0x%" PRIx64 ", expected 0x%" PRIx64, where, first + i, g,
                w);
    }
}

static void compare(struct findings *f, const struct perf_buffers *b, const struct perf_values *v,
    struct perf_run run, const uint8_t *buffer, uint64_t first, const char *where)
{
    double tolerance;
    uint64_t period = make_pattern(b, v, run, &tolerance), width = v->type->bytes;
    const uint8_t *got = buffer + first * width;
    for (uint64_t done = 0; done < run.count; done += period) {
        uint64_t count = least(period, run.count - done);
        if (memcmp(got + done * width, b->pattern, (size_t)(count * width)) != 0)
            compare_elements(f, v, got + done * width, b->pattern, count, first + done, where, tolerance);
    }
}

static void compare_bytes(
    struct findings *f, const uint8_t *bytes, uint64_t count, uint8_t value, const char *where)
{
    for (uint64_t i = 0; i < count; i++) {
        if (bytes[i] == value)
            continue;
        if (f->wrong++ == 0)
            snprintf(
                f->text, f->text_bytes, "%s was written: byte %" PRIu64 " is 0x%02x", where, i, bytes[i]);
    }
}

static void compare_guards(
    struct findings *f, const uint8_t *buffer, uint64_t bytes, const char *before, const char *after)
{
    compare_bytes(f, buffer - PERF_GUARD, PERF_GUARD, GUARD, before);
    compare_bytes(f, buffer + bytes, PERF_GUARD, GUARD, after);
}

uint64_t perf_check_count(const struct perf_buffers *b, const struct perf_point *p,
    const struct perf_values *v, const struct perf_pointers *at, char *text, size_t text_bytes)
{
    struct findings f = { 0, text, text_bytes };
    struct perf_run mine = { p->rank, 0, p->send_count };
    uint64_t first = 0;
    for (int block = 0; block < p->n; block++) {
        struct perf_run run = p->collective->source(p, block);
        compare(&f, b, v, run, at->recv, first, "recv");
        first += run.count;
    }
    if (!at->in_place) {
        compare(&f, b, v, mine, at->send, 0, "send (which must not change)");
        compare_guards(
            &f, b->send, p->send_count * p->type->bytes, "memory before send", "memory after send");
    }
    if (p->recv_count == 0 && at->in_place)
        compare(&f, b, v, mine, at->send, 0, "send (of a rank without result)");
    if (p->recv_count == 0 && !at->in_place)
        compare_bytes(&f, b->recv, perf_check_length(p), POISON, "recv of a rank without result");
    compare_guards(&f, b->recv, perf_check_length(p), "memory before recv", "memory after recv");
    return f.wrong;
}
