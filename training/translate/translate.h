/* SPDX-License-Identifier: BSD-3-Clause */
/* translate.h: a run in the words of other trainers.
 *
 * In the middle stands a list of facts, named as the options of this trainer, with their values as text. A
 * dialect is a table from facts to keys, which is read in both directions. */
#ifndef TRAINING_TRANSLATE_TRANSLATE_H
#define TRAINING_TRANSLATE_TRANSLATE_H

#include "training/options.h"

enum { TR_KEY = 96, TR_SAID = 64 };

/* A list of names with values. */
struct tr_words {
    struct tr_word {
        char name[TR_KEY], value[TR_SAID];
    } * of;
    int n, room;
};
const char *tr_words_get(const struct tr_words *w, const char *name); /* NULL: it is not there */
void tr_words_set(struct tr_words *w, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the run is, with all that follows from options: sizes of the model, the mesh, what a rank has. */
void tr_facts_of(struct tr_words *facts, const struct tr_run *run, const struct tr_options *o);
/* Whether a fact says no more than a run has without a word of it. */
bool tr_fact_is_plain(const struct tr_word *fact);
/* The words of a command line for facts that were read: what other trainers count in another way is counted
 * as here, for so many ranks (0: as the facts say). A model that is none of those here loses what goes to
 * `left`. */
void tr_facts_words(
    struct tr_words *options, const struct tr_words *facts, int64_t ranks, struct tr_words *left);

struct tr_phrase {
    const char *here; /* a fact; NULL: what is always so here, with its value in `values` */
    const char *there; /* the key; "": nothing has to be said, as it is always the first value, or follows */
    /* "a=b|c=d": their value for each of ours; "=" behind ours: the key alone, or nothing. NULL: the same. */
    const char *values;
};
enum tr_form { TR_FLAGS, TR_JSON, TR_YAML };
struct tr_dialect {
    const char *name, *program;
    enum tr_form form;
    const struct tr_phrase *phrases;
    int n;
};
extern const struct tr_dialect tr_dialects[];
extern const int tr_dialect_count;

/* The value that a phrase has for ours; false: it has none. *there is "" where the key stands alone. */
bool tr_phrase_there(const struct tr_phrase *p, const char *here, char there[TR_SAID]);
bool tr_phrase_here(const struct tr_phrase *p, const char *there, char here[TR_SAID]);

/* Writes the facts; what cannot be said goes to `left`. */
void tr_dialect_write(
    FILE *to, const struct tr_dialect *d, const struct tr_words *facts, struct tr_words *left);
/* Key by key: words of a command line, or a file. */
bool tr_words_flags(struct tr_words *keys, int n, char **words, struct tr_error *e);
bool tr_words_file(struct tr_words *keys, enum tr_form form, const char *path, struct tr_error *e);
/* Facts from keys; a key that the dialect does not know, and what is always another way here, go to
 * `left`. */
void tr_dialect_read(
    const struct tr_dialect *d, const struct tr_words *keys, struct tr_words *facts, struct tr_words *left);

#endif
