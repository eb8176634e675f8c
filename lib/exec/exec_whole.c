/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_whole.c: one message that stands for all slices of its chunk.
 *
 *     slice 0:       send(1, IN[2]) offers all of IN[2]     rank 1 takes it, piece by piece
 *     slice 1, 2 ..: send(1, IN[2]) is done as soon as that is, without a message
 *
 * A transport that moves long messages at once (transport.h, `whole`) gains nothing by slices, and each pair
 * of them costs two ranks a meeting, which takes long where ranks share cores. A chunk can be offered, and
 * taken, if no slice of it waits for anything at this rank but for what came whole before. The proof of a
 * schedule is one of each slice, and slices have no cell in common, so it changes nothing that a step is done
 * early in some.
 *
 * A rank that passes on what it gets does so slice by slice, so that all ranks work, unless the chunk is a
 * small part of all: then others are on their way meanwhile. */
#include <string.h>

#include "exec/exec_internal.h"

/* True if a long part of all is received here and sent on. */
static bool is_passed_on(const struct tt_schedule *s, uint32_t step)
{
    bool sends = false;
    for (uint32_t f = s->follower_first[step]; f < s->follower_first[step + 1]; f++)
        sends |= s->steps[s->followers[f]].verb == TT_VERB_SEND;
    return sends && s->chunks < TT_FOLD_MAX && s->chunks < (uint32_t)s->key.n;
}

void tt_exec_find_whole(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        bool sends = step->verb == TT_VERB_SEND;
        unsigned buffer = sends ? step->src_buffer : step->dst_buffer;
        bool alone = sends || (step->verb == TT_VERB_RECV && step->fold_count == 1);
        op->policy.whole[i] =
            alone && step->nchunks == 1 && buffer != TT_TMP && (sends || !is_passed_on(s, i));
    }
}

void tt_exec_start_whole(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    bool reduces = tt_collectives[s->key.collective].result == TT_RESULT_REDUCED;
    op->policy.wholes = op->layout.slices > 1 && op->policy.grants && op->gate == NULL && !op->one_sided &&
                        !reduces && op->window_bytes[TT_IN] == 0 && op->window_bytes[TT_OUT] == 0;
    if (!op->policy.wholes)
        return;
    memset(op->progress.whole, TT_WHOLE_UNDECIDED, s->nsteps);
    memcpy(op->progress.whole_waits, op->order.opening, s->nsteps * sizeof *op->order.opening);
}

/* All slices of this step are done: what waits for it waits in none. */
static void came(struct tt_op *op, uint32_t step)
{
    const struct tt_schedule *s = op->schedule;
    op->progress.whole[step] = TT_WHOLE_CAME;
    for (uint32_t f = s->follower_first[step]; f < s->follower_first[step + 1]; f++)
        op->progress.whole_waits[s->followers[f]]--;
    if (op->order.next_in_slot[step] != TT_NO_STEP)
        op->progress.whole_waits[op->order.next_in_slot[step]]--;
}

static uint64_t bytes_of(const struct tt_op *op, uint32_t chunk)
{
    return tt_layout_chunk(&op->layout, chunk).count * op->layout.element_bytes;
}

void tt_exec_offer(const struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active,
    struct tt_message *message)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_link *link = tt_exec_link(op, step->peer);
    if (link->ops->give == NULL || !tt_exec_may_stand(op, slice, active->step))
        return;
    message->whole = bytes_of(op, step->src_chunk);
    message->halves = !op->policy.busy;
}

void tt_exec_offered(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active,
    const struct tt_message *message)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_link *link = tt_exec_link(op, step->peer);
    if (!op->policy.wholes || slice->index > 0)
        return;
    enum tt_whole now = message->whole != 0 ? link->ops->give(link, message->number, false) : TT_WHOLE_NOT;
    op->progress.whole[active->step] = now == TT_WHOLE_NOT ? TT_WHOLE_BY_SLICES : TT_WHOLE_OFFERED;
    if (now == TT_WHOLE_DONE) /* a receiver is quick */
        came(op, active->step);
}

/* What was moved is the work of one pass. */
static enum tt_whole note(struct tt_op *op, enum tt_whole now)
{
    if (now == TT_WHOLE_MOVED) {
        op->result.state = TT_MOVED;
        op->progress.budget = 0;
    }
    return now;
}

/* Of messages to one peer, the next may be posted only after this one. */
static enum tt_whole pass(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (op->messages.class != TT_CLASS_P2P)
        return TT_WHOLE_DONE;
    if (op->messages.next_post[step->peer] != tt_exec_number(op, slice, step))
        return TT_WHOLE_IDLE;
    op->messages.next_post[step->peer]++;
    return TT_WHOLE_DONE;
}

enum tt_whole tt_exec_give(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    uint8_t *state = &op->progress.whole[active->step];
    if (!op->policy.whole[active->step] || *state == TT_WHOLE_BY_SLICES)
        return TT_WHOLE_NOT;
    if (slice->index > 0)
        return *state == TT_WHOLE_CAME ? pass(op, slice, step) : TT_WHOLE_IDLE;
    if (*state == TT_WHOLE_UNDECIDED)
        return TT_WHOLE_NOT;
    struct tt_link *link = tt_exec_link(op, step->peer);
    enum tt_whole now = link->ops->give(link, tt_exec_number(op, slice, step), !op->policy.busy);
    if (now == TT_WHOLE_NOT)
        *state = TT_WHOLE_BY_SLICES;
    else if (now == TT_WHOLE_DONE)
        came(op, active->step);
    return note(op, now);
}

enum tt_whole tt_exec_take(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_link *link = tt_exec_link(op, step->peer);
    uint64_t number = tt_exec_number(op, slice, step);
    if (slice->index > 0 && op->progress.whole[active->step] == TT_WHOLE_CAME) {
        if (active->granted)
            link->ops->release(link, number);
        return TT_WHOLE_DONE;
    }
    if (link->ops->take == NULL || !tt_exec_may_stand(op, slice, active->step))
        return TT_WHOLE_NOT;
    struct tt_view first = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, 1);
    enum tt_whole now =
        link->ops->take(link, number, tt_exec_signature(op, &first), &first, bytes_of(op, step->dst_chunk));
    if (now == TT_WHOLE_DONE) {
        came(op, active->step);
        link->ops->release(link, number);
    }
    return note(op, now);
}
