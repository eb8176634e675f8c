/* SPDX-License-Identifier: BSD-3-Clause */
/* unicode.c: characters and their classes, by a table of where a class begins. */
#include "training/text/unicode.h"

#include "training/text/unicode_ranges.h"

enum tr_class tr_class_of_code(uint32_t code)
{
    int from = 0, to = sizeof ranges / sizeof *ranges; /* the last one that begins here or before */
    while (to - from > 1) {
        int middle = (from + to) / 2;
        if (ranges[middle] >> 2 <= code)
            from = middle;
        else
            to = middle;
    }
    return code < ranges[0] >> 2 ? TR_OTHER : (enum tr_class)(ranges[from] & 3);
}

int tr_utf8_next(const uint8_t *bytes, int64_t count, uint32_t *code)
{
    uint8_t first = count > 0 ? bytes[0] : 0;
    int length = first < 0x80 ? 1 : first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    if (count <= 0)
        return TR_UTF8_CUT;
    if ((first >= 0x80 && first < 0xC2) || first > 0xF4)
        return TR_UTF8_WRONG;
    uint32_t c = length == 1 ? first : first & (0x7Fu >> length);
    for (int i = 1; i < length; i++) {
        if (i == count)
            return TR_UTF8_CUT;
        /* The second byte of some is bounded: no longer forms, no surrogates, nothing above 10FFFF. */
        uint8_t least = i > 1 ? 0x80 : first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
        uint8_t most = i > 1 ? 0xBF : first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
        if (bytes[i] < least || bytes[i] > most)
            return TR_UTF8_WRONG;
        c = c << 6 | (bytes[i] & 0x3F);
    }
    *code = c;
    return length;
}

int tr_utf8_put(uint8_t to[TR_UTF8_MOST], uint32_t code)
{
    int length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3F));
    to[0] = (uint8_t)(length == 1 ? code : (0xF00u >> length & 0xFF) | code);
    return length;
}
