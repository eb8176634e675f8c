/* SPDX-License-Identifier: BSD-3-Clause */
/* convert.h: the conversions inside the folds of one instruction set, laid open for test_convert.c.
 *
 * They are inline and have no names in the library, so each convert_*.c compiles the folds of its instruction
 * set once more, with that set's flags, and includes this behind them. TT_CONVERSIONS names the table. */
#include "convert_table.h"

/* All lanes are x: which of them an element takes is the instruction set's own affair. */
static uint32_t narrowed(const struct number *type, size_t bytes, uint32_t x, bool *equal)
{
    uint8_t out[sizeof(vec)], first[4] = { 0 };
    struct wide w = { vec_all(x), vec_all(x), vec_all(x), vec_all(x) };
    if (nans_any(type->nans(w.a, w.a)))
        w.a = w.b = w.c = w.d = type->mended(w.a);
    vec_store(out, type->narrow(w));
    memcpy(first, out, bytes);
    for (size_t at = 0; at < sizeof out; at += bytes)
        *equal = *equal && memcmp(first, out + at, bytes) == 0;
    return (uint32_t)(first[0] | first[1] << 8);
}

static uint32_t widened(const struct number *type, size_t bytes, uint32_t code, bool *equal)
{
    uint8_t in[sizeof(vec)];
    for (size_t at = 0; at < sizeof in; at += bytes)
        memcpy(in + at, &code, bytes);
    struct wide w = type->widen(in);
    vec parts[4] = { w.a, w.b, w.c, w.d };
    for (int p = 0; p < type->parts; p++)
        for (size_t i = 0; i < sizeof(vec) / sizeof(uint32_t); i++)
            *equal = *equal && parts[p][i] == w.a[0];
    return w.a[0];
}

static const struct number *number_of(tutti_type type)
{
    switch (type) {
    case TUTTI_FLOAT16:
        return &float16;
    case TUTTI_BFLOAT16:
        return &bfloat16;
    case TUTTI_FLOAT8_E4M3:
        return &float8_e4m3;
    default:
        return &float8_e5m2;
    }
}

static uint32_t narrow(tutti_type type, uint32_t x, bool *equal)
{
    return narrowed(number_of(type), tutti_type_bytes(type), x, equal);
}
static uint32_t widen(tutti_type type, uint32_t code, bool *equal)
{
    return widened(number_of(type), tutti_type_bytes(type), code, equal);
}

const struct conversions TT_CONVERSIONS = { narrow, widen };
