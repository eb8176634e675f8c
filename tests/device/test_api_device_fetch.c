/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_fetch.c: messages between processes on one device, which the receiver's kernel fetches:
 * that it does, wherever the bytes are at both ends and however long they are, in graphs as well; and which
 * messages go by the host all the same. In whatever order ranks call: test_api_device_local_p2p.c. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/handle.h"
#include "device/device_led.h"
#include "led_rig.h"

TestSuite(api_device_fetch, .timeout = 120);

static uint8_t value(int from, int step, size_t i)
{
    return (uint8_t)((size_t)from * 131 + (size_t)step * 31 + i * 7 + i / 251);
}

static void fill(uint8_t *bytes, int from, int step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = value(from, step, i);
}

static bool is_of(const struct local_desk *d, const uint8_t *got, int from, int step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!ranks_expect(d->me, got[i] == value(from, step, i), "byte %zu of %zu is %u, not %u", i, count,
                got[i], value(from, step, i)))
            return false;
    return true;
}

static bool send_to(const struct local_desk *d, const void *from, size_t bytes, int to)
{
    return ranks_ok(d->me, tutti_send(from, bytes, TUTTI_UINT8, to, d->comm, local_on(d)), "send");
}

static bool recv_from(const struct local_desk *d, void *to, size_t bytes, int from)
{
    return ranks_ok(d->me, tutti_recv(to, bytes, TUTTI_UINT8, from, d->comm, local_on(d)), "recv");
}

/* --- Wherever the bytes are */

enum { HOST, PINNED, DEVICE, MANAGED, KINDS };

struct buffers {
    uint8_t *of[KINDS];
    uint8_t ordinary[AREA];
};

static bool allocate(const struct local_desk *d, struct buffers *b)
{
    void *managed = NULL, *pinned = NULL;
    bool good = local_fine(d, d->dev->memory.alloc_managed(AREA, &managed)) &&
                local_fine(d, d->dev->memory.alloc_pinned(AREA, &pinned));
    b->of[HOST] = b->ordinary;
    b->of[PINNED] = pinned;
    b->of[DEVICE] = d->areas[GIVEN];
    b->of[MANAGED] = managed;
    return good;
}

/* What the stream leaves there, and finds. */
static void put(
    const struct local_desk *d, const struct buffers *b, int kind, const uint8_t *bytes, size_t count)
{
    if (kind == DEVICE)
        local_give(d, GIVEN, bytes, count);
    else
        memcpy(b->of[kind], bytes, count);
}

static const uint8_t *look(const struct local_desk *d, const struct buffers *b, int kind, size_t count)
{
    if (kind == DEVICE)
        return local_take(d, GIVEN, count);
    local_fine(d, d->dev->stream.sync(d->stream));
    return b->of[kind];
}

/* The lengths cut slices, and groups of those. */
static void go_everywhere(struct ranks_me *me)
{
    static const size_t counts[] = { 1, 77, LED_PART, LED_PART + 1, 3 * LED_PART - 1, AREA - 3 };
    static struct buffers b;
    static uint8_t given[AREA];
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS) || !allocate(&d, &b))
        return;
    led_shorten_messages(d.comm);
    for (int step = 0; step < KINDS * KINDS * 6; step++) {
        size_t count = counts[step / (KINDS * KINDS)];
        int from = step / KINDS % KINDS, to = step % KINDS, sender = step % me->n,
            receiver = (step + 1) % me->n;
        uint64_t before = d.stub->calls("launch");
        ranks_at(me, "%zu bytes, from %d to %d", count, from, to);
        fill(given, sender, step, count);
        if (me->rank == sender)
            put(&d, &b, from, given, count);
        ranks_delay(me, 300);
        if (me->rank == sender)
            send_to(&d, b.of[from], count, receiver);
        if (me->rank == receiver) {
            recv_from(&d, b.of[to], count, sender);
            is_of(&d, look(&d, &b, to, count), sender, step, count);
        }
        local_settle(&d);
        bool launched = d.stub->calls("launch") > before;
        ranks_expect(me, launched == (me->rank == receiver), "it has launched %d", launched);
        ranks_meet(me);
    }
    ranks_part(me, d.comm);
}

Test(api_device_fetch, wherever_the_bytes_are)
{
    plugin_must_be_stub();
    led_run({ "queues=8,delay=20", 2, 0, go_everywhere, NULL, 0 },
        { "queues=1", 3, 0, go_everywhere, NULL, 0 }, { "queues=2,fds=0", 2, 0, go_everywhere, NULL, 0 });
}

/* --- The operand is made just before each message, and its result taken just after, by the streams. */

static void chain(struct ranks_me *me)
{
    enum { CHAIN = 100, BYTES = LED_PART + 100 };
    struct local_desk d;
    void *made = NULL, *taken = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS) ||
        !local_fine(&d, d.dev->memory.alloc_pinned(CHAIN * BYTES, &made)) ||
        !local_fine(&d, d.dev->memory.alloc_pinned(CHAIN * BYTES, &taken)))
        return;
    led_shorten_messages(d.comm);
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    for (int k = 0; k < CHAIN; k++) {
        uint8_t *given = (uint8_t *)made + k * BYTES;
        size_t count = k % 3 == 0 ? BYTES : 50;
        fill(given, me->rank, k, count);
        if (k % me->n == me->rank)
            ranks_delay(me, 300);
        local_fine(&d, d.dev->copy(d.areas[GIVEN], given, count, d.stream));
        tutti_group_start();
        send_to(&d, d.areas[GIVEN], count, next);
        recv_from(&d, d.areas[GOT], count, last);
        ranks_ok(me, tutti_group_end(), "group_end");
        local_fine(&d, d.dev->copy((uint8_t *)taken + k * BYTES, d.areas[GOT], count, d.stream));
    }
    local_settle(&d);
    for (int k = 0; k < CHAIN; k++)
        if (!is_of(&d, (uint8_t *)taken + k * BYTES, last, k, k % 3 == 0 ? BYTES : 50))
            break;
    ranks_part(me, d.comm);
}

Test(api_device_fetch, every_result_is_of_its_own_operand)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, chain, NULL, 0 }, { "queues=1,delay=50", 3, 0, chain, NULL, 0 },
        { "queues=2,launch_delay=300", 4, 0, chain, NULL, 0 });
}

/* --- Where they lie */

static void send_in_place(struct ranks_me *me)
{
    enum { TRIES = 400, BYTES = 5000 };
    struct local_desk d;
    void *given = NULL;
    tutti_registration *registered;
    uint64_t copies = 1;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    ranks_ok(me, tutti_mem_alloc(BYTES, TUTTI_MEM_CUDA, &given), "mem_alloc");
    ranks_ok(me, tutti_mem_register(d.comm, d.areas[GIVEN], BYTES, &registered), "mem_register");
    for (int i = 0; i < TRIES; i++) {
        void *from = i < TRIES / 2 ? given : (void *)d.areas[GIVEN];
        bool sends = me->rank == i % 2;
        uint64_t before = d.stub->calls("copy");
        if (sends)
            send_to(&d, from, BYTES, 1 - me->rank);
        else
            recv_from(&d, d.areas[GOT], BYTES, 1 - me->rank);
        if (sends)
            copies = d.stub->calls("copy") - before;
        bool last = i % (TRIES / 2) >= TRIES / 2 - 2;
        ranks_expect(
            me, !sends || !last || copies == 0, "%d copies of what was handed over, try %d", (int)copies, i);
        local_settle(&d);
    }
    ranks_ok(me, tutti_mem_deregister(d.comm, registered), "mem_deregister");
    send_to(&d, d.areas[GIVEN], 0, 1 - me->rank);
    recv_from(&d, d.areas[GOT], 0, 1 - me->rank);
    local_settle(&d);
    ranks_part(me, d.comm);
    ranks_ok(me, tutti_mem_free(given), "mem_free");
}

Test(api_device_fetch, what_was_handed_over_is_not_copied)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, send_in_place, NULL, 0 });
}

/* The receiver may not unmap it before the message is over, and does then. */
static void keep(struct ranks_me *me)
{
    enum { SHORT_MS = 50, ENOUGH_MS = 10000 };
    struct local_desk d;
    struct tt_dev_pointer what;
    tutti_registration *registered;
    void *memory = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    uint32_t *word = memory;
    *word = 0;
    ranks_ok(me, tutti_mem_register(d.comm, d.areas[GIVEN], AREA, &registered), "mem_register");
    ranks_ok(me, tutti_mem_register(d.comm, d.areas[2], AREA, &registered), "mem_register");
    local_fine(&d, d.dev->memory.classify(d.areas[GIVEN], &what));
    ranks_meet(me);
    if (me->rank == 0) {
        struct tt_exporter *exporter = tt_comm_find(d.comm)->device->exporters[1];
        send_to(&d, d.areas[GIVEN], AREA, 1);
        ranks_expect(me, !tt_exporter_remove(exporter, what.base, what.id, SHORT_MS),
            "the receiver has unmapped what it is to fetch");
        ranks_meet(me);
        local_fine(&d, d.dev->stream.sync(d.stream));
        local_fine(&d, d.dev->memory.classify(d.areas[2], &what));
        send_to(&d, d.areas[2], AREA, 1);
        local_fine(&d, d.dev->stream.sync(d.stream));
        ranks_expect(me, tt_exporter_remove(exporter, what.base, what.id, ENOUGH_MS), "it is still mapped");
    } else {
        local_fine(&d, d.dev->wait_word(d.stream, word, 1));
        recv_from(&d, d.areas[GOT], AREA, 0);
        ranks_meet(me);
        __atomic_store_n(word, 1, __ATOMIC_RELEASE);
        recv_from(&d, d.areas[GOT], AREA, 0);
        local_fine(&d, d.dev->stream.sync(d.stream));
    }
    ranks_meet(me);
    ranks_part(me, d.comm);
}

Test(api_device_fetch, a_message_keeps_memory_mapped)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, keep, NULL, 0 });
}

/* --- By prices: short ones go by the host, long ones do not, in one group as well */

static char rules[] = "/tmp/tutti-fetch-XXXXXX";
enum { SHORT = 1000, LONG = 20000 };

static void mix_lengths(struct ranks_me *me)
{
    enum { STEPS = 24, EACH = 3 };
    struct local_desk d;
    char options[80];
    static uint8_t given[AREA];
    snprintf(options, sizeof options, ";rules=%s", rules);
    if (!local_prepare(me, &d) || (d.comm = led_join(me, options, LED_LONG_MS)) == NULL)
        return;
    for (int step = 0; step < STEPS && me->world->slots[me->rank].failures == 0; step++) {
        uint64_t before = d.stub->calls("launch"), fetched = 0;
        size_t at = 0;
        fill(given, me->rank, step, AREA);
        local_give(&d, GIVEN, given, AREA);
        ranks_at(me, "step %d", step);
        ranks_meet(me);
        ranks_delay(me, 300);
        tutti_group_start();
        for (int k = 0; k < EACH; k++) { /* of each peer its own part, which comes to the same place */
            size_t count = (step >> k & 1) != 0 ? LONG : SHORT;
            for (int peer = 0; peer < me->n; peer++) {
                if (peer == me->rank)
                    continue;
                fetched += count == LONG;
                send_to(&d, d.areas[GIVEN] + at + peer, count, peer);
                recv_from(&d, d.areas[GOT + peer] + at, count, peer);
            }
            at += count;
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        local_settle(&d);
        uint64_t launched = d.stub->calls("launch") - before;
        ranks_expect(me, launched == fetched, "%d kernels for %d messages", (int)launched, (int)fetched);
        for (int peer = 0; peer < me->n; peer++) {
            const uint8_t *got = d.stub->look(d.areas[GOT + peer]);
            for (size_t i = 0; i < at && peer != me->rank; i++)
                if (!ranks_expect(me, got[i] == value(peer, step, i + (size_t)me->rank),
                        "byte %zu of rank %d is %u", i, peer, got[i]))
                    return;
        }
        ranks_meet(me);
    }
    ranks_part(me, d.comm);
}

/* Costs in GB/s, and in ns: from 2.5 KB on, by cells, and by pads. */
Test(api_device_fetch, by_prices)
{
    static const char *const dear[] = { "cost staged_byte 1\ncost cells_byte 1000\n",
        "cost staged_byte 1\ncost cells_byte 1\ncost pads_call 16000\n" };
    plugin_must_be_stub();
    for (int k = 0; k < 2; k++) {
        char name[] = "/tmp/tutti-fetch-XXXXXX";
        int file = mkstemp(name);
        ssize_t bytes = (ssize_t)strlen(dear[k]);
        cr_assert_eq(write(file, dear[k], (size_t)bytes), bytes);
        memcpy(rules, name, sizeof rules);
        led_run(
            { "queues=8", 2, 0, mix_lengths, NULL, 0 }, { "queues=1,delay=20", 3, 0, mix_lengths, NULL, 0 });
        close(file);
        unlink(name);
    }
}

/* --- Processes of several ranks go by the host, and others among themselves do not. */

static void send_in_a_ring(struct ranks_me *me)
{
    struct local_desk d;
    uint8_t given[100];
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    fill(given, me->rank, 0, sizeof given);
    local_give(&d, GIVEN, given, sizeof given);
    uint64_t before = d.stub->calls("launch");
    ranks_meet(me);
    tutti_group_start();
    send_to(&d, d.areas[GIVEN], sizeof given, next);
    recv_from(&d, d.areas[GOT], sizeof given, last);
    ranks_ok(me, tutti_group_end(), "group_end");
    is_of(&d, local_take(&d, GOT, sizeof given), last, 0, sizeof given);
    ranks_meet(me);
    ranks_expect(me, d.stub->calls("launch") == before, "a kernel was launched");
    ranks_part(me, d.comm);
}

Test(api_device_fetch, processes_of_several_ranks)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 4, 2, send_in_a_ring, NULL, 0 }, { "queues=8", 3, 2, send_in_a_ring, NULL, 0 });
}

/* --- Graphs: of both ends, or of one; and calls that are not captured between the replays */

static void replay(struct ranks_me *me)
{
    enum { REPLAYS = 12, BYTES = 2 * LED_PART + 100 };
    const int *which = me->context; /* bits: the ranks that capture */
    struct local_desk d;
    static uint8_t given[BYTES];
    void *graph = NULL, *runnable = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    led_shorten_messages(d.comm);
    bool captures = (*which >> me->rank & 1) != 0;
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    for (int i = -1; i < REPLAYS; i++) {
        bool begins = i < 0, replays = captures && !begins;
        ranks_at(me, "replay %d", i);
        fill(given, me->rank, i, BYTES);
        if (begins && !captures)
            continue;
        if (!begins)
            local_give(&d, GIVEN, given, BYTES);
        if (begins)
            local_fine(&d, d.dev->graph.capture_begin(d.stream));
        if (replays) {
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        } else {
            tutti_group_start();
            for (size_t at = 0; at < BYTES; at += BYTES / 2) { /* two messages, of which one is one slice */
                send_to(&d, d.areas[GIVEN] + at, BYTES / 2, next);
                recv_from(&d, d.areas[GOT] + at, BYTES / 2, last);
            }
            ranks_ok(me, tutti_group_end(), "group_end");
        }
        if (begins) {
            local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
            local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
            continue;
        }
        if (!is_of(&d, local_take(&d, GOT, BYTES), last, i, BYTES))
            break;
        tutti_all_reduce(d.areas[2], d.areas[3], 100, TUTTI_UINT32, TUTTI_SUM, d.comm, local_on(&d));
    }
    local_settle(&d);
    if (captures) {
        local_fine(&d, d.dev->graph.runnable_destroy(runnable));
        local_fine(&d, d.dev->graph.destroy(graph));
    }
    ranks_part(me, d.comm);
}

Test(api_device_fetch, graphs)
{
    plugin_must_be_stub();
    static const int all = 7, one = 2;
    led_run({ "queues=8,delay=20", 2, 0, replay, &all, 0 }, { "queues=1", 3, 0, replay, &all, 0 },
        { "queues=8", 3, 0, replay, &one, 0 });
}

/* --- Two communicators, whose messages are in one group */

static void cross(struct ranks_me *me)
{
    enum { BYTES = 3 * LED_PART };
    struct local_desk d;
    static uint8_t given[BYTES];
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    tutti_comm *comms[2] = { d.comm, led_join(me, ";executor=led", LED_LONG_MS) };
    for (int c = 0; c < 2; c++)
        led_shorten_messages(comms[c]);
    for (int step = 0; step < 20; step++) {
        ranks_at(me, "step %d", step);
        fill(given, me->rank, step, BYTES);
        local_give(&d, GIVEN, given, BYTES);
        tutti_group_start();
        for (int k = 0; k < 2; k++) {
            int c = (k + me->rank) % 2, peer = (me->rank + 1 + c) % me->n, from = (me->rank + 2 - c) % me->n;
            d.comm = comms[c];
            send_to(&d, d.areas[GIVEN], c ? BYTES : 40, peer);
            recv_from(&d, d.areas[GOT + c], c ? BYTES : 40, from);
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        is_of(&d, local_take(&d, GOT, 40), (me->rank + 2) % me->n, step, 40);
        is_of(&d, local_take(&d, GOT + 1, BYTES), (me->rank + 1) % me->n, step, BYTES);
        ranks_meet(me);
    }
    for (int c = 0; c < 2; c++)
        ranks_part(me, comms[c]);
}

Test(api_device_fetch, two_communicators_in_a_group)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 3, 0, cross, NULL, 0 }, { "queues=1,delay=20", 3, 0, cross, NULL, 0 });
}
