/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.h: the state of a run in one file that knows no mesh: any mesh writes it, any mesh reads it.
 *
 * The file, in little-endian order:
 *
 *     struct tr_head      what was run, and how far
 *     struct tr_saved     one for each parameter, in the golden program's order (a tied head has none)
 *     zeros               up to head.first, a multiple of 4,096
 *     float32 arrays      of each parameter its values, then with AdamW m, then v, then what waits: rows
 *                         times columns elements, row by row, without padding, one after the other
 *
 * Version 2 has the head up to `norm` and then its sum; versions 3 to 5 have what stands behind that as
 * well. All are read, and version 5 is written.
 *
 * A file is written under another name (FILE.part) and renamed when all of it is on the disk, so that FILE is
 * at any moment the old one or the new one, whole. */
#ifndef TRAINING_CHECKPOINT_CHECKPOINT_H
#define TRAINING_CHECKPOINT_CHECKPOINT_H

#include "training/checkpoint/pieces.h"

enum { TR_CHECKPOINT_VERSION = 5, TR_CHECKPOINT_OLDEST = 2 };

struct tr_head {
    char magic[8]; /* "TUTTICKP" */
    uint32_t version, entries;
    int64_t bytes, first; /* of the whole file; where the first array begins */
    char model[24];
    int64_t layers, channels, heads, context, vocabulary, inputs, tied; /* tied: 1 if the head is */
    int64_t adamw; /* 0: SGD, and the file has neither m nor v */
    int64_t waits; /* 1: each parameter has a gradient that waits for the next step (--offload-delay 1) */
    int64_t seed, step; /* step: how many optimizer steps were done */
    int64_t batch; /* sequences of a step */
    double rate, decay, clip;
    double norm; /* of the last gradient, which clips the one that waits */
    uint64_t sum; /* of head and entries, by their 32-bit words, this one as 0 */
    /* version 3: what a run may change, and is told that it did */
    double capacity, balance; /* --capacity-factor and --aux-loss */
    int64_t bfloat16, stochastic; /* 1: --precision bfloat16, --rounding stochastic */
    struct {
        char name[64]; /* of what was learned, without its directory */
        int64_t count; /* of tokens, or pictures */
        uint64_t hash; /* of tokens, or pictures and classes: tr_data_hash */
    } data;
    /* version 4: how the rate changes: --rate-schedule by enum tr_rate_curve, --warmup, --rate-steps,
     * --rate-min */
    struct {
        int64_t curve, warmup, until;
        double least;
    } course;
    double dropout; /* version 5: --dropout */
};

struct tr_saved {
    char name[40];
    int64_t rows, columns, at; /* at: of its values, in bytes from the file's beginning */
    uint64_t sums[TR_KINDS]; /* tr_piece_sum of each kind; 0 where there is none */
};

/* An asynchronous pipeline makes several optimizer steps in a step of the run. The file counts the former,
 * with their batch, and so it is that of a run with as many steps of that batch; what is read counts steps of
 * the run that reads it. As its pipeline drains at the end of a step, there is one version of the weights.
 *
 * Reads the head: a file that is none, is cut, is damaged, or was written by another model, optimizer or
 * seed, is an error that names what differs. */
bool tr_checkpoint_peek(struct tr_head *head, const char *path, const struct tr_graph *g,
    const struct tr_plan *p, uint64_t seed, struct tr_error *e);
/* Whether a file of this name can be written, to be known before the first step. */
bool tr_checkpoint_writable(const char *path, struct tr_error *e);

/* All are collective over `ranks`, which joins all ranks of the run (NULL: one rank). A runner that has read
 * a file goes on with its step: the batches, and AdamW's corrections. */
bool tr_checkpoint_load(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e);
/* The values alone, whatever optimizer and seed the run had that wrote them. */
bool tr_checkpoint_load_values(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e);
bool tr_checkpoint_save(const struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e);

#endif
