/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_trees.h: the pass-up tree, with its nodes in registers or in memory.
 *
 * A tree's nodes are rounded to the type. In registers that takes a few instructions, and holds for all sums
 * but those that overflow: what is not finite then stays so up to the root, and such a vector is computed
 * again the other way, by a loop over pairs that stores each node. That is also how trees of other operations
 * than the sum are made, and of float16: the processor rounds it faster than a test for its overflow runs. */
#ifndef TT_KERNELS_FOLD_TREES_H
#define TT_KERNELS_FOLD_TREES_H
#include "kernels/fold_job.h"

/* Longer expressions from a loop over pairs, which rounds what it stores: a block at a time, whose inner
 * nodes stay in the first cache. That needs no code for each k. dst may be a source, so what goes there is
 * last. */

typedef void (*whole_vectors)(
    uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor);
enum { BLOCK_BYTES = 2048 };

/* The pass-up tree, level by level. A node takes the place of one that its level has read already. An average
 * rounds the root before it divides. */
static void tree_of_pairs(
    whole_vectors loop, uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor)
{
    _Alignas(64) uint8_t nodes[TT_FOLD_OPERANDS / 2][BLOCK_BYTES];
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        size_t block = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
        const void *level[TT_FOLD_OPERANDS];
        for (int j = 0; j < k; j++)
            level[j] = (const uint8_t *)sources[j] + at;
        for (int width = k; width > 1; width = (width + 1) / 2) {
            for (int j = 0; j < width / 2; j++) {
                uint8_t *node = width > 2 ? nodes[j] : dst + at;
                loop(node, level + 2 * j, 2, block, 0);
                level[j] = node;
            }
            if (width % 2 == 1)
                level[width / 2] = level[width - 1];
        }
        if (divisor > 1)
            loop(dst + at, level, 1, block, divisor);
    }
}

/* In registers. */

INLINE struct wide rounded(struct job f, struct wide w)
{
    w.a = f.type->rounded(w.a);
    w.b = f.type->rounded(w.b);
    if (f.type->parts > 2) {
        w.c = f.type->rounded(w.c);
        w.d = f.type->rounded(w.d);
    }
    return w;
}
INLINE struct wide node(struct job f, struct wide left, struct wide right)
{
    struct wide w = combined(f, left, right);
    return f.type->rounded != NULL ? rounded(f, w) : w;
}

/* k operands split at the largest power of two below k. A root is not rounded yet: memory may do that. */
INLINE struct wide tree1(struct job f, int j, size_t at)
{
    return leaf(f, j, at);
}
#define TREE(k, left, right)                                                                                 \
    INLINE struct wide tree##k(struct job f, int j, size_t at)                                               \
    {                                                                                                        \
        return node(f, tree##left(f, j, at), tree##right(f, j + left, at));                                  \
    }                                                                                                        \
    INLINE struct wide root##k(struct job f, int j, size_t at)                                               \
    {                                                                                                        \
        return combined(f, tree##left(f, j, at), tree##right(f, j + left, at));                              \
    }
TREE(2, 1, 1)
TREE(3, 2, 1)
TREE(4, 2, 2)
TREE(5, 4, 1)
TREE(6, 4, 2)
TREE(7, 4, 3)
TREE(8, 4, 4)
TREE(9, 8, 1)

/* Did something overflow on the way? */
INLINE bool spoilt(struct job f, struct wide root)
{
    nans found = f32_not_finite(root.a) | f32_not_finite(root.b);
    if (f.type->parts > 2)
        found |= f32_not_finite(root.c) | f32_not_finite(root.d);
    return nans_any(found);
}

static __attribute__((noinline)) void tree_in_memory(struct job f, whole_vectors loop, int k, size_t at)
{
    const void *sources[TT_FOLD_OPERANDS];
    for (int j = 0; j < k; j++)
        sources[j] = (const uint8_t *)f.sources[j] + at;
    tree_of_pairs(loop, f.dst + at, sources, k, sizeof(vec), f.divisor);
}

INLINE void tree_one(
    struct job f, whole_vectors loop, int k, struct wide (*root_of)(struct job, int, size_t), size_t at)
{
    struct wide root = root_of(f, 0, at);
    bool packs = f.type->pack != NULL && f.divisor <= 1;
    if (packs || f.divisor > 1)
        root = rounded(f, root);
    if (__builtin_expect(spoilt(f, root), 0))
        tree_in_memory(f, loop, k, at);
    else
        vec_store(f.dst + at, packs ? f.type->pack(root) : f.type->narrow(divided(f, root)));
}

INLINE void tree_of(struct job f, whole_vectors loop, int k, struct wide (*root_of)(struct job, int, size_t))
{
    const void *sources[TT_FOLD_OPERANDS];
    for (int j = 0; j < k; j++)
        sources[j] = f.sources[j];
    f.sources = sources;
    for (size_t at = f.begin; at < f.end; at += sizeof(vec))
        if (f.type->rounded != NULL)
            tree_one(f, loop, k, root_of, at);
        else
            vec_store(f.dst + at, result(f, root_of(f, 0, at)));
}

/* `loop` takes the operands that there are, rounded once: so it does not divide the rounded sum of a pair. A
 * pair that is not divided is the caller's to give it. */
INLINE void trees(struct job f, whole_vectors loop, int k)
{
    switch (k) {
    case 1:
        loop(f.dst, f.sources, 1, f.end, f.divisor);
        break;
    case 2:
        tree_of(f, loop, 2, root2);
        break;
    case 3:
        tree_of(f, loop, 3, root3);
        break;
    case 4:
        tree_of(f, loop, 4, root4);
        break;
    case 5:
        tree_of(f, loop, 5, root5);
        break;
    case 6:
        tree_of(f, loop, 6, root6);
        break;
    case 7:
        tree_of(f, loop, 7, root7);
        break;
    case 8:
        tree_of(f, loop, 8, root8);
        break;
    case 9:
        tree_of(f, loop, 9, root9);
        break;
    }
}

#endif
