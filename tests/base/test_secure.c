/* SPDX-License-Identifier: BSD-3-Clause */
/* test_secure.c: a program that has rights which its user lacks takes nothing from that user's environment,
 * which names files to write and a library to load. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROOM = 32768, NOBODY = 65534 };

static char directory[] = "/tmp/tutti_test_XXXXXX", program[100];

static void make_directory(void)
{
    cr_assert_not_null(mkdtemp(directory));
    cr_assert_eq(chmod(directory, 0755), 0);
    snprintf(program, sizeof program, "%s/program", directory);
    setenv("TUTTI_SLICE", "12345", 1);
    setenv("TUTTI_RANK", "7", 1); /* half of what init_env needs */
}

static void remove_directory(void)
{
    unlink(program);
    rmdir(directory);
}

TestSuite(secure, .init = make_directory, .fini = remove_directory, .timeout = 60);

static void copy_program(void)
{
    struct stat s;
    int from = open("tests/secure_main", O_RDONLY | O_CLOEXEC);
    int to = open(program, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
    cr_assert(from >= 0 && fstat(from, &s) == 0, "tests/secure_main is not there");
    cr_assert(to >= 0);
    while (sendfile(to, from, NULL, (size_t)s.st_size) > 0)
        continue;
    close(from);
    close(to);
}

static void run_program(char *text)
{
    int ends[2], outcome;
    size_t length = 0;
    ssize_t got;
    cr_assert_eq(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(ends[1], STDOUT_FILENO);
        execl(program, program, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (length < ROOM - 1 && (got = read(ends[0], text + length, ROOM - 1 - length)) > 0)
        length += (size_t)got;
    text[length] = '\0';
    close(ends[0]);
    waitpid(pid, &outcome, 0);
    cr_assert_eq(outcome, 0, "it ended with %x: %s", outcome, text);
}

/* Another user's, or of another group that this user is in. */
static bool give_rights(void)
{
    gid_t groups[64];
    int count = getgroups(64, groups);
    if (geteuid() == 0)
        return chown(program, NOBODY, NOBODY) == 0 && chmod(program, 04755) == 0;
    for (int i = 0; i < count; i++)
        if (groups[i] != getegid())
            return chown(program, (uid_t)-1, groups[i]) == 0 && chmod(program, 02755) == 0;
    return false;
}

Test(secure, environment_is_ignored)
{
    static char text[ROOM];
    copy_program();
    run_program(text);
    cr_assert(strstr(text, "secure 0\n") && strstr(text, "slice=12345 "), "%s", text);
    cr_expect(strstr(text, "TUTTI_SIZE") != NULL && strstr(text, "is not set"), "%s", text);
    if (!give_rights())
        cr_skip_test("this user can give no program rights that it lacks");
    run_program(text);
    if (strstr(text, "secure 0\n") != NULL)
        cr_skip_test("programs get no rights here (nosuid)");
    cr_expect(strstr(text, "slice=0 ") != NULL, "%s", text);
    cr_expect(strstr(text, "init_env -2: no rank is known: the environment is ignored"), "%s", text);
}
