/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c: the reader of a head of weights: no tree is made, for all that is wanted is a few numbers of each
 * name. */
#include "training/text/json.h"

#include "training/text/unicode.h"

#include <string.h>

enum { DEEPEST = 16 };

static void skip_space(struct tr_json *j)
{
    while (j->text < j->end && memchr(" \t\r\n", *j->text, 4))
        j->text++;
}

bool tr_json_over(struct tr_json *j)
{
    skip_space(j);
    return j->text == j->end;
}

bool tr_json_sign(struct tr_json *j, char sign)
{
    skip_space(j);
    if (j->text == j->end || *j->text != sign)
        return false;
    j->text++;
    return true;
}

/* Behind "\u": four digits. */
static bool digits(struct tr_json *j, uint32_t *value)
{
    *value = 0;
    if (j->end - j->text < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        static const char all[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = memchr(all, *j->text++, sizeof all - 1);
        if (!digit)
            return false;
        *value = *value * 16 + (uint32_t)(digit - all) % 16;
    }
    return true;
}

/* A character by its number; one beyond 16 bits is a pair of surrogates. */
static bool by_number(struct tr_json *j, uint32_t *code)
{
    uint32_t low;
    if (!digits(j, code) || *code == 0 || (*code >= 0xDC00 && *code < 0xE000))
        return false;
    if (*code < 0xD800 || *code >= 0xE000)
        return true;
    if (j->end - j->text < 2 || *j->text++ != '\\' || *j->text++ != 'u' || !digits(j, &low) || low < 0xDC00 ||
        low >= 0xE000)
        return false;
    *code = 0x10000 + ((*code - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static bool escaped(struct tr_json *j, uint32_t *code)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (j->text == j->end)
        return false;
    char c = *j->text++;
    const char *found = memchr(from, c, sizeof from - 1);
    if (found)
        *code = (unsigned char)to[found - from];
    return found || (c == 'u' && by_number(j, code));
}

bool tr_json_string(struct tr_json *j, char *to, size_t room)
{
    size_t n = 0;
    if (!tr_json_sign(j, '"'))
        return false;
    while (j->text < j->end && *j->text != '"') {
        uint8_t sign[TR_UTF8_MOST] = { (uint8_t)*j->text++ };
        size_t length = 1;
        uint32_t code;
        if (*sign < ' ' || (*sign == '\\' && !escaped(j, &code)))
            return false;
        if (*sign == '\\')
            length = (size_t)tr_utf8_put(sign, code);
        if (n + length >= room)
            return false;
        memcpy(to + n, sign, length);
        n += length;
    }
    if (j->text == j->end)
        return false;
    j->text++;
    to[n] = 0;
    return true;
}

bool tr_json_whole(struct tr_json *j, int64_t *to)
{
    int64_t value = 0;
    skip_space(j);
    const char *first = j->text;
    for (; j->text < j->end && *j->text >= '0' && *j->text <= '9'; j->text++) {
        if (value >= INT64_MAX / 20 - 1)
            return false;
        value = value * 10 + (*j->text - '0');
    }
    *to = value;
    return j->text > first;
}

/* A string of any length, of which nothing is kept. */
static bool skip_string(struct tr_json *j)
{
    while (j->text < j->end && *j->text != '"')
        if (*j->text++ == '\\' && j->text++ >= j->end)
            return false;
    return j->text < j->end && j->text++;
}

/* A number, true, false or null: how long it is. */
static size_t skip_word(struct tr_json *j)
{
    const char *first = j->text;
    while (j->text < j->end && !memchr(" \t\r\n,]}", *j->text, 7))
        j->text++;
    return (size_t)(j->text - first);
}

bool tr_json_scalar(struct tr_json *j, char *to, size_t room)
{
    skip_space(j);
    if (j->text < j->end && *j->text == '"')
        return tr_json_string(j, to, room);
    const char *first = j->text;
    size_t length = j->text < j->end && strchr("[{", *j->text) ? 0 : skip_word(j);
    if (length == 0 || length >= room)
        return false;
    memcpy(to, first, length);
    to[length] = 0;
    return true;
}

static bool skip(struct tr_json *j, int depth)
{
    if (tr_json_sign(j, '"'))
        return skip_string(j);
    bool object = tr_json_sign(j, '{');
    if (!object && !tr_json_sign(j, '['))
        return skip_word(j) > 0;
    char end = object ? '}' : ']';
    if (depth == DEEPEST)
        return false;
    if (tr_json_sign(j, end))
        return true;
    do {
        bool named = !object || (tr_json_sign(j, '"') && skip_string(j) && tr_json_sign(j, ':'));
        if (!named || !skip(j, depth + 1))
            return false;
    } while (tr_json_sign(j, ','));
    return tr_json_sign(j, end);
}

bool tr_json_skip(struct tr_json *j)
{
    return skip(j, 0);
}
