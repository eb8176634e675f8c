/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap_root.h: the helper thread that answers at an id.
 *
 * It owns everything it needs, reports to the ranks that meet there and to nobody else, and ends by itself:
 * when all ranks have all they came for, when the job cannot succeed, or when time is up. */
#ifndef TT_BOOTSTRAP_ROOT_H
#define TT_BOOTSTRAP_ROOT_H
#include "bootstrap/bootstrap_wire.h"

/* Answer at the addresses of this id, which is also found in the file `id_file` (NULL: in none). Gives up
 * `timeout_ms` (-1: never) after now, or after the first rank came. */
tutti_status tt_root_start(const struct tt_id *id, const char *id_file, int64_t timeout_ms);

#endif
