/* exec.c: the ready list and the verbs.
 *
 * Per slice in flight: a count of open dependencies per step and a list of steps that are ready or under
 * way. One call is one pass over the lists. A fold is one unit: it runs when all its messages are there,
 * as one n-way pass.
 *
 * Slices never compete for slots: those in flight together have numbers of different remainder modulo
 * TT_WINDOW, and window w runs slices w, w + TT_WINDOW ... in this order. Within a slice the messages of a
 * pair take their turns: one waits until the message AHEAD before it, which has its slot, is done. So a
 * message is never posted before one that needs the same slot, as the proof of the slots assumes; and few
 * receives are polled, however long the ring. Point-to-point sends, of which many may be in flight, post in
 * the order of their numbers for the same reason. */
#include "exec.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { AHEAD = TT_SLOTS / TT_WINDOW, NO_STEP = UINT32_MAX };

/* Who waits for whom for the sake of a slot; `recent` has room for AHEAD steps of each peer and direction. */
static void take_turns(const struct tt_schedule *s, struct tt_op *op, uint32_t *recent)
{
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        uint32_t unit = i - step->fold_index;
        op->units += step->fold_index == 0;
        op->opening[i] += step->dep_count;
        op->turn[i] = NO_STEP;
        if (step->verb != TT_VERB_SEND && step->verb != TT_VERB_RECV && step->verb != TT_VERB_RECV_REDUCE)
            continue;
        uint32_t direction = step->verb == TT_VERB_SEND;
        uint32_t *last = &recent[(2 * (uint32_t)step->peer + direction) * AHEAD + step->ordinal % AHEAD];
        if (step->ordinal >= AHEAD && *last < unit) {
            op->turn[*last] = unit;
            op->opening[unit]++;
        }
        *last = i;
    }
}

tutti_status tt_op_create(const struct tt_schedule *schedule, struct tt_op *op)
{
    uint64_t nsteps = (uint64_t)schedule->nsteps + 1;
    uint32_t *recent = malloc((uint64_t)schedule->key.n * 2 * AHEAD * sizeof *recent);
    uint8_t *memory =
        calloc(nsteps, TT_WINDOW * sizeof(struct tt_active) + (TT_WINDOW + 2) * sizeof(uint32_t));
    if (recent == NULL || memory == NULL) {
        free(recent);
        free(memory);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory for an operation of %u steps", schedule->nsteps);
    }
    *op = (struct tt_op){ .schedule = schedule, .memory = memory, .divisor = 1 };
    for (int w = 0; w < TT_WINDOW; w++) /* first all the lists of active steps, for their alignment */
        op->slices[w].active = (struct tt_active *)(void *)(memory + w * nsteps * sizeof(struct tt_active));
    uint32_t *counts = (uint32_t *)(void *)(memory + TT_WINDOW * nsteps * sizeof(struct tt_active));
    for (int w = 0; w < TT_WINDOW; w++, counts += nsteps)
        op->slices[w].waiting = counts;
    op->opening = counts;
    op->turn = counts + nsteps;
    take_turns(schedule, op, recent);
    free(recent);
    return TUTTI_OK;
}

void tt_op_destroy(struct tt_op *op)
{
    free(op->memory);
    *op = (struct tt_op){ 0 };
}

static void activate(struct tt_slice *slice, uint32_t step)
{
    slice->active[slice->nactive++] = (struct tt_active){ .step = step };
}

static void start_slice(struct tt_op *op, struct tt_slice *slice, uint32_t index)
{
    const struct tt_schedule *s = op->schedule;
    slice->index = index;
    slice->left = op->units;
    slice->nactive = 0;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        slice->waiting[i] = op->opening[i];
        if (op->opening[i] == 0 && s->steps[i].fold_index == 0)
            activate(slice, i);
    }
}

void tt_exec_start(struct tt_op *op)
{
    op->state = TT_IDLE;
    op->status = TUTTI_OK;
    op->slices_left = op->units > 0 ? op->layout.slices : 0;
    if (op->class == TT_CLASS_P2P) { /* several of a pair may be in flight: each takes its numbers now */
        int peer = op->schedule->key.root;
        uint64_t *next = op->schedule->key.collective == TT_P2P_SEND ? op->next_send : op->next_recv;
        op->sequence = next[peer];
        next[peer] += op->layout.slices;
    }
    for (uint32_t w = 0; w < TT_WINDOW; w++) {
        op->slices[w].left = 0;
        op->slices[w].nactive = 0;
        if (w < op->slices_left)
            start_slice(op, &op->slices[w], w);
    }
}

/* How many slices share a round of numbers. */
static uint32_t ways_of(const struct tt_op *op)
{
    return op->layout.slices > 1 ? TT_WINDOW : 1;
}

/* Message numbers go by rounds of TT_WINDOW slices, then by ordinal, then by slice; both ends count alike
 * (transport.h). */
static uint64_t number_of(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (op->class == TT_CLASS_P2P)
        return op->sequence + slice->index;
    bool sends = step->verb == TT_VERB_SEND;
    uint64_t base = sends ? op->next_send[step->peer] : op->next_recv[step->peer];
    uint64_t per_slice = sends ? op->schedule->sends[step->peer] : op->schedule->recvs[step->peer];
    return base + (slice->index / TT_WINDOW * per_slice + step->ordinal) * ways_of(op) +
           slice->index % TT_WINDOW;
}

static struct tt_view view_of(
    const struct tt_op *op, const struct tt_slice *slice, unsigned buffer, uint32_t chunk, uint32_t nchunks)
{
    struct tt_view view = { &op->layout, op->spaces[buffer], chunk, nchunks, slice->index };
    if (buffer == TT_TMP)
        view.space.base += (uintptr_t)(slice - op->slices) * op->tmp_slice_bytes;
    return view;
}

static bool fail(struct tt_op *op, tutti_status status, int32_t peer)
{
    op->state = TT_FAILED;
    op->status = status;
    op->failed_peer = peer;
    return false;
}

static bool advance_send(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    const struct tt_transport *transport = op->endpoint->transport;
    uint64_t number = number_of(op, slice, step);
    if (!active->posted) {
        struct tt_message message = { .peer = step->peer,
            .class = (uint8_t)op->class,
            .reduced = op->folds[TT_CHAIN] != NULL,
            .signature = op->signature,
            .number = number,
            .source = view_of(op, slice, step->src_buffer, step->src_chunk, step->nchunks) };
        message.bytes = tt_view_count(&message.source) * op->layout.element_bytes;
        if (op->class == TT_CLASS_P2P && op->next_post[step->peer] != number)
            return false;
        if (message.bytes > 0 && !transport->send(op->endpoint, &message))
            return false;
        if (op->class == TT_CLASS_P2P)
            op->next_post[step->peer]++;
        if (message.bytes == 0)
            return true;
        active->posted = true;
        op->state = TT_MOVED;
        op->budget -= message.bytes < op->budget ? message.bytes : op->budget;
    }
    return transport->sent(op->endpoint, step->peer, op->class, number);
}

/* A unit that combines: where its operands come from. Operands stand in the order of the expression. */
struct operands {
    uint64_t count; /* elements of each */
    int n, own; /* operands in all; own: the index of the local one, n if there is none */
    struct tt_view dst, local;
    const struct tt_step *messages[TT_FOLD_MAX]; /* of the operands but the own one, in order */
    struct tt_arrival arrivals[TT_FOLD_MAX];
};

/* Look for the messages of a receiving unit. False if one has not come (or is wrong); *upto: elements
 * readable of all. */
static bool gather(
    struct tt_op *op, struct tt_slice *slice, const struct tt_step *step, struct operands *o, uint64_t *upto)
{
    bool reduces = step->verb == TT_VERB_RECV_REDUCE;
    int lefts = 0, messages = 0;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < step->fold_count; i++)
            if (((step[i].flags & TT_LEFT) != 0) == (side == 0))
                o->messages[messages++] = &step[i];
    for (int i = 0; i < step->fold_count; i++)
        lefts += (step[i].flags & TT_LEFT) != 0;
    o->n = messages + reduces;
    o->own = reduces ? lefts : o->n;
    *upto = o->count;
    for (int i = 0; i < messages; i++) {
        const struct tt_step *m = o->messages[i];
        struct tt_arrival *a = &o->arrivals[i];
        if (!op->endpoint->transport->arrived(
                op->endpoint, m->peer, op->class, number_of(op, slice, m), &o->dst, a))
            return false;
        if (a->signature != op->signature || a->bytes != o->count * op->layout.element_bytes) {
            op->failed_arrival = *a;
            return fail(op, TUTTI_MISMATCH, m->peer);
        }
        uint64_t elements = a->available / op->layout.element_bytes;
        *upto = elements < *upto ? elements : *upto;
    }
    return true;
}

/* The contiguous elements of all operands at `at`, at most `most`; sets their addresses. Pulled operands
 * are fetched. */
static uint64_t resolve(
    struct tt_op *op, struct operands *o, uint64_t at, uint64_t most, void **dst, const void **sources)
{
    uint64_t element = op->layout.element_bytes, run, count = most;
    *dst = (void *)tt_view_run(&o->dst, at, &run);
    count = run < count ? run : count;
    if (o->own < o->n) {
        sources[o->own] = (const void *)tt_view_run(&o->local, at, &run);
        count = run < count ? run : count;
    }
    for (int i = 0, m = 0; i < o->n; i++) {
        if (i == o->own)
            continue;
        struct tt_arrival *a = &o->arrivals[m++];
        sources[i] = (const void *)tt_arrival_run(a, at * element, &run);
        count = run / element < count ? run / element : count;
        if (a->path == TT_PATH_PULLED && o->n > 1 && count > TT_SCRATCH_BYTES / element)
            count = TT_SCRATCH_BYTES / element;
    }
    for (int i = 0, m = 0; i < o->n; i++) {
        if (i == o->own)
            continue;
        struct tt_arrival *a = &o->arrivals[m];
        int32_t peer = o->messages[m++]->peer;
        if (a->path != TT_PATH_PULLED)
            continue;
        void *target = o->n > 1 ? op->scratch + (uint64_t)(m - 1) * TT_SCRATCH_BYTES : *dst;
        tutti_status status =
            op->endpoint->transport->pull(op->endpoint, peer, a, at * element, target, count * element);
        if (status != TUTTI_OK) {
            fail(op, status, peer);
            return 0;
        }
        sources[i] = target;
    }
    return count;
}

/* Combine elements [*cursor, upto) as far as the budget goes. */
static void combine(
    struct tt_op *op, const struct tt_step *step, struct operands *o, uint64_t *cursor, uint64_t upto)
{
    uint64_t element = op->layout.element_bytes;
    uint32_t divisor = step->flags & TT_FINAL ? op->divisor : 1;
    tt_fold_fn fold = op->folds[step->flags & TT_FOLD_TREE ? TT_TREE : TT_CHAIN];
    while (*cursor < upto && op->budget > 0) {
        const void *sources[TT_FOLD_MAX + 1];
        void *dst;
        uint64_t most = op->budget / element + 1;
        uint64_t count =
            resolve(op, o, *cursor, upto - *cursor < most ? upto - *cursor : most, &dst, sources);
        if (op->state == TT_FAILED)
            return;
        if (o->n > 1)
            fold(dst, sources, o->n, count, divisor);
        else if (sources[0] != dst)
            tt_copy_bytes(dst, sources[0], count * element);
        *cursor += count;
        op->state = TT_MOVED;
        op->budget -= count * element < op->budget ? count * element : op->budget;
    }
}

static bool advance_recv(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    const struct tt_transport *transport = op->endpoint->transport;
    struct operands o;
    o.dst = view_of(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    o.local = view_of(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    o.count = tt_view_count(&o.dst);
    uint64_t upto;
    if (o.count == 0)
        return true;
    if (!gather(op, slice, step, &o, &upto))
        return false;
    combine(op, step, &o, &active->cursor, upto);
    if (active->cursor < o.count || op->state == TT_FAILED)
        return false;
    for (int i = 0; i < step->fold_count; i++)
        transport->release(op->endpoint, step[i].peer, op->class, number_of(op, slice, &step[i]));
    return true;
}

static bool advance_local(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct tt_view dst = view_of(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    struct tt_view left = view_of(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    struct tt_view right = left;
    if (step->verb == TT_VERB_REDUCE)
        right = view_of(op, slice, step->right_buffer, step->right_chunk, step->nchunks);
    uint64_t total = tt_view_count(&dst), element = op->layout.element_bytes;
    uint32_t divisor = step->flags & TT_FINAL ? op->divisor : 1;
    while (active->cursor < total && op->budget > 0) {
        const void *sources[2];
        uint64_t count, run, most = op->budget / element + 1;
        void *to = (void *)tt_view_run(&dst, active->cursor, &count);
        sources[0] = (const void *)tt_view_run(&left, active->cursor, &run);
        count = run < count ? run : count;
        sources[1] = (const void *)tt_view_run(&right, active->cursor, &run);
        count = run < count ? run : count;
        count = count < most ? count : most;
        if (step->verb == TT_VERB_REDUCE)
            op->folds[TT_CHAIN](to, sources, 2, count, divisor);
        else
            tt_copy_bytes(to, sources[0], count * element);
        active->cursor += count;
        op->state = TT_MOVED;
        op->budget -= count * element < op->budget ? count * element : op->budget;
    }
    return active->cursor == total;
}

/* True if the unit is done. */
static bool advance(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    switch (op->schedule->steps[active->step].verb) {
    case TT_VERB_SEND:
        return advance_send(op, slice, active);
    case TT_VERB_RECV:
    case TT_VERB_RECV_REDUCE:
        return advance_recv(op, slice, active);
    default:
        return advance_local(op, slice, active);
    }
}

static void retire(struct tt_op *op, struct tt_slice *slice, uint32_t position)
{
    const struct tt_schedule *s = op->schedule;
    uint32_t step = slice->active[position].step;
    slice->active[position] = slice->active[--slice->nactive];
    slice->left--;
    for (uint32_t f = s->follower_first[step]; f < s->follower_first[step + 1]; f++)
        if (--slice->waiting[s->followers[f]] == 0)
            activate(slice, s->followers[f]);
    for (uint32_t i = step; i < step + s->steps[step].fold_count; i++)
        if (op->turn[i] != NO_STEP && --slice->waiting[op->turn[i]] == 0)
            activate(slice, op->turn[i]);
}

/* The operation is over at this rank: its numbers are used up. */
static void finish(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    uint64_t ways = ways_of(op), numbers = (op->layout.slices + ways - 1) / ways * ways;
    if (op->class == TT_CLASS_COLLECTIVE)
        for (int peer = 0; peer < s->key.n; peer++) {
            op->next_send[peer] += numbers * s->sends[peer];
            op->next_recv[peer] += numbers * s->recvs[peer];
        }
    op->state = TT_DONE;
}

enum tt_progress tt_exec_progress(struct tt_op *op)
{
    if (op->state == TT_DONE || op->state == TT_FAILED)
        return op->state;
    op->state = TT_IDLE;
    op->budget = TT_EXEC_BUDGET_BYTES;
    for (int w = 0; w < TT_WINDOW; w++) {
        struct tt_slice *slice = &op->slices[w];
        for (uint32_t i = 0; i < slice->nactive && op->budget > 0;) {
            if (advance(op, slice, &slice->active[i])) {
                op->state = TT_MOVED;
                retire(op, slice, i);
                if (slice->left == 0 && --op->slices_left > 0 && slice->index + TT_WINDOW < op->layout.slices)
                    start_slice(op, slice, slice->index + TT_WINDOW);
            } else if (op->state == TT_FAILED) {
                return TT_FAILED;
            } else {
                i++;
            }
        }
    }
    if (op->slices_left == 0)
        finish(op);
    return op->state;
}

/* Whose message a receiving unit lacks: the first that has not come in full. */
static int32_t lacks(const struct tt_op *op, const struct tt_slice *slice, uint32_t unit)
{
    const struct tt_step *step = &op->schedule->steps[unit];
    struct tt_view like = view_of(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    for (int i = 0; i < step->fold_count; i++) {
        struct tt_arrival a;
        if (!op->endpoint->transport->arrived(
                op->endpoint, step[i].peer, op->class, number_of(op, slice, &step[i]), &like, &a) ||
            a.available < a.bytes)
            return step[i].peer;
    }
    return TT_NONE;
}

/* The earliest unit in the order of the schedule that lacks a message or a slot: what its peer in turn waits
 * for is earlier still, so a chain of such answers ends at the rank that is late. */
int32_t tt_exec_waits_for(const struct tt_op *op)
{
    int32_t late = TT_NONE;
    int32_t reader = TT_NONE; /* of a message that was sent: it is late for another's sake */
    uint64_t earliest = UINT64_MAX;
    for (int w = 0; w < TT_WINDOW; w++)
        for (uint32_t i = 0; i < op->slices[w].nactive; i++) {
            const struct tt_active *active = &op->slices[w].active[i];
            const struct tt_step *step = &op->schedule->steps[active->step];
            uint64_t order = (uint64_t)op->slices[w].index << 32 | active->step;
            int32_t peer = TT_NONE;
            if (step->verb == TT_VERB_SEND && active->posted)
                reader = step->peer;
            else if (step->verb == TT_VERB_SEND)
                peer = step->peer;
            else if (step->peer != TT_NONE)
                peer = lacks(op, &op->slices[w], active->step);
            if (peer != TT_NONE && order < earliest) {
                earliest = order;
                late = peer;
            }
        }
    return late != TT_NONE ? late : reader;
}
