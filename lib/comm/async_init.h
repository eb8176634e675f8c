/* SPDX-License-Identifier: BSD-3-Clause */
/* async_init.h: asynchronous initialisation (TUTTI_COMM_NONBLOCKING): communicators that are still being
 * made.
 *
 * The caller gets a pending handle at once. A thread of the library makes the communicator, as a blocking
 * call would, and then turns the handle into one of that communicator. A caller that gives up does not
 * wait: the thread ends by itself, at the latest when the time for an initialisation has passed, and drops
 * what it made. */
#ifndef TT_ASYNC_INIT_H
#define TT_ASYNC_INIT_H
#include <stdbool.h>

#include "tutti.h"

/* Starts the thread. id NULL: n, rank and id are what the launcher says. The config is copied. */
tutti_status tt_async_init_start(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);

/* Starts a thread that tells the other ranks why this one cannot take part (tt_init_refuse), and returns the
 * status. The config may be one that is not legal. */
tutti_status tt_async_init_refuse(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_status status);

/* The functions below return false, and do nothing, if the handle is not pending. */

/* Sets status (IN_PROGRESS, or why it failed), rank, operation and text. */
bool tt_async_init_state(const tutti_comm *comm, tutti_error *error);
bool tt_async_init_abort(tutti_comm *comm);
bool tt_async_init_destroy(tutti_comm *comm);

#endif
