/* SPDX-License-Identifier: BSD-3-Clause */
/* clofork.h: descriptors that a fork closes in the child ("close on fork"): the connections of
 * the bootstrap and of tcp, and the descriptors that came by them.
 *
 * A child that kept a connection would hide from the rank at its other end that the parent has died; and
 * with copies of all that earlier ranks have brought, the child would soon have no descriptor left for
 * what it needs as a rank itself. */
#ifndef TT_BASE_CLOFORK_H
#define TT_BASE_CLOFORK_H

/* A caller opens a descriptor and adds it between these two calls. It must not wait there: a fork does. */
void tt_clofork_lock(void);
void tt_clofork_unlock(void);
void tt_clofork_add(int fd); /* with the lock; -1: nothing */
/* The descriptor is no longer closed in children: its owner sees to it from now on. */
void tt_clofork_release(int fd);
/* Closes a descriptor that was added and not released. A plain close() would leave its number marked. */
void tt_clofork_close(int fd);

#endif
