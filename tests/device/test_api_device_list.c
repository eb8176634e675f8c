/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_device_list.c: small sums of a group that one kernel of each device does: how many kernels there
 * are, that ranks may group as they like, and how it ends where something fails. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spin/spin.h"
#include "ends_rig.h"
#include "spin_rig.h"

TestSuite(api_device_list, .timeout = 240);

enum {
    N = 3,
    CALLS = 12,
    FIRST = CALLS / 2, /* calls that take operands; each of the others takes the result of one of these */
    ROOM = 512, /* elements */
    LISTED = 128 /* of a kernel */
};

static int count_of(int call)
{
    return call < FIRST ? 2 + call * 97 : count_of(call - FIRST) - 1;
}

static float value(int rank, int round, int call, int i)
{
    return (float)((rank + 1) * ((i * 7 + call * 13 + round * 29) % 50));
}

static float sum_of(int n, int round, int call, int i)
{
    float all = 0;
    for (int r = 0; r < n && call < FIRST; r++)
        all += value(r, round, call, i);
    return call < FIRST ? all : (float)n * sum_of(n, round, call - FIRST, i + 1);
}

static float *place(const struct local_desk *d, int area, int call)
{
    return (float *)(void *)d->areas[area] + call * ROOM;
}

static tutti_status call(const struct local_desk *d, int k)
{
    const float *from = k < FIRST ? place(d, GIVEN, k) : place(d, GOT, k - FIRST) + 1;
    return tutti_all_reduce(
        from, place(d, GOT, k), (size_t)count_of(k), TUTTI_FLOAT32, TUTTI_SUM, d->comm, local_on(d));
}

static void give(const struct local_desk *d, int round)
{
    static _Thread_local float given[FIRST * ROOM];
    for (int k = 0; k < FIRST; k++)
        for (int i = 0; i < count_of(k); i++)
            given[k * ROOM + i] = value(d->me->rank, round, k, i);
    local_give(d, GIVEN, given, sizeof given);
}

static void is_right(const struct local_desk *d, int round)
{
    const float *got = (const float *)(const void *)local_take(d, GOT, CALLS * ROOM * sizeof(float));
    for (int k = 0; k < CALLS; k++)
        for (int i = 0; i < count_of(k); i++)
            if (!ranks_expect(d->me, got[k * ROOM + i] == sum_of(d->me->n, round, k, i),
                    "round %d, call %d: element %d is %g, not %g", round, k, i, (double)got[k * ROOM + i],
                    (double)sum_of(d->me->n, round, k, i)))
                return;
}

static void group(const struct local_desk *d, int from, int end)
{
    ranks_ok(d->me, tutti_group_start(), "group_start");
    for (int k = from; k < end; k++)
        ranks_ok(d->me, call(d, k), "all_reduce");
    ranks_ok(d->me, tutti_group_end(), "group_end");
}

/* All ranks of the process group alike: so many kernels they have launched since. */
static void launched(const struct local_desk *d, uint64_t before, uint64_t expected)
{
    uint64_t launches = d->stub->calls("launch") - before;
    ranks_expect(d->me, launches == expected, "%llu kernels were launched, not %llu",
        (unsigned long long)launches, (unsigned long long)expected);
    ranks_meet(d->me);
}

/* --- One kernel */

static void group_all(struct ranks_me *me)
{
    const uint64_t *ranks_here = me->context;
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    for (int round = 0; round < 5; round++) {
        ranks_at(me, "round %d", round);
        give(&d, round);
        uint64_t before = d.stub->calls("launch");
        ranks_meet(me);
        group(&d, 0, CALLS);
        local_settle(&d);
        launched(&d, before, *ranks_here);
        is_right(&d, round);
    }
    ranks_part(me, d.comm);
}

Test(api_device_list, a_group_is_a_kernel)
{
    static const uint64_t one = 1, all = N;
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, group_all, &one, 0, 0 }, { "queues=1", 2, 1, group_all, &one, 0, 0 },
        { "queues=2,delay=50", N, N, group_all, &all, 0, 0 });
}

/* What cannot be listed ends a list: another type, a longer call, another operation, memory of the host. */
static void interrupt(struct ranks_me *me)
{
    enum { LONGER = 2100 };
    struct local_desk d;
    uint32_t *ordinary = calloc(ROOM, sizeof *ordinary);
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    uint64_t before = d.stub->calls("launch");
    tutti_group_start();
    for (int i = 0; i < 8; i++) {
        tutti_type type = i == 5 ? TUTTI_FLOAT16 : i == 7 ? TUTTI_INT32 : TUTTI_FLOAT32;
        tutti_op op = i == 6 ? TUTTI_AVG : TUTTI_SUM;
        const void *from = i == 4 ? (void *)ordinary : d.areas[GIVEN];
        tutti_all_reduce(from, d.areas[GOT], i == 2 ? LONGER : 8, type, op, d.comm, local_on(&d));
    }
    ranks_ok(me, tutti_group_end(), "group_end");
    local_settle(&d);
    launched(&d, before, 7); /* of the first two one */
    before = d.stub->calls("launch");
    tutti_group_start();
    for (int i = 0; i < 2 * LISTED + 1; i++)
        tutti_all_reduce(d.areas[GIVEN], d.areas[GOT], 8, TUTTI_BFLOAT16, TUTTI_AVG, d.comm, local_on(&d));
    ranks_ok(me, tutti_group_end(), "group_end");
    local_settle(&d);
    launched(&d, before, 3);
    free(ordinary);
    ranks_part(me, d.comm);
}

Test(api_device_list, what_ends_a_list)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, interrupt, NULL, 0, 0 });
}

/* --- Ranks that group as they like */

static void group_some(struct ranks_me *me)
{
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    for (int round = 0; round < 12; round++) {
        ranks_at(me, "round %d", round);
        give(&d, round);
        ranks_meet(me);
        for (int from = 0, end; from < CALLS; from = end) {
            int rest = CALLS - from;
            end = from + (round % 3 == me->rank ? 1 : 1 + (int)ranks_below(&me->random, (uint32_t)rest));
            if (end == from + 1)
                ranks_ok(me, call(&d, from), "all_reduce");
            else
                group(&d, from, end);
            if (ranks_below(&me->random, 2) == 0) /* it waits before it calls the next one */
                local_fine(&d, d.dev->stream.sync(d.stream));
            ranks_delay(me, 300);
        }
        local_settle(&d);
        is_right(&d, round);
    }
    ranks_part(me, d.comm);
}

Test(api_device_list, ranks_group_as_they_like)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, group_some, NULL, 0, 0 }, { "queues=1", 4, 2, group_some, NULL, 0, 0 },
        { "queues=2,delay=50", N, N, group_some, NULL, 0, 0 },
        { "queues=8,lock=process", N, N, group_some, NULL, 0, 0 });
}

/* A rank waits for each call before it makes the next one, and meanwhile allocates and frees, for which a
 * device must be idle: no kernel may be out that waits for a call which this rank has still to make. */
static void call_and_free(struct ranks_me *me)
{
    struct local_desk d;
    void *memory;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    give(&d, 0);
    ranks_meet(me);
    if (me->rank != 1)
        group(&d, 0, CALLS);
    for (int k = 0; k < CALLS && me->rank == 1; k++) {
        ranks_ok(me, call(&d, k), "all_reduce");
        local_fine(&d, d.dev->stream.sync(d.stream));
        ranks_sleep_us(2000);
        for (int r = 0; r < me->n; r++) {
            local_fine(&d, d.dev->use(r));
            local_fine(&d, d.dev->memory.alloc(64, &memory));
            local_fine(&d, d.dev->memory.free(memory));
        }
        local_fine(&d, d.dev->use(me->rank));
    }
    local_settle(&d);
    is_right(&d, 0);
    ranks_part(me, d.comm);
}

Test(api_device_list, devices_are_idle_between_calls)
{
    plugin_must_be_stub();
    spin_run({ "queues=8,lock=process", N, N, call_and_free, NULL, 0, 0 });
}

/* In a group of two communicators the other one's call comes between two that could be listed. A rank that
 * does not list them, as its memory is the host's, has it there on its stream, too, and waits for it before
 * it comes to the next one. */
static void interleave(struct ranks_me *me)
{
    enum { EACH = 8, SUMS = 5, ANOTHER = 2 /* of these: of the other communicator */ };
    struct local_desk d;
    float ordinary[2 * SUMS * EACH];
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    tutti_comm *comms[2] = { d.comm, spin_join(me, ";executor=spin", SPIN_LONG_MS) };
    for (int round = 0; round < 4; round++) {
        ranks_at(me, "round %d", round);
        bool by_host = me->rank == round / 2 % me->n;
        float *from = by_host ? ordinary : (float *)(void *)d.areas[GIVEN], *to = from + SUMS * EACH;
        float given[SUMS * EACH];
        for (int i = 0; i < SUMS * EACH; i++)
            ordinary[i] = given[i] = value(me->rank, round, 0, i);
        local_give(&d, GIVEN, given, sizeof given);
        ranks_meet(me);
        tutti_group_start();
        for (int k = 0; k < SUMS; k++)
            ranks_ok(me,
                tutti_all_reduce(from + k * EACH, to + k * EACH, EACH, TUTTI_FLOAT32, TUTTI_SUM,
                    comms[(round + (k == ANOTHER)) % 2], local_on(&d)),
                "all_reduce");
        ranks_ok(me, tutti_group_end(), "group_end");
        local_settle(&d);
        const float *got =
            by_host ? to : (const float *)(const void *)local_take(&d, GIVEN, 2 * sizeof given) + SUMS * EACH;
        for (int i = 0; i < SUMS * EACH; i++)
            if (!ranks_expect(me, got[i] == sum_of(me->n, round, 0, i), "element %d is %g, not %g", i,
                    (double)got[i], (double)sum_of(me->n, round, 0, i)))
                break;
        ranks_meet(me);
    }
    ranks_ok(me, tutti_comm_destroy(comms[1]), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_list, calls_of_two_communicators)
{
    plugin_must_be_stub();
    spin_run({ "queues=1", 2, 1, interleave, NULL, 0, 0 }, { "queues=8", N, 1, interleave, NULL, 0, 0 });
}

/* --- Graphs: each rank captures the calls in groups of its own */

static void replay(struct ranks_me *me)
{
    struct local_desk d;
    void *graph = NULL, *runnable = NULL;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    int half = 1 + (int)ranks_below(&me->random, CALLS - 1);
    ranks_meet(me); /* what another thread does meanwhile would break it */
    local_fine(&d, d.dev->graph.capture_begin(d.stream));
    if (me->rank == 1) {
        for (int k = 0; k < CALLS; k++)
            ranks_ok(me, call(&d, k), "captured");
    } else {
        group(&d, 0, half);
        group(&d, half, CALLS);
    }
    local_fine(&d, d.dev->graph.capture_end(d.stream, &graph));
    ranks_meet(me);
    local_fine(&d, d.dev->graph.instantiate(graph, &runnable));
    local_fine(&d, d.dev->graph.destroy(graph));
    for (int round = 0; round < 10; round++) {
        ranks_at(me, "round %d", round);
        give(&d, round);
        ranks_delay(me, 300);
        if (round % 3 == 2)
            group(&d, 0, CALLS);
        else
            local_fine(&d, d.dev->graph.launch(runnable, d.stream));
        local_settle(&d);
        is_right(&d, round);
        ranks_meet(me);
    }
    local_fine(&d, d.dev->graph.runnable_destroy(runnable));
    ranks_part(me, d.comm);
}

Test(api_device_list, replays_count_on)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, replay, NULL, 0, 0 }, { "queues=1", N, N, replay, NULL, 0, 0 },
        { "queues=2,delay=50", 4, 2, replay, NULL, 0, 0 });
}

/* --- The bits are those of the host */

static void draw(struct ranks_me *me, uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)ranks_below(&me->random, 256);
}

static void reduce_all(struct ranks_me *me, const struct local_desk *d, tutti_comm *comm, int area,
    const uint32_t *counts, tutti_type type, tutti_op op)
{
    ranks_ok(me, tutti_group_start(), "group_start");
    for (int k = 0; k < CALLS; k++)
        ranks_ok(me,
            tutti_all_reduce(place(d, GIVEN, k), place(d, area, k), counts[k], type, op, comm, local_on(d)),
            "all_reduce");
    ranks_ok(me, tutti_group_end(), "group_end");
}

static void compare(struct ranks_me *me)
{
    static const tutti_type types[] = { TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_BFLOAT16 };
    enum { BYTES = CALLS * ROOM * 4 };
    const char *exact = me->context;
    char options[160];
    uint8_t *given = malloc(BYTES), *got = malloc(BYTES);
    uint64_t shared = 77;
    struct local_desk d;
    if (!local_prepare_on(me, &d, me->rank))
        return;
    snprintf(options, sizeof options, ";executor=spin%s", exact);
    d.comm = spin_join(me, options, SPIN_LONG_MS);
    snprintf(options, sizeof options, ";executor=host;algo=all_reduce:direct%s", exact);
    tutti_comm *host = spin_join(me, options, SPIN_LONG_MS);
    for (int round = 0; round < 18; round++) {
        tutti_type type = types[round % 3];
        tutti_op op = round / 3 % 2 != 0 ? TUTTI_AVG : TUTTI_SUM;
        uint32_t counts[CALLS];
        ranks_at(me, "round %d", round);
        for (int k = 0; k < CALLS; k++)
            counts[k] = 1 + ranks_below(&shared, ROOM * 4 / (uint32_t)tutti_type_bytes(type));
        draw(me, given, BYTES);
        local_give(&d, GIVEN, given, BYTES);
        local_fine(&d, d.dev->fill(d.areas[GOT], 7, BYTES, d.stream));
        local_fine(&d, d.dev->fill(d.areas[2], 7, BYTES, d.stream));
        uint64_t before = d.stub->calls("launch");
        reduce_all(me, &d, d.comm, GOT, counts, type, op);
        ranks_expect(me, d.stub->calls("launch") - before == 1, "it is no list");
        reduce_all(me, &d, host, 2, counts, type, op);
        local_settle(&d);
        memcpy(got, local_take(&d, GOT, BYTES), BYTES);
        const uint8_t *want = local_take(&d, 2, BYTES);
        for (size_t i = 0; i < BYTES; i++)
            if (!ranks_expect(me, got[i] == want[i], "type %u, operation %u: byte %zu of call %zu", type, op,
                    i % (ROOM * 4), i / (ROOM * 4)))
                break;
        ranks_meet(me);
    }
    free(given);
    free(got);
    ranks_ok(me, tutti_comm_destroy(host), "tutti_comm_destroy");
    ranks_part(me, d.comm);
}

Test(api_device_list, bits)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", 2, 1, compare, "", 0, 0 }, { "queues=8", N, 1, compare, ";exact=on", 0, 0 },
        { "queues=2", 8, 1, compare, "", 0, 0 });
}

/* --- The end */

/* Kernels are ahead of workers: a worker that still looks at the call before finds that it was the same. */
static void differ_in_one_only(struct ranks_me *me, struct local_desk *d)
{
    struct tt_spin *spin = spin_of(d->comm);
    struct tt_direct_words *words = &spin->its.row->words;
    spin->calls += 1000; /* to which no worker has come */
    spin->told = true;
    words->left = words->differs = 1;
    words->differs_in = CALLS - 1;
    for (uint64_t call = CALLS - 2; call <= CALLS; call++) {
        struct tt_gate gate = { .spin = { .first = call, .last = call } };
        spin->meeting.wrong = TT_NONE;
        spin->meeting.advance(&spin->meeting, &gate, 0);
        ranks_expect(me, (spin->meeting.wrong != TT_NONE) == (call >= CALLS - 1), "call %u: rank %d differs",
            (unsigned)call, spin->meeting.wrong);
    }
}

/* Rank 1 has another call as the eighth: grouped, or one by one. */
static void differ(struct ranks_me *me)
{
    for (int grouped = 0; grouped < 2; grouped++) {
        struct local_desk d;
        ranks_at(me, "grouped: %d", grouped);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        bool groups = me->rank != 1 || grouped;
        ranks_meet(me);
        if (groups)
            tutti_group_start();
        for (int k = 0; k < CALLS; k++)
            if (me->rank != 1 || k != 8)
                call(&d, k);
            else
                tutti_all_reduce(place(&d, GIVEN, k), place(&d, GOT, k), 5, TUTTI_FLOAT32, TUTTI_SUM, d.comm,
                    local_on(&d));
        if (groups)
            tutti_group_end();
        local_drains(&d);
        ends_await(d.comm);
        char words[128];
        snprintf(words, sizeof words, "of 5 float32, sum|of %d float32, sum", count_of(8));
        ranks_same_error(me, d.comm, TUTTI_MISMATCH, words);
        ranks_meet(me);
        differ_in_one_only(me, &d);
        ranks_meet(me);
        spin_get_up(&d);
    }
}

Test(api_device_list, calls_that_differ)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, differ, NULL, 0, 0 }, { "queues=8", N, N, differ, NULL, 0, 0 });
}

/* Rank 1 has made three calls, and another rank aborts, or the deadline comes: what was not reduced is as it
 * was, and stays so. */
static void stop(struct ranks_me *me)
{
    enum { MADE = 3, SHORT_MS = 300, POISON = 0xa5 };
    for (int aborts = 0; aborts < 2; aborts++) {
        struct local_desk d;
        ranks_at(me, "aborts: %d", aborts);
        if (!spin_sit_down(me, &d, SPIN_LONG_MS))
            return;
        give(&d, 0);
        local_fine(&d, d.dev->fill(d.areas[GOT], POISON, AREA, d.stream));
        local_settle(&d);
        if (!aborts && me->rank != 1)
            local_hurry(d.comm, SHORT_MS);
        ranks_meet(me);
        if (me->rank != 1)
            group(&d, 0, CALLS);
        else
            group(&d, 0, MADE);
        if (me->rank == 1)
            local_fine(&d, d.dev->stream.sync(d.stream));
        if (aborts && me->rank == 0) {
            ranks_sleep_us(20000);
            ranks_ok(me, tutti_comm_abort(d.comm), "tutti_comm_abort");
        }
        ends_await(d.comm);
        local_drains(&d);
        ranks_expect(me, tutti_comm_state(d.comm) == (aborts ? TUTTI_ABORTED : TUTTI_TIMEOUT), "state %d: %s",
            tutti_comm_state(d.comm), tutti_get_last_error(d.comm));
        const uint8_t *got = d.stub->look(place(&d, GOT, MADE));
        for (int i = 0; i < (CALLS - MADE) * ROOM * 4; i++)
            if (!ranks_expect(me, got[i] == POISON, "byte %d of the results is %u", i, got[i]))
                break;
        ranks_meet(me);
        spin_get_up(&d);
    }
}

Test(api_device_list, a_list_that_waits)
{
    plugin_must_be_stub();
    spin_run({ "queues=8", N, 1, stop, NULL, 0, 0 });
}

static void group_until_a_death(struct ranks_me *me)
{
    const struct ends_death *death = me->context;
    struct local_desk d;
    if (!spin_sit_down(me, &d, SPIN_LONG_MS))
        return;
    ends_die_soon(me, death);
    while (tutti_comm_state(d.comm) == TUTTI_OK) {
        tutti_group_start();
        for (int k = 0; k < CALLS; k++)
            call(&d, k);
        tutti_group_end();
        local_fine(&d, d.dev->stream.sync(d.stream)); /* kernels take their time here */
    }
    ranks_expect(me, tutti_comm_state(d.comm) == TUTTI_PEER_LOST, "state %d: %s", tutti_comm_state(d.comm),
        tutti_get_last_error(d.comm));
    local_drains(&d);
    ranks_expect(me, !tt_spin_is_out(&spin_of(d.comm)->its.row->words), "a kernel still waits");
    spin_get_up(&d);
}

Test(api_device_list, kills_at_drawn_moments)
{
    uint64_t random = 5;
    plugin_must_be_stub();
    for (int i = 0; i < 5; i++) {
        struct ends_death death = { i % N, ranks_below(&random, i % 2 ? 6000 : 900), 0 };
        spin_run({ "queues=8,delay=20", N, 1, group_until_a_death, &death, 1U << death.victim, 0 });
    }
}
