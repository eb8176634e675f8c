/* SPDX-License-Identifier: BSD-3-Clause */
/* options_rig.h: options as a user writes them, for tests. */
#ifndef TESTS_TRAINING_OPTIONS_RIG_H
#define TESTS_TRAINING_OPTIONS_RIG_H

#include "training/commands/prepare.h"

/* The defaults, and then what the line says: words with blanks between. */
bool rig_options(struct tr_options *o, const char *line, struct tr_error *e);
/* The tapes of that run; the test fails if the line is refused. */
void rig_prepare(struct tr_prepared *p, const char *line);

#endif
