/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bootstrap_traces.c: what the bootstrap leaves behind: no descriptor, no thread, no file, whatever
 * happened; where its files lie while they are there; and that it stays out of the way of signals. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/time.h>

#include "meeting.h"

static void expect_end(const struct scratch *scratch)
{
    cr_expect(settles(scratch->sockets, 0), "a socket stays in the directory");
    cr_expect(settles("/proc/self/task", scratch->threads), "the helper thread stays");
}

Test(bootstrap_traces, socket_goes_once_all_have_come)
{
    struct scratch scratch;
    tutti_id id;
    scratch_open(&scratch);
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    cr_expect_eq(count_entries(scratch.sockets), 1);
    struct call c = call_for(&id, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_OK);
    cr_expect_eq(count_entries(scratch.sockets), 0, "the socket outlives the meeting");
    /* Whoever comes later is told so. */
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    cr_expect(strstr(c.text, "nobody answers"), "%s", c.text);
    expect_end(&scratch);
    scratch_close(&scratch);
}

Test(bootstrap_traces, id_that_nobody_uses_expires)
{
    struct scratch scratch;
    tutti_id id;
    scratch_open(&scratch);
    int fds = count_entries("/proc/self/fd");
    for (int i = 0; i < 10; i++)
        cr_assert_eq(tt_bootstrap_create(&id, 50), TUTTI_OK);
    expect_end(&scratch);
    cr_expect(settles("/proc/self/fd", fds));
    struct call c = call_for(&id, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    scratch_close(&scratch);
}

/* The ways in which a job can go. */
enum kind { SUCCESS, DISAGREE, TWICE, MISSING, WRONG_SECRET, LEAVE_EARLY, EXCHANGE_LONG, KINDS };

static void run_job(enum kind kind)
{
    tutti_id id, wrong;
    struct call calls[3];
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    wrong = id;
    wrong.bytes[20] ^= 1;
    for (int r = 0; r < 3; r++) {
        calls[r] = call_for(&id, 3, r);
        calls[r].exchanges = kind == EXCHANGE_LONG ? 10 : 2;
        if (kind == MISSING || kind == WRONG_SECRET)
            calls[r].timeout_ms = 20;
    }
    if (kind == DISAGREE)
        calls[1].n = 2;
    if (kind == TWICE)
        calls[1].rank = 2;
    if (kind == WRONG_SECRET)
        calls[1].id = &wrong;
    if (kind == LEAVE_EARLY)
        calls[1].exchanges = 1;
    run_threads(calls, kind == MISSING ? 1 : 3);
    bool right = kind == SUCCESS || kind == EXCHANGE_LONG;
    cr_expect_eq(calls[0].status == TUTTI_OK, right, "kind %d: %s", kind, calls[0].text);
}

Test(bootstrap_traces, hundred_rounds_leave_no_descriptor)
{
    struct scratch scratch;
    scratch_open(&scratch);
    int fds = count_entries("/proc/self/fd");
    for (int round = 0; round < 100; round++)
        run_job((enum kind)(round % KINDS));
    expect_end(&scratch);
    cr_expect(settles("/proc/self/fd", fds), "%d descriptors before, %d after", fds,
        count_entries("/proc/self/fd"));
    scratch_close(&scratch);
}

static pid_t fork_and_exit(void)
{
    pid_t child = fork();
    if (child == 0)
        exit(0);
    return child;
}

Test(bootstrap_traces, exit_removes_the_socket)
{
    struct scratch scratch;
    scratch_open(&scratch);
    pid_t child = fork();
    if (child == 0) {
        tutti_id id;
        bool right = tt_bootstrap_create(&id, -1) == TUTTI_OK && count_entries(scratch.sockets) == 1;
        exit(right ? 0 : 1);
    }
    cr_expect(ended_well(child));
    cr_expect_eq(count_entries(scratch.sockets), 0);
    scratch_close(&scratch);
}

/* Nobody can tidy up after its own kill -9; who makes the next id does, and spares those who live. */
Test(bootstrap_traces, next_id_removes_what_the_killed_left)
{
    struct scratch scratch;
    tutti_id id, next;
    scratch_open(&scratch);
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    pid_t child = fork();
    if (child == 0) {
        if (tt_bootstrap_create(&next, PATIENCE_MS) == TUTTI_OK)
            raise(SIGKILL);
        _exit(1);
    }
    int state;
    waitpid(child, &state, 0);
    cr_assert(WIFSIGNALED(state));
    cr_expect_eq(count_entries(scratch.sockets), 2);
    cr_assert_eq(tt_bootstrap_create(&next, PATIENCE_MS), TUTTI_OK);
    cr_expect_eq(
        count_entries(scratch.sockets), 2, "the dead one's socket is still there, or a living one's gone");
    struct call c = call_for(&id, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_OK, "%s", c.text);
    c = call_for(&next, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_OK, "%s", c.text);
    expect_end(&scratch);
    scratch_close(&scratch);
}

Test(bootstrap_traces, forked_child_has_no_part_in_it)
{
    struct scratch scratch;
    tutti_id id;
    int status;
    scratch_open(&scratch);
    int fds = count_entries("/proc/self/fd");
    cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
    pid_t child = fork();
    if (child == 0)
        _exit(count_entries("/proc/self/fd") - fds);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(WEXITSTATUS(status), 0, "the child holds %d descriptors of it", WEXITSTATUS(status));
    cr_expect(ended_well(fork_and_exit()));
    cr_expect_eq(count_entries(scratch.sockets), 1, "the child's exit removed its parent's socket");
    struct call c = call_for(&id, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_OK, "%s", c.text);
    expect_end(&scratch);
    scratch_close(&scratch);
}

Test(bootstrap_traces, directory_is_private)
{
    struct scratch scratch;
    struct stat s;
    tutti_id id;
    scratch_open(&scratch);
    cr_assert_eq(tt_bootstrap_create(&id, 10), TUTTI_OK);
    cr_assert_eq(stat(scratch.sockets, &s), 0);
    cr_expect_eq(s.st_mode & 0777, 0700);
    expect_end(&scratch);
    chmod(scratch.sockets, 0750);
    cr_expect_eq(tt_bootstrap_create(&id, 10), TUTTI_SYSTEM_ERROR);
    cr_expect(
        strstr(tt_last_error(), scratch.sockets) && strstr(tt_last_error(), "0700"), "%s", tt_last_error());
    chmod(scratch.sockets, 0700);
    if (geteuid() == 0) {
        cr_assert_eq(chown(scratch.sockets, 1, 1), 0);
        cr_expect_eq(tt_bootstrap_create(&id, 10), TUTTI_SYSTEM_ERROR);
    }
    rmdir(scratch.sockets);
    cr_assert_eq(symlink(scratch.runtime, scratch.sockets), 0); /* private, but others may turn a link */
    cr_expect_eq(tt_bootstrap_create(&id, 10), TUTTI_SYSTEM_ERROR);
    unlink(scratch.sockets);
    scratch_close(&scratch);
}

/* Where there is no usable $XDG_RUNTIME_DIR, the directory is in /tmp; the id says which. */
Test(bootstrap_traces, unusable_runtime_directory_is_not_used)
{
    static const char *const unusable[] = { "", "relative", "/nonexistent/directory", "/tmp", NULL };
    struct scratch scratch;
    tutti_id id;
    struct tt_id read;
    scratch_open(&scratch);
    cr_assert_eq(tt_bootstrap_create(&id, 10), TUTTI_OK);
    cr_expect(tt_id_read(&id, &read) == TUTTI_OK && read.directory == TT_DIRECTORY_RUNTIME);
    for (int i = 0; i < 5; i++) {
        if (unusable[i])
            setenv("XDG_RUNTIME_DIR", unusable[i], 1);
        else
            unsetenv("XDG_RUNTIME_DIR");
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK, "%s", tt_last_error());
        cr_expect(tt_id_read(&id, &read) == TUTTI_OK && read.directory == TT_DIRECTORY_TMP);
        struct call c = call_for(&id, 1, 0);
        run_call(&c);
        cr_expect_eq(c.status, TUTTI_OK, "%s", c.text);
    }
    char deep[200];
    snprintf(deep, sizeof deep, "%s/%090d", scratch.runtime, 0);
    cr_assert_eq(mkdir(deep, 0700), 0);
    setenv("XDG_RUNTIME_DIR", deep, 1);
    cr_assert_eq(tt_bootstrap_create(&id, 10), TUTTI_OK);
    cr_expect(tt_id_read(&id, &read) == TUTTI_OK && read.directory == TT_DIRECTORY_TMP,
        "a path longer than a socket's");
    cr_expect(settles("/proc/self/task", scratch.threads));
    rmdir(deep);
    scratch_close(&scratch);
}

/* The id was made where $XDG_RUNTIME_DIR is another: the ranks cannot find it, and say so. */
Test(bootstrap_traces, id_of_another_environment_is_not_found)
{
    struct scratch scratch, other;
    tutti_id id;
    scratch_open(&scratch);
    cr_assert_eq(tt_bootstrap_create(&id, 500), TUTTI_OK);
    scratch_open(&other);
    struct call c = call_for(&id, 1, 0);
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_PEER_LOST);
    cr_expect(strstr(c.text, "another user"), "%s", c.text);
    unsetenv("XDG_RUNTIME_DIR");
    run_call(&c);
    cr_expect_eq(c.status, TUTTI_SYSTEM_ERROR);
    cr_expect(strstr(c.text, "$XDG_RUNTIME_DIR"), "%s", c.text);
    expect_end(&scratch);
    scratch_close(&other);
    scratch_close(&scratch);
}

/* Threads of this process that block every signal that can be blocked. */
static int count_deaf_threads(void)
{
    int deaf = 0;
    DIR *d = opendir("/proc/self/task");
    for (const struct dirent *e = d ? readdir(d) : NULL; e; e = readdir(d)) {
        char path[300], line[256];
        snprintf(path, sizeof path, "/proc/self/task/%s/status", e->d_name);
        FILE *file = e->d_name[0] != '.' ? fopen(path, "r") : NULL;
        while (file && fgets(line, sizeof line, file))
            deaf += strncmp(line, "SigBlk:\tfffffff", 15) == 0;
        if (file)
            fclose(file);
    }
    if (d)
        closedir(d);
    return deaf;
}

static void note_signal(int number)
{
    (void)number;
}

static void *come_late(void *c)
{
    tt_sleep_ms(5);
    return run_call(c);
}

/* Waits that signals cut short go on (the system gives them to this thread first, which waits for the late
 * one), and the helper thread takes none of them. */
Test(bootstrap_traces, signals_disturb_nobody)
{
    struct sigaction action = { .sa_handler = note_signal };
    const struct itimerval often = { { 0, 300 }, { 0, 300 } }, never = { { 0, 0 }, { 0, 0 } };
    cr_assert_eq(sigaction(SIGALRM, &action, NULL), 0);
    cr_assert_eq(setitimer(ITIMER_REAL, &often, NULL), 0);
    int deaf = count_deaf_threads();
    for (int round = 0; round < 20; round++) {
        tutti_id id;
        struct call calls[2];
        cr_assert_eq(tt_bootstrap_create(&id, PATIENCE_MS), TUTTI_OK);
        cr_expect(round > 0 || count_deaf_threads() == deaf + 1); /* later, one may stay for who is late */
        for (int r = 0; r < 2; r++) {
            calls[r] = call_for(&id, 2, r);
            calls[r].exchanges = 10;
        }
        cr_assert_eq(pthread_create(&calls[1].thread, NULL, come_late, &calls[1]), 0);
        run_call(&calls[0]);
        pthread_join(calls[1].thread, NULL);
        for (int r = 0; r < 2; r++)
            cr_expect(calls[r].status == TUTTI_OK && calls[r].right, "rank %d: %s", r, calls[r].text);
    }
    while (count_deaf_threads() != deaf)
        tt_sleep_ms(1);
    setitimer(ITIMER_REAL, &never, NULL);
}
