/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_return.c: what holds when a call returns, and what it cost to wait.
 *
 * Nobody reads a rank's buffers any more, so they are overwritten at once while other ranks come late; a
 * library that lets a reader go on gives wrong sums elsewhere. And waiting sleeps: 8 ranks that wait two
 * seconds for one burn next to nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/comm.h"
#include "base/handle.h"
#include "tests/rig/ranks.h"
#include "transports/shm_segment.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_return, .timeout = 120);

/* --- Buffers may be reused at once */

enum collective {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_GATHER_V,
    SHIFT,
    COLLECTIVES
};
static const char *const names[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather",
    "all_gather_v", "send and recv" };
static const size_t sizes[] = { 5, 1500, 17000, 60001 };
enum { SIZES = 4, MOST = 60001, OVERWRITTEN = 0xee };

struct late {
    enum collective collective;
    size_t count;
    int root;
    struct ranks_vector vector;
    uint64_t *send, *recv, *copy, *expected; /* room for n * MOST elements each */
};

static tutti_status shift(const struct ranks_me *me, const struct late *l, tutti_comm *comm)
{
    tutti_group_start();
    tutti_recv(l->recv, l->count, TUTTI_UINT64, (me->rank + me->n - 1) % me->n, comm, tutti_no_stream());
    tutti_send(l->send, l->count, TUTTI_UINT64, (me->rank + 1) % me->n, comm, tutti_no_stream());
    return tutti_group_end();
}

static tutti_status call(const struct ranks_me *me, const struct late *l, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    size_t counts[RANKS_MAX];
    for (int r = 0; r < me->n; r++)
        counts[r] = l->count;
    switch (l->collective) {
    case ALL_REDUCE:
        return tutti_all_reduce(l->send, l->recv, l->count, TUTTI_UINT64, TUTTI_SUM, comm, none);
    case REDUCE:
        return tutti_reduce(l->send, l->recv, l->count, TUTTI_UINT64, TUTTI_SUM, l->root, comm, none);
    case BROADCAST:
        return tutti_broadcast(l->send, l->recv, l->count, TUTTI_UINT64, l->root, comm, none);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(l->send, l->recv, l->count, TUTTI_UINT64, TUTTI_SUM, comm, none);
    case ALL_GATHER:
        return tutti_all_gather(l->send, l->recv, l->count, TUTTI_UINT64, comm, none);
    case ALL_GATHER_V:
        return tutti_all_gather_v(l->send, l->count, l->recv, counts, NULL, TUTTI_UINT64, comm, none);
    default:
        return shift(me, l, comm);
    }
}

/* Elements of what recv must hold; 0: nothing is promised at this rank. */
static size_t expect(const struct ranks_me *me, const struct late *l)
{
    switch (l->collective) {
    case ALL_REDUCE:
        ranks_reduced(&l->vector, 0, l->count, l->expected);
        return l->count;
    case REDUCE:
        ranks_reduced(&l->vector, 0, l->count, l->expected);
        return me->rank == l->root ? l->count : 0;
    case BROADCAST:
        ranks_fill(&l->vector, l->root, 0, l->count, l->expected);
        return l->count;
    case REDUCE_SCATTER:
        ranks_reduced(&l->vector, (uint64_t)me->rank * l->count, l->count, l->expected);
        return l->count;
    case SHIFT:
        ranks_fill(&l->vector, (me->rank + me->n - 1) % me->n, 0, l->count, l->expected);
        return l->count;
    default:
        for (int r = 0; r < me->n; r++)
            ranks_fill(&l->vector, r, 0, l->count, l->expected + (size_t)r * l->count);
        return (size_t)me->n * l->count;
    }
}

/* One rank comes late; every rank overwrites all it has as soon as its call returns, and half of them do
 * not even keep a copy of what they got. */
static void call_and_overwrite(struct ranks_me *me, struct late *l, tutti_comm *comm, int round)
{
    size_t bytes = (size_t)me->n * l->count * sizeof *l->send;
    bool keeps = (round + me->rank) % 2 == 0;
    ranks_fill(&l->vector, me->rank, 0, l->collective == REDUCE_SCATTER ? (size_t)me->n * l->count : l->count,
        l->send);
    memset(l->recv, 0x11, bytes);
    if (round % me->n == me->rank)
        ranks_sleep_us(1000);
    tutti_status status = call(me, l, comm);
    memset(l->send, OVERWRITTEN, bytes);
    if (keeps)
        memcpy(l->copy, l->recv, bytes);
    memset(l->recv, OVERWRITTEN, bytes);
    ranks_ok(me, status, names[l->collective]);
    if (keeps)
        ranks_same(me, TUTTI_UINT64, l->copy, l->expected, expect(me, l), "recv");
}

static void overwrite_all(struct ranks_me *me, struct late *l, tutti_comm *comm, const char *options)
{
    for (int round = 0; round < COLLECTIVES * SIZES; round++) {
        l->collective = (enum collective)(round % COLLECTIVES);
        l->count = sizes[round / COLLECTIVES];
        l->root = round % me->n;
        bool blocks = l->collective >= REDUCE_SCATTER && l->collective <= ALL_GATHER_V;
        l->count = blocks ? (l->count + 2) / 3 : l->count;
        l->vector = (struct ranks_vector){
            .type = TUTTI_UINT64, .op = TUTTI_SUM, .seed = (uint64_t)round, .n = me->n
        };
        ranks_at(me, "n %d rank %d: %s of %zu uint64, %s, overwritten at once, %s", me->n, me->rank,
            names[l->collective], l->count, me->context != NULL ? "mem_alloc" : "malloc", options);
        call_and_overwrite(me, l, comm, round);
        if (me->world->slots[me->rank].failures > 0)
            return;
    }
}

static uint64_t *get(struct ranks_me *me, bool registered)
{
    void *memory = NULL;
    size_t bytes = (size_t)me->n * MOST * sizeof(uint64_t);
    if (registered)
        ranks_ok(me, tutti_mem_alloc(bytes, TUTTI_MEM_HOST, &memory), "mem_alloc");
    else
        memory = malloc(bytes);
    if (memory == NULL)
        abort();
    return memory;
}

static void overwrite(struct ranks_me *me)
{
    struct late l = { .send = get(me, me->context != NULL) };
    l.recv = get(me, me->context != NULL);
    l.copy = get(me, false);
    l.expected = get(me, false);
    char options[512] = "";
    for (int k = -1; k < 0 || ranks_algorithms(k, options, sizeof options); k++) {
        tutti_config config = { .size = sizeof config, .options = options };
        tutti_comm *comm = ranks_join(me, &config);
        if (comm == NULL)
            return;
        overwrite_all(me, &l, comm, options);
        ranks_part(me, comm);
        strcpy(options, k % 2 == 0 ? "slice=128K" : "slice=32K");
    }
    if (me->context != NULL) {
        ranks_ok(me, tutti_mem_free(l.send), "mem_free");
        ranks_ok(me, tutti_mem_free(l.recv), "mem_free");
    } else {
        free(l.send);
        free(l.recv);
    }
    free(l.copy);
    free(l.expected);
}

Test(api_return, private_buffers_may_be_overwritten)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = overwrite });
}

Test(api_return, registered_buffers_may_be_overwritten)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = overwrite, .context = "registered" });
}

Test(api_return, buffers_of_threads_may_be_overwritten)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = overwrite });
}

/* Registered memory may even be freed. */
static void free_at_once(struct ranks_me *me)
{
    enum { COUNT = 50000 };
    struct ranks_vector v = { .type = TUTTI_UINT64, .op = TUTTI_SUM, .seed = 5, .n = me->n };
    uint64_t *expected = malloc(COUNT * sizeof *expected), *recv = malloc(COUNT * sizeof *recv);
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL || expected == NULL || recv == NULL)
        return;
    ranks_reduced(&v, 0, COUNT, expected);
    for (int round = 0; round < 20; round++) {
        void *send = NULL;
        ranks_at(me, "rank %d: registered memory freed at once, round %d", me->rank, round);
        if (!ranks_ok(me, tutti_mem_alloc(COUNT * sizeof(uint64_t), TUTTI_MEM_HOST, &send), "mem_alloc"))
            return;
        ranks_fill(&v, me->rank, 0, COUNT, send);
        if (round % me->n == me->rank)
            ranks_sleep_us(1000);
        ranks_ok(me, tutti_all_reduce(send, recv, COUNT, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        ranks_ok(me, tutti_mem_free(send), "mem_free");
        ranks_same(me, TUTTI_UINT64, recv, expected, COUNT, "recv");
    }
    free(expected);
    free(recv);
    ranks_part(me, comm);
}

Test(api_return, registered_memory_may_be_freed)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = free_at_once });
}

/* Which way the bytes went is counted: registered memory is never copied, and what is switched off is off. */
static void count_paths(struct ranks_me *me)
{
    static const char *const options[] = { "", "map=off" };
    enum { COUNT = 100000 };
    for (int i = 0; i < 4; i++) {
        tutti_config config = { .size = sizeof config, .options = options[i / 2] };
        tutti_comm *comm = ranks_join(me, &config);
        struct ranks_buffer buffer;
        bool registered = i & 1;
        if (comm == NULL || !ranks_buffer_create(me, &buffer, COUNT * 4, registered))
            return;
        ranks_at(
            me, "rank %d: paths of %s, '%s'", me->rank, registered ? "mem_alloc" : "malloc", options[i / 2]);
        float *data = ranks_buffer_place(&buffer, COUNT * sizeof(float), 0);
        memset(data, 0, COUNT * sizeof(float));
        ranks_ok(me, tutti_all_reduce(data, data, COUNT, TUTTI_FLOAT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        struct ranks_paths p = ranks_paths(me, comm);
        ranks_expect(me, p.line + p.mapped + p.copied + p.placed > COUNT, "'%s'", p.text);
        ranks_expect(me, registered || p.copied > 0, "private memory went by: %s", p.text);
        if (registered && i / 2 == 0)
            ranks_expect(me, p.copied == 0 && p.mapped > 0, "registered memory went by: %s", p.text);
        ranks_expect(me, i / 2 == 0 || p.mapped == 0, "mapped though off: %s", p.text);
        ranks_buffer_free(me, &buffer);
        ranks_part(me, comm);
    }
}

Test(api_return, paths_are_counted)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = count_paths });
}

/* Who fences lightly relies on all others: one rank that says no is enough. */
static void fence_fully(struct ranks_me *me)
{
    for (int odd = -1; odd < me->n; odd++) {
        tutti_config config = { .size = sizeof config, .options = me->rank == odd ? "membarrier=off" : "" };
        tutti_comm *comm = ranks_join(me, &config);
        if (comm == NULL)
            return;
        const struct tt_comm *c = tt_comm_find(comm);
        bool light = c->endpoint->light;
        ranks_expect(me, odd < 0 ? light == tt_fence_register() : !light, "rank %d says no, and light is %d",
            odd, light);
        ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "barrier");
        ranks_part(me, comm);
    }
}

Test(api_return, one_rank_that_fences_fully_makes_all_do_so)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = fence_fully });
}

/* --- Waiting sleeps */

enum { SLEEPER_MS = 2000, SETTLE_MS = 100, BURNT_MOST_MS = SLEEPER_MS * 5 / 100 };

/* Of a core, by all ranks so far. */
static int64_t burnt_us(const struct ranks_me *me)
{
    int64_t sum = 0;
    for (int r = 0; r < (me->kind == RANKS_PROCESSES ? me->n : 1); r++) {
        clockid_t clock = CLOCK_PROCESS_CPUTIME_ID;
        struct timespec t = { 0 };
        bool known = me->kind != RANKS_PROCESSES || clock_getcpuclockid(me->world->slots[r].pid, &clock) == 0;
        ranks_expect((struct ranks_me *)me, known && clock_gettime(clock, &t) == 0, "no clock of rank %d", r);
        sum += (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
    }
    return sum;
}

static tutti_status wait_for_sleeper(struct ranks_me *me, int how, tutti_comm *comm)
{
    static uint64_t words[2][40000];
    tutti_comm *child = NULL;
    switch (how) {
    case 0:
        return tutti_barrier(comm, tutti_no_stream());
    case 1:
        return tutti_all_reduce(words[0], words[1], 40000, TUTTI_UINT64, TUTTI_SUM, comm, tutti_no_stream());
    case 2:
        tutti_group_start(); /* two waits at once, of one rank */
        tutti_broadcast(words[0], words[0], 100, TUTTI_UINT64, 0, comm, tutti_no_stream());
        if (me->rank == 0)
            for (int r = 1; r < me->n; r++)
                tutti_send(words[1], 1, TUTTI_UINT64, r, comm, tutti_no_stream());
        else
            tutti_recv(words[1], 1, TUTTI_UINT64, 0, comm, tutti_no_stream());
        return tutti_group_end();
    default:
        if (!ranks_ok(me, tutti_comm_split(comm, 0, 0, NULL, &child), "split"))
            return TUTTI_INTERNAL_ERROR;
        return tutti_comm_destroy(child);
    }
}

static void burn(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    int how = *(const int *)me->context;
    if (comm == NULL)
        return;
    ranks_ok(me, tutti_barrier(comm, tutti_no_stream()), "the barrier before");
    ranks_meet(me);
    ranks_at(me, "rank %d: waiting for a sleeper, way %d", me->rank, how);
    if (me->rank == 0) { /* what they burn while it sleeps, and not when they go on together */
        ranks_sleep_us(SETTLE_MS * 1000);
        int64_t before = burnt_us(me);
        ranks_sleep_us(SLEEPER_MS * 1000);
        int64_t burnt_ms = (burnt_us(me) - before) / 1000;
        ranks_expect(me, burnt_ms < BURNT_MOST_MS, "all ranks together burnt %lld ms in %d ms, legal: %d",
            (long long)burnt_ms, SLEEPER_MS, BURNT_MOST_MS);
    }
    ranks_ok(me, wait_for_sleeper(me, how, comm), "the call that waits");
    ranks_part(me, comm);
}

static void run_burn(int how, enum ranks_kind kind)
{
    ranks_run(&(struct ranks_plan){ .n = 8, .kind = kind, .run = burn, .context = &how });
}

Test(api_return, waiting_in_a_barrier_sleeps)
{
    run_burn(0, RANKS_PROCESSES);
}

Test(api_return, waiting_in_an_all_reduce_sleeps)
{
    run_burn(1, RANKS_PROCESSES);
}

Test(api_return, waiting_in_a_group_sleeps)
{
    run_burn(2, RANKS_PROCESSES);
}

Test(api_return, waiting_in_a_split_sleeps)
{
    run_burn(3, RANKS_PROCESSES);
}

Test(api_return, waiting_threads_sleep)
{
    run_burn(0, RANKS_THREADS);
}

/* Waits that end at any moment of going to sleep: one rank lets the other wait a drawn time, about as long
 * as that takes. A ring that is missed then costs a tick. Lost wake-ups are counted by the library, and
 * ranks_run wants none. */
static void wake(struct ranks_me *me)
{
    enum { ROUNDS = 6000, MOST_NS = 250000 };
    tutti_comm *comm = ranks_join(me, NULL);
    int32_t value;
    for (int i = 0; comm != NULL && i < ROUNDS; i++) {
        ranks_at(me, "n %d rank %d: waking up, round %d", me->n, me->rank, i);
        value = 1;
        if (i % me->n == me->rank) /* awake, or the wait would not be as short as drawn */
            ranks_spin_ns(ranks_below(&me->random, MOST_NS));
        ranks_ok(me, tutti_all_reduce(&value, &value, 1, TUTTI_INT32, TUTTI_SUM, comm, tutti_no_stream()),
            "all_reduce");
        ranks_expect(me, value == me->n, "the sum is %d", value);
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_return, no_wake_up_is_lost)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wake });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_THREADS, .run = wake });
}
