/* SPDX-License-Identifier: BSD-3-Clause */
/* head.h: the head of a checkpoint, between the files of this directory. */
#ifndef TRAINING_CHECKPOINT_HEAD_H
#define TRAINING_CHECKPOINT_HEAD_H

#include "training/checkpoint/checkpoint.h"

struct tr_heading {
    struct tr_head head; /* of an older version with 0 where it has nothing */
    struct tr_saved *entries; /* to be freed */
    int updates; /* of a step of the run */
};

/* Of a run, with step and sums as 0, and without its data. */
void tr_heading_make(struct tr_heading *h, const struct tr_graph *g, const struct tr_plan *p, uint64_t seed);
/* Of a file that is open for reading, and fits the run, which is laid out by the file's version for that.
 * NULL: no run is there, and the file is believed as far as it agrees with itself. */
bool tr_heading_read(
    struct tr_heading *h, int file, const char *path, struct tr_heading *run, struct tr_error *e);
/* Opens a file for that, without a run. */
bool tr_heading_open(struct tr_heading *h, int *file, const char *path, struct tr_error *e);
/* Where an element of an array of this kind lies in the file, in bytes. */
int64_t tr_heading_place(const struct tr_heading *h, int entry, enum tr_kind kind, int64_t element);
/* What is written to the file's beginning; sums the head. */
bool tr_heading_write(struct tr_heading *h, int file, const char *path, struct tr_error *e);
/* The entry of a parameter, tied ones by the one whose values they share. */
int tr_heading_entry(const struct tr_graph *g, int parameter);

#endif
