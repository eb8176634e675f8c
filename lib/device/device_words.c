/* SPDX-License-Identifier: BSD-3-Clause */
/* device_words.c: can streams of this device write words of pinned memory, and wait for them?
 *
 * All that a communicator does on a device stands on that, and no runtime tells whether it works: behind some
 * hypervisors the functions are refused, and on some devices a wait passes at once or never. So it is tried,
 * on a stream that nobody else has, by the first communicator of a process on the device: there a refusal
 * costs nobody anything, while in the middle of a call it ends the communicator on all ranks. Nothing is
 * enqueued behind a wait that is not over, for that is what a device that cannot do it may never return
 * from; and where one never ended, nothing is asked of the device again. */
#include "device/device.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/wait.h"

/* The stream may share its queue with one on which long kernels run, so it has the communicator's time,
 * within bounds; a wait that is none has passed soon. */
enum { LEAST_MS = 2000, MOST_MS = 30000, PENDING_NS = 1000000, DEVICES = 64 };
static _Atomic uint64_t proven; /* a bit for each of the first devices */
static _Atomic uint64_t disproven; /* likewise */

struct trial {
    const struct tt_dev *dev;
    void *stream;
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

static bool comes(const struct trial *t, bool (*is_over)(const struct trial *), int64_t until)
{
    struct tt_wait w;
    bool over;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    while (!(over = is_over(t)) && tt_now_ns() < until)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    return over;
}

static uint32_t *as_device_sees(const struct tt_device *d, const _Atomic uint32_t *word)
{
    return (uint32_t *)(d->pinned_seen + ((const uint8_t *)word - d->pinned));
}

/* Returns what is wrong; NULL: nothing. Sets *error if the device itself gives one. */
static const char *try_on(const struct tt_device *d, const struct trial *t, enum tt_dev_error *error)
{
    const struct tt_dev *dev = d->dev;
    int64_t time_ms = d->comm->waiting.timeout_ms;
    int64_t until = tt_deadline_ns(time_ms < 0 || time_ms > MOST_MS ? MOST_MS
                                   : time_ms < LEAST_MS             ? LEAST_MS
                                                                    : time_ms);
    *error = dev->write_word(t->stream, as_device_sees(d, t->written), 1);
    if (*error == TT_DEV_OK)
        *error = dev->wait_word(t->stream, as_device_sees(d, t->awaited), 1);
    if (*error != TT_DEV_OK)
        return dev->why();
    const char *wrong = NULL;
    if (!comes(t, is_written, until))
        wrong = "a word that one wrote was not seen";
    else if (comes(t, is_ready, tt_now_ns() + PENDING_NS))
        wrong = "a wait was over before its word was written";
    atomic_store_explicit(t->awaited, 1, memory_order_release);
    if (!comes(t, is_ready, until) && wrong == NULL)
        wrong = "a wait did not end when its word was written";
    if (wrong == NULL)
        *error = dev->stream.query(t->stream);
    return *error != TT_DEV_OK ? dev->why() : wrong;
}

static uint64_t bit_of(const struct tt_device *d)
{
    return d->number < DEVICES ? UINT64_C(1) << d->number : 0;
}

static tutti_status lack(const struct tt_device *d, const char *name, const char *why)
{
    return tt_fail(TUTTI_UNSUPPORTED,
        "device %d (%s): its streams cannot write words of memory and wait for them: %s; legal: device none, "
        "and calls on memory of the host",
        d->number, name, why);
}

tutti_status tt_device_know_words(const struct tt_device *d, const struct tt_dev_facts *facts)
{
    if (!facts->words)
        return lack(d, facts->name, "it shares the host's memory");
    if ((atomic_load(&disproven) & bit_of(d)) != 0)
        return lack(d, facts->name, "that was tried before in this process");
    return TUTTI_OK;
}

tutti_status tt_device_try_words(struct tt_device *d, const struct tt_dev_facts *facts)
{
    struct trial t = { .dev = d->dev, .written = &d->words[0].ready, .awaited = &d->words[0].done };
    if ((atomic_load(&proven) & bit_of(d)) != 0)
        return TUTTI_OK;
    atomic_store(t.written, 0);
    atomic_store(t.awaited, 0);
    if (d->dev->stream.create(&t.stream) != TT_DEV_OK)
        return tt_fail(TUTTI_DEVICE_ERROR, "no stream of device %d: %s", d->number, d->dev->why());
    enum tt_dev_error error = TT_DEV_OK;
    const char *wrong = try_on(d, &t, &error);
    tutti_status status = TUTTI_OK;
    if (error != TT_DEV_OK && error != TT_DEV_UNSUPPORTED) {
        status = tt_fail(TUTTI_DEVICE_ERROR, "device %d: %s", d->number, wrong);
    } else if (wrong != NULL) {
        atomic_fetch_or(&disproven, bit_of(d));
        status = lack(d, facts->name, wrong);
    } else {
        atomic_fetch_or(&proven, bit_of(d));
    }
    if (status != TUTTI_OK) /* what is still under way has the words, so these stay until it is over */
        d->ordered = d->dev->event.record(d->order_event, t.stream, false) == TT_DEV_OK;
    d->dev->stream.destroy(t.stream);
    return status;
}
