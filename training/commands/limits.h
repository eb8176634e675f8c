/* SPDX-License-Identifier: BSD-3-Clause */
/* limits.h: what a rank may have of the device's memory and of the host's. */
#ifndef TRAINING_COMMANDS_LIMITS_H
#define TRAINING_COMMANDS_LIMITS_H

#include "training/commands/prepare.h"

/* Whether all ranks keep to --memory and --host-memory, and to what this rank may have of its device (0: it
 * has none). The error has what is needed, by kind, and what would help. */
bool tr_limits_kept(
    const struct tr_prepared *p, const struct tr_options *o, int64_t device, struct tr_error *e);
/* The most bytes that a rank needs of the device's memory, and of the host's. */
void tr_limits_needs(const struct tr_prepared *p, int64_t most[2]);
/* With --host-memory and no word of --offload, the least of it that keeps to the limits. */
void tr_limits_offload(struct tr_options *o);

#endif
