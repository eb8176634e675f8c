/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_alone.c: a rank with a device that ends a communicator for itself: its stream goes on, its
 * memory is its own when that has passed, and the others go on until they need it, whoever serves calls:
 * the host, a kernel for ranks of one process, or a leader's. What becomes of a kernel that is out is asked
 * by test_api_device_led_held.c, and of kernels of several devices by test_api_device_spin_ends.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/handle.h"
#include "device/device.h"
#include "ends_rig.h"
#include "led_rig.h"
#include "tests/rig/aborter.h"

TestSuite(api_device_alone, .timeout = 240);

enum { N = 4, COUNT = 1024, BYTES = 4096, TO = 2, FROM = 3, POISON = 0xa5 };

static const struct way { /* how calls are served, and where ranks are */
    const char *by, *options;
    int per_process;
} ways[] = { { "H", ";executor=host", 1 }, { "H", ";executor=host", N }, { "L", "", N },
    { "W", ";executor=led", 1 }, { "W", ";executor=led", 2 } };
enum { WAYS = sizeof ways / sizeof ways[0] };

static void run_all(ranks_fn run)
{
    plugin_must_be_stub();
    for (int w = 0; w < WAYS; w++)
        led_run({ "queues=8,delay=20", N, ways[w].per_process, run, &ways[w], 0 });
}

static bool sit_down(struct ranks_me *me, struct local_desk *d)
{
    const struct way *way = me->context;
    int32_t one = 1;
    if (!local_prepare(me, d) || (d->comm = led_join(me, way->options, LED_LONG_MS)) == NULL)
        return false;
    const char *by = tt_device_executor(tt_comm_find(d->comm));
    local_give(d, GIVEN, &one, sizeof one);
    return ranks_expect(me, strcmp(by, way->by) == 0, "calls go by %s", by);
}

static tutti_status sum_on(const struct local_desk *d, tutti_comm *comm)
{
    return tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], COUNT, TUTTI_INT32, TUTTI_SUM, comm, local_on(d));
}

static tutti_status sum(const struct local_desk *d)
{
    return sum_on(d, d->comm);
}

/* Each rank sends to the next one; the one that is `out` takes no part. */
static tutti_status pass_around(const struct local_desk *d, int out)
{
    int n = d->me->n, next = (d->me->rank + 1) % n, last = (d->me->rank + n - 1) % n;
    next = next == out ? (next + 1) % n : next;
    last = last == out ? (last + n - 1) % n : last;
    tutti_group_start();
    tutti_send(d->areas[TO], BYTES, TUTTI_UINT8, next, d->comm, local_on(d));
    tutti_recv(d->areas[FROM], BYTES, TUTTI_UINT8, last, d->comm, local_on(d));
    return tutti_group_end();
}

static void pass_numbers(const struct local_desk *d, int out)
{
    int n = d->me->n, last = (d->me->rank + n - 1) % n;
    last = last == out ? (last + n - 1) % n : last;
    local_fine(d, d->dev->fill(d->areas[TO], (uint8_t)d->me->rank, BYTES, d->stream));
    ranks_ok(d->me, pass_around(d, out), "messages");
    const uint8_t *got = local_take(d, FROM, BYTES);
    ranks_expect(d->me, got[0] == last && got[BYTES - 1] == last, "the message is %d", got[0]);
}

/* The memory is this rank's own: what it puts there stays. */
static void keep(const struct local_desk *d)
{
    memset(d->stub->look(d->areas[GOT]), POISON, BYTES);
}

static void await(struct ranks_me *me, const _Atomic int *place, int value)
{
    for (int ms = 0; ms < 60000 && *place != value; ms++)
        ranks_sleep_us(1000);
    ranks_expect(me, *place == value, "it is %d, not %d", *place, value);
}

/* --- The others go on */

/* A call waits for the others, who make none. */
static void leave_alone(const struct local_desk *d)
{
    char words[40];
    struct aborter a = { .me = d->me, .comm = d->comm, .delay_us = 20000 };
    snprintf(words, sizeof words, "aborted by rank %d", d->me->rank);
    aborter_begin(&a);
    tutti_status status = sum(d);
    ranks_expect(d->me, status == TUTTI_OK || status == TUTTI_ABORTED, "status %d", status);
    aborter_end(&a);
    local_drains(d);
    ranks_refused(d->me, tutti_comm_state(d->comm), TUTTI_ABORTED, "state", words);
    ranks_refused(d->me, sum(d), TUTTI_ABORTED, "all_reduce", words);
    keep(d);
}

/* They pass messages, and make a communicator of their own; what needs the rank that has left fails. */
static void go_on(const struct local_desk *d, int out, _Atomic int *through)
{
    struct ranks_me *me = d->me;
    tutti_comm *rest = NULL;
    char words[40];
    pass_numbers(d, out);
    ranks_ok(me, tutti_comm_state(d->comm), "state");
    if (ranks_ok(me, tutti_comm_shrink(d->comm, &out, 1, 0, NULL, &rest), "shrink")) {
        ranks_ok(me, sum_on(d, rest), "all_reduce of the rest");
        int32_t got = *(const int32_t *)(const void *)local_take(d, GOT, sizeof got);
        ranks_expect(me, got == N - 1, "the sum is %d", got);
        ranks_part(me, rest);
    }
    pass_numbers(d, out);
    ++*through;
    await(me, through, N - 1); /* whoever needs it first ends it for all that are left */
    snprintf(words, sizeof words, "rank %d aborted its end", out);
    sum(d);
    ends_await(d->comm);
    ranks_refused(me, tutti_comm_state(d->comm), TUTTI_PEER_LOST, "state", words);
    local_drains(d);
}

static void others_go_on(struct ranks_me *me)
{
    _Atomic int *gone = me->shared, *through = gone + 2;
    for (int k = 0; k < 2; k++) {
        int who = k * (N - 1); /* the one that leads, if one does, and another one */
        struct local_desk d;
        ranks_at(me, "rank %d leaves", who);
        if (!sit_down(me, &d))
            return;
        ranks_ok(me, sum(&d), "all_reduce");
        local_settle(&d);
        if (me->rank == who) {
            leave_alone(&d);
            gone[k] = 1;
        } else {
            pass_numbers(&d, who);
            await(me, &gone[k], 1);
            go_on(&d, who, &through[k]);
        }
        ranks_meet(me);
        if (me->rank == who)
            local_is_poisoned(&d);
        led_get_up(&d);
    }
}

Test(api_device_alone, others_go_on)
{
    run_all(others_go_on);
}

/* --- In the midst of calls */

static void in_the_midst(struct ranks_me *me)
{
    for (int who = 0; who < N; who++) {
        struct local_desk d;
        struct aborter a = { .me = me, .delay_us = ranks_below(&me->random, 5000) };
        const struct way *way = me->context;
        bool leaves = me->rank == who, messages = (who + way - ways) % 2 != 0;
        ranks_at(me, "rank %d leaves, of %s", who, messages ? "messages" : "sums");
        if (!sit_down(me, &d))
            return;
        a.comm = d.comm;
        ranks_meet(me);
        if (leaves)
            aborter_begin(&a);
        for (int i = 0; tutti_comm_state(d.comm) == TUTTI_OK; i++) {
            if (messages)
                pass_around(&d, TT_NONE);
            else
                sum(&d);
            if (i % 4 == 3)
                local_fine(&d, d.dev->stream.sync(d.stream));
        }
        local_drains(&d);
        if (leaves) {
            aborter_end(&a);
            keep(&d);
            memset(d.stub->look(d.areas[FROM]), POISON, BYTES);
        }
        ranks_refused(
            me, tutti_comm_state(d.comm), leaves ? TUTTI_ABORTED : TUTTI_PEER_LOST, "state", "abort");
        ranks_sleep_us(10000);
        ranks_meet(me);
        if (leaves) {
            const uint8_t *from = d.stub->look(d.areas[FROM]);
            local_is_poisoned(&d);
            ranks_expect(me, from[0] == POISON && memcmp(from, from + 1, BYTES - 1) == 0, "a message came");
        }
        led_get_up(&d);
    }
}

Test(api_device_alone, in_the_midst_of_calls)
{
    run_all(in_the_midst);
}
