/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_thread.c: the transport by TCP: what the endpoint's thread does beside a caller that drives. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "tests/rig/patience.h"
#include "link.h"
#include "shm_ranks.h"
#include "transports/tcp.h"

enum { RANKS = 2 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_thread, .init = limit_time);

static struct tt_endpoint *join(struct shm_rank *r)
{
    r->suite.transport = &tt_tcp;
    return shm_join(r);
}

/* How often the other threads of this process have gone to sleep. */
static long sleeps_of_others(void)
{
    char path[300], line[200];
    long sleeps = 0, found;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *d; (d = readdir(tasks)) != NULL;) {
        if (d->d_name[0] == '.' || atoi(d->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", d->d_name);
        FILE *status = fopen(path, "r");
        while (status != NULL && fgets(line, sizeof line, status) != NULL)
            if (sscanf(line, "voluntary_ctxt_switches: %ld", &found) == 1)
                sleeps += found;
        if (status != NULL)
            fclose(status);
    }
    closedir(tasks);
    return sleeps;
}

/* Each nap of the thread that ends takes the caller's core for a moment, or its peer's. */
static void drive_long(struct shm_rank *r)
{
    enum { DRIVE_MS = 400, NAP_US = 1600, LOOKS = 2 };
    struct tt_endpoint *e = join(r);
    long before = sleeps_of_others();
    int64_t began = tt_now_ns(), until = began + DRIVE_MS * INT64_C(1000000);
    while (tt_now_ns() < until)
        tt_tcp_drive((struct tcp_endpoint *)e, 1 - r->me, false);
    long sleeps = sleeps_of_others() - before, ms = (tt_now_ns() - began) / 1000000;
    suite_expect(
        &r->suite, sleeps < LOOKS * ms * 1000 / NAP_US, "the thread slept %ld times in %ld ms", sleeps, ms);
    shm_meet(r);
    tt_tcp.close(e);
}

Test(tcp_thread, naps_get_long_while_the_caller_drives)
{
    shm_stage_run(shm_stage_new(RANKS), drive_long, -1);
}

/* A caller that drives and wants what only the thread does has it soon, though that naps: for 5 ms in an
 * endpoint of so many ranks. */
Test(tcp_thread, who_needs_it_ends_its_nap)
{
    enum { MANY = 64, DRIVE_MS = 6, CALLS = 60, SOON_NS = 1000000 };
    struct tt_endpoint_params params = { .n = MANY, .slot_bytes = SUITE_SLOT_BYTES };
    uint8_t *addresses = calloc(MANY, TT_ADDRESS_BYTES);
    struct tcp_address address;
    struct tt_endpoint *head;
    int soon = 0;
    cr_assert_eq(tt_tcp.open(&params, addresses, &head), TUTTI_OK, "%s", tt_last_error());
    memcpy(&address, addresses, sizeof address);
    for (; address.rank < MANY; address.rank++)
        memcpy(addresses + (size_t)address.rank * TT_ADDRESS_BYTES, &address, sizeof address);
    cr_assert_eq(tt_tcp.connect(head, addresses), TUTTI_OK, "%s", tt_last_error());
    struct tcp_endpoint *e = (struct tcp_endpoint *)head;
    for (int i = 0; i < CALLS; i++) {
        int64_t until = tt_now_ns() + DRIVE_MS * INT64_C(1000000);
        while (tt_now_ns() < until)
            tt_tcp_drive(e, 1, false);
        int64_t called = tt_now_ns();
        tt_tcp_wake(e);
        while (atomic_load(&e->woken))
            tt_nap_ns(1000);
        soon += tt_now_ns() - called < SOON_NS;
    }
    cr_expect_gt(soon, CALLS * 2 / 5, "%d of %d calls were heard soon", soon, CALLS);
    tt_tcp.close(head);
    free(addresses);
}

/* --- Slots */

static bool send_long(struct tcp_endpoint *e, uint64_t number, const uint8_t *from, uint64_t bytes)
{
    struct tt_layout layout;
    tt_layout_even(&layout, bytes, 1, 1, 1);
    struct tt_message m = { .number = number,
        .bytes = bytes,
        .source = { .layout = &layout, .nchunks = 1, .space = { .base = (uintptr_t)from } } };
    return link_send(e->head.links[1 - e->head.me], &m);
}

/* Fills all slots of messages to the other rank, and waits until each is written. */
static uint64_t fill_slots(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    for (int i = 0; i < TCP_SLOTS; i++, number++)
        while (!link->ops->post(link, number, 7, "eight b", 8))
            continue;
    for (int i = 0; i < TCP_SLOTS; i++)
        while (atomic_load(&tt_tcp_link_of(e, 0, link->peer)->out[i].state) != TCP_DONE)
            tt_tcp_drive(e, link->peer, true);
    return number;
}

static bool post_one(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    return link->ops->post(link, number, 7, "eight b", 8);
}

static void take_all(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    const void *payload;
    for (int i = 0; i < TCP_SLOTS; i++, number++) {
        while (link->ops->peek(link, number, 7, 8, &payload) != TT_PEEK_THERE)
            continue;
        link->ops->release(link, number);
    }
}

static void lack_slots(struct shm_rank *r)
{
    enum { LONG_MS = 2 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    const struct tcp_peer *p = &e->peers[1 - r->me];
    uint64_t number = r->stage->params.first_number;
    if (r->me == 0) {
        uint64_t next = fill_slots(e, number);
        suite_expect(&r->suite, !post_one(e, next), "a slot more");
        suite_expect(&r->suite, atomic_load(&p->slots.want) == TCP_ENOUGH, "it asks at once");
        tt_sleep_ms(LONG_MS);
        suite_expect(&r->suite, !post_one(e, next), "a slot that nobody released");
        suite_expect(&r->suite, atomic_load(&p->slots.want) != TCP_ENOUGH, "it does not ask");
    }
    shm_meet(r);
    if (r->me == 1) {
        take_all(e, number);
    } else {
        uint64_t next = fill_slots(e, number + TCP_SLOTS);
        atomic_fetch_add(&e->head.doorbell->sleeping, 1);
        suite_expect(&r->suite, !post_one(e, next), "a slot more");
        suite_expect(&r->suite, atomic_load(&p->slots.want) != TCP_ENOUGH, "who is about to sleep asks");
        atomic_fetch_sub(&e->head.doorbell->sleeping, 1);
    }
    shm_meet(r);
    tt_tcp.close(&e->head);
}

/* Only who lacks a slot for long asks for it, or who is about to sleep: a peer that is at work tells of its
 * releases by itself. */
Test(tcp_thread, who_lacks_a_slot_asks_after_a_while)
{
    shm_stage_run(shm_stage_new(RANKS), lack_slots, -1);
}

/* Takes a message, and says whether each of its bytes is this one. */
static bool take_bytes(struct tcp_endpoint *e, uint64_t number, uint8_t byte)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    struct tt_arrival a;
    while (!link_arrived(link, number, NULL, &a))
        continue;
    const uint8_t *payload = (const uint8_t *)a.base;
    bool right = true;
    for (uint64_t i = 0; i < a.bytes; i++)
        right = right && payload[i] == byte;
    link_release(link, number);
    return right;
}

/* Long messages have room for eight, and few bytes have room beside them. Half of the rooms is told of as
 * released, though most slots are not. */
static void send_long_and_short(struct shm_rank *r)
{
    enum { LONG = TCP_COPY_BYTES + 8, MORE = 5, TOLD = TCP_ROOMS / 2 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    uint64_t first = r->stage->params.first_number, next = first;
    uint8_t *from = malloc((TCP_ROOMS + TOLD) * LONG);
    for (int i = 0; i < TCP_ROOMS + TOLD; i++)
        memset(from + i * LONG, 1 + i, LONG);
    for (; r->me == 0 && next < first + TCP_ROOMS; next++)
        suite_expect(&r->suite, send_long(e, next, from + (next - first) * LONG, LONG), "no room");
    if (r->me == 0) {
        for (int i = 0; i < 1000; i++)
            suite_expect(&r->suite, !send_long(e, next, from, LONG), "one room more");
        for (int i = 0; i < MORE; i++)
            suite_expect(&r->suite, post_one(e, next + TOLD + (uint64_t)i), "no slot for few bytes");
    }
    shm_meet(r);
    for (uint64_t i = 0; r->me == 1 && i < TOLD; i++)
        suite_expect(&r->suite, take_bytes(e, first + i, (uint8_t)(1 + i)), "message %d is odd", (int)i);
    shm_meet(r);
    int64_t until = tt_deadline_ns(1000 * (int64_t)patience_seconds(20));
    for (uint64_t i = 0; r->me == 0 && i < TOLD; i++)
        while (!send_long(e, next + i, from + (TCP_ROOMS + i) * LONG, LONG) && tt_now_ns() < until)
            continue;
    for (uint64_t i = TOLD; r->me == 1 && i < TCP_ROOMS + TOLD; i++)
        suite_expect(&r->suite, take_bytes(e, first + i, (uint8_t)(1 + i)), "message %d is odd", (int)i);
    shm_meet(r);
    tt_tcp.close(&e->head);
    free(from);
}

Test(tcp_thread, few_bytes_have_room_beside_long_messages)
{
    shm_stage_run(shm_stage_new(RANKS), send_long_and_short, -1);
}

/* --- A caller that sleeps in poll */

static const struct tt_wait_policy at_once = { .spins = 0, .yield_us = 0 };

static void begin_sleepy(struct tt_wait *w, struct tcp_endpoint *e)
{
    tt_wait_begin(w, at_once, &e->head.doorbell, 1);
    tt_wait_park_by(w, e->head.park, e);
}

/* Takes a message of eight bytes, sleeping until it comes. Returns how long that took. */
static int64_t take_asleep(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    int64_t began = tt_now_ns();
    const void *payload;
    struct tt_wait w;
    begin_sleepy(&w, e);
    while (link->ops->peek(link, number, 7, 8, &payload) != TT_PEEK_THERE)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    link->ops->release(link, number);
    return tt_now_ns() - began;
}

static void post_asleep(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_wait w;
    begin_sleepy(&w, e);
    while (!post_one(e, number))
        tt_wait_idle(&w);
    tt_wait_awake(&w);
}

/* The first message comes on a connection that its sender makes, which only the thread can take. */
static void play_asleep(struct shm_rank *r)
{
    enum { ROUNDS = 3000, SLOW_NS = 50000000 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    uint64_t number = r->stage->params.first_number;
    int slow = 0;
    for (int i = 0; i < ROUNDS; i++, number++) {
        if (r->me == 0)
            post_asleep(e, number);
        slow += take_asleep(e, number) > SLOW_NS;
        if (r->me == 1)
            post_asleep(e, number);
    }
    suite_expect(&r->suite, slow < ROUNDS / 100, "%d of %d messages came late", slow, ROUNDS);
    suite_expect(&r->suite, tt_wait_lost() == 0, "%d wake-ups were lost", (int)tt_wait_lost());
    shm_meet(r);
    tt_tcp.close(&e->head);
}

Test(tcp_thread, who_sleeps_in_poll_misses_nothing)
{
    shm_stage_run(shm_stage_new(RANKS), play_asleep, -1);
}

/* The thread is not woken by what the caller reads by itself. */
static void sleep_long(struct shm_rank *r)
{
    enum { MESSAGES = 400, APART_US = 1000, NAP_MS = 3 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    uint64_t number = r->stage->params.first_number;
    int64_t began = 0;
    long before = 0;
    for (int i = 0; i < MESSAGES; i++, number++) {
        if (i == MESSAGES / 4) {
            before = sleeps_of_others();
            began = tt_now_ns();
        }
        if (r->me == 1) {
            tt_nap_ns(APART_US * 1000);
            post_asleep(e, number);
        } else {
            take_asleep(e, number);
        }
    }
    long sleeps = sleeps_of_others() - before, ms = (tt_now_ns() - began) / 1000000;
    suite_expect(&r->suite, r->me == 1 || sleeps < MESSAGES / 4 + ms / NAP_MS,
        "the thread slept %ld times in %ld ms", sleeps, ms);
    shm_meet(r);
    tt_tcp.close(&e->head);
}

Test(tcp_thread, who_sleeps_in_poll_reads_by_itself)
{
    shm_stage_run(shm_stage_new(RANKS), sleep_long, -1);
}

struct ringer {
    struct tt_doorbell *bell;
    _Atomic int rings, wanted;
};

static void *ring_when_wanted(void *ringer)
{
    enum { RINGS = 300, APART_NS = 300000 };
    struct ringer *r = ringer;
    for (int i = 0; i < RINGS; i++) {
        while (atomic_load(&r->wanted) == i)
            tt_nap_ns(i % 3 * APART_NS + 1000);
        atomic_fetch_add(&r->rings, 1);
        tt_doorbell_ring(r->bell);
    }
    return NULL;
}

/* What another thread of this process has for a sleeper in poll, as the end of a communicator. */
static void be_rung(struct shm_rank *r)
{
    enum { RINGS = 300, SLOW_NS = 50000000 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    struct ringer ringer = { .bell = e->head.doorbell };
    pthread_t thread;
    int slow = 0;
    pthread_create(&thread, NULL, ring_when_wanted, &ringer);
    for (int i = 1; i <= RINGS; i++) {
        int64_t began = tt_now_ns();
        struct tt_wait w;
        begin_sleepy(&w, e);
        atomic_store(&ringer.wanted, i);
        while (atomic_load(&ringer.rings) < i)
            tt_wait_idle(&w);
        tt_wait_awake(&w);
        slow += tt_now_ns() - began > SLOW_NS;
    }
    pthread_join(thread, NULL);
    suite_expect(&r->suite, slow < RINGS / 20, "%d of %d rings came late", slow, RINGS);
    suite_expect(&r->suite, tt_wait_lost() == 0, "%d wake-ups were lost", (int)tt_wait_lost());
    suite_expect(&r->suite, atomic_load(&e->head.doorbell->polled) == 0, "it still sleeps");
    shm_meet(r);
    tt_tcp.close(&e->head);
}

Test(tcp_thread, a_ring_wakes_who_sleeps_in_poll)
{
    shm_stage_run(shm_stage_new(RANKS), be_rung, -1);
}
