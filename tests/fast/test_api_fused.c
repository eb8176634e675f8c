/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_fused.c: the fast path of small calls that were made before (lib/run/fast_path.c): the same bits
 * as the slow path, with peers on either, through long waits, and with errors told as before. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "run/comm.h"
#include "run/call_cache.h"
#include "tests/rig/ranks.h"

enum { MOST = 600, ELEMENT = 8, ROUNDS = 3 };
static const size_t counts[] = { 1, 2, 13, 20, 100, MOST };
enum { COUNTS = sizeof counts / sizeof counts[0] };

struct form {
    enum tt_collective collective;
    tutti_type type;
    tutti_op op;
};
static const struct form forms[] = {
    { TT_ALL_REDUCE, TUTTI_FLOAT32, TUTTI_SUM },
    { TT_ALL_REDUCE, TUTTI_BFLOAT16, TUTTI_AVG },
    { TT_ALL_REDUCE, TUTTI_INT8, TUTTI_MAX },
    { TT_REDUCE, TUTTI_FLOAT16, TUTTI_SUM },
    { TT_REDUCE, TUTTI_FLOAT64, TUTTI_PROD },
    { TT_REDUCE_SCATTER, TUTTI_FLOAT32, TUTTI_AVG },
    { TT_REDUCE_SCATTER, TUTTI_UINT32, TUTTI_BIT_XOR },
    { TT_BROADCAST, TUTTI_INT32, 0 },
    { TT_ALL_GATHER, TUTTI_FLOAT8_E4M3, 0 },
    { TT_ALL_TO_ALL, TUTTI_INT64, 0 },
    { TT_GATHER, TUTTI_INT8, 0 },
    { TT_SCATTER, TUTTI_UINT64, 0 },
    { TT_BARRIER, TUTTI_INT32, 0 },
    { TT_ALL_GATHER_V, TUTTI_INT32, 0 },
    { TT_REDUCE_SCATTER_V, TUTTI_FLOAT32, TUTTI_SUM },
    { TT_ALL_TO_ALL_V, TUTTI_INT8, 0 },
    { TT_GATHER_V, TUTTI_INT64, 0 },
    { TT_SCATTER_V, TUTTI_UINT32, 0 },
};
enum { FORMS = sizeof forms / sizeof forms[0] };

static uint8_t send_space[RANKS_MAX][RANKS_MAX * MOST * ELEMENT],
    recv_space[2][RANKS_MAX][RANKS_MAX * MOST * ELEMENT];

/* Uneven blocks, some empty; those of rank `from` for rank `to`. */
static size_t block(size_t count, int from, int to)
{
    return (size_t)(from * 2 + to + (int)count) % 3 * (count / 2);
}

static tutti_status run_v(const struct ranks_me *me, const struct form *f, const void *send, void *recv,
    size_t count, int root, tutti_comm *comm)
{
    size_t shared[RANKS_MAX], out[RANKS_MAX], in[RANKS_MAX], displs[RANKS_MAX];
    tutti_stream none = tutti_no_stream();
    for (int r = 0; r < me->n; r++) {
        shared[r] = block(count, r, 0);
        out[r] = block(count, me->rank, r);
        in[r] = block(count, r, me->rank);
        displs[r] = (size_t)(me->n - 1 - r) * count;
    }
    switch (f->collective) {
    case TT_ALL_GATHER_V:
        return tutti_all_gather_v(send, shared[me->rank], recv, shared, displs, f->type, comm, none);
    case TT_REDUCE_SCATTER_V:
        return tutti_reduce_scatter_v(send, shared, recv, f->type, f->op, comm, none);
    case TT_ALL_TO_ALL_V:
        return tutti_all_to_all_v(send, out, NULL, recv, in, displs, f->type, comm, none);
    case TT_GATHER_V:
        return tutti_gather_v(send, shared[me->rank], recv, shared, NULL, f->type, root, comm, none);
    default:
        return tutti_scatter_v(send, shared, displs, recv, shared[me->rank], f->type, root, comm, none);
    }
}

static tutti_status run(const struct ranks_me *me, const struct form *f, const void *send, void *recv,
    size_t count, int root, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    switch (f->collective) {
    case TT_ALL_REDUCE:
        return tutti_all_reduce(send, recv, count, f->type, f->op, comm, none);
    case TT_REDUCE:
        return tutti_reduce(send, recv, count, f->type, f->op, root, comm, none);
    case TT_REDUCE_SCATTER:
        return tutti_reduce_scatter(send, recv, count, f->type, f->op, comm, none);
    case TT_BROADCAST:
        return tutti_broadcast(send, recv, count, f->type, root, comm, none);
    case TT_ALL_GATHER:
        return tutti_all_gather(send, recv, count, f->type, comm, none);
    case TT_ALL_TO_ALL:
        return tutti_all_to_all(send, recv, count, f->type, comm, none);
    case TT_GATHER:
        return tutti_gather(send, recv, count, f->type, root, comm, none);
    case TT_SCATTER:
        return tutti_scatter(send, recv, count, f->type, root, comm, none);
    case TT_BARRIER:
        return tutti_barrier(comm, none);
    default:
        return run_v(me, f, send, recv, count, root, comm);
    }
}

static void fill(struct ranks_me *me, uint8_t *to, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(ranks_random(&me->random) & 0x3f);
}

/* Short and slow path with the same input, several rounds with other input each. */
static void compare(
    struct ranks_me *me, const struct form *f, size_t count, int root, bool in_place, tutti_comm *both[2])
{
    uint8_t *send = send_space[me->rank];
    size_t bytes = (size_t)me->n * count * tutti_type_bytes(f->type);
    for (int round = 0; round < ROUNDS; round++) {
        ranks_at(me, "n %d rank %d: %s of %zu, type %d, root %d%s, round %d", me->n, me->rank,
            tt_collectives[f->collective].name, count, f->type, root, in_place ? ", in place" : "", round);
        fill(me, send, bytes);
        for (int side = 0; side < 2; side++) {
            uint8_t *recv = recv_space[side][me->rank];
            memset(recv, 0x77, sizeof recv_space[side][me->rank]);
            if (in_place)
                memcpy(recv, send, bytes);
            ranks_ok(me, run(me, f, in_place ? recv : send, recv, count, root, both[side]), "a call");
        }
        ranks_expect(me,
            memcmp(recv_space[0][me->rank], recv_space[1][me->rank], sizeof recv_space[0][0]) == 0,
            "the fast path has other bits");
    }
}

static void same_bits(struct ranks_me *me)
{
    const char *options = me->context;
    bool odd = options != NULL && me->rank % 2 == 1; /* with peers that go the other way */
    tutti_config on = { .size = sizeof on, .options = odd ? "fused=off" : "fused=on" };
    tutti_config off = { .size = sizeof off, .options = odd ? "fused=on" : "fused=off" };
    tutti_comm *both[2] = { ranks_join(me, &on), ranks_join(me, &off) };
    if (both[0] == NULL || both[1] == NULL)
        return;
    for (int i = 0; i < FORMS; i++)
        for (int c = 0; c < COUNTS; c++) {
            bool same = tt_collectives[forms[i].collective].in_place == TT_IN_PLACE_SAME && c % 2 == 1;
            compare(me, &forms[i], counts[c], (i + c) % me->n, same, both);
        }
    ranks_expect(me, ranks_cached(both[odd]) > FORMS, "only %d calls are cached", ranks_cached(both[odd]));
    ranks_expect(me, ranks_cached(both[!odd]) == 0, "fused=off caches calls");
    for (int side = 0; side < 2; side++)
        ranks_part(me, both[side]);
}

Test(api_fused, same_bits)
{
    for (int n = 1; n <= 5; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = same_bits });
}

Test(api_fused, same_bits_of_threads)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = same_bits });
}

Test(api_fused, peers_on_the_other_way)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = same_bits, .context = "mixed" });
}

/* --- A long wait: the executor takes over */

static void wait_long(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int i = 0; i < FORMS; i++)
        for (int round = 0; round < 4; round++) {
            const struct form *f = &forms[i];
            uint8_t *send = send_space[me->rank], *recv = recv_space[0][me->rank];
            ranks_at(me, "n %d rank %d: late, %s, round %d", me->n, me->rank,
                tt_collectives[f->collective].name, round);
            memset(send, 1, MOST);
            memset(recv, 0x77, MOST);
            if (round == 2 && me->rank == i % me->n)
                ranks_sleep_us(250000); /* more than a tick of lib/base/wait.h */
            ranks_ok(me, run(me, f, send, recv, 4, 0, comm), "a call");
            if (f->collective == TT_ALL_REDUCE && f->op == TUTTI_MAX)
                ranks_expect(me, memcmp(recv, send, 4) == 0 && recv[4] == 0x77, "a wrong maximum");
            if (f->collective == TT_ALL_GATHER)
                ranks_expect(me, memcmp(recv, send, 4 * (size_t)me->n) == 0, "a wrong block");
        }
    ranks_part(me, comm);
}

/* What was combined before the wait is not combined again. */
static void wait_in_the_midst(struct ranks_me *me)
{
    static const char *const options[] = { "algo=all_reduce:tree", "algo=all_reduce:ring",
        "algo=all_reduce:halving" };
    for (int i = 0; i < 9; i++) {
        tutti_config config = { .size = sizeof config, .options = options[i % 3] };
        tutti_comm *comm = ranks_join(me, &config);
        for (int round = 0; comm != NULL && round < 4; round++) {
            int32_t values[5];
            ranks_at(me, "n %d rank %d: %s, round %d", me->n, me->rank, options[i % 3], round);
            for (int k = 0; k < 5; k++)
                values[k] = me->rank + k;
            if (round == 2 && me->rank == me->n - 1 - i / 3)
                ranks_sleep_us(150000);
            ranks_ok(me, tutti_all_reduce(values, values, 5, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
                "all_reduce");
            for (int k = 0; k < 5; k++)
                ranks_expect(
                    me, values[k] == me->n * (me->n - 1) / 2 + k * me->n, "element %d is %d", k, values[k]);
        }
        if (comm != NULL)
            ranks_part(me, comm);
    }
}

Test(api_fused, the_executor_goes_on_where_it_takes_over)
{
    for (int n = 3; n <= 5; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = wait_in_the_midst });
}

Test(api_fused, the_executor_takes_over_a_long_wait)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wait_long });
}

/* Sends of eight and more messages wait for their reader, who is late. */
static void send_many(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    for (int i = 0; comm != NULL && i < 100; i++) {
        int64_t value = i, got = -1;
        ranks_at(me, "rank %d: message %d", me->rank, i);
        if (me->rank == 1 && i % 40 == 3)
            ranks_sleep_us(150000);
        if (me->rank == 0)
            ranks_ok(me, tutti_send(&value, 1, TUTTI_INT64, 1, comm, tutti_no_stream()), "send");
        else
            ranks_ok(me, tutti_recv(&got, 1, TUTTI_INT64, 0, comm, tutti_no_stream()), "recv");
        ranks_expect(me, me->rank == 0 || got == value, "%lld came", (long long)got);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_fused, sends_wait_for_a_late_reader)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = send_many });
}

/* --- Groups of messages */

static void exchange_halos(struct ranks_me *me)
{
    int left = (me->rank + me->n - 1) % me->n, right = (me->rank + 1) % me->n;
    tutti_stream none = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    for (int i = 0; comm != NULL && i < 120; i++) {
        int64_t out[2] = { me->rank * 1000 + i, -me->rank * 1000 - i }, in[2] = { -1, -1 }, self = -1,
                sum = -1;
        bool whole = i % 10 == 7; /* with one that is never cached */
        ranks_at(me, "n %d rank %d: halos, round %d", me->n, me->rank, i);
        if (i % 50 == 20 && me->rank == 0)
            ranks_sleep_us(150000);
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, tutti_recv(&in[0], 1, TUTTI_INT64, left, comm, none), "recv");
        ranks_ok(me, tutti_recv(&in[1], 1, TUTTI_INT64, right, comm, none), "recv");
        ranks_ok(me, tutti_send(&out[0], 1, TUTTI_INT64, right, comm, none), "send");
        ranks_ok(me, tutti_send(&out[1], 1, TUTTI_INT64, left, comm, none), "send");
        if (whole) {
            ranks_ok(me, tutti_send(&out[0], 1, TUTTI_INT64, me->rank, comm, none), "send to self");
            ranks_ok(me, tutti_recv(&self, 1, TUTTI_INT64, me->rank, comm, none), "recv from self");
            ranks_ok(
                me, tutti_all_reduce(&out[0], &sum, 1, TUTTI_INT64, TUTTI_MAX, comm, none), "all_reduce");
        }
        ranks_expect(me, in[0] == -1 && in[1] == -1, "a call of a group has run before its end");
        ranks_ok(me, tutti_group_end(), "group_end");
        ranks_expect(me, in[0] == left * 1000 + i && in[1] == -right * 1000 - i, "%lld and %lld came",
            (long long)in[0], (long long)in[1]);
        ranks_expect(me, !whole || (self == out[0] && sum == (me->n - 1) * 1000 + i),
            "self %lld, maximum %lld", (long long)self, (long long)sum);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_fused, groups_of_messages)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = exchange_halos });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = exchange_halos });
}

/* --- Errors */

static void refuse(struct ranks_me *me)
{
    float space[8] = { 1, 2, 3, 4 }, out[8];
    tutti_stream none = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int i = 0; i < 2; i++)
        ranks_ok(me, tutti_all_reduce(space, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none), "all_reduce");
    ranks_expect(me, ranks_cached(comm) == 1, "it is not cached");
    ranks_refused(me, tutti_all_reduce(space, NULL, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_ARGUMENT, "recv NULL", "recv is NULL");
    ranks_refused(me, tutti_all_reduce(NULL, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_ARGUMENT, "send NULL", "send is NULL");
    ranks_refused(me, tutti_all_reduce(space, space + 2, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_ARGUMENT, "overlap", "overlap");
    ranks_refused(me, tutti_all_reduce((char *)space + 1, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_ARGUMENT, "a crooked pointer", "multiple of 4");
    ranks_refused(me, tutti_all_reduce(space, out, 4, TUTTI_FLOAT32, (tutti_op)200, comm, none),
        TUTTI_INVALID_ARGUMENT, "no such op", "op is 200");
    ranks_ok(
        me, tutti_all_reduce(space, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none), "all_reduce after errors");
    ranks_expect(me, out[3] == 4.0f * (float)me->n, "a wrong sum after errors");
    ranks_ok(me, tutti_comm_finalize(comm), "finalize");
    ranks_refused(me, tutti_all_reduce(space, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_USAGE, "after finalize", "finalized");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
    ranks_refused(me, tutti_all_reduce(space, out, 4, TUTTI_FLOAT32, TUTTI_SUM, comm, none),
        TUTTI_INVALID_ARGUMENT, "after destroy", "destroyed");
}

Test(api_fused, errors_are_told)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = refuse });
}

/* A call that waits the fast path when somebody else ends the communicator has failed, and the recorder says
 * so. */
static void end_meanwhile(struct ranks_me *me)
{
    float one = 1, sum;
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int i = 0; i < 3; i++)
        ranks_ok(me, tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
    if (me->rank == 1) {
        ranks_sleep_us(20000);
        ranks_ok(me, tutti_comm_abort(comm), "abort");
    } else {
        static char json[1 << 18];
        tutti_status status =
            tutti_all_reduce(&one, &sum, 1, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream());
        ranks_expect(me, status == TUTTI_ABORTED, "all_reduce returned %d", status);
        ranks_expect(me, tutti_query(comm, "recorder json", json, sizeof json) > 0, "no recorder");
        ranks_expect(me, strstr(json, "\"running\"") == NULL, "a call that has ended is said to be running");
        ranks_expect(me, strstr(json, "\"failed\"") != NULL, "no call is said to have failed");
    }
    ranks_meet(me);
    tutti_comm_destroy(comm);
}

Test(api_fused, a_call_that_was_ended_is_recorded_as_failed)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = end_meanwhile });
}

/* Behind calls on a stream it waits its turn; in a group it is queued. */
static void keep_order(struct ranks_me *me)
{
    int64_t one = 1, sums[3];
    tutti_stream stream;
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL || !ranks_ok(me, tutti_stream_create(&stream), "stream_create"))
        return;
    for (int i = 0; i < 50; i++) {
        ranks_at(me, "rank %d: order, round %d", me->rank, i);
        int64_t value = i;
        ranks_ok(
            me, tutti_all_reduce(&value, &sums[0], 1, TUTTI_INT64, TUTTI_SUM, comm, stream), "on the stream");
        ranks_ok(me, tutti_all_reduce(&sums[0], &sums[1], 1, TUTTI_INT64, TUTTI_MAX, comm, tutti_no_stream()),
            "at once");
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, tutti_all_reduce(&one, &sums[2], 1, TUTTI_INT64, TUTTI_SUM, comm, tutti_no_stream()),
            "in a group");
        ranks_expect(me, sums[1] == (int64_t)i * me->n, "%lld, not %d", (long long)sums[1], i * me->n);
        sums[2] = 0;
        ranks_ok(me, tutti_group_end(), "group_end");
        ranks_expect(me, sums[2] == me->n, "the group's sum is %lld", (long long)sums[2]);
    }
    ranks_ok(me, tutti_stream_destroy(stream), "stream_destroy");
    ranks_part(me, comm);
}

Test(api_fused, order_of_streams_and_groups)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = keep_order });
}
