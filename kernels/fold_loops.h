/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_loops.h: the loops that apply an operation to a type; compiled once per instruction set.
 *
 * The includer has defined what fold_math.h and fold_float.h ask for, and TT_FOLD_TABLE. The loops are
 * ordinary inline functions that take the type and the operation as constant arguments; LOOP below makes the
 * real functions, in which everything is inlined. */
#include "kernels/convert_loops.h"
#include "kernels/fold_job.h"
#include "kernels/fold_trees.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

/* A chain of any k, with a loop inside that the processor mispredicts: good where conversions cost more. */
INLINE void chain(struct job f, int k)
{
    if (k == 2)
        pair(f);
    else
        for (size_t at = f.begin; at < f.end; at += sizeof(vec))
            chain_one(f, k, at);
}

/* A loop of its own for each k: twice as fast in the caches, and as much more code. For sums. */
INLINE void chain_of(struct job f, int k)
{
    const void *sources[TT_FOLD_OPERANDS]; /* a copy that dst cannot overlap: it lives in registers */
    for (int j = 0; j < k; j++)
        sources[j] = f.sources[j];
    f.sources = sources;
    for (size_t at = f.begin; at < f.end; at += sizeof(vec))
        chain_one(f, k, at);
}
INLINE void chains(struct job f, int k)
{
    switch (k) {
    case 1:
        chain_of(f, 1);
        break;
    case 2:
        pair(f);
        break;
    case 3:
        chain_of(f, 3);
        break;
    case 4:
        chain_of(f, 4);
        break;
    case 5:
        chain_of(f, 5);
        break;
    case 6:
        chain_of(f, 6);
        break;
    case 7:
        chain_of(f, 7);
        break;
    case 8:
        chain_of(f, 8);
        break;
    case 9:
        chain_of(f, 9);
        break;
    }
}

/* A longer chain from a loop over pairs, as fold_trees.h makes trees. */
static void chain_of_pairs(whole_vectors loop, uint8_t *dst, const void *const *sources, int k, size_t bytes)
{
    _Alignas(64) uint8_t node[BLOCK_BYTES];
    for (size_t at = 0; at < bytes; at += BLOCK_BYTES) {
        size_t block = bytes - at < BLOCK_BYTES ? bytes - at : BLOCK_BYTES;
        const void *operands[] = { (const uint8_t *)sources[0] + at, NULL };
        for (int j = 1; j < k; j++) {
            operands[1] = (const uint8_t *)sources[j] + at;
            loop(j < k - 1 ? node : dst + at, operands, 2, block, 0);
            operands[0] = node;
        }
    }
}

/* The caller's floating-point environment is put aside: flushed denormals or another rounding would give
 * other bits. It costs a read when it is the default already, as nearly always. */
#if defined(__x86_64__)
enum { FP_DEFAULT = 0x1f80, FP_FLAGS = 0x3f };
typedef unsigned fp_environment;

static fp_environment enter_default_environment(void)
{
    fp_environment caller = _mm_getcsr();
    if ((caller & ~FP_FLAGS) != FP_DEFAULT)
        _mm_setcsr(FP_DEFAULT);
    return caller;
}
static void leave_default_environment(fp_environment caller)
{
    if ((caller & ~FP_FLAGS) != FP_DEFAULT)
        _mm_setcsr(caller);
}
#else
typedef fenv_t fp_environment;

static fp_environment enter_default_environment(void)
{
    fp_environment caller;
    fegetenv(&caller);
    fesetenv(FE_DFL_ENV);
    return caller;
}
static void leave_default_environment(fp_environment caller)
{
    fesetenv(&caller);
}
#endif

/* How a fold uses its loop, which takes any k; or two operands, of which longer expressions are made. */
enum uses { CHAIN, TREE, CHAIN_OF_PAIRS, TREE_OF_PAIRS };

static void fold_whole(whole_vectors loop, enum uses uses, uint8_t *dst, const void *const *sources, int k,
    size_t bytes, uint32_t divisor)
{
    if (uses == TREE_OF_PAIRS)
        tree_of_pairs(loop, dst, sources, k, bytes, divisor);
    else if (uses == CHAIN_OF_PAIRS)
        chain_of_pairs(loop, dst, sources, k, bytes);
    else
        loop(dst, sources, k, bytes, divisor);
}

/* Chains and pairs compute their last elements in registers: a sum of a few is on the way of every small
 * all_reduce. Those of other folds go by way of padded vectors. */
INLINE void fold_ends(whole_vectors loop, enum uses uses, void *dst, const void *const *sources, int k,
    size_t bytes, uint32_t divisor)
{
    if (uses == CHAIN || (k == 2 && divisor <= 1)) {
        loop(dst, sources, k, bytes, divisor);
        return;
    }
    size_t rest = bytes % sizeof(vec), whole = bytes - rest;
    if (whole > 0)
        fold_whole(loop, uses, dst, sources, k, whole, divisor);
    if (rest > 0) {
        vec last[TT_FOLD_OPERANDS], folded;
        const void *padded[TT_FOLD_OPERANDS];
        for (int j = 0; j < k; j++) {
            last[j] = vec_load_first((const uint8_t *)sources[j] + whole, rest);
            padded[j] = &last[j];
        }
        fold_whole(loop, uses, (uint8_t *)&folded, padded, k, sizeof(vec), divisor);
        vec_store_first((uint8_t *)dst + whole, folded, rest);
    }
}

/* One operand that nothing divides keeps its bits. */
static bool copied_alone(void *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor)
{
    if (k > 1 || divisor > 1)
        return false;
    if (dst != sources[0])
        memcpy(dst, sources[0], bytes);
    return true;
}

/* Not inlined, so that no arithmetic moves out of the environment. */
static __attribute__((noinline)) void fold_floats(whole_vectors loop, enum uses uses, void *dst,
    const void *const *sources, int k, size_t bytes, uint32_t divisor)
{
    if (copied_alone(dst, sources, k, bytes, divisor))
        return;
    fp_environment caller = enter_default_environment();
    fold_ends(loop, uses, dst, sources, k, bytes, divisor);
    leave_default_environment(caller);
}
/* Two operands, as nearly all small sums have; loops are not inlined either. */
static inline void fold_pair(whole_vectors loop, void *dst, const void *const *sources, size_t bytes)
{
    fp_environment caller = enter_default_environment();
    loop(dst, sources, 2, bytes, 0);
    leave_default_environment(caller);
}
static __attribute__((noinline)) void fold_integers(whole_vectors loop, enum uses uses, void *dst,
    const void *const *sources, int k, size_t bytes, uint32_t divisor)
{
    if (!copied_alone(dst, sources, k, bytes, divisor))
        fold_ends(loop, uses, dst, sources, k, bytes, divisor);
}

/* The loops. They take k operands or two, whatever they are told. Only a sum ends in a division. Types that
 * compute alike share them: a sum of integers knows no sign, and bits no width. */

#define LOOP(name, number, combine, operands, part, body)                                                    \
    static __attribute__((noinline, flatten)) void name(                                                     \
        uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor)                     \
    {                                                                                                        \
        struct job few = { &number, combine, dst, sources, 0, bytes, part };                                 \
        if (k == 2 && bytes > 0 && bytes < sizeof(vec)) {                                                    \
            chain_part(few, 2, 0, bytes);                                                                    \
            return;                                                                                          \
        }                                                                                                    \
        size_t head = bytes_to_line(sources, operands, bytes), rest = (bytes - head) % sizeof(vec);          \
        struct job f = { &number, combine, dst, sources, head, bytes - rest, part };                         \
        (void)divisor;                                                                                       \
        if (head > 0)                                                                                        \
            chain_part(f, operands, 0, head);                                                                \
        if (f.end > head)                                                                                    \
            body;                                                                                            \
        if (rest > 0)                                                                                        \
            chain_part(f, operands, f.end, rest);                                                            \
    }
#define PAIR(number, operation, lane)                                                                        \
    LOOP(number##_##operation##_##lane, number, operation##_##lane, 2, 0, pair(f))
#define INTEGER_LOOPS(lane)                                                                                  \
    LOOP(integer_sum_##lane, integer, sum_##lane, k, 0, chains(f, k))                                        \
    PAIR(integer, prod, lane)
#define ORDER_LOOPS(number, lane)                                                                            \
    PAIR(number, max, lane)                                                                                  \
    PAIR(number, min, lane)
#define NARROW_LOOPS(number, combine, sums)                                                                  \
    LOOP(number##_sum, number, combine, k, divisor, sums(f, k))                                              \
    LOOP(number##_prod, number, prod_f32, k, 0, chain(f, k))                                                 \
    ORDER_LOOPS(number, f32)
/* Folds whole vectors as a tree; or a pair, which is no tree yet. */
#define TREE_LOOP(number, lane)                                                                              \
    static __attribute__((noinline, flatten)) void number##_sum_as_tree(                                     \
        uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor)                     \
    {                                                                                                        \
        struct job f = { &number, sum_##lane, dst, sources, 0, bytes, divisor };                             \
        if (k == 2 && divisor <= 1)                                                                          \
            number##_sum(dst, sources, 2, bytes, 0);                                                         \
        else                                                                                                 \
            trees(f, number##_sum, k);                                                                       \
    }
#define FLOAT_LOOPS(number, lane)                                                                            \
    LOOP(number##_sum, number, sum_##lane, k, divisor, chains(f, k))                                         \
    TREE_LOOP(number, lane)                                                                                  \
    LOOP(number##_prod, number, prod_##lane, 2, 0, pair(f))                                                  \
    ORDER_LOOPS(number, lane)

INTEGER_LOOPS(u8)
INTEGER_LOOPS(u32)
INTEGER_LOOPS(u64)
ORDER_LOOPS(integer, i8)
ORDER_LOOPS(integer, u8)
ORDER_LOOPS(integer, i32)
ORDER_LOOPS(integer, u32)
ORDER_LOOPS(integer, i64)
ORDER_LOOPS(integer, u64)
PAIR(integer, and, bits)
PAIR(integer, or, bits)
PAIR(integer, xor, bits)
NARROW_LOOPS(float8_e4m3, sum_f32, chain)
NARROW_LOOPS(float8_e5m2, sum_f32, chain)
NARROW_LOOPS(float16, float16_sum_f32, chains)
NARROW_LOOPS(bfloat16, sum_f32, chains)
TREE_LOOP(float8_e4m3, f32)
TREE_LOOP(float8_e5m2, f32)
TREE_LOOP(bfloat16, f32)
FLOAT_LOOPS(float32, f32)
FLOAT_LOOPS(float64, f64)

/* The folds: a loop, its use, the bytes of an element. The shape changes bits only where something is
 * rounded: not in integers, not in min and max. */

#define FOLD(name, kind, loop, uses, element_bytes)                                                          \
    static void name(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)           \
    {                                                                                                        \
        (void)divisor;                                                                                       \
        fold_##kind(loop, uses, dst, sources, k, count *(element_bytes), 0);                                 \
    }
#define SUM_FOLD(name, loop, uses, element_bytes)                                                            \
    static void name(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)           \
    {                                                                                                        \
        if (k == 2 && divisor <= 1)                                                                          \
            fold_pair(loop, dst, sources, count *(element_bytes));                                           \
        else                                                                                                 \
            fold_floats(loop, uses, dst, sources, k, count *(element_bytes), divisor);                       \
    }
#define INTEGER_FOLDS(name, type, lane, order, element_bytes)                                                \
    static void name##_sum(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)     \
    {                                                                                                        \
        fold_integers(integer_sum_##lane, CHAIN, dst, sources, k, count *(element_bytes), 0);                \
        if (divisor > 1)                                                                                     \
            tt_divide_integers(dst, count, type, divisor);                                                   \
    }                                                                                                        \
    FOLD(name##_max, integers, integer_max_##order, CHAIN_OF_PAIRS, element_bytes)                           \
    FOLD(name##_min, integers, integer_min_##order, CHAIN_OF_PAIRS, element_bytes)
#define WIDTH_FOLDS(lane, element_bytes)                                                                     \
    FOLD(lane##_prod, integers, integer_prod_##lane, CHAIN_OF_PAIRS, element_bytes)                          \
    FOLD(lane##_and, integers, integer_and_bits, CHAIN_OF_PAIRS, element_bytes)                              \
    FOLD(lane##_or, integers, integer_or_bits, CHAIN_OF_PAIRS, element_bytes)                                \
    FOLD(lane##_xor, integers, integer_xor_bits, CHAIN_OF_PAIRS, element_bytes)
#define ANY_FLOAT_FOLDS(number, lane, element_bytes, chained)                                                \
    SUM_FOLD(number##_sum_chain, number##_sum, CHAIN, element_bytes)                                         \
    FOLD(number##_prod_chain, floats, number##_prod, chained, element_bytes)                                 \
    FOLD(number##_prod_tree, floats, number##_prod, TREE_OF_PAIRS, element_bytes)                            \
    FOLD(number##_max, floats, number##_max_##lane, CHAIN_OF_PAIRS, element_bytes)                           \
    FOLD(number##_min, floats, number##_min_##lane, CHAIN_OF_PAIRS, element_bytes)
#define NARROW_FOLDS(number, element_bytes, tree, used)                                                      \
    ANY_FLOAT_FOLDS(number, f32, element_bytes, CHAIN)                                                       \
    SUM_FOLD(number##_sum_tree, tree, used, element_bytes)
#define FLOAT_FOLDS(number, lane, element_bytes)                                                             \
    ANY_FLOAT_FOLDS(number, lane, element_bytes, CHAIN_OF_PAIRS)                                             \
    SUM_FOLD(number##_sum_tree, number##_sum_as_tree, TREE, element_bytes)

WIDTH_FOLDS(u8, 1)
WIDTH_FOLDS(u32, 4)
WIDTH_FOLDS(u64, 8)
INTEGER_FOLDS(int8, TUTTI_INT8, u8, i8, 1)
INTEGER_FOLDS(uint8, TUTTI_UINT8, u8, u8, 1)
INTEGER_FOLDS(int32, TUTTI_INT32, u32, i32, 4)
INTEGER_FOLDS(uint32, TUTTI_UINT32, u32, u32, 4)
INTEGER_FOLDS(int64, TUTTI_INT64, u64, i64, 8)
INTEGER_FOLDS(uint64, TUTTI_UINT64, u64, u64, 8)
NARROW_FOLDS(float8_e4m3, 1, float8_e4m3_sum_as_tree, TREE)
NARROW_FOLDS(float8_e5m2, 1, float8_e5m2_sum_as_tree, TREE)
NARROW_FOLDS(float16, 2, float16_sum, TREE_OF_PAIRS)
NARROW_FOLDS(bfloat16, 2, bfloat16_sum_as_tree, TREE)
FLOAT_FOLDS(float32, f32, 4)
FLOAT_FOLDS(float64, f64, 8)

#include "kernels/fold_few.h"
#include "kernels/fold_spread.h"

/* Whole lines past the caches. */
static void stream(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t line = 0; line < bytes; line += 64)
        for (uint64_t at = line; at < line + 64; at += sizeof(vec))
            vec_stream(to + at, vec_load(from + at));
}

/* Whole blocks through the caches. Only the longest vectors are faster than memcpy wherever the source lies:
 * between cores that share no cache those of 32 bytes took 1.1 of its time. */
static void copy(uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += 4 * sizeof(vec)) {
        vec a = vec_load(from + at), b = vec_load(from + at + sizeof(vec));
        vec c = vec_load(from + at + 2 * sizeof(vec)), d = vec_load(from + at + 3 * sizeof(vec));
        vec_store(to + at, a);
        vec_store(to + at + sizeof(vec), b);
        vec_store(to + at + 2 * sizeof(vec), c);
        vec_store(to + at + 3 * sizeof(vec), d);
    }
}
_Static_assert(TT_COPY_BLOCK % (4 * sizeof(vec)) == 0, "a block is whole turns");

#define INTEGER_ROW(name, lane)                                                                              \
    {                                                                                                        \
        [TT_ROW_SUM] = { name##_sum, name##_sum }, [TT_ROW_PROD] = { lane##_prod, lane##_prod },             \
        [TT_ROW_MAX] = { name##_max, name##_max }, [TT_ROW_MIN] = { name##_min, name##_min },                \
        [TT_ROW_AND] = { lane##_and, lane##_and }, [TT_ROW_OR] = { lane##_or, lane##_or },                   \
        [TT_ROW_XOR] = { lane##_xor, lane##_xor },                                                           \
    }
#define FLOAT_ROW(name)                                                                                      \
    {                                                                                                        \
        [TT_ROW_SUM] = { name##_sum_chain, name##_sum_tree },                                                \
        [TT_ROW_PROD] = { name##_prod_chain, name##_prod_tree }, [TT_ROW_MAX] = { name##_max, name##_max },  \
        [TT_ROW_MIN] = { name##_min, name##_min },                                                           \
    }

const struct tt_fold_table TT_FOLD_TABLE = { .stream = stream,
    .copy = sizeof(vec) < 64 ? NULL : copy,
    .spread = { [TUTTI_FLOAT16] = float16_spread,
        [TUTTI_FLOAT32] = float32_spread,
        [TUTTI_FLOAT64] = float64_spread,
        [TUTTI_BFLOAT16] = bfloat16_spread },
    .widen = { [TUTTI_FLOAT16] = convert_from_float16, [TUTTI_BFLOAT16] = convert_from_bfloat16 },
    .narrow = { [TUTTI_FLOAT16] = convert_to_float16, [TUTTI_BFLOAT16] = convert_to_bfloat16 },
    .few = { [TUTTI_INT32] = u32_few,
        [TUTTI_UINT32] = u32_few,
        [TUTTI_INT64] = u64_few,
        [TUTTI_UINT64] = u64_few,
        [TUTTI_FLOAT32] = float32_few,
        [TUTTI_FLOAT64] = float64_few },
    .fold = {
        [TUTTI_INT8] = INTEGER_ROW(int8, u8),
        [TUTTI_UINT8] = INTEGER_ROW(uint8, u8),
        [TUTTI_INT32] = INTEGER_ROW(int32, u32),
        [TUTTI_UINT32] = INTEGER_ROW(uint32, u32),
        [TUTTI_INT64] = INTEGER_ROW(int64, u64),
        [TUTTI_UINT64] = INTEGER_ROW(uint64, u64),
        [TUTTI_FLOAT16] = FLOAT_ROW(float16),
        [TUTTI_FLOAT32] = FLOAT_ROW(float32),
        [TUTTI_FLOAT64] = FLOAT_ROW(float64),
        [TUTTI_BFLOAT16] = FLOAT_ROW(bfloat16),
        [TUTTI_FLOAT8_E4M3] = FLOAT_ROW(float8_e4m3),
        [TUTTI_FLOAT8_E5M2] = FLOAT_ROW(float8_e5m2),
    } };
