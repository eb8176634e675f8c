/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.c: the locks that a fork takes, and what the child begins with: the one place that calls
 * pthread_atfork, whose handlers elsewhere would take their locks in the order of the link.
 *
 * Who forks waits until what a lock guards is whole, so the child finds it whole. All of them are known from
 * when the library is loaded: what would be registered with the first use comes too late for a fork that has
 * begun meanwhile, on another thread. */
#include "base/fork.h"

#include <unistd.h>

#include "base/handle.h"

static struct {
    struct {
        pthread_mutex_t *lock;
        void (*in_child)(void);
    } parts[TT_FORK_PARTS];
    pid_t parent;
    bool is_child;
} process;

void tt_fork_takes(enum tt_fork_part part, pthread_mutex_t *lock, void (*in_child)(void))
{
    process.parts[part].lock = lock;
    process.parts[part].in_child = in_child;
}

static void before_fork(void)
{
    process.parent = getpid();
    for (int i = 0; i < TT_FORK_PARTS; i++)
        if (process.parts[i].lock != NULL)
            pthread_mutex_lock(process.parts[i].lock);
}

static void after_fork_in_parent(void)
{
    for (int i = TT_FORK_PARTS; i-- > 0;)
        if (process.parts[i].lock != NULL)
            pthread_mutex_unlock(process.parts[i].lock);
}

static void after_fork_in_child(void)
{
    process.is_child = true;
    for (int i = TT_FORK_PARTS; i-- > 0;)
        if (process.parts[i].in_child != NULL)
            process.parts[i].in_child();
    after_fork_in_parent();
}

static void disown_handles(void)
{
    tt_handles_disown(process.parent);
}

__attribute__((constructor)) static void watch_forks(void)
{
    tt_fork_takes(TT_FORK_HANDLES, &tt_handles_lock, disown_handles);
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

bool tt_fork_is_child(void)
{
    return process.is_child;
}
