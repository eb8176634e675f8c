/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_local.c: collectives of ranks of one process on one device, which one kernel does: that it
 * does them, that its bits are the host's, and that what it cannot do goes by the host. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/handle.h"
#include "local_rig.h"
#include "run/comm.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_device_local, .timeout = 240);

/* --- One kernel a collective, whatever it is */

static void call_each(const struct local_desk *d, int which)
{
    void *in = d->areas[GIVEN], *out = d->areas[GOT];
    const size_t counts[] = { 5, 0, 9, 1, 2, 3, 7, 4 };
    size_t most = 0;
    for (int r = 0; r < d->me->n; r++)
        most = counts[r] > most ? counts[r] : most;
    tutti_status status = TUTTI_OK;
    switch (which) {
    case 0:
        status = tutti_all_reduce(in, out, 100, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
        break;
    case 1:
        status = tutti_reduce_scatter(in, out, 100, TUTTI_INT32, TUTTI_MAX, d->comm, local_on(d));
        break;
    case 2:
        status = tutti_all_gather(in, out, 100, TUTTI_INT32, d->comm, local_on(d));
        break;
    case 3:
        status = tutti_broadcast(in, out, 100, TUTTI_INT32, 1, d->comm, local_on(d));
        break;
    case 4:
        status = tutti_reduce(in, out, 100, TUTTI_INT32, TUTTI_SUM, 1, d->comm, local_on(d));
        break;
    case 5:
        status = tutti_all_to_all(in, out, 100, TUTTI_INT32, d->comm, local_on(d));
        break;
    case 6:
        status = tutti_gather(in, out, 100, TUTTI_INT32, 1, d->comm, local_on(d));
        break;
    case 7:
        status = tutti_scatter(in, out, 100, TUTTI_INT32, 1, d->comm, local_on(d));
        break;
    case 8:
        status =
            tutti_all_gather_v(in, counts[d->me->rank], out, counts, NULL, TUTTI_INT32, d->comm, local_on(d));
        break;
    case 9:
        status = tutti_barrier(d->comm, local_on(d));
        break;
    default:
        status = tutti_all_reduce(in, in, 100, TUTTI_INT32, TUTTI_SUM, d->comm, local_on(d));
        break;
    }
    ranks_ok(d->me, status, "a collective");
}

static void count_launches(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    for (int which = 0; which < 11; which++) {
        ranks_at(me, "collective %d", which);
        local_settle(&d);
        uint64_t launches = d.stub->calls("launch"), copies = d.stub->calls("copy");
        ranks_meet(me);
        call_each(&d, which);
        local_settle(&d);
        ranks_expect(me, d.stub->calls("launch") == launches + 1, "%llu launches",
            (unsigned long long)(d.stub->calls("launch") - launches));
        ranks_expect(me, d.stub->calls("copy") == copies, "it was copied");
    }
    ranks_part(me, d.comm);
}

Test(api_device_local, one_kernel_for_all_ranks)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, count_launches);
    local_run_threads("queues=1", 8, count_launches);
    local_run_threads("queues=2,words=0", RANKS, count_launches);
}

/* --- The same bits as the host's */

struct sum_case {
    tutti_type type;
    tutti_op op;
    size_t count;
    bool in_place;
};

static void compare(struct local_desk *d, tutti_comm *host, const struct sum_case *c)
{
    static const char *const names[] = { "device", "host" };
    size_t bytes = c->count * tutti_type_bytes(c->type);
    uint8_t given[AREA], device[AREA];
    for (size_t i = 0; i < bytes; i++)
        given[i] = (uint8_t)ranks_random(&d->me->random);
    for (int way = 0; way < 2; way++) {
        void *to = d->areas[c->in_place ? GIVEN : GOT];
        ranks_at(d->me, "%s, %s of %zu %s%s", names[way], ranks_op_name(c->op), c->count,
            ranks_type_name(c->type), c->in_place ? ", in place" : "");
        local_give(d, GIVEN, given, bytes);
        ranks_ok(d->me,
            tutti_all_reduce(
                d->areas[GIVEN], to, c->count, c->type, c->op, way == 0 ? d->comm : host, local_on(d)),
            "all_reduce");
        const uint8_t *got = local_take(d, c->in_place ? GIVEN : GOT, bytes);
        if (way == 0)
            memcpy(device, got, bytes);
        else
            ranks_expect(d->me, memcmp(device, got, bytes) == 0, "other bits than those of the host");
        ranks_meet(d->me);
    }
}

static void compare_all(struct ranks_me *me, const char *exact)
{
    static const tutti_type types[] = { TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_FLOAT16, TUTTI_FLOAT8_E4M3,
        TUTTI_FLOAT64, TUTTI_INT8, TUTTI_UINT64 };
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_AVG, TUTTI_PROD, TUTTI_MIN };
    char options[80];
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    ranks_part(me, d.comm);
    d.comm = local_join(me, exact, 100000);
    snprintf(options, sizeof options, ";executor=host;algo=all_reduce:direct%s", exact);
    tutti_comm *host = local_join(me, options, 100000);
    if (d.comm == NULL || host == NULL)
        return;
    for (int t = 0; t < (int)(sizeof types / sizeof types[0]); t++)
        for (int o = 0; o < (int)(sizeof ops / sizeof ops[0]); o++)
            compare(&d, host,
                &(struct sum_case){ types[t], ops[o], 1 + (size_t)(t * 331 + o * 1009) % 3001, o % 2 == 1 });
    ranks_part(me, d.comm);
    ranks_part(me, host);
}

static void compare_chain(struct ranks_me *me)
{
    compare_all(me, "");
}

static void compare_exact(struct ranks_me *me)
{
    compare_all(me, ";exact=on");
}

Test(api_device_local, the_bits_of_the_host)
{
    local_run_threads("queues=8", 2, compare_chain);
    local_run_threads("queues=8", 5, compare_chain);
    local_run_threads("queues=2", 8, compare_exact);
}

/* --- What a kernel cannot do goes by the host, and both keep their order */

enum { CHAIN = 60, MANY = 1500 };

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

/* Each call sums what the one before has left. At times a rank wants its result in ordinary memory, and then
 * the host does the call, for all ranks; they are late by turns. */
static void chain(struct ranks_me *me)
{
    struct local_desk d;
    static uint32_t ordinary[RANKS_MAX];
    uint32_t value = 1;
    if (!local_sit_down(me, &d, 100000))
        return;
    local_give(&d, GIVEN, &value, sizeof value);
    uint64_t launches = d.stub != NULL ? d.stub->calls("launch") : 0;
    for (int i = 0; i < CHAIN; i++) {
        ranks_at(me, "call %d", i);
        ranks_delay(me, 300);
        value *= (uint32_t)me->n;
        if (i % 5 == 3) {
            bool here = me->rank == i % me->n;
            sum_one(&d, d.areas[GIVEN], here ? (void *)&ordinary[me->rank] : d.areas[GOT]);
            if (!here)
                is_one(&d, GOT, value);
            local_fine(&d, d.dev->stream.sync(d.stream));
            ranks_expect(me, !here || ordinary[me->rank] == value, "the sum is %u, expected %u",
                ordinary[me->rank], value);
        }
        sum_one(&d, d.areas[GIVEN], d.areas[GIVEN]);
    }
    is_one(&d, GIVEN, value);
    ranks_meet(me);
    ranks_expect(me, d.stub == NULL || d.stub->calls("launch") == launches + CHAIN, "%llu launches",
        d.stub == NULL ? 0ULL : (unsigned long long)(d.stub->calls("launch") - launches));
    ranks_part(me, d.comm);
}

/* The user's algorithm and executor are obeyed, and so is where each rank wants its blocks, which may differ.
 * */
static void ask_for_more(struct ranks_me *me)
{
    struct local_desk d;
    uint32_t mine = 10 + (uint32_t)me->rank, got[2 * RANKS];
    size_t counts[RANKS] = { 1, 1, 1 }, displs[RANKS];
    if (!local_sit_down(me, &d, 100000))
        return;
    tutti_comm *any = d.comm, *others[2] = { local_join(me, ";algo=all_reduce:ring", 100000),
        local_join(me, ";executor=host", 100000) };
    if (others[0] == NULL || others[1] == NULL)
        return;
    for (int r = 0; r < RANKS; r++)
        displs[r] = (size_t)(me->rank == 1 ? 2 * (RANKS - 1 - r) : r);
    local_give(&d, GIVEN, &mine, sizeof mine);
    local_settle(&d);
    uint64_t launches = d.stub->calls("launch");
    ranks_meet(me);
    for (int k = 0; k < 2; k++) {
        d.comm = others[k];
        sum_one(&d, d.areas[GIVEN], d.areas[GOT]);
        is_one(&d, GOT, 33);
    }
    ranks_ok(me,
        tutti_all_gather_v(d.areas[GIVEN], 1, d.areas[GOT], counts, displs, TUTTI_UINT32, any, local_on(&d)),
        "all_gather_v");
    memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
    for (int r = 0; r < RANKS; r++)
        ranks_expect(me, got[displs[r]] == 10 + (uint32_t)r, "block %d has %u", r, got[displs[r]]);
    ranks_meet(me);
    ranks_expect(me, d.stub->calls("launch") == launches, "a kernel did it");
    ranks_part(me, others[0]);
    ranks_part(me, others[1]);
    ranks_part(me, any);
}

/* --- How each call went is told: the worker knows a moment after the stream */

static void is_told(const struct local_desk *d, const char *question, const char *words)
{
    static _Thread_local char answer[65536];
    bool found = false;
    for (int ms = 0; ms < 20000 && !found; ms++) {
        tutti_query(d->comm, question, answer, sizeof answer);
        found = strstr(answer, words) != NULL;
        ranks_sleep_us(found ? 0 : 1000);
    }
    ranks_expect(d->me, found, "%s: no \"%s\" in %s", question, words, answer);
}

static void tell_ways(struct ranks_me *me)
{
    struct local_desk d;
    int32_t ordinary[2] = { 1, 2 };
    if (!local_sit_down(me, &d, 100000))
        return;
    tutti_status status = me->rank == 0 ? tutti_send(d.areas[GIVEN], 3, TUTTI_INT32, 1, d.comm, local_on(&d))
                                        : tutti_recv(d.areas[GOT], 3, TUTTI_INT32, 0, d.comm, local_on(&d));
    ranks_ok(me, status, "a message");
    is_told(&d, "recorder", ", by one kernel or copy (L)\n");
    ranks_ok(
        me, tutti_reduce(ordinary, ordinary, 2, TUTTI_INT32, TUTTI_SUM, 0, d.comm, local_on(&d)), "reduce");
    is_told(&d, "recorder", ", by the host (H)\n");
    ranks_ok(me, tutti_broadcast(d.areas[GOT], d.areas[GOT], 3, TUTTI_INT32, 0, d.comm, local_on(&d)),
        "broadcast");
    is_told(&d, "recorder json", "\"algorithm\": \"direct\", \"executor\": \"L\"");
    is_told(&d, "why all_reduce 8", "on CUDA streams: L, one kernel");
    is_told(&d, "why all_reduce 8", "not W, a leader's kernel: all ranks are in one process");
    local_settle(&d);
    ranks_part(me, d.comm);
}

Test(api_device_local, ways_are_told)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 2, tell_ways);
}

Test(api_device_local, what_a_kernel_does_not_do)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, ask_for_more);
}

/* Each rank's operands are multiplied by its own factor, which the host has, or the device, where a kernel
 * reads it when it runs; one in pinned memory, which a device may know by another address, leaves the call to
 * the host. */
static void multiply(struct ranks_me *me)
{
    struct local_desk d;
    tutti_op ops[3];
    uint32_t one = 1, factor = (uint32_t)me->rank + 2;
    if (!local_sit_down(me, &d, 100000))
        return;
    uint32_t *pinned = (uint32_t *)(void *)(d.host + AREA / 2),
             *scalar = (uint32_t *)(void *)(d.areas[GIVEN] + 64);
    *pinned = factor;
    const void *const places[] = { &factor, scalar, pinned };
    for (int k = 0; k < 3; k++)
        ranks_ok(
            me, tutti_op_create_pre_mul_sum(d.comm, places[k], TUTTI_UINT32, k > 0, &ops[k]), "pre_mul_sum");
    local_give(&d, GIVEN, &one, sizeof one);
    for (int k = 0; k < 3; k++) {
        ranks_at(me, "factor %d", k);
        local_fine(&d, d.dev->copy(scalar, pinned, sizeof factor, d.stream));
        local_settle(&d);
        uint64_t launches = d.stub->calls("launch");
        ranks_meet(me);
        ranks_ok(me,
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 1, TUTTI_UINT32, ops[k], d.comm, local_on(&d)),
            "all_reduce");
        is_one(&d, GOT, 2 + 3 + 4);
        ranks_meet(me);
        ranks_expect(me, d.stub->calls("launch") == launches + (k < 2), "%llu launches",
            (unsigned long long)(d.stub->calls("launch") - launches));
    }
    ranks_part(me, d.comm);
}

Test(api_device_local, factors)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, multiply);
    local_run_threads("queues=2,one_address=0", RANKS, multiply);
}

/* More calls than may be enqueued, and than the ranks remember decisions of. */
static void call_many(struct ranks_me *me)
{
    struct local_desk d;
    uint32_t value = 1;
    if (!local_sit_down(me, &d, 100000))
        return;
    local_give(&d, GIVEN, &value, sizeof value);
    for (int i = 0; i < MANY; i++) {
        value *= (uint32_t)me->n;
        sum_one(&d, d.areas[GIVEN], d.areas[GIVEN]);
    }
    is_one(&d, GIVEN, value);
    ranks_part(me, d.comm);
}

Test(api_device_local, more_calls_than_are_remembered)
{
    local_run_threads("queues=8", RANKS, call_many);
    local_run_threads("queues=1,words=0", 2, call_many);
}

Test(api_device_local, kernels_and_the_host_by_turns)
{
    local_run_threads("queues=8,delay=100", RANKS, chain);
    local_run_threads("queues=1,launch_delay=300", 5, chain);
    local_run_threads("queues=2,launch_blocking=1", 2, chain);
}

/* One rank's stream is held up before its operand is there; what all have depends on it. */
static void hold_up(struct ranks_me *me)
{
    struct local_desk d;
    void *memory = NULL;
    if (!local_sit_down(me, &d, 100000) || !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    uint32_t *word = memory, got;
    *word = 0;
    ranks_meet(me); /* who allocates waits for all streams, and they wait from here on */
    for (uint32_t round = 1; round <= 12; round++) {
        bool late = (int)round % me->n == me->rank;
        uint32_t given = round + (uint32_t)me->rank;
        ranks_at(me, "round %u", round);
        if (late)
            local_fine(&d, d.dev->wait_word(d.stream, word, round));
        memcpy(d.host, &given, sizeof given);
        local_fine(&d, d.dev->copy(d.areas[GIVEN], d.host, sizeof given, d.stream));
        ranks_ok(me,
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 1, TUTTI_UINT32, TUTTI_SUM, d.comm, local_on(&d)),
            "sum");
        if (late) {
            ranks_sleep_us(20000);
            __atomic_store_n(word, round, __ATOMIC_RELEASE);
        }
        memcpy(&got, local_take(&d, GOT, sizeof got), sizeof got);
        ranks_expect(
            me, got == round * (uint32_t)me->n + (uint32_t)(me->n * (me->n - 1) / 2), "the sum is %u", got);
        ranks_meet(me);
    }
    ranks_part(me, d.comm);
}

Test(api_device_local, a_stream_that_is_held_up)
{
    local_run_threads("queues=8", RANKS, hold_up);
}

/* All ranks by one thread, in groups; other calls of the group go by the host. */
static void one_thread(struct ranks_me *me)
{
    enum { N = 3 };
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    uint32_t given[N] = { 1, 10, 100 }, got[N];
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    local_give(&d, GIVEN, given, sizeof given);
    uint32_t *in = (uint32_t *)(void *)d.areas[GIVEN], *out = (uint32_t *)(void *)d.areas[GOT];
    for (int round = 0; round < 10; round++) {
        tutti_group_start();
        for (int r = 0; r < N; r++) {
            tutti_send(in + r, 1, TUTTI_UINT32, (r + 1) % N, comms[r], local_on(&d));
            tutti_recv(out + N + r, 1, TUTTI_UINT32, (r + 2) % N, comms[r], local_on(&d));
            tutti_all_reduce(in + r, out + r, 1, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
            tutti_all_reduce(out + r, out + r, 1, TUTTI_UINT32, TUTTI_MAX, comms[r], local_on(&d));
        }
        ranks_ok(me, tutti_group_end(), "group");
        memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
        for (int r = 0; r < N; r++)
            ranks_expect(me, got[r] == 111, "round %d, rank %d has %u", round, r, got[r]);
    }
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local, ranks_of_one_thread)
{
    local_run_threads("queues=8", 1, one_thread);
    local_run_threads("queues=1", 1, one_thread);
}

/* --- Graphs have kernels of their own, which no worker has to do with */

static void capture(struct ranks_me *me)
{
    enum { N = 3, REPLAYS = 20 };
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    uint32_t given[N], got[2 * N];
    void *graph = NULL, *runnable = NULL;
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    uint32_t *in = (uint32_t *)(void *)d.areas[GIVEN], *out = (uint32_t *)(void *)d.areas[GOT];
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    tutti_group_start();
    for (int r = 0; r < N; r++) {
        tutti_all_reduce(in + r, out + r, 1, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
        tutti_all_reduce(out + r, out + N + r, 1, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
    }
    ranks_ok(me, tutti_group_end(), "group");
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
    uint64_t words = d.stub != NULL ? d.stub->calls("write_word") : 0;
    for (int i = 0; i < REPLAYS; i++) {
        ranks_at(me, "replay %d", i);
        for (int r = 0; r < N; r++)
            given[r] = (uint32_t)(i + 10 * r + 1);
        uint32_t sum = given[0] + given[1] + given[2];
        local_give(&d, GIVEN, given, sizeof given);
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
        for (int r = 0; r < N; r++)
            ranks_expect(
                me, got[r] == sum && got[N + r] == 3 * sum, "rank %d has %u and %u", r, got[r], got[N + r]);
        if (i % 4 != 1) /* a call that is not captured comes between */
            continue;
        tutti_group_start();
        for (int r = 0; r < N; r++)
            tutti_all_reduce(in + r, out + r, 1, TUTTI_UINT32, TUTTI_MAX, comms[r], local_on(&d));
        ranks_ok(me, tutti_group_end(), "group");
        memcpy(got, local_take(&d, GOT, sizeof given), sizeof given);
        ranks_expect(me, got[0] == given[2] && got[2] == given[2], "the maximum is %u", got[0]);
    }
    ranks_expect(me, d.stub == NULL || d.stub->calls("write_word") == words, "a gate was used");
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local, graphs)
{
    local_run_threads("queues=8", 1, capture);
    local_run_threads("queues=1", 1, capture);
    local_run_threads("queues=2,words=0", 1, capture);
}

/* How many calls the workers of these communicators have before them, when they have had time to come to so
 * many. */
static int queued(tutti_comm *const *comms, int n, int wanted)
{
    int calls = -1;
    for (int ms = 0; ms < 10000 && calls != wanted; ms++) {
        ranks_sleep_us(1000);
        calls = 0;
        for (int r = 0; r < n; r++)
            calls += (int)atomic_load(&tt_comm_find(comms[r])->streams.queued);
    }
    return calls;
}

/* While a graph lives, a call between its replays is over when its own kernel is: not before, by the word of
 * a replay, and not only when the graph has gone. The graph has a message, too, which workers run. */
static void call_between(struct ranks_me *me)
{
    enum { N = 2 };
    static uint32_t ordinary;
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    void *graph = NULL, *runnable = NULL, *memory = NULL;
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all") ||
        !local_fine(&d, d.dev->memory.alloc_pinned(64, &memory)))
        return;
    uint32_t *v = (uint32_t *)(void *)d.areas[GIVEN], *word = memory;
    *word = 0;
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    tutti_group_start();
    for (int r = 0; r < N; r++) {
        tutti_send(v + r, 1, TUTTI_UINT32, 1 - r, comms[r], local_on(&d));
        tutti_recv(r == 1 ? &ordinary : v + N + r, 1, TUTTI_UINT32, 1 - r, comms[r], local_on(&d));
        tutti_all_reduce(v + r, v + 2 * N + r, 1, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
    }
    ranks_ok(me, tutti_group_end(), "group");
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
    for (uint32_t i = 1; i <= 6; i++) {
        ranks_at(me, "round %u", i);
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        local_fine(&d, d.dev->wait_word(d.stream, word, i));
        tutti_group_start();
        for (int r = 0; r < N; r++)
            tutti_all_reduce(v + r, v + 2 * N + r, 1, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
        ranks_ok(me, tutti_group_end(), "group");
        ranks_sleep_us(20000);
        ranks_expect(me, queued(comms, N, N) == N, "a call is over before its kernel");
        __atomic_store_n(word, i, __ATOMIC_RELEASE);
        local_fine(&d, d.dev->stream.sync(d.stream));
        ranks_expect(me, queued(comms, N, 0) == 0, "a call is not over after its kernel");
    }
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local, calls_between_replays)
{
    local_run_threads("queues=8", 1, call_between);
}
