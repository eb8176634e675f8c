/* SPDX-License-Identifier: BSD-3-Clause */
/* test_launch_torch.c: ranks in the environment of torchrun: they meet by a file, and must not take another
 * job's for theirs. */
#include <signal.h>
#include <sys/stat.h>

#include "launch/launch.h"
#include "meeting.h"

enum { RANKS = 4 };

static const char *const all_names[] = { "TUTTI_ID", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_ROOT",
    "TUTTI_SECRET_FILE", "PMIX_RANK", "PMIX_NAMESPACE", "PMI_FD", "PMI_RANK", "RANK", "WORLD_SIZE",
    "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_RESTART_COUNT" };

/* As torchrun sets them; each test has a run id of its own. */
static void set_all(const char *run, int n, int rank)
{
    char text[16];
    for (size_t i = 0; i < sizeof all_names / sizeof all_names[0]; i++)
        unsetenv(all_names[i]);
    snprintf(text, sizeof text, "%d", n);
    setenv("WORLD_SIZE", text, 1);
    setenv("LOCAL_WORLD_SIZE", text, 1);
    snprintf(text, sizeof text, "%d", rank);
    setenv("RANK", text, 1);
    setenv("LOCAL_RANK", text, 1);
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", "29500", 1);
    setenv("TORCHELASTIC_RUN_ID", run, 1);
    setenv("TORCHELASTIC_RESTART_COUNT", "0", 1);
}

static void make_run(char run[32])
{
    snprintf(run, 32, "test-%d", (int)getpid());
}

/* The file of this environment's job, at its first call; the last character is the number of the call. */
static void post_path(char path[128])
{
    char job[TT_LAUNCH_JOB];
    tt_launch_torch_job(job);
    snprintf(path, 128, "/tmp/tutti-%u/id-%s-0", (unsigned)geteuid(), job);
}

static int be_rank(const char *run, int n, int me, int64_t timeout_ms, int meetings)
{
    set_all(run, n, me);
    return meet_by_launcher(n, me, timeout_ms, meetings);
}

/* Rank 0 comes last. */
static void start_ranks(const char *run, int from, pid_t *children)
{
    for (int r = RANKS - 1; r >= from; r--) {
        children[r] = fork();
        if (children[r] == 0)
            _exit(be_rank(run, RANKS, r, PATIENCE_MS, 2));
    }
}

static void expect_met(const pid_t *children)
{
    for (int r = 0; r < RANKS; r++)
        cr_expect(ended_well(children[r]), "rank %d", r);
}

Test(launch_torch, processes_meet_and_leave_no_file)
{
    char run[32], path[128];
    pid_t children[RANKS];
    make_run(run);
    start_ranks(run, 0, children);
    expect_met(children);
    set_all(run, RANKS, 0);
    post_path(path);
    for (int call = 0; call < 2; call++) {
        path[strlen(path) - 1] = (char)('0' + call);
        cr_expect_neq(access(path, F_OK), 0, "%s is still there", path);
    }
}

Test(launch_torch, jobs_at_once_are_not_mixed)
{
    enum { JOBS = 3 };
    char run[32];
    pid_t children[JOBS][RANKS];
    make_run(run);
    for (int j = 0; j < JOBS; j++) {
        run[0] = (char)('a' + j);
        start_ranks(run, 0, children[j]);
    }
    for (int j = 0; j < JOBS; j++)
        expect_met(children[j]);
}

/* A process that posts as rank 0 and waits to be killed. */
static pid_t fork_poster(const char *run)
{
    int ready[2], n, rank;
    char byte;
    tutti_id id;
    cr_assert_eq(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        set_all(run, RANKS, 0);
        if (tt_launch_find(PATIENCE_MS, &n, &rank, &id) == TUTTI_OK && write(ready[1], "", 1) == 1)
            tt_sleep_ms(PATIENCE_MS);
        _exit(1);
    }
    cr_assert_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void kill_poster(pid_t child)
{
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* Ranks of the next job find its file first: nobody answers there, so they wait for their own. */
Test(launch_torch, killed_job_does_not_mislead_the_next)
{
    char run[32], path[128];
    pid_t children[RANKS];
    make_run(run);
    kill_poster(fork_poster(run));
    set_all(run, RANKS, 0);
    post_path(path);
    cr_assert_eq(access(path, F_OK), 0, "a killed job leaves its file: %s", path);
    start_ranks(run, 1, children);
    tt_sleep_ms(100);
    children[0] = fork();
    if (children[0] == 0)
        _exit(be_rank(run, RANKS, 0, PATIENCE_MS, 2));
    expect_met(children);
    cr_expect_neq(access(path, F_OK), 0);
}

/* A rank of the first start that still waits must not be taken in by the second. */
Test(launch_torch, restarts_are_told_apart)
{
    char run[32], job[TT_LAUNCH_JOB], again[TT_LAUNCH_JOB];
    make_run(run);
    set_all(run, RANKS, 0);
    tt_launch_torch_job(job);
    set_all(run, RANKS, 1);
    tt_launch_torch_job(again);
    cr_expect_str_eq(job, again, "all ranks of a job have one name");
    setenv("TORCHELASTIC_RESTART_COUNT", "1", 1);
    tt_launch_torch_job(again);
    cr_expect_str_neq(job, again);
    set_all(run, RANKS, 0);
    setenv("MASTER_PORT", "29501", 1);
    tt_launch_torch_job(again);
    cr_expect_str_neq(job, again);
    set_all("another", RANKS, 0);
    tt_launch_torch_job(again);
    cr_expect_str_neq(job, again);
}

static void expect_refusal(tutti_status status, const char *word, const char *other)
{
    int n = -7, rank = -7;
    tutti_id id;
    cr_expect_eq(tt_launch_find(100, &n, &rank, &id), status, "%s", tt_last_error());
    cr_expect(strstr(tt_last_error(), word), "\"%s\" is not in \"%s\"", word, tt_last_error());
    cr_expect(strstr(tt_last_error(), other), "\"%s\" is not in \"%s\"", other, tt_last_error());
    cr_expect(n == -7 && rank == -7);
}

Test(launch_torch, second_job_of_the_same_name_is_refused)
{
    char run[32], path[128];
    make_run(run);
    pid_t first = fork_poster(run);
    set_all(run, RANKS, 0);
    post_path(path);
    expect_refusal(TUTTI_INVALID_USAGE, "another job of the same name", path);
    cr_expect_eq(access(path, F_OK), 0, "the first job's file is gone");
    kill_poster(first);
    unlink(path);
}

Test(launch_torch, rank_0_that_never_comes_is_told)
{
    char run[32];
    make_run(run);
    set_all(run, RANKS, 2);
    expect_refusal(TUTTI_TIMEOUT, "rank 0", "within 100 ms");
}

/* Neither what another user wrote, nor what others may write, nor a link, nor a pipe; noise is no id. */
Test(launch_torch, files_that_may_be_forged_are_refused)
{
    char run[32], path[128];
    uint8_t noise[sizeof(tutti_id)];
    make_run(run);
    kill_poster(fork_poster(run));
    for (int rank = 0; rank < 2; rank++) {
        int calls_before = rank; /* a call that fails counts, too */
        set_all(run, RANKS, rank);
        post_path(path);
        path[strlen(path) - 1] = (char)('0' + calls_before);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_eq(fchmod(fd, 0660), 0);
        close(fd);
        expect_refusal(TUTTI_SYSTEM_ERROR, path, "refusing");
        unlink(path);
    }
    set_all(run, RANKS, 1);
    post_path(path);
    path[strlen(path) - 1] = '2';
    cr_assert_eq(symlink("/dev/null", path), 0);
    expect_refusal(TUTTI_SYSTEM_ERROR, path, "refusing");
    unlink(path);
    path[strlen(path) - 1] = '3';
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_refusal(TUTTI_SYSTEM_ERROR, path, "refusing");
    unlink(path);
    for (int i = 0; i < 4; i++) {
        static const size_t sizes[] = { 0, 127, 128, 128 };
        path[strlen(path) - 1] = (char)('4' + i);
        tt_random_bytes(noise, sizeof noise);
        memcpy(noise, i == 3 ? "TUID\1\0\0\1" : "noise...", 8);
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_eq(write(fd, noise, sizes[i]), (ssize_t)sizes[i]);
        close(fd);
        expect_refusal(TUTTI_TIMEOUT, "rank 0", "within 100 ms");
        unlink(path);
    }
    if (geteuid() == 0) {
        path[strlen(path) - 1] = '8';
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        cr_assert_eq(fchown(fd, 65534, 65534), 0);
        close(fd);
        expect_refusal(TUTTI_SYSTEM_ERROR, path, "refusing");
        unlink(path);
    }
}

Test(launch_torch, half_a_description_is_named)
{
    static const char *const needed[] = { "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT" };
    for (int i = 0; i < 4; i++) {
        char words[32];
        set_all("none", 2, 1);
        unsetenv(needed[i]);
        snprintf(words, sizeof words, "%s is not set", needed[i]);
        expect_refusal(TUTTI_INVALID_USAGE, words, "torchrun");
    }
    set_all("none", 2, 1);
    setenv("RANK", "2", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "RANK is \"2\"", "0 to 1");
    set_all("none", 2, 1);
    setenv("LOCAL_WORLD_SIZE", "3", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "LOCAL_WORLD_SIZE is \"3\"", "1 to 2");
}

Test(launch_torch, several_machines_need_a_secret)
{
    set_all("none", 2, 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "TUTTI_SECRET_FILE", "TUTTI_ROOT");
    set_all("none", 2, 1);
    unsetenv("LOCAL_WORLD_SIZE");
    setenv("MASTER_ADDR", "192.0.2.1", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "TUTTI_SECRET_FILE", "TUTTI_ROOT");
    setenv("MASTER_ADDR", "127.0.0.1", 1); /* here: it goes on, and rank 0 does not come */
    expect_refusal(TUTTI_TIMEOUT, "rank 0", "100 ms");
}

/* A worker on a host of its own, which knows a secret and nothing of TUTTI_ROOT. */
static int be_worker_of_another_host(const char *secret, int port, int rank)
{
    char host[16], text[16];
    snprintf(host, sizeof host, "host %d", rank);
    snprintf(text, sizeof text, "%d", port);
    set_all("hosts", 2, rank);
    setenv("MASTER_PORT", text, 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("TUTTI_HOSTID", host, 1);
    setenv("TUTTI_SECRET_FILE", secret, 1);
    tutti_id id;
    struct tt_id read;
    int n, me;
    if (tt_launch_find(PATIENCE_MS, &n, &me, &id) != TUTTI_OK || tt_id_read(&id, &read) != TUTTI_OK)
        return 1;
    struct tt_newcomer mine = { .fds = { -1, -1 } };
    struct tt_member members[2];
    tutti_status status = tt_bootstrap_meet(&id, n, me, &mine, PATIENCE_MS, members, NULL);
    bool apart = status == TUTTI_OK && members[0].host == 0 && members[1].host == 1;
    return apart && read.nets[0].port == port + 1 ? 0 : 2;
}

Test(launch_torch, several_machines_meet_by_a_secret_alone)
{
    char secret[] = "/tmp/tutti_secret_XXXXXX";
    pid_t children[2];
    int fd = mkstemp(secret), port = 20000 + 2 * (int)(getpid() % 5000);
    cr_assert_eq(dprintf(fd, "%032d\n", 7), 33);
    close(fd);
    for (int r = 1; r >= 0; r--) {
        children[r] = fork();
        if (children[r] == 0)
            _exit(be_worker_of_another_host(secret, port, r));
    }
    for (int r = 0; r < 2; r++)
        cr_expect(ended_well(children[r]), "rank %d", r);
    set_all("hosts", 2, 1);
    setenv("TUTTI_SECRET_FILE", secret, 1);
    setenv("MASTER_PORT", "65536", 1);
    expect_refusal(TUTTI_INVALID_USAGE, "MASTER_PORT is \"65536\"", "1 to 65535");
    unsetenv("MASTER_PORT");
    expect_refusal(TUTTI_INVALID_USAGE, "TUTTI_ROOT is not set", "none of them");
    unlink(secret);
}
