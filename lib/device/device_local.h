/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local.h: collectives of ranks that one process has on one device, as one kernel: executor L.
 *
 *     stream 0:  ... | event 0 |            | wait done | ...
 *     stream 1:  ... | event 1 | wait 0 | kernel | done | ...
 *
 * Each rank says on the host what it calls and records an event. The last one decides: if they have called
 * the same, and the device reaches all that they have passed, it enqueues one kernel behind all events, on
 * its own stream, and all streams wait for its end. Else the call is served as ever (device.h). So what is
 * decided is the same on all ranks, and nobody has to agree on it beforehand.
 *
 * The call stands in the queue of each rank's worker all the same, which numbers and records it, compares it,
 * watches its deadline until the last rank has called, and then waits for the kernel's last word. */
#ifndef TT_DEVICE_LOCAL_H
#define TT_DEVICE_LOCAL_H
#include "base/wait.h"
#include "device/device.h"

enum {
    TT_LOCAL_RANKS = 8, /* that one kernel serves */
    TT_LOCAL_DECISIONS = 1024 /* more than calls that a worker may not have looked at (device_submit.c) */
};
_Static_assert(
    (int)TT_DEVICE_ENQUEUED < (int)TT_LOCAL_DECISIONS, "a decision stays until it has been looked at");

struct tt_local_call { /* of one rank; stays until tt_local_await returns */
    const struct tt_call *call;
    bool in_place, staged[2]; /* as the caller passed the buffers */
    void *stream;
    uint64_t number; /* of this communicator's calls on which ranks decide, from 1 on */
    bool captured;
    bool reached; /* by the device: all that the call was given; set by tt_local_arrive */
};

struct tt_local_kernel {
    struct tt_doorbell decided;
    const struct tt_dev *dev;
    int n;
    void *ready[TT_LOCAL_RANKS], *done; /* events */
    uint32_t *blocks_over; /* in the device's memory */
    _Atomic uint32_t *over; /* pinned: how many kernels have ended */
    uint32_t launches;
    int last; /* the rank that decided */
    _Atomic uint64_t arrived; /* n for each call */
    _Atomic uint64_t turn; /* 2c: call c is open; 2c + 1: its last rank decides and enqueues */
    const struct tt_local_call *calls[TT_LOCAL_RANKS];
    struct tt_decision decisions[TT_LOCAL_DECISIONS];
};

/* What a communicator's ranks share for this; the last of them to join makes it. Not while streams of the
 * process wait, and with the device entered. `free`: false leaves what streams may still use. */
tutti_status tt_local_create(const struct tt_comm *comm, struct tt_local_kernel **local);
void tt_local_free(struct tt_local_kernel *local, bool all);

/* True if a collective on this communicator is decided on so. */
bool tt_local_decides(const struct tt_comm *comm);
/* Sets where the gate of this call finds what is decided. */
void tt_local_gate(struct tt_device *device, uint64_t number, struct tt_gate *gate);
/* True if a kernel can do this collective of a group that is being captured, which has the calls of all
 * ranks: then it is the graph's, and no worker has to do with its replays. */
bool tt_local_captures(const struct tt_batch *batch, int index);

/* This rank has called. The last one decides, and enqueues the kernel. */
tutti_status tt_local_arrive(struct tt_comm *comm, struct tt_local_call *call);
/* Waits until it is decided. *by_kernel: this rank's stream waits for the kernel now; false: the call is
 * still to be done. After an error no kernel stores into this rank's buffers that its stream does not wait
 * for. */
tutti_status tt_local_await(struct tt_comm *comm, const struct tt_local_call *call, bool *by_kernel);

#endif
