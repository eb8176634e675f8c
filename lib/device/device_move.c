/* SPDX-License-Identifier: BSD-3-Clause */
/* device_move.c: the parts of one slice between a user's buffer and cells.
 *
 * A slice has a part of each chunk, so the parts stand apart in the user's buffer, at one distance where the
 * chunks are even: rows of a rectangle, which one copy takes. Even chunks are of two lengths at most, so
 * there are at most three rectangles; blocks of a v-form are mostly copied one by one. */
#include "device/device.h"

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

enum tt_dev_error tt_device_move(
    struct tt_device *device, const struct tt_device_move *m, uint32_t slice, void *stream)
{
    if (m->stride == 0)
        return move_packed(device, m, stream);
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
        error = copy(device, m, &r, stream);
        r = (struct rectangle){ .user = user, .cell = cell, .row_bytes = bytes, .rows = 1 };
    }
    return error == TT_DEV_OK ? copy(device, m, &r, stream) : error;
}
