/* SPDX-License-Identifier: BSD-3-Clause */
/* link_class.h: what kind of network is between the hosts of a communicator.
 *
 * An algorithm decides the order in which a sum is formed, and so its bits; and what messages cost between
 * hosts decides the algorithm. If that were what a clock says, no second run would give the same bits. So a
 * measurement picks one of a few classes, each of which has costs of its own, in whole numbers; and the
 * bounds between classes lie where networks are not: 100 Mbit/s | 1 Gbit/s | 10 to 50 Gbit/s | 100 Gbit/s
 * and more, and a round trip within a building | within a city | within a country | beyond. */
#ifndef TT_BASE_LINK_CLASS_H
#define TT_BASE_LINK_CLASS_H
#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

enum tt_link_rate { TT_RATE_100M, TT_RATE_1G, TT_RATE_10G, TT_RATE_100G, TT_RATES };
enum tt_link_trip { TT_TRIP_LAN, TT_TRIP_METRO, TT_TRIP_WAN, TT_TRIP_GLOBAL, TT_TRIPS };
enum { TT_LINK_CLASSES = TT_RATES * TT_TRIPS };

struct tt_link_class {
    uint32_t rate, trip; /* enum tt_link_rate, enum tt_link_trip */
};

/* Why the hosts of a communicator are taken to have a network of their class. */
enum tt_link_origin {
    TT_LINK_ASSUMED, /* nobody asks */
    TT_LINK_AWAITED, /* it is to be measured, if there are several hosts */
    TT_LINK_MEASURED,
    TT_LINK_NAMED, /* by the setting `probe` */
    TT_LINK_GIVEN, /* some of its costs are, by a file of rules */
    TT_LINK_ORIGINS
};

/* What is assumed where nothing is known: the class of the default costs. */
struct tt_link_class tt_link_usual(void);
/* The class of a link that carries so many bits a second, one way, and takes so long there and back. Over a
 * long way the eight messages that a pair has under way are all that a round trip carries, whatever the link
 * could. */
struct tt_link_class tt_link_classify(double bits_s, int64_t trip_ns);
/* Of two links the one whose rate is lower, and the one whose trip is longer. */
struct tt_link_class tt_link_worse(struct tt_link_class a, struct tt_link_class b);
/* The slowest trip that still counts as of this kind. */
int64_t tt_link_longest_ns(enum tt_link_trip trip);
/* The rate from which on a link counts as of this kind. */
double tt_link_least_bits_s(enum tt_link_rate rate);

/* Classes are numbered, below TT_LINK_CLASSES. */
static inline uint32_t tt_link_number(struct tt_link_class c)
{
    return c.rate * TT_TRIPS + c.trip;
}
static inline struct tt_link_class tt_link_of(uint32_t number)
{
    return (struct tt_link_class){ number / TT_TRIPS % TT_RATES, number % TT_TRIPS };
}

/* "1g,wan"; of "1g" alone the trip is that of a lan. False if it is no class. */
bool tt_link_parse(const char *text, struct tt_link_class *c);
/* Writes the same. */
void tt_link_put(struct tt_link_class c, struct tt_text *text);
/* Which names there are, for who wrote another one. */
void tt_link_put_legal(struct tt_text *text);

/* Sets what messages cost between hosts to what they cost in this class. */
struct tt_costs;
void tt_link_price(struct tt_link_class c, struct tt_costs *costs);

#endif
