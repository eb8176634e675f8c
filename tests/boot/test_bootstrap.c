/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap.c: ranks that meet, and jobs that cannot: each failure must reach every rank, with one text
 * that names who and why, and leave nothing behind. */
#include <criterion/criterion.h>
#include <signal.h>

#include "meeting.h"

static void meet_forked(int n, int exchanges)
{
    tutti_id id;
    pid_t children[160];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < n; r++) {
        struct call c = call_for(&id, n, r);
        c.exchanges = exchanges;
        children[r] = fork_call(c);
    }
    for (int r = 0; r < n; r++)
        cr_expect(ended_well(children[r]), "rank %d of %d", r, n);
}

Test(bootstrap, processes_meet)
{
    static const int sizes[] = { 1, 2, 3, 8 };
    for (int i = 0; i < 4; i++)
        meet_forked(sizes[i], 0);
}

Test(bootstrap, processes_meet_and_exchange)
{
    meet_forked(1, 5);
    meet_forked(5, 9);
}

Test(bootstrap, sixty_four_processes_meet)
{
    meet_forked(64, 4);
}

/* 258 for each rank, where a message holds 253. */
Test(bootstrap, descriptors_of_more_than_one_message_come)
{
    meet_forked(160, 0);
}

Test(bootstrap, threads_meet)
{
    enum { N = 8 };
    tutti_id id;
    struct call calls[N];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < N; r++) {
        calls[r] = call_for(&id, N, r);
        calls[r].exchanges = 20;
    }
    run_threads(calls, N);
    for (int r = 0; r < N; r++) {
        cr_expect_eq(calls[r].status, TUTTI_OK, "rank %d: %s", r, calls[r].text);
        cr_expect(calls[r].right, "rank %d", r);
    }
}

/* Never; too long for a deadline; and so long that there is no room for grace behind it. */
Test(bootstrap, threads_that_never_time_out_meet)
{
    const int64_t timeouts_ms[] = { -1, INT64_MAX, (INT64_MAX - tt_now_ns()) / 1000000 - 1000 };
    tutti_id id;
    struct call calls[3];
    cr_assert_eq(tt_bootstrap_create(&id, timeouts_ms[2]), TUTTI_OK);
    for (int r = 0; r < 3; r++) {
        calls[r] = call_for(&id, 3, r);
        calls[r].timeout_ms = timeouts_ms[r];
        calls[r].exchanges = 2;
    }
    run_threads(calls, 3);
    for (int r = 0; r < 3; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
}

Test(bootstrap, disagreement_on_n_is_told_to_all)
{
    tutti_id id;
    struct call calls[4];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < 4; r++)
        calls[r] = call_for(&id, r == 2 ? 5 : 4, r);
    /* The last one comes when all is over, and is told the same. */
    run_threads(calls, 3);
    run_call(&calls[3]);
    expect_failure(calls, 4, TUTTI_INVALID_ARGUMENT, WORDS("rank 2", "n = 5", "n = 4"));
}

Test(bootstrap, rank_that_comes_twice_is_told_to_all)
{
    tutti_id id;
    struct call calls[3];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int i = 0; i < 3; i++)
        calls[i] = call_for(&id, 3, i == 2 ? 1 : i);
    run_threads(calls, 3);
    expect_failure(calls, 3, TUTTI_INVALID_ARGUMENT, WORDS("rank 1 came twice"));
}

Test(bootstrap, missing_rank_is_named)
{
    tutti_id id;
    cr_assert_eq(tt_bootstrap_create(&id, 2000), TUTTI_OK);
    struct call c = call_for(&id, 2, 0);
    run_call(&c);
    expect_failure(&c, 1, TUTTI_TIMEOUT, WORDS("rank 1 did not come within 2000 ms"));
}

/* The shortest patience decides for all, for that rank will be gone. The others have said hello before the
 * impatient one comes, so that no one is late here, however slow the machine. */
static void expect_missing(int n, const int *present, int count, const char *const *words)
{
    tutti_id id;
    int sockets[64];
    struct call calls[64];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int i = 1; i < count; i++) {
        sockets[i] = stranger_enter(&id, present[i]);
        stranger_hello(sockets[i], &id, n);
    }
    calls[0] = call_for(&id, n, present[0]);
    calls[0].timeout_ms = 500;
    run_call(&calls[0]);
    for (int i = 1; i < count; i++)
        calls[i] = call_of(&id, sockets[i]);
    expect_failure(calls, count, TUTTI_TIMEOUT, words);
}

Test(bootstrap, missing_ranks_are_named_to_all)
{
    expect_missing(3, (const int[]){ 0, 1 }, 2, WORDS("rank 2 did not come within 500 ms"));
    expect_missing(8, (const int[]){ 4, 1, 3, 0 }, 4, WORDS("ranks 2, 5-7 did not come within 500 ms"));
}

Test(bootstrap, many_missing_ranks_fit_in_the_text)
{
    int present[50];
    for (int i = 0; i < 50; i++)
        present[i] = 100 + 2 * i;
    expect_missing(250, present, 50, WORDS("ranks 0-99, 101, 103, ", ", ... did not come within 500 ms"));
}

/* Killed once it has said hello: what it said comes before its end, so the root sees a waiting rank die. */
static void fork_and_kill_waiting_rank(const tutti_id *id, int n, int rank)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int socket = stranger_enter(id, rank);
        stranger_hello(socket, id, n);
        if (write(ready[1], "", 1) == 1)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

Test(bootstrap, killed_rank_is_named_to_all_that_wait)
{
    tutti_id id;
    struct call calls[2];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int i = 0; i < 2; i++) {
        calls[i] = call_for(&id, 4, 2 * i);
        start_call(&calls[i]);
    }
    fork_and_kill_waiting_rank(&id, 4, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(calls[i].thread, NULL);
    expect_failure(calls, 2, TUTTI_PEER_LOST, WORDS("rank 1 was lost"));
}

Test(bootstrap, end_of_the_process_that_made_the_id_is_told)
{
    tutti_id id;
    int made[2];
    struct call c;
    cr_assert_eq(pipe(made), 0);
    pid_t maker = fork();
    if (maker == 0) {
        if (tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    c = call_for(&id, 2, 0);
    start_call(&c);
    tt_sleep_ms(100);
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    pthread_join(c.thread, NULL);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    cr_expect(
        strstr(c.text, "the process that made the id") || strstr(c.text, "nobody answers"), "%s", c.text);
    close(made[0]);
    close(made[1]);
}

/* It makes the id, is rank 0, and ends the moment it may: the others must not miss their answers. */
Test(bootstrap, maker_may_leave_at_once)
{
    for (int round = 0; round < 20; round++) {
        tutti_id id;
        int made[2];
        pid_t others[3];
        cr_assert_eq(pipe(made), 0);
        pid_t maker = fork();
        if (maker == 0) {
            bool right = tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK &&
                         write(made[1], &id, sizeof id) == sizeof id;
            struct call c = call_for(&id, 4, 0);
            c.exchanges = round % 2 * 4;
            run_call(&c);
            _exit(right && c.status == TUTTI_OK && c.right ? 0 : 1);
        }
        cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
        for (int i = 0; i < 3; i++) {
            struct call c = call_for(&id, 4, i + 1);
            c.exchanges = round % 2 * 4;
            others[i] = fork_call(c);
        }
        cr_expect(ended_well(maker));
        for (int i = 0; i < 3; i++)
            cr_expect(ended_well(others[i]));
        close(made[0]);
        close(made[1]);
    }
}

/* Rank 2 has gone its own way after one exchange of four. */
Test(bootstrap, rank_that_leaves_a_session_is_named)
{
    tutti_id id;
    struct call calls[3];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < 3; r++) {
        calls[r] = call_for(&id, 3, r);
        calls[r].exchanges = r == 2 ? 1 : 4;
    }
    run_threads(calls, 3);
    cr_expect(calls[2].status == TUTTI_OK && calls[2].right);
    expect_failure(calls, 2, TUTTI_PEER_LOST, WORDS("rank 2"));
}

static struct tt_session *open_session(const tutti_id *id, int n, int rank, int64_t timeout_ms)
{
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[4];
    struct tt_session *session = NULL;
    if (tt_bootstrap_meet(id, n, rank, &mine, timeout_ms, members, &session) != TUTTI_OK)
        return NULL;
    return session;
}

static void *meet_and_leave(void *id)
{
    struct tt_session *session = open_session(id, 2, 1, PATIENCE_MS);
    if (session)
        tt_session_close(session);
    return session;
}

/* It may leave, for nobody needs anything of it; who then begins an exchange is told at once. */
Test(bootstrap, rank_that_left_before_an_exchange_is_named)
{
    tutti_id id;
    pthread_t thread;
    void *met;
    uint8_t mine[4] = { 0 }, all[8];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    cr_assert_eq(pthread_create(&thread, NULL, meet_and_leave, &id), 0);
    struct tt_session *session = open_session(&id, 2, 0, PATIENCE_MS);
    pthread_join(thread, &met);
    cr_assert(session && met);
    tt_sleep_ms(100);
    int64_t began_ns = tt_now_ns();
    cr_expect_eq(tt_session_exchange(session, mine, sizeof mine, all), TUTTI_PEER_LOST);
    cr_expect(strstr(tt_last_error(), "rank 1"), "%s", tt_last_error());
    cr_expect_lt(tt_now_ns() - began_ns, (int64_t)PATIENCE_MS * 1000000 / 2);
    tt_session_close(session);
}

struct late {
    tutti_id id;
    _Atomic bool came;
};

static void *exchange_nothing_late(void *argument)
{
    struct late *late = argument;
    struct tt_session *session = open_session(&late->id, 2, 1, PATIENCE_MS);
    tt_sleep_ms(50);
    late->came = true;
    bool right = session && tt_session_exchange(session, NULL, 0, NULL) == TUTTI_OK;
    if (session)
        tt_session_close(session);
    return right ? late : NULL;
}

Test(bootstrap, exchange_of_nothing_waits_for_all)
{
    struct late late = { .came = false };
    pthread_t thread;
    void *right;
    uint8_t untouched = 7;
    cr_assert_eq(tt_bootstrap_create(&late.id, PATIENCE_MS), TUTTI_OK);
    cr_assert_eq(pthread_create(&thread, NULL, exchange_nothing_late, &late), 0);
    struct tt_session *session = open_session(&late.id, 2, 0, PATIENCE_MS);
    cr_assert(session);
    cr_expect_eq(tt_session_exchange(session, NULL, 0, &untouched), TUTTI_OK, "%s", tt_last_error());
    cr_expect(late.came && untouched == 7);
    pthread_join(thread, &right);
    cr_expect(right);
    tt_session_close(session);
}

struct little {
    tutti_id id;
    int64_t timeout_ms;
    char text[TT_ERROR_TEXT]; /* why the exchange failed */
};

static void *exchange_little(void *argument)
{
    struct little *l = argument;
    uint8_t mine[8] = { 0 }, all[16];
    struct tt_session *session = open_session(&l->id, 2, 1, l->timeout_ms);
    bool failed = !session || tt_session_exchange(session, mine, 4, all) != TUTTI_OK;
    snprintf(l->text, sizeof l->text, "%s", failed ? tt_last_error() : "");
    if (session)
        tt_session_close(session);
    return NULL;
}

/* Rank 1 exchanges 4 bytes, rank 0 another number, or it does not come. */
static void exchange_with_little(struct little *l, uint64_t bytes)
{
    pthread_t thread;
    uint8_t mine[8] = { 0 }, all[16];
    cr_assert_eq(tt_bootstrap_create(&l->id, l->timeout_ms), TUTTI_OK);
    cr_assert_eq(pthread_create(&thread, NULL, exchange_little, l), 0);
    struct tt_session *session = open_session(&l->id, 2, 0, l->timeout_ms);
    cr_assert(session);
    if (bytes > 0)
        cr_expect_lt(tt_session_exchange(session, mine, bytes, all), 0);
    pthread_join(thread, NULL);
    tt_session_close(session);
}

Test(bootstrap, exchange_of_unequal_parts_fails)
{
    struct little l = { .timeout_ms = PATIENCE_MS };
    exchange_with_little(&l, 8);
    cr_expect(strstr(l.text, "exchanges") && strstr(l.text, "bytes, another rank"), "%s", l.text);
}

Test(bootstrap, rank_that_exchanges_nothing_is_named)
{
    struct little l = { .timeout_ms = 2000 };
    exchange_with_little(&l, 0);
    cr_expect(strstr(l.text, "rank 0 did not hand in"), "%s", l.text);
}

Test(bootstrap, illegal_arguments_are_told)
{
    tutti_id id;
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[1];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    cr_expect_eq(tt_bootstrap_meet(&id, 0, 0, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_bootstrap_meet(&id, 1, 1, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_bootstrap_meet(&id, 1, -1, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    struct tt_session *session = open_session(&id, 1, 0, PATIENCE_MS);
    cr_assert(session);
    cr_expect_eq(tt_session_exchange(session, &mine, TT_BLOB_BYTES + 1, members), TUTTI_INVALID_ARGUMENT);
    tt_session_close(session);
}

Test(bootstrap, damaged_ids_are_refused)
{
    static const struct {
        int at;
        uint8_t value;
        tutti_status status;
        const char *word;
    } damages[] = {
        { 0, 'X', TUTTI_INVALID_ARGUMENT, "not an id" }, { 4, 9, TUTTI_UNSUPPORTED, "version 9" },
        { 6, 2, TUTTI_UNSUPPORTED, "flags 2" }, { 7, 0, TUTTI_INVALID_ARGUMENT, "0 addresses" },
        { 7, 5, TUTTI_INVALID_ARGUMENT, "5 addresses" }, { 8, 0xee, TUTTI_PEER_LOST, "secret" }, /* session */
        { 16, 0xee, TUTTI_PEER_LOST, "secret" }, { 48, 7, TUTTI_UNSUPPORTED, "no address" }, /* family */
        { 50, 7, TUTTI_UNSUPPORTED, "no address" }, /* directory */
        { 52, 0xee, TUTTI_PEER_LOST, "nobody answers" }, /* token */
    };
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[1];
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        tutti_id id;
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
        id.bytes[damages[i].at] =
            (uint8_t)(damages[i].value == 0xee ? id.bytes[damages[i].at] ^ 1 : damages[i].value);
        cr_expect_eq(tt_bootstrap_meet(&id, 1, 0, &mine, PATIENCE_MS, members, NULL), damages[i].status,
            "byte %d: %s", damages[i].at, tt_last_error());
        cr_expect(strstr(tt_last_error(), damages[i].word), "byte %d: %s", damages[i].at, tt_last_error());
    }
}

Test(bootstrap, id_has_the_layout_that_is_promised)
{
    tutti_id bytes;
    struct tt_id id, again;
    cr_assert_eq(tt_bootstrap_create(&bytes, 100), TUTTI_OK);
    cr_expect_arr_eq(bytes.bytes, "TUID\1\0\0\1", 8);
    cr_expect_arr_eq(bytes.bytes + 48, "\1\0", 2);
    static const uint8_t zeros[60];
    cr_expect_arr_eq(bytes.bytes + 68, zeros, 60);
    cr_assert_eq(tt_id_read(&bytes, &id), TUTTI_OK);
    cr_expect_eq(id.session, tt_get(bytes.bytes + 8, 8));
    cr_expect_arr_eq(id.secret, bytes.bytes + 16, 32);
    cr_expect_arr_eq(id.token, bytes.bytes + 52, 16);
    cr_assert_eq(tt_bootstrap_create(&bytes, 100), TUTTI_OK);
    cr_assert_eq(tt_id_read(&bytes, &again), TUTTI_OK);
    cr_expect_neq(id.session, again.session);
    cr_expect_arr_neq(id.secret, again.secret, 32);
    cr_expect_arr_neq(id.token, again.token, 16);
}
