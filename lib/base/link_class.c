/* SPDX-License-Identifier: BSD-3-Clause */
/* link_class.c: the classes of networks, their bounds, and what messages cost in each.
 *
 * Costs, in femtoseconds of a byte and of a message:
 *
 * 100m, 1g   Of a frame of 1,538 bytes on the wire, with its gap, TCP carries 1,448: 94 % of the line, which
 *            one rank fills alone.
 * 10g        As the machine with two cores on which the default costs were measured: 2 GB/s of a rank, which
 *            is what one connection carries there, and 25 Gbit/s of a host. What is best hardly
 *            changes between 10 and 50 Gbit/s.
 * 100g       The same 94 % of the line for a host, and 10 GB/s for a rank, as one queue of a card carries;
 *            its messages go past the kernel, for no connection of TCP is as fast, and so cost a third.
 *
 * A message is seen after half a round trip, of the one in the middle of a class: 1, 10 or 100 ms. Within a
 * lan the way costs less than the work at its ends, and the default stays. */
#include "base/link_class.h"

#include <string.h>

#include "base/costs.h"

static const struct {
    const char *name;
    double least_bits_s;
    uint64_t byte, link, message;
} rates[TT_RATES] = {
    { "100m", 0, 85000000, 85000000, 3000000000 },
    { "1g", 0.3e9, 8500000, 8500000, 3000000000 },
    { "10g", 3e9, 500000, 320000, 3000000000 },
    { "100g", 70e9, 100000, 85000, 1000000000 },
};

static const struct {
    const char *name;
    int64_t longest_ns;
    uint64_t latency;
    enum tt_link_rate most; /* that eight messages a round trip carry */
} trips[TT_TRIPS] = {
    { "lan", 300000, 4000000000, TT_RATE_100G },
    { "metro", 3000000, 500000000000, TT_RATE_100G },
    { "wan", 30000000, 5000000000000, TT_RATE_1G },
    { "global", INT64_MAX, 50000000000000, TT_RATE_100M },
};

struct tt_link_class tt_link_usual(void)
{
    return (struct tt_link_class){ TT_RATE_10G, TT_TRIP_LAN };
}

int64_t tt_link_longest_ns(enum tt_link_trip trip)
{
    return trips[trip].longest_ns;
}

double tt_link_least_bits_s(enum tt_link_rate rate)
{
    return rates[rate].least_bits_s;
}

struct tt_link_class tt_link_classify(double bits_s, int64_t trip_ns)
{
    struct tt_link_class c = { TT_RATE_100M, TT_TRIP_LAN };
    while (c.rate + 1 < TT_RATES && bits_s >= rates[c.rate + 1].least_bits_s)
        c.rate++;
    while (trip_ns > trips[c.trip].longest_ns)
        c.trip++;
    if (c.rate > trips[c.trip].most)
        c.rate = trips[c.trip].most;
    return c;
}

struct tt_link_class tt_link_worse(struct tt_link_class a, struct tt_link_class b)
{
    return (struct tt_link_class){ a.rate < b.rate ? a.rate : b.rate, a.trip > b.trip ? a.trip : b.trip };
}

bool tt_link_parse(const char *text, struct tt_link_class *c)
{
    size_t length = strcspn(text, ",");
    const char *trip = text[length] == ',' ? text + length + 1 : trips[TT_TRIP_LAN].name;
    for (uint32_t number = 0; number < TT_LINK_CLASSES; number++) {
        struct tt_link_class each = tt_link_of(number);
        const char *rate = rates[each.rate].name;
        if (strlen(rate) != length || strncmp(rate, text, length) != 0 ||
            strcmp(trips[each.trip].name, trip) != 0)
            continue;
        *c = each;
        return true;
    }
    return false;
}

void tt_link_put(struct tt_link_class c, struct tt_text *text)
{
    tt_put(text, "%s,%s", rates[c.rate].name, trips[c.trip].name);
}

void tt_link_put_legal(struct tt_text *text)
{
    for (int rate = 0; rate < TT_RATES; rate++)
        tt_put(text, "%s%s", rate > 0 ? ", " : "", rates[rate].name);
    tt_put(text, "; and behind a comma");
    for (int trip = 0; trip < TT_TRIPS; trip++)
        tt_put(text, "%s %s", trip > 0 ? "," : "", trips[trip].name);
}

void tt_link_price(struct tt_link_class c, struct tt_costs *costs)
{
    costs->byte[TT_AWAY] = rates[c.rate].byte;
    costs->link = rates[c.rate].link;
    costs->message[TT_AWAY] = rates[c.rate].message;
    costs->latency[TT_AWAY] = trips[c.trip].latency;
}
