/* SPDX-License-Identifier: BSD-3-Clause */
/* test_host_choice.c: one of many threads answers each question, whatever the others do meanwhile; and what
 * tt_choose makes of words that are not what they should be. Ranks that call are in
 * tests/faults/test_api_choice.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "select/choose.h"
#include "tests/rig/patience.h"

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(host_choice, .init = limit_time);

enum { RANKS = 8, QUESTIONS = 400, LONG_MS = 30000 };

static _Atomic uint32_t words[TT_CHOICES];
static _Atomic int found[QUESTIONS]; /* by how many */
static _Atomic int failures; /* so many times more a rank finds no answer */
static _Atomic bool rank_5_is_dead;

static bool is_in_vain(void *context, int rank)
{
    (void)context;
    return rank == 5 && atomic_load(&rank_5_is_dead);
}

static struct tt_host_choice host_of(int rank, int64_t patience_ms)
{
    return (struct tt_host_choice){
        .words = words, .rank = rank, .patience_ms = patience_ms, .in_vain = is_in_vain
    };
}

static int answer_to(size_t question)
{
    return (int)(question * 7 % 50);
}

static int ask(const struct tt_host_choice *host, size_t question)
{
    int answer = tt_host_choice_ask(host, question);
    while (answer < 0) {
        bool fails = atomic_fetch_sub(&failures, 1) > 0;
        if (question % 16 == 0)
            usleep(2000);
        if (!fails) {
            atomic_fetch_add(&found[question], 1);
            answer = answer_to(question);
        }
        tt_host_choice_tell(host, question, answer);
        answer = fails ? tt_host_choice_ask(host, question) : answer;
    }
    return answer;
}

static void *ask_all(void *argument)
{
    int rank = *(const int *)argument;
    struct tt_host_choice host = host_of(rank, LONG_MS);
    size_t wrong = 0;
    for (size_t q = 0; q < QUESTIONS; q++)
        wrong += ask(&host, q) != answer_to(q);
    return (void *)wrong; /* NOLINT */
}

static void ask_by_all(int lost)
{
    pthread_t threads[RANKS];
    static int ranks[RANKS];
    atomic_store(&failures, lost);
    for (int r = 0; r < RANKS; r++) {
        ranks[r] = r;
        cr_assert_eq(pthread_create(&threads[r], NULL, ask_all, &ranks[r]), 0);
    }
    for (int r = 0; r < RANKS; r++) {
        void *wrong;
        pthread_join(threads[r], &wrong);
        cr_expect_null(wrong, "rank %d got a wrong answer", r);
    }
    for (int q = 0; q < QUESTIONS; q++)
        cr_expect_eq(found[q], 1, "question %d was answered by %d", q, found[q]);
}

Test(host_choice, each_question_is_answered_once)
{
    ask_by_all(0);
}

/* Two that ask at the same moment: one of them is to answer. */
static struct {
    _Atomic uint32_t here; /* comings of both, in all rounds */
    _Atomic int found[TT_CHOICES];
} race;

static void *race_for_all(void *argument)
{
    struct tt_host_choice host = host_of(*(const int *)argument, LONG_MS);
    for (uint32_t q = 0; q < TT_CHOICES; q++) {
        atomic_fetch_add(&race.here, 1);
        for (int polls = 0; atomic_load(&race.here) < 2 * (q + 1); polls++)
            if (polls > 1000) /* the other one is not on a core */
                usleep(1);
        if (tt_host_choice_ask(&host, q) < 0) {
            atomic_fetch_add(&race.found[q], 1);
            tt_host_choice_tell(&host, q, 1);
        }
    }
    return NULL;
}

Test(host_choice, one_of_two_claims)
{
    static int ranks[2] = { 0, 1 };
    pthread_t threads[2];
    for (int r = 0; r < 2; r++)
        cr_assert_eq(pthread_create(&threads[r], NULL, race_for_all, &ranks[r]), 0);
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    for (int q = 0; q < TT_CHOICES; q++)
        cr_assert_eq(race.found[q], 1, "question %d was claimed by %d", q, race.found[q]);
}

/* A rank that has no memory for a prediction leaves the question to the next one. */
Test(host_choice, a_question_without_an_answer_is_asked_again)
{
    ask_by_all(300);
}

Test(host_choice, a_rank_alone_answers_for_itself)
{
    struct tt_host_choice alone = { .rank = 0 };
    tt_host_choice_tell(&alone, 3, 4);
    cr_expect_eq(tt_host_choice_ask(&alone, 3), -1);
}

/* Who waits for a rank that dies goes on within a tick or two, and not only when its patience ends. */
static void *die_soon(void *unused)
{
    (void)unused;
    usleep(30000);
    atomic_store(&rank_5_is_dead, true);
    return NULL;
}

Test(host_choice, a_dead_rank_is_not_waited_for)
{
    struct tt_host_choice dead = host_of(5, LONG_MS), other = host_of(2, LONG_MS);
    struct tt_host_choice third = host_of(3, LONG_MS);
    pthread_t thread;
    int64_t began = tt_now_ns();
    cr_assert_eq(tt_host_choice_ask(&dead, 9), -1);
    cr_assert_eq(pthread_create(&thread, NULL, die_soon, NULL), 0);
    cr_expect_eq(tt_host_choice_ask(&other, 9), -1);
    cr_expect_lt(tt_now_ns() - began, INT64_C(1000000) * LONG_MS, "its patience has ended");
    pthread_join(thread, NULL);
    tt_host_choice_tell(&other, 9, 6);
    cr_expect_eq(tt_host_choice_ask(&third, 9), 6, "who took the claim over answers for all");
}

/* A rank that asks again before it has told an answer is not to wait for its own. */
Test(host_choice, a_rank_does_not_wait_for_itself)
{
    struct tt_host_choice host = host_of(4, LONG_MS);
    int64_t began = tt_now_ns();
    cr_expect_eq(tt_host_choice_ask(&host, 7), -1);
    cr_expect_eq(tt_host_choice_ask(&host, 7), -1);
    cr_expect_lt(tt_now_ns() - began, INT64_C(1000000) * LONG_MS, "its patience has ended");
}

/* A rank that is late is waited for as long as patience lasts, and then each goes on for itself; what the
 * late one says then changes nothing. */
Test(host_choice, a_late_rank_is_waited_for_a_while)
{
    enum { PATIENCE_MS = 150 };
    struct tt_host_choice late = host_of(1, LONG_MS);
    struct tt_host_choice a = host_of(2, PATIENCE_MS), b = host_of(3, PATIENCE_MS);
    cr_assert_eq(tt_host_choice_ask(&late, 0), -1);
    int64_t began = tt_now_ns();
    cr_expect_eq(tt_host_choice_ask(&a, 0), -1);
    cr_expect_geq(tt_now_ns() - began, PATIENCE_MS * 1000000);
    cr_expect_eq(tt_host_choice_ask(&b, 0), -1, "nor does it wait for who goes on for itself, for ever");
    tt_host_choice_tell(&b, 0, 12);
    tt_host_choice_tell(&late, 0, -1);
    cr_expect_eq(tt_host_choice_ask(&a, 0), 12, "who finds nothing takes no answer back");
    late.patience_ms = PATIENCE_MS;
    cr_expect_eq(tt_host_choice_ask(&late, 0), 12);
}

/* Who sleeps is woken by the answer, and does not find it at its next tick. */
struct sleeper {
    pthread_t thread;
    size_t question;
    int64_t woken_ns;
};

static void *sleep_until_told(void *argument)
{
    struct sleeper *sleeper = argument;
    struct tt_host_choice host = host_of(3, LONG_MS);
    int answer = tt_host_choice_ask(&host, sleeper->question);
    sleeper->woken_ns = tt_now_ns();
    return answer == 8 ? NULL : sleeper;
}

Test(host_choice, an_answer_wakes_who_sleeps)
{
    enum { ROUNDS = 20, ASLEEP_US = 20000, TICK_MS = 100 };
    struct tt_host_choice host = host_of(2, LONG_MS);
    int64_t soonest = INT64_MAX; /* a busy machine makes some late, but not all */
    for (size_t round = 0; round < ROUNDS; round++) {
        struct sleeper sleeper = { .question = round };
        void *wrong;
        cr_assert_eq(tt_host_choice_ask(&host, round), -1);
        cr_assert_eq(pthread_create(&sleeper.thread, NULL, sleep_until_told, &sleeper), 0);
        usleep(ASLEEP_US);
        int64_t told_ns = tt_now_ns();
        tt_host_choice_tell(&host, round, 8);
        pthread_join(sleeper.thread, &wrong);
        cr_expect_null(wrong);
        soonest = sleeper.woken_ns - told_ns < soonest ? sleeper.woken_ns - told_ns : soonest;
    }
    cr_expect_lt(soonest, (TICK_MS * 1000 - 2 * ASLEEP_US) * 1000, "%lld ns", (long long)soonest);
}

/* --- tt_choose with words */

static struct tt_request ask_for(const struct tt_settings *settings, uint64_t bytes)
{
    return (struct tt_request){ .settings = settings,
        .slot_bytes = 64 << 10,
        .collective = TT_ALL_REDUCE,
        .requirements = { .n = 5 },
        .bytes = bytes };
}

static int choose(struct tt_choice_cache *cache, const struct tt_settings *settings, uint64_t bytes)
{
    struct tt_request request = ask_for(settings, bytes);
    int algorithm;
    cr_assert_eq(tt_choose(&request, cache, &algorithm), TUTTI_OK, "%s", tt_last_error());
    return algorithm;
}

static void read_settings(struct tt_settings *settings, const char *options)
{
    cr_assert_eq(tt_settings_read(settings, options), TUTTI_OK);
    settings->costs = tt_costs_default();
}

Test(host_choice, ranks_that_share_words_choose_as_one)
{
    static struct tt_choice_cache caches[3];
    struct tt_settings settings;
    uint32_t predicted = 0, classes = 0;
    read_settings(&settings, NULL);
    for (int r = 0; r < 3; r++)
        caches[r].host = host_of(r, LONG_MS);
    for (uint64_t bytes = 20; bytes < 1 << 24; bytes = bytes * 3 / 2 + 1, classes++) {
        int alone = choose(NULL, &settings, bytes);
        for (int i = 0; i < 3; i++) /* each is the first for some */
            cr_expect_eq(choose(&caches[(classes + (uint32_t)i) % 3], &settings, bytes), alone);
        cr_expect_eq(choose(&caches[classes % 3], &settings, bytes), alone);
    }
    for (int r = 0; r < 3; r++)
        predicted += caches[r].predicted;
    cr_expect_leq(predicted, classes);
    cr_expect_geq(predicted, classes / 2);
    cr_expect(caches[0].predicted > 0 && caches[1].predicted > 0 && caches[2].predicted > 0);
}

/* What a setting or a rule decides takes no time, and is not asked of others: a rank whose forced algorithm
 * cannot serve has to say so itself. */
Test(host_choice, what_is_forced_is_not_shared)
{
    static struct tt_choice_cache cache;
    struct tt_settings settings;
    read_settings(&settings, "algo=all_reduce:ring");
    cache.host = host_of(0, LONG_MS);
    cr_expect_str_eq(tt_algorithms[choose(&cache, &settings, 1000)].name, "ring");
    cr_expect_eq(cache.predicted, 0);
    for (size_t i = 0; i < TT_CHOICES; i++)
        cr_assert_eq(words[i], 0);
}

/* Each word may hold anything, and the choice is right nevertheless. */
Test(host_choice, words_are_not_believed)
{
    struct tt_settings settings;
    read_settings(&settings, NULL);
    int right = choose(NULL, &settings, 1000);
    uint32_t broadcast = (uint32_t)tt_algorithm_find(TT_BROADCAST, "tree");
    const uint32_t odd[] = { 1, 0x3fffffff, 0x40000005, 0x80000000 + broadcast, 0x800000ff, 0xbfffffff,
        0xffffffff, 0x7fffffff };
    atomic_store(&rank_5_is_dead, true);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        struct tt_choice_cache cache = { .host = host_of(2, 20) };
        for (size_t w = 0; w < TT_CHOICES; w++)
            words[w] = odd[i];
        cr_expect_eq(choose(&cache, &settings, 1000), right, "word %#x", odd[i]);
        cr_expect_eq(cache.predicted, 1);
    }
}
