/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_group.c: calls that start together: exchanges that would deadlock one by one, one thread with
 * several ranks, several communicators in any order, and groups that are wrong.
 *
 * A library whose group runs its calls in sequence hangs in most of these; the watchdog of ranks_run then
 * says where. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_group, .timeout = 120);

enum { ALONE = 4 }; /* ranks of the one thread that drives all */

static const struct ranks_vector words = { .type = TUTTI_UINT64, .op = TUTTI_SUM, .seed = 4711 };

static struct ranks_vector words_of(int n, uint64_t salt)
{
    struct ranks_vector v = words;
    v.n = n;
    v.seed += salt;
    return v;
}

static uint64_t *numbers(size_t count)
{
    uint64_t *array = calloc(count > 0 ? count : 1, sizeof *array);
    if (array == NULL)
        abort();
    return array;
}

/* --- Pairs */

static void exchange_large(struct ranks_me *me)
{
    enum { WORDS = 8 * 1024 * 1024 }; /* 64 MiB */
    struct ranks_vector v = words_of(2, 0);
    tutti_comm *comm = ranks_join(me, NULL);
    bool registered = me->context != NULL;
    void *send = NULL, *recv = NULL;
    ranks_at(me, "n 2 rank %d: 64 MiB each way, %s", me->rank, registered ? "mem_alloc" : "malloc");
    if (registered) {
        ranks_ok(me, tutti_mem_alloc(WORDS * sizeof(uint64_t), TUTTI_MEM_HOST, &send), "mem_alloc");
        ranks_ok(me, tutti_mem_alloc(WORDS * sizeof(uint64_t), TUTTI_MEM_HOST, &recv), "mem_alloc");
    } else {
        send = numbers(WORDS);
        recv = numbers(WORDS);
    }
    if (comm == NULL || send == NULL || recv == NULL)
        return;
    ranks_fill(&v, me->rank, 0, WORDS, send);
    tutti_group_start();
    ranks_ok(me, tutti_send(send, WORDS, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream()), "send");
    ranks_ok(me, tutti_recv(recv, WORDS, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream()), "recv");
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_fill(&v, 1 - me->rank, 0, WORDS, send); /* the buffer is ours again */
    ranks_same(me, TUTTI_UINT64, recv, send, WORDS, "recv");
    if (registered) {
        ranks_ok(me, tutti_mem_free(send), "mem_free");
        ranks_ok(me, tutti_mem_free(recv), "mem_free");
    } else {
        free(send);
        free(recv);
    }
    ranks_part(me, comm);
}

Test(api_group, large_exchange_of_private_memory)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = exchange_large });
}

Test(api_group, large_exchange_of_registered_memory)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = exchange_large, .context = "registered" });
}

static void all_pairs(struct ranks_me *me)
{
    enum { COUNT = 3000 };
    struct ranks_vector v = words_of(me->n, 1);
    tutti_comm *comm = ranks_join(me, NULL);
    uint64_t *send = numbers(COUNT), *recv = numbers((size_t)me->n * COUNT), *expected = numbers(COUNT);
    if (comm == NULL)
        return;
    ranks_fill(&v, me->rank, 0, COUNT, send);
    for (int round = 0; round < 3; round++) { /* receives first, sends first, mixed */
        ranks_at(me, "n %d rank %d: all pairs, round %d", me->n, me->rank, round);
        memset(recv, 0, (size_t)me->n * COUNT * sizeof *recv);
        ranks_delay(me, 500);
        tutti_group_start();
        for (int i = 0; i < 2 * me->n; i++) {
            int peer = round == 2 ? (me->rank + i) % me->n : i % me->n;
            bool sends = round == 0 ? i >= me->n : i < me->n;
            if (peer == me->rank)
                continue;
            if (sends)
                tutti_send(send, COUNT, TUTTI_UINT64, peer, comm, tutti_no_stream());
            else
                tutti_recv(recv + peer * COUNT, COUNT, TUTTI_UINT64, peer, comm, tutti_no_stream());
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int peer = 0; peer < me->n; peer++) {
            ranks_fill(&v, peer, 0, COUNT, expected);
            if (peer != me->rank)
                ranks_same(me, TUTTI_UINT64, recv + peer * COUNT, expected, COUNT, "recv");
        }
    }
    free(send);
    free(recv);
    free(expected);
    ranks_part(me, comm);
}

Test(api_group, all_pairs)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = all_pairs });
    ranks_run(&(struct ranks_plan){ .n = 5, .kind = RANKS_THREADS, .run = all_pairs });
}

/* A ring without a group would deadlock: everybody sends before anybody receives. */
static void ring(struct ranks_me *me)
{
    enum { COUNT = 70000 };
    struct ranks_vector v = words_of(me->n, 2);
    tutti_comm *comm = ranks_join(me, NULL);
    uint64_t *send = numbers(COUNT), *recv = numbers(COUNT);
    if (comm == NULL)
        return;
    ranks_fill(&v, me->rank, 0, COUNT, send);
    for (int hop = 1; hop <= me->n; hop++) { /* after n hops everybody has its own back */
        ranks_at(me, "n %d rank %d: hop %d of the ring", me->n, me->rank, hop);
        tutti_group_start();
        tutti_send(send, COUNT, TUTTI_UINT64, (me->rank + 1) % me->n, comm, tutti_no_stream());
        tutti_recv(recv, COUNT, TUTTI_UINT64, (me->rank + me->n - 1) % me->n, comm, tutti_no_stream());
        ranks_ok(me, tutti_group_end(), "group_end");
        ranks_fill(&v, (me->rank + hop * (me->n - 1)) % me->n, 0, COUNT, send);
        ranks_same(me, TUTTI_UINT64, recv, send, COUNT, "recv");
    }
    free(send);
    free(recv);
    ranks_part(me, comm);
}

Test(api_group, ring_exchange)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = ring });
}

/* Many messages of one pair are matched in the order of the calls, one by one and grouped, also beyond the
 * slots and past 2^32. */
static void in_order(struct ranks_me *me)
{
    enum { MESSAGES = 500 };
    tutti_config config = { .size = sizeof config, .options = "first_number=4294967000" };
    tutti_comm *comm = ranks_join(me, &config);
    uint64_t values[MESSAGES];
    for (int round = 0; comm != NULL && round < 4; round++) {
        bool grouped = round & 1, sends = (me->rank == 0) == (round < 2);
        ranks_at(me, "rank %d: %s 500 messages, %s", me->rank, sends ? "sending" : "receiving",
            grouped ? "grouped" : "one by one");
        for (int i = 0; i < MESSAGES; i++)
            values[i] = sends ? (uint64_t)(round * MESSAGES + i) : UINT64_MAX;
        if (grouped)
            tutti_group_start();
        for (int i = 0; i < MESSAGES; i++) {
            tutti_status status =
                sends ? tutti_send(&values[i], 1, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream())
                      : tutti_recv(&values[i], 1, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream());
            ranks_ok(me, status, sends ? "send" : "recv");
            if (!grouped && sends && i % 100 == 7)
                values[i] = 0; /* it may be reused at once */
        }
        if (grouped)
            ranks_ok(me, tutti_group_end(), "group_end");
        for (int i = 0; i < MESSAGES && !sends; i++)
            ranks_expect(me, values[i] == (uint64_t)(round * MESSAGES + i), "message %d holds %llu", i,
                (unsigned long long)values[i]);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_group, many_messages_in_order)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = in_order });
}

/* Messages of many slices share few slots: those of a pair must not get in each other's way, whichever are
 * looked at first. */
static void many_large(struct ranks_me *me)
{
    enum { MESSAGES = 6, COUNT = 150000 };
    tutti_config config = { .size = sizeof config, .options = "slice=32K" };
    tutti_comm *comm = ranks_join(me, &config);
    struct ranks_vector v = words_of(2, 3);
    uint64_t *all = numbers(2 * MESSAGES * COUNT), *expected = numbers(COUNT);
    for (int round = 0; comm != NULL && round < 6; round++) {
        ranks_at(me, "rank %d: %d messages of %d uint64 each way in a group, round %d", me->rank, MESSAGES,
            COUNT, round);
        ranks_fill(&v, me->rank, 0, MESSAGES * COUNT, all);
        ranks_delay(me, 2000);
        tutti_group_start();
        for (int i = 0; i < 2 * MESSAGES; i++) { /* receives first, last or between */
            int m = round % 3 == 0 ? i % MESSAGES : i / 2;
            bool sends = round % 3 == 0 ? i < MESSAGES : (i & 1) == round % 3 - 1;
            size_t count = (size_t)(COUNT - m * 1000); /* each has a length of its own */
            if (sends)
                tutti_send(all + m * COUNT, count, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream());
            else
                tutti_recv(
                    all + (MESSAGES + m) * COUNT, count, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream());
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int m = 0; m < MESSAGES; m++) {
            size_t count = (size_t)(COUNT - m * 1000);
            ranks_fill(&v, 1 - me->rank, (uint64_t)m * COUNT, count, expected);
            ranks_same(me, TUTTI_UINT64, all + (MESSAGES + m) * COUNT, expected, count, "a message");
        }
    }
    free(all);
    free(expected);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_group, many_large_messages)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = many_large });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = many_large });
}

/* One side groups its sends, the other receives one by one: a later message must not take the slot that an
 * earlier one needs. */
static void grouped_to_single(struct ranks_me *me)
{
    enum { MESSAGES = 5, COUNT = 100000 };
    tutti_config config = { .size = sizeof config, .options = "slice=32K" };
    tutti_comm *comm = ranks_join(me, &config);
    struct ranks_vector v = words_of(2, 4);
    uint64_t *all = numbers(MESSAGES * COUNT), *expected = numbers(MESSAGES * COUNT);
    for (int round = 0; comm != NULL && round < 6; round++) {
        bool sends = me->rank == round % 2;
        ranks_at(
            me, "rank %d: %s, round %d", me->rank, sends ? "sends in a group" : "receives one by one", round);
        ranks_fill(&v, round % 2, 0, MESSAGES * COUNT, expected);
        memcpy(all, expected, sends ? MESSAGES * COUNT * sizeof *all : 0);
        if (sends)
            tutti_group_start();
        for (int m = 0; m < MESSAGES; m++) {
            uint64_t *at = all + m * COUNT;
            size_t count = (size_t)(COUNT - (m * 7 + round) * 1000);
            tutti_status status =
                sends ? tutti_send(at, count, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream())
                      : tutti_recv(at, count, TUTTI_UINT64, 1 - me->rank, comm, tutti_no_stream());
            ranks_ok(me, status, sends ? "send" : "recv");
            ranks_same(me, TUTTI_UINT64, at, expected + m * COUNT, count, "a message");
        }
        if (sends)
            ranks_ok(me, tutti_group_end(), "group_end");
        memset(all, 0, MESSAGES * COUNT * sizeof *all);
    }
    free(all);
    free(expected);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_group, grouped_sends_to_single_receives)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = grouped_to_single });
}

/* --- One thread that has all ranks */

static void sum_alone(struct ranks_me *me, tutti_comm *const *comms, int n, uint64_t salt)
{
    enum { COUNT = 20000 };
    struct ranks_vector v = words_of(n, salt);
    uint64_t *send = numbers((size_t)n * COUNT), *recv = numbers((size_t)n * COUNT),
             *expected = numbers(COUNT);
    ranks_reduced(&v, 0, COUNT, expected);
    tutti_group_start();
    for (int r = 0; r < n; r++) {
        ranks_fill(&v, r, 0, COUNT, send + r * COUNT);
        ranks_ok(me,
            tutti_all_reduce(send + r * COUNT, recv + r * COUNT, COUNT, TUTTI_UINT64, TUTTI_SUM, comms[r],
                tutti_no_stream()),
            "all_reduce in a group");
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    for (int r = 0; r < n; r++)
        ranks_same(me, TUTTI_UINT64, recv + r * COUNT, expected, COUNT, "recv");
    free(send);
    free(recv);
    free(expected);
}

static void one_thread(struct ranks_me *me)
{
    tutti_comm *comms[ALONE] = { 0 };
    ranks_at(me, "init_all of %d driven by one thread", ALONE);
    if (!ranks_ok(me, tutti_comm_init_all(ALONE, NULL, NULL, comms), "init_all"))
        return;
    for (int r = 0; r < ALONE; r++)
        ranks_expect(me, tutti_comm_rank(comms[r]) == r && tutti_comm_size(comms[r]) == ALONE,
            "comms[%d] has rank %d of %d", r, tutti_comm_rank(comms[r]), tutti_comm_size(comms[r]));
    for (uint64_t round = 0; round < 5; round++)
        sum_alone(me, comms, ALONE, round);
    tutti_group_start(); /* several collectives each, in another order of the ranks */
    int32_t values[ALONE][2];
    for (int r = ALONE - 1; r >= 0; r--) {
        values[r][0] = r == 2 ? 77 : 0;
        values[r][1] = r;
        tutti_broadcast(&values[r][0], &values[r][0], 1, TUTTI_INT32, 2, comms[r], tutti_no_stream());
        tutti_barrier(comms[r], tutti_no_stream());
        tutti_all_reduce(
            &values[r][1], &values[r][1], 1, TUTTI_INT32, TUTTI_MAX, comms[r], tutti_no_stream());
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    for (int r = 0; r < ALONE; r++) {
        ranks_expect(me, values[r][0] == 77 && values[r][1] == ALONE - 1, "rank %d has %d and %d", r,
            values[r][0], values[r][1]);
        ranks_ok(me, tutti_comm_destroy(comms[r]), "destroy");
    }
}

Test(api_group, one_thread_drives_init_all)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = one_thread });
}

/* Each process has `n` ranks of a communicator of n times as many processes, and one thread. */
static void several_ranks(struct ranks_me *me)
{
    enum { EACH = 2 };
    tutti_comm *comms[EACH] = { 0 };
    tutti_id id;
    int n = me->n * EACH;
    ranks_at(me, "process %d of %d joins with %d ranks in a group", me->rank, me->n, EACH);
    if (!ranks_id(me, &id))
        return;
    tutti_group_start();
    for (int i = 0; i < EACH; i++) {
        int rank = me->rank * EACH + i;
        ranks_ok(me, tutti_comm_init_rank(n, rank, &id, NULL, &comms[i]), "init_rank in a group");
        ranks_expect(me, comms[i] == NULL, "comm was set before the end of the group");
    }
    if (!ranks_ok(me, tutti_group_end(), "group_end"))
        return;
    int32_t values[EACH];
    tutti_group_start();
    for (int i = 0; i < EACH; i++) {
        values[i] = 1 << (me->rank * EACH + i);
        ranks_expect(me, tutti_comm_rank(comms[i]) == me->rank * EACH + i, "wrong rank");
        tutti_all_reduce(&values[i], &values[i], 1, TUTTI_INT32, TUTTI_SUM, comms[i], tutti_no_stream());
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    for (int i = 0; i < EACH; i++) {
        ranks_expect(me, values[i] == (1 << n) - 1, "the sum is %d", values[i]);
        ranks_ok(me, tutti_comm_destroy(comms[i]), "destroy");
    }
}

Test(api_group, init_rank_of_several_ranks)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = several_ranks });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = several_ranks });
}

/* --- Order */

static void opposite_order(struct ranks_me *me)
{
    enum { COUNT = 100000 };
    tutti_comm *comms[2] = { ranks_join(me, NULL), ranks_join(me, NULL) };
    struct ranks_vector v[2] = { words_of(2, 10), words_of(2, 11) };
    uint64_t *values[2] = { numbers(COUNT), numbers(COUNT) }, *expected = numbers(COUNT);
    if (comms[0] == NULL || comms[1] == NULL)
        return;
    for (int round = 0; round < 20; round++) {
        ranks_at(me, "rank %d: two communicators in opposite order, round %d", me->rank, round);
        for (int c = 0; c < 2; c++)
            ranks_fill(&v[c], me->rank, 0, COUNT, values[c]);
        tutti_group_start();
        for (int i = 0; i < 2; i++) {
            int c = i ^ me->rank;
            tutti_all_reduce(
                values[c], values[c], COUNT, TUTTI_UINT64, TUTTI_SUM, comms[c], tutti_no_stream());
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int c = 0; c < 2; c++) {
            ranks_reduced(&v[c], 0, COUNT, expected);
            ranks_same(me, TUTTI_UINT64, values[c], expected, COUNT, c == 0 ? "first" : "second");
        }
    }
    for (int c = 0; c < 2; c++) {
        free(values[c]);
        ranks_part(me, comms[c]);
    }
    free(expected);
}

Test(api_group, two_communicators_in_opposite_order)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = opposite_order });
}

static void nested(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t sum = me->rank + 1, largest = me->rank;
    if (comm == NULL)
        return;
    ranks_at(me, "rank %d: nested groups", me->rank);
    ranks_ok(me, tutti_group_start(), "group_start");
    ranks_ok(me, tutti_group_start(), "group_start");
    tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "the inner group_end");
    ranks_meet(me);
    ranks_expect(me, sum == me->rank + 1, "the inner end has run the call");
    ranks_meet(me);
    tutti_all_reduce(&largest, &largest, 1, TUTTI_INT32, TUTTI_MAX, comm, tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "the outer group_end");
    ranks_expect(me, sum == me->n * (me->n + 1) / 2 && largest == me->n - 1, "sum %d, max %d", sum, largest);
    tutti_group_start();
    ranks_ok(me, tutti_group_end(), "the end of an empty group");
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "group_end without start", "group_start");
    ranks_part(me, comm);
}

Test(api_group, nested_groups)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = nested });
}

/* Collectives and messages in one group; the arrays of a v-collective may change after the call. */
static void mixed(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t sum = 1, sent = me->rank, received = -1, own = 100 + me->rank, all[RANKS_MAX * 2];
    size_t counts[RANKS_MAX], displs[RANKS_MAX];
    if (comm == NULL)
        return;
    ranks_at(me, "n %d rank %d: collectives and messages in one group", me->n, me->rank);
    for (int r = 0; r < me->n; r++) {
        counts[r] = 1;
        displs[r] = (size_t)(2 * (me->n - 1 - r));
    }
    memset(all, 0, sizeof all);
    tutti_group_start();
    tutti_recv(&received, 1, TUTTI_INT32, (me->rank + 1) % me->n, comm, tutti_no_stream());
    tutti_all_reduce(&sum, &sum, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream());
    ranks_ok(me, tutti_all_gather_v(&own, 1, all, counts, displs, TUTTI_INT32, comm, tutti_no_stream()),
        "all_gather_v in a group");
    memset(counts, 0xff, sizeof counts);
    memset(displs, 0xff, sizeof displs);
    tutti_send(&sent, 1, TUTTI_INT32, (me->rank + me->n - 1) % me->n, comm, tutti_no_stream());
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_expect(
        me, sum == me->n && received == (me->rank + 1) % me->n, "sum %d, received %d", sum, received);
    for (int i = 0; i < 2 * me->n; i++)
        ranks_expect(me, all[i] == (i & 1 ? 0 : 100 + me->n - 1 - i / 2), "all[%d] is %d", i, all[i]);
    ranks_part(me, comm);
}

Test(api_group, mixed_calls)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = mixed });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = mixed });
}

/* --- Groups that are wrong: nothing starts, and the communicator goes on */

static void wrong_group(struct ranks_me *me)
{
    static const char missing[] = "this thread is inside a group|tutti_group_end missing|legal: outside";
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t value = 5, before;
    if (comm == NULL)
        return;
    for (int kind = 0; kind < 4; kind++) {
        ranks_at(me, "rank %d: wrong group %d", me->rank, kind);
        if (me->rank == 1) { /* the others know nothing of it */
            value = before = 5;
            tutti_group_start();
            ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
                "a right call");
            if (kind == 0)
                ranks_refused(me, tutti_broadcast(&value, &value, 1, TUTTI_INT32, 9, comm, tutti_no_stream()),
                    TUTTI_INVALID_ARGUMENT, "broadcast", "root|9");
            else if (kind == 1)
                ranks_refused(me, tutti_comm_split(comm, 0, 0, NULL, NULL), TUTTI_INVALID_ARGUMENT, "split",
                    "child is NULL");
            else if (kind == 2)
                ranks_refused(me, tutti_comm_destroy(comm), TUTTI_INVALID_USAGE, "destroy", missing);
            else
                ranks_refused(
                    me, tutti_comm_finalize_within(comm, 0), TUTTI_INVALID_USAGE, "finalize_within", missing);
            tutti_send(&value, 1, TUTTI_INT32, 0, comm, tutti_no_stream());
            tutti_status status = tutti_group_end();
            ranks_expect(me, status == (kind <= 1 ? TUTTI_INVALID_ARGUMENT : TUTTI_INVALID_USAGE),
                "group_end returned %d", status);
            ranks_expect(me, value == before, "a call of the wrong group ran");
        }
        value = 1;
        ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce after a wrong group");
        ranks_expect(me, value == me->n, "the sum after a wrong group is %d", value);
    }
    ranks_part(me, comm);
}

Test(api_group, wrong_group_starts_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = wrong_group });
}

/* A wrong handle and a wrong initialisation spoil the group too; no output is set. */
static void wrong_members(struct ranks_me *me)
{
    tutti_comm *comms[2] = { 0 }, *made = NULL;
    tutti_id id;
    int32_t values[2] = { 1, 1 };
    if (!ranks_ok(me, tutti_comm_init_all(2, NULL, NULL, comms), "init_all") ||
        !ranks_ok(me, tutti_get_id(&id), "get_id"))
        return;
    tutti_group_start();
    for (int r = 0; r < 2; r++)
        tutti_all_reduce(&values[r], &values[r], 1, TUTTI_INT32, TUTTI_SUM, comms[r], tutti_no_stream());
    ranks_refused(me, tutti_barrier(NULL, tutti_no_stream()), TUTTI_INVALID_ARGUMENT, "barrier", "comm|NULL");
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "group_end with a NULL communicator");
    ranks_expect(me, values[0] == 1 && values[1] == 1, "a call of the wrong group ran");
    tutti_group_start();
    ranks_ok(me, tutti_comm_init_rank(1, 0, &id, NULL, &made), "init_rank");
    ranks_refused(
        me, tutti_comm_init_rank(2, 2, &id, NULL, &made), TUTTI_INVALID_ARGUMENT, "init_rank", "rank");
    ranks_expect(me, tutti_group_end() == TUTTI_INVALID_ARGUMENT, "group_end with a wrong init");
    ranks_expect(me, made == NULL, "a wrong group has made a communicator");
    sum_alone(me, comms, 2, 3);
    for (int r = 0; r < 2; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "destroy");
}

Test(api_group, wrong_members_of_a_group)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = wrong_members });
}
