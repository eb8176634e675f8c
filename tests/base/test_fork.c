/* SPDX-License-Identifier: BSD-3-Clause */
/* test_fork.c: a fork waits for the locks of handles, of streams and of the trace, where there is no
 * communicator and no trace, too. Looks inside, for to meet the moment by chance takes some hundred forks, or
 * ten thousand. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/handle.h"
#include "tests/rig/patience.h"
#include "tests/rig/ranks.h"
#include "observe/recorder.h"
#include "stream/stream_internal.h"
#include "observe/trace_internal.h"

enum { HOLD_US = 50000, FORKS = 60, PATIENCE_S = 30 };
static _Atomic bool held;

static void *hold_for_a_while(void *argument)
{
    pthread_mutex_lock(&tt_handles_lock);
    atomic_store(&held, true);
    ranks_sleep_us(HOLD_US);
    pthread_mutex_unlock(&tt_handles_lock);
    return argument;
}

/* Nothing of the library was called before, so nothing of what its calls do as they are made. */
static void fork_meanwhile(struct ranks_me *me)
{
    pthread_t thread;
    int outcome = -1;
    pthread_create(&thread, NULL, hold_for_a_while, NULL);
    while (!atomic_load(&held))
        ranks_sleep_us(100);
    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_trylock(&tt_handles_lock));
    bool ended = waitpid(child, &outcome, 0) == child;
    ranks_expect(
        me, ended && outcome == 0, "the child cannot make a handle: somebody has the lock (0x%x)", outcome);
    pthread_join(thread, NULL);
}

Test(fork, of_a_process_that_has_called_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = fork_meanwhile });
}

static _Atomic bool over;

static void *ask_for_a_trace(void *argument)
{
    while (!atomic_load(&over))
        tt_trace_file_open(0);
    return argument;
}

static void fork_without_a_trace(struct ranks_me *me)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, ask_for_a_trace, NULL);
    for (int i = 0; i < FORKS; i++) {
        int outcome = -1;
        ranks_at(me, "fork %d", i);
        pid_t child = fork();
        if (child == 0) {
            alarm(patience_seconds(PATIENCE_S));
            _exit(tt_trace_file_open(0));
        }
        bool ended = waitpid(child, &outcome, 0) == child;
        if (!ranks_expect(me, ended && outcome == 0, "the child ended with 0x%x", outcome))
            break; /* one is enough to wait for */
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

Test(fork, of_a_process_that_has_no_trace)
{
    unsetenv("TUTTI_TRACE");
    ranks_run(&(struct ranks_plan){ .n = 1, .run = fork_without_a_trace });
}

/* As a worker does that runs the last call of a communicator which was destroyed meanwhile. */
static void *end_a_communicator(void *argument)
{
    struct tt_trace none = { 0 };
    pthread_mutex_lock(&tt_streams_lock);
    atomic_store(&held, true);
    ranks_sleep_us(HOLD_US);
    tt_trace_file_remove(&none);
    tt_recorder_close(argument);
    pthread_mutex_unlock(&tt_streams_lock);
    return NULL;
}

static void fork_as_a_worker_ends(struct ranks_me *me)
{
    struct tt_recorder *recorder;
    pthread_t worker;
    int outcome = -1;
    if (!ranks_ok(me, tt_recorder_open(1, 0, "ends", &recorder), "recorder"))
        return;
    ranks_at(me, "fork and worker wait for each other");
    pthread_create(&worker, NULL, end_a_communicator, recorder);
    while (!atomic_load(&held))
        ranks_sleep_us(100);
    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_trylock(&tt_streams_lock));
    bool ended = waitpid(child, &outcome, 0) == child;
    ranks_expect(me, ended && outcome == 0, "the child ended with 0x%x", outcome);
    pthread_join(worker, NULL);
}

/* The worker takes the locks of the trace and of the recorder after that of the streams; so must a fork. */
Test(fork, while_a_worker_ends_a_communicator)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = fork_as_a_worker_ends, .limit_s = PATIENCE_S });
}
