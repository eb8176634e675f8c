/* SPDX-License-Identifier: BSD-3-Clause */
/* data.h: what is learned: tokens, and which of them are in a batch; or rows of numbers with a class each.
 *
 * A batch is a function of the step alone: sequence i of step s begins at a place that a hash of (seed, s, i)
 * names, whatever ranks there are. Token files are llm.c's: 256 int32 (magic number 20240520, version 1, how
 * many tokens), then uint16. Any other file is taken as bytes. */
#ifndef TRAINING_DATA_H
#define TRAINING_DATA_H

#include "training/error.h"

#include <stdbool.h>
#include <stdint.h>

struct tr_data {
    char name[256];
    uint16_t *tokens;
    int64_t count;
    uint64_t seed;
    int64_t learned; /* of the tokens; the others are held out. 0: all */
    int64_t stride; /* between sequences; 0: they begin anywhere */
    uint8_t *pixels, *labels; /* of `count` pictures that a user gave, [planes][height][width]; or NULL */
    int64_t planes, height, width; /* made-up pictures have one plane */
    uint64_t hash; /* tr_data_hash, where somebody asks for it */
};

/* Of all tokens, or pictures and their classes: what is made up without a list of them has the same. */
uint64_t tr_data_hash(const struct tr_data *d);
/* The last part of a path, cut to `room` with its 0. */
void tr_data_short_name(const struct tr_data *d, char *name, size_t room);

/* path NULL: the made-up grammar of the golden program, 65,536 tokens below vocabulary. Tokens must be below
 * vocabulary, and there must be context + 1 of them. */
bool tr_data_open(struct tr_data *d, const char *path, uint64_t seed, int64_t vocabulary, int64_t context,
    struct tr_error *e);
/* The same from memory: llm.c's tokens, or any other bytes. */
bool tr_data_from_bytes(struct tr_data *d, const char *name, const uint8_t *bytes, int64_t count,
    uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e);
void tr_data_close(struct tr_data *d);

/* The last tenth of the tokens is not learned. */
bool tr_data_hold_out(struct tr_data *d, int64_t context, struct tr_error *e);

/* context + 1 tokens: inputs, and one place on the targets. The same as the golden program's. Steps below 0
 * are of what is held out. */
const uint16_t *tr_data_sequence(const struct tr_data *d, int64_t step, int64_t i, int64_t context);

/* By what a sequence draws the elements that dropout leaves out, so many of all: its key, its number, and the
 * least of 2^32 words that is kept; 0, of what is held out: all are. */
void tr_data_draws(const struct tr_data *d, double dropout, int64_t step, int64_t i, uint32_t to[4]);

/* Sequences whose second half is the first again: what stands there can be known from half a sequence before,
 * and from nothing else. */
bool tr_recall_open(
    struct tr_data *d, uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e);

/* What the mlp learns: rows that are made up, each the pattern of its class and noise twice as large. A row
 * is a function of (seed, step, sequence, row), the same as the golden program's. */
struct tr_rows {
    int64_t count, inputs, classes; /* rows; numbers of a row; 65,536 classes at most */
    int64_t first; /* of the rows, in their sequence */
};
void tr_rows_open(struct tr_data *d, uint64_t seed);
void tr_rows_targets(
    const struct tr_data *d, const struct tr_rows *r, int64_t step, int64_t sequence, uint16_t *to);
/* to[count][inputs] */
void tr_rows_inputs(
    const struct tr_data *d, const struct tr_rows *r, int64_t step, int64_t sequence, float *to);

/* What the cnn learns: digits of 0 to F, somewhere on a picture of 2 x grid pixels a side, with noise; or
 * pictures from files. A picture is a function of (seed, step, number), the same as the golden program's. */
void tr_pictures_open(struct tr_data *d, uint64_t seed);
struct tr_picture_files {
    const char *pictures, *labels; /* IDX files, as MNIST's */
};
bool tr_idx_open(struct tr_data *d, const struct tr_picture_files *f, uint64_t seed, int64_t grid,
    int64_t classes, struct tr_error *e);
uint16_t tr_pictures_target(const struct tr_data *d, int64_t classes, int64_t step, int64_t number);
/* The binary file of CIFAR-10: three planes, and the classes. */
bool tr_cifar_open(
    struct tr_data *d, const char *path, uint64_t seed, int64_t grid, int64_t classes, struct tr_error *e);
/* Which cells of 2 x 2 pixels: `rows` rows of the grid from row `first` on; or columns, and each lies there
 * as a row would. Beyond the grid there is +0. */
struct tr_cells {
    int64_t grid, first, rows;
    bool columns;
};
/* to[rows][grid][planes][4] */
void tr_pictures_draw(const struct tr_data *d, const struct tr_cells *c, int64_t classes, int64_t step,
    int64_t number, float *to);

/* The initial value of an element, before it is scaled: nearly normal, a function of (seed, tensor,
 * element). */
double tr_normal(uint64_t seed, int64_t tensor, int64_t element);
uint64_t tr_hash(uint64_t x);
/* The next number by chance, from any seed. */
uint64_t tr_next(uint64_t *state);

/* All of a file; the caller frees it. */
bool tr_read_file(uint8_t **bytes, int64_t *count, const char *path, struct tr_error *e);

#endif
