/* SPDX-License-Identifier: BSD-3-Clause */
/* call.h: one public call, as all layers see it: api fills it, check completes it, bind and the executor
 * read it.
 *
 * It is plain data, and says nothing of how it is run (run.h), so that what only tells of calls, as the
 * recorder and the trace do, needs no more than this. */
#ifndef TT_CALL_H
#define TT_CALL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/collective.h"
#include "base/schedule.h"
#include "call/gate.h"
#include "call/op.h"
#include "transports/transport.h"
#include "tutti.h"

struct tt_cached;
struct tt_comm;
struct tt_entry;
struct tt_prepared;

/* The longest vector, 8 TiB: what 64-bit byte arithmetic and 31-bit slice numbers hold, of 4 KiB each. */
#define TT_VECTOR_BYTES (UINT64_C(1) << 43)

/* How a buffer of n blocks is cut: elements of each, and where they stand (NULL: packed, in rank order). */
struct tt_blocks {
    const size_t *counts, *displs;
};

/* The memory in which a call on a device's stream has its operands and results (device.h). */
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

    struct tt_prepared *prepared; /* of a program: its own; NULL: the communicator's cache has it */
    struct tt_entry *entry; /* in the recorder, of a call that was queued; set anew each time it is */
    struct tt_cached *cached; /* what is known of it, if it was made before; NULL: nothing */
    uint64_t id; /* of a call that is kept: no other of those it shares a prepared call with has it; or 0 */

    const struct tt_staging *staging; /* NULL: none; whoever keeps the call keeps a copy (batch.c) */

    bool met; /* p2p of this rank with itself: its group has the other end */

    /* Set by tt_call_check. */
    bool in_place;
    bool staged[2]; /* on a device's stream: send, recv is to be in the device's staging memory */
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
/* A leader's kernel does it for all ranks (device_led.h). */
static inline bool tt_call_is_led(const struct tt_call *call)
{
    return call->staging != NULL && call->staging->gate.led.meeting != NULL;
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

/* Bytes of one call. */
struct tt_call_traffic {
    uint64_t called, sent, received;
};

/* "all_reduce of 1024 float32, sum" for messages; the record form is for calls of peers. */
void tt_call_describe(const struct tt_call *call, char *text, size_t bytes);
void tt_record_describe(const struct tt_call_record *record, char *text, size_t bytes);
/* Describes a call of this rank, whose created operators have a name: what tutti_op_create set. */
void tt_record_describe_own(const struct tt_call_record *record, tutti_op op, char *text, size_t bytes);
const char *tt_type_name(tutti_type type);
const char *tt_op_name(tutti_op op);
bool tt_op_is_built_in(tutti_op op);

#endif
