/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.c: fork the ranks and watch over them.
 *
 * The parent never touches the library: it only waits, so that whatever happens to a rank, be it a crash or a
 * signal from the user, somebody is left to tell which rank it was, to end the others, and to reap them.
 * Children die with the parent. A process with several rank threads is forked too, for the same reason. */
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"

enum { GRACE_SECONDS = 2, SIGNAL_EXIT = 128 };

struct launch {
    int processes, threads;
    perf_rank_main rank_main;
    void *context;
    struct perf_shared_page *page;
    struct perf_process *process;
    pid_t *pids; /* 0: gone */
    int alive;
    int code; /* so far */
    int64_t ended; /* seconds: when the first one failed; 0: none did */
};

const char *perf_launcher(void)
{
    const char *names[] = { "TUTTI_ID", "TUTTI_ROOT", "TORCHELASTIC_RUN_ID", "PMIX_RANK", "PMI_RANK" };
    for (int i = 0; i < 5; i++)
        if (getenv(names[i]) != NULL)
            return names[i];
    return NULL;
}

struct rank_thread {
    struct launch *launch;
    int rank;
};

static int run_rank(struct launch *l, int rank)
{
    struct perf_rank_group group = { .n = l->processes * l->threads, .rank = rank, .page = l->page };
    if (l->page == NULL) { /* of a launcher, whose processes nobody has counted yet */
        group = (struct perf_rank_group){ .process = l->process, .thread = rank };
        perf_progress_begin(&group.progress);
    }
    return l->rank_main(&group, l->context);
}

/* A rank that failed ends its process at once: its fellow threads may be waiting for it. */
static void *run_thread(void *argument)
{
    struct rank_thread *t = argument;
    int code = run_rank(t->launch, t->rank);
    if (code == PERF_EXIT_USAGE || code == PERF_EXIT_FAILED)
        exit(code);
    return (void *)(intptr_t)code;
}

static int run_process(struct launch *l, int process)
{
    if (l->threads == 1)
        return run_rank(l, process);
    pthread_t ids[l->threads];
    struct rank_thread threads[l->threads];
    for (int i = 0; i < l->threads; i++) {
        threads[i] = (struct rank_thread){ l, process * l->threads + i };
        int error = pthread_create(&ids[i], NULL, run_thread, &threads[i]);
        if (error != 0) {
            fprintf(stderr, "collperf: rank %d: no thread: %s\n", threads[i].rank, strerror(error));
            return PERF_EXIT_FAILED;
        }
    }
    int code = PERF_EXIT_OK;
    for (int i = 0; i < l->threads; i++) {
        void *result;
        pthread_join(ids[i], &result);
        code = (int)(intptr_t)result > code ? (int)(intptr_t)result : code;
    }
    return code;
}

/* NULL if there is no memory. */
static struct perf_shared_page *create_shared_page(int n)
{
    size_t bytes = sizeof(struct perf_shared_page) + (size_t)n * PERF_RECORD_BYTES;
    struct perf_shared_page *page =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&page->barrier, &shared, (unsigned)n);
    pthread_barrierattr_destroy(&shared);
    perf_progress_begin(&page->progress);
    return page;
}

static void end_all(struct launch *l)
{
    for (int i = 0; i < l->processes; i++)
        if (l->pids[i] > 0)
            kill(l->pids[i], SIGKILL);
}

/* Ends all ranks, because nobody wants the rest: the user says so, or has closed the pipe that he read the
 * report from. No rank has failed, so none is named, and no other gets the time to miss it. */
static void end_early(struct launch *l, int signal)
{
    l->ended = l->ended != 0 ? l->ended : 1;
    l->code = SIGNAL_EXIT + signal;
    end_all(l);
}

static void name_ranks(const struct launch *l, int process, char *text, size_t bytes)
{
    int first = process * l->threads;
    if (l->threads == 1)
        snprintf(text, bytes, "rank %d", first);
    else
        snprintf(text, bytes, "the process of ranks %d to %d", first, first + l->threads - 1);
}

/* One process is over. The first that fails starts the end of all. */
static void note_end(struct launch *l, int process, int status)
{
    l->pids[process] = 0;
    l->alive--;
    if (l->ended == 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) {
        end_early(l, SIGPIPE);
        return;
    }
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : PERF_EXIT_FAILED;
    bool failed = code != PERF_EXIT_OK && code != PERF_EXIT_WRONG && code != PERF_EXIT_BLIND;
    if (WIFSIGNALED(status) && l->ended == 0) {
        char ranks[64];
        name_ranks(l, process, ranks, sizeof ranks);
        fprintf(stderr, "collperf: %s died of signal %d (%s); the others are ended\n", ranks,
            WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (failed && l->ended == 0) {
        l->code = code == PERF_EXIT_USAGE ? PERF_EXIT_USAGE : PERF_EXIT_FAILED;
        l->ended = (int64_t)perf_clock_seconds();
    }
    if (l->ended == 0 && code > l->code)
        l->code = code;
}

static void reap(struct launch *l)
{
    for (int i = 0; i < l->processes; i++) {
        int status;
        if (l->pids[i] > 0 && waitpid(l->pids[i], &status, WNOHANG) == l->pids[i])
            note_end(l, i, status);
    }
}

/* Watches the ranks until all are gone. A rank that fails leaves the others a moment to say what they saw of
 * it. */
static int watch(struct launch *l, const sigset_t *signals)
{
    while (l->alive > 0) {
        int got = sigtimedwait(signals, NULL, &(struct timespec){ .tv_sec = 1 });
        if (got > 0 && got != SIGCHLD)
            end_early(l, got);
        reap(l);
        if (l->ended > 0 && (int64_t)perf_clock_seconds() - l->ended > GRACE_SECONDS)
            end_all(l);
        if (l->ended == 0)
            perf_progress_show(&l->page->progress);
    }
    perf_progress_hide(&l->page->progress);
    return l->code;
}

static int fork_all(struct launch *l, const sigset_t *before)
{
    pid_t parent = getpid();
    for (int i = 0; i < l->processes; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(PERF_EXIT_FAILED);
            sigprocmask(SIG_SETMASK, before, NULL);
            exit(run_process(l, i));
        }
        if (pid < 0) {
            fprintf(stderr, "collperf: rank %d: no process: %s\n", i * l->threads, strerror(errno));
            return PERF_EXIT_FAILED;
        }
        l->pids[i] = pid;
        l->alive++;
    }
    return PERF_EXIT_OK;
}

static int launch_here(struct launch *l)
{
    struct sigaction normal = { .sa_handler = SIG_DFL };
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigaction(
        SIGCHLD, &normal, NULL); /* a parent may have left it ignored, which would hide how a child ended */
    sigprocmask(SIG_BLOCK, &signals, &before);
    fflush(NULL);
    if (fork_all(l, &before) != PERF_EXIT_OK) {
        l->code = PERF_EXIT_FAILED;
        l->ended = 1;
        end_all(l);
    }
    return watch(l, &signals);
}

int perf_launch(int processes, int threads, perf_rank_main rank_main, void *context)
{
    if (processes == 0) {
        struct perf_process process = { .threads = threads };
        struct launch one = { 1, threads, rank_main, context, .process = threads > 1 ? &process : NULL };
        pthread_barrier_init(&process.barrier, NULL, (unsigned)threads);
        return run_process(&one, 0);
    }
    struct launch l = { processes, threads, rank_main, context,
        .page = create_shared_page(processes * threads) };
    l.pids = calloc((size_t)processes, sizeof l.pids[0]);
    int code = PERF_EXIT_FAILED;
    if (l.page == NULL || l.pids == NULL)
        fprintf(stderr, "collperf: no memory to start %d ranks\n", processes * threads);
    else
        code = launch_here(&l);
    free(l.pids);
    return code;
}
