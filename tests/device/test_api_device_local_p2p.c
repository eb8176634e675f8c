/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_local_p2p.c: messages between ranks of one process on one device, which are one copy: that
 * they are, that the bytes are the host's, in whatever order ranks call, and that what a copy cannot do goes
 * by the host in its turn. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "led_rig.h"

TestSuite(api_device_local_p2p, .timeout = 240);

/* The same of ranks of several processes, of whose messages the receiver's kernel fetches the bytes. */
static const bool processes = true;

static bool sit_down(struct ranks_me *me, struct local_desk *d)
{
    return me->context == &processes ? led_sit_down(me, d, LED_LONG_MS) : local_sit_down(me, d, LED_LONG_MS);
}

static uint32_t value(int from, int to, int step, size_t i)
{
    return (uint32_t)(from * 31 + to + 1) * 1000003u + (uint32_t)step * 65599u + (uint32_t)i * 31u;
}

/* --- One copy a message */

struct kind {
    size_t count;
    tutti_type type;
};
static const struct kind kinds[] = { { 0, TUTTI_FLOAT32 }, { 1, TUTTI_INT8 }, { 7, TUTTI_FLOAT64 },
    { 333, TUTTI_BFLOAT16 }, { 4097, TUTTI_UINT8 }, { 16384, TUTTI_UINT32 },
    { AREA - 1, TUTTI_FLOAT8_E4M3 } };
enum { NKINDS = sizeof kinds / sizeof kinds[0] };

static void send_on(const struct local_desk *d, const struct kind *k, int from, int to, tutti_comm *comm)
{
    tutti_status status = TUTTI_OK;
    if (d->me->rank == from)
        status = tutti_send(d->areas[GIVEN], k->count, k->type, to, comm, local_on(d));
    else if (d->me->rank == to)
        status = tutti_recv(d->areas[GOT], k->count, k->type, from, comm, local_on(d));
    ranks_ok(d->me, status, "send or recv");
}

/* By both ways, which have the same bytes; the sender is late, or the receiver. */
static void compare(const struct local_desk *d, tutti_comm *host, const struct kind *k, int from, int to)
{
    static const char *const names[] = { "copied", "by the host" };
    size_t bytes = k->count * tutti_type_bytes(k->type);
    uint8_t given[AREA];
    uint64_t drawn = 77 + (uint64_t)(k - kinds); /* the same at both ends */
    for (size_t i = 0; i < bytes; i++)
        given[i] = (uint8_t)ranks_random(&drawn);
    local_give(d, GIVEN, given, bytes);
    for (int way = 0; way < 2; way++) {
        local_fine(d, d->dev->fill(d->areas[GOT], 0xa5, AREA, d->stream));
        local_settle(d);
        uint64_t copies = d->stub->calls("copy"), rows = d->stub->calls("copy_rows");
        ranks_meet(d->me);
        ranks_at(d->me, "%zu elements of %zu bytes, %d to %d, %s", k->count, tutti_type_bytes(k->type), from,
            to, names[way]);
        ranks_delay(d->me, 1000);
        send_on(d, k, from, to, way == 0 ? d->comm : host);
        local_settle(d);
        uint64_t more = d->stub->calls("copy") + d->stub->calls("copy_rows") - copies - rows;
        bool right = way == 0 ? more == (bytes > 0) : (more > 1) == (bytes > 0);
        ranks_expect(d->me, right, "%llu copies", (unsigned long long)more);
        ranks_meet(d->me);
        if (d->me->rank == to)
            ranks_expect(d->me, memcmp(local_take(d, GOT, bytes), given, bytes) == 0, "other bytes came");
        ranks_meet(d->me);
    }
}

static void compare_all(struct ranks_me *me)
{
    struct local_desk d;
    if (!local_sit_down(me, &d, 100000))
        return;
    tutti_comm *host = local_join(me, ";executor=host", 100000);
    if (host == NULL)
        return;
    for (int k = 0; k < NKINDS; k++)
        for (int turn = 0; turn < 2; turn++)
            compare(&d, host, &kinds[k], turn, (turn + 1) % me->n);
    ranks_part(me, d.comm);
    ranks_part(me, host);
}

Test(api_device_local_p2p, one_copy_a_message)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", RANKS, compare_all);
    local_run_threads("queues=2,one_address=0", 2, compare_all);
    local_run_threads("queues=1,copy_delay=300", 2, compare_all);
}

/* --- Groups: all to all, several messages for each pair, which each rank lists in an order of its own */

enum { PART = 200, EACH = 3, BLOCK = PART * EACH };

/* Of a rank: for each one EACH messages both ways. Those of a pair follow each other, or not. */
static void list_messages(const struct local_desk *d, int step, size_t count)
{
    int n = d->me->n, rank = d->me->rank, lists = 2 * n;
    uint32_t *out = (uint32_t *)(void *)d->areas[GIVEN], *in = (uint32_t *)(void *)d->areas[GOT];
    for (int k = 0; k < lists * EACH; k++) {
        int list = rank % 2 == 0 ? k % lists : k / EACH, m = rank % 2 == 0 ? k / lists : k % EACH;
        int peer = (list / 2 + step * rank) % n;
        size_t at = (size_t)(peer * BLOCK + m * PART);
        if (list % 2 == (rank + step) % 2)
            ranks_ok(d->me, tutti_send(out + at, count, TUTTI_UINT32, peer, d->comm, local_on(d)), "send");
        else
            ranks_ok(d->me, tutti_recv(in + at, count, TUTTI_UINT32, peer, d->comm, local_on(d)), "recv");
    }
}

static void exchange_all(struct ranks_me *me)
{
    enum { STEPS = 12 };
    static const size_t counts[] = { PART, 1, 0, 37 };
    struct local_desk d;
    uint32_t given[RANKS_MAX * BLOCK], got[RANKS_MAX * BLOCK];
    size_t bytes = (size_t)me->n * BLOCK * 4;
    if (!sit_down(me, &d))
        return;
    for (int step = 0; step < STEPS && me->world->slots[me->rank].failures == 0; step++) {
        size_t count = counts[step % 4];
        ranks_at(me, "step %d", step);
        for (int to = 0; to < me->n; to++)
            for (size_t i = 0; i < BLOCK; i++)
                given[(size_t)to * BLOCK + i] = value(me->rank, to, step, i);
        local_give(&d, GIVEN, given, bytes);
        ranks_delay(me, 500);
        tutti_group_start();
        list_messages(&d, step, count);
        tutti_all_reduce(d.areas[2], d.areas[3], 100, TUTTI_UINT32, TUTTI_SUM, d.comm, local_on(&d));
        ranks_ok(me, tutti_group_end(), "group_end");
        memcpy(got, local_take(&d, GOT, bytes), bytes);
        for (int from = 0; from < me->n; from++)
            for (size_t m = 0; m < EACH; m++)
                for (size_t i = m * PART; i < m * PART + count; i++)
                    if (!ranks_expect(me, got[(size_t)from * BLOCK + i] == value(from, me->rank, step, i),
                            "word %zu of rank %d is wrong", i, from))
                        return;
    }
    ranks_part(me, d.comm);
}

Test(api_device_local_p2p, groups_in_any_order)
{
    local_run_threads("queues=8,delay=50", 3, exchange_all);
    local_run_threads("queues=1", 4, exchange_all);
    local_run_threads("queues=2,delay=50", 8, exchange_all);
    local_run_threads("queues=8", 9, exchange_all);
}

Test(api_device_local_p2p, groups_in_any_order_of_processes)
{
    led_run({ "queues=8,delay=50", 3, 0, exchange_all, &processes, 0 },
        { "queues=1", 4, 0, exchange_all, &processes, 0 }, { "queues=1", 4, 2, exchange_all, &processes, 0 },
        { "queues=2,delay=50", 8, 3, exchange_all, &processes, 0 });
}

/* --- A ring that one rank begins in a group, and the others pass on, with ends here and there in ordinary
 * memory: what the first sends must leave though what it receives comes last. */

static void pass_round(struct ranks_me *me)
{
    enum { STEPS = 60, WORDS = 3000 };
    static uint32_t ordinary[RANKS_MAX][2][WORDS];
    struct local_desk d;
    uint64_t drawn = 5;
    if (!sit_down(me, &d))
        return;
    int next = (me->rank + 1) % me->n, last = (me->rank + me->n - 1) % me->n;
    for (int step = 0; step < STEPS && me->world->slots[me->rank].failures == 0; step++) {
        int begins = (int)ranks_below(&drawn, (uint32_t)me->n);
        size_t count = 1 + ranks_below(&drawn, step % 2 == 0 ? 5 : WORDS);
        uint32_t hosts = ranks_below(&drawn, 1u << me->n), *to = ordinary[me->rank][1];
        bool host = (hosts >> me->rank & 1) != 0;
        ranks_at(me, "step %d, %zu words, begun by %d, hosts %x", step, count, begins, hosts);
        void *buffer = host ? (void *)ordinary[me->rank][0] : d.areas[GIVEN];
        for (size_t i = 0; i < count; i++)
            to[i] = ordinary[me->rank][0][i] = value(begins, 0, step, i);
        local_fine(&d, d.dev->fill(d.areas[GIVEN], 0, AREA, d.stream));
        if (me->rank == begins)
            local_give(&d, GIVEN, to, count * 4);
        void *into = host ? buffer : d.areas[GOT];
        if (host && me->rank == begins)
            into = to;
        ranks_delay(me, 500);
        tutti_group_start();
        if (me->rank != begins) {
            tutti_group_end();
            memset(host ? into : to, 0, host ? count * 4 : 0);
            ranks_ok(me, tutti_recv(into, count, TUTTI_UINT32, last, d.comm, local_on(&d)), "recv");
            ranks_ok(me, tutti_send(into, count, TUTTI_UINT32, next, d.comm, local_on(&d)), "send");
        } else {
            tutti_recv(into, count, TUTTI_UINT32, last, d.comm, local_on(&d));
            tutti_send(buffer, count, TUTTI_UINT32, next, d.comm, local_on(&d));
            ranks_ok(me, tutti_group_end(), "group_end");
        }
        local_fine(&d, d.dev->stream.sync(d.stream));
        const uint32_t *got = host ? into : (const uint32_t *)(const void *)local_take(&d, GOT, count * 4);
        for (size_t i = 0; i < count; i++)
            if (!ranks_expect(me, got[i] == value(begins, 0, step, i), "word %zu is %u", i, got[i]))
                return;
        ranks_meet(me);
    }
    ranks_part(me, d.comm);
}

Test(api_device_local_p2p, rings_of_mixed_memory)
{
    local_run_threads("queues=8,delay=50", 3, pass_round);
    local_run_threads("queues=1", 2, pass_round);
    local_run_threads("queues=1,delay=50", 5, pass_round);
}

Test(api_device_local_p2p, rings_of_mixed_memory_of_processes)
{
    led_run({ "queues=8,delay=50", 3, 0, pass_round, &processes, 0 },
        { "queues=1", 2, 0, pass_round, &processes, 0 },
        { "queues=1,delay=50", 5, 0, pass_round, &processes, 0 },
        { "queues=8,delay=50", 4, 2, pass_round, &processes, 0 });
}

/* --- Many in flight: more than are remembered, each alone, and in one group */

static void pass_many(struct ranks_me *me)
{
    enum { MANY = 1500, FEW = 200 };
    const int many = me->context == &processes ? FEW : MANY;
    struct local_desk d;
    uint32_t given[MANY], got[MANY];
    if (!sit_down(me, &d))
        return;
    uint32_t *in = (uint32_t *)(void *)d.areas[GOT], *out = (uint32_t *)(void *)d.areas[GIVEN];
    int other = 1 - me->rank;
    for (int round = 0; round < 3; round++) {
        ranks_at(me, "round %d", round);
        for (size_t i = 0; i < (size_t)many; i++)
            given[i] = value(me->rank, other, round, i);
        local_give(&d, GIVEN, given, sizeof given);
        bool grouped = round == 1 || (round == 2 && me->rank == 0);
        if (grouped)
            tutti_group_start();
        for (int i = 0; i < many; i++) {
            tutti_status status = me->rank == i % 2
                                      ? tutti_send(out + i, 1, TUTTI_UINT32, other, d.comm, local_on(&d))
                                      : tutti_recv(in + i, 1, TUTTI_UINT32, other, d.comm, local_on(&d));
            if (!ranks_ok(me, status, "a message"))
                return;
        }
        if (grouped)
            ranks_ok(me, tutti_group_end(), "group_end");
        memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
        for (int i = 1 - me->rank; i < many; i += 2)
            if (!ranks_expect(
                    me, got[i] == value(other, me->rank, round, (size_t)i), "message %d has %u", i, got[i]))
                return;
    }
    ranks_part(me, d.comm);
}

/* Counters wrap, and messages by both ways count alike. */
static void wrap(struct ranks_me *me)
{
    struct local_desk d;
    static uint32_t ordinary[2];
    if (!sit_down(me, &d))
        return;
    tutti_comm *first = d.comm;
    bool led = me->context == &processes;
    d.comm =
        local_join(me, led ? ";executor=led;first_number=4294967290" : ";first_number=4294967290", 100000);
    for (int step = 0; step < 40 && d.comm != NULL; step++) {
        uint32_t given = value(me->rank, 0, step, 0), got;
        bool host = step % 3 == 1, sends = (step / 4 + me->rank) % 2 == 0;
        ranks_at(me, "step %d", step);
        local_give(&d, GIVEN, &given, sizeof given);
        void *to = host ? (void *)&ordinary[me->rank] : d.areas[GOT];
        ranks_delay(me, 300);
        ranks_ok(me,
            sends ? tutti_send(d.areas[GIVEN], 1, TUTTI_UINT32, 1 - me->rank, d.comm, local_on(&d))
                  : tutti_recv(to, 1, TUTTI_UINT32, 1 - me->rank, d.comm, local_on(&d)),
            "a message");
        local_fine(&d, d.dev->stream.sync(d.stream));
        memcpy(&got, host ? (void *)&ordinary[me->rank] : (const void *)local_take(&d, GOT, 4), 4);
        ranks_expect(me, sends || got == value(1 - me->rank, 0, step, 0), "%u came", got);
    }
    ranks_part(me, d.comm);
    ranks_part(me, first);
}

Test(api_device_local_p2p, many_in_flight)
{
    local_run_threads("queues=8", 2, pass_many);
    local_run_threads("queues=1", 2, pass_many);
}

Test(api_device_local_p2p, counters_wrap)
{
    local_run_threads("queues=8", 2, wrap);
}

Test(api_device_local_p2p, many_of_processes)
{
    led_run({ "queues=8", 2, 0, pass_many, &processes, 0 }, { "queues=1", 2, 0, pass_many, &processes, 0 },
        { "queues=8", 2, 0, wrap, &processes, 0 });
}

/* --- Buffers of two ranks that overlap are the host's: the bytes are those that were sent. */

static void overlap(struct ranks_me *me)
{
    enum { N = 2, COUNT = 1000 };
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    uint32_t given[COUNT];
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    for (size_t i = 0; i < COUNT; i++)
        given[i] = value(0, 1, 0, i);
    local_give(&d, GIVEN, given, sizeof given);
    uint32_t *from = (uint32_t *)(void *)d.areas[GIVEN];
    uint64_t copies = d.stub->calls("copy");
    tutti_group_start();
    tutti_send(from, COUNT, TUTTI_UINT32, 1, comms[0], local_on(&d));
    tutti_recv(from + 3, COUNT, TUTTI_UINT32, 0, comms[1], local_on(&d));
    ranks_ok(me, tutti_group_end(), "group_end");
    ranks_expect(me, d.stub->calls("copy") > copies + 1, "one copy from and to the same bytes");
    const uint8_t *got = local_take(&d, GIVEN, sizeof given + 12);
    ranks_expect(me, memcmp(got + 12, given, sizeof given) == 0, "other bytes came");
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local_p2p, buffers_that_overlap)
{
    plugin_must_be_stub();
    local_run_threads("queues=8", 1, overlap);
}

/* --- Ranks of one process on several devices: only those that share one copy */

static void spread(struct ranks_me *me)
{
    enum { COUNT = 500 };
    struct local_desk d = { .me = me };
    void *memory[3];
    if (!ranks_ok(me, tt_dev_find(plugin_path(), &d.dev), "tt_dev_find") ||
        !local_fine(&d, d.dev->use(me->rank / 2)) || !local_fine(&d, d.dev->stream.create(&d.stream)))
        return;
    for (int a = 0; a < 2; a++)
        local_fine(&d, d.dev->memory.alloc(AREA, &memory[a]));
    local_fine(&d, d.dev->memory.alloc_pinned(AREA, &memory[2]));
    d.areas[GIVEN] = memory[0];
    d.areas[GOT] = memory[1];
    d.host = memory[2];
    d.stub = plugin_stub();
    tutti_config config = {
        .size = sizeof config, .options = "slice=8192;device=current", .timeout_ms = 100000
    };
    d.comm = ranks_join(me, &config);
    uint32_t given[COUNT];
    for (int step = 0; step < 8 && d.comm != NULL; step++) {
        ranks_at(me, "step %d", step);
        for (size_t i = 0; i < COUNT; i++)
            given[i] = value(me->rank, 0, step, i);
        local_give(&d, GIVEN, given, sizeof given);
        tutti_group_start();
        for (int r = 0; r < me->n; r++) {
            uint32_t *to = (uint32_t *)(void *)d.areas[GOT] + (size_t)r * COUNT;
            tutti_recv(to, COUNT, TUTTI_UINT32, r, d.comm, local_on(&d));
            tutti_send(d.areas[GIVEN], COUNT, TUTTI_UINT32, (r + step) % me->n, d.comm, local_on(&d));
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        const uint8_t *got = local_take(&d, GOT, (size_t)me->n * sizeof given);
        for (int r = 0; r < me->n; r++)
            for (size_t i = 0; i < COUNT; i++) {
                uint32_t word;
                memcpy(&word, got + ((size_t)r * COUNT + i) * 4, 4);
                if (!ranks_expect(me, word == value(r, 0, step, i), "word %zu of rank %d is %u", i, r, word))
                    return;
            }
        ranks_meet(me);
    }
    if (d.comm != NULL)
        ranks_part(me, d.comm);
}

Test(api_device_local_p2p, several_devices)
{
    plugin_must_be_stub();
    local_run_threads("devices=2", 4, spread);
    local_run_threads("devices=2,queues=1", 3, spread);
}

/* --- Graphs: what has both its ends in one is a copy there; what has one end in ordinary memory is not. */

static void capture(struct ranks_me *me)
{
    enum { N = 3, COUNT = 50, SHORT = 20, REPLAYS = 12 };
    bool ordinary = *(const bool *)me->context;
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    static uint32_t plain[COUNT];
    uint32_t given[N * COUNT];
    void *graph = NULL, *runnable = NULL;
    if (!local_sit_down(me, &d, 100000) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    uint32_t *in = (uint32_t *)(void *)d.areas[GIVEN], *out = (uint32_t *)(void *)d.areas[GOT];
    uint64_t words = d.stub != NULL ? d.stub->calls("write_word") : 0;
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    tutti_group_start();
    for (int k = 0; k < 2; k++) /* two messages a pair, and a sum of what came */
        for (int r = 0; r < N; r++) {
            size_t count = k == 0 ? COUNT - SHORT : SHORT, part = k == 0 ? 0 : COUNT - SHORT,
                   at = (size_t)r * COUNT + part;
            uint32_t *to = ordinary && r == 1 ? plain + part : out + at;
            tutti_recv(to, count, TUTTI_UINT32, (r + N - 1) % N, comms[r], local_on(&d));
            tutti_send(in + at, count, TUTTI_UINT32, (r + 1) % N, comms[r], local_on(&d));
        }
    for (int r = 0; r < N; r++)
        tutti_all_reduce(
            out + r * COUNT, out + (N + r) * COUNT, COUNT, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
    ranks_ok(me, tutti_group_end(), "group_end");
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
    bool gates = d.stub != NULL && d.stub->calls("write_word") != words;
    ranks_expect(me, ordinary || !gates, "the graph uses a gate");
    local_fine(&d, d.dev->fill(d.areas[GOT], 0, AREA, d.stream));
    for (int i = 0; i < REPLAYS; i++) {
        ranks_at(me, "replay %d", i);
        for (size_t w = 0; w < N * COUNT; w++)
            given[w] = value(0, 0, i, w);
        local_give(&d, GIVEN, given, sizeof given);
        local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        uint32_t got[2 * N * COUNT];
        memcpy(got, local_take(&d, GOT, sizeof got), sizeof got);
        for (size_t w = 0; w < N * COUNT; w++) {
            size_t from = (w + (N - 1) * COUNT) % (N * COUNT), r = w / COUNT, c = w % COUNT;
            uint32_t came = ordinary && r == 1 ? plain[c] : got[w];
            uint32_t sum = given[c] + given[COUNT + c] + given[2 * COUNT + c];
            ranks_expect(me, came == given[from], "word %zu: %u came", w, came);
            ranks_expect(
                me, ordinary || got[N * COUNT + w] == sum, "word %zu: the sum is %u", w, got[N * COUNT + w]);
        }
        if (i % 3 != 1) /* messages that are not captured come between */
            continue;
        tutti_group_start();
        for (int r = 0; r < N; r++) {
            tutti_send(in + r, 1, TUTTI_UINT32, (r + 2) % N, comms[r], local_on(&d));
            tutti_recv(out + r, 1, TUTTI_UINT32, (r + 1) % N, comms[r], local_on(&d));
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        memcpy(got, local_take(&d, GOT, N * 4), N * 4);
        for (size_t r = 0; r < N; r++)
            ranks_expect(me, got[r] == given[(r + 1) % N], "rank %zu has %u between", r, got[r]);
    }
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int r = 0; r < N; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_local_p2p, graphs)
{
    plugin_must_have_kernels();
    static const char *const stubs[] = { "queues=8", "queues=1", "queues=2,words=0" };
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    for (int k = 0; k < 5; k++) { /* the last without what only the host serves */
        bool ordinary = k % 2 != 0;
        setenv("STUB_GPU", stubs[k / 2], 1);
        ranks_run(&(struct ranks_plan){
            .n = 1, .kind = RANKS_THREADS, .run = capture, .context = &ordinary, .limit_s = 100 });
    }
}
