/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c: one sentence for the user, and memory that is there or ends the program. */
#include "training/error.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tr_fail(struct tr_error *e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    e->n_offers = 0;
    return false;
}

const char *tr_why(const tutti_comm *comm)
{
    const char *ended = tutti_get_last_error(comm);
    return *ended ? ended : tutti_get_last_error(NULL);
}

bool tr_offer(struct tr_error *e, const char *option, long value)
{
    struct tr_offer *o = e->n_offers ? &e->offers[e->n_offers - 1] : NULL;
    if (!o || strcmp(o->option, option)) {
        if (e->n_offers == TR_OFFERS)
            return false;
        o = &e->offers[e->n_offers++];
        *o = (struct tr_offer){ .option = option };
    }
    if (o->n < TR_OFFERED)
        o->values[o->n++] = value;
    return false;
}

bool tr_offer_divisors(struct tr_error *e, const char *option, long n)
{
    for (long i = 1; i <= n; i++)
        if (n % i == 0)
            tr_offer(e, option, i);
    return false;
}

static atomic_long allocations; /* ranks may be threads */

long tr_allocations(void)
{
    return atomic_load(&allocations);
}

void *tr_new(size_t count, size_t bytes)
{
    atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
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
