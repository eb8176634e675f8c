/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_faults.c: ranks that are absent, stopped, gone or aborted: every wait of every rank ends, with
 * one cause for all, which names who and what. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/ranks.h"

TestSuite(api_faults, .timeout = 120);

enum { SOON_MS = 60000 };

static tutti_status sum(tutti_comm *comm, int32_t *value)
{
    return tutti_all_reduce(value, value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
}

static void expect_status(struct ranks_me *me, const char *call, tutti_status status, tutti_status expected)
{
    ranks_expect(me, status == expected, "%s returned %d (%s), expected %d", call, status,
        tutti_get_last_error(NULL), expected);
}

/* --- An absent rank: the deadline */

static void absent(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 3000, .name = "the trainer" };
    tutti_comm *comm = ranks_join(me, &config);
    int32_t value = 1;
    if (comm == NULL)
        return;
    ranks_at(me, "n %d rank %d: rank 2 does not come", me->n, me->rank);
    ranks_ok(me, sum(comm, &value), "all_reduce");
    ranks_meet(me);
    int64_t began = ranks_now_ms();
    if (me->rank == 2) /* the others end without it, and it learns why in its own call */
        while (tutti_comm_state(comm) == TUTTI_OK && ranks_now_ms() - began < SOON_MS)
            ranks_sleep_us(1000);
    expect_status(me, "all_reduce", sum(comm, &value), TUTTI_TIMEOUT);
    int64_t took = ranks_now_ms() - began;
    ranks_expect(me, took >= 2950 && took < SOON_MS, "it took %lld ms", (long long)took);
    tutti_error error =
        ranks_same_error(me, comm, TUTTI_TIMEOUT, "the trainer|rank 2|all_reduce of 1 int32|operation 1");
    ranks_expect(me,
        error.peer == 2 && error.rank != 2 && error.sequence == 1 &&
            strcmp(error.operation, "all_reduce") == 0,
        "rank %d, peer %d, operation %llu %s", error.rank, error.peer, (unsigned long long)error.sequence,
        error.operation);
    ranks_part(me, comm);
}

Test(api_faults, absent_rank)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = absent });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = absent });
}

/* Rank 1 is more operations ahead than ranks keep records of: it is not among those that have not called. */
static void far_ahead(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 4000, .options = "algo=reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    int32_t value = 1, result = 0;
    int calls = me->rank == 1 ? 300 : me->rank == 0; /* all but the first are empty */
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    for (int i = 0; i < calls; i++) {
        tutti_status status =
            tutti_reduce(&value, &result, i == 0, TUTTI_INT32, TUTTI_SUM, 0, comm, tutti_no_stream());
        expect_status(me, "reduce", status, me->rank == 0 ? TUTTI_TIMEOUT : TUTTI_OK);
    }
    int64_t began = ranks_now_ms();
    while (tutti_comm_state(comm) == TUTTI_OK && ranks_now_ms() - began < SOON_MS)
        ranks_sleep_us(1000);
    ranks_same_error(me, comm, TUTTI_TIMEOUT, "operation 1, reduce|not called yet by rank 2");
    ranks_part(me, comm);
}

Test(api_faults, far_ahead)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = far_ahead });
}

/* A message that nobody sends, one that nobody takes, and a group of both. */
static void absent_peer(struct ranks_me *me)
{
    enum { WORDS = 1 << 20 };
    for (int kind = 0; kind < 3; kind++) {
        tutti_config config = { .size = sizeof config, .timeout_ms = 3000 };
        tutti_comm *comm = ranks_join(me, &config);
        uint64_t *words = calloc(WORDS, sizeof *words);
        tutti_status status = TUTTI_TIMEOUT;
        ranks_at(me, "rank %d: a message without its other end, %d", me->rank, kind);
        if (comm == NULL || words == NULL)
            return;
        if (kind == 2)
            tutti_group_start();
        if (me->rank == 0 && kind != 1)
            status = tutti_recv(words, 1, TUTTI_UINT64, 1, comm, tutti_no_stream());
        if (me->rank == 0 && kind != 0)
            status = tutti_send(words, WORDS, TUTTI_UINT64, 1, comm, tutti_no_stream());
        if (kind == 2)
            status = tutti_group_end();
        if (me->rank == 0)
            expect_status(me, "the call", status, TUTTI_TIMEOUT);
        ranks_meet(me);
        ranks_same_error(me, comm, TUTTI_TIMEOUT, kind == 1 ? "send of|to rank 1" : "rank 1");
        expect_status(me, "barrier", tutti_barrier(comm, tutti_no_stream()), TUTTI_TIMEOUT);
        free(words);
        ranks_part(me, comm);
    }
}

Test(api_faults, absent_peer)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = absent_peer });
}

/* --- Calls that wait for each other */

enum { LARGE = 1 << 20 };

/* The one that waits in vain says what the other one does instead; a message that has come is not what it
 * waits in. */
static void wait_for_other_calls(struct ranks_me *me)
{
    static const char *const names[] = {
        "barrier: nothing moved|not called yet by rank 1, which waits in recv of 3 int32 from rank 2",
        "send of 1048576 uint64 to rank 1|waiting for rank 1, which is in operation 0, all_reduce of 1 int32",
        "recv of 3 int32 from rank 1|waiting for rank 1",
    };
    static uint64_t words[LARGE];
    for (int kind = 0; kind < 3; kind++) {
        tutti_config config = { .size = sizeof config, .timeout_ms = me->rank == 0 ? 1000 : -1 };
        tutti_comm *comm = ranks_join(me, &config);
        tutti_status status = TUTTI_TIMEOUT;
        int32_t value = 1;
        ranks_at(me, "rank %d: waits in another call, %d", me->rank, kind);
        if (comm == NULL)
            return;
        if (kind == 2 && me->rank == 1) {
            ranks_ok(me, tutti_recv(words, 3, TUTTI_INT32, 2, comm, tutti_no_stream()), "a late message");
        } else if (kind == 2 && me->rank == 2) {
            ranks_sleep_us(300000); /* so that rank 1 has said that it waits */
            ranks_ok(me, tutti_send(words, 3, TUTTI_INT32, 1, comm, tutti_no_stream()), "a late message");
        } else if (kind == 2) {
            status = tutti_recv(words, 3, TUTTI_INT32, 1, comm, tutti_no_stream());
        } else if (kind == 1 && me->rank > 0) {
            status = sum(comm, &value);
        } else if (kind == 1) {
            status = tutti_send(words, LARGE, TUTTI_UINT64, 1, comm, tutti_no_stream());
        } else if (me->rank == 1) {
            status = tutti_recv(words, 3, TUTTI_INT32, 2, comm, tutti_no_stream());
        } else {
            status = tutti_barrier(comm, tutti_no_stream());
        }
        expect_status(me, "the call", status, TUTTI_TIMEOUT);
        while (tutti_comm_state(comm) == TUTTI_OK)
            ranks_sleep_us(1000);
        tutti_error error = ranks_same_error(me, comm, TUTTI_TIMEOUT, names[kind]);
        ranks_expect(me, kind < 2 || strstr(error.text, "which") == NULL, "%s", error.text);
        ranks_part(me, comm);
    }
}

Test(api_faults, what_a_peer_is_in)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wait_for_other_calls });
}

/* --- A stopped rank */

static void stopped(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .timeout_ms = 3000 };
    tutti_comm *comm = ranks_join(me, &config);
    _Atomic int *ended = (_Atomic int *)((uint8_t *)me->shared + RANKS_SHARED_BYTES - sizeof *ended);
    int32_t value = 1;
    if (comm == NULL)
        return;
    ranks_at(me, "rank %d: rank 1 is stopped", me->rank);
    if (me->rank == 1)
        raise(SIGSTOP);
    tutti_status status = TUTTI_OK;
    while (status == TUTTI_OK)
        status = sum(comm, &value);
    expect_status(me, "all_reduce", status, TUTTI_TIMEOUT);
    atomic_fetch_add(ended, 1);
    ranks_same_error(me, comm, TUTTI_TIMEOUT, "rank 1");
    ranks_part(me, comm);
}

static void wake_rank_1(struct ranks_world *world, const struct ranks_plan *plan)
{
    _Atomic int *ended = (_Atomic int *)(void *)(world->shared + RANKS_SHARED_BYTES - sizeof *ended);
    int64_t deadline = ranks_now_ms() + SOON_MS;
    while (atomic_load(ended) < plan->n - 1 && ranks_now_ms() < deadline)
        ranks_sleep_us(1000);
    kill(world->slots[1].pid, SIGCONT);
}

Test(api_faults, stopped_rank)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = stopped, .meddle = wake_rank_1 });
}

/* It is stopped inside a call, so that it might still write to buffers of its peers. */
static int stop(void *context)
{
    struct ranks_me *me = context;
    ranks_at(me, "rank %d: is stopped", me->rank);
    atomic_store((_Atomic int *)me->shared, 1);
    raise(SIGSTOP);
    return 0;
}

/* A call that failed waits for such a rank for a second at most; so does a group, however many calls it
 * has. */
static void stopped_inside(struct ranks_me *me)
{
    enum { CALLS = 100, MOST_MS = CALLS * 1000 / 2 };
    tutti_config config = { .size = sizeof config, .timeout_ms = 500, .on_wait_context = me };
    config.on_wait = me->rank == 1 ? stop : NULL;
    tutti_comm *comm = ranks_join(me, &config);
    _Atomic int *ended = (_Atomic int *)((uint8_t *)me->shared + RANKS_SHARED_BYTES - sizeof *ended);
    int32_t value = 1;
    if (comm == NULL)
        return;
    if (me->rank == 1) {
        while (sum(comm, &value) == TUTTI_OK)
            ;
    } else {
        while (atomic_load((_Atomic int *)me->shared) == 0)
            ranks_sleep_us(1000);
        ranks_at(me, "rank %d: a group of %d calls", me->rank, CALLS);
        int64_t began = ranks_now_ms();
        tutti_group_start();
        for (int i = 0; i < CALLS; i++)
            sum(comm, &value);
        expect_status(me, "group_end", tutti_group_end(), TUTTI_TIMEOUT);
        int64_t took = ranks_now_ms() - began;
        ranks_expect(me, took < MOST_MS, "it took %lld ms", (long long)took);
        atomic_fetch_add(ended, 1);
    }
    ranks_same_error(me, comm, TUTTI_TIMEOUT, "rank 1");
    ranks_part(me, comm);
}

Test(api_faults, a_group_waits_for_a_stopped_rank_once)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = stopped_inside, .meddle = wake_rank_1, .limit_s = 200 });
}

/* --- Ranks that leave */

enum leaving { DESTROYS, EXITS, DIES, DESTROYS_IN_PARENT };

static void leave(struct ranks_me *me)
{
    enum leaving how = *(const enum leaving *)me->context;
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    int32_t value = 1;
    if (comm == NULL)
        return;
    ranks_at(me, "n %d rank %d: rank 1 leaves, way %d", me->n, me->rank, how);
    ranks_ok(me, sum(comm, &value), "all_reduce");
    if (how == DESTROYS_IN_PARENT) { /* a child has a life of its own */
        ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &child), "split");
        if (me->rank == 1)
            ranks_part(me, comm);
        for (int i = 0; i < 10; i++)
            ranks_ok(me, tutti_barrier(child, tutti_no_stream()), "barrier of the child");
    }
    if (me->rank == 1) {
        if (how == EXITS || how == DIES)
            atomic_store(&me->world->slots[1].over, true);
        if (how == EXITS)
            exit(0);
        if (how == DIES)
            _exit(0);
        if (how == DESTROYS)
            ranks_part(me, comm);
    } else {
        int64_t began = ranks_now_ms();
        expect_status(me, "all_reduce", sum(comm, &value), TUTTI_PEER_LOST);
        ranks_expect(me, ranks_now_ms() - began < SOON_MS, "it took long");
        tutti_error error = { .size = sizeof error };
        tutti_comm_get_error(comm, &error);
        ranks_expect(me,
            error.status == TUTTI_PEER_LOST && error.peer == 1 && error.sequence == (child ? 4 : 1),
            "peer %d, operation %llu: %s", error.peer, (unsigned long long)error.sequence, error.text);
        char words[96];
        snprintf(words, sizeof words,
            how == EXITS  ? "rank 1 ended without tutti_comm_destroy (process %d)"
            : how == DIES ? "rank 1 died or became another program (process %d)"
                          : "rank 1 destroyed",
            (int)me->world->slots[1].pid);
        ranks_expect(me, strstr(error.text, words) != NULL, "not '%s': %s", words, error.text);
    }
    if (child != NULL) {
        ranks_ok(me, tutti_barrier(child, tutti_no_stream()), "barrier of the child");
        ranks_part(me, child);
    }
    if (me->rank != 1)
        ranks_part(me, comm);
}

static void run_leaving(enum leaving how, enum ranks_kind kind)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = kind, .run = leave, .context = &how });
}

Test(api_faults, rank_that_destroys_early)
{
    run_leaving(DESTROYS, RANKS_PROCESSES);
    run_leaving(DESTROYS, RANKS_THREADS);
    run_leaving(DESTROYS_IN_PARENT, RANKS_PROCESSES);
}

Test(api_faults, rank_that_exits)
{
    run_leaving(EXITS, RANKS_PROCESSES);
}

Test(api_faults, rank_that_dies)
{
    run_leaving(DIES, RANKS_PROCESSES);
}

/* What a rank did before it left stays done: no loss where nobody needs it any more. */
static void leave_in_time(struct ranks_me *me)
{
    static _Thread_local _Alignas(int32_t) uint8_t bytes[3000];
    for (int round = 0; round < 30; round++) {
        tutti_comm *comm = ranks_join(me, NULL);
        tutti_status status = TUTTI_OK;
        if (comm == NULL)
            return;
        ranks_at(me, "n %d rank %d: leaving in time, round %d", me->n, me->rank, round);
        if (round % 3 == 0 && me->rank == 0)
            status = tutti_send(bytes, 40, TUTTI_UINT8, 1, comm, tutti_no_stream());
        else if (round % 3 == 0 && me->rank == 1) {
            ranks_sleep_us(2000);
            status = tutti_recv(bytes, 40, TUTTI_UINT8, 0, comm, tutti_no_stream());
        } else if (round % 3 == 1)
            status = tutti_broadcast(
                bytes, bytes, sizeof bytes, TUTTI_UINT8, round % me->n, comm, tutti_no_stream());
        else if (round % 3 == 2)
            status = tutti_reduce(
                bytes, bytes, 400, TUTTI_INT32, TUTTI_SUM, round % me->n, comm, tutti_no_stream());
        ranks_ok(me, status, "the last call");
        ranks_part(me, comm);
    }
}

Test(api_faults, leaving_in_time_is_no_loss)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = leave_in_time });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = leave_in_time });
}

/* Who has done its part may leave long before the others have done theirs. */
static void leave_others_waiting(struct ranks_me *me)
{
    int32_t value = 1 << me->rank, sum = 0;
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    ranks_at(me, "rank %d: rank 1 leaves while rank 0 waits for rank 2", me->rank);
    if (me->rank == 2)
        ranks_sleep_us(500000);
    ranks_ok(me, tutti_reduce(&value, &sum, 1, TUTTI_INT32, TUTTI_SUM, 0, comm, tutti_no_stream()), "reduce");
    ranks_expect(me, me->rank != 0 || sum == 7, "the sum is %d", sum);
    ranks_part(me, comm);
}

Test(api_faults, leaving_while_others_wait)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = leave_others_waiting });
}

/* --- Aborts */

struct blocked { /* what a rank is in when somebody aborts */
    const char *name;
    tutti_status (*call)(struct ranks_me *me, tutti_comm *comm);
};

static tutti_status in_barrier(struct ranks_me *me, tutti_comm *comm)
{
    if (me->rank == me->n - 1) /* never comes; learns of the abort as anybody may */
        while (tutti_comm_state(comm) == TUTTI_OK)
            ranks_sleep_us(500);
    return tutti_barrier(comm, tutti_no_stream());
}

static tutti_status in_recv(struct ranks_me *me, tutti_comm *comm)
{
    uint64_t word;
    return tutti_recv(&word, 1, TUTTI_UINT64, (me->rank + 1) % me->n, comm, tutti_no_stream());
}

static tutti_status in_group(struct ranks_me *me, tutti_comm *comm)
{
    uint64_t words[2] = { 0 };
    tutti_group_start();
    tutti_recv(&words[0], 1, TUTTI_UINT64, (me->rank + 1) % me->n, comm, tutti_no_stream());
    if (me->rank > 0)
        tutti_all_reduce(&words[1], &words[1], 1, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream());
    return tutti_group_end();
}

static tutti_status in_many(struct ranks_me *me, tutti_comm *comm)
{
    enum { WORDS = 1 << 18 };
    uint64_t *words = calloc(WORDS, sizeof *words);
    tutti_status status = words != NULL ? TUTTI_OK : TUTTI_OUT_OF_MEMORY;
    (void)me;
    while (status == TUTTI_OK)
        status = tutti_all_reduce(words, words, WORDS, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream());
    free(words);
    return status;
}

static tutti_status in_split(struct ranks_me *me, tutti_comm *comm)
{
    tutti_comm *child = NULL;
    if (me->rank == 1)
        return in_recv(me, comm);
    tutti_status status = tutti_comm_split(comm, 0, 0, NULL, &child);
    return child == NULL ? status : TUTTI_OK;
}

static const struct blocked blocked[] = { { "a barrier", in_barrier }, { "a recv", in_recv },
    { "a group", in_group }, { "many all_reduces", in_many }, { "a split", in_split } };
enum { BLOCKED = sizeof blocked / sizeof blocked[0] };

struct aborter {
    tutti_comm *comm;
    uint32_t delay_us;
    tutti_status status;
};

static void *abort_later(void *argument)
{
    struct aborter *a = argument;
    ranks_sleep_us(a->delay_us);
    a->status = tutti_comm_abort(a->comm);
    return NULL;
}

/* Every rank may abort, at the same time too; one of them is the cause for all. */
static void aborted(struct ranks_me *me)
{
    for (int i = 0; i < BLOCKED * 4; i++) {
        const struct blocked *b = &blocked[i % BLOCKED];
        tutti_config config = { .size = sizeof config, .timeout_ms = -1 };
        tutti_comm *comm = ranks_join(me, &config);
        if (comm == NULL)
            return;
        struct aborter a = { .comm = comm, .delay_us = 1000 * ranks_below(&me->random, 40) };
        pthread_t thread;
        bool aborts = i % 3 == 2 || i % me->n == me->rank;
        ranks_at(me, "n %d rank %d: aborted in %s", me->n, me->rank, b->name);
        if (aborts)
            pthread_create(&thread, NULL, abort_later, &a);
        expect_status(me, b->name, b->call(me, comm), TUTTI_ABORTED);
        if (aborts)
            pthread_join(thread, NULL);
        ranks_ok(me, aborts ? a.status : TUTTI_OK, "abort");
        tutti_error error = ranks_same_error(me, comm, TUTTI_ABORTED, "aborted by rank");
        ranks_expect(me, i % 3 == 2 || error.rank == i % me->n, "rank %d aborted", error.rank);
        ranks_ok(me, tutti_comm_abort(comm), "a second abort");
        ranks_same_error(me, comm, TUTTI_ABORTED, error.text);
        ranks_part(me, comm);
    }
}

Test(api_faults, abort_wakes_every_wait)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = aborted });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = aborted });
}

/* The first cause stays: an abort does not overwrite it, nor does a death. */
static void first_cause(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t values[2] = { 1, 1 };
    if (comm == NULL)
        return;
    ranks_at(me, "rank %d: an abort after a mismatch", me->rank);
    tutti_status status = tutti_all_reduce(
        values, values, me->rank == 1 ? 2 : 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    expect_status(me, "all_reduce", status, TUTTI_MISMATCH);
    ranks_ok(me, tutti_comm_abort(comm), "abort");
    ranks_same_error(me, comm, TUTTI_MISMATCH, "of 1 int32|of 2 int32");
    if (me->rank == 2) {
        atomic_store(&me->world->slots[2].over, true);
        _exit(0);
    }
    ranks_sleep_us(300000);
    expect_status(me, "barrier", tutti_barrier(comm, tutti_no_stream()), TUTTI_MISMATCH);
    ranks_part(me, comm);
}

Test(api_faults, first_cause_stays)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = first_cause });
}

/* One communicator's end leaves the others alone; a call on it from a group ends that group's part only. */
static void others_go_on(struct ranks_me *me)
{
    tutti_comm *first = ranks_join(me, NULL), *second = ranks_join(me, NULL);
    int32_t a = 1, b = 1;
    if (first == NULL || second == NULL)
        return;
    ranks_at(me, "rank %d: a group over an aborted and a sound communicator", me->rank);
    ranks_meet(me);
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_abort(first), "abort");
    ranks_meet(me);
    ranks_expect(me, sum(first, &a) == TUTTI_ABORTED, "all_reduce on the aborted one");
    tutti_group_start();
    expect_status(me, "a call on the aborted one", sum(first, &a), TUTTI_ABORTED);
    sum(second, &b);
    expect_status(me, "group_end", tutti_group_end(), TUTTI_ABORTED);
    ranks_expect(me, b == 1, "the group with an error ran a call");
    ranks_ok(me, sum(second, &b), "all_reduce on the sound one");
    ranks_expect(me, b == me->n, "the sum is %d", b);
    ranks_part(me, first);
    ranks_ok(me, sum(second, &b), "all_reduce after the end of the other");
    ranks_part(me, second);
}

Test(api_faults, other_communicators_go_on)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = others_go_on });
}
