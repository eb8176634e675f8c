/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_forks.c: children that are forked while ranks arrive, as launchers in one file do. They have
 * nothing of what their parent has of the others, so it is gone when the parent is.
 *
 * Who is reaped has closed all it had; so what is open then is a child's, on a busy machine, too. */
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>

#include "meeting.h"

enum { N = 3, SOON_MS = 120000 };

static bool pass(int pipe, const void *bytes, size_t size)
{
    return write(pipe, bytes, size) == (ssize_t)size;
}

/* A child that lives until the test closes `stay`, and says so when it is there. */
static void leave_a_child(int said, const int stay[2])
{
    char byte = 0;
    if (fork() != 0)
        return;
    close(stay[1]);
    if (pass(said, &byte, 1))
        (void)!read(stay[0], &byte, 1);
    _exit(0);
}

/* Nothing was said, and if something was not heard, that is an error. */
static bool closed_at_the_other_end(int socket)
{
    uint8_t byte;
    return recv(socket, &byte, 1, MSG_DONTWAIT) == 0 || errno == ECONNRESET;
}

/* It makes an id, and forks when rank 0 is there. */
static _Noreturn void make_and_fork(int said, int go_on, const int stay[2])
{
    tutti_id id;
    char byte;
    if (tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK && pass(said, &id, sizeof id) &&
        read(go_on, &byte, 1) == 1)
        leave_a_child(said, stay);
    tt_sleep_ms(PATIENCE_MS);
    _exit(1);
}

Test(bootstrap_forks, end_of_a_maker_with_a_child_is_seen)
{
    tutti_id id;
    int said[2], go_on[2], stay[2];
    char byte = 0;
    cr_assert(pipe(said) == 0 && pipe(go_on) == 0 && pipe(stay) == 0);
    pid_t maker = fork();
    if (maker == 0)
        make_and_fork(said[1], go_on[0], stay);
    cr_assert_eq(read(said[0], &id, sizeof id), sizeof id);
    int socket = stranger_enter(&id, 0);
    stranger_hello(socket, &id, 2);
    cr_assert(pass(go_on[1], &byte, 1) && read(said[0], &byte, 1) == 1);
    kill(maker, SIGKILL);
    cr_assert_eq(waitpid(maker, NULL, 0), maker);
    cr_expect(closed_at_the_other_end(socket), "a child of the maker holds the connection of rank 0");
    close(stay[1]);
    close(socket);
}

Test(bootstrap_forks, child_has_nothing_of_ranks_that_came_before)
{
    tutti_id id;
    pid_t ranks[N - 1], child;
    int before = count_entries("/proc/self/fd");
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    for (int r = 0; r < N - 1; r++)
        ranks[r] = fork_call(call_for(&id, N, r));
    cr_assert(settles("/proc/self/fd", before + 1 + (N - 1) * (1 + TT_BLOB_FDS)));
    child = fork();
    if (child == 0)
        _exit(count_entries("/proc/self/fd") - before);
    int status = -1;
    cr_expect(waitpid(child, &status, 0) == child && WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 0, "it has %d descriptors too many", WEXITSTATUS(status));
    for (int r = 0; r < N - 1; r++) {
        kill(ranks[r], SIGKILL);
        waitpid(ranks[r], NULL, 0);
    }
}

static _Noreturn void come_and_fork(const tutti_id *id, int said, const int stay[2])
{
    struct call c = call_for(id, N, 1);
    int before = count_entries("/proc/self/fd");
    start_call(&c);
    if (!settles("/proc/self/fd", before + 3)) /* its two files, and the connection */
        _exit(1);
    leave_a_child(said, stay);
    tt_sleep_ms(PATIENCE_MS);
    _exit(1);
}

Test(bootstrap_forks, end_of_a_rank_with_a_child_is_seen)
{
    tutti_id id;
    int said[2], stay[2];
    char byte;
    cr_assert(pipe(said) == 0 && pipe(stay) == 0);
    int before = count_entries("/proc/self/fd");
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    pid_t rank = fork();
    if (rank == 0)
        come_and_fork(&id, said[1], stay);
    cr_assert_eq(read(said[0], &byte, 1), 1);
    struct call c = call_for(&id, N, 0);
    c.timeout_ms = SOON_MS;
    start_call(&c);
    cr_assert(settles("/proc/self/fd", before + 1 + 2 * 3 + 3), "not both have come");
    kill(rank, SIGKILL);
    cr_assert_eq(waitpid(rank, NULL, 0), rank);
    pthread_join(c.thread, NULL);
    expect_failure(&c, 1, TUTTI_PEER_LOST, WORDS("rank 1 was lost before all 3 ranks had met"));
    close(stay[1]);
}
