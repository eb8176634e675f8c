/* SPDX-License-Identifier: BSD-3-Clause */
/* values.c: contributions, and the arithmetic of the check.
 *
 * Integers use their full range and wrap modulo 2^64 before they are cut to the type (an average of integers
 * stays small, so that its sum cannot wrap). Floats are chosen so that every association gives the same bits:
 * sums of small integers that fit the significand, products of powers of two, any finite number for min and
 * max. An average divides such a sum; unless n is a power of two it has a tolerance, since an implementation
 * may divide early or late. Under --exact the association is promised (pairs (0,1) (2,3) .., an odd one
 * passes up a level, every node rounded to the type), so arbitrary floats are used and every bit is checked.
 * Computing a node in double and rounding once more is harmless for all types here: double has more than
 * twice their digits. */
#include "values.h"

#include <math.h>
#include <string.h>

#include "suggest.h"

const struct perf_type perf_types[PERF_TYPES] = {
    { "int8", "char", TUTTI_INT8, PERF_SIGNED, 1, 0 },
    { "uint8", "byte", TUTTI_UINT8, PERF_UNSIGNED, 1, 0 },
    { "int32", "int", TUTTI_INT32, PERF_SIGNED, 4, 0 },
    { "uint32", "uint", TUTTI_UINT32, PERF_UNSIGNED, 4, 0 },
    { "int64", "long", TUTTI_INT64, PERF_SIGNED, 8, 0 },
    { "uint64", "ulong", TUTTI_UINT64, PERF_UNSIGNED, 8, 0 },
    { "half", "float16", TUTTI_FLOAT16, PERF_FLOAT, 2, 11 },
    { "bfloat16", "bf16", TUTTI_BFLOAT16, PERF_FLOAT, 2, 8 },
    { "float", "float32", TUTTI_FLOAT32, PERF_FLOAT, 4, 24 },
    { "double", "float64", TUTTI_FLOAT64, PERF_FLOAT, 8, 53 },
    { "f8e4m3", "float8_e4m3", TUTTI_FLOAT8_E4M3, PERF_FLOAT, 1, 4 },
    { "f8e5m2", "float8_e5m2", TUTTI_FLOAT8_E5M2, PERF_FLOAT, 1, 3 },
};

const struct perf_op perf_ops[PERF_OPS] = {
    { "sum", TUTTI_SUM, PERF_BUILT_IN },
    { "prod", TUTTI_PROD, PERF_BUILT_IN },
    { "min", TUTTI_MIN, PERF_BUILT_IN },
    { "max", TUTTI_MAX, PERF_BUILT_IN },
    { "avg", TUTTI_AVG, PERF_BUILT_IN },
    { "band", TUTTI_BIT_AND, PERF_BUILT_IN },
    { "bor", TUTTI_BIT_OR, PERF_BUILT_IN },
    { "bxor", TUTTI_BIT_XOR, PERF_BUILT_IN },
    { "mulsum", TUTTI_SUM, PERF_PRE_MUL },
    { "user", TUTTI_SUM, PERF_USER },
};

const struct perf_type *perf_type_find(const char *name)
{
    for (int i = 0; i < PERF_TYPES; i++)
        if (perf_names_same(name, perf_types[i].name) || perf_names_same(name, perf_types[i].alias))
            return &perf_types[i];
    return NULL;
}

const struct perf_op *perf_op_find(const char *name)
{
    for (int i = 0; i < PERF_OPS; i++)
        if (perf_names_same(name, perf_ops[i].name))
            return &perf_ops[i];
    return NULL;
}

bool perf_op_fits(const struct perf_op *op, const struct perf_type *type)
{
    return type->kind != PERF_FLOAT || op->op < TUTTI_BIT_AND;
}

uint64_t perf_value_load(const struct perf_type *type, const void *from)
{
    uint64_t bits = 0;
    memcpy(&bits, from, type->bytes); /* little-endian, as every machine this runs on */
    return bits;
}

void perf_value_store(const struct perf_type *type, void *to, uint64_t bits)
{
    memcpy(to, &bits, type->bytes);
}

static float float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The parts of a float of at most 16 bits. Beyond `most` a number becomes it: an infinity, or the greatest
 * number of a type that saturates. */
struct narrow {
    int fraction, least; /* bits of the fraction; exponent of the least normal number */
    uint32_t sign, most, nan; /* as codes; all from `nan` on are NaNs */
};

static struct narrow narrow_of(const struct perf_type *type)
{
    int exponent_bits = 8 * type->bytes - type->digits;
    struct narrow t = { .fraction = type->digits - 1, .least = 2 - (1 << (exponent_bits - 1)) };
    uint32_t infinity = ((1u << exponent_bits) - 1) << t.fraction;
    t.sign = 1u << (8 * type->bytes - 1);
    t.most = type->bytes == 2 ? infinity : infinity - 1;
    t.nan = infinity + 1;
    if (type->type == TUTTI_FLOAT8_E4M3) { /* its greatest exponent is one of numbers, but for the last */
        t.nan = t.sign - 1;
        t.most = t.nan - 1;
    }
    return t;
}

static double decode_narrow(const struct perf_type *type, uint32_t bits)
{
    struct narrow t = narrow_of(type);
    uint32_t magnitude = bits & (t.sign - 1), one = 1u << t.fraction;
    int exponent = (int)(magnitude >> t.fraction);
    double count = magnitude & (one - 1), value;
    if (magnitude >= t.nan)
        value = NAN;
    else if (magnitude == t.nan - 1 && type->type != TUTTI_FLOAT8_E4M3)
        value = INFINITY;
    else if (exponent == 0)
        value = ldexp(count, t.least - t.fraction);
    else
        value = ldexp(count + one, exponent - 1 + t.least - t.fraction);
    return bits & t.sign ? -value : value;
}

/* Rounds to the nearest whole number, ties to even, for 0 <= value < 2^51. */
static double round_even(double value)
{
    return value + 0x1p52 - 0x1p52;
}

/* The fraction counts in units of the last bit; a carry goes into the exponent. */
static uint32_t encode_narrow(const struct perf_type *type, double value)
{
    struct narrow t = narrow_of(type);
    uint32_t sign = signbit(value) ? t.sign : 0;
    int exponent;
    if (isnan(value))
        return 2 * t.sign - 1;
    if (isinf(value))
        return sign | t.most;
    frexp(value, &exponent);
    exponent = value == 0 || exponent <= t.least ? t.least : exponent - 1;
    uint64_t count = (uint64_t)round_even(ldexp(fabs(value), t.fraction - exponent));
    uint64_t code = ((uint64_t)(exponent - t.least) << t.fraction) + count;
    return sign | (code < t.most ? (uint32_t)code : t.most);
}

static double decode(const struct perf_type *type, uint64_t bits)
{
    double value;
    if (type->bytes <= 2)
        return decode_narrow(type, (uint32_t)bits);
    if (type->bytes == 4)
        return float_of_bits((uint32_t)bits);
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t encode(const struct perf_type *type, double value)
{
    uint64_t bits;
    if (type->bytes <= 2)
        return encode_narrow(type, value);
    if (type->bytes == 4)
        return bits_of_float((float)value);
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t cut(const struct perf_type *type, uint64_t bits)
{
    return type->bytes == 8 ? bits : bits & ((UINT64_C(1) << 8 * type->bytes) - 1);
}

static int64_t widen(const struct perf_type *type, uint64_t bits)
{
    int unused = 64 - 8 * type->bytes;
    return (int64_t)(bits << unused) >> unused;
}

static uint64_t hash(uint64_t seed, int rank, uint64_t index)
{
    uint64_t x = index % PERF_PERIOD * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xd1342543de82ef95) +
                 (uint64_t)rank;
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static int bits_for(int n)
{
    int bits = 0;
    while (bits < 31 && 1 << bits < n)
        bits++;
    return bits;
}

/* The largest small integer of which n always fit the significand. */
static int64_t small_limit(const struct perf_values *v)
{
    int bits = v->type->digits - bits_for(v->op->made == PERF_PRE_MUL ? 2 * v->n : v->n);
    return bits <= 1 ? 1 : bits > 30 ? 1 << 30 : 1 << bits;
}

/* Any finite number but zero, whose two signs would compare equal. */
static uint64_t finite_number(const struct perf_type *type, uint64_t random)
{
    int fraction_bits = type->digits - 1, exponent_bits = 8 * type->bytes - type->digits;
    uint64_t exponent = ((UINT64_C(1) << exponent_bits) - 1) << fraction_bits;
    uint64_t bits = cut(type, random) | 1;
    return (bits & exponent) == exponent ? bits ^ UINT64_C(1) << fraction_bits : bits;
}

/* A number of full significand in [0.5, 1) at odd ranks and [1, 2) at even ones, so that long products stay
 * finite. */
static uint64_t around_one(const struct perf_values *v, int rank, uint64_t random)
{
    double value = 1 + ldexp((double)(random >> 12), -52);
    value = rank & 1 ? value / 2 : value;
    return encode(v->type, random & 1 ? -value : value);
}

static uint64_t given_float(const struct perf_values *v, int rank, uint64_t random)
{
    if (v->op->op == TUTTI_MIN || v->op->op == TUTTI_MAX)
        return finite_number(v->type, random);
    if (v->exact)
        return around_one(v, rank, random);
    if (v->op->op == TUTTI_PROD) { /* so many factors of at most 2 in either direction fit the exponents */
        int factors = v->type->type == TUTTI_FLOAT8_E4M3 ? 6 : 14;
        double power = rank < factors ? ldexp(1, (int)(random >> 33) % 3 - 1) : 1;
        return encode(v->type, random & 1 ? -power : power);
    }
    if (v->type->digits < 31 && rank >> v->type->digits != 0) /* more would not fit the significand */
        return encode(v->type, 0);
    int64_t limit = small_limit(v);
    return encode(v->type, (double)((int64_t)(random >> 1) % (2 * limit + 1) - limit));
}

uint64_t perf_value_given(const struct perf_values *v, int rank, uint64_t index)
{
    uint64_t random = hash(v->seed, rank, index);
    if (v->op == NULL)
        return cut(v->type, random);
    if (v->type->kind == PERF_FLOAT)
        return given_float(v, rank, random);
    if (v->op->op != TUTTI_AVG)
        return cut(v->type, random);
    int spare = bits_for(v->n);
    if (v->type->kind == PERF_UNSIGNED)
        return cut(v->type, random) >> spare;
    return cut(v->type, (uint64_t)(widen(v->type, random) >> spare));
}

uint64_t perf_value_sum(const struct perf_type *type, uint64_t left, uint64_t right)
{
    if (type->kind == PERF_FLOAT)
        return encode(type, decode(type, left) + decode(type, right));
    return cut(type, left + right);
}

uint64_t perf_value_factor(const struct perf_type *type, int rank)
{
    uint64_t factor = rank & 1 ? 2 : 1;
    return type->kind == PERF_FLOAT ? encode(type, (double)factor) : factor;
}

/* Returns what of `rank` is combined. Twice a value is its sum with itself, in every type. */
static uint64_t operand(const struct perf_values *v, int rank, uint64_t index)
{
    uint64_t given = perf_value_given(v, rank, index);
    return v->op->made == PERF_PRE_MUL && rank & 1 ? perf_value_sum(v->type, given, given) : given;
}

static uint64_t reduced_integer(const struct perf_values *v, uint64_t index)
{
    bool is_signed = v->type->kind == PERF_SIGNED;
    uint64_t result = operand(v, 0, index);
    for (int rank = 1; rank < v->n; rank++) {
        uint64_t next = operand(v, rank, index);
        bool less = is_signed ? widen(v->type, next) < widen(v->type, result) : next < result;
        switch (v->op->op) {
        case TUTTI_PROD:
            result *= next;
            break;
        case TUTTI_MIN:
            result = less ? next : result;
            break;
        case TUTTI_MAX:
            result = less ? result : next;
            break;
        case TUTTI_BIT_AND:
            result &= next;
            break;
        case TUTTI_BIT_OR:
            result |= next;
            break;
        case TUTTI_BIT_XOR:
            result ^= next;
            break;
        default:
            result += next;
        }
        result = cut(v->type, result);
    }
    if (v->op->op != TUTTI_AVG)
        return result;
    return is_signed ? cut(v->type, (uint64_t)(widen(v->type, result) / v->n)) : result / (uint64_t)v->n;
}

static double combine(tutti_op op, double left, double right)
{
    switch (op) {
    case TUTTI_PROD:
        return left * right;
    case TUTTI_MIN:
        return right < left ? right : left;
    case TUTTI_MAX:
        return right > left ? right : left;
    default:
        return left + right;
    }
}

/* The pass-up tree; where values are chosen so that the association does not matter, it is as good as any. */
static uint64_t reduced_float(const struct perf_values *v, uint64_t index)
{
    double level[PERF_RANKS_MAX];
    for (int rank = 0; rank < v->n; rank++)
        level[rank] = decode(v->type, operand(v, rank, index));
    for (int width = v->n; width > 1; width = (width + 1) / 2) {
        for (int i = 0; i < width / 2; i++)
            level[i] = decode(v->type, encode(v->type, combine(v->op->op, level[2 * i], level[2 * i + 1])));
        if (width & 1)
            level[width / 2] = level[width - 1];
    }
    return encode(v->type, v->op->op == TUTTI_AVG ? level[0] / v->n : level[0]);
}

uint64_t perf_value_reduced(const struct perf_values *v, uint64_t index, double *tolerance)
{
    *tolerance = 0;
    if (v->type->kind != PERF_FLOAT)
        return reduced_integer(v, index);
    bool power_of_two = (v->n & (v->n - 1)) == 0;
    if (v->op->op == TUTTI_AVG && !v->exact && !power_of_two)
        *tolerance = ldexp((v->n + 1) * (double)small_limit(v), -v->type->digits);
    return reduced_float(v, index);
}

bool perf_value_matches(const struct perf_values *v, uint64_t got, uint64_t want, double tolerance)
{
    if (got == want)
        return true;
    if (v->op == NULL || v->type->kind != PERF_FLOAT)
        return false;
    double a = decode(v->type, got), b = decode(v->type, want);
    if (isnan(b))
        return isnan(a);
    return fabs(a - b) <= tolerance;
}
