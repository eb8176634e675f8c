/* SPDX-License-Identifier: BSD-3-Clause */
/* fold.h: receive one chunk from every other rank and reduce all n operands in rank order, the shape that
 * the direct algorithms share. Up to eight operands are one n-way pass; more are combined in blocks of
 * eight that pass up, which under `exact` is the canonical tree for every n. */
#ifndef TT_ALGORITHMS_FOLD_H
#define TT_ALGORITHMS_FOLD_H
#include "base/schedule.h"

/* dst = IN(chunk) of all ranks of the team, in order; chunk is its index, own operand IN(chunk). Completes
 * the chunk. */
void tt_fold_from_all(struct tt_schedule *s, const struct tt_team *team, uint32_t chunk, struct tt_cells dst);
/* It may use the TMP cells of rows 0 .. rows - 1, a row being one cell per chunk. */
uint32_t tt_fold_rows(const struct tt_team *team);

#endif
