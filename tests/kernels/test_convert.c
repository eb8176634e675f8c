/* SPDX-License-Identifier: BSD-3-Clause */
/* test_convert.c: every conversion between fp32 and the narrow floats that a fold makes, exhaustively.
 *
 * All codes are widened and narrowed again. What lies between two neighbours is narrowed at the middle, and
 * one fp32 to each side of it and of each neighbour; so are the ends of the range, and NaNs of several
 * payloads. The reference knows integers only. */
#include <criterion/criterion.h>

#include "convert_table.h"
#include "kernels/kernels.h"

static const struct format {
    tutti_type type;
    const char *name;
    int bits, fraction, least; /* of all, of the fraction; exponent of the least normal number */
    uint32_t most, nan; /* the codes of the greatest value, infinite or not, and of the least NaN */
    bool saturates;
} formats[] = {
    { TUTTI_FLOAT16, "float16", 16, 10, -14, 0x7c00, 0x7c01, false },
    { TUTTI_BFLOAT16, "bfloat16", 16, 7, -126, 0x7f80, 0x7f81, false },
    { TUTTI_FLOAT8_E4M3, "e4m3", 8, 3, -6, 0x7e, 0x7f, true },
    { TUTTI_FLOAT8_E5M2, "e5m2", 8, 2, -14, 0x7b, 0x7d, true },
};
enum { FORMATS = sizeof formats / sizeof formats[0] };

static const struct conversions *const sets[TT_ISAS] = { &convert_generic, &convert_avx2, &convert_avx512 };

/* --- The reference. */

/* The fp32 of a number's code without its sign: the fraction is shifted until its first bit is the 24th. */
static uint32_t wide_of(const struct format *f, uint32_t code)
{
    uint32_t significand = code & ((1u << f->fraction) - 1), field = code >> f->fraction;
    int exponent = f->least - f->fraction; /* of the last bit */
    if (field > 0) {
        significand |= 1u << f->fraction;
        exponent += (int)field - 1;
    }
    if (significand == 0)
        return 0;
    for (; significand < 1u << 23 && exponent > -149; exponent--)
        significand <<= 1;
    return ((uint32_t)(exponent + 149) << 23) + significand; /* its first bit counts as one more exponent */
}

struct exact {
    uint64_t significand;
    int exponent; /* of the last bit of the significand */
};

static struct exact exact_of(uint32_t x)
{
    uint32_t field = x >> 23 & 255, fraction = x & 0x7fffff;
    return (struct exact){ field > 0 ? fraction | 1u << 23 : fraction, (field > 0 ? (int)field : 1) - 150 };
}

/* To nearest, ties to even: shifted to the last bit of the result, which is a fixed number of bits below the
 * leading one, or that of the least numbers. */
static uint32_t code_of(const struct format *f, uint32_t x)
{
    const uint32_t sign = x >> 31 << (f->bits - 1), magnitude = x & 0x7fffffff;
    if (magnitude > 0x7f800000)
        return f->bits == 16 ? 0xffff : 0xff;
    if (magnitude == 0x7f800000)
        return sign | f->most;
    struct exact e = exact_of(magnitude);
    int leading = e.exponent - 1;
    for (uint64_t s = e.significand; s > 0; s >>= 1)
        leading++;
    if (e.significand == 0 || leading < f->least)
        leading = f->least;
    int last = leading - f->fraction, shift = last - e.exponent;
    shift = shift < 40 ? shift : 40; /* nothing is left of 24 bits long before */
    uint64_t kept = e.significand >> shift, rest = e.significand - (kept << shift), half = 1ull << shift >> 1;
    kept += rest > half || (rest == half && kept % 2 == 1);
    uint64_t code = ((uint64_t)(leading - f->least) << f->fraction) + kept;
    return sign | (code < f->most ? (uint32_t)code : f->most);
}

/* --- The tests. */

static void check_narrow(const struct format *f, enum tt_isa isa, uint32_t x)
{
    for (uint32_t sign = 0; sign < 2; sign++) {
        uint32_t given = x ^ sign << 31;
        bool equal = true;
        uint32_t found = sets[isa]->narrow(f->type, given, &equal), wanted = code_of(f, given);
        if (found != wanted || !equal)
            cr_assert_fail("%s: %#x becomes %s %#x, not %#x%s", tt_isa_name(isa), given, f->name, found,
                wanted, equal ? "" : "; elements of a vector differ");
    }
}

static void check_around(const struct format *f, enum tt_isa isa, uint32_t x)
{
    for (uint32_t near = x == 0 ? 0 : x - 1; near <= x + 1; near++)
        check_narrow(f, isa, near);
}

/* The middle of two neighbours. They share an exponent, or the upper one is the next power of two, so that
 * the bits of an fp32 count evenly between them; not so between 0 and the least number. */
static uint32_t middle_of(uint32_t low, uint32_t high)
{
    return low == 0 && high >= 2u << 23 ? high - (1u << 23) : low + (high - low) / 2;
}

static void check_codes(const struct format *f, enum tt_isa isa)
{
    for (uint32_t code = 0; code < 1u << (f->bits - 1); code++) {
        for (uint32_t sign = 0; sign < 2; sign++) {
            bool equal = true;
            uint32_t signs = sign << (f->bits - 1), x = sets[isa]->widen(f->type, code | signs, &equal);
            uint32_t infinite = f->type == TUTTI_FLOAT8_E4M3 ? 0 : f->nan - 1;
            uint32_t wanted = code == infinite && infinite ? 0x7f800000 : wide_of(f, code);
            bool right = code >= f->nan ? (x & 0x7fffffff) > 0x7f800000 : x == (wanted | sign << 31);
            if (!right || !equal)
                cr_assert_fail("%s: %s %#x becomes %#x, not %#x", tt_isa_name(isa), f->name, code | signs, x,
                    wanted | sign << 31);
        }
        if (code > f->most || (code == f->most && !f->saturates))
            continue;
        uint32_t low = wide_of(f, code), high = wide_of(f, code + 1);
        check_around(f, isa, low);
        check_around(f, isa, middle_of(low, high));
        for (uint32_t part = 1; part < 8; part++)
            check_narrow(f, isa, low + (uint32_t)((uint64_t)(high - low) * part / 8));
    }
}

static void check_ends(const struct format *f, enum tt_isa isa)
{
    static const uint32_t ends[] = { 0, 1, 2, 0x007fffff, 0x00800000, 0x00800001, 0x7f7fffff, 0x7f800000,
        0x7f800001, 0x7fc00000, 0x7fffffff };
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        bool odd_nan = ends[i] > 0x7f800000 && (ends[i] & 0xffff) != 0;
        if (f->type != TUTTI_BFLOAT16 || !odd_nan) /* a fold of bfloat16 meets no such payload */
            check_narrow(f, isa, ends[i]);
    }
    for (uint32_t exponent = 0; exponent < 255; exponent++)
        check_around(f, isa, exponent << 23);
}

static void check_set(enum tt_isa isa)
{
    if (isa > tt_isa_best() || sets[isa]->narrow == NULL)
        cr_skip_test("not on this CPU");
    for (int i = 0; i < FORMATS; i++) {
        check_codes(&formats[i], isa);
        check_ends(&formats[i], isa);
    }
}

Test(convert, generic)
{
    check_set(TT_ISA_GENERIC);
}
Test(convert, avx2)
{
    check_set(TT_ISA_AVX2);
}
Test(convert, avx512)
{
    check_set(TT_ISA_AVX512);
}
