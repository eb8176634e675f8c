/* SPDX-License-Identifier: BSD-3-Clause */
/* device_memory.c: memory of a device that tutti_mem_alloc gives, what users register, and what is legal as a
 * buffer of a call.
 *
 * What is given is a segment, so that other processes can be given it. Which segments there are stands in a
 * list that only grows; entries are used again. There is no lock: a fork may come at any moment, and a child,
 * which can use no device, still has to be told so when it frees what its parent has. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "run/comm.h"
#include "device/dev.h"
#include "device/device.h"
#include "run/settings.h"
#include "segment/exporter.h"
#include "spin/spin.h"

struct entry {
    struct entry *next;
    _Atomic(void *) is; /* where the segment is; NULL: there is none; the entry itself: some thread has it */
    struct tt_dev_segment segment;
};
static _Atomic(struct entry *) entries;

/* The entry with this address becomes the caller's. */
static struct entry *claim(void *is)
{
    struct entry *e = atomic_load(&entries);
    for (void *expected = is; e != NULL; e = e->next, expected = is)
        if (atomic_compare_exchange_strong(&e->is, &expected, e))
            break;
    return e;
}

static struct entry *take(void)
{
    struct entry *e = claim(NULL);
    if (e != NULL || (e = calloc(1, sizeof *e)) == NULL)
        return e;
    e->is = e;
    e->next = atomic_load(&entries);
    while (!atomic_compare_exchange_weak(&entries, &e->next, e))
        ;
    return e;
}

static tutti_status fail(const struct tt_dev *dev, enum tt_dev_error error, const char *call, int device)
{
    tutti_status status = error == TT_DEV_NO_MEMORY ? TUTTI_OUT_OF_MEMORY
                          : error == TT_DEV_CAPTURE ? TUTTI_INVALID_USAGE
                                                    : TUTTI_DEVICE_ERROR;
    return tt_fail(status, "%s: device %d: %s", call, device, dev->why());
}

/* --- Allocate */

/* The stream is of its own, as the caller's may be in a capture. */
enum tt_dev_error tt_device_memory_clear(const struct tt_dev *dev, void *memory, size_t bytes)
{
    void *stream;
    enum tt_dev_error error = dev->stream.create(&stream);
    if (error != TT_DEV_OK)
        return error;
    error = dev->fill(memory, 0, bytes, stream);
    if (error == TT_DEV_OK)
        error = dev->stream.sync(stream);
    dev->stream.destroy(stream);
    return error;
}

static tutti_status alloc_here(
    const struct tt_dev *dev, int device, size_t bytes, struct tt_dev_segment *segment)
{
    struct tt_dev_facts facts;
    enum tt_dev_error error = dev->facts(device, &facts);
    if (error == TT_DEV_OK && bytes > facts.bytes)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "mem_alloc: bytes is %zu; device %d has %llu", bytes, device,
            (unsigned long long)facts.bytes);
    if (error == TT_DEV_OK)
        error = dev->segment.alloc(bytes, segment);
    if (error != TT_DEV_OK)
        return fail(dev, error, "mem_alloc", device);
    error = tt_device_memory_clear(dev, segment->base, segment->bytes);
    if (error == TT_DEV_OK)
        return TUTTI_OK;
    tutti_status status = fail(dev, error, "mem_alloc", device);
    dev->segment.free(segment);
    return status;
}

static tutti_status find_table(const struct tt_dev **dev)
{
    struct tt_settings settings;
    char why[TT_ERROR_TEXT];
    tutti_status status = tt_comm_settings(NULL, &settings);
    if (status == TUTTI_OK)
        status = tt_dev_find(settings.device_library, dev);
    if (status == TUTTI_OK)
        return status;
    snprintf(why, sizeof why, "%s", tt_last_error());
    return tt_fail(status, "mem_alloc: kind is TUTTI_MEM_CUDA: %s", why);
}

/* Finds the thread's device. A thread that has chosen none uses device 0, as in CUDA. */
static enum tt_dev_error find_current(const struct tt_dev *dev, int *device)
{
    *device = 0;
    enum tt_dev_error error = dev->current(device);
    if (error != TT_DEV_OK || *device >= 0)
        return error;
    *device = 0;
    return dev->use(0);
}

tutti_status tt_device_memory_alloc(size_t bytes, void **ptr)
{
    const struct tt_dev *dev;
    int device;
    tutti_status status = find_table(&dev);
    if (status != TUTTI_OK)
        return status;
    enum tt_dev_error error = find_current(dev, &device);
    if (error != TT_DEV_OK)
        return fail(dev, error, "mem_alloc", device);
    struct entry *e = take();
    if (e == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "mem_alloc: no memory to remember an allocation");
    status = alloc_here(dev, device, bytes, &e->segment);
    if (status == TUTTI_OK)
        *ptr = e->segment.base;
    atomic_store(&e->is, status == TUTTI_OK ? e->segment.base : NULL);
    return status;
}

bool tt_device_memory_has(const void *ptr)
{
    for (struct entry *e = atomic_load(&entries); e != NULL; e = e->next)
        if (atomic_load(&e->is) == ptr)
            return true;
    return false;
}

/* --- Free */

bool tt_device_memory_free(void *ptr, tutti_status *status)
{
    const struct tt_dev *dev;
    struct entry *e = claim(ptr);
    if (e == NULL)
        return false;
    *status = tt_dev_find("", &dev);
    if (*status == TUTTI_OK) {
        enum tt_dev_error error = dev->segment.free(&e->segment);
        if (error != TT_DEV_OK)
            *status = fail(dev, error, "mem_free", e->segment.device);
    }
    atomic_store(&e->is, *status == TUTTI_OK ? NULL : ptr);
    return true;
}

/* --- What calls are given */

/* True if the end of it lies in the same range of addresses, where memory that grows is mapped part by part.
 * A hole between is not seen. */
static bool ends_in_range(
    const struct tt_device *d, struct tt_device_span s, const struct tt_dev_pointer *what)
{
    struct tt_dev_pointer last;
    return d->dev->memory.classify((const char *)s.pointer + s.bytes - 1, &last) == TT_DEV_OK &&
           last.kind == what->kind && last.device == what->device && last.range == what->range;
}

tutti_status tt_device_classify(const struct tt_device *d, struct tt_device_span s, enum tt_dev_kind *kind)
{
    struct tt_dev_pointer what;
    enum tt_dev_error error = d->dev->memory.classify(s.pointer, &what);
    if (error == TT_DEV_BROKEN)
        return tt_device_broken(d);
    if (error != TT_DEV_OK)
        return tt_fail(
            TUTTI_INVALID_ARGUMENT, "%s: %s is %p: %s", s.call, s.argument, s.pointer, d->dev->why());
    if (what.kind == TT_DEV_DEVICE && what.device != d->number)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: %s is memory of device %d; legal: of this communicator's, %d, or of the host", s.call,
            s.argument, what.device, d->number);
    bool inside = what.kind == TT_DEV_HOST || (uintptr_t)s.pointer + s.bytes <= what.base + what.bytes;
    if (!inside && !ends_in_range(d, s, &what))
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: %s is %p, and needs %llu bytes; its allocation ends after %llu", s.call, s.argument,
            s.pointer, (unsigned long long)s.bytes,
            (unsigned long long)(what.base + what.bytes - (uintptr_t)s.pointer));
    *kind = what.kind;
    return TUTTI_OK;
}

tutti_status tt_device_check_memory(
    const struct tt_device *d, const char *call, const void *ptr, uint64_t bytes)
{
    enum tt_dev_kind kind;
    return tt_device_classify(d, (struct tt_device_span){ call, "ptr", ptr, bytes }, &kind);
}

/* --- Register */

/* The leader's device may wait for a call that comes after this one. */
enum { REGISTER_MS = 1000, DEREGISTER_MS = 5000 };

/* To all at once, and then each is waited for. True, and *why is the last that is in the way, if some rank
 * has it, or will have. */
static bool add(struct tt_device *d, const struct tt_dev_pointer *what, char why[TT_EXPORT_WHY])
{
    bool counts = false;
    int64_t until = tt_deadline_ns(REGISTER_MS);
    for (int r = 0; r < d->comm->n; r++)
        if (d->exporters[r] != NULL)
            tt_exporter_ask(d->exporters[r], what, TT_EXPORT_REGISTERED);
    for (int r = 0; r < d->comm->n; r++) {
        char now[TT_EXPORT_WHY];
        int64_t left_ms = (until - tt_now_ns()) / 1000000;
        if (d->exporters[r] == NULL)
            continue;
        counts |= tt_exporter_add(d->exporters[r], what, left_ms > 0 ? left_ms : 0, now);
        if (now[0] != '\0')
            memcpy(why, now, sizeof now);
    }
    return counts;
}

/* Without it calls go another way, so what is in the way is no error. */
static void hand_over(
    struct tt_device *d, const void *ptr, size_t bytes, struct tt_device_registration *registration)
{
    struct tt_dev_pointer what;
    char why[TT_EXPORT_WHY] = "";
    if (d->exporters == NULL || d->dev->memory.classify(ptr, &what) != TT_DEV_OK)
        return;
    bool whole = what.kind == TT_DEV_HOST || (uintptr_t)ptr + bytes <= what.base + what.bytes;
    if (whole)
        registration->counts = add(d, &what, why);
    else
        snprintf(why, sizeof why, "it lies in several mappings");
    registration->base = what.base;
    registration->id = what.id;
    if (why[0] != '\0')
        tt_log(TT_LOG_INFO, "%s, rank %d: mem_register: %zu bytes at %p have no effect%s: %s",
            d->comm->identity.name, d->comm->rank, bytes, ptr, registration->counts ? " yet" : "", why);
}

tutti_status tt_device_register(
    struct tt_device *d, const void *ptr, size_t bytes, struct tt_device_registration *registration)
{
    int before;
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = tt_device_check_memory(d, "mem_register", ptr, bytes);
    if (status == TUTTI_OK)
        hand_over(d, ptr, bytes, registration);
    tt_device_leave(d, before);
    return status;
}

void tt_device_deregister(struct tt_device *d, const struct tt_device_registration *registration)
{
    int before;
    bool removed = true;
    int64_t until = tt_deadline_ns(DEREGISTER_MS);
    if (!registration->counts || d->exporters == NULL || tt_device_enter(d, &before) != TUTTI_OK)
        return;
    for (int r = 0; r < d->comm->n; r++)
        if (d->exporters[r] != NULL)
            removed &= tt_exporter_remove(
                d->exporters[r], registration->base, registration->id, (until - tt_now_ns()) / 1000000);
    if (!removed)
        tt_log(TT_LOG_WARN,
            "%s, rank %d: mem_deregister: a leader has not let go of the memory at %p within %d s; legal: "
            "to "
            "deregister when all calls that use it are over, and their graphs are gone",
            d->comm->identity.name, d->comm->rank, (void *)registration->base, DEREGISTER_MS / 1000);
    tt_device_leave(d, before);
}

/* Within a process all devices reach what tutti_mem_alloc gave at its own address, where S has tried it. */
static bool reaches_here(const struct tt_device *d, const struct tt_dev_pointer *what, int rank)
{
    const struct tt_spin *spin = d->spin;
    return spin != NULL && spin->serves && spin->same_process[rank] &&
           tt_device_memory_has((const void *)what->base);
}

void *tt_device_address_at(struct tt_device *d, void *ptr, size_t bytes, int rank)
{
    struct tt_exporter *exporter = d->exporters != NULL ? d->exporters[rank] : NULL;
    struct tt_dev_pointer what;
    uint64_t offset;
    uint32_t key;
    int before;
    void *there = NULL;
    if (tt_device_enter(d, &before) != TUTTI_OK)
        return NULL;
    bool known = d->dev->memory.classify(ptr, &what) == TT_DEV_OK && what.kind == TT_DEV_DEVICE;
    if (known && exporter != NULL && tt_exporter_find(exporter, ptr, bytes, &what, 0, &key, &offset))
        there = (void *)(uintptr_t)(tt_exporter_address(exporter, key) + offset);
    else if (known && reaches_here(d, &what, rank))
        there = ptr;
    tt_device_leave(d, before);
    return there;
}
