/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.c: what ranks tell each other of their devices when they connect, and what they make of it: who
 * leads where several processes share one (device/device_led.h), and whether kernels of several devices
 * meet (spin/spin.h). */
#include <stdlib.h>

#include "comm/lifecycle.h"
#include "device/device_led.h"

tutti_status tt_comm_tell_device(const struct tt_comm *comm, struct tt_device_info *info)
{
    int before;
    tt_led_tell(comm->device, info);
    if (comm->device == NULL)
        return TUTTI_OK;
    struct tt_spin_setup setup = tt_device_spin_setup(comm->device);
    tutti_status status = tt_device_enter(comm->device, &before);
    if (status != TUTTI_OK)
        return status;
    tt_spin_tell(&setup);
    tt_device_leave(comm->device, before);
    return TUTTI_OK;
}

static tutti_status connect_spin(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    struct tt_spin_peer peers[TT_SPIN_RANKS] = { { 0 } };
    struct tt_device *d = comm->device;
    struct tt_spin_setup setup = tt_device_spin_setup(d);
    uint64_t at = (uint64_t)((uint8_t *)setup.row - d->pinned);
    for (int r = 0; r < comm->n && comm->n <= TT_SPIN_RANKS; r++) {
        const struct tt_device_info *info =
            (const struct tt_device_info *)(const void *)((const uint8_t *)infos + (size_t)r * stride);
        peers[r] = (struct tt_spin_peer){ .present = info->present != 0,
            .address = info->address,
            .arena = info->arena,
            .offset = info->offset + at,
            .process = &info->process };
    }
    return tt_spin_connect(&setup, peers, &d->spin);
}

tutti_status tt_comm_check_devices(
    const struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    return comm->device != NULL ? tt_device_check_words(comm, infos, stride) : TUTTI_OK;
}

tutti_status tt_comm_connect_devices(struct tt_comm *comm, const struct tt_device_info *infos, size_t stride)
{
    tutti_status status = tt_led_connect(comm, infos, stride);
    return status == TUTTI_OK && comm->device != NULL ? connect_spin(comm, infos, stride) : status;
}

void tt_comm_open_devices(struct tt_comm *const *comms, int count)
{
    struct tt_spin *spins[TT_SPIN_RANKS];
    int n = 0;
    for (int i = 0; i < count && count <= TT_SPIN_RANKS; i++)
        if (comms[i]->device != NULL && comms[i]->device->spin != NULL)
            spins[n++] = comms[i]->device->spin;
    if (n > 0 && n == count)
        tt_spin_open(spins, n);
    for (int i = 0; i < n && n == count; i++)
        if (spins[i]->serves) {
            if (spins[i]->maps)
                comms[i]->device->exporters = spins[i]->hands->exporters;
            tt_watch_spin(comms[i]->device);
        }
}
