/* SPDX-License-Identifier: BSD-3-Clause */
/* steps.c: what all ranks do together: calls alone, on streams, in groups, and groups that are kept. */
#include "tests/fuzz/fuzz.h"

enum { GROUP_MOST = 12 };

struct batch { /* the calls of one group, of one rank */
    struct fuzz_call calls[GROUP_MOST];
    int count;
    bool streams; /* all calls have one */
};

static uint32_t below(struct fuzz_rank *me, uint32_t bound)
{
    return ranks_below(&me->random, bound);
}

/* What one call may take; there is always room for a whole group. */
static size_t limit_of(struct fuzz_rank *me)
{
    for (int i = 0; i < FUZZ_POOLS; i++)
        if (me->pools[i].used > me->pools[i].room / 2) {
            fuzz_settle(me);
            break;
        }
    return me->pools[0].room / 32;
}

static bool draw_stream(struct fuzz_rank *me, struct fuzz_call *call)
{
    if (me->stream_count == 0)
        return false;
    call->stream = me->streams[below(me, (uint32_t)me->stream_count)];
    return true;
}

/* The communicator, or a child of it; all ranks take the same. */
static struct fuzz_end *any_end(struct fuzz_rank *me, uint64_t *r)
{
    uint32_t which = ranks_below(r, 2 * FUZZ_ENDS);
    return which < FUZZ_ENDS && me->ends[which].n > 0 ? &me->ends[which] : &me->ends[0];
}

static void settle_if_over(struct fuzz_rank *me)
{
    if (me->in_streams == 0)
        fuzz_settle(me);
}

/* --- One call */

static void make(struct fuzz_rank *me, struct fuzz_call *call, const char *where)
{
    fuzz_fill(me, call);
    fuzz_describe(me, call, where);
    fuzz_expect(me, fuzz_rows[call->what].name, fuzz_make(me, call), FUZZ_OK);
}

static void collective(struct fuzz_rank *me, uint64_t common)
{
    struct fuzz_call call;
    struct fuzz_end *end = any_end(me, &common);
    size_t limit = limit_of(me);
    if (end->comm == NULL)
        return;
    if (ranks_below(&common, 4) == 0) { /* a long one, by all ranks */
        fuzz_settle(me);
        limit *= 10;
    }
    fuzz_draw(me, end, ranks_mix(common), limit, &call);
    bool stream = below(me, 3) == 0 && draw_stream(me, &call);
    int times = 1 + (int)ranks_below(&common, 3); /* what was called before goes another way */
    size_t used[FUZZ_POOLS] = { me->pools[0].used, me->pools[1].used };
    for (int i = 0; i < times; i++) {
        if (i > 0 && me->in_streams > 0)
            fuzz_settle(me);
        for (int p = 0; p < FUZZ_POOLS; p++)
            me->pools[p].used = used[p];
        call.data += (uint64_t)i;
        me->in_streams += stream;
        make(me, &call, "");
        settle_if_over(me);
    }
}

/* One rank sends, another receives, outside a group. */
static void message(struct fuzz_rank *me, uint64_t common)
{
    struct fuzz_call call;
    struct fuzz_end *end = any_end(me, &common);
    if (end->comm == NULL || end->n < 2)
        return;
    int from = (int)ranks_below(&common, (uint32_t)end->n);
    int to = (from + 1 + (int)ranks_below(&common, (uint32_t)end->n - 1)) % end->n;
    if (end->rank != from && end->rank != to)
        return;
    bool receives = end->rank == to;
    fuzz_draw_message(me, end, ranks_mix(common), limit_of(me), receives, receives ? from : to, &call);
    if (below(me, 3) == 0 && draw_stream(me, &call))
        me->in_streams++;
    make(me, &call, "");
    settle_if_over(me);
}

/* --- Groups */

static void add_message(
    struct fuzz_rank *me, const struct fuzz_end *end, uint64_t *r, size_t limit, struct batch *batch)
{
    int from = (int)ranks_below(r, (uint32_t)end->n), to = (int)ranks_below(r, (uint32_t)end->n);
    uint64_t common = ranks_random(r);
    if (end->comm == NULL)
        return;
    for (int i = 0; i < 2; i++) { /* a rank may send to itself, before or after it receives */
        bool receives = (i == 0) == ((common & 1) == 0);
        if (end->rank == (receives ? to : from))
            fuzz_draw_message(
                me, end, common, limit, receives, receives ? from : to, &batch->calls[batch->count++]);
    }
}

/* The calls of a group; each rank has its own part of the messages. */
static void compose(struct fuzz_rank *me, uint64_t common, struct batch *batch)
{
    uint64_t r = common;
    int items = 1 + (int)ranks_below(&r, 5);
    size_t limit = limit_of(me);
    uint32_t streams = below(me, 3); /* none, all or some */
    batch->count = 0;
    for (int i = 0; i < items; i++) {
        const struct fuzz_end *end = any_end(me, &r);
        bool is_message = ranks_below(&r, 2) == 0;
        uint64_t drawn = ranks_random(&r);
        if (is_message)
            add_message(me, end, &drawn, limit, batch);
        else if (end->comm != NULL)
            fuzz_draw(me, end, drawn, limit, &batch->calls[batch->count++]);
    }
    batch->streams = batch->count > 0;
    for (int i = 0; i < batch->count; i++)
        batch->streams &=
            (streams == 1 || (streams == 2 && below(me, 2) == 0)) && draw_stream(me, &batch->calls[i]);
}

static void queue(struct fuzz_rank *me, struct batch *batch)
{
    for (int i = 0; i < batch->count; i++) {
        bool nested = below(me, 4) == 0;
        if (nested)
            fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
        make(me, &batch->calls[i], "in a group: ");
        if (nested)
            fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_OK);
    }
}

static void group(struct fuzz_rank *me, uint64_t common)
{
    struct batch batch;
    compose(me, common, &batch);
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    queue(me, &batch);
    fuzz_at(me, "group_end of %d calls%s", batch.count, batch.streams ? " on streams" : "");
    fuzz_expect(me, "group_end", tutti_group_end(), FUZZ_OK);
    me->in_streams += batch.streams;
    settle_if_over(me);
}

static void program(struct fuzz_rank *me, uint64_t common)
{
    struct batch batch;
    tutti_program *kept = NULL;
    int starts = 1 + (int)ranks_below(&common, 3);
    compose(me, common, &batch);
    fuzz_expect(me, "group_start", tutti_group_start(), FUZZ_OK);
    queue(me, &batch);
    fuzz_at(me, "group_keep of %d calls%s", batch.count, batch.streams ? " on streams" : "");
    fuzz_expect(me, "group_keep", tutti_group_keep(&kept), FUZZ_OK);
    for (int s = 0; s < starts; s++) {
        for (int i = 0; i < batch.count; i++) {
            batch.calls[i].data += (uint64_t)s;
            fuzz_fill(me, &batch.calls[i]);
        }
        fuzz_at(
            me, "start %d of a program of %d calls%s", s, batch.count, batch.streams ? " on streams" : "");
        fuzz_expect(me, "program_start", tutti_program_start(kept), FUZZ_OK);
        me->in_streams += batch.streams;
        if (s + 1 < starts)
            fuzz_settle(me);
    }
    fuzz_at(me, "program_destroy");
    fuzz_expect(me, "program_destroy", tutti_program_destroy(kept), FUZZ_OK);
    fuzz_settle(me);
    if (me->n == 1) {
        fuzz_expect(me, "program_start", tutti_program_start(kept), FUZZ_ARGUMENT);
        fuzz_bury(me, kept);
    }
}

/* --- Which */

void fuzz_common_step(struct fuzz_rank *me, uint64_t common)
{
    uint64_t r = common;
    uint32_t which = ranks_below(&r, 24);
    uint64_t drawn = ranks_random(&r);
    int child = 1 + (int)ranks_below(&r, FUZZ_ENDS - 1);
    if (which < 10)
        collective(me, drawn);
    else if (which < 13)
        message(me, drawn);
    else if (which < 17)
        group(me, drawn);
    else if (which < 19)
        program(me, drawn);
    else if (which == 19)
        fuzz_op_step(me, &me->ends[0], drawn);
    else if (which < 22)
        fuzz_split(me, drawn);
    else if (which == 22 && me->ends[child].n > 0)
        fuzz_part(me, &me->ends[child], drawn);
    else
        fuzz_settle(me);
}

void fuzz_one_thread_step(struct fuzz_episode *episode, uint64_t common)
{
    static struct batch batches[FUZZ_RANKS];
    struct fuzz_rank *first = &episode->ranks[0];
    uint64_t drawn = ranks_mix(common);
    for (int r = 0; r < episode->n; r++)
        fuzz_settle(&episode->ranks[r]);
    if ((common & 7) == 0) {
        for (int r = 0; r < episode->n; r++)
            fuzz_op_step(&episode->ranks[r], &episode->ranks[r].ends[0], drawn);
        return;
    }
    fuzz_expect(first, "group_start", tutti_group_start(), FUZZ_OK);
    for (int r = 0; r < episode->n; r++) {
        compose(&episode->ranks[r], drawn, &batches[r]);
        queue(&episode->ranks[r], &batches[r]);
    }
    fuzz_at(first, "group_end of %d ranks", episode->n);
    fuzz_expect(first, "group_end", tutti_group_end(), FUZZ_OK);
    for (int r = 0; r < episode->n; r++)
        episode->ranks[r].in_streams++; /* if all calls of all ranks have one, it is not over yet */
    for (int r = 0; r < episode->n; r++)
        fuzz_settle(&episode->ranks[r]);
}
