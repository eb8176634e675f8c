/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c: the locks that a fork takes, and what the child begins with.
 *
 * Who forks waits until what a lock guards is whole, so the child finds it whole. Files with more to put in
 * order than a lock watch forks by themselves.
 *
 * All of them do so from when the library is loaded: what would be registered with the first use comes too
 * late for a fork that has begun meanwhile, on another thread. */
#include "base/fork.h"

#include <unistd.h>

#include "base/handle.h"

static pthread_mutex_t *locks[TT_FORK_LOCKS], *taken[TT_FORK_LOCKS];
static pid_t parent;
static bool is_child;

void tt_fork_takes(enum tt_fork_lock which, pthread_mutex_t *lock)
{
    locks[which] = lock;
}

static void before_fork(void)
{
    for (int i = 0; i < TT_FORK_LOCKS; i++)
        if ((taken[i] = locks[i]) != NULL)
            pthread_mutex_lock(taken[i]);
    parent = getpid();
}

static void after_fork_in_parent(void)
{
    for (int i = TT_FORK_LOCKS; i-- > 0;)
        if (taken[i] != NULL)
            pthread_mutex_unlock(taken[i]);
}

static void after_fork_in_child(void)
{
    is_child = true;
    tt_shells_disown(parent);
    after_fork_in_parent();
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_SHELLS, &tt_shells_lock);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool tt_fork_is_child(void)
{
    return is_child;
}
