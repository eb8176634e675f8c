/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_program.c: groups that are kept: started again and again they do the same with what the buffers
 * hold then, whatever is called in between. That a start allocates nothing is fail_alloc's to show. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_program, .timeout = 120);

enum { BLOCK = 3000 };

static tutti_stream open_stream(struct ranks_me *me)
{
    tutti_stream stream = tutti_no_stream();
    ranks_ok(me, tutti_stream_create(&stream), "tutti_stream_create");
    return stream;
}

/* What one start moves: a sum, messages round the ring, and a gathering of blocks of different length, on two
 * communicators. */
struct scene {
    tutti_comm *comms[2];
    uint64_t sum[BLOCK], mine[BLOCK], other[BLOCK], all[4 * RANKS_MAX];
};

static tutti_program *keep(struct ranks_me *me, struct scene *s, const tutti_stream *streams)
{
    tutti_program *program = NULL;
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    for (int r = 0; r < me->n; r++) {
        counts[r] = (size_t)r % 3 + 1;
        displs[r] = 4 * (size_t)(me->n - 1 - r);
    }
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_all_reduce(s->mine, s->sum, BLOCK, TUTTI_UINT64, TUTTI_SUM, s->comms[0], streams[0]),
        "sum");
    ranks_ok(me, tutti_send(s->mine, BLOCK, TUTTI_UINT64, next, s->comms[1], streams[1]), "send");
    ranks_ok(me, tutti_recv(s->other, BLOCK, TUTTI_UINT64, last, s->comms[1], streams[0]), "recv");
    ranks_ok(me,
        tutti_all_gather_v(
            s->mine, counts[me->rank], s->all, counts, displs, TUTTI_UINT64, s->comms[0], streams[1]),
        "all_gather_v");
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    memset(counts, 255, sizeof counts);
    memset(displs, 255, sizeof displs);
    return program;
}

static uint64_t value_of(int rank, int round)
{
    return 1000 * (uint64_t)round + (uint64_t)rank + 1;
}

static void fill(struct ranks_me *me, struct scene *s, int round)
{
    for (int i = 0; i < BLOCK; i++) {
        s->mine[i] = value_of(me->rank, round);
        s->sum[i] = s->other[i] = 7;
    }
    memset(s->all, 0, sizeof s->all);
}

static void check(struct ranks_me *me, const struct scene *s, int round)
{
    uint64_t sum = 0;
    for (int r = 0; r < me->n; r++)
        sum += value_of(r, round);
    for (int i = 0; i < BLOCK; i += BLOCK - 1)
        ranks_expect(me, s->sum[i] == sum && s->other[i] == value_of((me->rank + me->n - 1) % me->n, round),
            "round %d: element %d: sum %llu, message %llu", round, i, (unsigned long long)s->sum[i],
            (unsigned long long)s->other[i]);
    for (int r = 0; r < me->n; r++)
        for (int i = 0; i < 4; i++) {
            uint64_t found = s->all[4 * (me->n - 1 - r) + i];
            ranks_expect(me, found == (i <= r % 3 ? value_of(r, round) : 0), "round %d: block %d, %d: %llu",
                round, r, i, (unsigned long long)found);
        }
}

static bool set(struct ranks_me *me, struct scene *s)
{
    for (int i = 0; i < 2; i++)
        s->comms[i] = ranks_join(me, NULL);
    return s->comms[0] != NULL && s->comms[1] != NULL;
}

static void strike(struct ranks_me *me, struct scene *s)
{
    for (int i = 0; i < 2; i++)
        ranks_part(me, s->comms[i]);
    free(s);
}

/* Other calls meanwhile: other plans, and ever larger ones, so that TMP grows and moves. */
static void disturb(struct ranks_me *me, tutti_comm *comm, int round)
{
    enum { MOST = 200000 };
    size_t count = (size_t)(round + 1) * MOST / 20;
    uint64_t *x = calloc((size_t)me->n * count, sizeof *x), *y = calloc((size_t)me->n * count, sizeof *y);
    tutti_stream none = tutti_no_stream();
    for (int root = 0; root < me->n; root++) {
        ranks_ok(
            me, tutti_broadcast(x, x, 1 + (size_t)round % 2, TUTTI_UINT64, root, comm, none), "broadcast");
        ranks_ok(me, tutti_reduce(x, y, count, TUTTI_UINT64, TUTTI_MAX, root, comm, none), "reduce");
        ranks_ok(me, tutti_gather(x, y, 1, TUTTI_UINT64, root, comm, none), "gather");
        ranks_ok(me, tutti_scatter(x, y, 1, TUTTI_UINT64, root, comm, none), "scatter");
    }
    ranks_ok(me, tutti_reduce_scatter(x, y, count, TUTTI_UINT64, TUTTI_SUM, comm, none), "reduce_scatter");
    ranks_ok(me, tutti_all_reduce(x, x, count, TUTTI_UINT64, TUTTI_SUM, comm, none), "all_reduce");
    ranks_ok(me, tutti_all_to_all(x, y, count, TUTTI_UINT64, comm, none), "all_to_all");
    free(x);
    free(y);
}

static void again_and_again(struct ranks_me *me)
{
    struct scene *s = calloc(1, sizeof *s);
    const tutti_stream none[2] = { tutti_no_stream(), tutti_no_stream() };
    if (s == NULL || !set(me, s))
        return;
    tutti_program *program = keep(me, s, none), *empty = NULL;
    ranks_expect(me, s->sum[0] == 0 && s->other[0] == 0, "group_keep started the group");
    for (int round = 0; round < 12; round++) {
        ranks_at(me, "n %d rank %d: start %d", me->n, me->rank, round);
        fill(me, s, round);
        ranks_ok(me, tutti_program_start(program), "tutti_program_start");
        check(me, s, round);
        disturb(me, s->comms[round % 2], round);
    }
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_group_keep(&empty), "tutti_group_keep of nothing");
    ranks_ok(me, tutti_program_start(empty), "tutti_program_start of nothing");
    ranks_ok(me, tutti_program_destroy(empty), "tutti_program_destroy");
    strike(me, s);
}

Test(api_program, is_started_again_and_again)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = again_and_again });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = again_and_again });
}

/* On one stream, on two, and on one and none: a start takes its turn; many may be queued. */
static void on_streams(struct ranks_me *me)
{
    tutti_stream made[2] = { open_stream(me), open_stream(me) }, none = tutti_no_stream();
    const tutti_stream pairs[][2] = { { made[0], made[0] }, { made[0], made[1] }, { none, made[1] } };
    for (int k = 0; k < 3; k++) {
        struct scene *s = calloc(1, sizeof *s);
        if (s == NULL || !set(me, s))
            return;
        ranks_at(me, "n %d rank %d: a program on streams, %d", me->n, me->rank, k);
        tutti_program *program = keep(me, s, pairs[k]);
        for (int round = 0; round < 10; round++) {
            uint64_t point;
            fill(me, s, round);
            for (int i = 0; i <= round % 3; i++) /* the same buffers: the same result */
                ranks_ok(me, tutti_program_start(program), "tutti_program_start");
            for (int i = 0; i < 2 && k < 2; i++) {
                ranks_ok(me, tutti_stream_record(made[i], &point), "tutti_stream_record");
                ranks_ok(me, tutti_stream_wait(made[i], point, -1), "tutti_stream_wait");
            }
            check(me, s, round);
            disturb(me, s->comms[round % 2], round);
        }
        ranks_ok(me, tutti_program_start(program), "tutti_program_start");
        ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy"); /* waits for that */
        check(me, s, 9);
        strike(me, s);
    }
    for (int i = 0; i < 2; i++)
        ranks_ok(me, tutti_stream_destroy(made[i]), "tutti_stream_destroy");
}

Test(api_program, runs_on_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = on_streams });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = on_streams });
}

/* A start on a stream returns before the other rank begins. */
static void returns(struct ranks_me *me)
{
    _Atomic int *returned = me->shared;
    struct scene *s = calloc(1, sizeof *s);
    tutti_stream stream = open_stream(me);
    const tutti_stream both[2] = { stream, stream };
    if (s == NULL || !set(me, s))
        return;
    tutti_program *program = keep(me, s, both);
    fill(me, s, 1);
    if (me->rank == 1)
        while (atomic_load(returned) == 0)
            ranks_sleep_us(50);
    ranks_ok(me, tutti_program_start(program), "tutti_program_start");
    if (me->rank == 0)
        ranks_expect(me, tutti_stream_query(stream, 1) == TUTTI_IN_PROGRESS, "rank 1 has not begun");
    atomic_store(returned, 1);
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    check(me, s, 1);
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    strike(me, s);
}

Test(api_program, a_start_on_a_stream_returns_at_once)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = returns });
}

/* --- What is wrong */

static void wrong(struct ranks_me *me)
{
    tutti_config hasty = { .size = sizeof hasty, .timeout_ms = 3000 };
    tutti_program *program = NULL, *none = NULL;
    tutti_comm *comms[3] = { ranks_join(me, NULL), ranks_join(me, NULL), ranks_join(me, &hasty) };
    uint64_t x = 1;
    tutti_stream no = tutti_no_stream(), stream = open_stream(me);
    if (comms[0] == NULL || comms[1] == NULL || comms[2] == NULL)
        return;
    ranks_refused(me, tutti_group_keep(&none), TUTTI_INVALID_USAGE, "keep", "without tutti_group_start");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_refused(me, tutti_group_keep(NULL), TUTTI_INVALID_ARGUMENT, "keep", "program is NULL");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_refused(me, tutti_group_keep(&none), TUTTI_INVALID_USAGE, "keep", "inner|outermost");
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "group_end", "inner");
    ranks_ok(me, tutti_group_start(), "group_start");
    tutti_all_reduce(NULL, &x, 1, TUTTI_UINT64, TUTTI_SUM, comms[0], no);
    ranks_refused(me, tutti_group_keep(&none), TUTTI_INVALID_ARGUMENT, "keep", "send is NULL");
    ranks_expect(me, none == NULL, "a failed group_keep has set its output");

    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_all_reduce(&x, &x, 1, TUTTI_UINT64, TUTTI_SUM, comms[0], no), "all_reduce");
    ranks_ok(me, tutti_all_reduce(&x, &x, 1, TUTTI_UINT64, TUTTI_SUM, comms[0], stream), "all_reduce");
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_refused(me, tutti_program_start(program), TUTTI_INVALID_USAGE, "start", "inside a group");
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "group_end", "inside a group");
    ranks_ok(me, tutti_program_start(program), "tutti_program_start");
    ranks_expect(me, x == 4, "two sums of two ranks: %llu", (unsigned long long)x);
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
    ranks_refused(me, tutti_program_start(program), TUTTI_INVALID_ARGUMENT, "start", "stream|destroyed");
    ranks_part(me, comms[0]);
    ranks_refused(
        me, tutti_program_start(program), TUTTI_INVALID_USAGE, "start", "call 0|all_reduce|destroyed");
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    ranks_refused(me, tutti_program_destroy(program), TUTTI_INVALID_ARGUMENT, "destroy", "program|destroyed");
    ranks_refused(me, tutti_program_start(program), TUTTI_INVALID_ARGUMENT, "start", "program|destroyed");
    ranks_refused(me, tutti_program_start(NULL), TUTTI_INVALID_ARGUMENT, "start", "program|NULL");

    for (int i = 1; i < 3; i++) {
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, tutti_barrier(comms[i], no), "barrier");
        ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
        ranks_ok(me, tutti_program_start(program), "tutti_program_start");
        if (i == 1)
            ranks_ok(me, tutti_comm_finalize(comms[i]), "tutti_comm_finalize");
        if (i == 1)
            ranks_refused(
                me, tutti_program_start(program), TUTTI_INVALID_USAGE, "start", "barrier|finalized");
        if (i == 2 && me->rank == 0)
            ranks_refused(me, tutti_program_start(program), TUTTI_TIMEOUT, "start", "barrier|rank 1");
        ranks_meet(me);
        if (i == 2)
            ranks_refused(me, tutti_program_start(program), TUTTI_TIMEOUT, "start", "barrier");
        ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
        ranks_meet(me);
        ranks_part(me, comms[i]);
    }
}

Test(api_program, what_is_wrong_is_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrong });
}

/* The handle of a destroyed communicator is given to another in the end: that is not the program's. */
static void reborn(struct ranks_me *me)
{
    tutti_program *program = NULL;
    tutti_comm *first = NULL, *later = NULL;
    ranks_ok(me, tutti_comm_init_all(1, NULL, NULL, &first), "tutti_comm_init_all");
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_barrier(first, tutti_no_stream()), "barrier");
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    ranks_part(me, first);
    for (int i = 0; i < 1000 && later != first; i++) {
        ranks_ok(me, tutti_comm_init_all(1, NULL, NULL, &later), "tutti_comm_init_all");
        if (later != first)
            ranks_part(me, later);
    }
    ranks_expect(me, later == first, "no handle was used again");
    ranks_refused(me, tutti_program_start(program), TUTTI_INVALID_USAGE, "start", "barrier|destroyed");
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    ranks_part(me, later);
}

Test(api_program, knows_its_communicator_from_a_later_one)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = reborn });
}

/* Rank 0 cannot start its program any more; rank 1 is in the call that it has of a communicator which both
 * still have. */
static void refused_start(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "refusal=50" };
    tutti_comm *gone = ranks_join(me, NULL), *comm = ranks_join(me, &config);
    tutti_program *program = NULL;
    uint64_t x = 1;
    if (gone == NULL || comm == NULL)
        return;
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_barrier(gone, tutti_no_stream()), "barrier");
    ranks_ok(me, tutti_all_reduce(&x, &x, 1, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()), "all_reduce");
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    ranks_part(me, gone);
    if (me->rank == 0)
        ranks_refused(
            me, tutti_program_start(program), TUTTI_INVALID_USAGE, "start", "call 0|barrier|destroyed");
    else
        ranks_refused(me, tutti_all_reduce(&x, &x, 1, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()),
            TUTTI_INVALID_USAGE, "all_reduce", "rank 0 refused its own call|destroyed");
    ranks_meet(me);
    ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    ranks_part(me, comm);
}

Test(api_program, a_start_that_is_refused_is_told_to_the_peers)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = refused_start });
}
