/* SPDX-License-Identifier: BSD-3-Clause */
/* kernel_reference.h: what a fold must give, one element at a time, in plain C.
 *
 * The narrow floats are converted by counting in double precision, so that nothing here shares a trick with
 * the kernels. Random values are drawn here too: of floats enough near 1 that sums round, and enough zeros,
 * denormals, infinities and NaNs. The bits of a value travel in the low bytes of a uint64_t. All is inline,
 * for those who use a part of it. */
#ifndef TESTS_KERNEL_REFERENCE_H
#define TESTS_KERNEL_REFERENCE_H
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "kernels/kernels.h"

static const struct type {
    tutti_type type;
    const char *name;
    size_t bytes;
    char kind; /* computed as: i int, u unsigned, f float, d double */
    int fraction, least; /* of a float: bits of the fraction, least exponent */
    uint64_t most; /* of a float: what a number too great becomes; an infinity, or the greatest number */
} types[] = {
    { TUTTI_INT8, "int8", 1, 'i', 0, 0, 0 },
    { TUTTI_UINT8, "uint8", 1, 'u', 0, 0, 0 },
    { TUTTI_INT32, "int32", 4, 'i', 0, 0, 0 },
    { TUTTI_INT64, "int64", 8, 'i', 0, 0, 0 },
    { TUTTI_UINT32, "uint32", 4, 'u', 0, 0, 0 },
    { TUTTI_UINT64, "uint64", 8, 'u', 0, 0, 0 },
    { TUTTI_FLOAT16, "float16", 2, 'f', 10, -14, 0x7c00 },
    { TUTTI_BFLOAT16, "bfloat16", 2, 'f', 7, -126, 0x7f80 },
    { TUTTI_FLOAT32, "float32", 4, 'f', 23, -126, 0x7f800000 },
    { TUTTI_FLOAT64, "float64", 8, 'd', 52, -1022, 0x7ffull << 52 },
    { TUTTI_FLOAT8_E4M3, "float8_e4m3", 1, 'f', 3, -6, 0x7e },
    { TUTTI_FLOAT8_E5M2, "float8_e5m2", 1, 'f', 2, -14, 0x7b },
};
enum { TYPES = sizeof types / sizeof types[0] };

static const struct op {
    tutti_op op;
    const char *name;
} ops[] = {
    { TUTTI_SUM, "sum" },
    { TUTTI_PROD, "prod" },
    { TUTTI_MAX, "max" },
    { TUTTI_MIN, "min" },
    { TUTTI_AVG, "avg" },
    { TUTTI_BIT_AND, "band" },
    { TUTTI_BIT_OR, "bor" },
    { TUTTI_BIT_XOR, "bxor" },
};
enum { OPS = sizeof ops / sizeof ops[0] };

/* --- Numbers of the test. */

static uint64_t seed = 1;

static inline uint64_t random_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed * 0x2545f4914f6cdd1d;
}

static inline uint64_t get(const struct type *t, const void *from)
{
    uint64_t bits = 0;
    memcpy(&bits, from, t->bytes); /* the tests assume a little-endian machine */
    return bits;
}

static inline uint64_t mask_of(const struct type *t)
{
    return ~0ull >> (64 - 8 * t->bytes);
}

static inline uint64_t sign_of(const struct type *t)
{
    return mask_of(t) ^ mask_of(t) >> 1;
}

static inline bool is_float(const struct type *t)
{
    return t->kind == 'f' || t->kind == 'd';
}

/* All ones in the exponent: an infinity, but of e4m3 a number. */
static inline uint64_t infinity_of(const struct type *t)
{
    return mask_of(t) >> 1 >> t->fraction << t->fraction;
}

static inline bool is_nan(const struct type *t, uint64_t bits)
{
    uint64_t least = t->type == TUTTI_FLOAT8_E4M3 ? t->most + 1 : infinity_of(t) + 1;
    return is_float(t) && (bits & mask_of(t) >> 1) >= least;
}

/* Any bits; of floats one in two near 1, so that sums round and do not drown in infinities, and one in eight
 * a special value. */
static inline uint64_t random_value(const struct type *t)
{
    uint64_t bits = random_bits() & mask_of(t), sign = bits & ~(mask_of(t) >> 1);
    uint64_t fraction = bits & ((1ull << t->fraction) - 1), pick = random_bits() % 16;
    if (!is_float(t))
        return pick == 0 ? sign : bits; /* sign: 0 or the least integer */
    if (pick < 8) {
        uint64_t one = (uint64_t)(-t->least + 1) << t->fraction;
        uint64_t exponent = (random_bits() % 8 - 4) << t->fraction;
        return sign | ((one + exponent) & infinity_of(t)) | fraction;
    }
    switch (pick) {
    case 8:
        return sign; /* zero */
    case 9:
        return sign | fraction; /* denormal */
    case 10:
        return sign | infinity_of(t) | (fraction & (0 - (random_bits() & 1))); /* infinity or NaN */
    }
    return bits;
}

/* --- The reference. */

union number {
    uint64_t u;
    int64_t i;
    float f;
    double d;
    uint32_t f_bits;
};

static inline bool is_narrow(const struct type *t)
{
    return t->kind == 'f' && t->bytes < 4;
}

/* The value of a narrow float, or the number nearest to a value: the fraction counts in units of
 * 2^(exponent - fraction bits). */
static inline double narrow_value(const struct type *t, uint64_t bits)
{
    uint64_t magnitude = bits & mask_of(t) >> 1;
    int exponent = (int)(magnitude >> t->fraction);
    double count = (double)(bits & ((1u << t->fraction) - 1));
    if (exponent > 0)
        count += 1u << t->fraction;
    double value = ldexp(count, (exponent > 0 ? exponent - 1 : 0) + t->least - t->fraction);
    if (is_nan(t, bits))
        value = NAN;
    else if (magnitude == infinity_of(t) && t->type != TUTTI_FLOAT8_E4M3)
        value = INFINITY;
    return bits & sign_of(t) ? -value : value;
}

static inline uint64_t narrow_nearest(const struct type *t, double value)
{
    uint64_t sign = signbit(value) ? sign_of(t) : 0;
    if (isnan(value))
        return mask_of(t);
    if (isinf(value))
        return sign | t->most;
    int exponent;
    frexp(value, &exponent);
    exponent = value == 0 || exponent <= t->least ? t->least : exponent - 1;
    double count = ldexp(fabs(value), t->fraction - exponent);
    uint64_t whole = (uint64_t)count;
    double rest = count - (double)whole;
    whole += rest > 0.5 || (rest == 0.5 && whole % 2 == 1);
    uint64_t bits = ((uint64_t)(exponent - t->least) << t->fraction) + whole; /* also carries */
    return sign | (bits > t->most ? t->most : bits);
}

static inline union number widen(const struct type *t, uint64_t bits)
{
    union number n = { .u = bits };
    if (t->kind == 'i')
        n.i = (int64_t)(bits << (64 - 8 * t->bytes)) >> (64 - 8 * t->bytes);
    else if (is_narrow(t))
        n.f = (float)narrow_value(t, bits);
    return n;
}

static inline uint64_t narrow(const struct type *t, union number n)
{
    if ((t->kind == 'f' && isnan(n.f)) || (t->kind == 'd' && isnan(n.d)))
        return mask_of(t);
    if (is_narrow(t))
        return narrow_nearest(t, (double)n.f);
    return t->kind == 'f' ? n.f_bits : n.u & mask_of(t);
}

static inline double float_min(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    if (a == b)
        return signbit(a) ? a : b;
    return a < b ? a : b;
}

static inline uint64_t combine_integers(const struct type *t, tutti_op op, union number a, union number b)
{
    bool less = t->kind == 'i' ? a.i < b.i : a.u < b.u;
    switch (op) {
    case TUTTI_PROD:
        return a.u * b.u;
    case TUTTI_MAX:
    case TUTTI_MIN:
        return less == (op == TUTTI_MIN) ? a.u : b.u;
    case TUTTI_BIT_AND:
        return a.u & b.u;
    case TUTTI_BIT_OR:
        return a.u | b.u;
    case TUTTI_BIT_XOR:
        return a.u ^ b.u;
    default:
        return a.u + b.u;
    }
}

static inline union number combine(const struct type *t, tutti_op op, union number a, union number b)
{
    union number r = { 0 };
    bool is_sum = op == TUTTI_SUM || op == TUTTI_AVG;
    if (t->kind == 'f') {
        double smaller = float_min((double)a.f, (double)b.f),
               greater = -float_min(-(double)a.f, -(double)b.f);
        r.f = is_sum             ? a.f + b.f
              : op == TUTTI_PROD ? a.f * b.f
                                 : (float)(op == TUTTI_MIN ? smaller : greater);
    } else if (t->kind == 'd') {
        double smaller = float_min(a.d, b.d), greater = -float_min(-a.d, -b.d);
        r.d = is_sum ? a.d + b.d : op == TUTTI_PROD ? a.d * b.d : op == TUTTI_MIN ? smaller : greater;
    } else {
        r = widen(t, combine_integers(t, op, a, b) & mask_of(t));
    }
    return r;
}

static inline union number divide(const struct type *t, union number n, uint32_t divisor)
{
    if (t->kind == 'i')
        n.i /= (int64_t)divisor;
    else if (t->kind == 'u')
        n.u /= divisor;
    else if (t->kind == 'f')
        n.f /= (float)divisor;
    else
        n.d /= (double)divisor;
    return n;
}

/* Level by level; every node is a number of the type. */
static inline uint64_t tree_reference(
    const struct type *t, tutti_op op, union number *level, int k, uint32_t divisor)
{
    for (int width = k; width > 1; width = (width + 1) / 2) {
        for (int j = 0; j < width / 2; j++)
            level[j] = widen(t, narrow(t, combine(t, op, level[2 * j], level[2 * j + 1])));
        if (width % 2 == 1)
            level[width / 2] = level[width - 1];
    }
    return narrow(t, divisor > 1 ? divide(t, level[0], divisor) : level[0]);
}

/* From left to right, in the wide type. */
static inline uint64_t chain_reference(
    const struct type *t, tutti_op op, union number *level, int k, uint32_t divisor)
{
    for (int j = 1; j < k; j++)
        level[0] = combine(t, op, level[0], level[j]);
    return narrow(t, divisor > 1 ? divide(t, level[0], divisor) : level[0]);
}

static inline uint64_t reference(
    const struct type *t, tutti_op op, enum tt_shape shape, const uint64_t *operands, int k, uint32_t divisor)
{
    union number level[TT_FOLD_OPERANDS];
    if (k == 1 && divisor <= 1)
        return operands[0];
    for (int j = 0; j < k; j++)
        level[j] = widen(t, operands[j]);
    return (shape == TT_TREE ? tree_reference : chain_reference)(t, op, level, k, divisor);
}

#endif
