/* test_bootstrap.c: ranks that meet, and jobs that cannot: each failure must reach every rank, with one text
 * that names who and why, and leave nothing behind. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

#include "meeting.h"

static void meet_forked(int n, int rounds)
{
    tutti_id id;
    pid_t children[160];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < n; r++) {
        struct call c = call_for(&id, n, r);
        c.rounds = rounds;
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
        calls[r].rounds = 20;
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
        calls[r].rounds = 2;
    }
    run_threads(calls, 3);
    for (int r = 0; r < 3; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
}

/* All failed with this status and the same text, in which each of these words stands. */
static void expect_failure(const struct call *calls, int count, tutti_status status, const char *const *words)
{
    for (int i = 0; i < count; i++) {
        cr_expect_eq(calls[i].status, status, "call %d: %d, %s", i, calls[i].status, calls[i].text);
        cr_expect_str_eq(calls[i].text, calls[0].text);
        for (int w = 0; words[w]; w++)
            cr_expect(strstr(calls[i].text, words[w]), "\"%s\" is not in \"%s\"", words[w], calls[i].text);
    }
}
#define WORDS(...) ((const char *const[]){ __VA_ARGS__, NULL })

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

/* The verdict for one that has entered and said hello. */
static struct call call_of(const tutti_id *id, int socket)
{
    struct call c = { .right = false };
    struct tt_verdict verdict = stranger_verdict(socket, id);
    c.status = verdict.status;
    memcpy(c.text, verdict.text, sizeof c.text);
    close(socket);
    return c;
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
            c.rounds = round % 2 * 4;
            run_call(&c);
            _exit(right && c.status == TUTTI_OK && c.right ? 0 : 1);
        }
        cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
        for (int i = 0; i < 3; i++) {
            struct call c = call_for(&id, 4, i + 1);
            c.rounds = round % 2 * 4;
            others[i] = fork_call(c);
        }
        cr_expect(ended_well(maker));
        for (int i = 0; i < 3; i++)
            cr_expect(ended_well(others[i]));
        close(made[0]);
        close(made[1]);
    }
}

/* From now on this process can open so many descriptors more. */
static void limit_descriptors(int spare)
{
    int fds[8] = { 0 };
    for (int i = 0; i < spare; i++)
        fds[i] = dup(0);
    struct rlimit limit = { (rlim_t)fds[spare - 1] + 1, (rlim_t)fds[spare - 1] + 1 };
    for (int i = 0; i < spare; i++)
        close(fds[i]);
    setrlimit(RLIMIT_NOFILE, &limit);
}

Test(bootstrap, rank_out_of_descriptors_is_told_to_all)
{
    tutti_id id;
    pid_t child;
    struct call calls[7];
    int before = count_entries("/proc/self/fd");
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    child = fork();
    if (child == 0) {
        struct call c = call_for(&id, 8, 7);
        /* Its socket, and not all that are to come. */
        limit_descriptors(5);
        run_call(&c);
        _exit(c.status == TUTTI_SYSTEM_ERROR && strstr(c.text, "ulimit -n") ? 0 : 1);
    }
    for (int r = 0; r < 7; r++)
        calls[r] = call_for(&id, 8, r);
    run_threads(calls, 7);
    cr_expect(ended_well(child));
    expect_failure(calls, 7, TUTTI_SYSTEM_ERROR, WORDS("rank 7 cannot hold the", "ulimit -n"));
    cr_expect(settles("/proc/self/fd", before), "what had come was not closed");
}

/* A process that makes an id and can then open only so many descriptors more. In a place of its own, where
 * nobody looks whether it is still alive, for that would take one. */
static pid_t fork_maker(struct place *place, tutti_id *id, int spare)
{
    int made[2];
    place_open(place);
    cr_assert_eq(pipe(made), 0);
    pid_t maker = fork();
    if (maker == 0) {
        bool right = tt_bootstrap_create(id, PATIENCE_MS) == TUTTI_OK;
        limit_descriptors(spare);
        if (right && write(made[1], id, sizeof *id) == sizeof *id)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(made[0], id, sizeof *id), sizeof *id);
    close(made[0]);
    close(made[1]);
    return maker;
}

static void end_maker(const struct place *place, pid_t maker)
{
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    place_close(place);
}

/* It can accept a connection, and then not what comes by it. */
Test(bootstrap, maker_that_cannot_hold_descriptors_is_named)
{
    tutti_id id;
    struct place place;
    pid_t maker = fork_maker(&place, &id, 1);
    struct call c = call_for(&id, 2, 0);
    run_call(&c);
    expect_failure(&c, 1, TUTTI_SYSTEM_ERROR, WORDS("made the id cannot hold the descriptors", "ulimit -n"));
    end_maker(&place, maker);
}

/* The third rank cannot be let in, so the two that are there are told. */
Test(bootstrap, maker_that_cannot_accept_is_named)
{
    tutti_id id;
    struct place place;
    int sockets[3];
    struct call calls[2];
    pid_t maker = fork_maker(&place, &id, 2);
    for (int r = 0; r < 2; r++) {
        sockets[r] = stranger_enter(&id, r);
        stranger_hello(sockets[r], &id, 3);
    }
    sockets[2] = stranger_connect(&id);
    for (int r = 0; r < 2; r++)
        calls[r] = call_of(&id, sockets[r]);
    expect_failure(calls, 2, TUTTI_SYSTEM_ERROR, WORDS("cannot take in more ranks", "ulimit -n"));
    cr_expect(turned_away(sockets[2]));
    close(sockets[2]);
    end_maker(&place, maker);
}

Test(bootstrap, maker_with_just_enough_descriptors_suffices)
{
    tutti_id id;
    struct place place;
    struct tt_id read;
    struct tt_frame frame;
    uint8_t head[TT_FRAME_BYTES];
    int sockets[2];
    pid_t maker = fork_maker(&place, &id, 2);
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
    for (int r = 0; r < 2; r++) {
        sockets[r] = stranger_enter(&id, r);
        stranger_hello(sockets[r], &id, 2);
    }
    for (int r = 0; r < 2; r++) {
        cr_expect(stranger_hear(sockets[r], head, sizeof head));
        cr_expect(tt_frame_read(head, read.session, &frame) && frame.kind == TT_FRAME_MEMBERS);
        close(sockets[r]);
    }
    end_maker(&place, maker);
}

/* A user without privileges may have `ulimit -n` descriptors under way in all sockets together. Here ranks
 * that read nothing hold up more than that, and the root has to wait (for their end, in this case) and must
 * not take a limit for a failure. */
static int meet_behind_a_jam(void)
{
    enum { IDLE = 30, CALLS = 6, ALL = IDLE + CALLS };
    tutti_id id;
    struct place place;
    struct call calls[CALLS];
    int made[2], sockets[IDLE], right = 0;
    if ((geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) || pipe(made) != 0)
        return 1;
    place_open(&place);
    pid_t maker = fork();
    if (maker == 0) {
        struct rlimit limit = { 80, 80 };
        setrlimit(RLIMIT_NOFILE, &limit);
        if (tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    if (read(made[0], &id, sizeof id) != sizeof id)
        return 2;
    for (int i = 0; i < IDLE; i++) {
        sockets[i] = stranger_enter(&id, i);
        stranger_hello(sockets[i], &id, ALL);
    }
    for (int i = 0; i < CALLS; i++) {
        calls[i] = call_for(&id, ALL, IDLE + i);
        start_call(&calls[i]);
    }
    tt_sleep_ms(200);
    for (int i = 0; i < IDLE; i++)
        close(sockets[i]);
    for (int i = 0; i < CALLS; i++) {
        pthread_join(calls[i].thread, NULL);
        right +=
            calls[i].status == TUTTI_PEER_LOST && strstr(calls[i].text, "was lost before all 36") != NULL;
    }
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    place_close(&place);
    return right == CALLS ? 0 : 3;
}

Test(bootstrap, descriptors_under_way_are_waited_for)
{
    pid_t child = fork();
    if (child == 0)
        _exit(meet_behind_a_jam());
    cr_expect(ended_well(child));
}

/* Rank 2 has gone its own way after one exchange of four. */
Test(bootstrap, rank_that_leaves_a_session_is_named)
{
    tutti_id id;
    struct call calls[3];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < 3; r++) {
        calls[r] = call_for(&id, 3, r);
        calls[r].rounds = r == 2 ? 1 : 4;
    }
    run_threads(calls, 3);
    cr_expect(calls[2].status == TUTTI_OK && calls[2].right);
    expect_failure(calls, 2, TUTTI_PEER_LOST, WORDS("rank 2"));
}

static struct tt_session *open_session(const tutti_id *id, int n, int rank, int64_t timeout_ms)
{
    struct tt_member mine = { .fds = { -1, -1 } }, members[4];
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
    struct tt_member mine = { .fds = { -1, -1 } }, members[1];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    cr_expect_eq(tt_bootstrap_meet(&id, 0, 0, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_bootstrap_meet(&id, 1, 1, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    cr_expect_eq(tt_bootstrap_meet(&id, 1, -1, &mine, 100, members, NULL), TUTTI_INVALID_ARGUMENT);
    struct tt_session *session = open_session(&id, 1, 0, PATIENCE_MS);
    cr_assert(session);
    cr_expect_eq(tt_session_exchange(session, &mine, 0, members), TUTTI_INVALID_ARGUMENT);
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
        { 6, 1, TUTTI_UNSUPPORTED, "flags 1" }, { 7, 0, TUTTI_INVALID_ARGUMENT, "0 addresses" },
        { 7, 5, TUTTI_INVALID_ARGUMENT, "5 addresses" }, { 8, 0xee, TUTTI_PEER_LOST, "secret" }, /* session */
        { 16, 0xee, TUTTI_PEER_LOST, "secret" }, { 48, 7, TUTTI_UNSUPPORTED, "no address" }, /* family */
        { 50, 7, TUTTI_UNSUPPORTED, "no address" }, /* place */
        { 52, 0xee, TUTTI_PEER_LOST, "nobody answers" }, /* token */
    };
    struct tt_member mine = { .fds = { -1, -1 } }, members[1];
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
