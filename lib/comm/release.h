/* SPDX-License-Identifier: BSD-3-Clause */
/* release.h: ends of communicators that nobody has a handle of any more, and that peers may still need. */
#ifndef TT_RELEASE_H
#define TT_RELEASE_H
#include <stdint.h>

#include "run/comm.h"

/* Makes the handle dead. A thread of the library frees the communicator when its calls are over and no peer
 * needs it, or linger_ms later (-1: no bound); the end of the process waits two seconds for that. After an
 * error the handle lives. */
tutti_status tt_release(struct tt_comm *comm, int64_t linger_ms);

#endif
