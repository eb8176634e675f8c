/* SPDX-License-Identifier: BSD-3-Clause */
/* device_local.h: calls between ranks that one process has on one device: executor L. A collective is one
 * kernel, and a message one copy.
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
    TT_PAIR_RANKS = 128, /* of a communicator whose messages are decided on */
    TT_LOCAL_DECISIONS = 1024 /* more than calls that a worker may not have looked at (device_stage.c) */
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
    /* Of a message: set by tt_pair_arrive. */
    bool first; /* of its ends */
    uint64_t index; /* of its pair, one way */
    void *ready; /* event: at this end all is enqueued that comes before it */
};

/* The call as it was passed, before it is staged. */
static inline struct tt_local_call tt_local_call_of(const struct tt_call *call)
{
    return (struct tt_local_call){
        .call = call, .in_place = call->in_place, .staged = { call->staged[TT_IN], call->staged[TT_OUT] }
    };
}

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
/* What is in this rank's collective, as it was passed, that keeps a kernel from doing it; NULL: nothing. With
 * the device entered. */
const char *tt_local_why_not(const struct tt_local_call *call);
/* True if a kernel can do this collective of a group that is being captured, which has the calls of all
 * ranks: then it is the graph's, and no worker has to do with its replays. */
bool tt_local_captures(const struct tt_batch *batch, int index);

/* This rank has called. The last one decides, and enqueues the kernel. */
tutti_status tt_local_arrive(struct tt_comm *comm, struct tt_local_call *call);
/* Waits until it is decided. *by_kernel: this rank's stream waits for the kernel now; false: the call is
 * still to be done. After an error no kernel stores into this rank's buffers that its stream does not wait
 * for. */
tutti_status tt_local_await(struct tt_comm *comm, const struct tt_local_call *call, bool *by_kernel);

/* --- Messages between two ranks of one process and device (device_pairs.c) */

struct tt_pair { /* of two ranks: messages one way */
    _Alignas(64) _Atomic uint64_t turn;
    bool copied; /* the last message that was decided */
    const struct tt_local_call *ends[2]; /* that have come: the sender's, the receiver's */
    void *done; /* event: at the end of the last copy */
};
struct tt_pairs { /* of a rank */
    const struct tt_dev *dev;
    void *ready; /* event */
    uint32_t *blocks_over; /* in the device's memory, where kernels tell in place of words; else NULL */
    uint32_t gates;
    uint64_t messages; /* that were to be decided on */
    struct tt_decision decisions[TT_LOCAL_DECISIONS];
    _Atomic(struct tt_pair *) pairs[]; /* by gate; NULL: the other rank is not here */
};
/* Made and freed with the device entered, as what kernels have is; `all`: false leaves what streams may still
 * use. `link` two ranks; false: there is no memory, and their messages go by the host. */
tutti_status tt_pairs_create(const struct tt_comm *comm, struct tt_pairs **created);
bool tt_pairs_link(struct tt_pairs *mine, int me, struct tt_pairs *other, int rank);
void tt_pairs_free(struct tt_pairs *pairs, bool all);
/* True if the ends of this message decide how it goes. */
bool tt_pair_decides(const struct tt_comm *comm, const struct tt_call *call);
/* True if this message of a group that is being captured is a copy in the graph, which has both its ends. */
bool tt_pair_captures(const struct tt_batch *batch, int index);
/* Numbers a message, and sets where its gate finds what is decided; and takes the last number back. */
void tt_pair_begin(struct tt_comm *comm, struct tt_local_call *message, struct tt_gate *gate);
void tt_pair_return(struct tt_comm *comm);
/* This end has called. The second one decides, and enqueues the copy. */
tutti_status tt_pair_arrive(struct tt_comm *comm, struct tt_local_call *message);
bool tt_pair_is_decided(const struct tt_comm *comm, const struct tt_local_call *message);
/* Once it is: enqueues what this end waits for, and tells its worker. *copied: all is done; else the host has
 * it. `gate` may be NULL in a capture. */
tutti_status tt_pair_settle(
    struct tt_comm *comm, const struct tt_local_call *message, const struct tt_gate *gate, bool *copied);
/* This end, which has not settled a message, leaves, for the communicator has failed: from here on nothing
 * touches its buffer that its stream does not wait for. */
void tt_pair_leave(struct tt_comm *comm, const struct tt_local_call *message);

#endif
