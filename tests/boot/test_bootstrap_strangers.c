/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_strangers.c: whoever connects without knowing the secret, or knowing it talks nonsense. None
 * of it may be believed, none of it may disturb the ranks of the job. */
#include <criterion/criterion.h>

#include "meeting.h"

enum { N = 3 };

static tutti_id make_id(void)
{
    tutti_id id;
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    return id;
}

static void expect_meeting(const tutti_id *id)
{
    struct call calls[N];
    for (int r = 0; r < N; r++)
        calls[r] = call_for(id, N, r);
    run_threads(calls, N);
    for (int r = 0; r < N; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
}

Test(bootstrap_strangers, rank_with_the_wrong_secret_disturbs_nobody)
{
    tutti_id id = make_id(), wrong = id;
    struct call c = call_for(&wrong, N, 1);
    wrong.bytes[16 + 31] ^= 0x80;
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    cr_expect(strstr(c.text, "secret"), "%s", c.text);
    expect_meeting(&id);
}

/* All that the root sends in answer to this proof are zeros, on which no guess of the secret can be tried,
 * and what follows is not believed. */
static void expect_refusal(const tutti_id *id, int socket, const uint8_t *proof)
{
    static const uint8_t zeros[TT_SHA256_BYTES];
    uint8_t answer[TT_SHA256_BYTES];
    stranger_say(socket, proof, TT_SHA256_BYTES);
    stranger_hello(socket, id, N);
    cr_assert(stranger_hear(socket, answer, sizeof answer));
    cr_expect_arr_eq(answer, zeros, sizeof zeros, "the root proves something to a stranger");
    cr_expect(turned_away(socket));
    close(socket);
}

Test(bootstrap_strangers, wrong_proofs_are_refused)
{
    tutti_id id = make_id();
    struct tt_id read;
    struct tt_challenge challenge, other;
    uint8_t proof[TT_SHA256_BYTES];
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);

    int socket = stranger_connect(&id);
    cr_assert(stranger_greet(socket, 0, &challenge));
    memset(proof, 0, sizeof proof);
    expect_refusal(&id, socket, proof);

    /* One bit. */
    socket = stranger_connect(&id);
    cr_assert(stranger_greet(socket, 0, &challenge));
    tt_proof_make(&read, TT_ROLE_RANK, &challenge, proof);
    proof[31] ^= 1;
    expect_refusal(&id, socket, proof);

    /* Proven for one rank, greeted as another. */
    socket = stranger_connect(&id);
    cr_assert(stranger_greet(socket, 0, &challenge));
    challenge.rank = 1;
    tt_proof_make(&read, TT_ROLE_RANK, &challenge, proof);
    expect_refusal(&id, socket, proof);

    /* A good proof, played again to a second connection that greets alike. */
    socket = stranger_connect(&id);
    cr_assert(stranger_greet(socket, 0, &challenge));
    tt_proof_make(&read, TT_ROLE_RANK, &challenge, proof);
    int second = stranger_connect(&id);
    cr_assert(stranger_greet(second, 0, &other));
    cr_expect_arr_neq(challenge.root_nonce, other.root_nonce, TT_NONCE_BYTES);
    expect_refusal(&id, second, proof);
    close(socket);
    expect_meeting(&id);
}

/* Who comes proves first: whoever greets, and says no more, gets a nonce and nothing else. */
Test(bootstrap_strangers, greeting_gets_no_proof)
{
    tutti_id id = make_id();
    struct tt_challenge challenge;
    uint8_t byte;
    int socket = stranger_connect(&id);
    cr_assert(stranger_greet(socket, 0, &challenge));
    shutdown(socket, SHUT_WR);
    cr_expect_eq(recv(socket, &byte, 1, 0), 0, "the root says more than a nonce to a stranger");
    close(socket);
    expect_meeting(&id);
}

/* A rank of an earlier version, which greets otherwise and waits for a proof, need not wait long. */
Test(bootstrap_strangers, earlier_version_is_answered_at_once)
{
    tutti_id id = make_id();
    uint8_t greeting[TT_GREETING_BYTES] = "TUGR", reply[TT_EARLIER_REPLY_BYTES];
    static const uint8_t zeros[sizeof reply];
    int socket = stranger_connect(&id);
    cr_assert(stranger_say(socket, greeting, sizeof greeting));
    cr_assert(stranger_hear(socket, reply, sizeof reply));
    cr_expect_arr_eq(reply, zeros, sizeof zeros);
    cr_expect(turned_away(socket));
    close(socket);
    expect_meeting(&id);
}

/* One that answers at the address of an id that it does not know. */
struct impostor {
    struct tt_listener listener;
    struct tt_id knows; /* in place of the id */
    enum tt_role role;
    ssize_t heard; /* after its proof */
    pthread_t thread;
};

static void *pretend(void *argument)
{
    struct impostor *p = argument;
    struct tt_challenge challenge;
    uint8_t greeting[TT_GREETING_BYTES], proof[TT_SHA256_BYTES], more[4096];
    int s = -1;
    while (s < 0)
        s = accept(p->listener.socket, NULL, NULL);
    if (!stranger_hear(s, greeting, sizeof greeting) || !tt_greeting_read(greeting, &challenge))
        abort();
    memset(challenge.root_nonce, 0x33, TT_NONCE_BYTES);
    stranger_say(s, challenge.root_nonce, TT_NONCE_BYTES);
    if (!stranger_hear(s, proof, sizeof proof))
        abort();
    tt_proof_make(&p->knows, p->role, &challenge, proof);
    stranger_say(s, proof, sizeof proof);
    p->heard = recv(s, more, sizeof more, MSG_WAITALL);
    close(s);
    return NULL;
}

/* What a rank does who meets such a one: the text of its failure, and how much it told. */
static ssize_t meet_impostor(const struct tt_id *id, const struct tt_id *knows, enum tt_role role, char *text)
{
    struct sockaddr_un address;
    struct impostor p = { .knows = *knows, .role = role };
    tutti_id bytes;
    tt_id_write(id, &bytes);
    cr_assert_eq(tt_directory_socket(id->directory, id->token, &address), TUTTI_OK);
    cr_assert_eq(tt_listener_open(&p.listener, &address, NULL), TUTTI_OK);
    cr_assert_eq(pthread_create(&p.thread, NULL, pretend, &p), 0);
    struct call c = call_for(&bytes, 1, 0);
    run_call(&c);
    pthread_join(p.thread, NULL);
    tt_listener_close(&p.listener);
    cr_expect_eq(c.status, TUTTI_PEER_LOST, "%s", c.text);
    strcpy(text, c.text);
    return p.heard;
}

Test(bootstrap_strangers, impostor_is_told_nothing)
{
    struct scratch scratch;
    struct tt_id id = { .session = 5, .secret = "a secret", .token = "a token" }, other = id;
    char text[TT_ERROR_TEXT];
    scratch_open(&scratch);
    cr_assert_eq(tt_directory_choose(&id.directory), TUTTI_OK);
    other.secret[0] ^= 1;
    cr_expect_eq(meet_impostor(&id, &other, TT_ROLE_ROOT, text), 0, "a rank told an impostor something");
    cr_expect(strstr(text, "does not know its secret"), "%s", text);
    other = id;
    other.session++;
    cr_expect_eq(meet_impostor(&id, &other, TT_ROLE_ROOT, text), 0);
    cr_expect(strstr(text, "does not know its secret"), "%s", text);
    /* With the proof of a rank: that rank's own, sent back to it. */
    cr_expect_eq(meet_impostor(&id, &id, TT_ROLE_RANK, text), 0);
    cr_expect(strstr(text, "does not know its secret"), "%s", text);
    scratch_close(&scratch);
}

Test(bootstrap_strangers, listener_that_never_answers_times_out)
{
    struct scratch scratch;
    struct tt_id id = { .session = 6, .token = "another token" };
    struct sockaddr_un address;
    struct tt_listener listener;
    tutti_id bytes;
    scratch_open(&scratch);
    cr_assert_eq(tt_directory_choose(&id.directory), TUTTI_OK);
    tt_id_write(&id, &bytes);
    cr_assert_eq(tt_directory_socket(id.directory, id.token, &address), TUTTI_OK);
    cr_assert_eq(tt_listener_open(&listener, &address, NULL), TUTTI_OK);
    struct call c = call_for(&bytes, 1, 0);
    c.timeout_ms = 100;
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_TIMEOUT);
    cr_expect(strstr(c.text, "within 100 ms"), "%s", c.text);
    tt_listener_close(&listener);
    scratch_close(&scratch);
}

/* So many wait to be accepted that the system takes no more: wait for a place, but not longer than that. */
Test(bootstrap_strangers, full_backlog_is_waited_for)
{
    struct scratch scratch;
    struct tt_id id = { .session = 7, .token = "a third token" };
    struct sockaddr_un address;
    tutti_id bytes;
    int sockets[8], count = 0, listener = socket(AF_UNIX, SOCK_STREAM, 0);
    scratch_open(&scratch);
    cr_assert_eq(tt_directory_choose(&id.directory), TUTTI_OK);
    tt_id_write(&id, &bytes);
    cr_assert_eq(tt_directory_socket(id.directory, id.token, &address), TUTTI_OK);
    cr_assert_eq(bind(listener, (const struct sockaddr *)&address, sizeof address), 0);
    cr_assert_eq(listen(listener, 1), 0);
    do
        sockets[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    while (connect(sockets[count++], (const struct sockaddr *)&address, sizeof address) == 0 && count < 8);
    struct call c = call_for(&bytes, 1, 0);
    c.timeout_ms = 100;
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_TIMEOUT);
    cr_expect(strstr(c.text, "backlog"), "%s", c.text);
    while (count > 0)
        close(sockets[--count]);
    close(listener);
    unlink(address.sun_path);
    scratch_close(&scratch);
}

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* A mebibyte of noise, the beginning of a greeting, noise with a greeting's head, silence, descriptors sent
 * to one who has not asked: while a job meets. */
Test(bootstrap_strangers, noise_disturbs_nobody)
{
    static uint8_t noise[1 << 20];
    uint32_t seed = 1;
    int sockets[5], before = count_entries("/proc/self/fd"), file = make_file(0, 0);
    tutti_id id = make_id();
    for (size_t i = 0; i < sizeof noise; i++)
        noise[i] = (uint8_t)next_random(&seed);
    for (int i = 0; i < 5; i++)
        sockets[i] = stranger_connect(&id);
    stranger_say(sockets[1], noise, sizeof noise);
    stranger_say(sockets[2], "TUG4\0\0\0\0half", 12);
    memcpy(noise, "TUG4", 4);
    stranger_say(sockets[3], noise, sizeof noise);
    for (int i = 0; i < 3; i++)
        tt_wire_send(sockets[4], "TUG4\0\0\0\0", 8, (const int[]){ file, file }, 2);
    expect_meeting(&id);
    for (int i = 0; i < 5; i++)
        close(sockets[i]);
    close(file);
    cr_expect(settles("/proc/self/fd", before));
}

/* Seeded damage at each depth of the conversation: the root must live, and believe none of it. */
Test(bootstrap_strangers, damaged_conversations_disturb_nobody)
{
    tutti_id id = make_id();
    struct tt_id read;
    uint32_t seed = 2;
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
    for (int round = 0; round < 300; round++) {
        struct tt_challenge challenge;
        uint8_t proof[TT_SHA256_BYTES], frame[TT_FRAME_BYTES];
        int socket = stranger_connect(&id);
        bool greeted = stranger_greet(socket, (int)next_random(&seed), &challenge);
        cr_assert(greeted);
        tt_proof_make(&read, TT_ROLE_RANK, &challenge, proof);
        if (round % 3 == 0)
            proof[next_random(&seed) % sizeof proof] ^= (uint8_t)(1 + next_random(&seed) % 255);
        stranger_say(socket, proof, next_random(&seed) % 4 == 0 ? next_random(&seed) % 32 : sizeof proof);
        /* Never a hello that could be meant: a length, a kind or a magic is wrong. */
        tt_frame_write(&(struct tt_frame){ TT_WIRE_LOWEST, TT_WIRE_HIGHEST, TT_FRAME_HELLO,
                           next_random(&seed) % 3 ? UINT32_MAX : 0, read.session },
            frame);
        if (round % 2 == 0)
            frame[next_random(&seed) % 4] ^= 0x40;
        stranger_say(socket, frame, sizeof frame);
        close(socket);
    }
    expect_meeting(&id);
}

/* More silent ones than there are slots for strangers. They go, and those behind them come in. */
Test(bootstrap_strangers, crowd_delays_but_does_not_lock_out)
{
    enum { CROWD = 100 };
    int sockets[CROWD];
    struct call calls[N];
    tutti_id id = make_id();
    for (int i = 0; i < CROWD; i++)
        sockets[i] = stranger_connect(&id);
    for (int r = 0; r < N; r++) {
        calls[r] = call_for(&id, N, r);
        start_call(&calls[r]);
    }
    tt_sleep_ms(100);
    for (int i = 0; i < CROWD; i++)
        close(sockets[i]);
    for (int r = 0; r < N; r++) {
        pthread_join(calls[r].thread, NULL);
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
    }
}

/* The silent one loses its slot long before the job's time is up. */
Test(bootstrap_strangers, silence_is_not_waited_for)
{
    tutti_id id = make_id();
    struct tt_challenge challenge;
    int silent = stranger_connect(&id), greeted = stranger_connect(&id);
    cr_assert(stranger_greet(greeted, 0, &challenge));
    int64_t began_ns = tt_now_ns();
    cr_expect(turned_away(silent));
    cr_expect(turned_away(greeted));
    cr_expect_lt(tt_now_ns() - began_ns, (int64_t)PATIENCE_MS * 1000000 / 2);
    close(silent);
    close(greeted);
    expect_meeting(&id);
}

static struct tt_verdict verdict_for(const tutti_id *id, int socket)
{
    struct tt_verdict verdict = stranger_verdict(socket, id);
    cr_expect(turned_away(socket));
    close(socket);
    return verdict;
}

Test(bootstrap_strangers, other_versions_are_named_to_all)
{
    tutti_id id = make_id();
    struct tt_id read;
    uint8_t frame[TT_FRAME_BYTES];
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
    struct call c = call_for(&id, N, 0);
    int socket = stranger_enter(&id, 2);
    start_call(&c);
    /* A hello of another length: nothing behind the head may be needed to answer it. */
    tt_frame_write(&(struct tt_frame){ 7, 9, TT_FRAME_HELLO, 5, read.session }, frame);
    stranger_say(socket, frame, sizeof frame);
    struct tt_verdict verdict = verdict_for(&id, socket);
    pthread_join(c.thread, NULL);
    cr_expect_eq(verdict.status, TUTTI_MISMATCH);
    cr_expect(strstr(verdict.text, "rank 2 speaks versions 7 to 9"), "%s", verdict.text);
    cr_expect(strstr(verdict.text, "5 to 5"), "%s", verdict.text);
    cr_expect_eq(c.status, TUTTI_MISMATCH);
    cr_expect_str_eq(c.text, verdict.text);
}

Test(bootstrap_strangers, versions_that_overlap_agree)
{
    tutti_id id = make_id();
    struct tt_id read;
    struct tt_frame frame;
    static const uint8_t blob[TT_BLOB_BYTES];
    uint8_t hello[TT_HELLO_BYTES], head[TT_FRAME_BYTES], notice[TT_NOTICE_BYTES];
    cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
    int socket = stranger_enter(&id, 0);
    tt_hello_write(&(struct tt_hello){ 1, -1, 0, blob, blob, true, 0, 0 }, read.session, hello);
    tt_frame_write(
        &(struct tt_frame){ 0, 9, TT_FRAME_HELLO, TT_HELLO_BYTES - TT_FRAME_BYTES, read.session }, hello);
    stranger_say(socket, hello, sizeof hello);
    cr_assert(stranger_hear(socket, notice, sizeof notice));
    cr_assert(tt_frame_read(notice, read.session, &frame));
    cr_expect_eq(frame.kind, TT_FRAME_NOTICE);
    cr_assert(stranger_hear(socket, head, sizeof head));
    cr_assert(tt_frame_read(head, read.session, &frame));
    cr_expect_eq(frame.kind, TT_FRAME_MEMBERS);
    cr_expect_eq(frame.lowest, TT_WIRE_HIGHEST);
    cr_expect_eq(frame.highest, TT_WIRE_HIGHEST);
    cr_expect_eq(frame.length, TT_BLOB_BYTES + TT_ENTRY_BYTES);
    close(socket);
}

/* Proven ranks that are wrong about themselves. */
Test(bootstrap_strangers, impossible_hellos_are_answered)
{
    static const struct {
        int n, rank;
        uint32_t fds;
        tutti_status status;
        const char *words;
    } hellos[] = {
        { 0, 0, 0, TUTTI_INVALID_ARGUMENT, "rank 0 says n = 0" },
        { -5, 0, 0, TUTTI_INVALID_ARGUMENT, "rank 0 says n = -5" },
        { 1 << 30, 0, 0, TUTTI_INVALID_ARGUMENT, "rank 0 says n = 1073741824" },
        { 4, 4, 0, TUTTI_INVALID_ARGUMENT, "rank 4 is outside 0..3" },
        { 4, -1, 0, TUTTI_INVALID_ARGUMENT, "rank -1 is outside 0..3" },
        { 4, 1, 1, TUTTI_MISMATCH, "rank 1 announced descriptors" },
        { 4, 1, 4, TUTTI_MISMATCH, "rank 1 announced descriptors" },
    };
    static const uint8_t blob[TT_BLOB_BYTES];
    for (size_t i = 0; i < sizeof hellos / sizeof hellos[0]; i++) {
        tutti_id id = make_id();
        struct tt_id read;
        uint8_t bytes[TT_HELLO_BYTES];
        cr_assert_eq(tt_id_read(&id, &read), TUTTI_OK);
        int socket = stranger_enter(&id, hellos[i].rank);
        tt_hello_write(&(struct tt_hello){ hellos[i].n, PATIENCE_MS, hellos[i].fds, blob, blob, true, 0, 0 },
            read.session, bytes);
        stranger_say(socket, bytes, sizeof bytes);
        struct tt_verdict verdict = verdict_for(&id, socket);
        cr_expect_eq(verdict.status, hellos[i].status, "%d: %s", verdict.status, verdict.text);
        cr_expect(strstr(verdict.text, hellos[i].words), "%s", verdict.text);
    }
}

/* A rank that speaks while it should wait is treated as one that broke down. */
Test(bootstrap_strangers, rank_that_talks_out_of_turn_is_lost)
{
    tutti_id id = make_id();
    struct call c = call_for(&id, N, 0);
    int socket = stranger_enter(&id, 1);
    stranger_hello(socket, &id, N);
    stranger_hello(socket, &id, N);
    start_call(&c);
    pthread_join(c.thread, NULL);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    cr_expect(strstr(c.text, "rank 1 was lost"), "%s", c.text);
    close(socket);
}

/* It knows the secret, and what it says is of another job. */
Test(bootstrap_strangers, frames_of_another_session_are_refused)
{
    tutti_id id = make_id(), other = id;
    other.bytes[8] ^= 1; /* the session */
    int socket = stranger_enter(&id, 1);
    stranger_hello(socket, &other, N);
    cr_assert(turned_away(socket));
    close(socket);
    expect_meeting(&id);
}

/* More descriptors than a rank may have, from one who has proven itself: all are closed, those that there is
 * room for with the connection. */
Test(bootstrap_strangers, surplus_descriptors_are_closed)
{
    enum { MANY = 100 };
    uint8_t frame[TT_FRAME_BYTES] = "no frame";
    int fds[MANY], before = count_entries("/proc/self/fd"), file = make_file(0, 0);
    tutti_id id = make_id();
    for (int i = 0; i < MANY; i++)
        fds[i] = file;
    for (int each = 1; each <= MANY; each *= 10) {
        int socket = stranger_enter(&id, 1);
        cr_assert_eq(tt_wire_send(socket, frame, sizeof frame, fds, each), (ssize_t)sizeof frame);
        cr_expect(turned_away(socket));
        close(socket);
    }
    expect_meeting(&id);
    close(file);
    cr_expect(settles("/proc/self/fd", before));
}
