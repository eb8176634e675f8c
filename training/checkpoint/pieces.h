/* SPDX-License-Identifier: BSD-3-Clause */
/* pieces.h: what a rank holds of a parameter, as a piece of the canonical flat array of the whole tensor:
 * rows times columns elements, without padding, whatever mesh there is. */
#ifndef TRAINING_CHECKPOINT_PIECES_H
#define TRAINING_CHECKPOINT_PIECES_H

#include "training/run/run.h"

/* Of a parameter; AdamW's m and v; with --offload-delay 1 the gradient of the step before. */
enum tr_kind { TR_VALUES, TR_M, TR_V, TR_WAITING, TR_KINDS };
extern const char *const tr_kind_names[TR_KINDS];

struct tr_piece {
    float *at; /* in an array; else it is of a value of this rank */
    const struct tr_runner *r;
    int value; /* elements from `first` on */
    int64_t first;
    bool narrow; /* they are bfloat16 */
    int64_t from, count; /* elements of the flat array; count 0: this rank has none */
};

/* So many elements of it, from i on, as float32; and back, where they were made so. */
void tr_piece_get(const struct tr_piece *p, int64_t i, int64_t count, float *to);
void tr_piece_put(const struct tr_piece *p, int64_t i, int64_t count, const float *from);

/* The value of the tape that a checkpoint keeps: the master, where there is one. */
int tr_kept_values(const struct tr_param_state *h);
/* All that is here. */
struct tr_piece tr_piece_held(const struct tr_runner *r, const struct tr_param_state *h, enum tr_kind kind);
/* What this rank owns of it: of replicas the first rank has it, so that the pieces of all ranks are the whole
 * tensor, once. */
struct tr_piece tr_piece_owned(const struct tr_runner *r, const struct tr_param_state *h, enum tr_kind kind);

/* What operations read of a bfloat16 parameter, which is the rounding of a master that may be elsewhere. */
struct tr_piece tr_piece_rounded(const struct tr_runner *r, const struct tr_param_state *h);

/* A sum of a hash of each (index, bits), modulo 2^64: the sums of a tensor's pieces add up to the tensor's,
 * and any one element that changes changes it. */
uint64_t tr_piece_sum(const struct tr_piece *p);

#endif
