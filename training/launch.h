/* SPDX-License-Identifier: BSD-3-Clause */
/* launch.h: ranks: forked from this process, or started by a launcher. */
#ifndef TRAINING_LAUNCH_H
#define TRAINING_LAUNCH_H

#include "training/error.h"

#include "tutti.h"

#include <stdint.h>

/* What a rank does. world is NULL where there is one rank. false: it failed, and e says how. */
typedef bool tr_rank_main(tutti_comm *world, void *context, struct tr_error *e);

/* Runs n ranks and waits for all. The first cause is printed, once; a rank that a signal ended is named.
 * Returns the exit status. */
int tr_launch(int n, tr_rank_main *run, void *context);

/* The same, but ^C (SIGINT) and SIGTERM only ask: the ranks see that by tr_asked, and end in good order. One
 * signal to any of them asks all that are forked here. A second ^C ends all at once. A signal that was
 * ignored when the program began still is, as those of a job in the background are. */
int tr_launch_asking(int n, tr_rank_main *run, void *context);
/* The signal, or 0. Ranks see it at different times: they must agree on what they do. */
int tr_asked(void);
/* Said by all ranks that end for this signal: the exit status is then 128 and the signal. */
void tr_ended_by(int signal);

/* From now on tr_launch makes its ranks threads of this process: those of one device have one context of it,
 * and collectives that are one kernel. Where one fails the process ends, and so do they. */
void tr_launch_threads(void);
/* Whether it does, or did. */
bool tr_ranks_are_threads(void);
/* Ends the process with these words: for a thread of such a rank, beside which the rank may be waiting. */
_Noreturn void tr_rank_fails(const struct tr_error *e);

/* Whether a launcher (mpirun, srun, torchrun) started this process as one of several ranks. */
bool tr_launched(void);

/* The library of kernels for devices that the environment names, or "". */
const char *tr_device_library(void);

/* Cores that this process may run on. */
int tr_cores(void);

int64_t tr_now_ns(void);

#endif
