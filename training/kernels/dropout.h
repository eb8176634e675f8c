/* SPDX-License-Identifier: BSD-3-Clause */
/* dropout.h: which elements are dropped, by a generator that counts (Philox4x32-10 of Salmon et al. 2011).
 *
 * Four words of 32 bits follow from a counter of four and a key of two alone, so whoever has an element of
 * the residual stream, or a probability of attention, draws for it what all others would. Channels i, i + Q,
 * i + 2 Q and i + 3 Q of a token have the four words of one counter, Q being a quarter of them: neighbours
 * are neighbours in a vector. Of each 64 keys, tokens i, i + 16, i + 32 and i + 48 have those of one. So 64
 * keys of a stripe, each the eighth behind the one before, have all words of 16 counters, too. */
#include "training/kernels/stripes.h"

#include <stdbool.h>

typedef uint32_t vec_words __attribute__((vector_size(TR_VECTOR_BYTES)));
typedef uint64_t vec_products __attribute__((vector_size(2 * TR_VECTOR_BYTES)));

/* The upper half of each product with m. */
INLINE vec_words upper_product(vec_words x, uint64_t m)
{
    return __builtin_convertvector(__builtin_convertvector(x, vec_products) * m >> 32, vec_words);
}

INLINE void philox(vec_words c[4], uint32_t key, uint32_t other)
{
    for (int round = 0; round < 10; round++, key += 0x9E3779B9u, other += 0xBB67AE85u) {
        vec_words upper = upper_product(c[0], 0xD2511F53u), lower = c[0] * 0xD2511F53u;
        vec_words upper2 = upper_product(c[2], 0xCD9E8D57u), lower2 = c[2] * 0xCD9E8D57u;
        c[0] = upper2 ^ c[1] ^ key, c[1] = lower2;
        c[2] = upper ^ c[3] ^ other, c[3] = lower;
    }
}

/* One token's channels; y may be x. */
static void drop_row(
    float *y, const float *x, int64_t c, int64_t place, const uint32_t *draw, const struct tr_dropped *d)
{
    int64_t quarter = (c + 3) / 4;
    for (int64_t i = 0; i < quarter; i += WIDTH) {
        uint32_t number[WIDTH];
        for (int64_t n = 0; n < WIDTH; n++)
            number[n] = (uint32_t)(i + n);
        const vec_words none = { 0 };
        vec_words counter[4] = { none, none + (uint32_t)place, none + draw[TR_DRAW_SEQUENCE],
            none + (uint32_t)d->site };
        memcpy(counter, number, sizeof number);
        philox(counter, draw[TR_DRAW_KEY], draw[TR_DRAW_KEY_2]);
        for (int64_t word = 0; word < 4; word++) {
            int64_t at = word * quarter + i, some = lesser(quarter - i, c - at);
            if (some <= 0)
                break;
            vec_words kept = (vec_words)(counter[word] >= draw[TR_DRAW_LEAST]);
            vec scaled = vec_load_some(x + at, some) * vec_all(d->scale);
            vec_store_some(y + at, (vec)((vec_words)scaled & kept), some);
        }
    }
}

static void dropout(CONTEXT, float *y, const float *x, const uint32_t *draws, const struct tr_dropped *d)
{
    int64_t c = d->at.columns;
    for (int64_t s = 0; s < d->at.sequences; s++, draws += TR_DRAW_WORDS)
        for (int64_t r = 0; r < d->at.runs; r++)
            for (int64_t t = 0; t < d->at.tokens; t++, y += c, x += c)
                if (draws[TR_DRAW_LEAST])
                    drop_row(y, x, c, position_of(&d->at, r, t), draws, d);
                else if (y != x)
                    memcpy(y, x, (size_t)c * sizeof *y);
}

/* ---- probabilities of attention ---- */

enum { DRAWN_KEYS = 64, DRAWN_COUNTERS = 16, OF_ATTENTION = 1 << 12 };

/* A query, and a run of keys that it sees: neighbours, or those of a stripe. */
struct seen_keys {
    int64_t query, head; /* its token; of the model */
    bool striped;
    int64_t stripe;
};

/* Keys 64 n to 64 n + 63 of a run: all bits of those that are kept. */
static void draw_keys(
    uint32_t kept[DRAWN_KEYS], int64_t n, const struct seen_keys *k, const struct tr_unattended *d)
{
    const uint32_t *draw = d->draws;
    const vec_words none = { 0 };
    for (int64_t i = 0; i < DRAWN_COUNTERS; i += WIDTH) {
        uint32_t number[WIDTH];
        for (int64_t j = 0; j < WIDTH; j++) {
            int64_t at = n * DRAWN_COUNTERS + i + j;
            number[j] = (uint32_t)(k->striped ? at * TR_STRIPES + k->stripe : at);
        }
        vec_words counter[4] = { none, none + (uint32_t)k->query,
            none + (draw[TR_DRAW_SEQUENCE] | 0x80000000u),
            none + (uint32_t)(k->head * OF_ATTENTION + d->layer) };
        memcpy(counter, number, sizeof number);
        philox(counter, draw[TR_DRAW_KEY], draw[TR_DRAW_KEY_2]);
        for (int64_t word = 0; word < 4; word++) {
            vec_words all = (vec_words)(counter[word] >= draw[TR_DRAW_LEAST]);
            if (!k->striped)
                memcpy(kept + word * DRAWN_COUNTERS + i, &all, sizeof all);
            for (int64_t j = 0; k->striped && j < WIDTH; j++)
                kept[(i + j) / 2 * 8 + word * 2 + (i + j) % 2] = all[j];
        }
    }
}

/* x[count] is of the keys from the run's number `from` on. */
static void drop_keys(
    float *x, int64_t from, int64_t count, const struct seen_keys *k, const struct tr_unattended *d)
{
    uint32_t kept[DRAWN_KEYS + WIDTH] = { 0 };
    for (int64_t done = 0, some; done < count; done += some, x += some) {
        int64_t first = (from + done) % DRAWN_KEYS;
        some = lesser(DRAWN_KEYS - first, count - done);
        draw_keys(kept, (from + done) / DRAWN_KEYS, k, d);
        for (int64_t j = 0; j < some; j += WIDTH) {
            vec_words all;
            memcpy(&all, kept + first + j, sizeof all);
            vec scaled = vec_load_some(x + j, some - j) * vec_all(d->scale);
            vec_store_some(x + j, (vec)((vec_words)scaled & all), some - j);
        }
    }
}
