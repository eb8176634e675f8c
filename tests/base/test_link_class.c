/* SPDX-License-Identifier: BSD-3-Clause */
/* test_link_class.c: classes of networks: where their bounds lie, what they are called, what they cost. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/config.h"
#include "base/costs.h"
#include "base/status.h"

static const char *name_of(double bits_s, int64_t trip_ns)
{
    static char name[64];
    struct tt_text text = { name, sizeof name, 0 };
    tt_link_put(tt_link_classify(bits_s, trip_ns), &text);
    return name;
}

/* What a network is called that is measured at a third less than it is, or at a third more. */
Test(link_class, of_networks_that_there_are)
{
    static const struct {
        double bits_s;
        int64_t trip_ns;
        const char *name;
    } networks[] = { { 94e6, 100000, "100m,lan" }, { 940e6, 60000, "1g,lan" }, { 2.35e9, 60000, "1g,lan" },
        { 9.4e9, 40000, "10g,lan" }, { 38e9, 20000, "10g,lan" }, { 47e9, 20000, "10g,lan" },
        { 94e9, 5000, "100g,lan" }, { 380e9, 3000, "100g,lan" }, { 9.4e9, 1000000, "10g,metro" },
        { 940e6, 10000000, "1g,wan" }, { 94e6, 10000000, "100m,wan" } };
    for (size_t i = 0; i < sizeof networks / sizeof networks[0]; i++) {
        double bits_s = networks[i].bits_s;
        int64_t trip_ns = networks[i].trip_ns;
        cr_expect_str_eq(name_of(bits_s, trip_ns), networks[i].name);
        cr_expect_str_eq(name_of(0.75 * bits_s, 4 * trip_ns / 3), networks[i].name);
        cr_expect_str_eq(name_of(1.25 * bits_s, 2 * trip_ns / 3), networks[i].name);
    }
}

Test(link_class, bounds)
{
    cr_expect_str_eq(name_of(0, 0), "100m,lan");
    cr_expect_str_eq(name_of(299e6, 0), "100m,lan");
    cr_expect_str_eq(name_of(300e6, 300000), "1g,lan");
    cr_expect_str_eq(name_of(2999e6, 300001), "1g,metro");
    cr_expect_str_eq(name_of(3e9, 3000000), "10g,metro");
    cr_expect_str_eq(name_of(69e9, 0), "10g,lan");
    cr_expect_str_eq(name_of(70e9, 3000000), "100g,metro");
    cr_expect_str_eq(name_of(1e15, 3000001), "1g,wan", "a pair has eight messages under way");
    cr_expect_str_eq(name_of(1e15, 30000000), "1g,wan");
    cr_expect_str_eq(name_of(1e15, 30000001), "100m,global");
    cr_expect_str_eq(name_of(1e15, INT64_MAX), "100m,global");
    cr_expect_eq(tt_link_longest_ns(TT_TRIP_LAN), 300000);
    cr_expect_eq(tt_link_least_bits_s(TT_RATE_10G), 3e9);
}

Test(link_class, names)
{
    struct tt_link_class c;
    for (uint32_t number = 0; number < TT_LINK_CLASSES; number++) {
        char name[64] = "";
        tt_link_put(tt_link_of(number), &(struct tt_text){ name, sizeof name, 0 });
        cr_expect(tt_link_parse(name, &c), "%s", name);
        cr_expect_eq(tt_link_number(c), number, "%s", name);
    }
    cr_assert(tt_link_parse("10g", &c));
    cr_expect(c.rate == TT_RATE_10G && c.trip == TT_TRIP_LAN);
    static const char *const bad[] = { "", ",", "1", "1G", "10", "1g,", "1g,far", "1g,wan,", ",wan", "wan",
        "1g wan", "1gg", "1g,wann", "100" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        cr_expect_not(tt_link_parse(bad[i], &c), "\"%s\"", bad[i]);
}

Test(link_class, the_worse_of_two)
{
    struct tt_link_class slow = { TT_RATE_100M, TT_TRIP_LAN }, far = { TT_RATE_10G, TT_TRIP_WAN };
    struct tt_link_class c = tt_link_worse(slow, far), d = tt_link_worse(far, slow);
    cr_expect(c.rate == TT_RATE_100M && c.trip == TT_TRIP_WAN);
    cr_expect(d.rate == TT_RATE_100M && d.trip == TT_TRIP_WAN);
}

/* The usual class is what is assumed without a measurement, and no class costs more than is legal. */
Test(link_class, costs)
{
    struct tt_costs standard = tt_costs_default(), priced = standard;
    tt_link_price(tt_link_usual(), &priced);
    cr_expect_eq(memcmp(&priced, &standard, sizeof priced), 0);
    for (uint32_t number = 0; number < TT_LINK_CLASSES; number++) {
        struct tt_link_class c = tt_link_of(number);
        tt_link_price(c, &priced);
        struct tt_costs bounded = priced;
        tt_costs_bound(&bounded);
        cr_expect_eq(memcmp(&priced, &bounded, sizeof priced), 0, "class %u", number);
        cr_expect_leq(
            priced.link, priced.byte[TT_AWAY], "a rank is faster than its host in class %u", number);
        cr_expect_eq(memcmp(priced.latency, standard.latency, 2 * sizeof(uint64_t)), 0);
    }
}

/* Femtoseconds of a byte at 94 % of the line, and of a message that comes after half a round trip. */
Test(link_class, costs_of_each)
{
    static const uint64_t link[TT_RATES] = { 85000000, 8500000, 320000, 85000 },
                          byte[TT_RATES] = { 85000000, 8500000, 500000, 100000 },
                          message[TT_RATES] = { 3000000000, 3000000000, 3000000000, 1000000000 },
                          latency[TT_TRIPS] = { 4000000000, 500000000000, 5000000000000, 50000000000000 };
    struct tt_costs priced = tt_costs_default();
    for (uint32_t number = 0; number < TT_LINK_CLASSES; number++) {
        struct tt_link_class c = tt_link_of(number);
        tt_link_price(c, &priced);
        cr_expect_eq(priced.link, link[c.rate], "class %u", number);
        cr_expect_eq(priced.byte[TT_AWAY], byte[c.rate], "class %u", number);
        cr_expect_eq(priced.message[TT_AWAY], message[c.rate], "class %u", number);
        cr_expect_eq(priced.latency[TT_AWAY], latency[c.trip], "class %u", number);
    }
}

/* Who is told what the network costs does not measure it; what is inside a host is no part of it. */
Test(link_class, costs_that_are_given)
{
    static const struct {
        const char *cost;
        enum tt_link_origin from;
    } cases[] = { { "latency_away", TT_LINK_GIVEN }, { "byte_away", TT_LINK_GIVEN },
        { "message_away", TT_LINK_GIVEN }, { "link", TT_LINK_GIVEN }, { "message_far", TT_LINK_AWAITED } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_costs costs = tt_costs_default();
        costs.network_from = TT_LINK_AWAITED;
        cr_assert(tt_costs_set(&costs, cases[i].cost, 1), "%s", cases[i].cost);
        cr_expect_eq(costs.network_from, cases[i].from, "%s", cases[i].cost);
    }
}

/* What a rank says of it by a wire may be anything. */
Test(link_class, bounded)
{
    struct tt_costs costs = tt_costs_default();
    costs.network.rate = TT_RATES;
    tt_costs_bound(&costs);
    cr_expect_eq(costs.network.rate, TT_RATE_10G);
    costs.network.trip = 77;
    tt_costs_bound(&costs);
    cr_expect_eq(costs.network.trip, TT_TRIP_LAN);
    costs.network_from = TT_LINK_ORIGINS;
    tt_costs_bound(&costs);
    cr_expect_eq(costs.network_from, TT_LINK_ASSUMED);
}

Test(link_class, a_setting_that_is_none)
{
    struct tt_settings settings;
    cr_expect_eq(tt_settings_read(&settings, "probe=1g,moon"), TUTTI_INVALID_ARGUMENT);
    cr_expect(
        strstr(tt_last_error(), "probe") && strstr(tt_last_error(), "1g,moon") &&
            strstr(tt_last_error(), "auto, off, 100m, 1g, 10g, 100g; and behind a comma lan, metro, wan, "
                                    "global"),
        "%s", tt_last_error());
    char table[8192];
    cr_assert_eq(tt_settings_read(&settings, "probe=100m"), TUTTI_OK);
    tt_settings_print(&settings, table, sizeof table);
    cr_expect(strstr(table, "probe=100m,lan "), "%s", table);
    cr_assert_eq(tt_settings_read(&settings, "probe=off"), TUTTI_OK);
    tt_settings_print(&settings, table, sizeof table);
    cr_expect(strstr(table, "probe=off "), "%s", table);
}
