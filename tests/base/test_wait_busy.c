/* SPDX-License-Identifier: BSD-3-Clause */
/* test_wait_busy.c: a wake-up that comes late is not lost: who rings may lose its core between its data and
 * its ring, and where many programs share that core, gets it back when all of them have had their turns. And
 * a lock that is busy. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"
#include "tests/rig/patience.h"

static void limit_time(void)
{
    alarm(patience_seconds(60));
}

TestSuite(wait_busy, .init = limit_time);

enum { OTHERS = 48, YIELDS = 3 };

struct core { /* that all threads of the test share */
    struct tt_doorbell bell;
    _Alignas(64) _Atomic uint32_t number;
    _Atomic bool over;
};

static void *compute(void *core)
{
    const struct core *c = core;
    while (!atomic_load_explicit(&c->over, memory_order_relaxed))
        continue;
    return NULL;
}

/* It gives its core up in the worst moment, and the sleeper looks at its next tick. */
static void *ring_when_it_has_its_turn(void *core)
{
    struct core *c = core;
    while (atomic_load(&c->bell.sleeping) == 0)
        tt_sleep_ms(1);
    tt_sleep_ms(2 * TT_TICK_MS - TT_TICK_MS / 10);
    atomic_store_explicit(&c->number, 1, memory_order_release);
    for (int i = 0; i < YIELDS; i++)
        sched_yield();
    tt_doorbell_ring(&c->bell);
    return NULL;
}

static void share_one_core(void)
{
    cpu_set_t cores;
    CPU_ZERO(&cores);
    CPU_SET(sched_getcpu(), &cores);
    sched_setaffinity(0, sizeof cores, &cores);
}

Test(wait_busy, a_ringer_without_a_core_has_not_forgotten)
{
    struct core c = { .number = 0 };
    struct tt_doorbell *bell = &c.bell;
    pthread_t ringer, others[OTHERS];
    struct tt_wait w;
    share_one_core();
    for (int i = 0; i < OTHERS; i++)
        cr_assert_eq(pthread_create(&others[i], NULL, compute, &c), 0);
    cr_assert_eq(pthread_create(&ringer, NULL, ring_when_it_has_its_turn, &c), 0);
    tt_wait_begin(&w, (struct tt_wait_policy){ 0 }, &bell, 1);
    while (atomic_load_explicit(&c.number, memory_order_acquire) == 0)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    atomic_store(&c.over, true);
    pthread_join(ringer, NULL);
    for (int i = 0; i < OTHERS; i++)
        pthread_join(others[i], NULL);
    cr_expect_eq(tt_wait_lost(), 0);
}

/* --- Locks */

struct held {
    pthread_mutex_t lock;
    _Atomic bool holds, lets_go;
};

static void *hold(void *held)
{
    struct held *h = held;
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->holds, true);
    while (!atomic_load(&h->lets_go))
        tt_sleep_ms(1);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* A lock that somebody has for long is given up; one that is given back meanwhile is taken. */
Test(wait, a_lock_is_awaited_for_so_long)
{
    struct held h = { .lock = PTHREAD_MUTEX_INITIALIZER };
    pthread_t holder;
    cr_assert_eq(pthread_create(&holder, NULL, hold, &h), 0);
    while (!atomic_load(&h.holds))
        tt_sleep_ms(1);
    int64_t began = tt_now_ns();
    cr_expect_not(tt_lock_within(&h.lock, 3 * 10 * INT64_C(1000000)));
    cr_expect_geq(tt_now_ns() - began, 10 * INT64_C(1000000));
    atomic_store(&h.lets_go, true);
    cr_expect(tt_lock_within(&h.lock, 60 * INT64_C(1000000000)));
    pthread_mutex_unlock(&h.lock);
    cr_expect_lt(tt_now_ns() - began, 30 * INT64_C(1000000000));
    pthread_join(holder, NULL);
}
