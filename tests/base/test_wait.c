/* SPDX-License-Identifier: BSD-3-Clause */
/* test_wait.c: waiting and waking: the code under stress. The protocol by itself is in test_wait_model.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/wait.h"
#include "tests/rig/patience.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(wait, .init = limit_time);

static const struct tt_wait_policy at_once = { .spins = 0, .yield_us = 0 };

struct pair { /* two threads that hand a number to and fro */
    struct tt_doorbell bell[2];
    _Alignas(64) _Atomic uint32_t number[2];
    _Alignas(64) uint32_t rounds;
    struct tt_wait_policy policy;
    int extra_bells;
    bool light; /* who rings does not fence */
};

static void ring(struct tt_doorbell *bell, bool light)
{
    if (light)
        tt_doorbell_ring_light(bell, true);
    else
        tt_doorbell_ring(bell);
}

static void await(struct tt_wait *w, _Atomic uint32_t *number, uint32_t wanted)
{
    while (atomic_load_explicit(number, memory_order_acquire) != wanted)
        tt_wait_idle(w);
    tt_wait_awake(w);
}

static void play(struct pair *p, int side)
{
    struct tt_doorbell quiet[4] = { 0 }, *bells[] = { &quiet[0], &p->bell[side], &quiet[1] };
    struct tt_wait w;
    tt_wait_begin(&w, p->policy, bells + 1 - p->extra_bells, 1 + 2 * p->extra_bells);
    for (uint32_t i = 1; i <= p->rounds; i++) {
        if (side == 0)
            atomic_store_explicit(&p->number[1], i, memory_order_release);
        if (side == 0)
            ring(&p->bell[1], p->light);
        await(&w, &p->number[side], i);
        if (side == 1)
            atomic_store_explicit(&p->number[0], i, memory_order_release);
        if (side == 1)
            ring(&p->bell[0], p->light);
    }
}

static void *play_other(void *pair)
{
    play(pair, 1);
    return NULL;
}

static int64_t run_pair(struct pair *p)
{
    pthread_t other;
    int64_t began = tt_now_ns();
    cr_assert_eq(pthread_create(&other, NULL, play_other, p), 0);
    play(p, 0);
    pthread_join(other, NULL);
    return tt_now_ns() - began;
}

Test(wait, no_wake_up_is_lost)
{
    struct pair p = { .rounds = 60000, .policy = at_once };
    run_pair(&p);
    cr_expect_eq(tt_wait_lost(), 0);
}

Test(wait, no_wake_up_is_lost_on_many_bells)
{
    struct pair p = { .rounds = 10000, .policy = at_once, .extra_bells = 1 };
    run_pair(&p);
    cr_expect_eq(tt_wait_lost(), 0);
}

Test(wait, no_wake_up_is_lost_where_the_sleeper_fences_for_both)
{
    struct pair p = { .rounds = 20000, .policy = at_once, .light = tt_fence_register() };
    run_pair(&p);
    cr_expect_eq(tt_wait_lost(), 0);
}

Test(wait, no_wake_up_is_lost_after_spins_and_yields)
{
    struct pair p = { .rounds = 10000, .policy = { .spins = 3, .yield_us = 2 } };
    run_pair(&p);
    cr_expect_eq(tt_wait_lost(), 0);
}

/* Both sides start each round together and then dawdle by chance, so that the ringer's look at `sleeping`
 * falls again and again into the moment when the sleeper says so: without either fence one is lost soon. */
struct duel {
    struct tt_doorbell bell;
    _Alignas(64) _Atomic uint32_t ready[2];
    _Alignas(64) _Atomic uint32_t number;
    uint32_t rounds;
    bool light;
};

static void meet_and_dawdle(struct duel *d, int side, uint32_t round, uint32_t *seed)
{
    atomic_store_explicit(&d->ready[side], round, memory_order_release);
    while (atomic_load_explicit(&d->ready[1 - side], memory_order_acquire) < round)
        sched_yield();
    *seed = *seed * 1664525 + 1013904223;
    for (volatile uint32_t i = *seed >> 24; i > 0; i--)
        continue;
}

static void *ring_by_chance(void *duel)
{
    struct duel *d = duel;
    uint32_t seed = 7;
    for (uint32_t i = 1; i <= d->rounds; i++) {
        meet_and_dawdle(d, 1, i, &seed);
        atomic_store_explicit(&d->number, i, memory_order_release);
        ring(&d->bell, d->light);
    }
    return NULL;
}

static void race(struct duel *d)
{
    struct tt_doorbell *bell = &d->bell;
    struct tt_wait w;
    pthread_t ringer;
    uint32_t seed = 1;
    cr_assert_eq(pthread_create(&ringer, NULL, ring_by_chance, d), 0);
    tt_wait_begin(&w, at_once, &bell, 1);
    for (uint32_t i = 1; i <= d->rounds && tt_wait_lost() == 0; i++) {
        meet_and_dawdle(d, 0, i, &seed);
        await(&w, &d->number, i);
    }
    cr_expect_eq(tt_wait_lost(), 0);
    if (tt_wait_lost() == 0)
        pthread_join(ringer, NULL);
}

Test(wait, no_wake_up_is_lost_in_a_race)
{
    static struct duel d = { .rounds = 50000 }; /* outlives a failure: the ringer goes on */
    race(&d);
}

/* Where membarrier is not to be had, both sides fence. */
Test(wait, no_wake_up_is_lost_in_a_race_where_the_sleeper_fences_for_both)
{
    static struct duel d = { .rounds = 50000 };
    d.light = tt_fence_register();
    race(&d);
}

/* Several that sleep on one bell, each for a number of its own: who wakes early leaves the others asleep. */
enum { SLEEPERS = 3 };
struct dormitory {
    struct tt_doorbell bell;
    _Alignas(64) _Atomic uint32_t ready;
    _Atomic uint32_t number[SLEEPERS];
    uint32_t rounds;
};
struct bed {
    struct dormitory *room;
    int place;
};

static void *sleep_here(void *argument)
{
    const struct bed *bed = argument;
    struct dormitory *d = bed->room;
    struct tt_doorbell *bell = &d->bell;
    struct tt_wait w;
    tt_wait_begin(&w, at_once, &bell, 1);
    for (uint32_t i = 1; i <= d->rounds; i++) {
        await(&w, &d->number[bed->place], i);
        atomic_fetch_add(&d->ready, 1);
    }
    return NULL;
}

Test(wait, several_sleep_on_one_bell)
{
    static struct dormitory d = { .rounds = 3000 };
    struct bed beds[SLEEPERS];
    pthread_t threads[SLEEPERS];
    uint32_t seed = 3;
    for (int i = 0; i < SLEEPERS; i++) {
        beds[i] = (struct bed){ &d, i };
        cr_assert_eq(pthread_create(&threads[i], NULL, sleep_here, &beds[i]), 0);
    }
    for (uint32_t i = 1; i <= d.rounds; i++) {
        for (int k = 0; k < SLEEPERS; k++) {
            seed = seed * 1664525 + 1013904223;
            for (volatile uint32_t dawdle = seed >> 18; dawdle > 0; dawdle--)
                continue;
            atomic_store_explicit(&d.number[(i + (uint32_t)k) % SLEEPERS], i, memory_order_release);
            tt_doorbell_ring(&d.bell);
        }
        while (atomic_load(&d.ready) < i * SLEEPERS)
            sched_yield();
    }
    for (int i = 0; i < SLEEPERS; i++)
        pthread_join(threads[i], NULL);
    cr_expect_eq(tt_wait_lost(), 0);
    cr_expect_eq(atomic_load(&d.bell.sleeping), 0);
}

static int64_t sleep_5_ms(void)
{
    struct tt_doorbell bell = { 0 }, *bells[] = { &bell };
    struct tt_wait w;
    int64_t began = tt_now_ns(), until = began + 5 * 1000000;
    tt_wait_begin(&w, at_once, bells, 1);
    tt_wait_until(&w, until);
    int sleeps = 0;
    for (; tt_now_ns() < until; sleeps++)
        tt_wait_idle(&w);
    tt_wait_awake(&w);
    cr_expect(sleeps < 20, "%d sleeps in 5 ms", sleeps);
    cr_expect_eq(tt_wait_lost(), 0);
    return tt_now_ns() - began;
}

/* A wait with an end sleeps no longer than that, and gives up in silence. Other programs may keep it from the
 * core as long as to the next tick, but not each time. */
Test(wait, a_sleep_ends_at_its_time)
{
    int tries = 1;
    while (sleep_5_ms() >= 90 * 1000000 && tries < 20)
        tries++;
    cr_expect_lt(tries, 20, "it slept to the next tick");
}

static void come_to_sleep(struct tt_wait *w, struct tt_doorbell *const *bells)
{
    tt_wait_begin(w, at_once, bells, 1);
    while (!tt_wait_is_asleep(w))
        tt_wait_idle(w);
}

/* Who comes to sleep tells who watches, once; and nobody, if the watch is over. */
Test(wait, who_comes_to_sleep_tells_its_watcher_once)
{
    struct tt_doorbell bell = { 0 }, *bells[] = { &bell };
    struct tt_wait w;
    eventfd_t told;
    int event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int watched = 0; watched < 2; watched++) {
        tt_doorbell_watch(&bell, event);
        cr_expect(tt_doorbell_is_watched(&bell));
        if (!watched)
            tt_doorbell_watch(&bell, -1);
        come_to_sleep(&w, bells);
        tt_wait_awake(&w);
        come_to_sleep(&w, bells);
        tt_wait_awake(&w);
        cr_expect_not(tt_doorbell_is_watched(&bell));
        cr_expect_eq(eventfd_read(event, &told), watched ? 0 : -1);
        cr_expect(!watched || told == 1, "it was told %d times", (int)told);
    }
    close(event);
}

/* So long after the other has come to sleeping. */
static void write_late(struct pair *p, int ms)
{
    while (atomic_load(&p->bell[0].sleeping) == 0)
        tt_sleep_ms(1);
    tt_sleep_ms(ms);
    atomic_store_explicit(&p->number[0], 1, memory_order_release);
}

static void *write_and_ring(void *pair)
{
    struct pair *p = pair;
    write_late(p, 250);
    tt_doorbell_ring(&p->bell[0]);
    return NULL;
}

static void *write_in_silence(void *pair)
{
    write_late(pair, 150);
    return NULL;
}

static void *write_and_ring_late(void *pair)
{
    struct pair *p = pair;
    write_late(p, 150);
    tt_sleep_ms(75); /* the sleeper looks at about 200 ms, and then gives the ring 50 more */
    tt_doorbell_ring(&p->bell[0]);
    return NULL;
}

static uint64_t lost_when(void *(*writer)(void *))
{
    struct pair p = { .policy = at_once };
    struct tt_doorbell *bells[] = { &p.bell[0] };
    struct tt_wait w;
    pthread_t thread;
    uint64_t before = tt_wait_lost();
    int64_t began = tt_now_ns();
    int looks = 0;
    cr_assert_eq(pthread_create(&thread, NULL, writer, &p), 0);
    tt_wait_begin(&w, p.policy, bells, 1);
    while (atomic_load_explicit(&p.number[0], memory_order_acquire) == 0)
        looks += tt_wait_idle(&w);
    tt_wait_awake(&w);
    int64_t ticks = (tt_now_ns() - began) / (TT_TICK_MS * 1000000);
    cr_expect(looks >= 1 && looks <= ticks + 1, "%d looks", looks);
    cr_expect_eq(atomic_load(&p.bell[0].sleeping), 0);
    pthread_join(thread, NULL);
    return tt_wait_lost() - before;
}

/* Whether it is told that so many were lost, ever: other programs may keep the sleeper from its core until
 * the ring was there, or the ringer until its ring is too late. */
static bool counts_lost(void *(*writer)(void *), uint64_t lost)
{
    for (int i = 0; i < 10; i++)
        if (lost_when(writer) == lost)
            return true;
    return false;
}

Test(wait, lost_wake_ups_are_counted)
{
    cr_expect(counts_lost(write_and_ring, 0), "one that is rung for seems lost");
    cr_expect(counts_lost(write_in_silence, 1), "one is lost and not counted");
}

Test(wait, a_late_ring_is_no_lost_one)
{
    cr_expect(counts_lost(write_and_ring_late, 0), "it seems lost");
}

/* Who looks for a word sleeps on its bells, too, and expects no ring for the word, also where he finds it
 * right after a tick. */
Test(wait, a_word_without_a_ring_is_no_lost_one)
{
    enum { TICKS = 12 };
    struct pair p = { .policy = at_once };
    struct tt_doorbell *bells[] = { &p.bell[0] };
    struct tt_wait w;
    uint64_t before = tt_wait_lost();
    tt_wait_begin(&w, p.policy, bells, 1);
    tt_wait_look(&w, true);
    for (int i = 0; i < TICKS; i++) {
        while (!tt_wait_idle(&w))
            continue;
        if (tt_wait_is_asleep(&w))
            tt_wait_awake(&w);
    }
    cr_expect_eq(tt_wait_lost(), before);
    cr_expect_eq(atomic_load(&p.bell[0].sleeping), 0);
}

static double cpu_seconds(const struct rusage *u)
{
    return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
           (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static void wait_for_flag(struct tt_doorbell *bells, _Atomic uint32_t *flag, int me)
{
    struct tt_doorbell *mine = &bells[me];
    struct tt_wait w;
    alarm(patience_seconds(30)); /* it must not outlive its test */
    tt_wait_begin(&w, tt_wait_policy_for(64), &mine, 1);
    await(&w, flag, 1);
    _exit(tt_wait_lost() == 0 ? 0 : 1);
}

Test(wait, waiting_costs_no_core)
{
    enum { RANKS = 7, SECONDS = 2 };
    struct tt_doorbell *bells = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(bells, MAP_FAILED);
    _Atomic uint32_t *flag = &bells[RANKS].word;
    for (int i = 0; i < RANKS; i++)
        if (fork() == 0)
            wait_for_flag(bells, flag, i);
    tt_sleep_ms(SECONDS * 1000);
    atomic_store_explicit(flag, 1, memory_order_release);
    for (int i = 0; i < RANKS; i++)
        tt_doorbell_ring(&bells[i]);
    struct rusage usage;
    for (int i = 0, status; i < RANKS; i++) {
        cr_assert_geq(wait(&status), 0);
        cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    getrusage(RUSAGE_CHILDREN, &usage);
    cr_expect_lt(
        cpu_seconds(&usage), 0.05 * SECONDS, "%.3f s of a core in %d s", cpu_seconds(&usage), SECONDS);
}

static void *ring_often(void *argument)
{
    struct pair *p = argument;
    for (uint32_t i = 0; i < p->rounds; i++) {
        tt_sleep_ms(5);
        tt_doorbell_ring(&p->bell[0]);
    }
    atomic_store_explicit(&p->number[0], 1, memory_order_release);
    tt_doorbell_ring_always(&p->bell[0]);
    return NULL;
}

/* A ring that is for another matter wakes a sleeper once: it takes the bell's new word, and sleeps again. */
Test(wait, a_ring_wakes_once)
{
    static struct pair p = { .rounds = 100 };
    struct tt_doorbell *bells[] = { &p.bell[0], &p.bell[1] };
    for (int nbells = 1; nbells <= 2; nbells++) {
        pthread_t bystander;
        struct tt_wait w;
        uint32_t calls = 0;
        atomic_store(&p.number[0], 0);
        cr_assert_eq(pthread_create(&bystander, NULL, ring_often, &p), 0);
        tt_wait_begin(&w, at_once, bells, nbells);
        int64_t began = tt_now_ns();
        for (; atomic_load_explicit(&p.number[0], memory_order_acquire) == 0; calls++)
            tt_wait_idle(&w);
        uint32_t ticks = (uint32_t)((tt_now_ns() - began) / (TT_TICK_MS * 1000000)) + 1;
        tt_wait_awake(&w);
        pthread_join(bystander, NULL);
        cr_expect_leq(
            calls, 3 * (p.rounds + ticks), "%u looks at %u rings and %u ticks", calls, p.rounds, ticks);
    }
}

Test(wait, without_bells_it_sleeps_shortly)
{
    struct tt_doorbell many[TT_WAIT_BELLS + 1] = { 0 }, *bells[TT_WAIT_BELLS + 1] = { NULL };
    struct tt_wait w;
    struct rusage before, after;
    for (int all = 0; all < 2; all++) {
        for (int i = 0; i <= TT_WAIT_BELLS; i++)
            bells[i] = all ? &many[i] : NULL;
        tt_wait_begin(&w, at_once, bells, TT_WAIT_BELLS + 1);
        getrusage(RUSAGE_THREAD, &before);
        int calls = 0;
        for (; !tt_wait_idle(&w); calls++)
            cr_assert_lt(calls, 1000);
        getrusage(RUSAGE_THREAD, &after);
        cr_expect_lt(cpu_seconds(&after) - cpu_seconds(&before), 0.05);
        tt_wait_awake(&w);
    }
    cr_expect_eq(tt_wait_lost(), 0);
}

/* --- Words that many sleep on */

static struct {
    _Atomic uint32_t word, woken;
} many;

static void *sleep_on_word(void *unused)
{
    (void)unused;
    while (atomic_load(&many.word) == 1)
        tt_word_await(&many.word, 1, INT64_C(100) * 1000000000);
    atomic_fetch_add(&many.woken, 1);
    return NULL;
}

/* All that sleep on a word are woken at once, and nobody sleeps on one that has changed. Who misses that ends
 * this test by its limit. */
Test(wait, many_sleep_on_a_word)
{
    enum { MANY = 5, ROUNDS = 20 };
    pthread_t threads[MANY];
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        atomic_store(&many.word, 1);
        for (int i = 0; i < MANY; i++)
            cr_assert_eq(pthread_create(&threads[i], NULL, sleep_on_word, NULL), 0);
        usleep(round % 2 == 0 ? 0 : 5000);
        atomic_store(&many.word, 2);
        tt_word_wake(&many.word);
        for (int i = 0; i < MANY; i++)
            pthread_join(threads[i], NULL);
        cr_assert_eq(atomic_load(&many.woken), MANY * round);
    }
    int64_t now = tt_now_ns();
    tt_word_await(&many.word, 2, 20 * 1000000);
    cr_expect_geq(tt_now_ns() - now, 20 * 1000000, "nobody woke it");
}

/* --- Cores */

static void put(const char *root, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    for (char *cut = path + strlen(root) + 1; (cut = strchr(cut, '/')) != NULL; *cut++ = '/') {
        *cut = '\0';
        mkdir(path, 0700);
    }
    FILE *file = fopen(path, "w");
    cr_assert_not_null(file, "%s", path);
    fputs(text, file);
    fclose(file);
}

Test(wait, cores_of_cgroups)
{
    char root[] = "/tmp/tutti-cgroup-XXXXXX", clean[64];
    cr_assert_not_null(mkdtemp(root));
    put(root, "a/b/cpu.max", "max 100000\n");
    put(root, "a/cpu.max", "250000 100000\n");
    put(root, "tight/cpu.max", "1000 100000\n");
    put(root, "cpu,cpuacct/j/cpu.cfs_quota_us", "400000\n");
    put(root, "cpu,cpuacct/j/cpu.cfs_period_us", "100000\n");
    put(root, "cpu/free/cpu.cfs_quota_us", "-1\n");
    put(root, "cpu/cpu.cfs_quota_us", "600000\n");
    put(root, "cpu/cpu.cfs_period_us", "100000\n");
    cr_expect_eq(tt_cores_quota(root, "0::/a/b\n", 16), 3);
    cr_expect_eq(tt_cores_quota(root, "0::/a/b\n", 2), 2);
    cr_expect_eq(tt_cores_quota(root, "0::/not/mounted/here\n", 16), 16);
    cr_expect_eq(tt_cores_quota(root, "0::/tight\n", 16), 1);
    cr_expect_eq(tt_cores_quota(root, "9:pids:/j\n4:cpu,cpuacct:/j/k\n0::/\n", 16), 4);
    cr_expect_eq(tt_cores_quota(root, "1:cpu:/free", 16), 6);
    cr_expect_eq(tt_cores_quota(root, "1:cpuset:/free\nnonsense\n:::\n", 16), 16);
    snprintf(clean, sizeof clean, "rm -r %s", root);
    cr_expect_eq(system(clean), 0);
    cr_expect_geq(tt_cores_granted(), 1);
    cr_expect_leq(tt_cores_granted(), sysconf(_SC_NPROCESSORS_CONF));
}

Test(wait, policies)
{
    cr_expect_gt(tt_wait_policy_for(1).spins, tt_wait_policy_for(100000).spins);
}

/* Keen polls are counted, since they take less than a look at the clock; those of a network take 40 times as
 * long, and are as many less. */
Test(wait, keen_polls_last_as_long_wherever_they_look)
{
    struct tt_wait_policy memory = tt_wait_policy_on(1, 1), network = memory;
    tt_wait_poll_takes(&memory, 0);
    cr_expect_eq(memory.keen_polls, tt_wait_policy_on(1, 1).keen_polls);
    for (uint32_t ns = 40; ns < 2000; ns *= 3) {
        network = tt_wait_policy_on(1, 1);
        tt_wait_poll_takes(&network, ns);
        cr_expect_leq(network.keen_polls * ns, 1000, "%u polls of %u ns", network.keen_polls, ns);
    }
    cr_expect_eq(network.spins, memory.spins);
}

Test(wait, deadlines)
{
    int64_t now = tt_now_ns();
    cr_expect_eq(tt_deadline_ns(-1), INT64_MAX);
    cr_expect_eq(tt_deadline_ns(INT64_MAX), INT64_MAX);
    cr_expect_geq(tt_deadline_ns(5), now + 5000000);
    cr_expect_lt(tt_deadline_ns(5), now + 10000000000);
}
