/* test_call_sim.c: real calls over virtual time: check, plan, bind and executor, hundreds of ranks in one
 * thread.
 *
 * The communicators are those of the library but for their endpoints, which are the simulator's. Each rank
 * makes a row of calls; what a call gave is checked at the rank's own return, and all its memory is then
 * overwritten. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "transports/sim.h"

enum { CALLS = 8, SLOT_BYTES = 400, POISON = 0x77 };

struct act { /* what all ranks call */
    enum tt_collective collective;
    size_t count;
    int root;
    size_t *counts; /* of all_gather_v */
    uint64_t *results;
};

struct player { /* one rank */
    struct tt_comm *comm;
    struct tt_call calls[CALLS];
    uint64_t *memory[CALLS];
    size_t words[CALLS];
    struct tt_op *op;
    int now;
};

struct stage {
    int n;
    uint64_t random;
    struct tt_sim *sim;
    struct act acts[CALLS];
    struct player *players;
};

static uint64_t input(int act, int rank, uint64_t i)
{
    return (uint64_t)(act + 1) * UINT64_C(0x100000001b3) * (uint64_t)(rank + 7) * (i + 13);
}

static size_t before(const struct act *a, int rank)
{
    size_t sum = 0;
    for (int r = 0; r < rank; r++)
        sum += a->counts[r];
    return sum;
}

/* The whole vector that the call is about: the sums, or everybody's part. */
static void work_out(struct stage *s, int act)
{
    struct act *a = &s->acts[act];
    bool reduces = tt_collectives[a->collective].result == TT_RESULT_REDUCED;
    size_t words = a->collective == TT_ALL_GATHER_V ? before(a, s->n) : a->count * (size_t)s->n, at = 0;
    a->results = calloc(words + 1, sizeof *a->results);
    for (int r = 0; r < s->n; r++) {
        size_t sent = a->collective == TT_ALL_GATHER_V ? a->counts[r] : a->count;
        sent = a->collective == TT_REDUCE_SCATTER ? words : sent;
        if (a->collective != TT_BROADCAST || r == a->root)
            for (size_t i = 0; i < sent; i++)
                a->results[at + i] += input(act, r, i);
        at += reduces || a->collective == TT_BROADCAST ? 0 : sent;
    }
}

static size_t sends(const struct stage *s, const struct act *a, int rank)
{
    if (a->collective == TT_REDUCE_SCATTER)
        return a->count * (size_t)s->n;
    if (a->collective == TT_ALL_GATHER_V)
        return a->counts[rank];
    return a->collective == TT_BARRIER ? 0 : a->count;
}

static size_t receives(const struct stage *s, const struct act *a, int rank)
{
    if (a->collective == TT_ALL_GATHER)
        return a->count * (size_t)s->n;
    if (a->collective == TT_ALL_GATHER_V)
        return before(a, s->n);
    if (a->collective == TT_BARRIER || (a->collective == TT_REDUCE && rank != a->root))
        return 0;
    return a->count;
}

static void plan_acts(struct stage *s)
{
    static const enum tt_collective all[] = { TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER, TT_BROADCAST,
        TT_REDUCE, TT_BARRIER, TT_ALL_GATHER_V };
    for (int i = 0; i < CALLS; i++) {
        struct act *a = &s->acts[i];
        a->collective = all[tt_sim_random(&s->random) % (sizeof all / sizeof all[0])];
        a->count = tt_sim_random(&s->random) % (s->n > 64 ? 20 : 300);
        if (a->collective == TT_BARRIER)
            a->count = 1;
        a->root = (int)(tt_sim_random(&s->random) % (uint64_t)s->n);
        a->counts = calloc((size_t)s->n, sizeof *a->counts);
        for (int r = 0; r < s->n; r++)
            a->counts[r] = tt_sim_random(&s->random) % 40;
        work_out(s, i);
    }
}

static void prepare(struct stage *s, int rank, int i)
{
    struct player *p = &s->players[rank];
    const struct act *a = &s->acts[i];
    size_t sent = sends(s, a, rank), received = receives(s, a, rank);
    struct tt_call *call = &p->calls[i];
    p->words[i] = sent + received + 1;
    p->memory[i] = malloc(p->words[i] * sizeof(uint64_t));
    memset(p->memory[i], POISON, p->words[i] * sizeof(uint64_t));
    uint64_t *send = p->memory[i], *recv = send + sent;
    if (tt_sim_random(&s->random) % 2) { /* in place, at this rank */
        if (a->collective == TT_REDUCE_SCATTER)
            recv = send + (size_t)rank * a->count;
        else if (a->collective == TT_ALL_GATHER)
            send = recv + (size_t)rank * a->count;
        else if (a->collective == TT_ALL_GATHER_V)
            send = recv + before(a, rank);
        else
            recv = send;
    }
    bool has_input = a->collective != TT_BROADCAST || rank == a->root;
    for (size_t k = 0; k < sent && has_input; k++)
        send[k] = input(i, rank, k);
    *call = (struct tt_call){ .collective = a->collective,
        .comm = p->comm,
        .send = a->collective == TT_BARRIER ? tt_barrier_token() : send,
        .recv = recv,
        .count = a->collective == TT_ALL_GATHER_V ? a->counts[rank] : a->count,
        .type = a->collective == TT_BARRIER ? TUTTI_INT32 : TUTTI_UINT64,
        .op = TUTTI_SUM,
        .root = a->root,
        .counts = a->collective == TT_ALL_GATHER_V ? a->counts : NULL,
        .stream = tutti_no_stream() };
}

/* The library's communicator, with the simulator's endpoint. */
static void join(struct stage *s, int rank, const struct tt_settings *settings, bool map, bool pull)
{
    struct tt_comm *comm;
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint_params params = { s->n, rank, SLOT_BYTES, settings->first_number, pull, map };
    cr_assert_eq(tt_comm_open(s->n, rank, settings, NULL, address, &comm), TUTTI_OK);
    comm->transport->close(comm->endpoint);
    comm->transport = &tt_sim_transport;
    cr_assert_eq(tt_sim_transport.open(&params, address, &comm->endpoint), TUTTI_OK);
    s->players[rank].comm = comm;
}

static void end(struct stage *s, int rank)
{
    struct player *p = &s->players[rank];
    const struct tt_call *call = &p->calls[p->now];
    const struct act *a = &s->acts[p->now];
    size_t first = a->collective == TT_REDUCE_SCATTER ? (size_t)rank * a->count : 0;
    cr_assert_eq(memcmp(call->recv, a->results + first, receives(s, a, rank) * sizeof *a->results), 0,
        "n %d, call %d (%s), rank %d", s->n, p->now, tt_collectives[call->collective].name, rank);
    tt_call_end(call, p->op);
    memset(p->memory[p->now], POISON, p->words[p->now] * sizeof(uint64_t));
    p->op = NULL;
    p->now++;
}

static void play(struct stage *s, int rank)
{
    struct player *p = &s->players[rank];
    while (p->now < CALLS) {
        struct tt_call *call = &p->calls[p->now];
        if (p->op == NULL) {
            cr_assert_eq(tt_call_check(call), TUTTI_OK);
            cr_assert_eq(tt_call_prepare(call), TUTTI_OK);
            cr_assert_eq(tt_call_start(call, &p->op), TUTTI_OK);
        }
        enum tt_progress now = tt_exec_progress(p->op);
        cr_assert_neq(now, TT_FAILED);
        if (now == TT_IDLE)
            return;
        if (now == TT_DONE)
            end(s, rank);
        if (tt_sim_random(&s->random) % 8 == 0) {
            tt_sim_pause(s->sim, rank);
            return;
        }
    }
}

static void run(int n, uint64_t seed, const char *options)
{
    struct stage s = { .n = n, .random = seed };
    struct tt_sim_params sim = { .n = n, .seed = seed, .delay_ns = 100, .kib_ns = 500, .jitter_ns = 1500 };
    struct tt_settings settings;
    int rank;
    sim.reorder_percent = sim.split_percent = 30;
    sim.freeze_percent = 10;
    sim.freeze_ns = 4000;
    cr_assert_eq(tt_settings_read(&settings, options), TUTTI_OK);
    settings.first_number = (UINT64_C(1) << 32) - 5;
    s.players = calloc((size_t)n, sizeof *s.players);
    cr_assert_eq(tt_sim_create(&sim, &s.sim), TUTTI_OK);
    tt_sim_join(s.sim);
    plan_acts(&s);
    for (int r = 0; r < n; r++) {
        join(&s, r, &settings, seed % 3 != 0, seed % 4 != 0);
        for (int i = 0; i < CALLS; i++)
            prepare(&s, r, i);
    }
    while (tt_sim_step(s.sim, &rank))
        play(&s, rank);
    cr_expect_str_eq(tt_sim_error(s.sim), "");
    cr_expect_eq(tt_sim_occupied(s.sim), 0);
    for (int r = 0; r < n; r++) {
        cr_expect_eq(s.players[r].now, CALLS, "rank %d of %d stands in call %d", r, n, s.players[r].now);
        tt_comm_destroy(s.players[r].comm);
        for (int i = 0; i < CALLS; i++)
            free(s.players[r].memory[i]);
    }
    for (int i = 0; i < CALLS; i++) {
        free(s.acts[i].counts);
        free(s.acts[i].results);
    }
    tt_sim_destroy(s.sim);
    free(s.players);
}

Test(call_sim, few_ranks)
{
    for (uint64_t seed = 1; seed <= 200; seed++)
        run(1 + (int)(seed % 9), seed, seed % 5 == 0 ? "exact=1" : NULL);
}

Test(call_sim, many_ranks)
{
    run(64, 3, NULL);
    run(61, 4, "exact=1");
}

/* With the algorithms that talk to few. */
Test(call_sim, ranks_by_the_hundred)
{
    run(512, 5, "algo=reduce_scatter:ring,all_gather:ring,all_gather_v:ring,broadcast:tree,reduce:tree");
}
