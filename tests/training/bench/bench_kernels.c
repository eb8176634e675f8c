/* SPDX-License-Identifier: BSD-3-Clause */
/* bench_kernels.c: how fast the trainer's kernels are, on one core.
 *
 * usage: bench_kernels [SET]
 *
 * For each instruction set one line a shape: GFLOP/s of the product with one chunk and with eight. Then
 * attention, and what goes element by element in billions of elements a second. The time is that of the
 * processor, and the best of several runs, as others may use the machine. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "training/kernels/kernels.h"

enum { RUNS = 7 };
static const double run_seconds = 0.01;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float *numbers(int64_t n)
{
    float *x = aligned_alloc(64, (size_t)(n + 16) / 16 * 64);
    if (!x)
        abort();
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)((uint32_t)i * 2654435761u >> 8) * 0x1p-23f - 1;
    return x;
}

static const struct shape {
    const char *name;
    int64_t m, n, k;
    bool a_turned, b_turned;
} shapes[] = {
    { "nano qkv, 1 sequence", 64, 192, 64, false, true },
    { "nano fc1, 1 sequence", 64, 256, 64, false, true },
    { "nano dx of fc1", 64, 64, 256, false, false },
    { "nano fc1, 8 sequences", 512, 256, 64, false, true },
    { "nano dw of fc1", 256, 64, 64, true, false },
    { "nano fc2, 8 sequences", 512, 64, 256, false, false },
    { "micro qkv, 1 sequence", 128, 384, 128, false, true },
    { "micro dw of fc1", 512, 128, 128, true, false },
    { "micro fc1, 16 sequences", 2048, 512, 128, false, true },
    { "square", 1024, 1024, 1024, false, false },
    { "attention's block", 48, 8, 16, false, false },
    { "attention's values", 48, 16, 8, false, false },
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

struct work {
    const struct tr_kernels *set;
    struct tr_context *on;
    struct tr_gemm product;
    struct tr_attention shape;
    float *a, *b, *c, *d, *e, *scratch;
};

typedef void work_fn(const struct work *w);

/* Seconds of one call. */
static double measure(work_fn *run, const struct work *w)
{
    double best = 1e9;
    run(w);
    for (int r = 0; r < RUNS; r++) {
        double begin = now(), end = begin;
        int64_t calls = 0, more = 1;
        for (; end - begin < run_seconds; more *= 2) {
            for (int64_t i = 0; i < more; i++, calls++)
                run(w);
            end = now();
        }
        best = fmin(best, (end - begin) / (double)calls);
    }
    return best;
}

static void run_gemm(const struct work *w)
{
    w->set->gemm(w->on, &w->product, w->scratch);
}

static void bench_gemm(const struct tr_kernels *set, const struct shape *s)
{
    struct tr_context on = { .k = set };
    struct work w = { .set = set,
        .on = &on,
        .a = numbers(s->m * s->k),
        .b = numbers(s->k * s->n),
        .c = numbers(s->m * s->n),
        .scratch = numbers(set->scratch_gemm(&(struct tr_gemm){ .m = s->m, .n = s->n, .k = s->k })) };
    double rate[2];
    for (int i = 0; i < 2; i++) {
        int64_t chunks = i ? 8 : 1;
        w.product = (struct tr_gemm){ .m = s->m,
            .n = s->n,
            .k = s->k,
            .a = w.a,
            .b = w.b,
            .c = w.c,
            .a_row = s->a_turned ? 1 : s->k,
            .a_column = s->a_turned ? s->m : 1,
            .b_row = s->b_turned ? 1 : s->n,
            .b_column = s->b_turned ? s->k : 1,
            .c_row = s->n,
            .chunks = chunks,
            .chunk = s->k / chunks };
        rate[i] = 2e-9 * (double)(s->m * s->n * s->k) / measure(run_gemm, &w);
    }
    printf("%-8s %-24s %5ld %5ld %5ld %8.1f %8.1f\n", set->name, s->name, (long)s->m, (long)s->n, (long)s->k,
        rate[0], rate[1]);
    free(w.a), free(w.b), free(w.c), free(w.scratch);
}

/* ---- attention ---- */

static void run_attention(const struct work *w)
{
    w->set->attention.whole(w->on, w->b, w->c, w->a, w->a + w->shape.size, &w->shape, w->scratch);
}
static void run_attention_dx(const struct work *w)
{
    w->set->attention.dx(w->on, w->d, w->d + w->shape.size, w->e, w->b, w->c, w->a, w->a + w->shape.size,
        &w->shape, w->scratch);
}

/* The products of a full square of scores count, two forwards and five backwards, as is usual. */
static void bench_attention(const struct tr_kernels *set, int64_t tokens, int64_t heads, int64_t size)
{
    struct tr_context on = { .k = set };
    int64_t count = tokens * heads * size;
    struct work w = { .set = set,
        .on = &on,
        .shape = { tokens, heads, size, tokens / 8, 0, tokens, false, 0, NULL, false, 1, 1, 1, 1 },
        .a = numbers(3 * count),
        .b = numbers(count),
        .c = numbers(heads * tokens),
        .d = numbers(3 * count),
        .e = numbers(count) };
    w.scratch = numbers(set->attention.scratch(&w.shape));
    double forward = measure(run_attention, &w), backward = measure(run_attention_dx, &w);
    double product = 2e-9 * (double)(tokens * count);
    printf("%-8s attention %5ld tokens %3ld heads of %3ld: %9.1f us %7.1f GFLOP/s; back %9.1f us %7.1f\n",
        set->name, (long)tokens, (long)heads, (long)size, forward * 1e6, 2 * product / forward,
        backward * 1e6, 5 * product / backward);
    free(w.a), free(w.b), free(w.c), free(w.d), free(w.e), free(w.scratch);
}

/* ---- what passes over elements once ---- */

enum { ROWS = 64, COLUMNS = 256, ELEMENTS = ROWS * COLUMNS };
static uint16_t tokens[ROWS];
static float ones[COLUMNS];

static void run_layer_norm(const struct work *w)
{
    w->set->layer_norm.forward(w->on, w->d, w->b, w->c, w->a, ones, ones, ROWS, COLUMNS);
}
static void run_layer_norm_dx(const struct work *w)
{
    w->set->layer_norm.dx(w->on, w->d, w->e, w->a, ones, w->b, w->c, ROWS, COLUMNS);
}
static void run_layer_norm_dw(const struct work *w)
{
    w->set->layer_norm.dw(w->on, w->d, w->d + COLUMNS, w->e, w->a, w->b, w->c,
        &(struct tr_tokens){ 1, ROWS, COLUMNS, ROWS / 8 });
}
static void run_gelu(const struct work *w)
{
    w->set->gelu.forward(w->on, w->d, w->a, ELEMENTS);
}
static void run_gelu_dx(const struct work *w)
{
    w->set->gelu.dx(w->on, w->d, w->e, w->a, ELEMENTS);
}
static void run_add(const struct work *w)
{
    w->set->add(w->on, w->d, w->e, w->a, ELEMENTS);
}
static void run_softmax(const struct work *w)
{
    w->set->softmax.forward(w->on, w->d, w->b, w->c, ones, tokens, ROWS, COLUMNS, COLUMNS, 0, COLUMNS / 8, 8);
}
static void run_square_leaves(const struct work *w)
{
    static double leaf[64];
    w->set->square_leaves(w->on, leaf, w->a, false, ELEMENTS, ELEMENTS / 64);
}
static void run_adamw(const struct work *w)
{
    struct tr_adamw a = { 1e-3f, 0.1f, 1, 1, 1 };
    struct tr_update u = { w->d, w->b, w->c, w->a, NULL, ELEMENTS, a, NULL };
    w->set->update(w->on, &u);
}

static void bench_elements(const struct tr_kernels *set)
{
    struct tr_context on = { .k = set };
    static const struct {
        const char *name;
        work_fn *run;
    } all[] = { { "layer_norm", run_layer_norm }, { "layer_norm_dx", run_layer_norm_dx },
        { "layer_norm_dw", run_layer_norm_dw }, { "gelu", run_gelu }, { "gelu_dx", run_gelu_dx },
        { "add", run_add }, { "softmax", run_softmax }, { "square_leaves", run_square_leaves },
        { "adamw", run_adamw } };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct work w = { .set = set,
            .on = &on,
            .a = numbers(ELEMENTS),
            .b = numbers(ELEMENTS),
            .c = numbers(ELEMENTS),
            .d = numbers(ELEMENTS),
            .e = numbers(ELEMENTS) };
        for (int64_t n = 0; n < ELEMENTS; n++) /* sums of squares */
            w.b[n] = fabsf(w.b[n]), w.c[n] = fabsf(w.c[n]);
        printf("%-8s %-16s %6.2f elements/ns\n", set->name, all[i].name,
            1e-9 * ELEMENTS / measure(all[i].run, &w));
        free(w.a), free(w.b), free(w.c), free(w.d), free(w.e);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = { "generic", "avx2", "avx512" };
    for (int i = 0; i < COLUMNS; i++)
        ones[i] = 1;
    printf(
        "%-8s %-24s %5s %5s %5s %8s %8s   GFLOP/s\n", "set", "shape", "m", "n", "k", "1 chunk", "8 chunks");
    for (int n = 0; n < 3; n++) {
        const struct tr_kernels *set = tr_kernels_named(names[n]);
        if (!set || (argc > 1 && strcmp(argv[1], names[n])))
            continue;
        for (int i = 0; i < SHAPES; i++)
            bench_gemm(set, &shapes[i]);
        bench_attention(set, 64, 4, 16);
        bench_attention(set, 128, 4, 32);
        bench_attention(set, 1024, 2, 64);
        bench_elements(set);
    }
    return 0;
}
