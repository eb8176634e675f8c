/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels_edges.c: folds where an instruction set has a way of its own, which could be wrong alone. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/few.h"
#include "kernel_reference.h"
#include "kernels/kernels.h"

/* A node of a tree, which is rounded in a register, against the sum of two, which is rounded in memory: all x
 * with some y, and -0 beside the node, which changes nothing. */
static void all_nodes(const struct type *t, enum tt_isa isa)
{
    enum { ALL = 1 << 16 };
    static uint16_t x[ALL], y[ALL], zero[ALL], node[ALL], rounded[ALL];
    tt_fold_fn tree = tt_fold_find_isa(t->type, TUTTI_SUM, TT_TREE, isa);
    tt_fold_fn chain = tt_fold_find_isa(t->type, TUTTI_SUM, TT_CHAIN, isa);
    size_t each = 2 / t->bytes; /* elements in 16 bits */
    for (size_t i = 0; i < ALL; i++)
        x[i] = (uint16_t)i;
    memset(zero, 0, sizeof zero);
    for (size_t i = 0; i < ALL * each; i++)
        ((uint8_t *)zero)[(i + 1) * t->bytes - 1] = 0x80;
    for (uint32_t code = 0; code < ALL; code += t->bytes == 2 ? 331 : 257) {
        for (size_t i = 0; i < ALL; i++)
            y[i] = (uint16_t)code;
        tree(node, (const void *[]){ x, y, zero }, 3, ALL * each, 0);
        chain(rounded, (const void *[]){ x, y }, 2, ALL * each, 0);
        if (memcmp(node, rounded, sizeof node) != 0)
            cr_assert_fail("%s %s: a node with %#x", tt_isa_name(isa), t->name, code);
    }
}

Test(kernels, all_nodes)
{
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (int i = 0; i < TYPES; i++)
            if (is_float(&types[i]) && types[i].bytes <= 2)
                all_nodes(&types[i], (enum tt_isa)isa);
}

/* --- The end of memory: operands and result lie before pages that nobody may touch. */

enum { MOST_BYTES = 136, OPERANDS = TT_FOLD_OPERANDS }; /* two of the longest vectors, and one element */

static uint8_t *ends[OPERANDS + 1]; /* of each operand; of the result */

static void map_ends(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int j = 0; j <= OPERANDS; j++) {
        uint8_t *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert(pages != MAP_FAILED);
        cr_assert_eq(mprotect(pages + page, page, PROT_NONE), 0);
        ends[j] = pages + page;
    }
}

static void fold_at_the_end(
    const struct type *t, const struct op *op, enum tt_shape shape, int k, uint32_t divisor)
{
    static uint8_t inputs[OPERANDS][MOST_BYTES], expected[MOST_BYTES], before[MOST_BYTES];
    const void *sources[OPERANDS];
    for (size_t at = 0; at < MOST_BYTES; at += t->bytes) {
        uint64_t operands[OPERANDS];
        for (int j = 0; j < k; j++) {
            operands[j] = random_value(t);
            memcpy(inputs[j] + at, &operands[j], t->bytes);
        }
        uint64_t result = reference(t, op->op, shape, operands, k, divisor);
        memcpy(expected + at, &result, t->bytes);
    }
    memset(before, 0xa5, MOST_BYTES);
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (size_t bytes = t->bytes; bytes <= MOST_BYTES; bytes += t->bytes) {
            int dst = bytes / t->bytes % 2 ? OPERANDS : k - 1; /* every other time an operand */
            memset(ends[dst] - 2 * MOST_BYTES, 0xa5, 2 * MOST_BYTES);
            for (int j = 0; j < k; j++)
                sources[j] = memcpy(ends[j] - bytes, inputs[j], bytes);
            tt_fold_find_isa(t->type, op->op, shape, (enum tt_isa)isa)(
                ends[dst] - bytes, sources, k, bytes / t->bytes, divisor);
            bool right = memcmp(ends[dst] - bytes, expected, bytes) == 0;
            if (!right || memcmp(ends[dst] - bytes - MOST_BYTES, before, MOST_BYTES) != 0)
                cr_assert_fail("%s %s %s shape %d: k %d, %zu bytes: %s", tt_isa_name((enum tt_isa)isa),
                    t->name, op->name, shape, k, bytes, right ? "wrote elsewhere" : "wrong bits");
        }
}

Test(kernels, end_of_memory)
{
    static const int numbers[] = { 1, 2, 3, OPERANDS };
    map_ends();
    for (int i = 0; i < TYPES * OPS * 4; i++) {
        const struct type *t = &types[i % TYPES];
        const struct op *op = &ops[i / TYPES % OPS];
        int k = numbers[i / TYPES / OPS];
        if (is_float(t) && op->op >= TUTTI_BIT_AND)
            continue;
        uint32_t divisor = op->op == TUTTI_AVG ? (uint32_t)k + 1 : 0;
        fold_at_the_end(t, op, TT_CHAIN, k, divisor);
        fold_at_the_end(t, op, TT_TREE, k, divisor);
    }
}

/* --- Places in a line: where operands lie at the same one, a long fold begins with a part of a vector. */

enum { LINE = 64, LONG_BYTES = 1024 + 5 * LINE + 8, ROW_BYTES = 1024 + 9 * LINE };

static void fold_at_place(const struct type *t, const struct op *op, int k, enum tt_isa isa, size_t place,
    uint8_t inputs[][LONG_BYTES], const uint8_t *expected)
{
    static _Alignas(LINE) uint8_t rows[OPERANDS + 1][ROW_BYTES], guard[2 * LINE];
    const void *sources[OPERANDS];
    bool in_place = place / t->bytes % 2;
    size_t bytes = LONG_BYTES - place;
    size_t dst_place = in_place ? place : place * 5 % LINE;
    uint8_t *row = rows[in_place ? 0 : k], *dst = row + LINE + dst_place;
    memset(rows, 0xa5, sizeof rows);
    memset(guard, 0xa5, sizeof guard);
    for (int j = 0; j < k; j++)
        sources[j] = memcpy(rows[j] + LINE + place, inputs[j], bytes);
    tt_fold_find_isa(t->type, op->op, TT_CHAIN, isa)(dst, sources, k, bytes / t->bytes, 0);
    bool inside = memcmp(row, guard, LINE + dst_place) == 0 && memcmp(dst + bytes, guard, LINE) == 0;
    if (memcmp(dst, expected, bytes) != 0 || !inside)
        cr_assert_fail("%s %s %s: k %d, place %zu: %s", tt_isa_name(isa), t->name, op->name, k, place,
            inside ? "wrong bits" : "wrote elsewhere");
}

Test(kernels, places_in_a_line)
{
    static uint8_t inputs[OPERANDS][LONG_BYTES], expected[LONG_BYTES];
    for (int i = 0; i < TYPES * OPS * 2; i++) {
        const struct type *t = &types[i % TYPES];
        const struct op *op = &ops[i / TYPES % OPS];
        int k = i / TYPES / OPS ? 5 : 2;
        if ((is_float(t) && op->op >= TUTTI_BIT_AND) || op->op == TUTTI_AVG)
            continue;
        for (size_t at = 0; at < LONG_BYTES; at += t->bytes) {
            uint64_t operands[OPERANDS];
            for (int j = 0; j < k; j++) {
                operands[j] = random_value(t);
                memcpy(inputs[j] + at, &operands[j], t->bytes);
            }
            uint64_t sum = reference(t, op->op, TT_CHAIN, operands, k, 0);
            memcpy(expected + at, &sum, t->bytes);
        }
        for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
            for (size_t place = 0; place < LINE; place += t->bytes)
                fold_at_place(t, op, k, (enum tt_isa)isa, place, inputs, expected);
    }
}

/* --- Sums of a few */

enum { FEW_MOST = TT_FEW_BYTES, FEW_ROUNDS = 400 };

static bool has_few(tutti_type type)
{
    return type == TUTTI_INT32 || type == TUTTI_UINT32 || type == TUTTI_INT64 || type == TUTTI_UINT64;
}

/* What floats do that few others do: zeros of both signs, denormals, the least normal number and its
 * neighbours, NaN, infinities, numbers that cancel, or nearly. */
static uint64_t few_value(const struct type *t, unsigned draw)
{
    static const uint32_t f32[] = { 0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x80800001,
        0x00800002, 0x7f800000, 0xff800000, 0x7fc00001, 0x7fa00000, 0x3f800000, 0xbf800000, 0x33800000 };
    static const uint64_t f64[] = { 0, 1ull << 63, 1, 0x800fffffffffffff, 0x0010000000000000,
        0x8010000000000001, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff4000000000000, 0x3ff0000000000000,
        0xbff0000000000000, 0x3ca0000000000000 };
    if (draw % 3 == 0 || !is_float(t))
        return random_value(t);
    return t->bytes == 4 ? f32[draw / 3 % (sizeof f32 / sizeof f32[0])]
                         : f64[draw / 3 % (sizeof f64 / sizeof f64[0])];
}

static struct {
    uint8_t operands[2][FEW_MOST], dst[FEW_MOST + 2 * 64], guard[64];
    const void *sources[2];
} few_rig;

static void fill_few(const struct type *t, unsigned *draw)
{
    for (int j = 0; j < 2; j++) {
        few_rig.sources[j] = few_rig.operands[j];
        for (size_t i = 0; i < FEW_MOST; i += t->bytes) {
            *draw = *draw * 1664525u + 1013904223u;
            uint64_t value = few_value(t, *draw >> 8);
            memcpy(few_rig.operands[j] + i, &value, t->bytes);
        }
    }
}

/* The bits of the fold, and nothing round them; `alias`: dst is that operand, -1: neither. */
static void try_few(const struct type *t, tt_few_fn few, tt_fold_fn fold, size_t count, int alias,
    void (*set)(unsigned), unsigned environment)
{
    uint8_t expected[FEW_MOST], *to = few_rig.dst + 64;
    size_t bytes = count * t->bytes;
    const void *a = few_rig.operands[0], *b = few_rig.operands[1];
    fold(expected, few_rig.sources, 2, count, 0);
    memset(few_rig.dst, 0x77, sizeof few_rig.dst);
    if (alias >= 0)
        *(alias == 0 ? &a : &b) = memcpy(to, few_rig.operands[alias], bytes);
    if (set != NULL)
        set(environment);
    few(to, a, b, bytes);
    if (set != NULL)
        set(0x1f80);
    bool inside = memcmp(few_rig.dst, few_rig.guard, 64) == 0 && memcmp(to + bytes, few_rig.guard, 64) == 0;
    if (!inside || memcmp(to, expected, bytes) != 0)
        cr_assert_fail("%s: %s: count %zu, dst is operand %d, environment %#x", t->name,
            inside ? "other bits than the fold" : "wrote elsewhere", count, alias, environment);
}

static void try_all_few(const struct type *t, enum tt_isa isa, void (*set)(unsigned), unsigned environment)
{
    tt_few_fn few = tt_few_find(t->type, TUTTI_SUM, isa);
    tt_fold_fn fold = tt_fold_find_isa(t->type, TUTTI_SUM, TT_CHAIN, isa);
    unsigned draw = 1;
    memset(few_rig.guard, 0x77, sizeof few_rig.guard);
    for (int round = 0; few != NULL && round < FEW_ROUNDS; round++) {
        fill_few(t, &draw);
        size_t count = 1 + (size_t)round % (FEW_MOST / t->bytes);
        try_few(t, few, fold, count, round % 3 - 1, set, environment);
    }
}

Test(kernels, sums_of_a_few)
{
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (int i = 0; i < TYPES; i++) {
            bool floats =
                isa == TT_ISA_AVX512 && (types[i].type == TUTTI_FLOAT32 || types[i].type == TUTTI_FLOAT64);
            bool has = has_few(types[i].type) || floats;
            cr_expect_eq(tt_few_find(types[i].type, TUTTI_SUM, (enum tt_isa)isa) != NULL, has);
            cr_expect_null(tt_few_find(types[i].type, TUTTI_MAX, (enum tt_isa)isa));
            try_all_few(&types[i], (enum tt_isa)isa, NULL, 0);
        }
}

#if defined(__x86_64__)
#include <xmmintrin.h>

static void set_environment(unsigned environment)
{
    _mm_setcsr(environment);
}

/* Denormals flushed, other roundings, and every exception one that ends the program. */
Test(kernels, sums_of_a_few_in_the_environment_of_the_caller)
{
    static const unsigned environments[] = { 0x9f80, 0x1fc0, 0x9fc0, 0x3f80, 0x5f80, 0x7f80, 0x0000, 0x8040 };
    for (size_t e = 0; e < sizeof environments / sizeof environments[0]; e++)
        for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
            for (int i = 0; i < TYPES; i++)
                try_all_few(&types[i], (enum tt_isa)isa, set_environment, environments[e]);
}
#endif
