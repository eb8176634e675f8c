/* SPDX-License-Identifier: BSD-3-Clause */
/* device_words.c: can streams of this device write words of pinned memory, and wait for them? And what a
 * communicator serves where they cannot.
 *
 * Nearly all that a communicator does on a device stands on that, and no runtime tells whether it works:
 * behind some hypervisors the functions are refused, and on some devices a wait passes at once or never. So
 * it is tried, on a stream that nobody else has, by the first communicator of a process on the device: there
 * a refusal costs nobody anything, while in the middle of a call it ends the communicator on all ranks.
 * Nothing is enqueued behind a wait that is not over, for that is what a device that cannot do it may never
 * return from; and where one never ended, nothing is asked of the device again.
 *
 * Without words no stream can wait for a thread, and so neither the host nor a leader can serve its calls.
 * What ranks of one process have a kernel or a copy for (device_local.h) waits for events only, and tells by
 * kernels. So a communicator of such ranks is made all the same, and refuses what it would need words for. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"
#include "device/device_local.h"
#include "exec/rectangles.h"

/* The stream may share its queue with one on which long kernels run, so it has the communicator's time,
 * within bounds; a wait that is none has passed soon. */
enum { LEAST_MS = 2000, MOST_MS = 30000, PENDING_NS = 1000000, DEVICES = 64, WARP = 32 };
static _Atomic uint64_t proven; /* a bit for each of the first devices */
static _Atomic uint64_t disproven; /* likewise */
static _Atomic uint64_t stuck; /* likewise: a stream of theirs has never ended */

struct trial {
    const struct tt_dev *dev;
    void *stream;
    int64_t time_ms;
    _Atomic uint32_t *written, *awaited; /* words */
};

static bool is_written(const struct trial *t)
{
    return atomic_load_explicit(t->written, memory_order_acquire) == 1;
}

static bool is_ready(const struct trial *t)
{
    return t->dev->stream.query(t->stream) != TT_DEV_NOT_READY;
}

static bool comes_until(const struct trial *t, bool (*is_over)(const struct trial *), int64_t until)
{
    struct tt_wait w;
    bool over;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (!(over = is_over(t)) && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    return over;
}

static bool comes(const struct trial *t, bool (*is_over)(const struct trial *))
{
    return comes_until(t, is_over, tt_deadline_ns(t->time_ms));
}

static int64_t time_of(const struct tt_device *d)
{
    int64_t time_ms = d->comm->waiting.timeout_ms;
    return time_ms < 0 || time_ms > MOST_MS ? MOST_MS : time_ms < LEAST_MS ? LEAST_MS : time_ms;
}

/* Returns what is wrong; NULL: nothing. Sets *error if the device itself gives one. */
static const char *try_on(const struct tt_device *d, const struct trial *t, enum tt_dev_error *error)
{
    const struct tt_dev *dev = d->dev;
    *error = dev->write_word(t->stream, tt_device_seen(d, t->written), 1);
    if (*error == TT_DEV_OK)
        *error = dev->wait_word(t->stream, tt_device_seen(d, t->awaited), 1);
    const char *wrong = *error != TT_DEV_OK ? dev->why() : NULL;
    if (wrong == NULL && !comes(t, is_written))
        wrong = "a word that one wrote was not seen";
    else if (wrong == NULL && comes_until(t, is_ready, tt_now_ns() + PENDING_NS))
        wrong = "a wait was over before its word was written";
    atomic_store_explicit(t->awaited, 1, memory_order_release);
    if (!comes(t, is_ready) && wrong == NULL)
        wrong = "a wait did not end when its word was written";
    if (wrong != NULL)
        return wrong;
    *error = dev->stream.query(t->stream);
    return *error != TT_DEV_OK ? dev->why() : NULL;
}

static uint64_t bit_of(const struct tt_device *d)
{
    return d->number < DEVICES ? UINT64_C(1) << d->number : 0;
}

/* The communicator is made without words, if only kernels and copies have to serve it. */
static tutti_status do_without(struct tt_device *d, const char *why)
{
    d->lacks.words = strdup(why);
    return d->lacks.words != NULL ? TUTTI_OK
                                  : tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for device %d", d->number);
}

static tutti_status lack(const struct tt_device *d, const char *why, const char *alone)
{
    struct tt_dev_facts facts;
    bool known = d->dev->facts(d->number, &facts) == TT_DEV_OK;
    return tt_fail(TUTTI_UNSUPPORTED,
        "device %d (%s): its streams cannot write words of memory and wait for them: %s; so neither the host "
        "nor a leader's kernel (executors H, W) serves its calls, and one kernel for all ranks (L) does not: "
        "%s; legal: up to %d ranks of one process on that device, or device none, and calls on memory of the "
        "host",
        d->number, known ? facts.name : "unknown", why, alone, TT_LOCAL_RANKS);
}

tutti_status tt_device_know_words(struct tt_device *d, const struct tt_dev_facts *facts)
{
    if (!facts->words)
        return do_without(d, "it shares the host's memory");
    if ((atomic_load(&stuck) & bit_of(d)) != 0)
        return lack(d, "that was tried before in this process", "a stream of it has not ended since");
    if ((atomic_load(&disproven) & bit_of(d)) != 0)
        return do_without(d, "that was tried before in this process");
    return TUTTI_OK;
}

/* What was found out, of a trial on whose stream nothing is left. */
static tutti_status note(struct tt_device *d, const char *wrong)
{
    atomic_fetch_or(wrong != NULL ? &disproven : &proven, bit_of(d));
    return wrong != NULL ? do_without(d, wrong) : TUTTI_OK;
}

static tutti_status give_up(const struct tt_device *d, const char *wrong)
{
    atomic_fetch_or(&stuck, bit_of(d));
    return lack(d, wrong, "a stream of it does not end");
}

tutti_status tt_device_try_words(struct tt_device *d)
{
    struct trial t = {
        .dev = d->dev, .time_ms = time_of(d), .written = &d->words[0].ready, .awaited = &d->words[0].done
    };
    if (d->lacks.words != NULL || (atomic_load(&proven) & bit_of(d)) != 0)
        return TUTTI_OK;
    atomic_store(t.written, 0);
    atomic_store(t.awaited, 0);
    if (d->dev->stream.create(&t.stream) != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "no stream of device %d: %s", d->number, d->dev->why());
    enum tt_dev_error error = TT_DEV_OK;
    const char *wrong = try_on(d, &t, &error);
    tutti_status status;
    if (error != TT_DEV_OK && error != TT_DEV_UNSUPPORTED)
        status = tt_fail(TUTTI_DEVICE_ERROR, "device %d: %s", d->number, wrong);
    else if (wrong == NULL || is_ready(&t))
        status = note(d, wrong);
    else
        status = give_up(d, wrong);
    if (!is_ready(&t)) /* what is still under way has the words, so these stay until it is over */
        d->ordered = d->dev->event.record(d->order_event, t.stream, false) == TT_DEV_OK;
    d->dev->stream.destroy(t.stream);
    return status;
}

/* --- Without words */

/* NULL: one kernel can do a collective of these ranks. */
static const char *not_local(const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    if (comm->settings.executor == TT_EXECUTOR_HOST)
        return "the setting executor is host";
    if (comm->n > TT_LOCAL_RANKS)
        return "there are more ranks";
    for (int r = 0; r < comm->n; r++) {
        const struct tt_device_info *info =
            (const struct tt_device_info *)(const void *)((const uint8_t *)infos + (size_t)r * stride);
        if (!info->present || memcmp(info->address, infos->address, sizeof info->address) != 0)
            return "not all ranks are on one device";
        if (memcmp(info->arena, infos->arena, sizeof info->arena) != 0)
            return "not all ranks are in one process";
        if (info->context != infos->context)
            return "ranks are in several contexts";
    }
    return NULL;
}

tutti_status tt_device_check_words(
    const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    const struct tt_device *d = comm->device;
    const char *why = d->lacks.words != NULL ? not_local(comm, infos, stride) : NULL;
    return why == NULL ? TUTTI_OK : lack(d, d->lacks.words, why);
}

enum tt_dev_error tt_device_tell(
    const struct tt_device *d, void *stream, _Atomic uint32_t *word, uint32_t value, uint32_t *blocks_over)
{
    if (d->lacks.words == NULL)
        return d->dev->write_word(stream, tt_device_seen(d, word), value);
    struct tt_fused_params params = {
        .divisor = 1, .blocks_over = blocks_over, .over = tt_device_seen(d, word), .over_value = value
    };
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = 1,
        .grid_y = 1,
        .block = WARP,
        .params = &params,
        .params_bytes = sizeof params };
    return d->dev->launch(&launch, stream);
}

tutti_status tt_device_need_words(const struct tt_device *d, const char *call, const char *why)
{
    return tt_fail(TUTTI_UNSUPPORTED,
        "%s: %s, so no kernel or copy does it; and the host cannot serve calls of rank %d on device %d, "
        "whose "
        "streams cannot wait for words of memory: %s",
        call, why, d->comm->rank, d->number, d->lacks.words);
}

tutti_status tt_device_check_wordless(const struct tt_call *call)
{
    const struct tt_comm *comm = call->comm;
    const struct tt_collective_row *row = &tt_collectives[call->collective];
    const struct tt_local_call mine = tt_local_call_of(call);
    const char *why = NULL;
    unsigned side = call->collective == TT_P2P_SEND ? TT_IN : TT_OUT;
    if (!row->p2p)
        why = tt_local_why_not(&mine);
    else if (!tt_pair_decides(comm, call))
        why = "there was no memory for its messages";
    else if (!call->staged[side] && tt_call_bytes(call, side) > 0)
        why = "its buffer is not memory of the device, nor managed";
    return why == NULL ? TUTTI_OK : tt_device_need_words(comm->device, row->name, why);
}
