/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_trace.c: what the trace is told of an operation and of its steps, where it is on. */
#include "base/clock.h"
#include "exec/exec_internal.h"
#include "observe/trace.h"

void tt_exec_trace_begin(struct tt_op *op)
{
    op->observed.serial =
        tt_trace_reserve(op->observed.trace, (uint64_t)op->schedule->nsteps * op->layout.slices + 1);
    op->observed.began_ns = tt_now_ns();
}

void tt_exec_trace_end(const struct tt_call *call, const struct tt_op *op)
{
    struct tt_trace_event e = { .began = op->observed.began_ns,
        .ended = tt_now_ns(),
        .serial = op->observed.serial,
        .number = op->messages.sequence,
        .bytes = call->total * tutti_type_bytes(call->type),
        .count = call->count,
        .peer = call->root,
        .slice = op->layout.slices,
        .op = tt_call_shared_op(call),
        .operator= call->op,
        .verb = (uint8_t)call->collective,
        .type = (uint8_t)call->type,
        .served = call->staging != NULL ? (uint8_t)tt_gate_served(&call->staging->gate) : 0,
        .algorithm = op->schedule->algorithm };
    tt_trace_note(op->observed.trace, &e);
}

void tt_exec_trace_unit(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_trace_event e = { .began = active->began_ns,
        .ended = tt_now_ns(),
        .serial = op->observed.serial,
        .slice = slice->index,
        .step = 1,
        .path = active->path,
        .class = (uint8_t)op->messages.class };
    for (int i = 0; i < step->fold_count; i++) {
        const struct tt_step *s = &step[i];
        bool sends = s->verb == TT_VERB_SEND;
        unsigned buffer = sends ? s->src_buffer : s->dst_buffer;
        e.chunk = sends ? s->src_chunk : s->dst_chunk;
        e.nchunks = s->nchunks;
        struct tt_view view = tt_exec_view(op, slice, buffer, e.chunk, e.nchunks);
        e.bytes = tt_view_count(&view) * op->layout.element_bytes;
        if (e.bytes == 0) /* nothing is sent, awaited or done */
            continue;
        e.verb = s->verb;
        e.peer = s->peer;
        e.number = s->peer != TT_NONE ? tt_exec_number(op, slice, s) : 0;
        tt_trace_note(op->observed.trace, &e);
    }
}
