/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h: what went wrong, as one sentence for the user.
 *
 * A function that can fail returns bool and takes a tr_error as its last argument; on false the text says
 * what was wrong and what would be legal, and no output was set. The command prints it, once. */
#ifndef TRAINING_ERROR_H
#define TRAINING_ERROR_H

#include "lib/tutti.h"

#include <stdbool.h>
#include <stddef.h>

enum { TR_OFFERS = 4, TR_OFFERED = 32 };
struct tr_error {
    char text[4096];
    int n_offers;
    struct tr_offer { /* values of an option, as --dp, that may be legal */
        const char *option;
        int n;
        long values[TR_OFFERED];
    } offers[TR_OFFERS];
};

/* Sets the text, and returns false: `return tr_fail(e, ...)`. */
bool tr_fail(struct tr_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Why this thread's call of the communicator failed: what ended it; or, if it goes on, why it was refused. */
const char *tr_why(const tutti_comm *comm);

/* After tr_fail, and false as well: a value of an option that would satisfy the rule that was broken. Another
 * rule may forbid it, so tr_run_make tries each, and names those that are legal. */
bool tr_offer(struct tr_error *e, const char *option, long value);
/* All that divide n. */
bool tr_offer_divisors(struct tr_error *e, const char *option, long n);

/* Memory, zeroed; a program that cannot get it ends with a word: nothing here can go on without. */
void *tr_new(size_t count, size_t bytes);
/* How often this process has called tr_new. A step must not. */
long tr_allocations(void);

/* A list with room for one element more than `count`: the same, or a larger copy of it. */
void *tr_grow(void *list, int count, int *room, size_t bytes);

#endif
