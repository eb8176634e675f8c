/* SPDX-License-Identifier: BSD-3-Clause */
/* trial.h: a configuration that runs against the golden program: what verify and compare have in common.
 *
 * Ranks are forked once; each configuration runs on a communicator of the first ones, by split. A rank
 * compares what it holds with the golden arrays, which all share, so nothing is gathered. */
#ifndef TRAINING_VERIFY_TRIAL_H
#define TRAINING_VERIFY_TRIAL_H

#include "training/verify/golden.h"
#include "training/commands/prepare.h"
#include "training/run/run.h"

/* What the golden program says of each of n runs; it runs once for those of which it says the same. */
struct tr_goldens {
    const struct tr_options *options; /* not owned */
    struct tr_golden *runs;
    int *of; /* which run is whose */
    int n, made;
};

bool tr_goldens_make(struct tr_goldens *g, const struct tr_options *options, int n, struct tr_error *e);
void tr_goldens_free(struct tr_goldens *g);

/* Of each kind: numbers that differ from the golden program's, of all ranks; and by how much at most, as a
 * part of the largest golden number of the same array. */
enum tr_diff { TR_DIFF_LOSSES, TR_DIFF_NORMS, TR_DIFF_GRADIENTS, TR_DIFF_VALUES, TR_DIFFS };
extern const char *const tr_diff_names[TR_DIFFS];
struct tr_verdict {
    int64_t differing[TR_DIFFS];
    double off[TR_DIFFS];
};
bool tr_verdict_equal(const struct tr_verdict *v);

/* comm is NULL on ranks outside of the mesh, which only take part in what is collective over the world. */
struct tr_trial {
    const struct tr_prepared *prepared;
    const struct tr_golden *golden;
    long steps;
    tutti_comm *comm;
    struct tr_data data;
    struct tr_runner runner;
    struct tr_verdict verdict;
    double loss; /* tr_trial_server: of the last push, on server 0 */
    bool opened;
    bool planted; /* there is an error in the tapes: gradients may lie elsewhere, and memory is not audited */
};

/* Collective over the world: a communicator of the first n ranks. */
bool tr_trial_join(struct tr_trial *t, int n, tutti_comm *world, struct tr_error *e);
/* By those: the run that was prepared from these options. */
bool tr_trial_open(struct tr_trial *t, const struct tr_prepared *p, const struct tr_options *o,
    const struct tr_golden *g, const struct tr_kernels *k, struct tr_error *e);
/* A step of such a rank, and the comparison of what it gave: loss and norm; after the first step the
 * gradients, and after the last one, which is audited, the parameters. */
bool tr_trial_step(struct tr_trial *t, struct tr_error *e);
/* All steps of a run with asynchronous servers whose order is given: loss and norm of each push that server 0
 * takes, and in the end the parameters of all. */
bool tr_trial_server(struct tr_trial *t, const struct tr_options *o, struct tr_error *e);
/* For it: one number, and all arrays that this rank holds. */
void tr_trial_number(struct tr_trial *t, enum tr_diff kind, double mine, double golden);
void tr_trial_arrays(struct tr_trial *t, enum tr_diff kind);
/* Collective over the world: the verdict of all ranks. */
bool tr_trial_verdict(const struct tr_trial *t, tutti_comm *world, struct tr_verdict *v, struct tr_error *e);
/* The verdict stays. */
void tr_trial_close(struct tr_trial *t);

#endif
