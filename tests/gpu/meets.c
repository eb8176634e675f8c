/* SPDX-License-Identifier: BSD-3-Clause */
/* meets.c: do kernels that wait for each other (kernels/cuda/cuda_direct.h) do on a device what they do
 * emulated? Ranks are streams of one device here, whose kernels run at once; so this asks what the compiler
 * has made of them, and what the order of memory is, but not between devices.
 *
 * A rank's kernels leave by themselves when the host has waited for them for long, so that nothing hangs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu.h"
#include "kernels/cuda/cuda_direct.h"
#include "tests/kernels/kernel_reference.h"

enum { RANKS = TT_FUSED_RANKS, LONG = 40003 * 8, GAP = 64, REGION = LONG + 2 * GAP };
enum { LARGE = 64 << 20 /* bytes of a call that is measured, and not looked at */ };

struct bench {
    struct gpu_me *me;
    const struct tt_dev *dev;
    bool slow; /* the stub, whose threads are a processor's */
    uint32_t n, most; /* blocks that a kernel may have, for all to run at once */
    uint8_t *device[RANKS][2], *host,
        *back; /* operands and results; host: of all ranks, one after the other */
    struct tt_pad *pads[RANKS];
    struct tt_direct_words *words[RANKS];
    void *streams[RANKS];
};

static void begin(struct bench *b, struct gpu_me *me)
{
    struct tt_dev_facts facts;
    *b = (struct bench){ .me = me, .dev = me->dev };
    gpu_fine(me, b->dev->use(me->device), "use");
    gpu_fine(me, b->dev->facts(me->device, &facts), "facts");
    if (b->dev->preload() == TT_DEV_UNSUPPORTED)
        gpu_skip(me, "%s", me->dev->why());
    b->slow = facts.bytes < UINT64_C(4) << 30;
    b->most = (uint32_t)facts.sms / RANKS;
    gpu_expect(me, b->most > 0, "%d multiprocessors: %d are needed", facts.sms, RANKS);
    b->host = gpu_alloc(me, TT_DEV_PINNED, (uint64_t)RANKS * REGION);
    b->back = gpu_alloc(me, TT_DEV_PINNED, REGION);
    for (uint32_t k = 0; k < RANKS; k++) {
        b->streams[k] = gpu_stream(me);
        b->pads[k] = gpu_alloc(me, TT_DEV_DEVICE, sizeof *b->pads[k]);
        b->words[k] = gpu_alloc(me, TT_DEV_PINNED, sizeof *b->words[k]);
        for (int side = 0; side < 2; side++)
            b->device[k][side] = gpu_alloc(me, TT_DEV_DEVICE, b->slow ? REGION : LARGE);
    }
}

/* From now on there are n ranks, who have never called anything. */
static void set_ranks(struct bench *b, uint32_t n)
{
    b->n = n;
    for (uint32_t k = 0; k < RANKS; k++) {
        memset(b->words[k], 0, sizeof *b->words[k]);
        gpu_fine(b->me, b->dev->fill(b->pads[k], 0, sizeof *b->pads[k], b->streams[k]), "fill");
        gpu_sync(b->me, b->streams[k]);
    }
}

/* All ranks' kernels are over; where they are not in time, they leave, and the check has failed. */
static void await(struct bench *b, const char *what)
{
    const int patience_s = b->slow ? 50 : 10;
    double until = gpu_seconds() + patience_s;
    bool late = false;
    for (uint32_t k = 0; k < b->n; k++)
        while (b->dev->stream.query(b->streams[k]) == TT_DEV_NOT_READY) {
            usleep(100);
            late = late || gpu_seconds() > until;
            for (uint32_t j = 0; j < b->n && late; j++)
                gpu_store(&b->words[j]->abort, 1);
        }
    gpu_expect(b->me, !late, "%s: kernels waited for each other for %d s", what, patience_s);
}

struct call {
    const struct type *t;
    enum tt_kernel kernel;
    tutti_op op;
    enum tt_shape shape;
    enum tt_direct_way way;
    bool scatters; /* a reduce_scatter; else an all_reduce, or an all_gather of what moves */
    size_t count, offset; /* elements of a block; bytes from the begin of a region */
};

/* As rectangles: block i is rank i's. */
static struct tt_direct_params params_of(struct bench *b, const struct call *c, uint32_t rank)
{
    const bool moves = c->kernel == TT_KERNEL_DIRECT_MOVE;
    const uint8_t all = (uint8_t)((1U << b->n) - 1);
    const uint64_t bytes = c->count * c->t->bytes;
    struct tt_direct_params p = { .in = b->device[rank][0] + c->offset,
        .out = b->device[rank][1] + c->offset,
        .words = b->words[rank],
        .segment = tt_direct_segment(b->n),
        .way = c->way,
        .ranks = b->n,
        .rank = rank,
        .row = tt_fold_row_of(c->op),
        .shape = c->shape,
        .divisor = c->op == TUTTI_AVG ? b->n : 1 };
    struct tt_rect rects[RANKS] = { { .count = c->count, .sources = all, .dsts = all } };
    for (uint32_t i = 0; i < b->n; i++)
        if (moves)
            rects[i] = (struct tt_rect){
                .to = i * bytes, .count = bytes, .sources = (uint8_t)(1U << i), .dsts = all
            };
        else if (c->scatters)
            rects[i] = (struct tt_rect){
                .from = i * bytes, .count = c->count, .sources = all, .dsts = (uint8_t)(1U << i)
            };
    memcpy(p.pads, b->pads, sizeof p.pads);
    bool ll = tt_direct_set(&p, rects, moves || c->scatters ? b->n : 1, moves ? 1 : (uint32_t)c->t->bytes);
    gpu_expect(b->me, ll && (c->way == TT_DIRECT_PADS || p.longest <= TT_LL_BYTES), "LL does not serve it");
    return p;
}

static void launch(struct bench *b, const struct call *c, uint32_t rank)
{
    struct tt_direct_params p = params_of(b, c, rank);
    struct tt_dev_launch what = { .kernel = tt_kernel_number(c->kernel, c->t->type, c->op),
        .grid = tt_direct_grid(p.longest, b->most),
        .grid_y = 1,
        .block = p.longest < 4096 ? 128 : TT_DIRECT_BLOCK,
        .params = &p,
        .params_bytes = sizeof p };
    gpu_fine(b->me, b->dev->launch(&what, b->streams[rank]), "launch");
}

/* Several calls by one kernel. */
static void launch_list(struct bench *b, const struct call *calls, uint32_t count, uint32_t rank)
{
    struct tt_direct_list_params list = { .words = b->words[rank],
        .ranks = b->n,
        .rank = rank,
        .type = calls[0].t->type,
        .row = TT_ROW_SUM,
        .shape = calls[0].shape,
        .divisor = calls[0].op == TUTTI_AVG ? b->n : 1,
        .calls = count };
    memcpy(list.pads, b->pads, sizeof list.pads);
    for (uint32_t i = 0; i < count; i++) {
        struct tt_direct_params p = params_of(b, &calls[i], rank);
        list.listed[i] = (struct tt_direct_listed){ p.in, p.out, (uint32_t)p.longest, p.signature };
    }
    struct tt_dev_launch what = { .kernel =
                                      tt_kernel_number(TT_KERNEL_DIRECT_LIST, calls[0].t->type, calls[0].op),
        .grid = 1,
        .grid_y = 1,
        .block = b->slow ? 32 : TT_DIRECT_BLOCK,
        .params = &list,
        .params_bytes = sizeof list };
    gpu_fine(b->me, b->dev->launch(&what, b->streams[rank]), "launch of a list");
}

/* --- Bits. */

static void upload(struct bench *b, const struct type *t)
{
    for (uint32_t k = 0; k < b->n; k++) {
        uint8_t *region = b->host + (size_t)k * REGION;
        for (size_t at = 0; at + t->bytes <= REGION; at += t->bytes) {
            uint64_t bits = random_value(t);
            memcpy(region + at, &bits, t->bytes);
        }
        gpu_fine(b->me, b->dev->copy(b->device[k][0], region, REGION, b->streams[k]), "copy");
    }
}

static void compare(struct bench *b, const struct call *c, uint32_t rank, const uint8_t *want, size_t bytes)
{
    gpu_fine(b->me, b->dev->copy(b->back, b->device[rank][1] + c->offset, bytes, b->streams[rank]), "copy");
    gpu_sync(b->me, b->streams[rank]);
    for (size_t i = 0; i < bytes && memcmp(b->back, want, bytes) != 0; i++)
        gpu_expect(b->me, b->back[i] == want[i],
            "%u ranks, %s, operation %u, shape %d, way %d, %zu elements at %zu: rank %u has byte %zu wrong",
            b->n, c->t->name, c->op, c->shape, c->way, c->count, c->offset, rank, i);
}

static void compare_all(struct bench *b, const struct call *c)
{
    static uint8_t want[RANKS * REGION];
    const size_t bytes = c->count * c->t->bytes, blocks = c->scatters ? b->n : 1;
    const void *sources[RANKS];
    for (size_t i = 0; i < blocks; i++) {
        for (uint32_t k = 0; k < b->n; k++)
            sources[k] = b->host + (size_t)k * REGION + c->offset + i * bytes;
        tt_fold_find_isa(c->t->type, c->op, c->shape, TT_ISA_GENERIC)(
            want + i * bytes, sources, (int)b->n, c->count, c->op == TUTTI_AVG ? b->n : 1);
    }
    for (uint32_t k = 0; k < b->n; k++)
        compare(b, c, k, want + (c->scatters ? k * bytes : 0), bytes);
}

static void run_and_compare(struct bench *b, const struct call *c)
{
    for (uint32_t k = 0; k < b->n; k++)
        launch(b, c, k);
    await(b, c->t->name);
    compare_all(b, c);
}

static void run_type(struct bench *b, const struct type *t)
{
    upload(b, t);
    for (int o = 0; o < OPS; o++)
        for (int how = 0; how < 8; how++) {
            struct call c = { .t = t,
                .kernel = TT_KERNEL_DIRECT,
                .op = ops[o].op,
                .shape = how & 1 ? TT_TREE : TT_CHAIN,
                .way = how & 2 ? TT_DIRECT_PADS : TT_DIRECT_LL,
                .scatters = how & 4,
                .count = 1 + random_bits() % 700,
                .offset = random_bits() % 3 * t->bytes };
            if (tt_fold_find(t->type, c.op, c.shape) == NULL)
                continue;
            run_and_compare(b, &c);
            c.count = LONG / t->bytes / (c.scatters ? b->n : 1) / (c.way == TT_DIRECT_LL ? 3 : 1);
            c.offset = 0;
            if (!b->slow)
                run_and_compare(b, &c);
        }
}

static void check(struct gpu_me *me, bool of_floats)
{
    struct bench b;
    begin(&b, me);
    for (uint32_t n = 2; n <= RANKS; n += b.slow ? RANKS : 3) {
        set_ranks(&b, n);
        for (int t = 0; t < TYPES; t++)
            if ((types[t].kind == 'f' || types[t].kind == 'd') == of_floats)
                run_type(&b, &types[t]);
    }
}

static void integers(struct gpu_me *me)
{
    check(me, false);
}

static void floats(struct gpu_me *me)
{
    check(me, true);
}

/* --- Lists: one rank has all calls in a kernel, one has a kernel for each, and others have two lists. */

enum { LISTED = 12, APART = 9000 /* bytes, a multiple of each element */ };

static void run_lists(struct bench *b, const struct type *t, tutti_op op, enum tt_shape shape)
{
    struct call c[LISTED];
    for (uint32_t i = 0; i < LISTED; i++)
        c[i] = (struct call){ .t = t,
            .kernel = TT_KERNEL_DIRECT,
            .op = op,
            .shape = shape,
            .way = TT_DIRECT_LL,
            .count = 1 + random_bits() % (i % 3 == 2 && !b->slow ? TT_LISTED_BYTES / t->bytes : 300),
            .offset = i * APART + random_bits() % 3 * t->bytes };
    for (uint32_t k = 0; k < b->n; k++) {
        uint32_t first = k == 0 ? LISTED : 1 + (uint32_t)(random_bits() % (LISTED - 1));
        for (uint32_t i = 0; i < LISTED && k == 1; i++)
            launch(b, &c[i], k);
        if (k != 1)
            launch_list(b, c, first, k);
        if (k != 1 && first < LISTED)
            launch_list(b, c + first, LISTED - first, k);
    }
    await(b, "lists");
    for (uint32_t i = 0; i < LISTED; i++)
        compare_all(b, &c[i]);
}

static void lists(struct gpu_me *me)
{
    struct bench b;
    begin(&b, me);
    for (uint32_t n = 2; n <= RANKS; n += b.slow ? RANKS : 3) {
        set_ranks(&b, n);
        for (int t = 0; t < TYPES; t++)
            for (int how = 0; how < 4; how++) {
                tutti_op op = how & 1 ? TUTTI_AVG : TUTTI_SUM;
                if (tt_kernel_number(TT_KERNEL_DIRECT_LIST, types[t].type, op) == 0)
                    continue;
                upload(&b, &types[t]);
                run_lists(&b, &types[t], op, how & 2 ? TT_TREE : TT_CHAIN);
            }
    }
}

/* --- Order: each sum takes the last one's result, and nothing but the kernels makes ranks wait. */

static void chain(struct gpu_me *me)
{
    enum { COUNT = 5000 };
    const struct type *t = &types[4]; /* uint32 */
    struct bench b;
    begin(&b, me);
    set_ranks(&b, 4);
    upload(&b, t);
    uint32_t factor = 1, calls = b.slow ? 20 : 1000;
    for (uint32_t i = 0; i < calls; i++) {
        struct call c = { .t = t,
            .kernel = TT_KERNEL_DIRECT,
            .op = TUTTI_SUM,
            .way = random_bits() % 2 != 0 ? TT_DIRECT_PADS : TT_DIRECT_LL,
            .count = COUNT - random_bits() % 2 * (COUNT / 2) };
        for (uint32_t j = 0; j < b.n; j++) {
            uint32_t k = (i + j) % b.n;
            launch(&b, &c, k);
            gpu_fine(me, b.dev->copy(b.device[k][0], b.device[k][1], c.count * 4, b.streams[k]), "copy");
        }
        factor *= i > 0 ? b.n : 1;
        if (i % 10 == 9)
            await(&b, "a chain of sums");
    }
    static uint32_t want[COUNT];
    for (size_t i = 0; i < COUNT / 2; i++)
        for (uint32_t k = 0; k < b.n; k++) {
            uint32_t value;
            memcpy(&value, b.host + (size_t)k * REGION + i * 4, 4);
            want[i] += value * factor;
        }
    struct call c = { .t = t, .op = TUTTI_SUM, .count = COUNT / 2 };
    for (uint32_t k = 0; k < b.n; k++)
        compare(&b, &c, k, (const uint8_t *)want, COUNT / 2 * 4);
}

/* --- Times, of graphs that hold some calls. */

/* Of each call, where so many are one kernel. */
static double time_of(struct bench *b, const struct call *c, uint32_t listed)
{
    const int calls = b->slow ? 2 : 20, replays = b->slow ? 1 : 10;
    void *graphs[RANKS], *runnables[RANKS];
    struct call same[LISTED];
    for (uint32_t i = 0; i < LISTED; i++)
        same[i] = *c;
    for (uint32_t k = 0; k < b->n; k++) {
        gpu_fine(b->me, b->dev->graph.capture_begin(b->streams[k]), "capture_begin");
        for (int i = 0; i < calls; i++)
            if (listed > 1)
                launch_list(b, same, listed, k);
            else
                launch(b, c, k);
        gpu_fine(b->me, b->dev->graph.capture_end(b->streams[k], &graphs[k]), "capture_end");
        gpu_fine(b->me, b->dev->graph.instantiate(graphs[k], &runnables[k]), "instantiate");
    }
    double best = 1e9;
    for (int i = 0; i < replays; i++) {
        double start = gpu_seconds();
        for (uint32_t k = 0; k < b->n; k++)
            gpu_fine(b->me, b->dev->graph.launch(runnables[k], b->streams[k]), "launch of a graph");
        await(b, "a graph");
        double each = (gpu_seconds() - start) / calls / listed;
        best = each < best ? each : best;
    }
    for (uint32_t k = 0; k < b->n; k++)
        gpu_fine(b->me, b->dev->graph.destroy(graphs[k]), "destroy");
    return best * 1e6;
}

static void times(struct gpu_me *me)
{
    char name[40];
    struct bench b;
    begin(&b, me);
    for (uint32_t n = 2; n <= 8; n *= 2) {
        set_ranks(&b, n);
        for (int i = 0; i < (b.slow ? 1 : 4); i++) {
            struct call c = { .t = &types[8], .kernel = TT_KERNEL_DIRECT, .op = TUTTI_SUM }; /* float32 */
            c.way = i < 2 ? TT_DIRECT_LL : TT_DIRECT_PADS;
            c.count = i == 0 ? 2 : i < 3 ? 16384 : LARGE / 4;
            snprintf(name, sizeof name, "%s_%zu_bytes_n%u_us", i < 2 ? "ll" : "pads", c.count * 4, n);
            gpu_number(me, name, time_of(&b, &c, 1));
            if (i == 0) {
                snprintf(name, sizeof name, "list_of_%d_n%u_us", LISTED, n);
                gpu_number(me, name, time_of(&b, &c, LISTED));
            }
        }
    }
}

/* --- The end: a rank does not come, and the host lets the others go. */

static void leaves(struct gpu_me *me)
{
    struct bench b;
    begin(&b, me);
    for (int way = 0; way < 2; way++) {
        struct call c = { .t = &types[8], .kernel = TT_KERNEL_DIRECT, .op = TUTTI_SUM, .count = 1000 };
        c.way = (enum tt_direct_way)way;
        set_ranks(&b, 3);
        for (uint32_t k = 0; k < 2; k++)
            launch(&b, &c, k);
        usleep(20000);
        for (uint32_t k = 0; k < 2; k++) {
            gpu_expect(me, b.dev->stream.query(b.streams[k]) == TT_DEV_NOT_READY, "it waits for nobody");
            gpu_store(&b.words[k]->abort, 1);
        }
        await(&b, "kernels that are to leave");
        for (uint32_t k = 0; k < 2; k++)
            gpu_expect(me, b.words[k]->left > 0 && b.words[k]->done == 0, "rank %u did not leave", k);
    }
}

int main(int argc, char **argv)
{
    static const struct gpu_check checks[] = { { "integers", 1, integers }, { "floats", 1, floats },
        { "lists", 1, lists }, { "chain", 1, chain }, { "times", 1, times }, { "leaves", 1, leaves } };
    return gpu_main("meets", checks, sizeof checks / sizeof checks[0], argc, argv);
}
