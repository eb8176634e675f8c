/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_convert.c: tutti_convert, against a reference that knows nothing of bits but their values.
 *
 * All codes are widened and narrowed again, by every instruction set; between each two neighbours the middle
 * and what stands beside it is narrowed. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels.h"
#include "tests/rig/ranks.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
enum { UPWARD_AND_FLUSH = 0xdfc0 /* round up, denormals are 0 both ways */ };
#endif

enum { CODES = 65536, NEAR = 3 };

static const struct format {
    tutti_type type;
    int fraction, bias; /* bits of the fraction; of the exponent */
} formats[] = { { TUTTI_FLOAT16, 10, 15 }, { TUTTI_BFLOAT16, 7, 127 } };

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* The value of a finite code without its sign; of the one after the greatest: the next power of two. */
static double value_of(const struct format *f, uint32_t code)
{
    uint32_t exponent = code >> f->fraction, fraction = code & ((1u << f->fraction) - 1);
    if (exponent == 0)
        return ldexp(fraction, 1 - f->bias - f->fraction);
    return ldexp(fraction + (1u << f->fraction), (int)exponent - f->bias - f->fraction);
}

static uint32_t infinity_of(const struct format *f)
{
    return 0x7fffu >> f->fraction << f->fraction;
}

static uint16_t codes[CODES], back[CODES];
static uint32_t wide[CODES];

static void check_codes(const struct format *f, enum tt_isa isa)
{
    tt_convert_fn widen = tt_convert_find(f->type, TUTTI_FLOAT32, isa);
    tt_convert_fn narrow = tt_convert_find(TUTTI_FLOAT32, f->type, isa);
    for (uint32_t c = 0; c < CODES; c++)
        codes[c] = (uint16_t)c;
    widen(wide, codes, CODES);
    narrow(back, wide, CODES);
    for (uint32_t c = 0; c < CODES; c++) {
        uint32_t magnitude = c & 0x7fff, infinity = infinity_of(f), quiet = 1u << (f->fraction - 1);
        uint32_t nan = (c & 0x8000) << 16 | 0x7fc00000 | (magnitude & (quiet - 1)) << (23 - f->fraction);
        float value = magnitude < infinity ? (float)value_of(f, magnitude) : INFINITY;
        uint32_t wanted = magnitude > infinity ? nan : bits_of(c & 0x8000 ? -value : value);
        cr_assert_eq(wide[c], wanted, "%s: type %d: %#x widens to %#x, not %#x", tt_isa_name(isa), f->type, c,
            wide[c], wanted);
        uint32_t again = magnitude > infinity ? c | quiet : c;
        cr_assert_eq(
            back[c], again, "%s: type %d: %#x comes back as %#x", tt_isa_name(isa), f->type, c, back[c]);
    }
}

/* By distance from the two neighbours; a tie goes to the even one. */
static uint32_t nearest(const struct format *f, uint32_t low, double x)
{
    double below = x - value_of(f, low), above = value_of(f, low + 1) - x;
    return below < above || (below == above && low % 2 == 0) ? low : low + 1;
}

static void check_between(const struct format *f, enum tt_isa isa)
{
    static uint32_t x[NEAR * CODES], wanted[NEAR * CODES];
    static uint16_t found[NEAR * CODES];
    tt_convert_fn narrow = tt_convert_find(TUTTI_FLOAT32, f->type, isa);
    size_t n = 0;
    for (uint32_t low = 0; low < infinity_of(f); low++)
        for (int near = -1; near <= 1; near++) {
            double middle = (value_of(f, low) + value_of(f, low + 1)) / 2;
            uint32_t bits = bits_of((float)middle) + (uint32_t)near;
            if ((bits & 0x7fffffff) > 0x7f800000) /* one below 0 */
                continue;
            uint32_t sign = (low & 1) << 31;
            x[n] = bits | sign;
            wanted[n++] = nearest(f, low, (double)float_of(bits)) | sign >> 16;
        }
    narrow(found, x, n);
    for (size_t i = 0; i < n; i++)
        cr_assert_eq(found[i], wanted[i], "%s: type %d: %#x becomes %#x, not %#x", tt_isa_name(isa), f->type,
            x[i], found[i], wanted[i]);
}

Test(api_convert, all_codes_and_what_lies_between)
{
    for (int isa = TT_ISA_GENERIC; isa <= (int)tt_isa_best(); isa++)
        for (int i = 0; i < 2; i++) {
            check_codes(&formats[i], (enum tt_isa)isa);
            check_between(&formats[i], (enum tt_isa)isa);
        }
}

/* Any float32: NaN, infinity, what is far too large or small; also where the caller rounds upwards. Odd
 * lengths and places; nothing is written beyond. */
Test(api_convert, any_float_at_any_place)
{
    uint64_t random = 5;
    static float from[300];
    static uint16_t to[300], upwards[300];
    for (int turn = 0; turn < 2000; turn++) {
        const struct format *f = &formats[turn % 2];
        size_t count = ranks_below(&random, 200), at = ranks_below(&random, 50);
        for (size_t i = 0; i < 300; i++) {
            uint32_t bits = (uint32_t)ranks_random(&random);
            memcpy(&from[i], &bits, sizeof bits);
            to[i] = upwards[i] = 0x5555;
        }
        cr_assert_eq(tutti_convert(from + at, TUTTI_FLOAT32, to + at, f->type, count), TUTTI_OK);
#if defined(__x86_64__)
        unsigned modes = _mm_getcsr();
        _mm_setcsr(UPWARD_AND_FLUSH);
#endif
        tutti_convert(from + at, TUTTI_FLOAT32, upwards + at, f->type, count);
#if defined(__x86_64__)
        _mm_setcsr(modes);
#endif
        cr_assert_arr_eq(to, upwards, sizeof to);
        for (size_t i = 0; i < 300; i++) {
            if (i < at || i >= at + count) {
                cr_assert_eq(to[i], 0x5555);
                continue;
            }
            uint32_t bits = bits_of(from[i]), magnitude = to[i] & 0x7fffu, infinity = infinity_of(f);
            double x = fabs((double)from[i]);
            cr_assert_eq(to[i] >> 15, bits >> 31);
            if (isnan(from[i])) {
                cr_assert_eq(
                    magnitude, infinity | 1u << (f->fraction - 1) | (bits & 0x7fffff) >> (23 - f->fraction));
                continue;
            }
            double least = magnitude > 0 ? (value_of(f, magnitude - 1) + value_of(f, magnitude)) / 2 : 0;
            cr_assert_geq(x, least);
            if (magnitude < infinity)
                cr_assert_leq(x, (value_of(f, magnitude) + value_of(f, magnitude + 1)) / 2);
        }
    }
}

static void expect(tutti_status status, tutti_status expected, const char *name)
{
    cr_expect_eq(status, expected, "%s", tutti_get_last_error(NULL));
    cr_expect(strstr(tutti_get_last_error(NULL), name), "%s", tutti_get_last_error(NULL));
}

Test(api_convert, refused)
{
    float x[8] = { 1 };
    uint16_t y[8] = { 0 };
    const uint8_t *odd = (const uint8_t *)x + 2;
    expect(tutti_convert(x, TUTTI_FLOAT32, x + 4, TUTTI_FLOAT64, 1), TUTTI_UNSUPPORTED, "float64");
    expect(tutti_convert(x, TUTTI_FLOAT32, x + 4, TUTTI_FLOAT32, 1), TUTTI_UNSUPPORTED, "legal");
    expect(tutti_convert(y, TUTTI_BFLOAT16, y + 4, TUTTI_FLOAT16, 1), TUTTI_UNSUPPORTED, "float16");
    expect(tutti_convert(x, TUTTI_FLOAT32, y, (tutti_type)99, 1), TUTTI_UNSUPPORTED, "legal");
    expect(tutti_convert(NULL, TUTTI_FLOAT32, y, TUTTI_FLOAT16, 1), TUTTI_INVALID_ARGUMENT, "from is NULL");
    expect(tutti_convert(x, TUTTI_FLOAT32, NULL, TUTTI_FLOAT16, 1), TUTTI_INVALID_ARGUMENT, "to is NULL");
    expect(tutti_convert(odd, TUTTI_FLOAT32, y, TUTTI_FLOAT16, 1), TUTTI_INVALID_ARGUMENT, "multiple of 4");
    expect(tutti_convert(x, TUTTI_FLOAT32, x, TUTTI_BFLOAT16, 2), TUTTI_INVALID_ARGUMENT, "overlap");
    expect(tutti_convert(x, TUTTI_FLOAT32, y, TUTTI_FLOAT16, SIZE_MAX / 2), TUTTI_INVALID_ARGUMENT, "count");
    cr_expect_eq(tutti_convert(NULL, TUTTI_FLOAT32, NULL, TUTTI_FLOAT16, 0), TUTTI_OK);
}
