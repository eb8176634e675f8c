/* SPDX-License-Identifier: BSD-3-Clause */
/* explain.h: what explain says of some models alone. */
#ifndef TRAINING_COMMANDS_EXPLAIN_H
#define TRAINING_COMMANDS_EXPLAIN_H

#include "training/options.h"

/* Of a cnn: the ways to cut it over as many ranks as tp x cp has, in a table. */
void tr_explain_cuts(const struct tr_options *asked);

#endif
