/* SPDX-License-Identifier: BSD-3-Clause */
/* dropout.h: which elements are dropped, by a generator that counts (Philox4x32-10 of Salmon et al. 2011).
 *
 * Four words of 32 bits follow from a counter of four and a key of two alone, so whoever has an element of
 * the residual stream draws for it what all others would. Channels i, i + Q, i + 2 Q and i + 3 Q of a token
 * have the four words of one counter, Q being a quarter of them: neighbours are neighbours in a vector. */

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
