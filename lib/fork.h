/* SPDX-License-Identifier: BSD-3-Clause */
/* fork.h: what a child of fork() finds.
 *
 * A child has its parent's memory, and of its threads the one that forked. It may make communicators of its
 * own at once, whatever the parent's other threads were at. It may not use the parent's: their handles are
 * told from its own, so no call has to look. */
#ifndef TT_FORK_H
#define TT_FORK_H
#include <stdbool.h>

/* This process was forked by one that had loaded the library. */
bool tt_fork_is_child(void);

#endif
