/* SPDX-License-Identifier: BSD-3-Clause */
/* test_call_sim.c: real calls over virtual time: check, plan, bind and executor, hundreds of ranks in one
 * thread.
 *
 * The communicators are those of the library but for their endpoints, which are the simulator's. Each rank
 * makes a row of calls; what a call gave is checked at the rank's own return, and all its memory is then
 * overwritten. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "comm/lifecycle.h"
#include "run/run.h"
#include "transports/sim/sim.h"

enum { CALLS = 8, SLOT_BYTES = 400, POISON = 0x77 };

struct act { /* what all ranks call */
    const struct tt_collective_row *row;
    enum tt_collective collective;
    size_t count;
    int root;
    size_t *counts; /* v-forms: of each rank; an exchange multiplies two of them */
};

struct player { /* one rank */
    struct tt_comm *comm;
    struct tt_call calls[CALLS];
    uint64_t *memory[CALLS];
    size_t words[CALLS];
    size_t *counts[CALLS]; /* 2n: of send, of recv */
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

/* Elements that rank `from` has for rank `to`. */
static size_t block(const struct act *a, int from, int to)
{
    if (a->row->counts == TT_COUNTS_EVEN)
        return a->count;
    if (a->row->result == TT_RESULT_EXCHANGED)
        return a->counts[from] * a->counts[to] % 64;
    bool gathers = a->row->in == TT_REACH_OWN;
    return a->counts[gathers ? from : to];
}

static bool is_whole(const struct act *a, uint8_t reach, int rank)
{
    return reach == TT_REACH_ALL || (reach == TT_REACH_ROOT && rank == a->root);
}

/* Of rank's send (or recv) buffer, the elements before the block of rank `end`. */
static size_t before(const struct act *a, bool sent, int rank, int end)
{
    size_t sum = 0;
    for (int r = 0; r < end; r++)
        sum += sent ? block(a, rank, r) : block(a, r, rank);
    return sum;
}

static size_t elements(const struct stage *s, const struct act *a, bool sent, int rank)
{
    uint8_t reach = sent ? a->row->in : a->row->out;
    if (a->collective == TT_BARRIER)
        return 0;
    if (is_whole(a, reach, rank))
        return a->row->blocks ? before(a, sent, rank, s->n) : a->count;
    return reach == TT_REACH_OWN ? block(a, rank, rank) : 0;
}

/* Element i of what the call must give this rank. */
static uint64_t reduced(const struct stage *s, int act, size_t i)
{
    uint64_t sum = 0;
    for (int r = 0; r < s->n; r++)
        sum += input(act, r, i);
    return sum;
}

static void check_result(const struct stage *s, int act, int rank, const uint64_t *recv)
{
    const struct act *a = &s->acts[act];
    size_t all = elements(s, a, false, rank), at = 0, len;
    bool own = a->row->out == TT_REACH_OWN;
    for (int from = 0; from < s->n && at < all; from++, at += len) {
        bool exchanged = a->row->result == TT_RESULT_EXCHANGED;
        bool apart = exchanged || a->row->in == TT_REACH_OWN; /* each rank gave a block of it */
        len = apart ? block(a, from, rank) : all;
        int giver = apart ? from : a->root;
        size_t first = own || exchanged ? before(a, true, giver, rank) : 0;
        for (size_t i = 0; i < len; i++) {
            bool reduces = a->row->result == TT_RESULT_REDUCED;
            uint64_t right = reduces ? reduced(s, act, first + i) : input(act, giver, first + i);
            cr_assert_eq(recv[at + i], right, "n %d, call %d (%s), rank %d, element %zu", s->n, act,
                a->row->name, rank, at + i);
        }
    }
}

/* Any, but those in which all talk to all only where there are not too many. */
static void plan_acts(struct stage *s)
{
    for (int i = 0; i < CALLS; i++) {
        struct act *a = &s->acts[i];
        do {
            a->collective = (enum tt_collective)(tt_sim_random(&s->random) % TT_COLLECTIVES);
            a->row = &tt_collectives[a->collective];
        } while (a->row->p2p ||
                 (s->n > 64 && (a->row->result == TT_RESULT_EXCHANGED || a->row->counts == TT_COUNTS_OWN)));
        a->count = tt_sim_random(&s->random) % (s->n > 64 ? 20 : 300);
        if (a->collective == TT_BARRIER)
            a->count = 1;
        a->root = (int)(tt_sim_random(&s->random) % (uint64_t)s->n);
        a->counts = calloc((size_t)s->n, sizeof *a->counts);
        for (int r = 0; r < s->n; r++)
            a->counts[r] = tt_sim_random(&s->random) % 40;
    }
}

static void set_blocks(struct stage *s, int rank, int i, struct tt_call *call)
{
    const struct act *a = &s->acts[i];
    size_t *counts = calloc(2 * (size_t)s->n, sizeof *counts);
    for (int r = 0; r < s->n; r++) {
        counts[r] = block(a, rank, r);
        counts[s->n + r] = block(a, r, rank);
    }
    s->players[rank].counts[i] = counts;
    call->count = block(a, rank, rank);
    call->count_in_blocks = a->row->in == TT_REACH_ALL;
    if (is_whole(a, a->row->in, rank))
        call->blocks[TT_IN].counts = counts;
    if (is_whole(a, a->row->out, rank))
        call->blocks[TT_OUT].counts = counts + s->n;
}

static void prepare(struct stage *s, int rank, int i)
{
    struct player *p = &s->players[rank];
    const struct act *a = &s->acts[i];
    size_t sent = elements(s, a, true, rank), received = elements(s, a, false, rank);
    p->words[i] = sent + received + 1;
    p->memory[i] = malloc(p->words[i] * sizeof(uint64_t));
    memset(p->memory[i], POISON, p->words[i] * sizeof(uint64_t));
    uint64_t *send = p->memory[i], *recv = send + sent;
    bool in_place = tt_sim_random(&s->random) % 2; /* at this rank */
    bool own_block = a->row->in_place == TT_IN_PLACE_OWN_BLOCK, gathers = a->row->in == TT_REACH_OWN;
    if (in_place && a->row->in_place == TT_IN_PLACE_SAME)
        recv = send;
    else if (in_place && own_block && gathers && is_whole(a, a->row->out, rank))
        send = recv + before(a, false, rank, rank);
    else if (in_place && own_block && !gathers && is_whole(a, a->row->in, rank))
        recv = send + before(a, true, rank, rank);
    for (size_t k = 0; k < sent; k++)
        send[k] = input(i, rank, k);
    p->calls[i] = (struct tt_call){ .collective = a->collective,
        .comm = p->comm,
        .send = a->collective == TT_BARRIER ? tt_barrier_token() : send,
        .recv = recv,
        .count = a->count,
        .type = a->collective == TT_BARRIER ? TUTTI_INT32 : TUTTI_UINT64,
        .op = TUTTI_SUM,
        .root = a->root,
        .stream = tutti_no_stream() };
    if (a->row->counts != TT_COUNTS_EVEN)
        set_blocks(s, rank, i, &p->calls[i]);
}

/* The library's communicator, with the simulator's endpoint. */
static void join(struct stage *s, int rank, const struct tt_settings *settings, bool map)
{
    struct tt_comm *comm;
    uint8_t address[TT_ADDRESS_BYTES];
    struct tt_endpoint_params params = {
        .n = s->n, .me = rank, .slot_bytes = SLOT_BYTES, .first_number = settings->first_number, .map = map
    };
    cr_assert_eq(tt_comm_open(s->n, rank, settings, NULL, NULL, address, &comm), TUTTI_OK);
    comm->transport->close(comm->endpoint);
    comm->transport = &tt_sim_transport;
    comm->memory.bounce_from = rank % 3 == 0 ? UINT64_MAX : 1; /* each rank decides that for itself */
    cr_assert_eq(tt_sim_transport.open(&params, address, &comm->endpoint), TUTTI_OK);
    s->players[rank].comm = comm;
}

static void end(struct stage *s, int rank)
{
    struct player *p = &s->players[rank];
    const struct tt_call *call = &p->calls[p->now];
    check_result(s, p->now, rank, call->recv);
    tt_call_end(call, p->op, false);
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
        join(&s, r, &settings, seed % 3 != 0);
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
        for (int i = 0; i < CALLS; i++) {
            free(s.players[r].memory[i]);
            free(s.players[r].counts[i]);
        }
    }
    for (int i = 0; i < CALLS; i++)
        free(s.acts[i].counts);
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
    run(512, 5,
        "algo=all_reduce:tree,barrier:dissemination,gather:direct,scatter:direct,reduce_scatter:ring,all_"
        "gather:"
        "ring,all_gather_v:ring,broadcast:tree,reduce:tree");
}
