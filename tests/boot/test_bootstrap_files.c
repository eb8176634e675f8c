/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_files.c: ranks that meet where descriptors are scarce: who lacks them is named to all, and
 * limits that pass are waited for. */
#include <signal.h>
#include <sys/resource.h>

#include "meeting.h"

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

Test(bootstrap_files, rank_out_of_descriptors_is_told_to_all)
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

/* The soft limit alone is no obstacle: it is raised, in the ranks and where they meet. */
Test(bootstrap_files, soft_limit_is_raised)
{
    enum { RANKS = 72, FILES = 128 };
    tutti_id id;
    pid_t maker, children[RANKS];
    struct rlimit limit;
    int made[2];
    cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = FILES;
    cr_assert(limit.rlim_max > 8 * FILES && setrlimit(RLIMIT_NOFILE, &limit) == 0 && pipe(made) == 0);
    maker = fork();
    if (maker == 0) {
        if (tt_bootstrap_create(&id, PATIENCE_MS) == TUTTI_OK && write(made[1], &id, sizeof id) == sizeof id)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(made[0], &id, sizeof id), sizeof id);
    for (int r = 0; r < RANKS; r++)
        children[r] = fork_call(call_for(&id, RANKS, r));
    for (int r = 0; r < RANKS; r++)
        cr_expect(ended_well(children[r]), "rank %d", r);
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    close(made[0]);
    close(made[1]);
}

/* Forks a process that makes an id and can then open only `spare` descriptors more. It has a directory of its
 * own, so that nobody looks whether its socket is alive: that would take a descriptor. */
static pid_t fork_maker(struct scratch *scratch, tutti_id *id, int spare)
{
    int made[2];
    scratch_open(scratch);
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

static void end_maker(const struct scratch *scratch, pid_t maker)
{
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    scratch_close(scratch);
}

/* It can accept a connection, and then not what comes by it. */
Test(bootstrap_files, maker_that_cannot_hold_descriptors_is_named)
{
    tutti_id id;
    struct scratch scratch;
    pid_t maker = fork_maker(&scratch, &id, 1);
    struct call c = call_for(&id, 2, 0);
    run_call(&c);
    expect_failure(&c, 1, TUTTI_SYSTEM_ERROR,
        WORDS("made the id cannot hold the descriptors", "ulimit -n", "needs 3 for each rank"));
    end_maker(&scratch, maker);
}

/* The third rank cannot be let in, so the two that are there are told; and their places are its own then, for
 * so long that it hears it, too. */
Test(bootstrap_files, maker_that_cannot_accept_is_named)
{
    tutti_id id;
    struct scratch scratch;
    int sockets[3];
    struct call calls[3];
    pid_t maker = fork_maker(&scratch, &id, 2);
    for (int r = 0; r < 2; r++) {
        sockets[r] = stranger_enter(&id, r);
        stranger_hello(sockets[r], &id, 3);
    }
    sockets[2] = stranger_enter(&id, 2);
    stranger_hello(sockets[2], &id, 3);
    for (int r = 0; r < 3; r++)
        calls[r] = call_of(&id, sockets[r]);
    expect_failure(calls, 3, TUTTI_SYSTEM_ERROR, WORDS("cannot take in more ranks", "ulimit -n"));
    end_maker(&scratch, maker);
}

Test(bootstrap_files, maker_with_just_enough_descriptors_suffices)
{
    tutti_id id;
    struct scratch scratch;
    struct tt_id read;
    struct tt_frame frame;
    uint8_t head[TT_FRAME_BYTES];
    int sockets[2];
    pid_t maker = fork_maker(&scratch, &id, 2);
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
    end_maker(&scratch, maker);
}

/* A user without privileges may have `ulimit -n` descriptors under way in all sockets together. Here ranks
 * that read nothing hold up more than that, and the root has to wait (for their end, in this case) and must
 * not take a limit for a failure. */
static int meet_behind_a_jam(void)
{
    enum { IDLE = 30, CALLS = 6, ALL = IDLE + CALLS };
    tutti_id id;
    struct scratch scratch;
    struct call calls[CALLS];
    int made[2], sockets[IDLE], right = 0;
    if ((geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) || pipe(made) != 0)
        return 1;
    scratch_open(&scratch);
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
    scratch_close(&scratch);
    return right == CALLS ? 0 : 3;
}

Test(bootstrap_files, descriptors_under_way_are_waited_for)
{
    pid_t child = fork();
    if (child == 0)
        _exit(meet_behind_a_jam());
    cr_expect(ended_well(child));
}
