/* SPDX-License-Identifier: BSD-3-Clause */
/* checking.h: what the type check knows of one rank's values while it walks the tape. */
#ifndef TRAINING_CHECK_CHECKING_H
#define TRAINING_CHECK_CHECKING_H

#include "training/check/check.h"

struct tr_known {
    struct tr_placement on[TR_AXES];
    bool written;
    int micro; /* whose sequences are in it, from the LOAD on; -1: of none, as a parameter */
    int lost; /* the instruction that took its place; -1 */
    int flight; /* the call beside the list that is making it; -1: none, or it is over */
    bool flew;
    bool renewed; /* what lasts on the host, by a copy of this step */
    bool holds; /* a bucket, of which others are the members */
    int source; /* a bucket or a part of one: the bucket whose members' types these have; -1 */
};

/* Where the tables of the paradigms put a tensor. */
struct tr_wanted {
    bool known; /* they were asked */
    struct tr_placement at;
};

struct tr_checking {
    const struct tr_tape *t;
    const struct tr_graph *g;
    const struct tr_plan *plan;
    struct tr_known *values;
    struct tr_wanted *wanted; /* [tensor][axis] */
    int *counted; /* of each tensor that is a parameter: micro-batches in its gradient */
    int *updated; /* times */
    int *pulled; /* parts of the values that came from servers */
    int *raised; /* times that what the host updated came up, after the update */
    bool *tied;
    bool each_micro; /* gradients are reduced for each micro-batch */
    /* Of each memory the values whose place is theirs, in the order of places, which do not overlap. */
    int *live[2], n_live[2];
};

const struct tr_tensor *tr_checked_tensor(const struct tr_checking *c, int value);
/* Tables are asked once for each, and not for each micro-batch. */
struct tr_placement tr_checked_placement(
    const struct tr_checking *c, const struct tr_tensor *t, enum tr_axis axis);
const char *tr_checked_name(const struct tr_checking *c, int value);
/* The message names rank, instruction, tensor and micro-batch, and then says what is wrong; false. */
bool tr_checked_wrong(const struct tr_checking *c, int n, struct tr_error *e, const char *what);
/* The same of a value and an axis. */
bool tr_checked_said(
    const struct tr_checking *c, int n, struct tr_error *e, int value, enum tr_axis a, const char *rest);

/* What enters a sum over sequences must be whole but for that. */
bool tr_check_term(const struct tr_checking *c, int n, int value, struct tr_error *e);
/* A push or a pull, on either side. */
bool tr_check_with_server(struct tr_checking *c, int n, struct tr_error *e);

void tr_check_write(struct tr_checking *c, int n, int value);
/* The next value that lies in the bucket, after `last`; -1. */
int tr_check_member(const struct tr_checking *c, int bucket, int last);
bool tr_check_reads(struct tr_checking *c, int n, struct tr_error *e);
/* To write a bucket is to write all that lies in it. */
void tr_check_writes(struct tr_checking *c, int n);
/* Only a copy goes from one memory to the other (check_host.c). */
bool tr_check_memories(struct tr_checking *c, int n, struct tr_error *e);
/* What a copy makes is of the type of what it reads. */
bool tr_check_copy(struct tr_checking *c, int n, struct tr_error *e);
/* What the host has updated is on the device before the next step. */
bool tr_check_raised(const struct tr_checking *c, struct tr_error *e);
/* How many gradients a sum has: of a rank's micro-batches, or, on a server, of workers. */
int tr_check_parts(const struct tr_checking *c);
/* check_elements.c: after the placements of its results are known. */
bool tr_check_elements(struct tr_checking *c, int n, struct tr_error *e);
/* check_update.c: of LOAD, and of UPDATE. */
bool tr_check_loaded(const struct tr_checking *c, int n, struct tr_error *e);
bool tr_check_optimizer(const struct tr_checking *c, int n, struct tr_error *e);
/* check_experts.c: the counts of an all_to_all_v are those of its rows. */
/* An expert admits the tokens of the micro-batch of all ranks in one order. */
bool tr_check_admit(struct tr_checking *c, int n, struct tr_error *e);
bool tr_check_exchange(struct tr_checking *c, int n, struct tr_error *e);
/* check_halo.c: the rows that neighbours give. */
bool tr_check_halo(const struct tr_checking *c, int n, enum tr_axis axis, struct tr_error *e);
bool tr_check_wait(struct tr_checking *c, int n, struct tr_error *e);

#endif
