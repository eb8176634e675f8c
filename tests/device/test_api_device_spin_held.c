/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin_held.c: ranks with a device each destroy their ends as soon as they have their own
 * results, or abort them, while the worker of one is held up: before it says that it has come, or looks at
 * the others, or after that. */
#include <criterion/criterion.h>
#include <string.h>

#include "spin/spin.h"
#include "spin_rig.h"

TestSuite(api_device_spin_held, .timeout = 240);

enum { N = 3 };

static struct {
    bool told; /* in which step */
    int idle; /* or after so many looks at which nothing had moved */
    _Atomic int *destroyed; /* by how many others */
    bool (*advance)(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature);
} slow;

static bool advance_late(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    enum { HELD_MS = 80 };
    const struct tt_spin *spin = (const struct tt_spin *)(const void *)meeting;
    for (int ms = 0; ms < HELD_MS && spin->told == slow.told && atomic_load(slow.destroyed) < N - 1; ms++)
        ranks_sleep_us(1000);
    return slow.advance(meeting, gate, signature);
}

/* The sum of the ranks' numbers, from 1 on; returns when the stream is through. */
static void sum_ranks(struct local_desk *d)
{
    int32_t given = d->me->rank + 1;
    local_give(d, GIVEN, &given, sizeof given);
    ranks_ok(d->me,
        tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d)),
        "all_reduce");
    local_drains(d);
}

static void has_sum(struct local_desk *d)
{
    int32_t got;
    memcpy(&got, local_take(d, GOT, sizeof got), sizeof got);
    ranks_expect(d->me, got == N * (N + 1) / 2, "the sum is %d", got);
}

static void leave_at_once(struct ranks_me *me)
{
    for (int round = 0; round < 2 * N; round++) {
        struct local_desk d;
        _Atomic int *destroyed = (_Atomic int *)me->shared + round;
        ranks_at(me, "rank %d is held, step %d", round / 2, round % 2);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        if (me->rank == round / 2) {
            struct tt_meeting *meeting = &spin_of(d.comm)->meeting;
            slow.told = round % 2;
            slow.destroyed = destroyed;
            slow.advance = meeting->advance;
            meeting->advance = advance_late;
        }
        ranks_meet(me);
        sum_ranks(&d);
        has_sum(&d);
        ranks_ok(me, tutti_comm_state(d.comm), "the end of the call");
        spin_get_up(&d);
        atomic_fetch_add(destroyed, 1);
        ranks_meet(me);
    }
}

/* A worker finds that nothing moves. Before it draws its conclusions, rank 2 has called, and rank 0 has its
 * result and is gone. */
static bool advance_and_wait(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    enum { HELD_MS = 2000, FEW = 10 /* by then it has begun to wait */ };
    bool moved = slow.advance(meeting, gate, signature);
    slow.idle = moved ? 0 : slow.idle + 1;
    for (int ms = 0; ms < HELD_MS && slow.idle > FEW && atomic_load(slow.destroyed) == 0; ms++)
        ranks_sleep_us(1000);
    return moved;
}

/* A worker that does not come to the call before its rank's end is aborted, and so never does. */
static bool advance_never(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    (void)meeting, (void)gate, (void)signature;
    return false;
}

/* A worker that comes when another rank has been gone for long. */
static bool advance_long_after(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    enum { HELD_MS = 5000, AFTER_US = 300000 /* several times what who waits leaves the others alone */ };
    bool first = slow.idle++ == 0;
    for (int ms = 0; ms < HELD_MS && first && atomic_load(slow.destroyed) == 0; ms++)
        ranks_sleep_us(1000);
    if (first)
        ranks_sleep_us(AFTER_US);
    return slow.advance(meeting, gate, signature);
}

static void abort_at_once(struct ranks_me *me)
{
    for (int round = 0; round < 4; round++) {
        struct local_desk d;
        _Atomic int *aborted = (_Atomic int *)me->shared + round;
        ranks_at(me, "round %d", round);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        struct tt_meeting *meeting = &spin_of(d.comm)->meeting;
        slow.destroyed = aborted;
        slow.advance = meeting->advance;
        meeting->advance = advance_and_wait;
        ranks_meet(me);
        if (me->rank == 2)
            ranks_sleep_us(200000); /* longer than who waits leaves the others alone */
        sum_ranks(&d);
        if (me->rank == 0) {
            ranks_ok(me, tutti_comm_abort_local(d.comm), "abort_local");
            atomic_store(aborted, 1);
        }
        ranks_meet(me);
        has_sum(&d);
        ranks_sleep_us(100000);
        ranks_expect(
            me, me->rank == 0 || tutti_comm_state(d.comm) == TUTTI_OK, "%s", tutti_get_last_error(d.comm));
        ranks_meet(me);
        spin_get_up(&d);
    }
}

/* Rank 0 has its result, and is gone, before its worker has said that it has come: the others, whose kernels
 * are over, have theirs. So has one that goes on waiting for another rank, whose worker is held up. */
static void abort_before_the_worker_comes(struct ranks_me *me)
{
    const bool *held = me->context;
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    struct tt_meeting *meeting = &spin_of(d.comm)->meeting;
    slow.destroyed = me->shared;
    slow.idle = 0;
    slow.advance = meeting->advance;
    if (me->rank == 0)
        meeting->advance = advance_never;
    if (me->rank == 1 && *held)
        meeting->advance = advance_long_after;
    ranks_meet(me);
    sum_ranks(&d);
    ranks_meet(me);
    if (me->rank == 0) {
        ranks_ok(me, tutti_comm_abort_local(d.comm), "abort_local");
        atomic_store(slow.destroyed, 1);
    }
    has_sum(&d);
    if (me->rank > 0)
        ranks_ok(me, tutti_comm_flush(d.comm, SPIN_LONG_MS), "flush");
    ranks_expect(
        me, me->rank == 0 || tutti_comm_state(d.comm) == TUTTI_OK, "%s", tutti_get_last_error(d.comm));
    ranks_meet(me);
    spin_get_up(&d);
}

Test(api_device_spin_held, an_end_that_is_aborted_at_once)
{
    static const bool held[] = { false, true };
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, abort_at_once, NULL, 0, 0 },
        { "queues=8", N, 1, abort_before_the_worker_comes, &held[0], 0, 0 },
        { "queues=8", N, 1, abort_before_the_worker_comes, &held[1], 0, 0 });
}

Test(api_device_spin_held, ends_that_are_destroyed_at_once)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, leave_at_once, NULL, 0, 0 });
}
