/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_graph_ends.c: what ends around graphs: the communicator, a peer, the graph itself; and captures
 * that are refused. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "graph_rig.h"
#include "tests/rig/plugin.h"

TestSuite(api_graph_ends, .timeout = 300);

enum { TRIES = 60000 };

/* The stream passes what it has; a replay that cannot be served would hold it for good. */
static void drains(const struct graph_rig *rig, void *stream, const char *what)
{
    enum tt_dev_error error = TT_DEV_NOT_READY;
    for (int ms = 0; ms < TRIES && error == TT_DEV_NOT_READY; ms++) {
        error = rig->dev->stream.query(stream);
        ranks_sleep_us(1000);
    }
    ranks_expect(rig->me, error == TT_DEV_OK, "%s: the stream is not through", what);
}

/* A graph that was replayed once, which is as ever; NULL if it was not to be had. */
static void *replay_once(struct ranks_me *me, struct graph_rig *rig)
{
    if (!graph_rig_make(me, rig) || !graph_rig_join(rig))
        return NULL;
    void *runnable = graph_capture_three(rig, rig->streams[0]);
    graph_fine(rig, rig->dev->graph.launch(runnable, rig->streams[0]));
    graph_settle(rig);
    return runnable;
}

static void abort_replay(struct ranks_me *me)
{
    struct graph_rig rig;
    void *runnable = replay_once(me, &rig);
    if (runnable == NULL)
        return;
    ranks_meet(me);
    if (me->rank == 0) {
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        ranks_sleep_us(50000);
        ranks_expect(me, rig.dev->stream.query(rig.streams[0]) == TT_DEV_NOT_READY, "it waits for nobody");
        ranks_ok(me, tutti_comm_abort(rig.comm), "tutti_comm_abort");
        drains(&rig, rig.streams[0], "aborted");
    }
    ranks_meet(me);
    for (int i = 0; i < 3; i++)
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    drains(&rig, rig.streams[0], "replayed after the abort");
    ranks_same_error(me, rig.comm, TUTTI_ABORTED, "rank 0");
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
}

Test(api_graph_ends, abort_while_a_replay_waits)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, abort_replay, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, abort_replay, NULL, 0 });
}

/* Messages of one peer have a gate together; when it is opened once, the stream passes all of them. */
static void abort_messages(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    tutti_stream on = tutti_cuda_stream(rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    ranks_ok(me, tutti_group_start(), "tutti_group_start");
    for (int k = 0; k < 3; k++) {
        tutti_send(rig.device[GIVEN], COUNT, TUTTI_UINT32, 1 - me->rank, rig.comm, on);
        tutti_recv(rig.device[REDUCED + k], COUNT, TUTTI_UINT32, 1 - me->rank, rig.comm, on);
    }
    ranks_ok(me, tutti_group_end(), "tutti_group_end");
    void *runnable = graph_capture_end(&rig, rig.streams[0]);
    if (me->rank == 0) {
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        ranks_sleep_us(50000);
        ranks_ok(me, tutti_comm_abort(rig.comm), "tutti_comm_abort");
        for (int i = 0; i < 3; i++)
            graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        drains(&rig, rig.streams[0], "aborted");
    }
    ranks_meet(me);
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
}

Test(api_graph_ends, abort_while_messages_of_a_replay_wait)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, abort_messages, NULL, 0 });
}

static void kill_one(struct ranks_me *me)
{
    struct graph_rig rig;
    void *runnable = replay_once(me, &rig);
    if (runnable == NULL)
        return;
    if (me->rank == me->n - 1) {
        ranks_sleep_us(50000);
        raise(SIGKILL);
    }
    for (int i = 0; i < 4; i++)
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[i % 2]));
    drains(&rig, rig.streams[0], "a peer died");
    drains(&rig, rig.streams[1], "a peer died");
    ranks_expect(me, tutti_comm_state(rig.comm) == TUTTI_PEER_LOST, "state %d: %s",
        tutti_comm_state(rig.comm), tutti_get_last_error(rig.comm));
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
}

Test(api_graph_ends, kill_of_a_peer)
{
    graph_run({ "queues=8", 2, RANKS_PROCESSES, kill_one, NULL, 1 << 1 },
        { "queues=1", 3, RANKS_PROCESSES, kill_one, NULL, 1 << 2 });
}

/* Destroyed while a replay waits for its peer. */
static void destroy_under(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    void *runnable = graph_capture_three(&rig, rig.streams[0]);
    if (me->rank == 0)
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    ranks_sleep_us(50000);
    int64_t before = ranks_now_ms();
    if (me->rank == 0)
        ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
    ranks_expect(me, ranks_now_ms() - before < TRIES, "it waited for the replay's deadline");
    drains(&rig, rig.streams[0], "destroyed");
    ranks_meet(me);
    if (me->rank != 0)
        ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
}

Test(api_graph_ends, destroy_while_a_replay_waits)
{
    graph_run({ "queues=1", 2, RANKS_PROCESSES, destroy_under, NULL, 0 });
}

/* The graph stays replayable, and what it has is given back with the next communicator after its end. */
static void outlive(struct ranks_me *me)
{
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    const struct tt_stub *stub = plugin_stub();
    void *runnable = graph_capture_three(&rig, rig.streams[0]);
    graph_give(&rig, 1, rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_fetch(&rig, 1, REDUCED, rig.streams[0]);
    graph_settle(&rig);
    graph_is_sum(&rig, 1, REDUCED, 1);
    /* A leader's kernels skip from now on, and need no more of the others' memory. */
    uint64_t unpinned = stub->calls("unpin"), others = (uint64_t)me->n - 1;
    ranks_part(me, rig.comm);
    ranks_expect(me, stub->calls("unpin") <= unpinned + others, "memory that a graph uses was given back");
    for (int i = 0; i < 3; i++)
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[i % 2]));
    drains(&rig, rig.streams[0], "of a communicator that is gone");
    drains(&rig, rig.streams[1], "of a communicator that is gone");
    if (!graph_rig_join(&rig))
        return;
    graph_reduce(&rig, GIVEN, EAGER, rig.streams[0]);
    graph_fetch(&rig, 1, EAGER, rig.streams[0]);
    graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
    graph_settle(&rig);
    graph_is_sum(&rig, 1, EAGER, 1);
    graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    ranks_part(me, rig.comm);
    _Atomic int *ranks_back = (_Atomic int *)me->shared;
    bool back = false, all = false; /* the runtime tells each rank the end of a graph in its own time */
    for (int i = 0; i < 100 && !all; i++) {
        if (!graph_rig_join(&rig))
            return;
        ranks_part(me, rig.comm);
        if (!back && (back = stub->calls("unpin") == stub->calls("pin")))
            atomic_fetch_add(ranks_back, 1);
        ranks_meet(me);
        all = atomic_load(ranks_back) == me->n;
        ranks_meet(me); /* all have seen the same */
    }
    ranks_expect(me, all, "what the graph had was never given back");
}

Test(api_graph_ends, graph_outlives_communicator)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 2, RANKS_PROCESSES, outlive, NULL, 0 });
}

/* Where one process leads, its kernels use memory of all, and its own device. */
Test(api_graph_ends, of_ranks_that_are_led)
{
    plugin_must_be_stub();
    setenv("TUTTI_EXECUTOR", "led", 1);
    graph_run({ "queues=8", 3, RANKS_PROCESSES, outlive, NULL, 0 },
        { "queues=1", 3, RANKS_PROCESSES, kill_one, NULL, 1 << 2 },
        { "queues=1", 2, RANKS_PROCESSES, destroy_under, NULL, 0 });
}

/* --- Bad input */

/* Nothing of what is refused is in the graph, and the capture goes on. */
static void refuse(struct ranks_me *me)
{
    struct graph_rig rig;
    void *graph = NULL, *ptr = NULL;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    ranks_ok(me, tutti_group_start(), "tutti_group_start");
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_reduce(&rig, GIVEN, EAGER, rig.streams[1]);
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "half of a group", "captured|all of them");
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[1]));
    ranks_ok(me, tutti_group_start(), "tutti_group_start");
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_reduce(&rig, GIVEN, EAGER, rig.streams[1]);
    ranks_refused(me, tutti_group_end(), TUTTI_INVALID_USAGE, "a group in two captures", "one capture");
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_reduce(&rig, GIVEN, EAGER, rig.streams[1]);
    ranks_refused(me, tutti_barrier(rig.comm, tutti_cuda_stream(rig.streams[0])), TUTTI_INVALID_USAGE,
        "two by turns", "another graph");
    graph_fine(&rig, rig.dev->graph.capture_end(rig.streams[1], &graph));
    graph_fine(&rig, rig.dev->graph.destroy(graph));
    rig.dev->memory.alloc(8, &ptr); /* that is what a capture does not survive */
    ranks_refused(me, tutti_barrier(rig.comm, tutti_cuda_stream(rig.streams[0])), TUTTI_INVALID_USAGE,
        "a broken capture", "broken");
    ranks_expect(
        me, rig.dev->graph.capture_end(rig.streams[0], &graph) == TT_DEV_CAPTURE, "it was not broken");
    graph_give(&rig, 3, rig.streams[0]);
    graph_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    graph_fetch(&rig, 3, REDUCED, rig.streams[0]);
    graph_settle(&rig);
    graph_is_sum(&rig, 3, REDUCED, 1);
    ranks_part(me, rig.comm);
}

Test(api_graph_ends, refusals)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 2, RANKS_PROCESSES, refuse, NULL, 0 });
}

/* How many calls the communicator has had: a line each. */
static int count_calls(const struct graph_rig *rig)
{
    static char text[64 << 10];
    int lines = 0;
    tutti_query(rig->comm, "recorder", text, sizeof text);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    return lines;
}

/* A replay that is reached while a call that no stream orders is under way. */
struct opening {
    const struct graph_rig *rig;
    int calls; /* before that one */
};
static void *open_during_a_call(void *of)
{
    const struct opening *o = of;
    for (int ms = 0; ms < TRIES && count_calls(o->rig) == o->calls; ms++)
        ranks_sleep_us(1000);
    ranks_sleep_us(50000);
    __atomic_store_n(o->rig->word, 1, __ATOMIC_RELEASE);
    return NULL;
}

enum other { COLLECTIVE, MESSAGE, QUEUED };
struct overlap {
    enum other other;
    const char *words;
};

/* Queued is what waits for a call of another communicator, which no other rank makes. */
static tutti_status call_meanwhile(const struct graph_rig *rig, enum other other, tutti_comm *another)
{
    static uint32_t values[COUNT];
    tutti_stream host;
    if (other == COLLECTIVE)
        return tutti_all_reduce(values, values, COUNT, TUTTI_UINT32, TUTTI_SUM, rig->comm, tutti_no_stream());
    if (other == MESSAGE)
        return tutti_recv(values, COUNT, TUTTI_UINT32, 1, rig->comm, tutti_no_stream());
    ranks_ok(rig->me, tutti_stream_create(&host), "tutti_stream_create");
    ranks_ok(rig->me, tutti_recv(values, 1, TUTTI_UINT32, 1, another, host), "tutti_recv");
    ranks_ok(rig->me, tutti_recv(values, COUNT, TUTTI_UINT32, 1, rig->comm, host), "tutti_recv");
    for (int ms = 0; ms < TRIES && tutti_comm_state(rig->comm) == TUTTI_OK; ms++)
        ranks_sleep_us(1000);
    ranks_ok(rig->me, tutti_comm_abort(another), "tutti_comm_abort");
    return tutti_comm_state(rig->comm);
}

static void overlap(struct ranks_me *me)
{
    struct graph_rig rig;
    const struct overlap *expected = me->context;
    pthread_t thread;
    if (!graph_rig_make(me, &rig) || !graph_rig_join(&rig))
        return;
    tutti_comm *another = expected->other == QUEUED ? ranks_join(me, NULL) : NULL;
    void *runnable = graph_capture_reduce(&rig, GIVEN, REDUCED, rig.streams[0]);
    if (me->rank == 0) {
        graph_fine(&rig, rig.dev->wait_word(rig.streams[0], rig.word, 1));
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        struct opening opening = { &rig, count_calls(&rig) };
        pthread_create(&thread, NULL, open_during_a_call, &opening);
        tutti_status status = call_meanwhile(&rig, expected->other, another);
        ranks_expect(me, status == TUTTI_INVALID_USAGE, "status %d", status);
        pthread_join(thread, NULL);
    }
    for (int ms = 0; ms < TRIES && tutti_comm_state(rig.comm) == TUTTI_OK; ms++)
        ranks_sleep_us(1000);
    ranks_same_error(me, rig.comm, TUTTI_INVALID_USAGE, expected->words);
    drains(&rig, rig.streams[0], "reached during a call");
    if (another != NULL)
        ranks_ok(me, tutti_comm_destroy(another), "tutti_comm_destroy");
    ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
}

Test(api_graph_ends, a_replay_during_another_call)
{
    static const struct overlap all[] = { { COLLECTIVE,
                                              "operation 0, all_reduce of 5000 uint32|replay|legal" },
        { MESSAGE, "a send, a receive, or|replay|legal" },
        { QUEUED, "a call on a stream of the host|replay|legal" } };
    graph_run({ "queues=8", 2, RANKS_PROCESSES, overlap, &all[COLLECTIVE], 0 },
        { "queues=8", 2, RANKS_PROCESSES, overlap, &all[MESSAGE], 0 },
        { "queues=8", 2, RANKS_PROCESSES, overlap, &all[QUEUED], 0 });
}

/* The device fails in the middle of a captured call: the communicator ends, and what is in the graph by then
 * runs through. Before anything is in it, nothing is done. */
static void fail_captures(struct ranks_me *me)
{
    static const char *const functions[] = { "graph_retain", "event_wait", "copy", "write_word", "wait_word",
        "event_record" };
    struct graph_rig rig;
    if (!graph_rig_make(me, &rig))
        return;
    const struct tt_stub *stub = plugin_stub();
    for (int f = 0; f < (int)(sizeof functions / sizeof functions[0]); f++) {
        void *stream = rig.streams[0], *from = rig.device[GIVEN], *to = rig.device[REDUCED];
        ranks_at(me, "failing %s", functions[f]);
        if (!graph_rig_join(&rig))
            return;
        graph_fine(&rig, rig.dev->graph.capture_begin(stream));
        stub->fail(functions[f], 1, TT_DEV_UNSUPPORTED);
        ranks_refused(me,
            tutti_all_reduce(from, to, COUNT, TUTTI_UINT32, TUTTI_SUM, rig.comm, tutti_cuda_stream(stream)),
            TUTTI_DEVICE_ERROR, "tutti_all_reduce", functions[f]);
        void *runnable = graph_capture_end(&rig, stream);
        tutti_status expected = f == 0 ? TUTTI_OK : TUTTI_DEVICE_ERROR;
        ranks_expect(me, tutti_comm_state(rig.comm) == expected, "%s: state %d", functions[f],
            tutti_comm_state(rig.comm));
        for (int i = 0; i < 2; i++)
            graph_fine(&rig, rig.dev->graph.launch(runnable, stream));
        drains(&rig, stream, functions[f]);
        ranks_ok(me, tutti_comm_destroy(rig.comm), "tutti_comm_destroy");
        graph_fine(&rig, rig.dev->graph.runnable_destroy(runnable));
    }
}

Test(api_graph_ends, a_device_that_fails)
{
    plugin_must_be_stub();
    graph_run({ "queues=8", 1, RANKS_PROCESSES, fail_captures, NULL, 0 });
}

/* Two ranks of one thread on one device: each alone is refused, in one group they are served. */
static void in_one_thread(struct ranks_me *me)
{
    struct graph_rig rig;
    tutti_comm *comms[2];
    const int devices[2] = { 0, 0 };
    if (!graph_rig_make(me, &rig) ||
        !ranks_ok(me, tutti_comm_init_all(2, devices, NULL, comms), "tutti_comm_init_all"))
        return;
    tutti_stream on[2] = { tutti_cuda_stream(rig.streams[0]), tutti_cuda_stream(rig.streams[1]) };
    void *forked = NULL;
    graph_fine(&rig, rig.dev->event.create(false, &forked));
    graph_fine(&rig, rig.dev->graph.capture_begin(rig.streams[0]));
    graph_fine(&rig, rig.dev->event.record(forked, rig.streams[0], false));
    graph_fine(&rig, rig.dev->event.wait(forked, rig.streams[1], false));
    ranks_refused(
        me, tutti_barrier(comms[0], on[0]), TUTTI_INVALID_USAGE, "a barrier of one", "rank 1|group");
    tutti_group_start();
    for (int r = 0; r < 2; r++)
        ranks_ok(me,
            tutti_all_reduce(
                rig.device[r], rig.device[2 + r], COUNT, TUTTI_UINT32, TUTTI_SUM, comms[r], on[r]),
            "all_reduce");
    ranks_ok(me, tutti_group_end(), "tutti_group_end");
    graph_fine(&rig, rig.dev->event.record(forked, rig.streams[1], false));
    graph_fine(&rig, rig.dev->event.wait(forked, rig.streams[0], false));
    void *runnable = graph_capture_end(&rig, rig.streams[0]);
    for (int round = 0; round < 20; round++) {
        for (int r = 0; r < 2; r++) {
            for (int i = 0; i < COUNT; i++)
                rig.pinned[r][GIVEN][i] = graph_value(r, round, i);
            graph_fine(&rig, rig.dev->copy(rig.device[r], rig.pinned[r][GIVEN], BYTES, rig.streams[0]));
        }
        graph_fine(&rig, rig.dev->graph.launch(runnable, rig.streams[0]));
        for (int r = 0; r < 2; r++)
            graph_fine(&rig, rig.dev->copy(rig.pinned[r][EAGER], rig.device[2 + r], BYTES, rig.streams[0]));
        graph_settle(&rig);
        for (int r = 0; r < 2; r++)
            for (int i = 0; i < COUNT; i++)
                if (!ranks_expect(me,
                        rig.pinned[r][EAGER][i] == graph_value(0, round, i) + graph_value(1, round, i),
                        "round %d, rank %d, element %d", round, r, i))
                    return;
    }
    for (int r = 0; r < 2; r++)
        ranks_ok(me, tutti_comm_destroy(comms[r]), "tutti_comm_destroy");
}

Test(api_graph_ends, ranks_of_one_thread)
{
    plugin_must_have_kernels();
    graph_run({ "queues=8", 1, RANKS_PROCESSES, in_one_thread, NULL, 0 },
        { "queues=1", 1, RANKS_PROCESSES, in_one_thread, NULL, 0 });
}
