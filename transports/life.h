/* SPDX-License-Identifier: BSD-3-Clause */
/* life.h: how a process shows to others that it lives: by a descriptor that tells when its memory is gone.
 *
 * The process maps a memory file that nobody else maps. The kernel refuses to seal a file against writing
 * while somebody may write to it by a mapping; so whoever has the descriptor tries, and where that succeeds
 * the process has ended, by whatever signal, or runs another program (exec). From then on the seal says so
 * to all.
 *
 * This needs nothing but memory files: no process id, so ranks may be in several pid namespaces; no
 * permission; and no call that is younger than Linux 3.17, or that a container might forbid. A pidfd
 * (Linux 5.3) is younger, is forbidden in older containers, and lives on through an exec. A lock or a pipe
 * passes to the children of fork(), and would live as long as they do; the mapping does not pass. */
#ifndef TT_TRANSPORTS_LIFE_H
#define TT_TRANSPORTS_LIFE_H
#include <stdbool.h>

/* A descriptor for the peers of this process, true until it ends; -1, with errno set, if there can be none.
 * Closing it here changes nothing for those who have it. */
int tt_life_begin(void);

/* True if the process is over, false if that cannot be told (fd -1). */
bool tt_life_over(int fd);

#endif
