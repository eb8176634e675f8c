/* SPDX-License-Identifier: BSD-3-Clause */
/* scale.c: a vector times one factor, as a rank does to its own part of a pre-multiplied sum.
 *
 * It is the product with a block that holds nothing but the factor: the folds compute and round it on every
 * instruction set, and the block stays in the first cache. */
#include <string.h>

#include "kernels/kernels.h"

enum { BLOCK_BYTES = 2048 };

void tt_scale(void *dst, const void *src, size_t count, tutti_type type, const void *factor)
{
    _Alignas(64) uint8_t factors[BLOCK_BYTES];
    tt_fold_fn product = tt_fold_find(type, TUTTI_PROD, TT_CHAIN);
    size_t element_bytes = tutti_type_bytes(type);
    size_t block = BLOCK_BYTES / element_bytes, filled = count < block ? count : block;
    for (size_t i = 0; i < filled; i++)
        memcpy(factors + i * element_bytes, factor, element_bytes);
    for (size_t done = 0; done < count; done += block) {
        size_t at = done * element_bytes;
        const void *sources[] = { (const uint8_t *)src + at, factors };
        product((uint8_t *)dst + at, sources, 2, count - done < block ? count - done : block, 0);
    }
}
