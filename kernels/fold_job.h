/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_job.h: what a loop knows: its type, its operation, and how to take one vector through them.
 *
 * These are ordinary inline functions that take the type and the operation as constants: where fold_loops.h
 * makes a real function of a loop, everything is inlined. The includer has defined what fold_math.h and
 * fold_float.h ask for. */
#ifndef TT_KERNELS_FOLD_JOB_H
#define TT_KERNELS_FOLD_JOB_H
#include "kernels/fold_math.h"
#include "kernels/fold_round.h"
#include "kernels/fold_table.h"

/* Straight from memory, as float16_widen, which an instruction set may have of its own. */
#define WIDEN(name)                                                                                          \
    INLINE struct wide name##_widen(const uint8_t *from)                                                     \
    {                                                                                                        \
        return name##_parts(vec_load(from));                                                                 \
    }
WIDEN(plain)
WIDEN(bfloat16)
WIDEN(float8_e4m3)
WIDEN(float8_e5m2)

/* The properties of a type that the loops must know. */
struct number {
    int parts; /* vectors that one vector of elements widens to */
    struct wide (*widen)(const uint8_t *from);
    vec (*narrow)(struct wide); /* rounds */
    nans (*nans)(vec, vec); /* NULL: there are none */
    vec (*mended)(vec); /* a NaN in the way that narrow makes all ones */
    vec (*divide)(vec, uint32_t divisor);
    vec (*rounded)(vec); /* in a register; NULL: as it is */
    vec (*pack)(struct wide); /* narrow, of what is rounded, where that is cheaper; or NULL */
};

static const struct number integer = { .parts = 1, .widen = plain_widen, .narrow = plain_narrow };
#define FLOAT(bits) .nans = f##bits##_nans, .mended = f##bits##_mended, .divide = divide_f##bits
#define NARROW(name) .widen = name##_widen, .narrow = name##_narrow, .rounded = name##_rounded
static const struct number float8_e4m3 = { .parts = 4, FLOAT(32), NARROW(float8_e4m3) };
static const struct number float8_e5m2 = { .parts = 4, FLOAT(32), NARROW(float8_e5m2) };
static const struct number float16 = {
    .parts = 2, FLOAT(32), .widen = float16_widen, .narrow = float16_narrow
};
static const struct number bfloat16 = { .parts = 2,
    .nans = f32_nans,
    .mended = bfloat16_mended,
    .divide = divide_f32,
    NARROW(bfloat16),
    .pack = bfloat16_pack };
static const struct number float32 = { .parts = 1, FLOAT(32), .widen = plain_widen, .narrow = plain_narrow };
static const struct number float64 = { .parts = 1, FLOAT(64), .widen = plain_widen, .narrow = plain_narrow };

/* One call of a loop. type and combine are constants where it is inlined. */
struct job {
    const struct number *type;
    vec (*combine)(vec, vec);
    uint8_t *dst;
    const void *const *sources;
    size_t begin, end; /* whole vectors of each operand, in bytes */
    uint32_t divisor;
};

INLINE struct wide leaf(struct job f, int j, size_t at)
{
    return f.type->widen((const uint8_t *)f.sources[j] + at);
}
/* Loads the first bytes of a vector. */
INLINE struct wide leaf_first(struct job f, int j, size_t at, size_t bytes)
{
    vec v = vec_load_first((const uint8_t *)f.sources[j] + at, bytes);
    return f.type->widen((const uint8_t *)&v);
}
INLINE struct wide combined(struct job f, struct wide left, struct wide right)
{
    left.a = f.combine(left.a, right.a);
    if (f.type->parts > 1)
        left.b = f.combine(left.b, right.b);
    if (f.type->parts > 2) {
        left.c = f.combine(left.c, right.c);
        left.d = f.combine(left.d, right.d);
    }
    return left;
}
/* Changes each part alike. */
INLINE struct wide mended(struct job f, struct wide w)
{
    w.a = f.type->mended(w.a);
    if (f.type->parts > 1)
        w.b = f.type->mended(w.b);
    if (f.type->parts > 2) {
        w.c = f.type->mended(w.c);
        w.d = f.type->mended(w.d);
    }
    return w;
}
/* The empty asm keeps clang from dividing always and choosing afterwards. */
INLINE struct wide divided(struct job f, struct wide w)
{
    if (f.type->divide == NULL || f.divisor <= 1)
        return w;
    __asm__ volatile("");
    w.a = f.type->divide(w.a, f.divisor);
    if (f.type->parts > 1)
        w.b = f.type->divide(w.b, f.divisor);
    if (f.type->parts > 2) {
        w.c = f.type->divide(w.c, f.divisor);
        w.d = f.type->divide(w.d, f.divisor);
    }
    return w;
}
/* One comparison looks for NaNs in two vectors. */
INLINE nans nans_of(struct job f, struct wide v, struct wide w)
{
    nans found = f.type->nans(v.a, w.a);
    if (f.type->parts > 1)
        found |= f.type->nans(v.b, w.b);
    if (f.type->parts > 2)
        found |= f.type->nans(v.c, w.c) | f.type->nans(v.d, w.d);
    return found;
}

INLINE vec result(struct job f, struct wide w)
{
    w = divided(f, w);
    if (f.type->nans != NULL && __builtin_expect(nans_any(nans_of(f, w, w)), 0))
        w = mended(f, w);
    return f.type->narrow(w);
}

/* One vector of k operands. All sources are read before dst is written, because dst may be one of them. */
INLINE void chain_one(struct job f, int k, size_t at)
{
    struct wide w = leaf(f, 0, at);
    for (int j = 1; j < k; j++)
        w = combined(f, w, leaf(f, j, at));
    vec_store(f.dst + at, result(f, w));
}

/* Folds the elements at an end, which are fewer than a vector has. */
INLINE void chain_part(struct job f, int k, size_t at, size_t bytes)
{
    struct wide w = leaf_first(f, 0, at, bytes);
    for (int j = 1; j < k; j++)
        w = combined(f, w, leaf_first(f, j, at, bytes));
    vec_store_first(f.dst + at, result(f, w), bytes);
}

/* Four vectors of two operands, so that one branch looks for NaNs in all. */
INLINE void pair_four(struct job f, size_t at)
{
    const size_t v = sizeof(vec);
    struct wide w0 = combined(f, leaf(f, 0, at), leaf(f, 1, at));
    struct wide w1 = combined(f, leaf(f, 0, at + v), leaf(f, 1, at + v));
    struct wide w2 = combined(f, leaf(f, 0, at + 2 * v), leaf(f, 1, at + 2 * v));
    struct wide w3 = combined(f, leaf(f, 0, at + 3 * v), leaf(f, 1, at + 3 * v));
    w0 = divided(f, w0), w1 = divided(f, w1), w2 = divided(f, w2), w3 = divided(f, w3);
    if (f.type->nans != NULL && __builtin_expect(nans_any(nans_of(f, w0, w1) | nans_of(f, w2, w3)), 0))
        w0 = mended(f, w0), w1 = mended(f, w1), w2 = mended(f, w2), w3 = mended(f, w3);
    vec_store(f.dst + at, f.type->narrow(w0));
    vec_store(f.dst + at + v, f.type->narrow(w1));
    vec_store(f.dst + at + 2 * v, f.type->narrow(w2));
    vec_store(f.dst + at + 3 * v, f.type->narrow(w3));
}

/* The bytes before the first line of the operands, where that pays: vectors as long as a line are slow where
 * they cross into the next, to load more than to store. Memory of one allocator lies at the same place in a
 * line, so the first operand and the last one stand for all. */
INLINE size_t bytes_to_line(const void *const *sources, int k, size_t bytes)
{
    uintptr_t first = (uintptr_t)sources[0], last = (uintptr_t)sources[k - 1];
    return sizeof(vec) < 64 || bytes < 1024 || (first ^ last) % 64 != 0 ? 0 : -first % 64;
}

/* Four bodies of loops. A pair is most of the calls, and what longer expressions can be made of; so whether
 * its results are divided is asked once. */
INLINE void pair(struct job f)
{
    const void *sources[2] = { f.sources[0],
        f.sources[1] }; /* a copy that dst cannot overlap, as chain_of's */
    struct job undivided = f;
    size_t at = f.begin;
    f.sources = undivided.sources = sources;
    undivided.divisor = 0;
    if (f.divisor <= 1)
        for (; f.type->parts < 4 && at + 4 * sizeof(vec) <= f.end; at += 4 * sizeof(vec))
            pair_four(undivided, at);
    for (; f.type->parts < 4 && at + 4 * sizeof(vec) <= f.end; at += 4 * sizeof(vec))
        pair_four(f, at);
    for (; at < f.end; at += sizeof(vec))
        chain_one(f, 2, at);
}

#endif
