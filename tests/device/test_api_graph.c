/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_graph.c: calls that are captured, and what replays of their graphs do.
 *
 * Each rank captures calls, replays the graph with other data each time, and checks every element. Calls
 * that are not captured come between, on other streams: a communicator's calls have one order, however they
 * reach the device. The runtime is the stub's (tests/stub): it breaks a capture when anything that cannot be
 * captured is called meanwhile, by any thread; so each capture here shows that nothing was. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_graph, .timeout = 300);

/* --- A thousand replays */

static void check_round(const struct graph_rig *rig, int round)
{
    int n = rig->me->n;
    const uint32_t *const *got = (const uint32_t *const *)rig->pinned[round % AT_ONCE];
    graph_is_sum(rig, round, REDUCED, 1);
    for (int r = 0; r < n; r++)
        graph_is_of_rank(rig, round, got[GATHERED] + (size_t)r * COUNT, r);
    graph_is_of_rank(rig, round, got[RECEIVED], (rig->me->rank + n - 1) % n);
    if (round % 3 == 0)
        graph_is_sum(rig, round, EAGER, 1);
}

/* The replay has one stream or the other, and so has the call after it. */
static void replay_rounds(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    ranks_meet(me); /* what another thread does before or after would break the capture */
    void *runnable = graph_capture_three(&rig, rig.streams[0]);
    ranks_expect(me, plugin_stub() == NULL || plugin_stub()->calls("host_call") == 0,
        "a replay waits for a thread of the runtime, which takes longer than the call");
    ranks_meet(me);
    int rounds = *(const int *)me->context;
    for (int round = 0; round < rounds && me->world->slots[me->rank].failures == 0; round++) {
        void *stream = rig.streams[round / 2 % 2];
        ranks_at(me, "round %d", round);
        graph_give(&rig, round, stream);
        graph_fine(&rig, rig.dev->graph.launch(runnable, stream));
        for (int a = REDUCED; a <= RECEIVED; a++)
            graph_fetch(&rig, round, a, stream);
        if (round % 3 == 0) {
            graph_reduce(&rig, GIVEN, EAGER, stream);
            graph_fetch(&rig, round, EAGER, stream);
        }
        if (round % AT_ONCE == AT_ONCE - 1 || round / 2 % 2 != (round + 1) / 2 % 2 || round == rounds - 1)
            graph_fine(&rig, rig.dev->stream.sync(stream));
        for (int k = round - round % 2; k <= round && round % 2 == 1; k++)
            check_round(&rig, k);
    }
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

Test(api_graph, replays)
{
    int many = 1000, few = 100;
    graph_run({ "queues=8", 2, RANKS_PROCESSES, replay_rounds, &many, 0 },
        { "queues=1", 3, RANKS_PROCESSES, replay_rounds, &few, 0 });
}

Test(api_graph, replays_of_threads)
{
    int rounds = 100;
    graph_run({ "queues=1,devices=2", 2, RANKS_THREADS, replay_rounds, &rounds, 0 },
        { "queues=8,devices=3,delay=100", 3, RANKS_THREADS, replay_rounds, &rounds, 0 });
}

/* --- What a graph may have */

/* A program, a barrier and an empty call, on memory of the host, which is used where it lies. */
static void replay_program(struct ranks_me *me)
{
    struct graph_rig rig;
    enum { LAST_START = 9 };
    static uint32_t pageable[COUNT];
    tutti_program *program = NULL;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    tutti_stream on = tutti_cuda_stream(rig.streams[0]);
    uint32_t *pinned = rig.pinned[0][GIVEN];
    ranks_ok(me, tutti_group_start(), "tutti_group_start");
    tutti_all_reduce(pageable, pinned, COUNT, TUTTI_UINT32, TUTTI_SUM, rig.comm, on);
    tutti_all_reduce(pinned, rig.device[REDUCED], COUNT, TUTTI_UINT32, TUTTI_SUM, rig.comm, on);
    ranks_ok(me, tutti_group_keep(&program), "tutti_group_keep");
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    ranks_ok(me, tutti_program_start(program), "tutti_program_start");
    ranks_ok(me, tutti_barrier(rig.comm, on), "tutti_barrier");
    ranks_ok(me, tutti_all_gather(NULL, NULL, 0, TUTTI_INT8, rig.comm, on), "tutti_all_gather of nothing");
    void *runnable = graph_capture_end(&rig, rig.streams[0]);
    for (int round = 0; round < 20; round++) {
        ranks_at(me, "round %d", round);
        for (int i = 0; i < COUNT; i++)
            pageable[i] = graph_value(me->rank, round, i);
        if (round <= LAST_START && round % 3 == 0)
            ranks_ok(me, tutti_program_start(program), "tutti_program_start");
        else
            graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        graph_fetch(&rig, round, REDUCED, rig.streams[0]);
        graph_settle(&rig);
        if (!graph_is_sum(&rig, round, REDUCED, (uint32_t)me->n))
            return;
        if (round == LAST_START) /* the graph has what it needs */
            ranks_ok(me, tutti_program_destroy(program), "tutti_program_destroy");
    }
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

Test(api_graph, a_program_and_memory_of_the_host)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, replay_program, NULL, 0 },
        { "queues=2", 3, RANKS_PROCESSES, replay_program, NULL, 0 });
}

/* --- As many calls as there are */

/* Each call adds: its result is the next one's operand, so one that is left out, or done twice, shows. A
 * group of messages with the same gates comes now and then. */
static void capture_many(const struct graph_rig *rig, int calls)
{
    int n = rig->me->n, next = (rig->me->rank + 1) % n, before = (rig->me->rank + n - 1) % n;
    tutti_stream on = tutti_cuda_stream(rig->streams[0]);
    uint32_t *v = rig->device[REDUCED], *w = rig->device[RECEIVED];
    bool good = true;
    for (int i = 0; i < calls && good; i++) {
        good = ranks_ok(rig->me, tutti_all_reduce(v, v, 1, TUTTI_UINT32, TUTTI_SUM, rig->comm, on), "sum");
        if (i % 100 != 0 || !good)
            continue;
        tutti_group_start();
        for (int k = 0; k < 3; k++) {
            tutti_send(v, 1, TUTTI_UINT32, next, rig->comm, on);
            tutti_recv(w + k, 1, TUTTI_UINT32, before, rig->comm, on);
        }
        good = ranks_ok(rig->me, tutti_group_end(), "messages");
    }
}

static uint32_t power(uint32_t base, int times)
{
    uint32_t result = 1;
    for (int i = 0; i < times; i++)
        result *= base;
    return result;
}

static void replay_many(struct ranks_me *me)
{
    struct graph_rig rig;
    int calls = *(const int *)me->context;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *stream = rig.streams[0], *v = rig.device[REDUCED];
    graph_fine(&rig, rig.dev->graph.capture_begin(stream));
    capture_many(&rig, calls);
    void *runnable = graph_capture_end(&rig, stream);
    for (uint32_t round = 0; round < 2; round++) {
        rig.pinned[0][REDUCED][0] = 2 * round + 1;
        graph_fine(&rig, rig.dev->copy(v, rig.pinned[0][REDUCED], 4, stream));
        graph_fine(&rig, rig.dev->graph.launch(runnable, stream));
        graph_fine(&rig, rig.dev->copy(rig.pinned[1][REDUCED], v, 4, stream));
        graph_fine(&rig, rig.dev->copy(rig.pinned[1][RECEIVED], rig.device[RECEIVED], 12, stream));
        graph_settle(&rig);
        uint32_t sum = (2 * round + 1) * power(3, calls);
        uint32_t sent = (2 * round + 1) * power(3, (calls - 1) / 100 * 100 + 1);
        const uint32_t *got = rig.pinned[1][RECEIVED];
        ranks_expect(me, rig.pinned[1][REDUCED][0] == sum, "round %u: the sum is %u", round,
            rig.pinned[1][REDUCED][0]);
        ranks_expect(me, got[0] == sent && got[1] == sent && got[2] == sent, "round %u: received %u, %u, %u",
            round, got[0], got[1], got[2]);
    }
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

/* Three ranks, for sums of two are soon 0. */
Test(api_graph, twenty_thousand_calls)
{
    int many = 20000;
    graph_run({ "queues=8", 3, RANKS_PROCESSES, replay_many, &many, 0 });
}

/* --- Order */

/* The second graph reduces what the first one has reduced, on another stream; what comes after either reads
 * its result. Only the order of the communicator's calls orders them. */
static void alternate(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *first = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    void *second = graph_capture_reduce(&rig, REDUCED, RECEIVED, rig.streams[1]);
    for (int round = 0; round < 50; round++) {
        ranks_at(me, "round %d", round);
        graph_give(&rig, round, rig.streams[0]);
        graph_fine(&rig, rig.dev->graph.launch(first, rig.streams[0]));
        if (round % 2 == 0)
            graph_fine(&rig, rig.dev->graph.launch(second, rig.streams[1]));
        else
            graph_reduce(&rig, REDUCED, RECEIVED, rig.streams[1]);
        graph_fetch(&rig, round, RECEIVED, rig.streams[1]);
        graph_settle(&rig);
        if (!graph_is_sum(&rig, round, RECEIVED, (uint32_t)me->n))
            return;
    }
    graph_fine(&rig, rig.dev->graph.runnable_destroy(first));
    graph_fine(&rig, rig.dev->graph.runnable_destroy(second));
    ranks_part(me, rig.comm);
}

Test(api_graph, two_graphs_by_turns)
{
    graph_run({ "queues=8,delay=200", 2, RANKS_PROCESSES, alternate, NULL, 0 },
        { "queues=1", 2, RANKS_PROCESSES, alternate, NULL, 0 });
}

/* The same where one process leads the collectives, by kernels. */
Test(api_graph, of_ranks_that_are_led)
{
    int rounds = 40;
    setenv("TUTTI_EXECUTOR", "led", 1);
    graph_run({ "queues=1", 3, RANKS_PROCESSES, replay_rounds, &rounds, 0 },
        { "queues=8,delay=50", 2, RANKS_PROCESSES, replay_program, NULL, 0 },
        { "queues=2", 2, RANKS_PROCESSES, alternate, NULL, 0 });
}

/* A graph is launched, and cannot begin yet. What is called then, on another stream, which had the call
 * before the graph as well, is queued long before the device reaches the graph, and reads its result. */
static void launch_first(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    for (int round = 0; round < 5; round++) {
        graph_give(&rig, round, rig.streams[1]);
        graph_reduce(&rig, GIVEN, EAGER, rig.streams[1]);
        graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, (uint32_t)round + 1));
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        graph_reduce(&rig, REDUCED, RECEIVED, rig.streams[1]);
        graph_fetch(&rig, round, RECEIVED, rig.streams[1]);
        ranks_sleep_us(20000);
        ranks_at(me, "round %d", round);
        __atomic_store_n(rig.word, (uint32_t)round + 1, __ATOMIC_RELEASE);
        graph_settle(&rig);
        if (!graph_is_sum(&rig, round, RECEIVED, (uint32_t)me->n))
            return;
    }
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

Test(api_graph, launched_first_runs_first)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, launch_first, NULL, 0 });
}

/* Two branches of one graph, joined at its end: nothing of the user's orders the calls on them. */
static void fork_capture(struct ranks_me *me)
{
    struct graph_rig rig;
    void *forked = NULL, *joined = NULL;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    graph_fine(&rig, rig.dev->event.create(false, &forked));
    graph_fine(&rig, rig.dev->event.create(false, &joined));
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    graph_fine(&rig, rig.dev->event.record(forked, rig.streams[0], false));
    graph_fine(&rig, rig.dev->event.wait(forked, rig.streams[1], false));
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_reduce(&rig, REDUCED, RECEIVED, rig.streams[1]);
    graph_fine(&rig, rig.dev->event.record(joined, rig.streams[1], false));
    graph_fine(&rig, rig.dev->event.wait(joined, rig.streams[0], false));
    void *runnable = graph_capture_end(&rig, rig.streams[0]);
    for (int round = 0; round < 20; round++) {
        ranks_at(me, "round %d", round);
        graph_give(&rig, round, rig.streams[0]);
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        graph_fetch(&rig, round, RECEIVED, rig.streams[0]);
        graph_settle(&rig);
        if (!graph_is_sum(&rig, round, RECEIVED, (uint32_t)me->n))
            return;
    }
    ranks_part(me, rig.comm);
}

Test(api_graph, branches_of_one_graph)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, fork_capture, NULL, 0 },
        { "queues=1", 2, RANKS_PROCESSES, fork_capture, NULL, 0 });
}

/* --- Calls without a stream */

static uint32_t here[COUNT];

static bool call_here(const struct graph_rig *rig, int round)
{
    for (int i = 0; i < COUNT; i++)
        here[i] = graph_value(rig->me->rank, round, i);
    return ranks_ok(rig->me,
        tutti_all_reduce(here, here, COUNT, TUTTI_UINT32, TUTTI_SUM, rig->comm, tutti_no_stream()), "here");
}

/* So many calls have begun, as the recorder has it; `json` is what it says. */
static unsigned long long calls_of(const struct graph_rig *rig, char *json, size_t bytes)
{
    unsigned long long calls = 0;
    tutti_query(rig->comm, "recorder json", json, bytes);
    const char *found = strstr(json, "\"calls\": ");
    ranks_expect(rig->me, found != NULL && sscanf(found, "\"calls\": %llu", &calls) == 1, "%.200s", json);
    return calls;
}

/* Each call of this rank began after the others had ended, or ended before. */
static void check_turns(const struct graph_rig *rig, char *json, size_t bytes)
{
    enum { MOST = 64 };
    long long from[MOST], to[MOST];
    int count = 0;
    calls_of(rig, json, bytes);
    for (const char *at = json; count < MOST && (at = strstr(at, "\"started_ns\": ")) != NULL; at++, count++)
        if (!ranks_expect(rig->me,
                sscanf(at, "\"started_ns\": %lld, \"ended_ns\": %lld", &from[count], &to[count]) == 2,
                "%.80s", at))
            return;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < i; k++)
            ranks_expect(rig->me, from[i] >= to[k] || from[k] >= to[i], "calls %d and %d at once", k, i);
}

/* When the others have begun this round's replay, and some time after; they may have failed. */
static void be_late(const struct ranks_me *me, int round)
{
    const _Atomic int *begun = me->shared;
    int64_t until = ranks_now_ms() + 60000;
    for (int rank = 0; rank < me->n; rank++)
        while (rank != me->rank && atomic_load(&begun[rank]) <= round && ranks_now_ms() < until)
            ranks_sleep_us(100);
    ranks_sleep_us(20000);
}

/* A replay that waits for its peer has been reached: the call after it has to wait, too, and so has a group
 * that ends after it. */
static void call_after(struct ranks_me *me)
{
    struct graph_rig rig;
    static char json[1 << 20];
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    for (int round = 0; round < 10; round++) {
        bool grouped = round / 2 % 2 == 1, late = me->rank == round % me->n;
        ranks_at(me, "round %d", round);
        graph_give(&rig, round, rig.streams[0]);
        if (late)
            be_late(me, round);
        if (grouped)
            ranks_ok(me, tutti_group_start(), "tutti_group_start");
        if (grouped && !call_here(&rig, round))
            return;
        unsigned long long before = calls_of(&rig, json, sizeof json);
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        graph_fetch(&rig, round, REDUCED, rig.streams[0]);
        while (calls_of(&rig, json, sizeof json) == before) /* the device reaches it */
            ranks_sleep_us(100);
        atomic_store((_Atomic int *)me->shared + me->rank, round + 1);
        if (grouped ? !ranks_ok(me, tutti_group_end(), "tutti_group_end") : !call_here(&rig, round))
            return;
        memcpy(rig.pinned[round % AT_ONCE][EAGER], here, sizeof here);
        graph_is_sum(&rig, round, EAGER, 1);
        graph_settle(&rig);
        graph_is_sum(&rig, round, REDUCED, 1);
    }
    check_turns(&rig, json, sizeof json);
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

Test(api_graph, calls_without_a_stream_wait_for_replays)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, call_after, NULL, 0 });
}

/* Every replay is in the recorder, as the calls that it is. */
static void count_calls(struct ranks_me *me)
{
    struct graph_rig rig;
    static char json[1 << 20];
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *runnable = graph_capture_three(&rig, rig.streams[0]);
    for (int round = 0; round < 20; round++) {
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        graph_reduce(&rig, GIVEN, EAGER, rig.streams[1]);
    }
    graph_settle(&rig);
    ranks_meet(me);
    unsigned long long calls = calls_of(&rig, json, sizeof json);
    ranks_expect(me, calls == 20 * 4 + 20, "%llu calls", calls);
    int gathered = 0;
    for (const char *at = json; (at = strstr(at, "\"collective\": \"all_gather\"")) != NULL; at++)
        gathered++;
    ranks_expect(me, gathered == 20, "%d all_gathers", gathered);
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
}

Test(api_graph, replays_are_recorded)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, count_calls, NULL, 0 });
}
