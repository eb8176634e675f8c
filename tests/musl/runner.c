/* SPDX-License-Identifier: BSD-3-Clause */
/* runner.c: runs the tests that criterion/criterion.h has registered, each in a child of its own.
 *
 * usage: suite [--jobs N] [--filter SUITE/TEST].. [--except SUITE/TEST]..   (patterns of the shell)
 *
 * What a test prints stays as it is. A test that failed, stood still or skipped is named on stderr, and the
 * last line counts them; the exit code is 0 if none failed and some ran. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SKIPPED = 77, PATTERNS_MAX = 64, JOBS_MAX = 64, LOOK_NS = 20000000 };
enum { LIMIT_SECONDS = 300, WITH_LOAD = 10 }; /* as tests/rig/suite_limit.c */

static struct cr_case *cases;
static _Atomic int failures; /* of the test that this child is */

struct patterns {
    const char *words[PATTERNS_MAX];
    int count;
};

struct job {
    const struct cr_case *test;
    pid_t pid; /* 0: free */
    double ends; /* seconds of the clock */
};

static struct {
    int passed, failed, skipped;
} result;

void cr_add(struct cr_case *one)
{
    one->next = cases;
    cases = one;
}

static void tell(const char *head, const char *format, va_list args)
{
    char text[2048];
    int length = snprintf(text, sizeof text, "%s", head);
    vsnprintf(text + length, sizeof text - (size_t)length, format, args);
    fprintf(stderr, "%s\n", text);
}

void cr_failed(bool fatal, const char *file, int line, const char *what, const char *format, ...)
{
    char head[1024];
    va_list args;
    va_start(args, format);
    snprintf(head, sizeof head, "%s:%d: %.800s: ", file, line, what);
    tell(head, format, args);
    va_end(args);
    failures++;
    if (fatal)
        _exit(EXIT_FAILURE);
}

void cr_skip_test(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell("skips: ", format, args);
    va_end(args);
    _exit(SKIPPED);
}

void cr_log_info(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tell("", format, args);
    va_end(args);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* What TestSuite says of a suite; NULL: nothing. */
static const struct cr_case *suite_of(const struct cr_case *test)
{
    for (const struct cr_case *one = cases; one != NULL; one = one->next)
        if (one->name == NULL && strcmp(one->suite, test->suite) == 0)
            return one;
    return NULL;
}

static bool matches(const struct patterns *patterns, const struct cr_case *test)
{
    char name[256];
    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    for (int i = 0; i < patterns->count; i++)
        if (fnmatch(patterns->words[i], name, 0) == 0)
            return true;
    return false;
}

static void run(const struct cr_case *test, const struct cr_case *suite)
{
    setpgid(0, 0); /* so that its children end with it */
    if (suite != NULL && suite->data.init != NULL)
        suite->data.init();
    if (test->data.init != NULL)
        test->data.init();
    test->run();
    if (test->data.fini != NULL)
        test->data.fini();
    if (suite != NULL && suite->data.fini != NULL)
        suite->data.fini();
    exit(failures > 0 ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void start(struct job *job, const struct cr_case *test)
{
    const struct cr_case *suite = suite_of(test);
    double limit = test->data.timeout > 0                     ? test->data.timeout
                   : suite != NULL && suite->data.timeout > 0 ? suite->data.timeout
                                                              : LIMIT_SECONDS;
    fflush(NULL);
    *job = (struct job){ test, fork(), now() + WITH_LOAD * limit };
    if (job->pid == 0)
        run(test, suite);
    if (job->pid < 0) {
        perror("fork");
        exit(EXIT_FAILURE);
    }
}

static void judge(const struct job *job, int status)
{
    const char *what = NULL;
    char why[64];
    int want = job->test->data.signal;
    bool good = want != 0 ? WIFSIGNALED(status) && WTERMSIG(status) == want
                          : WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
    kill(-job->pid, SIGKILL); /* whom it has left behind */
    if (good) {
        result.passed++;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
        result.skipped++;
        what = "skipped";
        why[0] = 0;
    } else {
        result.failed++;
        what = "FAILED";
        if (WIFSIGNALED(status))
            snprintf(why, sizeof why, " (signal %d)", WTERMSIG(status));
        else
            snprintf(why, sizeof why, " (exit code %d)", WEXITSTATUS(status));
    }
    if (what != NULL)
        fprintf(stderr, "%s: %s/%s%s\n", what, job->test->suite, job->test->name, why);
}

/* Ends what has stood still for too long, and judges what is over; true if the job is free. */
static bool look(struct job *job)
{
    int status;
    if (job->pid != 0 && now() > job->ends) {
        fprintf(stderr, "stands still: %s/%s\n", job->test->suite, job->test->name);
        kill(-job->pid, SIGKILL);
    }
    if (job->pid != 0 && waitpid(job->pid, &status, WNOHANG) == job->pid) {
        judge(job, status);
        job->pid = 0;
    }
    return job->pid == 0;
}

static void run_all(struct job *jobs, int count, const struct patterns *only, const struct patterns *except)
{
    const struct cr_case *next = cases;
    for (bool busy = true; busy;) {
        busy = false;
        for (int i = 0; i < count; i++) {
            while (next != NULL && (next->name == NULL || next->data.disabled ||
                                       (only->count > 0 && !matches(only, next)) || matches(except, next)))
                next = next->next;
            if (look(&jobs[i]) && next != NULL) {
                start(&jobs[i], next);
                next = next->next;
            }
            busy = busy || jobs[i].pid != 0 || next != NULL;
        }
        nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
    }
}

int main(int argc, char **argv)
{
    struct job jobs[JOBS_MAX] = { { NULL, 0, 0 } };
    struct patterns only = { .count = 0 }, except = { .count = 0 };
    int count = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        struct patterns *list = strcmp(argv[i], "--except") == 0 ? &except : &only;
        if (strcmp(argv[i], "--jobs") == 0)
            count = atoi(argv[i + 1]);
        else if (list->count < PATTERNS_MAX)
            list->words[list->count++] = argv[i + 1];
    }
    run_all(jobs, count < 1 ? 1 : count > JOBS_MAX ? JOBS_MAX : count, &only, &except);
    fprintf(stderr, "%d passed, %d failed, %d skipped\n", result.passed, result.failed, result.skipped);
    return result.failed > 0 || result.passed == 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
