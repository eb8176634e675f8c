/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sim.c: the simulator as a transport: it passes the suite that all pass, keeps time, and catches
 * callers that break the contract. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "transport_suite.h"
#include "transports/sim/sim.h"

static struct {
    struct tt_sim *world;
    uint64_t seed;
    bool copies_only;
} suite;

static void join_new_world(
    const struct tt_sim_params *sim, const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    uint8_t *addresses = calloc((size_t)params->n, TT_ADDRESS_BYTES);
    if (suite.world != NULL)
        tt_sim_destroy(suite.world);
    cr_assert_eq(tt_sim_create(sim, &suite.world), TUTTI_OK);
    tt_sim_join(suite.world);
    for (int r = 0; r < params->n; r++) {
        struct tt_endpoint_params mine = *params;
        mine.me = r;
        mine.map = mine.map && !suite.copies_only;
        cr_assert_eq(tt_sim_transport.open(&mine, addresses + r * TT_ADDRESS_BYTES, &endpoints[r]), TUTTI_OK);
    }
    for (int r = 0; r < params->n; r++)
        cr_assert_eq(tt_sim_transport.connect(endpoints[r], addresses), TUTTI_OK);
    free(addresses);
}

static void make(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    struct tt_sim_params sim = { .n = params->n, .seed = suite.seed };
    sim.delay_ns = 100;
    sim.kib_ns = 50;
    sim.jitter_ns = 1000;
    sim.reorder_percent = sim.split_percent = 50;
    sim.grant_percent = 70;
    sim.freeze_percent = 10;
    sim.freeze_ns = 3000;
    join_new_world(&sim, params, endpoints);
}

static void advance(void)
{
    int rank;
    tt_sim_step(suite.world, &rank);
}

static void leave(void)
{
    tt_sim_destroy(suite.world);
    suite.world = NULL;
}

static void run_suite(bool copies_only)
{
    struct transport_suite s = {
        .transport = &tt_sim_transport, .lines = TT_SLOTS, .make = make, .advance = advance
    };
    s.memory[0] = malloc(SUITE_MEMORY_BYTES);
    s.paths = copies_only ? 1 << TT_PATH_INLINE | 1 << TT_PATH_COPIED : 0;
    suite.copies_only = copies_only;
    for (suite.seed = 1; suite.seed <= 5; suite.seed++)
        for (int i = 0; i < transport_case_count; i++) {
            /* These reuse memory that a real transport would copy, and a world that maps all of it reads. */
            bool reuses = strcmp(transport_cases[i].name, "left") == 0 ||
                          strcmp(transport_cases[i].name, "classes") == 0;
            if (reuses && !copies_only)
                continue;
            s.wrong[0] = '\0';
            transport_cases[i].run(&s);
            cr_expect_str_empty(s.wrong, "%s: %s", transport_cases[i].name, s.wrong);
            cr_expect_str_empty(
                tt_sim_error(suite.world), "%s: %s", transport_cases[i].name, tt_sim_error(suite.world));
        }
    leave();
    free(s.memory[0]);
}

Test(sim, the_suite_of_all_transports)
{
    run_suite(false);
}

Test(sim, the_suite_with_copies_only)
{
    run_suite(true);
}

/* --- Time, parts and errors, on two ranks with messages of `bytes`. */

enum { BYTES = 4096 };
static uint8_t memory[BYTES];
static struct tt_layout layout;

static struct tt_view view(void)
{
    tt_layout_even(&layout, BYTES / 8, 1, 1, 8);
    return (struct tt_view){ .layout = &layout, .space = { .base = (uintptr_t)memory }, .nchunks = 1 };
}

static void open_two(const struct tt_sim_params *sim, struct tt_endpoint **e)
{
    struct tt_endpoint_params params = { .n = 2, .slot_bytes = BYTES, .map = true };
    int rank;
    join_new_world(sim, &params, e);
    for (int r = 0; r < 2; r++)
        cr_assert(tt_sim_step(suite.world, &rank));
}

static bool post(struct tt_endpoint *e, uint64_t number)
{
    struct tt_message m = { .number = number, .bytes = BYTES, .source = view() };
    return link_send(tt_link_to(e, TT_CLASS_COLLECTIVE, 1), &m);
}

static uint64_t available(struct tt_endpoint *e, uint64_t number)
{
    struct tt_arrival a;
    struct tt_view like = view();
    return link_arrived(tt_link_to(e, TT_CLASS_COLLECTIVE, 0), number, &like, &a) ? a.available : 0;
}

Test(sim, parts_come_one_by_one_in_whole_elements)
{
    int several = 0;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct tt_endpoint *e[2];
        struct tt_sim_params sim = { .n = 2, .seed = seed, .delay_ns = 100, .split_percent = 100 };
        int rank, parts = 0;
        open_two(&sim, e);
        cr_assert(post(e[0], 5));
        cr_expect_eq(available(e[1], 5), 0, "nothing is there before its time");
        for (uint64_t before = 0, now; before < BYTES; before = now, parts++) {
            cr_assert(tt_sim_step(suite.world, &rank));
            cr_expect_eq(rank, 1);
            now = available(e[1], 5);
            cr_expect(now > before && now <= BYTES && now % 8 == 0);
        }
        several += parts > 1;
        cr_expect_not(tt_sim_step(suite.world, &rank));
    }
    leave();
    cr_expect_gt(several, 40);
}

Test(sim, a_frozen_rank_is_named_when_it_wakes)
{
    struct tt_endpoint *e[2];
    struct tt_sim_params sim = { .n = 2, .seed = 1, .delay_ns = 10, .freeze_ns = 100000 };
    int rank;
    open_two(&sim, e);
    cr_assert(post(e[0], 0));
    tt_sim_pause(suite.world, 1);
    cr_expect(tt_sim_frozen(suite.world, 1));
    cr_assert(tt_sim_step(suite.world, &rank));
    cr_expect_eq(rank, 1);
    cr_expect_not(tt_sim_frozen(suite.world, 1));
    cr_expect_eq(available(e[1], 0), BYTES);
    cr_expect_not(tt_sim_step(suite.world, &rank));
    leave();
}

Test(sim, broken_contracts_are_told)
{
    struct tt_endpoint *e[2];
    struct tt_sim_params sim = { .n = 2, .seed = 1, .delay_ns = 10 };
    struct tt_message m = { .number = 0, .bytes = BYTES + 8, .source = view() };
    int rank;
    open_two(&sim, e);
    link_send(tt_link_to(e[0], TT_CLASS_COLLECTIVE, 1), &m);
    cr_expect(strstr(tt_sim_error(suite.world), "more than a slot"));
    open_two(&sim, e);
    cr_assert(post(e[0], 3));
    link_release(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), 3);
    cr_expect(strstr(tt_sim_error(suite.world), "released before"));
    open_two(&sim, e);
    cr_assert(post(e[0], 3));
    cr_assert(tt_sim_step(suite.world, &rank));
    link_release(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), 3);
    cr_expect_str_eq(tt_sim_error(suite.world), "");
    cr_assert(tt_sim_step(suite.world, &rank));
    cr_expect_eq(rank, 0);
    cr_assert(post(e[0], 3));
    cr_expect(strstr(tt_sim_error(suite.world), "sent twice"));
    open_two(&sim, e);
    link_sent(tt_link_to(e[0], TT_CLASS_P2P, 1), 9);
    cr_expect(strstr(tt_sim_error(suite.world), "before it was sent"));
    leave();
}

/* The trace depends on the seed alone: not on the compiler, the machine or the addresses. */
Test(sim, the_trace_is_the_same_everywhere)
{
    struct tt_endpoint *e[2];
    struct tt_sim_params sim = { .n = 2, .seed = 2026, .delay_ns = 100, .kib_ns = 10, .jitter_ns = 700 };
    sim.reorder_percent = sim.split_percent = sim.freeze_percent = 30;
    sim.freeze_ns = 500;
    uint64_t next = 0;
    int rank;
    open_two(&sim, e);
    do {
        while (next < 200 && post(e[0], next))
            next++;
        for (uint64_t number = next > TT_SLOTS ? next - TT_SLOTS : 0; number < next; number++)
            if (available(e[1], number) == BYTES)
                link_release(tt_link_to(e[1], TT_CLASS_COLLECTIVE, 0), number);
    } while (tt_sim_step(suite.world, &rank));
    cr_expect_eq(next, 200);
    cr_expect_str_eq(tt_sim_error(suite.world), "");
    cr_expect_eq(tt_sim_hash(suite.world), UINT64_C(0xab231d62ad52fa41), "0x%016llx",
        (unsigned long long)tt_sim_hash(suite.world));
    leave();
}
