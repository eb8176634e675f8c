/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_history.c: ranks that call different things where nobody waits for the difference.
 *
 * Each rank sends and gets in that call what its own arguments say, so it returns TUTTI_OK: a root that
 * nobody else took for one, a rank with nothing to receive, the same calls in another order. All ranks get
 * TUTTI_MISMATCH by the next call, whatever it is, or by tutti_comm_finalize; never silence, and never a
 * wait until the timeout, for which these communicators would wait longer than the tests do. */
#include <criterion/criterion.h>

#include "tests/rig/ranks.h"

TestSuite(api_history, .timeout = 300);

enum { RANKS_MOST = 5, MOST = 20000, WARM = 3, LONG_AGO = 200 };
enum call { NOTHING, GATHER, SCATTER, BROADCAST, REDUCE, GATHER_V, BARRIER, ALL_REDUCE, FINALIZE };
static const char *const names[] = { "nothing", "gather", "scatter", "broadcast", "reduce", "gather_v",
    "barrier", "all_reduce", "finalize" };

struct form {
    enum call call;
    size_t count;
    int root;
    tutti_type type;
};
struct slip {
    struct form most[2], odd[2]; /* what most ranks call, and what one does; one call, or two */
    int odd_rank;
    const char *names; /* in the text, or NULL: those of a call of which no record is left */
};

/* What arrives nobody looks at, so threads may share it. */
static int32_t send_space[RANKS_MOST * MOST], recv_space[RANKS_MOST * MOST];

static tutti_status run_form(const struct form *f, tutti_comm *comm)
{
    static const size_t no_counts[RANKS_MAX];
    tutti_stream none = tutti_no_stream();
    switch (f->call) {
    case GATHER:
        return tutti_gather(send_space, recv_space, f->count, f->type, f->root, comm, none);
    case SCATTER:
        return tutti_scatter(send_space, recv_space, f->count, f->type, f->root, comm, none);
    case BROADCAST:
        return tutti_broadcast(send_space, recv_space, f->count, f->type, f->root, comm, none);
    case REDUCE:
        return tutti_reduce(send_space, recv_space, f->count, f->type, TUTTI_SUM, f->root, comm, none);
    case GATHER_V:
        return tutti_gather_v(send_space, 0, recv_space, no_counts, NULL, f->type, f->root, comm, none);
    case BARRIER:
        return tutti_barrier(comm, none);
    case ALL_REDUCE:
        return tutti_all_reduce(send_space, recv_space, f->count, f->type, TUTTI_SUM, comm, none);
    case FINALIZE:
        return tutti_comm_finalize(comm);
    default:
        return TUTTI_OK;
    }
}

static const struct slip slips[] = {
    /* a rank with a count of 0, which then has nothing to wait for */
    { { { GATHER, 40, 1, TUTTI_INT32 } }, { { GATHER, 0, 1, TUTTI_INT32 } }, 1,
        "gather of 40 int32|gather of 0 int32" },
    { { { REDUCE, MOST, 0, TUTTI_INT32 } }, { { REDUCE, 0, 0, TUTTI_INT32 } }, 0,
        "reduce of 20000 int32|reduce of 0 int32" },
    { { { BROADCAST, 3, 0, TUTTI_INT32 } }, { { BROADCAST, 0, 0, TUTTI_INT32 } }, 1,
        "broadcast of 3 int32|broadcast of 0 int32" },
    { { { SCATTER, MOST, 1, TUTTI_INT32 } }, { { SCATTER, 0, 1, TUTTI_INT32 } }, 0,
        "scatter of 20000 int32|scatter of 0 int32" },
    /* a root too many, and one too few */
    { { { BROADCAST, 4, 0, TUTTI_INT32 } }, { { BROADCAST, 4, 1, TUTTI_INT32 } }, 1,
        "int32, root 0|int32, root 1" },
    { { { REDUCE, 4, 1, TUTTI_INT32 } }, { { REDUCE, 4, 0, TUTTI_INT32 } }, 1, "sum, root 1|sum, root 0" },
    /* another order */
    { { { GATHER, 100, 0, TUTTI_INT32 }, { REDUCE, 100, 1, TUTTI_INT32 } },
        { { REDUCE, 100, 1, TUTTI_INT32 }, { GATHER, 100, 0, TUTTI_INT32 } }, 0,
        "gather of 100 int32, root 0|reduce of 100 int32, sum, root 1" },
    { { { GATHER, 100, 1, TUTTI_INT32 }, { BROADCAST, 5, 1, TUTTI_INT32 } },
        { { BROADCAST, 5, 1, TUTTI_INT32 }, { GATHER, 100, 1, TUTTI_INT32 } }, 1,
        "gather of 100|broadcast of 5" },
    /* another type, where no block has an element */
    { { { GATHER_V, 0, 0, TUTTI_INT32 } }, { { GATHER_V, 0, 0, TUTTI_FLOAT32 } }, 1, "int32|float32" },
    { { { BARRIER, 0, 0, TUTTI_INT32 } }, { { BROADCAST, 0, 0, TUTTI_INT8 } }, 0,
        "barrier|broadcast of 0 int8" },
};
enum { SLIPS = sizeof slips / sizeof slips[0] };
static const struct form follows[] = { { BARRIER, 0, 0, TUTTI_INT32 }, { ALL_REDUCE, 5, 0, TUTTI_INT32 },
    { ALL_REDUCE, MOST, 0, TUTTI_INT32 }, { NOTHING, 0, 0, TUTTI_INT32 }, { FINALIZE, 0, 0, TUTTI_INT32 } };
enum { FOLLOWS = sizeof follows / sizeof follows[0] };

struct trial {
    int slip, follow;
    int between; /* empty calls, of which no message tells */
};

/* One slip, and what follows: NOTHING is the same calls again and again. */
static void slip(struct ranks_me *me)
{
    const struct trial *trial = me->context;
    const struct slip *s = &slips[trial->slip];
    const struct form *follow = &follows[trial->follow];
    const struct form *mine = me->rank == s->odd_rank ? s->odd : s->most;
    tutti_config config = { .size = sizeof config, .timeout_ms = 1000000 };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < WARM; i++)
        for (int k = 0; k < 2; k++)
            ranks_ok(me, run_form(&s->most[k], comm), "a call that all make");
    ranks_meet(me); /* or who has the last word in those is told of the slip there */
    ranks_at(me, "slip %d, then %s", trial->slip, names[follow->call]);
    for (int k = 0; k < 2 && status == TUTTI_OK; k++)
        status = run_form(&mine[k], comm);
    for (int i = 0; i < trial->between && status == TUTTI_OK; i++)
        status = run_form(&(struct form){ BROADCAST, 0, 0, TUTTI_INT32 }, comm);
    for (int i = 0; i < 1000 && status == TUTTI_OK; i++)
        for (int k = 0; k < 2 && status == TUTTI_OK; k++)
            status = run_form(follow->call == NOTHING ? &s->most[k] : follow, comm);
    ranks_expect(me, status == TUTTI_MISMATCH, "status %d, not MISMATCH", status);
    ranks_meet(me);
    if (trial->between == 0)
        ranks_same_error(me, comm, TUTTI_MISMATCH, s->names);
    else
        ranks_same_error(me, comm, TUTTI_MISMATCH, "more than 127 operations back");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

static void try_all(int n, enum ranks_kind kind, int between)
{
    for (int s = 0; s < SLIPS; s++)
        for (int f = 0; f < FOLLOWS; f++) {
            bool ends = follows[f].call == NOTHING && slips[s].most[0].call >= GATHER_V;
            if (!ends) /* that would be no exchange at all, or the barrier that is tried anyway */
                ranks_run(&(struct ranks_plan){ .n = n,
                    .kind = kind,
                    .run = slip,
                    .context = &(struct trial){ s, f, between },
                    .limit_s = 100 });
        }
}

Test(api_history, two_ranks)
{
    try_all(2, RANKS_PROCESSES, 0);
}

Test(api_history, threads)
{
    try_all(3, RANKS_TOGETHER, 0);
}

Test(api_history, many_ranks)
{
    try_all(RANKS_MOST, RANKS_PROCESSES, 0);
}

/* Nothing is left of what differed but that it did. These are slips that no rank finds at once. */
Test(api_history, long_ago)
{
    static const int silent[] = { 0, 2, 3, 4, 8 };
    for (int s = 0; s < 5; s++)
        ranks_run(&(struct ranks_plan){
            .n = 2, .run = slip, .context = &(struct trial){ silent[s], 1, LONG_AGO }, .limit_s = 100 });
}
