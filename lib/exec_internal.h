/* exec_internal.h: between the files of the executor: what a step's cells and messages are in this slice,
 * and the units that combine. Inline, because every poll asks. */
#ifndef TT_EXEC_INTERNAL_H
#define TT_EXEC_INTERNAL_H
#include "exec.h"

/* How many slices share a round of numbers. */
static inline uint32_t tt_exec_ways(const struct tt_op *op)
{
    return op->layout.slices > 1 ? TT_WINDOW : 1;
}

/* Message numbers go by rounds of TT_WINDOW slices, then by ordinal, then by slice; both ends count alike
 * (transport.h). */
static inline uint64_t tt_exec_number(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (op->class == TT_CLASS_P2P)
        return op->sequence + slice->index;
    bool sends = step->verb == TT_VERB_SEND;
    uint64_t base = sends ? op->next_send[step->peer] : op->next_recv[step->peer];
    uint64_t per_slice = sends ? op->schedule->sends[step->peer] : op->schedule->recvs[step->peer];
    return base + (slice->index / TT_WINDOW * per_slice + step->ordinal) * tt_exec_ways(op) +
           slice->index % TT_WINDOW;
}

static inline struct tt_view tt_exec_view(
    const struct tt_op *op, const struct tt_slice *slice, unsigned buffer, uint32_t chunk, uint32_t nchunks)
{
    const struct tt_layout *layout = op->one_sided && buffer == TT_IN ? &op->given : &op->layout;
    struct tt_view view = { layout, op->spaces[buffer], chunk, nchunks, slice->index };
    if (op->window_bytes[buffer] != 0)
        view.space.base += (uintptr_t)(slice - op->slices) * op->window_bytes[buffer];
    return view;
}

/* What a message from or to this view is marked with. Where only its two ends know its length, that is part
 * of the mark: one slice does not show how many follow. */
static inline uint32_t tt_exec_signature(const struct tt_op *op, const struct tt_view *view)
{
    if (!op->one_sided)
        return op->signature;
    uint64_t count = tt_layout_chunk(view->layout, view->chunk).count;
    return (uint32_t)((op->signature ^ (count + 1)) * UINT64_C(0x9e3779b97f4a7c15) >> 32) | 1;
}

static inline bool tt_exec_fail(struct tt_op *op, tutti_status status, int32_t peer)
{
    op->state = TT_FAILED;
    op->status = status;
    op->failed_peer = peer;
    return false;
}

/* Advance a unit as far as its operands and the budget go; true if it is done. The first is for what
 * receives, the second for what has all operands at this rank. */
bool tt_exec_combine(struct tt_op *op, struct tt_slice *slice, struct tt_active *active);
bool tt_exec_local(struct tt_op *op, struct tt_slice *slice, struct tt_active *active);

/* Fill this slice's cells of IN, as far as the budget goes; true if all are there. */
bool tt_exec_scale(struct tt_op *op, struct tt_slice *slice);

#endif
