/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.h: the configurations that verify runs. */
#ifndef TRAINING_COMMANDS_VERIFY_H
#define TRAINING_COMMANDS_VERIFY_H

#include <stdbool.h>
#include <stdint.h>

struct tr_verify_case {
    char options[256];
    int steps;
    bool sgd;
};

/* QUICK: a cut that has every paradigm and every pair; ALL: every legal product too. */
enum tr_verify_extent { TR_VERIFY_QUICK, TR_VERIFY, TR_VERIFY_ALL };

/* A list to be freed. */
struct tr_verify_case *tr_verify_cases(enum tr_verify_extent extent, int *n);

/* random.c: the next option set that follows from the state, legal or not. */
void tr_verify_draw(struct tr_verify_case *c, uint64_t *state);

#endif
