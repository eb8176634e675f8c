/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led_held.c: the end while a leader's kernel is out, or about to be: whoever gives up, and
 * wherever the others are meanwhile, a rank has its memory back only when no kernel stores there. Kernels and
 * callers are held up by the test, so nothing here depends on how long anything takes. */
#include <criterion/criterion.h>
#include <string.h>

#include "device/device_led.h"
#include "led_rig.h"

TestSuite(api_device_led_held, .timeout = 240);

enum { N = 3, COUNT = LED_POISONED / 4, LOOK_MS = 20 };

static tutti_status sum(const struct local_desk *d)
{
    return tutti_all_reduce(
        d->areas[GIVEN], d->areas[GOT], COUNT, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
}

static void await_end(const struct local_desk *d)
{
    while (tutti_comm_state(d->comm) == TUTTI_OK)
        ranks_sleep_us(1000);
}

/* Nothing was stored since this rank had its memory back; the kernel has ended at the latest when the
 * leader's stream is through. `alone`: which rank has aborted for itself; TT_NONE: one has for all. */
static void leave_held(struct local_desk *d, int alone)
{
    local_drains(d);
    ranks_meet(d->me);
    led_is_poisoned(d);
    if (alone == TT_NONE)
        ranks_same_error(d->me, d->comm, TUTTI_ABORTED, "abort");
    else
        ranks_refused(d->me, tutti_comm_state(d->comm),
            d->me->rank == alone ? TUTTI_ABORTED : TUTTI_PEER_LOST, "state", "abort");
    led_is_cancelled(d);
    ranks_meet(d->me);
    led_get_up(d);
}

/* All have called, and the kernel has been let go: no stream is through before it. */
static void abort_held(struct ranks_me *me)
{
    for (int round = 0; round < 2 * me->n; round++) {
        struct local_desk d;
        bool alone = round >= me->n;
        ranks_at(me, "round %d", round);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        if (led_leads(&d))
            led_hold(&d);
        ranks_meet(me);
        ranks_ok(me, sum(&d), "all_reduce");
        ranks_meet(me);
        if (me->rank == round % me->n) {
            led_await_kernel(&d);
            ranks_ok(me, (alone ? tutti_comm_abort_local : tutti_comm_abort)(d.comm), "abort");
        }
        await_end(&d);
        ranks_sleep_us(LOOK_MS * 1000);
        ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY, "its stream is through");
        ranks_meet(me);
        if (led_leads(&d))
            led_let_go(&d);
        local_drains(&d);
        led_poison(&d);
        leave_held(&d, alone ? round % me->n : TT_NONE);
    }
}

Test(api_device_led_held, abort_while_a_kernel_is_held_up)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 2, abort_held, NULL, 0 }, { "queues=1", N, 2, abort_held, NULL, 0 });
}

/* --- Ranks of one process, of which one is held up while it enqueues */

static struct {
    struct local_desk *desk; /* of whom is held up */
    struct tt_dev dev;
    _Atomic bool returned; /* the other one's call has */
} stuck;

/* The communicator has ended, and the other rank of the process has had time to take its memory back, if it
 * does not wait for this one. */
static void be_stuck(void)
{
    enum { TIME_MS = 300 };
    await_end(stuck.desk);
    for (int ms = 0; ms < TIME_MS && !atomic_load(&stuck.returned); ms++)
        ranks_sleep_us(1000);
}

static enum tt_dev_error launch_late(const struct tt_dev_launch *launch, void *stream)
{
    be_stuck();
    return stuck.desk->dev->launch(launch, stream);
}

static enum tt_dev_error tell_late(void *stream, uint32_t *word, uint32_t value)
{
    enum tt_dev_error error = stuck.desk->dev->write_word(stream, word, value);
    be_stuck();
    return error;
}

static void stick(struct local_desk *d)
{
    struct tt_device *device = led_device(d);
    stuck.desk = d;
    stuck.dev = *d->dev;
    if (led_leads(d)) {
        stuck.dev.launch = launch_late;
        device->led->dev = &stuck.dev;
    } else {
        stuck.dev.write_word = tell_late;
        device->dev = &stuck.dev;
    }
}

/* Rank 2, in a process of its own, aborts when the kernel is let go. Of the two others one is held up, with
 * its operands told of: the leader before it launches, or the other one, whom the leader waits for. The call
 * that is refused meanwhile has not enqueued a wait, and returns when the kernel is over, or will not be. */
static void abort_stuck(struct ranks_me *me)
{
    for (int round = 0; round < 2; round++) {
        struct local_desk d;
        ranks_at(me, "rank %d is held up", round);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        if (me->rank == round) {
            atomic_store(&stuck.returned, false);
            stick(&d);
        }
        ranks_meet(me);
        tutti_status status = sum(&d);
        bool refused = me->rank == 1 - round;
        ranks_expect(me, !refused || status == TUTTI_ABORTED, "status %d", status);
        if (me->rank == 2) {
            led_await_kernel(&d);
            ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
        }
        local_drains(&d);
        led_poison(&d);
        if (refused)
            atomic_store(&stuck.returned, true);
        leave_held(&d, TT_NONE);
    }
}

Test(api_device_led_held, abort_while_a_call_is_enqueued)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 2, abort_stuck, NULL, 0 }, { "queues=1", N, 2, abort_stuck, NULL, 0 });
}

/* All others have called, and the kernel has been let go. */
static enum tt_dev_error fail_to_record(void *event, void *stream, bool external)
{
    const _Atomic int *called = stuck.desk->me->shared;
    (void)event;
    (void)stream;
    (void)external;
    while (atomic_load(called) < N - 1)
        ranks_sleep_us(1000);
    led_await_kernel(stuck.desk);
    return TT_DEV_UNSUPPORTED;
}

/* The leader's call is refused when its kernel is out already: that one is waited for all the same. */
static void refuse_after_launch(struct ranks_me *me)
{
    _Atomic int *called = me->shared;
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    if (led_leads(&d)) {
        led_hold(&d);
        stuck.desk = &d;
        stuck.dev = *d.dev;
        stuck.dev.event.record = fail_to_record;
        led_device(&d)->dev = &stuck.dev;
    }
    ranks_meet(me);
    if (led_leads(&d)) {
        ranks_refused(me, sum(&d), TUTTI_DEVICE_ERROR, "all_reduce", "cannot enqueue");
    } else {
        ranks_ok(me, sum(&d), "all_reduce");
        atomic_fetch_add(called, 1);
        await_end(&d);
        ranks_sleep_us(LOOK_MS * 1000);
        ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY, "its stream is through");
        if (me->rank == 1)
            led_let_go(&d);
    }
    local_drains(&d);
    led_poison(&d);
    ranks_meet(me);
    led_is_poisoned(&d);
    ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, "rank 0|cannot enqueue");
    led_is_cancelled(&d);
    ranks_meet(me);
    led_get_up(&d);
}

Test(api_device_led_held, a_refusal_after_the_kernel)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 2, refuse_after_launch, NULL, 0 });
}

/* --- A rank that has left before */

/* A rank has taken the turn for good, as one does that gives up, and so its stream may pass: when all are
 * here after all, the leader's kernel stays where it is. */
static void come_after(struct ranks_me *me)
{
    struct local_desk d;
    uint64_t open = 2;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    struct tt_led_row *row = led_device(&d)->led->rows[0];
    led_poison(&d);
    ranks_meet(me);
    if (me->rank == me->n - 1)
        ranks_expect(me, atomic_compare_exchange_strong(&row->turn, &open, TT_LED_CANCELLED), "another turn");
    ranks_meet(me);
    sum(&d);
    ranks_sleep_us(100000);
    ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY, "the kernel was let go");
    led_is_poisoned(&d);
    led_is_cancelled(&d);
    ranks_meet(me);
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
    local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_ABORTED, "rank 0");
    led_is_poisoned(&d);
    ranks_meet(me);
    led_get_up(&d);
}

Test(api_device_led_held, no_kernel_after_a_rank_has_left)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, come_after, NULL, 0 }, { "queues=8", N, 2, come_after, NULL, 0 });
}

/* --- Ranks that destroy their ends as soon as they have their own results, while one is held up: its worker,
 * in each step of the call. What it still has to look at must be there. */

enum { FEW = 3, STEPS = 4, HELD_MS = 80 };

static struct {
    int step; /* the phase of its worker */
    _Atomic int *destroyed; /* by how many others */
    int others;
} slow;

static bool advance_late(struct tt_meeting *meeting, const struct tt_gate *gate, uint64_t signature)
{
    const struct tt_led *led = (const struct tt_led *)(const void *)meeting;
    for (int ms = 0; ms < HELD_MS && (int)led->phase == slow.step; ms++)
        if (atomic_load(slow.destroyed) < slow.others)
            ranks_sleep_us(1000);
    return tt_led_advance(meeting, gate, signature);
}

/* The results are in memory of the device, or in ordinary memory, to which the worker copies them. */
static void call_and_leave(struct ranks_me *me, bool message, int round)
{
    static _Thread_local int32_t ordinary[FEW];
    struct local_desk d;
    int32_t given[FEW * N], held = round / STEPS;
    _Atomic int *destroyed = (_Atomic int *)me->shared + round;
    ranks_at(me, "rank %d is held in step %d", held, round % STEPS);
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    struct tt_led *led = led_device(&d)->led;
    struct tt_led *meets = message ? tt_led_pair(led, 1 - me->rank, me->rank == 1) : led;
    void *to = round % 2 ? (void *)d.areas[GOT] : ordinary;
    for (int i = 0; i < FEW * me->n; i++)
        given[i] = me->rank * 100 + i;
    local_give(&d, GIVEN, given, sizeof given);
    memset(ordinary, 0xa5, sizeof ordinary);
    slow.step = round % STEPS;
    slow.destroyed = destroyed;
    slow.others = me->n - 1;
    if (me->rank == held)
        meets->meeting.advance = advance_late;
    ranks_meet(me);
    if (message && me->rank == 0)
        ranks_ok(me, tutti_send(d.areas[GIVEN], FEW, TUTTI_INT32, 1, d.comm, local_on(&d)), "send");
    else if (message)
        ranks_ok(me, tutti_recv(to, FEW, TUTTI_INT32, 0, d.comm, local_on(&d)), "recv");
    else
        ranks_ok(me, tutti_scatter(d.areas[GIVEN], to, FEW, TUTTI_INT32, 1, d.comm, local_on(&d)), "scatter");
    local_drains(&d);
    if (to != ordinary)
        memcpy(ordinary, local_take(&d, GOT, sizeof ordinary), sizeof ordinary);
    for (int i = 0; i < FEW && !(message && me->rank == 0); i++) {
        int expected = message ? i : 100 + me->rank * FEW + i;
        ranks_expect(me, ordinary[i] == expected, "element %d is %d, expected %d", i, ordinary[i], expected);
    }
    ranks_ok(me, tutti_comm_state(d.comm), "the end of the call");
    led_get_up(&d);
    atomic_fetch_add(destroyed, 1);
}

static void leave_at_once(struct ranks_me *me)
{
    const bool *message = me->context;
    for (int round = 0; round < me->n * STEPS; round++) {
        call_and_leave(me, *message, round);
        ranks_meet(me);
        if (me->world->slots[me->rank].failures > 0)
            return;
    }
}

Test(api_device_led_held, ends_that_are_destroyed_at_once)
{
    static const bool collective = false, message = true;
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, leave_at_once, &collective, 0 },
        { "queues=1", N, 2, leave_at_once, &collective, 0 },
        { "queues=8", 2, 0, leave_at_once, &message, 0 });
}

/* A rank destroys its end and makes the next communicator, whose row may be where the last one's was, while
 * the others are yet to destroy theirs: what these say at the end of the old one is not heard in the new. */
static void make_the_next(struct ranks_me *me)
{
    struct local_desk d;
    int32_t given = me->rank + 1, got;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    local_give(&d, GIVEN, &given, sizeof given);
    for (int round = 0; round < 4; round++) {
        ranks_at(me, "communicator %d", round);
        ranks_ok(me,
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 1, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d)),
            "all_reduce");
        memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(me, got == N * (N + 1) / 2, "the sum is %d", got);
        if (me->rank != round % N)
            ranks_sleep_us(50000); /* the other one has begun */
        ranks_part(me, d.comm);
        if ((d.comm = led_join(me, ";executor=led", LED_LONG_MS)) == NULL)
            return;
    }
    led_get_up(&d);
}

Test(api_device_led_held, communicators_that_follow_at_once)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, make_the_next, NULL, 0 });
}
