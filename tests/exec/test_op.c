/* SPDX-License-Identifier: BSD-3-Clause */
/* test_op.c: the fold with a user's function does what the kernels' folds do: the same operands in the
 * same order and shape, whichever operand dst is, across the blocks it works in. */
#include <criterion/criterion.h>
#include <string.h>

#include "exec_rig.h"
#include "call/op.h"

enum { MOST = 1100, OPERANDS = TT_FOLD_OPERANDS };

static int calls, longest;

static void merkle(void *dst, const void *left, const void *right, size_t count, void *context)
{
    size_t words = *(const size_t *)context / 8 * count;
    for (size_t i = 0; i < words; i++)
        ((uint64_t *)dst)[i] = rig_merkle(((const uint64_t *)left)[i], ((const uint64_t *)right)[i]);
    calls++;
    longest = (int)words > longest ? (int)words : longest;
}

static void fill(uint64_t (*operands)[MOST])
{
    for (uint64_t i = 0; i < OPERANDS; i++)
        for (uint64_t e = 0; e < MOST; e++)
            operands[i][e] = i * 1000003 + e;
}

/* dst is source `alias`, or memory of its own if there is none. */
static void check(size_t bytes, enum tt_shape shape, int k, int alias, size_t words)
{
    static uint64_t operands[OPERANDS + 1][MOST], expected[MOST];
    const void *sources[OPERANDS];
    struct tt_operator o = {
        .kind = TT_OPERATOR_USER, .element_bytes = (uint32_t)bytes, .fn = merkle, .context = &bytes
    };
    for (int i = 0; i < k; i++)
        sources[i] = operands[i];
    fill(operands);
    (shape == TT_TREE ? rig_fold_tree : rig_fold_chain)(expected, sources, k, words, 1);
    uint64_t *dst = operands[alias < k ? alias : OPERANDS];
    dst[words] = 77;
    tt_operator_fold(&o, shape, dst, sources, k, words * 8 / bytes);
    cr_assert(memcmp(dst, expected, words * 8) == 0 && dst[words] == 77,
        "%zu bytes, shape %d, %d operands of %zu words, dst is %d", bytes, shape, k, words, alias);
    for (int i = 0; i < k; i++)
        for (size_t e = 0; i != alias && e < words; e++)
            cr_assert_eq(operands[i][e], (uint64_t)i * 1000003 + e);
}

Test(op, folds_as_kernels_do)
{
    static const size_t words[] = { 0, 1, 511, 512, 513, 1025, 1099 };
    for (int shape = TT_CHAIN; shape <= TT_TREE; shape++)
        for (int k = 1; k <= OPERANDS; k++)
            for (int alias = 0; alias <= k; alias++)
                for (int w = 0; w < 7; w++)
                    check(8, (enum tt_shape)shape, k, alias, words[w]);
    for (int k = 1; k <= OPERANDS; k++) {
        check(4096, TT_TREE, k, k, 1024);
        check(4096, TT_CHAIN, k, k - 1, 512);
        check(24, TT_TREE, k, 0, 513);
    }
}

/* Two operands need no blocks: one call does it. More keep to what the nearest cache holds. */
Test(op, folds_in_blocks)
{
    calls = longest = 0;
    check(8, TT_CHAIN, 2, 0, 1000);
    cr_expect(calls == 1 && longest == 1000);
    calls = longest = 0;
    check(8, TT_CHAIN, 3, 0, 1024);
    cr_expect(calls == 4 && longest == 512, "%d calls, the longest of %d words", calls, longest);
}
