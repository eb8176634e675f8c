/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_again.c: collectives that were made before and go by the executor (lib/run/call_cache.h,
 * lib/run/bind.c).
 *
 * They must be right wherever their buffers have moved to, and whatever ran in between, which may have bound
 * the same schedule to another count, moved the temporary memory, or taken the place where the call was
 * kept. */
#include <criterion/criterion.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "run/call_cache.h"
#include "tests/rig/ranks.h"

enum { ROUNDS = 1200, COUNTS = 12, SHIFTS = 5, SPACE = 1 << 16, KINDS = 2 };
static const size_t counts[COUNTS] = { 1, 2, 3, 4, 5, 40, 41, 42, 300, 1000, 7000, 12000 };
enum what { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, ROUND_TRIP, WHATS };

static int32_t send_space[RANKS_MAX][SPACE], recv_space[RANKS_MAX][SPACE];
/* Of a rank: memory of its own, and some that its peers can map. */
struct spaces {
    int32_t *send[KINDS], *recv[KINDS];
};

struct again {
    enum what what;
    size_t count;
    int root, round;
    bool in_place;
    int32_t *send, *recv;
};

static int32_t input(const struct again *a, int rank, size_t k)
{
    return (int32_t)(rank * 100000 + a->round * 7 + (int)k);
}

static int32_t sum(const struct again *a, int n, size_t k)
{
    int32_t total = 0;
    for (int r = 0; r < n; r++)
        total += input(a, r, k);
    return total;
}

/* Elements that a rank hands in, and that it gets. */
static size_t sent(const struct again *a, int n)
{
    return a->what == REDUCE_SCATTER ? a->count * (size_t)n : a->count;
}

static size_t got(const struct again *a, int n)
{
    return a->what == ALL_GATHER ? a->count * (size_t)n : a->count;
}

static int32_t expected(const struct again *a, int n, int rank, size_t k)
{
    switch (a->what) {
    case ALL_REDUCE:
        return sum(a, n, k);
    case REDUCE_SCATTER:
        return sum(a, n, (size_t)rank * a->count + k);
    case ALL_GATHER:
        return input(a, (int)(k / a->count), k % a->count);
    case ROUND_TRIP:
        return input(a, (rank + n - 1) % n, k);
    default:
        return input(a, a->root, k);
    }
}

/* Each sends to the next one: all at once, by groups, or one after the other from the root on. */
static tutti_status go_round(const struct again *a, int n, int rank, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    int next = (rank + 1) % n, last = (rank + n - 1) % n;
    tutti_status status = TUTTI_OK;
    if (a->round % 4 == 0) {
        tutti_group_start();
        tutti_send(a->send, a->count, TUTTI_INT32, next, comm, none);
        tutti_recv(a->recv, a->count, TUTTI_INT32, last, comm, none);
        return tutti_group_end();
    }
    if (rank == a->root)
        status = tutti_send(a->send, a->count, TUTTI_INT32, next, comm, none);
    if (status == TUTTI_OK)
        status = tutti_recv(a->recv, a->count, TUTTI_INT32, last, comm, none);
    if (status == TUTTI_OK && rank != a->root)
        status = tutti_send(a->send, a->count, TUTTI_INT32, next, comm, none);
    return status;
}

static tutti_status make(const struct again *a, const struct ranks_me *me, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    switch (a->what) {
    case ROUND_TRIP:
        return go_round(a, me->n, me->rank, comm);
    case ALL_REDUCE:
        return tutti_all_reduce(a->send, a->recv, a->count, TUTTI_INT32, TUTTI_SUM, comm, none);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(a->send, a->recv, a->count, TUTTI_INT32, TUTTI_SUM, comm, none);
    case ALL_GATHER:
        return tutti_all_gather(a->send, a->recv, a->count, TUTTI_INT32, comm, none);
    default:
        return tutti_broadcast(a->send, a->recv, a->count, TUTTI_INT32, a->root, comm, none);
    }
}

/* The same on all ranks but for the pointers, which each shifts as it likes. */
static void draw(
    struct ranks_me *me, const struct spaces *spaces, uint64_t *shared, int round, struct again *a)
{
    uint64_t bits = ranks_random(shared);
    a->what = (enum what)(bits % WHATS);
    a->count = counts[bits / 16 % COUNTS];
    a->root = (int)(bits / 4096 % (unsigned)me->n);
    a->in_place = (bits >> 40 & 1) && a->what != ROUND_TRIP;
    a->round = round;
    uint64_t own = ranks_random(&me->random);
    a->send = spaces->send[own % KINDS] + own / 16 % SHIFTS;
    a->recv = spaces->recv[own / 4 % KINDS] + own / 256 % SHIFTS;
    if (a->in_place && a->what == ALL_GATHER)
        a->send = a->recv + (size_t)me->rank * a->count;
    else if (a->in_place && a->what == REDUCE_SCATTER)
        a->recv = a->send + (size_t)me->rank * a->count;
    else if (a->in_place)
        a->send = a->recv;
}

static void check(struct ranks_me *me, const struct again *a)
{
    for (size_t k = 0; k < got(a, me->n); k++)
        if (!ranks_expect(me, a->recv[k] == expected(a, me->n, me->rank, k), "element %zu is %d and not %d",
                k, a->recv[k], expected(a, me->n, me->rank, k)))
            return;
}

static void call_again(struct ranks_me *me)
{
    uint64_t shared = 4711;
    tutti_config config = { .size = sizeof config, .options = me->context };
    tutti_comm *comm = ranks_join(me, &config);
    void *send = NULL, *recv = NULL;
    ranks_ok(me, tutti_mem_alloc(sizeof send_space[0], TUTTI_MEM_HOST, &send), "mem_alloc");
    ranks_ok(me, tutti_mem_alloc(sizeof recv_space[0], TUTTI_MEM_HOST, &recv), "mem_alloc");
    struct spaces spaces = { { send_space[me->rank], send }, { recv_space[me->rank], recv } };
    for (int round = 0; comm != NULL && round < ROUNDS; round++) {
        struct again a;
        draw(me, &spaces, &shared, round, &a);
        ranks_at(me, "n %d rank %d: round %d, what %d, count %zu, root %d%s", me->n, me->rank, round, a.what,
            a.count, a.root, a.in_place ? ", in place" : "");
        if (!a.in_place)
            memset(a.recv, 0x77, got(&a, me->n) * sizeof *a.recv);
        for (size_t k = 0; k < sent(&a, me->n); k++)
            a.send[k] = input(&a, me->rank, k);
        ranks_ok(me, make(&a, me, comm), "the call");
        check(me, &a);
    }
    if (comm != NULL)
        ranks_part(me, comm);
    ranks_ok(me, tutti_mem_free(send), "mem_free");
    ranks_ok(me, tutti_mem_free(recv), "mem_free");
}

/* Rings keep what they pass on in temporary memory. */
static const char *const ways[] = { "fused=off;slice=4096",
    "fused=off;slice=4096;algo=reduce_scatter:ring,all_reduce:ring", "slice=4096", "fused=off" };

Test(api_again, buffers_move_and_other_calls_come_between)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (int n = 2; n <= 4; n++)
            ranks_run(&(struct ranks_plan){ .n = n, .run = call_again, .context = ways[i] });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = call_again, .context = ways[0] });
}

/* The one call of this communicator that a schedule is bound to, and how many are kept; NULL if there is
 * none, or more than one. */
static const struct tt_cached *bound(const struct tt_comm *c, int *kept)
{
    const struct tt_cached *found = NULL;
    int many = 0;
    *kept = 0;
    for (int i = 0; i < TT_CACHED_CALLS; i++) {
        const struct tt_cached *cached = &c->calls.cached[i];
        *kept += cached->key != 0;
        if (cached->prepared == NULL || cached->prepared->bound_to != cached->call.id)
            continue;
        found = cached;
        many++;
    }
    return many == 1 ? found : NULL;
}

/* Three calls, of which the last is bound by itself, and again with all that has moved since. Long ones of
 * eight ranks have a bounce buffer (lib/exec/exec_bounce.c), for what peers cannot read in place. */
static void keep(struct ranks_me *me)
{
    const size_t *least = me->context;
    tutti_config config = { .size = sizeof config, .options = "fused=off" };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_stream none = tutti_no_stream();
    int32_t *own = send_space[me->rank], *out = recv_space[me->rank];
    void *shared = NULL;
    int kept;
    if (comm == NULL ||
        !ranks_ok(me, tutti_mem_alloc(sizeof send_space[0], TUTTI_MEM_HOST, &shared), "mem_alloc"))
        return;
    struct tt_comm *c = tt_comm_find(comm);
    for (size_t i = 0; i < 9; i++)
        ranks_ok(
            me, tutti_all_reduce(own, out, *least + i % 3, TUTTI_INT32, TUTTI_SUM, comm, none), "a call");
    const struct tt_cached *cached = bound(c, &kept);
    ranks_expect(me, kept >= 2 && kept <= 3, "%d calls are kept", kept);
    if (ranks_expect(
            me, cached != NULL && cached->count == *least + 2, "no schedule is bound to the last call")) {
        const struct tt_op *op = &cached->prepared->op;
        uint64_t bounce = op->bounce.space.base - (uintptr_t)c->memory.tmp,
                 private_from = op->bounce.from[TT_IN];
        ranks_expect(me, (op->bounce.bytes > 0) == (*least > 1), "a bounce buffer");
        ranks_ok(me, tt_comm_grow_tmp(c, c->memory.tmp_bytes + 1), "grow_tmp");
        ranks_ok(
            me, tutti_all_reduce(shared, out, cached->count, TUTTI_INT32, TUTTI_SUM, comm, none), "a call");
        ranks_expect(me, bound(c, &kept) == cached, "it is bound to another");
        ranks_expect(me, op->spaces[TT_TMP].base == (uintptr_t)c->memory.tmp + op->bounce.bytes,
            "to memory of before");
        ranks_expect(me, op->bounce.bytes == 0 || op->bounce.space.base - (uintptr_t)c->memory.tmp == bounce,
            "to a bounce buffer of before");
        ranks_expect(me, op->bounce.from[TT_IN] == UINT64_MAX, "to a bounce buffer for what needs none");
        ranks_expect(
            me, op->messages.sequence + 1 == c->numbers.sequence, "with the number of another operation");
        ranks_ok(me, tutti_all_reduce(own, out, cached->count, TUTTI_INT32, TUTTI_SUM, comm, none), "a call");
        ranks_expect(me, op->bounce.from[TT_IN] == private_from, "to no bounce buffer");
    }
    ranks_ok(me, tutti_mem_free(shared), "mem_free");
    ranks_part(me, comm);
}

Test(api_again, a_schedule_is_bound_to_one_call)
{
    static const size_t few = 1, many = 60000;
    ranks_run(&(struct ranks_plan){ .n = 2, .run = keep, .context = &few });
    ranks_run(&(struct ranks_plan){ .n = 8, .run = keep, .context = &many });
}
