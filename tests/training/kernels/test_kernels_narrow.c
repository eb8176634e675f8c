/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_narrow.c: bfloat16 in the kernels of each set that this machine runs, against Tutti's own
 * conversion and plain text. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "lib/tutti.h"
#include "tests/training/kernels/kernels_rig.h"

enum { ROUNDS = 40, MOST = 300 };

static float of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Numbers of all sizes, ties, and what is at the ends. */
static void numbers(float *x, int64_t n)
{
    static const uint32_t ends[] = { 0x3F808000, 0x3F818000, 0x3F807FFF, 0x3F808001, 0x7F7FFFFF, 0x7F800000,
        0xFF800000, 0x00000001, 0x80008000, 0x7FC00001, 0x7F800001, 0xFFFFFFFF, 0x80000000 };
    for (int64_t i = 0; i < n; i++)
        x[i] = of_bits((uint32_t)rig_between(0, 0xFFFFFFFF));
    for (size_t i = 0; i < sizeof ends / sizeof *ends && (int64_t)i < n; i++)
        x[i * 7 % (size_t)n] = of_bits(ends[i]);
}

Test(train_kernels, bfloat16_is_nearest_and_comes_back)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t n = rig_between(1, MOST);
        float x[MOST], back[MOST], wide[MOST];
        uint16_t want[MOST], got[MOST + 1];
        numbers(x, n);
        cr_assert_eq(tutti_convert(x, TUTTI_FLOAT32, want, TUTTI_BFLOAT16, (size_t)n), TUTTI_OK);
        cr_assert_eq(tutti_convert(want, TUTTI_BFLOAT16, back, TUTTI_FLOAT32, (size_t)n), TUTTI_OK);
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            if (!set)
                continue;
            got[n] = 77;
            set->bfloat16.from_float(on, got, x, n, NULL);
            cr_assert(!memcmp(got, want, sizeof *got * (size_t)n) && got[n] == 77, "%s", set->name);
            set->bfloat16.to_float(on, wide, got, n);
            cr_assert(!memcmp(wide, back, sizeof *wide * (size_t)n), "%s", set->name);
            memcpy(wide, x, sizeof *wide * (size_t)n);
            set->bfloat16.from_float(on, (uint16_t *)(void *)wide, wide, n, NULL);
            cr_assert(!memcmp(wide, want, sizeof *want * (size_t)n), "%s, in place", set->name);
        }
    }
}

/* Long enough for several pieces. */
Test(train_kernels, bfloat16_is_added_in_float32_and_rounded)
{
    enum { LONG = 2500 };
    static uint16_t a[LONG], b[LONG], want[LONG], got[LONG];
    static float left[LONG], right[LONG];
    float *x = rig_random(2 * LONG);
    for (int s = 0; s < RIG_SETS; s++) {
        struct tr_context *on = rig_context(s);
        if (!on->k)
            continue;
        on->k->bfloat16.from_float(on, a, x, LONG, NULL);
        on->k->bfloat16.from_float(on, b, x + LONG, LONG, NULL);
        on->k->bfloat16.to_float(on, left, a, LONG);
        on->k->bfloat16.to_float(on, right, b, LONG);
        for (int i = 0; i < LONG; i++)
            left[i] = left[i] + right[i];
        on->k->bfloat16.from_float(on, want, left, LONG, NULL);
        on->k->bfloat16.add(on, got, a, b, LONG);
        cr_assert(!memcmp(got, want, sizeof got), "%s", rig_sets[s]);
        on->k->bfloat16.add(on, a, a, b, LONG);
        cr_assert(!memcmp(a, want, sizeof a), "%s, in place", rig_sets[s]);
    }
    rig_end();
}

/* Each result is one of the two neighbours; the mean is the number; and a part of an array has the bits that
 * it has in the whole. */
Test(train_kernels, bfloat16_by_chance_keeps_the_mean)
{
    enum { MANY = 1 << 16 };
    static float x[MANY], wide[MANY];
    static uint16_t first[MANY], got[MANY];
    const float low = 1, step = 1.0f / 128, at = 0.3f;
    for (int i = 0; i < MANY; i++)
        x[i] = low + at * step;
    for (int s = 0; s < RIG_SETS; s++) {
        struct tr_context *on = rig_context(s);
        const struct tr_kernels *set = on->k;
        double up = 0;
        if (!set)
            continue;
        set->bfloat16.from_float(on, got, x, MANY, &(struct tr_chance){ 5, 0x123456789ABCDEFu });
        set->bfloat16.to_float(on, wide, got, MANY);
        for (int i = 0; i < MANY; i++) {
            cr_assert(wide[i] <= low + step && wide[i] >= low, "%s", set->name);
            up += wide[i] > low;
        }
        cr_expect(fabs(up / MANY - (double)at) < 0.01, "%s: %g of the numbers are rounded up", set->name,
            up / MANY);
        if (s == 0)
            memcpy(first, got, sizeof got);
        cr_assert(!memcmp(first, got, sizeof got), "%s", set->name);
        set->bfloat16.from_float(on, got, x, 17, &(struct tr_chance){ 5 + 1001, 0x123456789ABCDEFu });
        cr_assert(!memcmp(first + 1001, got, 17 * sizeof *got), "%s", set->name);
        set->bfloat16.from_float(on, got, x, MANY, &(struct tr_chance){ 5, 0x123456789ABCDF0u });
        cr_expect(memcmp(first, got, sizeof got) != 0, "%s: another step has the same chance", set->name);
    }
}

Test(train_kernels, square_leaves_of_bfloat16_are_those_of_its_float32)
{
    for (int round = 0; round < ROUNDS; round++) {
        int64_t leaf = rig_between(1, round % 2 ? 20 : MOST), n = rig_between(1, MOST);
        int64_t leaves = (n + leaf - 1) / leaf;
        uint16_t x[MOST];
        float wide[MOST];
        double got[MOST], want[MOST];
        for (int s = 0; s < RIG_SETS; s++) {
            struct tr_context *on = rig_context(s);
            const struct tr_kernels *set = on->k;
            if (!set)
                continue;
            float *random = rig_random(n);
            set->bfloat16.from_float(on, x, random, n, NULL);
            set->bfloat16.to_float(on, wide, x, n);
            set->square_leaves(on, want, wide, false, n, leaf);
            set->square_leaves(on, got, x, true, n, leaf);
            cr_assert(!memcmp(got, want, sizeof *got * (size_t)leaves), "%s", set->name);
        }
        rig_end();
    }
}
