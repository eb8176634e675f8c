/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.c: fork the ranks, or start them as threads, and watch over them; the one file of the trainer that
 * reads clocks and environment.
 *
 * All ranks of a job that fails fail, most of them because another did. So the first failure is kept in
 * memory that all share, and the parent prints that one. */
#include "training/launch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SECOND_NS = 1000000000 };

struct shared {
    atomic_int failed;
    struct tr_error error;
    atomic_int written;
    atomic_int asked, ended; /* signals */
};

static struct shared alone, *shared = &alone;

int64_t tr_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * SECOND_NS + t.tv_nsec;
}

int tr_cores(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
}

bool tr_launched(void)
{
    static const char *const names[] = { "TUTTI_RANK", "PMIX_RANK", "PMI_RANK", "RANK" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (getenv(names[i]))
            return true;
    return false;
}

const char *tr_device_library(void)
{
    const char *named = secure_getenv("TRAIN_DEVICE_LIBRARY");
    return named ? named : "";
}

/* ---- signals ---- */

static pid_t watcher; /* the process that was started; ranks that it forks have another number */
static volatile sig_atomic_t times;
static bool asking; /* a signal asks for an end after the step */
static bool as_threads;

/* A terminal sends ^C to the ranks as well, so only the watcher counts. If it dies, its ranks do. */
static void on_signal(int number)
{
    int kept = errno;
    atomic_store(&shared->asked, number);
    if (getpid() == watcher && times++ && number == SIGINT) {
        signal(number, SIG_DFL);
        raise(number);
    }
    errno = kept;
}

static void listen_to(int number)
{
    struct sigaction old, new = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaction(number, &new, NULL);
}

static void listen_if_asking(void)
{
    if (!asking)
        return;
    listen_to(SIGINT);
    listen_to(SIGTERM);
}

int tr_asked(void)
{
    return atomic_load(&shared->asked);
}

void tr_ended_by(int number)
{
    atomic_store(&shared->ended, number);
}

/* ---- ranks ---- */

static int finish(bool ok, const struct tr_error *e)
{
    if (!ok)
        fprintf(stderr, "tutti-train: %s\n", e->text);
    return ok ? 0 : 1;
}

static int of_launcher(tr_rank_main *run, void *context)
{
    struct tr_error e = { .text = "" };
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .name = "world" };
    tutti_comm *world = NULL;
    if (tutti_comm_init_env(&config, &world) != TUTTI_OK)
        return finish(tr_fail(&e, "%s", tutti_get_last_error(NULL)), &e);
    listen_if_asking(); /* not before: while ranks join there is no step to end after */
    bool ok = run(world, context, &e);
    if (ok)
        tutti_comm_finalize(world);
    tutti_comm_destroy(world);
    finish(ok, &e);
    if (!ok) { /* at once: a launcher's library would first wait for the launcher's goodbye, for seconds */
        fflush(NULL);
        _exit(1);
    }
    return 0;
}

struct job {
    int n;
    const tutti_id *id;
    tr_rank_main *run;
    void *context;
};

/* The first that fails says why. */
static void say_failure(const struct tr_error *e)
{
    if (atomic_exchange(&shared->failed, 1))
        return;
    shared->error = *e;
    atomic_store(&shared->written, 1);
}

/* One of the ranks of a job. */
static bool run_rank(const struct job *j, int rank)
{
    struct tr_error e = { .text = "" };
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .name = "world" };
    tutti_comm *world = NULL;
    bool ok = tutti_comm_init_rank(j->n, rank, j->id, &config, &world) == TUTTI_OK ||
              tr_fail(&e, "%s", tutti_get_last_error(NULL));
    ok = ok && j->run(world, j->context, &e);
    if (!ok)
        say_failure(&e);
    if (ok)
        tutti_comm_finalize(world);
    if (world && (ok || !as_threads)) /* other threads may still wait for what it takes with it */
        tutti_comm_destroy(world);
    return ok;
}

/* ---- ranks that are threads ---- */

struct rank_thread {
    const struct job *job;
    int rank;
    pthread_t thread;
    sem_t *ended;
};

static void *thread_main(void *context)
{
    const struct rank_thread *t = context;
    run_rank(t->job, t->rank);
    sem_post(t->ended);
    return NULL;
}

/* Where one has failed the others would wait for it: the process ends, and they do. */
_Noreturn static void end_failed(void)
{
    fprintf(stderr, "tutti-train: %s\n", shared->error.text);
    fflush(NULL);
    _exit(1);
}

bool tr_ranks_are_threads(void)
{
    return as_threads;
}

void tr_rank_fails(const struct tr_error *e)
{
    say_failure(e);
    while (!atomic_load(&shared->written)) /* by another one, at this moment */
        continue;
    end_failed();
}

static int run_threads(const struct job *job)
{
    struct rank_thread *ranks = tr_new((size_t)job->n, sizeof *ranks);
    struct tr_error e = { .text = "" };
    sem_t ended;
    sem_init(&ended, 0, 0);
    for (int r = 0; r < job->n; r++) {
        ranks[r] = (struct rank_thread){ .job = job, .rank = r, .ended = &ended };
        if (pthread_create(&ranks[r].thread, NULL, thread_main, &ranks[r])) {
            finish(tr_fail(&e, "rank %d of %d cannot be a thread", r, job->n), &e);
            _exit(1);
        }
    }
    for (int left = job->n; left > 0; left--) {
        while (sem_wait(&ended) != 0)
            continue;
        if (atomic_load(&shared->written))
            end_failed();
    }
    for (int r = 0; r < job->n; r++)
        pthread_join(ranks[r].thread, NULL);
    sem_destroy(&ended);
    free(ranks);
    return 0;
}

/* ---- ranks that are processes ---- */

static void on_alarm(int number)
{
    (void)number;
}

/* From half a second on wait returns without a rank, again and again, as one alarm may come before it. */
static void wait_half_a_second(void)
{
    struct itimerval timer = { .it_value.tv_usec = 500000, .it_interval.tv_usec = 100000 };
    sigaction(SIGALRM, &(struct sigaction){ .sa_handler = on_alarm }, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Waits for all; a rank that a signal ended is the cause of whatever the others say.
 *
 * When one has failed the job has. Most others see that as they wait for it, and say what they waited for.
 * Who has not ended half a second later does not see it: it computes, or waits for one that died before it
 * joined. */
static int wait_for_all(int n, pid_t *pids)
{
    int status, worst = 0, killed = -1, by = 0;
    bool ended = false;
    for (int left = n; left > 0; left--) {
        pid_t pid;
        while ((pid = wait(&status)) < 0 && errno == EINTR) {
            for (int r = 0; r < n; r++)
                if (pids[r])
                    kill(pids[r], SIGKILL);
            ended = true;
        }
        int rank = 0;
        while (rank < n - 1 && pids[rank] != pid)
            rank++;
        pids[rank] = 0;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            continue;
        if (WIFSIGNALED(status) && killed < 0 && !ended)
            killed = rank, by = WTERMSIG(status);
        if (!worst)
            wait_half_a_second();
        worst = 1;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){ .it_value.tv_sec = 0 }, NULL);
    if (killed >= 0)
        fprintf(stderr, "tutti-train: rank %d was ended by signal %d (%s)\n", killed, by, strsignal(by));
    else if (atomic_load(&shared->written))
        fprintf(stderr, "tutti-train: %s\n", shared->error.text);
    return worst;
}

int tr_launch(int n, tr_rank_main *run, void *context)
{
    struct tr_error e = { .text = "" };
    tutti_id id;
    if (tr_launched())
        return of_launcher(run, context);
    listen_if_asking();
    if (n == 1)
        return finish(run(NULL, context, &e), &e);
    struct shared *all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t *pids = tr_new((size_t)n, sizeof *pids), parent = getpid();
    const struct job job = { n, &id, run, context };
    if (all == MAP_FAILED || tutti_get_id(&id) != TUTTI_OK)
        return finish(
            tr_fail(&e, "%s", all == MAP_FAILED ? "no memory to share" : tutti_get_last_error(NULL)), &e);
    atomic_store(&all->asked, tr_asked()); /* a signal may have come already */
    shared = all;
    fflush(NULL);
    if (as_threads)
        return run_threads(&job);
    for (int r = 0; r < n; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            bool ok = run_rank(&job, r);
            fflush(NULL);
            _exit(ok ? 0 : 1);
        }
        if (pids[r] < 0) {
            for (int x = 0; x < r; x++)
                kill(pids[x], SIGKILL);
            return finish(tr_fail(&e, "rank %d of %d cannot be forked", r, n), &e);
        }
    }
    int status = wait_for_all(n, pids);
    alone = *all;
    shared = &alone;
    munmap(all, sizeof *all);
    free(pids);
    return status;
}

void tr_launch_threads(void)
{
    as_threads = true;
}

int tr_launch_asking(int n, tr_rank_main *run, void *context)
{
    watcher = getpid();
    asking = true;
    int status = tr_launch(n, run, context), by = atomic_load(&shared->ended);
    return status == 0 && by ? 128 + by : status;
}
