/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_kernels.c: kernels of a device, emulated, against those of the processor, bit for bit.
 *
 * Every type, operation, shape and number of operands meets lengths up to some vectors and offsets of the
 * pointers, at one offset and at several, in place at some ranks and not; not each combination of all, but
 * each of the kernels' branches for each kernel. The processor's kernels are the generic ones, which
 * test_kernels.c compares with plain arithmetic. What does not depend on a type is in test_cuda_fused.c. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/dev_kernel.h"
#include "tests/kernels/kernel_reference.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"

enum { RANKS = TT_FUSED_RANKS, LONGEST = 600, PAD = 64, REGION = LONGEST + 2 * PAD, GUARD = 0xc3 };

/* Of each rank: operands, results, and what both should be in the end. */
static _Alignas(64) uint8_t regions[2][RANKS][REGION], want[2][RANKS][REGION];
enum { OPERANDS, RESULTS };

static void fill(const struct type *t)
{
    for (int k = 0; k < RANKS; k++)
        for (size_t at = 0; at < REGION; at += t->bytes) {
            uint64_t bits = random_value(t);
            memcpy(regions[OPERANDS][k] + at, &bits, t->bytes);
        }
}

static void launch(
    enum tt_kernel kernel, const struct type *t, tutti_op op, const struct tt_fused_params *p, uint32_t grid)
{
    struct tt_dev_kernel found = { 0 };
    cr_assert(tt_dev_kernel_find(tt_kernel_number(kernel, t->type, op), &found), "no kernel for %s", t->name);
    cr_assert_eq(found.params_bytes, sizeof *p);
    static uint32_t order; /* ascending, descending, two that are drawn, and so on */
    struct tt_emulated_launch l = { found.function, p, grid, p->rects, 7, TT_EMULATE_FIBERS, order++ % 4 };
    tt_emulate_grid(&l);
}

struct fold_case {
    const struct type *t;
    tutti_op op;
    enum tt_shape shape;
    bool scales;
    uint8_t sources, dsts, in_place; /* masks of ranks */
    uint32_t divisor;
    size_t count;
    bool same_offset;
};

static size_t offset_of(const struct fold_case *c, size_t common)
{
    const size_t in_packet = 16 / c->t->bytes;
    return PAD + (c->same_offset ? common : random_bits() % in_packet) * c->t->bytes;
}

/* The result, by the processor's kernels. */
static void expect(const struct fold_case *c, const struct tt_fused_params *p, uint8_t *result)
{
    static uint8_t factored[RANKS][REGION];
    const void *sources[RANKS];
    int n = 0;
    for (int k = 0; k < RANKS; k++) {
        if (!(c->sources >> k & 1))
            continue;
        sources[n] = (const uint8_t *)p->own.in[k] + p->rect[0].from;
        if (c->scales) {
            const void *factor = p->own.scalar[k] != NULL ? p->own.scalar[k] : &p->own.factor[k];
            tt_scale(factored[k], sources[n], c->count, c->t->type, factor);
            sources[n] = factored[k];
        }
        n++;
    }
    tt_fold_find_isa(c->t->type, c->op, c->shape, TT_ISA_GENERIC)(result, sources, n, c->count, c->divisor);
}

static enum tt_kernel kernel_of(const struct fold_case *c)
{
    if (c->scales)
        return c->shape == TT_TREE ? TT_KERNEL_SCALED_TREE : TT_KERNEL_SCALED_CHAIN;
    return c->shape == TT_TREE ? TT_KERNEL_FUSED_TREE : TT_KERNEL_FUSED_CHAIN;
}

/* As one rectangle, or as two, the second of which goes on where the first ends. */
static void set_rects(const struct fold_case *c, struct tt_fused_params *p, uint64_t from, uint64_t to)
{
    size_t first = random_bits() & 1 ? c->count : c->count / 3;
    p->rects = first < c->count ? 2 : 1;
    p->rect[0] = (struct tt_rect){ from, to, first, c->sources, c->dsts, { 0 } };
    p->rect[1] = p->rect[0];
    p->rect[1].from += first * c->t->bytes;
    p->rect[1].to += first * c->t->bytes;
    p->rect[1].count = c->count - first;
}

static void compare(const struct fold_case *c)
{
    const size_t bytes = c->count * c->t->bytes, common = random_bits() % (16 / c->t->bytes);
    static uint8_t kept[RANKS][REGION], result[REGION];
    uint64_t from = random_bits() % 3 * c->t->bytes, to = random_bits() % 3 * c->t->bytes, factors[RANKS];
    struct tt_fused_params p = { .divisor = c->divisor };
    memset(regions[RESULTS], GUARD, sizeof regions[RESULTS]);
    memcpy(kept, regions[OPERANDS], sizeof kept);
    memcpy(want, regions, sizeof want);
    for (int k = 0; k < RANKS; k++) {
        bool in_place = c->in_place >> k & 1;
        uint8_t *in = regions[OPERANDS][k] + offset_of(c, common);
        uint8_t *out = in_place ? in : regions[RESULTS][k] + offset_of(c, common);
        p.own.in[k] = in - from;
        p.own.out[k] = out - to;
        factors[k] = p.own.factor[k] = random_value(c->t);
        p.own.scalar[k] = c->scales && random_bits() & 1 ? &factors[k] : NULL;
        p.own.factor[k] = p.own.scalar[k] != NULL ? 0 : factors[k];
    }
    set_rects(c, &p, from, to);
    expect(c, &p, result);
    for (int k = 0; k < RANKS; k++)
        if (c->dsts >> k & 1) {
            const uint8_t *out = (const uint8_t *)p.own.out[k] + to;
            memcpy((uint8_t *)want + (out - (const uint8_t *)regions), result, bytes);
        }
    launch(kernel_of(c), c->t, c->op, &p, 1 + (uint32_t)c->count % 3);
    for (size_t i = 0; memcmp(regions, want, sizeof want) != 0; i++)
        cr_assert_eq(((uint8_t *)regions)[i], ((uint8_t *)want)[i],
            "%s op %u, shape %d, sources %x, dsts %x, in place %x, divisor %u, %zu elements: byte %zu is %x",
            c->t->name, c->op, c->shape, c->sources, c->dsts, c->in_place, c->divisor, c->count, i,
            ((uint8_t *)regions)[i]);
    memcpy(regions[OPERANDS], kept, sizeof kept);
}

/* Lengths around one vector and several, of bytes; what is not whole elements is cut. */
static const size_t lengths[] = { 0, 1, 2, 8, 15, 16, 17, 24, 31, 32, 40, 48, 63, 64, 80, 130, 336, 590 };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void compare_lengths(struct fold_case c)
{
    for (int i = 0; i < LENGTHS; i++) {
        c.count = lengths[i] / c.t->bytes;
        for (int same_offset = 0; same_offset < 2; same_offset++) {
            c.same_offset = same_offset;
            c.dsts = (uint8_t)(random_bits() % 4 == 0 ? 255 : 1 + random_bits() % 255);
            c.in_place = i % 3 == 0 ? (uint8_t)(random_bits() & c.sources) : 0;
            compare(&c);
        }
    }
}

/* `k` operands: of the first ranks, or of any. */
static uint8_t some_ranks(int k)
{
    uint8_t ranks = (uint8_t)((1U << k) - 1);
    if (random_bits() & 1)
        while (__builtin_popcount(ranks = (uint8_t)random_bits()) != k)
            continue;
    return ranks;
}

static void compare_shape(struct fold_case c)
{
    for (int k = 1; k <= RANKS; k++) {
        fill(c.t);
        c.sources = some_ranks(k);
        c.divisor = c.op == TUTTI_AVG ? (uint32_t)k : 0;
        compare_lengths(c);
        if (c.op != TUTTI_AVG && k != 1 && k != 3) /* who is no sum does not look at it */
            continue;
        c.divisor = c.scales ? 1 : 2 + (uint32_t)(random_bits() % 1000);
        compare_lengths(c);
    }
}

static void compare_type(const struct type *t)
{
    for (int o = 0; o < OPS; o++)
        for (int shape = TT_CHAIN; shape <= TT_TREE; shape++) {
            struct fold_case c = { .t = t, .op = ops[o].op, .shape = (enum tt_shape)shape };
            if (tt_fold_find(t->type, c.op, c.shape) == NULL) {
                cr_assert_eq(tt_kernel_number(TT_KERNEL_FUSED_CHAIN, t->type, c.op), 0);
                continue;
            }
            compare_shape(c);
            c.scales = true;
            if (c.op == TUTTI_SUM)
                compare_shape(c);
        }
}

#define FOLDS_OF(name, index)                                                                                \
    Test(cuda_kernels, folds_of_##name)                                                                      \
    {                                                                                                        \
        compare_type(&types[index]);                                                                         \
    }
FOLDS_OF(int8, 0)
FOLDS_OF(uint8, 1)
FOLDS_OF(int32, 2)
FOLDS_OF(int64, 3)
FOLDS_OF(uint32, 4)
FOLDS_OF(uint64, 5)
FOLDS_OF(float16, 6)
FOLDS_OF(bfloat16, 7)
FOLDS_OF(float32, 8)
FOLDS_OF(float64, 9)
FOLDS_OF(float8_e4m3, 10)
FOLDS_OF(float8_e5m2, 11)

/* Every pair of an e4m3 and of an e5m2, and every half with some others. */
Test(cuda_kernels, every_narrow_value)
{
    static _Alignas(16) uint8_t a[1 << 17], b[1 << 17], device[1 << 17], host[1 << 17];
    static const tutti_type narrow_types[] = { TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2, TUTTI_FLOAT16,
        TUTTI_BFLOAT16 };
    static const tutti_op some[] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN };
    for (int n = 0; n < 4; n++) {
        const struct type *t = &types[0];
        while (t->type != narrow_types[n])
            t++;
        for (uint32_t i = 0; i < 1 << 16; i++) {
            uint32_t low = t->bytes == 1 ? i & 255 : i, high = t->bytes == 1 ? i >> 8 : i * 40503 % 65521;
            memcpy(a + i * t->bytes, &low, t->bytes);
            memcpy(b + i * t->bytes, &high, t->bytes);
        }
        for (int o = 0; o < 4; o++) {
            const void *sources[] = { a, b };
            struct tt_fused_params p = { .own = { .in = { a, b }, .out = { device } },
                .rects = 1,
                .rect = { { .count = 1 << 16, .sources = 3, .dsts = 1 } } };
            launch(TT_KERNEL_FUSED_CHAIN, t, some[o], &p, 2);
            tt_fold_find_isa(t->type, some[o], TT_CHAIN, TT_ISA_GENERIC)(host, sources, 2, 1 << 16, 0);
            cr_assert_arr_eq(device, host, t->bytes << 16, "%s, operation %u", t->name, some[o]);
        }
    }
}

/* Numbers are of one kernel each; those that are none are told. */
Test(cuda_kernels, numbers)
{
    struct tt_dev_kernel found = { &found, 77 };
    cr_assert_not(tt_dev_kernel_find(0, &found));
    cr_assert_not(tt_dev_kernel_find(tt_dev_kernels(), &found));
    cr_assert_eq(found.params_bytes, 77);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_FUSED_CHAIN, TUTTI_FLOAT32, TUTTI_BIT_AND), 0);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_FUSED_TREE, (tutti_type)99, TUTTI_SUM), 0);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_FUSED_CHAIN, TUTTI_INT32, 99), 0);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_SCALED_CHAIN, TUTTI_FLOAT32, TUTTI_PROD), 0);
    uint32_t most = 0;
    for (int t = 0; t < TYPES; t++)
        for (int o = 0; o < OPS; o++)
            for (int kernel = TT_KERNEL_MOVE; kernel <= TT_KERNEL_DIRECT; kernel++) {
                uint32_t number = tt_kernel_number((enum tt_kernel)kernel, types[t].type, ops[o].op);
                cr_assert_lt(number, tt_dev_kernels());
                cr_assert(number == 0 || tt_dev_kernel_find(number, &found), "%s", types[t].name);
                most = number > most ? number : most;
            }
    cr_assert_gt(most, 12 * 10);
}
