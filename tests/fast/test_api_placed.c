/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_placed.c: results that a rank stores in its peers' memory: that this is how they come, and that
 * nobody does it any more when a call that failed has returned. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

enum { COUNT = 100003, ROUNDS = 5, SLICE_FLOATS = 32 * 1024 / 4, SOON_MS = 60000, MARK = 0x5a };

static float value(int rank, size_t i)
{
    return (float)((int)(i % 1000) + 1000 * rank);
}

static void check_sums(struct ranks_me *me, const float *recv)
{
    size_t wrong = 0;
    for (size_t i = 0; i < COUNT; i++) {
        float sum = 0;
        for (int r = 0; r < me->n; r++)
            sum += value(r, i);
        wrong += recv[i] != sum;
    }
    ranks_expect(me, wrong == 0, "%zu of %d sums are wrong", wrong, COUNT);
}

/* The bytes of this rank's part, which it sums up and hands to each of the others. */
static unsigned long long own_part(const struct ranks_me *me)
{
    size_t part = COUNT / (size_t)me->n + ((size_t)me->rank < COUNT % (size_t)me->n);
    return 4ull * part;
}

/* Registered memory: parts are read where they lie, sums stored where they go; in place (context) that is the
 * same memory. Whoever sums has all grants by then, so there is no chance in it. */
static void count_bytes(struct ranks_me *me)
{
    bool in_place = me->context != NULL;
    tutti_config config = { .size = sizeof config, .options = "slice=32K;algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    struct ranks_buffer send, recv;
    if (comm == NULL || !ranks_buffer_create(me, &send, COUNT * sizeof(float), true) ||
        !ranks_buffer_create(me, &recv, COUNT * sizeof(float), true))
        return;
    ranks_at(me, "n %d rank %d: registered all_reduce", me->n, me->rank);
    float *from = ranks_buffer_place(&send, COUNT * sizeof(float), 4);
    float *to = in_place ? from : ranks_buffer_place(&recv, COUNT * sizeof(float), 12);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < COUNT; i++)
            from[i] = value(me->rank, i);
        ranks_ok(me, tutti_all_reduce(from, to, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        check_sums(me, to);
        memset(to, MARK, COUNT * sizeof(float));
        ranks_meet(me);
    }
    struct ranks_paths p = ranks_paths(me, comm);
    unsigned long long each = ROUNDS * own_part(me), others = (unsigned long long)me->n - 1;
    ranks_expect(me, p.copied == 0 && p.line == 0, "%s", p.text);
    ranks_expect(me, p.placed == others * each, "%llu bytes should be placed: %s", others * each, p.text);
    ranks_expect(me, p.mapped == ROUNDS * (4ull * COUNT) - each, "mapped: %s", p.text);
    ranks_buffer_check(me, &send, "send");
    if (!in_place)
        ranks_buffer_check(me, &recv, "recv");
    ranks_buffer_free(me, &send);
    ranks_buffer_free(me, &recv);
    ranks_part(me, comm);
}

Test(api_placed, registered_all_reduce_copies_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = count_bytes });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = count_bytes });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = count_bytes });
}

Test(api_placed, in_place_too)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = count_bytes, .context = "in place" });
    ranks_run(
        &(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = count_bytes, .context = "in place" });
}

/* In place a block goes where one is still to be read: who comes late finds the grants, and must not use them
 * before it has read. What it moves aside before is read from there. */
static void exchange_in_place(struct ranks_me *me)
{
    enum { BLOCK = 20000 };
    tutti_comm *comm = ranks_join(me, NULL);
    struct ranks_buffer buffer;
    size_t count = (size_t)BLOCK * (size_t)me->n;
    if (comm == NULL || !ranks_buffer_create(me, &buffer, count * sizeof(int32_t), true))
        return;
    int32_t *data = ranks_buffer_place(&buffer, count * sizeof(int32_t), 0);
    for (int round = 0; round < 3 * me->n; round++) {
        ranks_at(me, "n %d rank %d: all_to_all in place, round %d", me->n, me->rank, round);
        for (size_t i = 0; i < count; i++)
            data[i] = me->rank * 1000 + (int32_t)(i / BLOCK) * 10 + round;
        ranks_meet(me);
        if (round % me->n == me->rank)
            ranks_sleep_us(20000);
        ranks_ok(me, tutti_all_to_all(data, data, BLOCK, TUTTI_INT32, comm, tutti_no_stream()), "all_to_all");
        size_t wrong = 0;
        for (size_t i = 0; i < count; i++)
            wrong += data[i] != (int32_t)(i / BLOCK) * 1000 + me->rank * 10 + round;
        ranks_expect(me, wrong == 0, "%zu of %zu elements are wrong", wrong, count);
    }
    struct ranks_paths p = ranks_paths(me, comm);
    ranks_expect(me, p.mapped > 0 && p.placed == 0, "%s", p.text);
    ranks_buffer_free(me, &buffer);
    ranks_part(me, comm);
}

Test(api_placed, nothing_is_stored_before_it_was_read)
{
    for (int n = 2; n <= 4; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = exchange_in_place });
}

/* --- Giving up while a peer is at it */

struct scene { /* shared */
    _Atomic int storing, returned;
};

static struct {
    int rank;
    bool stops;
    struct scene *scene;
} self; /* ranks are processes here */

/* A sum during which rank 1 loses much time, once. */
static void slow_sum(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((float *)dst)[i] = ((const float *)left)[i] + ((const float *)right)[i];
    if (self.rank != 1 || atomic_exchange(&self.scene->storing, 1) != 0)
        return;
    if (self.stops)
        raise(SIGSTOP);
    else
        ranks_sleep_us(400000);
}

static void *abort_meanwhile(void *comm)
{
    while (atomic_load(&self.scene->storing) == 0)
        ranks_sleep_us(100);
    tutti_comm_abort(comm);
    return NULL;
}

/* What the call returned belongs to the caller: marks in it stay. */
static void keep_marks(struct ranks_me *me, const uint8_t *recv)
{
    size_t changed = 0;
    for (size_t i = 0; i < SLICE_FLOATS * sizeof(float); i++)
        changed += recv[i] != MARK;
    ranks_expect(me, changed == 0, "%zu bytes were written after the call had returned", changed);
}

static void give_up(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    void *send = NULL, *recv = NULL;
    pthread_t aborter;
    tutti_op op;
    self.rank = me->rank;
    self.stops = me->context != NULL;
    self.scene = me->shared;
    if (comm == NULL ||
        !ranks_ok(me, tutti_mem_alloc(SLICE_FLOATS * 4, TUTTI_MEM_HOST, &send), "mem_alloc") ||
        !ranks_ok(me, tutti_mem_alloc(SLICE_FLOATS * 4, TUTTI_MEM_HOST, &recv), "mem_alloc") ||
        !ranks_ok(me, tutti_op_create(comm, slow_sum, NULL, sizeof(float), 1, &op), "op_create"))
        return;
    ranks_at(me, "rank %d: abort while rank 1 %s", me->rank, self.stops ? "is stopped" : "sums");
    if (me->rank == 0 && pthread_create(&aborter, NULL, abort_meanwhile, comm) != 0)
        return;
    tutti_status status =
        tutti_all_reduce(send, recv, SLICE_FLOATS, TUTTI_FLOAT32, op, comm, tutti_no_stream());
    memset(recv, MARK, SLICE_FLOATS * 4);
    atomic_fetch_add(&self.scene->returned, 1);
    ranks_expect(me, me->rank != 0 || status == TUTTI_ABORTED, "all_reduce: status %d", status);
    if (me->rank == 0)
        pthread_join(aborter, NULL);
    ranks_meet(me);
    if (!self.stops)
        keep_marks(me, recv);
    ranks_part(me, comm);
    ranks_ok(me, tutti_mem_free(send), "mem_free");
    ranks_ok(me, tutti_mem_free(recv), "mem_free");
}

Test(api_placed, who_gives_up_waits_for_who_stores)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = give_up });
}

/* The other rank returns though rank 1 does not move; only then does that go on. */
static void go_on(struct ranks_world *world, const struct ranks_plan *plan)
{
    (void)plan;
    struct scene *scene = (struct scene *)(void *)world->shared;
    int64_t deadline = ranks_now_ms() + SOON_MS;
    while (atomic_load(&scene->returned) == 0 && ranks_now_ms() < deadline)
        ranks_sleep_us(1000);
    cr_expect_eq(atomic_load(&scene->returned), 1, "rank 0 waits for a stopped one");
    kill(world->slots[1].pid, SIGCONT);
}

Test(api_placed, a_stopped_rank_is_not_waited_for_long)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = give_up, .context = "stops", .meddle = go_on });
}
