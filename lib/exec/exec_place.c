/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_place.c: bytes that go straight to where they are to lie at a peer.
 *
 *     unit:  OUT[1] = IN[1] + rank 0's, in blocks       rank 0's OUT[1], granted
 *            block 0 -> own OUT, and while it is in the cache -> there; block 1 ...
 *     then:  send(0, OUT[1]) posts a line that says "placed"
 *
 * A receiver grants as soon as its step is ready: nothing else uses those cells then, as the proof of the
 * hazards has it for a message that arrives at that moment. A sender may use a grant before its own step is
 * ready, because what it stores is what the step would send: the unit before it, the only one that the step
 * still waits for, stores the result there along with its own cells.
 *
 * In place a receive often waits only for the peer to read the same cells, as in a sum whose part goes
 * where the operand was. Then the grant goes with the operand: the peer's unit reads and stores there,
 * element by element. */
#include "exec/exec_internal.h"

void tt_exec_grant(struct tt_op *op, const struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_view place = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    struct tt_link *link = tt_exec_link(op, step->peer);
    active->granted = link->ops->grant != NULL && link->ops->grant(link, tt_exec_number(op, slice, step),
                                                      tt_exec_signature(op, &place), &place, 0);
}

/* True if `recv` receives into the very cells that `send` sends to the same peer. */
static bool comes_back(const struct tt_op *op, const struct tt_step *recv, const struct tt_step *send)
{
    return recv->verb == TT_VERB_RECV && recv->peer == send->peer && recv->dst_chunk == send->src_chunk &&
           recv->nchunks == send->nchunks &&
           tt_same_memory(&op->schedule->key, recv->dst_buffer, send->src_buffer);
}

void tt_exec_grant_back(struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active)
{
    const struct tt_schedule *s = op->schedule;
    const struct tt_step *send = &s->steps[active->step];
    struct tt_link *link = tt_exec_link(op, send->peer);
    if (link->ops->grant == NULL || op->scaling.by != NULL || op->arithmetic.user != NULL)
        return;
    for (uint32_t f = s->follower_first[active->step]; f < s->follower_first[active->step + 1]; f++) {
        const struct tt_step *recv = &s->steps[s->followers[f]];
        if (slice->ready.waiting[s->followers[f]] != 1 || !comes_back(op, recv, send))
            continue;
        struct tt_view place = tt_exec_view(op, slice, recv->dst_buffer, recv->dst_chunk, recv->nchunks);
        link->ops->grant(link, tt_exec_number(op, slice, recv), tt_exec_signature(op, &place), &place,
            tt_exec_number(op, slice, send) + 1);
    }
}

/* Returns 1 + the number of the message of this peer that a unit reads; 0: it reads none. */
static uint64_t reads(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *unit, int32_t peer)
{
    for (int i = 0; unit->peer != TT_NONE && i < unit->fold_count; i++)
        if (unit[i].peer == peer)
            return tt_exec_number(op, slice, &unit[i]) + 1;
    return 0;
}

/* True if this step sends just what the unit stores. */
static bool sends_result(const struct tt_step *send, const struct tt_step *unit)
{
    return send->verb == TT_VERB_SEND && send->src_buffer == unit->dst_buffer &&
           send->src_chunk == unit->dst_chunk && send->nchunks == unit->nchunks;
}

/* Finds where a message is stored at its receiver: where that has granted, else where the receiver's operand
 * came to lie, which goes back with the answer. A user's function need not bear its result where a peer's
 * operand lies. */
static bool find_target(const struct tt_op *op, struct tt_link *link, const struct tt_message *message,
    struct tt_targets *targets)
{
    unsigned flags = op->arithmetic.user == NULL ? TT_ALLOW_REPLY : 0;
    struct tt_view *place = &targets->places[targets->n];
    enum tt_target target =
        link->ops->target != NULL ? link->ops->target(link, message, flags, place) : TT_TARGET_NONE;
    targets->n += target != TT_TARGET_NONE;
    targets->streams = target == TT_TARGET_REPLY ? 0 : targets->streams;
    return target != TT_TARGET_NONE;
}

void tt_exec_find_targets(
    struct tt_op *op, struct tt_slice *slice, const struct tt_active *active, struct tt_targets *targets)
{
    const struct tt_schedule *s = op->schedule;
    const struct tt_step *unit = &s->steps[active->step];
    uint32_t first = s->follower_first[active->step], end = s->follower_first[active->step + 1];
    for (uint32_t f = first; f < end; f++) {
        uint32_t next = s->followers[f];
        bool begun = active->cursor > 0;
        if (!sends_result(&s->steps[next], unit) || slice->ready.waiting[next] != 1 ||
            (begun && !slice->placed[next]))
            continue;
        struct tt_message message;
        int32_t peer = s->steps[next].peer;
        tt_exec_message(op, slice, &s->steps[next], &message);
        message.reads = reads(op, slice, unit, peer);
        slice->placed[next] =
            targets->n < TT_TARGETS && find_target(op, tt_exec_link(op, peer), &message, targets);
    }
    targets->all = (uint32_t)targets->n == end - first;
}

bool tt_exec_place(struct tt_op *op, struct tt_link *link, const struct tt_message *message, bool readable)
{
    struct tt_view place;
    bool stream = (op->streams & TT_STREAM_REMOTE) != 0;
    unsigned flags = readable ? 0 : TT_UNLESS_READABLE;
    if (link->ops->target == NULL || link->ops->target(link, message, flags, &place) != TT_TARGET_GRANTED)
        return false;
    uint64_t element = op->layout.element_bytes, count = message->bytes / element, run, room;
    for (uint64_t at = 0; at < count; at += run) {
        const void *from = (const void *)tt_view_run(&message->source, at, &run);
        void *to = (void *)tt_view_run(&place, at, &room);
        run = room < run ? room : run;
        tt_exec_copy(stream, to, from, run * element);
    }
    if (stream)
        tt_copy_fence();
    return true;
}
