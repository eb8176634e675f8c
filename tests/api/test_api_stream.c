/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_stream.c: calls on host streams: they return at once, each communicator's run in the order of the
 * calls, and nothing else waits for anything else.
 *
 * Nothing is timed. That a call returned early, or that two things ran side by side, is told by what each
 * rank may do only after another did: ranks hand flags to each other, not through the library. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_stream, .timeout = 120);

enum { WORDS = 1 << 17, SHORT_MS = 60 };

static void raise_flag(struct ranks_me *me, int flag)
{
    atomic_store((_Atomic int *)me->shared + flag, 1);
}

static bool is_up(struct ranks_me *me, int flag)
{
    return atomic_load((_Atomic int *)me->shared + flag) != 0;
}

static void await_flag(struct ranks_me *me, int flag)
{
    while (!is_up(me, flag))
        ranks_sleep_us(50);
}

static tutti_stream open_stream(struct ranks_me *me)
{
    tutti_stream stream = tutti_no_stream();
    ranks_ok(me, tutti_stream_create(&stream), "tutti_stream_create");
    return stream;
}

static void close_stream(struct ranks_me *me, tutti_stream stream)
{
    ranks_ok(me, tutti_stream_destroy(stream), "tutti_stream_destroy");
}

static uint64_t point_of(struct ranks_me *me, tutti_stream stream)
{
    uint64_t point = 0;
    ranks_ok(me, tutti_stream_record(stream, &point), "tutti_stream_record");
    return point;
}

static void finish(struct ranks_me *me, tutti_stream stream)
{
    ranks_ok(me, tutti_stream_wait(stream, point_of(me, stream), -1), "tutti_stream_wait");
}

static tutti_status sum(void *value, size_t count, tutti_comm *comm, tutti_stream stream)
{
    return tutti_all_reduce(value, value, count, TUTTI_UINT64, TUTTI_SUM, comm, stream);
}

static uint64_t *words(size_t count, uint64_t value)
{
    uint64_t *array = malloc(count * sizeof *array);
    if (array == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        array[i] = value;
    return array;
}

static void expect_all(struct ranks_me *me, const uint64_t *array, size_t count, uint64_t value)
{
    for (size_t i = 0; i < count; i++)
        if (!ranks_expect(me, array[i] == value, "element %zu is %llu, expected %llu", i,
                (unsigned long long)array[i], (unsigned long long)value))
            return;
}

/* --- At once, and side by side */

/* Rank 0's call returns before rank 1 begins; rank 1's, which needs rank 0's part, ends while rank 0's own
 * thread computes and calls nothing. */
static void overlap(struct ranks_me *me)
{
    enum { RETURNED, DONE };
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream stream = open_stream(me);
    uint64_t *x = words(WORDS, 1 + (uint64_t)me->rank), steps = 0;
    if (comm == NULL)
        return;
    if (me->rank == 0) {
        ranks_at(me, "rank 0: a call that returns at once");
        ranks_ok(me, sum(x, WORDS, comm, stream), "all_reduce");
        uint64_t point = point_of(me, stream);
        tutti_status status = tutti_stream_query(stream, point);
        ranks_expect(me, status == TUTTI_IN_PROGRESS, "rank 1 has not begun, and query says %d", status);
        raise_flag(me, RETURNED);
        ranks_at(me, "rank 0: computes until rank 1 has the sum");
        while (!is_up(me, DONE))
            steps++;
        ranks_ok(me, tutti_stream_wait(stream, point, -1), "tutti_stream_wait");
        ranks_ok(me, tutti_stream_query(stream, point), "tutti_stream_query");
    } else {
        ranks_at(me, "rank 1: waits until rank 0's call has returned");
        await_flag(me, RETURNED);
        ranks_ok(me, sum(x, WORDS, comm, tutti_no_stream()), "all_reduce");
        raise_flag(me, DONE);
    }
    expect_all(me, x, WORDS, 3);
    close_stream(me, stream);
    ranks_part(me, comm);
    free(x);
}

Test(api_stream, the_caller_computes_meanwhile)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = overlap });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = overlap });
}

/* A call on one stream cannot go on; one of another communicator on another stream does. */
static void independent(struct ranks_me *me)
{
    enum { SECOND_DONE };
    tutti_comm *comms[2] = { ranks_join(me, NULL), ranks_join(me, NULL) };
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[2] = { 1, 10 };
    if (comms[0] == NULL || comms[1] == NULL)
        return;
    if (me->rank == 0) {
        for (int i = 0; i < 2; i++)
            ranks_ok(me, sum(&x[i], 1, comms[i], streams[i]), "all_reduce");
        ranks_at(me, "rank 0: the second communicator, while the first waits");
        finish(me, streams[1]);
        tutti_status status = tutti_stream_query(streams[0], point_of(me, streams[0]));
        ranks_expect(me, status == TUTTI_IN_PROGRESS, "rank 1 has not begun, and query says %d", status);
        raise_flag(me, SECOND_DONE);
        finish(me, streams[0]);
    } else {
        ranks_ok(me, sum(&x[1], 1, comms[1], tutti_no_stream()), "all_reduce");
        ranks_at(me, "rank 1: waits for rank 0's second stream");
        await_flag(me, SECOND_DONE);
        ranks_ok(me, sum(&x[0], 1, comms[0], tutti_no_stream()), "all_reduce");
    }
    ranks_expect(me, x[0] == 2 && x[1] == 20, "the sums are %llu and %llu", (unsigned long long)x[0],
        (unsigned long long)x[1]);
    for (int i = 0; i < 2; i++) {
        close_stream(me, streams[i]);
        ranks_part(me, comms[i]);
    }
}

Test(api_stream, streams_do_not_wait_for_each_other)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = independent });
}

/* 64 streams with a communicator each; rank 1 answers them in the opposite order, one by one. */
static void many(struct ranks_me *me)
{
    enum { MANY = 64 };
    tutti_comm *comm = ranks_join(me, NULL), *children[MANY] = { NULL };
    tutti_stream streams[MANY];
    uint64_t x[MANY];
    if (comm == NULL)
        return;
    for (int i = 0; i < MANY; i++) {
        ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &children[i]), "tutti_comm_split");
        streams[i] = me->rank == 0 ? open_stream(me) : tutti_no_stream();
        x[i] = (uint64_t)i;
    }
    ranks_at(me, "rank %d: %d streams", me->rank, MANY);
    for (int i = 0; i < MANY; i++) {
        int k = me->rank == 0 ? i : MANY - 1 - i;
        ranks_ok(me, sum(&x[k], 1, children[k], streams[k]), "all_reduce");
    }
    for (int i = 0; i < MANY; i++) {
        if (me->rank == 0)
            finish(me, streams[i]);
        ranks_expect(me, x[i] == 2 * (uint64_t)i, "sum %d is %llu", i, (unsigned long long)x[i]);
        if (me->rank == 0)
            close_stream(me, streams[i]);
        ranks_part(me, children[i]);
    }
    ranks_part(me, comm);
}

Test(api_stream, many_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = many });
}

/* --- One order for one communicator */

/* Sums and products in place, whose order matters, each on a drawn stream or on none. Of an odd number of
 * ranks, so that odd words stay odd: products of even ones would soon be 0. */
static void one_order(struct ranks_me *me)
{
    enum { STREAMS = 4, CALLS = 300, COUNT = 700 };
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream streams[STREAMS + 1];
    uint64_t *x = words(COUNT, 3), expected = 3, shared = *(const uint64_t *)me->context;
    if (comm == NULL)
        return;
    for (int i = 0; i < STREAMS; i++)
        streams[i] = open_stream(me);
    streams[STREAMS] = tutti_no_stream();
    ranks_at(me, "n %d rank %d: %d calls on %d streams and none", me->n, me->rank, CALLS, STREAMS);
    for (int i = 0; i < CALLS; i++) {
        bool sums = ranks_random(&shared) % 2 == 0;
        uint64_t value = expected;
        for (int r = 1; r < me->n; r++)
            expected = sums ? expected + value : expected * value;
        tutti_stream stream = streams[ranks_below(&me->random, STREAMS + 1)];
        ranks_ok(me, tutti_all_reduce(x, x, COUNT, TUTTI_UINT64, sums ? TUTTI_SUM : TUTTI_PROD, comm, stream),
            "all_reduce");
        if (stream.kind == TUTTI_STREAM_NONE) /* it waited for all before it */
            expect_all(me, x, COUNT, expected);
    }
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
    expect_all(me, x, COUNT, expected);
    for (int i = 0; i < STREAMS; i++)
        close_stream(me, streams[i]);
    ranks_part(me, comm);
    free(x);
}

Test(api_stream, one_communicator_has_one_order)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        ranks_run(&(struct ranks_plan){ .n = 3, .run = one_order, .seed = seed, .context = &seed });
    uint64_t seed = 4;
    ranks_run(&(struct ranks_plan){
        .n = 3, .kind = RANKS_TOGETHER, .run = one_order, .seed = seed, .context = &seed });
}

/* Messages of a pair, on two streams on one side: matched in the order of the calls. */
static void messages(struct ranks_me *me)
{
    enum { MESSAGES = 200 };
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[MESSAGES] = { 0 };
    if (comm == NULL)
        return;
    for (uint64_t i = 0; i < MESSAGES; i++) {
        tutti_stream stream = streams[ranks_below(&me->random, 2)];
        if (me->rank == 0)
            x[i] = i + 1;
        ranks_ok(me,
            me->rank == 0 ? tutti_send(&x[i], 1, TUTTI_UINT64, 1, comm, stream)
                          : tutti_recv(&x[i], 1, TUTTI_UINT64, 0, comm, stream),
            "send or recv");
    }
    for (int i = 0; i < 2; i++)
        close_stream(me, streams[i]); /* waits for what is queued */
    for (uint64_t i = 0; i < MESSAGES; i++)
        ranks_expect(
            me, x[i] == i + 1, "message %llu is %llu", (unsigned long long)i, (unsigned long long)x[i]);
    ranks_part(me, comm);
}

Test(api_stream, messages_match_in_the_order_of_the_calls)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = messages, .seed = 5 });
}

/* split, finalize and a barrier wait for what is queued, and the arrays of a call are read before it
 * returns. */
static void what_is_queued_first(struct ranks_me *me)
{
    enum { CALLS = 50 };
    tutti_comm *comm = ranks_join(me, NULL), *child = NULL;
    tutti_stream stream = open_stream(me);
    size_t counts[3] = { 1, 2, 3 }, displs[3] = { 5, 3, 0 };
    uint64_t x = 1, block[3] = { (uint64_t)me->rank, (uint64_t)me->rank, (uint64_t)me->rank }, all[6] = { 0 };
    if (comm == NULL)
        return;
    for (int i = 0; i < CALLS; i++)
        ranks_ok(me, sum(&x, 1, comm, stream), "all_reduce");
    ranks_ok(me, tutti_all_gather_v(block, counts[me->rank], all, counts, displs, TUTTI_UINT64, comm, stream),
        "all_gather_v");
    memset(counts, 255, sizeof counts);
    memset(displs, 255, sizeof displs);
    ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &child), "tutti_comm_split");
    uint64_t power = 1;
    for (int i = 0; i < CALLS; i++)
        power *= 3;
    ranks_expect(me, x == power, "split did not wait: the sum is %llu", (unsigned long long)x);
    ranks_expect(me, memcmp(all, (uint64_t[]){ 2, 2, 2, 1, 1, 0 }, sizeof all) == 0, "all_gather_v");
    ranks_ok(me, sum(&x, 1, comm, stream), "all_reduce");
    ranks_ok(me, sum(&x, 1, child, stream), "all_reduce");
    ranks_ok(me, tutti_comm_finalize(child), "tutti_comm_finalize");
    ranks_ok(me, tutti_comm_finalize(comm), "tutti_comm_finalize");
    ranks_expect(me, x == 9 * power, "finalize did not wait: the sum is %llu", (unsigned long long)x);
    tutti_status status = sum(&x, 1, comm, stream);
    ranks_refused(me, status, TUTTI_INVALID_USAGE, "all_reduce", "finalized");
    close_stream(me, stream);
    ranks_part(me, child);
    ranks_part(me, comm);
}

Test(api_stream, calls_without_a_stream_wait_for_what_is_queued)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = what_is_queued_first });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = what_is_queued_first });
}

/* A stream after a point of another, by communicators that have nothing in common. */
static void after(struct ranks_me *me)
{
    enum { BOTH_QUEUED };
    tutti_comm *comms[2] = { ranks_join(me, NULL), ranks_join(me, NULL) };
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[2] = { 1, 1 };
    if (comms[0] == NULL || comms[1] == NULL)
        return;
    if (me->rank == 0) {
        ranks_ok(me, tutti_stream_after(streams[1], streams[0], point_of(me, streams[0])), "after nothing");
        ranks_ok(me, sum(&x[0], 1, comms[0], streams[0]), "all_reduce");
        ranks_ok(me, tutti_stream_after(streams[1], streams[0], point_of(me, streams[0])), "after");
        ranks_ok(me, tutti_stream_after(streams[1], streams[1], point_of(me, streams[1])), "after itself");
        ranks_ok(me, sum(&x[1], 1, comms[1], streams[1]), "all_reduce");
        raise_flag(me, BOTH_QUEUED);
    } else {
        await_flag(me, BOTH_QUEUED);
        ranks_ok(me, sum(&x[1], 1, comms[1], streams[1]), "all_reduce");
        tutti_status status = tutti_stream_wait(streams[1], point_of(me, streams[1]), SHORT_MS);
        ranks_expect(me, status == TUTTI_IN_PROGRESS, "rank 0's second stream did not wait: %d", status);
        ranks_ok(me, sum(&x[0], 1, comms[0], tutti_no_stream()), "all_reduce");
    }
    finish(me, streams[1]);
    ranks_expect(me, x[0] == 2 && x[1] == 2, "the sums are %llu and %llu", (unsigned long long)x[0],
        (unsigned long long)x[1]);
    for (int i = 0; i < 2; i++) {
        close_stream(me, streams[i]);
        ranks_part(me, comms[i]);
    }
}

Test(api_stream, a_stream_after_another)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = after });
}

/* --- Groups */

/* Both send first: only together do they get on. On one stream, on two, and on one and none. */
static void exchange_in_a_group(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_stream streams[2] = { open_stream(me), open_stream(me) }, none = tutti_no_stream();
    const tutti_stream pairs[][2] = { { streams[0], streams[0] }, { streams[0], streams[1] },
        { streams[1], none }, { none, streams[0] } };
    if (comm == NULL)
        return;
    for (int i = 0; i < 4; i++) {
        uint64_t *mine = words(8 * WORDS, (uint64_t)me->rank), *other = words(8 * WORDS, 9);
        ranks_at(me, "rank %d: an exchange in a group, %d", me->rank, i);
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, tutti_send(mine, 8 * WORDS, TUTTI_UINT64, 1 - me->rank, comm, pairs[i][0]), "send");
        ranks_ok(me, tutti_recv(other, 8 * WORDS, TUTTI_UINT64, 1 - me->rank, comm, pairs[i][1]), "recv");
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int k = 0; k < 2 && i < 2; k++) { /* with a call without a stream, the end has waited */
            if (k == 0 || i == 1)
                finish(me, pairs[i][k]);
        }
        expect_all(me, other, 8 * WORDS, 1 - (uint64_t)me->rank);
        free(mine);
        free(other);
    }
    for (int i = 0; i < 2; i++)
        close_stream(me, streams[i]);
    ranks_part(me, comm);
}

Test(api_stream, a_group_progresses_together)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = exchange_in_a_group });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = exchange_in_a_group });
}

/* A group over two streams returns at once, waits for its turn on both, and holds up both. */
static void group_in_turn(struct ranks_me *me)
{
    enum { QUEUED };
    tutti_comm *comms[3] = { ranks_join(me, NULL), ranks_join(me, NULL), ranks_join(me, NULL) };
    tutti_stream streams[2] = { open_stream(me), open_stream(me) };
    uint64_t x[4] = { 1, 1, 1, 1 };
    if (comms[0] == NULL || comms[1] == NULL || comms[2] == NULL)
        return;
    if (me->rank == 0) {
        ranks_ok(me, sum(&x[0], 1, comms[0], streams[1]), "all_reduce");
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, sum(&x[1], 1, comms[1], streams[0]), "all_reduce");
        ranks_ok(me, sum(&x[2], 1, comms[2], streams[1]), "all_reduce");
        uint64_t before = point_of(me, streams[0]);
        ranks_ok(me, tutti_group_end(), "group_end");
        ranks_expect(me, before == 0 && tutti_stream_query(streams[0], before) == TUTTI_OK,
            "a point within a group has its calls");
        ranks_expect(me,
            tutti_stream_query(streams[0], point_of(me, streams[0])) == TUTTI_IN_PROGRESS &&
                tutti_stream_query(streams[1], point_of(me, streams[1])) == TUTTI_IN_PROGRESS,
            "rank 1 has not begun");
        ranks_ok(me, sum(&x[3], 1, comms[0], streams[1]), "all_reduce"); /* behind the group */
        raise_flag(me, QUEUED);
    } else {
        await_flag(me, QUEUED);
        ranks_ok(me, sum(&x[1], 1, comms[1], streams[0]), "all_reduce");
        tutti_status status = tutti_stream_wait(streams[0], point_of(me, streams[0]), SHORT_MS);
        ranks_expect(me, status == TUTTI_IN_PROGRESS, "the group did not wait for its turn: %d", status);
        ranks_ok(me, sum(&x[0], 1, comms[0], tutti_no_stream()), "all_reduce");
        ranks_ok(me, tutti_stream_wait(streams[0], point_of(me, streams[0]), -1), "the first of the group");
        ranks_ok(me, sum(&x[3], 1, comms[0], streams[1]), "all_reduce");
        status = tutti_stream_wait(streams[1], point_of(me, streams[1]), SHORT_MS);
        ranks_expect(me, status == TUTTI_IN_PROGRESS, "a call did not wait for the group: %d", status);
        ranks_ok(me, sum(&x[2], 1, comms[2], tutti_no_stream()), "all_reduce");
    }
    for (int i = 0; i < 2; i++) {
        finish(me, streams[i]);
        close_stream(me, streams[i]);
    }
    for (int i = 0; i < 4; i++)
        ranks_expect(me, x[i] == 2, "sum %d is %llu", i, (unsigned long long)x[i]);
    for (int i = 0; i < 3; i++)
        ranks_part(me, comms[i]);
}

Test(api_stream, a_group_takes_its_turn_on_all_its_streams)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = group_in_turn });
}

/* Groups over drawn streams and communicators, by several threads' worth of ranks: whatever crosses, no
 * circle of waits forms, and every sum is right. */
static void crossing(struct ranks_me *me)
{
    enum { COMMS = 3, STREAMS = 3, ROUNDS = 60 };
    tutti_comm *comms[COMMS];
    tutti_stream streams[STREAMS + 1];
    uint64_t x[COMMS], expected[COMMS], shared = 77;
    for (int i = 0; i < COMMS; i++) {
        comms[i] = ranks_join(me, NULL);
        x[i] = expected[i] = 1;
        if (comms[i] == NULL)
            return;
    }
    for (int i = 0; i < STREAMS; i++)
        streams[i] = open_stream(me);
    streams[STREAMS] = tutti_no_stream();
    ranks_at(
        me, "n %d rank %d: groups over %d streams and %d communicators", me->n, me->rank, STREAMS, COMMS);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t calls = 1 + ranks_below(&shared, 4);
        ranks_ok(me, tutti_group_start(), "group_start");
        for (uint32_t k = 0; k < calls; k++) {
            uint32_t c = ranks_below(&shared, COMMS);
            ranks_ok(me, sum(&x[c], 1, comms[c], streams[ranks_below(&me->random, STREAMS + (i % 8 == 0))]),
                "all_reduce");
            expected[c] *= (uint64_t)me->n;
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        uint32_t c = ranks_below(&shared, COMMS);
        ranks_ok(me, sum(&x[c], 1, comms[c], streams[ranks_below(&me->random, STREAMS)]), "all_reduce");
        expected[c] *= (uint64_t)me->n;
    }
    for (int i = 0; i < STREAMS; i++)
        close_stream(me, streams[i]);
    for (int i = 0; i < COMMS; i++) {
        ranks_expect(me, x[i] == expected[i], "sum %d is %llu, expected %llu", i, (unsigned long long)x[i],
            (unsigned long long)expected[i]);
        ranks_part(me, comms[i]);
    }
}

Test(api_stream, crossing_groups)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = crossing, .seed = 6 });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = crossing, .seed = 7 });
}
