/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_internal.h: between the files of the executor: what a step's cells and messages are in this slice,
 * and the units that combine. Inline, because every poll asks. */
#ifndef TT_EXEC_INTERNAL_H
#define TT_EXEC_INTERNAL_H
#include "exec/exec.h"

/* The link by which this operation exchanges messages with a peer. */
static inline struct tt_link *tt_exec_link(const struct tt_op *op, int32_t peer)
{
    return tt_link_to(op->endpoint, op->messages.class, peer);
}

/* Returns how many slices share a round of numbers. */
static inline uint32_t tt_exec_ways(const struct tt_op *op)
{
    return op->layout.slices > 1 ? TT_WINDOW : 1;
}

/* Message numbers go by rounds of TT_WINDOW slices, then by ordinal, then by slice; both ends count alike
 * (transport.h). */
static inline uint64_t tt_exec_number(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (op->messages.class == TT_CLASS_P2P)
        return op->messages.sequence + slice->index;
    bool sends = step->verb == TT_VERB_SEND;
    uint64_t base = sends ? op->messages.next_send[step->peer] : op->messages.next_recv[step->peer];
    if (op->layout.slices == 1)
        return base + step->ordinal;
    uint64_t per_slice = sends ? op->schedule->sends[step->peer] : op->schedule->recvs[step->peer];
    return base + (slice->index / TT_WINDOW * per_slice + step->ordinal) * tt_exec_ways(op) +
           slice->index % TT_WINDOW;
}

static inline struct tt_view tt_exec_view(
    const struct tt_op *op, const struct tt_slice *slice, unsigned buffer, uint32_t chunk, uint32_t nchunks)
{
    const struct tt_layout *layout = op->one_sided && buffer == TT_IN ? &op->given : &op->layout;
    const struct tt_space *space = &op->spaces[buffer];
    uintptr_t base = space->base; /* by itself, so that the view is built in registers */
    if (op->window_bytes[buffer] != 0)
        base += (uintptr_t)(slice - op->progress.slices) * op->window_bytes[buffer];
    return (struct tt_view){ layout, { base, space->displs, space->stride }, chunk, nchunks, slice->index };
}

/* Returns what a message from or to this view is marked with. Where only its two ends know its length, that
 * is part of the mark: one slice does not show how many follow. */
static inline uint32_t tt_exec_signature(const struct tt_op *op, const struct tt_view *view)
{
    if (!op->one_sided)
        return op->messages.signature;
    return tt_exec_mark(op->messages.signature, tt_layout_chunk(view->layout, view->chunk).count);
}

/* Fills in the message of a step that sends; 0 bytes: there is none. It is written field by field, where it
 * is to be: to zero it first, or to copy it, takes longer than all of this. */
static inline void tt_exec_message(const struct tt_op *op, const struct tt_slice *slice,
    const struct tt_step *step, struct tt_message *message)
{
    message->placed = false;
    message->halves = message->goes_on = false;
    message->whole = 0;
    message->single_reader =
        step->src_buffer == TT_TMP && op->policy.single_reader[step - op->schedule->steps];
    message->reads = 0;
    message->number = tt_exec_number(op, slice, step);
    message->source = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    message->signature = tt_exec_signature(op, &message->source);
    message->bytes = tt_view_count(&message->source) * op->layout.element_bytes;
}

static inline void tt_exec_copy(bool stream, void *to, const void *from, uint64_t bytes)
{
    if (stream)
        tt_copy_stream(to, from, bytes);
    else
        tt_copy_bytes(to, from, bytes);
}

static inline bool tt_exec_fail(struct tt_op *op, tutti_status status, int32_t peer)
{
    op->result.state = TT_FAILED;
    op->result.status = status;
    op->result.peer = peer;
    return false;
}

/* Advance a unit as far as its operands and the budget go; true if it is done. The first is for what
 * receives, the second for what has all operands at this rank. */
bool tt_exec_combine(struct tt_op *op, struct tt_slice *slice, struct tt_active *active);
bool tt_exec_local(struct tt_op *op, struct tt_slice *slice, struct tt_active *active);

/* The places at which a unit stores what it computes besides its own cells: those that the receivers of the
 * sends after it have granted. */
enum { TT_TARGETS = 16 };
struct tt_targets {
    int n;
    uint8_t streams; /* as of the operation, but what will be read at once stays in the caches */
    bool all; /* nothing at this rank waits for the result but sends that will be placed */
    struct tt_view places[TT_TARGETS];
    uint8_t *runs[TT_TARGETS]; /* of the places, what comes next */
};
/* Finds the targets, and marks the sends to them as placed; of a unit that has begun, those marked before. */
void tt_exec_find_targets(
    struct tt_op *op, struct tt_slice *slice, const struct tt_active *active, struct tt_targets *targets);
/* Finds the targets of a unit; there are none where nothing is granted, or for a copy: its receiver reads
 * what was moved aside, since lines that both write go back and forth between their caches. */
static inline void tt_exec_targets(
    struct tt_op *op, struct tt_slice *slice, const struct tt_active *active, struct tt_targets *targets)
{
    const uint32_t *first = &op->schedule->follower_first[active->step];
    targets->n = 0;
    targets->streams = op->streams;
    targets->all = first[0] == first[1];
    if (op->policy.grants && op->schedule->steps[active->step].verb != TT_VERB_COPY)
        tt_exec_find_targets(op, slice, active, targets);
}

/* Grants what a receive that is ready awaits. */
void tt_exec_grant(struct tt_op *op, const struct tt_slice *slice, struct tt_active *active);
/* After a send was posted, grants the receives into its cells that wait for nothing else. */
void tt_exec_grant_back(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active);
/* Puts a message where its receiver granted. False if it did not, or, unless `readable`, if it can as well
 * read the source. */
bool tt_exec_place(struct tt_op *op, struct tt_link *link, const struct tt_message *message, bool readable);

/* Finds which chunks have a bounce cell; op->bounce.cell is zeros before. */
void tt_exec_find_cells(struct tt_op *op);
/* `claims` decides for the call that begins whether readers claim lines; `note` says how long a cell took to
 * write. */
bool tt_bounce_probe_claims(struct tt_bounce_probe *probe);
void tt_bounce_probe_note(struct tt_bounce_probe *probe, uint64_t bytes, int64_t ns);
/* Lets the message of a step be read from the bounce buffer, where its chunks are put unless they lie
 * there. */
void tt_exec_bounce(
    struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step, struct tt_message *message);
/* Forgets what the bounce buffer has of the cells that a step has written: it is old. */
void tt_exec_bounce_forget(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step);

/* Messages that stand for all slices of their chunk (exec_whole.c): which steps may have one; the operation
 * starts; a message is about to be posted, or was. */
void tt_exec_find_whole(struct tt_op *op);
void tt_exec_start_whole(struct tt_op *op);
void tt_exec_offer(const struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active,
    struct tt_message *message);
void tt_exec_offered(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active,
    const struct tt_message *message);
/* True if the message of this step's first slice, which this is, may stand for all of them. */
static inline bool tt_exec_may_stand(const struct tt_op *op, const struct tt_slice *slice, uint32_t step)
{
    return op->policy.wholes && slice->index == 0 && op->policy.whole[step] &&
           op->progress.whole_waits[step] == 0;
}
/* True if a step's message may still turn out to be one for its whole chunk. */
static inline bool tt_exec_is_offered(const struct tt_op *op, const struct tt_active *active)
{
    return op->policy.wholes && op->progress.whole[active->step] == TT_WHOLE_OFFERED;
}
/* Advance a step that sends, or receives, as far as such a message goes; NOT: the slice goes by itself. */
enum tt_whole tt_exec_give(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active);
enum tt_whole tt_exec_take(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active);

/* A unit is done: its steps, for the trace. */
void tt_exec_trace_unit(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active);

/* Fill this slice's cells of IN, as far as the budget goes; true if all are there. */
bool tt_exec_scale(struct tt_op *op, struct tt_slice *slice);

#endif
