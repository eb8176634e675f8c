/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.h: what textbooks and papers recommend, and whether an answer agrees with it. */
#ifndef TRAINING_ADVICE_RULES_H
#define TRAINING_ADVICE_RULES_H

#include "training/advice/search.h"

enum tr_verdict { TR_DOES_NOT_APPLY, TR_AGREES, TR_DISAGREES };

struct tr_rule {
    const char *says, *source;
    enum tr_verdict (*judge)(const struct tr_search *s, const struct tr_machine *m);
};
/* They are numbered from 0 on; NULL: there are no more. */
const struct tr_rule *tr_rule_at(int i);

/* What keeps the best from being faster. */
enum tr_binding { TR_BY_COMPUTE, TR_BY_LINK, TR_BY_MEMORY, TR_BY_BATCH };
enum tr_binding tr_binding_of(const struct tr_search *s);
extern const char *const tr_binding_names[];

#endif
