/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h: what a search found, as a table with reasons, or as one JSON object. */
#ifndef TRAINING_ADVICE_SAY_H
#define TRAINING_ADVICE_SAY_H

#include "training/advice/rules.h"

void tr_search_say(
    const struct tr_search *s, const struct tr_options *o, const struct tr_machine *m, FILE *to);
void tr_search_json(
    const struct tr_search *s, const struct tr_options *o, const struct tr_machine *m, FILE *to);

#endif
