/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_optimizer.c: how fast AdamW is where --offload optimizer runs it, beside a plain scalar loop.
 *
 * usage: bench_optimizer
 *
 * This file is compiled without vectors, so the loop below is what a C compiler makes of the formula for one
 * element at a time. All give the same bits, or this fails. One core is measured by the processor's time of
 * the thread, several threads by the clock; the best of several runs. The bar, four times the scalar loop on
 * one core, is for what a tensor of a model needs, which the second level of a cache holds; what is larger is
 * bound by memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "training/kernels/threads.h"

enum { RUNS = 9, ARRAYS = 4 };
static const double run_seconds = 0.02, bar = 4;

static void scalar(float *p, float *m, float *v, const float *g, int64_t count, const struct tr_adamw *a)
{
    for (int64_t i = 0; i < count; i++) {
        float slope = g[i] * a->scale;
        m[i] = 0.9f * m[i] + (1 - 0.9f) * slope;
        v[i] = 0.95f * v[i] + (1 - 0.95f) * (slope * slope);
        float root = sqrtf(v[i] * a->correct2) + 1e-8f;
        p[i] = p[i] - a->rate * (m[i] * a->correct1 / root + a->decay * p[i]);
    }
}

struct work {
    struct tr_context on; /* k: NULL for the scalar loop */
    int threads;
    struct tr_threads *pool; /* NULL: one */
    struct tr_update u;
};

static void run(struct work *w)
{
    if (w->on.k)
        tr_update(&w->on, &w->u, w->pool);
    else
        scalar(w->u.p, w->u.m, w->u.v, w->u.g, w->u.count, &w->u.a);
}

static double now(bool threads)
{
    struct timespec t;
    clock_gettime(threads ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of one update. */
static double measure(struct work *w)
{
    double best = 1e9;
    for (int r = 0; r < RUNS; r++) {
        double begin = now(w->threads > 1), end = begin;
        int64_t calls = 0;
        for (; end - begin < run_seconds; end = now(w->threads > 1), calls++)
            run(w);
        best = fmin(best, (end - begin) / (double)calls);
    }
    return best;
}

static void fill(struct tr_update *u, float *memory)
{
    for (int64_t i = 0; i < ARRAYS * u->count; i++)
        memory[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-24f;
    u->p = memory, u->m = memory + u->count, u->v = memory + 2 * u->count, u->g = memory + 3 * u->count;
}

/* Whether three updates leave what the scalar loop leaves. */
static bool equal(struct work *w, float *mine, float *wanted)
{
    struct work a = *w, b = *w;
    b.on.k = NULL;
    fill(&a.u, mine);
    fill(&b.u, wanted);
    for (int i = 0; i < 3; i++)
        run(&a), run(&b);
    return !memcmp(mine, wanted, (size_t)(ARRAYS * w->u.count) * sizeof *mine);
}

static int bench(int64_t count)
{
    static const char *const sets[] = { NULL, "generic", "avx2", "avx512" };
    size_t bytes = (size_t)(ARRAYS * count) * sizeof(float);
    float *mine = aligned_alloc(64, bytes), *wanted = aligned_alloc(64, bytes);
    double plain = 0, best = 0;
    int wrong = 0, most = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (!mine || !wanted)
        abort();
    for (int threads = 1; threads <= most; threads *= 2) {
        struct tr_error e;
        struct tr_threads *pool = threads > 1 ? tr_threads_start(threads, &e) : NULL;
        for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
            struct work w = { .on = { .k = sets[s] ? tr_kernels_named(sets[s]) : NULL },
                .threads = threads,
                .pool = pool,
                .u = { .count = count, .a = { 1e-3f, 0.1f, 0.5f, 1.2f, 1.1f } } };
            if ((sets[s] && !w.on.k) || (!sets[s] && threads > 1))
                continue;
            wrong += !equal(&w, mine, wanted);
            fill(&w.u, mine);
            double seconds = measure(&w);
            plain = sets[s] ? plain : seconds;
            best = threads == 1 && plain / seconds > best ? plain / seconds : best;
            printf("%9ld elements, %d thread%s, %-8s %7.3f billion a second, %5.2f times the scalar loop\n",
                (long)count, threads, threads > 1 ? "s" : " ", sets[s] ? sets[s] : "scalar",
                (double)count / seconds * 1e-9, plain / seconds);
        }
        tr_threads_stop(pool);
    }
    printf("%9ld elements: the best set is %.2f times the scalar loop on one core; the bar is %.0f\n",
        (long)count, best, bar);
    free(mine), free(wanted);
    return wrong;
}

int main(void)
{
    int wrong = 0;
    for (int64_t count = 1 << 14; count <= 1 << 22; count *= 16)
        wrong += bench(count);
    if (wrong)
        printf("%d updates have other bits than the scalar loop\n", wrong);
    return wrong > 0;
}
