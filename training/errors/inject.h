/* SPDX-License-Identifier: BSD-3-Clause */
/* inject.h: errors to plant on purpose, so that one can see the checks find them. */
#ifndef TRAINING_ERRORS_INJECT_H
#define TRAINING_ERRORS_INJECT_H

#include "training/tape/tape.h"

/* Which check must find it. */
enum tr_finder { TR_BY_TYPES, TR_BY_ORDER };

struct tr_injection {
    const char *name, *what, *needs; /* needs: options under which the error exists */
    enum tr_finder finder;
};

/* They are numbered from 0 on; NULL: there are no more. */
const struct tr_injection *tr_injection_at(int i);

/* Plants it into the tapes. A name that is unknown, or that these tapes cannot have, lists what is legal; in
 * the second case the tapes may have a part of the error. */
bool tr_inject(struct tr_tape *tapes, int n, const char *name, struct tr_error *e);

#endif
