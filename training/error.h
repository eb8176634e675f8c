/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h: what went wrong, as one sentence for the user.
 *
 * A function that can fail returns bool and takes a tr_error as its last argument; on false the text says
 * what was wrong and what would be legal, and no output was set. The command prints it, once. */
#ifndef TRAINING_ERROR_H
#define TRAINING_ERROR_H

#include <stdbool.h>
#include <stddef.h>

struct tr_error {
    char text[4096];
};

/* Sets the text, and returns false: `return tr_fail(e, ...)`. */
bool tr_fail(struct tr_error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Memory, zeroed; a program that cannot get it ends with a word: nothing here can go on without. */
void *tr_new(size_t count, size_t bytes);
/* How often this process has called tr_new. A step must not. */
long tr_allocations(void);

/* A list with room for one element more than `count`: the same, or a larger copy of it. */
void *tr_grow(void *list, int count, int *room, size_t bytes);

#endif
