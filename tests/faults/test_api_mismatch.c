/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_mismatch.c: ranks that call different things. All of them get TUTTI_MISMATCH with one cause,
 * which names both calls; what may differ (rank 0's settings win, memory, in place) is no mismatch.
 *
 * A rank whose part needs no answer (the root of a small broadcast) may return before the difference is
 * found; it learns of it in its next call. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_mismatch, .timeout = 120);

enum call { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, ALL_GATHER_V, BARRIER, SPLIT };
struct form {
    enum call call;
    size_t count;
    tutti_type type;
    tutti_op op;
    int root;
    size_t shared; /* all_gather_v: what it thinks the last rank gives */
};
struct difference {
    struct form most, odd; /* what most call, and what one rank calls */
    const char *names; /* of both calls in the error's text; NULL: no mismatch */
};

enum { MOST = 40000 };
/* Nobody looks at what arrives in a mismatch, so threads may share them. */
static uint64_t send_space[4 * MOST], recv_space[4 * MOST];

static tutti_status run_form(const struct ranks_me *me, const struct form *f, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    tutti_comm *child = NULL;
    size_t counts[RANKS_MAX];
    switch (f->call) {
    case ALL_REDUCE:
        return tutti_all_reduce(send_space, recv_space, f->count, f->type, f->op, comm, none);
    case REDUCE:
        return tutti_reduce(send_space, recv_space, f->count, f->type, f->op, f->root, comm, none);
    case BROADCAST:
        return tutti_broadcast(send_space, recv_space, f->count, f->type, f->root, comm, none);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(send_space, recv_space, f->count, f->type, f->op, comm, none);
    case ALL_GATHER:
        return tutti_all_gather(send_space, recv_space, f->count, f->type, comm, none);
    case ALL_GATHER_V:
        for (int r = 0; r < me->n; r++)
            counts[r] = f->count;
        if (me->rank < me->n - 1)
            counts[me->n - 1] = f->shared;
        if (me->rank < me->n - 2) /* the sum is the same */
            counts[me->n - 2] = 2 * f->count - f->shared;
        return tutti_all_gather_v(send_space, f->count, recv_space, counts, NULL, f->type, comm, none);
    case BARRIER:
        return tutti_barrier(comm, none);
    default:
        return tutti_comm_split(comm, 0, 0, NULL, &child);
    }
}

static const struct difference differences[] = {
    { { .call = ALL_REDUCE, .count = 8, .type = TUTTI_FLOAT32 },
        { .call = ALL_REDUCE, .count = 9, .type = TUTTI_FLOAT32 },
        "all_reduce of 8 float32|all_reduce of 9 float32" },
    { { .call = ALL_REDUCE, .count = 8, .type = TUTTI_INT64 },
        { .call = ALL_REDUCE, .count = MOST, .type = TUTTI_INT64 },
        "all_reduce of 8 int64|all_reduce of 40000 int64" },
    { { .call = ALL_REDUCE, .count = 8, .type = TUTTI_INT64 },
        { .call = ALL_REDUCE, .count = 0, .type = TUTTI_INT64 },
        "all_reduce of 8 int64|all_reduce of 0 int64" },
    { { .call = ALL_REDUCE, .count = MOST, .type = TUTTI_FLOAT32 },
        { .call = ALL_REDUCE, .count = MOST, .type = TUTTI_INT32 },
        "all_reduce of 40000 float32|all_reduce of 40000 int32" },
    { { .call = ALL_REDUCE, .count = 100, .type = TUTTI_FLOAT32 },
        { .call = ALL_REDUCE, .count = 100, .type = TUTTI_FLOAT32, .op = TUTTI_MAX },
        "float32, sum|float32, max" },
    { { .call = REDUCE, .count = 100, .type = TUTTI_UINT64, .op = TUTTI_MIN, .root = 1 },
        { .call = REDUCE, .count = 100, .type = TUTTI_UINT64, .op = TUTTI_MIN, .root = 2 }, "root 1|root 2" },
    { { .call = BROADCAST, .count = 5000, .type = TUTTI_UINT8, .root = 0 },
        { .call = BROADCAST, .count = 5000, .type = TUTTI_UINT8, .root = 1 }, "root 0|root 1" },
    { { .call = BROADCAST, .count = 1, .type = TUTTI_UINT8, .root = 2 },
        { .call = BROADCAST, .count = 2, .type = TUTTI_UINT8, .root = 2 },
        "broadcast of 1 uint8|broadcast of 2 uint8" },
    { { .call = REDUCE_SCATTER, .count = 500, .type = TUTTI_INT32 },
        { .call = REDUCE_SCATTER, .count = 501, .type = TUTTI_INT32 }, "of 500 int32|of 501 int32" },
    { { .call = ALL_GATHER, .count = 500, .type = TUTTI_INT32 },
        { .call = ALL_GATHER, .count = 500, .type = TUTTI_FLOAT8_E4M3 }, "of 500 int32|of 500 float8_e4m3" },
    { { .call = ALL_GATHER_V, .count = 10, .type = TUTTI_INT32, .shared = 10 },
        { .call = ALL_GATHER_V, .count = 10, .type = TUTTI_INT32, .shared = 11 },
        "all_gather_v|other counts" },
    { { .call = ALL_REDUCE, .count = 1, .type = TUTTI_INT32 },
        { .call = BROADCAST, .count = 1, .type = TUTTI_INT32 },
        "all_reduce of 1 int32|broadcast of 1 int32" },
    { { .call = BARRIER }, { .call = ALL_REDUCE, .count = 1, .type = TUTTI_INT32, .op = TUTTI_MAX },
        "barrier|all_reduce of 1 int32" },
    { { .call = BARRIER }, { .call = SPLIT }, "barrier|all_gather" },
    { { .call = ALL_GATHER, .count = 64, .type = TUTTI_INT32 },
        { .call = REDUCE_SCATTER, .count = 64, .type = TUTTI_INT32 }, "all_gather|reduce_scatter" },
};
enum { DIFFERENCES = sizeof differences / sizeof differences[0] };

static void differ(struct ranks_me *me)
{
    for (int i = 0; i < DIFFERENCES; i++) {
        const struct difference *d = &differences[i];
        int odd = d->most.call == ALL_GATHER_V ? 0 : i % me->n;
        tutti_comm *comm = ranks_join(me, NULL);
        if (comm == NULL)
            return;
        ranks_at(me, "n %d rank %d: difference %d (%s), rank %d is odd", me->n, me->rank, i, d->names, odd);
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "the barrier before");
        ranks_meet(me); /* or what comes ends it at a rank that is still inside */
        ranks_delay(me, 2000);
        tutti_status status = run_form(me, me->rank == odd ? &d->odd : &d->most, comm);
        if (status == TUTTI_OK)
            status = tutti_barrier(comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_MISMATCH, "returned %d (%s)", status, tutti_get_last_error(NULL));
        tutti_error error = ranks_same_error(me, comm, TUTTI_MISMATCH, d->names);
        ranks_expect(me, error.sequence == 1, "the operation has number %llu, not 1",
            (unsigned long long)error.sequence);
        ranks_expect(me, error.rank >= 0 && error.peer >= 0 && error.rank != error.peer,
            "the error names ranks %d and %d", error.rank, error.peer);
        ranks_expect(me, tutti_barrier(comm, tutti_no_stream()) == TUTTI_MISMATCH, "it is not sticky");
        ranks_expect(me, tutti_comm_finalize(comm) == TUTTI_MISMATCH, "finalize succeeds");
        ranks_part(me, comm);
    }
}

Test(api_mismatch, collectives)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = differ });
}

Test(api_mismatch, collectives_of_threads)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = differ });
}

/* Each takes itself for the root of short broadcasts, and so goes on: the first is told, not the last. */
static void differ_again(struct ranks_me *me)
{
    for (int before = 0; before < 3; before++) {
        tutti_comm *comm = ranks_join(me, NULL);
        tutti_status status = TUTTI_OK;
        if (comm == NULL)
            return;
        ranks_at(me, "rank %d: the first of many differences, behind %d calls", me->rank, before);
        for (int i = 0; i < before; i++)
            ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
        ranks_meet(me);
        for (size_t i = 0; i < 4 && status == TUTTI_OK; i++)
            status = tutti_broadcast(
                send_space, send_space, 10 + i, TUTTI_INT32, me->rank, comm, tutti_no_stream());
        if (status == TUTTI_OK)
            status = tutti_barrier(comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_MISMATCH, "returned %d (%s)", status, tutti_get_last_error(NULL));
        tutti_error error = ranks_same_error(me, comm, TUTTI_MISMATCH,
            "called broadcast of 10 int32, root 0|called broadcast of 10 int32, root 1");
        ranks_expect(me, error.sequence == (uint64_t)before, "it is operation %llu of \"%s\"",
            (unsigned long long)error.sequence, error.text);
        ranks_part(me, comm);
    }
}

Test(api_mismatch, the_first_of_many)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = differ_again });
}

/* --- Messages: rank 0 sends, rank 1 receives, rank 2 looks on */

struct message {
    size_t sent, awaited;
    tutti_type sent_type, awaited_type;
    const char *names;
};
static const struct message messages[] = {
    { 8, 9, TUTTI_INT32, TUTTI_INT32, "recv of 9 int32|32 bytes|rank 0" },
    { 9, 8, TUTTI_INT32, TUTTI_INT32, "recv of 8 int32|36 bytes|rank 0" },
    { 2, 1, TUTTI_INT32, TUTTI_INT64, "recv of 1 int64|8 bytes|rank 0" },
    { 4 * MOST, 4 * MOST, TUTTI_INT32, TUTTI_FLOAT32, "recv of 160000 float32|rank 0" },
    { 4 * MOST, 3 * MOST, TUTTI_UINT64, TUTTI_UINT64, "recv of 120000 uint64|rank 0" },
};

static void differ_in_messages(struct ranks_me *me)
{
    for (size_t i = 0; i < sizeof messages / sizeof messages[0]; i++) {
        const struct message *m = &messages[i];
        tutti_comm *comm = ranks_join(me, NULL);
        tutti_status status = TUTTI_MISMATCH;
        if (comm == NULL)
            return;
        ranks_at(me, "rank %d: %zu %d sent, %zu %d awaited", me->rank, m->sent, m->sent_type, m->awaited,
            m->awaited_type);
        if (me->rank == 0)
            status = tutti_send(send_space, m->sent, m->sent_type, 1, comm, tutti_no_stream());
        else if (me->rank == 1)
            status = tutti_recv(recv_space, m->awaited, m->awaited_type, 0, comm, tutti_no_stream());
        if (status == TUTTI_OK && me->rank == 0) /* it was small and has gone; the next call tells */
            status = tutti_barrier(comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_MISMATCH, "returned %d (%s)", status, tutti_get_last_error(NULL));
        ranks_expect(me, tutti_barrier(comm, tutti_no_stream()) == TUTTI_MISMATCH, "barrier succeeds");
        ranks_same_error(me, comm, TUTTI_MISMATCH, m->names);
        ranks_part(me, comm);
    }
}

Test(api_mismatch, messages)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = differ_in_messages });
}

/* --- What may differ */

static void settings_differ(struct ranks_me *me)
{
    static const char *const options[] = { "algo=all_reduce:ring;slice=8K;first_number=7",
        "algo=all_reduce:tree;slice=1M;exact=on;first_number=9", "slice=16K;map=off", "exact=on" };
    tutti_config config = { .size = sizeof config, .options = options[me->rank % 4] };
    config.flags = me->rank == 3 ? TUTTI_COMM_EXACT : 0;
    tutti_comm *comm = ranks_join(me, &config), *child = NULL;
    char choice[64] = "";
    if (comm == NULL)
        return;
    for (int i = 0; i < 2; i++) { /* on the communicator, then on a child with other wishes */
        ranks_at(me, "rank %d: settings that differ by rank, %s", me->rank, i == 0 ? "parent" : "child");
        tutti_query(comm, "choice all_reduce 8", choice, sizeof choice);
        ranks_expect(me, strcmp(choice, i == 0 ? "ring" : "direct") == 0, "the choice is '%s'", choice);
        for (size_t e = 0; e < MOST; e++)
            send_space[e] = e + (uint64_t)me->rank;
        ranks_ok(me,
            tutti_all_reduce(send_space, recv_space, MOST, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        size_t wrong = 0;
        for (size_t e = 0; e < MOST; e++)
            wrong += recv_space[e] != e * (size_t)me->n + (size_t)(me->n * (me->n - 1) / 2);
        ranks_expect(me, wrong == 0, "%zu elements are wrong", wrong);
        config.options = me->rank == 3 ? "algo=all_reduce:direct" : "algo=all_reduce:tree;slice=12K";
        config.flags = 0;
        if (i == 0 && !ranks_ok(me, tutti_comm_split(comm, 0, -me->rank, &config, &child), "split"))
            return;
        ranks_part(me, comm); /* the child outlives its parent */
        comm = child;
    }
}

Test(api_mismatch, settings_are_those_of_rank_0)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = settings_differ });
}
