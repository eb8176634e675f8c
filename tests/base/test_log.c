/* SPDX-License-Identifier: BSD-3-Clause */
/* test_log.c: the form of a log line, its level and destination, and the errors that end in it.
 *
 * Each test is a process of its own, so TUTTI_DEBUG is read afresh in each. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/status.h"

static char directory[] = "/tmp/tutti_test_XXXXXX";
static char path[256];

static void log_to(const char *level, const char *name)
{
    cr_assert(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/%s", directory, name);
    setenv("TUTTI_DEBUG_FILE", path, 1);
    if (level)
        setenv("TUTTI_DEBUG", level, 1);
    else
        unsetenv("TUTTI_DEBUG");
}

/* Everything in the file of that name, which is then removed with its directory. */
static void read_log(const char *name, char *text, size_t bytes)
{
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, bytes - 1, file) : 0;
    text[length] = 0;
    if (file)
        fclose(file);
    unlink(path);
    rmdir(directory);
}

static void log_each_level(void)
{
    tt_log(TT_LOG_ERROR, "e");
    tt_log(TT_LOG_WARN, "w");
    tt_log(TT_LOG_INFO, "i");
    tt_log(TT_LOG_TRACE, "t");
}

/* The lines must be these, in this order, each with this process's number. */
static void expect_lines(const char *text, const char *const *lines, int n)
{
    char expected[2048] = "";
    for (int i = 0; i < n; i++) {
        size_t at = strlen(expected);
        snprintf(expected + at, sizeof expected - at, "tutti[%ld] %s\n", (long)getpid(), lines[i]);
    }
    cr_expect_str_eq(text, expected);
}

static const char *const all_lines[] = { "ERROR: e", "WARN: w", "INFO: i", "TRACE: t" };

Test(log, default_is_warn)
{
    char text[2048];
    log_to(NULL, "log");
    log_each_level();
    read_log("log", text, sizeof text);
    expect_lines(text, all_lines, 2);
}

Test(log, none)
{
    char text[2048];
    log_to("none", "log");
    log_each_level();
    cr_expect_not(tt_log_enabled(TT_LOG_NONE));
    cr_expect_not(tt_log_enabled(TT_LOG_ERROR));
    read_log("log", text, sizeof text);
    expect_lines(text, all_lines, 0);
}

Test(log, error)
{
    char text[2048];
    log_to("ERROR", "log");
    log_each_level();
    read_log("log", text, sizeof text);
    expect_lines(text, all_lines, 1);
}

Test(log, trace)
{
    char text[2048];
    log_to("trace", "log");
    log_each_level();
    read_log("log", text, sizeof text);
    expect_lines(text, all_lines, 4);
}

Test(log, bad_level_is_named)
{
    char text[2048];
    log_to("loud", "log");
    log_each_level();
    read_log("log", text, sizeof text);
    const char *const lines[] = {
        "WARN: TUTTI_DEBUG=\"loud\" is not a level; legal: none, error, warn, info, trace. Using warn",
        "ERROR: e", "WARN: w"
    };
    expect_lines(text, lines, 3);
}

Test(log, file_name_is_expanded)
{
    char text[2048], host[200] = "", name[256];
    cr_assert_eq(gethostname(host, sizeof host - 1), 0);
    log_to(NULL, "a.%h.%p.%%.%x.");
    tt_log(TT_LOG_WARN, "here");
    snprintf(name, sizeof name, "a.%s.%ld.%%.%%x.", host, (long)getpid());
    read_log(name, text, sizeof text);
    const char *const lines[] = { "WARN: here" };
    expect_lines(text, lines, 1);
}

/* What goes to stderr while `run` runs. */
static void read_stderr(void (*run)(void), char *text, size_t bytes)
{
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    int saved = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    run();
    dup2(saved, STDERR_FILENO);
    close(saved);
    close(ends[1]);
    ssize_t length = read(ends[0], text, bytes - 1);
    text[length > 0 ? length : 0] = 0;
    close(ends[0]);
}

Test(log, stderr_when_the_file_cannot_be_opened)
{
    char text[2048];
    unsetenv("TUTTI_DEBUG");
    setenv("TUTTI_DEBUG_FILE", "/nowhere/at/all", 1);
    read_stderr(log_each_level, text, sizeof text);
    const char *const lines[] = {
        "WARN: cannot open TUTTI_DEBUG_FILE /nowhere/at/all: No such file or directory; logging to stderr",
        "ERROR: e", "WARN: w"
    };
    expect_lines(text, lines, 3);
}

Test(log, stderr_when_the_name_is_too_long)
{
    char text[2048], name[2000];
    memset(name, 'a', sizeof name);
    name[sizeof name - 1] = 0;
    unsetenv("TUTTI_DEBUG");
    setenv("TUTTI_DEBUG_FILE", name, 1);
    read_stderr(log_each_level, text, sizeof text);
    const char *const lines[] = { "WARN: TUTTI_DEBUG_FILE is empty or too long; logging to stderr",
        "ERROR: e", "WARN: w" };
    expect_lines(text, lines, 3);
}

Test(log, a_line_stays_a_line)
{
    char text[4096], longest[3000];
    log_to(NULL, "log");
    memset(longest, 'z', sizeof longest);
    longest[sizeof longest - 1] = 0;
    tt_log(TT_LOG_WARN, "a\nb\r\x1b[31m%s", "\x7f.");
    tt_log(TT_LOG_WARN, "%s", longest);
    read_log("log", text, sizeof text);
    cr_expect(strstr(text, "WARN: a b  [31m .\n"), "%s", text);
    cr_expect_eq(strlen(strchr(text, '\n') + 1), 1024);
    cr_expect_eq(text[strlen(text) - 1], '\n');
}

Test(log, a_forked_child_says_its_own_number)
{
    char text[2048], line[64];
    log_to(NULL, "log");
    tt_log(TT_LOG_WARN, "parent");
    pid_t child = fork();
    if (child == 0) {
        tt_log(TT_LOG_WARN, "child");
        _exit(0);
    }
    waitpid(child, NULL, 0);
    read_log("log", text, sizeof text);
    snprintf(line, sizeof line, "tutti[%ld] WARN: child\n", (long)child);
    cr_expect(strstr(text, line), "%s", text);
}

Test(log, a_full_disk_changes_nothing)
{
    unsetenv("TUTTI_DEBUG");
    setenv("TUTTI_DEBUG_FILE", "/dev/full", 1);
    errno = EDOM;
    tt_log(TT_LOG_WARN, "lost");
    cr_expect_eq(errno, EDOM);
}

Test(log, lines_go_to_the_end_that_is_there_now)
{
    char text[2048];
    log_to(NULL, "log");
    tt_log(TT_LOG_WARN, "first");
    cr_assert_eq(truncate(path, 0), 0);
    tt_log(TT_LOG_WARN, "second");
    read_log("log", text, sizeof text);
    const char *const lines[] = { "WARN: second" };
    expect_lines(text, lines, 1);
}

static void *log_many(void *name)
{
    for (int i = 0; i < 50; i++)
        tt_log(TT_LOG_WARN, "%s", (const char *)name);
    return NULL;
}

Test(log, lines_of_threads_do_not_mix)
{
    static char text[65536];
    static char names[4][120];
    pthread_t threads[4];
    log_to(NULL, "log");
    for (int i = 0; i < 4; i++) {
        memset(names[i], 'a' + i, sizeof names[i] - 1);
        cr_assert_eq(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    read_log("log", text, sizeof text);
    int lines = 0;
    for (char *rest = text, *line = strsep(&rest, "\n"); rest; line = strsep(&rest, "\n"), lines++) {
        const char *said = strstr(line, "WARN: ");
        cr_assert(said, "%s", line);
        cr_assert_str_eq(said + 6, names[said[6] - 'a']);
    }
    cr_expect_eq(lines, 200);
}

Test(log, a_failure_is_kept_and_logged)
{
    char text[2048], odd[128], logged[160];
    snprintf(odd, sizeof odd, "odd: %s", strerror(12345)); /* in the words of this C library */
    snprintf(logged, sizeof logged, "ERROR: %s", odd);
    log_to("error", "log");
    cr_expect_str_eq(tt_last_error(), "");
    cr_expect_eq(tt_fail(TUTTI_MISMATCH, "rank %d differs", 3), TUTTI_MISMATCH);
    cr_expect_str_eq(tt_last_error(), "rank 3 differs");
    cr_expect_eq(tt_fail(TUTTI_TIMEOUT, "again: %s", tt_last_error()), TUTTI_TIMEOUT);
    cr_expect_str_eq(tt_last_error(), "again: rank 3 differs");
    errno = ENOENT;
    cr_expect_eq(tt_fail_errno(TUTTI_SYSTEM_ERROR, "cannot open %s", "it"), TUTTI_SYSTEM_ERROR);
    cr_expect_str_eq(tt_last_error(), "cannot open it: No such file or directory");
    errno = 12345;
    tt_fail_errno(TUTTI_SYSTEM_ERROR, "odd");
    cr_expect_str_eq(tt_last_error(), odd);
    tt_set_last_error("quiet");
    cr_expect_str_eq(tt_last_error(), "quiet");
    read_log("log", text, sizeof text);
    const char *const lines[] = { "ERROR: rank 3 differs", "ERROR: again: rank 3 differs",
        "ERROR: cannot open it: No such file or directory", logged };
    expect_lines(text, lines, 4);
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    tt_set_last_error("of the other thread");
    return NULL;
}

Test(log, the_last_error_is_per_thread)
{
    pthread_t thread;
    tt_set_last_error("mine");
    cr_assert_eq(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    cr_expect_str_eq(tt_last_error(), "mine");
}

Test(log, long_failures_are_cut)
{
    char longest[2000];
    memset(longest, 'z', sizeof longest);
    longest[sizeof longest - 1] = 0;
    setenv("TUTTI_DEBUG", "none", 1);
    tt_fail(TUTTI_INTERNAL_ERROR, "%s", longest);
    cr_expect_eq(strlen(tt_last_error()), TT_ERROR_TEXT - 1);
}

Test(log, each_status_has_a_text_of_its_own)
{
    for (int a = TUTTI_INTERNAL_ERROR; a <= TUTTI_IN_PROGRESS; a++) {
        cr_expect_str_neq(tutti_status_string((tutti_status)a), "unknown status");
        for (int b = TUTTI_INTERNAL_ERROR; b < a; b++)
            cr_expect_str_neq(tutti_status_string((tutti_status)a), tutti_status_string((tutti_status)b));
    }
    cr_expect_str_eq(tutti_status_string((tutti_status)2), "unknown status");
    cr_expect_str_eq(tutti_status_string((tutti_status)-12), "unknown status");
}

Test(log, version_and_type_bytes)
{
    static const size_t bytes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 };
    cr_expect_eq(tutti_get_version(), TUTTI_VERSION);
    for (int type = TUTTI_INT8; type <= TUTTI_FLOAT8_E5M2; type++)
        cr_expect_eq(tutti_type_bytes((tutti_type)type), bytes[type], "type %d", type);
    cr_expect_eq(tutti_type_bytes((tutti_type)12), 0);
    cr_expect_eq(tutti_type_bytes((tutti_type)-1), 0);
}

/* --- A process that ends inside a group, with so many calls in it */

static void *call_in_group(void *calls)
{
    int32_t value = 1;
    tutti_comm *comm;
    if (tutti_comm_init_all(1, NULL, NULL, &comm) != TUTTI_OK)
        _exit(1);
    tutti_group_start();
    tutti_group_end();
    if (*(int *)calls > 0)
        tutti_group_start();
    for (int i = 0; i < *(int *)calls; i++)
        tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    return NULL;
}

static void end_with_calls(int calls, bool in_thread)
{
    pthread_t thread;
    if (!in_thread)
        call_in_group(&calls);
    else if (pthread_create(&thread, NULL, call_in_group, &calls) == 0)
        pthread_join(thread, NULL);
    exit(0);
}

Test(log, group_that_is_open_at_exit)
{
    char text[1024];
    log_to(NULL, "log");
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (child == 0)
            end_with_calls(i, i == 2);
        waitpid(child, NULL, 0);
    }
    read_log("log", text, sizeof text);
    static const char *const lines[] = {
        "process ends inside a group: a tutti_group_end is missing, and 1 call never",
        "thread ends inside a group: a tutti_group_end is missing, and 2 calls never",
        "process ends inside a group: a tutti_group_end is missing, and 3 calls never"
    };
    const char *at = text;
    for (int i = 0; i < 3; i++) {
        const char *end = strchr(at, '\n'), *found = strstr(at, lines[i]);
        cr_assert(end != NULL && found != NULL && found < end, "line %d: %s", i, text);
        at = end + 1;
    }
    cr_expect_str_empty(at);
}
