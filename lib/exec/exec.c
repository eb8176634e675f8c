/* SPDX-License-Identifier: BSD-3-Clause */
/* exec.c: passes over the ready lists, and the verbs.
 *
 * Each slice in flight has a ready list (base/ready.h). One call of tt_exec_progress is one pass over the
 * lists. A fold is one unit: it runs when all its messages are there, as one n-way pass.
 *
 * Slices never compete for slots: those in flight together have numbers of different remainder modulo
 * TT_WINDOW, and window w runs slices w, w + TT_WINDOW ... in this order. Within a slice the ready list
 * keeps the order of slots. Point-to-point sends, of which many may be in flight, post in the order of their
 * numbers for the same reason. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/single_reader.h"
#include "base/status.h"
#include "exec/exec_few.h"
#include "observe/trace.h"

_Static_assert((int)TT_SLOTS == TT_WINDOW * TT_SLOTS_AHEAD, "the slices in flight share the slots");

/* True if copies to bounce cells can help: some cell goes to several readers, or the rank also receives and
 * so must not wait for readers. A rank that sends each cell once and receives nothing gains nothing. */
static bool is_shared(const struct tt_schedule *s)
{
    bool sends = false, receives = false, again = false;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        receives |= step->verb == TT_VERB_RECV || step->verb == TT_VERB_RECV_REDUCE;
        if (step->verb != TT_VERB_SEND)
            continue;
        again |= sends && step[-1].verb == TT_VERB_SEND && step[-1].src_buffer == step->src_buffer &&
                 step[-1].src_chunk == step->src_chunk;
        sends = true;
    }
    return again || (sends && receives);
}

static bool has_other_work(const struct tt_schedule *s)
{
    for (uint32_t i = 0; i < s->nsteps; i++)
        if (s->steps[i].verb != TT_VERB_SEND)
            return true;
    return false;
}

tutti_status tt_op_create(const struct tt_schedule *schedule, struct tt_op *op)
{
    uint64_t nsteps = (uint64_t)schedule->nsteps + 1, marks = 2 * (uint64_t)schedule->chunks;
    uint64_t pairs = 2 * (uint64_t)schedule->key.n, cells = marks + schedule->tmp_cells;
    uint32_t *scratch = malloc((pairs * TT_SLOTS_AHEAD + cells) * sizeof *scratch);
    uint8_t *memory = calloc(1, nsteps * (TT_WINDOW * (sizeof(struct tt_active) + sizeof(bool)) +
                                             (TT_WINDOW + 3) * sizeof(uint32_t) + 2 * sizeof(bool) + 1) +
                                    marks * (TT_WINDOW * sizeof(bool) + sizeof(uint32_t)));
    if (scratch == NULL || memory == NULL) {
        free(scratch);
        free(memory);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an operation of %u steps", schedule->nsteps);
    }
    *op = (struct tt_op){ .schedule = schedule,
        .memory = memory,
        .arithmetic.divisor = 1,
        .bounce.from = { UINT64_MAX, UINT64_MAX } };
    for (int w = 0; w < TT_WINDOW; w++) /* first all the lists of active steps, for their alignment */
        op->progress.slices[w].ready.active =
            (struct tt_active *)(void *)(memory + w * nsteps * sizeof(struct tt_active));
    uint32_t *counts = (uint32_t *)(void *)(memory + TT_WINDOW * nsteps * sizeof(struct tt_active));
    for (int w = 0; w < TT_WINDOW; w++, counts += nsteps)
        op->progress.slices[w].ready.waiting = counts;
    op->order.opening = counts;
    op->order.next_in_slot = counts + nsteps;
    op->progress.whole_waits = op->order.next_in_slot + nsteps;
    op->bounce.cell = op->progress.whole_waits + nsteps;
    bool *flags = (bool *)(op->bounce.cell + marks);
    for (int w = 0; w < TT_WINDOW; w++, flags += nsteps)
        op->progress.slices[w].placed = flags;
    for (int w = 0; w < TT_WINDOW; w++, flags += marks)
        op->progress.slices[w].bounced = flags;
    op->policy.single_reader = flags;
    op->policy.whole = flags + nsteps;
    op->progress.whole = (uint8_t *)(flags + 2 * nsteps);
    tt_mark_single_readers(schedule, op->policy.single_reader, scratch);
    tt_ready_order(&op->order, schedule, scratch);
    op->policy.shares = is_shared(schedule);
    op->policy.busy = has_other_work(schedule);
    tt_exec_find_cells(op);
    tt_exec_find_whole(op);
    free(scratch);
    return TUTTI_OK;
}

void tt_op_destroy(struct tt_op *op)
{
    free(op->memory);
    *op = (struct tt_op){ 0 };
}

/* The units from this position of the ready list on have just become ready: notes when, and grants what they
 * receive. A grant that comes before this rank's own sends is found by whoever answers them. (Where cells are
 * scaled out of what the receive overwrites, the answer is a sum of what has been scaled by then.) */
TT_INLINE void take_ready(struct tt_op *op, struct tt_slice *slice, uint32_t first)
{
    if (first == slice->ready.nactive || (op->observed.trace == NULL && !op->policy.grants))
        return;
    for (uint32_t i = first; i < slice->ready.nactive; i++) {
        struct tt_active *active = &slice->ready.active[i];
        if (op->observed.trace != NULL)
            active->began_ns = tt_now_ns();
        bool came = op->policy.wholes && op->progress.whole[active->step] == TT_WHOLE_CAME;
        if (op->policy.grants && !came && op->schedule->steps[active->step].verb == TT_VERB_RECV)
            tt_exec_grant(op, slice, active);
    }
}

static void start_slice(struct tt_op *op, struct tt_slice *slice, uint32_t index)
{
    const struct tt_schedule *s = op->schedule;
    slice->index = index;
    slice->held = false;
    slice->scaled = 0;
    if (op->policy.grants)
        memset(slice->placed, 0, s->nsteps * sizeof *slice->placed);
    tt_ready_start(&op->order, &slice->ready);
    take_ready(op, slice, 0);
    if (op->bounce.bytes > 0)
        memset(slice->bounced, 0, 2 * (size_t)s->chunks * sizeof *slice->bounced);
}

/* The meeting of a call that a leader's kernel does; NULL: messages do it. */
TT_INLINE struct tt_meeting *meeting_of(const struct tt_op *op)
{
    return op->gate != NULL ? op->gate->led.meeting : NULL;
}

/* Begins a slice now, or holds it until its gate is open, or a kernel has done the call. */
static void take_slice(struct tt_op *op, struct tt_slice *slice, uint32_t index)
{
    bool kernels = op->gate != NULL && (op->gate->local.decision != NULL || meeting_of(op) != NULL);
    if (op->gate == NULL || (!kernels && tt_gate_is_open(op->gate, index))) {
        start_slice(op, slice, index);
        return;
    }
    slice->index = index;
    slice->held = true;
    slice->ready.left = op->order.units;
    slice->ready.nactive = 0;
}

/* Tells the gate how many slices are done, without a gap. That all are done it is told once, at the end. */
static void tell_done(const struct tt_op *op)
{
    uint32_t done = op->layout.slices;
    for (int w = 0; w < TT_WINDOW; w++)
        if (op->progress.slices[w].ready.left > 0 && op->progress.slices[w].index < done)
            done = op->progress.slices[w].index;
    tt_gate_tell(op->gate, done);
}

void tt_exec_start(struct tt_op *op)
{
    op->result.state = TT_IDLE;
    op->result.status = TUTTI_OK;
    op->progress.slices_left = op->order.units > 0 ? op->layout.slices : 0;
    if (meeting_of(op) != NULL)
        meeting_of(op)->begin(meeting_of(op));
    op->bounce.claims =
        op->bounce.probe == NULL || (op->bounce.bytes > 0 && tt_bounce_probe_claims(op->bounce.probe));
    op->policy.grants = op->layout.count * op->layout.element_bytes > TT_GRANT_BYTES;
    tt_exec_start_whole(op);
    if (op->messages.class == TT_CLASS_P2P) { /* of several in flight each takes its numbers now */
        int peer = op->schedule->key.root;
        uint64_t *next =
            op->schedule->key.collective == TT_P2P_SEND ? op->messages.next_send : op->messages.next_recv;
        op->messages.sequence = next[peer];
        next[peer] += op->layout.slices;
        if (meeting_of(op) != NULL)
            meeting_of(op)->message = op->messages.sequence + 1;
    }
    for (uint32_t w = 0; w < TT_WINDOW; w++) {
        if (w < op->progress.slices_left) {
            take_slice(op, &op->progress.slices[w], w);
            continue;
        }
        op->progress.slices[w].ready.left = 0;
        op->progress.slices[w].ready.nactive = 0;
        op->progress.slices[w].held = false;
    }
}

/* True if the only reader of these cells will read them where they lie. What several read is copied once, to
 * where all find it in their caches. */
static bool is_pulled(const struct tt_op *op, struct tt_link *link, const struct tt_step *step,
    const struct tt_message *message)
{
    bool single = op->policy.single_reader[step - op->schedule->steps];
    return (single || message->whole != 0) && link->ops->pulls != NULL && link->ops->pulls(link, message);
}

/* Sends what a unit has; false if the slot is not free. Where the receiver can read the source in place, a
 * rank that only sends places every second message all the same, so that both ends have work. A rank that has
 * other work leaves that to the reader: lines that both write go back and forth between their caches. */
static bool post(
    struct tt_op *op, struct tt_slice *slice, struct tt_active *active, struct tt_message *message)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_link *link = tt_exec_link(op, step->peer);
    bool placed = op->policy.grants && slice->placed[active->step];
    message->halves = !op->policy.busy && (step->ordinal + slice->index) % 2 != 0;
    message->goes_on = slice->index >= TT_WINDOW;
    if (op->policy.grants && !placed) {
        placed = tt_exec_place(op, link, message, message->halves);
        slice->placed[active->step] = placed;
    }
    message->placed = placed;
    if (!placed)
        tt_exec_offer(op, slice, active, message);
    if (!placed && step->src_buffer != TT_TMP && message->bytes >= op->bounce.from[step->src_buffer] &&
        !is_pulled(op, link, step, message))
        tt_exec_bounce(op, slice, step, message);
    if (op->policy.grants && !placed) /* before the message, so that who answers it finds that */
        tt_exec_grant_back(op, slice, active);
    if (!link->ops->send(link, message))
        return false;
    active->posted = true;
    tt_exec_offered(op, slice, active, message);
    if (op->observed.trace != NULL)
        active->path = tt_trace_path(op->observed.trace, op->endpoint);
    op->result.state = TT_MOVED;
    op->progress.budget -= message->bytes < op->progress.budget ? message->bytes : op->progress.budget;
    return true;
}

static bool advance_send(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    enum tt_whole whole = op->policy.wholes ? tt_exec_give(op, slice, active) : TT_WHOLE_NOT;
    if (whole != TT_WHOLE_NOT)
        return whole == TT_WHOLE_DONE;
    if (!active->posted) {
        struct tt_message message;
        tt_exec_message(op, slice, step, &message);
        if (op->messages.class == TT_CLASS_P2P && op->messages.next_post[step->peer] != message.number)
            return false;
        if (message.bytes > 0 && !post(op, slice, active, &message))
            return false;
        if (op->messages.class == TT_CLASS_P2P)
            op->messages.next_post[step->peer]++;
        if (message.bytes == 0) {
            tt_exec_offered(op, slice, active, &message);
            return true;
        }
        if (tt_exec_is_offered(op, active)) /* what was said of it is heard before it is seen to be over */
            return false;
    }
    struct tt_link *link = tt_exec_link(op, step->peer);
    return link->ops->sent(link, tt_exec_number(op, slice, step));
}

/* True if the unit is done. */
static bool advance(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    enum tt_few few;
    switch (step->verb) {
    case TT_VERB_SEND:
        few = active->posted ? TT_FEW_NOT : tt_few_send(op, slice, step);
        return few == TT_FEW_NOT ? advance_send(op, slice, active) : few == TT_FEW_DONE;
    case TT_VERB_RECV:
    case TT_VERB_RECV_REDUCE:
        return tt_exec_combine(op, slice, active);
    default:
        return tt_exec_local(op, slice, active);
    }
}

TT_INLINE void retire(struct tt_op *op, struct tt_slice *slice, uint32_t position)
{
    if (op->bounce.bytes > 0)
        tt_exec_bounce_forget(op, slice, &op->schedule->steps[slice->ready.active[position].step]);
    take_ready(op, slice, tt_ready_retire(&op->order, &slice->ready, position));
}

/* Returns how many messages a chunk was: none if it is empty. */
static uint64_t messages_of(const struct tt_layout *layout, uint32_t chunk)
{
    return (layout->counts[chunk] + layout->slice_elements - 1) / layout->slice_elements;
}

/* The operation is over at this rank: its numbers are used up. */
static void finish(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    op->result.state = TT_DONE;
    if (op->gate != NULL)
        tt_gate_end(op->gate);
    for (uint32_t i = 0; op->one_sided && i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        if (step->verb == TT_VERB_SEND)
            op->messages.next_send[step->peer] += messages_of(&op->given, step->src_chunk);
        else if (step->verb == TT_VERB_RECV)
            op->messages.next_recv[step->peer] += messages_of(&op->layout, step->dst_chunk);
    }
    if (op->messages.class == TT_CLASS_P2P || op->one_sided)
        return;
    uint64_t slices = op->layout.slices;
    uint64_t numbers = slices == 1 ? 1 : (slices + TT_WINDOW - 1) / TT_WINDOW * TT_WINDOW;
    for (int peer = 0; peer < s->key.n; peer++) {
        op->messages.next_send[peer] += numbers * s->sends[peer];
        op->messages.next_recv[peer] += numbers * s->recvs[peer];
    }
}

/* A kernel has done all of it, or a copy: no message was sent, and no gate is waited for. What it would have
 * sent counts on all the same. */
static void end_without_messages(struct tt_op *op)
{
    const struct tt_key *key = &op->schedule->key;
    op->result.state = TT_DONE;
    op->progress.slices_left = 0;
    for (int w = 0; w < TT_WINDOW; w++)
        op->progress.slices[w].held = false;
    if (key->collective == TT_P2P_SEND)
        op->messages.next_post[key->root] += op->layout.slices;
}

/* The gate of a message counts on, too. */
static void pass_by(struct tt_op *op)
{
    end_without_messages(op);
    if (op->messages.class == TT_CLASS_P2P) {
        tt_gate_end(op->gate);
        return;
    }
    atomic_store_explicit(op->gate->local.looked, (uint32_t)op->gate->local.call, memory_order_release);
}

/* This message is none of what the peer has sent at its place. */
static enum tt_progress fail_to_match(struct tt_op *op, uint64_t bytes)
{
    op->result.state = TT_FAILED;
    op->result.status = TUTTI_MISMATCH;
    op->result.peer = op->schedule->key.root;
    op->result.arrival.bytes = bytes;
    return TT_FAILED;
}

/* A receiver whose kernel is to fetch the bytes finds that the peer has sent them by the host's memory. */
static bool came_by_the_host(const struct tt_op *op, struct tt_arrival *arrival)
{
    const struct tt_step *step = &op->schedule->steps[0];
    if (op->schedule->key.collective != TT_P2P_RECV)
        return false;
    struct tt_view like =
        tt_exec_view(op, &op->progress.slices[0], step->dst_buffer, step->dst_chunk, step->nchunks);
    struct tt_link *link = tt_exec_link(op, step->peer);
    return link->ops->arrived(link, op->messages.sequence, &like, arrival);
}

/* The other way round. */
static bool is_offered(const struct tt_op *op)
{
    const struct tt_offer *offer = op->gate != NULL ? op->gate->offer : NULL;
    return offer != NULL &&
           atomic_load_explicit(&offer->message, memory_order_acquire) == op->messages.sequence + 1;
}

/* The threads of all ranks meet, and a leader's kernels do all of it. */
static enum tt_progress meet(struct tt_op *op, struct tt_meeting *meeting)
{
    struct tt_arrival arrival;
    if (meeting->advance(meeting, op->gate, op->messages.hash ^ op->messages.signature))
        op->result.state = TT_MOVED;
    else if (!meeting->held && came_by_the_host(op, &arrival))
        return fail_to_match(op, arrival.bytes);
    op->progress.slices[0].held = meeting->held;
    if (meeting->over)
        end_without_messages(op);
    if (meeting->wrong != TT_NONE) {
        op->result.state = TT_FAILED;
        op->result.status = meeting->why;
        op->result.peer = meeting->wrong;
        op->result.arrival.bytes = meeting->wrong_bytes;
    }
    return op->result.state;
}

/* This one is done. */
static void next_slice(struct tt_op *op, struct tt_slice *slice)
{
    if (--op->progress.slices_left > 0 && slice->index + TT_WINDOW < op->layout.slices)
        take_slice(op, slice, slice->index + TT_WINDOW);
    if (op->gate != NULL && op->progress.slices_left > 0)
        tell_done(op);
}

/* True if the message of this step was lent and is still read: nothing else follows from it
 * (call_cache.c). */
static bool is_outstanding(struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (step->verb != TT_VERB_SEND)
        return false;
    struct tt_link *link = tt_exec_link(op, step->peer);
    return !link->ops->sent(link, tt_exec_number(op, slice, step));
}

void tt_exec_skip(struct tt_op *op, uint32_t step)
{
    struct tt_slice *slice = &op->progress.slices[0];
    for (uint32_t i = 0; i < slice->ready.nactive;) {
        struct tt_active *active = &slice->ready.active[i];
        bool skipped = active->step < step;
        active->posted = skipped && is_outstanding(op, slice, &op->schedule->steps[active->step]);
        if (skipped && !active->posted)
            retire(op, slice, i);
        else
            i++;
    }
    if (op->progress.slices_left > 0 && slice->ready.left == 0)
        next_slice(op, slice);
}

enum tt_progress tt_exec_progress(struct tt_op *op)
{
    if (op->result.state == TT_DONE || op->result.state == TT_FAILED)
        return op->result.state;
    op->result.state = TT_IDLE;
    op->progress.budget = TT_EXEC_BUDGET_BYTES;
    if (meeting_of(op) != NULL)
        return meet(op, meeting_of(op));
    for (int w = 0; w < TT_WINDOW && op->progress.slices_left > 0; w++) {
        struct tt_slice *slice = &op->progress.slices[w];
        bool open = slice->held && tt_gate_is_open(op->gate, slice->index);
        if (slice->held && tt_gate_is_over(op->gate)) {
            pass_by(op);
            return TT_DONE;
        }
        if (open) {
            start_slice(op, slice, slice->index);
            op->result.state = TT_MOVED;
        }
        for (uint32_t i = 0; i < slice->ready.nactive && op->progress.budget > 0;) {
            if (op->scaling.by != NULL && !tt_exec_scale(op, slice))
                break;
            if (advance(op, slice, &slice->ready.active[i])) {
                op->result.state = TT_MOVED;
                if (op->observed.trace != NULL)
                    tt_exec_trace_unit(op, slice, &slice->ready.active[i]);
                retire(op, slice, i);
                if (slice->ready.left == 0)
                    next_slice(op, slice);
            } else if (op->result.state == TT_FAILED) {
                return TT_FAILED;
            } else {
                i++;
            }
        }
    }
    if (op->progress.slices_left == 0)
        finish(op);
    if (op->result.state == TT_IDLE && is_offered(op))
        return fail_to_match(op, op->gate->offer->bytes);
    return op->result.state;
}

bool tt_exec_is_held(const struct tt_op *op)
{
    if (meeting_of(op) != NULL)
        return op->progress.slices[0].held;
    for (int w = 0; w < TT_WINDOW; w++)
        if (op->progress.slices[w].held)
            return true;
    return false;
}

bool tt_exec_takes_time(const struct tt_op *op)
{
    const struct tt_meeting *meeting = meeting_of(op);
    return tt_exec_is_held(op) && tt_gate_is_decided(op->gate) &&
           (meeting == NULL || meeting->late == TT_NONE);
}

bool tt_exec_is_served(const struct tt_op *op)
{
    const struct tt_meeting *meeting = meeting_of(op);
    return meeting != NULL && meeting->served;
}

/* Returns whose message a receiving unit lacks: the first that has not come in full. */
static int32_t lacks(const struct tt_op *op, const struct tt_slice *slice, uint32_t unit)
{
    const struct tt_step *step = &op->schedule->steps[unit];
    struct tt_view like = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    if (tt_exec_may_stand(op, slice, unit)) /* whoever asks for a slice decides that it is one */
        return step->peer;
    for (int i = 0; i < step->fold_count; i++) {
        struct tt_arrival a;
        struct tt_link *link = tt_exec_link(op, step[i].peer);
        if (!link->ops->arrived(link, tt_exec_number(op, slice, &step[i]), &like, &a) ||
            a.available < a.bytes)
            return step[i].peer;
    }
    return TT_NONE;
}

/* Returns whom an active unit waits for; *order is the place of the unit that waits in the order of the
 * schedule: where a send was posted, and a later unit is to overwrite what it reads, that one waits for the
 * reader. */
static int32_t waits_for(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_active *active, uint64_t *order)
{
    const struct tt_schedule *s = op->schedule;
    const struct tt_step *step = &s->steps[active->step];
    uint32_t follower = s->follower_first[active->step];
    *order = (uint64_t)slice->index << 32 | active->step;
    if (step->verb != TT_VERB_SEND)
        return step->peer != TT_NONE ? lacks(op, slice, active->step) : TT_NONE;
    if (active->posted && follower == s->follower_first[active->step + 1])
        return TT_NONE;
    if (active->posted)
        *order = (uint64_t)slice->index << 32 | s->followers[follower];
    return step->peer;
}

/* The earliest unit in the order of the schedule that lacks a message, a slot or a reader: what its peer
 * in turn waits for is earlier still, so a chain of such answers ends at the rank that is late. */
int32_t tt_exec_waits_for(const struct tt_op *op)
{
    int32_t late = TT_NONE;
    if (meeting_of(op) != NULL)
        return meeting_of(op)->late;
    int32_t reader = TT_NONE; /* of a message that was sent: it is late for another's sake */
    uint64_t earliest = UINT64_MAX, order;
    for (int w = 0; w < TT_WINDOW; w++)
        for (uint32_t i = 0; i < op->progress.slices[w].ready.nactive; i++) {
            const struct tt_active *active = &op->progress.slices[w].ready.active[i];
            int32_t peer = waits_for(op, &op->progress.slices[w], active, &order);
            if (active->posted)
                reader = op->schedule->steps[active->step].peer;
            if (peer != TT_NONE && order < earliest) {
                earliest = order;
                late = peer;
            }
        }
    if (op->messages.class == TT_CLASS_P2P && op->gate != NULL && !tt_gate_is_decided(op->gate))
        return op->schedule->key.root; /* which has not called */
    return late != TT_NONE ? late : reader;
}
