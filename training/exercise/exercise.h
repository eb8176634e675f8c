/* SPDX-License-Identifier: BSD-3-Clause */
/* exercise.h: what the exercises share. */
#ifndef TRAINING_EXERCISE_EXERCISE_H
#define TRAINING_EXERCISE_EXERCISE_H

#include "training/compare/compare.h"

/* Options of the model and of what is learned; those that the exercise chooses are refused. false: there is
 * no more to do but to exit with *status. */
bool tr_exercise_begin(
    struct tr_comparison *c, int argc, char **argv, const char *usage, long steps, int *status);
/* One more configuration: the base with these options, as words. */
void tr_exercise_add(struct tr_comparison *c, const char *name, const char *words);
/* All that were added are legal and prepared; the ranks are as many as the largest needs. */
bool tr_exercise_prepare(struct tr_comparison *c, struct tr_error *e);

/* The one of that name. */
const struct tr_contender *tr_exercise_of(const struct tr_comparison *c, const char *name);
const struct tr_tape *tr_exercise_tape(const struct tr_contender *x); /* of the rank that needs most */
double tr_exercise_percent(double part, double of);

/* 7-2: whether two ranks pay here, by the times of a step of one rank, of it with two threads, and of two. */
const char *tr_exercise_pays(double one, double threads, double ranks, int cores);

int tr_exercise_memory(int argc, char **argv);
int tr_exercise_processors(int argc, char **argv);
int tr_exercise_claims(int argc, char **argv);

#endif
