/* SPDX-License-Identifier: BSD-3-Clause */
/* names.h: what a parameter is called in files of other programs, and how its elements lie there.
 *
 * The GPT is called and laid out as GPT-2 in Hugging Face's transformers (modeling_gpt2.py): a matrix lies as
 * [inputs][outputs], and the queries of all heads stand before all keys. The other models have no relatives
 * there; they keep names and layouts. */
#ifndef TRAINING_WEIGHTS_NAMES_H
#define TRAINING_WEIGHTS_NAMES_H

#include "training/checkpoint/checkpoint.h"

enum { TR_FOREIGN_NAME = 96 };
/* Of an entry of a checkpoint: element i of the other file is element tr_foreign_at of ours. */
struct tr_foreign {
    char name[TR_FOREIGN_NAME];
    int dims;
    int64_t shape[2];
    enum tr_lies { TR_AS_HERE, TR_TRANSPOSED, TR_BY_KIND } lies;
    int64_t heads, depth, inputs; /* of a layer's queries, keys and values; depth: channels of a head */
};

void tr_foreign_of(struct tr_foreign *f, const struct tr_head *h, const struct tr_saved *entry);
int64_t tr_foreign_at(const struct tr_foreign *f, int64_t i);

#endif
