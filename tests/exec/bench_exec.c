/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_exec.c: what the executor itself costs, per step.
 *
 * The real executor over the least transport there can be: two ranks, one shared page, eight slots of one
 * line each way, up to 48 bytes in the line, else read in place. "one thread" drives both ranks, so that no
 * line crosses cores: what remains is the executor. "two threads" adds the flags; their one-way time is
 * measured in the same run. Rows alternate, and each figure is the median of the rounds. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "base/clock.h"
#include "exec/exec.h"

enum { RANKS = 2, ROUNDS = 15, INLINE_BYTES = 48, LARGE_BYTES = 1 << 20, LARGE_SLICE = 128 << 10 };

struct line {
    _Alignas(64) _Atomic uint32_t number; /* written last: the message that lies here */
    uint32_t signature;
    uint64_t bytes;
    uint8_t payload[INLINE_BYTES]; /* or, of a longer message, its address */
};

/* What one rank writes, and of it the other reads. */
struct side {
    struct line lines[TT_SLOTS];
    _Alignas(64) _Atomic uint32_t released[TT_SLOTS]; /* the last message taken out of each slot */
};

struct bare {
    struct tt_endpoint head; /* first */
    struct tt_link link, *links[TT_CLASSES * RANKS]; /* one link to either rank, as no rank sends to itself */
    struct side *mine, *theirs;
    uint32_t posted[TT_SLOTS], seen_released[TT_SLOTS];
};

static struct bare *bare_of(struct tt_link *link)
{
    return (struct bare *)(void *)link->endpoint;
}

static bool bare_send(struct tt_link *link, const struct tt_message *m)
{
    struct bare *b = bare_of(link);
    uint32_t slot = m->number % TT_SLOTS, number = (uint32_t)m->number;
    if (b->seen_released[slot] != b->posted[slot]) /* look at the peer's line once for all slots */
        for (int i = 0; i < TT_SLOTS; i++)
            b->seen_released[i] = atomic_load_explicit(&b->theirs->released[i], memory_order_acquire);
    if (b->seen_released[slot] != b->posted[slot])
        return false;
    struct line *line = &b->mine->lines[slot];
    uint64_t run;
    uintptr_t source = tt_view_run(&m->source, 0, &run);
    if (m->bytes <= INLINE_BYTES)
        memcpy(line->payload, (const void *)source, m->bytes);
    else
        memcpy(line->payload, &source, sizeof source);
    line->signature = m->signature;
    line->bytes = m->bytes;
    b->posted[slot] = number;
    atomic_store_explicit(&line->number, number, memory_order_release);
    return true;
}

static bool bare_sent(struct tt_link *link, uint64_t number)
{
    struct bare *b = bare_of(link);
    uint32_t slot = number % TT_SLOTS;
    return b->posted[slot] != (uint32_t)number || b->mine->lines[slot].bytes <= INLINE_BYTES ||
           atomic_load_explicit(&b->theirs->released[slot], memory_order_acquire) == (uint32_t)number;
}

static bool bare_arrived(
    struct tt_link *link, uint64_t number, const struct tt_view *like, struct tt_arrival *a)
{
    struct line *line = &bare_of(link)->theirs->lines[number % TT_SLOTS];
    (void)like;
    if (atomic_load_explicit(&line->number, memory_order_acquire) != (uint32_t)number)
        return false;
    a->path = line->bytes <= INLINE_BYTES ? TT_PATH_INLINE : TT_PATH_MAPPED;
    a->packed = true;
    a->signature = line->signature;
    a->bytes = a->available = line->bytes;
    if (a->path == TT_PATH_INLINE)
        a->base = (uintptr_t)line->payload;
    else
        memcpy(&a->base, line->payload, sizeof a->base);
    return true;
}

static void bare_release(struct tt_link *link, uint64_t number)
{
    atomic_store_explicit(
        &bare_of(link)->mine->released[number % TT_SLOTS], (uint32_t)number, memory_order_release);
}

static const struct tt_link_ops bare = {
    .send = bare_send, .sent = bare_sent, .arrived = bare_arrived, .release = bare_release
};

struct rank {
    struct bare endpoint;
    struct tt_schedule schedule;
    struct tt_op op;
    uint64_t next_send[RANKS], next_recv[RANKS];
    float *in, *out, *tmp;
};

struct row {
    const char *algorithm;
    uint64_t bytes;
    bool two_threads;
    int operations;
    uint32_t steps; /* of one rank in one operation */
    struct rank ranks[RANKS];
    double samples[ROUNDS];
};

static void *reserve(uint64_t bytes)
{
    void *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (memory == NULL)
        abort();
    memset(memory, 0, (bytes + 4095) / 4096 * 4096);
    return memory;
}

static void open_rank(struct row *row, int me, struct side *sides)
{
    struct rank *r = &row->ranks[me];
    uint64_t count = row->bytes / sizeof(float);
    int algorithm = tt_algorithm_find(TT_ALL_REDUCE, row->algorithm);
    struct tt_key key = {
        .collective = TT_ALL_REDUCE, .algorithm = (uint8_t)algorithm, .n = RANKS, .me = me
    };
    if (tt_schedule_build(&r->schedule, &key) != TUTTI_OK || tt_op_create(&r->schedule, &r->op) != TUTTI_OK)
        abort();
    r->endpoint.head = (struct tt_endpoint){ .n = RANKS, .me = me, .links = r->endpoint.links };
    r->endpoint.link = (struct tt_link){ &bare, &r->endpoint.head, !me };
    for (int i = 0; i < TT_CLASSES * RANKS; i++)
        r->endpoint.links[i] = &r->endpoint.link;
    r->endpoint.mine = &sides[me];
    r->endpoint.theirs = &sides[!me];
    r->in = reserve(row->bytes);
    r->out = reserve(row->bytes);
    for (uint64_t i = 0; i < count; i++)
        r->in[i] = (float)(i % 1000) + (float)me;
    uint64_t chunk = (row->bytes + r->schedule.chunks - 1) / r->schedule.chunks;
    uint64_t span = chunk * r->schedule.max_chunks;
    uint32_t slices = (uint32_t)((span + LARGE_SLICE - 1) / LARGE_SLICE);
    struct tt_op *op = &r->op;
    tt_layout_even(&op->layout, count, r->schedule.chunks, slices, sizeof(float));
    uint64_t stride = (tt_layout_part_max(&op->layout) * sizeof(float) + 63) / 64 * 64;
    r->tmp = reserve(TT_WINDOW * stride * (r->schedule.tmp_cells + 1));
    op->endpoint = &r->endpoint.head;
    op->messages.signature = 1;
    op->messages.next_send = r->next_send;
    op->messages.next_recv = r->next_recv;
    for (int peer = 0; peer < RANKS; peer++)
        r->next_send[peer] = r->next_recv[peer] = TT_SLOTS; /* the lines start as message 0, taken out */
    op->spaces[TT_IN].base = (uintptr_t)r->in;
    op->spaces[TT_OUT].base = (uintptr_t)r->out;
    op->spaces[TT_TMP] = (struct tt_space){ .base = (uintptr_t)r->tmp, .stride = stride };
    op->window_bytes[TT_TMP] = stride * r->schedule.tmp_cells;
    op->arithmetic.folds[TT_CHAIN] = tt_fold_find(TUTTI_FLOAT32, TUTTI_SUM, TT_CHAIN);
    op->arithmetic.folds[TT_TREE] = tt_fold_find(TUTTI_FLOAT32, TUTTI_SUM, TT_TREE);
    row->steps = r->schedule.nsteps * slices;
}

static void check_rank(const struct row *row, const struct rank *r)
{
    for (uint64_t i = 0; i < row->bytes / sizeof(float); i++)
        if (r->out[i] != 2 * (float)(i % 1000) + 1) {
            fprintf(stderr, "bench_exec: %s is wrong at element %zu\n", row->algorithm, (size_t)i);
            abort();
        }
}

static int64_t drive_both(struct row *row)
{
    struct tt_op *a = &row->ranks[0].op, *b = &row->ranks[1].op;
    int64_t began = tt_now_ns();
    for (int i = 0; i < row->operations; i++) {
        tt_exec_start(a);
        tt_exec_start(b);
        enum tt_progress first, second;
        do {
            first = tt_exec_progress(a);
            second = tt_exec_progress(b);
        } while (first != TT_DONE || second != TT_DONE);
    }
    return tt_now_ns() - began;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set); /* where it is refused, figures are worse */
}

struct driver {
    struct row *row;
    int me;
    _Atomic int *ready;
    int64_t took_ns;
};

static void *drive_one(void *argument)
{
    struct driver *d = argument;
    struct tt_op *op = &d->row->ranks[d->me].op;
    pin(d->me);
    atomic_fetch_add(d->ready, 1);
    while (atomic_load(d->ready) < RANKS)
        ;
    int64_t began = tt_now_ns();
    for (int i = 0; i < d->row->operations; i++) {
        tt_exec_start(op);
        while (tt_exec_progress(op) != TT_DONE)
            ;
    }
    d->took_ns = tt_now_ns() - began;
    return NULL;
}

static int64_t drive_apart(struct row *row)
{
    _Atomic int ready = 0;
    struct driver drivers[RANKS] = { { row, 0, &ready, 0 }, { row, 1, &ready, 0 } };
    pthread_t other;
    if (pthread_create(&other, NULL, drive_one, &drivers[1]) != 0)
        abort();
    drive_one(&drivers[0]);
    pthread_join(other, NULL);
    return drivers[0].took_ns;
}

/* One line goes to and fro between two cores. */
struct pong {
    _Alignas(64) _Atomic uint32_t there;
    _Alignas(64) _Atomic uint32_t back;
};
enum { PONGS = 20000 };

static void *answer(void *argument)
{
    struct pong *p = argument;
    pin(1);
    for (uint32_t i = 1; i <= PONGS; i++) {
        while (atomic_load_explicit(&p->there, memory_order_acquire) != i)
            ;
        atomic_store_explicit(&p->back, i, memory_order_release);
    }
    return NULL;
}

static double flag_one_way_ns(void)
{
    struct pong p = { 0, 0 };
    pthread_t other;
    if (pthread_create(&other, NULL, answer, &p) != 0)
        abort();
    int64_t began = 0;
    for (uint32_t i = 1; i <= PONGS; i++) {
        if (i == 100)
            began = tt_now_ns();
        atomic_store_explicit(&p.there, i, memory_order_release);
        while (atomic_load_explicit(&p.back, memory_order_acquire) != i)
            ;
    }
    double took = (double)(tt_now_ns() - began);
    pthread_join(other, NULL);
    return took / (PONGS - 99) / 2;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *samples)
{
    qsort(samples, ROUNDS, sizeof *samples, compare);
    return samples[ROUNDS / 2];
}

static void print_row(struct row *row)
{
    double ns = median(row->samples);
    int ranks = row->two_threads ? 1 : RANKS; /* how many ranks' steps the thread runs */
    double per_step = ns / ranks / row->steps;
    printf("%-11s %-9s %8zu %6u %12.1f %10.1f %10.2f\n", row->two_threads ? "two threads" : "one thread",
        row->algorithm, (size_t)row->bytes, row->steps, ns, per_step, 1e3 / per_step);
}

int main(void)
{
    static const char *const algorithms[] = { "doubling", "direct", "one_shot" };
    enum { ALGORITHMS = 3, ROWS = ALGORITHMS * 4 };
    static struct row rows[ROWS];
    double flags[ROUNDS];
    for (int i = 0; i < ROWS; i++) {
        bool large = i / ALGORITHMS % 2 == 1;
        rows[i] = (struct row){ .algorithm = algorithms[i % ALGORITHMS],
            .bytes = large ? LARGE_BYTES : 8,
            .two_threads = i >= 2 * ALGORITHMS,
            .operations = large ? 20 : 20000 };
        struct side *sides = reserve(RANKS * sizeof *sides);
        for (int me = 0; me < RANKS; me++)
            open_rank(&rows[i], me, sides);
    }
    pin(0);
    for (int round = 0; round < ROUNDS; round++) {
        flags[round] = flag_one_way_ns();
        for (int i = 0; i < ROWS; i++) {
            int64_t took = rows[i].two_threads ? drive_apart(&rows[i]) : drive_both(&rows[i]);
            rows[i].samples[round] = (double)took / rows[i].operations;
        }
    }
    printf("executor, all_reduce of float32, 2 ranks; flag one way %.0f ns; median of %d rounds\n",
        median(flags), ROUNDS);
    printf("%-11s %-9s %8s %6s %12s %10s %10s\n", "", "", "bytes", "steps", "ns/op", "ns/step", "Msteps/s");
    for (int i = 0; i < ROWS; i++) {
        print_row(&rows[i]);
        for (int me = 0; me < RANKS; me++)
            check_rank(&rows[i], &rows[i].ranks[me]);
    }
    return 0;
}
