/* SPDX-License-Identifier: BSD-3-Clause */
/* test_transports.c: the suite that every transport passes, on those there are. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shm_ranks.h"
#include "transports/tcp.h"
#include "tests/rig/patience.h"
#include "transport_suite.h"
#include "base/config.h"
#include "base/status.h"
#include "transports/arena.h"
#include "transports/shm_segment.h"
#include "transports/sim/sim.h"

/* Criterion's own timers leak, which ends a run under a sanitizer. */
static void limit_time(void)
{
    alarm(patience_seconds(120));
}

TestSuite(transports, .init = limit_time);

static void make_shm(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    uint8_t *addresses = calloc((size_t)params->n, TT_ADDRESS_BYTES);
    for (int r = 0; r < params->n; r++) {
        struct tt_endpoint_params mine = *params;
        mine.me = r;
        cr_assert_eq(tt_shm.open(&mine, addresses + r * TT_ADDRESS_BYTES, &endpoints[r]), TUTTI_OK);
    }
    for (int r = 0; r < params->n; r++)
        cr_assert_eq(tt_shm.connect(endpoints[r], addresses), TUTTI_OK);
    free(addresses);
}

/* As if the memory of a thread could not be mapped: the same suite by the other paths. */
static void make_shm_copied(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    struct tt_endpoint_params copied = *params;
    copied.map = false;
    make_shm(&copied, endpoints);
}

/* --- Two parts: shared memory that reaches every second rank, and again one that reaches all. */

static const struct tt_transport *const halves[] = { &shm_half, &tt_shm, NULL };

static void make_mixed(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    uint8_t *addresses = calloc((size_t)params->n, TT_ADDRESS_MAX);
    for (int r = 0; r < params->n; r++) {
        struct tt_endpoint_params mine = *params;
        mine.me = r;
        mine.transports = halves;
        cr_assert_eq(tt_mixed.open(&mine, addresses + (size_t)r * TT_ADDRESS_MAX, &endpoints[r]), TUTTI_OK);
    }
    for (int r = 0; r < params->n; r++)
        cr_assert_eq(tt_mixed.connect(endpoints[r], addresses), TUTTI_OK);
    for (int r = 0; r < params->n;
         r++) /* a neighbour is reached by the other part, a rank's own half by its own */
        for (int peer = 0; peer < params->n; peer++) {
            struct tt_endpoint *part = tt_link_to(endpoints[r], TT_CLASS_P2P, peer)->endpoint;
            cr_assert_eq(part == tt_link_to(endpoints[r], TT_CLASS_P2P, r)->endpoint, r % 2 == peer % 2);
        }
    free(addresses);
}

static struct tt_sim *world;
static uint64_t world_seed;

static void make_sim(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    struct tt_sim_params sim = { .n = params->n,
        .seed = world_seed,
        .delay_ns = 500,
        .kib_ns = 50,
        .jitter_ns = 2000,
        .reorder_percent = 30,
        .split_percent = 30,
        .grant_percent = 70 };
    uint8_t *addresses = calloc((size_t)params->n, TT_ADDRESS_BYTES);
    if (world != NULL)
        tt_sim_destroy(world);
    cr_assert_eq(tt_sim_create(&sim, &world), TUTTI_OK);
    tt_sim_join(world);
    for (int r = 0; r < params->n; r++) {
        struct tt_endpoint_params mine = *params;
        mine.me = r;
        cr_assert_eq(tt_sim_transport.open(&mine, addresses + r * TT_ADDRESS_BYTES, &endpoints[r]), TUTTI_OK);
    }
    for (int r = 0; r < params->n; r++)
        cr_assert_eq(tt_sim_transport.connect(endpoints[r], addresses), TUTTI_OK);
    free(addresses);
}

static void advance_sim(void)
{
    int rank;
    tt_sim_step(world, &rank);
}

static enum tt_network network = TT_NETWORK_TCP;

static void make_tcp(const struct tt_endpoint_params *params, struct tt_endpoint **endpoints)
{
    uint8_t *addresses = calloc((size_t)params->n, TT_ADDRESS_BYTES);
    for (int r = 0; r < params->n; r++) {
        struct tt_endpoint_params mine = *params;
        mine.me = r;
        mine.network = network;
        cr_assert_eq(tt_tcp.open(&mine, addresses + r * TT_ADDRESS_BYTES, &endpoints[r]), TUTTI_OK, "%s",
            tt_last_error());
    }
    for (int r = 0; r < params->n; r++)
        cr_assert_eq(tt_tcp.connect(endpoints[r], addresses), TUTTI_OK);
    free(addresses);
}

/* Words that ranks of one host have in common: the same memory for all of them, and zeros at first. */
static void run_words(struct transport_suite *s)
{
    enum { RANKS = 4, WORDS = 3000 };
    struct tt_endpoint *e[RANKS];
    struct tt_endpoint_params params = { .n = RANKS, .slot_bytes = SUITE_SLOT_BYTES, .words = WORDS };
    s->make(&params, e);
    for (int i = 0; i < WORDS; i++)
        suite_expect(s, s->hosts > 0 ? e[i % RANKS]->words[i] == 0 : !e[i % RANKS]->words, "word %d", i);
    for (int i = 0; i < RANKS && s->hosts > 0; i++)
        e[i]->words[WORDS - 1 - i] = 1;
    for (int i = 0; i < RANKS * RANKS && s->hosts > 0; i++) {
        int of = i / RANKS, by = i % RANKS;
        suite_expect(s, e[by]->words[WORDS - 1 - of] == (of % s->hosts == by % s->hosts), "%d of %d", by, of);
    }
    for (int i = 0; i < RANKS; i++)
        s->transport->close(e[i]);
}

static void run_all(struct transport_suite *s)
{
    s->memory[0] = malloc(SUITE_MEMORY_BYTES);
    cr_assert_eq(tt_arena_alloc(SUITE_MEMORY_BYTES, (void **)&s->memory[1]), TUTTI_OK);
    for (int i = 0; i < transport_case_count; i++) {
        s->wrong[0] = '\0';
        transport_cases[i].run(s);
        cr_expect_str_empty(s->wrong, "%s: %s", transport_cases[i].name, s->wrong);
    }
    s->wrong[0] = '\0';
    run_words(s);
    cr_expect_str_empty(s->wrong, "words: %s", s->wrong);
    free(s->memory[0]);
    tt_arena_free(s->memory[1]);
}

Test(transports, shm_in_one_process)
{
    run_all(&(struct transport_suite){ .transport = &tt_shm,
        .lines = TT_SHM_LINES,
        .make = make_shm,
        .hosts = 1,
        .grants = SUITE_GRANTS,
        .paths = 1 << TT_PATH_INLINE | 1 << TT_PATH_MAPPED | 1 << TT_PATH_COPIED });
}

Test(transports, shm_with_copies_only)
{
    run_all(&(struct transport_suite){ .transport = &tt_shm,
        .lines = TT_SHM_LINES,
        .make = make_shm_copied,
        .hosts = 1,
        .grants = SUITE_NO_GRANTS,
        .paths = 1 << TT_PATH_INLINE | 1 << TT_PATH_COPIED });
}

Test(transports, mixed)
{
    run_all(&(struct transport_suite){ .transport = &tt_mixed,
        .lines = TT_SHM_LINES,
        .make = make_mixed,
        .hosts = 2,
        .grants = SUITE_GRANTS,
        .paths = 1 << TT_PATH_INLINE | 1 << TT_PATH_MAPPED | 1 << TT_PATH_COPIED });
}

/* Another rank ends it for all in the midst of an abort that is to be local. */
static const struct tt_control_ops *real_control;

static bool abort_local_too_late(struct tt_endpoint *part, const struct tt_cause *cause)
{
    const struct tt_cause earlier = { .status = TUTTI_TIMEOUT, .rank = 1 };
    cr_assert(real_control->abort(part, &earlier));
    return real_control->abort_local(part, cause);
}

Test(transports, an_end_for_all_comes_before_one_of_a_rank)
{
    const struct tt_endpoint_params params = { .n = 2, .slot_bytes = 4096, .map = true };
    const struct tt_cause why = { .status = TUTTI_ABORTED };
    struct tt_cause seen;
    struct tt_endpoint *endpoints[2];
    make_mixed(&params, endpoints);
    struct tt_endpoint *e = endpoints[0], *first = tt_link_to(e, TT_CLASS_P2P, 0)->endpoint;
    real_control = first->control;
    struct tt_control_ops control = *real_control;
    control.abort_local = abort_local_too_late;
    first->control = &control;
    cr_expect_not(e->control->abort_local(e, &why));
    cr_expect(e->control->cause(e, &seen) && seen.status == TUTTI_TIMEOUT, "status %d", (int)seen.status);
    cr_expect_not(atomic_load(&e->gone), "it is gone for itself, too");
    first->control = real_control;
    for (int r = 0; r < 2; r++)
        tt_mixed.close(endpoints[r]);
}

Test(transports, sim)
{
    for (world_seed = 1; world_seed <= 5; world_seed++) {
        run_all(&(struct transport_suite){
            .transport = &tt_sim_transport, .lines = TT_SLOTS, .make = make_sim, .advance = advance_sim });
        cr_expect_str_empty(tt_sim_error(world), "seed %d: %s", (int)world_seed, tt_sim_error(world));
    }
    tt_sim_destroy(world);
}

static void let_threads_run(void)
{
    sched_yield();
}

/* UCX asks for a turn of the thread now and then, and other programs may have the processors. */
static void let_threads_sleep(void)
{
    static unsigned polls;
    if (++polls % 64 == 0)
        usleep(100);
    sched_yield();
}

static void run_between_hosts(enum tt_network wanted, void (*advance)(void))
{
    network = wanted;
    run_all(&(struct transport_suite){ .transport = &tt_tcp,
        .lines = TCP_SLOTS,
        .make = make_tcp,
        .advance = advance,
        .paths = 1 << TT_PATH_COPIED,
        .carried = true });
}

Test(transports, tcp)
{
    run_between_hosts(TT_NETWORK_TCP, let_threads_run);
}

static void run_by_ucx(void)
{
    if (!has_ucx())
        cr_skip_test("there is no plugin for UCX");
    run_between_hosts(TT_NETWORK_UCX, let_threads_sleep);
}

Test(transports, ucx)
{
    run_by_ucx();
}

/* As on a network that reads memory of another host, where long messages are fetched. */
Test(transports, ucx_fetches)
{
    setenv("UCX_RNDV_THRESH", "1000", 1);
    run_by_ucx();
}
