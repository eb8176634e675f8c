/* SPDX-License-Identifier: BSD-3-Clause */
/* test_fork.c: a fork waits for the lock of handles, whatever the handles of the process are.
 *
 * Looks inside, for to meet the moment by chance takes some hundred forks. */
#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

#include "handle.h"
#include "ranks.h"

enum { HOLD_US = 50000 };
static _Atomic bool held;

static void *hold_for_a_while(void *argument)
{
    pthread_mutex_lock(&tt_shells_lock);
    atomic_store(&held, true);
    ranks_sleep_us(HOLD_US);
    pthread_mutex_unlock(&tt_shells_lock);
    return argument;
}

/* This process has made no communicator. */
static void fork_meanwhile(struct ranks_me *me)
{
    tutti_stream stream;
    pthread_t thread;
    int outcome = -1;
    ranks_ok(me, tutti_stream_create(&stream), "stream_create");
    pthread_create(&thread, NULL, hold_for_a_while, NULL);
    while (!atomic_load(&held))
        ranks_sleep_us(100);
    pid_t child = fork();
    if (child == 0)
        _exit(pthread_mutex_trylock(&tt_shells_lock));
    ranks_expect(me, waitpid(child, &outcome, 0) == child && outcome == 0,
        "the child cannot make a handle: somebody has the lock (0x%x)", outcome);
    pthread_join(thread, NULL);
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
}

Test(fork, of_a_process_that_has_streams_only)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = fork_meanwhile });
}
