/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_graph.c: the stub captures as a runtime does, refuses what one refuses, and replays. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "stub_rig.h"

TestSuite(stub_graph, .init = rig_limit_time);

static void *event_new(void)
{
    void *event;
    cr_assert_eq(dev->event.create(false, &event), TT_DEV_OK);
    return event;
}

static void *end_capture(void *stream)
{
    void *graph = NULL, *runnable = NULL;
    cr_assert_eq(dev->graph.capture_end(stream, &graph), TT_DEV_OK, "%s", dev->why());
    cr_assert_eq(dev->graph.instantiate(graph, &runnable), TT_DEV_OK);
    cr_assert_eq(dev->graph.destroy(graph), TT_DEV_OK);
    return runnable;
}

static void count_up(void *argument)
{
    __atomic_add_fetch((uint32_t *)argument, 1, __ATOMIC_RELAXED);
}

Test(stub_graph, replays_what_was_captured)
{
    uint32_t calls = 0;
    struct tt_dev_capture capture;
    char *device;
    rig_start("queues=2");
    void *stream = rig_stream(), *other = rig_stream();
    cr_assert_eq(dev->memory.alloc(100, (void **)&device), TT_DEV_OK);
    cr_expect(dev->stream.capture(stream, &capture) == TT_DEV_OK && !capture.active);
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect(dev->stream.capture(stream, &capture) == TT_DEV_OK && capture.active && !capture.broken);
    cr_expect(capture.id != 0 && capture.graph != NULL);
    cr_expect_eq(dev->fill(device, 9, 100, stream), TT_DEV_OK);
    cr_expect_eq(dev->copy(rig_words + 8, device, 4, stream), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->host_call(stream, count_up, &calls), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[1], 5), TT_DEV_OK);
    cr_expect_eq(dev->write_word(other, &rig_words[2], 1), TT_DEV_OK, "who is not captured runs");
    void *runnable = end_capture(stream);
    rig_ends(other);
    rig_ends(stream);
    cr_expect(rig_words[1] == 0 && rig_words[8] == 0 && calls == 0, "a capture does nothing");
    for (int i = 0; i < 5; i++)
        cr_expect_eq(dev->graph.launch(runnable, i % 2 == 0 ? stream : other), TT_DEV_OK);
    rig_hangs(stream);
    cr_expect_eq(rig_words[8], 0x09090909);
    rig_open_word(&rig_words[0], 1);
    rig_ends(stream);
    rig_ends(other);
    cr_expect(rig_words[1] == 5 && calls == 5);
    cr_expect_eq(dev->graph.runnable_destroy(runnable), TT_DEV_OK);
    cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_INVALID);
}

/* The second launch is on another stream, and begins when the first is over all the same. */
Test(stub_graph, replays_of_one_graph_do_not_overlap)
{
    rig_start("queues=8");
    void *stream = rig_stream(), *other = rig_stream();
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 1), TT_DEV_OK);
    void *runnable = end_capture(stream);
    cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    rig_hangs(stream);
    rig_open_word(&rig_words[1], 0);
    cr_expect_eq(dev->graph.launch(runnable, other), TT_DEV_OK);
    rig_hangs(other);
    cr_expect_eq(__atomic_load_n(&rig_words[1], __ATOMIC_ACQUIRE), 0);
    rig_open_word(&rig_words[0], 1);
    rig_ends(other);
    cr_expect_eq(rig_words[1], 1);
}

/* a on the origin; b waits on another stream for a CPU; c on the origin after both. */
static void *capture_fork(void *origin, void *other)
{
    void *forked = event_new(), *joined = event_new();
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    cr_expect_eq(dev->write_word(origin, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(forked, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(forked, other, false), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(other, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(other, &rig_words[2], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(joined, other, false), TT_DEV_OK);
    cr_expect_eq(dev->write_word(origin, &rig_words[3], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(joined, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->write_word(origin, &rig_words[4], 1), TT_DEV_OK);
    return end_capture(origin);
}

static void forks(const char *text, uint32_t beside)
{
    rig_start(text);
    void *origin = rig_stream(), *other = rig_stream();
    void *runnable = capture_fork(origin, other);
    cr_expect_eq(dev->graph.launch(runnable, origin), TT_DEV_OK);
    rig_hangs(origin);
    cr_expect(rig_words[1] == 1 && rig_words[2] == 0 && rig_words[4] == 0);
    cr_expect_eq(__atomic_load_n(&rig_words[3], __ATOMIC_ACQUIRE), beside);
    rig_open_word(&rig_words[0], 1);
    rig_ends(origin);
    cr_expect(rig_words[2] == 1 && rig_words[3] == 1 && rig_words[4] == 1);
}

Test(stub_graph, fork_and_join_8_queues)
{
    forks("queues=8", 1);
}

/* In the one queue the branch that waits is before the rest of the other. */
Test(stub_graph, fork_and_join_1_queue)
{
    forks("queues=1", 0);
}

/* A branch without anything before it, and nothing after it, still comes after what is in the stream, and the
 * stream goes on after it. */
Test(stub_graph, a_branch_by_itself)
{
    rig_start("queues=8");
    void *origin = rig_stream(), *other = rig_stream(), *forked = event_new(), *joined = event_new();
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    cr_expect_eq(dev->event.record(forked, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(forked, other, false), TT_DEV_OK);
    cr_expect_eq(dev->write_word(other, &rig_words[2], 1), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(other, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(joined, other, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(joined, origin, false), TT_DEV_OK);
    void *runnable = end_capture(origin);
    cr_expect_eq(dev->wait_word(origin, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->graph.launch(runnable, origin), TT_DEV_OK);
    rig_hangs(origin);
    cr_expect_eq(__atomic_load_n(&rig_words[2], __ATOMIC_ACQUIRE), 0);
    rig_open_word(&rig_words[0], 1);
    rig_hangs(origin);
    cr_expect_eq(__atomic_load_n(&rig_words[2], __ATOMIC_ACQUIRE), 1);
    rig_open_word(&rig_words[1], 1);
    rig_ends(origin);
}

Test(stub_graph, a_branch_that_is_not_joined)
{
    void *graph = NULL;
    struct tt_dev_capture capture;
    rig_start("");
    void *origin = rig_stream(), *other = rig_stream(), *event = event_new();
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, other, false), TT_DEV_OK);
    cr_expect(dev->stream.capture(other, &capture) == TT_DEV_OK && capture.active);
    cr_expect_eq(dev->write_word(other, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->graph.capture_end(origin, &graph), TT_DEV_CAPTURE);
    cr_expect_null(graph);
    cr_expect_not_null(strstr(dev->why(), "not joined"), "%s", dev->why());
    cr_expect(dev->stream.capture(other, &capture) == TT_DEV_OK && !capture.active);
    cr_expect(dev->write_word(other, &rig_words[0], 1) == TT_DEV_OK);
    rig_ends(other);
}

static void *end_elsewhere(void *stream)
{
    void *graph;
    cr_expect_eq(dev->graph.capture_end(stream, &graph), TT_DEV_CAPTURE);
    return NULL;
}

Test(stub_graph, a_capture_ends_where_it_began)
{
    void *graph;
    pthread_t thread;
    rig_start("");
    void *origin = rig_stream(), *other = rig_stream(), *event = event_new();
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, other, false), TT_DEV_OK);
    cr_expect_eq(dev->graph.capture_end(other, &graph), TT_DEV_CAPTURE, "on another stream");
    cr_expect_eq(dev->graph.capture_end(origin, &graph), TT_DEV_CAPTURE, "that broke it");
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    pthread_create(&thread, NULL, end_elsewhere, origin);
    pthread_join(thread, NULL);
    cr_expect_eq(dev->graph.capture_end(origin, &graph), TT_DEV_CAPTURE, "so did another thread");
    cr_expect_eq(dev->graph.capture_end(origin, &graph), TT_DEV_CAPTURE, "there is none any more");
}

/* External: at each replay the graph waits for what was recorded before the launch, and records for those who
 * wait after it. */
Test(stub_graph, external_events)
{
    rig_start("");
    void *stream = rig_stream(), *outside = rig_stream(), *before = event_new(), *after = event_new();
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(before, stream, true), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(after, stream, true), TT_DEV_OK);
    void *runnable = end_capture(stream);
    cr_expect_eq(dev->event.destroy(before), TT_DEV_OK, "the graph keeps it");
    cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    rig_ends(stream);
    cr_expect_eq(rig_words[1], 1);

    before = event_new();
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(before, stream, true), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[2], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(after, stream, true), TT_DEV_OK);
    runnable = end_capture(stream);
    cr_expect_eq(dev->wait_word(outside, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(before, outside, false), TT_DEV_OK);
    cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    cr_expect_eq(dev->event.query(after), TT_DEV_NOT_READY);
    rig_hangs(stream);
    void *late = rig_stream();
    cr_expect_eq(dev->event.wait(after, late, false), TT_DEV_OK);
    rig_hangs(late);
    rig_open_word(&rig_words[0], 1);
    rig_ends(late);
    cr_expect_eq(rig_words[2], 1);
}

/* One branch records, another one waits: in the same launch they do not meet. */
Test(stub_graph, external_waits_are_not_for_the_graph_itself)
{
    rig_start("queues=8");
    void *origin = rig_stream(), *other = rig_stream();
    void *forked = event_new(), *joined = event_new(), *moment = event_new();
    cr_assert_eq(dev->graph.capture_begin(origin), TT_DEV_OK);
    cr_expect_eq(dev->event.record(forked, origin, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(forked, other, false), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(origin, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(moment, origin, true), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(moment, other, true), TT_DEV_OK);
    cr_expect_eq(dev->write_word(other, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(joined, other, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(joined, origin, false), TT_DEV_OK);
    void *runnable = end_capture(origin);
    cr_expect_eq(dev->graph.launch(runnable, origin), TT_DEV_OK);
    rig_hangs(origin);
    cr_expect_eq(__atomic_load_n(&rig_words[1], __ATOMIC_ACQUIRE), 1);
    rig_open_word(&rig_words[0], 1);
    rig_ends(origin);
}

static void broken_by(enum tt_dev_error error, void *stream)
{
    void *graph = NULL;
    struct tt_dev_capture capture;
    cr_expect_eq(error, TT_DEV_CAPTURE, "it is legal, and should not be");
    cr_expect(dev->stream.capture(stream, &capture) == TT_DEV_OK && !capture.active && capture.broken);
    cr_expect_eq(dev->write_word(stream, &rig_words[0], 1), TT_DEV_CAPTURE);
    cr_expect_eq(dev->graph.capture_end(stream, &graph), TT_DEV_CAPTURE);
    cr_expect(dev->stream.capture(stream, &capture) == TT_DEV_OK && !capture.active);
    cr_expect_eq(dev->graph.capture_begin(stream), TT_DEV_OK, "a new one can begin");
}

static void *query_elsewhere(void *event)
{
    cr_expect_eq(dev->event.query(event), TT_DEV_OK, "that disturbs nobody");
    return NULL;
}

static void *sync_elsewhere(void *stream)
{
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_CAPTURE);
    return NULL;
}

Test(stub_graph, calls_that_break_a_capture)
{
    void *ptr = NULL, *graph = NULL, *blocking;
    pthread_t thread;
    rig_start("");
    void *stream = rig_stream(), *other = rig_stream(), *event = event_new(), *inside = event_new();
    cr_assert_eq(stub->stream_create_blocking(&blocking), TT_DEV_OK);
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    broken_by(dev->memory.alloc(8, &ptr), stream);
    broken_by(dev->memory.alloc_pinned(8, &ptr), stream);
    broken_by(dev->memory.free(ptr), stream);
    broken_by(dev->stream.query(stream), stream);
    broken_by(dev->stream.sync(other), stream);
    broken_by(dev->event.wait(event, stream, false), stream);
    cr_expect_eq(dev->event.record(inside, stream, false), TT_DEV_OK);
    broken_by(dev->event.wait(inside, NULL, false), stream);
    pthread_create(&thread, NULL, query_elsewhere, event);
    pthread_join(thread, NULL);
    cr_expect_eq(dev->write_word(stream, &rig_words[0], 1), TT_DEV_OK, "the capture goes on");
    pthread_create(&thread, NULL, sync_elsewhere, other);
    pthread_join(thread, NULL);
    broken_by(TT_DEV_CAPTURE, stream);
    cr_expect_eq(dev->stream.destroy(stream), TT_DEV_INVALID);
    cr_expect_eq(dev->write_word(NULL, &rig_words[0], 1), TT_DEV_OK, "its streams wait for none");
    cr_expect_eq(dev->graph.capture_begin(blocking), TT_DEV_OK);
    broken_by(dev->write_word(NULL, &rig_words[0], 1), blocking);
    cr_expect_eq(dev->graph.capture_end(blocking, &graph), TT_DEV_OK);
    cr_expect_eq(dev->graph.capture_end(stream, &graph), TT_DEV_OK);
    cr_expect_eq(dev->graph.capture_begin(NULL), TT_DEV_CAPTURE);
    cr_expect_eq(dev->event.query(inside), TT_DEV_CAPTURE);
    cr_expect_eq(dev->event.wait(inside, other, false), TT_DEV_CAPTURE, "its capture is over");
}

Test(stub_graph, two_captures_do_not_mix)
{
    void *graph = NULL;
    rig_start("");
    void *first = rig_stream(), *second = rig_stream(), *event = event_new();
    cr_assert_eq(dev->graph.capture_begin(first), TT_DEV_OK);
    cr_assert_eq(dev->graph.capture_begin(second), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, first, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, second, false), TT_DEV_CAPTURE);
    cr_expect_eq(dev->graph.capture_end(first, &graph), TT_DEV_CAPTURE);
    cr_expect_eq(dev->graph.capture_end(second, &graph), TT_DEV_CAPTURE);
}

Test(stub_graph, what_is_retained_is_released_last)
{
    uint32_t released = 0;
    void *graph, *runnable;
    struct tt_dev_capture capture;
    rig_start("");
    void *stream = rig_stream();
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_assert_eq(dev->stream.capture(stream, &capture), TT_DEV_OK);
    cr_expect_eq(dev->graph.retain(capture.graph, count_up, &released), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 1), TT_DEV_OK);
    cr_assert_eq(dev->graph.capture_end(stream, &graph), TT_DEV_OK);
    cr_expect_eq(graph, capture.graph);
    cr_assert_eq(dev->graph.instantiate(graph, &runnable), TT_DEV_OK);
    cr_assert_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    cr_expect_eq(dev->graph.destroy(graph), TT_DEV_OK);
    cr_expect_eq(dev->graph.retain(graph, count_up, &released), TT_DEV_INVALID);
    cr_expect_eq(dev->graph.runnable_destroy(runnable), TT_DEV_OK);
    rig_hangs(stream);
    cr_expect_eq(__atomic_load_n(&released, __ATOMIC_RELAXED), 0);
    rig_open_word(&rig_words[0], 1);
    for (int ms = 0; ms < ENOUGH_MS && __atomic_load_n(&released, __ATOMIC_RELAXED) == 0; ms += LONG_MS)
        rig_sleep();
    cr_expect_eq(__atomic_load_n(&released, __ATOMIC_RELAXED), 1);
}

/* A graph that is replayed after its memory was freed breaks the device, as an illegal address does. */
Test(stub_graph, memory_that_is_freed_before_the_replay)
{
    char *device;
    rig_start("");
    void *stream = rig_stream();
    cr_assert_eq(dev->memory.alloc(100, (void **)&device), TT_DEV_OK);
    cr_assert_eq(dev->graph.capture_begin(stream), TT_DEV_OK);
    cr_expect_eq(dev->fill(device, 9, 100, stream), TT_DEV_OK);
    void *runnable = end_capture(stream);
    cr_expect_eq(dev->memory.free(device), TT_DEV_OK);
    cr_expect_eq(dev->graph.launch(runnable, stream), TT_DEV_OK);
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_BROKEN);
}
