/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_thread.c: the transport by TCP: what the endpoint's thread does beside a caller that drives. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/rig/patience.h"
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

/* It is needed now: a nap does not go on. */
static void wake_a_napper(struct shm_rank *r)
{
    enum { TIMES = 100, LONG_NS = 1200000, PAUSE_NS = 20000000 };
    struct tcp_endpoint *e = (struct tcp_endpoint *)join(r);
    int late = 0;
    for (int i = 0; i < TIMES; i++) {
        int64_t until = tt_now_ns() + PAUSE_NS / 4;
        while (tt_now_ns() < until)
            tt_tcp_drive(e, 1 - r->me, false);
        int64_t began = tt_now_ns();
        tt_tcp_wake(e);
        while (atomic_load(&e->woken))
            tt_nap_ns(1000);
        late += tt_now_ns() - began > LONG_NS;
    }
    suite_expect(&r->suite, late < TIMES / 4, "the thread came late %d times of %d", late, TIMES);
    shm_meet(r);
    tt_tcp.close(&e->head);
}

Test(tcp_thread, who_needs_it_ends_its_nap)
{
    shm_stage_run(shm_stage_new(RANKS), wake_a_napper, -1);
}

/* --- Slots */

/* Fills all slots of messages to the other rank, and waits until each is written. */
static uint64_t fill_slots(struct tcp_endpoint *e, uint64_t number)
{
    struct tt_link *link = e->head.links[1 - e->head.me];
    for (int i = 0; i < TT_SLOTS; i++, number++)
        while (!link->ops->post(link, number, 7, "eight b", 8))
            continue;
    for (int i = 0; i < TT_SLOTS; i++)
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
    for (int i = 0; i < TT_SLOTS; i++, number++) {
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
        uint64_t next = fill_slots(e, number + TT_SLOTS);
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
