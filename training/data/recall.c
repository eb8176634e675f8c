/* SPDX-License-Identifier: BSD-3-Clause */
/* recall.c: sequences of which the second half is the first half again, the same as the golden program's.
 *
 * Tokens are one of 16, by chance, so what comes next in the second half is known only to who recalls what
 * came next half a sequence before. Nothing else can be learned. A rank that sees no more than its own part
 * of a sequence, shorter than half of it, cannot know. */
#include "training/data/data.h"

enum { SEQUENCES = 4096, KINDS = 16, KEY = 0x5EC0 };

bool tr_recall_open(struct tr_data *d, uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e)
{
    *d = (struct tr_data){ .name = "what was half a sequence before", .seed = seed, .stride = context + 1 };
    if (vocabulary < KINDS)
        return tr_fail(e, "--data recall has %d tokens, and the vocabulary is %lld; legal are %d and more",
            KINDS, (long long)vocabulary, KINDS);
    d->count = SEQUENCES * d->stride;
    d->tokens = tr_new((size_t)d->count, sizeof d->tokens[0]);
    for (int64_t i = 0; i < d->count; i++) {
        uint64_t sequence = (uint64_t)(i / d->stride), place = (uint64_t)(i % d->stride % (context / 2));
        d->tokens[i] = (uint16_t)(tr_hash(tr_hash(KEY + sequence) + place) % KINDS);
    }
    return true;
}
