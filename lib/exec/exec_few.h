/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_few.h: the executor's fast path for the most common of units: one message or copy, of so few bytes
 * that nobody wants them stored elsewhere as well, each end in one run. The transport is asked by its link,
 * as a cached call may have (call_cache.h). Any other unit, or an odd message, takes the general path from
 * the start. */
#ifndef TT_EXEC_FEW_H
#define TT_EXEC_FEW_H
#include "base/few.h"
#include "exec/exec_internal.h"

enum tt_few { TT_FEW_DONE, TT_FEW_AWAITED, TT_FEW_NOT };

/* False if it is not one run of so few bytes. */
static inline bool tt_few_cell(const struct tt_op *op, const struct tt_view *view, void **at, uint32_t *bytes)
{
    uintptr_t address;
    uint64_t count;
    if (!tt_view_cell(view, &address, &count) || count * op->layout.element_bytes > TT_FEW_BYTES)
        return false;
    *at = (void *)address;
    *bytes = (uint32_t)count * op->layout.element_bytes;
    return true;
}

/* Sends the few bytes of a step. TT_FEW_NOT: they are not few, or are traced, or their numbers are in an
 * order that several operations share. */
static inline enum tt_few tt_few_send(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    struct tt_link *link = tt_exec_link(op, step->peer);
    struct tt_view source = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    void *from;
    uint32_t bytes;
    if (link->ops->post == NULL || op->messages.class == TT_CLASS_P2P || op->observed.trace != NULL ||
        !tt_few_cell(op, &source, &from, &bytes))
        return TT_FEW_NOT;
    if (bytes == 0)
        return TT_FEW_DONE;
    bool posted =
        link->ops->post(link, tt_exec_number(op, slice, step), tt_exec_signature(op, &source), from, bytes);
    return posted ? TT_FEW_DONE : TT_FEW_AWAITED;
}

static inline enum tt_few tt_few_receive(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    struct tt_link *link = tt_exec_link(op, step->peer);
    struct tt_view dst = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    bool reduces = step->verb == TT_VERB_RECV_REDUCE;
    void *to, *own = NULL;
    const void *payload;
    uint32_t bytes, own_bytes;
    if (link->ops->peek == NULL || step->fold_count > 1 || !tt_few_cell(op, &dst, &to, &bytes))
        return TT_FEW_NOT;
    if (bytes == 0)
        return TT_FEW_DONE;
    if (reduces) {
        struct tt_view local = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
        bool divided = (step->flags & TT_FINAL) != 0 && op->arithmetic.divisor > 1;
        if (op->arithmetic.few == NULL || divided || !tt_few_cell(op, &local, &own, &own_bytes))
            return TT_FEW_NOT;
    }
    uint64_t number = tt_exec_number(op, slice, step);
    enum tt_peek peek = link->ops->peek(link, number, tt_exec_signature(op, &dst), bytes, &payload);
    if (peek != TT_PEEK_THERE)
        return peek == TT_PEEK_NOTHING ? TT_FEW_AWAITED : TT_FEW_NOT;
    if (reduces)
        op->arithmetic.few(to, own, payload, bytes); /* a sum of two has the same bits either way */
    else
        tt_copy_few(to, payload, bytes);
    link->ops->release(link, number);
    return TT_FEW_DONE;
}

/* True if the step was a copy of few bytes, which is done then. */
static inline bool tt_few_copy(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    struct tt_view dst = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    void *to, *from;
    uint32_t bytes;
    if (step->verb != TT_VERB_COPY || !tt_few_cell(op, &dst, &to, &bytes))
        return false;
    if (bytes == 0)
        return true;
    struct tt_view src = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    if (!tt_few_cell(op, &src, &from, &bytes))
        return false;
    tt_copy_few(to, from, bytes);
    return true;
}

#endif
