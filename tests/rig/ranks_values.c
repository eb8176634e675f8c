/* SPDX-License-Identifier: BSD-3-Clause */
/* ranks_values.c: elements from a seed, and their reduction by an arithmetic of the test's own.
 *
 * The narrow floats are encoded here by integer arithmetic, so that no rounding of the library is checked
 * against itself. Nothing here needs ranks, or Criterion, so programs of their own can use it, too. */
#include "ranks_values.h"

#include <string.h>

static const char *const type_names[] = { "int8", "uint8", "int32", "uint32", "int64", "uint64", "float16",
    "float32", "float64", "bfloat16", "float8_e4m3", "float8_e5m2" };
static const char *const op_names[] = { "sum", "prod", "max", "min", "avg" };
static const char *const bit_names[] = { "bit_and", "bit_or", "bit_xor" };

uint64_t ranks_mix(uint64_t value)
{
    value += UINT64_C(0x9e3779b97f4a7c15);
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

uint64_t ranks_random(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return ranks_mix(*state);
}

uint32_t ranks_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)(ranks_random(state) % bound);
}

const char *ranks_type_name(tutti_type type)
{
    return type_names[type];
}

const char *ranks_op_name(tutti_op op)
{
    if (op >= TUTTI_BIT_AND && op <= TUTTI_BIT_XOR)
        return bit_names[op - TUTTI_BIT_AND];
    return op <= TUTTI_AVG ? op_names[op] : "move";
}

/* --- Narrow floats: sign, `exponent` bits, `mantissa` bits; beyond `most` a number is `most` */

struct format {
    int exponent, mantissa;
    uint16_t most, nan; /* codes without sign: of the greatest value, of the least NaN */
};

static const struct format *format_of(tutti_type type)
{
    static const struct format formats[] = { { 5, 10, 0x7c00, 0x7c01 }, { 8, 7, 0x7f80, 0x7f81 },
        { 4, 3, 0x7e, 0x7f }, { 5, 2, 0x7b, 0x7d } };
    switch (type) {
    case TUTTI_FLOAT16:
        return &formats[0];
    case TUTTI_BFLOAT16:
        return &formats[1];
    case TUTTI_FLOAT8_E4M3:
        return &formats[2];
    default:
        return &formats[3];
    }
}

static uint16_t narrow(double value, const struct format *f)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 63 << (f->exponent + f->mantissa));
    int e = (int)(bits >> 52 & 0x7ff) - 1023, bias = (1 << (f->exponent - 1)) - 1;
    uint64_t m = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1) << 52;
    if (value != value)
        return UINT16_MAX;
    if (e == 1024)
        return sign | f->most;
    int shift = 52 - f->mantissa, lowest = 1 - bias;
    if (e < lowest) {
        shift += lowest - e;
        e = lowest;
    }
    if (shift > 54)
        return sign;
    uint64_t kept = m >> shift, rest = m & ((UINT64_C(1) << shift) - 1), half = UINT64_C(1) << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    uint64_t result = ((uint64_t)(e + bias - 1) << f->mantissa) + kept; /* a carry goes into the exponent */
    return sign | (result < f->most ? (uint16_t)result : f->most);
}

static double power_of_two(int e)
{
    uint64_t bits = (uint64_t)(e + 1023) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double widen(uint16_t x, const struct format *f)
{
    int width = f->exponent + f->mantissa, magnitude = x & ((1 << width) - 1);
    int e = magnitude >> f->mantissa, bias = (1 << (f->exponent - 1)) - 1;
    double m = magnitude & ((1 << f->mantissa) - 1), sign = x >> width & 1 ? -1.0 : 1.0;
    if (magnitude >= f->nan)
        return __builtin_nan("");
    if (magnitude == f->nan - 1 && f->mantissa != 3)
        return sign * __builtin_inf();
    if (e == 0)
        return sign * m * power_of_two(1 - bias - f->mantissa);
    return sign * (m + (double)(1 << f->mantissa)) * power_of_two(e - bias - f->mantissa);
}

void ranks_encode(tutti_type type, double value, void *dst)
{
    float f = (float)value;
    if (type == TUTTI_FLOAT64) {
        memcpy(dst, &value, sizeof value);
    } else if (type == TUTTI_FLOAT32) {
        memcpy(dst, &f, sizeof f);
    } else {
        uint16_t code = narrow(value, format_of(type));
        memcpy(dst, &code, tutti_type_bytes(type));
    }
}

double ranks_decode(tutti_type type, const void *src)
{
    double value;
    float f;
    uint16_t code = 0;
    if (type == TUTTI_FLOAT64) {
        memcpy(&value, src, sizeof value);
        return value;
    }
    if (type == TUTTI_FLOAT32) {
        memcpy(&f, src, sizeof f);
        return (double)f;
    }
    memcpy(&code, src, tutti_type_bytes(type));
    return widen(code, format_of(type));
}

/* --- Elements */

static bool is_float(tutti_type type)
{
    return type >= TUTTI_FLOAT16;
}

static bool is_signed(tutti_type type)
{
    return type == TUTTI_INT8 || type == TUTTI_INT32 || type == TUTTI_INT64;
}

static uint64_t bits_of(const struct ranks_vector *v, int rank, uint64_t index)
{
    return ranks_mix(v->seed ^ ranks_mix((uint64_t)rank << 48 ^ index));
}

/* Reduced to the type's width, with its sign. */
static uint64_t fit(tutti_type type, uint64_t x)
{
    int unused = 64 - 8 * (int)tutti_type_bytes(type);
    return is_signed(type) ? (uint64_t)((int64_t)(x << unused) >> unused) : x << unused >> unused;
}

static uint64_t integer_of(const struct ranks_vector *v, int rank, uint64_t index)
{
    static const uint64_t extremes[] = { 0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
        (UINT64_C(1) << 53) + 1, INT32_MAX, 0x80000080 };
    uint64_t bits = bits_of(v, rank, index);
    return fit(v->type, bits >> 60 == 0 ? extremes[bits & 7] : bits);
}

/* How many small integers a sum of eight may have on each side of 0. */
static int64_t range_of(tutti_type type)
{
    switch (type) {
    case TUTTI_FLOAT16:
        return 128;
    case TUTTI_BFLOAT16:
        return 16;
    case TUTTI_FLOAT32:
        return 1 << 20;
    default:
        return INT64_C(1) << 49;
    }
}

static double float_of(const struct ranks_vector *v, int rank, uint64_t index)
{
    uint64_t bits = bits_of(v, rank, index);
    if (v->op == TUTTI_PROD)
        return (bits & 1 ? -1.0 : 1.0) * power_of_two((int)(bits >> 1 & 0xff) % 3 - 1);
    int64_t n = v->op == TUTTI_AVG ? v->n : 1;
    if (tutti_type_bytes(v->type) == 1) /* only up to 8 is each integer there; an average is of one number */
        return n > 1 && (uint64_t)rank != index % (uint64_t)n ? 0
                                                              : (double)(((int64_t)(bits >> 1) % 3 - 1) * n);
    int64_t range = range_of(v->type) / n;
    return (double)(((int64_t)(bits >> 1) % (2 * range) - range) * n);
}

void ranks_fill(const struct ranks_vector *v, int rank, uint64_t first, size_t count, void *dst)
{
    size_t bytes = tutti_type_bytes(v->type);
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i++, at += bytes) {
        if (v->op != RANKS_MOVE && is_float(v->type)) {
            ranks_encode(v->type, float_of(v, rank, first + i), at);
        } else {
            uint64_t x = v->op == RANKS_MOVE ? bits_of(v, rank, first + i) : integer_of(v, rank, first + i);
            memcpy(at, &x, bytes);
        }
    }
}

static uint64_t combine_integers(const struct ranks_vector *v, uint64_t a, uint64_t b)
{
    bool less = is_signed(v->type) ? (int64_t)a < (int64_t)b : a < b;
    switch (v->op) {
    case TUTTI_PROD:
        return fit(v->type, a * b);
    case TUTTI_MAX:
        return less ? b : a;
    case TUTTI_MIN:
        return less ? a : b;
    case TUTTI_BIT_AND:
        return a & b;
    case TUTTI_BIT_OR:
        return a | b;
    case TUTTI_BIT_XOR:
        return a ^ b;
    default:
        return fit(v->type, a + b);
    }
}

static double combine_floats(const struct ranks_vector *v, double a, double b)
{
    switch (v->op) {
    case TUTTI_PROD:
        return a * b;
    case TUTTI_MAX:
        return a < b ? b : a;
    case TUTTI_MIN:
        return a < b ? a : b;
    default:
        return a + b;
    }
}

static uint64_t reduced_integer(const struct ranks_vector *v, uint64_t index)
{
    uint64_t x = integer_of(v, 0, index);
    for (int r = 1; r < v->n; r++)
        x = combine_integers(v, x, integer_of(v, r, index));
    if (v->op == TUTTI_AVG)
        x = is_signed(v->type) ? (uint64_t)((int64_t)x / v->n) : x / (uint64_t)v->n;
    return x;
}

static double reduced_float(const struct ranks_vector *v, uint64_t index)
{
    double x = float_of(v, 0, index);
    for (int r = 1; r < v->n; r++)
        x = combine_floats(v, x, float_of(v, r, index));
    return v->op == TUTTI_AVG ? x / v->n : x;
}

void ranks_reduced(const struct ranks_vector *v, uint64_t first, size_t count, void *dst)
{
    size_t bytes = tutti_type_bytes(v->type);
    uint8_t *at = dst;
    for (size_t i = 0; i < count; i++, at += bytes) {
        if (is_float(v->type)) {
            ranks_encode(v->type, reduced_float(v, first + i), at);
        } else {
            uint64_t x = reduced_integer(v, first + i);
            memcpy(at, &x, bytes);
        }
    }
}
