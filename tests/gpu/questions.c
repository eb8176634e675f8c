/* SPDX-License-Identifier: BSD-3-Clause */
/* questions.c: what the design of the device paths rests on and no manual says, as numbers of this machine.
 *
 * Whether processes share memory of one device, what a hop costs between processes, streams and the
 * processor, what it costs that a device changes from one process to another, how many streams wait at once
 * without being in each other's way, and what the link carries. Times are medians of many rounds. On the stub
 * the numbers are those of threads and mean nothing: there only the program is tried. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "kernels/cuda/cuda_kernels.h"

enum { ROUNDS = 400, LINE = 16 /* words */, LARGE = 64 << 20 };

static uint32_t *begin(struct gpu_me *me, uint32_t **seen)
{
    gpu_fine(me, me->dev->use(me->device), "use");
    return gpu_words(me, seen);
}

/* --- The processor and a stream. */

static void doorbell(struct gpu_me *me)
{
    enum { AT_ONCE = 50 };
    uint32_t *seen, *words = begin(me, &seen);
    double times[ROUNDS];
    void *stream = gpu_stream(me);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        for (uint32_t k = i; i % AT_ONCE == 1 && k < i + AT_ONCE; k++) {
            gpu_fine(me, me->dev->wait_word(stream, seen, k), "wait_word");
            gpu_fine(me, me->dev->write_word(stream, seen + LINE, k), "write_word");
        }
        double before = gpu_seconds();
        gpu_store(words, i);
        gpu_await(me, words + LINE, i, "a doorbell's answer");
        times[i - 1] = 1e6 * (gpu_seconds() - before);
    }
    gpu_number(me, "round_trip_us", gpu_median(times, ROUNDS));
    gpu_number(me, "least_us", times[0]);
}

/* From the enqueueing of a copy of 8 bytes in, two words and a copy back, as executor H does. */
static void enqueueing(struct gpu_me *me)
{
    uint32_t *seen, *words = begin(me, &seen);
    double times[4][ROUNDS], whole[ROUNDS];
    void *stream = gpu_stream(me);
    uint32_t *device = gpu_alloc(me, TT_DEV_DEVICE, 64), *pinned = gpu_alloc(me, TT_DEV_PINNED, 64);
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        double at[5] = { gpu_seconds() };
        gpu_fine(me, me->dev->copy(pinned, device, 8, stream), "copy");
        at[1] = gpu_seconds();
        gpu_fine(me, me->dev->write_word(stream, seen, i), "write_word");
        at[2] = gpu_seconds();
        gpu_fine(me, me->dev->wait_word(stream, seen + LINE, i), "wait_word");
        at[3] = gpu_seconds();
        gpu_fine(me, me->dev->copy(device, pinned, 8, stream), "copy");
        at[4] = gpu_seconds();
        gpu_await(me, words, i, "the first copy");
        gpu_store(words + LINE, i);
        gpu_sync(me, stream);
        whole[i - 1] = 1e6 * (gpu_seconds() - at[0]);
        for (int k = 0; k < 4; k++)
            times[k][i - 1] = 1e6 * (at[k + 1] - at[k]);
    }
    gpu_number(me, "copy_back_us", gpu_median(times[0], ROUNDS));
    gpu_number(me, "write_word_us", gpu_median(times[1], ROUNDS));
    gpu_number(me, "wait_word_us", gpu_median(times[2], ROUNDS));
    gpu_number(me, "copy_in_us", gpu_median(times[3], ROUNDS));
    gpu_number(me, "whole_us", gpu_median(whole, ROUNDS)); /* the least that H can need for one rank */
}

/* Words in a graph: the same values at each replay, so the host sets them back in between. */
static void replay(struct gpu_me *me)
{
    uint32_t *seen, *words = begin(me, &seen);
    double times[ROUNDS], launches[ROUNDS];
    void *graph, *runnable, *stream = gpu_stream(me);
    gpu_fine(me, me->dev->graph.capture_begin(stream), "capture_begin");
    gpu_fine(me, me->dev->wait_word(stream, seen, 1), "wait_word in a capture");
    gpu_fine(me, me->dev->write_word(stream, seen + LINE, 1), "write_word in a capture");
    gpu_fine(me, me->dev->graph.capture_end(stream, &graph), "capture_end");
    gpu_fine(me, me->dev->graph.instantiate(graph, &runnable), "graph_instantiate");
    for (uint32_t i = 0; i < ROUNDS; i++) {
        gpu_store(words, 0);
        gpu_store(words + LINE, 0);
        double before = gpu_seconds();
        gpu_fine(me, me->dev->graph.launch(runnable, stream), "graph_launch");
        launches[i] = 1e6 * (gpu_seconds() - before);
        usleep(200);
        gpu_expect(me, gpu_load(words + LINE) == 0, "replay %u did not wait", i);
        before = gpu_seconds();
        gpu_store(words, 1);
        gpu_await(me, words + LINE, 1, "a word written in a replay");
        times[i] = 1e6 * (gpu_seconds() - before);
        gpu_sync(me, stream);
    }
    gpu_number(me, "replays", ROUNDS);
    gpu_number(me, "launch_us", gpu_median(launches, ROUNDS));
    gpu_number(me, "round_trip_us", gpu_median(times, ROUNDS));
}

/* --- Streams of one process */

static void event_hops(struct gpu_me *me)
{
    enum { HOPS = 100, TRIES = 11 };
    double times[TRIES];
    uint32_t *seen, *words = begin(me, &seen);
    void *streams[2] = { gpu_stream(me), gpu_stream(me) }, *events[2];
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->event.create(false, &events[i]), "event_create");
    for (uint32_t t = 1; t <= TRIES; t++) {
        gpu_fine(me, me->dev->wait_word(streams[0], seen, t), "wait_word");
        for (int hop = 0; hop < HOPS; hop++) {
            gpu_fine(me, me->dev->event.record(events[hop % 2], streams[hop % 2], false), "event_record");
            gpu_fine(me, me->dev->event.wait(events[hop % 2], streams[!(hop % 2)], false), "event_wait");
        }
        gpu_fine(me, me->dev->write_word(streams[0], seen + LINE, t), "write_word");
        double before = gpu_seconds();
        gpu_store(words, t);
        gpu_await(me, words + LINE, t, "the last hop");
        times[t - 1] = 1e6 * (gpu_seconds() - before) / HOPS;
    }
    gpu_number(me, "hop_us", gpu_median(times, TRIES));
}

/* So many streams wait for words of their own while one more still gets through. More are in each other's
 * way, where the device has too few queues; 64 is the most that is tried. */
static void waiting_streams(struct gpu_me *me)
{
    enum { MOST = 64 };
    uint32_t *seen, *words = begin(me, &seen);
    void *streams[MOST + 1];
    int free = 0;
    for (int i = 0; i <= MOST; i++)
        streams[i] = gpu_stream(me);
    bool through = true;
    for (int n = 1; n <= MOST && through; n++) {
        gpu_fine(me, me->dev->wait_word(streams[n - 1], seen, 1), "wait_word");
        gpu_fine(me, me->dev->write_word(streams[n], seen + LINE, (uint32_t)n), "write_word");
        double until = gpu_seconds() + 0.3;
        while (gpu_load(words + LINE) != (uint32_t)n && gpu_seconds() < until)
            usleep(50);
        through = gpu_load(words + LINE) == (uint32_t)n;
        free = through ? n : free;
    }
    gpu_store(words, 1);
    for (int i = 0; i <= MOST; i++)
        gpu_sync(me, streams[i]);
    gpu_number(me, "streams_that_wait_and_let_one_through", free);
}

/* --- Two processes */

enum step { NOTHING, KERNEL, FILL };

static void make_step(struct gpu_me *me, enum step step, uint8_t *memory, void *stream)
{
    if (step == KERNEL)
        gpu_fine(me, gpu_launch_copy(me, memory + 4096, memory, 256, 1, stream), "launch");
    if (step == FILL)
        gpu_fine(me, me->dev->fill(memory, 1, 256, stream), "fill");
}

/* Streams of `processes` take turns by words: the time of a round of both. `turns`: the words, as this
 * process's device sees them; mine is a line behind the other's. */
static double take_turns(
    struct gpu_me *me, uint32_t *turns, uint32_t from, enum step step, uint8_t *memory, int processes)
{
    void *stream = gpu_stream(me);
    gpu_meet(me);
    if (processes == 1 && me->side == 1) {
        gpu_meet(me);
        return 0;
    }
    uint32_t *mine = turns + me->side * LINE, *theirs = turns + (processes == 1 ? 0 : !me->side) * LINE;
    double before = gpu_seconds();
    for (uint32_t i = from + 1; i <= from + ROUNDS; i++) {
        if (me->side == 1)
            gpu_fine(me, me->dev->wait_word(stream, theirs, i), "wait_word");
        make_step(me, step, memory, stream);
        gpu_fine(me, me->dev->write_word(stream, mine, i), "write_word");
        if (me->side == 0)
            gpu_fine(me, me->dev->wait_word(stream, theirs, i), "wait_word");
        if (i % 50 == 0)
            gpu_sync(me, stream);
    }
    gpu_sync(me, stream);
    double us = 1e6 * (gpu_seconds() - before) / ROUNDS;
    gpu_meet(me);
    gpu_fine(me, me->dev->stream.destroy(stream), "stream_destroy");
    return us;
}

static uint8_t *share_segment(struct gpu_me *me, uint64_t bytes, double *import_ms, bool *by_descriptor)
{
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    if (me->side == 0) {
        gpu_fine(me, me->dev->segment.alloc(bytes, &segment), "segment_alloc");
        gpu_fine(me, me->dev->fill(segment.base, 0, bytes, NULL), "fill");
        gpu_sync(me, NULL);
        gpu_fine(me, me->dev->segment.export(&segment, &export), "segment_export");
        gpu_send(me, &export);
    } else {
        gpu_receive(me, &export);
        double before = gpu_seconds();
        gpu_fine(me, me->dev->segment.import(&export, &segment), "segment_import");
        *import_ms = 1e3 * (gpu_seconds() - before);
    }
    *by_descriptor = export.fd >= 0;
    return segment.base;
}

static void tell(struct gpu_me *me, const char *name, double value)
{
    if (me->side == 0)
        gpu_number(me, name, value);
}

static void word_ping_pong(struct gpu_me *me)
{
    uint32_t *seen;
    double import_ms = 0;
    bool by_descriptor;
    begin(me, &seen);
    uint32_t *device = (uint32_t *)share_segment(me, 4096, &import_ms, &by_descriptor);
    take_turns(me, seen, 0, NOTHING, NULL, 2);
    tell(me, "pinned_round_trip_us", take_turns(me, seen, ROUNDS, NOTHING, NULL, 2));
    tell(me, "device_round_trip_us", take_turns(me, device, 0, NOTHING, NULL, 2));
}

/* The same with a kernel at each turn, and the kernels alone: the rest is two changes of context. */
static void context_switch(struct gpu_me *me)
{
    uint32_t *seen;
    begin(me, &seen);
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, 8192);
    void *stream = gpu_stream(me);
    gpu_fine(me, me->dev->fill(memory, 1, 8192, stream), "fill");
    enum tt_dev_error error = gpu_launch_copy(me, memory + 4096, memory, 256, 1, stream);
    enum step step = error == TT_DEV_OK ? KERNEL : FILL;
    gpu_sync(me, stream);
    take_turns(me, seen, 0, step, memory, 2);
    double words = take_turns(me, seen, ROUNDS, NOTHING, memory, 2);
    double both = take_turns(me, seen, 2 * ROUNDS, step, memory, 2);
    double alone = take_turns(me, seen, 3 * ROUNDS, step, memory, 1);
    double bare = take_turns(me, seen, 4 * ROUNDS, NOTHING, memory, 1);
    tell(me, "by_kernel", step == KERNEL);
    tell(me, "words_round_us", words);
    tell(me, "kernels_round_us", both);
    tell(me, "one_process_round_us", alone);
    tell(me, "switch_us", (both - words) / 2 - (alone - bare));
}

static void ipc(struct gpu_me *me)
{
    uint32_t *seen;
    double import_ms = 0;
    bool by_descriptor;
    begin(me, &seen);
    struct tt_dev_facts facts;
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    uint64_t bytes = facts.bytes / 64 < LARGE ? facts.bytes / 64 / 65536 * 65536 : LARGE;
    uint8_t *segment = share_segment(me, bytes, &import_ms, &by_descriptor);
    uint8_t *own = gpu_alloc(me, TT_DEV_DEVICE, bytes);
    if (me->side == 1) {
        double times[5];
        void *stream = gpu_stream(me);
        gpu_fine(me, me->dev->copy(own, segment, bytes, stream), "copy");
        gpu_sync(me, stream);
        for (int i = 0; i < 5; i++) {
            double before = gpu_seconds();
            gpu_fine(me, me->dev->copy(own, segment, bytes, stream), "copy");
            gpu_sync(me, stream);
            times[i] = gpu_seconds() - before;
        }
        gpu_number(me, "by_descriptor", by_descriptor);
        gpu_number(me, "import_ms", import_ms);
        gpu_number(me, "copy_from_peer_gb_s", 1e-9 * (double)bytes / gpu_median(times, 5));
    }
    gpu_meet(me);
}

static void event_ping_pong(struct gpu_me *me)
{
    gpu_skip(me, "the table has no events that two processes share; words do their work");
}

static void mps(struct gpu_me *me)
{
    struct tt_dev_facts facts;
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    gpu_number(me, "present", facts.shared_context);
}

/* --- The link, and the memory of the device */

static void link_rates(struct gpu_me *me)
{
    static const char *const names[] = { "to_device_gb_s", "from_device_gb_s", "within_device_gb_s" };
    struct tt_dev_facts facts;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    uint64_t bytes = facts.bytes / 64 < LARGE ? facts.bytes / 64 : LARGE;
    void *stream = gpu_stream(me), *device = gpu_alloc(me, TT_DEV_DEVICE, bytes);
    void *other = gpu_alloc(me, TT_DEV_DEVICE, bytes), *pinned = gpu_alloc(me, TT_DEV_PINNED, bytes);
    gpu_fine(me, me->dev->fill(pinned, 3, bytes, stream), "fill");
    for (int way = 0; way < 3; way++) {
        double times[7];
        for (int i = 0; i < 7; i++) {
            double before = gpu_seconds();
            gpu_fine(me,
                me->dev->copy(way == 1   ? pinned
                              : way == 0 ? device
                                         : other,
                    way == 0 ? pinned : device, bytes, stream),
                "copy");
            gpu_sync(me, stream);
            times[i] = gpu_seconds() - before;
        }
        gpu_number(me, names[way], 1e-9 * (double)bytes / gpu_median(times, 7));
    }
}

/* What the kernels carry, bytes read and written: of each length the time between two events, so that no
 * launch is in it. `launch_us` is what the processor pays, `idle_launch_us` a launch of nothing until it is
 * known to be over. */
static double kernel_ms(
    struct gpu_me *me, const struct tt_dev_launch *launch, void *stream, void *begin_event, void *end_event)
{
    enum { TIMES = 7 };
    double times[TIMES];
    for (int i = 0; i < TIMES; i++) {
        float ms;
        gpu_fine(me, me->dev->event.record(begin_event, stream, false), "record");
        gpu_fine(me, me->dev->launch(launch, stream), "launch");
        gpu_fine(me, me->dev->event.record(end_event, stream, false), "record");
        gpu_sync(me, stream);
        gpu_fine(me, me->dev->event.elapsed(begin_event, end_event, &ms), "elapsed");
        times[i] = ms;
    }
    return gpu_median(times, TIMES);
}

static void fold_rates(struct gpu_me *me, uint64_t bytes, void *stream, void *events[2])
{
    static const struct {
        const char *name;
        tutti_type type;
        unsigned size;
    } types[] = { { "float32", TUTTI_FLOAT32, 4 }, { "bfloat16", TUTTI_BFLOAT16, 2 } };
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, bytes * 2 * TT_FUSED_RANKS);
    gpu_fine(me, me->dev->fill(memory, 61, bytes * 2 * TT_FUSED_RANKS, stream), "fill");
    for (unsigned t = 0; t < sizeof types / sizeof types[0]; t++)
        for (uint32_t k = 2; k <= TT_FUSED_RANKS; k *= 2) {
            uint8_t all = (uint8_t)((1U << k) - 1);
            struct tt_fused_params params = { .rects = 1,
                .rect = { { .count = bytes / types[t].size, .sources = all, .dsts = all } } };
            struct tt_dev_launch launch = {
                .kernel = tt_kernel_number(TT_KERNEL_FUSED_CHAIN, types[t].type, TUTTI_SUM),
                .grid = tt_fused_grid(bytes),
                .grid_y = 1,
                .block = TT_FUSED_BLOCK,
                .params = &params,
                .params_bytes = sizeof params,
            };
            char name[40];
            for (uint32_t i = 0; i < k; i++) {
                params.own.in[i] = memory + i * bytes;
                params.own.out[i] = memory + (TT_FUSED_RANKS + i) * bytes;
            }
            snprintf(name, sizeof name, "%s_of_%u_gb_s", types[t].name, k);
            gpu_number(me, name,
                1e-6 * (double)(bytes * 2 * k) / kernel_ms(me, &launch, stream, events[0], events[1]));
        }
}

static void kernel_rates(struct gpu_me *me)
{
    struct tt_dev_facts facts;
    void *events[2], *stream;
    gpu_fine(me, me->dev->use(me->device), "use");
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    stream = gpu_stream(me);
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->event.create(true, &events[i]), "event.create");
    uint64_t bytes = facts.bytes / 256 < 4 * LARGE ? facts.bytes / 256 & ~UINT64_C(15) : 4 * LARGE;
    bytes = facts.bytes < UINT64_C(4) << 30 ? 1 << 17 : bytes; /* of the stub, where each block is a thread */
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, 2 * bytes);
    gpu_fine(me, me->dev->fill(memory, 61, 2 * bytes, stream), "fill");
    struct tt_fused_params params = { .own = { .in = { memory + bytes }, .out = { memory } },
        .rects = 1,
        .rect = { { .count = bytes, .sources = 1, .dsts = 1 } } };
    struct tt_dev_launch launch = {
        .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = tt_fused_grid(bytes),
        .grid_y = 1,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params,
    };
    if (me->dev->launch(&launch, stream) == TT_DEV_UNSUPPORTED)
        gpu_skip(me, "%s", me->dev->why());
    gpu_number(me, "copy_gb_s", 2e-6 * (double)bytes / kernel_ms(me, &launch, stream, events[0], events[1]));
    fold_rates(me, bytes, stream, events);
    double paid[ROUNDS], whole[ROUNDS];
    params.rect[0].count = 8;
    launch.grid = 1;
    for (int i = 0; i < ROUNDS; i++) {
        double before = gpu_seconds();
        gpu_fine(me, me->dev->launch(&launch, stream), "launch");
        paid[i] = 1e6 * (gpu_seconds() - before);
        gpu_sync(me, stream);
        whole[i] = 1e6 * (gpu_seconds() - before);
    }
    gpu_number(me, "launch_us", gpu_median(paid, ROUNDS));
    gpu_number(me, "idle_launch_us", gpu_median(whole, ROUNDS));
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->event.destroy(events[i]), "event.destroy");
}

int main(int argc, char **argv)
{
    static const struct gpu_check questions[] = {
        { "same_device_between_processes", 2, ipc },
        { "words_between_processes", 2, word_ping_pong },
        { "events_between_processes", 1, event_ping_pong },
        { "context_switch", 2, context_switch },
        { "doorbell", 1, doorbell },
        { "enqueueing", 1, enqueueing },
        { "words_in_replay", 1, replay },
        { "event_hops", 1, event_hops },
        { "waiting_streams", 1, waiting_streams },
        { "link", 1, link_rates },
        { "kernel_rates", 1, kernel_rates },
        { "mps", 1, mps },
    };
    return gpu_main("questions", questions, sizeof questions / sizeof questions[0], argc, argv);
}
