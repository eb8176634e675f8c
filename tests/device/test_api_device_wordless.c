/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_wordless.c: devices whose streams cannot wait for words of memory: ranks of one process
 * have kernels and copies all the same, with the host's bits; what would need words is refused, which is
 * said, and the communicator goes on. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "local_rig.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_device_wordless, .timeout = 240);

enum { LONG_MS = 100000, COUNT = 3001 };

static bool says(const struct local_desk *d, const char *question, const char *words)
{
    char answer[4096] = "";
    tutti_query(d->comm, question, answer, sizeof answer);
    return ranks_expect(d->me, strstr(answer, words) != NULL, "%s: no \"%s\" in %s", question, words, answer);
}

static bool sit_down(struct ranks_me *me, struct local_desk *d)
{
    return local_prepare(me, d) && (d->comm = local_join(me, ";algo=all_reduce:direct", LONG_MS)) != NULL &&
           says(d, "executor", "L");
}

static void get_up(struct local_desk *d)
{
    const struct tt_stub *stub = d->stub;
    ranks_part(d->me, d->comm);
    ranks_expect(d->me, stub->calls("wait_word") <= 1, "a stream waits for a word");
}

/* --- What is served, by the same bits as calls of the host */

static void sum_both(const struct local_desk *d, tutti_type type, tutti_op op, size_t count, bool in_place)
{
    static _Thread_local _Alignas(16) uint8_t given[AREA], by_host[AREA];
    size_t bytes = count * tutti_type_bytes(type);
    void *to = d->areas[in_place ? GIVEN : GOT];
    for (size_t i = 0; i < bytes; i++)
        given[i] = (uint8_t)ranks_random(&d->me->random);
    local_give(d, GIVEN, given, bytes);
    ranks_ok(d->me, tutti_all_reduce(d->areas[GIVEN], to, count, type, op, d->comm, local_on(d)), "device");
    local_fine(d, d->dev->stream.sync(d->stream));
    ranks_ok(
        d->me, tutti_all_reduce(given, by_host, count, type, op, d->comm, tutti_no_stream()), "by the host");
    ranks_expect(d->me, memcmp(local_take(d, in_place ? GIVEN : GOT, bytes), by_host, bytes) == 0,
        "other bits than those of the host");
}

static void sums(struct ranks_me *me)
{
    static const tutti_type types[] = { TUTTI_FLOAT32, TUTTI_BFLOAT16, TUTTI_INT8, TUTTI_FLOAT64 };
    static const tutti_op ops[] = { TUTTI_SUM, TUTTI_AVG, TUTTI_PROD, TUTTI_MIN };
    struct local_desk d;
    if (!sit_down(me, &d))
        return;
    says(&d, "why all_reduce 8", "where it reaches their buffers; else refused");
    says(&d, "why all_reduce 8", "not H, by the host's memory: streams of device 0 cannot wait for words");
    says(&d, "why all_reduce 8", "not W, a leader's kernel: ");
    for (int k = 0; k < 16; k++) {
        ranks_at(me, "%s, %s", ranks_type_name(types[k / 4]), ranks_op_name(ops[k % 4]));
        sum_both(&d, types[k / 4], ops[k % 4], 1 + (size_t)(k * 331) % COUNT, k % 3 == 1);
    }
    get_up(&d);
}

Test(api_device_wordless, bits_of_the_host)
{
    plugin_must_be_stub();
    local_run_threads("queues=1,words=0", 3, sums);
    local_run_threads("queues=2,words=0", 8, sums);
    local_run_threads("queues=1,words=0", 1, sums);
    local_run_threads("queues=2,words_fault=1", 2, sums); /* the functions are refused */
}

/* Messages, more than may be enqueued: who sends and receives them knows when they are over. */
static void pass_on(struct ranks_me *me)
{
    const int rounds = me->n == 2 ? 140 : 11;
    struct local_desk d;
    int next = (me->rank + 1) % me->n, before = (me->rank + me->n - 1) % me->n;
    uint32_t value = 7 + (uint32_t)me->rank, got;
    if (!sit_down(me, &d))
        return;
    local_give(&d, GIVEN, &value, sizeof value);
    for (int i = 0; i < rounds; i++) { /* by turns from one area to the other */
        tutti_group_start();
        tutti_send(d.areas[i % 2], 1, TUTTI_UINT32, next, d.comm, local_on(&d));
        tutti_recv(d.areas[1 - i % 2], 1, TUTTI_UINT32, before, d.comm, local_on(&d));
        if (!ranks_ok(me, tutti_group_end(), "group_end"))
            return;
    }
    ranks_ok(me, tutti_comm_flush(d.comm, LONG_MS), "flush");
    ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_OK, "flushed, and not through");
    memcpy(&got, local_take(&d, rounds % 2, sizeof got), sizeof got);
    uint32_t from = (uint32_t)(me->rank + me->n * rounds - rounds) % (uint32_t)me->n;
    ranks_expect(me, got == 7 + from, "%u came", got);
    ranks_ok(me, tutti_barrier(d.comm, local_on(&d)), "barrier");
    get_up(&d);
}

Test(api_device_wordless, messages)
{
    plugin_must_be_stub();
    local_run_threads("queues=1,words=0", 2, pass_on);
    local_run_threads("queues=2,words=0,one_address=0", 3, pass_on);
}

/* A message to oneself is a copy, too: many of a group, in their order, beside one to another rank; and in a
 * graph. */
static void talk_to_oneself(struct ranks_me *me)
{
    enum { MANY = 5, WORDS = 33 };
    static _Thread_local uint32_t given[MANY * WORDS];
    struct local_desk d;
    int next = (me->rank + 1) % me->n, before = (me->rank + me->n - 1) % me->n;
    void *graph = NULL, *runnable = NULL;
    if (!local_prepare(me, &d) || (d.comm = local_join(me, "", LONG_MS)) == NULL)
        return;
    ranks_meet(me);
    uint64_t waits = d.stub->calls("wait_word"); /* of the trial of words */
    for (int i = 0; i < MANY * WORDS; i++)
        given[i] = (uint32_t)(1000 * me->rank + i);
    local_give(&d, GIVEN, given, sizeof given);
    uint32_t *from = (uint32_t *)(void *)d.areas[GIVEN], *to = (uint32_t *)(void *)d.areas[GOT];
    for (int replayed = 0; replayed < 2; replayed++) {
        if (replayed && me->n > 1) /* in a graph would be one end of what goes to the other rank */
            break;
        local_fine(&d, d.dev->fill(to, 0xa5, sizeof given + 4, d.stream));
        local_settle(&d);
        if (replayed)
            local_fine(&d, d.dev->graph.capture_begin(d.stream));
        tutti_group_start();
        for (int k = 0; k < MANY; k++)
            tutti_send(from + k * WORDS, WORDS, TUTTI_UINT32, me->rank, d.comm, local_on(&d));
        if (me->n > 1)
            tutti_send(from, 1, TUTTI_UINT32, next, d.comm, local_on(&d));
        for (int k = 0; k < MANY; k++)
            tutti_recv(to + k * WORDS, WORDS, TUTTI_UINT32, me->rank, d.comm, local_on(&d));
        if (me->n > 1)
            tutti_recv(to + MANY * WORDS, 1, TUTTI_UINT32, before, d.comm, local_on(&d));
        ranks_ok(me, tutti_group_end(), "group_end");
        if (replayed) {
            local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
            local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        }
        ranks_ok(me, tutti_comm_flush(d.comm, LONG_MS), "flush");
        const uint32_t *got = (const uint32_t *)(const void *)local_take(&d, GOT, sizeof given + 4);
        ranks_expect(me, memcmp(got, given, sizeof given) == 0, "replayed %d: other bytes", replayed);
        ranks_expect(me, me->n == 1 || got[MANY * WORDS] == 1000 * (uint32_t)before, "%u came from rank %d",
            got[MANY * WORDS], before);
    }
    if (runnable != NULL) {
        local_fine(&d, d.dev->graph.runnable_destroy(runnable));
        local_fine(&d, d.dev->graph.destroy(graph));
    }
    ranks_part(me, d.comm);
    ranks_expect(me, d.stub->calls("wait_word") == waits, "a stream waits for a word");
}

Test(api_device_wordless, messages_to_oneself)
{
    plugin_must_be_stub();
    local_run_threads("queues=1,words=0", 1, talk_to_oneself);
    local_run_threads("queues=2,words=0", 3, talk_to_oneself);
    local_run_threads("queues=1", 3, talk_to_oneself); /* nor where there are words */
}

/* --- What would need words */

static void twice(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    (void)right;
    memcpy(dst, left, count * 4);
}

static tutti_op own_operator(const struct local_desk *d)
{
    tutti_op op = 0;
    ranks_ok(d->me, tutti_op_create(d->comm, twice, NULL, 4, 1, &op), "tutti_op_create");
    return op;
}

static void refuse_calls(struct ranks_me *me)
{
    static _Thread_local uint32_t ordinary[4];
    struct local_desk d;
    size_t counts[RANKS] = { 1, 1, 1 };
    if (!sit_down(me, &d))
        return;
    void *in = d.areas[GIVEN], *out = d.areas[GOT];
    tutti_stream on = local_on(&d);
    static const char *const words = "no kernel or copy does it|device 0|cannot wait for words of memory";
    ranks_refused(me, tutti_all_reduce(in, ordinary, 4, TUTTI_UINT32, TUTTI_SUM, d.comm, on),
        TUTTI_UNSUPPORTED, "all_reduce", "a buffer, or its factor, is not memory of the device");
    ranks_refused(me, tutti_broadcast(ordinary, ordinary, 4, TUTTI_UINT32, 0, d.comm, on), TUTTI_UNSUPPORTED,
        "broadcast", words);
    ranks_refused(me, tutti_all_reduce(in, out, 4, TUTTI_UINT32, own_operator(&d), d.comm, on),
        TUTTI_UNSUPPORTED, "all_reduce", "its operator is a user's");
    ranks_refused(me, tutti_all_to_all_v(in, counts, NULL, out, counts, NULL, TUTTI_UINT32, d.comm, on),
        TUTTI_UNSUPPORTED, "all_to_all_v", "no rank knows the counts of all");
    ranks_refused(me, tutti_send(ordinary, 4, TUTTI_UINT32, (me->rank + 1) % me->n, d.comm, on),
        TUTTI_UNSUPPORTED, "send", "its buffer is not memory of the device");
    tutti_group_start();
    tutti_send(in, 4, TUTTI_UINT32, me->rank, d.comm, on);
    ranks_refused(me, tutti_recv(ordinary, 4, TUTTI_UINT32, me->rank, d.comm, on), TUTTI_UNSUPPORTED, "recv",
        "its buffer is not memory of the device");
    ranks_refused(me, tutti_group_end(), TUTTI_UNSUPPORTED, "group_end", words);
    tutti_comm *ring = local_join(me, ";algo=all_reduce:ring", LONG_MS);
    ranks_refused(me, tutti_all_reduce(in, out, 4, TUTTI_UINT32, TUTTI_SUM, ring, on), TUTTI_UNSUPPORTED,
        "all_reduce", "the setting algo demands another algorithm than direct");
    ranks_part(me, ring);
    sum_both(&d, TUTTI_UINT32, TUTTI_SUM, 4, false); /* it goes on */
    get_up(&d);
}

/* One rank refuses a call, and the others, which wait for it, hear why. */
static void refuse_alone(struct ranks_me *me)
{
    static _Thread_local uint32_t ordinary[4];
    struct local_desk d;
    if (!local_prepare(me, &d) || (d.comm = local_join(me, ";refusal=1", LONG_MS)) == NULL)
        return;
    void *to = me->rank == 1 ? (void *)ordinary : d.areas[GOT];
    tutti_status status =
        tutti_all_reduce(d.areas[GIVEN], to, 4, TUTTI_UINT32, TUTTI_SUM, d.comm, local_on(&d));
    ranks_expect(
        me, status == (me->rank == 1 ? TUTTI_UNSUPPORTED : TUTTI_INVALID_USAGE), "status %d", status);
    while (tutti_comm_state(d.comm) == TUTTI_OK)
        ranks_sleep_us(1000);
    local_drains(&d);
    ranks_same_error(
        me, d.comm, TUTTI_INVALID_USAGE, "rank 1 refused its own call|cannot wait for words of memory");
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

Test(api_device_wordless, calls_that_are_refused)
{
    plugin_must_be_stub();
    local_run_threads("queues=1,words=0", RANKS, refuse_calls);
    local_run_threads("queues=2,words=0", RANKS, refuse_alone);
}

/* What no rank can know alone ends the communicator, and nothing is stored. */
struct apart {
    enum { PLACES, LENGTHS, OVERLAP } kind;
    tutti_status status;
    const char *words;
};
static uint8_t *_Atomic wanted_at; /* by the receiver */

static void call_apart(const struct local_desk *d, const struct apart *c)
{
    bool first = d->me->rank == 0;
    const size_t counts[] = { 2, 2 }, displs[] = { first ? 0 : 2, first ? 2 : 0 };
    if (!first)
        atomic_store(&wanted_at, d->areas[GOT]);
    ranks_meet(d->me);
    const uint8_t *from = c->kind == OVERLAP ? atomic_load(&wanted_at) + 4 : d->areas[GIVEN];
    if (c->kind == PLACES)
        tutti_all_gather_v(
            d->areas[GIVEN], 2, d->areas[GOT], counts, displs, TUTTI_UINT32, d->comm, local_on(d));
    else if (first)
        tutti_send(from, 5, TUTTI_UINT32, 1, d->comm, local_on(d));
    else
        tutti_recv(d->areas[GOT], c->kind == LENGTHS ? 4 : 5, TUTTI_UINT32, 0, d->comm, local_on(d));
}

static void be_apart(struct ranks_me *me)
{
    static const struct apart cases[] = {
        { PLACES, TUTTI_UNSUPPORTED, "all_gather_v|ranks have their blocks in different places|device 0" },
        { LENGTHS, TUTTI_MISMATCH, "rank 0 called send of 5 uint32|rank 1 called recv of 4 uint32" },
        { OVERLAP, TUTTI_UNSUPPORTED, "send|overlaps with where its receiver wants it|device 0" }
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        struct local_desk d;
        ranks_at(me, "case %zu", k);
        if (!sit_down(me, &d))
            return;
        local_poison(&d);
        call_apart(&d, &cases[k]);
        while (tutti_comm_state(d.comm) == TUTTI_OK)
            ranks_sleep_us(1000);
        local_drains(&d);
        ranks_same_error(me, d.comm, cases[k].status, cases[k].words);
        local_is_poisoned(&d);
        ranks_meet(me);
        ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    }
}

/* Calls that differ are told by the workers, as ever; so is a rank that never calls. */
static void differ(struct ranks_me *me)
{
    struct local_desk d;
    if (!sit_down(me, &d))
        return;
    tutti_all_reduce(
        d.areas[GIVEN], d.areas[GOT], me->rank == 1 ? 5 : 4, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d));
    local_drains(&d);
    ranks_same_error(me, d.comm, TUTTI_MISMATCH, "all_reduce of 5 int32|all_reduce of 4 int32");
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
    if (!sit_down(me, &d))
        return;
    local_hurry(d.comm, 300);
    ranks_meet(me);
    if (me->rank == 0)
        ranks_refused(me,
            tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 4, TUTTI_INT32, TUTTI_SUM, d.comm, local_on(&d)),
            TUTTI_TIMEOUT, "all_reduce", "not called yet by rank 1");
    while (tutti_comm_state(d.comm) == TUTTI_OK)
        ranks_sleep_us(1000);
    local_drains(&d);
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(d.comm), "tutti_comm_destroy");
}

Test(api_device_wordless, calls_that_do_not_fit)
{
    plugin_must_be_stub();
    local_run_threads("queues=1,words=0", 2, be_apart);
    local_run_threads("queues=2,words=0", 2, differ);
}

/* A graph has the kernels of calls that all ranks make in one group; what it would need a worker for is
 * refused, with nothing captured. */
static void capture_calls(struct ranks_me *me)
{
    enum { N = 2 };
    static uint32_t ordinary;
    struct local_desk d;
    tutti_comm *comms[N];
    const int devices[N] = { 0 };
    void *graph = NULL;
    if (!local_prepare(me, &d) ||
        !ranks_ok(me, tutti_comm_init_all(N, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    uint32_t *v = (uint32_t *)(void *)d.areas[GIVEN];
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    tutti_group_start();
    for (int r = 0; r < N; r++)
        tutti_all_reduce(
            v, r == 0 ? v + 4 : v + 8, r == 0 ? 4 : 3, TUTTI_UINT32, TUTTI_SUM, comms[r], local_on(&d));
    ranks_refused(me, tutti_group_end(), TUTTI_UNSUPPORTED, "group_end",
        "all_reduce: it is captured, and its group does not have the same call|device 0|cannot wait for "
        "words");
    ranks_refused(me, tutti_all_reduce(v, &ordinary, 1, TUTTI_UINT32, TUTTI_SUM, comms[0], local_on(&d)),
        TUTTI_UNSUPPORTED, "all_reduce", "cannot wait for words");
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int r = 0; r < N; r++)
        ranks_part(me, comms[r]);
}

Test(api_device_wordless, captured_calls_that_are_refused)
{
    plugin_must_be_stub();
    local_run_threads("queues=2,words=0", 1, capture_calls);
}

/* --- Ranks that need words */

struct refusal {
    const char *options, *words;
    int devices;
};

static void refuse_ranks(struct ranks_me *me)
{
    const struct refusal *c = me->context;
    char options[96];
    tutti_id id;
    tutti_comm *comm = NULL;
    snprintf(options, sizeof options, "device=%d%s", me->rank % c->devices, c->options);
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = LONG_MS };
    if (!ranks_id(me, &id))
        return;
    tutti_status status = tutti_comm_init_rank(me->n, me->rank, &id, &config, &comm);
    ranks_refused(me, status, TUTTI_UNSUPPORTED, "init_rank",
        "its streams cannot write words of memory and wait for them: it shares the host's memory|"
        "executors H, W|up to 8 ranks of one process|device none");
    ranks_refused(me, status, TUTTI_UNSUPPORTED, "init_rank", c->words);
}

static void run(const char *stub, int n, enum ranks_kind kind, const struct refusal *c)
{
    setenv("STUB_GPU", stub, 1);
    setenv("TUTTI_DEVICE_LIBRARY", PLUGIN_STUB, 0);
    ranks_run(
        &(struct ranks_plan){ .n = n, .kind = kind, .run = refuse_ranks, .context = c, .limit_s = 100 });
}

Test(api_device_wordless, ranks_that_are_refused)
{
    plugin_must_be_stub();
    run("queues=2,words=0", 2, RANKS_PROCESSES,
        &(struct refusal){ "", "not all ranks are in one process", 1 });
    run("queues=2,words=0,devices=2", 2, RANKS_THREADS,
        &(struct refusal){ "", "not all ranks are on one device", 2 });
    run("queues=2,words=0", 2, RANKS_THREADS,
        &(struct refusal){ ";executor=host", "the setting executor is host", 1 });
    run("queues=2,words=0", 9, RANKS_THREADS, &(struct refusal){ "", "there are more ranks", 1 });
}
