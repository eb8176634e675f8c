/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: the rows.
 *
 * Bus factors are those of nccl-tests' PERFORMANCE.md: what a link must carry over what the algorithm moved,
 * so that busbw compares with the hardware whatever the number of ranks. */
#include "table.h"

#include "size.h"
#include "suggest.h"

static double factor_one(int n)
{
    (void)n;
    return 1;
}

static double factor_share(int n)
{
    return (double)(n - 1) / n;
}

static double factor_two_shares(int n)
{
    return 2 * factor_share(n);
}

static void shape_same(struct perf_point *p, uint64_t elements)
{
    p->count = p->send_count = p->recv_count = elements;
    p->bytes = elements * p->type->bytes;
}

static void shape_reduce(struct perf_point *p, uint64_t elements)
{
    shape_same(p, elements);
    p->recv_count = p->rank == p->root ? elements : 0;
}

static void shape_gather(struct perf_point *p, uint64_t elements)
{
    p->count = p->send_count = perf_size_block(elements, p->n);
    p->recv_count = p->count * (uint64_t)p->n;
    p->own_first = p->count * (uint64_t)p->rank;
    p->bytes = p->recv_count * p->type->bytes;
}

static void shape_scatter(struct perf_point *p, uint64_t elements)
{
    p->count = p->recv_count = perf_size_block(elements, p->n);
    p->send_count = p->count * (uint64_t)p->n;
    p->own_first = p->count * (uint64_t)p->rank;
    p->bytes = p->send_count * p->type->bytes;
}

/* Only the root has all blocks, and so only it can work in place. */
static void shape_gather_to_root(struct perf_point *p, uint64_t elements)
{
    shape_gather(p, elements);
    p->own_first = p->rank == p->root ? p->own_first : 0;
    p->recv_count = p->rank == p->root ? p->recv_count : 0;
}

static void shape_scatter_from_root(struct perf_point *p, uint64_t elements)
{
    shape_scatter(p, elements);
    p->own_first = p->rank == p->root ? p->own_first : 0;
    p->send_count = p->rank == p->root ? p->send_count : 0;
}

static void shape_exchange(struct perf_point *p, uint64_t elements)
{
    p->count = perf_size_block(elements, p->n);
    p->send_count = p->recv_count = p->count * (uint64_t)p->n;
    p->bytes = p->send_count * p->type->bytes;
}

static void shape_gather_v(struct perf_point *p, uint64_t elements)
{
    p->count = p->recv_count = elements;
    p->own_first = perf_size_first(elements, p->rank, p->n);
    p->send_count = perf_size_first(elements, p->rank + 1, p->n) - p->own_first;
    p->bytes = elements * p->type->bytes;
}

static void shape_gather_v_to_root(struct perf_point *p, uint64_t elements)
{
    shape_gather_v(p, elements);
    p->own_first = p->rank == p->root ? p->own_first : 0;
    p->recv_count = p->rank == p->root ? p->recv_count : 0;
}

static void shape_reduce_scatter_v(struct perf_point *p, uint64_t elements)
{
    shape_gather_v(p, elements);
    p->recv_count = p->send_count;
    p->send_count = elements;
}

static void shape_scatter_v_from_root(struct perf_point *p, uint64_t elements)
{
    shape_reduce_scatter_v(p, elements);
    p->own_first = p->rank == p->root ? p->own_first : 0;
    p->send_count = p->rank == p->root ? p->send_count : 0;
}

static void shape_none(struct perf_point *p, uint64_t elements)
{
    (void)p;
    (void)elements;
}

static struct perf_run source_all(const struct perf_point *p, int block)
{
    return (struct perf_run){ -1, 0, block == 0 ? p->recv_count : 0 };
}

static struct perf_run source_own_block(const struct perf_point *p, int block)
{
    return (struct perf_run){ -1, p->own_first, block == 0 ? p->recv_count : 0 };
}

static struct perf_run source_each(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, 0, p->count };
}

static struct perf_run source_each_at_root(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, 0, p->rank == p->root ? p->count : 0 };
}

static struct perf_run source_own_of_root(const struct perf_point *p, int block)
{
    return (struct perf_run){ p->root, p->count * (uint64_t)p->rank, block == 0 ? p->count : 0 };
}

static struct perf_run source_each_v(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, 0, p->counts[block] };
}

static struct perf_run source_own_of_each(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, p->count * (uint64_t)p->rank, p->count };
}

static struct perf_run source_each_v_at_root(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, 0, p->rank == p->root ? p->counts[block] : 0 };
}

/* Elements before `end` of what lies in the counts from `first` on. */
static uint64_t sum_of(const size_t *first, int end)
{
    uint64_t sum = 0;
    for (int r = 0; r < end; r++)
        sum += first[r];
    return sum;
}

static struct perf_run source_own_v_of_root(const struct perf_point *p, int block)
{
    return (struct perf_run){ p->root, sum_of(p->counts, p->rank), block == 0 ? p->recv_count : 0 };
}

/* Rank i has for rank j as much as is counted for i + j. */
static struct perf_run source_own_v_of_each(const struct perf_point *p, int block)
{
    return (struct perf_run){ block, sum_of(p->counts + block, p->rank), p->counts[p->rank + block] };
}

static struct perf_run source_root(const struct perf_point *p, int block)
{
    return (struct perf_run){ p->root, 0, block == 0 ? p->recv_count : 0 };
}

static struct perf_run source_left(const struct perf_point *p, int block)
{
    return (struct perf_run){ (p->rank + p->n - 1) % p->n, 0, block == 0 ? p->recv_count : 0 };
}

static struct perf_run source_none(const struct perf_point *p, int block)
{
    (void)p;
    (void)block;
    return (struct perf_run){ -1, 0, 0 };
}

static tutti_status call_all_reduce(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_all_reduce(send, recv, p->count, p->type->type, p->code, comm, p->stream);
}

static tutti_status call_reduce_scatter(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_reduce_scatter(send, recv, p->count, p->type->type, p->code, comm, p->stream);
}

static tutti_status call_all_gather(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_all_gather(send, recv, p->count, p->type->type, comm, p->stream);
}

static tutti_status call_broadcast(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_broadcast(send, recv, p->count, p->type->type, p->root, comm, p->stream);
}

static tutti_status call_reduce(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_reduce(send, recv, p->count, p->type->type, p->code, p->root, comm, p->stream);
}

static tutti_status call_barrier(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    (void)send;
    (void)recv;
    return tutti_barrier(comm, p->stream);
}

static tutti_status call_all_gather_v(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_all_gather_v(send, p->send_count, recv, p->counts, NULL, p->type->type, comm, p->stream);
}

static tutti_status call_all_to_all(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_all_to_all(send, recv, p->count, p->type->type, comm, p->stream);
}

static tutti_status call_gather(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_gather(send, recv, p->count, p->type->type, p->root, comm, p->stream);
}

static tutti_status call_scatter(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_scatter(send, recv, p->count, p->type->type, p->root, comm, p->stream);
}

static tutti_status call_reduce_scatter_v(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_reduce_scatter_v(send, p->counts, recv, p->type->type, p->code, comm, p->stream);
}

static tutti_status call_all_to_all_v(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    const size_t *counts = p->counts + p->rank;
    return tutti_all_to_all_v(send, counts, NULL, recv, counts, NULL, p->type->type, comm, p->stream);
}

static tutti_status call_gather_v(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_gather_v(
        send, p->send_count, recv, p->counts, NULL, p->type->type, p->root, comm, p->stream);
}

static tutti_status call_scatter_v(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    return tutti_scatter_v(
        send, p->counts, NULL, recv, p->recv_count, p->type->type, p->root, comm, p->stream);
}

static tutti_status call_sendrecv(const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    int right = (p->rank + 1) % p->n, left = (p->rank + p->n - 1) % p->n;
    tutti_status status = tutti_group_start();
    if (status < 0)
        return status;
    status = tutti_send(send, p->count, p->type->type, right, comm, p->stream);
    if (status == TUTTI_OK)
        status = tutti_recv(recv, p->count, p->type->type, left, comm, p->stream);
    tutti_status ended = tutti_group_end();
    return status < 0 ? status : ended;
}

static tutti_status call_reduce_broadcast(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    tutti_status status = tutti_reduce(send, recv, p->count, p->type->type, p->code, 0, comm, p->stream);
    if (status < 0)
        return status;
    return tutti_broadcast(recv, recv, p->count, p->type->type, 0, comm, p->stream);
}

/* Makes an all_reduce of two collectives. What ranks cannot share evenly is left to the forms that take
 * it. */
static tutti_status call_reduce_scatter_all_gather(
    const struct perf_point *p, const void *send, void *recv, tutti_comm *comm)
{
    bool even = p->count % (uint64_t)p->n == 0;
    uint64_t share = even ? p->count / (uint64_t)p->n : p->counts[p->rank];
    uint64_t first = even ? (uint64_t)p->rank * share : perf_size_first(p->count, p->rank, p->n);
    tutti_type type = p->type->type;
    uint8_t *own = (uint8_t *)recv + first * p->type->bytes;
    tutti_status status = even ? tutti_reduce_scatter(send, own, share, type, p->code, comm, p->stream)
                               : tutti_reduce_scatter_v(send, p->counts, own, type, p->code, comm, p->stream);
    if (status < 0)
        return status;
    return even ? tutti_all_gather(own, recv, share, type, comm, p->stream)
                : tutti_all_gather_v(own, share, recv, p->counts, NULL, type, comm, p->stream);
}

const struct perf_collective perf_collectives[PERF_COLLECTIVES + PERF_COMPOSED] = {
    { "all_reduce", true, false, true, true, PERF_IN_PLACE_SAME, 1, PERF_RESULT_EVERYWHERE, factor_two_shares,
        shape_same, source_all, call_all_reduce },
    { "reduce_scatter", true, false, true, true, PERF_IN_PLACE_RECV_IN_SEND, 1, PERF_RESULT_ONCE,
        factor_share, shape_scatter, source_own_block, call_reduce_scatter },
    { "all_gather", false, false, true, true, PERF_IN_PLACE_SEND_IN_RECV, 1, PERF_RESULT_EVERYWHERE,
        factor_share, shape_gather, source_each, call_all_gather },
    { "broadcast", false, true, true, true, PERF_IN_PLACE_SAME, 1, PERF_RESULT_EVERYWHERE, factor_one,
        shape_same, source_root, call_broadcast },
    { "reduce", true, true, true, true, PERF_IN_PLACE_SAME, 1, PERF_RESULT_ONCE, factor_one, shape_reduce,
        source_all, call_reduce },
    { "barrier", false, false, false, true, PERF_IN_PLACE_NEVER, 1, PERF_RESULT_NONE, factor_one, shape_none,
        source_none, call_barrier },
    { "all_gather_v", false, false, true, true, PERF_IN_PLACE_SEND_IN_RECV, 1, PERF_RESULT_EVERYWHERE,
        factor_share, shape_gather_v, source_each_v, call_all_gather_v },
    { "all_to_all", false, false, true, true, PERF_IN_PLACE_SAME, 1, PERF_RESULT_EACH, factor_share,
        shape_exchange, source_own_of_each, call_all_to_all },
    { "gather", false, true, true, true, PERF_IN_PLACE_SEND_IN_RECV, 1, PERF_RESULT_ONCE, factor_share,
        shape_gather_to_root, source_each_at_root, call_gather },
    { "scatter", false, true, true, true, PERF_IN_PLACE_RECV_IN_SEND, 1, PERF_RESULT_ONCE, factor_share,
        shape_scatter_from_root, source_own_of_root, call_scatter },
    { "reduce_scatter_v", true, false, true, true, PERF_IN_PLACE_RECV_IN_SEND, 1, PERF_RESULT_ONCE,
        factor_share, shape_reduce_scatter_v, source_own_block, call_reduce_scatter_v },
    { "all_to_all_v", false, false, true, true, PERF_IN_PLACE_NEVER, 1, PERF_RESULT_EACH, factor_share,
        shape_same, source_own_v_of_each, call_all_to_all_v },
    { "gather_v", false, true, true, true, PERF_IN_PLACE_SEND_IN_RECV, 1, PERF_RESULT_ONCE, factor_share,
        shape_gather_v_to_root, source_each_v_at_root, call_gather_v },
    { "scatter_v", false, true, true, true, PERF_IN_PLACE_RECV_IN_SEND, 1, PERF_RESULT_ONCE, factor_share,
        shape_scatter_v_from_root, source_own_v_of_root, call_scatter_v },
    { "sendrecv", false, false, true, false, PERF_IN_PLACE_NEVER, 2, PERF_RESULT_EACH, factor_one, shape_same,
        source_left, call_sendrecv },
    { "reduce+broadcast", true, false, true, false, PERF_IN_PLACE_SAME, 1, PERF_RESULT_EVERYWHERE,
        factor_two_shares, shape_same, source_all, call_reduce_broadcast },
    { "reduce_scatter+all_gather", true, false, true, false, PERF_IN_PLACE_SAME, 1, PERF_RESULT_EVERYWHERE,
        factor_two_shares, shape_same, source_all, call_reduce_scatter_all_gather },
};

const struct perf_collective *perf_collective_find(const char *name)
{
    for (int i = 0; i < PERF_COLLECTIVES + PERF_COMPOSED; i++)
        if (perf_names_same(name, perf_collectives[i].name))
            return &perf_collectives[i];
    return NULL;
}

void perf_point_shape(struct perf_point *p, uint64_t bytes, size_t *counts)
{
    uint64_t elements = perf_size_elements(bytes, p->type->bytes);
    p->count = p->send_count = p->recv_count = p->bytes = p->own_first = 0;
    for (int r = 0; r < p->n; r++)
        counts[r] = counts[p->n + r] =
            perf_size_first(elements, r + 1, p->n) - perf_size_first(elements, r, p->n);
    p->counts = counts;
    p->collective->shape(p, elements);
}

/* The root of a broadcast is alone to give something, though the call takes a pointer at every rank. */
uint64_t perf_point_input(const struct perf_point *p)
{
    bool gives = p->collective->call != call_broadcast || p->rank == p->root;
    return gives ? p->send_count * p->type->bytes : 0;
}

struct perf_pass perf_point_pass(const struct perf_point *p, bool in_place)
{
    const struct perf_collective *c = p->collective;
    struct perf_pass pass = { c->reduces ? p->n : 1, 1, p->bytes, .in_place = in_place };
    if (c->result_at == PERF_RESULT_NONE)
        return (struct perf_pass){ 0 };
    if (c->result_at == PERF_RESULT_EVERYWHERE)
        pass.targets = p->n;
    if (c->result_at != PERF_RESULT_EACH)
        pass.bytes /= (uint64_t)p->n;
    if (!in_place || c->reduces)
        return pass;
    /* what a rank gives itself lies there already */
    pass.behind = c->result_at != PERF_RESULT_EACH;
    if (c->result_at == PERF_RESULT_EVERYWHERE)
        pass.targets--;
    else
        pass.bytes = pass.bytes / (uint64_t)p->n * (uint64_t)(p->n - 1);
    return pass;
}
