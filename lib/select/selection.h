/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.h: what rank 0 knows for all about this machine and its user's wishes: costs and rules. */
#ifndef TT_SELECTION_H
#define TT_SELECTION_H
#include "base/config.h"

/* Costs as calibrated on this machine, else the defaults; the cores and their cache; and the rules of the
 * file that the settings name, which is an error if it is not well. Called by rank 0, before its settings go
 * out. */
tutti_status tt_selection_read(struct tt_settings *settings);
/* The rules alone. */
tutti_status tt_rules_read(struct tt_settings *settings);

/* Where calibrated costs are kept: a file for each kind of machine. A file that is not this user's, that
 * others may write, or that holds anything else is as none. False, if there is none. */
bool tt_costs_load(struct tt_costs *costs);
/* Keep them. `path`: where, for people. */
tutti_status tt_costs_save(const struct tt_costs *costs, char *path, size_t bytes);

/* Measure this machine, by two threads that talk to each other; some tens of milliseconds. */
tutti_status tt_costs_measure(struct tt_costs *costs);

#endif
