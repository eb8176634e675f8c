/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_crowd.c: more strangers than there is room for. They take places and descriptors, and must
 * not take them from the ranks of the job: neither where rank 0 has few descriptors left, nor for long. */
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap_session.h"
#include "bootstrap/bootstrap_root.h"
#include "meeting.h"

enum { N = 3, CROWD = 60 };

/* An id of this test alone, at a port that was free a moment ago. */
static struct tt_id make_agreed(tutti_id *bytes)
{
    struct tt_id id = { .agreed = true, .directory = TT_DIRECTORY_TMP, .count = 1 };
    struct sockaddr_in any = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof any;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(
        bind(s, (struct sockaddr *)&any, size) == 0 && getsockname(s, (struct sockaddr *)&any, &size) == 0);
    close(s);
    id.nets[0] = (struct tt_net){ TT_FAMILY_IPV4, ntohs(any.sin_port), { 127, 0, 0, 1 } };
    tt_random_bytes(&id.session, sizeof id.session);
    tt_random_bytes(id.secret, sizeof id.secret);
    tt_random_bytes(id.token, sizeof id.token);
    cr_assert_eq(tt_directory_make(id.directory), TUTTI_OK);
    tt_id_write(&id, bytes);
    return id;
}

static void limit_files(int spare)
{
    int highest = dup(0), fds[CROWD];
    close(highest);
    for (int i = 0; i < spare; i++)
        highest = fds[i] = dup(0);
    for (int i = 0; i < spare; i++)
        close(fds[i]);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){ (rlim_t)highest + 1, (rlim_t)highest + 1 });
}

/* A process that answers at the id, and can open only so many descriptors more. */
static pid_t fork_root(struct tt_id *id, int spare)
{
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t root = fork();
    if (root == 0) {
        bool right = tt_root_start(id, NULL, PATIENCE_MS) == TUTTI_OK;
        close(ready[0]);
        limit_files(spare);
        if (right && write(ready[1], "", 1) == 1)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return root;
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

/* `spare`: what rank 0's process has left. Some greet, as anybody can. */
static void meet_in_a_flood(int spare)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    int sockets[CROWD];
    pid_t root = fork_root(&id, spare);
    for (int i = 0; i < CROWD; i++) {
        struct tt_challenge challenge = { .rank = i % N };
        uint8_t greeting[TT_GREETING_BYTES];
        sockets[i] = tt_net_connect(&id.nets[0], PATIENCE_MS);
        cr_assert_geq(sockets[i], 0);
        tt_greeting_write(&challenge, greeting);
        if (i % 4 == 0)
            stranger_say(sockets[i], greeting, sizeof greeting);
    }
    expect_meeting(&bytes);
    for (int i = 0; i < CROWD; i++)
        close(sockets[i]);
    kill(root, SIGKILL);
    waitpid(root, NULL, 0);
}

/* Room for what the ranks bring, which is a connection and two descriptors each, and for nobody else. */
Test(bootstrap_crowd, strangers_do_not_end_a_job_short_of_descriptors)
{
    meet_in_a_flood(3 * N);
    meet_in_a_flood(3 * N + 1);
    meet_in_a_flood(40);
}

/* Between a rank's proof and its hello a stranger takes the room that there was for what comes by the hello:
 * the stranger goes, not the rank. */
Test(bootstrap_crowd, stranger_that_comes_before_a_hello_makes_room)
{
    static const uint8_t blob[TT_BLOB_BYTES];
    uint8_t bytes[TT_HELLO_BYTES], head[TT_FRAME_BYTES];
    char held[32];
    tutti_id agreed;
    struct tt_frame frame;
    struct tt_id id = make_agreed(&agreed);
    int fds[TT_BLOB_FDS] = { 0, 0 };
    pid_t root = fork_root(&id, 1 + TT_BLOB_FDS);
    snprintf(held, sizeof held, "/proc/%d/fd", (int)root);
    int before = count_entries(held), rank = stranger_enter(&agreed, 0);
    int stranger = tt_net_connect(&id.nets[0], PATIENCE_MS);
    cr_assert(stranger >= 0 && settles(held, before + 2));
    tt_hello_write(&(struct tt_hello){ 1, PATIENCE_MS, 3, blob, blob, true, 0, 0 }, id.session, bytes);
    cr_assert_eq(tt_wire_send(rank, bytes, sizeof bytes, fds, TT_BLOB_FDS), (ssize_t)sizeof bytes);
    cr_expect(stranger_hear(rank, head, sizeof head));
    cr_expect(tt_frame_read(head, id.session, &frame) && frame.kind == TT_FRAME_MEMBERS);
    cr_expect(turned_away(stranger));
    close(rank);
    close(stranger);
    kill(root, SIGKILL);
    waitpid(root, NULL, 0);
}

/* The program wants to open files, too. Those who connect are of another process, with descriptors of its
 * own. */
static int open_files_in_a_flood(struct tt_id *id)
{
    bool right = tt_root_start(id, NULL, PATIENCE_MS) == TUTTI_OK;
    int used = count_entries("/proc/self/fd");
    limit_files(CROWD);
    pid_t flood = fork();
    if (flood == 0) {
        for (int i = 0; i < CROWD - 4; i++)
            tt_net_connect(&id->nets[0], PATIENCE_MS);
        tt_sleep_ms(PATIENCE_MS);
        _exit(0);
    }
    int64_t deadline_ns = tt_deadline_ns(PATIENCE_MS);
    while (count_entries("/proc/self/fd") < used + CROWD - TT_ROOT_SPARE && tt_now_ns() < deadline_ns)
        tt_sleep_ms(5);
    tt_sleep_ms(100); /* for the rest of them */
    for (int i = 0; i < TT_ROOT_SPARE - 2; i++)
        right = dup(0) >= 0 && right;
    kill(flood, SIGKILL);
    waitpid(flood, NULL, 0);
    return right ? 0 : 1;
}

Test(bootstrap_crowd, strangers_leave_descriptors_to_the_program)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    pid_t child = fork();
    if (child == 0)
        _exit(open_files_in_a_flood(&id));
    cr_expect(ended_well(child));
}

/* Silent ones of this machine. A rank behind all of them does not wait until each has had its whole time,
 * which was five seconds for each 64, so here 20 for four of them. It takes one now, and all the rest is for
 * what a loaded machine adds. */
Test(bootstrap_crowd, silence_that_others_wait_for_is_short)
{
    enum { SILENT = 300 };
    static int sockets[SILENT];
    tutti_id id;
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int i = 0; i < SILENT; i++)
        sockets[i] = stranger_connect(&id);
    int64_t began_ns = tt_now_ns();
    expect_meeting(&id);
    cr_expect_lt(
        tt_now_ns() - began_ns, 3 * TT_ROOT_STRANGER_MS * INT64_C(1000000), "ranks waited for the silent");
    for (int i = 0; i < SILENT; i++)
        close(sockets[i]);
}

/* One that answers at the id, and has no room for the first who come. */
struct doorkeeper {
    struct tt_listener listener;
    struct tt_id id;
    pthread_t thread;
};
enum { DROPPED = 5 };

/* Any process of this user that makes an id looks whether this listener lives: it connects, and closes
 * without a word. The rank is of this process. */
static int next_guest(const struct doorkeeper *d)
{
    for (;;) {
        struct ucred peer = { .pid = 0 };
        socklen_t bytes = sizeof peer;
        struct pollfd p = { d->listener.socket, POLLIN, 0 };
        poll(&p, 1, -1);
        int s = accept(d->listener.socket, NULL, NULL);
        if (s < 0)
            continue;
        if (getsockopt(s, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.pid == getpid())
            return s;
        close(s);
    }
}

static void *let_in_the_last(void *argument)
{
    struct doorkeeper *d = argument;
    struct tt_challenge challenge;
    struct tt_verdict verdict = { TUTTI_UNSUPPORTED, "you may go" };
    uint8_t greeting[TT_GREETING_BYTES], proof[TT_SHA256_BYTES], bytes[TT_HELLO_BYTES];
    for (int i = 0; i < DROPPED; i++) {
        int s = next_guest(d);
        if (i % 2 == 1)
            stranger_hear(s, greeting, sizeof greeting);
        close(s);
    }
    int s = next_guest(d);
    stranger_hear(s, greeting, sizeof greeting);
    tt_greeting_read(greeting, &challenge);
    memset(challenge.root_nonce, 0, TT_NONCE_BYTES);
    stranger_say(s, challenge.root_nonce, TT_NONCE_BYTES);
    stranger_hear(s, proof, sizeof proof);
    tt_proof_make(&d->id, TT_ROLE_ROOT, &challenge, proof);
    stranger_say(s, proof, sizeof proof);
    stranger_hear(s, bytes, TT_HELLO_BYTES);
    tt_verdict_write(&verdict, d->id.session, bytes);
    stranger_say(s, bytes, TT_VERDICT_BYTES);
    close(s);
    return NULL;
}

/* As processes do that make ids meanwhile. */
static void others_look(const struct sockaddr_un *address)
{
    pid_t child = fork();
    if (child == 0) {
        bool dead = false;
        for (int i = 0; i <= DROPPED; i++)
            dead = tt_socket_is_dead(address) || dead;
        _exit(dead ? 1 : 0);
    }
    cr_assert(ended_well(child));
}

Test(bootstrap_crowd, rank_that_was_dropped_comes_again)
{
    struct doorkeeper d = { .id = { .directory = TT_DIRECTORY_TMP } };
    struct sockaddr_un address;
    tutti_id bytes;
    tt_random_bytes(d.id.secret, sizeof d.id.secret);
    tt_random_bytes(d.id.token, sizeof d.id.token);
    tt_id_write(&d.id, &bytes);
    cr_assert_eq(tt_directory_make(d.id.directory), TUTTI_OK);
    cr_assert_eq(tt_directory_socket(d.id.directory, d.id.token, &address), TUTTI_OK);
    cr_assert_eq(tt_listener_open(&d.listener, &address, NULL), TUTTI_OK);
    others_look(&address);
    cr_assert_eq(pthread_create(&d.thread, NULL, let_in_the_last, &d), 0);
    struct call c = call_for(&bytes, 1, 0);
    run_call(&c);
    expect_failure(&c, 1, TUTTI_UNSUPPORTED, WORDS("you may go"));
    pthread_join(d.thread, NULL);
    tt_listener_close(&d.listener);
}
