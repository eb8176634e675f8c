/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c: one sentence for the user, and memory that is there or ends the program. */
#include "training/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_fail(struct tr_error *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return false;
}

static long allocations;

long tr_allocations(void)
{
    return allocations;
}

void *tr_new(size_t count, size_t bytes)
{
    allocations++;
    void *p = calloc(count ? count : 1, bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "tutti-train: there is no memory for %zu times %zu bytes\n", count, bytes);
        exit(1);
    }
    return p;
}

void *tr_grow(void *list, int count, int *room, size_t bytes)
{
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 64;
    void *larger = tr_new((size_t)*room, bytes);
    if (count)
        memcpy(larger, list, (size_t)count * bytes);
    free(list);
    return larger;
}
