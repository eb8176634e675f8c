/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_root.h: the root, a helper thread that answers at an id.
 *
 * It owns everything it needs, reports to the ranks that meet there and to nobody else, and ends by
 * itself: when all ranks have all they came for, when the session cannot succeed, or when time is up. */
#ifndef TT_BOOTSTRAP_ROOT_H
#define TT_BOOTSTRAP_ROOT_H
#include "bootstrap/bootstrap_wire.h"

/* Starts to answer at the addresses of this id. `id_file` is the file that holds the id, removed with the
 * socket (NULL: there is none). The root gives up `timeout_ms` (-1: never) after now, or after the first
 * rank came. */
tutti_status tt_root_start(struct tt_id *id, const char *id_file, int64_t timeout_ms);

#endif
