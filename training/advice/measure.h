/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.h: this machine, as it is while so many ranks compute on it, for plans of it.
 *
 * Each rank computes steps of the model by itself, all at once, so that ranks which share a core or its
 * caches are as slow as they will be; then all call all_reduce. What comes of it are the lines of a machine,
 * with one figure for all operations, as any machine has. */
#ifndef TRAINING_ADVICE_MEASURE_H
#define TRAINING_ADVICE_MEASURE_H

#include "training/advice/machine.h"
#include "training/options.h"

enum { TR_MEASURED = 64 }; /* ranks at most */
enum { TR_FEW = 2, TR_MANY = 1 << 18 }; /* elements of an all_reduce, each a float */
struct tr_measured { /* by a rank */
    double rate[2]; /* FLOP/s in float32 and bfloat16 */
    double few, many; /* seconds of an all_reduce; of one rank there is none */
};
/* Sets what n ranks have measured. */
void tr_machine_from(struct tr_machine *m, const struct tr_measured *of, int n);
/* Starts o->ranks ranks here, for about a second. false: what went wrong has been printed. */
bool tr_machine_measure(struct tr_machine *m, const struct tr_options *o);

#endif
