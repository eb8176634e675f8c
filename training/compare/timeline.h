/* SPDX-License-Identifier: BSD-3-Clause */
/* timeline.h: what each rank does when, in a step that ran and in one that is simulated. */
#ifndef TRAINING_COMPARE_TIMELINE_H
#define TRAINING_COMPARE_TIMELINE_H

#include "training/advice/machine.h"
#include "training/page/chart.h"
#include "training/planning/tapes.h"
#include "training/run/run.h"

enum tr_does {
    TR_DOES_FORWARD,
    TR_DOES_BACKWARD,
    TR_DOES_WEIGHTS, /* gradients of weights, where they are a part of their own */
    TR_DOES_UPDATE, /* and all else at the end of a step */
    TR_DOES_TALK, /* messages, and waits for them */
    TR_DOES_COPY, /* between the memories */
    TR_DOINGS
};
extern const char *const tr_does_names[TR_DOINGS];

/* Spans of rank r are those from begin[r] to begin[r + 1]; seconds from the begin of the step. */
struct tr_timeline {
    struct tr_chart_span *spans;
    int *begin;
    int n; /* ranks; 0: there is none */
    double end;
};

/* Collective over the ranks of the mesh, after a step: what it took of all, on rank 0. comm: NULL, one. */
bool tr_timeline_measure(
    struct tr_timeline *to, const struct tr_runner *r, tutti_comm *comm, struct tr_error *e);
/* What a core does in a second: operations, and elements that the optimizer updates. */
struct tr_core {
    double flops, updates;
};
/* The same lists with such a core for each rank, and messages of this machine: a call begins when all of its
 * group are there, and what a rank sends, or gets, passes one after the other. false: somebody would wait for
 * ever, as servers do that take whoever comes first. */
bool tr_timeline_simulate(
    struct tr_timeline *to, struct tr_tapes *tapes, const struct tr_machine *m, const struct tr_core *core);
void tr_timeline_free(struct tr_timeline *t);
/* Seconds that a rank (-1: all together) does this. */
double tr_timeline_of(const struct tr_timeline *t, int rank, enum tr_does what);

/* For who makes one: what an instruction is, and a span behind those of a list, which grows the last of them
 * if nothing is between. */
enum tr_does tr_does_of(const struct tr_instr *i);
struct tr_chart_span *tr_span_add(
    struct tr_chart_span *list, int *n, int *room, const struct tr_chart_span *more);

#endif
