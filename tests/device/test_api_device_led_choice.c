/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led_choice.c: which collectives of several processes on one device are led if nothing
 * forces it, what tutti_query says of that, and which memory is used where it lies. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/handle.h"
#include "device/device_led.h"
#include "led_rig.h"

TestSuite(api_device_led_choice, .timeout = 120);

enum { COUNT = 2500, TRIES = 400, SOME = 40, SHORT_MS = 50, ENOUGH_MS = 10000 };

static bool sum(const struct local_desk *d, const void *from, void *to)
{
    return ranks_ok(d->me, tutti_all_reduce(from, to, COUNT, TUTTI_UINT32, TUTTI_SUM, d->comm, local_on(d)),
        "all_reduce");
}

static void says(const struct local_desk *d, const char *question, const char *words)
{
    static char answer[16384];
    tutti_query(d->comm, question, answer, sizeof answer);
    ranks_expect(d->me, strstr(answer, words) != NULL, "%s: no \"%s\" in %s", question, words, answer);
}

/* --- By prices */

static char rules[] = "/tmp/tutti-led-XXXXXX";

/* What is told is the price of the way that serves; a group adds up its calls, each on its own stream. */
static void price_of_led(const struct local_desk *d, bool by_default)
{
    double us = local_price(d->me, d->comm, "price all_reduce 10000"), barrier, two;
    double host = 30 + 10000 * 2 * 52.5e-6, cells = 35 + 10000 * 2 * 66.8e-6;
    double expected = by_default ? host : cells;
    ranks_expect(d->me, us > expected - 0.01 && us < expected + 0.01, "%g us, not %g", us, expected);
    barrier = local_price(d->me, d->comm, "price barrier 0"); /* which a leader's kernel does not do */
    ranks_expect(d->me, barrier == (by_default ? 30 : 9000), "a barrier takes %g us", barrier);
    tutti_group_start();
    tutti_all_reduce(d->areas[GIVEN], d->areas[GOT], 2500, TUTTI_UINT32, TUTTI_SUM, d->comm, local_on(d));
    double one = local_price(d->me, NULL, "price group");
    ranks_expect(d->me, one == us, "in a group it takes %g us, alone %g", one, us);
    tutti_send(d->areas[GIVEN], 100, TUTTI_UINT8, !d->me->rank, d->comm, local_on(d));
    two = local_price(d->me, NULL, "price group");
    ranks_expect(d->me, two > one + 29, "with a message it takes %g us, without %g", two, one);
    tutti_group_cancel();
    tutti_group_start();
    tutti_barrier(d->comm, tutti_no_stream());
    two = local_price(d->me, NULL, "price group");
    ranks_expect(d->me, two > 0 && two < barrier, "a barrier of the host takes %g us", two);
    tutti_group_cancel();
}

/* Calls by the host are dear by these costs; then as they are by default, when a call so short goes by it. */
static void choose(struct ranks_me *me)
{
    static const char *const costs[] = { ";rules=", "" };
    for (int by_default = 0; by_default < 2; by_default++) {
        struct local_desk d;
        char options[80];
        snprintf(options, sizeof options, "%s%s", costs[by_default], by_default ? "" : rules);
        if (!local_prepare(me, &d) || (d.comm = led_join(me, options, LED_LONG_MS)) == NULL)
            return;
        uint64_t before = d.stub->calls("launch");
        says(&d, "executor", "W");
        price_of_led(&d, by_default != 0);
        says(&d, "why all_reduce 10000",
            by_default ? "on CUDA streams: H, by the host's memory"
                       : "on CUDA streams: W, a leader's kernel");
        says(&d, "why all_reduce 10000", "not L, one kernel: not all ranks are in one process");
        says(&d, "why barrier 0", "does not do this collective");
        ranks_ok(me, tutti_barrier(d.comm, tutti_no_stream()), "barrier");
        sum(&d, d.areas[GIVEN], d.areas[GOT]);
        local_settle(&d);
        bool led = d.stub->calls("launch") > before;
        says(&d, "recorder", by_default ? ", by the host (H)" : ", by a leader's kernel (W)");
        says(&d, "recorder json", by_default ? "\"executor\": \"H\"" : "\"executor\": \"W\"");
        says(&d, "recorder json", "\"executor\": null"); /* of the barrier */
        ranks_expect(
            me, !led_leads(&d) || led != by_default, "by default %d, it was led: %d", by_default, led);
        ranks_meet(me);
        led_get_up(&d);
    }
}

Test(api_device_led_choice, by_prices)
{
    plugin_must_be_stub();
    static const char dear[] = "cost staged_call 9000000\n";
    int file = mkstemp(rules);
    cr_assert_eq(write(file, dear, sizeof dear - 1), (ssize_t)sizeof dear - 1);
    led_run({ "queues=8", 2, 0, choose, NULL, 0 });
    close(file);
    unlink(rules);
}

/* --- Where it lies */

/* Of how many copies this rank's call is. */
static uint64_t copies_of_call(const struct local_desk *d, const void *from, void *to)
{
    uint64_t before = d->stub->calls("copy");
    sum(d, from, to);
    uint64_t copies = d->stub->calls("copy") - before;
    local_settle(d);
    return copies;
}

/* The leader is asked by the first calls; once it has mapped the memory, a follower copies nothing. */
static void use_given(struct ranks_me *me)
{
    struct local_desk d;
    void *given[2] = { NULL };
    uint64_t copies = 2;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    for (int side = 0; side < 2; side++)
        ranks_ok(me, tutti_mem_alloc(COUNT * 4, TUTTI_MEM_CUDA, &given[side]), "mem_alloc");
    bool follows = !led_leads(&d);
    ranks_expect(me, !follows || copies_of_call(&d, d.areas[GIVEN], d.areas[GOT]) == 2, "no copy is made");
    if (!follows)
        copies_of_call(&d, d.areas[GIVEN], d.areas[GOT]);
    for (int i = 0; i < TRIES; i++) {
        copies = copies_of_call(&d, given[0], given[1]);
        ranks_sleep_us(500);
    }
    ranks_expect(me, !follows || copies == 0, "%d copies of what was handed over", (int)copies);
    ranks_part(me, d.comm);
    for (int side = 0; side < 2; side++)
        ranks_ok(me, tutti_mem_free(given[side]), "mem_free");
}

Test(api_device_led_choice, memory_of_mem_alloc_is_not_copied)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, use_given, NULL, 0 });
}

/* By device_import=all any memory is so, once it was used; what is freed, and allocated anew at the same
 * address, is another one. */
static void use_any(struct ranks_me *me)
{
    struct local_desk d;
    uint64_t copies[2] = { 2, 1 };
    if (!local_prepare(me, &d) ||
        (d.comm = led_join(me, ";executor=led;device_import=all", LED_LONG_MS)) == NULL)
        return;
    bool follows = !led_leads(&d);
    for (int times = 0; times < 3; times++) {
        uint32_t expected = 0, one = (uint32_t)(times * me->n + me->rank), got[COUNT];
        for (int r = 0; r < me->n; r++)
            expected += (uint32_t)(times * me->n + r);
        for (int i = 0; i < SOME; i++) {
            local_give(&d, GIVEN, &one, sizeof one);
            copies[0] = copies_of_call(&d, d.areas[GIVEN], d.areas[GOT]);
            memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
            ranks_expect(me, got[0] == expected, "the sum is %u, not %u", got[0], expected);
            uint64_t before = d.stub->calls("copy");
            if (me->rank == 1)
                tutti_send(d.areas[GIVEN], COUNT, TUTTI_UINT32, 0, d.comm, local_on(&d));
            copies[1] = d.stub->calls("copy") - before;
            if (me->rank == 0)
                tutti_recv(d.areas[GOT], COUNT, TUTTI_UINT32, 1, d.comm, local_on(&d));
            memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
            ranks_expect(me, me->rank != 0 || got[0] == one + 1, "%u came", got[0]);
            ranks_meet(me);
        }
        ranks_expect(me, !follows || copies[0] == 0, "%d copies of a call", (int)copies[0]);
        ranks_expect(me, me->rank != 1 || copies[1] == 0, "%d copies of a message", (int)copies[1]);
        for (int a = 0; a < 2; a++) {
            void *memory = NULL;
            d.dev->memory.free(d.areas[a]); /* which it complains of: as is said of this setting */
            local_fine(&d, d.dev->memory.alloc(AREA, &memory));
            d.areas[a] = memory;
        }
    }
    led_get_up(&d);
}

Test(api_device_led_choice, any_memory_is_not_copied)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, use_any, NULL, 0 });
}

/* What cannot be exported is copied. */
static void use_a_pool(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_prepare(me, &d) ||
        (d.comm = led_join(me, ";executor=led;device_import=all", LED_LONG_MS)) == NULL)
        return;
    for (int i = 0; i < 20; i++) {
        uint64_t copies = copies_of_call(&d, d.areas[GIVEN], d.areas[GOT]);
        ranks_expect(me, led_leads(&d) || copies == 2, "%d copies", (int)copies);
    }
    led_get_up(&d);
}

Test(api_device_led_choice, memory_of_a_pool_is_copied)
{
    plugin_must_be_stub();
    led_run({ "queues=8,exports=0", 2, 0, use_a_pool, NULL, 0 });
}

/* The leader may not unmap it while the graph lives, and does when that has gone. */
static void keep(struct ranks_me *me)
{
    struct local_desk d;
    struct tt_dev_pointer what;
    tutti_registration *registered;
    void *graph = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    ranks_ok(me, tutti_mem_register(d.comm, d.areas[GIVEN], COUNT * 4, &registered), "mem_register");
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    sum(&d, d.areas[GIVEN], d.areas[GOT]);
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->memory.classify(d.areas[GIVEN], &what));
    struct tt_exporter *exporter = tt_comm_find(d.comm)->device->exporters[0];
    ranks_expect(me, exporter == NULL || !tt_exporter_remove(exporter, what.base, what.id, SHORT_MS),
        "the leader has unmapped what a graph uses");
    local_fine(&d, d.dev->graph.destroy(graph));
    sum(&d, d.areas[GOT], d.areas[GOT + 1]); /* the next call finds that the graph has gone */
    local_settle(&d);
    ranks_part(me, d.comm);
}

/* What calls have used is let go as soon as they are over, at both ends. */
static void let_go(struct ranks_me *me)
{
    struct local_desk d;
    struct tt_dev_pointer what;
    tutti_registration *registered;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    ranks_ok(me, tutti_mem_register(d.comm, d.areas[GIVEN], COUNT * 4, &registered), "mem_register");
    for (int i = 0; i < 3; i++)
        sum(&d, d.areas[GIVEN], d.areas[GOT]);
    local_settle(&d);
    local_fine(&d, d.dev->memory.classify(d.areas[GIVEN], &what));
    struct tt_exporter *exporter = tt_comm_find(d.comm)->device->exporters[0];
    ranks_expect(me, exporter == NULL || tt_exporter_remove(exporter, what.base, what.id, ENOUGH_MS),
        "the leader keeps what no call uses");
    ranks_meet(me); /* until then there is a leader */
    ranks_part(me, d.comm);
}

Test(api_device_led_choice, memory_is_let_go_when_calls_are_over)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, let_go, NULL, 0 });
}

Test(api_device_led_choice, a_graph_keeps_memory_mapped)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, keep, NULL, 0 });
}

/* --- Ranks whose settings differ: rank 0's are everybody's */

static void differ(struct ranks_me *me)
{
    static const char *const way[] = { "W", "H" };
    for (int round = 0; round < 2; round++) {
        struct local_desk d;
        const bool as_first = (me->rank == 0) == (round == 0);
        char options[128];
        if (!local_prepare(me, &d))
            return;
        snprintf(options, sizeof options, "slice=8192;device=0;executor=%s;device_pad=%s;device_import=%s",
            as_first ? "led" : "host", as_first ? "64K" : "1M", as_first ? "given" : "all");
        tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = LED_LONG_MS };
        if ((d.comm = ranks_join(me, &config)) == NULL)
            return;
        says(&d, "executor", way[round]);
        local_give(&d, GIVEN, (uint32_t[COUNT]){ [COUNT - 1] = 1 + (uint32_t)me->rank }, COUNT * 4);
        sum(&d, d.areas[GIVEN], d.areas[GOT]);
        const uint32_t *got = (const uint32_t *)(const void *)local_take(&d, GOT, COUNT * 4);
        ranks_expect(
            me, got[0] == 0 && got[COUNT - 1] == 6, "round %d: the sum is %u", round, got[COUNT - 1]);
        ranks_part(me, d.comm);
    }
}

Test(api_device_led_choice, settings_are_those_of_rank_0)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 3, 0, differ, NULL, 0 });
}
