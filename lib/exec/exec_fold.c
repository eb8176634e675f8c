/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_fold.c: the units that combine or copy: where their operands are, and the arithmetic on what is there.
 *
 * Operands lie in this rank's cells, in slots, or in a peer's memory that is mapped. Each is a view of runs;
 * what all operands have in one run is one call of a kernel. */
#include "exec/exec_few.h"

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
    int lefts = 0, left = 0, messages = step->fold_count;
    for (int i = 0; i < messages; i++)
        lefts += (step[i].flags & TT_LEFT) != 0;
    for (int i = 0, right = lefts; i < messages; i++)
        o->messages[step[i].flags & TT_LEFT ? left++ : right++] = &step[i];
    o->n = messages + reduces;
    o->own = reduces ? lefts : o->n;
    if (reduces)
        o->local = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    *upto = o->count;
    for (int i = 0; i < messages; i++) {
        const struct tt_step *m = o->messages[i];
        struct tt_arrival *a = &o->arrivals[i];
        struct tt_link *link = tt_exec_link(op, m->peer);
        if (!link->ops->arrived(link, tt_exec_number(op, slice, m), &o->dst, a))
            return false;
        if (a->signature != tt_exec_signature(op, &o->dst) ||
            a->bytes != o->count * op->layout.element_bytes) {
            op->result.arrival = *a;
            return tt_exec_fail(op, TUTTI_MISMATCH, m->peer);
        }
        uint64_t elements = a->available == a->bytes ? o->count : a->available / op->layout.element_bytes;
        *upto = elements < *upto ? elements : *upto;
    }
    return true;
}

/* The contiguous elements of all operands at `at`, at most `most`; sets their addresses. */
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
        sources[i] = (const void *)tt_arrival_run(&o->arrivals[m++], at * element, &run);
        count = run < count * element ? run / element : count;
    }
    return count;
}

static uint32_t divisor_of(const struct tt_op *op, const struct tt_step *step)
{
    return step->flags & TT_FINAL ? op->arithmetic.divisor : 1;
}

static inline void fold(const struct tt_op *op, const struct tt_step *step, void *dst,
    const void *const *sources, int k, uint64_t count)
{
    enum tt_shape shape = step->flags & TT_FOLD_TREE ? TT_TREE : TT_CHAIN;
    if (op->arithmetic.user == NULL)
        op->arithmetic.folds[shape](dst, sources, k, count, divisor_of(op, step));
    else
        tt_operator_fold(op->arithmetic.user, shape, dst, sources, k, count);
}

/* Returns how many elements of a unit come next: up to the end of what is there, and of the budget. */
static uint64_t next_count(const struct tt_op *op, uint64_t left)
{
    uint64_t element = op->layout.element_bytes;
    return left * element <= op->progress.budget ? left : op->progress.budget / element + 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Computes one run, block by block: each is stored here and at the targets before the next is computed. What
 * is not read here again is computed aside, so that all stores can go past the caches. */
static void compute_blocks(const struct tt_op *op, const struct tt_step *step,
    const struct tt_targets *targets, uint8_t *dst, const void *const *sources, int k, uint64_t count)
{
    _Alignas(64) uint8_t aside[TT_BLOCK_BYTES];
    uint64_t element = op->layout.element_bytes;
    bool stream = targets->all && (targets->streams & TT_STREAM_OWN) && element <= sizeof aside;
    uint64_t limit = targets->streams != 0 ? TT_BLOCK_BYTES : TT_BLOCK_CACHED_BYTES;
    uint64_t block = element < limit ? limit / element : 1;
    for (uint64_t at = 0; at < count; at += block) {
        const void *operands[TT_FOLD_MAX + 1];
        uint64_t elements = smaller(block, count - at), bytes = elements * element;
        uint8_t *to = dst + at * element;
        for (int i = 0; i < k; i++)
            operands[i] = (const uint8_t *)sources[i] + at * element;
        const void *result = (const uint8_t *)sources[0] + at * element;
        if (k > 1) {
            result = stream ? aside : to;
            fold(op, step, stream ? aside : to, operands, k, elements);
        }
        if (result != to)
            tt_exec_copy(stream, to, result, bytes);
        for (int i = 0; i < targets->n; i++)
            tt_exec_copy(targets->streams & TT_STREAM_REMOTE, targets->runs[i] + at * element, result, bytes);
    }
}

/* True if this sum has a kernel that stores to two places, or past the caches. */
static bool has_spread(const struct tt_op *op, const struct tt_step *step, int k)
{
    return op->arithmetic.spread != NULL && op->arithmetic.user == NULL && k > 1 &&
           (step->flags & TT_FOLD_TREE) == 0;
}

/* The result of a unit in TMP whose only reader is a send that was granted: it need not be here at all. */
static void store_there(const struct tt_op *op, const struct tt_step *step, const struct tt_targets *targets,
    const void *const *sources, int k, uint64_t count)
{
    uint8_t *there = targets->runs[0];
    bool stream = (targets->streams & TT_STREAM_REMOTE) != 0;
    if (k == 1)
        tt_exec_copy(stream, there, sources[0], count * op->layout.element_bytes);
    else if (stream && has_spread(op, step, k))
        op->arithmetic.spread(there, NULL, TT_STREAM_DST, sources, k, count, divisor_of(op, step));
    else
        fold(op, step, there, sources, k, count);
}

/* Stores the result in this rank's cells, and in those of each rank that granted. */
static void store_here(const struct tt_op *op, const struct tt_step *step, const struct tt_targets *targets,
    uint8_t *dst, const void *const *sources, int k, uint64_t count)
{
    uint8_t *also = targets->n > 0 ? targets->runs[0] : NULL;
    int past = targets->all ? targets->streams : targets->streams & TT_STREAM_REMOTE;
    bool one = also == NULL ? (past & TT_STREAM_OWN) != 0 : targets->n == 1 && (dst - also) % 64 == 0;
    if (one && has_spread(op, step, k))
        op->arithmetic.spread(dst, also, past, sources, k, count, divisor_of(op, step));
    else if (also != NULL || (past & TT_STREAM_OWN))
        compute_blocks(op, step, targets, dst, sources, k, count);
    else if (k > 1)
        fold(op, step, dst, sources, k, count);
    else if (sources[0] != dst)
        tt_copy_bytes(dst, sources[0], count * op->layout.element_bytes);
}

/* Store the result of at most `count` elements at `at`; returns how many. */
static uint64_t compute(struct tt_op *op, const struct tt_step *step, struct tt_targets *targets, void *dst,
    const void *const *sources, int k, uint64_t at, uint64_t count)
{
    for (int i = 0; i < targets->n; i++) {
        uint64_t run;
        targets->runs[i] = (uint8_t *)tt_view_run(&targets->places[i], at, &run);
        count = smaller(count, run);
    }
    if (targets->n == 1 && targets->all && step->dst_buffer == TT_TMP)
        store_there(op, step, targets, sources, k, count);
    else
        store_here(op, step, targets, dst, sources, k, count);
    uint64_t bytes = count * op->layout.element_bytes * (1 + (uint64_t)targets->n);
    op->result.state = TT_MOVED;
    op->progress.budget -= bytes < op->progress.budget ? bytes : op->progress.budget;
    return count;
}

/* Combine elements [*cursor, upto) as far as the budget goes. */
static void combine(struct tt_op *op, const struct tt_step *step, struct operands *o,
    struct tt_targets *targets, uint64_t *cursor, uint64_t upto)
{
    while (*cursor < upto && op->progress.budget > 0) {
        const void *sources[TT_FOLD_MAX + 1];
        void *dst;
        uint64_t count = resolve(op, o, *cursor, next_count(op, upto - *cursor), &dst, sources);
        *cursor += compute(op, step, targets, dst, sources, o->n, *cursor, count);
    }
    if (op->streams != 0)
        tt_copy_fence();
}

bool tt_exec_combine(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    struct operands o;
    struct tt_targets targets;
    enum tt_few few = active->cursor == 0 ? tt_few_receive(op, slice, step) : TT_FEW_NOT;
    if (few != TT_FEW_NOT)
        return few == TT_FEW_DONE;
    o.dst = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    o.count = tt_view_count(&o.dst);
    uint64_t upto;
    if (o.count == 0)
        return true;
    /* A message is not granted yet where an earlier call had its slot. */
    if (op->policy.grants && op->messages.class == TT_CLASS_P2P && !active->granted)
        tt_exec_grant(op, slice, active);
    enum tt_whole whole = op->policy.wholes ? tt_exec_take(op, slice, active) : TT_WHOLE_NOT;
    if (whole != TT_WHOLE_NOT)
        return whole == TT_WHOLE_DONE;
    if (!gather(op, slice, step, &o, &upto))
        return false;
    if (o.n == 1 && o.arrivals[0].path == TT_PATH_PLACED) {
        active->cursor = upto;
    } else if (active->cursor < upto) {
        tt_exec_targets(op, slice, active, &targets);
        combine(op, step, &o, &targets, &active->cursor, upto);
    }
    if (active->cursor < o.count || op->result.state == TT_FAILED)
        return false;
    for (int i = 0; i < step->fold_count; i++) {
        struct tt_link *link = tt_exec_link(op, step[i].peer);
        link->ops->release(link, tt_exec_number(op, slice, &step[i]));
    }
    return true;
}

bool tt_exec_local(struct tt_op *op, struct tt_slice *slice, struct tt_active *active)
{
    const struct tt_step *step = &op->schedule->steps[active->step];
    if (tt_few_copy(op, slice, step))
        return true;
    struct tt_view dst = tt_exec_view(op, slice, step->dst_buffer, step->dst_chunk, step->nchunks);
    struct tt_view left = tt_exec_view(op, slice, step->src_buffer, step->src_chunk, step->nchunks);
    struct tt_view right;
    bool reduces = step->verb == TT_VERB_REDUCE;
    uint64_t run;
    uint64_t total = tt_view_count(&dst);
    if (reduces)
        right = tt_exec_view(op, slice, step->right_buffer, step->right_chunk, step->nchunks);
    struct tt_targets targets;
    if (total > 0)
        tt_exec_targets(op, slice, active, &targets);
    while (active->cursor < total && op->progress.budget > 0) {
        const void *sources[2];
        uint64_t count, most = next_count(op, total - active->cursor);
        void *to = (void *)tt_view_run(&dst, active->cursor, &count);
        sources[0] = (const void *)tt_view_run(&left, active->cursor, &run);
        count = run < count ? run : count;
        if (reduces) {
            sources[1] = (const void *)tt_view_run(&right, active->cursor, &run);
            count = run < count ? run : count;
        }
        count = count < most ? count : most;
        active->cursor += compute(op, step, &targets, to, sources, 1 + reduces, active->cursor, count);
    }
    if (op->streams != 0)
        tt_copy_fence();
    return active->cursor == total;
}

bool tt_exec_scale(struct tt_op *op, struct tt_slice *slice)
{
    const void *factor = op->scaling.by->scalar != NULL ? op->gate->factor : op->scaling.by->factor;
    for (; slice->scaled < op->layout.chunks && op->progress.budget > 0; slice->scaled++) {
        struct tt_view to = tt_exec_view(op, slice, TT_IN, slice->scaled, 1), from = to;
        uint64_t count, bytes;
        from.space = op->scaling.unscaled;
        from.space.base += (uintptr_t)(slice - op->progress.slices) * op->scaling.window_bytes;
        void *dst = (void *)tt_view_run(&to, 0, &count);
        tt_scale(dst, (const void *)tt_view_run(&from, 0, &count), count, op->scaling.by->type, factor);
        bytes = count * op->layout.element_bytes;
        op->result.state = TT_MOVED;
        op->progress.budget -= bytes < op->progress.budget ? bytes : op->progress.budget;
    }
    return slice->scaled == op->layout.chunks;
}
