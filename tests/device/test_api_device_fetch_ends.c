/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_fetch_ends.c: what becomes of messages between processes on one device, which the
 * receiver's kernel fetches, when the ends differ, leave, fail or die: both are told why, no stream is left
 * waiting, and no kernel stores into memory of a rank whose stream has passed. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/handle.h"
#include "device/device_led.h"
#include "ends_rig.h"
#include "led_rig.h"

TestSuite(api_device_fetch_ends, .timeout = 120);

enum { N = 3, COUNT = 4096 /* bytes, as many as are poisoned */, SOON_MS = 5000 };

static const struct tt_led *pair_of(const struct local_desk *d, int peer, bool receives)
{
    return tt_led_pair(tt_comm_find(d->comm)->device->led, peer, receives);
}

/* Rank `from` sends so many bytes to rank `to`; others do nothing. */
static tutti_status pass(const struct local_desk *d, int from, int to, size_t count)
{
    if (d->me->rank == from)
        return tutti_send(d->areas[GIVEN], count, TUTTI_UINT8, to, d->comm, local_on(d));
    return d->me->rank == to ? tutti_recv(d->areas[GOT], count, TUTTI_UINT8, from, d->comm, local_on(d))
                             : TUTTI_OK;
}

/* Nobody has waited for what will not come (device_led.c): that takes ten seconds. */
static void drains_soon(const struct local_desk *d, int64_t since_ns)
{
    local_drains(d);
    int64_t ms = (tt_now_ns() - since_ns) / 1000000;
    ranks_expect(d->me, ms < SOON_MS, "the stream has waited for %lld ms", (long long)ms);
}

/* --- Ends that differ; by these prices some lengths go by the host */

static char rules[] = "/tmp/tutti-ends-XXXXXX";

static void differ(struct ranks_me *me)
{
    static const struct {
        size_t sent, received;
    } differences[] = { { 4000, 4001 }, { 4096, 1000 }, { 1000, 4096 }, { 9000, 3000 } };
    for (int k = 0; k < 4; k++) {
        struct local_desk d;
        char options[80], words[80];
        snprintf(options, sizeof options, ";rules=%s", rules);
        ranks_at(me, "difference %d", k);
        if (!local_prepare(me, &d) || (d.comm = led_join(me, options, LED_LONG_MS)) == NULL)
            return;
        local_poison(&d);
        for (int i = 0; i < 3; i++) { /* numbers are not those of the first messages */
            ranks_ok(me, pass(&d, 0, 2, i == 1 ? 4000 : 10), "to rank 2");
            ranks_ok(me, pass(&d, 0, 1, i == 2 ? 4000 : 10), "to rank 1");
        }
        local_settle(&d);
        if (me->rank == 1)
            local_fine(&d, d.dev->fill(d.areas[GOT], 0xa5, AREA, d.stream));
        pass(&d, 0, 1, me->rank == 0 ? differences[k].sent : differences[k].received);
        ends_await(d.comm);
        local_drains(&d);
        snprintf(
            words, sizeof words, "found by rank 1|rank 0 sent a message of %zu bytes", differences[k].sent);
        ranks_same_error(me, d.comm, TUTTI_MISMATCH, words);
        bool fetches = differences[k].received > 2500; /* else its stream takes what is in its cells */
        ranks_expect(me, me->rank != 1 || !fetches || local_is_poisoned(&d), "bytes came");
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_fetch_ends, ends_that_differ)
{
    plugin_must_be_stub();
    static const char dear[] = "cost staged_byte 1\ncost cells_byte 1000\n"; /* GB/s: from 2.5 KB on */
    int file = mkstemp(rules);
    cr_assert_eq(write(file, dear, sizeof dear - 1), (ssize_t)sizeof dear - 1);
    led_run({ "queues=8", N, 0, differ, NULL, 0 });
    close(file);
    unlink(rules);
}

/* --- The end that never calls is named, when the deadline has passed; another message of the group is over,
 * or waits. */

static void stay_away(struct ranks_me *me)
{
    for (int k = 0; k < 4; k++) {
        struct local_desk d;
        bool sends = k % 2 != 0, grouped = k > 1;
        ranks_at(me, "rank 1 never %s, %s", sends ? "receives" : "sends", grouped ? "grouped" : "alone");
        if (!led_sit_down(me, &d, 1000))
            return;
        local_poison(&d);
        int64_t since = tt_now_ns();
        if (me->rank == 0 && grouped)
            tutti_group_start();
        if (grouped)
            pass(&d, 2, 0, 0); /* of nothing */
        if (grouped)
            pass(&d, 0, 2, COUNT);
        if (me->rank == 0)
            pass(&d, sends ? 0 : 1, sends ? 1 : 0, COUNT);
        if (me->rank == 0 && grouped)
            tutti_group_end();
        ends_await(d.comm);
        drains_soon(&d, since);
        tutti_error error = ranks_same_error(me, d.comm, TUTTI_TIMEOUT, "found by rank 0|waiting for rank 1");
        ranks_expect(me, error.peer == 1, "the peer is %d", error.peer);
        ranks_expect(me, me->rank == 2 || local_is_poisoned(&d), "bytes came");
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_fetch_ends, an_end_that_never_calls)
{
    plugin_must_be_stub();
    led_run({ "queues=8", N, 0, stay_away, NULL, 0 }, { "queues=1", N, 0, stay_away, NULL, 0 });
}

/* --- What both have called has no deadline as long as their own streams are held up. */

static void take_time(struct ranks_me *me)
{
    struct local_desk d;
    void *memory = NULL;
    if (!led_sit_down(me, &d, 1000) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    uint32_t *word = memory;
    *word = 0;
    ranks_meet(me);
    local_fine(&d, d.dev->wait_word(d.stream, word, 1));
    ranks_ok(me, pass(&d, 0, 1, COUNT), "a message");
    ranks_sleep_us(600000);
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_meet(me);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    local_settle(&d);
    ranks_ok(me, tutti_comm_state(d.comm), "state");
    ranks_part(me, d.comm);
}

Test(api_device_fetch_ends, streams_that_are_held_up)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, take_time, NULL, 0 });
}

/* --- The end while a kernel is out: a circle, of which each rank sends and receives */

static void call_circle(const struct local_desk *d, size_t count)
{
    int n = d->me->n, rank = d->me->rank;
    tutti_group_start();
    tutti_send(d->areas[GIVEN], count, TUTTI_UINT8, (rank + 1) % n, d->comm, local_on(d));
    tutti_recv(d->areas[GOT], count, TUTTI_UINT8, (rank + n - 1) % n, d->comm, local_on(d));
    tutti_group_end();
}

static void abort_held(struct ranks_me *me)
{
    for (int round = 0; round < me->n; round++) {
        struct local_desk d;
        ranks_at(me, "round %d", round);
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        const struct tt_led *receives = pair_of(&d, (me->rank + me->n - 1) % me->n, true);
        local_poison(&d);
        int64_t since = tt_now_ns();
        call_circle(&d, COUNT);
        if (me->rank == round % me->n) {
            for (int ms = 0; ms < 2000 && atomic_load(&receives->rows[1]->turn) % 2 == 0; ms++)
                ranks_sleep_us(1000);
            ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
        }
        drains_soon(&d, since);
        memset(d.stub->look(d.areas[GOT]), 0xa5, COUNT);
        ranks_sleep_us(300000);
        local_is_poisoned(&d);
        ranks_same_error(me, d.comm, TUTTI_ABORTED, "abort");
        ranks_expect(me, atomic_load(&receives->rows[1]->turn) == TT_LED_CANCELLED, "the turn is %llu",
            (unsigned long long)atomic_load(&receives->rows[1]->turn));
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_fetch_ends, abort_while_a_kernel_is_held_up)
{
    plugin_must_be_stub();
    led_run({ "queues=8,launch_delay=250000", N, 0, abort_held, NULL, 0 },
        { "queues=1,launch_delay=250000", 2, 0, abort_held, NULL, 0 });
}

/* A sender has given up, and its memory is its own: its receiver's kernel stays where it is. */
static void come_after(struct ranks_me *me)
{
    struct local_desk d;
    uint64_t open = 2;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    local_poison(&d);
    if (me->rank == 0)
        ranks_expect(me,
            atomic_compare_exchange_strong(&pair_of(&d, 1, false)->rows[1]->turn, &open, TT_LED_CANCELLED),
            "another turn");
    ranks_meet(me);
    pass(&d, 0, 1, COUNT);
    ranks_sleep_us(100000);
    ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY, "the kernel was let go");
    ranks_meet(me);
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
    local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_ABORTED, "rank 0");
    local_is_poisoned(&d);
    ranks_meet(me);
    led_get_up(&d);
}

Test(api_device_fetch_ends, no_kernel_after_a_sender_has_left)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, come_after, NULL, 0 });
}

/* --- Processes that die at any moment */

static void call_until_a_death(struct ranks_me *me)
{
    const struct ends_death *death = me->context;
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    led_shorten_messages(d.comm);
    ends_die_soon(me, death);
    for (int i = 0; tutti_comm_state(d.comm) == TUTTI_OK; i++) {
        call_circle(&d, death->count);
        if (i % 4 == 3) /* kernels take their time here */
            local_fine(&d, d.dev->stream.sync(d.stream));
    }
    int64_t since = tt_now_ns();
    drains_soon(&d, since);
    memset(d.stub->look(d.areas[GOT]), 0xa5, COUNT);
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d: %s", tutti_comm_state(d.comm),
        tutti_get_last_error(d.comm));
    ranks_sleep_us(30000);
    local_is_poisoned(&d);
    led_get_up(&d);
}

static void kill_at_drawn_moments(int n, int times)
{
    uint64_t random = 3;
    plugin_must_be_stub();
    for (int i = 0; i < times; i++) {
        struct ends_death death = { i % n, ranks_below(&random, i % 2 ? 6000 : 900),
            ranks_below(&random, 2) ? COUNT : 3 * LED_PART + 9 };
        led_run({ i % 3 ? "queues=8,delay=20" : "queues=1", n, 0, call_until_a_death, &death,
            1U << death.victim });
    }
}

Test(api_device_fetch_ends, kills_at_drawn_moments)
{
    kill_at_drawn_moments(2, 6);
    kill_at_drawn_moments(3, 9);
}

/* --- Graphs */

/* The communicator has failed, or has gone, at all ranks, or at one first: replays end, and store nothing. */
static void replay_to_the_end(struct ranks_me *me)
{
    for (int first = -1; first < me->n; first++)
        for (int fails = 0; fails < 2; fails++) {
            struct local_desk d;
            void *graph = NULL, *runnable = NULL;
            ranks_at(me, "%s, rank %d first", fails ? "aborted" : "destroyed", first);
            if (!led_sit_down(me, &d, LED_LONG_MS))
                return;
            ranks_meet(me);
            local_fine(&d, d.dev->graph.capture_begin(d.stream));
            call_circle(&d, COUNT);
            local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
            local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
            local_fine(&d, d.dev->graph.destroy(graph));
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
            local_settle(&d);
            bool ends = me->rank == first || first < 0;
            int64_t since = tt_now_ns();
            if (!ends)
                local_fine(&d, d.dev->graph.launch(runnable, d.stream));
            if (fails && ends)
                ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
            if (!fails && ends)
                ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
            drains_soon(&d, since);
            ranks_meet(me);
            for (int gone = 0; gone < 2; gone++) {
                memset(d.stub->look(d.areas[GOT]), 0xa5, COUNT);
                for (int i = 0; i < 3; i++)
                    local_fine(&d, d.dev->graph.launch(runnable, d.stream));
                local_drains(&d);
                if (gone == 0 && (fails || !ends))
                    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
            }
            local_is_poisoned(&d);
            local_fine(&d, d.dev->graph.runnable_destroy(runnable));
            ranks_meet(me);
        }
}

Test(api_device_fetch_ends, replays_after_the_end)
{
    plugin_must_be_stub();
    led_run(
        { "queues=8", 2, 0, replay_to_the_end, NULL, 0 }, { "queues=1", 3, 0, replay_to_the_end, NULL, 0 });
}

/* --- Functions of the device that fail */

static void enqueue_fails(struct ranks_me *me)
{
    static const char *const functions[] = { "launch", "wait_word", "write_word", "copy", "event_record" };
    for (int k = 0; k < 10; k++) {
        struct local_desk d;
        const char *function = functions[k / 2];
        ranks_at(me, "%s fails at rank %d", function, k % 2);
        if (k / 2 == 0 && k % 2 == 0)
            continue; /* the sender launches nothing */
        if (!led_sit_down(me, &d, LED_LONG_MS))
            return;
        ranks_ok(me, pass(&d, 0, 1, COUNT), "a message");
        local_settle(&d);
        if (me->rank == k % 2)
            d.stub->fail(function, 1, TT_DEV_UNSUPPORTED);
        ranks_meet(me);
        int64_t since = tt_now_ns();
        pass(&d, 0, 1, COUNT);
        drains_soon(&d, since);
        ends_await(d.comm);
        ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, function);
        ranks_meet(me);
        led_get_up(&d);
    }
}

/* A receiver that cannot serve: its messages go by the host, and those that it sends do not. */
static void connect_without(struct ranks_me *me)
{
    static const char *const functions[] = { "pin", "preload", "launch" };
    for (int k = 0; k < 3; k++) {
        struct local_desk d;
        ranks_at(me, "%s fails", functions[k]);
        if (!local_prepare(me, &d))
            return;
        if (me->rank == 1)
            d.stub->fail(functions[k], k == 2 ? 1 : 2, TT_DEV_UNSUPPORTED);
        ranks_meet(me);
        if ((d.comm = led_join(me, ";executor=led", LED_LONG_MS)) == NULL)
            return;
        uint64_t before = d.stub->calls("launch");
        uint32_t given = 17 + (uint32_t)me->rank, got = 0;
        local_give(&d, GIVEN, &given, sizeof given);
        call_circle(&d, sizeof given);
        memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(me, got == 17 + (uint32_t)(me->rank + me->n - 1) % (uint32_t)me->n, "%u came", got);
        bool launched = d.stub->calls("launch") > before;
        ranks_expect(me, launched == (me->rank != 1), "it has launched %d", launched);
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_fetch_ends, functions_that_fail)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, enqueue_fails, NULL, 0 }, { "queues=8", N, 0, connect_without, NULL, 0 });
}

/* The receiver's device gives up while its kernel is awaited. */
static void break_device(struct ranks_me *me)
{
    struct local_desk d;
    void *event;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    const struct tt_led *pair = pair_of(&d, 1 - me->rank, me->rank == 1);
    ranks_meet(me);
    int64_t since = tt_now_ns();
    pass(&d, 0, 1, COUNT);
    for (int ms = 0; ms < 2000 && atomic_load(&pair->rows[1]->turn) % 2 == 0; ms++)
        ranks_sleep_us(1000);
    if (me->rank == 1) {
        d.stub->fail("event_create", 1, TT_DEV_BROKEN);
        d.dev->event.create(false, &event);
    }
    ends_await(d.comm);
    if (me->rank == 0)
        drains_soon(&d, since);
    ranks_same_error(me, d.comm, TUTTI_DEVICE_ERROR, "rank 1|device 0");
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

Test(api_device_fetch_ends, a_device_that_fails_meanwhile)
{
    plugin_must_be_stub();
    led_run({ "queues=8,launch_delay=1000000", 2, 0, break_device, NULL, 0 });
}
