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

const struct perf_type perf_types[PERF_TYPES] = {
    { "int32", "int", TUTTI_INT32, PERF_SIGNED, 4, 0 },
    { "uint32", "uint", TUTTI_UINT32, PERF_UNSIGNED, 4, 0 },
    { "int64", "long", TUTTI_INT64, PERF_SIGNED, 8, 0 },
    { "uint64", "ulong", TUTTI_UINT64, PERF_UNSIGNED, 8, 0 },
    { "half", "float16", TUTTI_FLOAT16, PERF_FLOAT, 2, 11 },
    { "bfloat16", "bf16", TUTTI_BFLOAT16, PERF_FLOAT, 2, 8 },
    { "float", "float32", TUTTI_FLOAT32, PERF_FLOAT, 4, 24 },
    { "double", "float64", TUTTI_FLOAT64, PERF_FLOAT, 8, 53 },
};

const struct perf_op perf_ops[PERF_OPS] = {
    { "sum", TUTTI_SUM },
    { "prod", TUTTI_PROD },
    { "min", TUTTI_MIN },
    { "max", TUTTI_MAX },
    { "avg", TUTTI_AVG },
};

const struct perf_type *perf_type_find(const char *name)
{
    for (int i = 0; i < PERF_TYPES; i++)
        if (strcmp(perf_types[i].name, name) == 0 || strcmp(perf_types[i].alias, name) == 0)
            return &perf_types[i];
    return NULL;
}

const struct perf_op *perf_op_find(const char *name)
{
    for (int i = 0; i < PERF_OPS; i++)
        if (strcmp(perf_ops[i].name, name) == 0)
            return &perf_ops[i];
    return NULL;
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

static double decode_half(uint32_t bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double value = exponent == 31  ? (fraction > 0 ? NAN : INFINITY)
                   : exponent == 0 ? ldexp(fraction, -24)
                                   : ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* To the nearest whole number, ties to even, for 0 <= value < 2^51. */
static double round_even(double value)
{
    return value + 0x1p52 - 0x1p52;
}

static uint32_t encode_half(double value)
{
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    value = fabs(value);
    if (isnan(value))
        return sign | 0x7e00;
    if (value < 0x1p-14) /* subnormal: units of 2^-24; 1024 of them are the smallest normal number */
        return sign | (uint32_t)round_even(ldexp(value, 24));
    if (value >= 65520)
        return sign | 0x7c00;
    int exponent;
    double fraction = frexp(value, &exponent);
    uint32_t significand =
        (uint32_t)round_even(ldexp(fraction, 11)); /* 1024..2048; 2048 carries into the exponent */
    return sign | (((uint32_t)(exponent + 14) << 10) + significand - 1024);
}

static uint32_t encode_bfloat16(double value)
{
    uint32_t bits = bits_of_float((float)value);
    if (isnan(value))
        return bits >> 16 | 0x40;
    return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static double decode(const struct perf_type *type, uint64_t bits)
{
    double value;
    switch (type->type) {
    case TUTTI_FLOAT16:
        return decode_half((uint32_t)bits);
    case TUTTI_BFLOAT16:
        return float_of_bits((uint32_t)bits << 16);
    case TUTTI_FLOAT32:
        return float_of_bits((uint32_t)bits);
    default:
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

static uint64_t encode(const struct perf_type *type, double value)
{
    uint64_t bits;
    switch (type->type) {
    case TUTTI_FLOAT16:
        return encode_half(value);
    case TUTTI_BFLOAT16:
        return encode_bfloat16(value);
    case TUTTI_FLOAT32:
        return bits_of_float((float)value);
    default:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
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
    int bits = v->type->digits - bits_for(v->n);
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
    if (v->op->op ==
        TUTTI_PROD) { /* 14 factors of at most 2 in either direction fit the exponents of all types */
        double power = rank < 14 ? ldexp(1, (int)(random >> 32) % 3 - 1) : 1;
        return encode(v->type, random & 1 ? -power : power);
    }
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

static uint64_t reduced_integer(const struct perf_values *v, uint64_t index)
{
    bool is_signed = v->type->kind == PERF_SIGNED;
    uint64_t result = perf_value_given(v, 0, index);
    for (int rank = 1; rank < v->n; rank++) {
        uint64_t next = perf_value_given(v, rank, index);
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
        level[rank] = decode(v->type, perf_value_given(v, rank, index));
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
