/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h: the way of a call from its check to its end: what the files between the public functions and the
 * executor have for each other. */
#ifndef TT_RUN_H
#define TT_RUN_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call/call.h"
#include "run/comm.h"

/* Everything that can be told from this rank's arguments alone; the second part is what concerns counts,
 * displacements and buffers. */
tutti_status tt_call_check(struct tt_call *call);
tutti_status tt_call_check_buffers(struct tt_call *call);
/* Returns how many bytes there are from the pointer to the last one that a checked call reads (TT_IN) or
 * writes (TT_OUT) at this rank. */
uint64_t tt_call_bytes(const struct tt_call *call, int side);

/* Fails with INVALID_USAGE if an algorithm is forced that cannot serve this checked call. */
tutti_status tt_call_choose(const struct tt_call *call);
/* What the choice of its algorithm is made by. */
struct tt_request tt_call_request(const struct tt_call *call);
/* How long a call is predicted to take on host memory, in femtoseconds; 0: nothing serves it (price.c). */
uint64_t tt_request_price(const struct tt_request *request);
uint64_t tt_call_price(const struct tt_call *call);
/* Gives the key of this call's schedule. Fails if a forced algorithm cannot serve. */
tutti_status tt_call_key(const struct tt_call *call, struct tt_key *key);
/* Makes what running this call needs (schedule, room for the operation, TMP), so that a group fails before it
 * starts. What is the call's own is bound to it as well. */
tutti_status tt_call_prepare(const struct tt_call *call);
/* Gives the call a prepared call of its own, which no other pushes out; others may run meanwhile. */
tutti_status tt_call_own(struct tt_call *call);
/* Takes the call's own prepared call from it again. */
void tt_call_release(struct tt_call *call);
/* Binds a prepared call to this one, and starts its operation. After tt_call_prepare it fails only if that
 * was pushed out and there is no memory to build it again. */
tutti_status tt_call_start(const struct tt_call *call, struct tt_op **op);
/* Returns what a barrier sends: its IN. */
const void *tt_barrier_token(void);

/* Returns which of its communicator's 1 + 2n kinds of calls one is: collectives (peer TT_NONE), or messages
 * from, or to, each rank. Those of a kind have one order. */
static inline int tt_call_kind(const struct tt_comm *comm, int peer, bool sends)
{
    return peer == TT_NONE ? 0 : 1 + (sends ? comm->n : 0) + peer;
}

/* Returns a hash that is equal at all ranks if they called the same. */
uint64_t tt_call_hash(const struct tt_call *call, unsigned algorithm, uint32_t slices);
static inline uint64_t tt_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}
/* Returns a hash of all collectives of a communicator, up to and with the next one, which has this hash. Each
 * message of a collective is marked with that. So a rank that calls another thing than its peers, even where
 * nobody waits for it (a root too many, a count of 0, another order), is found by the next message that it
 * receives or sends. */
static inline uint64_t tt_call_history(const struct tt_comm *comm, uint64_t hash)
{
    return tt_hash_mix(comm->numbers.history, hash);
}
/* 32 bits of a hash, never 0. */
static inline uint32_t tt_hash_short(uint64_t hash)
{
    return (uint32_t)hash | 1;
}
/* Fills in what peers may read of this call. */
void tt_call_record(const struct tt_call *call, const struct tt_op *op, struct tt_call_record *record);
/* Ends a call whose operation is over, or given up; `soon`: it is done, and nothing was waited for. */
void tt_call_end(const struct tt_call *call, struct tt_op *op, bool soon);

/* Lets the peers of a call that cannot be made, who would wait for it, find that out (refuse.c). `status`
 * says why, a local one, and so does the thread's last error. Returns status. Does nothing for a communicator
 * that has ended, or for any other status. */
tutti_status tt_call_refuse(const struct tt_call *call, tutti_status status);
/* Refuses a split or a finalize, which are collectives as well, as tt_call_refuse does a call. */
tutti_status tt_comm_refuse(struct tt_comm *comm, tutti_status status);
/* Refuses a call that got no further than the caller: a collective (peer TT_NONE), or one with that peer. */
void tt_comm_tell_refusal(struct tt_comm *comm, int peer, const char *why);
/* `tell` lets the peers know what a rank refused while its streams were busy (refuse.c), as the streams are
 * done; `drop` forgets it, as another call was queued. Both are called with the lock held. */
void tt_refusals_tell(struct tt_comm *comm);
void tt_refusals_drop(struct tt_comm *comm);
/* Takes refusals back when a call starts: what was refused before holds up nobody any more. */
void tt_refusals_take_back(struct tt_comm *comm);
static inline struct tt_refused *tt_refused_of(const struct tt_comm *comm, int peer, bool sends)
{
    return &comm->refusals.calls[tt_call_kind(comm, peer, sends)];
}

struct tt_arrays { /* room for what a call points to; {0}: none */
    size_t *words;
    size_t room; /* of them */
};
/* The call points to copies, in this room, of its arrays, its operator and its staging: their owners may free
 * them (batch.c). False if there is no memory for more room; then nothing has changed. */
bool tt_call_keep_arrays(struct tt_call *call, struct tt_arrays *arrays);

struct tt_pending {
    struct tt_call call;
    struct tt_pending *next; /* of those that are polled, or that wait for their turn (run.c) */
    struct tt_op *op; /* NULL: not started */
    uint32_t skip; /* the units before this step are done when it starts (fast_path.c) */
    bool over, done; /* it has ended; it has ended well */
    bool suspect; /* at the last look the peer that this call waits for was gone, or past it, */
    bool missed; /* or some rank had gone without having completed it */
    bool told; /* the log has said whom it waits for */
    int64_t refused_ms; /* a peer refused it: 1 + how long nothing had moved when that was seen; 0: no */
    struct tt_arrays arrays; /* of a batch: what the call points to */
};
/* It may begin, for the first time or again: nothing has been seen of it. */
static inline void tt_pending_renew(struct tt_pending *p)
{
    p->op = NULL;
    p->over = p->done = p->suspect = p->missed = p->told = false;
    p->refused_ms = 0;
}

/* Calls that are kept to run together, with copies of their arrays (batch.c). {0} is empty; with count set
 * to 0 it is empty again and keeps its memory. */
struct tt_batch {
    struct tt_pending *calls;
    int count, capacity;
};
tutti_status tt_batch_add(struct tt_batch *batch, const struct tt_call *call);
/* Bring sends and receives of a rank with itself together; an error if one is left alone. */
tutti_status tt_batch_meet(struct tt_batch *batch);
/* Refuses all these calls, as tt_call_refuse does one. */
tutti_status tt_batch_refuse(const struct tt_batch *batch, tutti_status status);
void tt_batch_free(struct tt_batch *batch);

/* Runs calls to their end. Collectives of one communicator run one after the other, everything else at once.
 * The first failure of a communicator ends all its calls; returns the first failure. */
tutti_status tt_run(struct tt_pending *pending, int count);
/* Runs calls as tt_run does, on a worker of the library's own, where no on_wait is run. */
tutti_status tt_run_on_worker(struct tt_pending *pending, int count);

/* This thread is the library's own, and makes calls for a caller's: no on_wait is run here from now on. */
void tt_run_for_another(void);

/* Looks for what ends a long wait (fault.c): a call of a peer that differs, a peer that is gone, a deadline.
 * TUTTI_OK: go on. */
tutti_status tt_fault_inspect(struct tt_pending *pending, int64_t stalled_ms);
/* Ranks that seem to wait for each other. */
struct tt_circle {
    int length; /* of those in comm->waiting.circle; 0: none is seen */
    bool marked; /* the marks have the looks that all had taken when all were in it */
};
/* The calls that are not over have waited long: in which messages, for their peers to see (fault_wait.c), and
 * that they wait no more. A circle that cannot open any more ends the communicator. */
void tt_fault_tell_waits(const struct tt_pending *pending, int count, struct tt_circle *circle);
void tt_fault_tell_moved(const struct tt_pending *pending, int count);
/* ", which waits in ..." of a peer that is waited for; "" if it does not tell. */
void tt_fault_name_call(const struct tt_pending *pending, int peer, char *text, size_t bytes);
/* Nothing has moved for so long that the log is to say, once a call, whom this one waits for. */
bool tt_fault_is_slow(const struct tt_comm *comm, int64_t stalled_ms);
void tt_fault_tell_slow(struct tt_pending *pending, int64_t stalled_ms);
/* The same of a call that waits for ranks of this process before it may start. */
void tt_fault_tell_undecided(const struct tt_call *call, int64_t ms);
/* The executor gave up: tell why, on all ranks. */
tutti_status tt_fault_of_op(const struct tt_pending *pending);

#endif
