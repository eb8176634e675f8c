/* SPDX-License-Identifier: BSD-3-Clause */
/* device_move.c: what a stream has of one slice: its operands to the cells, its results from there, and the
 * words of its gate.
 *
 * A slice has a part of each chunk, so the parts stand apart in the user's buffer, at one distance where the
 * chunks are even: rows of a rectangle, which one copy takes. Even chunks are of two lengths at most, so
 * there are at most three rectangles; blocks of a v-form are mostly copied one by one. */
#include "device/device_led.h"

enum { PITCH_MAX = 1 << 30 }; /* a distance of rows that every device can */

struct rectangle {
    uintptr_t user;
    uint8_t *cell;
    uint64_t pitch, row_bytes, rows;
};

static enum tt_dev_error copy(
    struct tt_device *d, const struct tt_device_move *m, const struct rectangle *r, void *stream)
{
    void *user = (void *)r->user;
    if (r->rows == 0)
        return TT_DEV_OK;
    d->marks.enqueued++;
    if (r->rows == 1)
        return m->back ? d->dev->copy(user, r->cell, r->row_bytes, stream)
                       : d->dev->copy(r->cell, user, r->row_bytes, stream);
    return m->back ? d->dev->copy_rows(user, r->pitch, r->cell, m->stride, r->row_bytes, r->rows, stream)
                   : d->dev->copy_rows(r->cell, m->stride, user, r->pitch, r->row_bytes, r->rows, stream);
}

/* Adds a part to the rectangle if it continues that; else returns false. */
static bool extend(
    struct rectangle *r, const struct tt_device_move *m, uintptr_t user, const uint8_t *cell, uint64_t bytes)
{
    if (r->rows == 0 || bytes != r->row_bytes || cell != r->cell + r->rows * m->stride)
        return false;
    uint64_t pitch = r->rows == 1 ? user - r->user : r->pitch; /* too long where it goes backwards */
    if (user != r->user + r->rows * pitch || pitch < bytes || pitch > PITCH_MAX)
        return false;
    r->pitch = pitch;
    r->rows++;
    return true;
}

/* All chunks are one piece, here and there. */
static enum tt_dev_error move_packed(struct tt_device *d, const struct tt_device_move *m, void *stream)
{
    struct tt_span part = tt_device_span(m);
    struct rectangle r = { .user = part.begin, .cell = m->cells, .row_bytes = part.end - part.begin };
    r.rows = r.row_bytes > 0;
    return copy(d, m, &r, stream);
}

struct tt_span tt_device_span(const struct tt_device_move *m)
{
    const struct tt_layout *l = m->layout;
    if (m->chunks.count == 0)
        return (struct tt_span){ 0 };
    struct tt_part first = tt_layout_chunk(l, (uint32_t)m->chunks.first),
                   last = tt_layout_chunk(l, (uint32_t)(m->chunks.first + m->chunks.count - 1));
    return (struct tt_span){ m->space.base + first.first * l->element_bytes,
        m->space.base + (last.first + last.count) * l->element_bytes };
}

/* Counts the pieces of work. */
static enum tt_dev_error move_parts(
    struct tt_device *d, const struct tt_device_move *m, uint32_t slice, void *stream)
{
    if (m->stride == 0)
        return move_packed(d, m, stream);
    struct rectangle r = { 0 };
    enum tt_dev_error error = TT_DEV_OK;
    uint8_t *window = m->cells + slice % TT_WINDOW * m->chunks.count * m->stride;
    for (uint64_t i = 0; i < m->chunks.count && error == TT_DEV_OK; i++) {
        struct tt_view part = { m->layout, m->space, (uint32_t)(m->chunks.first + i), 1, slice };
        uint64_t count;
        uintptr_t user = tt_view_run(&part, 0, &count);
        uint64_t bytes = count * m->layout->element_bytes;
        uint8_t *cell = window + i * m->stride;
        if (bytes == 0 || extend(&r, m, user, cell, bytes))
            continue;
        error = copy(d, m, &r, stream);
        r = (struct rectangle){ .user = user, .cell = cell, .row_bytes = bytes, .rows = 1 };
    }
    return error == TT_DEV_OK ? copy(d, m, &r, stream) : error;
}

/* --- A slice of a call */

static void *stream_of(const struct tt_comm_batch *b, const struct tt_staged *op, unsigned side)
{
    return op->duplex && side == TT_OUT ? b->device->results : b->ops[0].stream;
}

static enum tt_dev_error move(struct tt_comm_batch *b, struct tt_staged *op, unsigned side, uint32_t slice)
{
    struct tt_device *d = b->device;
    if (tt_fuse_has_many(b))
        return op == b->turns[b->begin] ? tt_fuse_move(b, side) : TT_DEV_OK;
    if (op->staging.cells[side] == NULL)
        return TT_DEV_OK;
    struct tt_device_move m = tt_stage_move(op, side);
    m.cells = tt_device_seen(d, op->staging.cells[side]);
    return move_parts(d, &m, slice, stream_of(b, op, side));
}

/* Copies the factor of this rank's operands, as it is when the stream comes here. */
static enum tt_dev_error enqueue_factor(const struct tt_comm_batch *b, const struct tt_staged *op)
{
    struct tt_device *d = b->device;
    const struct tt_operator *o = op->call.created;
    if (o == NULL || o->scalar == NULL)
        return TT_DEV_OK;
    d->marks.enqueued++;
    return d->dev->copy(
        tt_device_seen(d, op->staging.gate.factor), o->scalar, o->element_bytes, b->ops[0].stream);
}

static enum tt_dev_error enqueue_wait(
    struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice, void *stream)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &tt_stage_last(op)->staging.gate;
    d->marks.enqueued++;
    return d->dev->wait_word(stream, tt_device_seen(d, gate->done), gate->base + slice + 1);
}

/* The second stream waits for the first one. */
static enum tt_dev_error order(struct tt_device *d, void *first, void *second)
{
    d->marks.enqueued += 2;
    enum tt_dev_error error = d->dev->event.record(d->fork_event, first, false);
    return error == TT_DEV_OK ? d->dev->event.wait(d->fork_event, second, false) : error;
}

/* The count begins with each call: it is only by these that it is kept. */
static enum tt_dev_error fork_results(struct tt_comm_batch *b, const struct tt_staged *op)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    d->marks.enqueued++;
    enum tt_dev_error error =
        d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->drained), gate->base);
    return error == TT_DEV_OK ? order(d, b->ops[0].stream, d->results) : error;
}

enum tt_dev_error tt_slice_join(struct tt_comm_batch *b)
{
    if (!b->forked)
        return TT_DEV_OK;
    b->forked = false;
    return order(b->device, b->device->results, b->ops[0].stream);
}

/* What comes first where results have a stream of their own: on one stream, the results of the slice that had
 * the cells before would have left already. */
static enum tt_dev_error prepare_cells(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    if (!op->duplex)
        return TT_DEV_OK;
    if (slice == 0)
        return fork_results(b, op);
    if (slice < TT_WINDOW || op->staging.cells[TT_IN] == NULL)
        return TT_DEV_OK;
    return enqueue_wait(b, op, slice - TT_WINDOW, b->ops[0].stream);
}

enum tt_dev_error tt_slice_operands(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    enum tt_dev_error error = prepare_cells(b, op, slice);
    if (error == TT_DEV_OK && slice == 0)
        error = enqueue_factor(b, op);
    if (error == TT_DEV_OK)
        error = move(b, op, TT_IN, slice);
    if (op->followed)
        return error;
    d->marks.enqueued++;
    if (error == TT_DEV_OK)
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->ready), gate->base + slice + 1);
    if (b->captured == NULL)
        tt_local_peers_tell(b->comm, &op->rendezvous, slice + 1);
    return error;
}

/* The cells of this slice's results are free. After the last one the first stream has them all. */
static enum tt_dev_error enqueue_drained(struct tt_comm_batch *b, const struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    d->marks.enqueued++;
    enum tt_dev_error error =
        d->dev->write_word(d->results, tt_device_seen(d, gate->drained), gate->base + slice + 1);
    return error == TT_DEV_OK && slice + 1 == gate->slices ? tt_slice_join(b) : error;
}

enum tt_dev_error tt_slice_results(struct tt_comm_batch *b, struct tt_staged *op, uint32_t slice)
{
    struct tt_device *d = b->device;
    const struct tt_gate *gate = &op->staging.gate;
    b->forked = b->forked || op->duplex;
    enum tt_dev_error error = op->joins ? TT_DEV_OK : enqueue_wait(b, op, slice, stream_of(b, op, TT_OUT));
    if (error == TT_DEV_OK)
        error = move(b, op, TT_OUT, slice);
    if (error == TT_DEV_OK && op->duplex)
        error = enqueue_drained(b, op, slice);
    if (op->followed)
        return error;
    if (b->captured == NULL)
        tt_device_mark(d, gate->done, gate->base + slice + 1);
    else if (error == TT_DEV_OK && tt_captured_ends(b->captured, tt_stage_gate(op), gate->base + slice + 1))
        error = d->dev->write_word(b->ops[0].stream, tt_device_seen(d, gate->done), 0);
    return error;
}
