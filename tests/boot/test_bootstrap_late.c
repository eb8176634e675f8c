/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_late.c: processes that come when a job is full, or has failed: they hear why there is no
 * place for them, and the ranks hear nothing of them. */
#include <criterion/criterion.h>

#include "bootstrap/bootstrap_session.h"
#include "meeting.h"

struct guest {
    const tutti_id *id;
    struct tt_session *session;
    pthread_t thread;
};

static void *be_rank_1(void *argument)
{
    struct guest *g = argument;
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[2];
    if (tt_bootstrap_meet(g->id, 2, 1, &mine, PATIENCE_MS, members, &g->session) != TUTTI_OK)
        g->session = NULL;
    return NULL;
}

/* The two ranks of a job have met, and go on with their exchanges. */
static struct tt_session *meet(struct guest *other)
{
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[2];
    struct tt_session *session = NULL;
    cr_assert_eq(pthread_create(&other->thread, NULL, be_rank_1, other), 0);
    cr_assert_eq(tt_bootstrap_meet(other->id, 2, 0, &mine, PATIENCE_MS, members, &session), TUTTI_OK);
    pthread_join(other->thread, NULL);
    cr_assert(session && other->session);
    return session;
}

static void *exchange_once(void *session)
{
    uint8_t mine[8] = { 1 }, all[16];
    return tt_session_exchange(session, mine, sizeof mine, all) == TUTTI_OK ? session : NULL;
}

Test(bootstrap_late, process_too_many_is_told_and_disturbs_nobody)
{
    tutti_id id;
    struct guest other = { .id = &id };
    uint8_t mine[8] = { 0 }, all[16];
    void *exchanged;
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    struct tt_session *session = meet(&other);
    struct call twice = call_for(&id, 2, 1), larger = call_for(&id, 3, 2);
    run_call(&twice);
    expect_failure(
        &twice, 1, TUTTI_INVALID_ARGUMENT, WORDS("rank 1 came twice: all 2 ranks had come by then"));
    /* One of them in the midst of an exchange, and with a stranger who says nothing and goes. */
    cr_assert_eq(pthread_create(&other.thread, NULL, exchange_once, other.session), 0);
    close(stranger_connect(&id));
    run_call(&larger);
    expect_failure(
        &larger, 1, TUTTI_INVALID_ARGUMENT, WORDS("rank 2 says n = 3, after all ranks of a job of n = 2"));
    int socket = stranger_enter(&id, 7);
    stranger_hello(socket, &id, 2);
    struct call outside = call_of(&id, socket);
    expect_failure(&outside, 1, TUTTI_INVALID_ARGUMENT, WORDS("rank 7 says n = 2"));
    cr_expect_eq(tt_session_exchange(session, mine, sizeof mine, all), TUTTI_OK, "%s", tt_last_error());
    pthread_join(other.thread, &exchanged);
    cr_expect(exchanged);
    tt_session_close(session);
    tt_session_close(other.session);
}

/* The ranks have gone already. They are waited for a second only, so on a busy machine not each time. */
Test(bootstrap_late, process_after_the_ranks_have_gone_is_told)
{
    bool told = false;
    int before = count_entries("/proc/self/task");
    for (int tries = 0; tries < 20 && !told; tries++) {
        tutti_id id;
        struct guest other = { .id = &id };
        cr_assert(settles("/proc/self/task", before));
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
        tt_session_close(meet(&other));
        tt_session_close(other.session);
        struct call c = call_for(&id, 2, 0);
        run_call(&c);
        told = c.status == TUTTI_INVALID_ARGUMENT && strstr(c.text, "rank 0 came twice");
        cr_expect(told || strstr(c.text, "with another process as rank 0"), "%s", c.text);
    }
    cr_expect(told);
    cr_expect(settles("/proc/self/task", before), "it stays for good");
}

/* However many jobs a process begins and ends, no more than one thread is left of them, but for those that
 * are about to end, which may be more in one of the tries. */
Test(bootstrap_late, one_thread_of_a_process_stays)
{
    enum { JOBS = 50, ENDING = 8 };
    int before = count_entries("/proc/self/task"), threads = JOBS;
    for (int tries = 0; tries < 20 && threads > before + ENDING; tries++) {
        for (int i = 0; i < JOBS; i++) {
            tutti_id id;
            struct guest other = { .id = &id };
            cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
            tt_session_close(meet(&other));
            tt_session_close(other.session);
        }
        threads = count_entries("/proc/self/task");
    }
    cr_expect_leq(threads, before + ENDING);
    cr_expect(settles("/proc/self/task", before));
}

/* A job of three to which one came twice, so three hellos were heard: the third rank is still to come. It,
 * too, is waited for a second only. */
Test(bootstrap_late, last_rank_of_a_failed_job_hears_the_cause)
{
    bool told = false;
    for (int tries = 0; tries < 20 && !told; tries++) {
        tutti_id id;
        struct call calls[4];
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
        for (int i = 0; i < 4; i++)
            calls[i] = call_for(&id, 3, i == 3 ? 2 : i % 2);
        run_threads(calls, 3);
        expect_failure(calls, 3, TUTTI_INVALID_ARGUMENT, WORDS("rank 0 came twice"));
        run_call(&calls[3]);
        told = strcmp(calls[3].text, calls[0].text) == 0;
        cr_expect(told || calls[3].status == TUTTI_PEER_LOST, "%s", calls[3].text);
    }
    cr_expect(told);
}

/* The process of rank 0 has its error and exits; who comes then is told, and the exit waits for nobody
 * else. */
static int fail_and_exit(const tutti_id *id, int ready)
{
    struct tt_verdict refusal = { TUTTI_DEVICE_ERROR, "the moon is full" };
    struct call c = call_for(id, 3, 0);
    start_call(&c);
    tt_set_last_error(refusal.text);
    tt_bootstrap_refuse(id, 3, 1, PATIENCE_MS, refusal.status);
    pthread_join(c.thread, NULL);
    if (write(ready, "", 1) != 1)
        abort();
    exit(c.status == TUTTI_DEVICE_ERROR ? 0 : 1);
}

Test(bootstrap_late, exit_waits_for_who_is_to_be_told)
{
    int ready[2], passed[2];
    char byte;
    tutti_id id;
    cr_assert(pipe(ready) == 0 && pipe(passed) == 0);
    pid_t child = fork();
    if (child == 0) {
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
        cr_assert_eq(write(passed[1], &id, sizeof id), (ssize_t)sizeof id);
        fail_and_exit(&id, ready[1]);
    }
    cr_assert_eq(read(passed[0], &id, sizeof id), (ssize_t)sizeof id);
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    tt_sleep_ms(100); /* by now it would have exited */
    struct call c = call_for(&id, 3, 2);
    int64_t began_ns = tt_now_ns();
    run_call(&c);
    expect_failure(&c, 1, TUTTI_DEVICE_ERROR, WORDS("rank 1 cannot take part: the moon is full"));
    cr_expect(ended_well(child));
    cr_expect_lt(tt_now_ns() - began_ns, INT64_C(4500) * 1000000, "the exit waits for more");
}
