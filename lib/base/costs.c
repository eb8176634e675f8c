/* SPDX-License-Identifier: BSD-3-Clause */
/* costs.c: the names of the costs, their defaults and bounds, and their text for people. */
#include "base/costs.h"

#include <math.h>
#include <string.h>

#define COST(field) offsetof(struct tt_costs, field)
static const struct {
    const char *name, *unit, *meaning;
    size_t offset;
    uint64_t standard, most; /* in femtoseconds, or bytes */
} rows[] = {
    { "latency_near", "ps", "until a rank of the same cache domain sees a message", COST(latency[TT_NEAR]),
        100000000, 1000000000000 },
    { "latency_far", "ps", "until a rank of another cache domain sees a message", COST(latency[TT_FAR]),
        250000000, 1000000000000 },
    { "byte_near", "fs", "to read what a rank of the same cache domain wrote", COST(byte[TT_NEAR]), 20000,
        10000000 },
    { "byte_far", "fs", "to read what a rank of another cache domain wrote", COST(byte[TT_FAR]), 50000,
        10000000 },
    { "fold_byte", "fs", "to combine operands: each of them, and the result", COST(fold), 12000, 10000000 },
    { "copy_byte", "fs", "to copy within a rank", COST(copy), 30000, 10000000 },
    { "message_near", "ps", "of work at each end of a message in a cache domain", COST(message[TT_NEAR]),
        40000000, 1000000000000 },
    { "message_far", "ps", "of work at each end of a message to another one", COST(message[TT_FAR]), 40000000,
        1000000000000 },
    { "latency_away", "ps", "until a rank of another host sees a message", COST(latency[TT_AWAY]), 4000000000,
        1000000000000000 },
    { "byte_away", "fs", "of a rank to other hosts, and to read what comes from them", COST(byte[TT_AWAY]),
        500000, 1000000000 },
    { "message_away", "ps", "of work at each end of a message to another host", COST(message[TT_AWAY]),
        3000000000, 1000000000000 },
    { "link", "fs",
        "of all ranks of a host together to others, and as much from them (inf: as much as they all can)",
        COST(link), 320000, 1000000000 },
    { "switch", "ps", "until another rank goes on, where ranks share a core", COST(context_switch),
        4000000000, 1000000000000 },
    { "eager", "bytes", "and less are copied by their sender, who need not wait", COST(eager), 1024,
        1 << 20 },
    { "staged_call", "ps", "of a collective on CUDA streams by the host's memory", COST(staged.call),
        30000000000, 10000000000000 },
    { "staged_byte", "fs", "of its vector, for each rank", COST(staged.byte), 52500, 10000000 },
    { "cells_call", "ps", "of one that a leader's kernel does, by pinned memory of all ranks",
        COST(cells.call), 35000000000, 10000000000000 },
    { "cells_byte", "fs", "of its vector, for each rank", COST(cells.byte), 66800, 10000000 },
    { "pads_call", "ps", "of one by pads in the device's memory, for each rank", COST(pads.call),
        145000000000, 10000000000000 },
    { "pads_byte", "fs", "of its vector, for each rank", COST(pads.byte), 1590, 10000000 },
    { "mapped_call", "ps", "of one in memory that the leader has mapped", COST(mapped.call), 15000000000,
        10000000000000 },
    { "mapped_byte", "fs", "of its vector, for each rank", COST(mapped.byte), 515, 10000000 },
    { "spin_call", "ps", "of one that kernels of several devices do, for each rank", COST(spin.call),
        1500000000, 10000000000000 },
    { "spin_byte", "fs", "of its vector", COST(spin.byte), 5000, 10000000 },
};
#undef COST
enum { ROWS = sizeof rows / sizeof rows[0], CORES_MOST = 1 << 24 };

static uint64_t *at(struct tt_costs *costs, int row)
{
    return (uint64_t *)(void *)((char *)costs + rows[row].offset);
}

static bool is_of_network(const struct tt_costs *costs, const uint64_t *cost)
{
    return cost == &costs->latency[TT_AWAY] || cost == &costs->byte[TT_AWAY] ||
           cost == &costs->message[TT_AWAY] || cost == &costs->link;
}

struct tt_costs tt_costs_default(void)
{
    struct tt_costs costs = { .cores = CORES_MOST, .hosts = 1, .network = tt_link_usual() };
    for (int i = 0; i < ROWS; i++)
        *at(&costs, i) = rows[i].standard;
    return costs;
}

void tt_costs_bound(struct tt_costs *costs)
{
    for (int i = 0; i < ROWS; i++)
        if (*at(costs, i) > rows[i].most)
            *at(costs, i) = rows[i].most;
    if (costs->cores == 0 || costs->cores > CORES_MOST)
        costs->cores = CORES_MOST;
    if (costs->hosts == 0 || costs->hosts > CORES_MOST)
        costs->hosts = 1;
    if (costs->network.rate >= TT_RATES || costs->network.trip >= TT_TRIPS ||
        costs->network_from >= TT_LINK_ORIGINS) {
        costs->network = tt_link_usual();
        costs->network_from = TT_LINK_ASSUMED;
    }
}

bool tt_costs_set(struct tt_costs *costs, const char *name, double value)
{
    for (int i = 0; i < ROWS; i++) {
        double exact = value;
        if (strcmp(rows[i].name, name) != 0)
            continue;
        if (strcmp(rows[i].unit, "ps") == 0)
            exact = 1e6 * value;
        else if (strcmp(rows[i].unit, "fs") == 0)
            exact = 1e6 / value;
        if (!(exact >= 0 && exact <= (double)rows[i].most))
            return false;
        *at(costs, i) = (uint64_t)(exact + 0.5);
        if (is_of_network(costs, at(costs, i)))
            costs->network_from = TT_LINK_GIVEN;
        return true;
    }
    return false;
}

void tt_costs_tell(const struct tt_costs *costs, struct tt_text *text)
{
    struct tt_costs c = *costs;
    for (int i = 0; i < ROWS; i++) {
        double value = (double)*at(&c, i);
        tt_put(text, "%s\t", rows[i].name);
        if (strcmp(rows[i].unit, "ps") == 0)
            tt_put(text, "%.1f ns", 1e-6 * value);
        else if (strcmp(rows[i].unit, "fs") == 0) /* of a byte */
            tt_put(text, value > 1e7 ? "%.3f GB/s" : "%.1f GB/s", value > 0 ? 1e6 / value : INFINITY);
        else
            tt_put(text, "%.0f bytes", value);
        tt_put(text, " %s\n", rows[i].meaning);
    }
}

void tt_costs_tell_network(const struct tt_costs *costs, struct tt_text *text)
{
    static const char *const origins[TT_LINK_ORIGINS] = { [TT_LINK_ASSUMED] = "assumed",
        [TT_LINK_AWAITED] = "assumed; several hosts measure it",
        [TT_LINK_MEASURED] = "measured",
        [TT_LINK_NAMED] = "as the setting probe says",
        [TT_LINK_GIVEN] = "but for the costs that rules say" };
    tt_link_put(costs->network, text);
    tt_put(text, ", %s", origins[costs->network_from]);
}

unsigned tt_size_class(uint64_t bytes)
{
    if (bytes < 2)
        return (unsigned)bytes;
    unsigned power = 63 - (unsigned)__builtin_clzll(bytes);
    return 2 * power + (unsigned)(bytes >> (power - 1) & 1);
}

uint64_t tt_size_of_class(unsigned size)
{
    return size < 2 ? size : (uint64_t)(2 + size % 2) << (size / 2 - 1);
}
