/* SPDX-License-Identifier: BSD-3-Clause */
/* experiments.c: what the design of the device paths leaves to an experiment, as numbers of this machine,
 * like those of questions.c.
 *
 *   imports        whether memory of another process can be mapped and unmapped while the own stream waits
 *                  for a word: if it cannot, only what is registered may be imported
 *   lost_given, lost_user  what becomes of a kernel that reads memory of a process that is killed: what
 *                  travels as a descriptor, and what the program allocated. If it faults, a leader must not
 *                  be given such memory
 *   freed_user     the same where the owner frees it, which the runtime calls undefined
 *   graph_events   what an event that orders graphs costs each kernel of a graph: one for all, or one each
 *   alignments     what a fold takes where buffers are not equally far from a multiple of 16 bytes
 *   ends           how soon the processor hears that a kernel is over: by its last block, or by a word that
 *                  the stream writes behind it
 *   bases          what it takes a kernel to learn where the buffers are: from its parameters; from pinned
 *                  memory, which each block loads over the bus; or from a copy of that on the device, which
 *                  stands before the kernel */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "kernels/cuda/cuda_kernels.h"

enum { ROUNDS = 200, LINE = 16 /* words */, MIB = 1 << 20 };

static uint32_t *begin(struct gpu_me *me, uint32_t **seen)
{
    gpu_fine(me, me->dev->use(me->device), "use");
    if (me->dev->preload() != TT_DEV_OK)
        gpu_skip(me, "%s", me->dev->why());
    return gpu_words(me, seen);
}

/* Small on the stub, where each block is a thread. */
static bool is_stub(struct gpu_me *me)
{
    struct tt_dev_facts facts;
    gpu_fine(me, me->dev->facts(me->device, &facts), "facts");
    return facts.bytes < UINT64_C(4) << 30;
}

/* --- Imports while a stream waits */

enum { PATIENCE_US = 1000000 };

static void *open_gate(void *word)
{
    usleep(PATIENCE_US);
    gpu_store(word, 1);
    return NULL;
}

static void imports(struct gpu_me *me)
{
    uint32_t *seen, *words = begin(me, &seen);
    struct tt_dev_segment segment;
    struct tt_dev_export export;
    pthread_t opener;
    void *stream = gpu_stream(me);
    if (me->side == 0) {
        gpu_fine(me, me->dev->segment.alloc(2 * MIB, &segment), "segment_alloc");
        gpu_fine(me, me->dev->segment.export(&segment, &export), "segment_export");
        gpu_send(me, &export);
        gpu_meet(me);
        return;
    }
    gpu_receive(me, &export);
    gpu_fine(me, me->dev->wait_word(stream, seen, 1), "wait_word");
    gpu_expect(me, pthread_create(&opener, NULL, open_gate, words) == 0, "there is no thread");
    double before = gpu_seconds();
    gpu_fine(me, me->dev->segment.import(&export, &segment), "segment_import");
    double imported = gpu_seconds();
    gpu_fine(me, me->dev->segment.free(&segment), "segment_free");
    double freed = gpu_seconds();
    gpu_number(me, "import_ms", 1e3 * (imported - before));
    gpu_number(me, "unmap_ms", 1e3 * (freed - imported));
    gpu_number(me, "waits_for_the_stream", freed - before > 0.9e-6 * PATIENCE_US);
    pthread_join(opener, NULL);
    gpu_sync(me, stream);
    gpu_meet(me);
}

/* --- Memory whose owner goes */

enum end { KILLED, FREED };

/* Side 1 reads what side 0 has, again and again, while that goes. */
static void lose(struct gpu_me *me, bool given, enum end how)
{
    uint32_t *seen;
    struct tt_dev_segment segment = { 0 };
    struct tt_dev_export export;
    begin(me, &seen);
    uint64_t bytes = is_stub(me) ? 65536 : 64 * MIB, offset = 0;
    if (me->side == 0) {
        uint8_t *memory = NULL;
        uintptr_t base = 0;
        if (!given) {
            memory = gpu_alloc(me, TT_DEV_DEVICE, bytes);
            if (me->dev->segment.export_of(memory, &export, &base) != TT_DEV_OK)
                gpu_skip(me, "%s", me->dev->why());
            offset = (uintptr_t)memory - base;
        } else {
            gpu_fine(me, me->dev->segment.alloc(bytes, &segment), "segment_alloc");
            gpu_fine(me, me->dev->segment.export(&segment, &export), "segment_export");
        }
        memcpy(me->shared + GPU_SHARED_BYTES - sizeof offset, &offset, sizeof offset);
        gpu_send(me, &export);
        gpu_meet(me);
        usleep(is_stub(me) ? 5000 : 20000); /* side 1 reads */
        if (how == KILLED)
            raise(SIGKILL);
        me->dev->memory.free(memory); /* the stub says that it is wrong */
        gpu_meet(me);
        return;
    }
    gpu_receive(me, &export);
    gpu_fine(me, me->dev->segment.import(&export, &segment), "segment_import");
    memcpy(&offset, me->shared + GPU_SHARED_BYTES - sizeof offset, sizeof offset);
    uint8_t *own = gpu_alloc(me, TT_DEV_DEVICE, bytes);
    void *stream = gpu_stream(me);
    enum tt_dev_error error = TT_DEV_OK;
    int kernels = 0;
    gpu_meet(me);
    for (double until = gpu_seconds() + (is_stub(me) ? 0.05 : 1); gpu_seconds() < until && error == TT_DEV_OK;
         kernels++) {
        error = gpu_launch_copy(
            me, own, (uint8_t *)segment.base + offset, bytes, tt_fused_grid(bytes) % 4096 + 1, stream);
        if (error == TT_DEV_OK)
            error = me->dev->stream.sync(stream);
    }
    gpu_number(me, "by_descriptor", export.fd >= 0);
    gpu_number(me, "kernels", kernels);
    gpu_number(me, "faults", error != TT_DEV_OK);
    if (how == FREED)
        gpu_meet(me);
}

static void lost_given(struct gpu_me *me)
{
    me->notes->dies = true;
    lose(me, true, KILLED);
}

static void lost_user(struct gpu_me *me)
{
    me->notes->dies = true;
    lose(me, false, KILLED);
}

static void freed_user(struct gpu_me *me)
{
    lose(me, false, FREED);
}

/* --- Graphs of kernels, and what orders them */

enum { KERNELS = 20 };

/* Of each kernel of a graph, with so many events that are recorded behind kernels, for other graphs. */
static double time_of_graph(struct gpu_me *me, void **events, int count, uint8_t *memory)
{
    double times[ROUNDS];
    void *graph, *runnable, *stream = gpu_stream(me);
    const int rounds = is_stub(me) ? 5 : ROUNDS;
    gpu_fine(me, me->dev->graph.capture_begin(stream), "capture_begin");
    for (int i = 0; i < KERNELS; i++) {
        gpu_fine(me, gpu_launch_copy(me, memory + 4096, memory, 256, 1, stream), "launch");
        if (count > 0)
            gpu_fine(me, me->dev->event.record(events[i % count], stream, true), "event_record");
    }
    gpu_fine(me, me->dev->graph.capture_end(stream, &graph), "capture_end");
    gpu_fine(me, me->dev->graph.instantiate(graph, &runnable), "graph_instantiate");
    for (int i = 0; i < rounds; i++) {
        double before = gpu_seconds();
        gpu_fine(me, me->dev->graph.launch(runnable, stream), "graph_launch");
        gpu_sync(me, stream);
        times[i] = 1e6 * (gpu_seconds() - before) / KERNELS;
    }
    gpu_fine(me, me->dev->graph.runnable_destroy(runnable), "runnable_destroy");
    gpu_fine(me, me->dev->graph.destroy(graph), "graph_destroy");
    return gpu_median(times, rounds);
}

static void graph_events(struct gpu_me *me)
{
    uint32_t *seen;
    void *events[KERNELS];
    begin(me, &seen);
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, 8192);
    for (int i = 0; i < KERNELS; i++)
        gpu_fine(me, me->dev->event.create(false, &events[i]), "event_create");
    gpu_number(me, "kernel_us", time_of_graph(me, events, 0, memory));
    gpu_number(me, "kernel_with_one_event_us", time_of_graph(me, events, 1, memory));
    gpu_number(me, "kernel_with_own_event_us", time_of_graph(me, events, KERNELS, memory));
}

/* --- Folds of buffers that lie anywhere */

static double time_of_fold(struct gpu_me *me, const struct tt_fused_params *params, uint64_t bytes)
{
    enum { TIMES = 9 };
    double times[TIMES];
    void *events[2], *stream = gpu_stream(me);
    const struct tt_dev_launch launch = { .kernel = tt_kernel_number(
                                              TT_KERNEL_FUSED_CHAIN, TUTTI_FLOAT32, TUTTI_SUM),
        .grid = tt_fused_grid(bytes),
        .grid_y = 1,
        .block = TT_FUSED_BLOCK,
        .params = params,
        .params_bytes = sizeof *params };
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->event.create(true, &events[i]), "event_create");
    for (int i = 0; i < TIMES; i++) {
        float ms;
        gpu_fine(me, me->dev->event.record(events[0], stream, false), "event_record");
        gpu_fine(me, me->dev->launch(&launch, stream), "launch");
        gpu_fine(me, me->dev->event.record(events[1], stream, false), "event_record");
        gpu_sync(me, stream);
        gpu_fine(me, me->dev->event.elapsed(events[0], events[1], &ms), "elapsed");
        times[i] = 1e3 * ms;
    }
    return gpu_median(times, TIMES);
}

static void alignments(struct gpu_me *me)
{
    uint32_t *seen;
    char name[40];
    begin(me, &seen);
    uint64_t bytes = is_stub(me) ? 32768 : 64 * MIB;
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, 8 * (bytes + 64));
    void *stream = gpu_stream(me);
    gpu_fine(me, me->dev->fill(memory, 61, 8 * (bytes + 64), stream), "fill");
    gpu_sync(me, stream);
    for (uint32_t n = 2; n <= 4; n *= 2)
        for (int unlike = 0; unlike < 2; unlike++) {
            uint8_t all = (uint8_t)((1U << n) - 1);
            struct tt_fused_params params = { .rects = 1,
                .rect = { { .count = bytes / 4, .sources = all, .dsts = all } } };
            for (uint32_t k = 0; k < n; k++) {
                params.own.in[k] = memory + k * (bytes + 64) + (unlike ? 4 * k : 0);
                params.own.out[k] = memory + (4 + k) * (bytes + 64) + (unlike ? 4 * (3 - k) : 0);
            }
            snprintf(name, sizeof name, "%s_n%u_us", unlike ? "unlike" : "alike", n);
            gpu_number(me, name, time_of_fold(me, &params, bytes));
        }
}

/* --- The end of a kernel */

/* From the launch until the processor sees the word. */
static double time_of_end(
    struct gpu_me *me, const uint32_t *words, uint32_t *seen, uint64_t bytes, bool by_kernel)
{
    double times[ROUNDS];
    const int rounds = is_stub(me) ? 5 : ROUNDS;
    uint8_t *memory = gpu_alloc(me, TT_DEV_DEVICE, 2 * bytes + 64);
    void *stream = gpu_stream(me);
    struct tt_fused_params params = { .own = { .in = { memory + 64 }, .out = { memory + 64 + bytes } },
        .rects = 1,
        .blocks_over = (uint32_t *)(void *)memory,
        .over = by_kernel ? seen + LINE : NULL,
        .rect = { { .count = bytes, .sources = 1, .dsts = 1 } } };
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = tt_fused_grid(bytes),
        .grid_y = 1,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    gpu_fine(me, me->dev->fill(memory, 0, 2 * bytes + 64, stream), "fill");
    gpu_sync(me, stream);
    uint32_t before_all = gpu_load(words + LINE);
    for (uint32_t i = before_all + 1; i <= before_all + (uint32_t)rounds; i++) {
        params.over_value = i;
        double before = gpu_seconds();
        gpu_fine(me, me->dev->launch(&launch, stream), "launch");
        if (!by_kernel)
            gpu_fine(me, me->dev->write_word(stream, seen + LINE, i), "write_word");
        gpu_await(me, words + LINE, i, "the end of a kernel");
        times[i - before_all - 1] = 1e6 * (gpu_seconds() - before);
        gpu_sync(me, stream);
    }
    return gpu_median(times, rounds);
}

static void ends(struct gpu_me *me)
{
    uint32_t *seen, *words = begin(me, &seen);
    char name[40];
    for (uint64_t bytes = 8; bytes <= MIB; bytes = bytes == 8 && !is_stub(me) ? MIB : 2 * MIB)
        for (int by_kernel = 0; by_kernel < 2; by_kernel++) {
            snprintf(name, sizeof name, "%s_%llu_bytes_us", by_kernel ? "by_block" : "by_stream",
                (unsigned long long)bytes);
            gpu_number(me, name, time_of_end(me, words, seen, bytes, by_kernel));
        }
}

/* --- Where the buffers are */

enum told { BY_PARAMETERS, OVER_THE_BUS, BY_A_COPY, TOLD };

struct told_where { /* what a kernel learns, in each way */
    struct tt_bases *pinned, *pinned_seen, *there;
    uint8_t *memory;
};

static struct told_where make_bases(struct gpu_me *me, uint32_t *words, uint32_t *seen, uint64_t bytes)
{
    struct told_where w = { .pinned = (struct tt_bases *)(void *)words,
        .pinned_seen = (struct tt_bases *)(void *)seen,
        .there = gpu_alloc(me, TT_DEV_DEVICE, sizeof *w.there),
        .memory = gpu_alloc(me, TT_DEV_DEVICE, 2 * bytes) };
    void *stream = gpu_stream(me);
    *w.pinned = (struct tt_bases){ .in = { w.memory }, .out = { w.memory + bytes } };
    gpu_fine(me, me->dev->fill(w.memory, 0, bytes, stream), "fill");
    gpu_sync(me, stream);
    return w;
}

/* From the event before what tells the kernel until the one behind it: as the device has it. The results must
 * be the operands of the same round, so that a way that tells nothing is not the fastest. */
static double time_of_told(
    struct gpu_me *me, const struct told_where *w, uint64_t bytes, uint32_t grid, enum told how)
{
    double times[ROUNDS];
    const int rounds = is_stub(me) ? 3 : ROUNDS;
    void *events[2], *stream = gpu_stream(me);
    uint8_t *last = gpu_alloc(me, TT_DEV_PINNED, 1);
    struct tt_fused_params params = { .own = *w->pinned,
        .bases = how == BY_PARAMETERS  ? NULL
                 : how == OVER_THE_BUS ? w->pinned_seen
                                       : w->there,
        .rects = 1,
        .rect = { { .count = bytes, .sources = 1, .dsts = 1 } } };
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = grid,
        .grid_y = 1,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    for (int i = 0; i < 2; i++)
        gpu_fine(me, me->dev->event.create(true, &events[i]), "event_create");
    for (int i = 0; i < rounds; i++) {
        float ms;
        gpu_fine(me, me->dev->fill(w->memory, i + 1, bytes, stream), "fill");
        gpu_fine(me, me->dev->event.record(events[0], stream, false), "event_record");
        if (how == BY_A_COPY)
            gpu_fine(me, me->dev->copy(w->there, w->pinned_seen, sizeof *w->there, stream), "copy");
        gpu_fine(me, me->dev->launch(&launch, stream), "launch");
        gpu_fine(me, me->dev->event.record(events[1], stream, false), "event_record");
        gpu_fine(me, me->dev->copy(last, w->memory + 2 * bytes - 1, 1, stream), "copy");
        gpu_sync(me, stream);
        gpu_fine(me, me->dev->event.elapsed(events[0], events[1], &ms), "elapsed");
        gpu_expect(me, *last == (uint8_t)(i + 1), "the last byte is %u, not %u", *last, (uint8_t)(i + 1));
        times[i] = 1e3 * ms;
    }
    return gpu_median(times, rounds);
}

static void bases(struct gpu_me *me)
{
    static const char *const names[TOLD] = { "params", "pinned", "copied" };
    const uint64_t small[] = { 8, 65536 }, large[] = { 8, MIB, UINT64_C(64) * MIB };
    uint32_t *seen, *words = begin(me, &seen);
    const bool few = is_stub(me);
    for (int s = 0; s < (few ? 2 : 3); s++) {
        const uint64_t bytes = few ? small[s] : large[s];
        const struct told_where w = make_bases(me, words, seen, bytes);
        const uint32_t grid = tt_fused_grid(bytes);
        for (int how = 0; how < TOLD; how++) {
            char name[40];
            snprintf(name, sizeof name, "%s_%llu_bytes_us", names[how], (unsigned long long)bytes);
            gpu_number(me, name, time_of_told(me, &w, bytes, grid, (enum told)how));
        }
    }
}

int main(int argc, char **argv)
{
    static const struct gpu_check checks[] = {
        { "imports", 2, imports },
        { "lost_given", 2, lost_given },
        { "lost_user", 2, lost_user },
        { "freed_user", 2, freed_user },
        { "graph_events", 1, graph_events },
        { "alignments", 1, alignments },
        { "ends", 1, ends },
        { "bases", 1, bases },
    };
    return gpu_main("experiments", checks, sizeof checks / sizeof checks[0], argc, argv);
}
