/* SPDX-License-Identifier: BSD-3-Clause */
/* element.c: the element type of each tensor, in each placement. */
#include "training/place/element.h"

#include <string.h>

const char *const tr_element_names[TR_ELEMENTS] = { "float32", "bfloat16", "float64", "token", "word" };

int64_t tr_element_bytes(enum tr_element e)
{
    static const int64_t bytes[TR_ELEMENTS] = { 4, 2, 8, 2, 4 };
    return bytes[e];
}

tutti_type tr_element_type(enum tr_element e)
{
    static const tutti_type types[TR_ELEMENTS] = { TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT64, TUTTI_INT8,
        TUTTI_INT8 };
    return types[e]; /* tokens and words are in no message */
}

/* The sums over a ring's keys (V) and over its queries (W, U), and over each half of a sequence (H), are
 * partial sums as those that P names. */
static bool is_partial(const struct tr_shard *s)
{
    for (int a = 0; a < TR_AXES; a++)
        if (s->on[a].kind == TR_P || s->on[a].term || s->on[a].halves)
            return true;
    return false;
}

/* Numbers of which a token has one for each channel. What it has one of (means, sums, the log-sum-exp of a
 * head), and what the model says is wide, stays float32. */
static bool is_of_channels(const struct tr_tensor *t)
{
    return t->letter[t->dims - 1] == 'c' && !t->wide;
}

enum tr_element tr_shard_element(const struct tr_placed *p, int shard)
{
    const struct tr_shard *s = &p->shards[shard];
    const struct tr_tensor *t = &p->g->tensors[s->tensor];
    bool narrow = p->plan->numbers.bfloat16 && !s->unrounded && !is_partial(s);
    switch (t->role) {
    case TR_INPUT:
        return t->letter[1] == 'k' ? TR_WORD : t->dims == 2 ? TR_TOKEN : TR_FLOAT32;
    case TR_LOSS:
        return TR_FLOAT64;
    case TR_LEAVES: /* summands of a gradient */
        return TR_FLOAT32;
    case TR_D_PARAMETER: /* the other micro-batches, or workers, are missing */
        return narrow && p->plan->micros == 1 && !p->plan->mesh.servers ? TR_BFLOAT16 : TR_FLOAT32;
    case TR_PARAMETER:
        return narrow ? TR_BFLOAT16 : TR_FLOAT32;
    default:
        return narrow && is_of_channels(t) ? TR_BFLOAT16 : TR_FLOAT32;
    }
}
