/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.h: the configurations that verify runs. */
#ifndef TRAINING_VERIFY_VERIFY_H
#define TRAINING_VERIFY_VERIFY_H

#include "training/options.h"

struct tr_verify_case {
    char options[256];
    int steps;
    bool sgd;
};

enum { TR_VERIFY_MOST = 2048 }; /* the cases that a list has room for */
enum { TR_VERIFY_RANKS = 8 }; /* that are started; no case has more */

/* QUICK: a cut that has every paradigm and every pair; ALL: every legal product too. */
enum tr_verify_extent { TR_VERIFY_QUICK, TR_VERIFY, TR_VERIFY_ALL };

/* A list to be freed. */
struct tr_verify_case *tr_verify_cases(enum tr_verify_extent extent, int *n);

/* For them: a case more, if it is not there yet; and those of the Llama, cases_llama.c, and of
 * dropout, cases_dropout.c. */
void tr_verify_add(struct tr_verify_case *list, int *n, const char *options, int steps, bool sgd);
void tr_llama_cases(struct tr_verify_case *list, int *n, enum tr_verify_extent extent);
void tr_dropout_cases(struct tr_verify_case *list, int *n, enum tr_verify_extent extent);

/* cases_device.c: the cut for devices, likewise. */
struct tr_verify_case *tr_verify_device_cases(int *n);

/* The options that its words say; or why they say none. */
bool tr_verify_options(struct tr_options *o, const struct tr_verify_case *c, struct tr_error *e);

/* random.c: the next option set that follows from the state, legal or not. */
void tr_verify_draw(struct tr_verify_case *c, uint64_t *state);

#endif
