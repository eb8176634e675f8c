/* SPDX-License-Identifier: BSD-3-Clause */
/* device.h: where a rank computes: on the processor, or on a device of its machine. */
#ifndef TRAINING_COMMANDS_DEVICE_H
#define TRAINING_COMMANDS_DEVICE_H

#include "training/backend/cuda.h"
#include "training/options.h"

struct tr_seat {
    const struct tr_kernels *kernels;
    tutti_comm *ranks; /* all of them, for calls on what the kernels work on; NULL: there is one */
    int64_t bytes; /* of the device, of which each rank that is on it has an equal part; 0: the processor */
    int devices; /* that all ranks have together; 0: the processor */
    struct tr_device device;
    bool own; /* `ranks` was made here */
};

/* Collective over world (NULL: one rank). Ranks of a machine take its devices by turns. No device, or one
 * that is not like those of the others, is an error. The seat must not move. */
bool tr_seat_take(struct tr_seat *s, const struct tr_options *o, tutti_comm *world, struct tr_error *e);
void tr_seat_leave(struct tr_seat *s);

#endif
