/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led_ends.c: what becomes of ranks of several processes on one device, which one of them
 * leads, when they differ, leave, fail or die: all are told why, no stream is left waiting, and no kernel
 * stores into memory of a rank whose stream has passed. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "device/device_led.h"
#include "ends_rig.h"
#include "led_rig.h"

TestSuite(api_device_led_ends, .timeout = 240);

enum { N = 3, COUNT = LED_POISONED / 4, POISON = 0xa5 };

static tutti_status sum_of(const struct local_desk *d, size_t count)
{
    return tutti_all_reduce(
        d->areas[GIVEN], d->areas[GOT], count, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
}

static tutti_status sum(const struct local_desk *d)
{
    return sum_of(d, COUNT);
}

/* --- Ranks that call different things */

static void differ(struct ranks_me *me)
{
    for (int k = N; k < N * ENDS_DIFFERENCES; k++) {
        struct local_desk d;
        const struct ends_difference *difference = &ends_differences[k / N];
        ranks_at(me, "difference %d at rank %d", k / N, k % N);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        led_poison(&d);
        ranks_meet(me);
        ends_call(&d, me->rank == k % N ? difference : &ends_differences[0]);
        local_drains(&d);
        ends_differ(me, d.comm, difference);
        led_is_poisoned(&d);
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_led_ends, calls_that_differ)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, differ, NULL, 0 });
}

/* On a stream of a device or on none is a difference, where one rank leads. On none at all ranks is none. */
static void call_without_stream(struct ranks_me *me)
{
    static _Thread_local int32_t from[COUNT], to[COUNT];
    for (int odd = 0; odd < N; odd++) {
        struct local_desk d;
        ranks_at(me, "rank %d calls without a stream", odd);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        led_poison(&d);
        memset(to, POISON, sizeof to);
        from[7] = me->rank;
        tutti_stream none = tutti_no_stream();
        ranks_ok(
            me, tutti_all_reduce(from, from, COUNT, TUTTI_INT32, TUTTI_SUM, d.comm, none), "all without");
        ranks_expect(me, from[7] == 3, "the sum is %d", from[7]);
        ranks_meet(me);
        tutti_status status = me->rank != odd
                                  ? sum(&d)
                                  : tutti_all_reduce(from, to, COUNT, TUTTI_INT32, TUTTI_SUM, d.comm, none);
        ranks_expect(me, me->rank != odd || status == TUTTI_MISMATCH, "status %d", status);
        local_drains(&d);
        ranks_same_error(me, d.comm, TUTTI_MISMATCH,
            "called all_reduce of 1024 int32, sum, on a CUDA stream|called all_reduce of 1024 int32, sum");
        led_is_poisoned(&d);
        ranks_expect(me, to[0] == to[COUNT - 1] && to[0] == (int32_t)0xa5a5a5a5, "a result was stored");
        ranks_meet(me);
        led_get_up(&d);
    }
}

/* Where the host runs them, calls may be mixed. */
static void mix_by_host(struct ranks_me *me)
{
    struct local_desk d;
    int32_t value = me->rank + 1;
    if (!local_prepare(me, &d) || (d.comm = led_join(me, ";executor=host", LED_LONG_MS)) == NULL)
        return;
    for (int odd = 0; odd < N; odd++) {
        local_give(&d, GIVEN, &value, sizeof value);
        tutti_stream on = me->rank == odd ? tutti_no_stream() : local_on(&d);
        int32_t got = 0;
        void *to = me->rank == odd ? (void *)&got : d.areas[GOT];
        ranks_ok(me,
            tutti_all_reduce(
                me->rank == odd ? (void *)&value : d.areas[GIVEN], to, 1, TUTTI_INT32, TUTTI_SUM, d.comm, on),
            "all_reduce");
        if (me->rank != odd)
            memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(me, got == 6, "the sum is %d", got);
    }
    led_get_up(&d);
}

Test(api_device_led_ends, calls_on_a_stream_and_on_none)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, call_without_stream, NULL, 0 }, { "queues=8", N, 0, mix_by_host, NULL, 0 });
}

/* The one that never calls is named, when the deadline has passed. */
static void stay_away(struct ranks_me *me)
{
    for (int away = 0; away < N; away++) {
        struct local_desk d;
        char words[64];
        bool first = me->rank == (away + 1) % N; /* to find it: the leader, and a follower */
        ranks_at(me, "rank %d never calls", away);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        if (first)
            local_hurry(d.comm, 300);
        led_poison(&d);
        ranks_meet(me);
        if (me->rank != away)
            sum(&d);
        ends_await(d.comm);
        local_drains(&d);
        snprintf(words, sizeof words, "all_reduce of 1024 int32|not called yet by rank %d", away);
        tutti_error error = ranks_same_error(me, d.comm, TUTTI_TIMEOUT, words);
        ranks_expect(me, error.peer == away, "the peer is %d", error.peer);
        if (me->rank == away) /* too late */
            ranks_refused(me, sum(&d), TUTTI_TIMEOUT, "all_reduce", words);
        local_drains(&d);
        led_is_poisoned(&d);
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_led_ends, a_rank_that_never_calls)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, stay_away, NULL, 0 });
}

/* --- Two communicators, on which ranks call in opposite order */

/* A stream waits for its own worker only, so that is legal as long as the streams share no queue. */
static void cross(struct ranks_me *me)
{
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    tutti_comm *other = led_join(me, ";executor=led", LED_LONG_MS);
    ends_cross(&d, other, me->context == NULL);
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    led_get_up(&d);
}

Test(api_device_led_ends, communicators_in_opposite_order)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, cross, NULL, 0 }, { "queues=1", N, 0, cross, "they share one, and wait", 0 });
}

/* --- Processes that die at any moment */

static void call_until_a_death(struct ranks_me *me)
{
    const struct ends_death *death = me->context;
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    ends_die_soon(me, death);
    for (int i = 0; tutti_comm_state(d.comm) == TUTTI_OK; i++) {
        tutti_all_reduce(
            d.areas[GIVEN], d.areas[GOT], death->count, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d));
        if (i % 4 == 3) /* kernels take their time here */
            local_fine(&d, d.dev->stream.sync(d.stream));
    }
    local_drains(&d);
    led_poison(&d);
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d: %s", tutti_comm_state(d.comm),
        tutti_get_last_error(d.comm));
    ranks_sleep_us(30000);
    led_is_poisoned(&d);
    led_get_up(&d);
}

static void kill_at_drawn_moments(int n, int per_process, int times)
{
    uint64_t random = 3;
    plugin_must_be_stub();
    for (int i = 0; i < times; i++) {
        int victim = i % ((n + per_process - 1) / per_process) * per_process;
        struct ends_death death = { victim, ranks_below(&random, i % 2 ? 6000 : 900),
            ranks_below(&random, 2) ? COUNT : 2 * LED_SLICE / 4 + 9 };
        led_run({ "queues=8,delay=20", n, per_process, call_until_a_death, &death, 1U << victim });
    }
}

Test(api_device_led_ends, kills_at_drawn_moments)
{
    kill_at_drawn_moments(2, 1, 12);
    kill_at_drawn_moments(3, 1, 15);
}

Test(api_device_led_ends, kills_of_processes_of_two_ranks)
{
    kill_at_drawn_moments(4, 2, 10);
}

/* --- Graphs */

/* What another rank captures, this one calls. */
static void *call_beside(const struct local_desk *d)
{
    ranks_meet(d->me);
    ranks_ok(d->me, sum(d), "called");
    ranks_meet(d->me); /* as in local_capture */
    local_settle(d);
    return NULL;
}

/* Replays end, and no kernel stores anything. */
static void replay_after_the_end(const struct local_desk *d, void *runnable)
{
    memset(d->stub->look(d->areas[GOT]), POISON, COUNT * 4);
    for (int i = 0; i < 3; i++)
        local_fine(d, d->dev->graph.launch(runnable, d->stream));
    local_drains(d);
    local_is_poisoned(d);
    local_fine(d, d->dev->graph.runnable_destroy(runnable));
}

/* The communicator has failed, or has gone, at all ranks, or at one first: replays end. */
static void replay_to_the_end(struct ranks_me *me)
{
    static const struct {
        tutti_status (*end)(tutti_comm *comm);
        const char *name;
        bool fails; /* the communicator; else it is gone */
    } ends[] = { { tutti_comm_destroy, "tutti_comm_destroy", false },
        { tutti_comm_abort, "tutti_comm_abort", true },
        { tutti_comm_abort_local, "tutti_comm_abort_local", true } };
    for (int first = -1; first < me->n; first++)
        for (size_t k = 0; k < sizeof ends / sizeof ends[0]; k++) {
            struct local_desk d;
            ranks_at(me, "%s, rank %d first", ends[k].name, first);
            if (!led_sit_down(me, &d, LED_LONG_MS))
                return;
            void *runnable = local_capture(&d, sum);
            memset(led_cell(&d), POISON, COUNT * 4);
            ranks_meet(me);
            if (me->rank != first && first >= 0)
                local_fine(&d, d.dev->graph.launch(runnable, d.stream));
            if (me->rank == first || first < 0)
                ranks_ok(me, ends[k].end(d.comm), ends[k].name);
            local_drains(&d);
            ranks_meet(me);
            if (ends[k].fails || (me->rank != first && first >= 0)) {
                replay_after_the_end(&d, runnable);
                ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
            } else {
                replay_after_the_end(&d, runnable);
            }
            ranks_meet(me);
        }
}

Test(api_device_led_ends, replays_after_the_end)
{
    plugin_must_be_stub();
    led_run(
        { "queues=8", 2, 0, replay_to_the_end, NULL, 0 }, { "queues=1", 3, 0, replay_to_the_end, NULL, 0 });
}

/* The leader's graph outlives the communicator, of which the others have nothing left: where its memory was,
 * they have the next one's, and the leader leads that, too. */
static void lead_again(struct ranks_me *me)
{
    struct local_desk d, next;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    const uint8_t *cell = led_cell(&d);
    void *runnable = led_leads(&d) ? local_capture(&d, sum) : call_beside(&d);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    ranks_meet(me);
    if (!led_sit_down(me, &next, LED_LONG_MS))
        return;
    ranks_expect(me, led_leads(&d) || led_cell(&next) == cell, "its memory is another one");
    ranks_ok(me, sum(&next), "all_reduce");
    local_settle(&next);
    ranks_meet(me);
    led_poison(&next);
    ranks_meet(me);
    if (led_leads(&d))
        replay_after_the_end(&d, runnable);
    ranks_meet(me);
    led_is_poisoned(&next);
    ranks_meet(me);
    led_get_up(&next);
    if (!led_sit_down(me, &next, LED_LONG_MS)) /* what the graph had is given back by now */
        return;
    ranks_meet(me); /* a leader that gets up takes back what says that it leads */
    led_get_up(&next);
    ranks_expect(me, d.stub->calls("unpin") <= d.stub->calls("pin"), "%llu times pinned, %llu times unpinned",
        (unsigned long long)d.stub->calls("pin"), (unsigned long long)d.stub->calls("unpin"));
}

Test(api_device_led_ends, a_graph_of_the_leader_that_outlives_it)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, lead_again, NULL, 0 });
}

/* A rank may destroy its communicator as soon as it is made, and have other things where its row was, while
 * another one is still about to see that all have handed over. */
static void leave_at_once(struct ranks_me *me)
{
    enum { SOON_MS = 5000 };
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    ranks_meet(me);
    const struct tt_led *led = led_device(&d)->led;
    if (me->rank == 1)
        led_get_up(&d);
    ranks_meet(me);
    if (me->rank != 1) {
        atomic_store(&led->rows[1]->handed, false);
        int64_t begin = tt_now_ns();
        tt_led_await_handed(led);
        int64_t ms = (tt_now_ns() - begin) / 1000000;
        ranks_expect(me, ms < SOON_MS, "it has waited for %lld ms", (long long)ms);
        led_get_up(&d);
    }
}

Test(api_device_led_ends, a_rank_that_leaves_at_once)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, leave_at_once, NULL, 0 });
}

/* --- Functions of the device that fail */

/* At the leader, as it connects: its ranks are not led, and their calls are as right. */
static void connect_without(struct ranks_me *me)
{
    static const struct {
        const char *function;
        uint64_t k;
    } cases[] = { { "pin", 2 }, { "pin", 3 }, { "launch", 1 }, { "preload", 2 }, { NULL, 0 } };
    for (int k = 0; cases[k].function != NULL; k++) {
        struct local_desk d;
        int32_t one = 1, got;
        ranks_at(me, "%s fails", cases[k].function);
        if (!local_prepare(me, &d))
            return;
        if (led_leads(&d))
            d.stub->fail(cases[k].function, cases[k].k, TT_DEV_UNSUPPORTED);
        ranks_meet(me);
        if ((d.comm = led_join(me, ";executor=led", LED_LONG_MS)) == NULL)
            return;
        local_give(&d, GIVEN, &one, sizeof one);
        uint64_t launches = d.stub->calls("launch");
        ranks_ok(me, sum(&d), "all_reduce");
        memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(me, got == me->n, "the sum is %d", got);
        ranks_expect(me, d.stub->calls("launch") == launches, "it is led");
        led_get_up(&d);
        uint64_t refused = !led_leads(&d) ? 0 : k < 1 ? 1 : 2;
        ranks_expect(me, d.stub->calls("pin") - refused == d.stub->calls("unpin"),
            "%llu times pinned, %llu times unpinned", (unsigned long long)(d.stub->calls("pin") - refused),
            (unsigned long long)d.stub->calls("unpin"));
        ranks_meet(me);
    }
}

Test(api_device_led_ends, connecting_without_a_leader)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, connect_without, NULL, 0 });
}

/* Of a call that is under way: all are told, and no stream is left waiting. A leader's kernel may have been
 * let go, by its worker, before it is to be enqueued: then there is none to wait for. Of a group of slices a
 * kernel that does all may stand in the stream, when the one that tells is refused. */
static const struct tt_led *refused;
static const struct tt_dev *real;
static int accepted;

static enum tt_dev_error refuse_late(const struct tt_dev_launch *launch, void *stream)
{
    if (accepted-- > 0)
        return real->launch(launch, stream);
    for (int ms = 0; ms < 10000 && atomic_load(&refused->rows[0]->turn) % 2 == 0; ms++)
        ranks_sleep_us(1000);
    return TT_DEV_UNSUPPORTED;
}

static void launch_fails(struct ranks_me *me)
{
    struct local_desk d;
    static struct tt_dev other;
    bool second = me->context != NULL;
    size_t count = second ? AREA / 4 : COUNT;
    if (!local_prepare(me, &d) ||
        (d.comm = led_join(me, ";executor=led;device_pad=512K", LED_LONG_MS)) == NULL)
        return;
    ranks_ok(me, sum_of(&d, count), "all_reduce");
    local_settle(&d);
    ranks_meet(me);
    if (led_leads(&d)) {
        refused = led_device(&d)->led;
        real = d.dev;
        accepted = second;
        other = *d.dev;
        other.launch = refuse_late;
        led_device(&d)->led->dev = &other;
    }
    int64_t since_ms = ranks_now_ms();
    tutti_status status = sum_of(&d, count);
    ranks_expect(me, !led_leads(&d) || (status == TUTTI_DEVICE_ERROR && accepted == -1), "status %d", status);
    local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, "rank 0|cannot enqueue");
    ranks_expect(me, ranks_now_ms() - since_ms < 8000, "they have waited for what does not come");
    led_is_cancelled(&d);
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

static void enqueue_fails(struct ranks_me *me)
{
    static const char *const functions[] = { "launch", "wait_word", "write_word", "copy", "event_record" };
    for (int k = 0; k < 5 * N; k++) {
        struct local_desk d;
        const char *function = functions[k / N];
        bool fails = me->rank == k % N && !(k / N == 0 && k % N > 0);
        ranks_at(me, "%s fails at rank %d", function, k % N);
        if (k / N == 0 && k % N > 0)
            continue; /* it launches nothing */
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        ranks_ok(me, sum(&d), "all_reduce");
        local_settle(&d);
        if (fails) {
            d.stub->fail(function, 1, TT_DEV_UNSUPPORTED);
            ranks_refused(me, sum(&d), TUTTI_DEVICE_ERROR, "all_reduce", function);
        } else {
            sum(&d);
        }
        local_drains(&d);
        ends_await(d.comm);
        ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, function);
        led_is_cancelled(&d);
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_led_ends, an_enqueue_that_fails)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, enqueue_fails, NULL, 0 }, { "queues=8", N, 0, launch_fails, NULL, 0 },
        { "queues=8", N, 0, launch_fails, "the second", 0 });
}

/* The leader's device gives up while its kernel is awaited: there is none to wait for. */
static void break_device(struct ranks_me *me)
{
    struct local_desk d;
    void *event;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    if (led_leads(&d))
        led_hold(&d);
    ranks_meet(me);
    sum(&d);
    led_await_kernel(&d);
    ranks_meet(me);
    if (led_leads(&d)) {
        d.stub->fail("event_create", 1, TT_DEV_BROKEN);
        d.dev->event.create(false, &event);
    }
    ends_await(d.comm);
    if (!led_leads(&d))
        local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, "rank 0|all_reduce of 1024 int32|device 0");
    if (!led_leads(&d))
        led_is_cancelled(&d);
    ranks_meet(me);
    if (led_leads(&d))
        led_let_go(&d);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

Test(api_device_led_ends, a_device_that_fails_meanwhile)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, break_device, NULL, 0 });
}
