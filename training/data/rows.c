/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c: rows of numbers, each with a class: made up as the golden program makes them.
 *
 * The numbers are whole, -384 to 382, over 128, so that each machine has the same. */
#include "training/data/data.h"

void tr_rows_open(struct tr_data *d, uint64_t seed)
{
    *d = (struct tr_data){ .name = "made-up rows", .seed = seed };
}

static uint64_t key_of(const struct tr_data *d, int64_t step, int64_t sequence, int64_t row)
{
    return tr_hash(tr_hash(tr_hash(tr_hash(d->seed) + (uint64_t)step) + (uint64_t)sequence) + (uint64_t)row);
}

void tr_rows_targets(
    const struct tr_data *d, const struct tr_rows *r, int64_t step, int64_t sequence, uint16_t *to)
{
    for (int64_t t = 0; t < r->count; t++)
        to[t] = (uint16_t)(key_of(d, step, sequence, r->first + t) % (uint64_t)r->classes);
}

void tr_rows_inputs(
    const struct tr_data *d, const struct tr_rows *r, int64_t step, int64_t sequence, float *to)
{
    for (int64_t t = 0; t < r->count; t++) {
        uint64_t key = key_of(d, step, sequence, r->first + t);
        uint64_t class_key = tr_hash(~tr_hash(d->seed) + key % (uint64_t)r->classes);
        for (int64_t i = 0; i < r->inputs; i++) {
            int64_t pattern = (int64_t)(tr_hash(class_key + (uint64_t)i) % 256) - 128;
            int64_t noise = (int64_t)(tr_hash(key + 1 + (uint64_t)i) % 512) - 256;
            to[t * r->inputs + i] = (float)(pattern + noise) / 128;
        }
    }
}
