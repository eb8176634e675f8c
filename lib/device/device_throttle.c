/* SPDX-License-Identifier: BSD-3-Clause */
/* device_throttle.c: how much of a communicator's work may stand in its device's queues. */
#include "base/wait.h"
#include "device/device.h"

static void pass(struct tt_device *d)
{
    for (; d->marks.count > 0; d->marks.count--, d->marks.first = (d->marks.first + 1) % TT_DEVICE_MARKS) {
        const struct tt_device_mark *m = &d->marks.ring[d->marks.first];
        if ((int32_t)(atomic_load_explicit(m->done, memory_order_acquire) - m->value) < 0)
            return;
        d->completed = m->enqueued;
    }
}

/* Makes a mark, unless there is no room for another one: a later one says the same. */
void tt_device_mark(struct tt_device *d, const _Atomic uint32_t *done, uint32_t value)
{
    if (d->marks.count == TT_DEVICE_MARKS)
        pass(d);
    if (d->marks.count == TT_DEVICE_MARKS)
        return;
    uint32_t next = (d->marks.first + d->marks.count++) % TT_DEVICE_MARKS;
    d->marks.ring[next] = (struct tt_device_mark){ d->enqueued, done, value };
}

/* This wait ends: a gate tells all its slices at the latest when its call fails. */
void tt_device_throttle(struct tt_device *d, uint32_t pieces)
{
    struct tt_wait w;
    if (d->enqueued + pieces - d->completed <= TT_DEVICE_ENQUEUED)
        return;
    tt_wait_begin(&w, tt_wait_policy_for(1), NULL, 0);
    tt_wait_look(&w, true);
    for (pass(d); d->marks.count > 0 && d->enqueued + pieces - d->completed > TT_DEVICE_ENQUEUED; pass(d))
        tt_wait_idle(&w);
    tt_wait_awake(&w);
}
