/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_agreed.c: ids that every rank makes for itself, and the network: ranks that come before rank
 * 0 does, from elsewhere, or without the secret. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "bootstrap/bootstrap_session.h"
#include "bootstrap/bootstrap_root.h"
#include "meeting.h"

enum { N = 3 };

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

static void start_all(struct call *calls, const tutti_id *id)
{
    for (int r = 0; r < N; r++) {
        calls[r] = call_for(id, N, r);
        start_call(&calls[r]);
    }
}

static void join_all(struct call *calls)
{
    for (int r = 0; r < N; r++)
        pthread_join(calls[r].thread, NULL);
}

static void expect_met(struct call *calls)
{
    join_all(calls);
    for (int r = 0; r < N; r++)
        cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
}

Test(bootstrap_agreed, id_keeps_what_it_says)
{
    tutti_id bytes, again;
    struct tt_id id = make_agreed(&bytes), read;
    id.count = 3;
    for (int i = 1; i < 3; i++) {
        id.nets[i] = (struct tt_net){ TT_FAMILY_IPV6, (uint16_t)(65533 + i), { 0xfd, [15] = (uint8_t)i } };
    }
    tt_id_write(&id, &bytes);
    cr_expect_arr_eq(bytes.bytes, "TUID\1\0\1\4", 8);
    cr_expect_arr_eq(bytes.bytes + 68, "\2\0", 2);
    cr_expect_arr_eq(bytes.bytes + 72, "\177\0\0\1\0\0\0\0", 8);
    cr_expect_arr_eq(bytes.bytes + 108, "\3\0\377\377\375", 5);
    cr_assert_eq(tt_id_read(&bytes, &read), TUTTI_OK);
    cr_expect(read.agreed && read.count == 3);
    tt_id_write(&read, &again);
    cr_expect_arr_eq(again.bytes, bytes.bytes, sizeof bytes.bytes);
}

Test(bootstrap_agreed, ranks_wait_for_rank_0)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    struct call calls[N];
    start_all(calls, &bytes);
    tt_sleep_ms(100);
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK, "%s", tt_last_error());
    expect_met(calls);
}

Test(bootstrap_agreed, rank_0_that_never_comes_is_named)
{
    tutti_id bytes;
    make_agreed(&bytes);
    struct call c = call_for(&bytes, N, 1);
    c.timeout_ms = 200;
    run_call(&c);
    expect_failure(&c, 1, TUTTI_TIMEOUT,
        WORDS("rank 1 did not find rank 0 at 127.0.0.1:", "(Connection refused) within 200 ms"));
}

/* Meets as rank `rank` of n, of which two each have one TUTTI_HOSTID; true if this rank gets the descriptors
 * of the ranks of its host, and no others. */
static bool meet_in_pairs(const tutti_id *id, int n, int rank)
{
    struct tt_newcomer mine;
    struct tt_member members[16];
    uint8_t blob[TT_BLOB_BYTES];
    char host[32];
    snprintf(host, sizeof host, "host %d", rank / 2);
    setenv("TUTTI_HOSTID", host, 1);
    make_newcomer(rank, &mine);
    mine.blob_of_0 = blob;
    bool right =
        tt_bootstrap_meet(id, n, rank, &mine, PATIENCE_MS, members, NULL) == TUTTI_OK && is_blob_of_0(blob);
    for (int r = 0; r < n && right; r++) {
        right = members[r].host == r / 2;
        for (int i = 0; i < TT_BLOB_FDS && right; i++) {
            int fd = members[r].fds[i];
            right = r != rank && r / 2 == rank / 2 && gives(r, i) ? is_file(fd, r, i) : fd == -1;
        }
    }
    return right;
}

/* Hosts of two ranks, and one of a single one; the root is on the second. */
Test(bootstrap_agreed, descriptors_pass_within_hosts)
{
    enum { RANKS = 7 };
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    pid_t children[RANKS];
    for (int r = 0; r < RANKS; r++) {
        children[r] = fork();
        if (children[r] == 0) {
            setenv("TUTTI_HOSTID", "host 1", 1);
            bool right = r != 2 || tt_root_start(&id, NULL, PATIENCE_MS) == TUTTI_OK;
            _exit(right && meet_in_pairs(&bytes, RANKS, r) ? 0 : 1);
        }
    }
    for (int r = 0; r < RANKS; r++) {
        int status;
        cr_assert_eq(waitpid(children[r], &status, 0), children[r]);
        cr_expect_eq(status, 0, "rank %d", r);
    }
}

Test(bootstrap_agreed, wrong_secret_is_refused_by_the_network)
{
    tutti_id bytes, wrong;
    struct tt_id id = make_agreed(&bytes), other = id;
    struct call calls[N];
    other.token[0] ^= 1;
    other.secret[31] ^= 1;
    tt_id_write(&other, &wrong);
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    struct call c = call_for(&wrong, N, 1);
    run_call(&c);
    expect_failure(
        &c, 1, TUTTI_PEER_LOST, WORDS("rank 1 does not know the secret", "TUTTI_ROOT, the secret file"));
    start_all(calls, &bytes);
    expect_met(calls);
}

/* How long a meeting takes among more silent strangers than there are slots, and some that are noisy. */
static int64_t meet_among_strangers(void)
{
    enum { CROWD = 100 };
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    struct call calls[N];
    int sockets[CROWD];
    uint8_t noise[4096];
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    for (int i = 0; i < CROWD; i++) {
        sockets[i] = tt_net_connect(&id.nets[0], PATIENCE_MS);
        cr_assert_geq(sockets[i], 0);
        tt_random_bytes(noise, sizeof noise);
        if (i % 8 == 0)
            memcpy(noise, "TUG4", 4);
        if (i % 4 == 0)
            stranger_say(sockets[i], noise, (size_t)(1 + 41 * i));
    }
    tt_sleep_ms(100);
    int64_t began_ns = tt_now_ns();
    start_all(calls, &bytes);
    expect_met(calls);
    int64_t took_ns = tt_now_ns() - began_ns;
    for (int i = 0; i < CROWD; i++)
        close(sockets[i]);
    return took_ns;
}

/* Those of the network have slots of their own, so nobody of this machine waits for them. A loaded machine
 * makes some meetings as slow as that. */
Test(bootstrap_agreed, strangers_of_the_network_disturb_nobody)
{
    const int64_t long_ns = TT_ROOT_STRANGER_MS * INT64_C(500000);
    int tries = 1;
    while (meet_among_strangers() >= long_ns && tries < 10)
        tries++;
    cr_expect_lt(tries, 10, "ranks waited for strangers");
}

/* One of the network that says nothing, or half of what it should, is hung up long before the job's time is
 * up. */
Test(bootstrap_agreed, silence_in_the_network_is_not_waited_for)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    struct call calls[N];
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    int silent = tt_net_connect(&id.nets[0], PATIENCE_MS), half = tt_net_connect(&id.nets[0], PATIENCE_MS);
    cr_assert(silent >= 0 && half >= 0);
    cr_expect(stranger_say(half, "TUG4\0\0\0\0half", 12));
    for (int i = 0; i < 2; i++) {
        int s = i == 0 ? silent : half;
        cr_expect_eq(fcntl(s, F_SETFL, 0), 0);
        cr_expect(turned_away(s));
        close(s);
    }
    start_all(calls, &bytes);
    expect_met(calls);
}

Test(bootstrap_agreed, second_rank_0_is_refused)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes), same_port;
    struct call calls[N];
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    cr_expect_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_SYSTEM_ERROR);
    cr_expect(strstr(tt_last_error(), "in use"), "%s", tt_last_error());
    same_port = id;
    same_port.token[0] ^= 1;
    cr_expect_eq(tt_root_start(&same_port, NULL, PATIENCE_MS), TUTTI_SYSTEM_ERROR);
    cr_expect(strstr(tt_last_error(), "rank 0 cannot listen at 127.0.0.1:"), "%s", tt_last_error());
    start_all(calls, &bytes);
    expect_met(calls);
}

Test(bootstrap_agreed, address_of_another_machine_is_refused)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    id.nets[0] = (struct tt_net){ TT_FAMILY_IPV4, 9, { 192, 0, 2, 1 } }; /* for documentation, RFC 5737 */
    cr_expect_not(tt_net_is_here(&id.nets[0]));
    cr_expect_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_SYSTEM_ERROR);
    cr_expect(strstr(tt_last_error(), "192.0.2.1:9"), "%s", tt_last_error());
}

/* A killed rank 0 leaves the socket's file, whose name the next job's rank 0 needs. */
Test(bootstrap_agreed, killed_rank_0_does_not_block_the_next)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    struct call calls[N];
    int ready[2];
    char byte;
    cr_assert_eq(pipe(ready), 0);
    pid_t first = fork();
    if (first == 0) {
        if (tt_root_start(&id, NULL, PATIENCE_MS) == TUTTI_OK && write(ready[1], "", 1) == 1)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    kill(first, SIGKILL);
    waitpid(first, NULL, 0);
    start_all(calls, &bytes);
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK, "%s", tt_last_error());
    expect_met(calls);
    close(ready[0]);
    close(ready[1]);
}

/* Neither the port nor the file outlives the meeting, though a child has copies of all. */
Test(bootstrap_agreed, child_does_not_keep_the_port)
{
    tutti_id bytes;
    struct tt_id id = make_agreed(&bytes);
    struct call calls[N];
    cr_assert_eq(tt_root_start(&id, NULL, PATIENCE_MS), TUTTI_OK);
    pid_t child = fork();
    if (child == 0) {
        tt_sleep_ms(PATIENCE_MS);
        _exit(0);
    }
    start_all(calls, &bytes);
    expect_met(calls);
    int s = tt_net_connect(&id.nets[0], PATIENCE_MS);
    for (int tries = 0; s >= 0 && tries < 40; tries++) { /* rank 0 may close it a moment after all have met */
        close(s);
        tt_sleep_ms(50);
        s = tt_net_connect(&id.nets[0], PATIENCE_MS);
    }
    cr_expect_lt(s, 0, "somebody still listens");
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}
