/* SPDX-License-Identifier: BSD-3-Clause */
/* test_wait_yield.c: ranks that share a core do not spin.
 *
 * A wait tells who is on its core by how long a yield took. How long one takes is the machine's affair, and
 * on a loaded one every yield lets other programs run, so a count of polls says nothing there. This file
 * therefore takes the place of sched_yield, for the whole suite: it makes a yield as long as a test wants, or
 * looks at what a real one did. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"

enum { US = 1000, SPINS = 2000, ROUNDS = 20, TRIES = 10 };

/* It never comes to sleeping, however long it is kept from the core. */
static const struct tt_wait_policy policy = { .spins = SPINS, .yield_us = UINT32_MAX };

static _Thread_local struct {
    int64_t pretend_ns; /* a yield takes so long and does nothing else; 0: it is a real one */
    _Atomic uint32_t *watched;
    uint32_t yields;
    bool other_ran; /* in the last yield, and nobody else for long */
} mine;

int sched_yield(void)
{
    int64_t began = tt_now_ns();
    uint32_t before = mine.watched != NULL ? atomic_load(mine.watched) : 0;
    mine.yields++;
    if (mine.pretend_ns == 0)
        syscall(SYS_sched_yield);
    while (tt_now_ns() - began < mine.pretend_ns)
        continue;
    mine.other_ran =
        mine.watched != NULL && atomic_load(mine.watched) != before && tt_now_ns() - began < 100 * US;
    return 0;
}

static uint32_t polls_until_it_yields(struct tt_wait *w)
{
    uint32_t polls = 0;
    for (uint32_t before = mine.yields; mine.yields == before; polls++)
        tt_wait_idle(w);
    return polls - 1;
}

static uint32_t spins_after_a_yield_of(int64_t ns)
{
    struct tt_doorbell bell = { 0 }, *bells[] = { &bell };
    struct tt_wait w;
    mine.pretend_ns = ns;
    tt_wait_begin(&w, policy, bells, 1);
    polls_until_it_yields(&w);
    tt_wait_awake(&w);
    uint32_t spins = polls_until_it_yields(&w);
    mine.pretend_ns = 0;
    return spins;
}

/* Whether it spins after a yield of this length, or does not, ever: load makes some yields longer. Where a
 * pause of the processor takes long, a clock ends the spin before it has been counted to the end. */
static bool comes_to_spin(int64_t ns, bool spins)
{
    for (int i = 0; i < 50; i++)
        if ((spins_after_a_yield_of(ns) > 0) == spins)
            return true;
    return false;
}

Test(wait_yield, a_yield_tells_whether_to_spin)
{
    cr_expect(comes_to_spin(1, true), "nobody else was there");
    cr_expect(comes_to_spin(10 * US, false), "another rank ran");
    cr_expect(comes_to_spin(50 * US, false), "some other ranks ran");
    cr_expect_gt(spins_after_a_yield_of(1000 * US), 0, "a program ran that does not give way");
    cr_expect(comes_to_spin(10 * US, false), "another rank ran, again");
    cr_expect(comes_to_spin(1, true), "it has gone");
}

/* Two threads hand a number to and fro. */
struct pair {
    _Alignas(64) _Atomic uint32_t number[2];
    _Atomic uint32_t judged, spun; /* rounds after a yield in which the other ran; those in which it spun */
};

static void await(struct pair *p, struct tt_wait *w, _Atomic uint32_t *number, uint32_t wanted)
{
    bool judged = mine.other_ran;
    uint32_t yields = mine.yields, spins = 0;
    while (atomic_load_explicit(number, memory_order_acquire) != wanted) {
        tt_wait_idle(w);
        spins += mine.yields == yields;
    }
    tt_wait_awake(w);
    p->judged += judged;
    p->spun += judged && spins > 0;
}

static void play(struct pair *p, int side)
{
    struct tt_doorbell bell = { 0 }, *bells[] = { &bell };
    struct tt_wait w;
    mine.watched = &p->number[side];
    tt_wait_begin(&w, policy, bells, 1);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (side == 0)
            atomic_store_explicit(&p->number[1], i, memory_order_release);
        await(p, &w, &p->number[side], i);
        if (side == 1)
            atomic_store_explicit(&p->number[0], i, memory_order_release);
    }
    mine.watched = NULL;
}

static void *play_other(void *pair)
{
    play(pair, 1);
    return NULL;
}

static void stay_on_one_core(void)
{
    cpu_set_t cores, one;
    int core = 0;
    sched_getaffinity(0, sizeof cores, &cores);
    while (!CPU_ISSET(core, &cores))
        core++;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);
}

/* That the lengths above are those of real yields. Where other programs load the core, few rounds or none are
 * left to judge; there the test above has to do. */
Test(wait_yield, ranks_that_find_themselves_on_one_core_do_not_spin)
{
    struct pair p = { 0 };
    stay_on_one_core();
    for (int try = 0; try < TRIES && p.judged < ROUNDS; try++) {
        pthread_t other;
        p.number[0] = p.number[1] = 0;
        cr_assert_eq(pthread_create(&other, NULL, play_other, &p), 0);
        play(&p, 0);
        pthread_join(other, NULL);
    }
    /* One in ten may have been kept from the core right after its yield. */
    cr_expect_leq(p.spun, 1 + p.judged / 10, "%u of %u rounds spun", p.spun, p.judged);
}
