/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h: what a child of fork() finds.
 *
 * A child has its parent's memory, and of its threads the one that forked. It may make communicators of its
 * own at once, whatever the parent's other threads were at. It may not use the parent's: their handles are
 * told from its own, so no call has to look. */
#ifndef TT_FORK_H
#define TT_FORK_H
#include <pthread.h>
#include <stdbool.h>

/* The parts that a fork puts in order, in the order in which it takes the locks, which is that in which they
 * are taken elsewhere: a worker that runs the last call of a communicator closes its trace and its recorder
 * with the lock of the streams held. */
enum tt_fork_part {
    TT_FORK_RELEASED,
    TT_FORK_STREAMS,
    TT_FORK_ASYNC_INITS,
    TT_FORK_LOCAL_PEERS,
    TT_FORK_HANDLES,
    TT_FORK_RECORDER,
    TT_FORK_TRACE,
    TT_FORK_LISTENERS,
    TT_FORK_CONNECTIONS,
    TT_FORK_DESCRIPTORS,
    TT_FORK_LAUNCH,
    TT_FORK_GROUP,
    TT_FORK_CARRIERS,
    TT_FORK_PARTS
};

/* From now on a fork takes this lock (NULL: none) and gives it back in parent and child. The child calls
 * `in_child` (NULL: nothing) first, while it has the lock. Called by the file that has the lock, when the
 * library is loaded. */
void tt_fork_takes(enum tt_fork_part part, pthread_mutex_t *lock, void (*in_child)(void));

/* This process was forked by one that had loaded the library. */
bool tt_fork_is_child(void);

#endif
