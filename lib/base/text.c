/* SPDX-License-Identifier: BSD-3-Clause */
/* text.c: answers of any length, and names of files that tell hosts, processes and ranks apart. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_ROOM = 16 << 10, WORD_BYTES = 64 };

bool tt_text_begin(struct tt_text *t)
{
    size_t room = t->length + t->length / 4;
    if (t->length < t->capacity)
        return false;
    room = room < FIRST_ROOM ? FIRST_ROOM : room;
    free(t->bytes);
    *t = (struct tt_text){ malloc(room), room, 0 };
    if (t->bytes == NULL) {
        t->capacity = 0;
        return false;
    }
    t->bytes[0] = '\0';
    return true;
}

void tt_put(struct tt_text *t, const char *format, ...)
{
    size_t room = t->length < t->capacity ? t->capacity - t->length : 0;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(room > 0 ? t->bytes + t->length : NULL, room, format, arguments);
    va_end(arguments);
    t->length += length > 0 ? (size_t)length : 0;
}

int tt_text_distance(const char *a, const char *b)
{
    int row[WORD_BYTES + 1];
    size_t na = strlen(a), nb = strlen(b);
    if (na > WORD_BYTES || nb > WORD_BYTES)
        return 2 * WORD_BYTES;
    for (size_t j = 0; j <= nb; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[nb];
}

void tt_put_json(struct tt_text *t, const char *string)
{
    tt_put(t, "\"");
    for (; *string != '\0'; string++) {
        unsigned char c = (unsigned char)*string;
        if (c == '"' || c == '\\')
            tt_put(t, "\\%c", c);
        else
            tt_put(t, "%c", c < 32 || c > 126 ? ' ' : c);
    }
    tt_put(t, "\"");
}

bool tt_expand_name(const char *pattern, int rank, char *path, size_t bytes)
{
    struct tt_text name = { path, bytes, 0 };
    char host[256] = "";
    for (; *pattern != '\0'; pattern++) {
        char what = *pattern == '%' && (pattern[1] != 'r' || rank >= 0) ? pattern[1] : '\0';
        if (what == 'h' && gethostname(host, sizeof host - 1) != 0)
            return false;
        if (what == 'h')
            tt_put(&name, "%s", host);
        else if (what == 'p')
            tt_put(&name, "%ld", (long)getpid());
        else if (what == 'r')
            tt_put(&name, "%d", rank);
        else
            tt_put(&name, "%c", *pattern);
        pattern += what == 'h' || what == 'p' || what == 'r' || what == '%';
    }
    return name.length > 0 && name.length < bytes;
}
