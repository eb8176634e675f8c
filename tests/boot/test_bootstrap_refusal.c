/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_refusal.c: ranks that can be no part of their job, and say why: before they have met the
 * others, and in an exchange. All others fail with that, also those that come later. */
#include <criterion/criterion.h>

#include "bootstrap/bootstrap_root.h"
#include "meeting.h"

enum { N = 3 };
#define REASON "the moon is full"

/* A rank that refuses; its own words stay its last error. */
struct refuser {
    const tutti_id *id;
    int n, rank;
    int64_t timeout_ms;
    bool kept;
    pthread_t thread;
};

static void *run_refuser(void *argument)
{
    struct refuser *r = argument;
    tt_fail(TUTTI_UNSUPPORTED, REASON);
    tt_bootstrap_refuse(r->id, r->n, r->rank, r->timeout_ms, TUTTI_UNSUPPORTED);
    r->kept = strcmp(tt_last_error(), REASON) == 0;
    return NULL;
}

static void refuse(const tutti_id *id, int n, int rank)
{
    struct refuser r = { id, n, rank, PATIENCE_MS, false, 0 };
    run_refuser(&r);
    cr_expect(r.kept, "%s", tt_last_error());
}

static tutti_id make_id(void)
{
    tutti_id id;
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    return id;
}

/* Rank 0 waits already, rank 2 comes when all is over. */
Test(bootstrap_refusal, all_ranks_hear_it)
{
    tutti_id id = make_id();
    struct call calls[] = { call_for(&id, N, 0), call_for(&id, N, 2) };
    start_call(&calls[0]);
    tt_sleep_ms(50);
    refuse(&id, N, 1);
    pthread_join(calls[0].thread, NULL);
    run_call(&calls[1]);
    expect_failure(calls, 2, TUTTI_UNSUPPORTED, WORDS("rank 1 cannot take part: " REASON));
}

/* The first of all that come; who comes next is told. */
Test(bootstrap_refusal, first_one_is_remembered)
{
    tutti_id id = make_id();
    struct call calls[2];
    refuse(&id, N, 2);
    for (int r = 0; r < 2; r++)
        calls[r] = call_for(&id, N, r);
    run_threads(calls, 2);
    expect_failure(calls, 2, TUTTI_UNSUPPORTED, WORDS("rank 2 cannot take part: " REASON));
}

/* Nobody is left to come, so nobody is waited for. */
Test(bootstrap_refusal, session_of_refusers_ends)
{
    int before = count_entries("/proc/self/task");
    tutti_id id = make_id();
    for (int r = 0; r < N; r++)
        refuse(&id, N, r);
    int64_t began_ns = tt_now_ns();
    cr_expect(settles("/proc/self/task", before));
    cr_expect_lt(tt_now_ns() - began_ns, INT64_C(4500) * 1000000, "it waits for more");
}

/* It waits for rank 0, as the others do, and no longer than it is to. */
Test(bootstrap_refusal, rank_0_is_waited_for)
{
    struct tt_id id = { .agreed = true, .directory = TT_DIRECTORY_TMP };
    tutti_id bytes;
    tt_random_bytes(id.secret, sizeof id.secret);
    tt_random_bytes(id.token, sizeof id.token);
    cr_assert_eq(tt_directory_make(id.directory), TUTTI_OK);
    tt_id_write(&id, &bytes);
    struct refuser early = { &bytes, N, 1, PATIENCE_MS, false, 0 }, alone = { &bytes, N, 1, 100, false, 0 };
    run_refuser(&alone);
    cr_expect(alone.kept);
    cr_assert_eq(pthread_create(&early.thread, NULL, run_refuser, &early), 0);
    tt_sleep_ms(100);
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    struct call c = call_for(&bytes, N, 0);
    run_call(&c);
    pthread_join(early.thread, NULL);
    cr_expect(early.kept);
    expect_failure(&c, 1, TUTTI_UNSUPPORTED, WORDS("rank 1 cannot take part: " REASON));
}

/* Words that make no sense, and a refusal of a job that is complete, disturb nobody. */
Test(bootstrap_refusal, nonsense_disturbs_nobody)
{
    static const struct {
        tutti_status status;
        int n;
    } cases[] = { { TUTTI_OK, N }, { TUTTI_UNSUPPORTED, 0 }, { TUTTI_UNSUPPORTED, TT_WIRE_RANKS + 1 } };
    tutti_id id = make_id();
    struct tt_id read;
    struct call calls[N];
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t bytes[TT_REFUSAL_BYTES];
        struct tt_verdict verdict = { cases[i].status, REASON };
        int socket = stranger_enter(&id, 1);
        tt_refusal_write(&verdict, cases[i].n, read.session, bytes);
        stranger_say(socket, bytes, sizeof bytes);
        cr_expect(turned_away(socket));
        close(socket);
    }
    for (int r = 0; r < N; r++)
        calls[r] = call_for(&id, N, r);
    run_threads(calls, N);
    for (int r = 0; r < N; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
}

struct member {
    const tutti_id *id;
    int rank;
    bool late; /* it refuses when the others wait */
    tutti_status status;
    char text[TT_ERROR_TEXT];
    pthread_t thread;
};

/* Rank 1 fails between two exchanges. */
static void *exchange_or_refuse(void *argument)
{
    struct member *m = argument;
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[N];
    struct tt_session *session;
    uint8_t part[8] = { 0 }, all[8 * N];
    m->status = tt_bootstrap_meet(m->id, N, m->rank, &mine, PATIENCE_MS, members, &session);
    if (m->status == TUTTI_OK) {
        m->status = tt_session_exchange(session, part, sizeof part, all);
        if (m->status == TUTTI_OK && m->rank == 1) {
            tt_sleep_ms(m->late ? 50 : 0);
            m->status = tt_fail(TUTTI_DEVICE_ERROR, REASON);
            tt_session_refuse(session, m->status);
        } else if (m->status == TUTTI_OK) {
            tt_sleep_ms(m->late ? 0 : 50);
            m->status = tt_session_exchange(session, part, sizeof part, NULL);
        }
        snprintf(m->text, sizeof m->text, "%s", tt_last_error());
        tt_session_close(session);
    }
    return NULL;
}

Test(bootstrap_refusal, failure_between_exchanges_is_told)
{
    for (int late = 0; late < 2; late++) {
        tutti_id id = make_id();
        struct member members[N];
        for (int r = 0; r < N; r++) {
            members[r] = (struct member){ .id = &id, .rank = r, .late = late };
            cr_assert_eq(pthread_create(&members[r].thread, NULL, exchange_or_refuse, &members[r]), 0);
        }
        for (int r = 0; r < N; r++) {
            pthread_join(members[r].thread, NULL);
            cr_expect_eq(members[r].status, TUTTI_DEVICE_ERROR, "rank %d: %s", r, members[r].text);
            cr_expect_str_eq(members[r].text,
                r == 1 ? REASON : "rank 1 could not make its end of the communicator: " REASON);
        }
    }
}
