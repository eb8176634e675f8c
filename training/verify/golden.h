/* SPDX-License-Identifier: BSD-3-Clause */
/* golden.h: what the golden program of the model says of a run. It is in this program as it is, under another
 * name for main, and runs in a child of its own. */
#ifndef TRAINING_VERIFY_GOLDEN_H
#define TRAINING_VERIFY_GOLDEN_H

#include "training/options.h"

/* In memory that forked ranks share. */
struct tr_golden {
    int64_t count; /* parameters' elements, in the golden program's order */
    int64_t steps; /* a step for each update of the run */
    double *loss, *norm; /* of each step */
    float *gradients, *values; /* of step 0; after the last step */
};

/* Nothing in it yet. */
bool tr_golden_room(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e);
/* data: as the run's: a file, or "" for the grammar. */
bool tr_golden_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e);
void tr_golden_free(struct tr_golden *g);
/* Where a parameter begins. */
int64_t tr_golden_offset(const struct tr_graph *graph, int parameter);

/* main of training/reference/gpt.c, mlp.c, cnn.c, moe.c and llama.c */
int tr_golden_gpt(int argc, char **argv);
int tr_golden_mlp(int argc, char **argv);
int tr_golden_cnn(int argc, char **argv);
int tr_golden_moe(int argc, char **argv);
int tr_golden_llama(int argc, char **argv);
/* of versions.h with these: what an asynchronous pipeline computes */
int tr_versions_gpt(int argc, char **argv);
int tr_versions_mlp(int argc, char **argv);
int tr_versions_cnn(int argc, char **argv);
int tr_versions_llama(int argc, char **argv);

#endif
