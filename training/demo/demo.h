/* SPDX-License-Identifier: BSD-3-Clause */
/* demo.h: what the demonstrations share: ranks that really run, and the rule by which they cut.
 *
 * Ranks are forked processes. They work in memory that all see, and the parent prints it when they are done:
 * so what is shown is what the ranks got, and always in the same order. */
#ifndef TRAINING_DEMO_DEMO_H
#define TRAINING_DEMO_DEMO_H

#include "training/error.h"
#include "tutti.h"

typedef tutti_status (*tr_demo_rank)(int rank, tutti_comm *comm, void *shared);

/* Zeroed memory for tr_demo_run, or NULL. */
void *tr_demo_shared(size_t bytes);
/* n ranks run `main`; false if one failed, which then has said why. */
bool tr_demo_run(int n, tr_demo_rank main, void *shared, struct tr_error *e);

/* Tutti's rule of chunks: of `count` elements, chunk c of n begins here; chunk n, where the last one ends. */
int tr_demo_start(int c, int n, int count);

/* Of a demonstration, for its picture; what it has none of is 0. */
enum { TR_DEMO_RANKS = 16 };
struct tr_demo_sizes {
    int ranks;
    int rows, inner, columns; /* of a product; columns: tokens, or parameters */
    int split; /* what a product cuts: rows, columns, the sum */
};
bool tr_demo_picture(const char *path, const char *name, const struct tr_demo_sizes *s, struct tr_error *e);

/* Each fills in its sizes, unless it refuses.
 *
 * --x and --w as ROWSxCOLUMNS; split: x0, w1 or w0. */
int tr_demo_matmul(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_ring(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_paradigms(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_sequence(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_server(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_zero(int argc, char **argv, struct tr_demo_sizes *s);
int tr_demo_pipeline(int argc, char **argv, struct tr_demo_sizes *s);

/* The number of -n, or n; -1 where something else is said, or a number that is not from 2 to `most`. */
int tr_demo_ranks(const char *command, int argc, char **argv, int n, int most);
/* Says what went wrong, and returns 1. */
int tr_demo_failed(const struct tr_error *e);
int tr_demo_no_memory(void);
/* A word that is not an option of this command, or lacks its value: says which are legal, and returns 2. */
int tr_demo_unknown(const char *command, const char *word, bool last, const char *legal);
/* All of `text` as a number; -1 if it is none of 0 to 9999. */
int tr_demo_number(const char *text);

#endif
