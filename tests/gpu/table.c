/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c: does the device table of a plugin do what lib/base/dev.h says, on this machine's device?
 *
 * Every function is called, with what Tutti relies on: bytes that arrive, order, what is still under way, who
 * sees which word. tests/device/test_stub*.c asks the same of the stub, and more than a device can be asked;
 * this is what tells whether a device keeps it, too. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu.h"
#include "kernels/cuda/cuda_kernels.h"
#include "table_segments.h"

enum { BYTES = 300007, KINDS = 4, NEVER = 9999 };

static void fill_pattern(uint8_t *bytes, uint64_t count, uint32_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i * 131 + seed) ^ i >> 8);
}

static void same(struct gpu_me *me, const uint8_t *got, const uint8_t *want, uint64_t bytes, const char *what)
{
    for (uint64_t i = 0; i < bytes; i++)
        gpu_expect(me, got[i] == want[i], "%s: byte %llu of %llu is 0x%02x and not 0x%02x", what,
            (unsigned long long)i, (unsigned long long)bytes, got[i], want[i]);
}

static void pending(struct gpu_me *me, void *stream, const char *what)
{
    gpu_expect(
        me, me->dev->stream.query(stream) == TT_DEV_NOT_READY, "%s: the stream is not under way", what);
}

/* --- Devices */

static void devices(struct gpu_me *me)
{
    int n = 0, current = 7;
    struct tt_dev_facts facts;
    gpu_expect(me, me->dev->version == TT_DEV_VERSION, "version %u", me->dev->version);
    gpu_expect(me, me->dev->describe()[0] != '\0', "describe says nothing");
    gpu_fine(me, me->dev->count(&n), "count");
    gpu_number(me, "devices", n);
    for (int i = 0; i < n; i++) {
        gpu_fine(me, me->dev->facts(i, &facts), "facts");
        gpu_expect(me, facts.name[0] != '\0' && facts.address[0] != '\0', "device %d has no name", i);
        gpu_expect(me, facts.capability >= 10 && facts.sms > 0 && facts.bytes > 0, "device %d: sm_%d, %d", i,
            facts.capability, facts.sms);
    }
    gpu_fine(me, me->dev->current(&current), "current");
    gpu_expect(me, current == -1, "a thread that used no device has device %d", current);
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_fine(me, me->dev->current(&current), "current");
    gpu_expect(me, current == me->device, "after use of %d the device is %d", me->device, current);
    for (int i = 0; i < 2; i++) { /* as each call of a thread that has chosen none */
        gpu_fine(me, me->dev->use(-1), "use of none");
        gpu_fine(me, me->dev->current(&current), "current");
        gpu_expect(me, current == -1, "after use of none the device is %d", current);
        gpu_fine(me, me->dev->use(me->device), "use again");
        gpu_fine(me, me->dev->current(&current), "current");
        gpu_expect(me, current == me->device, "after use of %d again the device is %d", me->device, current);
    }
    gpu_expect(me, me->dev->use(NEVER) != TT_DEV_OK, "there is a device %d", NEVER);
    gpu_expect(me, me->dev->why()[0] != '\0', "why says nothing");
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    gpu_number(me, "capability", facts.capability);
    gpu_number(me, "multiprocessors", facts.sms);
    gpu_number(me, "memory_gb", 1e-9 * (double)facts.bytes);
    gpu_number(me, "words", facts.words);
    gpu_number(me, "managed", facts.managed);
    gpu_number(me, "fds", facts.fds);
    gpu_number(me, "shared_context", facts.shared_context);
}

/* --- Memory */

static void release(struct gpu_me *me, enum tt_dev_kind kind, void *memory)
{
    enum tt_dev_error error =
        kind == TT_DEV_PINNED ? me->dev->memory.free_pinned(memory) : me->dev->memory.free(memory);
    gpu_fine(me, error, "free");
}

static void copies(struct gpu_me *me)
{
    static const enum tt_dev_kind kinds[] = { TT_DEV_DEVICE, TT_DEV_MANAGED, TT_DEV_PINNED };
    static const uint64_t lengths[] = { 1, 4, 4095, BYTES };
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    uint8_t *given = gpu_alloc(me, TT_DEV_PINNED, BYTES), *back = gpu_alloc(me, TT_DEV_PINNED, BYTES);
    for (int i = 0; i < 9; i++) {
        uint8_t *first = gpu_alloc(me, kinds[i / 3], BYTES), *second = gpu_alloc(me, kinds[i % 3], BYTES);
        for (int l = 0; l < 4; l++) {
            fill_pattern(given, BYTES, (uint32_t)(i * 4 + l));
            memset(back, 0, BYTES);
            gpu_fine(me, me->dev->copy(first, given, lengths[l], stream), "copy");
            gpu_fine(me, me->dev->copy(second, first, lengths[l], stream), "copy");
            gpu_fine(me, me->dev->copy(back, second, lengths[l], stream), "copy");
            gpu_sync(me, stream);
            same(me, back, given, lengths[l], "a copy through memory of two kinds");
        }
        release(me, kinds[i / 3], first);
        release(me, kinds[i % 3], second);
    }
    gpu_fine(me, me->dev->stream.destroy(stream), "stream_destroy");
}

static void rows(struct gpu_me *me)
{
    enum { ROW = 1000, HERE = 1024, THERE = 2048, COUNT = 37 };
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    uint8_t *given = gpu_alloc(me, TT_DEV_PINNED, COUNT * HERE),
            *device = gpu_alloc(me, TT_DEV_DEVICE, COUNT * THERE);
    uint8_t *back = gpu_alloc(me, TT_DEV_PINNED, COUNT * HERE);
    fill_pattern(given, COUNT * HERE, 5);
    memset(back, 7, COUNT * HERE);
    gpu_fine(me, me->dev->copy_rows(device, THERE, given, HERE, ROW, COUNT, stream), "copy_rows");
    gpu_fine(me, me->dev->copy_rows(back, HERE, device, THERE, ROW, COUNT, stream), "copy_rows");
    gpu_sync(me, stream);
    for (int row = 0; row < COUNT; row++) {
        same(me, back + row * HERE, given + row * HERE, ROW, "a row");
        for (int i = ROW; i < HERE; i++)
            gpu_expect(me, back[row * HERE + i] == 7, "row %d: something is written behind it", row);
    }
}

static void fills(struct gpu_me *me)
{
    static const uint64_t lengths[] = { 1, 3, 4096, BYTES };
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    uint8_t *device = gpu_alloc(me, TT_DEV_DEVICE, BYTES + 1),
            *back = gpu_alloc(me, TT_DEV_PINNED, BYTES + 1);
    for (int i = 0; i < 4; i++) {
        gpu_fine(me, me->dev->fill(device, 1, BYTES + 1, stream), "fill");
        gpu_fine(me, me->dev->fill(device, 0xa0 + i, lengths[i], stream), "fill");
        gpu_fine(me, me->dev->copy(back, device, BYTES + 1, stream), "copy");
        gpu_sync(me, stream);
        for (uint64_t at = 0; at <= BYTES; at++)
            gpu_expect(me, back[at] == (at < lengths[i] ? 0xa0 + i : 1), "fill of %llu: byte %llu is 0x%02x",
                (unsigned long long)lengths[i], (unsigned long long)at, back[at]);
    }
}

static void pins(struct gpu_me *me)
{
    void *seen = NULL, *stream;
    struct tt_dev_pointer what;
    gpu_fine(me, me->dev->use(me->device), "use");
    stream = gpu_stream(me);
    uint8_t *device = gpu_alloc(me, TT_DEV_DEVICE, GPU_SHARED_BYTES), expected[GPU_SHARED_BYTES];
    gpu_fine(me, me->dev->memory.pin(me->shared, GPU_SHARED_BYTES, &seen), "pin");
    gpu_fine(me, me->dev->memory.classify(me->shared + 100, &what), "classify");
    gpu_expect(me, what.kind == TT_DEV_PINNED, "pinned memory is of kind %d", what.kind);
    fill_pattern(expected, GPU_SHARED_BYTES, 9);
    memcpy(me->shared, expected, GPU_SHARED_BYTES);
    gpu_fine(me, me->dev->copy(device, seen, GPU_SHARED_BYTES, stream), "copy");
    gpu_fine(me, me->dev->fill(seen, 0, GPU_SHARED_BYTES, stream), "fill");
    gpu_fine(me, me->dev->copy(seen, device, GPU_SHARED_BYTES, stream), "copy");
    gpu_sync(me, stream);
    same(me, me->shared, expected, GPU_SHARED_BYTES, "memory that was pinned");
    gpu_fine(me, me->dev->memory.unpin(me->shared), "unpin");
    gpu_fine(me, me->dev->memory.classify(me->shared, &what), "classify");
    gpu_expect(me, what.kind == TT_DEV_HOST, "after unpin it is of kind %d", what.kind);
}

static void classifies(struct gpu_me *me)
{
    static const enum tt_dev_kind kinds[] = { TT_DEV_DEVICE, TT_DEV_MANAGED, TT_DEV_PINNED };
    struct tt_dev_pointer what, again;
    int local = 0;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_stream(me);
    gpu_fine(me, me->dev->memory.classify(&local, &what), "classify");
    gpu_expect(me, what.kind == TT_DEV_HOST && what.device == -1, "the stack is of kind %d, device %d",
        what.kind, what.device);
    for (int i = 0; i < 3; i++) {
        uint8_t *memory = gpu_alloc(me, kinds[i], BYTES);
        gpu_fine(me, me->dev->memory.classify(memory + BYTES - 1, &what), "classify");
        gpu_expect(me, what.kind == kinds[i], "kind %d is told as %d", kinds[i], what.kind);
        gpu_expect(me, kinds[i] == TT_DEV_PINNED || what.device == me->device, "kind %d is told of device %d",
            kinds[i], what.device);
        gpu_expect(me, kinds[i] != TT_DEV_DEVICE || (what.base == (uintptr_t)memory && what.bytes >= BYTES),
            "device memory has base %p and %llu bytes, and not %p and %d", (void *)what.base,
            (unsigned long long)what.bytes, (void *)memory, BYTES);
        release(me, kinds[i], memory);
        memory = gpu_alloc(me, kinds[i], BYTES); /* often at the same address */
        gpu_fine(me, me->dev->memory.classify(memory, &again), "classify");
        gpu_expect(me, again.id != what.id, "kind %d: two allocations have the id %llu", kinds[i],
            (unsigned long long)what.id);
        release(me, kinds[i], memory);
    }
    struct tt_dev_segment segment = { 0 };
    gpu_fine(me, me->dev->segment.alloc(BYTES, &segment), "segment_alloc");
    gpu_fine(me, me->dev->memory.classify((uint8_t *)segment.base + segment.bytes - 1, &what), "classify");
    gpu_expect(me,
        what.kind == TT_DEV_DEVICE && what.base == (uintptr_t)segment.base && what.range == what.base &&
            what.bytes == segment.bytes,
        "a segment is of kind %d, with base %p, %llu bytes, range %p", what.kind, (void *)what.base,
        (unsigned long long)what.bytes, (void *)what.range);
    gpu_fine(me, me->dev->segment.free(&segment), "segment_free");
}

static void exhausts(struct gpu_me *me)
{
    void *memory = me;
    gpu_fine(me, me->dev->use(me->device), "use");
    enum tt_dev_error error = me->dev->memory.alloc((size_t)1 << 46, &memory);
    gpu_expect(me, error == TT_DEV_NO_MEMORY, "alloc of 64 TiB gives error %d", error);
    gpu_expect(me, memory == me && me->dev->why()[0] != '\0', "why says nothing, or an output is set");
    gpu_alloc(me, TT_DEV_DEVICE, 4096); /* and the device goes on */
}

/* --- Streams, events, words */

static void streams(struct gpu_me *me)
{
    uint32_t *seen, *words;
    int device = 7;
    void *context, *first = NULL;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *all[] = { gpu_stream(me), TT_DEV_STREAM_PER_THREAD, NULL };
    for (int i = 0; i < 3; i++) {
        gpu_fine(me, me->dev->stream.device(all[i], &device, &context), "stream_device");
        gpu_expect(me, device == me->device, "stream %d is of device %d", i, device);
        first = i == 0 ? context : first;
        gpu_expect(me, context != NULL && context == first, "stream %d is of context %p", i, context);
        gpu_sync(me, all[i]);
        gpu_fine(me, me->dev->wait_word(all[i], seen + i, 1), "wait_word");
        pending(me, all[i], "a wait for a word");
        gpu_store(words + i, 1);
        gpu_sync(me, all[i]);
        gpu_fine(me, me->dev->stream.query(all[i]), "stream_query");
    }
    gpu_fine(me, me->dev->stream.destroy(all[0]), "stream_destroy");
}

/* A stream made here goes on while the legacy one waits. */
static void independent(struct gpu_me *me)
{
    uint32_t *seen, *words;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *own = gpu_stream(me);
    gpu_fine(me, me->dev->wait_word(NULL, seen, 1), "wait_word");
    gpu_fine(me, me->dev->write_word(own, seen + 16, 5), "write_word");
    gpu_sync(me, own);
    gpu_expect(me, gpu_load(words + 16) == 5, "the word is %u", gpu_load(words + 16));
    gpu_store(words, 1);
    gpu_sync(me, NULL);
}

static void events(struct gpu_me *me)
{
    uint32_t *seen, *words;
    void *plain, *begin, *finish;
    float ms = -1;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *first = gpu_stream(me), *second = gpu_stream(me);
    gpu_fine(me, me->dev->event.create(false, &plain), "event_create");
    gpu_fine(me, me->dev->event.create(true, &begin), "event_create");
    gpu_fine(me, me->dev->event.create(true, &finish), "event_create");
    gpu_fine(me, me->dev->event.wait(plain, second, false), "event_wait");
    gpu_sync(me, second); /* it was never recorded */
    gpu_fine(me, me->dev->event.record(begin, first, false), "event_record");
    gpu_fine(me, me->dev->wait_word(first, seen, 1), "wait_word");
    gpu_fine(me, me->dev->event.record(plain, first, false), "event_record");
    gpu_fine(me, me->dev->event.record(finish, first, false), "event_record");
    gpu_fine(me, me->dev->event.wait(plain, second, false), "event_wait");
    gpu_fine(me, me->dev->write_word(second, seen + 16, 1), "write_word");
    usleep(20000);
    gpu_expect(me, me->dev->event.query(plain) == TT_DEV_NOT_READY, "the event is over before its stream");
    gpu_expect(me, gpu_load(words + 16) == 0, "the second stream did not wait");
    gpu_store(words, 1);
    gpu_sync(me, second);
    gpu_sync(me, first);
    gpu_fine(me, me->dev->event.query(plain), "event_query");
    gpu_fine(me, me->dev->event.elapsed(begin, finish, &ms), "event_elapsed");
    gpu_expect(me, ms > 15 && ms < 20000, "what took over 20 ms took %g ms", (double)ms);
    gpu_fine(me, me->dev->event.destroy(plain), "event_destroy");
}

/* By a processor and by streams, in pinned and in device memory; compared as signed distances. */
static void words_pass(struct gpu_me *me)
{
    static const uint32_t passes[][2] = { { 5, 5 }, { 6, 5 }, { 2, 0xfffffff0 }, { 0x80000000, 0x7fffffff } };
    uint32_t *seen, *words;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *first = gpu_stream(me), *second = gpu_stream(me);
    for (int i = 0; i < 4; i++) {
        gpu_store(words, passes[i][0]);
        gpu_fine(me, me->dev->wait_word(first, seen, passes[i][1]), "wait_word");
        gpu_sync(me, first);
        gpu_store(words, passes[i][1] - 1);
        gpu_fine(me, me->dev->wait_word(first, seen, passes[i][1]), "wait_word");
        usleep(2000);
        pending(me, first, "a word that is one too small");
        gpu_store(words, passes[i][0]);
        gpu_sync(me, first);
    }
    uint32_t *device = gpu_alloc(me, TT_DEV_DEVICE, 64);
    gpu_fine(me, me->dev->fill(device, 0, 64, first), "fill");
    gpu_sync(me, first);
    gpu_fine(me, me->dev->wait_word(first, device + 3, 9), "wait_word");
    gpu_fine(me, me->dev->write_word(first, seen + 16, 1), "write_word");
    usleep(2000);
    gpu_expect(me, gpu_load(words + 16) == 0, "the stream did not wait for device memory");
    gpu_fine(me, me->dev->write_word(second, device + 3, 9), "write_word");
    gpu_sync(me, first);
    gpu_expect(me, gpu_load(words + 16) == 1, "the word is %u", gpu_load(words + 16));
}

/* A write is seen after all that was enqueued before it: a copy to pinned memory that it tells of. */
static void words_order(struct gpu_me *me)
{
    enum { ROUNDS = 200, PIECE = 32768 };
    uint32_t *seen, *words;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *stream = gpu_stream(me);
    uint8_t *device = gpu_alloc(me, TT_DEV_DEVICE, PIECE), *back = gpu_alloc(me, TT_DEV_PINNED, PIECE);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        gpu_fine(me, me->dev->fill(device, (int)i & 0xff, PIECE, stream), "fill");
        gpu_fine(me, me->dev->copy(back, device, PIECE, stream), "copy");
        gpu_fine(me, me->dev->write_word(stream, seen, i), "write_word");
        gpu_await(me, words, i, "a word that a stream writes");
        for (int at = 0; at < PIECE; at++)
            gpu_expect(me, back[at] == (i & 0xff), "round %u: the word came before byte %d", i, at);
    }
}

static void ring(void *word)
{
    gpu_store(word, gpu_load((uint32_t *)word + 1) + 1);
}

static void host_calls(struct gpu_me *me)
{
    uint32_t *seen, *words;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *stream = gpu_stream(me);
    gpu_fine(me, me->dev->wait_word(stream, seen + 16, 1), "wait_word");
    gpu_fine(me, me->dev->write_word(stream, seen + 1, 41), "write_word");
    gpu_fine(me, me->dev->host_call(stream, ring, words), "host_call");
    usleep(5000);
    gpu_expect(me, gpu_load(words) == 0, "the call was made before its turn");
    gpu_store(words + 16, 1);
    gpu_sync(me, stream);
    gpu_expect(me, gpu_load(words) == 42, "the call saw %u", gpu_load(words) - 1);
}

/* --- Kernels */

static void kernels(struct gpu_me *me)
{
    int blocks = -1;
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    uint8_t *given = gpu_alloc(me, TT_DEV_PINNED, BYTES), *back = gpu_alloc(me, TT_DEV_PINNED, BYTES);
    uint8_t *a = gpu_alloc(me, TT_DEV_DEVICE, BYTES), *b = gpu_alloc(me, TT_DEV_DEVICE, BYTES);
    fill_pattern(given, BYTES, 3);
    gpu_fine(me, me->dev->copy(a, given, BYTES, stream), "copy");
    gpu_fine(me, me->dev->fill(b, 0, BYTES, stream), "fill");
    enum tt_dev_error error = gpu_launch_copy(me, b + 1, a, BYTES - 1, 8, stream);
    if (error == TT_DEV_UNSUPPORTED)
        gpu_skip(me, "%s", me->dev->why());
    gpu_fine(me, error, "launch");
    gpu_fine(me, me->dev->copy(back, b, BYTES, stream), "copy");
    gpu_sync(me, stream);
    gpu_expect(me, back[0] == 0, "the kernel wrote before its memory");
    same(me, back + 1, given, BYTES - 1, "a copy by a kernel");
    gpu_fine(me, me->dev->preload(), "preload");
    gpu_fine(me, me->dev->occupancy(tt_kernel_number(TT_KERNEL_MOVE, 0, 0), 256, 0, &blocks), "occupancy");
    gpu_expect(me, blocks > 0, "%d blocks of the copy fit a multiprocessor", blocks);
    gpu_number(me, "copy_blocks_per_multiprocessor", blocks);
    struct tt_dev_launch none = { .kernel = UINT32_MAX, .grid = 1, .grid_y = 1, .block = 32 };
    gpu_expect(me, me->dev->launch(&none, stream) != TT_DEV_OK, "there is a kernel %u", UINT32_MAX);
}

/* --- Graphs */

static void ring_last(void *word)
{
    gpu_store(word, 1);
}

static void graphs(struct gpu_me *me)
{
    enum { REPLAYS = 50 };
    struct tt_dev_capture capture;
    void *graph, *runnable, *stream;
    gpu_fine(me, me->dev->use(me->device), "use");
    stream = gpu_stream(me);
    uint8_t *device = gpu_alloc(me, TT_DEV_DEVICE, BYTES), *a = gpu_alloc(me, TT_DEV_PINNED, BYTES);
    uint8_t *b = gpu_alloc(me, TT_DEV_PINNED, BYTES);
    uint32_t *released = (uint32_t *)me->shared;
    gpu_fine(me, me->dev->stream.capture(stream, &capture), "stream_capture");
    gpu_expect(me, !capture.active, "a stream is captured that is not");
    gpu_fine(me, me->dev->graph.capture_begin(stream), "capture_begin");
    gpu_fine(me, me->dev->copy(device, a, BYTES, stream), "copy");
    gpu_fine(me, me->dev->copy(b, device, BYTES, stream), "copy");
    gpu_fine(me, me->dev->stream.capture(stream, &capture), "stream_capture");
    gpu_expect(me, capture.active && !capture.broken && capture.graph != NULL, "active %d, broken %d",
        capture.active, capture.broken);
    gpu_fine(me, me->dev->graph.retain(capture.graph, ring_last, released), "graph_retain");
    gpu_fine(me, me->dev->graph.capture_end(stream, &graph), "capture_end");
    gpu_fine(me, me->dev->graph.instantiate(graph, &runnable), "graph_instantiate");
    for (uint32_t i = 0; i < REPLAYS; i++) {
        fill_pattern(a, BYTES, i);
        gpu_fine(me, me->dev->graph.launch(runnable, stream), "graph_launch");
        gpu_sync(me, stream);
        same(me, b, a, BYTES, "a replay");
    }
    gpu_fine(me, me->dev->graph.destroy(graph), "graph_destroy");
    usleep(20000);
    gpu_expect(me, gpu_load(released) == 0, "released while it can still be replayed");
    gpu_fine(me, me->dev->graph.runnable_destroy(runnable), "runnable_destroy");
    gpu_await(me, released, 1, "the release of what a graph retained");
}

static void external_events(struct gpu_me *me)
{
    void *event, *graph, *runnable;
    uint32_t *seen, *words;
    gpu_fine(me, me->dev->use(me->device), "use");
    words = gpu_words(me, &seen);
    void *stream = gpu_stream(me), *other = gpu_stream(me);
    gpu_fine(me, me->dev->event.create(false, &event), "event_create");
    gpu_fine(me, me->dev->graph.capture_begin(stream), "capture_begin");
    gpu_fine(me, me->dev->wait_word(stream, seen, 1), "wait_word");
    gpu_fine(me, me->dev->event.record(event, stream, true), "event_record");
    gpu_fine(me, me->dev->graph.capture_end(stream, &graph), "capture_end");
    gpu_fine(me, me->dev->graph.instantiate(graph, &runnable), "graph_instantiate");
    for (uint32_t i = 1; i <= 10; i++) {
        gpu_store(words, 0);
        gpu_fine(me, me->dev->graph.launch(runnable, stream), "graph_launch");
        gpu_fine(me, me->dev->event.wait(event, other, false), "event_wait");
        gpu_fine(me, me->dev->write_word(other, seen + 16, i), "write_word");
        usleep(2000);
        gpu_expect(me, gpu_load(words + 16) == i - 1, "replay %u: the other stream did not wait", i);
        gpu_store(words, 1);
        gpu_sync(me, other);
        gpu_sync(me, stream);
    }
}

/* What lib/device/device_watch.c relies on: a thread that has enqueued nothing, and is in no capture, asks
 * about the default stream of its own, and about an event that is recorded behind the calls, and one of the
 * two tells that the device has failed. */
struct watcher {
    struct gpu_me *me;
    void *event;
};

static void *ask_until_broken(void *argument)
{
    const struct watcher *w = argument;
    const struct tt_dev *dev = w->me->dev;
    struct tt_dev_capture capture;
    double began = gpu_seconds(), took = 0;
    gpu_fine(w->me, dev->use(w->me->device), "use");
    while (took < 5 && dev->stream.capture(TT_DEV_STREAM_PER_THREAD, &capture) != TT_DEV_BROKEN &&
           dev->event.query(w->event) != TT_DEV_BROKEN) {
        usleep(1000);
        took = gpu_seconds() - began;
    }
    gpu_number(w->me, "told_after_ms", 1e3 * took);
    gpu_expect(w->me, took < 5, "neither stream_capture nor event_query tells of the failure");
    return NULL;
}

/* A graph copies from memory that is gone; so much that no allocator keeps it mapped. */
static void failure_is_told(struct gpu_me *me)
{
    enum { MUCH = 256 << 20 };
    void *graph, *runnable;
    struct watcher watcher = { .me = me };
    pthread_t thread;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_fine(me, me->dev->event.create(false, &watcher.event), "event_create");
    void *stream = gpu_stream(me), *gone = gpu_alloc(me, TT_DEV_DEVICE, MUCH);
    uint8_t *to = gpu_alloc(me, TT_DEV_DEVICE, BYTES);
    gpu_fine(me, me->dev->graph.capture_begin(stream), "capture_begin");
    gpu_fine(me, me->dev->copy(to, gone, BYTES, stream), "copy");
    gpu_fine(me, me->dev->graph.capture_end(stream, &graph), "capture_end");
    gpu_fine(me, me->dev->graph.instantiate(graph, &runnable), "graph_instantiate");
    gpu_fine(me, me->dev->memory.free(gone), "free");
    enum tt_dev_error error = me->dev->graph.launch(runnable, stream);
    if (error != TT_DEV_OK)
        gpu_skip(me, "the graph is not launched without its memory: %s", me->dev->why());
    me->dev->event.record(watcher.event, stream, false); /* which may tell of it already */
    gpu_expect(me, pthread_create(&thread, NULL, ask_until_broken, &watcher) == 0, "no thread");
    pthread_join(thread, NULL);
    gpu_expect(me, me->dev->stream.sync(stream) == TT_DEV_BROKEN, "stream_sync tells nothing of it");
}

/* --- Segments: side 0 owns one, side 1 maps it. */

static void segments(struct gpu_me *me)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    gpu_fine(me, me->dev->use(me->device), "use");
    void *stream = gpu_stream(me);
    uint8_t *mine = gpu_alloc(me, TT_DEV_PINNED, BYTES), *back = gpu_alloc(me, TT_DEV_PINNED, BYTES);
    fill_pattern(mine, BYTES, 40 + (uint32_t)me->side);
    if (me->side == 0) {
        gpu_fine(me, me->dev->segment.alloc(2 * BYTES, &segment), "segment_alloc");
        gpu_expect(me, segment.bytes >= 2 * BYTES && !segment.imported, "the segment has %llu bytes",
            (unsigned long long)segment.bytes);
        gpu_fine(me, me->dev->segment.export(&segment, &export), "segment_export");
        gpu_number(me, "by_descriptor", export.fd >= 0);
        gpu_send(me, &export);
    } else {
        gpu_receive(me, &export);
        gpu_fine(me, me->dev->segment.import(&export, &segment), "segment_import");
        gpu_expect(me, segment.imported, "an import is not told as one");
    }
    if (export.fd >= 0)
        close(export.fd);
    uint8_t *base = segment.base;
    gpu_fine(me, me->dev->copy(base + me->side * BYTES, mine, BYTES, stream), "copy");
    gpu_sync(me, stream);
    gpu_meet(me);
    gpu_fine(me, me->dev->copy(back, base + !me->side * BYTES, BYTES, stream), "copy");
    gpu_sync(me, stream);
    fill_pattern(mine, BYTES, 40 + (uint32_t)!me->side);
    same(me, back, mine, BYTES, "what the other process wrote to the segment");
    if (me->side == 1)
        gpu_fine(me, me->dev->segment.free(&segment), "segment_free of an import");
    gpu_meet(me);
    if (me->side == 0)
        gpu_fine(me, me->dev->segment.free(&segment), "segment_free");
}

int main(int argc, char **argv)
{
    static const struct gpu_check checks[] = {
        { "devices", 1, devices },
        { "copy", 1, copies },
        { "copy_rows", 1, rows },
        { "fill", 1, fills },
        { "pin", 1, pins },
        { "classify", 1, classifies },
        { "exhausted", 1, exhausts },
        { "streams", 1, streams },
        { "streams_do_not_wait_for_the_legacy_one", 1, independent },
        { "events", 1, events },
        { "words", 1, words_pass },
        { "words_come_after_copies", 1, words_order },
        { "host_call", 1, host_calls },
        { "kernels", 1, kernels },
        { "graphs", 1, graphs },
        { "external_events", 1, external_events },
        { "failure_is_told", 1, failure_is_told },
        { "segments", 2, segments },
        { "segment_words", 2, table_segment_words },
        { "exports_of_memory", 2, table_exports_of_memory },
        { "exports_of_a_segment", 2, table_exports_of_segment },
        { "exports_that_are_refused", 1, table_exports_refused },
        { "reaches", 1, table_reaches },
        { "segment_of_another_device", 1, table_segment_of_another_device },
    };
    return gpu_main("table", checks, sizeof checks / sizeof checks[0], argc, argv);
}
