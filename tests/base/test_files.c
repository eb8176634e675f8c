/* SPDX-License-Identifier: BSD-3-Clause */
/* test_files.c: the files that the environment and settings name. What another user laid there is refused,
 * and so is what would keep a program waiting; the job goes on without it. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/rig/patience.h"
#include "tests/rig/ranks.h"

enum { NOBODY = 65534, WRITE = O_WRONLY | O_CREAT };

static char directory[] = "/tmp/tutti_test_XXXXXX", path[100], other[100];

static void make_directory(void)
{
    alarm(patience_seconds(100)); /* to open a pipe may wait for ever */
    cr_assert_not_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/file", directory);
    snprintf(other, sizeof other, "%s/other", directory);
}

static void remove_directory(void)
{
    unlink(path);
    rmdir(path);
    unlink(other);
    rmdir(directory);
}

TestSuite(files, .init = make_directory, .fini = remove_directory);

static void expect_opened(const char *name, int flags)
{
    char why[TT_FILE_WHY] = "";
    int fd = tt_file_open(name, flags, why);
    cr_expect_geq(fd, 0, "%s: %s", name, why);
    cr_expect_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}

static void expect_refused(const char *name, int flags, const char *words)
{
    char why[TT_FILE_WHY] = "";
    cr_expect_eq(tt_file_open(name, flags, why), -1, "%s was opened", name);
    cr_expect(strstr(why, words) != NULL, "%s: '%s', not '%s'", name, why, words);
}

static void make_file(const char *name)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);
    cr_assert(fd >= 0 && write(fd, "kept", 4) == 4);
    close(fd);
}

Test(files, pipe_that_nobody_reads)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    expect_refused(path, WRITE, "it is a pipe; legal: a regular file of user ");
    expect_refused(path, O_RDONLY, "it is a pipe; legal: a regular file");
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    expect_refused(path, WRITE, "it is a pipe");
    close(reader);
}

Test(files, what_is_no_file)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    expect_refused(directory, WRITE, "it is a directory");
    expect_refused(directory, O_RDONLY, "it is a directory");
    expect_refused("/dev/urandom", O_WRONLY, "it is a device");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    cr_assert_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    expect_refused(path, WRITE, "it is a socket");
    close(fd);
}

Test(files, what_is_not_there)
{
    expect_refused(path, O_RDONLY, "No such file");
    expect_refused("/nowhere/at/all", WRITE, "No such file");
    expect_refused("/dev/fd/997", O_WRONLY, "Bad file descriptor");
    expect_refused("/dev/fd/", WRITE, "");
    cr_assert_eq(symlink(path, path), 0);
    expect_refused(path, WRITE, strerror(ELOOP));
}

Test(files, devices_and_descriptors)
{
    int ends[2];
    char name[32], why[TT_FILE_WHY], byte = 0;
    expect_opened("/dev/null", WRITE);
    expect_opened("/dev/null", O_RDONLY);
    expect_opened("/dev/full", WRITE);
    expect_opened("/dev/stdout", WRITE);
    expect_opened("/dev/stderr", WRITE);
    cr_assert_eq(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    int fd = tt_file_open(name, WRITE, why);
    cr_expect_neq(fd, ends[1]);
    cr_expect(write(fd, "x", 1) == 1 && read(ends[0], &byte, 1) == 1 && byte == 'x');
}

Test(files, own_files_and_links)
{
    struct stat s;
    cr_assert_eq(symlink(path, other), 0);
    expect_opened(other, WRITE); /* and makes the file */
    cr_expect(lstat(path, &s) == 0 && S_ISREG(s.st_mode) && (s.st_mode & 0777) == 0600);
    expect_opened(other, WRITE);
    expect_opened(path, O_RDONLY);
}

Test(files, of_another_user)
{
    if (geteuid() != 0)
        cr_skip_test("only root can make files of other users");
    cr_assert(chmod(directory, 0755) == 0);
    make_file(path);
    expect_opened(path, WRITE); /* as root */
    cr_assert_eq(symlink(path, other), 0);
    cr_assert_eq(lchown(other, NOBODY, NOBODY), 0);
    expect_refused(other, WRITE, "it is a link of user 65534; legal: a regular file of user 0");
    cr_assert_eq(chown(path, NOBODY, NOBODY), 0);
    expect_refused(path, WRITE, "it is a file of user 65534; legal: a regular file of user 0");
    expect_opened(path, O_RDONLY);
    cr_assert_eq(lchown(other, 0, 0), 0);
    expect_refused(other, WRITE, "it is a file of user 65534");
}

/* --- A job that is told such a name */

static void lose_a_rank(struct ranks_me *me)
{
    const char *variable = me->context;
    tutti_config config = { .size = sizeof config, .timeout_ms = 3000 };
    ranks_at(me, "rank %d: %s is a pipe", me->rank, variable);
    setenv(variable, path, 1);
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    if (me->rank == 1) {
        atomic_store(&me->world->slots[1].over, true);
        _exit(0);
    }
    ranks_refused(me, tutti_barrier(comm, tutti_no_stream()), TUTTI_PEER_LOST, "barrier", "rank 1");
    ranks_part(me, comm);
}

Test(files, job_whose_files_are_pipes)
{
    static const char *const variables[] = { "TUTTI_DEBUG_FILE", "TUTTI_TRACE", "TUTTI_RECORDER_FILE" };
    cr_assert_eq(mkfifo(path, 0600), 0);
    for (int i = 0; i < 3; i++)
        ranks_run(&(struct ranks_plan){ .n = 2, .run = lose_a_rank, .context = variables[i], .limit_s = 30 });
}

static void read_rules(struct ranks_me *me)
{
    char options[160];
    tutti_comm *comms[1];
    snprintf(options, sizeof options, "rules=%s", path);
    tutti_config config = { .size = sizeof config, .options = options };
    ranks_at(me, "the rules are a pipe");
    ranks_refused(me, tutti_comm_init_all(1, NULL, &config, comms), TUTTI_INVALID_ARGUMENT, "init_all",
        "cannot be read|it is a pipe|legal: a file of rules");
}

Test(files, rules_that_are_a_pipe)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    ranks_run(&(struct ranks_plan){ .n = 1, .run = read_rules, .limit_s = 30 });
}

/* What would make a file longer than the limit fails, without a signal; one that was there before stays. */
Test(files, limit_of_size_fails_without_a_signal)
{
    struct rlimit limit = { 8, RLIM_INFINITY };
    struct tt_file_guard guard;
    char why[TT_FILE_WHY];
    sigset_t blocked, pending;
    int fd = tt_file_open(path, WRITE, why);
    cr_assert_geq(fd, 0);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int blocks = 0; blocks < 2; blocks++) {
        sigemptyset(&blocked);
        sigaddset(&blocked, SIGXFSZ);
        if (blocks) {
            pthread_sigmask(SIG_BLOCK, &blocked, NULL);
            raise(SIGXFSZ);
        }
        cr_expect_not(tt_file_grow(fd, 9));
        cr_expect_eq(errno, EFBIG);
        cr_expect(tt_file_grow(fd, 8));
        tt_file_guard(&guard);
        cr_expect_eq(pwrite(fd, "x", 1, 8), -1);
        tt_file_unguard(&guard);
        cr_expect_eq(errno, EFBIG);
        sigpending(&pending);
        cr_expect_eq(sigismember(&pending, SIGXFSZ), blocks);
    }
    close(fd);
}
