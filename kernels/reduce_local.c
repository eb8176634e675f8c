/* SPDX-License-Identifier: BSD-3-Clause */
/* reduce_local.c: the canonical tree over any number of operands in this process's memory.
 *
 * The pass-up tree nests: groups of 8^d operands, aligned to 8^d, are whole subtrees, and their results
 * combine by the same tree. So one fold kernel and a recursion of depth log8(k) do it. A group's result waits
 * in a block on the stack, so that memory is bounded and stays in the first caches; dst, which may be a
 * source, is written last for each block. */
#include "kernels/kernels.h"

enum { GROUP = 8, BLOCK_BYTES = 2048 };

struct leaves {
    const void *const *sources;
    tt_fold_fn fold;
    size_t at, count; /* the block: its first byte in each source, and its elements */
};

static void fold_group(const struct leaves *l, int first, int k, void *dst, uint32_t divisor)
{
    _Alignas(64) uint8_t results[GROUP][BLOCK_BYTES];
    const void *parts[GROUP];
    int64_t span = 1; /* operands below each part */
    while (span * GROUP < k)
        span *= GROUP;
    int n = 0;
    for (int64_t done = 0; done < k; done += span, n++) {
        int part_first = first + (int)done;
        int part_k = (int)(k - done < span ? k - done : span);
        parts[n] = part_k == 1 ? (const uint8_t *)l->sources[part_first] + l->at : results[n];
        if (part_k > 1)
            fold_group(l, part_first, part_k, results[n], 0);
    }
    l->fold(dst, parts, n, l->count, divisor);
}

tutti_status tt_reduce_local(
    const void *const *sources, int k, void *dst, size_t count, tutti_type type, tutti_op op)
{
    tt_fold_fn fold = tt_fold_find(type, op, TT_TREE);
    if (!fold)
        return TUTTI_UNSUPPORTED;
    if (k < 1)
        return TUTTI_INVALID_ARGUMENT;
    uint32_t divisor = op == TUTTI_AVG ? (uint32_t)k : 0;
    if (k <= TT_FOLD_OPERANDS) {
        fold(dst, sources, k, count, divisor);
        return TUTTI_OK;
    }
    size_t element_bytes = tutti_type_bytes(type);
    size_t block = BLOCK_BYTES / element_bytes;
    for (size_t done = 0; done < count; done += block) {
        size_t at = done * element_bytes;
        struct leaves l = { sources, fold, at, count - done < block ? count - done : block };
        fold_group(&l, 0, k, (uint8_t *)dst + at, divisor);
    }
    return TUTTI_OK;
}
