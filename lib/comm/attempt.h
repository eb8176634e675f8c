/* SPDX-License-Identifier: BSD-3-Clause */
/* attempt.h: communicators in the making: TUTTI_COMM_NONBLOCKING.
 *
 * The caller gets a handle at once; a thread of the library's own makes the communicator, as a blocking
 * call would, and puts it behind the handle. Who gives up waits for nobody: the thread ends by itself, at
 * the latest when the time for an initialisation has passed, and drops what it made. */
#ifndef TT_ATTEMPT_H
#define TT_ATTEMPT_H
#include <stdbool.h>

#include "tutti.h"

/* Begin. id NULL: what the launcher says. The config is copied. */
tutti_status tt_attempt_start(
    int n, int rank, const tutti_id *id, const tutti_config *config, tutti_comm **comm);

/* These are false, and nothing was done, if the handle is not one of a communicator in the making. */

/* Status (IN_PROGRESS, or why it failed), rank, operation and text. */
bool tt_attempt_state(const tutti_comm *comm, tutti_error *error);
bool tt_attempt_abort(tutti_comm *comm);
bool tt_attempt_destroy(tutti_comm *comm);

#endif
