/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.h: what rank 0 knows for all about this machine and its user's wishes: costs and rules. */
#ifndef TT_SELECTION_H
#define TT_SELECTION_H
#include "base/config.h"

/* Fills in the default costs, this machine's cores and their cache, and the rules of the file that the
 * settings name, which is an error if it is not well. Rank 0 calls it before its settings go out. */
tutti_status tt_selection_read(struct tt_settings *settings);
/* Sets what messages between hosts cost as the setting `probe` says, or, if that is to be measured, to what
 * is assumed until then. */
void tt_selection_assume(struct tt_settings *settings);
/* Reads the rules alone. */
tutti_status tt_rules_read(struct tt_settings *settings);

#endif
