/* SPDX-License-Identifier: BSD-3-Clause */
/* map.c: the arithmetic of maps of tokens to ranks. */
#include "training/parallel/map.h"

struct tr_runs tr_runs_of(const struct tr_map *m, int64_t tokens, int cp_rank)
{
    int cp = m->cp;
    struct tr_runs r = { .n = 1, .count = tokens / cp };
    if (m->zigzag)
        r.n = 2, r.count /= 2;
    r.first[0] = cp_rank * r.count;
    r.first[1] = (2 * cp - 1 - cp_rank) * r.count;
    return r;
}

struct tr_owner tr_owner_of(const struct tr_map *m, int n)
{
    int cp = m->cp;
    return n < cp ? (struct tr_owner){ n, 0 } : (struct tr_owner){ 2 * cp - 1 - n, 1 };
}

int tr_pairs(const struct tr_map *m, int rank_of_queries, int rank_of_keys, struct tr_pair pairs[TR_PAIRS])
{
    int n = 0;
    if (!m->zigzag || rank_of_keys <= rank_of_queries)
        pairs[n++] = (struct tr_pair){ 0, 0 };
    if (!m->zigzag)
        return n;
    pairs[n++] = (struct tr_pair){ 1, 0 };
    if (rank_of_keys >= rank_of_queries)
        pairs[n++] = (struct tr_pair){ 1, 1 };
    return n;
}

/* The sum of what x queries see, of which the first sees one key and each other one more, and none more than
 * `keys`. */
static double seen_from_first(int64_t x, int64_t keys)
{
    if (x <= 0)
        return 0;
    int64_t some = x < keys ? x : keys;
    return (double)some * (double)(some + 1) / 2 + (double)(x - some) * (double)keys;
}

/* Of each pair of stripes: query i sees i keys, and one more of a stripe that is not behind its own. */
static double seen_in_stripes(const struct tr_places *at)
{
    int64_t block = at->tokens / TR_STRIPES;
    double sum = 0;
    for (int64_t q = at->first / block; q < (at->first + at->queries) / block; q++)
        for (int64_t k = at->begin / block; k < (at->begin + at->keys) / block; k++)
            sum += (double)(block * (block - 1) / 2 + (tr_stripe_of(k) <= tr_stripe_of(q) ? block : 0));
    return sum;
}

double tr_seen(const struct tr_map *m, const struct tr_places *at)
{
    int64_t before = at->first - at->begin;
    if (m->striped)
        return seen_in_stripes(at);
    return seen_from_first(before + at->queries, at->keys) - seen_from_first(before, at->keys);
}
