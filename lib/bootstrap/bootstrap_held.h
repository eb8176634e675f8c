/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_held.h: the connections of the bootstrap and the files that came by them, which a child that is
 * forked meanwhile does not keep.
 *
 * With a copy of a connection, a child would hide from the rank at its other end that its parent has died;
 * and with copies of all that earlier ranks have brought, it would soon have no room for what it needs as a
 * rank itself. */
#ifndef TT_BOOTSTRAP_HELD_H
#define TT_BOOTSTRAP_HELD_H

/* What opens a descriptor and adds it stands between these two, and does not wait. */
void tt_held_lock(void);
void tt_held_unlock(void);
void tt_held_add(int fd); /* with the lock; -1: nothing */
/* From now on it is somebody else's. */
void tt_held_release(int fd);
/* The only way to close what was added and not released. */
void tt_held_close(int fd);

#endif
