/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tcp_shared.c: the transport by TCP: a process has one thread for all its endpoints, and none of them
 * waits for another. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/schedule.h"
#include "tests/rig/patience.h"
#include "shm_ranks.h"
#include "transports/tcp_thread.h"

enum { RANKS = 2, MANY = 50, LOOK_MS = 20000 };

static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(tcp_shared, .init = limit_time);

static int count_in(const char *path)
{
    int count = 0;
    DIR *directory = opendir(path);
    for (const struct dirent *d; (d = readdir(directory)) != NULL;)
        count += d->d_name[0] != '.';
    closedir(directory);
    return count;
}

/* Threads that are here besides this one before there is an endpoint: of a sanitizer, which begins them with
 * the first one. */
static int strange_threads;

static void *do_nothing(void *nothing)
{
    return nothing;
}

static void count_strange_threads(void)
{
    enum { SETTLE_MS = 20 };
    pthread_t thread;
    pthread_create(&thread, NULL, do_nothing, NULL);
    pthread_join(thread, NULL);
    tt_sleep_ms(SETTLE_MS);
    strange_threads = count_in("/proc/self/task") - 1;
}

/* Threads of this process that the library has. One that was joined may be seen for a moment longer. */
static int own_threads(int expected)
{
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    int others = 1 + strange_threads;
    while (count_in("/proc/self/task") - others != expected && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    return count_in("/proc/self/task") - others;
}

static void open_many(struct shm_rank *r, struct tt_endpoint **e, int count)
{
    r->suite.transport = &tt_tcp;
    for (int i = 0; i < count; i++)
        e[i] = shm_join(r);
}

static void expect_message(struct shm_rank *r, struct tt_endpoint *e, uint64_t number)
{
    uint8_t text[100];
    uint64_t key = number + 3;
    suite_expect(&r->suite, shm_post(e, 1 - r->me, number, key, text, sizeof text), "no slot");
    shm_take(r, e, 1 - r->me, number, key, sizeof text);
}

/* --- One thread */

struct user { /* of one endpoint */
    struct tt_endpoint *e;
    struct transport_suite suite;
    uint64_t number;
    pthread_t thread;
};

static void *use(void *user)
{
    struct user *u = user;
    suite_exchange(&u->suite, u->e, u->number, 2, 5);
    return NULL;
}

/* All are used at once, each by a thread of its own, and closed in another order than they were opened. An
 * endpoint has a listener, an eventfd and a connection; the process a set and an eventfd. */
static void share(struct shm_rank *r)
{
    enum { OF_EACH = 3, OF_ALL = 2 };
    struct tt_endpoint *e[MANY];
    struct user *users = calloc(MANY, sizeof *users);
    int before = count_in("/proc/self/fd");
    count_strange_threads();
    open_many(r, e, MANY);
    suite_expect(&r->suite, own_threads(1) == 1, "%d threads for %d endpoints", own_threads(1), MANY);
    for (int i = 0; i < MANY; i++) {
        users[i].e = e[i];
        users[i].suite = r->suite;
        users[i].suite.memory[0] = malloc(SUITE_EXCHANGE_BYTES);
        users[i].number = r->stage->params.first_number;
        pthread_create(&users[i].thread, NULL, use, &users[i]);
    }
    for (int i = 0; i < MANY; i++) {
        pthread_join(users[i].thread, NULL);
        suite_expect(&r->suite, users[i].suite.wrong[0] == 0, "%s", users[i].suite.wrong);
        free(users[i].suite.memory[0]);
    }
    int more = count_in("/proc/self/fd") - before;
    suite_expect(&r->suite, more <= OF_EACH * MANY + OF_ALL, "%d descriptors for %d endpoints", more, MANY);
    suite_expect(&r->suite, own_threads(1) == 1, "%d threads after the exchange", own_threads(1));
    shm_meet(r);
    for (int i = 0; i < MANY; i++)
        tt_tcp.close(e[(i * 7 + 3) % MANY]);
    suite_expect(&r->suite, own_threads(0) == 0, "the thread stays");
    suite_expect(&r->suite, count_in("/proc/self/fd") == before, "descriptors stay");
    free(users);
}

Test(tcp_shared, one_thread_serves_all_endpoints_of_a_process)
{
    shm_stage_run(shm_stage_new(RANKS), share, -1);
}

/* --- None waits for another */

/* Takes a message that the thread has to read, for nobody drives this endpoint. Returns how long it took. */
static int64_t await_thread(struct shm_rank *r, struct tt_endpoint *e, uint64_t number)
{
    struct tcp_slot *slot =
        &tt_tcp_link_of((struct tcp_endpoint *)e, TT_CLASS_P2P, 1 - r->me)->in[number % TCP_SLOTS];
    int64_t began = tt_now_ns(), deadline_ns = tt_deadline_ns(LOOK_MS);
    while (atomic_load(&slot->state) != TCP_FULL && tt_now_ns() < deadline_ns)
        tt_nap_ns(20000);
    suite_expect(
        &r->suite, atomic_load(&slot->state) == TCP_FULL, "no message %llu", (unsigned long long)number);
    return tt_now_ns() - began;
}

/* Messages from rank 1 to rank 0, behind number `first`, while nobody drives this endpoint. Returns how many
 * took long. */
static int count_slow(struct shm_rank *r, struct tt_endpoint *e, uint64_t first, uint64_t rounds)
{
    enum { SLOW_NS = 20000000 };
    uint8_t text[100];
    int slow = 0;
    for (uint64_t i = 1; i <= rounds; i++) {
        shm_meet(r);
        if (r->me == 1)
            shm_post(e, 0, first + i, 7, text, sizeof text);
        else
            slow += await_thread(r, e, first + i) > SLOW_NS;
        if (r->me == 0)
            shm_take(r, e, 1, first + i, 7, sizeof text);
    }
    return slow;
}

/* Somebody has the turn of one endpoint for long, as a caller that copies much. */
static void hold_one(struct shm_rank *r)
{
    enum { ROUNDS = 20 };
    struct tt_endpoint *e[2];
    uint8_t text[100];
    uint64_t first = r->stage->params.first_number;
    open_many(r, e, 2);
    for (int i = 0; i < 2; i++)
        expect_message(r, e[i], first);
    shm_meet(r);
    struct tcp_endpoint *held = (struct tcp_endpoint *)e[0];
    if (r->me == 0) {
        pthread_mutex_lock(&held->driving);
        tt_tcp_wake(held);
    }
    int slow = count_slow(r, e[1], first, ROUNDS);
    suite_expect(&r->suite, slow < ROUNDS / 2, "%d of %d messages waited for another endpoint", slow, ROUNDS);
    shm_meet(r);
    if (r->me == 1)
        shm_post(e[0], 0, first + 1, 8, text, sizeof text);
    if (r->me == 0) {
        pthread_mutex_unlock(&held->driving);
        await_thread(r, e[0], first + 1);
        shm_take(r, e[0], 1, first + 1, 8, sizeof text);
    }
    shm_meet(r);
    tt_tcp.close(e[0]);
    tt_tcp.close(e[1]);
}

Test(tcp_shared, an_endpoint_that_is_held_holds_up_no_other)
{
    shm_stage_run(shm_stage_new(RANKS), hold_one, -1);
}

struct driver {
    struct tt_endpoint *e;
    int peer;
    _Atomic bool ends;
};

static void *drive(void *driver)
{
    struct driver *d = driver;
    while (!atomic_load(&d->ends))
        tt_tcp_drive((struct tcp_endpoint *)d->e, d->peer, false);
    return NULL;
}

/* One endpoint's caller drives, so the thread naps beside it; the other one is served at once. */
static void drive_one(struct shm_rank *r)
{
    enum { ROUNDS = 50 };
    struct tt_endpoint *e[2];
    uint64_t first = r->stage->params.first_number;
    struct driver d = { .peer = 1 - r->me };
    pthread_t thread;
    open_many(r, e, 2);
    for (int i = 0; i < 2; i++)
        expect_message(r, e[i], first);
    d.e = e[0];
    pthread_create(&thread, NULL, drive, &d);
    int slow = count_slow(r, e[1], first, ROUNDS);
    suite_expect(&r->suite, slow < ROUNDS / 2, "%d of %d messages waited for a nap", slow, ROUNDS);
    atomic_store(&d.ends, true);
    pthread_join(thread, NULL);
    shm_meet(r);
    tt_tcp.close(e[0]);
    tt_tcp.close(e[1]);
}

Test(tcp_shared, naps_beside_one_caller_delay_no_other_endpoint)
{
    shm_stage_run(shm_stage_new(RANKS), drive_one, -1);
}

/* Callers that sleep for their own connections wait for one that is being made, which the thread does. */
static void begin_asleep(struct shm_rank *r)
{
    enum { ROUNDS = 10, SLOW_NS = 20000000 };
    struct tt_endpoint *e[ROUNDS];
    uint8_t text[100];
    uint64_t first = r->stage->params.first_number;
    int slow = 0;
    open_many(r, e, ROUNDS);
    for (int i = 0; i < ROUNDS; i++) {
        shm_meet(r);
        int64_t began = tt_now_ns();
        if (r->me == 0) /* who alone has something to say, and so dials */
            shm_post(e[i], 1, first, 7, text, sizeof text);
        shm_take(r, e[i], 1 - r->me, first, 7, sizeof text);
        if (r->me == 1)
            shm_post(e[i], 0, first, 7, text, sizeof text);
        slow += tt_now_ns() - began > SLOW_NS;
    }
    suite_expect(&r->suite, slow < ROUNDS / 2, "%d of %d connections waited for a nap", slow, ROUNDS);
    shm_meet(r);
    for (int i = 0; i < ROUNDS; i++)
        tt_tcp.close(e[i]);
}

Test(tcp_shared, a_connection_that_begins_waits_for_no_nap)
{
    shm_stage_run(shm_stage_new(RANKS), begin_asleep, -1);
}

/* --- Ends */

/* One is aborted and another closed, while the others go on. */
static void end_some(struct shm_rank *r)
{
    enum { SOME = 6, ABORTED = 2, CLOSED = 4 };
    struct tt_endpoint *e[SOME];
    uint64_t first = r->stage->params.first_number;
    struct tt_cause why = { .status = TUTTI_ABORTED, .rank = 1, .peer = TT_NONE }, seen = { 0 };
    count_strange_threads();
    open_many(r, e, SOME);
    for (int i = 0; i < SOME; i++)
        expect_message(r, e[i], first);
    shm_meet(r);
    if (r->me == 1)
        e[ABORTED]->control->abort(e[ABORTED], &why);
    tt_tcp.close(e[CLOSED]);
    for (int i = 0; i < SOME; i++)
        if (i != ABORTED && i != CLOSED)
            expect_message(r, e[i], first + 1);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    while (!e[ABORTED]->control->cause(e[ABORTED], &seen) && tt_now_ns() < deadline_ns)
        tt_sleep_ms(1);
    suite_expect(&r->suite, seen.status == TUTTI_ABORTED && seen.rank == 1, "not aborted");
    for (int i = 0; i < SOME; i++)
        suite_expect(&r->suite, i == ABORTED || i == CLOSED || !e[i]->control->cause(e[i], &seen),
            "endpoint %d ended, too", i);
    shm_meet(r);
    for (int i = SOME - 1; i >= 0; i--)
        if (i != CLOSED)
            tt_tcp.close(e[i]);
    suite_expect(&r->suite, own_threads(0) == 0, "the thread stays");
}

Test(tcp_shared, an_end_of_one_is_none_of_the_others)
{
    shm_stage_run(shm_stage_new(RANKS), end_some, -1);
}

/* A process dies: all its endpoints are seen to have gone, by one thread. */
static void lose_one(struct shm_rank *r)
{
    enum { SOME = 5 };
    struct tt_endpoint *e[SOME];
    struct tt_peer_place place;
    open_many(r, e, SOME);
    for (int i = 0; i < SOME; i++)
        expect_message(r, e[i], r->stage->params.first_number);
    shm_meet(r);
    if (r->me == 1)
        kill(getpid(), SIGKILL);
    int64_t deadline_ns = tt_deadline_ns(LOOK_MS);
    for (int i = 0; i < SOME; i++) {
        while (e[i]->control->peer_state(e[i], 1, &place) == TT_PEER_ALIVE && tt_now_ns() < deadline_ns)
            tt_sleep_ms(1);
        suite_expect(&r->suite, e[i]->control->peer_state(e[i], 1, &place) == TT_PEER_DEAD, "it lives");
        tt_tcp.close(e[i]);
    }
}

Test(tcp_shared, a_death_is_seen_by_all_endpoints)
{
    shm_stage_run(shm_stage_new(RANKS), lose_one, 1);
}

/* --- Forks */

/* A child has none of its parent's endpoints: no thread, none of its sockets and what it waits for. It makes
 * endpoints of its own, with a thread of its own, which its parent's peers do not disturb. */
static int be_child(int before)
{
    enum { ITSELF = 1, OF_EACH = 1 /* the eventfd of a caller that sleeps */ };
    struct tt_endpoint_params params = { .n = 1, .slot_bytes = SUITE_SLOT_BYTES };
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint *e;
    alarm(patience_seconds(60));
    if (count_in("/proc/self/fd") > before + OF_EACH * 2)
        return 1;
    if (count_in("/proc/self/task") > ITSELF + strange_threads)
        return 2;
    if (tt_tcp.open(&params, address, &e) != TUTTI_OK || tt_tcp.connect(e, address) != TUTTI_OK)
        return 3;
    if (own_threads(1) != 1)
        return 4;
    tt_tcp.close(e);
    return own_threads(0) == 0 ? 0 : 5;
}

static void fork_between(struct shm_rank *r)
{
    struct tt_endpoint *e[2];
    uint64_t first = r->stage->params.first_number;
    int before = count_in("/proc/self/fd"), status;
    count_strange_threads();
    open_many(r, e, 2);
    expect_message(r, e[0], first);
    expect_message(r, e[1], first);
    pid_t child = fork();
    if (child == 0)
        _exit(be_child(before));
    expect_message(r, e[0], first + 1);
    suite_expect(&r->suite, waitpid(child, &status, 0) == child && WIFEXITED(status), "the child died");
    suite_expect(&r->suite, WEXITSTATUS(status) == 0, "the child found %d", WEXITSTATUS(status));
    expect_message(r, e[1], first + 1);
    shm_meet(r);
    tt_tcp.close(e[0]);
    tt_tcp.close(e[1]);
}

Test(tcp_shared, a_child_has_a_thread_of_its_own)
{
    shm_stage_run(shm_stage_new(RANKS), fork_between, -1);
}

/* Endpoints come and go on several threads, so that the last one ends while the next one begins. */
static void *come_and_go(void *unused)
{
    enum { TIMES = 60 };
    struct tt_endpoint_params params = { .n = 1, .slot_bytes = SUITE_SLOT_BYTES };
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint *e;
    (void)unused;
    for (int i = 0; i < TIMES; i++) {
        if (tt_tcp.open(&params, address, &e) != TUTTI_OK || tt_tcp.connect(e, address) != TUTTI_OK)
            return "an endpoint is refused";
        tt_tcp.close(e);
    }
    return NULL;
}

Test(tcp_shared, endpoints_come_and_go_at_once)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    void *wrong;
    count_strange_threads();
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, come_and_go, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        cr_expect_null(wrong, "%s", (const char *)wrong);
    }
    cr_expect_eq(own_threads(0), 0);
}
