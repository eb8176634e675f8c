/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_spin.c: collectives of ranks that have a device each, whose kernels meet: in which order
 * they run, what waits for whom, and what goes by the host all the same. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "spin_rig.h"

TestSuite(api_device_spin, .timeout = 240);

enum { CHAIN = 60, COUNT = 300, LONG = 50000 /* 200 KB: two kernels */ };

static uint32_t value(int rank, int round, int i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)round * 65599u + (uint32_t)i * 31u;
}

static uint32_t sum_of(int n, int round, int i)
{
    uint32_t all = 0;
    for (int r = 0; r < n; r++)
        all += value(r, round, i);
    return all;
}

static bool sum(const struct local_desk *d, const void *from, void *to, size_t count)
{
    return ranks_ok(d->me, tutti_all_reduce(from, to, count, TUTTI_UINT32, TUTTI_SUM, d->comm, local_on(d)),
        "all_reduce");
}

static bool is_sum(const struct local_desk *d, const uint32_t *got, int round, int count)
{
    for (int i = 0; i < count; i++)
        if (!ranks_expect(d->me, got[i] == sum_of(d->me->n, round, i),
                "round %d: element %d is %u, expected %u", round, i, got[i], sum_of(d->me->n, round, i)))
            return false;
    return true;
}

/* Pinned memory, for what the stream brings there, and takes from there. */
static uint32_t *slots(const struct local_desk *d, size_t bytes)
{
    void *memory = NULL;
    local_fine(d, d->dev->memory.alloc_pinned(bytes, &memory));
    return memory;
}

/* --- Many calls, of which none is waited for: each operand is made just before its call, in the same memory,
 * and its result is taken just after, by the same stream. */

static void call_many(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    uint32_t *given = slots(&d, CHAIN * COUNT * 4), *got = slots(&d, CHAIN * COUNT * 4);
    uint64_t before = d.stub != NULL ? d.stub->calls("launch") : 0;
    ranks_meet(me);
    for (int k = 0; k < CHAIN; k++) {
        ranks_at(me, "call %d", k);
        for (int i = 0; i < COUNT; i++)
            given[k * COUNT + i] = value(me->rank, k, i);
        if (k % me->n == me->rank)
            ranks_delay(me, 300);
        local_fine(&d, d.dev->copy(d.areas[GIVEN], given + k * COUNT, COUNT * 4, d.stream));
        sum(&d, d.areas[GIVEN], d.areas[GOT], COUNT);
        local_fine(&d, d.dev->copy(got + k * COUNT, d.areas[GOT], COUNT * 4, d.stream));
    }
    local_settle(&d);
    ranks_expect(me, d.stub == NULL || d.stub->calls("launch") - before >= CHAIN, "few kernels");
    for (int k = 0; k < CHAIN && is_sum(&d, got + k * COUNT, k, COUNT);)
        k++;
    ranks_part(me, d.comm);
}

Test(api_device_spin, every_result_is_of_its_own_operands)
{
    spin_run({ "queues=8", 2, 2, call_many, NULL, 0, 0 },
        { "queues=1,delay=100", 3, 1, call_many, NULL, 0, 0 },
        { "queues=2,one_address=0", 4, 2, call_many, NULL, 0, 0 },
        { "queues=2,launch_delay=400", 8, 8, call_many, NULL, 0, 0 });
}

/* --- Ranks of a process launch when all of them are there: before, the device of one that is early is idle,
 * so that who holds the locks of the driver until it is does not keep the others from launching. */

static void allocate_meanwhile(struct ranks_me *me)
{
    _Atomic int *called = me->shared;
    struct local_desk d;
    void *memory;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    for (int k = 0; k < 5; k++) {
        ranks_meet(me);
        if (me->rank == 0) {
            while (atomic_load(called) == k * (me->n - 1))
                ranks_sleep_us(100);
            ranks_sleep_us(3000);
            for (int r = 0; r < me->n; r++) {
                local_fine(&d, d.dev->use(r));
                local_fine(&d, d.dev->memory.alloc(64, &memory));
                local_fine(&d, d.dev->memory.free(memory));
            }
            local_fine(&d, d.dev->use(0));
        } else {
            atomic_fetch_add(called, 1);
        }
        sum(&d, d.areas[GIVEN], d.areas[GOT], COUNT);
        local_settle(&d);
    }
    ranks_part(me, d.comm);
}

Test(api_device_spin, ranks_of_a_process_launch_together)
{
    plugin_must_be_stub();
    spin_run({ "queues=8,lock=process", 3, 3, allocate_meanwhile, NULL, 0, 0 });
}

/* --- Graphs: kernels count on with each replay, between calls of other kinds */

static void *captured(
    const struct local_desk *d, void (*calls)(const struct local_desk *d, void *context), void *context)
{
    void *graph = NULL, *runnable = NULL;
    ranks_meet(d->me); /* what another thread does meanwhile would break it */
    local_fine(d, d->dev->graph.capture_begin(d->stream));
    calls(d, context);
    local_fine(d, d->dev->graph.capture_end(d->stream, &graph));
    ranks_meet(d->me);
    local_fine(d, d->dev->graph.instantiate(graph, &runnable));
    local_fine(d, d->dev->graph.destroy(graph));
    return runnable;
}

struct shelf { /* where a rank has what it gives and gets: pinned, or ordinary memory of the host */
    uint32_t *given, *got;
    uint32_t *ordinary[2];
};

/* One from what the stream brings, one from the host's memory to the host's, and one that messages do. */
static void capture_three(const struct local_desk *d, void *context)
{
    const struct shelf *s = context;
    local_fine(d, d->dev->copy(d->areas[GIVEN], s->given, COUNT * 4, d->stream));
    sum(d, d->areas[GIVEN], d->areas[GOT], COUNT);
    local_fine(d, d->dev->copy(s->got, d->areas[GOT], COUNT * 4, d->stream));
    sum(d, s->ordinary[0], s->ordinary[1], COUNT);
    ranks_ok(d->me, tutti_barrier(d->comm, local_on(d)), "barrier");
    ranks_ok(d->me,
        tutti_all_reduce(s->given, s->got + COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, d->comm, local_on(d)),
        "of pinned memory");
}

static void replay(struct ranks_me *me)
{
    struct local_desk d;
    struct shelf s;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    s.given = slots(&d, 3 * COUNT * 4);
    s.got = s.given + COUNT;
    for (int i = 0; i < 2; i++)
        s.ordinary[i] = calloc(COUNT, 4);
    void *runnable = captured(&d, capture_three, &s);
    for (int k = 0; k < 12; k++) {
        ranks_at(me, "replay %d", k);
        for (int i = 0; i < COUNT; i++) {
            s.given[i] = value(me->rank, k, i);
            s.ordinary[0][i] = value(me->rank, k + 100, i);
        }
        ranks_delay(me, 300);
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        if (k % 3 == 1) { /* of this replay's results */
            sum(&d, d.areas[GOT], d.areas[GOT + 1], COUNT);
            ranks_ok(me, tutti_barrier(d.comm, local_on(&d)), "barrier");
        }
        local_settle(&d);
        is_sum(&d, s.got, k, COUNT);
        is_sum(&d, s.got + COUNT, k, COUNT);
        is_sum(&d, s.ordinary[1], k + 100, COUNT);
        ranks_meet(me);
    }
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    ranks_part(me, d.comm);
}

Test(api_device_spin, replays_count_on)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, replay, NULL, 0, 0 }, { "queues=1", 3, 3, replay, NULL, 0, 0 },
        { "queues=2,delay=50", 4, 2, replay, NULL, 0, 0 });
}

/* --- Groups: several collectives, a message, and what kernels do not do, on two communicators */

static void sum_fast(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)dst)[i] = ((const uint32_t *)left)[i] + ((const uint32_t *)right)[i];
}

static void fill_up(const struct local_desk *d, uint32_t *given, int round)
{
    for (int i = 0; i < COUNT; i++)
        given[i] = value(d->me->rank, round, i);
    local_fine(d, d->dev->copy(d->areas[GIVEN], given, COUNT * 4, d->stream));
}

static void call_in_groups(struct ranks_me *me)
{
    struct local_desk d;
    tutti_op op;
    int next = (me->rank + 1) % me->n, before = (me->rank + me->n - 1) % me->n;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    tutti_comm *other = spin_join(me, ";executor=spin", SPIN_LONG_MS);
    uint32_t *given = slots(&d, COUNT * 4), *got = slots(&d, 5 * COUNT * 4);
    ranks_ok(me, tutti_op_create(d.comm, sum_fast, NULL, 4, 1, &op), "op_create");
    for (int k = 0; k < 6; k++) {
        ranks_at(me, "group %d", k);
        fill_up(&d, given, k);
        ranks_ok(me, tutti_group_start(), "group_start");
        sum(&d, d.areas[GIVEN], got, COUNT);
        tutti_send(d.areas[GIVEN], COUNT, TUTTI_UINT32, next, d.comm, local_on(&d));
        tutti_recv(d.areas[GOT], COUNT, TUTTI_UINT32, before, d.comm, local_on(&d));
        ranks_ok(me,
            tutti_all_reduce(given, got + COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, other, local_on(&d)),
            "of another communicator");
        ranks_ok(me,
            tutti_all_reduce(d.areas[GIVEN], got + 2 * COUNT, COUNT, TUTTI_UINT32, op, d.comm, local_on(&d)),
            "of a user's operator");
        sum(&d, got, got + 3 * COUNT, COUNT); /* of what the first one leaves */
        ranks_ok(me, tutti_group_end(), "group_end");
        local_fine(&d, d.dev->copy(got + 4 * COUNT, d.areas[GOT], COUNT * 4, d.stream));
        local_settle(&d);
        for (int i = 0; i < 3; i++)
            is_sum(&d, got + i * COUNT, k, COUNT);
        for (int i = 0; i < COUNT; i++)
            if (!ranks_expect(me,
                    got[3 * COUNT + i] == (uint32_t)me->n * sum_of(me->n, k, i) &&
                        got[4 * COUNT + i] == value(before, k, i),
                    "element %d: %u, %u", i, got[3 * COUNT + i], got[4 * COUNT + i]))
                break;
        ranks_meet(me);
    }
    ranks_ok(me, tutti_comm_destroy(other), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_spin, groups)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, call_in_groups, NULL, 0, 0 },
        { "queues=1,delay=50", 3, 3, call_in_groups, NULL, 0, 0 });
}

/* --- All ranks of one thread, which calls in groups */

static void be_all_ranks(struct ranks_me *me)
{
    enum { ALL = 3 };
    const struct tt_dev *dev;
    int devices[ALL] = { 0, 1, 2 };
    tutti_comm *comms[ALL];
    void *streams[ALL], *areas[ALL][2], *host = NULL;
    tutti_config config = { .size = sizeof config, .options = "executor=spin", .timeout_ms = SPIN_LONG_MS };
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &dev), "tt_dev_find") ||
        !ranks_ok(me, tutti_comm_init_all(ALL, devices, &config, comms), "init_all"))
        return;
    dev->memory.alloc_pinned(LONG * 4, &host);
    for (int r = 0; r < ALL; r++) {
        dev->use(r);
        dev->stream.create(&streams[r]);
        for (int side = 0; side < 2; side++)
            dev->memory.alloc(LONG * 4, &areas[r][side]);
        for (int i = 0; i < LONG; i++)
            ((uint32_t *)host)[i] = value(r, 0, i);
        dev->copy(areas[r][0], host, LONG * 4, streams[r]);
        dev->stream.sync(streams[r]);
        spin_says(me, comms[r], "why all_reduce 8", "on CUDA streams: S");
    }
    for (size_t count = 1; count <= LONG; count += LONG - 1) {
        tutti_group_start();
        for (int r = ALL; r-- > 0;)
            ranks_ok(me,
                tutti_all_reduce(areas[r][0], areas[r][1], count, TUTTI_UINT32, TUTTI_SUM, comms[r],
                    tutti_cuda_stream(streams[r])),
                "all_reduce");
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int r = 0; r < ALL; r++) {
            dev->use(r);
            dev->copy(host, areas[r][1], count * 4, streams[r]);
            dev->stream.sync(streams[r]);
            uint32_t last = ((uint32_t *)host)[count - 1];
            ranks_expect(me, last == sum_of(ALL, 0, (int)count - 1), "rank %d has %u", r, last);
        }
    }
    for (int r = 0; r < ALL; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
}

Test(api_device_spin, ranks_of_one_thread)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 1, 1, be_all_ranks, NULL, 0, 3 }, { "queues=1", 1, 1, be_all_ranks, NULL, 0, 3 });
}

/* --- A part of the ranks */

static void split(struct ranks_me *me)
{
    struct local_desk d;
    tutti_comm *half = NULL;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    ranks_ok(me, tutti_comm_split(d.comm, me->rank % 2, me->rank, NULL, &half), "tutti_comm_split");
    spin_says(me, half, "executor", "S");
    uint32_t *got = slots(&d, 8), *given = got + 1;
    *given = 1 + (uint32_t)me->rank;
    ranks_ok(me, tutti_all_reduce(given, got, 1, TUTTI_UINT32, TUTTI_SUM, half, local_on(&d)), "all_reduce");
    local_settle(&d);
    ranks_expect(me, *got == (me->rank % 2 ? 6 : 4), "the sum is %u", *got);
    ranks_ok(me, tutti_comm_destroy(half), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_spin, parts_of_the_ranks)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 4, 2, split, NULL, 0, 0 });
}
