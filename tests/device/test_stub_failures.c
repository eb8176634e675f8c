/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stub_failures.c: the stub counts calls, lets them fail when told, is late by chance, and breaks. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "stub_rig.h"

TestSuite(stub_failures, .init = rig_limit_time);

static void never(void *argument)
{
    (void)argument;
    abort();
}

Test(stub_failures, environment_names_an_error)
{
    void *ptr;
    setenv("STUB_GPU", "fail=alloc:1:no_memory,fail=free:1:broken", 1);
    rig_open();
    cr_expect_not(stub->configure("fail=alloc:1:no_such_error"));
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_NO_MEMORY);
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_OK);
    cr_expect(dev->memory.free(ptr) == TT_DEV_BROKEN && dev->memory.free(ptr) == TT_DEV_BROKEN);
}

Test(stub_failures, calls_are_counted_and_fail_when_told)
{
    rig_start("");
    void *stream = rig_stream(), *ptr = NULL;
    uint64_t before = stub->calls("write_word"), allocations = stub->calls("alloc");
    for (int i = 0; i < 7; i++)
        cr_expect_eq(dev->write_word(stream, rig_words, 1), TT_DEV_OK);
    cr_expect(stub->calls("write_word") == before + 7 && stub->calls("alloc") == allocations);
    cr_expect_eq(stub->calls("allocate"), UINT64_MAX);
    cr_expect(stub->fail("alloc", 2, TT_DEV_NO_MEMORY) && !stub->fail("allocate", 2, TT_DEV_NO_MEMORY));
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_OK);
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_NO_MEMORY);
    cr_expect_eq(strncmp(dev->why(), "alloc: ", 7), 0);
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_OK);
}

/* At least 100 ms, as this seed has it. */
Test(stub_failures, work_is_late_by_chance)
{
    void *begin, *end;
    float ms = 0;
    rig_start("word_delay=100000,seed=7");
    void *stream = rig_stream();
    cr_assert(dev->event.create(true, &begin) == TT_DEV_OK && dev->event.create(true, &end) == TT_DEV_OK);
    cr_expect_eq(dev->event.record(begin, stream, false), TT_DEV_OK);
    for (int i = 0; i < 6; i++)
        cr_expect_eq(dev->write_word(stream, rig_words, 1), TT_DEV_OK);
    cr_expect_eq(dev->event.record(end, stream, false), TT_DEV_OK);
    rig_ends(stream);
    cr_expect(dev->event.elapsed(begin, end, &ms) == TT_DEV_OK && ms >= 100, "%g ms", ms);
}

/* Each function of the table fails when told, whatever it is asked for, and says its name (in the stub). */
#define FAILS(function, name, ...)                                                                           \
    cr_expect(stub->fail(#name, 1, TT_DEV_UNSUPPORTED));                                                     \
    cr_expect_eq(dev->function(__VA_ARGS__), TT_DEV_UNSUPPORTED, #name " does not fail");                    \
    cr_expect_eq(strncmp(dev->why(), #name ": ", sizeof #name + 1), 0, "%s", dev->why());                    \
    fallible--

Test(stub_failures, every_function_fails_when_told)
{
    int fallible = (int)((sizeof *dev - offsetof(struct tt_dev, count)) / sizeof(void (*)(void))), n;
    void *p = NULL;
    float ms;
    bool reached;
    struct tt_dev_facts facts;
    struct tt_dev_pointer what;
    struct tt_dev_capture capture;
    struct tt_dev_launch launch = { 0 };
    struct tt_dev_segment segment = { 0 };
    uintptr_t base;
    struct tt_dev_export export = { 0 };
    rig_start("");
    FAILS(count, count, &n);
    FAILS(facts, facts, 0, &facts);
    FAILS(current, current, &n);
    FAILS(use, use, 0);
    FAILS(reaches, reaches, 0, "stub:01.0", &reached);
    FAILS(memory.alloc, alloc, 8, &p);
    FAILS(memory.free, free, NULL);
    FAILS(memory.alloc_managed, alloc_managed, 8, &p);
    FAILS(memory.alloc_pinned, alloc_pinned, 8, &p);
    FAILS(memory.free_pinned, free_pinned, NULL);
    FAILS(memory.pin, pin, &n, sizeof n, &p);
    FAILS(memory.unpin, unpin, NULL);
    FAILS(memory.classify, classify, NULL, &what);
    FAILS(copy, copy, rig_words, rig_words, 4, NULL);
    FAILS(copy_rows, copy_rows, rig_words, 4, rig_words, 4, 4, 1, NULL);
    FAILS(fill, fill, rig_words, 0, 4, NULL);
    FAILS(stream.create, stream_create, &p);
    FAILS(stream.destroy, stream_destroy, p);
    FAILS(stream.query, stream_query, NULL);
    FAILS(stream.sync, stream_sync, NULL);
    FAILS(stream.device, stream_device, NULL, &n, &p);
    FAILS(stream.capture, stream_capture, NULL, &capture);
    FAILS(event.create, event_create, false, &p);
    FAILS(event.destroy, event_destroy, p);
    FAILS(event.record, event_record, p, NULL, false);
    FAILS(event.wait, event_wait, p, NULL, false);
    FAILS(event.query, event_query, p);
    FAILS(event.elapsed, event_elapsed, p, p, &ms);
    FAILS(write_word, write_word, NULL, rig_words, 1);
    FAILS(wait_word, wait_word, NULL, rig_words, 1);
    FAILS(host_call, host_call, NULL, never, &n);
    FAILS(preload, preload, );
    FAILS(occupancy, occupancy, 0, 32, 0, &n);
    FAILS(launch, launch, &launch, NULL);
    FAILS(segment.alloc, segment_alloc, 8, &segment);
    FAILS(segment.export, segment_export, &segment, &export);
    FAILS(segment.export_of, segment_export_of, &segment, &export, &base);
    FAILS(segment.import, segment_import, &export, &segment);
    FAILS(segment.free, segment_free, &segment);
    FAILS(graph.capture_begin, capture_begin, NULL);
    FAILS(graph.capture_end, capture_end, NULL, &p);
    FAILS(graph.retain, graph_retain, p, never, &n);
    FAILS(graph.destroy, graph_destroy, p);
    FAILS(graph.instantiate, graph_instantiate, p, &p);
    FAILS(graph.launch, graph_launch, p, NULL);
    FAILS(graph.runnable_destroy, runnable_destroy, p);
    fallible -= 2; /* range.begin and .end, which never fail */
    cr_expect_eq(fallible, 0, "the table has %d functions more", fallible);
    cr_expect_eq(rig_words[0], 0, "nothing was done");
}

Test(stub_failures, a_broken_device_stays_so)
{
    rig_start("");
    void *stream = rig_stream(), *ptr;
    cr_expect_eq(dev->wait_word(stream, rig_words, 1), TT_DEV_OK);
    cr_expect_eq(dev->write_word(stream, &rig_words[1], 1), TT_DEV_OK);
    cr_expect(stub->fail("copy", 1, TT_DEV_BROKEN));
    cr_expect_eq(dev->copy(rig_words, rig_words, 4, stream), TT_DEV_BROKEN);
    cr_expect_eq(dev->stream.sync(stream), TT_DEV_BROKEN, "and it does not wait for ever");
    rig_sleep();
    cr_expect_eq(__atomic_load_n(&rig_words[1], __ATOMIC_ACQUIRE), 0, "nothing is done any more");
    cr_expect_eq(dev->memory.alloc(8, &ptr), TT_DEV_BROKEN);
    cr_expect(dev->use(1) == TT_DEV_OK && dev->memory.alloc(8, &ptr) == TT_DEV_OK, "the other one works");
}

/* Its streams look at nothing any more: what a program then gives back to the system may be gone. */
Test(stub_failures, memory_of_a_broken_device_is_left_alone)
{
    void *seen, *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    rig_start("");
    void *stream = rig_stream();
    cr_assert_eq(dev->memory.pin(page, 4096, &seen), TT_DEV_OK);
    cr_expect_eq(dev->wait_word(stream, seen, 1), TT_DEV_OK);
    rig_hangs(stream);
    cr_expect(stub->fail("copy", 1, TT_DEV_BROKEN));
    cr_expect_eq(dev->copy(seen, rig_words, 4, stream), TT_DEV_BROKEN);
    rig_sleep();
    cr_expect_eq(munmap(page, 4096), 0);
    rig_sleep();
}
