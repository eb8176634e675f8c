/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c: a communicator's device: its pinned memory, gates and worker; which device it has, and which
 * calls it serves. */
#include "device/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "device/dev.h"
#include "device/device_led.h"
#include "base/handle.h"
#include "run/call_layout.h"
#include "stream/stream.h"
#include "transports/arena.h"

enum { SIDES = 2, CHUNKS_LEAST = 8 /* of a schedule that has more than ranks */, DRAIN_MS = 1000 };

const char *tt_device_sysfs = "/sys";

/* --- Which device */

tutti_status tt_device_resolve(const struct tt_settings *settings, int *number)
{
    const struct tt_dev *dev;
    int count = 0;
    *number = -1;
    if (settings->device == TT_DEVICE_NONE || (settings->device == TT_DEVICE_AUTO && !tt_dev_is_used()))
        return TUTTI_OK;
    tutti_status status = tt_dev_find(settings->device_library, &dev);
    if (status != TUTTI_OK) /* where nobody asked for a device, there is none */
        return settings->device == TT_DEVICE_AUTO ? TUTTI_OK : status;
    if (settings->device == TT_DEVICE_AUTO || settings->device == TT_DEVICE_CURRENT) {
        if (dev->current(number) != TT_DEV_OK)
            return tt_fail(TUTTI_DEVICE_ERROR, "%s", dev->why());
        if (*number < 0 && settings->device == TT_DEVICE_CURRENT)
            *number = 0; /* as CUDA's runtime has it */
        return TUTTI_OK;
    }
    if (dev->count(&count) != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "%s", dev->why());
    int wanted = (int)(settings->device - TT_DEVICE_FIRST);
    if (wanted >= count)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "device is %d; this process has %d: legal: 0 to %d, auto, current or none", wanted, count,
            count - 1);
    *number = wanted;
    return TUTTI_OK;
}

int tt_device_to_adopt(const struct tt_settings *settings)
{
    int number;
    bool open = settings->device == TT_DEVICE_AUTO || settings->device == TT_DEVICE_CURRENT;
    return open && tt_device_resolve(settings, &number) == TUTTI_OK ? number : -1;
}

tutti_status tt_device_adopt(const struct tt_settings *settings, int device)
{
    const struct tt_dev *dev;
    if (device < 0)
        return TUTTI_OK;
    tutti_status status = tt_dev_find(settings->device_library, &dev);
    if (status == TUTTI_OK && dev->use(device) != TT_DEV_OK)
        status = tt_fail(TUTTI_DEVICE_ERROR, "device %d: %s", device, dev->why());
    return status;
}

/* Two slices of operands and two of results fill the pinned memory. */
static uint64_t cells_bytes(int n, uint64_t slot_bytes)
{
    uint64_t chunks = n > CHUNKS_LEAST ? (uint64_t)n : CHUNKS_LEAST, all = tt_slice_of_all(slot_bytes, n);
    uint64_t slice = chunks * slot_bytes < all ? chunks * slot_bytes : all;
    return SIDES * TT_WINDOW * slice;
}

/* --- Life */

/* They count from the setting first_number on, as messages do: tests start where it will wrap. Those of
 * captured calls begin at 0 with each replay. */
static void set_gates(struct tt_device *d, uint32_t first)
{
    for (uint32_t gate = 0; gate < d->ngates; gate++) {
        d->counts[gate] = first;
        atomic_init(&d->words[gate].ready, first);
        atomic_init(&d->words[gate].done, first);
        atomic_init(&d->words[gate].over, first);
    }
}

static tutti_status make_staging(struct tt_device *d, int n, uint64_t slot_bytes)
{
    void *pinned, *seen;
    d->ngates = 1 + 2 * (uint32_t)n;
    d->cells_bytes = cells_bytes(n, slot_bytes);
    uint64_t words_bytes = (2 * (uint64_t)d->ngates + 1) * sizeof *d->words;
    uint64_t shared_bytes = words_bytes + sizeof(struct tt_spin_row) + sizeof(struct tt_led_shared);
    d->pinned_bytes = shared_bytes + d->cells_bytes;
    d->counts = calloc(2 * (size_t)d->ngates, sizeof *d->counts);
    if (d->counts == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the gates of a device");
    tutti_status status = tt_arena_alloc(d->pinned_bytes, &pinned);
    if (status != TUTTI_OK)
        return status;
    d->pinned = pinned;
    /* Each page is pinned, and looked up by the device, by itself. */
    tt_arena_want_large_pages(pinned, d->pinned_bytes);
    if (d->dev->memory.pin(pinned, d->pinned_bytes, &seen) != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "cannot pin %llu bytes for device %d: %s",
            (unsigned long long)d->pinned_bytes, d->number, d->dev->why());
    d->pinned_seen = seen;
    d->words = (struct tt_device_words *)pinned;
    d->cells = d->pinned + shared_bytes;
    return TUTTI_OK;
}

struct tt_spin_setup tt_device_spin_setup(const struct tt_device *d)
{
    uint8_t *row = d->cells - sizeof(struct tt_led_shared) - sizeof(struct tt_spin_row);
    uint64_t half = d->cells_bytes / SIDES;
    struct tt_spin_setup setup = { .comm = d->comm,
        .dev = d->dev,
        .device = d->number,
        .row = (struct tt_spin_row *)(void *)row,
        .row_seen = tt_device_seen(d, row),
        .cell_bytes = half,
        .places_taken = tt_watch_places(d->number),
        .slot = tt_local_peers_slot(d),
        .given = tt_device_memory_has };
    for (uint64_t side = 0; side < SIDES; side++) {
        setup.cells[side] = d->cells + side * half;
        setup.cells_seen[side] = tt_device_seen(d, d->cells + side * half);
    }
    return setup;
}

static tutti_status make_streams(struct tt_device *d)
{
    int number;
    if (d->dev->stream.device(NULL, &number, &d->context) == TT_DEV_OK &&
        d->dev->event.create(false, &d->order_event) == TT_DEV_OK &&
        d->dev->event.create(false, &d->fork_event) == TT_DEV_OK &&
        d->dev->event.create(false, &d->capture.last) == TT_DEV_OK &&
        d->dev->stream.create(&d->results) == TT_DEV_OK)
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "no events or stream of device %d: %s", d->number, d->dev->why());
}

/* All of this near the device: pinning touches the memory, and the worker has the cores of who starts it. */
static tutti_status make_parts(struct tt_comm *comm, struct tt_device *d)
{
    tutti_status status = make_staging(d, comm->n, comm->endpoint->slot_bytes);
    if (status == TUTTI_OK)
        status = make_streams(d);
    if (status == TUTTI_OK)
        status = tt_device_try_words(d);
    d->launches = status == TUTTI_OK && d->dev->preload() == TT_DEV_OK; /* else copies do */
    if (status == TUTTI_OK)
        set_gates(d, (uint32_t)d->operations);
    if (status == TUTTI_OK)
        status = tt_prepared_cache_create(&d->prepared);
    return status == TUTTI_OK ? tt_replays_open(d) : status;
}

static tutti_status make(struct tt_comm *comm, struct tt_device *d)
{
    struct tt_cores_kept before;
    struct tt_dev_facts facts;
    if (d->dev->facts(d->number, &facts) != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "device %d: %s", d->number, d->dev->why());
    tutti_status status = tt_device_know_words(d, &facts);
    if (status != TUTTI_OK)
        return status;
    bool bound = tt_cores_bind_near(tt_device_sysfs, facts.address, &before);
    status = make_parts(comm, d);
    if (bound)
        tt_cores_unbind(&before);
    return status == TUTTI_OK ? tt_watch_begin(d) : status;
}

static bool enter(const struct tt_device *d, int *before)
{
    return d->dev->current(before) == TT_DEV_OK &&
           (*before == d->number || d->dev->use(d->number) == TT_DEV_OK);
}

tutti_status tt_device_enter(const struct tt_device *device, int *before)
{
    if (enter(device, before))
        return TUTTI_OK;
    return tt_fail(TUTTI_DEVICE_ERROR, "device %d: %s", device->number, device->dev->why());
}

void tt_device_leave(const struct tt_device *device, int before)
{
    if (before != device->number)
        device->dev->use(before);
}

tutti_status tt_device_open(struct tt_comm *comm)
{
    int number, before;
    const struct tt_dev *dev;
    tutti_status status = tt_device_resolve(&comm->settings, &number);
    comm->wary = number < 0 && tt_dev_is_used();
    if (status != TUTTI_OK || number < 0)
        return status;
    status = tt_dev_find(comm->settings.device_library, &dev);
    if (status != TUTTI_OK)
        return status;
    struct tt_device *d = calloc(1, sizeof *d);
    if (d == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for device %d of a communicator", number);
    d->dev = dev;
    d->number = number;
    d->comm = comm;
    d->operations = comm->settings.first_number;
    comm->device = d; /* what is there of it is closed with the communicator */
    status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = make(comm, d);
    tt_device_leave(d, before);
    return status;
}

/* The gates are open, so the stream goes on, unless the caller's own work before them holds it up: then the
 * pinned memory stays, for the stream still has it. */
static bool is_drained(const struct tt_device *d)
{
    int64_t until = tt_deadline_ns(DRAIN_MS);
    struct tt_wait w;
    bool over = !d->ordered;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (!over && tt_now_ns() < until) {
        over = d->dev->event.query(d->order_event) != TT_DEV_NOT_READY;
        if (!over)
            tt_wait_idle(&w);
    }
    tt_wait_awake(&w);
    return over;
}

/* The streams have passed what was enqueued. */
static bool has_passed(const struct tt_comm *comm)
{
    const struct tt_device *d = comm->device;
    return d->ordered && d->dev->event.query(d->order_event) != TT_DEV_NOT_READY;
}

static bool has_calls(const struct tt_comm *comm)
{
    return atomic_load(&comm->streams.queued) > atomic_load(&comm->streams.elsewhere);
}

static bool is_flushed(const struct tt_comm *comm)
{
    return !has_calls(comm) && has_passed(comm);
}

/* Nothing of a replay is under way, either, and nothing on streams of the host. */
static bool is_idle(const struct tt_comm *comm)
{
    return atomic_load(&comm->streams.queued) == 0 && !tt_replays_run(comm->device);
}

static bool is_through(const struct tt_comm *comm)
{
    return is_idle(comm) && (!comm->device->ordered || has_passed(comm));
}

/* False if that does not come true in this time, or the communicator ends first. */
static bool await(struct tt_comm *comm, bool (*is_true)(const struct tt_comm *comm), int64_t timeout_ms)
{
    int64_t until = tt_deadline_ns(timeout_ms);
    struct tt_wait w;
    bool over;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    tt_wait_look(&w, true);
    while (!(over = is_true(comm)) && tt_comm_check(comm) == TUTTI_OK && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    return over;
}

bool tt_device_flush(struct tt_comm *comm)
{
    int before;
    if (!enter(comm->device, &before))
        return false;
    bool over = !has_calls(comm) || await(comm, is_flushed, comm->waiting.timeout_ms);
    over = over && has_passed(comm);
    tt_device_leave(comm->device, before);
    return over && await(comm, is_idle, DRAIN_MS);
}

bool tt_device_await(struct tt_comm *comm, int64_t timeout_ms)
{
    int before;
    if (!enter(comm->device, &before))
        return false;
    bool over = await(comm, is_through, timeout_ms);
    tt_device_leave(comm->device, before);
    return over;
}

/* The ranks never connected. */
static void forget_spin(const struct tt_device *d)
{
    struct tt_spin_setup setup = tt_device_spin_setup(d);
    tt_spin_forget(&setup);
}

/* The pinned memory has two users from now on: peers, one of which may still have to look whether a kernel of
 * this rank's is over; and this rank, or graphs that outlive it. */
static struct tt_arena_share *share_pinned(const struct tt_device *d)
{
    struct tt_endpoint *e = d->comm->endpoint;
    const struct tt_memory_ops *memory = e->transport->memory;
    struct tt_arena_share *share = d->pinned != NULL ? tt_arena_share(d->pinned, 2) : NULL;
    if (memory != NULL && memory->bequeath != NULL)
        memory->bequeath(e, share);
    else
        tt_arena_drop_share(share);
    return share;
}

/* Gives back what the communicator has on its device. In a thread that uses no device, CUDA would choose one
 * for that. */
static void give_up(struct tt_device *d)
{
    int before;
    bool entered = enter(d, &before);
    struct tt_arena_share *share = share_pinned(d);
    bool kept = tt_replays_close(d, share);
    if (d->spin != NULL)
        tt_spin_end(d->spin);
    if (d->led != NULL)
        tt_led_end(d->led);
    d->exporters = NULL;
    if (d->led != NULL)
        tt_led_take_back(d->led);
    if (d->spin != NULL)
        tt_spin_hand_back(d->spin);
    bool passed = kept ? d->dev->event.query(d->order_event) != TT_DEV_NOT_READY : is_drained(d);
    bool drained = passed && !kept;
    if (!drained && !kept)
        tt_log(TT_LOG_WARN, "%s: its stream is still busy on device %d; %llu pinned bytes stay",
            d->comm->identity.name, d->number, (unsigned long long)d->pinned_bytes);
    if (d->order_event != NULL && !kept)
        d->dev->event.destroy(d->order_event);
    if (d->fork_event != NULL)
        d->dev->event.destroy(d->fork_event);
    if (d->capture.last != NULL)
        d->dev->event.destroy(d->capture.last);
    if (d->results != NULL)
        d->dev->stream.destroy(d->results);
    if (d->pinned_seen != NULL && drained)
        d->dev->memory.unpin(d->pinned);
    tt_local_peers_free(d, passed);
    if (d->led != NULL)
        tt_led_close(d->led, passed, kept);
    if (d->spin != NULL && !kept)
        tt_spin_free(d->spin, drained);
    else if (d->spin == NULL && d->cells != NULL)
        forget_spin(d);
    if (entered)
        tt_device_leave(d, before);
    if (drained)
        tt_arena_drop_share(share);
    else if (!kept)
        tt_arena_keep_share(share);
}

void tt_device_close(struct tt_comm *comm)
{
    struct tt_device *d = comm->device;
    if (d == NULL)
        return;
    tt_watch_end(d);
    tt_local_peers_leave(comm);
    if (d->led != NULL)
        atomic_store(&d->led->reach->closing, true);
    if (d->spin != NULL)
        atomic_store(&d->spin->closing, true);
    comm->device = NULL;
    give_up(d);
    if (d->prepared.calls != NULL)
        tt_prepared_cache_destroy(&d->prepared);
    free(d->lacks.words);
    free(d->counts);
    free(d);
}

/* --- Which calls */

static const char *const names[SIDES] = { "send", "recv" };

static tutti_status check_buffer(const struct tt_call *call, int side, enum tt_dev_kind *kind)
{
    struct tt_device_span s = { .call = tt_collectives[call->collective].name,
        .argument = names[side],
        .pointer = side == TT_IN ? call->send : call->recv,
        .bytes = tt_call_bytes(call, side) };
    *kind = TT_DEV_HOST;
    if (s.pointer == NULL || s.bytes == 0 || call->collective == TT_BARRIER)
        return TUTTI_OK;
    return tt_device_classify(call->comm->device, s, kind);
}

/* Fails unless a stream can copy the scalar from where it lies, which is asked when the operator is created,
 * and still when it is used. */
static tutti_status check_scalar(const struct tt_device *d, const char *name, const struct tt_operator *o)
{
    enum tt_dev_kind kind;
    struct tt_device_span s = { name, "scalar of the pre-mul-sum", o->scalar, o->element_bytes };
    tutti_status status = tt_device_classify(d, s, &kind);
    if (status != TUTTI_OK || kind != TT_DEV_HOST)
        return status;
    return tt_fail(TUTTI_INVALID_ARGUMENT,
        "%s: %s is %p, ordinary memory of the host, or freed; legal with on_device 1: memory of device %d, "
        "managed or pinned",
        s.call, s.argument, s.pointer, d->number);
}

tutti_status tt_device_check_host(const struct tt_call *call)
{
    const struct tt_device *d = call->comm->device;
    enum tt_dev_kind kind;
    int before;
    if (call->stream.kind != TUTTI_STREAM_NONE) /* nobody waits later (tt_comm_turn) */
        tt_replays_await(d);
    if (call->created != NULL && call->created->scalar != NULL)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: the device has the scalar of the pre-mul-sum, and the call has no CUDA stream to read it; "
            "legal: with one of device %d, or a scalar with on_device 0",
            tt_collectives[call->collective].name, d->number);
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    for (int side = 0; side < SIDES && status == TUTTI_OK; side++) {
        status = check_buffer(call, side, &kind);
        if (status == TUTTI_OK && kind == TT_DEV_DEVICE)
            status = tt_fail(TUTTI_INVALID_ARGUMENT,
                "%s: %s is memory of a device, and the call has no CUDA stream; legal: with one of device %d",
                tt_collectives[call->collective].name, names[side], d->number);
    }
    tt_device_leave(d, before);
    return status;
}

/* Why this communicator has no device, which this argument needs. */
static tutti_status tell_absent(const struct tt_comm *comm, const char *name, const char *argument)
{
    const struct tt_settings *settings = &comm->settings;
    const struct tt_dev *dev;
    const char *why =
        "no device was current in the thread that made it; legal: to call cudaSetDevice before, "
        "or to name one by the setting device";
    if (settings->device == TT_DEVICE_NONE)
        why = "its setting device is none, or its parent had none";
    else if (tt_dev_find(settings->device_library, &dev) != TUTTI_OK)
        why = tt_last_error();
    char text[TT_ERROR_TEXT];
    snprintf(text, sizeof text, "%s", why);
    return tt_fail(
        TUTTI_UNSUPPORTED, "%s: %s, but this communicator has no device: %s", name, argument, text);
}

tutti_status tt_device_check_absent(const struct tt_call *call)
{
    char argument[128];
    for (int side = 0; side < SIDES; side++) {
        const void *pointer = side == TT_IN ? call->send : call->recv;
        uint64_t bytes = call->collective == TT_BARRIER ? 0 : tt_call_bytes(call, side);
        if (pointer == NULL || bytes == 0 || tt_watch_is_readable(pointer, bytes))
            continue;
        snprintf(argument, sizeof argument,
            "%s is %p, and the processor may not read there, as where memory of a device is", names[side],
            pointer);
        return tell_absent(call->comm, tt_collectives[call->collective].name, argument);
    }
    return TUTTI_OK;
}

static tutti_status check_here(struct tt_call *call, const struct tt_device *d)
{
    const char *name = tt_collectives[call->collective].name;
    int number;
    void *context;
    enum tt_dev_error error = d->dev->stream.device(call->stream.handle, &number, &context);
    if (error == TT_DEV_BROKEN)
        return tt_device_broken(d);
    if (error != TT_DEV_OK)
        return tt_fail(TUTTI_INVALID_ARGUMENT, "%s: stream: %s", name, d->dev->why());
    if (number != d->number)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: stream is of device %d; legal: of this communicator's, %d", name, number, d->number);
    if (context != d->context)
        return tt_fail(TUTTI_INVALID_ARGUMENT,
            "%s: stream is of another context of device %d than this communicator; legal: of the context "
            "that was current when the communicator was made, the one of cudaSetDevice where the program "
            "makes none of its own",
            name, number);
    tutti_status status = TUTTI_OK;
    enum tt_dev_kind kind;
    for (int side = 0; side < SIDES && status == TUTTI_OK; side++) { /* the host's is used where it lies */
        status = check_buffer(call, side, &kind);
        call->staged[side] = status == TUTTI_OK && (kind == TT_DEV_DEVICE || kind == TT_DEV_MANAGED);
    }
    if (status == TUTTI_OK && call->created != NULL && call->created->scalar != NULL)
        status = check_scalar(d, name, call->created);
    return status == TUTTI_OK && d->lacks.words != NULL ? tt_device_check_wordless(call) : status;
}

tutti_status tt_device_check_scalar(const struct tt_comm *comm, const char *name, const struct tt_operator *o)
{
    const struct tt_device *d = comm->device;
    int before;
    if (d == NULL)
        return tell_absent(comm, name, "on_device is 1");
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = check_scalar(d, name, o);
    tt_device_leave(d, before);
    return status;
}

tutti_status tt_device_check(struct tt_call *call)
{
    const struct tt_device *d = call->comm->device;
    int before;
    if (d == NULL)
        return tell_absent(call->comm, tt_collectives[call->collective].name, "stream has kind 2, CUDA");
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK)
        return status;
    status = check_here(call, d);
    tt_device_leave(d, before);
    return status;
}

/* Fails if a buffer is no longer where it was: memory that was a device's and no longer is looks like the
 * host's. */
tutti_status tt_device_check_kept(const struct tt_call *call)
{
    struct tt_call now = *call;
    if (call->stream.kind != TUTTI_STREAM_CUDA)
        return tt_device_check_host(call);
    tutti_status status = tt_device_check(&now);
    for (int side = 0; side < SIDES && status == TUTTI_OK; side++)
        if (now.staged[side] != call->staged[side])
            status = tt_fail(TUTTI_INVALID_USAGE,
                "%s: %s is %p, which was memory of %s when its group was kept, and is no longer; legal: the "
                "buffers of a program stay as long as it is started",
                tt_collectives[call->collective].name, names[side], side == TT_IN ? call->send : call->recv,
                call->staged[side] ? "a device" : "the host");
    return status;
}

void tt_device_fail(struct tt_comm *comm, tutti_status status)
{
    struct tt_cause cause = { .status = status, .rank = comm->rank, .peer = TT_NONE };
    cause.sequence = comm->device->operations; /* the worker counts its own */
    snprintf(cause.operation, sizeof cause.operation, "enqueue");
    tt_cause_say(&cause, "%s", tt_last_error());
    tt_comm_fail(comm, &cause);
}
