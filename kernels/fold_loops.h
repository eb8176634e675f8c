/* fold_loops.h: what every operation on every type means, and the loops that apply it; compiled once per
 * instruction set.
 *
 * The includer has defined vec_select, vec_merge_halves, float16_widen, _narrow, _round and TT_FOLD_TABLE.
 * The loops are ordinary inline functions that take the type and the operation as constant arguments; FOLD
 * and its like below make the real functions, in which everything is inlined.
 *
 * Of a NaN only that it is one is kept: a NaN that is computed is all ones, in every type. Which payload
 * survives a + b differs between processors, and compilers may swap a and b; all ones is quiet and costs
 * one `or` with the mask that finds the NaN. A fold of one operand without division is a copy and keeps all
 * bits. */
#include "kernels/fold_table.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#else
#include <fenv.h>
#endif

/* Arithmetic, on one vector. Signed integers add as unsigned ones: the same bits, and they may wrap. */

INLINE vec sum_u32(vec a, vec b)
{
    return a + b;
}
INLINE vec prod_u32(vec a, vec b)
{
    return a * b;
}
INLINE vec sum_u64(vec a, vec b)
{
    return (vec)((vec_u64)a + (vec_u64)b);
}
INLINE vec prod_u64(vec a, vec b)
{
    return (vec)((vec_u64)a * (vec_u64)b);
}
INLINE vec sum_f32(vec a, vec b)
{
    return (vec)((vec_f32)a + (vec_f32)b);
}
INLINE vec prod_f32(vec a, vec b)
{
    return (vec)((vec_f32)a * (vec_f32)b);
}
INLINE vec sum_f64(vec a, vec b)
{
    return (vec)((vec_f64)a + (vec_f64)b);
}
INLINE vec prod_f64(vec a, vec b)
{
    return (vec)((vec_f64)a * (vec_f64)b);
}

/* Order. */

#define INTEGER_ORDER(lane, type)                                                                            \
    INLINE vec max_##lane(vec a, vec b)                                                                      \
    {                                                                                                        \
        return vec_select((vec)((type)a > (type)b), a, b);                                                   \
    }                                                                                                        \
    INLINE vec min_##lane(vec a, vec b)                                                                      \
    {                                                                                                        \
        return vec_select((vec)((type)a < (type)b), a, b);                                                   \
    }
INTEGER_ORDER(i32, vec_i32)
INTEGER_ORDER(u32, vec)
INTEGER_ORDER(i64, vec_i64)
INTEGER_ORDER(u64, vec_u64)

/* b is taken unless a wins or b is NaN. Equal numbers have equal bits but for the sign of zero, so that
 * `and` of both gives +0 before -0 and `or` gives -0. */
#define FLOAT_ORDER(lane, type)                                                                              \
    INLINE vec max_##lane(vec a, vec b)                                                                      \
    {                                                                                                        \
        vec first = (vec)((type)a > (type)b) | (vec)((type)b != (type)b);                                    \
        return vec_select(first, a, b) & (a | ~(vec)((type)a == (type)b));                                   \
    }                                                                                                        \
    INLINE vec min_##lane(vec a, vec b)                                                                      \
    {                                                                                                        \
        vec first = (vec)((type)a < (type)b) | (vec)((type)b != (type)b);                                    \
        return vec_select(first, a, b) | (a & (vec)((type)a == (type)b));                                    \
    }
FLOAT_ORDER(f32, vec_f32)
FLOAT_ORDER(f64, vec_f64)

/* Division, at the end of an average. Lane by lane for integers: no CPU divides vectors of them. */

#define INTEGER_DIVIDE(lane, type, element, divisor_type)                                                    \
    INLINE vec divide_##lane(vec x, uint32_t divisor)                                                        \
    {                                                                                                        \
        type v = (type)x;                                                                                    \
        for (size_t i = 0; i < sizeof v / sizeof v[0]; i++)                                                  \
            v[i] = (element)(v[i] / (divisor_type)divisor);                                                  \
        return (vec)v;                                                                                       \
    }
INTEGER_DIVIDE(i32, vec_i32, int32_t, int64_t)
INTEGER_DIVIDE(u32, vec, uint32_t, uint32_t)
INTEGER_DIVIDE(i64, vec_i64, int64_t, int64_t)
INTEGER_DIVIDE(u64, vec_u64, uint64_t, uint64_t)

INLINE vec divide_f32(vec x, uint32_t divisor)
{
    return (vec)((vec_f32)x / (float)divisor);
}
INLINE vec divide_f64(vec x, uint32_t divisor)
{
    return (vec)((vec_f64)x / (double)divisor);
}

/* Between memory and what is computed with. */

INLINE struct wide plain_widen(const uint8_t *from)
{
    return (struct wide){ .low = vec_load(from) };
}
INLINE void plain_narrow(uint8_t *to, struct wide w)
{
    vec_store(to, w.low);
}
INLINE vec plain_round(vec x)
{
    return x;
}

/* All ones where x is NaN. */
INLINE vec f32_nan(vec x)
{
    return (vec)((vec_f32)x != (vec_f32)x);
}
INLINE void float32_narrow(uint8_t *to, struct wide w)
{
    vec_store(to, w.low | f32_nan(w.low));
}
INLINE void float64_narrow(uint8_t *to, struct wide w)
{
    vec_f64 x = (vec_f64)w.low;
    vec_store(to, w.low | (vec)(x != x));
}

/* A bfloat16 is the upper half of an fp32: of two in a lane one is in place already. */
INLINE struct wide bfloat16_widen(const uint8_t *from)
{
    vec raw = vec_load(from);
    return (struct wide){ raw << 16, raw & 0xffff0000 };
}
/* To nearest even. The fp32 NaNs that come here are widened bfloat16s or a processor's own NaN: their lower
 * half is 0, so that nothing carries into their exponent. */
INLINE vec bfloat16_round(vec x)
{
    return (x + 0x7fff + (x >> 16 & 1)) & 0xffff0000;
}
/* The same on 16-bit lanes, for twice as many at once: `rest`, what is cut off, is compared with a half
 * after a shift of its range to signed numbers. */
INLINE void bfloat16_narrow(uint8_t *to, struct wide w)
{
    vec_i16 kept = (vec_i16)vec_merge_halves(w.high, w.low >> 16);
    vec_i16 rest = (vec_i16)vec_merge_halves(w.high << 16, w.low);
    vec_i16 odd = -(kept & 1);
    vec_i16 up = (rest ^ INT16_MIN) > odd;
    vec_i16 nearest = kept - up;
    vec_i16 nan = (nearest & INT16_MAX) > 0x7f80;
    vec_store(to, (vec)(nearest | nan));
}

/* What the loops must know of a type. */
struct number {
    size_t bytes; /* of one element */
    bool half; /* of an fp32: fills both vectors of a struct wide */
    struct wide (*widen)(const uint8_t *from);
    void (*narrow)(uint8_t *to, struct wide); /* rounds */
    vec (*round)(vec); /* rounds and stays wide */
    vec (*divide)(vec, uint32_t divisor);
};

static const struct number int32 = { 4, false, plain_widen, plain_narrow, plain_round, divide_i32 };
static const struct number uint32 = { 4, false, plain_widen, plain_narrow, plain_round, divide_u32 };
static const struct number int64 = { 8, false, plain_widen, plain_narrow, plain_round, divide_i64 };
static const struct number uint64 = { 8, false, plain_widen, plain_narrow, plain_round, divide_u64 };
static const struct number float16 = { 2, true, float16_widen, float16_narrow, float16_round, divide_f32 };
static const struct number bfloat16 = { 2, true, bfloat16_widen, bfloat16_narrow, bfloat16_round,
    divide_f32 };
static const struct number float32 = { 4, false, plain_widen, float32_narrow, plain_round, divide_f32 };
static const struct number float64 = { 8, false, plain_widen, float64_narrow, plain_round, divide_f64 };

/* One call of a loop. type and combine are constants where it is inlined. */
struct job {
    const struct number *type;
    vec (*combine)(vec, vec);
    uint8_t *dst;
    const void *const *sources;
    size_t bytes; /* of each operand: a multiple of a vector's */
    uint32_t divisor;
};

INLINE struct wide leaf(struct job f, int j, size_t at)
{
    return f.type->widen((const uint8_t *)f.sources[j] + at);
}
INLINE struct wide combined(struct job f, struct wide left, struct wide right)
{
    left.low = f.combine(left.low, right.low);
    if (f.type->half)
        left.high = f.combine(left.high, right.high);
    return left;
}
INLINE struct wide rounded(struct job f, struct wide w)
{
    w.low = f.type->round(w.low);
    if (f.type->half)
        w.high = f.type->round(w.high);
    return w;
}
/* The empty asm keeps clang from dividing always and choosing afterwards. */
INLINE struct wide divided(struct job f, struct wide w)
{
    if (f.divisor <= 1)
        return w;
    __asm__ volatile("");
    w.low = f.type->divide(w.low, f.divisor);
    if (f.type->half)
        w.high = f.type->divide(w.high, f.divisor);
    return w;
}

/* The chain. All sources are read before dst is written, because dst may be one of them. */
INLINE void chain_one(struct job f, int k, size_t at)
{
    struct wide w = leaf(f, 0, at);
    for (int j = 1; j < k; j++)
        w = combined(f, w, leaf(f, j, at));
    f.type->narrow(f.dst + at, divided(f, w));
}

/* Four vectors, so that their additions overlap and the loop over the operands costs little. */
INLINE void chain_four(struct job f, int k, size_t at)
{
    const size_t v = sizeof(vec);
    struct wide w0 = leaf(f, 0, at), w1 = leaf(f, 0, at + v);
    struct wide w2 = leaf(f, 0, at + 2 * v), w3 = leaf(f, 0, at + 3 * v);
    for (int j = 1; j < k; j++) {
        w0 = combined(f, w0, leaf(f, j, at));
        w1 = combined(f, w1, leaf(f, j, at + v));
        w2 = combined(f, w2, leaf(f, j, at + 2 * v));
        w3 = combined(f, w3, leaf(f, j, at + 3 * v));
    }
    f.type->narrow(f.dst + at, divided(f, w0));
    f.type->narrow(f.dst + at + v, divided(f, w1));
    f.type->narrow(f.dst + at + 2 * v, divided(f, w2));
    f.type->narrow(f.dst + at + 3 * v, divided(f, w3));
}

INLINE void chain_of(struct job f, int k)
{
    size_t at = 0;
    for (; at + 4 * sizeof(vec) <= f.bytes; at += 4 * sizeof(vec))
        chain_four(f, k, at);
    for (; at < f.bytes; at += sizeof(vec))
        chain_one(f, k, at);
}

/* Two operands are most of the calls; for more, a loop of its own gains nothing beyond the first cache. */
INLINE void chain(struct job f, int k)
{
    if (k == 2)
        chain_of(f, 2);
    else
        chain_of(f, k);
}

/* The pass-up tree over k operands splits them at the largest power of two below k. Written out, so that
 * each k gets a loop with all its values in registers. An inner node is rounded where it is used: what
 * becomes of the root, the caller decides. */
INLINE struct wide tree1(struct job f, int j, size_t at)
{
    return leaf(f, j, at);
}
INLINE struct wide tree2(struct job f, int j, size_t at)
{
    return combined(f, tree1(f, j, at), tree1(f, j + 1, at));
}
INLINE struct wide tree3(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree2(f, j, at)), tree1(f, j + 2, at));
}
INLINE struct wide tree4(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree2(f, j, at)), rounded(f, tree2(f, j + 2, at)));
}
INLINE struct wide tree5(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree4(f, j, at)), tree1(f, j + 4, at));
}
INLINE struct wide tree6(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree4(f, j, at)), rounded(f, tree2(f, j + 4, at)));
}
INLINE struct wide tree7(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree4(f, j, at)), rounded(f, tree3(f, j + 4, at)));
}
INLINE struct wide tree8(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree4(f, j, at)), rounded(f, tree4(f, j + 4, at)));
}
INLINE struct wide tree9(struct job f, int j, size_t at)
{
    return combined(f, rounded(f, tree8(f, j, at)), tree1(f, j + 8, at));
}

INLINE void tree_of(struct job f, int k, struct wide (*root)(struct job, int, size_t))
{
    const void *sources[TT_FOLD_OPERANDS]; /* a copy that dst cannot overlap: it lives in registers */
    for (int j = 0; j < k; j++)
        sources[j] = f.sources[j];
    f.sources = sources;
    for (size_t at = 0; at < f.bytes; at += sizeof(vec)) {
        struct wide w = root(f, 0, at);
        if (f.divisor > 1)
            w = divided(f, rounded(f, w));
        f.type->narrow(f.dst + at, w);
    }
}

INLINE void tree(struct job f, int k)
{
    switch (k) {
    case 1:
        tree_of(f, 1, tree1);
        break;
    case 2:
        tree_of(f, 2, tree2);
        break;
    case 3:
        tree_of(f, 3, tree3);
        break;
    case 4:
        tree_of(f, 4, tree4);
        break;
    case 5:
        tree_of(f, 5, tree5);
        break;
    case 6:
        tree_of(f, 6, tree6);
        break;
    case 7:
        tree_of(f, 7, tree7);
        break;
    case 8:
        tree_of(f, 8, tree8);
        break;
    case 9:
        tree_of(f, 9, tree9);
        break;
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

typedef void (*whole_vectors)(
    uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor);

/* Around every loop: the environment, and the last elements by way of padded vectors, so that one code
 * computes all of them. Not inlined, so that no arithmetic moves out of the environment. */
static __attribute__((noinline)) void fold(whole_vectors loop, size_t element_bytes, void *dst,
    const void *const *sources, int k, size_t count, uint32_t divisor)
{
    size_t bytes = count * element_bytes, rest = bytes % sizeof(vec), whole = bytes - rest;
    if (k == 1 && divisor <= 1) {
        if (dst != sources[0])
            memcpy(dst, sources[0], bytes);
        return;
    }
    fp_environment caller = enter_default_environment();
    if (whole > 0)
        loop(dst, sources, k, whole, divisor);
    if (rest > 0) {
        vec last[TT_FOLD_OPERANDS], result;
        const void *padded[TT_FOLD_OPERANDS];
        for (int j = 0; j < k; j++) {
            last[j] = (vec){ 0 };
            memcpy(&last[j], (const uint8_t *)sources[j] + whole, rest);
            padded[j] = &last[j];
        }
        loop((uint8_t *)&result, padded, k, sizeof(vec), divisor);
        memcpy((uint8_t *)dst + whole, &result, rest);
    }
    leave_default_environment(caller);
}

#define FOLD(type, operation, lane, shape)                                                                   \
    static __attribute__((noinline, flatten)) void type##_##operation##_##shape##_loop(                      \
        uint8_t *dst, const void *const *sources, int k, size_t bytes, uint32_t divisor)                     \
    {                                                                                                        \
        shape((struct job){ &type, operation##_##lane, dst, sources, bytes, divisor }, k);                   \
    }                                                                                                        \
    static void type##_##operation##_##shape(                                                                \
        void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)                        \
    {                                                                                                        \
        fold(type##_##operation##_##shape##_loop, type.bytes, dst, sources, k, count, divisor);              \
    }

/* The shape changes bits only where something is rounded: not in integers, not in min and max. */
#define FOLDS(type, arithmetic, order)                                                                       \
    FOLD(type, sum, arithmetic, chain)                                                                       \
    FOLD(type, prod, arithmetic, chain)                                                                      \
    FOLD(type, max, order, chain)                                                                            \
    FOLD(type, min, order, chain)
#define FLOAT_FOLDS(type, lane)                                                                              \
    FOLDS(type, lane, lane)                                                                                  \
    FOLD(type, sum, lane, tree)                                                                              \
    FOLD(type, prod, lane, tree)

FOLDS(int32, u32, i32)
FOLDS(uint32, u32, u32)
FOLDS(int64, u64, i64)
FOLDS(uint64, u64, u64)
FLOAT_FOLDS(float16, f32)
FLOAT_FOLDS(bfloat16, f32)
FLOAT_FOLDS(float32, f32)
FLOAT_FOLDS(float64, f64)

#define ROW(type, rounding)                                                                                  \
    {                                                                                                        \
        [TUTTI_SUM] = { type##_sum_chain, type##_sum_##rounding },                                           \
        [TUTTI_PROD] = { type##_prod_chain, type##_prod_##rounding },                                        \
        [TUTTI_MAX] = { type##_max_chain, type##_max_chain },                                                \
        [TUTTI_MIN] = { type##_min_chain, type##_min_chain },                                                \
    }

const struct tt_fold_table TT_FOLD_TABLE = {
    .fold = {
        [TUTTI_INT32] = ROW(int32, chain),
        [TUTTI_UINT32] = ROW(uint32, chain),
        [TUTTI_INT64] = ROW(int64, chain),
        [TUTTI_UINT64] = ROW(uint64, chain),
        [TUTTI_FLOAT16] = ROW(float16, tree),
        [TUTTI_BFLOAT16] = ROW(bfloat16, tree),
        [TUTTI_FLOAT32] = ROW(float32, tree),
        [TUTTI_FLOAT64] = ROW(float64, tree),
    },
    .element_bytes = {
        [TUTTI_INT32] = 4,
        [TUTTI_UINT32] = 4,
        [TUTTI_INT64] = 8,
        [TUTTI_UINT64] = 8,
        [TUTTI_FLOAT16] = 2,
        [TUTTI_BFLOAT16] = 2,
        [TUTTI_FLOAT32] = 4,
        [TUTTI_FLOAT64] = 8,
    },
};
