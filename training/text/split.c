/* SPDX-License-Identifier: BSD-3-Clause */
/* split.c: words as GPT-2 has them (Radford et al. 2019, encoder.py), by the first of these that fits:
 *
 *     's|'t|'re|'ve|'m|'ll|'d    what is left out in English
 *     ?\p{L}+                    a space, if there is one, and letters
 *     ?\p{N}+                    the same of numbers
 *     ?[^\s\p{L}\p{N}]+          and of other signs
 *     \s+(?!\S)                  white space, but for the last one, which begins the next word
 *     \s+
 */
#include "training/text/split.h"

#include "training/text/unicode.h"

#include <string.h>

struct character {
    int64_t length;
    enum tr_class class;
};

static struct character character_at(const uint8_t *text, int64_t count)
{
    uint32_t code;
    int length = tr_utf8_next(text, count, &code);
    if (length <= 0)
        return (struct character){ 1, TR_OTHER };
    return (struct character){ length, tr_class_of_code(code) };
}

/* How many bytes from the beginning on are of this class. */
static int64_t run(const uint8_t *text, int64_t count, enum tr_class class)
{
    int64_t at = 0;
    while (at < count) {
        struct character c = character_at(text + at, count - at);
        if (c.class != class)
            break;
        at += c.length;
    }
    return at;
}

static int64_t contraction(const uint8_t *text, int64_t count)
{
    static const char *const all[] = { "'s", "'t", "'re", "'ve", "'m", "'ll", "'d" };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        size_t length = strlen(all[i]);
        if (count >= (int64_t)length && !memcmp(text, all[i], length))
            return (int64_t)length;
    }
    return 0;
}

/* The last one stays for the next word, unless it is all there is, or the text ends. */
static int64_t white_space(const uint8_t *text, int64_t count)
{
    int64_t at = 0, last = 0;
    while (at < count) {
        struct character c = character_at(text + at, count - at);
        if (c.class != TR_SPACE)
            break;
        last = c.length;
        at += last;
    }
    return at == count || at == last ? at : at - last;
}

int64_t tr_word(const uint8_t *text, int64_t count)
{
    int64_t length = contraction(text, count), space = count > 1 && *text == ' ';
    if (length)
        return length;
    struct character c = character_at(text + space, count - space);
    if (c.class == TR_SPACE)
        return white_space(text, count);
    return space + run(text + space, count - space, c.class);
}
