/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_local_mixed.c: calls that kernels do among calls that they do not, in drawn order: ranks
 * that are threads of one process on one device, with several calls under way, on two streams each. What a
 * call finds and leaves must not depend on how the calls around it were served. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "local_rig.h"

TestSuite(api_device_local_mixed, .timeout = 240);

enum { STEPS = 120, FLIGHT = 6, WORDS = 512, SLOT = RANKS_MAX * WORDS };
enum kind {
    SUM,
    SUM_IN_PLACE,
    SUM_ELSEWHERE,
    SUM_OF_HOST,
    GATHER,
    SPREAD,
    EXCHANGE,
    EXCHANGE_ELSEWHERE,
    PASS,
    CHAIN,
    NOTHING,
    KINDS
};

struct step { /* the same at all ranks */
    enum kind kind;
    int count, root;
};

struct lane { /* of one call under way */
    uint32_t *in, *out; /* of the device */
    uint32_t *given, *got, *ordinary; /* of the host: pinned, pinned, and not */
    struct step step;
};

struct table { /* of a rank */
    struct local_desk desk;
    void *streams[2];
    struct lane lanes[FLIGHT];
};

static uint32_t value(int rank, int step, int i)
{
    return (uint32_t)(rank + 1) * 1000003u + (uint32_t)step * 65599u + (uint32_t)i * 31u;
}

static uint32_t sum_of(int n, int step, int i)
{
    uint32_t all = 0;
    for (int r = 0; r < n; r++)
        all += value(r, step, i);
    return all;
}

static bool make(struct ranks_me *me, struct table *t)
{
    void *memory[4] = { 0 };
    *t = (struct table){ 0 };
    if (!local_sit_down(me, &t->desk, 100000))
        return false;
    const struct tt_dev *dev = t->desk.dev;
    bool good = local_fine(&t->desk, dev->stream.create(&t->streams[0]));
    t->streams[1] = t->desk.stream;
    for (int k = 0; k < FLIGHT && good; k++) {
        good = local_fine(&t->desk, dev->memory.alloc(WORDS * 4, &memory[0])) &&
               local_fine(&t->desk, dev->memory.alloc(SLOT * 4, &memory[1])) &&
               local_fine(&t->desk, dev->memory.alloc_pinned(WORDS * 4, &memory[2])) &&
               local_fine(&t->desk, dev->memory.alloc_pinned(SLOT * 4, &memory[3]));
        t->lanes[k] = (struct lane){ .in = memory[0],
            .out = memory[1],
            .given = memory[2],
            .got = memory[3],
            .ordinary = calloc(WORDS, 4) };
    }
    ranks_meet(me); /* who allocates waits for all streams */
    return good;
}

static struct step draw(uint64_t *random, int n)
{
    static const int counts[] = { 0, 1, 2, 7, 333, WORDS };
    return (struct step){ (enum kind)ranks_below(random, KINDS), counts[ranks_below(random, 6)],
        (int)ranks_below(random, (uint32_t)n) };
}

/* Where a rank has what it receives: at one rank, of some calls, in ordinary memory. */
static uint32_t *received(const struct lane *l, int rank)
{
    return l->step.kind == EXCHANGE_ELSEWHERE && rank == l->step.root ? l->ordinary : l->out + WORDS;
}

static void exchange(const struct table *t, const struct lane *l, size_t count, tutti_stream on)
{
    tutti_comm *comm = t->desk.comm;
    int n = t->desk.me->n, rank = t->desk.me->rank;
    tutti_group_start();
    tutti_send(l->in, count, TUTTI_UINT32, (rank + 1) % n, comm, on);
    tutti_recv(received(l, rank), count, TUTTI_UINT32, (rank + n - 1) % n, comm, on);
    tutti_all_reduce(l->in, l->out, count, TUTTI_UINT32, TUTTI_SUM, comm, on);
    ranks_ok(t->desk.me, tutti_group_end(), "an exchange and a sum");
}

/* From one rank to the next, of which the others know nothing. */
static tutti_status pass(const struct table *t, const struct lane *l, size_t count, tutti_stream on)
{
    int n = t->desk.me->n, rank = t->desk.me->rank, from = l->step.root, to = (from + 1) % n;
    if (from == to || (rank != from && rank != to))
        return TUTTI_OK;
    if (rank == from)
        return tutti_send(l->in, count, TUTTI_UINT32, to, t->desk.comm, on);
    return tutti_recv(l->out, count, TUTTI_UINT32, from, t->desk.comm, on);
}

static void call(const struct table *t, const struct lane *l, void *stream)
{
    struct ranks_me *me = t->desk.me;
    tutti_comm *comm = t->desk.comm;
    tutti_stream on = tutti_cuda_stream(stream);
    size_t count = (size_t)l->step.count;
    tutti_status status = TUTTI_OK;
    bool elsewhere = l->step.kind == SUM_ELSEWHERE && me->rank == l->step.root;
    if (l->step.kind == SUM || l->step.kind == SUM_ELSEWHERE)
        status = tutti_all_reduce(
            l->in, elsewhere ? l->ordinary : l->out, count, TUTTI_UINT32, TUTTI_SUM, comm, on);
    else if (l->step.kind == SUM_IN_PLACE)
        status = tutti_all_reduce(l->in, l->in, count, TUTTI_UINT32, TUTTI_SUM, comm, on);
    else if (l->step.kind == SUM_OF_HOST)
        status =
            tutti_all_reduce(l->given, l->ordinary, count, TUTTI_UINT32, TUTTI_SUM, comm, tutti_no_stream());
    else if (l->step.kind == GATHER)
        status = tutti_all_gather(l->in, l->out, count, TUTTI_UINT32, comm, on);
    else if (l->step.kind == SPREAD)
        status = tutti_broadcast(l->in, l->out, count, TUTTI_UINT32, l->step.root, comm, on);
    else if (l->step.kind == EXCHANGE || l->step.kind == EXCHANGE_ELSEWHERE)
        exchange(t, l, count, on);
    else if (l->step.kind == PASS)
        status = pass(t, l, count, on);
    else if (l->step.kind == NOTHING)
        status = tutti_barrier(comm, on);
    for (int i = 0; i < 3 && l->step.kind == CHAIN && status == TUTTI_OK; i++)
        status = tutti_all_reduce(i == 0 ? l->in : l->out, l->out, count, TUTTI_UINT32, TUTTI_SUM, comm, on);
    ranks_ok(me, status, "a call");
}

static void enqueue(const struct table *t, struct lane *l, int step)
{
    struct ranks_me *me = t->desk.me;
    const struct tt_dev *dev = t->desk.dev;
    void *stream = t->streams[ranks_below(&me->random, 2)];
    ranks_at(me, "step %d, kind %d of %d", step, (int)l->step.kind, l->step.count);
    for (int i = 0; i < WORDS; i++)
        l->given[i] = value(me->rank, step, i);
    local_fine(&t->desk, dev->copy(l->in, l->given, WORDS * 4, stream));
    ranks_delay(me, 100);
    call(t, l, stream);
    const void *from = l->step.kind == SUM_IN_PLACE ? l->in : l->out;
    local_fine(
        &t->desk, dev->copy(l->got, from, (size_t)(l->step.kind == SUM_IN_PLACE ? WORDS : SLOT) * 4, stream));
}

static uint32_t expected(const struct step *s, int n, int step, int i)
{
    if (s->kind == GATHER)
        return value(i / s->count, step, i % s->count);
    if (s->kind == SPREAD || s->kind == PASS)
        return value(s->root, step, i);
    return sum_of(n, step, i) * (s->kind == CHAIN ? (uint32_t)(n * n) : 1);
}

static void check(const struct table *t, const struct lane *l, int step)
{
    const struct step *s = &l->step;
    int n = t->desk.me->n, rank = t->desk.me->rank, count = s->count, last = (rank + n - 1) % n;
    bool ordinary = s->kind == SUM_OF_HOST || (s->kind == SUM_ELSEWHERE && rank == s->root);
    bool exchanges = s->kind == EXCHANGE || s->kind == EXCHANGE_ELSEWHERE;
    bool none = s->kind == NOTHING || (s->kind == PASS && (last != s->root || n == 1));
    const uint32_t *got = ordinary ? l->ordinary : l->got;
    const uint32_t *came = received(l, rank) == l->ordinary ? l->ordinary : l->got + WORDS;
    for (int i = 0; i < (s->kind == GATHER ? n * count : count) && !none; i++)
        if (!ranks_expect(t->desk.me, got[i] == expected(s, n, step, i),
                "step %d, kind %d of %d: element %d is %u, expected %u", step, (int)s->kind, count, i, got[i],
                expected(s, n, step, i)))
            return;
    for (int i = 0; i < count && exchanges; i++)
        if (!ranks_expect(
                t->desk.me, came[i] == value(last, step, i), "step %d: received %u at %d", step, came[i], i))
            return;
}

static void mix(struct ranks_me *me)
{
    struct table t;
    uint64_t shared = *(const uint64_t *)me->context;
    if (!make(me, &t))
        return;
    for (int step = 0; step < STEPS && me->world->slots[me->rank].failures == 0; step++) {
        struct lane *l = &t.lanes[step % FLIGHT];
        l->step = draw(&shared, me->n);
        enqueue(&t, l, step);
        if (step % FLIGHT != FLIGHT - 1)
            continue;
        for (int s = 0; s < 2; s++)
            local_fine(&t.desk, t.desk.dev->stream.sync(t.streams[s]));
        for (int k = 0; k < FLIGHT; k++)
            check(&t, &t.lanes[k], step - FLIGHT + 1 + k);
    }
    ranks_part(me, t.desk.comm);
}

static void run_mixed(const char *stub, int n, uint64_t seed)
{
    plugin_must_have_kernels();
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    ranks_run(&(struct ranks_plan){
        .n = n, .kind = RANKS_THREADS, .run = mix, .context = &seed, .seed = seed, .limit_s = 100 });
}

Test(api_device_local_mixed, on_many_queues)
{
    for (uint64_t seed = 1; seed <= 3; seed++)
        run_mixed("queues=8,delay=50", 3, seed);
    run_mixed("queues=8", 8, 4);
}

Test(api_device_local_mixed, on_few_queues)
{
    run_mixed("queues=1", 2, 5);
    run_mixed("queues=1,delay=50", 3, 6);
    run_mixed("queues=2", 5, 7);
}

/* One rank more than a kernel serves, and one alone. */
Test(api_device_local_mixed, where_no_kernel_serves)
{
    run_mixed("queues=8", 9, 8);
    run_mixed("queues=1", 1, 9);
}

/* --- Groups of which a kernel does the first sums, and the host the last one, or none; then the host does
 * more. What it finds in its gate must be of its own call, however many calls passed that by. */

static void sum_one(const struct local_desk *d, void *from, void *to)
{
    ranks_ok(
        d->me, tutti_all_reduce(from, to, 1, TUTTI_UINT32, TUTTI_SUM, d->comm, local_on(d)), "all_reduce");
}

static void is_one(const struct local_desk *d, int area, uint32_t expected)
{
    uint32_t got;
    memcpy(&got, local_take(d, area, sizeof got), sizeof got);
    ranks_expect(d->me, got == expected, "the sum is %u, expected %u", got, expected);
}

static void group_then_host(struct ranks_me *me)
{
    enum { ROUNDS = 6, AFTER = 3 };
    int many = *(const int *)me->context;
    struct local_desk d;
    static uint32_t ordinary[RANKS_MAX];
    if (!local_sit_down(me, &d, 100000))
        return;
    void *to = me->rank == 1 ? (void *)&ordinary[me->rank] : d.areas[GOT];
    for (int round = 0; round < ROUNDS && me->world->slots[me->rank].failures == 0; round++) {
        uint32_t value = 1 + (uint32_t)round;
        ranks_at(me, "round %d", round);
        local_give(&d, GIVEN, &value, sizeof value);
        tutti_group_start();
        for (int i = 0; i < many; i++, value *= (uint32_t)me->n)
            sum_one(&d, d.areas[GIVEN], d.areas[GIVEN]);
        if (round % 2 == 0)
            sum_one(&d, d.areas[GIVEN], to);
        ranks_ok(me, tutti_group_end(), "group_end");
        is_one(&d, GIVEN, value);
        if (round % 2 == 0 && me->rank != 1)
            is_one(&d, GOT, value * (uint32_t)me->n);
        for (int k = 0; k < AFTER; k++) {
            value = 77u + (uint32_t)(round * AFTER + k);
            local_give(&d, GIVEN, &value, sizeof value);
            ranks_delay(me, 3000);
            sum_one(&d, d.areas[GIVEN], to);
            if (me->rank != 1)
                is_one(&d, GOT, value * (uint32_t)me->n);
        }
    }
    ranks_part(me, d.comm);
}

static void run_groups(const char *stub, int many)
{
    plugin_must_have_kernels();
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    ranks_run(&(struct ranks_plan){ .n = RANKS,
        .kind = RANKS_THREADS,
        .run = group_then_host,
        .context = &many,
        .seed = 7,
        .limit_s = 100 });
}

Test(api_device_local_mixed, a_group_before_the_host)
{
    run_groups("queues=8,delay=100", 3);
    run_groups("queues=1", 1);
}

/* More than the ranks remember decisions of. */
Test(api_device_local_mixed, a_long_group_before_the_host)
{
    run_groups("queues=8", 1100);
}

/* --- Prices */

/* One kernel for all ranks, and one copy for a message, are priced as what reaches the buffers of all; where
 * the setting has all go by the host, that is. */
static void prices(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_prepare(me, &d))
        return;
    for (int by_host = 0; by_host < 2; by_host++) {
        tutti_comm *comm = local_join(me, by_host ? ";executor=host" : "", 60000);
        if (comm == NULL)
            return;
        double us = local_price(me, comm, "price all_reduce 1M");
        double expected = by_host ? 30 + me->n * 1048576 * 52.5e-6 : 15 + me->n * 1048576 * 0.515e-6;
        ranks_expect(me, us > expected - 0.01 && us < expected + 0.01, "%g us, not %g", us, expected);
        tutti_group_start();
        tutti_send(d.areas[GIVEN], 10000, TUTTI_UINT8, (me->rank + 1) % me->n, comm, local_on(&d));
        us = local_price(me, NULL, "price group");
        expected = by_host ? 30 + 2 * 10000 * 52.5e-6 : 15 + 2 * 10000 * 0.515e-6;
        ranks_expect(
            me, us > expected - 0.01 && us < expected + 0.01, "a message: %g us, not %g", us, expected);
        tutti_group_cancel();
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(comm), "tutti_comm_destroy");
    }
}

Test(api_device_local_mixed, prices)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 3, prices);
}
