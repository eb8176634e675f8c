/* SPDX-License-Identifier: BSD-3-Clause */
/* test_scale.c: a vector times one factor, against the reference, element by element.
 *
 * Counts lie around the block of factors that the implementation may cut by; the factor is not aligned. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "kernel_reference.h"

enum { MOST = 5003, GUARD = 64 };

static void check_scale(const struct type *t, size_t count, bool in_place)
{
    static uint8_t src[MOST * 8], kept[MOST * 8], dst[MOST * 8 + GUARD];
    uint64_t bits = random_value(t);
    uint8_t factor[9];
    memcpy(factor + 1, &bits, t->bytes);
    for (size_t i = 0; i < count; i++) {
        uint64_t value = random_value(t);
        memcpy(src + i * t->bytes, &value, t->bytes);
    }
    memcpy(kept, src, count * t->bytes);
    memset(dst, 0xa5, sizeof dst);
    uint8_t *to = in_place ? src : dst;
    tt_scale(to, src, count, t->type, factor + 1);
    for (size_t i = 0; i < count; i++) {
        const uint64_t operands[] = { get(t, kept + i * t->bytes), bits };
        uint64_t wanted = reference(t, TUTTI_PROD, TT_CHAIN, operands, 2, 0);
        uint64_t found = get(t, to + i * t->bytes);
        if (found != wanted)
            cr_assert_fail("%s: element %zu of %zu: %#llx * %#llx is %#llx, not %#llx", t->name, i, count,
                (unsigned long long)operands[0], (unsigned long long)bits, (unsigned long long)found,
                (unsigned long long)wanted);
    }
    for (size_t i = count * t->bytes; !in_place && i < sizeof dst; i++)
        if (dst[i] != 0xa5)
            cr_assert_fail("%s: byte %zu beyond %zu elements", t->name, i, count);
    if (!in_place && memcmp(src, kept, count * t->bytes) != 0)
        cr_assert_fail("%s: src was written", t->name);
}

Test(scale, every_type)
{
    static const size_t counts[] = { 0, 1, 7, 255, 256, 257, 1025, MOST };
    for (int round = 0; round < 8; round++) /* another factor each */
        for (int i = 0; i < TYPES; i++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
                check_scale(&types[i], counts[c], false);
                check_scale(&types[i], counts[c], true);
            }
}

/* Times 1 is a product, not a copy: every number keeps its bits, a NaN that is computed is all ones. */
Test(scale, by_one)
{
    const uint32_t one = 0x3f800000;
    uint32_t numbers[] = { 0, 0x80000000, 1, 0x807fffff, 0x3f8ccccd, 0x7f800000, 0xff800000, 0x7fc12345 };
    uint32_t scaled[8];
    tt_scale(scaled, numbers, 8, TUTTI_FLOAT32, &one);
    numbers[7] = UINT32_MAX;
    cr_expect_arr_eq(scaled, numbers, sizeof numbers);
}
