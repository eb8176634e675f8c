/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub.c: the stub of a GPU's runtime: it does what a device does, and hangs where one does.
 *
 * What hangs is shown by a stream that is not ready after LONG_MS, and is once somebody helps it; that the
 * same program ends elsewhere shows that it was not merely slow. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stub_rig.h"

TestSuite(stub, .init = rig_limit_time);

/* --- What a device does. */

Test(stub, devices_and_their_facts)
{
    int n = 0, current = 0;
    struct tt_dev_facts facts[2];
    rig_open();
    cr_assert_null(tutti_device_table(TT_DEV_VERSION + 1));
    cr_assert(tt_stub()->configure("devices=2,memory=64"));
    cr_expect(dev->current(&current) == TT_DEV_OK && current == -1);
    cr_expect(dev->count(&n) == TT_DEV_OK && n == 2);
    cr_expect(dev->facts(0, &facts[0]) == TT_DEV_OK && dev->facts(1, &facts[1]) == TT_DEV_OK);
    cr_expect(strcmp(facts[0].address, facts[1].address) != 0 && facts[1].bytes == 64 << 20);
    cr_expect(dev->use(1) == TT_DEV_OK && dev->current(&current) == TT_DEV_OK && current == 1);
    cr_expect(dev->use(2) == TT_DEV_ABSENT && strstr(dev->why(), "device is 2") != NULL);
    cr_expect(dev->use(-1) == TT_DEV_OK && dev->current(&current) == TT_DEV_OK && current == -1);
    cr_expect_not(tt_stub()->configure("devices=1"), "it is too late");
}

Test(stub, thread_that_uses_no_device)
{
    int device = 7;
    void *context = &device;
    struct tt_dev_pointer what;
    rig_start("devices=2");
    cr_assert(dev->use(-1) == TT_DEV_OK);
    cr_expect_eq(dev->memory.classify(&what, &what), TT_DEV_INVALID);
    cr_expect(dev->stream.device(NULL, &device, &context) == TT_DEV_OK && device == -1 && context == NULL);
    cr_expect(dev->current(&device) == TT_DEV_OK && device == -1, "asking uses none");
    cr_expect_eq(dev->event.destroy(&what), TT_DEV_INVALID);
    cr_expect(dev->current(&device) == TT_DEV_OK && device == 0, "the runtime has chosen");
    cr_assert(dev->use(1) == TT_DEV_OK);
    cr_expect_eq(dev->memory.classify(&what, &what), TT_DEV_OK);
    cr_expect(dev->stream.device(NULL, &device, &context) == TT_DEV_OK && device == 1 && context != NULL);
}

Test(stub, no_device)
{
    int n = 0;
    void *ptr;
    rig_open();
    cr_assert(tt_stub()->configure("devices=0"));
    cr_expect(dev->count(&n) == TT_DEV_ABSENT && dev->memory.alloc(1, &ptr) == TT_DEV_ABSENT);
}

Test(stub, environment)
{
    int n = 0;
    setenv("STUB_GPU", "devices=3,fail=use:2", 1);
    rig_open();
    cr_expect(dev->count(&n) == TT_DEV_OK && n == 3);
    cr_expect(dev->use(0) == TT_DEV_OK && dev->use(0) == TT_DEV_INVALID && dev->use(0) == TT_DEV_OK);
    cr_expect(strcmp(dev->why(), "use: told to fail at its call 2") == 0, "%s", dev->why());
}

Test(stub, environment_that_is_wrong)
{
    int n = 0;
    setenv("STUB_GPU", "devices=3,queue=1", 1);
    rig_open();
    cr_expect(dev->count(&n) == TT_DEV_ABSENT && strstr(dev->why(), "queue=1") != NULL);
}

Test(stub, copies_and_fills_are_in_order)
{
    enum { N = 1000 };
    uint8_t *host, *device;
    rig_start("copy_delay=300");
    void *stream = rig_stream();
    cr_assert(dev->memory.alloc_pinned(4 * N, (void **)&host) == TT_DEV_OK &&
              dev->memory.alloc(4 * N, (void **)&device) == TT_DEV_OK);
    for (int i = 0; i < 2 * N; i++)
        host[i] = (uint8_t)(i * 7);
    for (int i = 0; i < 20; i++) {
        cr_expect_eq(dev->fill(device, i, 4 * N, stream), TT_DEV_OK);
        cr_expect_eq(dev->copy(device + N, host, N, stream), TT_DEV_OK);
    }
    /* four rows of 10 out of rows of 100 */
    cr_expect_eq(dev->copy_rows(device + 2 * N, 20, host, 100, 10, 4, stream), TT_DEV_OK);
    cr_expect_eq(dev->copy(host + 2 * N, device + N, 2 * N, stream), TT_DEV_OK);
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_OK);
    cr_expect_eq(memcmp(host + 2 * N, host, N), 0);
    for (int i = 0; i < 4 * 20; i++)
        cr_expect_eq(host[3 * N + i], i % 20 < 10 ? (uint8_t)((i / 20 * 100 + i % 20) * 7) : 19);
    cr_expect_eq(*(uint8_t *)stub->look(device), 19);
    cr_expect_null(stub->look(device + 4 * N));
}

Test(stub, enqueueing_returns_at_once)
{
    rig_start("copy_delay=0");
    void *stream = rig_stream();
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[1], 5), TT_DEV_OK);
    rig_hangs(stream);
    cr_expect_eq(rig_words[1], 0);
    rig_open_word(&rig_words[0], 1);
    rig_ends(stream);
    cr_expect_eq(rig_words[1], 5);
}

Test(stub, words_are_compared_in_a_circle)
{
    rig_start("");
    void *stream = rig_stream();
    rig_open_word(&rig_words[0], 2);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], UINT32_MAX), TT_DEV_OK);
    rig_ends(stream);
    cr_expect_eq(dev->wait_word(stream, &rig_words[0], 3), TT_DEV_OK);
    rig_hangs(stream);
    rig_open_word(&rig_words[0], 4);
    rig_ends(stream);
}

/* Parts that are mapped side by side are one, to who copies; where nothing is mapped nothing is reached. */
Test(stub, ranges_that_are_mapped_in_parts)
{
    enum { PART = 65536 };
    struct tt_dev_pointer first, third;
    rig_start("");
    void *stream = rig_stream();
    char *whole = stub->map_parts(PART, 3, -1), *with_hole = stub->map_parts(PART, 3, 1);
    cr_assert(whole != NULL && with_hole != NULL);
    cr_expect(dev->memory.classify(whole, &first) == TT_DEV_OK && first.base == (uintptr_t)whole);
    cr_expect(dev->memory.classify(whole + 2 * PART, &third) == TT_DEV_OK && third.bytes == PART);
    cr_expect(
        first.range == third.range && first.id != third.id && third.base == (uintptr_t)whole + 2 * PART);
    cr_expect_eq(dev->fill(whole, 3, 3 * PART, stream), TT_DEV_OK, "%s", dev->why());
    cr_expect_eq(dev->fill(whole + PART, 3, 2 * PART + 1, stream), TT_DEV_INVALID, "beyond the last");
    cr_expect_eq(dev->fill(with_hole, 3, PART + 1, stream), TT_DEV_INVALID, "into the hole");
    cr_expect_eq(dev->fill(with_hole + PART, 3, 1, stream), TT_DEV_INVALID, "in the hole");
    cr_expect_eq(dev->memory.classify(with_hole + PART, &first), TT_DEV_INVALID);
    cr_expect(dev->memory.classify(with_hole + 2 * PART, &first) == TT_DEV_OK);
    rig_ends(stream);
    cr_expect_eq(*(char *)stub->look(whole + 3 * PART - 1), 3);
}

Test(stub, kinds_of_memory)
{
    char pageable[8192], *device, *managed;
    void *seen, *stream, *later;
    struct tt_dev_pointer first, second, what;
    rig_start("");
    stream = rig_stream();
    cr_assert(dev->use(1) == TT_DEV_OK && dev->memory.alloc(1000, (void **)&device) == TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc(1000, &later), TT_DEV_OK);
    cr_assert_eq(dev->memory.alloc_managed(1000, (void **)&managed), TT_DEV_OK);
    cr_expect_eq(dev->memory.classify(device + 999, &first), TT_DEV_OK);
    cr_expect(first.kind == TT_DEV_DEVICE && first.device == 1 && first.bytes == 1000);
    cr_expect_eq(first.base, (uintptr_t)device);
    cr_expect(
        dev->memory.classify(managed, &what) == TT_DEV_OK && what.kind == TT_DEV_MANAGED && what.device == 1);
    cr_expect(dev->memory.classify(rig_words, &what) == TT_DEV_OK && what.kind == TT_DEV_PINNED &&
              what.device == -1);
    cr_expect(
        dev->memory.classify(pageable, &what) == TT_DEV_OK && what.kind == TT_DEV_HOST && what.base == 0);
    managed[0] = 1;

    cr_expect_eq(dev->copy(device, pageable, 100, stream), TT_DEV_INVALID, "no copies of pageable memory");
    cr_expect_eq(dev->copy(device, rig_words, 1001, stream), TT_DEV_INVALID, "nor beyond the end");
    cr_expect_eq(dev->memory.pin(pageable, sizeof pageable, &seen), TT_DEV_OK);
    cr_expect_eq(dev->memory.pin(pageable + 100, 100, &seen), TT_DEV_INVALID, "it is pinned");
    cr_expect(dev->memory.classify(pageable + 5000, &what) == TT_DEV_OK && what.kind == TT_DEV_PINNED);
    cr_expect_eq(dev->copy(device, seen, 100, stream), TT_DEV_OK);
    rig_ends(stream); /* until then it uses both */
    cr_expect_eq(dev->memory.free_pinned(pageable), TT_DEV_INVALID, "it was not allocated");
    cr_expect_eq(dev->memory.unpin(pageable), TT_DEV_OK);

    cr_expect_eq(dev->memory.free(device + 8), TT_DEV_INVALID);
    cr_expect_eq(dev->memory.free(device), TT_DEV_OK);
    cr_expect_eq(dev->memory.free(device), TT_DEV_INVALID);
    void *again;
    cr_expect_eq(dev->memory.alloc(1000, &again), TT_DEV_OK);
    cr_expect_eq(again, device, "addresses are used again");
    cr_expect(dev->memory.classify(again, &second) == TT_DEV_OK && second.id != first.id);
}

Test(stub, pinned_memory_with_another_address)
{
    static _Alignas(8) char mine[10000];
    void *seen, *again;
    struct tt_dev_pointer what;
    rig_start("one_address=0");
    void *stream = rig_stream();
    cr_assert_eq(dev->memory.pin(mine + 8, 9000, &seen), TT_DEV_OK);
    uint32_t *own = (uint32_t *)(mine + 8), *word = seen;
    cr_expect(word != own && dev->memory.classify(word, &what) == TT_DEV_OK && what.kind == TT_DEV_PINNED);
    cr_expect_eq(dev->write_word(stream, own, 5), TT_DEV_INVALID, "that is not the device's address");
    cr_expect_eq(dev->write_word(stream, word, 5), TT_DEV_OK);
    cr_expect_eq(dev->copy(own + 1, word, 4, stream), TT_DEV_OK, "copies may use both");
    cr_expect_eq(dev->copy((char *)seen + 8996, own, 4, stream), TT_DEV_OK);
    cr_expect_eq(dev->copy((char *)seen + 8997, own, 4, stream), TT_DEV_INVALID);
    rig_ends(stream);
    cr_expect(own[0] == 5 && own[1] == 5 && mine[9004] == 5 && mine[9008] == 0);
    cr_expect_eq(dev->memory.free_pinned(seen), TT_DEV_INVALID);
    cr_expect_eq(dev->memory.unpin(mine + 8), TT_DEV_OK);
    cr_expect_eq(dev->copy(word, rig_words, 4, stream), TT_DEV_INVALID);
    cr_expect(dev->memory.pin(mine + 8, 10, &again) == TT_DEV_OK && again == seen);
}

Test(stub, an_exhausted_device)
{
    void *first, *second;
    rig_start("memory=1");
    cr_expect_eq(dev->memory.alloc(600000, &first), TT_DEV_OK);
    cr_expect_eq(dev->memory.alloc(600000, &second), TT_DEV_NO_MEMORY);
    cr_expect_eq(dev->memory.free(first), TT_DEV_OK);
    cr_expect_eq(dev->memory.alloc(600000, &second), TT_DEV_OK);
}

Test(stub, events_order_streams)
{
    void *event, *begin, *end;
    float ms = -1;
    rig_start("");
    void *first = rig_stream(), *second = rig_stream();
    cr_assert(dev->event.create(false, &event) == TT_DEV_OK && dev->event.create(true, &begin) == TT_DEV_OK &&
              dev->event.create(true, &end) == TT_DEV_OK);
    cr_expect_eq(dev->event.record(begin, first, false), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, first, false), TT_DEV_OK);
    cr_expect_eq(dev->event.record(end, first, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, second, false), TT_DEV_OK);
    cr_expect_eq(dev->write_word(second, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.query(event), TT_DEV_NOT_READY);
    cr_expect_eq(dev->event.elapsed(begin, end, &ms), TT_DEV_NOT_READY);
    rig_hangs(second);
    rig_open_word(&rig_words[0], 1);
    rig_ends(second);
    rig_ends(first); /* `end` comes after `event` */
    cr_expect_eq(dev->event.query(event), TT_DEV_OK);
    cr_expect(dev->event.elapsed(begin, end, &ms) == TT_DEV_OK && ms >= LONG_MS / 2 && ms < ENOUGH_MS);
    cr_expect_eq(dev->event.elapsed(begin, event, &ms), TT_DEV_INVALID, "one is not timed");
    cr_expect_eq(dev->event.destroy(event), TT_DEV_OK);
    cr_expect_eq(dev->event.query(event), TT_DEV_INVALID);
}

Test(stub, default_streams)
{
    void *blocking, *free_one = NULL;
    rig_start("");
    cr_assert_eq(stub->stream_create_blocking(&blocking), TT_DEV_OK);
    free_one = rig_stream();
    cr_expect_eq(dev->stream.query(NULL), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(blocking, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->stream.query(NULL), TT_DEV_NOT_READY, "it would wait for the other");
    cr_expect_eq(dev->write_word(NULL, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(TT_DEV_STREAM_PER_THREAD, &rig_words[2], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(free_one, &rig_words[3], 1), TT_DEV_OK);
    rig_ends(free_one);
    rig_hangs(NULL);
    cr_expect_eq(dev->stream.query(TT_DEV_STREAM_PER_THREAD), TT_DEV_NOT_READY);
    cr_expect(rig_words[1] == 0 && rig_words[2] == 0 && rig_words[3] == 1);
    rig_open_word(&rig_words[0], 1);
    cr_expect_eq(dev->stream.sync(TT_DEV_STREAM_PER_THREAD), TT_DEV_OK);
    cr_expect(rig_words[1] == 1 && rig_words[2] == 1);
}

static void host_function(void *argument)
{
    uint32_t *seen = argument;
    void *ptr;
    seen[0] = 1 + (dev->memory.alloc(8, &ptr) == TT_DEV_INVALID);
}

Test(stub, functions_of_the_host)
{
    uint32_t seen = 0;
    rig_start("host_delay=2000");
    void *stream = rig_stream();
    cr_expect_eq(dev->host_call(stream, host_function, &seen), TT_DEV_OK);
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_OK);
    cr_expect_eq(seen, 2, "it was called, and could not use the table");
}

Test(stub, streams_that_are_none)
{
    int device = -1;
    void *event, *context;
    rig_start("");
    void *stream = rig_stream();
    cr_expect(dev->use(1) == TT_DEV_OK);
    cr_expect(dev->stream.device(stream, &device, &context) == TT_DEV_OK && device == 0);
    cr_expect_eq(dev->write_word(stream, rig_words, 1), TT_DEV_INVALID, "the stream is of another device");
    cr_assert_eq(dev->event.create(false, &event), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, stream, false), TT_DEV_INVALID, "as for this event");
    cr_expect_eq(dev->stream.destroy(stream), TT_DEV_OK);
    cr_expect_eq(dev->stream.query(stream), TT_DEV_INVALID);
    cr_expect_eq(dev->stream.destroy(NULL), TT_DEV_INVALID);
}

/* What was made in a context is of that, and so are the default streams. */
Test(stub, a_context_of_the_users_own)
{
    int device;
    void *event, *first, *contexts[3];
    rig_start("devices=2");
    cr_assert_eq(dev->event.create(false, &event), TT_DEV_OK);
    first = rig_stream();
    stub->own_context(true);
    void *second = rig_stream(), *const streams[] = { first, second, NULL };
    for (int i = 0; i < 3; i++)
        cr_expect(dev->stream.device(streams[i], &device, &contexts[i]) == TT_DEV_OK && device == 0);
    cr_expect(contexts[0] != contexts[1] && contexts[1] == contexts[2]);
    cr_expect_eq(dev->event.record(event, second, false), TT_DEV_INVALID);
    cr_expect_not_null(strstr(dev->why(), "contexts"), "%s", dev->why());
    cr_expect_eq(dev->event.record(event, NULL, false), TT_DEV_INVALID);
    cr_expect_eq(dev->event.record(event, TT_DEV_STREAM_PER_THREAD, false), TT_DEV_INVALID);
    cr_expect_eq(dev->event.record(event, first, false), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, second, false), TT_DEV_OK, "a wait may cross");
    cr_expect_eq(dev->wait_word(NULL, &rig_words[0], 1), TT_DEV_OK);
    stub->own_context(false);
    cr_expect_eq(dev->event.record(event, NULL, false), TT_DEV_OK);
    rig_ends(NULL);
    stub->own_context(true);
    rig_hangs(NULL);
    rig_open_word(&rig_words[0], 1);
    rig_ends(NULL);
    cr_expect(
        dev->use(0) == TT_DEV_OK && dev->event.record(event, NULL, false) == TT_DEV_INVALID, "it stays");
    cr_expect(dev->use(1) == TT_DEV_OK && dev->use(0) == TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, NULL, false), TT_DEV_OK, "it is left with the device");
}

/* --- Hazards. */

/* A handle names another stream when it is given again; what the old one has to do is not over. */
Test(stub, the_handle_of_a_stream_that_is_gone)
{
    rig_start("");
    void *first = rig_stream();
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(first, &rig_words[1], 1), TT_DEV_OK);
    cr_expect_eq(dev->stream.destroy(first), TT_DEV_OK);
    void *second = rig_stream();
    cr_expect_eq(second, first);
    rig_ends(second);
    cr_expect_eq(__atomic_load_n(&rig_words[1], __ATOMIC_ACQUIRE), 0, "the old stream still waits");
    rig_open_word(&rig_words[0], 1);
    while (__atomic_load_n(&rig_words[1], __ATOMIC_ACQUIRE) == 0)
        rig_sleep();
}

/* A wait is submitted before what ends it, on another stream. With one queue that never comes to run. */
static void wait_before_its_end(const char *text, bool hang)
{
    rig_start(text);
    void *first = rig_stream(), *second = rig_stream();
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(second, &rig_words[0], 1), TT_DEV_OK);
    (hang ? rig_hangs : rig_ends)(first);
    rig_open_word(&rig_words[0], 1);
    rig_ends(first);
}

Test(stub, wait_before_its_end_8_queues)
{
    wait_before_its_end("queues=8", false);
}

Test(stub, wait_before_its_end_2_queues)
{
    wait_before_its_end("queues=2", false);
}

Test(stub, wait_before_its_end_1_queue)
{
    wait_before_its_end("queues=1", true);
}

/* The ninth stream has the queue of the first. */
Test(stub, more_streams_than_queues)
{
    void *streams[9];
    rig_start("queues=8");
    for (int i = 0; i < 9; i++)
        streams[i] = rig_stream();
    cr_expect_eq(dev->wait_word(streams[0], &rig_words[0], 1), TT_DEV_OK);
    for (int i = 1; i < 9; i++)
        cr_expect_eq(dev->write_word(streams[i], &rig_words[i], 1), TT_DEV_OK);
    for (int i = 1; i < 8; i++)
        rig_ends(streams[i]);
    rig_hangs(streams[8]);
    rig_open_word(&rig_words[0], 1);
    rig_ends(streams[8]);
}

Test(stub, wait_for_an_event_that_nobody_recorded)
{
    void *event;
    rig_start("");
    void *stream = rig_stream(), *other = rig_stream();
    cr_assert_eq(dev->event.create(false, &event), TT_DEV_OK);
    cr_expect_eq(dev->event.query(event), TT_DEV_OK);
    cr_expect_eq(dev->event.wait(event, stream, false), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(other, &rig_words[0], 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(event, other, false), TT_DEV_OK, "it comes too late");
    rig_ends(stream);
    rig_open_word(&rig_words[0], 1);
}

static void wait_on_the_host(void *word)
{
    while (__atomic_load_n((uint32_t *)word, __ATOMIC_ACQUIRE) == 0)
        rig_sleep();
}

/* A function of the host that waits holds up those of all streams. */
Test(stub, a_function_of_the_host_that_waits)
{
    uint32_t seen = 0;
    rig_start("");
    void *first = rig_stream(), *second = rig_stream();
    cr_expect_eq(dev->host_call(first, wait_on_the_host, &rig_words[0]), TT_DEV_OK);
    rig_sleep();
    cr_expect_eq(dev->host_call(second, host_function, &seen), TT_DEV_OK);
    rig_hangs(second);
    rig_open_word(&rig_words[0], 1);
    rig_ends(second);
}

static void call_alloc(void *stream)
{
    void *ptr;
    cr_expect(dev->memory.alloc(8, &ptr) == TT_DEV_OK || stream == NULL);
}

static void call_write(void *stream)
{
    cr_expect_eq(dev->write_word(stream, &rig_words[9], 1), TT_DEV_OK);
}

static void call_write_there(void *stream)
{
    cr_expect_eq(dev->use(1), TT_DEV_OK);
    call_write(stream);
}

/* An allocation waits for a stream that waits for what another thread would enqueue, which waits for the
 * allocation. */
Test(stub, allocation_while_a_stream_waits)
{
    struct rig_call alloc, write;
    rig_start("");
    void *first = rig_stream(), *second = rig_stream();
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    rig_call(&alloc, call_alloc, first);
    rig_call_hangs(&alloc);
    rig_call(&write, call_write, second);
    rig_call_hangs(&write);
    rig_open_word(&rig_words[0], 1);
    rig_call_ends(&alloc);
    rig_call_ends(&write);
}

/* On one device that keeps the others from enqueueing too, unless each device has a lock of its own. */
static void write_on_the_other(bool one_lock)
{
    struct rig_call alloc, write;
    rig_start(one_lock ? "devices=2" : "devices=2,lock=device");
    void *first = rig_stream();
    cr_expect_eq(dev->use(1), TT_DEV_OK);
    void *second = rig_stream();
    cr_expect_eq(dev->use(0), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    rig_call(&alloc, call_alloc, first);
    rig_call_hangs(&alloc);
    rig_call(&write, call_write_there, second);
    if (one_lock)
        rig_call_hangs(&write);
    else
        rig_call_ends(&write);
    rig_open_word(&rig_words[0], 1);
    rig_call_ends(&alloc);
    if (one_lock)
        rig_call_ends(&write);
}

Test(stub, one_lock_for_all_devices)
{
    write_on_the_other(true);
}

Test(stub, a_lock_for_each_device)
{
    write_on_the_other(false);
}

/* What is enqueued on a full queue waits, and so does all else that is enqueued meanwhile. */
Test(stub, a_full_queue)
{
    struct rig_call full, other;
    rig_start("depth=10");
    void *first = rig_stream(), *second = rig_stream();
    cr_expect_eq(dev->wait_word(first, &rig_words[0], 1), TT_DEV_OK);
    for (int i = 0; i < 9; i++)
        cr_expect_eq(dev->write_word(first, &rig_words[1], 1), TT_DEV_OK);
    rig_call(&full, call_write, first);
    rig_call_hangs(&full);
    rig_call(&other, call_write, second);
    rig_call_hangs(&other);
    rig_open_word(&rig_words[0], 1);
    rig_call_ends(&full);
    rig_call_ends(&other);
    rig_ends(first);
}

/* The signal that ends a child which does something to an address. */
static int child_ends_by(void (*act)(volatile char *), char *at)
{
    int status = 0;
    pid_t child = rig_fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL);
        act(at);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void read_it(volatile char *at)
{
    (void)at[0];
}

static void write_it(volatile char *at)
{
    at[0] = 1;
}

Test(stub, the_host_reaches_for_device_memory)
{
    char *device, *managed;
    rig_start("");
    cr_assert(dev->memory.alloc(100, (void **)&device) == TT_DEV_OK &&
              dev->memory.alloc_managed(100, (void **)&managed) == TT_DEV_OK);
    cr_expect_eq(child_ends_by(read_it, device), SIGSEGV);
    cr_expect_eq(child_ends_by(write_it, device), SIGSEGV);
    cr_expect_eq(child_ends_by(write_it, managed), 0);
}

static void use_it(volatile char *at)
{
    int n;
    if (dev->count(&n) != TT_DEV_INVALID || at == NULL)
        abort();
}

Test(stub, a_child_of_fork_has_no_device)
{
    rig_start("");
    cr_expect_eq(child_ends_by(use_it, (char *)rig_words), 0);
}
