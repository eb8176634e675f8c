/* SPDX-License-Identifier: BSD-3-Clause */
/* write.c: text as it comes. A character may come in several tokens, and a terminal shows none in halves. */
#include "training/sample/sample.h"

#include "training/text/unicode.h"

#include <string.h>

static void put(struct tr_writer *w, int from_held, const char *instead)
{
    if (instead)
        fputs(instead, w->to);
    else
        fwrite(w->held, 1, (size_t)from_held, w->to);
    w->n -= from_held;
    memmove(w->held, w->held + from_held, (size_t)w->n);
}

bool tr_write_text(struct tr_writer *w, const uint8_t *bytes, int64_t count)
{
    static const char unknown[] = "\xEF\xBF\xBD"; /* U+FFFD */
    uint32_t code;
    for (int64_t i = 0; i < count; i++) {
        w->held[w->n++] = bytes[i];
        for (int length; w->n > 0 && (length = tr_utf8_next(w->held, w->n, &code)) != TR_UTF8_CUT;)
            put(w, length > 0 ? length : 1, length > 0 ? NULL : unknown);
    }
    return fflush(w->to) == 0;
}

bool tr_write_end(struct tr_writer *w)
{
    static const uint8_t newline = '\n'; /* ends what is held, too */
    return tr_write_text(w, &newline, 1);
}
