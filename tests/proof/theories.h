/* SPDX-License-Identifier: BSD-3-Clause */
/* theories.h: how many messages and chunks each algorithm moves and touches, by theory, for any number of
 * ranks; test_verify.c holds the schedules against it. */
#ifndef TT_TESTS_THEORIES_H
#define TT_TESTS_THEORIES_H
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "algorithms/algorithms.h"

enum { FOLD_BLOCK = 8, CIRCULANT_BLOCKS = 8 };

struct theory {
    uint64_t messages, sent, sent_max;
    uint64_t touched; /* out of place */
};

static uint64_t log2_up(uint64_t n)
{
    uint64_t k = 0;
    while ((uint64_t)1 << k < n)
        k++;
    return k;
}

/* n = power + extra, power = 2^rounds. */
struct power {
    uint64_t power, extra, rounds;
};

static struct power power_below(uint64_t n)
{
    uint64_t rounds = log2_up(n + 1) - 1, power = (uint64_t)1 << rounds;
    return (struct power){ power, n - power, rounds };
}

/* Cells that one rank touches to reduce one chunk of all ranks: blocks of eight operands, the own one is a
 * fold alone, the others begin with a receive; block results are then combined two by two. */
static uint64_t fold_touches(uint64_t n, uint64_t rank)
{
    uint64_t blocks = (n + FOLD_BLOCK - 1) / FOLD_BLOCK;
    bool last_is_one =
        n > FOLD_BLOCK && n % FOLD_BLOCK == 1; /* and holds another rank's value: a receive only */
    return 2 + 6 * (blocks - 1) - (last_is_one && rank / FOLD_BLOCK != blocks - 1 ? 2 : 0);
}

static uint64_t all_folds_touch(uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t r = 0; r < n; r++)
        sum += fold_touches(n, r);
    return sum;
}

static uint64_t when(bool condition, uint64_t value)
{
    return condition ? value : 0;
}

static struct theory all_reduce_one_shot(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n * (n - 1), n * (n - 1), n - 1, n * (n - 1) + all_folds_touch(n) };
}

static struct theory all_reduce_doubling(uint64_t n, uint64_t root)
{
    (void)root;
    struct power p = power_below(n);
    uint64_t messages = p.power * p.rounds + 2 * p.extra;
    uint64_t copies = p.rounds % 2 != 0 ? p.extra : when(n == 1, 1);
    return (struct theory){ messages, messages, p.rounds + when(p.extra > 0, 1),
        3 * p.power * p.rounds + 5 * p.extra + 2 * copies };
}

static struct theory all_reduce_tree(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ 2 * (n - 1), 2 * (n - 1), log2_up(n), 5 * (n - 1) + when(n == 1, 2) };
}

static struct theory all_reduce_halving(uint64_t n, uint64_t root)
{
    (void)root;
    struct power p = power_below(n);
    return (struct theory){ 2 * p.power * p.rounds + 2 * p.extra,
        2 * p.power * (p.power - 1) + 2 * p.extra * p.power, 2 * (p.power - 1) + when(p.extra > 0, p.power),
        5 * p.power * (p.power - 1) + 5 * p.extra * p.power + when(n == 1, 2) };
}

static struct theory all_reduce_ring(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ 2 * hops, 2 * hops, 2 * (n - 1), 5 * hops + when(n == 1, 2) };
}

static struct theory all_reduce_direct(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ 2 * hops, 2 * hops, 2 * (n - 1), 3 * hops + all_folds_touch(n) };
}

static struct theory all_reduce_star(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ 2 * (n - 1), 2 * (n - 1), n - 1, 3 * (n - 1) + fold_touches(n, 0) };
}

static struct theory all_reduce_double_tree(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t most[] = { 0, 0, 2, 3,
        4 }; /* an inner node: up, down twice, and up as a leaf of the other tree */
    uint64_t inner = n / 2, messages = 4 * (n - 1);
    return (struct theory){ messages, messages, most[n < 4 ? n : 4],
        messages + messages / 2 + 2 * 2 * inner + when(n == 1, 4) };
}

/* Messages of ceil(log2(n)) rounds in which every rank sends the same number of blocks: one, or two where the
 * range wraps around, which it does at as many ranks as it is blocks long, but one. */
static uint64_t gather_messages(uint64_t n, bool halves)
{
    uint64_t messages = 0, next;
    for (uint64_t have = 1; have < n; have = next) {
        next = 2 * have < n ? 2 * have : n;
        for (uint64_t half = n; halves && half > have; half = (half + 1) / 2)
            next = half;
        messages += n + next - have - 1;
    }
    return messages;
}

static struct theory all_gather_bruck(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ gather_messages(n, false), hops, n - 1, 2 * hops + 2 * n };
}

static struct theory all_gather_circulant(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ gather_messages(n, true), hops, n - 1, 2 * hops + 2 * n };
}

/* Of an odd n, the middle block is sent with partial sums before anything was added to it: it is copied. */
static struct theory reduce_scatter_circulant(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1), copies = when(n % 2 != 0 && n >= 7, n - 1) + when(n == 1, 1);
    return (struct theory){ gather_messages(n, true), hops, n - 1, 3 * hops + 2 * copies };
}

static struct theory all_reduce_circulant(uint64_t n, uint64_t root)
{
    struct theory scatter = reduce_scatter_circulant(n, root);
    return (struct theory){ 2 * scatter.messages, 2 * scatter.sent, 2 * (n - 1),
        scatter.touched + 2 * scatter.sent };
}

static struct theory reduce_scatter_ring(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ hops, hops, n - 1, 3 * hops + when(n == 1, 2) };
}

static struct theory reduce_scatter_direct(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ hops, hops, n - 1, hops + all_folds_touch(n) };
}

static struct theory all_gather_any(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ hops, hops, n - 1, 2 * hops + 2 * n };
}

static struct theory all_to_all_direct(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ hops, hops, n - 1, 2 * hops + 2 * n };
}

/* Along the binomial tree each rank's subtree moves once to or from its parent, as two messages where it runs
 * past the last rank to the first; inner ranks copy their own block, and so does the root. */
static struct theory subtrees(uint64_t n, uint64_t root, bool gathers)
{
    struct theory t = { 0 };
    uint64_t copies = 1;
    for (uint64_t from_root = 1; from_root < n; from_root++) {
        uint64_t low = from_root & -from_root, held = low < n - from_root ? low : n - from_root;
        bool wraps = from_root + root < n && from_root + root + held > n;
        t.messages += 1 + when(wraps, 1);
        t.sent += held;
        copies += when(held > 1, 1);
        if (gathers)
            t.sent_max = held > t.sent_max ? held : t.sent_max;
    }
    if (!gathers) /* the root sends each other rank its block */
        t.sent_max = n - 1;
    t.touched = 2 * t.sent + 2 * copies;
    return t;
}

static struct theory gather_tree(uint64_t n, uint64_t root)
{
    return subtrees(n, root, true);
}

static struct theory scatter_tree(uint64_t n, uint64_t root)
{
    return subtrees(n, root, false);
}

static struct theory gather_direct(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n - 1, n - 1, when(n > 1, 1), 2 * (n - 1) + 2 };
}

static struct theory scatter_direct(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n - 1, n - 1, n - 1, 2 * (n - 1) + 2 };
}

/* A block goes as often as its distance has bits; it is packed, sent, taken each time, and unpacked at
 * last. */
static struct theory all_to_all_bruck(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t bits = 0;
    for (uint64_t d = 1; d < n; d++)
        bits += (uint64_t)__builtin_popcountll(d);
    return (struct theory){ n * log2_up(n), n * bits, bits, n * (4 * bits + 2 * n) };
}

static struct theory broadcast_tree(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n - 1, n - 1, log2_up(n), 2 * (n - 1) + 2 };
}

static struct theory broadcast_split(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t hops = n * (n - 1);
    return (struct theory){ hops, hops, 2 * (n - 1), 2 * hops + 2 * n };
}

/* The root sends in every round. */
static struct theory broadcast_circulant(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t messages = CIRCULANT_BLOCKS * (n - 1);
    return (struct theory){ messages, messages, when(n > 1, CIRCULANT_BLOCKS - 1 + log2_up(n)),
        2 * CIRCULANT_BLOCKS * n };
}

static struct theory reduce_circulant(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t messages = CIRCULANT_BLOCKS * (n - 1);
    return (struct theory){ messages, messages, when(n > 1, CIRCULANT_BLOCKS),
        3 * messages + when(n == 1, 2 * CIRCULANT_BLOCKS) };
}

static struct theory reduce_tree(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n - 1, n - 1, when(n > 1, 1), 3 * (n - 1) + when(n == 1, 2) };
}

static struct theory reduce_direct(uint64_t n, uint64_t root)
{
    return (struct theory){ n - 1, n - 1, when(n > 1, 1), n - 1 + fold_touches(n, root) };
}

static struct theory reduce_split(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t messages = (n + 1) * (n - 1);
    return (struct theory){ messages, messages, when(n > 1, n), messages + n - 1 + all_folds_touch(n) };
}

static struct theory barrier_dissemination(uint64_t n, uint64_t root)
{
    (void)root;
    uint64_t messages = n * log2_up(n);
    return (struct theory){ messages, messages, log2_up(n), 3 * messages };
}

static struct theory barrier_direct(uint64_t n, uint64_t root)
{
    (void)root;
    return (struct theory){ n * (n - 1), n * (n - 1), n - 1, 2 * n * (n - 1) };
}

static const struct {
    enum tt_collective collective;
    const char *name;
    struct theory (*theory)(uint64_t n, uint64_t root);
    int n_max; /* messages grow with the square of n: not beyond this */
} theories[] = {
    { TT_ALL_REDUCE, "one_shot", all_reduce_one_shot, 257 },
    { TT_ALL_REDUCE, "doubling", all_reduce_doubling, 1024 },
    { TT_ALL_REDUCE, "tree", all_reduce_tree, 1024 },
    { TT_ALL_REDUCE, "halving", all_reduce_halving, 1024 },
    { TT_ALL_REDUCE, "ring", all_reduce_ring, 509 },
    { TT_ALL_REDUCE, "double_tree", all_reduce_double_tree, 1024 },
    { TT_ALL_REDUCE, "circulant", all_reduce_circulant, 1021 },
    { TT_ALL_REDUCE, "direct", all_reduce_direct, 257 },
    { TT_ALL_REDUCE, "star", all_reduce_star, 1024 },
    { TT_REDUCE_SCATTER, "ring", reduce_scatter_ring, 1021 },
    { TT_REDUCE_SCATTER, "circulant", reduce_scatter_circulant, 1024 },
    { TT_REDUCE_SCATTER, "direct", reduce_scatter_direct, 257 },
    { TT_ALL_GATHER, "ring", all_gather_any, 1021 },
    { TT_ALL_GATHER, "bruck", all_gather_bruck, 1024 },
    { TT_ALL_GATHER, "circulant", all_gather_circulant, 1024 },
    { TT_ALL_GATHER, "direct", all_gather_any, 257 },
    { TT_BROADCAST, "tree", broadcast_tree, 1024 },
    { TT_BROADCAST, "circulant", broadcast_circulant, 1024 },
    { TT_BROADCAST, "direct", scatter_direct, 1024 },
    { TT_BROADCAST, "split", broadcast_split, 257 },
    { TT_REDUCE, "tree", reduce_tree, 1024 },
    { TT_REDUCE, "direct", reduce_direct, 1024 },
    { TT_REDUCE, "circulant", reduce_circulant, 1024 },
    { TT_REDUCE, "split", reduce_split, 257 },
    { TT_BARRIER, "direct", barrier_direct, 257 },
    { TT_BARRIER, "dissemination", barrier_dissemination, 1024 },
    { TT_ALL_GATHER_V, "ring", all_gather_any, 1021 },
    { TT_ALL_GATHER_V, "bruck", all_gather_bruck, 1024 },
    { TT_ALL_GATHER_V, "circulant", all_gather_circulant, 1024 },
    { TT_ALL_GATHER_V, "direct", all_gather_any, 257 },
    { TT_ALL_TO_ALL, "bruck", all_to_all_bruck, 257 },
    { TT_ALL_TO_ALL, "pairwise", all_to_all_direct, 257 },
    { TT_ALL_TO_ALL, "direct", all_to_all_direct, 257 },
    { TT_GATHER, "tree", gather_tree, 1024 },
    { TT_GATHER, "direct", gather_direct, 1024 },
    { TT_SCATTER, "tree", scatter_tree, 1024 },
    { TT_SCATTER, "direct", scatter_direct, 1024 },
    { TT_REDUCE_SCATTER_V, "ring", reduce_scatter_ring, 1021 },
    { TT_REDUCE_SCATTER_V, "direct", reduce_scatter_direct, 257 },
    { TT_ALL_TO_ALL_V, "direct", all_to_all_direct, 257 },
    { TT_GATHER_V, "direct", gather_direct, 1024 },
    { TT_SCATTER_V, "direct", scatter_direct, 1024 },
};
enum { THEORIES = sizeof theories / sizeof theories[0] };

static int theory_of(const struct tt_algorithm *a)
{
    for (int t = 0; t < THEORIES; t++)
        if (theories[t].collective == a->collective && strcmp(theories[t].name, a->name) == 0)
            return t;
    return -1;
}

#endif
