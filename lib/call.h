/* SPDX-License-Identifier: BSD-3-Clause */
/* call.h: one public call, as all layers see it: api fills it, check completes it, plan and bind read it. */
#ifndef TT_CALL_H
#define TT_CALL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "comm.h"
#include "gate.h"
#include "tutti.h"

struct tt_cached;

/* The longest vector, 8 TiB: what 64-bit byte arithmetic and 31-bit slice numbers hold, of 4 KiB each. */
#define TT_VECTOR_BYTES (UINT64_C(1) << 43)

/* How a buffer of n blocks is cut: elements of each, and where they stand (NULL: packed, in rank order). */
struct tt_blocks {
    const size_t *counts, *places;
};

/* Where a call on a device's stream has its operands and results (device.h). */
struct tt_staging {
    struct tt_gate gate;
    uint8_t
        *cells[2]; /* [TT_IN], [TT_OUT]: of the chunks that this rank has there; NULL: in the buffer itself */
};

struct tt_call {
    enum tt_collective collective;
    struct tt_comm *comm;
    const void *send;
    void *recv;
    size_t count; /* as in the signature: of the vector, the block or the message */
    bool count_in_blocks; /* the signature has none: the check takes it from the blocks */
    tutti_type type;
    tutti_op op;
    int root; /* p2p: the peer */
    struct tt_blocks blocks[2]; /* v-forms: [TT_IN] of send, [TT_OUT] of recv */
    tutti_stream stream;

    struct tt_plan *plan; /* of a program: its own; NULL: the communicator's cache has it */
    struct tt_entry *entry; /* in the recorder, of a call that was queued; set anew each time it is */
    struct tt_cached *cached; /* what is known of it, if it was made before; NULL: nothing */

    const struct tt_staging *staging; /* NULL: none; whoever keeps the call keeps a copy (batch.c) */

    bool met; /* p2p of this rank with itself: its group has the other end */

    /* Set by tt_call_check. */
    bool in_place;
    bool staged[2]; /* on a device's stream: send, recv is to be in cells of the device's pad */
    uint16_t element_bytes; /* of what no chunk or slice splits: of the type, or of a user operator */
    uint16_t unit; /* elements of the type in one of those */
    uint64_t total; /* elements of the whole vector; where only own counts are known, of what is sent */
    const struct tt_operator *created; /* of a created op; whoever keeps the call keeps a copy (batch.c) */
};

/* The rank's own operands are multiplied first: the schedule runs on a copy of them. */
static inline bool tt_call_scales(const struct tt_call *call)
{
    return call->created != NULL && call->created->kind == TT_OPERATOR_PRE_MUL_SUM;
}
/* The op, as all ranks name it. */
static inline uint32_t tt_call_shared_op(const struct tt_call *call)
{
    return call->created == NULL ? call->op : call->created->shared;
}

/* Each rank knows only its own counts. */
static inline bool tt_call_is_one_sided(const struct tt_call *call)
{
    return tt_collectives[call->collective].counts == TT_COUNTS_OWN;
}
/* The counts that all ranks know; NULL where there are none. */
static inline const size_t *tt_call_shared_counts(const struct tt_call *call)
{
    const struct tt_blocks *b = call->blocks;
    if (tt_call_is_one_sided(call))
        return NULL;
    return b[TT_OUT].counts != NULL ? b[TT_OUT].counts : b[TT_IN].counts;
}

/* Everything that can be told from this rank's arguments alone; the second part is what concerns counts,
 * places and buffers. */
tutti_status tt_call_check(struct tt_call *call);
tutti_status tt_call_check_buffers(struct tt_call *call);
/* From the pointer to the last byte that a checked call reads (TT_IN) or writes (TT_OUT) at this rank. */
uint64_t tt_call_bytes(const struct tt_call *call, int side);

/* check, then queue (in a group) or run and wait. What every collective's entry point calls. */
tutti_status tt_call_submit(struct tt_call *call);

/* "all_reduce of 1024 float32, sum" for messages; the record form is for calls of peers. */
void tt_call_describe(const struct tt_call *call, char *text, size_t bytes);
void tt_record_describe(const struct tt_call_record *record, char *text, size_t bytes);
/* The same of a call of this rank, whose created operators have a name: what tutti_op_create set. */
void tt_record_describe_own(const struct tt_call_record *record, tutti_op op, char *text, size_t bytes);
const char *tt_type_name(tutti_type type);
const char *tt_op_name(tutti_op op);

/* An algorithm serves this checked call; INVALID_USAGE if one is forced that cannot. */
tutti_status tt_call_choose(const struct tt_call *call);
/* What names the schedule of this call. Fails if a forced algorithm cannot serve. */
tutti_status tt_call_key(const struct tt_call *call, struct tt_key *key);
/* Make what running this call needs (schedule, room for the operation, TMP), so that a group fails before
 * it starts. */
tutti_status tt_call_prepare(const struct tt_call *call);
/* The same, with a plan of the call's own, which no other call pushes out; `own` makes the plan alone, while
 * other calls run; and give that back. */
tutti_status tt_call_own(struct tt_call *call);
tutti_status tt_call_keep(struct tt_call *call);
/* Bytes of one start of a call that is kept. Nothing of its communicator is under way. */
struct tt_cost tt_call_cost(const struct tt_call *call);
void tt_call_release(struct tt_call *call);
/* Bind the call to an operation and start that. After prepare it fails only if a plan was pushed out and
 * there is no memory to build it again. */
tutti_status tt_call_start(const struct tt_call *call, struct tt_op **op);
/* What a barrier sends: its IN. */
const void *tt_barrier_token(void);

/* Equal at all ranks if they called the same. */
uint64_t tt_call_hash(const struct tt_call *call, unsigned algorithm, uint32_t slices);
static inline uint64_t tt_hash_mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}
/* All collectives of a communicator, up to and with the next one, which has this hash. Each message of a
 * collective is marked with that: so who calls another thing than its peers, even where nobody waits for it
 * (a root too many, a count of 0, another order), is found by the next message that it receives or sends. */
static inline uint64_t tt_call_history(const struct tt_comm *comm, uint64_t hash)
{
    return tt_hash_mix(comm->history, hash);
}
/* 32 bits of a hash, never 0. */
static inline uint32_t tt_hash_short(uint64_t hash)
{
    return (uint32_t)hash | 1;
}
/* What its peers may read of it. */
void tt_call_record(const struct tt_call *call, const struct tt_op *op, struct tt_call_record *record);
/* The operation is over, or given up; `soon`: done, and nothing was waited for. */
void tt_call_end(const struct tt_call *call, struct tt_op *op, bool soon);

/* This call cannot be made, for `status`, a local one, and with the thread's last error as the reason: its
 * peers, who would wait for it, find that out (refuse.c). Returns status. Nothing of a communicator that has
 * ended, or of any other status. */
tutti_status tt_call_refuse(const struct tt_call *call, tutti_status status);
/* The same of split and finalize, which are collectives as well. */
tutti_status tt_comm_refuse(struct tt_comm *comm, tutti_status status);
/* The same of a call that got no further than the caller: a collective (peer TT_NONE), or with that peer. */
void tt_comm_tell_refusal(struct tt_comm *comm, int peer, const char *why);
/* A call starts, so what was refused before holds up nobody any more. */
void tt_refusals_take_back(struct tt_comm *comm);
struct tt_refused *tt_refused_of(
    const struct tt_comm *comm, int peer, bool sends); /* peer TT_NONE: collectives */

struct tt_pending {
    struct tt_call call;
    struct tt_op *op; /* NULL: not started */
    uint32_t skip; /* the units before this step are done when it starts (fast_path.c) */
    bool over;
    bool suspect; /* at the last look the peer that this call waits for was gone, or past it */
    int64_t refused_ms; /* a peer refused it: 1 + how long nothing had moved when that was seen; 0: no */
    size_t *arrays; /* of a batch: where the arrays of the call are copied to */
    size_t room; /* entries */
};

/* Every array of a call, of one entry per rank; NULL where the collective has none. */
enum { TT_CALL_ARRAYS = 4 };
const size_t **tt_call_array(struct tt_call *call, int i);

/* Calls that are kept to run together, with copies of their arrays (batch.c). {0} is empty; with count set
 * to 0 it is empty again and keeps its memory. */
struct tt_batch {
    struct tt_pending *calls;
    int count, capacity;
};
tutti_status tt_batch_add(struct tt_batch *batch, const struct tt_call *call);
/* Bring sends and receives of a rank with itself together; an error if one is left alone. */
tutti_status tt_batch_meet(struct tt_batch *batch);
/* None of these calls can be made: see tt_call_refuse. */
tutti_status tt_batch_refuse(const struct tt_batch *batch, tutti_status status);
void tt_batch_free(struct tt_batch *batch);

/* Run calls to their end. Collectives of one communicator run one after the other, everything else at
 * once. The first failure of a communicator ends all its calls; returns the first failure. */
tutti_status tt_run(struct tt_pending *pending, int count);
/* The same on a thread of the library's own, where no on_wait is run. */
tutti_status tt_run_aside(struct tt_pending *pending, int count);

/* What a long wait looks for (fault.c): a call of a peer that differs, a peer that is gone, a deadline.
 * TUTTI_OK: go on. */
tutti_status tt_fault_inspect(struct tt_pending *pending, int64_t stalled_ms);
/* Ranks that seem to wait for each other. */
struct tt_circle {
    int length; /* of those in comm->circle; 0: none is seen */
    bool marked; /* the marks have the looks that all had taken when all were in it */
};
/* The calls that are not over have waited long: in which messages, for their peers to see (fault_wait.c), and
 * that they wait no more. A circle that cannot open any more ends the communicator. */
void tt_fault_tell_waits(const struct tt_pending *pending, int count, struct tt_circle *circle);
void tt_fault_tell_moved(const struct tt_pending *pending, int count);
/* ", which waits in ..." of a peer that is waited for; "" if it does not tell. */
void tt_fault_name_call(const struct tt_pending *pending, int peer, char *text, size_t bytes);
/* The executor gave up: tell why, on all ranks. */
tutti_status tt_fault_of_op(const struct tt_pending *pending);

#endif
