/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cuda_kernels.c: kernels of a device, emulated, against those of the processor, bit for bit.
 *
 * Every type, operation, shape and number of operands meets lengths up to some vectors and offsets of the
 * pointers, at one offset and at several; not each combination of all, but each of the kernels' branches for
 * each kernel. The processor's kernels are the generic ones, which test_kernels.c compares with plain
 * arithmetic. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/dev_kernel.h"
#include "tests/kernels/kernel_reference.h"
#include "kernels/cuda/cuda_emulate.h"
#include "kernels/cuda/cuda_kernels.h"

enum { LONGEST = 600, PAD = 64, REGION = LONGEST + 2 * PAD, GUARD = 0xc3 };

static _Alignas(64) uint8_t operands[TT_FOLD_OPERANDS][REGION], got[REGION], want[REGION];

static void fill(const struct type *t)
{
    for (int j = 0; j < TT_FOLD_OPERANDS; j++)
        for (size_t at = 0; at < REGION; at += t->bytes) {
            uint64_t bits = random_value(t);
            memcpy(operands[j] + at, &bits, t->bytes);
        }
}

static void launch(
    enum tt_kernel kernel, const struct type *t, tutti_op op, const void *params, uint32_t grid)
{
    struct tt_dev_kernel found = { 0 };
    cr_assert(tt_dev_kernel_find(tt_kernel_number(kernel, t->type, op), &found), "no kernel for %s", t->name);
    static uint32_t order; /* ascending, descending, two that are drawn, and so on */
    struct tt_emulated_launch l = { found.function, params, grid, 1, 7, TT_EMULATE_FIBERS, order++ % 4 };
    tt_emulate_grid(&l);
}

struct fold_case {
    const struct type *t;
    tutti_op op;
    enum tt_shape shape;
    int k;
    uint32_t divisor;
    size_t count, offsets[TT_FOLD_OPERANDS + 1]; /* in elements; the last is dst's */
    int in_place; /* dst is this source; or -1 */
};

static void compare(const struct fold_case *c)
{
    struct tt_fold_params p = { .count = c->count, .k = (uint32_t)c->k, .divisor = c->divisor };
    static uint8_t kept[REGION];
    const size_t size = c->t->bytes;
    for (int j = 0; j < c->k; j++)
        p.sources[j] = operands[j] + PAD + c->offsets[j] * size;
    uint8_t *region = got;
    size_t at = PAD + c->offsets[TT_FOLD_OPERANDS] * size;
    memset(got, GUARD, REGION);
    memset(want, GUARD, REGION);
    if (c->in_place >= 0) {
        region = operands[c->in_place];
        at = PAD + c->offsets[c->in_place] * size;
        memcpy(kept, region, REGION);
        memcpy(want, region, REGION);
    }
    tt_fold_find_isa(c->t->type, c->op, c->shape, TT_ISA_GENERIC)(
        want + at, p.sources, c->k, c->count, c->divisor);
    p.dst = region + at;
    launch(
        c->shape == TT_TREE ? TT_KERNEL_TREE : TT_KERNEL_CHAIN, c->t, c->op, &p, 1 + (uint32_t)c->count % 3);
    int differs = memcmp(region, want, REGION);
    for (size_t i = 0; differs && i < REGION; i++)
        cr_assert_eq(region[i], want[i], "%s op %u, shape %d, k %d, divisor %u, %zu elements: byte %td is %x",
            c->t->name, c->op, c->shape, c->k, c->divisor, c->count, (ptrdiff_t)(i - at), region[i]);
    if (c->in_place >= 0)
        memcpy(region, kept, REGION);
}

/* Lengths around one vector and several, of bytes; what is not whole elements is cut. */
static const size_t lengths[] = { 0, 1, 2, 8, 15, 16, 17, 24, 31, 32, 40, 48, 63, 64, 80, 130, 336, 599 };
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void compare_lengths(struct fold_case c)
{
    const size_t in_packet = 16 / c.t->bytes;
    for (int i = 0; i < LENGTHS; i++) {
        c.count = lengths[i] / c.t->bytes;
        size_t common = random_bits() % in_packet;
        for (int same_offset = 0; same_offset < 2; same_offset++) {
            for (int j = 0; j <= TT_FOLD_OPERANDS; j++)
                c.offsets[j] = same_offset ? common : random_bits() % in_packet;
            c.in_place = i % 3 == 0 ? (int)(random_bits() % (uint64_t)c.k) : -1;
            compare(&c);
        }
    }
}

static void compare_type(const struct type *t)
{
    for (int o = 0; o < OPS; o++)
        for (int shape = TT_CHAIN; shape <= TT_TREE; shape++) {
            struct fold_case c = { .t = t, .op = ops[o].op, .shape = (enum tt_shape)shape };
            if (tt_fold_find(t->type, c.op, c.shape) == NULL) {
                cr_assert_eq(tt_kernel_number(TT_KERNEL_CHAIN, t->type, c.op), 0);
                continue;
            }
            for (c.k = 1; c.k <= TT_FOLD_OPERANDS; c.k++) {
                fill(t);
                c.divisor = c.op == TUTTI_AVG ? (uint32_t)c.k : 0;
                compare_lengths(c);
                if (c.op != TUTTI_AVG && c.k != 1 && c.k != 3) /* who is no sum does not look at it */
                    continue;
                c.divisor = 2 + (uint32_t)(random_bits() % 1000);
                compare_lengths(c);
            }
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
    static uint8_t a[1 << 17], b[1 << 17], device[1 << 17], host[1 << 17];
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
            struct tt_fold_params p = { .dst = device, .sources = { a, b }, .count = 1 << 16, .k = 2 };
            launch(TT_KERNEL_CHAIN, t, some[o], &p, 2);
            tt_fold_find_isa(t->type, some[o], TT_CHAIN, TT_ISA_GENERIC)(host, p.sources, 2, p.count, 0);
            cr_assert_arr_eq(device, host, t->bytes << 16, "%s, operation %u", t->name, some[o]);
        }
    }
}

/* The factor by value and by an address, in place and not. */
Test(cuda_kernels, scales)
{
    for (int i = 0; i < TYPES; i++)
        for (int l = 0; l < LENGTHS; l++)
            for (int how = 0; how < 8; how++) {
                const struct type *t = &types[i];
                uint64_t factor = random_value(t);
                size_t from = PAD + random_bits() % (16 / t->bytes) * t->bytes;
                size_t to = how & 4 ? from : PAD + random_bits() % (16 / t->bytes) * t->bytes;
                struct tt_scale_params p = { got + to, operands[0] + from, lengths[l] / t->bytes,
                    how & 1 ? &factor : NULL, how & 1 ? 0 : factor };
                fill(t);
                memset(got, GUARD, REGION);
                memset(want, GUARD, REGION);
                if (how & 2) {
                    memcpy(got, operands[0], REGION);
                    memcpy(want, operands[0], REGION);
                    p.src = got + to;
                    from = to;
                }
                tt_scale(want + to, operands[0] + from, p.count, t->type, &factor);
                launch(TT_KERNEL_SCALE, t, TUTTI_SUM, &p, 2);
                cr_assert_arr_eq(got, want, REGION, "%s, %zu elements", t->name, (size_t)p.count);
            }
}

/* Numbers are of one kernel each; those that are none are told. */
Test(cuda_kernels, numbers)
{
    struct tt_dev_kernel found = { &found, 77 };
    cr_assert_not(tt_dev_kernel_find(0, &found));
    cr_assert_not(tt_dev_kernel_find(tt_dev_kernels(), &found));
    cr_assert_eq(found.params_bytes, 77);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_CHAIN, TUTTI_FLOAT32, TUTTI_BIT_AND), 0);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_TREE, (tutti_type)99, TUTTI_SUM), 0);
    cr_assert_eq(tt_kernel_number(TT_KERNEL_CHAIN, TUTTI_INT32, 99), 0);
    uint32_t most = 0;
    for (int t = 0; t < TYPES; t++)
        for (int o = 0; o < OPS; o++)
            for (int kernel = TT_KERNEL_COPY; kernel <= TT_KERNEL_SCALE; kernel++) {
                uint32_t number = tt_kernel_number((enum tt_kernel)kernel, types[t].type, ops[o].op);
                cr_assert_lt(number, tt_dev_kernels());
                cr_assert(number == 0 || tt_dev_kernel_find(number, &found), "%s", types[t].name);
                most = number > most ? number : most;
            }
    cr_assert_gt(most, 12 * 10);
}
