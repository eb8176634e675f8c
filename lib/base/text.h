/* SPDX-License-Identifier: BSD-3-Clause */
/* text.h: building answers, as snprintf builds a line.
 *
 * The length counts on beyond what fits, so that one function tells how much room its answer needs and, asked
 * again, fills it. Who writes an answer calls tt_put as often as he likes and never looks at the room. */
#ifndef TT_BASE_TEXT_H
#define TT_BASE_TEXT_H
#include <stdbool.h>
#include <stddef.h>

struct tt_text {
    char *bytes; /* may be NULL where capacity is 0 */
    size_t capacity, length;
};

/* Begins a text that may be longer when it is written again: start with {0} and write as often as this says.
 * It then fits. The caller frees `bytes`, which is NULL if there was no memory. */
bool tt_text_begin(struct tt_text *t);

void tt_put(struct tt_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Levenshtein's: how many letters differ. Texts beyond 64 bytes count as far from all. */
int tt_text_distance(const char *a, const char *b);

/* Appends a JSON string with its quotes; bytes that no JSON string may hold become blanks. */
void tt_put_json(struct tt_text *t, const char *string);

/* A file's name: `pattern` with %h (host), %p (process), %r (rank, unless that is below 0) and %% replaced.
 * False if the name is empty or does not fit. */
bool tt_expand_name(const char *pattern, int rank, char *path, size_t bytes);

#endif
