/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c: how communicators begin, and how they end: well, or by all kinds of errors. */
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <unistd.h>

enum { NOTHING_SPECIAL = 3, POLL_US = 50 };

/* --- The beginning */

/* A communicator in the making takes no calls, and says when it is ready. */
static void await(struct fuzz_rank *me, tutti_comm *comm)
{
    fuzz_at(me, "a communicator in the making");
    while (tutti_comm_state(comm) == TUTTI_IN_PROGRESS)
        usleep(POLL_US);
    fuzz_expect(me, "comm_state", tutti_comm_state(comm), FUZZ_OK);
}

static void join(struct fuzz_rank *me, uint64_t common)
{
    struct fuzz_episode *episode = me->episode;
    tutti_config config = episode->config;
    if (me->rank == 0)
        fuzz_expect(me, "get_id", tutti_get_id(&episode->id), FUZZ_OK);
    fuzz_meet(me);
    if (common & 1)
        config.flags |= TUTTI_COMM_NONBLOCKING;
    fuzz_at(me, "init_rank, options \"%s\", flags %d", episode->options, (int)config.flags);
    fuzz_expect(me, "comm_init_rank",
        tutti_comm_init_rank(me->n, me->rank, &episode->id, &config, &me->ends[0].comm), FUZZ_OK);
    if (common & 1)
        await(me, me->ends[0].comm);
}

void fuzz_begin(struct fuzz_rank *me, uint64_t common)
{
    static const size_t rooms[] = { 32, 32, 32, 64, 64, 256, 256, 1024 };
    fuzz_pools_create(me, rooms[common % 8] << 10);
    if (me->ends[0].comm == NULL)
        join(me, ranks_mix(common));
    me->ends[0].n = me->n;
    me->ends[0].rank = me->rank;
}

/* --- Children */

/* Which child a rank gets, in the order of (key, rank). */
static void find_place(const int *colors, const int *keys, int n, int rank, struct fuzz_end *child)
{
    child->n = child->rank = 0;
    for (int r = 0; r < n; r++) {
        if (colors[r] != colors[rank])
            continue;
        child->n++;
        child->rank += keys[r] < keys[rank] || (keys[r] == keys[rank] && r < rank);
    }
}

void fuzz_split(struct fuzz_rank *me, uint64_t common)
{
    int colors[FUZZ_RANKS], keys[FUZZ_RANKS], slot = 1;
    bool wrong = ranks_below(&common, 6) == 0;
    while (slot < FUZZ_ENDS && me->ends[slot].n > 0)
        slot++;
    if (slot == FUZZ_ENDS) {
        fuzz_part(me, &me->ends[1], common);
        return;
    }
    for (int r = 0; r < me->n; r++) {
        colors[r] = (int)ranks_below(&common, 4) - 1;
        colors[r] = colors[r] == 2 ? 0 : colors[r];
        keys[r] = (int)ranks_below(&common, 5) - 2;
    }
    if (wrong)
        colors[ranks_below(&common, (uint32_t)me->n)] = -2;
    tutti_comm *sentinel = (tutti_comm *)(void *)me, *comm = sentinel;
    struct fuzz_end child = { 0 };
    find_place(colors, keys, me->n, me->rank, &child);
    fuzz_at(me, "split, colour %d, key %d", colors[me->rank], keys[me->rank]);
    fuzz_expect(me, "comm_split",
        tutti_comm_split(me->ends[0].comm, colors[me->rank], keys[me->rank], NULL, &comm),
        wrong ? FUZZ_ARGUMENT : FUZZ_OK);
    fuzz_right(me, "comm_split", (comm == sentinel) == wrong);
    if (wrong)
        return;
    fuzz_right(me, "comm_split", (comm == NULL) == (colors[me->rank] == -1));
    if (comm != NULL) {
        fuzz_right(me, "comm_rank", tutti_comm_rank(comm) == child.rank);
        fuzz_right(me, "comm_size", tutti_comm_size(comm) == child.n);
    }
    child.comm = comm;
    me->ends[slot] = child;
}

/* --- Ends that are well */

static void destroy(struct fuzz_rank *me, struct fuzz_end *end)
{
    fuzz_at(me, "destroy of %p", (void *)end->comm);
    fuzz_expect(me, "comm_destroy", tutti_comm_destroy(end->comm), FUZZ_OK);
    fuzz_bury(me, end->comm);
}

static void finalize(struct fuzz_rank *me, struct fuzz_end *end)
{
    tutti_comm *child = NULL;
    fuzz_at(me, "finalize of %p", (void *)end->comm);
    fuzz_expect(me, "comm_finalize", tutti_comm_finalize(end->comm), FUZZ_OK);
    fuzz_settle(me);
    fuzz_at(me, "calls on %p, which is finalized", (void *)end->comm);
    fuzz_expect(me, "barrier", tutti_barrier(end->comm, tutti_no_stream()), FUZZ_USAGE);
    fuzz_expect(me, "comm_split", tutti_comm_split(end->comm, 0, 0, NULL, &child), FUZZ_USAGE);
    fuzz_right(me, "comm_split", child == NULL);
}

void fuzz_part(struct fuzz_rank *me, struct fuzz_end *end, uint64_t common)
{
    fuzz_settle(me);
    if (common & 1)
        fuzz_meet(me); /* nobody needs it any more */
    else if (end->comm != NULL)
        finalize(me, end);
    if (end->comm != NULL)
        destroy(me, end);
    *end = (struct fuzz_end){ 0 };
}

/* --- Ends that are not */

/* All calls say how it ended, all ranks have the same words, and what is left works. */
static void after_the_end(struct fuzz_rank *me, tutti_status status)
{
    tutti_comm *comm = me->ends[0].comm, *child = NULL;
    struct fuzz_call call;
    tutti_op op = 99;
    uint32_t may = FUZZ_MAY(status);
    tutti_error *mine = &me->episode->errors[me->rank];
    fuzz_at(me, "calls on %p, which has failed with %d", (void *)comm, status);
    fuzz_expect(me, "comm_state", tutti_comm_state(comm), may);
    *mine = (tutti_error){ .size = sizeof *mine };
    fuzz_expect(me, "comm_get_error", tutti_comm_get_error(comm, mine), FUZZ_OK);
    fuzz_right(me, "comm_get_error", mine->status == status && mine->text[0] != '\0');
    fuzz_right(me, "comm_size", tutti_comm_size(comm) == me->n);
    fuzz_expect(me, "comm_split", tutti_comm_split(comm, 0, 0, NULL, &child), may);
    fuzz_expect(
        me, "op_create_pre_mul_sum", tutti_op_create_pre_mul_sum(comm, "\1", TUTTI_INT8, 0, &op), may);
    fuzz_expect(me, "comm_finalize", tutti_comm_finalize(comm), may);
    fuzz_right(me, "comm_split", child == NULL && op == 99);
    fuzz_settle(me);
    fuzz_draw(me, &me->ends[0], ranks_random(&me->random), me->pools[0].room / 16, &call);
    fuzz_describe(me, &call, "after the end: ");
    fuzz_expect(me, fuzz_rows[call.what].name, fuzz_make(me, &call), may);
    fuzz_compare(me);
    for (int i = 0; i < me->ends[0].op_count; i++)
        fuzz_expect(me, "op_destroy", tutti_op_destroy(comm, me->ends[0].ops[i].id), FUZZ_OK);
    fuzz_expect(me, "comm_abort", tutti_comm_abort(comm), FUZZ_OK);
    fuzz_expect(me, "comm_state", tutti_comm_state(comm), may);
}

static void compare_errors(struct fuzz_rank *me, int but)
{
    const tutti_error *mine = &me->episode->errors[me->rank];
    for (int r = 0; r < me->n && me->rank != but; r++) {
        const tutti_error *other = &me->episode->errors[r];
        if (r != but && memcmp(mine, other, sizeof *mine) != 0)
            fuzz_fail(me, "this rank was told \"%s\", rank %d \"%s\"", mine->text, r, other->text);
    }
}

static void abort_it(struct fuzz_rank *me, int who)
{
    fuzz_at(me, "rank %d aborts", who);
    if (me->rank == who)
        fuzz_expect(me, "comm_abort", tutti_comm_abort(me->ends[0].comm), FUZZ_OK);
    fuzz_expect(me, "barrier", tutti_barrier(me->ends[0].comm, tutti_no_stream()), FUZZ_MAY(TUTTI_ABORTED));
    after_the_end(me, TUTTI_ABORTED);
}

static void differ(struct fuzz_rank *me, int who, uint64_t common)
{
    uint32_t values[4] = { 0 }, results[4];
    tutti_comm *comm = me->ends[0].comm;
    size_t count = me->rank == who ? 3 : 4;
    uint32_t may = FUZZ_OK | FUZZ_MAY(TUTTI_MISMATCH);
    fuzz_at(me, "rank %d calls something else", who);
    if (common & 1)
        fuzz_expect(me, "all_reduce",
            tutti_all_reduce(values, results, count, TUTTI_UINT32, TUTTI_MAX, comm, tutti_no_stream()), may);
    else if (me->rank == who)
        fuzz_expect(me, "broadcast",
            tutti_broadcast(values, values, count, TUTTI_UINT32, 0, comm, tutti_no_stream()), may);
    else
        fuzz_expect(me, "barrier", tutti_barrier(comm, tutti_no_stream()), may);
    fuzz_expect(me, "comm_finalize", tutti_comm_finalize(comm), FUZZ_MAY(TUTTI_MISMATCH));
    after_the_end(me, TUTTI_MISMATCH);
}

static void leave_early(struct fuzz_rank *me, int who)
{
    fuzz_at(me, "rank %d leaves early", who);
    if (me->rank == who)
        return;
    fuzz_expect(me, "barrier", tutti_barrier(me->ends[0].comm, tutti_no_stream()), FUZZ_MAY(TUTTI_PEER_LOST));
    after_the_end(me, TUTTI_PEER_LOST);
}

/* One rank refuses a call that the others are in, and makes no other: they are told so. This is in a child,
 * whose own settings say how long they wait. */
static void refuse(struct fuzz_rank *me, int who, uint64_t common)
{
    tutti_config config = { .size = sizeof config, .options = "refusal=1" };
    struct fuzz_end child = { .n = me->n, .rank = me->rank };
    const char *why = "a word of the fuzzer's";
    bool library = (common & 1) != 0;
    fuzz_at(me, "rank %d refuses its call", who);
    fuzz_expect(
        me, "comm_split", tutti_comm_split(me->ends[0].comm, 0, me->rank, &config, &child.comm), FUZZ_OK);
    if (me->rank == who && library)
        fuzz_expect(me, "broadcast",
            tutti_broadcast(NULL, NULL, 1, TUTTI_INT8, 0, child.comm, tutti_no_stream()), FUZZ_ARGUMENT);
    else if (me->rank == who)
        fuzz_expect(me, "comm_refuse", tutti_comm_refuse(child.comm, -1, why), FUZZ_OK);
    while (me->rank == who && tutti_comm_state(child.comm) == TUTTI_OK)
        usleep(POLL_US);
    fuzz_expect(me, "barrier", tutti_barrier(child.comm, tutti_no_stream()), FUZZ_USAGE);
    tutti_error error = { .size = sizeof error };
    fuzz_expect(me, "comm_get_error", tutti_comm_get_error(child.comm, &error), FUZZ_OK);
    fuzz_right(me, "comm_get_error", error.peer == who && strstr(error.text, library ? "NULL" : why) != NULL);
    fuzz_meet(me);
    destroy(me, &child);
}

void fuzz_finish(struct fuzz_rank *me, uint64_t common)
{
    uint64_t r = common;
    uint32_t how = ranks_below(&r, 8);
    int who = (int)ranks_below(&r, (uint32_t)me->n), but = -1;
    for (int i = 1; i < FUZZ_ENDS; i++)
        if (me->ends[i].n > 0)
            fuzz_part(me, &me->ends[i], ranks_random(&r));
    fuzz_settle(me);
    fuzz_meet(me);
    if (how == 7 && me->n > 1)
        refuse(me, who, ranks_random(&r));
    if (how == 0) {
        finalize(me, &me->ends[0]);
    } else if (how == 1) {
        abort_it(me, who);
    } else if (how == 2 && me->n > 1) {
        differ(me, who, ranks_random(&r));
    } else if (how == 3 && me->n > 1) {
        leave_early(me, who);
        but = who;
    } else {
        how = NOTHING_SPECIAL + 1;
    }
    if (me->rank == but)
        destroy(me, &me->ends[0]);
    fuzz_meet(me);
    if (how > 0 && how <= NOTHING_SPECIAL)
        compare_errors(me, but);
    if (me->rank != but)
        destroy(me, &me->ends[0]);
    for (int i = me->stream_count - 1; i >= 0; i--)
        fuzz_expect(me, "stream_destroy", tutti_stream_destroy(me->streams[i]), FUZZ_OK);
    fuzz_pools_free(me);
}
