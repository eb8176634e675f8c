/* SPDX-License-Identifier: BSD-3-Clause */
/* test_bound.c: on no machine that tutti-sim knows does a prediction say less than what no algorithm can go
 * below (perf/sim/bound.c), however many bytes there are and wherever the ranks are. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "perf/sim/request.h"

static const uint64_t sizes[] = { 0, 4, 100, 4096, 100000, 1 << 20, 64 << 20, (uint64_t)1 << 30,
    (uint64_t)3 << 30, (uint64_t)1 << 40 };
enum { SIZES = sizeof sizes / sizeof sizes[0], SLICE = 1 << 20 };

/* Ranks fill hosts of so many each; -1: the first host has one, the second two, and so on. */
static void place(struct tt_topology *topology, int n, int per_host)
{
    int32_t *host = malloc((size_t)n * sizeof *host);
    cr_assert_not_null(host);
    for (int r = 0, on = 0, h = 0; r < n; r++) {
        host[r] = h;
        if (++on == (per_host < 0 ? h + 1 : per_host)) {
            on = 0;
            h++;
        }
    }
    cr_assert_eq(tt_topology_create(topology, n, host), TUTTI_OK);
    free(host);
}

/* Returns how many algorithms were asked. */
static int expect_above_the_bound(struct sim_request *r, const char *machine, int protocol)
{
    uint64_t bound = sim_bound(r, protocol);
    int asked = 0;
    for (int a = 0; a < tt_algorithm_count; a++) {
        struct tt_prediction p;
        if (tt_algorithms[a].collective != (uint8_t)r->query.collective ||
            tt_algorithm_refuse(&tt_algorithms[a], r->query.requirements) != NULL)
            continue;
        cr_assert_eq(sim_predict(r, a, protocol, 0, NULL, &p), TUTTI_OK);
        cr_expect_geq(p.total, bound,
            "%s %s of %llu bytes, %d ranks on %d hosts, %s: %llu fs, the bound is %llu",
            tt_collectives[r->query.collective].name, tt_algorithms[a].name, (unsigned long long)r->bytes,
            r->n, r->topology.domains, machine, (unsigned long long)p.total, (unsigned long long)bound);
        asked++;
    }
    return asked;
}

static int ask_all(const struct sim_preset *preset, int n, int per_host)
{
    struct sim_request r = { .n = n };
    char why[SIM_WHY_BYTES];
    int asked = 0;
    cr_assert(sim_machine_read(preset->name, &r.machine, why), "%s", why);
    place(&r.topology, n, per_host == 0 ? r.machine.ranks_per_host : per_host);
    for (int i = 0; i < r.machine.protocols_count; i++)
        r.machine.protocols[i].costs.hosts = (uint64_t)r.topology.domains;
    for (int c = 0; c < TT_COLLECTIVES; c++)
        for (int i = 0; i < SIZES && tt_collectives[c].counts == TT_COUNTS_EVEN && !tt_collectives[c].p2p;
             i++) {
            r.bytes = c == TT_BARRIER ? 4 : sizes[i];
            r.query = (struct tt_cost_query){ .collective = (enum tt_collective)c,
                .requirements = { .n = n, .topology = &r.topology },
                .bytes = r.bytes,
                .element_bytes = 4,
                .slot_bytes = SLICE };
            /* by one of the protocols of a machine, another one for each size */
            asked += expect_above_the_bound(&r, preset->name, i % r.machine.protocols_count);
        }
    tt_topology_free(&r.topology);
    return asked;
}

Test(bound, of_few_ranks_is_below_all_predictions)
{
    static const int ranks[] = { 1, 2, 3, 5, 8, 9, 12, 16 };
    int asked = 0;
    for (int m = 0; m < sim_preset_count; m++)
        for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++)
            for (int per_host = -1; per_host <= 1; per_host++)
                asked += ask_all(&sim_presets[m], ranks[i], per_host);
    cr_expect_gt(asked, 20000, "%d", asked);
}

/* Where some are simulated for all. */
Test(bound, of_many_ranks_is_below_all_predictions)
{
    for (int m = 0; m < sim_preset_count; m++) {
        ask_all(&sim_presets[m], 40, 0);
        ask_all(&sim_presets[m], 45, -1);
        ask_all(&sim_presets[m], 64, 1);
    }
}

/* Blocks of any length, also of none: of the root alone, of all but the root, of one host alone. */
Test(bound, of_uneven_blocks_is_below_all_predictions)
{
    static const size_t weights[][3] = { { 1, 0, 0 }, { 0, 1, 1 }, { 0, 0, 5 }, { 1, 1, 1 }, { 7, 1, 3 } };
    static const enum tt_collective forms[] = { TT_ALL_GATHER_V, TT_REDUCE_SCATTER_V, TT_ALL_TO_ALL_V,
        TT_GATHER_V, TT_SCATTER_V };
    size_t counts[6];
    uint64_t starts[6];
    int asked = 0;
    for (int per_host = 1; per_host <= 6; per_host++)
        for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++)
            for (size_t f = 0; f < 2 * sizeof forms / sizeof forms[0]; f++) {
                struct sim_request r = { .n = 6 };
                struct tt_layout blocks;
                char why[SIM_WHY_BYTES];
                cr_assert(sim_machine_read("ethernet", &r.machine, why), "%s", why);
                place(&r.topology, r.n, per_host);
                r.machine.protocols[0].costs.hosts = (uint64_t)r.topology.domains;
                r.machine.protocols[0].costs.copy = 0; /* which would hide what is read */
                for (int i = 0; i < r.n; i++)
                    counts[i] = weights[w][(i + 1) / 3] * (f % 2 == 0 ? 16 : 100000);
                tt_layout_v(&blocks, counts, starts, (uint32_t)r.n, 1, 4);
                r.bytes = 4 * blocks.count;
                r.query = (struct tt_cost_query){ .collective = forms[f / 2],
                    .requirements = { .n = r.n, .topology = &r.topology },
                    .bytes = r.bytes,
                    .blocks = &blocks,
                    .subjects = TT_COST_ALL,
                    .element_bytes = 4,
                    .slot_bytes = SLICE };
                asked += expect_above_the_bound(&r, "ethernet", 0);
                tt_topology_free(&r.topology);
            }
    cr_expect_gt(asked, 500, "%d", asked);
}

/* From a GiB on twice the bytes take twice the time. */
Test(bound, times_grow_with_the_bytes)
{
    struct sim_request r = { .n = 8 };
    char why[SIM_WHY_BYTES];
    cr_assert(sim_machine_read("dgx-h100", &r.machine, why));
    place(&r.topology, 8, 4);
    r.machine.protocols[0].costs.hosts = 2;
    int ring = tt_algorithm_find(TT_ALL_REDUCE, "ring");
    uint64_t before = 0;
    for (uint64_t bytes = (uint64_t)1 << 28; bytes <= (uint64_t)1 << 42; bytes *= 2) {
        struct tt_cost_query q = { .collective = TT_ALL_REDUCE,
            .requirements = { .n = 8, .topology = &r.topology },
            .bytes = bytes,
            .element_bytes = 4,
            .slot_bytes = SLICE,
            .costs = &r.machine.protocols[0].costs };
        struct tt_prediction p;
        cr_assert_eq(tt_cost_predict(&q, ring, &p), TUTTI_OK);
        double growth = (double)p.total / (double)before;
        cr_expect(before == 0 || (growth > 1.98 && growth < 2.02), "%llu bytes take %g times as long as half",
            (unsigned long long)bytes, growth);
        before = p.total;
    }
    tt_topology_free(&r.topology);
}

/* What no 64 bits of femtoseconds hold is told as beyond all limits, and is no short time. */
static void expect_too_long(int per_host)
{
    struct tt_costs costs = tt_costs_default();
    struct tt_topology topology;
    place(&topology, 64, per_host);
    costs.hosts = (uint64_t)topology.domains;
    costs.byte[TT_AWAY] = costs.byte[TT_NEAR] = 10000000;
    for (int c = TT_ALL_REDUCE; c <= TT_BROADCAST; c++)
        for (int a = 0; a < tt_algorithm_count; a++) {
            struct tt_cost_query q = { .collective = (enum tt_collective)c,
                .requirements = { .n = 64, .topology = &topology },
                .bytes = UINT64_MAX,
                .element_bytes = 4,
                .slot_bytes = UINT64_MAX,
                .costs = &costs };
            struct tt_prediction p;
            if (tt_algorithms[a].collective != c ||
                tt_algorithm_refuse(&tt_algorithms[a], q.requirements) != NULL)
                continue;
            cr_assert_eq(tt_cost_predict(&q, a, &p), TUTTI_OK);
            cr_expect_eq(p.total, UINT64_MAX, "%s, %d ranks a host: %llu", tt_algorithms[a].name, per_host,
                (unsigned long long)p.total);
            cr_expect_gt(p.slices, 0);
        }
    tt_topology_free(&topology);
}

Test(bound, what_is_too_long_is_not_short)
{
    expect_too_long(1);
    expect_too_long(64);
}
