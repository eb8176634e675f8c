/* SPDX-License-Identifier: BSD-3-Clause */
/* test_kernels.c: folds of every type, operation, shape and number of operands.
 *
 * Every instruction set that this CPU has must give the bits of the reference in kernel_reference.h, and both
 * shapes those of exact_v1.h, which were worked out elsewhere. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/comm.h"
#include "base/handle.h"
#include "exact_v1.h"
#include "kernel_reference.h"
#include "kernels/kernels.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

enum { K_MAX = TT_FOLD_OPERANDS, ELEMENTS = 1037, GUARD = 64, ROW_BYTES = (ELEMENTS + 2) * 8 + 2 * GUARD };

/* --- Every fold against the reference. */

static bool has(const struct type *t, tutti_op op)
{
    return !is_float(t) || op < TUTTI_BIT_AND;
}

static uint8_t inputs[K_MAX][ROW_BYTES], work[K_MAX + 1][ROW_BYTES], expected[ROW_BYTES];

/* One call: operand `alias` is also dst (-1: none is), all lie `shift` elements from where they began. What
 * surrounds dst and all other operands must stay as it was. */
static void check_call(tt_fold_fn fold, const struct type *t, int k, size_t count, size_t shift, int alias,
    uint32_t divisor, const char *what)
{
    static uint8_t guard[GUARD];
    size_t start = GUARD + shift * t->bytes, bytes = count * t->bytes;
    const void *sources[K_MAX];
    memset(guard, 0xa5, GUARD);
    for (int j = 0; j <= K_MAX; j++) { /* the last one is a dst that is no operand */
        memset(work[j], 0xa5, start + bytes + GUARD);
        if (j < k)
            sources[j] = memcpy(work[j] + start, inputs[j], bytes);
    }
    int dst = alias >= 0 ? alias : K_MAX;
    fold(work[dst] + start, sources, k, count, divisor);

    bool right = memcmp(work[dst] + start, expected, bytes) == 0;
    bool inside = memcmp(work[dst] + start - GUARD, guard, GUARD) == 0 &&
                  memcmp(work[dst] + start + bytes, guard, GUARD) == 0;
    for (int j = 0; j < k; j++)
        inside = inside && (j == dst || memcmp(work[j] + start, inputs[j], bytes) == 0);
    if (!right || !inside)
        cr_assert_fail("%s: %s: k %d, count %zu, shift %zu, divisor %u, dst is operand %d", what,
            right ? "wrote elsewhere" : "wrong bits", k, count, shift, divisor, alias);
}

static void check_fold(const struct type *t, const struct op *op, enum tt_shape shape, int k)
{
    static const size_t counts[] = { 0, 1, 7, 8, 31, 33, 129, ELEMENTS };
    uint32_t divisor = op->op == TUTTI_AVG ? (uint32_t)k + 1 : (uint32_t)k % 2;
    for (size_t i = 0; i < ELEMENTS; i++) {
        uint64_t operands[K_MAX];
        for (int j = 0; j < k; j++) {
            operands[j] = random_value(t);
            memcpy(inputs[j] + i * t->bytes, &operands[j], t->bytes);
        }
        uint64_t result = reference(t, op->op, shape, operands, k, divisor);
        memcpy(expected + i * t->bytes, &result, t->bytes);
    }
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++) {
        tt_fold_fn fold = tt_fold_find_isa(t->type, op->op, shape, (enum tt_isa)isa);
        char what[64];
        snprintf(what, sizeof what, "%s %s %s %s", tt_isa_name((enum tt_isa)isa), t->name, op->name,
            shape == TT_TREE ? "tree" : "chain");
        cr_assert(fold, "%s", what);
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
            for (int alias = -1; alias < k; alias++)
                check_call(fold, t, k, counts[c], (c + (size_t)(alias + 1)) % 2, alias, divisor, what);
    }
}

static void check_type(tutti_type type)
{
    for (int i = 0; i < TYPES; i++)
        for (int o = 0; o < OPS && types[i].type == type; o++)
            for (int k = 1; k <= K_MAX && has(&types[i], ops[o].op); k++) {
                check_fold(&types[i], &ops[o], TT_CHAIN, k);
                check_fold(&types[i], &ops[o], TT_TREE, k);
            }
}

Test(kernels, int8)
{
    check_type(TUTTI_INT8);
}
Test(kernels, uint8)
{
    check_type(TUTTI_UINT8);
}
Test(kernels, int32)
{
    check_type(TUTTI_INT32);
}
Test(kernels, int64)
{
    check_type(TUTTI_INT64);
}
Test(kernels, uint32)
{
    check_type(TUTTI_UINT32);
}
Test(kernels, uint64)
{
    check_type(TUTTI_UINT64);
}
Test(kernels, float16)
{
    check_type(TUTTI_FLOAT16);
}
Test(kernels, bfloat16)
{
    check_type(TUTTI_BFLOAT16);
}
Test(kernels, float32)
{
    check_type(TUTTI_FLOAT32);
}
Test(kernels, float64)
{
    check_type(TUTTI_FLOAT64);
}
Test(kernels, float8_e4m3)
{
    check_type(TUTTI_FLOAT8_E4M3);
}
Test(kernels, float8_e5m2)
{
    check_type(TUTTI_FLOAT8_E5M2);
}

/* --- Instruction sets against each other: any bits, NaNs of any payload among them. */

Test(kernels, same_bits_on_every_isa)
{
    enum { MANY = 6007 };
    static uint64_t operands[K_MAX][MANY], first[MANY], other[MANY];
    const void *sources[K_MAX];
    if (tt_isa_best() == TT_ISA_GENERIC)
        cr_skip_test("this CPU has one instruction set");
    for (int j = 0; j < K_MAX; j++) {
        sources[j] = operands[j];
        for (size_t i = 0; i < MANY; i++)
            operands[j][i] = random_bits();
    }
    for (int i = 0; i < TYPES * OPS * 2 * K_MAX; i++) {
        const struct type *t = &types[i % TYPES];
        tutti_op op = ops[i / TYPES % OPS].op;
        enum tt_shape shape = i / TYPES / OPS % 2 ? TT_TREE : TT_CHAIN;
        int k = i / TYPES / OPS / 2 + 1;
        size_t count = MANY * 8 / t->bytes;
        if (!has(t, op))
            continue;
        tt_fold_find_isa(t->type, op, shape, TT_ISA_GENERIC)(first, sources, k, count, (uint32_t)i % 5);
        for (int isa = TT_ISA_AVX2; isa <= (int)tt_isa_best(); isa++) {
            tt_fold_find_isa(t->type, op, shape, (enum tt_isa)isa)(other, sources, k, count, (uint32_t)i % 5);
            if (memcmp(first, other, sizeof first) != 0)
                cr_assert_fail("%s: %s op %u shape %d k %d divisor %d", tt_isa_name((enum tt_isa)isa),
                    t->name, op, shape, k, i % 5);
        }
    }
}

/* --- 16-bit floats, exhaustively. */

static void all_halves(const struct type *t, enum tt_isa isa)
{
    enum { ALL = 65536 };
    static uint16_t x[ALL], y[ALL], result[ALL];
    /* Factors whose products meet halves of the last bit, denormals and both ends of the range. */
    static const double factors[] = { 1, 1.5, 1.0078125, 0.5, 0.37109375, 0x1p-9, 0x1.8p-13, 0x1p10,
        0x1.fcp14 };
    const void *sources[] = { x, y };
    tt_fold_fn sum = tt_fold_find_isa(t->type, TUTTI_SUM, TT_CHAIN, isa);
    tt_fold_fn prod = tt_fold_find_isa(t->type, TUTTI_PROD, TT_TREE, isa);
    for (size_t i = 0; i < ALL; i++)
        x[i] = (uint16_t)i;

    for (size_t i = 0; i < ALL; i++)
        y[i] = 0x8000; /* x + -0 is x */
    sum(result, sources, 2, ALL, 0);
    for (uint32_t i = 0; i < ALL; i++)
        if (result[i] != (is_nan(t, i) ? 0xffff : i))
            cr_assert_fail("%s %s: %#x came back as %#x", tt_isa_name(isa), t->name, i, result[i]);

    for (size_t f = 0; f < sizeof factors / sizeof factors[0]; f++) {
        for (size_t i = 0; i < ALL; i++)
            y[i] = (uint16_t)narrow_nearest(t, factors[f]);
        prod(result, sources, 2, ALL, 0);
        for (uint32_t i = 0; i < ALL; i++) {
            const uint64_t operands[] = { i, y[i] };
            if (result[i] != reference(t, TUTTI_PROD, TT_CHAIN, operands, 2, 0))
                cr_assert_fail("%s %s: %#x * %g is %#x", tt_isa_name(isa), t->name, i, factors[f], result[i]);
        }
    }
}

Test(kernels, all_65536_halves)
{
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++)
        for (int i = 0; i < TYPES; i++)
            if (types[i].bytes == 2)
                all_halves(&types[i], (enum tt_isa)isa);
}

/* --- What the caller's floating-point environment must not change. */

#if defined(__x86_64__)
Test(kernels, environment_of_the_caller)
{
    enum { MANY = 999 };
    static uint64_t operands[3][MANY], plain[MANY], strange[MANY];
    const void *sources[] = { operands[0], operands[1], operands[2] };
    const unsigned before = _mm_getcsr();
    /* FTZ, DAZ, both; upwards; towards zero; the flag of an inexact result, which a caller may have. */
    static const unsigned settings[] = { 0x9f80, 0x1fc0, 0x9fc0, 0x5f80, 0x7f80, 0x1fa0 };
    for (int i = 0; i < TYPES; i++)
        for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++)
            for (int isa = 0; isa <= (int)tt_isa_best(); isa++) {
                const struct type *t = &types[i];
                tt_fold_fn fold = tt_fold_find_isa(t->type, TUTTI_SUM, TT_TREE, (enum tt_isa)isa);
                for (size_t j = 0; j < 3 * MANY; j++) {
                    uint64_t value = random_value(t);
                    memcpy((uint8_t *)operands[j / MANY] + j % MANY * t->bytes, &value, t->bytes);
                }
                fold(plain, sources, 3, MANY, 3);
                _mm_setcsr(settings[s]);
                fold(strange, sources, 3, MANY, 3);
                unsigned after = _mm_getcsr();
                _mm_setcsr(before);
                if (memcmp(plain, strange, MANY * t->bytes) != 0)
                    cr_assert_fail("%s: other bits under %#x", t->name, settings[s]);
                if ((after | 0x3f) != (settings[s] | 0x3f))
                    cr_assert_fail("%s: %#x came back as %#x", t->name, settings[s], after);
            }
}
#endif

/* --- Integers at their edges, where a detour by double or int shows. */

static uint64_t fold_two(tutti_type type, tutti_op op, uint64_t a, uint64_t b, uint32_t divisor)
{
    const void *sources[] = { &a, &b };
    uint64_t result = 0;
    tt_fold_find(type, op, TT_CHAIN)(&result, sources, 2, 1, divisor);
    return result;
}

Test(kernels, integer_edges)
{
    const uint64_t big = (1ull << 53) + 1, least = 1ull << 63, least32 = 1u << 31;
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_SUM, big, big + 1, 0), 2 * big + 1);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_MAX, big, big - 1, 0), big);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_MIN, least, UINT64_MAX, 0), least);
    cr_expect_eq(fold_two(TUTTI_UINT64, TUTTI_MIN, least, UINT64_MAX, 0), least);
    cr_expect_eq(fold_two(TUTTI_UINT64, TUTTI_MAX, 1, UINT64_MAX, 0), UINT64_MAX);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_MAX, 1, UINT64_MAX, 0), 1);
    cr_expect_eq(fold_two(TUTTI_UINT64, TUTTI_AVG, UINT64_MAX, 0, 2), UINT64_MAX / 2);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_SUM, INT64_MAX, 1, 0), least);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_AVG, (uint64_t)-4, (uint64_t)-3, 2), (uint64_t)-3);
    cr_expect_eq(fold_two(TUTTI_INT64, TUTTI_AVG, least, 0, UINT32_MAX), (uint64_t)(INT64_MIN / UINT32_MAX));
    cr_expect_eq(fold_two(TUTTI_INT32, TUTTI_AVG, least32, 0, 2), 0xc0000000);
    cr_expect_eq(fold_two(TUTTI_INT32, TUTTI_AVG, least32, 0, UINT32_MAX), 0);
    cr_expect_eq(fold_two(TUTTI_INT32, TUTTI_AVG, least32, 0, 1u << 31), UINT32_MAX);
    cr_expect_eq(fold_two(TUTTI_INT32, TUTTI_PROD, least32, UINT32_MAX, 0), least32);
    cr_expect_eq(fold_two(TUTTI_UINT32, TUTTI_AVG, UINT32_MAX, 0, UINT32_MAX), 1);
}

Test(kernels, zeros_and_nans)
{
    const uint64_t minus = 0x80000000, nan = 0x7fc12345, signaling = 0xff800001, one = 0x3f800000;
    cr_expect_eq(fold_two(TUTTI_FLOAT32, TUTTI_MIN, 0, minus, 0), minus);
    cr_expect_eq(fold_two(TUTTI_FLOAT32, TUTTI_MIN, minus, 0, 0), minus);
    cr_expect_eq(fold_two(TUTTI_FLOAT32, TUTTI_MAX, 0, minus, 0), 0);
    cr_expect_eq(fold_two(TUTTI_FLOAT32, TUTTI_MAX, minus, 0, 0), 0);
    for (int max = 0; max < 2; max++) {
        tutti_op op = max ? TUTTI_MAX : TUTTI_MIN;
        cr_expect_eq(fold_two(TUTTI_FLOAT32, op, nan, one, 0), one);
        cr_expect_eq(fold_two(TUTTI_FLOAT32, op, one, signaling, 0), one);
        cr_expect_eq(fold_two(TUTTI_FLOAT32, op, nan, signaling, 0), UINT32_MAX);
    }
    const void *source[] = { &signaling };
    uint32_t copied = 0;
    tt_fold_find(TUTTI_FLOAT32, TUTTI_SUM, TT_TREE)(&copied, source, 1, 1, 1);
    cr_expect_eq(copied, signaling, "one operand is a copy");
}

/* What tutti.h says of the narrowest floats: no result is infinite, but an infinity that comes in counts. */
Test(kernels, saturation)
{
    const tutti_type e4m3 = TUTTI_FLOAT8_E4M3, e5m2 = TUTTI_FLOAT8_E5M2;
    const uint64_t most4 = 0x7e, most5 = 0x7b, infinity = 0x7c, minus = 0x80, one4 = 0x38, one5 = 0x3c;
    cr_expect_eq(fold_two(e4m3, TUTTI_SUM, most4, most4, 0), most4, "448 + 448");
    cr_expect_eq(fold_two(e4m3, TUTTI_SUM, minus | most4, minus | most4, 0), minus | most4);
    cr_expect_eq(fold_two(e4m3, TUTTI_AVG, most4, most4, 2), most4, "(448 + 448) / 2: in fp32 until the end");
    cr_expect_eq(fold_two(e4m3, TUTTI_SUM, 0x7f, one4, 0), 0xff, "NaN + 1");
    cr_expect_eq(fold_two(e4m3, TUTTI_MAX, minus | 0x7f, one4, 0), one4, "1 beats NaN");
    cr_expect_eq(fold_two(e5m2, TUTTI_PROD, most5, most5, 0), most5, "57344 * 57344");
    cr_expect_eq(fold_two(e5m2, TUTTI_SUM, infinity, one5, 0), most5, "inf + 1");
    cr_expect_eq(fold_two(e5m2, TUTTI_SUM, minus | infinity, most5, 0), minus | most5, "-inf + 57344");
    cr_expect_eq(fold_two(e5m2, TUTTI_SUM, infinity, minus | infinity, 0), 0xff, "inf - inf");
    cr_expect_eq(fold_two(e5m2, TUTTI_MAX, infinity, one5, 0), most5, "the greater of inf and 1");
    cr_expect_eq(fold_two(e5m2, TUTTI_MIN, minus | infinity, one5, 0), minus | most5);
    cr_expect_eq(fold_two(TUTTI_INT8, TUTTI_SUM, 127, 1, 0), 128, "int8 wraps");
    cr_expect_eq(fold_two(TUTTI_INT8, TUTTI_AVG, 100, 100, 2), 228, "(100 + 100 - 256) / 2");
    const void *source[] = { &infinity };
    uint8_t copied = 0;
    tt_fold_find(e5m2, TUTTI_SUM, TT_CHAIN)(&copied, source, 1, 1, 1);
    cr_expect_eq(copied, infinity, "one operand is a copy");
}

/* --- The promise `exact`. */

static const struct type *type_of(tutti_type type)
{
    int i = 0;
    while (types[i].type != type)
        i++;
    return &types[i];
}

Test(kernels, golden_bits)
{
    cr_assert_eq(sizeof exact_v1 / sizeof exact_v1[0], 38);
    for (size_t i = 0; i < sizeof exact_v1 / sizeof exact_v1[0]; i++)
        for (int c = 0; c < EXACT_COUNTS * 2 * TT_ISAS; c++) {
            const struct exact *e = &exact_v1[i];
            const struct type *t = type_of(e->type);
            enum tt_isa isa = (enum tt_isa)(c / EXACT_COUNTS / 2);
            enum tt_shape shape = c / EXACT_COUNTS % 2 ? TT_TREE : TT_CHAIN;
            int k = exact_counts[c % EXACT_COUNTS];
            uint64_t wanted = (shape == TT_TREE ? e->tree : e->chain)[c % EXACT_COUNTS], result = 0;
            const void *sources[EXACT_OPERANDS];
            for (int j = 0; j < k; j++)
                sources[j] = &e->operands[j];
            if (isa > tt_isa_best())
                continue;
            uint32_t divisor = e->op == TUTTI_AVG ? (uint32_t)k : 0;
            tt_fold_find_isa(e->type, e->op, shape, isa)(&result, sources, k, 1, divisor);
            cr_expect_eq(result, wanted, "%s op %u shape %d k %d: %#llx, not %#llx", t->name, e->op, shape, k,
                (unsigned long long)result, (unsigned long long)wanted);
            if (shape == TT_TREE) {
                result = 0;
                cr_expect_eq(tt_reduce_local(sources, k, &result, 1, e->type, e->op), TUTTI_OK);
                cr_expect_eq(result, wanted, "reduce_local: %s op %u k %d", t->name, e->op, k);
            }
        }
}

static uint8_t leaves[8][4096], parts[4][4096], whole[4096], nested[4096];

static void fill(const struct type *t, uint8_t *row, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t value = random_value(t);
        memcpy(row + i * t->bytes, &value, t->bytes);
    }
}

Test(kernels, tree_nests)
{
    for (int i = 0; i < TYPES; i++)
        for (int part = 2; part <= 4; part += 2) {
            const struct type *t = &types[i];
            tt_fold_fn tree = tt_fold_find(t->type, TUTTI_SUM, TT_TREE);
            const void *all[8], *of_parts[4];
            size_t count = sizeof whole / t->bytes;
            for (int j = 0; j < 8; j++)
                fill(t, leaves[j], count), all[j] = leaves[j];
            tree(whole, all, 8, count, 0);
            for (int j = 0; j < 8 / part; j++) {
                tree(parts[j], all + j * part, part, count, 0);
                of_parts[j] = parts[j];
            }
            tree(nested, of_parts, 8 / part, count, 0);
            cr_expect_arr_eq(whole, nested, sizeof whole, "%s: parts of %d", t->name, part);
        }
}

/* --- reduce_local: the tree over any number, level by level by the reference. */

static void check_reduce_local(const struct type *t, tutti_op op, int k, size_t count, int alias)
{
    enum { MOST = 600, MOST_BYTES = 5000 };
    static uint8_t rows[MOST][MOST_BYTES], wanted[MOST_BYTES], out[MOST_BYTES + GUARD];
    static union number level[MOST];
    const void *sources[MOST];
    for (int j = 0; j < k; j++)
        fill(t, rows[j], count), sources[j] = rows[j];
    for (size_t i = 0; i < count; i++) {
        for (int j = 0; j < k; j++)
            level[j] = widen(t, get(t, rows[j] + i * t->bytes));
        uint64_t result = k == 1 ? get(t, rows[0] + i * t->bytes)
                                 : tree_reference(t, op, level, k, op == TUTTI_AVG ? (uint32_t)k : 0);
        memcpy(wanted + i * t->bytes, &result, t->bytes);
    }
    memset(out, 0xa5, sizeof out);
    uint8_t *dst = alias >= 0 ? rows[alias] : out;
    cr_assert_eq(tt_reduce_local(sources, k, dst, count, t->type, op), TUTTI_OK);
    if (memcmp(dst, wanted, count * t->bytes) != 0)
        cr_assert_fail("%s op %u: k %d, count %zu, dst is operand %d", t->name, op, k, count, alias);
    for (size_t i = count * t->bytes; i < sizeof out && alias < 0; i++)
        if (out[i] != 0xa5)
            cr_assert_fail("%s: byte %zu beyond the result", t->name, i);
}

Test(kernels, reduce_local)
{
    static const int numbers[] = { 1, 2, 8, 9, 10, 15, 16, 17, 24, 63, 64, 65, 72, 73, 128, 511, 512, 513,
        600 };
    for (size_t n = 0; n < sizeof numbers / sizeof numbers[0]; n++)
        for (int i = 0; i < TYPES; i++) {
            int k = numbers[n];
            tutti_op op = k % 2 ? TUTTI_SUM : i % 2 ? TUTTI_AVG : TUTTI_PROD;
            check_reduce_local(&types[i], op, k, 5, -1);
            check_reduce_local(&types[i], TUTTI_AVG, k, 3, k / 2);
        }
    for (int i = 0; i < TYPES; i++) /* more than one block, the last one not full */
        for (int alias = -1; alias < 11; alias += 4)
            check_reduce_local(&types[i], TUTTI_SUM, 11, 4999 / types[i].bytes, alias);
    const void *none[] = { NULL };
    cr_expect_eq(tt_reduce_local(none, 1, whole, 0, TUTTI_FLOAT8_E4M3, TUTTI_BIT_OR), TUTTI_UNSUPPORTED);
    cr_expect_eq(tt_reduce_local(none, 0, whole, 0, TUTTI_INT32, TUTTI_SUM), TUTTI_INVALID_ARGUMENT);
}

/* --- The table. */

Test(kernels, find)
{
    static const tutti_type without[] = { (tutti_type)12, (tutti_type)99, (tutti_type)-1 };
    static const tutti_op absent[] = { 5, 15, 19, 256, UINT32_MAX };
    for (int i = 0; i < 3; i++)
        cr_expect_null((void *)tt_fold_find(without[i], TUTTI_SUM, TT_CHAIN));
    for (int i = 0; i < 5; i++)
        cr_expect_null((void *)tt_fold_find(TUTTI_INT32, absent[i], TT_TREE));
    for (int i = 0; i < TYPES * OPS; i++) {
        tutti_op op = ops[i % OPS].op;
        bool found = tt_fold_find(types[i / OPS].type, op, TT_TREE) != NULL;
        cr_expect_eq(found, has(&types[i / OPS], op), "%s %s", types[i / OPS].name, ops[i % OPS].name);
    }
    cr_expect_null((void *)tt_fold_find_isa(TUTTI_INT32, TUTTI_SUM, TT_TREE, TT_ISAS));
    cr_expect_str_eq(tt_isa_name(TT_ISA_GENERIC), "generic");
    cr_expect_str_eq(tt_isa_name(TT_ISA_AVX2), "avx2");
    cr_expect_str_eq(tt_isa_name(TT_ISA_AVX512), "avx512");
    for (int i = 0; i < TYPES; i++) {
        tt_fold_fn sum = tt_fold_find(types[i].type, TUTTI_SUM, TT_TREE);
        cr_expect(sum && sum == tt_fold_find(types[i].type, TUTTI_AVG, TT_TREE));
        cr_expect(sum == tt_fold_find_isa(types[i].type, TUTTI_SUM, TT_TREE, tt_isa_best()));
    }
}

/* All sets give the same bits, so only the operation itself tells whose kernels it has. */
Test(kernels, the_setting_chooses_the_set)
{
    for (int isa = 0; isa <= (int)tt_isa_best(); isa++) {
        char options[32];
        tutti_comm *comm;
        float x = 1;
        tt_fold_fn wanted = tt_fold_find_isa(TUTTI_FLOAT32, TUTTI_SUM, TT_CHAIN, (enum tt_isa)isa);
        snprintf(options, sizeof options, "isa=%s", tt_isa_name((enum tt_isa)isa));
        tutti_config config = { .size = sizeof config, .options = options };
        cr_assert_eq(
            tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_OK, "%s", tutti_get_last_error(NULL));
        cr_assert_eq(
            tutti_all_reduce(&x, &x, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()), TUTTI_OK);
        const struct tt_prepared *calls = tt_comm_find(comm)->calls.prepared.calls;
        int used = 0;
        for (int i = 0; i < TT_PREPARED_SETS * TT_PREPARED_WAYS; i++) {
            used += calls[i].used;
            cr_expect(!calls[i].used || calls[i].op.arithmetic.folds[TT_CHAIN] == wanted, "%s", options);
        }
        cr_expect_eq(used, 1);
        tutti_comm_destroy(comm);
    }
}

/* --- Sums that are stored twice */

enum { SPREAD_MOST = 700, SPREAD_ROOM = SPREAD_MOST * 8 + 256 };

static struct {
    _Alignas(64) uint8_t operands[TT_FOLD_OPERANDS][SPREAD_ROOM], dst[SPREAD_ROOM], also[SPREAD_ROOM],
        expected[SPREAD_ROOM], before[SPREAD_ROOM];
} spread_rig;

/* The bits of the fold, twice, and nothing round them. `shift`: elements that both places are off a line. */
static void try_spread(
    tutti_type type, enum tt_isa isa, int k, size_t count, size_t shift, int past, bool two)
{
    size_t size = tutti_type_bytes(type), at = 64 + shift * size, bytes = count * size;
    const void *sources[TT_FOLD_OPERANDS];
    uint32_t divisor = count % 3 == 0 ? 3 : 1;
    for (int j = 0; j < k; j++)
        sources[j] = spread_rig.operands[j] + (size_t)j * size;
    tt_fold_find_isa(type, TUTTI_SUM, TT_CHAIN, isa)(spread_rig.expected, sources, k, count, divisor);
    memset(spread_rig.dst, 0x77, SPREAD_ROOM);
    memset(spread_rig.also, 0x77, SPREAD_ROOM);
    tt_spread_find(type, TUTTI_SUM, isa)(
        spread_rig.dst + at, two ? spread_rig.also + at : NULL, past, sources, k, count, divisor);
    tt_copy_fence();
    memset(spread_rig.before, 0x77, SPREAD_ROOM);
    cr_expect(!two || memcmp(spread_rig.also, spread_rig.before, at) == 0, "before the second place");
    memcpy(spread_rig.before + at, spread_rig.expected, bytes);
    cr_expect_eq(memcmp(spread_rig.dst, spread_rig.before, SPREAD_ROOM), 0,
        "type %d isa %d k %d count %zu shift %zu past %d", (int)type, (int)isa, k, count, shift, past);
    if (!two)
        memset(spread_rig.before, 0x77, SPREAD_ROOM);
    cr_expect_eq(memcmp(spread_rig.also, spread_rig.before, SPREAD_ROOM), 0,
        "also: type %d isa %d k %d count %zu shift %zu past %d", (int)type, (int)isa, k, count, shift, past);
    sources[0] = memcpy(spread_rig.dst + at, sources[0], bytes);
    sources[1] = two ? memcpy(spread_rig.also + at, sources[1], bytes) : sources[1];
    tt_spread_find(type, TUTTI_SUM, isa)(
        spread_rig.dst + at, two ? spread_rig.also + at : NULL, past, sources, k, count, divisor);
    tt_copy_fence();
    int same = memcmp(sources[two], sources[0], bytes) | memcmp(sources[0], spread_rig.expected, bytes);
    cr_expect_eq(same, 0, "in place: type %d isa %d k %d, %zu", (int)type, (int)isa, k, count);
}

Test(kernels, a_sum_is_stored_twice)
{
    static const size_t counts[] = { 0, 1, 5, 31, 32, 33, 64, 127, 600, SPREAD_MOST };
    uint64_t x = 88172645463325252u;
    for (int j = 0; j < TT_FOLD_OPERANDS; j++) /* all kinds of floats, NaNs among them */
        for (size_t i = 0; i < SPREAD_ROOM; i++)
            spread_rig.operands[j][i] = (uint8_t)((x ^= x << 13, x ^= x >> 7, x ^= x << 17) >> 11);
    for (int type = TUTTI_INT8; type <= TUTTI_FLOAT8_E5M2; type++)
        for (int isa = 0; isa <= (int)tt_isa_best(); isa++) {
            bool has = type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT32 ||
                       type == TUTTI_FLOAT64;
            cr_expect_eq(tt_spread_find((tutti_type)type, TUTTI_AVG, (enum tt_isa)isa) != NULL, has);
            cr_expect_null(tt_spread_find((tutti_type)type, TUTTI_MAX, (enum tt_isa)isa));
            for (size_t i = 0; has && i < sizeof counts / sizeof counts[0]; i++)
                for (int k = 2; k <= TT_FOLD_OPERANDS; k += k < 3 ? 1 : 3)
                    for (int past = 0; past < 8; past++)
                        try_spread((tutti_type)type, (enum tt_isa)isa, k, counts[i], (size_t)(past * k) % 7,
                            past % 4, past < 4);
        }
}
