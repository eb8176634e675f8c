/* SPDX-License-Identifier: BSD-3-Clause */
/* exec.h: the host executor: runs one rank's schedule, slice by slice, over a transport.
 *
 * tt_exec_progress never blocks, sleeps, allocates or logs, and returns after at most about
 * TT_EXEC_BUDGET_BYTES of work, so one thread can drive any number of ranks. Up to TT_WINDOW slices are in
 * flight; within a slice a unit starts when its ready list (base/ready.h) has it. The schedule fixes every
 * operand and rounding; the executor only chooses when bytes move. */
#ifndef TT_EXEC_H
#define TT_EXEC_H
#include <stdbool.h>
#include <stdint.h>

#include "base/layout.h"
#include "base/ready.h"
#include "base/schedule.h"
#include "call/call.h"
#include "call/gate.h"
#include "kernels/kernels.h"
#include "call/op.h"
#include "transports/transport.h"

enum {
    TT_EXEC_BUDGET_BYTES = 1 << 20,
    TT_BLOCK_BYTES = 4 * 1024, /* a block of what is stored to several places past the caches: */
    TT_BLOCK_CACHED_BYTES = 16 * 1024, /* and through them */
    TT_GRANT_BYTES = 1 << 10, /* operations up to here ask for no grants */
};

/* These stores go past the caches. */
enum { TT_STREAM_REMOTE = TT_STREAM_ALSO /* into a peer's memory */, TT_STREAM_OWN = TT_STREAM_DST };

/* How the slices of a step go. */
enum tt_whole_state {
    TT_WHOLE_UNDECIDED, /* the first was not posted yet, or has not come */
    TT_WHOLE_OFFERED, /* the first stands for all, if the receiver accepts that */
    TT_WHOLE_BY_SLICES,
    TT_WHOLE_CAME /* with the first */
};

enum tt_progress { TT_IDLE /* nothing could be done */, TT_MOVED, TT_DONE, TT_FAILED };

struct tt_slice {
    uint32_t index;
    bool held; /* it has not begun: the gate is closed */
    uint32_t scaled; /* chunks of IN that are there, if it is scaled */
    struct tt_ready_list ready;
    bool *placed; /* with grants; per step that sends: the bytes are at the receiver's */
    bool *bounced; /* per chunk of IN, then of OUT: its bounce cell has it */
};

/* Whether readers are asked to take the bounce buffer's lines (exec_bounce.c), by what it takes to write
 * there. */
struct tt_bounce_probe {
    uint32_t writes, slow; /* of the call under way, and how many of them waited for line after line */
    uint32_t left; /* calls that ask until it is tried again without */
};

/* One operation of one rank. It is created for a schedule, and bound anew for each call, by bind.c or by a
 * test. */
struct tt_op {
    struct tt_endpoint *endpoint;

    /* How its messages are marked and numbered: written when it is bound; the executor advances where the
     * pointers point to. */
    struct {
        enum tt_class class;
        uint64_t hash; /* of the call */
        uint32_t signature; /* marks its messages */
        uint64_t sequence; /* collectives: of the communicator; p2p: the first message's number */
        uint64_t *next_send, *next_recv; /* per peer: where numbers of this class go on */
        uint64_t *next_post; /* p2p sends, per peer: the number that may be sent now */
    } messages;

    struct tt_layout layout;
    bool one_sided; /* a rank knows only the lengths of its own messages, of which a pair has one per slice */
    struct tt_layout given; /* one_sided: of IN */
    struct tt_space spaces[TT_BUFFERS]; /* of window slot 0, where each has cells of its own, as TMP has */
    uint64_t window_bytes[TT_BUFFERS]; /* from the cells of one window slot to those of the next */

    /* How operands are combined: written when it is bound. */
    struct {
        tt_fold_fn folds[2]; /* by enum tt_shape; NULL: nothing is combined, or `user` does it */
        tt_few_fn few; /* of two, if there are few; NULL: there is no such kernel */
        tt_spread_fn spread; /* the first of them to two places at once; NULL: there is no such kernel */
        const struct tt_operator *user; /* in place of `folds`; its elements are those of the layout */
        uint32_t divisor; /* of TT_FINAL steps; 1: none */
    } arithmetic;

    /* How IN is scaled, which then has cells of its own: written when it is bound. */
    struct {
        const struct tt_operator *by; /* NULL: it is not */
        struct tt_space unscaled; /* what is scaled to get IN */
        uint64_t window_bytes; /* of those, as window_bytes above */
    } scaling;

    /* The bounce buffer: written when it is bound, but `cells` and `cell` when it is created, and
     * `claims` when it starts. */
    struct {
        struct tt_space space; /* `cells` for each slice in flight; before TMP */
        uint64_t bytes; /* all of it; 0: there is none */
        uint64_t from[2]; /* of IN, of OUT: messages of so many bytes are sent from the bounce buffer */
        struct tt_bounce_probe *probe; /* of the communicator; NULL: readers always claim */
        bool claims; /* in this call the single reader of a bounce cell claims its cache lines */
        uint32_t cells;
        uint32_t *cell; /* per chunk of IN, then of OUT, that is ever sent: its bounce cell */
    } bounce;

    /* Where what it does is written down: written when it is bound, and by tt_exec_trace_begin. */
    struct {
        struct tt_entry *entry; /* in the recorder */
        struct tt_trace *trace; /* NULL: not traced */
        uint64_t serial; /* its number in the trace, if it is traced */
        int64_t began_ns; /* likewise */
        struct tt_call_traffic cost; /* of the call */
    } observed;

    const struct tt_gate *gate; /* of its slices; NULL: all may begin */
    uint8_t streams; /* of the flags above */

    /* What came of it: written by the executor. */
    struct {
        enum tt_progress state;
        tutti_status status; /* of TT_FAILED */
        int32_t peer;
        struct tt_arrival arrival; /* of a mismatch: what the peer sent */
    } result;

    /* How it may move bytes: written when it is created, from the schedule, and `grants` when it starts. */
    struct {
        bool *single_reader; /* per step that sends: only its receiver reads these cells of TMP or bounce */
        bool busy; /* it does more than send */
        bool shares; /* it waits for readers as it is, or many read what it sends */
        bool grants; /* messages may be long enough to be granted */
        bool wholes; /* one message may stand for all slices of its chunk, */
        bool *whole; /* if it is of such a step */
    } policy;

    /* How far it is: written by the executor. */
    struct {
        uint32_t slices_left;
        uint64_t budget;
        struct tt_slice slices[TT_WINDOW];
        uint8_t *whole; /* if `wholes`, per step: enum tt_whole_state, */
        uint32_t *whole_waits; /* and how many of those that it waits for did not come whole */
    } progress;

    /* Of the schedule: written when it is created. */
    const struct tt_schedule *schedule;
    struct tt_ready_order order;
    void *memory;
};

/* Room to run one operation of this schedule at a time; the schedule must outlive it. */
tutti_status tt_op_create(const struct tt_schedule *schedule, struct tt_op *op);
void tt_op_destroy(struct tt_op *op);

/* Begins the operation, which is bound. */
void tt_exec_start(struct tt_op *op);
/* Returns what marks the messages of a block where only its two ends know its length. */
static inline uint32_t tt_exec_mark(uint32_t signature, uint64_t count)
{
    return (uint32_t)((signature ^ (count + 1)) * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1;
}

/* Takes the units before this step as done, in an operation of one slice that has just started. */
void tt_exec_skip(struct tt_op *op, uint32_t step);
enum tt_progress tt_exec_progress(struct tt_op *op);

/* Note the beginning and the end of an operation whose `trace` is set, and the call that it runs
 * (exec_trace.c). */
void tt_exec_trace_begin(struct tt_op *op);
void tt_exec_trace_end(const struct tt_call *call, const struct tt_op *op);

/* True if the operation waits at its gate, for a device; or, if it is not decided, for a peer to call. */
bool tt_exec_is_held(const struct tt_op *op);
/* True if it waits for nothing but a device, which may take its time. */
bool tt_exec_takes_time(const struct tt_op *op);

/* True if a device has ended it well, so that it needs nothing more of a rank that has gone. */
bool tt_exec_is_served(const struct tt_op *op);

/* The peer that this operation waits for first, TT_NONE if it waits for none: for messages about hangs. */
int32_t tt_exec_waits_for(const struct tt_op *op);

#endif
