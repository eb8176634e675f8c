/* SPDX-License-Identifier: BSD-3-Clause */
/* names.h: what a parameter is called in files of other programs, and how its elements lie there.
 *
 * The GPT is called and laid out as GPT-2 in Hugging Face's transformers (modeling_gpt2.py): a matrix lies as
 * [inputs][outputs], and the queries of all heads stand before all keys. The Llama is as there, too
 * (modeling_llama.py): queries, keys and values are three matrices, gates and what they gate are two, and all
 * lie as [outputs][inputs]. The other models have no relatives there; they keep names and layouts. */
#ifndef TRAINING_WEIGHTS_NAMES_H
#define TRAINING_WEIGHTS_NAMES_H

#include "training/checkpoint/checkpoint.h"

enum { TR_FOREIGN_NAME = 96 };
/* Of an entry of a checkpoint, one part: element i of the other file is element tr_foreign_at of ours. */
struct tr_foreign {
    char name[TR_FOREIGN_NAME];
    int dims;
    int64_t shape[2];
    enum tr_lies { TR_AS_HERE, TR_TRANSPOSED, TR_BY_KIND, TR_BY_GROUP, TR_BY_GATE } lies;
    int64_t heads, depth, inputs; /* of a layer's queries, keys and values; depth: channels of a head */
    int part; /* BY_GROUP: queries, keys, values; BY_GATE: gates, and what they gate */
    int64_t share, chunk; /* heads of queries in a group; gates that stand side by side */
};

/* Into how many parts an entry comes apart there; and one of them. */
int tr_foreign_parts(const struct tr_head *h, const struct tr_saved *entry);
void tr_foreign_of(struct tr_foreign *f, const struct tr_head *h, const struct tr_saved *entry, int part);
/* Of a Llama's checkpoint: how many heads its keys and values have. */
int64_t tr_kv_heads(const struct tr_head *h, const struct tr_saved *qkv);
int64_t tr_foreign_at(const struct tr_foreign *f, int64_t i);

#endif
