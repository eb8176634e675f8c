/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local_open.c: what ranks of one process on one device share: made when they are connected, for it
 * may wait for all that the device does, and freed by the last of them. */
#include "device/device_local.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

static enum tt_dev_error make(struct tt_local_kernel *local)
{
    const struct tt_dev *dev = local->dev;
    enum { LINE = 64 };
    void *counted = NULL, *over = NULL;
    enum tt_dev_error error = dev->preload();
    for (int r = 0; r < local->n && error == TT_DEV_OK; r++)
        error = dev->event.create(false, &local->ready[r]);
    if (error == TT_DEV_OK)
        error = dev->event.create(false, &local->done);
    if (error == TT_DEV_OK)
        error = dev->memory.alloc_pinned(LINE, &over);
    local->over = over;
    if (error == TT_DEV_OK)
        error = dev->memory.alloc(LINE, &counted);
    local->blocks_over = counted;
    return error == TT_DEV_OK ? tt_device_memory_clear(dev, counted, LINE) : error; /* it counts from 0 */
}

tutti_status tt_local_create(const struct tt_comm *comm, struct tt_local_kernel **made)
{
    const struct tt_device *d = comm->device;
    struct tt_local_kernel *local = aligned_alloc(_Alignof(struct tt_local_kernel), sizeof *local);
    if (local == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for the ranks of device %d", d->number);
    memset(local, 0, sizeof *local);
    local->dev = d->dev;
    local->n = comm->n;
    atomic_init(&local->turn, 2);
    if (make(local) != TT_DEV_OK) {
        tutti_status status = tt_fail(TUTTI_DEVICE_ERROR,
            "device %d cannot serve ranks of one process by a kernel: %s", d->number, d->dev->why());
        tt_local_free(local, true);
        return status;
    }
    atomic_init(local->over, 0);
    *made = local;
    return TUTTI_OK;
}

void tt_local_free(struct tt_local_kernel *local, bool all)
{
    const struct tt_dev *dev = local->dev;
    for (int r = 0; r < local->n; r++)
        if (local->ready[r] != NULL)
            dev->event.destroy(local->ready[r]);
    if (local->done != NULL)
        dev->event.destroy(local->done);
    if (all && local->blocks_over != NULL)
        dev->memory.free(local->blocks_over);
    if (all && local->over != NULL)
        dev->memory.free_pinned((void *)local->over);
    free(local);
}
