/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.c: numbers and sizes as users write them. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/config.h"

/* The digits at *text; moves *text behind them. */
static bool parse_digits(const char **text, uint64_t *value)
{
    const char *at = *text;
    uint64_t sum = 0;
    if (!isdigit((unsigned char)*at))
        return false;
    for (; isdigit((unsigned char)*at); at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (sum > (UINT64_MAX - digit) / 10)
            return false;
        sum = sum * 10 + digit;
    }
    *text = at;
    *value = sum;
    return true;
}

bool tt_parse_number(const char *text, uint64_t *value)
{
    uint64_t number;
    if (!parse_digits(&text, &number) || *text != 0)
        return false;
    *value = number;
    return true;
}

/* Millionths of the fraction at *text, as ".5"; false if a dot has no digit behind it. */
static bool parse_fraction(const char **text, uint64_t *millionths)
{
    uint64_t unit = 100000;
    *millionths = 0;
    if (**text != '.')
        return true;
    const char *first = ++*text;
    for (; isdigit((unsigned char)**text); ++*text, unit /= 10)
        *millionths += unit * (uint64_t)(**text - '0');
    return *text > first;
}

bool tt_parse_bytes(const char *text, uint64_t *value)
{
    static const char suffixes[] = "KMGT";
    uint64_t number, millionths;
    if (!parse_digits(&text, &number) || !parse_fraction(&text, &millionths))
        return false;
    const char *suffix = *text != 0 ? strchr(suffixes, toupper((unsigned char)*text)) : NULL;
    if (!suffix) {
        if (*text == 0 && millionths == 0)
            *value = number;
        return *text == 0 && millionths == 0;
    }
    int shift = 10 * (int)(suffix - suffixes + 1);
    text++;
    if (*text != 0 && strcasecmp(text, "B") != 0 && strcasecmp(text, "iB") != 0)
        return false;
    if (number > UINT64_MAX >> shift)
        return false;
    *value = (number << shift) + (millionths << shift) / 1000000;
    return true;
}
