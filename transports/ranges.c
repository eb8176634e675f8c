/* SPDX-License-Identifier: BSD-3-Clause */
/* ranges.c: first fit over the gaps between taken intervals. The array holds what is taken, not what is
 * free, so neighbours need no merging and a range that is given back leaves no trace. */
#include "transports/ranges.h"

#include <stdlib.h>
#include <string.h>

static bool make_room(struct tt_ranges *r)
{
    if (r->count < r->room)
        return true;
    size_t room = r->room > 0 ? 2 * r->room : 16;
    struct tt_range *taken = realloc(r->taken, room * sizeof *taken);
    if (taken == NULL)
        return false;
    r->taken = taken;
    r->room = room;
    return true;
}

enum tt_ranges_result tt_ranges_take(struct tt_ranges *r, uint64_t bytes, uint64_t align, uint64_t *at)
{
    uint64_t start = 0;
    size_t i = 0;
    if (bytes > r->end)
        return TT_RANGES_FULL;
    for (; i < r->count && r->taken[i].at < start + bytes; i++)
        start = (r->taken[i].at + r->taken[i].bytes + align - 1) & ~(align - 1);
    if (start > r->end - bytes)
        return TT_RANGES_FULL;
    if (!make_room(r))
        return TT_RANGES_NO_MEMORY;
    memmove(&r->taken[i + 1], &r->taken[i], (r->count - i) * sizeof *r->taken);
    r->taken[i] = (struct tt_range){ start, bytes };
    r->count++;
    *at = start;
    return TT_RANGES_TAKEN;
}

bool tt_ranges_give(struct tt_ranges *r, uint64_t at, uint64_t *bytes)
{
    for (size_t i = 0; i < r->count; i++) {
        if (r->taken[i].at != at)
            continue;
        *bytes = r->taken[i].bytes;
        r->count--;
        memmove(&r->taken[i], &r->taken[i + 1], (r->count - i) * sizeof *r->taken);
        return true;
    }
    return false;
}
