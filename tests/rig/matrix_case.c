/* SPDX-License-Identifier: BSD-3-Clause */
/* matrix_case.c: see matrix_case.h. */
#include "matrix_case.h"

#include <stdio.h>

const struct matrix_shape matrix_shapes[COLLECTIVES] = {
    [ALL_REDUCE] = { .name = "all_reduce",
        .send = HOLDS_VECTOR,
        .recv = HOLDS_VECTOR,
        .reduces = true,
        .in_place = true },
    [REDUCE] = { .name = "reduce",
        .send = HOLDS_VECTOR,
        .recv = HOLDS_VECTOR,
        .recv_at_root = true,
        .reduces = true,
        .in_place = true },
    [BROADCAST] = { .name = "broadcast",
        .send = HOLDS_VECTOR,
        .recv = HOLDS_VECTOR,
        .send_at_root = true,
        .in_place = true },
    [REDUCE_SCATTER] = { .name = "reduce_scatter",
        .send = HOLDS_ALL,
        .recv = HOLDS_OWN,
        .reduces = true,
        .in_place = true },
    [ALL_GATHER] = { .name = "all_gather", .send = HOLDS_OWN, .recv = HOLDS_ALL, .in_place = true },
    [ALL_GATHER_V] = { .name = "all_gather_v",
        .send = HOLDS_OWN,
        .recv = HOLDS_ALL,
        .v = true,
        .recv_displs = true,
        .in_place = true },
    [ALL_TO_ALL] = { .name = "all_to_all", .send = HOLDS_ALL, .recv = HOLDS_ALL, .in_place = true },
    [GATHER] = { .name = "gather",
        .send = HOLDS_OWN,
        .recv = HOLDS_ALL,
        .recv_at_root = true,
        .in_place = true },
    [SCATTER] = { .name = "scatter",
        .send = HOLDS_ALL,
        .recv = HOLDS_OWN,
        .send_at_root = true,
        .in_place = true },
    [REDUCE_SCATTER_V] = { .name = "reduce_scatter_v",
        .send = HOLDS_ALL,
        .recv = HOLDS_OWN,
        .reduces = true,
        .v = true,
        .in_place = true },
    [ALL_TO_ALL_V] = { .name = "all_to_all_v",
        .send = HOLDS_ALL,
        .recv = HOLDS_ALL,
        .v = true,
        .send_displs = true,
        .recv_displs = true },
    [GATHER_V] = { .name = "gather_v",
        .send = HOLDS_OWN,
        .recv = HOLDS_ALL,
        .recv_at_root = true,
        .v = true,
        .recv_displs = true,
        .in_place = true },
    [SCATTER_V] = { .name = "scatter_v",
        .send = HOLDS_ALL,
        .recv = HOLDS_OWN,
        .send_at_root = true,
        .v = true,
        .send_displs = true,
        .in_place = true },
    [SHIFT] = { .name = "send and recv", .send = HOLDS_VECTOR, .recv = HOLDS_VECTOR },
    [BARRIER] = { .name = "barrier" },
};

static const struct matrix_shape *shape_of(const struct matrix_case *c)
{
    return &matrix_shapes[c->collective];
}

static bool exchanges(const struct matrix_case *c)
{
    return shape_of(c)->send == HOLDS_ALL && shape_of(c)->recv == HOLDS_ALL;
}

/* Elements that rank `from` has for rank `to`. */
static size_t block(const struct matrix_case *c, int from, int to)
{
    if (!shape_of(c)->v)
        return c->count;
    bool gathers = shape_of(c)->send == HOLDS_OWN;
    int key = exchanges(c) ? from * c->n + to : gathers ? from : to;
    uint64_t random = ranks_mix(c->vector.seed + 31 * (uint64_t)key);
    uint32_t kind = ranks_below(&random, 8);
    if (kind < 2)
        return 0;
    return kind == 2 || c->count == 0 ? c->count : ranks_random(&random) % (c->count + 1);
}

/* Elements in rank's send buffer before the block of rank `end`. */
static size_t before(const struct matrix_case *c, int rank, int end)
{
    size_t sum = 0;
    for (int r = 0; r < end; r++)
        sum += block(c, rank, r);
    return sum;
}

/* With gaps, each rank has an order and a distance of its own. */
static void set_displs(const struct matrix_case *c, struct matrix_side *s)
{
    size_t at = 0;
    for (int i = 0; i < s->blocks; i++) {
        int b = s->gaps ? (i * 3 + c->rank) % s->blocks : i;
        if (s->gaps && s->blocks % 3 == 0)
            b = s->blocks - 1 - i;
        s->displs[b] = at;
        at += s->counts[b] + (s->gaps ? (size_t)(c->rank % 3 + 1) : 0);
    }
    s->extent = at;
}

void matrix_cut(struct matrix_case *c)
{
    const struct matrix_shape *shape = shape_of(c);
    for (int side = 0; side < SIDES; side++) {
        struct matrix_side *s = &c->sides[side];
        uint8_t holds = side == SENT ? shape->send : shape->recv;
        bool elsewhere = (side == SENT ? shape->send_at_root : shape->recv_at_root) && c->rank != c->root;
        *s = (struct matrix_side){ 0 };
        if (!elsewhere)
            s->blocks = holds == HOLDS_ALL ? c->n : holds != HOLDS_NONE;
        s->gaps = (side == SENT ? shape->send_displs : shape->recv_displs) && s->blocks == c->n &&
                  (c->vector.seed >> (20 + side) & 1);
        for (int b = 0; b < s->blocks; b++) {
            int from = side == SENT || holds != HOLDS_ALL ? c->rank : b;
            int to = side == SENT && holds == HOLDS_ALL ? b : c->rank;
            s->counts[b] = holds == HOLDS_VECTOR ? c->count : block(c, from, to);
        }
        set_displs(c, s);
    }
    c->in_place = c->in_place && shape->in_place;
}

/* In place there is one buffer, as long as the longer one; the shorter is a block of it. */
static void place_in_place(struct matrix_case *c, struct ranks_buffer *buffer)
{
    size_t bytes = tutti_type_bytes(c->vector.type);
    struct matrix_side *sent = &c->sides[SENT], *received = &c->sides[RECEIVED];
    size_t longer = sent->extent > received->extent ? sent->extent : received->extent;
    sent->buffer = received->buffer = buffer;
    sent->data = received->data = ranks_buffer_place(buffer, longer * bytes, c->offset);
    if (shape_of(c)->send == HOLDS_OWN && received->blocks > 0)
        sent->data += received->displs[c->rank] * bytes;
    if (shape_of(c)->recv == HOLDS_OWN && sent->blocks > 0)
        received->data += sent->displs[c->rank] * bytes;
}

void matrix_prepare(struct matrix_case *c, struct ranks_buffer (*buffers)[2])
{
    size_t bytes = tutti_type_bytes(c->vector.type);
    struct matrix_side *sent = &c->sides[SENT];
    if (c->in_place)
        place_in_place(c, &buffers[RECEIVED][c->registered]);
    for (int side = 0; side < SIDES && !c->in_place; side++) {
        struct matrix_side *s = &c->sides[side];
        s->buffer = &buffers[side][c->registered];
        s->data = ranks_buffer_place(s->buffer, s->extent * bytes, c->offset);
    }
    for (int b = 0; b < sent->blocks; b++)
        ranks_fill(&c->vector, c->rank, before(c, c->rank, b), sent->counts[b],
            sent->data + sent->displs[b] * bytes);
}

static tutti_status call_shift(const struct matrix_case *c, const void *send, void *recv, tutti_comm *comm)
{
    tutti_group_start();
    tutti_send(send, c->count, c->vector.type, (c->rank + 1) % c->n, comm, c->stream);
    tutti_recv(recv, c->count, c->vector.type, (c->rank + c->n - 1) % c->n, comm, c->stream);
    return tutti_group_end();
}

tutti_status matrix_call(const struct matrix_case *c, tutti_comm *comm)
{
    const struct matrix_side *sent = &c->sides[SENT], *received = &c->sides[RECEIVED];
    tutti_type type = c->vector.type;
    tutti_op op = c->vector.op;
    bool spare = c->vector.seed >> 40 & 1; /* where NULL is legal, half so */
    const void *send = sent->blocks == 0 && spare ? NULL : sent->data;
    void *recv = received->blocks == 0 && spare ? NULL : received->data;
    const size_t *send_displs = sent->gaps ? sent->displs : NULL;
    const size_t *recv_displs = received->gaps ? received->displs : NULL;
    const size_t *send_counts = sent->blocks == 0 && spare ? NULL : sent->counts;
    const size_t *recv_counts = received->blocks == 0 && spare ? NULL : received->counts;
    switch (c->collective) {
    case ALL_REDUCE:
        return tutti_all_reduce(send, recv, c->count, type, op, comm, c->stream);
    case REDUCE:
        return tutti_reduce(send, recv, c->count, type, op, c->root, comm, c->stream);
    case BROADCAST:
        return tutti_broadcast(send, recv, c->count, type, c->root, comm, c->stream);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(send, recv, c->count, type, op, comm, c->stream);
    case ALL_GATHER:
        return tutti_all_gather(send, recv, c->count, type, comm, c->stream);
    case ALL_GATHER_V:
        return tutti_all_gather_v(
            send, sent->counts[0], recv, received->counts, recv_displs, type, comm, c->stream);
    case ALL_TO_ALL:
        return tutti_all_to_all(send, recv, c->count, type, comm, c->stream);
    case GATHER:
        return tutti_gather(send, recv, c->count, type, c->root, comm, c->stream);
    case SCATTER:
        return tutti_scatter(send, recv, c->count, type, c->root, comm, c->stream);
    case REDUCE_SCATTER_V:
        return tutti_reduce_scatter_v(send, sent->counts, recv, type, op, comm, c->stream);
    case ALL_TO_ALL_V:
        return tutti_all_to_all_v(
            send, sent->counts, send_displs, recv, received->counts, recv_displs, type, comm, c->stream);
    case GATHER_V:
        return tutti_gather_v(
            send, sent->counts[0], recv, recv_counts, recv_displs, type, c->root, comm, c->stream);
    case SCATTER_V:
        return tutti_scatter_v(
            send, send_counts, send_displs, recv, received->counts[0], type, c->root, comm, c->stream);
    case SHIFT:
        return call_shift(c, send, recv, comm);
    default:
        return tutti_barrier(comm, c->stream);
    }
}

/* What block b of recv must hold. */
static void expect(const struct matrix_case *c, int b, uint8_t *expected)
{
    const struct matrix_shape *shape = shape_of(c);
    size_t count = c->sides[RECEIVED].counts[b], first = 0;
    int giver = c->root;
    if (shape->send == HOLDS_OWN || exchanges(c))
        giver = b;
    else if (c->collective == SHIFT)
        giver = (c->rank + c->n - 1) % c->n;
    if (shape->send == HOLDS_ALL)
        first = before(c, giver, c->rank);
    if (shape->reduces)
        ranks_reduced(&c->vector, first, count, expected);
    else
        ranks_fill(&c->vector, giver, first, count, expected);
}

static void verify_received(struct ranks_me *me, const struct matrix_case *c, uint8_t *expected)
{
    const struct matrix_side *s = &c->sides[RECEIVED];
    size_t bytes = tutti_type_bytes(c->vector.type);
    char name[32];
    for (int b = 0; b < s->blocks; b++) {
        snprintf(name, sizeof name, "block %d of recv", b);
        expect(c, b, expected);
        ranks_same(me, c->vector.type, s->data + s->displs[b] * bytes, expected, s->counts[b], name);
        size_t end = s->displs[b] + s->counts[b];
        if (s->gaps) /* each block is followed by one */
            ranks_buffer_untouched(
                me, s->buffer, "the gap behind a block of recv", end * bytes, (end + 1) * bytes);
    }
    if (s->blocks == 0 && !c->in_place)
        ranks_buffer_untouched(me, s->buffer, "recv of a rank without result", 0, s->buffer->bytes);
    ranks_buffer_check(me, s->buffer, "recv");
}

/* What is sent stays, but where the result goes in its place. */
static void verify_sent(struct ranks_me *me, const struct matrix_case *c, uint8_t *expected)
{
    const struct matrix_side *s = &c->sides[SENT];
    size_t bytes = tutti_type_bytes(c->vector.type);
    bool lies_in_recv = c->in_place && c->sides[RECEIVED].blocks > 0;
    if (!c->in_place)
        ranks_buffer_check(me, s->buffer, "send");
    if (!c->in_place && s->blocks == 0)
        ranks_buffer_untouched(me, s->buffer, "send of a rank that gives nothing", 0, s->buffer->bytes);
    for (int b = 0; b < s->blocks && !lies_in_recv; b++) {
        ranks_fill(&c->vector, c->rank, before(c, c->rank, b), s->counts[b], expected);
        ranks_same(
            me, c->vector.type, s->data + s->displs[b] * bytes, expected, s->counts[b], "send afterwards");
    }
}

void matrix_verify(struct ranks_me *me, const struct matrix_case *c, uint8_t *expected)
{
    verify_received(me, c, expected);
    verify_sent(me, c, expected);
}
