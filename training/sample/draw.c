/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.c: the next token, by its scores and a random number that is counted, so that no choice depends on who
 * made the ones before. */
#include "training/sample/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int64_t highest(const float *scores, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (scores[i] > scores[best])
            best = i;
    return best;
}

static int falling(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x < y) - (x > y);
}

/* The lowest score that is drawn, and how many with just that are. */
struct kept {
    float least;
    int64_t equal;
};

static struct kept keep(const float *scores, int64_t count, long top_k)
{
    struct kept k = { -INFINITY, count };
    if (top_k < 1 || top_k >= count)
        return k;
    float *sorted = tr_new((size_t)count, sizeof *sorted);
    memcpy(sorted, scores, (size_t)count * sizeof *sorted);
    qsort(sorted, (size_t)count, sizeof *sorted, falling);
    k.least = sorted[top_k - 1], k.equal = 0;
    for (int64_t i = top_k - 1; i >= 0 && sorted[i] >= k.least; i--)
        k.equal++;
    free(sorted);
    return k;
}

/* From 0 up to, but without 1. */
static double chance(uint64_t seed, int64_t number)
{
    return (double)(tr_hash(tr_hash(seed) + (uint64_t)number) >> 11) * 0x1p-53;
}

int64_t tr_draw(const struct tr_drawing *d, const float *scores, int64_t count, int64_t number)
{
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(scores[i]))
            return -1;
    int64_t best = highest(scores, count), chosen = best;
    if (!(d->temperature > 0))
        return best;
    struct kept k = keep(scores, count, d->top_k);
    double *up_to = tr_new((size_t)count, sizeof *up_to), sum = 0;
    for (int64_t i = 0; i < count; i++) {
        bool is_kept = scores[i] > k.least || (scores[i] >= k.least && k.equal-- > 0);
        if (is_kept)
            sum += exp(((double)scores[i] - (double)scores[best]) / d->temperature);
        up_to[i] = sum;
    }
    double at = chance(d->seed, number) * sum;
    for (int64_t i = count - 1; i >= 0 && up_to[i] > at; i--)
        chosen = i;
    free(up_to);
    return chosen;
}
