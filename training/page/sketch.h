/* SPDX-License-Identifier: BSD-3-Clause */
/* sketch.h: drawings of how something is cut and shared, as textbooks have them. A colour is a rank. */
#ifndef TRAINING_PAGE_SKETCH_H
#define TRAINING_PAGE_SKETCH_H

#include <stdio.h>

/* What is cut of Y = X W: rows of X, columns of W, or what the sum goes over. */
enum tr_sketch_cut { TR_SKETCH_ROWS, TR_SKETCH_COLUMNS, TR_SKETCH_INNER };
void tr_sketch_product(FILE *to, long rows, long inner, long columns, int ranks, enum tr_sketch_cut cut);

/* The layers of a model on ranks: some layers on each; all on each, with a part of the batch; a part of each
 * layer on each. */
enum tr_sketch_share { TR_SKETCH_LAYERS, TR_SKETCH_BATCH, TR_SKETCH_PARTS };
void tr_sketch_model(FILE *to, int layers, int ranks, enum tr_sketch_share share);

/* Tokens of a sequence over ranks, each of which has the whole model. */
void tr_sketch_sequence(FILE *to, long tokens, int ranks);

/* Workers around servers, or in a ring: servers 0. */
void tr_sketch_ways(FILE *to, int workers, int servers);

#endif
