/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_ends.c: what becomes of ranks that have a device each when they differ, leave, fail or
 * die: all are told why, no kernel is left waiting, and none stores into memory that was given back. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spin/spin.h"
#include "ends_rig.h"
#include "spin_rig.h"

TestSuite(api_device_spin_ends, .timeout = 240);

enum { N = 3, COUNT = 1024, LONG = 40000 /* 160 KB: two kernels */, SHORT_MS = 300 };

static tutti_status sum_of(const struct local_desk *d, tutti_comm *comm, size_t count)
{
    return tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], count, TUTTI_INT32, TUTTI_SUM, comm, local_on(d));
}

static tutti_status sum(const struct local_desk *d)
{
    return sum_of(d, d->comm, COUNT);
}

/* --- Ranks that call different things */

static void differ(struct ranks_me *me)
{
    for (int k = N; k < N * ENDS_DIFFERENCES; k++) {
        struct local_desk d;
        const struct ends_difference *difference = &ends_differences[k / N];
        ranks_at(me, "difference %d at rank %d", k / N, k % N);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        ranks_meet(me);
        ends_call(&d, me->rank == k % N ? difference : &ends_differences[0]);
        local_drains(&d);
        ends_differ(me, d.comm, difference);
        ranks_meet(me);
        spin_get_up(&d);
    }
}

/* Kernels alone would not see it: both calls have as many bytes, and all packets come. */
static void differ_alike(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    ranks_meet(me);
    tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], COUNT, me->rank == 1 ? TUTTI_UINT32 : TUTTI_INT32,
        TUTTI_SUM, d.comm, local_on(&d));
    local_drains(&d);
    ends_await(d.comm);
    ranks_same_error(me, d.comm, TUTTI_MISMATCH, "of 1024 int32, sum|of 1024 uint32, sum");
    ranks_meet(me);
    spin_get_up(&d);
}

Test(api_device_spin_ends, calls_that_differ)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, differ, NULL, 0, 0 }, { "queues=8", N, N, differ_alike, NULL, 0, 0 });
}

/* On a stream of a device or on none is a difference, where kernels do it. */
static void call_without_stream(struct ranks_me *me)
{
    static _Thread_local int32_t from[COUNT];
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    from[7] = me->rank;
    ranks_ok(me, tutti_all_reduce(from, from, COUNT, TUTTI_INT32, TUTTI_SUM, d.comm, tutti_no_stream()),
        "all without");
    ranks_expect(me, from[7] == 3, "the sum is %d", from[7]);
    tutti_status status = me->rank != 1 ? sum(&d)
                                        : tutti_all_reduce(from, from, COUNT, TUTTI_INT32, TUTTI_SUM, d.comm,
                                              tutti_no_stream());
    ranks_expect(me, me->rank != 1 || status == TUTTI_MISMATCH, "status %d", status);
    local_drains(&d);
    ends_await(d.comm);
    ranks_same_error(me, d.comm, TUTTI_MISMATCH,
        "called all_reduce of 1024 int32, sum, on a CUDA stream|called all_reduce of 1024 int32, sum");
    ranks_meet(me);
    spin_get_up(&d);
}

Test(api_device_spin_ends, calls_on_a_stream_and_on_none)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, call_without_stream, NULL, 0, 0 });
}

/* The one that never calls is named, when the deadline has passed. */
static void stay_away(struct ranks_me *me)
{
    for (int away = 0; away < N; away++) {
        struct local_desk d;
        char words[64];
        bool first = me->rank == (away + 1) % N;
        ranks_at(me, "rank %d never calls", away);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        if (first)
            local_hurry(d.comm, SHORT_MS);
        ranks_meet(me);
        if (me->rank != away)
            sum_of(&d, d.comm, away == 1 ? LONG / 4 : COUNT);
        ends_await(d.comm);
        local_drains(&d);
        snprintf(words, sizeof words, "all_reduce of|int32|not called yet by rank %d", away);
        tutti_error error = ranks_same_error(me, d.comm, TUTTI_TIMEOUT, words);
        ranks_expect(me, error.peer == away, "the peer is %d", error.peer);
        if (me->rank == away) /* too late */
            ranks_refused(me, sum(&d), TUTTI_TIMEOUT, "all_reduce", words);
        ranks_meet(me);
        spin_get_up(&d);
    }
}

/* A device takes its time: what is before the call on a rank's own stream is no reason to give up there. */
static void be_busy(struct ranks_me *me)
{
    struct local_desk d;
    uint32_t *word = NULL;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    local_hurry(d.comm, SHORT_MS);
    local_fine(&d, d.dev->memory.alloc_pinned(64, (void **)&word));
    *word = 0;
    ranks_meet(me);
    local_fine(&d, d.dev->wait_word(d.stream, word, 1));
    ranks_ok(me, sum(&d), "all_reduce");
    ranks_sleep_us(3 * SHORT_MS * 1000);
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_OK, "%s", tutti_get_last_error(d.comm));
    ranks_meet(me);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    local_settle(&d);
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_OK, "%s", tutti_get_last_error(d.comm));
    spin_get_up(&d);
}

Test(api_device_spin_ends, a_rank_that_never_calls)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, stay_away, NULL, 0, 0 }, { "queues=8", N, N, be_busy, NULL, 0, 0 });
}

/* --- The end while kernels wait */

static void await_kernel(const struct local_desk *d)
{
    const struct tt_direct_words *words = &spin_of(d->comm)->its.row->words;
    for (int ms = 0; ms < 5000 && !tt_spin_is_out(words); ms++)
        ranks_sleep_us(1000);
    ranks_expect(d->me, tt_spin_is_out(words), "no kernel waits");
}

/* When a rank is told, no kernel of it is out any more, and so its buffers are its own. */
static void is_out_of_it(const struct local_desk *d)
{
    local_drains(d);
    ranks_expect(d->me, !tt_spin_is_out(&spin_of(d->comm)->its.row->words), "a kernel still waits");
    local_poison(d);
    ranks_sleep_us(20000);
    local_is_poisoned(d);
}

static void abort_waiting(struct ranks_me *me)
{
    for (int round = 0; round < 2; round++) {
        struct local_desk d;
        const int *absent = me->context; /* all ranks of a process */
        bool away = me->rank >= me->n - *absent;
        ranks_at(me, "round %d", round);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        ranks_meet(me);
        if (!away) {
            sum_of(&d, d.comm, round == 0 ? 16 : LONG / 4);
            await_kernel(&d);
        }
        ranks_meet(me);
        if (me->rank == (round == 0 ? 0 : me->n - 1))
            ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
        ends_await(d.comm);
        is_out_of_it(&d);
        ranks_same_error(me, d.comm, TUTTI_ABORTED, "abort");
        ranks_meet(me);
        spin_get_up(&d);
    }
}

Test(api_device_spin_ends, abort_while_kernels_wait)
{
    static const int absent[] = { 1, 2 };
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, abort_waiting, &absent[0], 0, 0 },
        { "queues=8", 4, 2, abort_waiting, &absent[1], 0, 0 });
}

/* A rank ends it for itself, while its kernel waits, or none is out: it has its buffers back, the others go
 * on with messages, and are told in the next call that needs it. */
static void abort_alone(struct ranks_me *me)
{
    const int *first =
        me->context; /* a rank whose process has others waits for them before its kernel begins */
    for (int round = *first; round < 4; round++) {
        struct local_desk d;
        size_t count = round % 2 == 0 ? 16 : LONG / 4;
        ranks_at(me, "round %d", round);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        sum_of(&d, d.comm, count);
        local_drains(&d);
        ranks_meet(me);
        if (me->rank == 0 && round < 2) {
            sum_of(&d, d.comm, count);
            await_kernel(&d);
        }
        if (me->rank == 0) {
            ranks_ok(me, tutti_comm_abort_local(d.comm), "abort_local");
            is_out_of_it(&d);
        }
        ranks_meet(me);
        tutti_status state = tutti_comm_state(d.comm);
        ranks_expect(me, state == (me->rank == 0 ? TUTTI_ABORTED : TUTTI_OK), "state %d", state);
        if (me->rank == 1)
            ranks_ok(me, tutti_send(d.areas[GIVEN], 8, TUTTI_INT32, 2, d.comm, local_on(&d)), "send");
        if (me->rank == 2)
            ranks_ok(me, tutti_recv(d.areas[GOT], 8, TUTTI_INT32, 1, d.comm, local_on(&d)), "recv");
        local_drains(&d);
        ranks_meet(me);
        if (me->rank > 0) {
            ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_OK, "%s", tutti_get_last_error(d.comm));
            for (int again = 0; again < 2; again++) { /* what it had sent before it left is taken */
                sum_of(&d, d.comm, count);
                local_drains(&d);
            }
            ends_await(d.comm);
            is_out_of_it(&d);
            ranks_refused(me, sum(&d), TUTTI_PEER_LOST, "sum", "rank 0 aborted its end");
        }
        ranks_meet(me);
        spin_get_up(&d);
    }
}

Test(api_device_spin_ends, a_rank_that_aborts_alone)
{
    static const int rounds[] = { 0, 2 };
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, abort_alone, &rounds[0], 0, 0 },
        { "queues=8", N, N, abort_alone, &rounds[1], 0, 0 });
}

/* A rank has destroyed its communicator when the kernels of others, which wait for it, store into its pad:
 * that stays until the last of them has gone. */
static void leave_first(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    ranks_meet(me);
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    ranks_meet(me);
    if (me->rank > 0) {
        sum(&d);
        ends_await(d.comm);
        local_drains(&d);
        ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d", tutti_comm_state(d.comm));
        ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    }
    local_fine(&d, d.dev->stream.sync(d.stream));
}

Test(api_device_spin_ends, a_rank_that_leaves)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, N, leave_first, NULL, 0, 0 }, { "queues=8", N, 1, leave_first, NULL, 0, 0 });
}

/* All have destroyed theirs while a kernel of each is still to come, behind what the program enqueued before:
 * it stores into pads, which stay for it. */
static void leave_before_the_kernel(struct ranks_me *me)
{
    struct local_desk d;
    uint32_t *word = NULL;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    local_fine(&d, d.dev->memory.alloc_pinned(64, (void **)&word));
    *word = 0;
    ranks_meet(me);
    local_fine(&d, d.dev->wait_word(d.stream, word, 1));
    ranks_ok(me, sum(&d), "all_reduce");
    ranks_meet(me);
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
    ends_await(d.comm);
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    ranks_meet(me);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    local_drains(&d);
    local_fine(&d, d.dev->stream.sync(d.stream));
    ranks_meet(me);
}

Test(api_device_spin_ends, kernels_that_come_after_the_end)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 2, leave_before_the_kernel, NULL, 0, 0 },
        { "queues=8", 2, 1, leave_before_the_kernel, NULL, 0, 0 });
}

/* The worker looks, when its kernels are over, for a rank whose row says nothing of the call. */
static void look_again(const struct local_desk *d, bool is_over)
{
    struct tt_spin *spin = spin_of(d->comm);
    const struct tt_direct_words *words = &spin->its.row->words;
    struct tt_gate gate = { .spin = { &words->entered, spin->made, spin->made } };
    memset(spin->rows[1]->here, 0, sizeof spin->rows[1]->here);
    spin->meeting.over = false;
    spin->meeting.advance(&spin->meeting, &gate, spin->its.row->here[spin->calls % 2].signature);
    ranks_expect(d->me, spin->meeting.over == is_over && spin->meeting.late == (is_over ? TT_NONE : 1),
        "rank %d is waited for", spin->meeting.late);
}

/* A rank that is through may destroy its communicator, and have other things where its row was, before
 * another one's worker looks whether it has come to the call. One that lives, and has not come, is waited
 * for. */
static void leave_before_a_look(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    ranks_meet(me);
    ranks_ok(me, sum(&d), "all_reduce");
    local_settle(&d);
    ranks_ok(me, tutti_comm_flush(d.comm, SPIN_LONG_MS), "flush");
    ranks_meet(me);
    if (me->rank == 0) {
        uint64_t *sequence = &spin_of(d.comm)->comm->numbers.sequence;
        ++*sequence; /* what rank 1 has completed is the call before */
        look_again(&d, false);
        --*sequence;
    }
    ranks_meet(me);
    if (me->rank == 1)
        spin_get_up(&d);
    ranks_meet(me);
    if (me->rank == 1)
        return;
    look_again(&d, true);
    spin_get_up(&d);
}

Test(api_device_spin_ends, a_row_that_is_used_again)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, leave_before_a_look, NULL, 0, 0 });
}

/* --- Processes that die at any moment */

static void call_until_a_death(struct ranks_me *me)
{
    const struct ends_death *death = me->context;
    struct local_desk d;
    void *large[2];
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    for (int i = 0; i < 2; i++)
        local_fine(&d, d.dev->memory.alloc(LONG * 4, &large[i]));
    ends_die_soon(me, death);
    for (int i = 0; tutti_comm_state(d.comm) == TUTTI_OK; i++) {
        tutti_all_reduce(large[0], large[1], death->count, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d));
        if (i % 4 == 3) /* kernels take their time here */
            local_fine(&d, d.dev->stream.sync(d.stream));
    }
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d: %s", tutti_comm_state(d.comm),
        tutti_get_last_error(d.comm));
    local_drains(&d);
    ranks_expect(me, !tt_spin_is_out(&spin_of(d.comm)->its.row->words), "a kernel still waits");
    spin_get_up(&d);
}

static void kill_at_drawn_moments(int n, int per_process, int times)
{
    uint64_t random = 3;
    plugin_must_be_stub();
    for (int i = 0; i < times; i++) {
        int victim = i % ((n + per_process - 1) / per_process) * per_process;
        struct ends_death death = { victim, ranks_below(&random, i % 2 ? 6000 : 900),
            ranks_below(&random, 2) ? COUNT : LONG };
        spin_run({ "queues=8,delay=20", n, per_process, call_until_a_death, &death, 1U << victim, 0 });
    }
}

Test(api_device_spin_ends, kills_at_drawn_moments)
{
    kill_at_drawn_moments(2, 1, 6);
    kill_at_drawn_moments(4, 2, 4);
}

/* --- Functions of the device that fail */

static void launch_fails(struct ranks_me *me)
{
    for (int k = 0; k < N; k++) {
        struct local_desk d;
        ranks_at(me, "launch fails at rank %d", k);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        ranks_ok(me, sum(&d), "all_reduce");
        local_settle(&d);
        if (me->rank == k) {
            d.stub->fail("launch", 1, TT_DEV_UNSUPPORTED);
            ranks_refused(me, sum(&d), TUTTI_DEVICE_ERROR, "all_reduce", "launch");
        } else {
            sum(&d);
        }
        ends_await(d.comm);
        is_out_of_it(&d);
        ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, "launch");
        ranks_meet(me);
        spin_get_up(&d);
    }
}

Test(api_device_spin_ends, a_launch_that_fails)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, launch_fails, NULL, 0, 0 });
}

/* --- Two communicators on the same devices */

/* In one order each kernel finds its peers. In opposite ones, on a device with one queue, none does: the one
 * whose deadline is the shorter ends by that, and the other one's kernels, which waited behind, go on. */
static void cross(struct ranks_me *me)
{
    struct local_desk d;
    const bool *opposite = me->context;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    tutti_comm *other = spin_join(me, ";executor=spin", SPIN_LONG_MS);
    if (!spin_says(me, other, "executor", "S"))
        return;
    if (*opposite)
        local_hurry(d.comm, SHORT_MS);
    void *second;
    local_fine(&d, d.dev->stream.create(&second));
    ranks_meet(me);
    for (int i = 0; i < 20; i++) {
        for (int k = 0; k < 2; k++) {
            bool first = (k == 0) != (me->rank == 1);
            tutti_all_reduce(d.areas[first ? 0 : 2], d.areas[first ? 1 : 3], COUNT, TUTTI_INT32, TUTTI_SUM,
                first ? d.comm : other, tutti_cuda_stream(first ? d.stream : second));
        }
    }
    local_fine(&d, d.dev->stream.sync(d.stream));
    local_fine(&d, d.dev->stream.sync(second));
    ranks_meet(me);
    tutti_status state = tutti_comm_state(d.comm);
    ranks_expect(me, state == (*opposite ? TUTTI_TIMEOUT : TUTTI_OK), "state %d", state);
    ranks_expect(me, tutti_comm_state(other) == TUTTI_OK, "%s", tutti_get_last_error(other));
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    spin_get_up(&d);
}

/* Whether the deadline that comes first ends the other one's wait in time, nobody can say. */
static void cross_with_two_deadlines(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    tutti_comm *other = spin_join(me, ";executor=spin", SPIN_LONG_MS);
    if (!spin_says(me, other, "executor", "S"))
        return;
    ends_cross(&d, other, false);
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    spin_get_up(&d);
}

Test(api_device_spin_ends, communicators_in_opposite_order)
{
    static const bool alike = false, opposite = true;
    plugin_must_be_stub();
    spin_run({ "queues=32", 2, 1, cross, &alike, 0, 0 }, { "queues=1", 2, 1, cross, &opposite, 0, 0 },
        { "queues=1", 2, 1, cross_with_two_deadlines, NULL, 0, 0 });
}
