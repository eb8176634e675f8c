/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c: the locks that a fork takes, and what the child begins with.
 *
 * Who forks waits until what a lock guards is whole, so the child finds it whole. One lock is held while a
 * launcher is asked, which may take minutes: that is not waited for, the child gets a new one, and what it
 * guards is of no use to it. Files with more to put in order than a lock watch forks by themselves.
 *
 * All of them do so from when the library is loaded: what would be registered with the first use comes too
 * late for a fork that has begun meanwhile, on another thread. */
#include "fork.h"

#include <pthread.h>
#include <unistd.h>

#include "attempt.h"
#include "device.h"
#include "group.h"
#include "handle.h"
#include "launch.h"

/* In the order in which they are taken elsewhere. */
static pthread_mutex_t *const taken[] = { &tt_attempts_lock, &tt_companies_lock, &tt_shells_lock };
enum { TAKEN = sizeof taken / sizeof taken[0] };

static pid_t parent;
static bool is_child;

static void before_fork(void)
{
    for (int i = 0; i < TAKEN; i++)
        pthread_mutex_lock(taken[i]);
    parent = getpid();
}

static void after_fork_in_parent(void)
{
    for (int i = TAKEN; i-- > 0;)
        pthread_mutex_unlock(taken[i]);
}

static void after_fork_in_child(void)
{
    is_child = true;
    tt_shells_disown(parent);
    tt_group_forget();
    pthread_mutex_init(&tt_launch_lock, NULL);
    after_fork_in_parent();
}

__attribute__((constructor)) static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool tt_fork_is_child(void)
{
    return is_child;
}
