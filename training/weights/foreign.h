/* SPDX-License-Identifier: BSD-3-Clause */
/* foreign.h: parameters of a file of another program: the sizes of its model, and the elements of each. */
#ifndef TRAINING_WEIGHTS_FOREIGN_H
#define TRAINING_WEIGHTS_FOREIGN_H

#include "training/checkpoint/head.h"
#include "training/model/graph.h"
#include "training/weights/names.h"
#include "training/weights/safetensors.h"

/* "gpt" or "llama", by the names of its tensors; NULL: neither. */
const char *tr_foreign_family(const struct tr_safetensors *s);
/* Sizes that were not said, and are 0, become those of the file, as far as it has them. */
void tr_foreign_sizes(struct tr_model_options *sizes, const char *model, const struct tr_safetensors *s);
/* The most elements that a parameter of the heading has. */
int64_t tr_longest(const struct tr_heading *h);
/* The parameter of that name, or the first. */
const struct tr_saved *tr_entry_named(const struct tr_heading *h, const char *name);
/* All elements of a parameter, as a checkpoint has them; `there` is room for as many. */
bool tr_foreign_read(const struct tr_heading *h, const struct tr_saved *entry, const struct tr_safetensors *s,
    float *here, float *there, struct tr_error *e);

/* Writing: the names of all that the heading's entries become, in their order; then, after
 * tr_safetensors_make, the elements of one entry, as a checkpoint has them. `stored`: how many tensors the
 * entries before it gave; `there` is room for as many elements. */
void tr_foreign_add(const struct tr_heading *h, struct tr_safetensors *s);
bool tr_foreign_write(const struct tr_heading *h, int entry, int *stored, const float *here, float *there,
    const struct tr_safetensors *s, struct tr_error *e);

#endif
