/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.h: a pipeline schedule as data: for each rank, in which order it runs which part of which
 * micro-batch.
 *
 * A stage is a run of layers; there are ranks * chunks of them, and stage s lies on rank s % ranks; or, in
 * a V, the second half of the stages goes back: rank r has the stages r and 2 ranks - 1 - r. Each stage
 * runs each micro-batch forward (F) once, and backward once: either whole (B), or as the gradient of its
 * input (I) and later that of its weights (W). Nothing else is in a schedule; who sends what to whom
 * follows from it.
 *
 * Sources: GPipe (Huang et al. 2019), 1F1B (Narayanan et al. 2019), interleaved 1F1B (Narayanan et al.
 * 2021), ZB-H1 and ZB-H2 (Qi et al. 2024), DualPipeV (DeepSeek 2025, after "cut in half" of Qi et al.). Any
 * other comes from a CSV file.
 *
 * Messages call a part by its letter, stage and micro-batch, as CSV does: F2.5. Ranks, stages and
 * micro-batches count from 0, positions in a rank's order, lines and fields from 1. */
#ifndef TRAINING_SCHEDULE_H
#define TRAINING_SCHEDULE_H

#include "training/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum tr_part { TR_F, TR_B, TR_I, TR_W, TR_PARTS };

/* The most stages * micros that a schedule may have. */
enum { TR_CELLS_MAX = 1 << 22 };

struct tr_slot {
    int part, stage, micro;
};

struct tr_schedule {
    char name[32];
    int ranks, chunks, micros; /* stages = ranks * chunks */
    bool vee; /* two chunks, of which the second goes back */
    bool no_flush; /* no rank's step waits for another's: the next one begins when its own has ended */
    bool split; /* there are I and W; a stage and micro-batch may have B in their place */
    int *count; /* of each rank */
    struct tr_slot **slots;
};

/* The rank that has a stage. */
int tr_stage_rank(int stage, int ranks, bool vee);

/* name: naive, gpipe, 1f1b, interleaved, zb-h1, zb-h2, dualpipev. chunks > 1 for interleaved, where micros
 * must be a multiple of ranks; with one chunk it is 1f1b. dualpipev has 2, and at least twice as many micros
 * as ranks. An illegal one says what is legal. All backward parts of a stage come in the order of the
 * micro-batches, gpipe's, too: gradients are then added in that order. */
bool tr_schedule_make(
    struct tr_schedule *s, const char *name, int ranks, int chunks, int micros, struct tr_error *e);

/* Without its backward parts: no schedule to learn by, but one to ask a model. */
void tr_schedule_forward(struct tr_schedule *s);

/* CSV: one line for each rank; fields like F0.3 or F3 (stage 0, micro-batch 3; the stage may be left out
 * where a rank has one), B0.3, I0.3, W0.3; empty fields, and lines with nothing else, mean nothing; # begins
 * a comment. An error names line, field and rule. What was read need not be legal: tr_schedule_check tells.
 * `name` goes into the schedule. Reading what was written gives an equal schedule. */
bool tr_schedule_read(struct tr_schedule *s, FILE *file, const char *name, struct tr_error *e);
void tr_schedule_write(const struct tr_schedule *s, FILE *file);
void tr_schedule_free(struct tr_schedule *s);

/* Whether both have the same sizes and slots; the names do not count. */
bool tr_schedule_equal(const struct tr_schedule *a, const struct tr_schedule *b);

/* The rules: every F and every B (or I and then W) of each stage and micro-batch once, on the rank that has
 * the stage; in a stage backward after its forward; micro-batches in ascending order in the forward parts of
 * each stage, in those that make gradients of its input (B, I) and in those that make gradients of its
 * weights (B, W), so that gradients add up in order; and no circle of waits: F(s) before F(s+1), B(s+1) or
 * I(s+1) before B(s) or I(s), along each rank's order, where a send waits for nothing. An error names rank,
 * position, part and rule. */
bool tr_schedule_check(const struct tr_schedule *s, struct tr_error *e);

/* What it takes if F, I and W of a stage last so long (B lasts I + W), and a message `hop`. */
struct tr_costs {
    double f, i, w, hop;
    const struct tr_stage_costs *stage; /* of each stage, where they differ: then f, i and w are not read */
};
struct tr_stage_costs {
    double f, i, w;
};

struct tr_timing {
    double total; /* until the last rank has ended */
    /* From step to step where ranks step apart: what the slowest takes from its begin to its end. */
    double period;
    double *busy; /* of each rank */
    int *in_flight; /* of each rank: most (stage, micro-batch) that ran F and neither B nor W yet */
    double **start; /* of each rank's slots */
};

/* Checks the schedule, then runs it; every part starts as early as its rank's order and its input allow. */
bool tr_schedule_simulate(
    const struct tr_schedule *s, const struct tr_costs *c, struct tr_timing *t, struct tr_error *e);
void tr_timing_free(struct tr_timing *t, int ranks);

/* The part of the total time, or of the period where ranks step apart, that a rank idles: simulated (mean of
 * ranks), and by the published formula, whose messages take no time; NAN where there is none for this
 * schedule and these costs. */
double tr_bubble(const struct tr_schedule *s, const struct tr_timing *t);
double tr_bubble_formula(const struct tr_schedule *s, const struct tr_costs *c);

/* The same while the pipeline is full, simulated; NAN if it never is. */
double tr_bubble_steady(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t);

/* A chart of characters: a line for each rank; a digit is F (of micro-batch 0 to 9, then 0 again), a letter
 * from a to t is B or I, w is W, a dot is idle; blank is after the rank's last part. */
void tr_schedule_draw(
    const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t, FILE *to);
/* The same of any times: start and end of each rank's slots; columns of `width`. */
void tr_schedule_draw_times(const struct tr_schedule *s, double *const *start, double *const *end,
    double total, double width, FILE *to);

#endif
