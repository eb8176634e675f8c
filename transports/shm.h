/* SPDX-License-Identifier: BSD-3-Clause */
/* shm.h: what must happen before endpoints of the shm transport can connect: processes hand each other
 * descriptors of their arenas (over a local socket, once). Addresses then need to say only where in an
 * arena something lies, so that a communicator that is split from another needs no descriptors. */
#ifndef TT_TRANSPORTS_SHM_H
#define TT_TRANSPORTS_SHM_H
#include "tutti.h"

/* New descriptors for others: this process's arena, and what tells that it has ended (life.h). */
tutti_status tt_shm_present(int *arena_fd, int *life);
/* Somebody else's. Takes both descriptors, also when it fails. Known until this thread's next
 * tt_shm_settle(), and longer while an endpoint is connected to that process. connect() settles. */
tutti_status tt_shm_introduce(int arena_fd, int life);
/* The introductions of this thread are over: what no endpoint has taken up is closed. */
void tt_shm_settle(void);

#endif
