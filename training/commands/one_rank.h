/* SPDX-License-Identifier: BSD-3-Clause */
/* one_rank.h: the options of the run of one rank whose bits all meshes must have. */
#ifndef TRAINING_COMMANDS_ONE_RANK_H
#define TRAINING_COMMANDS_ONE_RANK_H

#include "training/options.h"

/* What one rank computes by: model, data, numbers. All that is said of ranks is left out. */
void tr_one_rank_options(struct tr_options *to, const struct tr_options *from);

#endif
