/* SPDX-License-Identifier: BSD-3-Clause */
/* single_reader.h: which messages may be overwritten by their receivers.
 *
 * Where a message is read in the sender's memory, its receiver may claim the cache lines by a store to each
 * (transports/transport.h, `single_reader`). That is legal if nobody else reads these cells and the sender
 * writes them before their next use. The executor marks messages by this function, and the verifier proves
 * of what it marks that it is so (verify_readers.c). */
#ifndef TT_BASE_SINGLE_READER_H
#define TT_BASE_SINGLE_READER_H
#include <stdbool.h>
#include <stdint.h>

#include "base/schedule.h"

/* Sets the mark of each step: true if it sends, and its receiver is the only reader of what it sends: of a
 * bounce cell (lib/exec/exec_bounce.c), if that is IN or OUT, and else of the cells of TMP. `readers` has
 * room for 2 * chunks + tmp_cells counts. */
void tt_mark_single_readers(const struct tt_schedule *schedule, bool *marks, uint32_t *readers);

#endif
