/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_led.c: collectives of ranks that several processes have on one device, which one of them
 * leads: in which order they run, what waits for whom, and what goes by the host all the same. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/handle.h"
#include "device/device_led.h"
#include "led_rig.h"

TestSuite(api_device_led, .timeout = 240);

enum { CHAIN = 150, COUNT = 2500 /* 10 KB */, LONG = LED_SLICE / 4 + 1000 /* two slices */ };

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

static uint64_t launches(const struct local_desk *d)
{
    return d->stub != NULL ? d->stub->calls("launch") : 0;
}

/* Of the process whose rank leads. */
static void expect_launches(const struct local_desk *d, uint64_t before, uint64_t calls)
{
    local_settle(d);
    ranks_expect(d->me, d->stub == NULL || !led_leads(d) || launches(d) - before == calls,
        "%llu kernels for %llu calls", (unsigned long long)(launches(d) - before), (unsigned long long)calls);
    ranks_meet(d->me);
}

/* Pinned memory, for what the stream brings there, and takes from there: so many vectors. */
static uint32_t *slots(const struct local_desk *d, size_t bytes)
{
    void *memory = NULL;
    local_fine(d, d->dev->memory.alloc_pinned(bytes, &memory));
    return memory;
}

static bool is_sum(const struct local_desk *d, const uint32_t *got, int round, int count)
{
    for (int i = 0; i < count; i++)
        if (!ranks_expect(d->me, got[i] == sum_of(d->me->n, round, i),
                "round %d: element %d is %u, expected %u", round, i, got[i], sum_of(d->me->n, round, i)))
            return false;
    return true;
}

/* --- Who is late holds up the streams of the others, and never their calls */

static void come_late(struct ranks_me *me)
{
    _Atomic int *returned = me->shared;
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    uint32_t *given = slots(&d, 2 * COUNT * 4), *got = given + COUNT;
    ranks_meet(me);
    for (int round = 0; round < 4 * me->n; round++) {
        bool late = me->rank == round % me->n;
        ranks_at(me, "round %d", round);
        for (int i = 0; i < COUNT; i++)
            given[i] = value(me->rank, round, i);
        local_fine(&d, d.dev->copy(d.areas[GIVEN], given, COUNT * 4, d.stream));
        while (late && atomic_load(returned) < (round + 1) * (me->n - 1))
            ranks_sleep_us(100);
        sum(&d, d.areas[GIVEN], d.areas[GOT], COUNT);
        local_fine(&d, d.dev->copy(got, d.areas[GOT], COUNT * 4, d.stream));
        if (!late) {
            ranks_sleep_us(2000);
            ranks_expect(me, d.dev->stream.query(d.stream) == TT_DEV_NOT_READY,
                "the stream has passed a call that rank %d has not made", round % me->n);
            atomic_fetch_add(returned, 1);
        }
        local_settle(&d);
        is_sum(&d, got, round, COUNT);
    }
    ranks_part(me, d.comm);
}

Test(api_device_led, calls_return_before_the_peers_have_called)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 2, 0, come_late, NULL, 0 }, { "queues=1", 3, 0, come_late, NULL, 0 });
}

/* --- The host has served more slices since the last kernel than a word tells apart: that it is over is not
 * taken from then. */

static void count_far(struct ranks_me *me)
{
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    struct tt_device *device = tt_comm_find(d.comm)->device;
    uint32_t *given = slots(&d, 2 * COUNT * 4), *got = given + COUNT;
    atomic_store(&device->words[0].over, device->counts[0] + INT32_MAX);
    ranks_meet(me);
    for (int i = 0; i < COUNT; i++)
        given[i] = value(me->rank, 1, i);
    local_fine(&d, d.dev->copy(d.areas[GIVEN], given, COUNT * 4, d.stream));
    sum(&d, d.areas[GIVEN], d.areas[GOT], COUNT);
    local_fine(&d, d.dev->copy(got, d.areas[GOT], COUNT * 4, d.stream));
    local_settle(&d);
    is_sum(&d, got, 1, COUNT);
    ranks_part(me, d.comm);
}

Test(api_device_led, after_many_calls_by_the_host)
{
    plugin_must_be_stub();
    for (int i = 0; i < 3; i++)
        led_run({ "queues=8,launch_delay=100000,seed=5", 3, 0, count_far, NULL, 0 });
}

/* --- Many calls, of which none is waited for */

/* The operand is made just before each call, in the same memory, and its result is taken just after, by the
 * same stream: so it is wherever this rank wants it, of the device, managed, or pinned, when the stream comes
 * there. Nobody looks at anything before the end. */
static void call_many(struct ranks_me *me)
{
    struct local_desk d;
    enum { WORDS = 64 };
    void *managed = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    uint32_t *given = slots(&d, CHAIN * WORDS * 4), *got = slots(&d, CHAIN * WORDS * 4);
    local_fine(&d, d.dev->memory.alloc_managed(AREA, &managed));
    void *const places[] = { d.areas[GOT], managed, d.host };
    uint64_t before = launches(&d);
    ranks_meet(me);
    for (int k = 0; k < CHAIN; k++) {
        ranks_at(me, "call %d", k);
        for (int i = 0; i < WORDS; i++)
            given[k * WORDS + i] = value(me->rank, k, i);
        if (k % me->n == me->rank)
            ranks_delay(me, 300);
        void *to = places[ranks_below(&me->random, 3)];
        local_fine(&d, d.dev->copy(d.areas[GIVEN], given + k * WORDS, WORDS * 4, d.stream));
        sum(&d, d.areas[GIVEN], to, WORDS);
        if (to == d.host) /* from host to host a stream would copy at once: by way of the device */
            local_fine(&d, d.dev->copy(d.areas[GOT], to, WORDS * 4, d.stream));
        local_fine(&d, d.dev->copy(got + k * WORDS, to == d.host ? d.areas[GOT] : to, WORDS * 4, d.stream));
    }
    expect_launches(&d, before, CHAIN);
    for (int k = 0; k < CHAIN && is_sum(&d, got + k * WORDS, k, WORDS);)
        k++;
    ranks_part(me, d.comm);
}

Test(api_device_led, every_result_is_of_its_own_operands)
{
    led_run({ "queues=8", 2, 0, call_many, NULL, 0 }, { "queues=1,delay=100", 3, 0, call_many, NULL, 0 },
        { "queues=2,one_address=0", 4, 2, call_many, NULL, 0 },
        { "queues=2,launch_delay=400", 5, 3, call_many, NULL, 0 },
        { "queues=2,launch_blocking=1", 4, 2, call_many, NULL, 0 });
}

/* Each call sums what the one before has left, in ordinary memory of the host at times, which no stream can
 * wait for but by the call; and between are calls that no kernel does. */
static void sum_fast(void *dst, const void *left, const void *right, size_t count, void *context)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        ((uint32_t *)dst)[i] = ((const uint32_t *)left)[i] + ((const uint32_t *)right)[i];
}

static void by_host(struct local_desk *d, int which, tutti_op op)
{
    const size_t counts[RANKS_MAX] = { 3, 0, 1, 2, 5, 4, 7, 6, 8 };
    int n = d->me->n, next = (d->me->rank + 1) % n, before = (d->me->rank + n - 1) % n;
    void *in = d->areas[GIVEN], *out = d->areas[GOT];
    tutti_status status = TUTTI_OK;
    switch (which) {
    case 0:
        status = tutti_barrier(d->comm, local_on(d));
        break;
    case 1:
        status = tutti_all_reduce(in, out, 1, TUTTI_UINT32, op, d->comm, local_on(d));
        break;
    case 2:
        status = tutti_all_gather_v(
            in, counts[d->me->rank], out, counts, NULL, TUTTI_UINT32, d->comm, local_on(d));
        break;
    case 3:
        tutti_group_start();
        tutti_send(in, 1, TUTTI_UINT32, next, d->comm, local_on(d));
        tutti_recv(out, 1, TUTTI_UINT32, before, d->comm, local_on(d));
        status = tutti_group_end();
        break;
    default:
        status = tutti_all_gather(in, out, 0, TUTTI_UINT32, d->comm, local_on(d));
        break;
    }
    ranks_ok(d->me, status, "a call that the host runs");
}

static void alternate(struct ranks_me *me)
{
    struct local_desk d;
    static _Thread_local uint32_t ordinary[64];
    uint32_t expected = 1, got;
    tutti_op op;
    if (!led_sit_down(me, &d, LED_LONG_MS) ||
        !ranks_ok(me, tutti_op_create(d.comm, sum_fast, NULL, 4, 1, &op), "op_create"))
        return;
    local_give(&d, GIVEN, &expected, sizeof expected);
    uint64_t before = launches(&d), led = 0;
    bool fetches = tt_led_pair(tt_comm_find(d.comm)->device->led, (me->rank + 1) % me->n, true) != NULL;
    ranks_meet(me);
    for (int k = 0; k < 60; k++, led++) {
        ranks_at(me, "call %d", k);
        ranks_delay(me, 200);
        if (k % 3 == 2)
            by_host(&d, k / 3 % 5, op);
        led += fetches && k % 3 == 2 && k / 3 % 5 == 3; /* a message to this rank */
        bool away = k % 4 == 1 && ranks_below(&me->random, 2);
        expected *= (uint32_t)me->n;
        sum(&d, d.areas[GIVEN], away ? (void *)ordinary : d.areas[GIVEN], 1);
        if (!away)
            continue;
        local_fine(&d, d.dev->stream.sync(d.stream));
        ranks_expect(me, *ordinary == expected, "the sum is %u, expected %u", *ordinary, expected);
        local_give(&d, GIVEN, ordinary, sizeof *ordinary);
    }
    memcpy(&got, local_take(&d, GIVEN, sizeof got), sizeof got);
    ranks_expect(me, got == expected, "the sum is %u, expected %u", got, expected);
    expect_launches(&d, before, led);
    ranks_part(me, d.comm);
}

Test(api_device_led, kernels_and_the_host_by_turns)
{
    plugin_must_be_stub();
    led_run({ "queues=8,delay=100", 2, 0, alternate, NULL, 0 }, { "queues=1", 3, 0, alternate, NULL, 0 },
        { "queues=2,delay=50", 4, 2, alternate, NULL, 0 });
}

/* --- Which communicators are led */

static void use(struct local_desk *d, const char *what, bool led)
{
    uint32_t one = 1, got;
    int n = tutti_comm_size(d->comm), rank = tutti_comm_rank(d->comm);
    ranks_at(d->me, "%s", what);
    local_give(d, GIVEN, &one, sizeof one);
    uint64_t before = launches(d);
    ranks_meet(d->me);
    sum(d, d->areas[GIVEN], d->areas[GOT], 1);
    memcpy(&got, local_take(d, GOT, sizeof got), sizeof got);
    ranks_expect(d->me, got == (uint32_t)n, "the sum is %u", got);
    ranks_meet(d->me);
    ranks_expect(d->me, launches(d) - before == (led && rank == 0), "%llu kernels",
        (unsigned long long)(launches(d) - before));
    ranks_meet(d->me);
}

/* Children, one of which has its ranks in the opposite order; and those that the host serves. */
static void make_others(struct ranks_me *me)
{
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    tutti_comm *parent = d.comm;
    use(&d, "the parent", true);
    const int colors[] = { 0, me->rank % 2, me->rank / 2 }, keys[] = { -me->rank, 0, -me->rank };
    for (int k = 0; k < 3; k++) {
        if (!ranks_ok(me, tutti_comm_split(parent, colors[k], keys[k], NULL, &d.comm), "split"))
            return;
        use(&d, k == 0 ? "opposite order" : k == 1 ? "even and odd ones" : "halves", true);
        ranks_part(me, d.comm);
    }
    if ((d.comm = led_join(me, ";executor=host", LED_LONG_MS)) != NULL)
        use(&d, "executor=host", false);
    ranks_part(me, d.comm);
    if ((d.comm = led_join(me, ";executor=led;algo=all_reduce:ring", LED_LONG_MS)) != NULL)
        use(&d, "another algorithm", false);
    ranks_part(me, d.comm);
    d.comm = parent;
    use(&d, "the parent again", true);
    ranks_part(me, parent);
}

static void too_many(struct ranks_me *me)
{
    struct local_desk d;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    use(&d, "all", false);
    ranks_part(me, d.comm);
}

Test(api_device_led, communicators_that_are_led)
{
    plugin_must_be_stub();
    led_run({ "queues=8", 4, 0, make_others, NULL, 0 }, { "queues=8", 9, 0, too_many, NULL, 0 });
}

/* Two communicators, each with a stream of its own; at times both have a call in one group. */
static void call_two(struct ranks_me *me)
{
    struct local_desk d;
    enum { ROUNDS = 40, WORDS = LONG };
    void *streams[2] = { NULL, NULL };
    if (!led_sit_down(me, &d, LED_LONG_MS) || !local_fine(&d, d.dev->stream.create(&streams[1])))
        return;
    tutti_comm *comms[2] = { d.comm, led_join(me, ";executor=led", LED_LONG_MS) };
    streams[0] = d.stream;
    uint32_t *given = slots(&d, 2 * WORDS * 4), *got = slots(&d, 2 * WORDS * 4);
    ranks_meet(me);
    for (int round = 0; round < ROUNDS && comms[1] != NULL; round++) {
        ranks_at(me, "round %d", round);
        ranks_delay(me, 300);
        int count = round % 3 == 0 ? WORDS : 7;
        bool grouped = round % 4 == 3;
        for (int k = 0; k < 2; k++) {
            for (int i = 0; i < count; i++)
                given[k * WORDS + i] = value(me->rank, 2 * round + k, i);
            local_fine(
                &d, d.dev->copy(d.areas[2 * k + GIVEN], given + k * WORDS, (size_t)count * 4, streams[k]));
        }
        if (grouped)
            tutti_group_start();
        for (int k = 0; k < 2; k++)
            ranks_ok(me,
                tutti_all_reduce(d.areas[2 * k + GIVEN], d.areas[2 * k + GOT], (size_t)count, TUTTI_UINT32,
                    TUTTI_SUM, comms[k], tutti_cuda_stream(streams[k])),
                "all_reduce");
        if (grouped)
            ranks_ok(me, tutti_group_end(), "group");
        for (int k = 0; k < 2; k++)
            local_fine(&d, d.dev->copy(got + k * WORDS, d.areas[2 * k + GOT], (size_t)count * 4, streams[k]));
        for (int k = 0; k < 2; k++)
            local_fine(&d, d.dev->stream.sync(streams[k]));
        for (int k = 0; k < 2; k++)
            is_sum(&d, got + k * WORDS, 2 * round + k, count);
    }
    for (int k = 0; k < 2; k++)
        ranks_part(me, comms[k]);
}

Test(api_device_led, two_communicators)
{
    led_run({ "queues=8", 2, 0, call_two, NULL, 0 }, { "queues=1", 3, 0, call_two, NULL, 0 },
        { "queues=1", 4, 2, call_two, NULL, 0 }, { "queues=2,delay=50", 3, 0, call_two, NULL, 0 });
}

/* --- Graphs */

struct replays {
    int rounds, count;
    uint32_t always; /* bit r: rank r replays its graph each time; else it draws */
    uint32_t never; /* bit r: rank r captures nothing */
};

/* Two calls: the second sums what the first has left. */
static void call_both(const struct local_desk *d, size_t count)
{
    sum(d, d->areas[GIVEN], d->areas[GOT], count);
    sum(d, d->areas[GOT], d->areas[GOT + 1], count);
}

static bool is_sum_of_sums(const struct local_desk *d, const uint32_t *got, int round, int count)
{
    for (int i = 0; i < count; i++) {
        uint32_t expected = sum_of(d->me->n, round, i) * (uint32_t)d->me->n;
        if (!ranks_expect(d->me, got[i] == expected, "round %d: element %d is %u, expected %u", round, i,
                got[i], expected))
            return false;
    }
    return true;
}

/* Whether a rank replays a graph or calls is its own affair, each time. */
static void replay(struct ranks_me *me)
{
    const struct replays *plan = me->context;
    enum { AT_ONCE = 8 };
    struct local_desk d;
    void *graph = NULL, *runnable = NULL;
    if (!led_sit_down(me, &d, LED_LONG_MS))
        return;
    size_t bytes = (size_t)plan->count * 4;
    uint32_t *given = slots(&d, AT_ONCE * bytes), *got = slots(&d, AT_ONCE * bytes);
    bool captures = !(plan->never >> me->rank & 1);
    uint64_t before = launches(&d);
    ranks_meet(me);
    if (captures) {
        local_fine(&d, d.dev->graph.capture_begin(d.stream));
        call_both(&d, (size_t)plan->count);
        local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
        local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
        local_fine(&d, d.dev->graph.destroy(graph));
    }
    ranks_meet(me);
    for (int round = 0; round < plan->rounds && me->world->slots[me->rank].failures == 0; round++) {
        size_t at = (size_t)(round % AT_ONCE) * (size_t)plan->count;
        ranks_at(me, "round %d", round);
        for (int i = 0; i < plan->count; i++)
            given[at + (size_t)i] = value(me->rank, round, i);
        local_fine(&d, d.dev->copy(d.areas[GIVEN], given + at, bytes, d.stream));
        if (captures && (plan->always >> me->rank & 1 || ranks_below(&me->random, 2)))
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        else
            call_both(&d, (size_t)plan->count);
        local_fine(&d, d.dev->copy(got + at, d.areas[GOT + 1], bytes, d.stream));
        if (round % AT_ONCE != AT_ONCE - 1)
            continue;
        local_fine(&d, d.dev->stream.sync(d.stream));
        for (int k = 0; k < AT_ONCE; k++)
            is_sum_of_sums(&d, got + (size_t)k * (size_t)plan->count, round - AT_ONCE + 1 + k, plan->count);
    }
    local_settle(&d);
    ranks_expect(me, d.stub == NULL || !led_leads(&d) || launches(&d) > before, "nothing was led");
    if (captures)
        local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    ranks_part(me, d.comm);
}

Test(api_device_led, some_ranks_replay_and_others_call)
{
    static const struct replays leader = { 64, COUNT, 1, 6 };
    static const struct replays others = { 64, COUNT, 6, 1 };
    static const struct replays anybody = { 200, 33, 0, 0 };
    static const struct replays cut = { 64, LONG, 0, 0 };
    led_run({ "queues=8", 3, 0, replay, &leader, 0 }, { "queues=1", 3, 0, replay, &others, 0 },
        { "queues=2", 4, 0, replay, &anybody, 0 }, { "queues=8,delay=30", 2, 0, replay, &cut, 0 });
}

/* Operands that take long to come to their cells must not be used before. */
Test(api_device_led, replays)
{
    static const struct replays many = { 1000, 5, 0, 0 }, slow = { 16, 33, 7, 0 };
    led_run({ "queues=8", 2, 0, replay, &many, 0 }, { "queues=8,copy_delay=20000", 3, 0, replay, &slow, 0 });
}

/* --- Several ranks of one thread, which calls for all of them in groups */

enum { OWN = 2 };

static void group_of_sums(const struct local_desk *d, tutti_comm *const *comms, uint32_t *const *from,
    uint32_t *const *to, size_t count)
{
    tutti_group_start();
    for (int k = 0; k < OWN; k++)
        tutti_all_reduce(from[k], to[k], count, TUTTI_UINT32, TUTTI_SUM, comms[k], local_on(d));
    ranks_ok(d->me, tutti_group_end(), "group");
}

static bool join_both(struct ranks_me *me, tutti_comm **comms)
{
    tutti_id id;
    tutti_config config = { .size = sizeof config, .options = "slice=8192;device=0;executor=led" };
    if (!ranks_id(me, &id))
        return false;
    tutti_group_start();
    for (int k = 0; k < OWN; k++)
        tutti_comm_init_rank(OWN * me->n, OWN * me->rank + k, &id, &config, &comms[k]);
    bool good = ranks_ok(me, tutti_group_end(), "tutti_comm_init_rank");
    for (int k = 0; k < OWN && good; k++)
        led_shorten(comms[k]);
    return good;
}

/* By turns they call, and replay a graph of the same calls. */
static void one_thread(struct ranks_me *me)
{
    struct local_desk d;
    tutti_comm *comms[OWN] = { NULL };
    void *graph = NULL, *runnable = NULL;
    if (!local_prepare(me, &d) || !join_both(me, comms))
        return;
    uint32_t *given = slots(&d, OWN * LONG * 4), *got = slots(&d, OWN * LONG * 4);
    uint32_t *from[OWN], *to[OWN];
    for (int k = 0; k < OWN; k++) {
        from[k] = (uint32_t *)(void *)d.areas[2 * k + GIVEN];
        to[k] = (uint32_t *)(void *)d.areas[2 * k + GOT];
    }
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    group_of_sums(&d, comms, from, to, LONG);
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
    uint64_t before = launches(&d);
    for (int round = 0; round < 24; round++) {
        ranks_at(me, "round %d", round);
        for (int k = 0; k < OWN; k++) {
            for (int i = 0; i < LONG; i++)
                given[k * LONG + i] = value(OWN * me->rank + k, round, i);
            local_fine(&d, d.dev->copy(from[k], given + k * LONG, LONG * 4, d.stream));
        }
        if ((round / 2 + me->rank) % 2 == 0) /* not the same at both processes */
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        else
            group_of_sums(&d, comms, from, to, LONG);
        for (int k = 0; k < OWN; k++)
            local_fine(&d, d.dev->copy(got + k * LONG, to[k], LONG * 4, d.stream));
        local_fine(&d, d.dev->stream.sync(d.stream));
        for (int k = 0; k < OWN; k++)
            for (int i = 0; i < LONG; i++)
                if (!ranks_expect(me, got[k * LONG + i] == sum_of(OWN * me->n, round, i),
                        "rank %d, element %d is %u", OWN * me->rank + k, i, got[k * LONG + i]))
                    return;
    }
    ranks_expect(me, d.stub == NULL || me->rank > 0 || launches(&d) > before, "nothing was led");
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int k = 0; k < OWN; k++)
        ranks_part(me, comms[k]);
}

Test(api_device_led, ranks_of_one_thread)
{
    led_run({ "queues=8", 2, 0, one_thread, NULL, 0 }, { "queues=1", 2, 0, one_thread, NULL, 0 });
}
