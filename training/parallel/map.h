/* SPDX-License-Identifier: BSD-3-Clause */
/* map.h: which tokens of a sequence a rank of cp has.
 *
 *        blocks        b0 b1 b2 b3 b4 b5 b6 b7         cp 4
 *        contiguous    r0 r0 r1 r1 r2 r2 r3 r3         neighbours; who has the first ones attends to few keys
 *        zigzag        r0 r1 r2 r3 r3 r2 r1 r0         two runs of neighbours; all attend to equally many
 *        striped       r0 r0 r1 r1 r2 r2 r3 r3         the blocks are stripes: every eighth token each
 *
 * The canonical sum over tokens is a tree over the eight blocks. Contiguous ranks have subtrees of it. Zigzag
 * ranks have one in each half of the sequence, so what they sum over tokens they keep as two: all first
 * halves become whole by one tree over the ranks, and all second halves by the same tree, since the order of
 * ranks there is the reverse, and a + b = b + a. The two are then added, as the root of the tree would.
 *
 * Striped is contiguous of another order of the sequence (stripes.h): what is called a token's place, `first`
 * of an instruction and of a run, is then one in that order. The golden program has it, too. */
#ifndef TRAINING_PARALLEL_MAP_H
#define TRAINING_PARALLEL_MAP_H

#include "training/kernels/stripes.h"

#include <stdbool.h>
#include <stdint.h>

enum { TR_RUNS = 2, TR_PAIRS = 3 };

struct tr_map {
    int cp; /* ranks */
    bool zigzag; /* a rank has two runs */
    bool striped; /* places are in stripes; also of one rank, which so has the bits of many */
};

/* Runs of neighbouring tokens, of `count` each, in the order in which the rank has them. */
struct tr_runs {
    int n;
    int64_t count, first[TR_RUNS];
};

struct tr_runs tr_runs_of(const struct tr_map *m, int64_t tokens, int cp_rank);

/* The n-th run of the sequence: whose it is, and which of that rank's. */
struct tr_owner {
    int rank, run;
};
struct tr_owner tr_owner_of(const struct tr_map *m, int n);

/* A run of one rank's queries and a run of another's keys. */
struct tr_pair {
    int queries, keys;
};
/* The pairs of which attention makes results, in the order in which these lie: of zigzag those in which a
 * query sees a key, three inside a rank and two between ranks; of contiguous the one there is. */
int tr_pairs(const struct tr_map *m, int rank_of_queries, int rank_of_keys, struct tr_pair pairs[TR_PAIRS]);

/* Pairs of a query and a key that it sees, in places of a sequence: queries from `first` on, keys from
 * `begin` on. */
struct tr_places {
    int64_t tokens, first, queries, begin, keys;
};
double tr_seen(const struct tr_map *m, const struct tr_places *at);

#endif
