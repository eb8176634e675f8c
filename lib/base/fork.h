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

/* The locks that a fork takes, in the order in which they are taken elsewhere, too. */
enum tt_fork_lock { TT_FORK_ATTEMPTS, TT_FORK_COMPANIES, TT_FORK_SHELLS, TT_FORK_LOCKS };

/* From now on a fork takes this lock, and gives it back in parent and child. Called by the file that has the
 * lock, when the library is loaded. */
void tt_fork_takes(enum tt_fork_lock which, pthread_mutex_t *lock);

/* This process was forked by one that had loaded the library. */
bool tt_fork_is_child(void);

#endif
