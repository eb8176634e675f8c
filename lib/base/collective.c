/* SPDX-License-Identifier: BSD-3-Clause */
/* collective.c: the table of collectives. Adding one is a row here, a generator, and a public function. */
#include "base/collective.h"

#include <string.h>

#include "base/text.h"

const struct tt_collective_row tt_collectives[TT_COLLECTIVES] = {
    [TT_ALL_REDUCE] = { .name = "all_reduce",
        .in = TT_REACH_ALL,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_REDUCED,
        .in_place = TT_IN_PLACE_SAME,
        .bus = TT_BUS_TWO_SHARES },
    [TT_REDUCE_SCATTER] = { .name = "reduce_scatter",
        .in = TT_REACH_ALL,
        .out = TT_REACH_OWN,
        .result = TT_RESULT_REDUCED,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_ALL_GATHER] = { .name = "all_gather",
        .in = TT_REACH_OWN,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_OWNER,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_BROADCAST] = { .name = "broadcast",
        .in = TT_REACH_ROOT,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_ROOT,
        .in_place = TT_IN_PLACE_SAME,
        .bus = TT_BUS_ONE,
        .rooted = true },
    [TT_REDUCE] = { .name = "reduce",
        .in = TT_REACH_ALL,
        .out = TT_REACH_ROOT,
        .result = TT_RESULT_REDUCED,
        .in_place = TT_IN_PLACE_SAME,
        .bus = TT_BUS_ONE,
        .rooted = true },
    [TT_BARRIER] = { .name = "barrier",
        .in = TT_REACH_ALL,
        .out = TT_REACH_NONE,
        .result = TT_RESULT_NONE,
        .in_place = TT_IN_PLACE_NEVER,
        .bus = TT_BUS_ONE },
    [TT_ALL_GATHER_V] = { .name = "all_gather_v",
        .in = TT_REACH_OWN,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_OWNER,
        .counts = TT_COUNTS_SHARED,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_ALL_TO_ALL] = { .name = "all_to_all",
        .in = TT_REACH_ALL,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_EXCHANGED,
        .in_place = TT_IN_PLACE_SAME,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_GATHER] = { .name = "gather",
        .in = TT_REACH_OWN,
        .out = TT_REACH_ROOT,
        .result = TT_RESULT_OWNER,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .rooted = true,
        .blocks = true },
    [TT_SCATTER] = { .name = "scatter",
        .in = TT_REACH_ROOT,
        .out = TT_REACH_OWN,
        .result = TT_RESULT_ROOT,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .rooted = true,
        .blocks = true },
    [TT_REDUCE_SCATTER_V] = { .name = "reduce_scatter_v",
        .in = TT_REACH_ALL,
        .out = TT_REACH_OWN,
        .result = TT_RESULT_REDUCED,
        .counts = TT_COUNTS_SHARED,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_ALL_TO_ALL_V] = { .name = "all_to_all_v",
        .in = TT_REACH_ALL,
        .out = TT_REACH_ALL,
        .result = TT_RESULT_EXCHANGED,
        .counts = TT_COUNTS_OWN,
        .in_place = TT_IN_PLACE_NEVER,
        .bus = TT_BUS_SHARE,
        .blocks = true },
    [TT_GATHER_V] = { .name = "gather_v",
        .in = TT_REACH_OWN,
        .out = TT_REACH_ROOT,
        .result = TT_RESULT_OWNER,
        .counts = TT_COUNTS_OWN,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .rooted = true,
        .blocks = true },
    [TT_SCATTER_V] = { .name = "scatter_v",
        .in = TT_REACH_ROOT,
        .out = TT_REACH_OWN,
        .result = TT_RESULT_ROOT,
        .counts = TT_COUNTS_OWN,
        .in_place = TT_IN_PLACE_OWN_BLOCK,
        .bus = TT_BUS_SHARE,
        .rooted = true,
        .blocks = true },
    [TT_P2P_SEND] = { .name = "send",
        .in = TT_REACH_ALL,
        .out = TT_REACH_NONE,
        .result = TT_RESULT_NONE,
        .in_place = TT_IN_PLACE_NEVER,
        .bus = TT_BUS_ONE,
        .p2p = true },
    [TT_P2P_RECV] = { .name = "recv",
        .in = TT_REACH_ROOT, /* from this rank itself: what it sends */
        .out = TT_REACH_ALL,
        .result = TT_RESULT_ROOT,
        .in_place = TT_IN_PLACE_NEVER,
        .bus = TT_BUS_ONE,
        .p2p = true },
};

enum tt_collective tt_collective_find(const char *name)
{
    int c = 0;
    while (c < TT_COLLECTIVES && strcmp(tt_collectives[c].name, name) != 0)
        c++;
    return (enum tt_collective)c;
}

const char *tt_collective_nearest(const char *name)
{
    const char *nearest = tt_collectives[0].name;
    for (int c = 1; c < TT_COLLECTIVES; c++)
        if (tt_text_distance(name, tt_collectives[c].name) < tt_text_distance(name, nearest))
            nearest = tt_collectives[c].name;
    return nearest;
}

bool tt_reach_has(enum tt_reach reach, int n, int me, int root, uint32_t chunks, uint32_t chunk)
{
    if (chunk >= chunks)
        return false;
    switch (reach) {
    case TT_REACH_NONE:
        return false;
    case TT_REACH_OWN:
        return (int)((uint64_t)chunk * (uint64_t)n / chunks) == me;
    case TT_REACH_ALL:
        return true;
    case TT_REACH_ROOT:
        return me == root;
    }
    return false;
}
