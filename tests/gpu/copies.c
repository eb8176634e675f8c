/* SPDX-License-Identifier: BSD-3-Clause */
/* copies.c: how copies behave, where that decides how the library moves bytes; numbers of this machine, as
 * those of questions.c.
 *
 *   by_turns, alone    what a copy costs a process whose device has run another process before, and one that
 *                      has the device to itself: by its kind, and whether its rows stand apart. 100 us more
 *                      are a change of context, which some copies may do without.
 *   behind_a_gate      whether a copy behind a shut gate holds up copies and kernels of other streams
 *   both_ways          whether the link carries as much each way when both are used at once
 *   many               copies of small calls by one kernel, and one by one
 *   room               how many pieces of work a stream takes before who enqueues one waits */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu.h"
#include "kernels/cuda/cuda_kernels.h"

enum { LINE = 16 /* words */, ROOM = 1 << 20 };

struct bench {
    struct gpu_me *me;
    uint32_t *words, *seen;
    uint8_t *device, *pinned; /* 2 ROOM each */
    void *stream;
};

static struct bench begin(struct gpu_me *me)
{
    struct bench b = { .me = me };
    gpu_fine(me, me->dev->use(me->device), "use");
    b.words = gpu_words(me, &b.seen);
    b.device = gpu_alloc(me, TT_DEV_DEVICE, (uint64_t)2 * ROOM);
    b.pinned = gpu_alloc(me, TT_DEV_PINNED, (uint64_t)2 * ROOM);
    b.stream = gpu_stream(me);
    if (me->dev->preload() != TT_DEV_OK) /* a kernel that must be loaded waits for all streams */
        gpu_skip(me, "%s", me->dev->why());
    return b;
}

/* --- Copies, by their kind. A pitched side has rows twice as far apart as they are long. */

enum kind { OUT, IN, WITHIN, OUT_PITCHED, IN_PITCHED, KERNEL, KINDS };
static const char *const names[KINDS] = { "d2h", "h2d", "d2d", "d2h_pitched", "h2d_pitched", "kernel" };

static void move(const struct bench *b, enum kind kind, uint64_t bytes, void *stream)
{
    const struct tt_dev *dev = b->me->dev;
    uint64_t row = bytes / 2, apart = 2 * row;
    switch (kind) {
    case OUT:
        gpu_fine(b->me, dev->copy(b->pinned, b->device, bytes, stream), "copy");
        return;
    case IN:
        gpu_fine(b->me, dev->copy(b->device, b->pinned, bytes, stream), "copy");
        return;
    case WITHIN:
        gpu_fine(b->me, dev->copy(b->device + ROOM, b->device, bytes, stream), "copy");
        return;
    case OUT_PITCHED:
        gpu_fine(b->me, dev->copy_rows(b->pinned, row, b->device, apart, row, 2, stream), "copy_rows");
        return;
    case IN_PITCHED:
        gpu_fine(b->me, dev->copy_rows(b->device, apart, b->pinned, row, row, 2, stream), "copy_rows");
        return;
    default:
        gpu_fine(b->me, gpu_launch_copy(b->me, b->device + ROOM, b->device, bytes, 1, stream), "launch");
    }
}

/* The median of what a copy takes, begun when the other process has ended its own. */
static double time_turns(const struct bench *b, enum kind kind, uint64_t bytes, int processes, uint32_t *turn)
{
    enum { TURNS = 40 };
    double times[TURNS];
    for (int i = 0; i < TURNS; i++) {
        uint32_t mine = *turn + (uint32_t)b->me->side, next = *turn + (uint32_t)processes;
        gpu_await(b->me, b->words, mine, "this process's turn");
        double before = gpu_seconds();
        move(b, kind, bytes, b->stream);
        gpu_sync(b->me, b->stream);
        times[i] = 1e6 * (gpu_seconds() - before);
        gpu_store(b->words, mine + 1);
        *turn = next;
    }
    return gpu_median(times, TURNS);
}

static void take_turns(struct gpu_me *me, int processes)
{
    static const uint64_t sizes[] = { 8, 4096 };
    struct bench b = begin(me);
    uint32_t turn = 0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int i = 0; i < 2; i++) {
            char name[40];
            double us = time_turns(&b, (enum kind)kind, sizes[i], processes, &turn);
            snprintf(name, sizeof name, "%s_%d_us", names[kind], (int)sizes[i]);
            if (me->side == 0)
                gpu_number(me, name, us);
        }
}

static void by_turns(struct gpu_me *me)
{
    take_turns(me, 2);
}

static void alone(struct gpu_me *me)
{
    take_turns(me, 1);
}

/* --- A gate, and copies behind it: does another stream get through? */

static void behind_a_gate(struct gpu_me *me)
{
    enum { BYTES = 65536 };
    static const enum kind kinds[] = { OUT, IN, WITHIN, KERNEL };
    struct bench b = begin(me);
    uint32_t gate = 0;
    for (int k = 0; k < 3; k++) {
        void *others[4];
        for (int i = 0; i < 4; i++)
            others[i] = gpu_stream(me);
        gpu_fine(me, me->dev->wait_word(b.stream, b.seen, ++gate), "wait_word");
        for (int i = 0; i < 4; i++)
            move(&b, kinds[k], BYTES, b.stream);
        for (int i = 0; i < 4; i++)
            move(&b, kinds[i], BYTES, others[i]);
        usleep(100000);
        for (int i = 0; i < 4; i++) {
            char name[40];
            snprintf(name, sizeof name, "%s_passes_%s", names[kinds[i]], names[kinds[k]]);
            gpu_number(me, name, me->dev->stream.query(others[i]) == TT_DEV_OK);
        }
        gpu_store(b.words, gate);
        for (int i = 0; i < 4; i++)
            gpu_sync(me, others[i]);
        gpu_sync(me, b.stream);
    }
}

/* --- The link, used both ways */

static double rate(const struct bench *b, bool out, bool in, void *other)
{
    enum { TIMES = 7, COPIES = 32 };
    double times[TIMES];
    for (int t = 0; t < TIMES; t++) {
        double before = gpu_seconds();
        for (int i = 0; i < COPIES; i++) {
            const struct tt_dev *dev = b->me->dev;
            if (out)
                gpu_fine(b->me, dev->copy(b->pinned, b->device, ROOM, b->stream), "copy");
            if (in)
                gpu_fine(b->me, dev->copy(b->device + ROOM, b->pinned + ROOM, ROOM, other), "copy");
        }
        gpu_sync(b->me, b->stream);
        gpu_sync(b->me, other);
        times[t] = gpu_seconds() - before;
    }
    return 1e-9 * COPIES * (out + in) * ROOM / gpu_median(times, TIMES);
}

static void both_ways(struct gpu_me *me)
{
    struct bench b = begin(me);
    void *other = gpu_stream(me);
    gpu_number(me, "out_gb_s", rate(&b, true, false, other));
    gpu_number(me, "in_gb_s", rate(&b, false, true, other));
    gpu_number(me, "both_gb_s", rate(&b, true, true, other));
    gpu_number(me, "one_stream_gb_s", rate(&b, true, true, b.stream));
}

/* --- Small calls of a group: a copy each, or rectangles of one kernel */

static double move_many(const struct bench *b, int count, bool by_kernel)
{
    enum { TIMES = 21, BYTES = 1024 };
    double times[TIMES];
    struct tt_fused_params params = { .rects = (uint32_t)count };
    for (int i = 0; i < count; i++)
        params.rect[i] = (struct tt_rect){ .from = (uintptr_t)b->device + (uint64_t)i * 2 * BYTES,
            .to = (uintptr_t)b->pinned + (uint64_t)i * BYTES,
            .count = BYTES,
            .sources = 1,
            .dsts = 1 };
    struct tt_dev_launch launch = { .kernel = tt_kernel_number(TT_KERNEL_MOVE, 0, 0),
        .grid = tt_fused_grid(BYTES),
        .grid_y = (uint32_t)count,
        .block = TT_FUSED_BLOCK,
        .params = &params,
        .params_bytes = sizeof params };
    for (int t = 0; t < TIMES; t++) {
        double before = gpu_seconds();
        if (by_kernel)
            gpu_fine(b->me, b->me->dev->launch(&launch, b->stream), "launch");
        for (int i = 0; i < count && !by_kernel; i++)
            gpu_fine(b->me,
                b->me->dev->copy(b->pinned + i * BYTES, b->device + i * 2 * BYTES, BYTES, b->stream), "copy");
        gpu_sync(b->me, b->stream);
        times[t] = 1e6 * (gpu_seconds() - before);
    }
    return gpu_median(times, TIMES);
}

static void many(struct gpu_me *me)
{
    static const int counts[] = { 2, 8, 16, 64 };
    struct bench b = begin(me);
    for (int i = 0; i < 4; i++) {
        char name[40];
        snprintf(name, sizeof name, "%d_copies_us", counts[i]);
        gpu_number(me, name, move_many(&b, counts[i], false));
        snprintf(name, sizeof name, "%d_by_kernel_us", counts[i]);
        gpu_number(me, name, move_many(&b, counts[i], true));
    }
}

/* --- How much a stream takes while a gate is shut: a thread enqueues until it gets no further */

enum piece { WORDS, COPIES, LAUNCHES, PIECES };

struct filler {
    const struct bench *b;
    enum piece piece;
    _Atomic int enqueued;
    atomic_bool open;
};

static void *fill(void *argument)
{
    enum { MOST = 20000 };
    struct filler *f = argument;
    const struct bench *b = f->b;
    gpu_fine(b->me, b->me->dev->use(b->me->device), "use");
    for (int i = 0; i < MOST && !atomic_load(&f->open); i++) {
        if (f->piece == WORDS)
            gpu_fine(b->me, b->me->dev->write_word(b->stream, b->seen + LINE, 1), "write_word");
        else
            move(b, f->piece == COPIES ? OUT : KERNEL, 64, b->stream);
        atomic_store(&f->enqueued, i + 1);
    }
    return NULL;
}

static void room(struct gpu_me *me)
{
    static const char *const kinds[PIECES] = { "words", "copies", "launches" };
    struct bench b = begin(me);
    for (int piece = 0; piece < PIECES; piece++) {
        struct filler f = { .b = &b, .piece = (enum piece)piece };
        uint32_t gate = (uint32_t)piece + 1;
        pthread_t thread;
        int before = -1, now = 0;
        gpu_fine(me, me->dev->wait_word(b.stream, b.seen, gate), "wait_word");
        pthread_create(&thread, NULL, fill, &f);
        for (; now != before; now = atomic_load(&f.enqueued)) {
            before = now;
            usleep(200000);
        }
        atomic_store(&f.open, true);
        gpu_store(b.words, gate);
        pthread_join(thread, NULL);
        gpu_sync(me, b.stream);
        gpu_number(me, kinds[piece], now);
    }
}

int main(int argc, char **argv)
{
    static const struct gpu_check questions[] = {
        { "behind_a_gate", 1, behind_a_gate },
        { "by_turns", 2, by_turns },
        { "alone", 1, alone },
        { "both_ways", 1, both_ways },
        { "many", 1, many },
        { "room", 1, room },
    };
    return gpu_main("copies", questions, sizeof questions / sizeof questions[0], argc, argv);
}
