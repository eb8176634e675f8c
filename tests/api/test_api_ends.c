/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_ends.c: how a rank comes to an end with a communicator without waiting for others: flush,
 * finalize_within, release; and how a thread comes to an end with a group: cancel. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/ranks.h"
#include "tutti.h"

TestSuite(api_ends, .timeout = 120);

static void pause_ms(int ms)
{
    struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

/* A flag in what the ranks share. */
static _Atomic int *flag(struct ranks_me *me)
{
    return (_Atomic int *)me->shared;
}

static void await_flag(struct ranks_me *me, int value)
{
    while (*flag(me) < value)
        pause_ms(1);
}

/* --- flush */

static void flush_waits_for_own_calls(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream stream;
    float x = (float)me->rank + 1;
    ranks_ok(me, tutti_stream_create(&stream), "stream_create");
    ranks_ok(me, tutti_comm_flush(comm, 0), "flush of nothing");
    if (me->rank == 1) /* rank 0 has seen that it is not over */
        await_flag(me, 1);
    ranks_ok(me, tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, stream), "all_reduce");
    if (me->rank == 0) {
        ranks_expect(me, tutti_comm_flush(comm, 0) == TUTTI_IN_PROGRESS, "a look says that it is over");
        ranks_expect(me, tutti_comm_flush(comm, 30) == TUTTI_IN_PROGRESS, "30 ms, and it is over");
        *flag(me) = 1;
    }
    ranks_ok(me, tutti_comm_flush(comm, -1), "flush");
    ranks_expect(me, x == 3, "%g, not 3", (double)x);
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, flush_waits_for_own_calls)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(
            &(struct ranks_plan){ .n = 2, .kind = (enum ranks_kind)kind, .run = flush_waits_for_own_calls });
}

static void flush_tells_a_failure(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream stream;
    float x = 1;
    ranks_ok(me, tutti_stream_create(&stream), "stream_create");
    if (me->rank == 0) {
        ranks_ok(me, tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, stream), "all_reduce");
        *flag(me) = 1;
        ranks_expect(
            me, tutti_comm_flush(comm, -1) == TUTTI_ABORTED, "flush: %s", tutti_get_last_error(comm));
    } else {
        await_flag(me, 1);
        ranks_ok(me, tutti_comm_abort(comm), "abort");
    }
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, flush_tells_a_failure)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = flush_tells_a_failure });
}

/* --- finalize_within: all ranks of one thread, which no waiting call could finalize. */

enum { MANY = 3 };

static void finalize_many(struct ranks_me *me)
{
    tutti_comm *comms[MANY];
    tutti_status last = TUTTI_IN_PROGRESS;
    float x = 1;
    ranks_ok(me, tutti_comm_init_all(MANY, NULL, NULL, comms), "init_all");
    for (int r = 0; r < MANY - 1; r++)
        for (int again = 0; again < 2; again++)
            ranks_expect(me, tutti_comm_finalize_within(comms[r], 0) == TUTTI_IN_PROGRESS,
                "rank %d is finalized before rank %d has called it", r, MANY - 1);
    ranks_expect(me, tutti_barrier(comms[0], tutti_no_stream()) == TUTTI_INVALID_USAGE, "a call after it");
    ranks_expect(me, tutti_comm_finalize_within(comms[0], 20) == TUTTI_IN_PROGRESS, "20 ms, and it is over");
    for (int r = MANY - 1; r >= 0; r--)
        while ((last = tutti_comm_finalize_within(comms[r], r == 0 ? -1 : 1)) == TUTTI_IN_PROGRESS)
            pause_ms(1);
    ranks_ok(me, last, "finalize_within");
    ranks_ok(me, tutti_comm_finalize(comms[1]), "finalize of what is finalized so");
    ranks_expect(me, tutti_send(&x, 1, TUTTI_FLOAT32, 1, comms[0], tutti_no_stream()) == TUTTI_INVALID_USAGE,
        "a send after it");
    for (int r = 0; r < MANY; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "destroy");
}

Test(api_ends, one_thread_finalizes_all_its_ranks)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .kind = RANKS_PROCESSES, .run = finalize_many });
}

/* Who gives up finalizing ends the communicator for the others, who still wait. */
static void finalize_twice(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    ranks_ok(me, tutti_comm_finalize(comm), "finalize");
    ranks_ok(me, tutti_comm_finalize_within(comm, 0), "finalize_within of what is finalized");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, what_is_finalized_need_not_be_again)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = finalize_twice });
}

static void finalize_given_up(struct ranks_me *me)
{
    tutti_comm *comms[2];
    ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all");
    ranks_expect(me, tutti_comm_finalize_within(comms[0], 0) == TUTTI_IN_PROGRESS, "it does not wait");
    ranks_ok(me, tutti_comm_destroy(comms[0]), "destroy");
    ranks_expect(
        me, tutti_comm_finalize_within(comms[1], -1) == TUTTI_ABORTED, "%s", tutti_get_last_error(comms[1]));
    ranks_ok(me, tutti_comm_destroy(comms[1]), "destroy");
}

Test(api_ends, who_gives_up_finalizing_ends_it)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .kind = RANKS_PROCESSES, .run = finalize_given_up });
}

/* --- release */

/* Rank 0 is through at once, and releases; the others go on among themselves, and take what it sent late. */
static void release_harms_nobody(struct ranks_me *me)
{
    enum { WORDS = 50000 };
    static float sent[WORDS];
    tutti_comm *comm = ranks_join(me, NULL);
    float *got = calloc(WORDS, sizeof *got), x = 1; /* too much for the stack that musl gives a thread */
    for (int i = 0; i < WORDS; i++)
        sent[i] = (float)i;
    if (me->rank == 0) {
        tutti_stream stream;
        ranks_ok(me, tutti_stream_create(&stream), "stream_create");
        ranks_ok(me, tutti_send(sent, WORDS, TUTTI_FLOAT32, 1, comm, stream), "send");
        ranks_ok(me, tutti_comm_release(comm, -1), "release");
        ranks_expect(me, tutti_comm_rank(comm) == -1, "the handle lives");
        *flag(me) = 1;
        await_flag(me, 3);
        ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
        free(got);
        return;
    }
    await_flag(me, 1);
    pause_ms(60); /* longer than a nap of who keeps it */
    if (me->rank == 1)
        ranks_ok(me, tutti_recv(got, WORDS, TUTTI_FLOAT32, 0, comm, tutti_no_stream()), "recv");
    ranks_expect(me, me->rank != 1 || memcmp(got, sent, sizeof sent) == 0, "other bytes came");
    tutti_group_start();
    ranks_ok(me, tutti_send(&x, 1, TUTTI_FLOAT32, 3 - me->rank, comm, tutti_no_stream()), "send");
    ranks_ok(me, tutti_recv(got, 1, TUTTI_FLOAT32, 3 - me->rank, comm, tutti_no_stream()), "recv");
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_ok(me, tutti_comm_state(comm), "state");
    ++*flag(me);
    ranks_ok(me, tutti_comm_release(comm, 1000), "release");
    free(got);
}

Test(api_ends, release_harms_nobody)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(&(struct ranks_plan){ .n = 3, .kind = (enum ranks_kind)kind, .run = release_harms_nobody });
}

/* Its calls on streams are not given up, however short it lingers. */
static void release_finishes_calls(struct ranks_me *me)
{
    enum { WORDS = 3 << 20 };
    tutti_comm *comm = ranks_join(me, NULL);
    float *x = calloc(WORDS, sizeof *x);
    if (me->rank == 0) {
        tutti_stream stream;
        ranks_ok(me, tutti_stream_create(&stream), "stream_create");
        for (int i = 0; i < WORDS; i++)
            x[i] = (float)i;
        ranks_ok(me, tutti_send(x, WORDS, TUTTI_FLOAT32, 1, comm, stream), "send");
        ranks_ok(me, tutti_comm_release(comm, 0), "release");
        *flag(me) = 1;
        ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy"); /* waits for the send */
    } else {
        await_flag(me, 1);
        pause_ms(150);
        ranks_ok(me, tutti_recv(x, WORDS, TUTTI_FLOAT32, 0, comm, tutti_no_stream()), "recv");
        ranks_expect(me, x[WORDS - 1] == WORDS - 1, "the last is %g", (double)x[WORDS - 1]);
        ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    }
    free(x);
}

Test(api_ends, release_finishes_calls)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = release_finishes_calls });
}

/* Those that finalize need not know that others have released their ends. */
static void finalize_with_released(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    float x = 1;
    if (me->rank < 2) {
        ranks_ok(me, tutti_comm_release(comm, -1), "release");
        ++*flag(me);
        await_flag(me, 4);
        return;
    }
    await_flag(me, 2);
    pause_ms(me->rank == 2 ? 400 : 0); /* longer than a look for what is wrong takes */
    ranks_ok(me, tutti_comm_finalize(comm), "finalize");
    ranks_expect(
        me, tutti_send(&x, 1, TUTTI_FLOAT32, 0, comm, tutti_no_stream()) == TUTTI_INVALID_USAGE, "a send");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    ++*flag(me);
}

Test(api_ends, who_finalizes_need_not_know_who_releases)
{
    for (int kind = RANKS_PROCESSES; kind <= RANKS_TOGETHER; kind++)
        ranks_run(
            &(struct ranks_plan){ .n = 4, .kind = (enum ranks_kind)kind, .run = finalize_with_released });
}

/* But of one whose end has gone they are told; nor do they hang when another rank still wants something of
 * one that is there. */
static void finalize_in_vain(struct ranks_me *me)
{
    bool gone = me->context != NULL;
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_status status = TUTTI_OK;
    float x = 1;
    if (me->rank == 0) {
        ranks_ok(me, tutti_comm_release(comm, gone ? 0 : -1), "release");
        *flag(me) = 1;
        await_flag(me, 3);
        return;
    }
    await_flag(me, 1);
    pause_ms(me->rank == 2 ? 300 : 100); /* rank 0 has looked, and sees rank 1 in the barrier */
    if (me->rank == 1 || gone)
        status = tutti_comm_finalize(comm);
    else
        status = tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_PEER_LOST, "%d: %s", (int)status, tutti_get_last_error(comm));
    ++*flag(me);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, who_finalizes_in_vain_is_told)
{
    for (int gone = 0; gone < 2; gone++)
        ranks_run(&(struct ranks_plan){ .n = 3,
            .kind = RANKS_PROCESSES,
            .run = finalize_in_vain,
            .limit_s = 30,
            .context = gone ? "gone" : NULL });
}

/* Who calls what a released rank has not called is told so, and need not wait until its end has gone. */
static void release_is_told(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    float x = 1;
    bool message = me->context != NULL;
    if (me->rank == 0) {
        ranks_ok(me, tutti_comm_release(comm, -1), "release");
        *flag(me) = 1;
        await_flag(me, 2);
        return;
    }
    await_flag(me, 1);
    tutti_status status =
        message ? tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, tutti_no_stream())
                : tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_PEER_LOST, "%s", tutti_get_last_error(comm));
    ranks_expect(me, strstr(tutti_get_last_error(comm), "rank 0") != NULL, "%s", tutti_get_last_error(comm));
    *flag(me) = 2;
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, a_call_that_a_released_rank_has_not_made_fails)
{
    for (int message = 0; message < 2; message++)
        for (int kind = RANKS_PROCESSES; kind <= RANKS_THREADS; kind++)
            ranks_run(&(struct ranks_plan){ .n = 2,
                .kind = (enum ranks_kind)kind,
                .run = release_is_told,
                .context = message ? "message" : NULL });
}

/* An end that lingers goes when its time is over, though its peer lives; and the process waits for no one. */
static void release_lingers(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (me->rank == 0) {
        ranks_ok(me, tutti_comm_release(comm, me->context != NULL ? -1 : 30), "release");
        await_flag(me, me->context != NULL ? 0 : 1);
        return;
    }
    tutti_error error = { .size = sizeof error };
    float x = 1;
    pause_ms(200);
    tutti_status status = tutti_send(&x, 1, TUTTI_FLOAT32, 0, comm, tutti_no_stream());
    if (status == TUTTI_OK)
        status = tutti_recv(&x, 1, TUTTI_FLOAT32, 0, comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_PEER_LOST, "%d", (int)status);
    tutti_comm_get_error(comm, &error);
    ranks_expect(me, strstr(error.text, "destroyed its communicator") != NULL, "%s", error.text);
    *flag(me) = 1;
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, an_end_lingers_as_long_as_it_was_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = release_lingers });
    ranks_run(&(struct ranks_plan){
        .n = 2, .kind = RANKS_PROCESSES, .run = release_lingers, .context = "its process ends" });
}

static int threads(void)
{
    int count = 0;
    DIR *directory = opendir("/proc/self/task");
    while (readdir(directory) != NULL)
        count++;
    closedir(directory);
    return count;
}

static void release_frees(struct ranks_me *me)
{
    int before = threads();
    for (int i = 0; i < 20; i++) {
        tutti_comm *comms[2];
        ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all");
        ranks_ok(me, tutti_comm_release(comms[0], -1), "release");
        ranks_ok(me, tutti_comm_release(comms[1], -1), "release");
    }
    while (threads() > before) /* the one that keeps them ends with the last */
        pause_ms(1);
    pid_t child = fork();
    if (child == 0) { /* has none of them, and may release its own */
        tutti_comm *comms[2];
        bool well = tutti_comm_init_all(2, NULL, NULL, comms) == TUTTI_OK &&
                    tutti_comm_release(comms[0], -1) == TUTTI_OK &&
                    tutti_comm_release(comms[1], -1) == TUTTI_OK;
        _exit(well ? 0 : 1);
    }
    int answer = 1;
    waitpid(child, &answer, 0);
    ranks_expect(me, answer == 0, "the child said %d", answer);
}

Test(api_ends, released_ends_are_freed_and_forks_have_none)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .kind = RANKS_PROCESSES, .run = release_frees });
}

/* --- Arguments */

static void wrong_arguments(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    ranks_expect(me, tutti_comm_flush(comm, -2) == TUTTI_INVALID_ARGUMENT, "flush of -2");
    ranks_expect(me, tutti_comm_finalize_within(comm, -2) == TUTTI_INVALID_ARGUMENT, "finalize_within of -2");
    ranks_expect(me, tutti_comm_release(comm, -2) == TUTTI_INVALID_ARGUMENT, "release of -2");
    ranks_expect(
        me, strstr(tutti_get_last_error(NULL), "linger_ms is -2") != NULL, "%s", tutti_get_last_error(NULL));
    ranks_expect(me, tutti_comm_flush(NULL, 0) == TUTTI_INVALID_ARGUMENT, "flush of NULL");
    ranks_expect(
        me, tutti_comm_finalize_within(NULL, 0) == TUTTI_INVALID_ARGUMENT, "finalize_within of NULL");
    ranks_expect(me, tutti_comm_release(NULL, 0) == TUTTI_INVALID_ARGUMENT, "release of NULL");
    ranks_expect(me, tutti_group_cancel() == TUTTI_INVALID_USAGE, "cancel without a group");
    tutti_group_start();
    ranks_expect(me, tutti_comm_flush(comm, 0) == TUTTI_INVALID_USAGE, "flush in a group");
    ranks_expect(
        me, tutti_comm_finalize_within(comm, 0) == TUTTI_INVALID_USAGE, "finalize_within in a group");
    ranks_expect(me, tutti_comm_release(comm, 0) == TUTTI_INVALID_USAGE, "release in a group");
    ranks_ok(me, tutti_group_cancel(), "group_cancel");
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    ranks_ok(me, tutti_comm_release(comm, 0), "release");
    ranks_expect(me, tutti_comm_release(comm, 0) == TUTTI_INVALID_ARGUMENT, "release twice");
}

Test(api_ends, wrong_arguments)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .kind = RANKS_PROCESSES, .run = wrong_arguments });
}

/* --- cancel */

/* Rank 0 cancels calls, messages too, and then makes others; nobody hears of the first. */
static void cancel_forgets(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    float x = (float)me->rank + 1, other = 7;
    for (int calls = 0; calls < 2 && me->rank == 0; calls++) {
        tutti_group_start();
        tutti_group_start();
        ranks_ok(me, tutti_send(&other, 1, TUTTI_FLOAT32, 1, comm, tutti_no_stream()), "send");
        if (calls == 1)
            ranks_ok(me,
                tutti_all_reduce(&other, &other, 1, TUTTI_FLOAT32, TUTTI_PROD, comm, tutti_no_stream()),
                "all_reduce");
        ranks_ok(me, tutti_group_cancel(), "group_cancel");
        ranks_expect(me, tutti_group_end() == TUTTI_INVALID_USAGE, "the outer group goes on");
    }
    pause_ms(me->rank == 0 ? 1500 : 0); /* more than the time after which a refusal ends a communicator */
    ranks_ok(
        me, tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()), "all_reduce");
    ranks_expect(me, x == 3 && other == 7, "%g, %g", (double)x, (double)other);
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_ends, cancelled_calls_are_forgotten)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = cancel_forgets });
}

static void cancel_tells_of_an_init(struct ranks_me *me)
{
    tutti_comm *comm = NULL;
    tutti_id *id = (tutti_id *)((char *)me->shared + 64);
    if (me->rank == 0) {
        ranks_ok(me, tutti_get_id(id), "get_id");
        *flag(me) = 1;
        ranks_expect(me, tutti_comm_init_rank(2, 0, id, NULL, &comm) == TUTTI_INVALID_USAGE, "init_rank: %s",
            tutti_get_last_error(NULL));
        ranks_expect(
            me, strstr(tutti_get_last_error(NULL), "cancelled") != NULL, "%s", tutti_get_last_error(NULL));
        *flag(me) = 2;
    } else {
        await_flag(me, 1);
        tutti_group_start();
        ranks_ok(me, tutti_comm_init_rank(2, 1, id, NULL, &comm), "init_rank");
        ranks_ok(me, tutti_group_cancel(), "group_cancel");
        await_flag(me, 2);
    }
    ranks_expect(me, comm == NULL, "there is a communicator");
}

Test(api_ends, who_waits_for_a_cancelled_init_is_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_PROCESSES, .run = cancel_tells_of_an_init });
}

/* One that has ended stays as it ended, and a handle that is none is told. */
static void alone_after_the_end(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_comm_abort_local(NULL), TUTTI_INVALID_ARGUMENT, "abort_local", "");
    if (me->rank == 1)
        ranks_ok(me, tutti_comm_abort(comm), "abort");
    ranks_meet(me);
    ranks_ok(me, tutti_comm_abort_local(comm), "abort_local");
    ranks_same_error(me, comm, TUTTI_ABORTED, "aborted by rank 1");
    ranks_part(me, comm);
    ranks_refused(me, tutti_comm_abort_local(comm), TUTTI_INVALID_ARGUMENT, "abort_local", "");
}

Test(api_ends, abort_local_after_the_end)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = alone_after_the_end });
}
