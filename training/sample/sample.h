/* SPDX-License-Identifier: BSD-3-Clause */
/* sample.h: a trained model goes on with a text. */
#ifndef TRAINING_SAMPLE_SAMPLE_H
#define TRAINING_SAMPLE_SAMPLE_H

#include "training/options.h"
#include "training/run/run.h"

#include <stdio.h>

/* ---- model.c ---- */

/* --load is a checkpoint, or safetensors with the names of GPT-2 or Llama: what was not said of the model is
 * read off it. A model that learns no text is an error. */
bool tr_sampled_model(struct tr_options *o, struct tr_error *e);
/* The values of all parameters, from that file. Collective over `ranks` (NULL: one rank). */
bool tr_sampled_load(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e);

/* ---- draw.c ---- */

struct tr_drawing {
    double temperature; /* 0: the token with the highest score; of equal ones the first */
    long top_k; /* none but so many of the highest scores are drawn, of equal ones the first; 0: all */
    uint64_t seed;
};
/* One of the tokens 0 to count - 1, by chance: a token is exp(score / temperature) times as likely. The
 * number of the choice, counted from 0, says which random number it takes. -1: a score is no number. */
int64_t tr_draw(const struct tr_drawing *d, const float *scores, int64_t count, int64_t number);

/* ---- write.c ---- */

/* Bytes that are no whole character yet. */
struct tr_writer {
    FILE *to;
    uint8_t held[4];
    int n;
};
/* Whole characters are written at once; bytes that can become none, as U+FFFD. false: it cannot be written,
 * and errno says why. */
bool tr_write_text(struct tr_writer *w, const uint8_t *bytes, int64_t count);
/* Nothing follows. */
bool tr_write_end(struct tr_writer *w);

#endif
