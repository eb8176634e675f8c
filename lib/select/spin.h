/* SPDX-License-Identifier: BSD-3-Clause */
/* spin.h: whether kernels of several devices do a collective of ranks that have one each: by what all ranks
 * know. What it costs is what the kernels take that meet in pads; where they go by packets, or read buffers
 * in place, it is less, but no rank knows where the others have theirs. */
#ifndef TT_SELECT_SPIN_H
#define TT_SELECT_SPIN_H
#include "base/config.h"

/* Returns what the kernels take for a vector of so many bytes, in femtoseconds. */
uint64_t tt_spin_time(const struct tt_costs *costs, int n, uint64_t bytes);
/* `bytes` of the vector. */
bool tt_spin_pays(const struct tt_settings *settings, int n, uint64_t bytes);
/* Writes what both ways cost. */
void tt_spin_put(const struct tt_settings *settings, int n, uint64_t bytes, struct tt_text *text);

#endif
