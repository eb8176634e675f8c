/* SPDX-License-Identifier: BSD-3-Clause */
/* test_exec_ways.c: which way the executor sends: sums go back where the operand lies, and what a peer can
 * read in place is stored at its own only by who has nothing else to do.
 *
 * The results say nothing of it, so this counts what the executor asks of the transport. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "run/comm.h"
#include "base/handle.h"
#include "exec/exec_internal.h"
#include "tests/rig/ranks.h"

enum { N = 2, SLICE = 8192, SLICES = 8, COUNT = N * SLICES * SLICE / (int)sizeof(int32_t), CALLS = 3 };

static struct tt_link_ops counting; /* the communicator's own, but for what follows */
static const struct tt_link_ops *its_own;
static int replies, sent_once;

static enum tt_target count_replies(
    struct tt_link *link, const struct tt_message *m, unsigned flags, struct tt_view *place)
{
    enum tt_target target = its_own->target(link, m, flags, place);
    replies += target == TT_TARGET_REPLY;
    return target;
}

static bool count_once(struct tt_link *link, const struct tt_message *m)
{
    bool sent = its_own->send(link, m);
    sent_once += sent && m->single_reader;
    return sent;
}

static void count_from_now(struct tt_comm *c)
{
    its_own = tt_link_to(c->endpoint, TT_CLASS_COLLECTIVE, c->rank)->ops;
    counting = *its_own;
    counting.target = count_replies;
    counting.send = count_once;
    for (int peer = 0; peer < c->n; peer++)
        tt_link_to(c->endpoint, TT_CLASS_COLLECTIVE, peer)->ops = &counting;
    replies = 0;
}

static void add(void *dst, const void *left, const void *right, size_t count, void *context)
{
    const int32_t *a = left, *b = right;
    int32_t *sum = dst;
    (void)context;
    for (size_t i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

struct sum {
    bool in_place, own_operator;
    bool shared; /* where the result goes */
    int replies; /* of each slice */
};

static const struct sum sums[] = {
    { .replies = 1 },
    { .in_place = true, .replies = 1 },
    { .shared = true },
    { .shared = true, .in_place = true },
    { .own_operator = true },
};

static void run(struct ranks_me *me, const struct sum *s)
{
    tutti_config config = { .size = sizeof config, .options = "slice=8K;algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_op op = TUTTI_SUM;
    void *shared = NULL;
    size_t bytes = COUNT * sizeof(int32_t);
    int32_t *private = malloc(2 * bytes);
    if (s->own_operator)
        ranks_ok(me, tutti_op_create(comm, add, NULL, sizeof(int32_t), 1, &op), "tutti_op_create");
    ranks_ok(me, tutti_mem_alloc(bytes, TUTTI_MEM_HOST, &shared), "tutti_mem_alloc");
    int32_t *recv = s->shared ? shared : private, *send = s->in_place ? recv : private + COUNT;
    count_from_now(tt_comm_find(comm));
    for (int call = 0; call < CALLS; call++) {
        int wrong = 0;
        for (int i = 0; i < COUNT; i++)
            send[i] = i + call + me->rank;
        ranks_ok(me, tutti_all_reduce(send, recv, COUNT, TUTTI_INT32, op, comm, tutti_no_stream()), "sum");
        for (int i = 0; i < COUNT; i++)
            wrong += recv[i] != 2 * (i + call) + 1;
        ranks_expect(me, wrong == 0, "call %d: %d elements are wrong", call, wrong);
    }
    ranks_expect(me, replies == s->replies * SLICES * CALLS,
        "case %d: %d sums went back where the operand lay", (int)(s - sums), replies);
    if (s->own_operator)
        ranks_ok(me, tutti_op_destroy(comm, op), "tutti_op_destroy");
    ranks_part(me, comm);
    tutti_mem_free(shared);
    free(private);
}

static void run_all(struct ranks_me *me)
{
    for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++)
        run(me, &sums[i]);
}

Test(exec_ways, sums_go_back_where_the_operand_lies)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = run_all });
}

struct spread {
    enum tt_collective collective;
    bool in_place;
    bool places; /* every second message, if it is granted in time */
};

static const struct spread spreads[] = {
    { TT_ALL_GATHER, false, false },
    { TT_ALL_GATHER, true, false },
    { TT_ALL_TO_ALL, false, false },
    { TT_BROADCAST, false, false },
    { TT_BROADCAST, true, true },
};

static tutti_status call(const struct spread *s, int32_t *send, int32_t *recv, int rank, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    size_t block = COUNT / N;
    if (s->in_place)
        send = s->collective == TT_ALL_GATHER ? recv + (size_t)rank * block : recv;
    if (s->collective == TT_ALL_GATHER)
        return tutti_all_gather(send, recv, block, TUTTI_INT32, comm, none);
    if (s->collective == TT_ALL_TO_ALL)
        return tutti_all_to_all(send, recv, block, TUTTI_INT32, comm, none);
    return tutti_broadcast(send, recv, COUNT, TUTTI_INT32, 0, comm, none);
}

static void run_spread(struct ranks_me *me, const struct spread *s)
{
    tutti_config config = { .size = sizeof config, .options = "slice=8K;algo=broadcast:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    const struct tt_endpoint *e = tt_comm_find(comm)->endpoint;
    size_t bytes = COUNT * sizeof(int32_t);
    void *send = NULL, *recv = NULL;
    ranks_ok(me, tutti_mem_alloc(bytes, TUTTI_MEM_HOST, &send), "tutti_mem_alloc");
    ranks_ok(me, tutti_mem_alloc(bytes, TUTTI_MEM_HOST, &recv), "tutti_mem_alloc");
    for (int i = 0; i < CALLS; i++)
        ranks_ok(me, call(s, send, recv, me->rank, comm), "a call");
    uint64_t placed = e->path_bytes[TT_PATH_PLACED], mapped = e->path_bytes[TT_PATH_MAPPED];
    bool sends = s->collective != TT_BROADCAST || me->rank == 0;
    uint64_t most = s->places ? mapped : 0; /* who is late with a grant has nothing placed */
    ranks_expect(me, placed <= most && (mapped > 0) == sends, "case %d: %llu bytes are placed, %llu mapped",
        (int)(s - spreads), (unsigned long long)placed, (unsigned long long)mapped);
    ranks_expect(me, !sends || !s->places || placed > 0, "case %d: nothing is placed", (int)(s - spreads));
    ranks_part(me, comm);
    tutti_mem_free(send);
    tutti_mem_free(recv);
}

static void run_all_spreads(struct ranks_me *me)
{
    for (size_t i = 0; i < sizeof spreads / sizeof spreads[0]; i++)
        run_spread(me, &spreads[i]);
}

Test(exec_ways, who_has_other_work_leaves_it_to_the_reader)
{
    ranks_run(&(struct ranks_plan){ .n = N, .run = run_all_spreads });
}

/* Who reads a cell of TMP may spoil it if nobody else reads it: neither another peer nor this rank. Cells of
 * the bounce buffer no step of this rank reads but sends. */
Test(exec_ways, what_only_one_reads)
{
    enum { SENDS = 9 };
    static const bool expected[SENDS] = { true, false, false, false, false, true, false, false, true };
    struct tt_schedule s;
    struct tt_op op;
    struct tt_key key = { .collective = TT_BARRIER, .n = 3, .me = 0 };
    cr_assert_eq(tt_schedule_begin(&s, &key, "readers"), TUTTI_OK);
    tt_chunks(&s, 8);
    tt_max_chunks(&s, 2);
    tt_copy(&s, tt_range(TT_TMP, 0, 8), tt_range(TT_IN, 0, 8));
    tt_send(&s, 1, tt_tmp(0)); /* by one peer */
    tt_send(&s, 1, tt_tmp(1)); /* by both */
    tt_send(&s, 2, tt_tmp(1));
    tt_send(&s, 1, tt_tmp(2)); /* here, by a reduction */
    tt_reduce(&s, tt_out(0), tt_in(0), tt_tmp(2));
    tt_send(&s, 1, tt_range(TT_TMP, 3, 2)); /* in part by a copy */
    tt_copy(&s, tt_out(1), tt_tmp(4));
    tt_send(&s, 2, tt_range(TT_TMP, 5, 2)); /* several, by one peer */
    tt_send(&s, 1, tt_in(0)); /* in the bounce cells, for both */
    tt_send(&s, 2, tt_in(0));
    tt_send(&s, 2, tt_in(7)); /* and for one, though a copy reads it where it lies */
    cr_assert_eq(tt_schedule_end(&s), TUTTI_OK);
    cr_assert_eq(tt_op_create(&s, &op), TUTTI_OK);
    int send = 0;
    for (uint32_t i = 0; i < s.nsteps; i++)
        if (s.steps[i].verb == TT_VERB_SEND) {
            cr_expect_eq(op.policy.single_reader[i], expected[send], "send %d", send);
            send++;
        }
    cr_expect_eq(send, SENDS);
    tt_op_destroy(&op);
    tt_schedule_free(&s);
}

/* --- Whether the readers of the bounce buffer are asked to take its lines. */

/* A call of seven writes, of which so many are slow: 64 bytes take 30 ns, or 3. */
static bool probe_call(struct tt_bounce_probe *probe, int slow)
{
    bool claims = tt_bounce_probe_claims(probe);
    for (int i = 0; i < 7; i++)
        tt_bounce_probe_note(probe, 64000, i < slow ? 30000 : 3000);
    return claims;
}

Test(exec_ways, readers_claim_bounce_cells_where_writers_would_wait)
{
    enum { TRIES = 1000 };
    struct tt_bounce_probe near = { 0 }, far = { 0 }, busy = { 0 }, fresh = { .left = 1 };
    int asked = 0;
    for (int i = 0; i < TRIES; i++)
        cr_expect(!probe_call(&near, 0), "call %d, all lines at hand", i);
    for (int i = 0; i < TRIES; i++)
        cr_expect(!probe_call(&busy, 1), "call %d, one write that was interrupted", i);
    for (int i = 0, slow = 0; i < TRIES; i++) { /* what was not asked for is slow in the next call */
        bool claims = probe_call(&far, slow);
        slow = claims ? 0 : 4;
        asked += claims;
    }
    cr_expect_geq(asked, TRIES * 9 / 10);
    cr_expect_lt(asked, TRIES - 5, "it is tried again now and then");
    for (int i = 0; i < 3 * 64; i++) /* the cores have come closer */
        probe_call(&far, 0);
    cr_expect(!probe_call(&far, 0));
    cr_expect(probe_call(&fresh, 0));
    cr_expect(!probe_call(&fresh, 0));
}

enum { BOUNCE_N = 8, BOUNCE_BLOCK = 30011, BOUNCE_SLICES = 3 };

/* What a rank sends of reduce_scatter has one reader each, of all_gather it has all. */
static void use_bounce(struct ranks_me *me)
{
    static int32_t blocks[BOUNCE_N * BOUNCE_BLOCK], block[BOUNCE_BLOCK];
    tutti_config config = { .size = sizeof config,
        .options = "slice=48K;algo=all_gather:direct,reduce_scatter:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct tt_comm *c = tt_comm_find(comm);
    tutti_stream none = tutti_no_stream();
    count_from_now(c);
    for (int claims = 0; claims < 2; claims++) {
        c->memory.probe = (struct tt_bounce_probe){ .left = (uint32_t)claims };
        sent_once = 0;
        ranks_ok(me, tutti_reduce_scatter(blocks, block, BOUNCE_BLOCK, TUTTI_INT32, TUTTI_SUM, comm, none),
            "a sum");
        int expected = claims * (me->n - 1) * BOUNCE_SLICES;
        ranks_expect(me, sent_once == expected, "%d messages and not %d", sent_once, expected);
    }
    c->memory.probe.left = 1;
    sent_once = 0;
    ranks_ok(me, tutti_all_gather(block, blocks, BOUNCE_BLOCK, TUTTI_INT32, comm, none), "all_gather");
    ranks_expect(me, sent_once == 0, "%d messages to all", sent_once);
    ranks_part(me, comm);
}

Test(exec_ways, bounce_cells_that_only_one_reads)
{
    ranks_run(&(struct ranks_plan){ .n = BOUNCE_N, .run = use_bounce });
}
