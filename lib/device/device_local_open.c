/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local_open.c: what ranks of one process on one device share: made when they are connected, for it
 * may wait for all that the device does, and freed by the last of them. */
#include "device/device_local.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { LINE = 64 };

static enum tt_dev_error make(struct tt_local_kernel *local)
{
    const struct tt_dev *dev = local->dev;
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

/* --- Messages */

static enum tt_dev_error make_ready(const struct tt_device *d, struct tt_pairs *p)
{
    void *counted = NULL;
    enum tt_dev_error error = d->dev->event.create(false, &p->ready);
    if (error != TT_DEV_OK || d->lacks.words == NULL)
        return error;
    error = d->dev->memory.alloc(LINE, &counted);
    p->blocks_over = counted;
    return error == TT_DEV_OK ? tt_device_memory_clear(d->dev, counted, LINE) : error;
}

tutti_status tt_pairs_create(const struct tt_comm *comm, struct tt_pairs **created)
{
    const struct tt_device *d = comm->device;
    struct tt_pairs *p = calloc(1, sizeof *p + d->ngates * sizeof p->pairs[0]);
    int before;
    if (p == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for messages on device %d", d->number);
    p->dev = d->dev;
    p->gates = d->ngates;
    tutti_status status = tt_device_enter(d, &before);
    if (status != TUTTI_OK) {
        free(p);
        return status;
    }
    if (make_ready(d, p) == TT_DEV_OK) {
        *created = p;
    } else {
        status = tt_fail(TUTTI_DEVICE_ERROR, "no event of device %d: %s", d->number, d->dev->why());
        tt_pairs_free(p, true);
    }
    tt_device_leave(d, before);
    return status;
}

static struct tt_pair *make_pair(const struct tt_dev *dev)
{
    struct tt_pair *pair = aligned_alloc(_Alignof(struct tt_pair), sizeof *pair);
    if (pair == NULL)
        return NULL;
    *pair = (struct tt_pair){ 0 };
    if (dev->event.create(false, &pair->done) == TT_DEV_OK)
        return pair;
    free(pair);
    return NULL;
}

static void free_pair(const struct tt_dev *dev, struct tt_pair *pair)
{
    if (pair == NULL)
        return;
    dev->event.destroy(pair->done);
    free(pair);
}

/* Messages one way. */
static bool link_to(struct tt_pairs *sender, int from, struct tt_pairs *receiver, int to)
{
    struct tt_pair *pair = make_pair(sender->dev);
    if (pair == NULL)
        return false;
    atomic_store(&sender->pairs[tt_device_gate(to, false)], pair);
    atomic_store(&receiver->pairs[tt_device_gate(from, true)], pair);
    return true;
}

bool tt_pairs_link(struct tt_pairs *mine, int me, struct tt_pairs *other, int rank)
{
    return link_to(mine, me, other, rank) && (mine == other || link_to(other, rank, mine, me));
}

/* The sender's table is the one that has a pair. */
void tt_pairs_free(struct tt_pairs *p, bool all)
{
    if (p == NULL)
        return;
    for (uint32_t gate = 1; gate < p->gates; gate += 2)
        free_pair(p->dev, atomic_load(&p->pairs[gate]));
    if (all && p->blocks_over != NULL)
        p->dev->memory.free(p->blocks_over);
    if (p->ready != NULL)
        p->dev->event.destroy(p->ready);
    free(p);
}
