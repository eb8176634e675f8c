/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_local_ends.c: what becomes of a kernel for all ranks of a process when they differ, leave
 * or fail. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/handle.h"
#include "device/device_local.h"
#include "ends_rig.h"

TestSuite(api_device_local_ends, .timeout = 240);

struct difference {
    size_t count;
    tutti_type type;
    tutti_op op;
};
static const struct difference differences[] = { { 1024, TUTTI_INT32, TUTTI_SUM },
    { 1000, TUTTI_INT32, TUTTI_SUM }, { 1024, TUTTI_FLOAT32, TUTTI_SUM }, { 1024, TUTTI_INT32, TUTTI_MAX } };

static void differ(struct ranks_me *me)
{
    for (int k = 1; k < 4; k++) {
        struct local_desk d;
        const struct difference *c = &differences[me->rank == 1 ? k : 0];
        ranks_at(me, "difference %d", k);
        if (!local_sit_down(me, &d, 100000))
            return;
        local_poison(&d);
        tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], c->count, c->type, c->op, d.comm, local_on(&d));
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_MISMATCH, "rank 1");
        local_is_poisoned(&d);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    }
}

Test(api_device_local_ends, calls_that_differ)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, differ);
}

static tutti_status sum(const struct local_desk *d)
{
    return tutti_all_reduce(
        d->areas[GIVEN], d->areas[GOT], 1024, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
}

/* The one that never calls is named, when the deadline has passed. */
static void stay_away(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    local_hurry(d.comm, 300);
    local_poison(&d);
    if (me->rank != 1)
        ranks_refused(me, sum(&d), TUTTI_TIMEOUT, "all_reduce", "not called yet by rank 1");
    while (tutti_comm_state(d.comm) == TUTTI_OK)
        ranks_sleep_us(1000);
    local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_TIMEOUT, "all_reduce");
    if (me->rank == 1) /* too late */
        ranks_refused(me, sum(&d), TUTTI_TIMEOUT, "all_reduce", "not called yet by rank 1");
    local_drains(&d);
    local_is_poisoned(&d);
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
}

Test(api_device_local_ends, a_rank_that_never_calls)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, stay_away);
}

/* Ranks of one process meet on the host, and call in one order. */
static void cross(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    tutti_comm *other = local_join(me, "", 100000);
    ends_cross(&d, other, false);
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

Test(api_device_local_ends, communicators_in_opposite_order)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, cross);
    local_run_threads("queues=1", RANKS, cross);
}

/* The same of two messages in a group, by the host: the second one's gate is not open, and that does not put
 * the deadline of the first one off. */
static void stay_away_from_group(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    tutti_comm *first = d.comm;
    d.comm = local_join(me, ";executor=host", 100000);
    local_hurry(d.comm, 300);
    if (me->rank == 0) {
        tutti_group_start();
        for (int k = 0; k < 2; k++)
            tutti_recv(d.areas[GOT], 10, TUTTI_INT32, 1, d.comm, local_on(&d));
        ranks_refused(me, tutti_group_end(), TUTTI_TIMEOUT, "group_end", "recv|waiting for rank 1");
    }
    while (tutti_comm_state(d.comm) == TUTTI_OK)
        ranks_sleep_us(1000);
    local_drains(&d);
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    ranks_part(me, first);
}

Test(api_device_local_ends, a_group_with_a_rank_that_never_calls)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 2, stay_away_from_group);
}

/* Aborted while ranks wait for each other: whoever got an error is left alone from then on, though the last
 * rank comes at that very moment. */
static void abort_meanwhile(struct ranks_me *me)
{
    for (int round = 0; round < 40; round++) {
        struct local_desk d;
        ranks_at(me, "round %d", round);
        if (!local_sit_down(me, &d, 100000))
            return;
        local_poison(&d);
        if (me->rank == 1)
            ranks_spin_ns((uint32_t)round * 5000);
        tutti_status status = me->rank == 0 ? tutti_comm_abort(d.comm) : sum(&d);
        ranks_expect(me, status == TUTTI_OK || status == TUTTI_ABORTED, "status %d", status);
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_ABORTED, "rank 0");
        local_is_poisoned(&d);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
        for (int a = 0; a < AREAS; a++)
            local_fine(&d, d.dev->memory.free(d.areas[a]));
        local_fine(&d, d.dev->memory.free_pinned(d.host));
        local_fine(&d, d.dev->stream.destroy(d.stream));
    }
}

Test(api_device_local_ends, abort_while_ranks_wait)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, abort_meanwhile);
}

/* The same as the two ends see it: who was first has left with an error when the other one comes. */
static void come_after(struct ranks_me *me)
{
    enum { N = 2 };
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    struct tt_call calls[N];
    struct tt_local_call local[N];
    bool by_kernel = true;
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    for (int r = 0; r < N; r++) {
        calls[r] = (struct tt_call){ .collective = TT_ALL_REDUCE,
            .comm = tt_comm_find(comms[r]),
            .send = d.areas[GIVEN + 2 * r],
            .recv = d.areas[GOT + 2 * r],
            .count = 4,
            .total = 4,
            .element_bytes = 4,
            .unit = 1,
            .type = TUTTI_INT32,
            .op = TUTTI_SUM };
        local[r] = (struct tt_local_call){
            .call = &calls[r], .staged = { true, true }, .stream = d.stream, .number = 1
        };
    }
    uint64_t launches = d.stub->calls("launch");
    ranks_ok(me, tt_local_arrive(calls[0].comm, &local[0]), "the first arrives");
    ranks_ok(me, tutti_comm_abort(comms[0]), "tutti_comm_abort");
    ranks_refused(me, tt_local_await(calls[0].comm, &local[0], &by_kernel), TUTTI_ABORTED, "the first leaves",
        "rank 0");
    ranks_expect(me, !by_kernel, "a kernel was decided on");
    tt_local_arrive(calls[1].comm, &local[1]);
    ranks_refused(me, tt_local_await(calls[1].comm, &local[1], &by_kernel), TUTTI_ABORTED,
        "the second leaves", "rank 0");
    ranks_expect(
        me, d.stub->calls("launch") == launches, "a kernel stores into buffers that were given back");
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local_ends, no_kernel_after_a_rank_has_left)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 1, come_after);
}

/* What the last rank enqueues fails: all ranks are told, and no stream is left waiting. */
static void fail_to_enqueue(struct ranks_me *me)
{
    static const char *const functions[] = { "launch", "event_wait", "event_record" };
    for (int f = 0; f < 3; f++) {
        struct local_desk d;
        ranks_at(me, "failing %s", functions[f]);
        if (!local_sit_down(me, &d, 100000))
            return;
        local_settle(&d);
        if (me->rank == 0)
            d.stub->fail(functions[f], 1, TT_DEV_UNSUPPORTED);
        ranks_meet(me);
        sum(&d);
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, functions[f]);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "destroy");
    }
}

Test(api_device_local_ends, an_enqueue_that_fails)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, fail_to_enqueue);
}

/* A kernel is still behind the user's own work when the last rank gives up its communicator: what it needs
 * stays, for to give that back would wait for the stream. */
static void leave_busy(struct ranks_me *me)
{
    enum { N = 2, SOON_MS = 30000 };
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    void *memory = NULL;
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all") ||
        !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    int32_t *v = (int32_t *)(void *)d.areas[GIVEN];
    uint32_t *word = memory;
    *word = 0;
    local_fine(&d, d.dev->wait_word(d.stream, word, 1));
    tutti_group_start();
    for (int r = 0; r < N; r++)
        tutti_all_reduce(v + r, v + r, 1, TUTTI_INT32, TUTTI_SUM, comms[r], local_on(&d));
    ranks_ok(me, tutti_group_end(), "group");
    uint64_t freed = d.stub->calls("free") + d.stub->calls("free_pinned");
    int64_t before = ranks_now_ms();
    for (int r = 0; r < N; r++) {
        ranks_ok(me, tutti_comm_abort(comms[r]), "tutti_comm_abort");
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    }
    ranks_expect(me, ranks_now_ms() - before < SOON_MS, "destroy waits for the stream");
    ranks_expect(me, d.stub->calls("free") + d.stub->calls("free_pinned") == freed,
        "what a kernel needs was given back");
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    local_drains(&d);
    ranks_part(me, d.comm);
}

Test(api_device_local_ends, a_kernel_that_has_not_begun)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 1, leave_busy);
}
