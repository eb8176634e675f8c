/* SPDX-License-Identifier: BSD-3-Clause */
/* test_offload.c: what goes to the host's memory and comes back is that of closed formulas, and what it frees
 * on the device. That the numbers stay the same is what `tutti-train verify` shows. */
#include "tests/training/options_rig.h"
#include "training/kernels/threads.h"
#include "training/account/ledger.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int64_t copied(const struct tr_tape *t, enum tr_code code, enum tr_cargo cargo)
{
    struct tr_ledger l;
    tr_copies_predict(&l, t);
    return tr_ledger_sum(&l, (int)code, -1, -1, (int)cargo).bytes;
}

/* Elements that the ranks update together, and how often each. */
static int64_t updated(const struct tr_prepared *p, int rank)
{
    int64_t elements = 0;
    for (int n = 0; n < p->tapes->of[rank].n_states; n++) {
        const struct tr_param_state *h = &p->tapes->of[rank].states[n];
        bool lent = p->run.graph.tensors[h->parameter].values_of != h->parameter &&
                    p->run.plan.mesh.size[TR_PP] == 1; /* a tied head beside its embedding */
        elements += lent ? 0 : h->shard_count;
    }
    return elements;
}

static const char *const meshes[] = { "", "--micro 4", "--dp 2", "--dp 4 --zero 1",
    "--dp 2 --zero 2 --micro 2", "--dp 4 --zero 3 --micro 2", "--tp 2 --sp",
    "--pp 2 --micro 4 --schedule zb-h1", "--dp 2 --tp 2 --pp 2 --micro 2 --zero 3 --recompute full" };
enum { MESHES = sizeof meshes / sizeof *meshes };

/* Gradients down, parameters up, 4 bytes each of an updated element; the states never move. */
Test(offload, optimizer_copies_what_is_updated)
{
    for (int m = 0; m < MESHES; m++) {
        char options[200];
        snprintf(options, sizeof options, "%s --offload optimizer", meshes[m]);
        struct tr_prepared p, without;
        rig_prepare(&p, options);
        rig_prepare(&without, meshes[m]);
        for (int r = 0; r < p.run.plan.mesh.n; r++) {
            const struct tr_tape *t = &p.tapes->of[r];
            int64_t bytes = 4 * updated(&p, r);
            cr_expect_eq(copied(t, TR_DOWN, TR_OF_GRADIENTS), bytes, "%s, rank %d", options, r);
            cr_expect_eq(copied(t, TR_UP, TR_OF_PARAMETERS), bytes, "%s, rank %d", options, r);
            cr_expect_eq(copied(t, TR_DOWN, -1), bytes);
            cr_expect_eq(copied(t, TR_UP, -1), bytes);
            cr_expect_eq(t->peak[TR_MEM_OPTIMIZER], 0);
            cr_expect_eq(t->host.peak[TR_MEM_OPTIMIZER], without.tapes->of[r].peak[TR_MEM_OPTIMIZER]);
            cr_expect_eq(t->host.peak[TR_MEM_OPTIMIZER], 2 * t->host.peak[TR_MEM_PARAMETER]);
            cr_expect_eq(t->peak[TR_MEM_PARAMETER], without.tapes->of[r].peak[TR_MEM_PARAMETER]);
        }
        tr_prepared_free(&p);
        tr_prepared_free(&without);
    }
}

/* In bfloat16 both are 2 bytes; the master, too, is on the host, 12 bytes with the states. Of roundings the
 * host has one at a time, as each comes up at once. */
Test(offload, bfloat16_copies_half_of_it)
{
    for (int m = 0; m < MESHES; m++) {
        char options[200];
        snprintf(options, sizeof options, "%s --precision bfloat16 --offload optimizer", meshes[m]);
        struct tr_prepared p;
        rig_prepare(&p, options);
        for (int r = 0; r < p.run.plan.mesh.n; r++) {
            const struct tr_tape *t = &p.tapes->of[r];
            int64_t elements = updated(&p, r), largest = 0;
            for (int n = 0; n < t->n_states; n++)
                largest = t->states[n].shard_count > largest ? t->states[n].shard_count : largest;
            cr_expect_eq(copied(t, TR_DOWN, -1), 2 * elements, "%s, rank %d", options, r);
            cr_expect_eq(copied(t, TR_DOWN, TR_OF_GRADIENTS), 2 * elements);
            cr_expect_eq(copied(t, TR_UP, TR_OF_PARAMETERS), 2 * elements);
            cr_expect_eq(copied(t, TR_UP, -1), 2 * elements);
            cr_expect_eq(t->peak[TR_MEM_OPTIMIZER], 0);
            cr_expect_eq(t->host.peak[TR_MEM_OPTIMIZER], 12 * elements);
            cr_expect_eq(t->host.peak[TR_MEM_PARAMETER], 2 * largest);
        }
        tr_prepared_free(&p);
    }
}

/* Of a layer the backward part reads 16 vectors of C numbers a token (both inputs and results of the layer
 * norms, qkv, what attention gives, four each before and after GELU), the statistics of two layer norms, and
 * a number for each head; beside the layers, those of the last layer norm, the gradient of the logits, with
 * which the forward part ends, and the tokens. */
Test(offload, activations_copy_what_the_backward_part_reads)
{
    for (int micro = 1; micro <= 4; micro *= 2) {
        char options[64];
        snprintf(options, sizeof options, "--micro %d --offload activations", micro);
        struct tr_prepared p, without;
        rig_prepare(&p, options);
        rig_prepare(&without, "");
        const struct tr_graph *g = &p.run.graph;
        int64_t layer = 4 * (16 * g->channels + 2 * 2 + g->heads), end = 4 * (2 * g->channels + 2),
                logits = 4 * g->vocabulary, tokens = 2;
        int64_t all = p.run.plan.batch * g->context * (g->layers * layer + end + logits + tokens);
        const struct tr_tape *t = &p.tapes->of[0];
        cr_expect_eq(copied(t, TR_DOWN, TR_OF_ACTIVATIONS), all, "%lld, and the formula has %lld",
            (long long)copied(t, TR_DOWN, TR_OF_ACTIVATIONS), (long long)all);
        cr_expect_eq(copied(t, TR_UP, TR_OF_ACTIVATIONS), all);
        cr_expect_eq(copied(t, TR_DOWN, -1), all);
        cr_expect_eq(t->host.peak[TR_MEM_ACTIVATION], all / micro);
        cr_expect_lt(t->peak[TR_MEM_ACTIVATION], without.tapes->of[0].peak[TR_MEM_ACTIVATION] / 4 / micro);
        tr_prepared_free(&p);
        tr_prepared_free(&without);
    }
}

/* No layer's activations are on the device while another one computes: twice the layers take no more. */
Test(offload, the_device_has_the_activations_of_one_layer)
{
    struct tr_prepared few, many;
    rig_prepare(&few, "--layers 2 --offload activations");
    rig_prepare(&many, "--layers 8 --offload activations");
    cr_expect_eq(few.tapes->of[0].peak[TR_MEM_ACTIVATION], many.tapes->of[0].peak[TR_MEM_ACTIVATION]);
    tr_prepared_free(&few);
    tr_prepared_free(&many);
}

/* With full recomputation little more than the inputs of layers is left to offload. */
Test(offload, recomputation_leaves_less_to_copy)
{
    struct tr_prepared p;
    rig_prepare(&p, "--recompute full --offload activations");
    const struct tr_graph *g = &p.run.graph;
    int64_t token = 4 * g->channels, end = 4 * (2 * g->channels + 2), logits = 4 * g->vocabulary;
    int64_t all = p.run.plan.batch * g->context * (g->layers * token + end + logits + 2);
    cr_expect_eq(copied(&p.tapes->of[0], TR_DOWN, TR_OF_ACTIVATIONS), all, "%lld, and the formula has %lld",
        (long long)copied(&p.tapes->of[0], TR_DOWN, TR_OF_ACTIVATIONS), (long long)all);
    tr_prepared_free(&p);
}

/* Threads that have more or less to do, or nothing, give the bits of one. */
Test(offload, threads_change_no_bit)
{
    enum { MOST = 25000, ARRAYS = 4 };
    static float one[ARRAYS][MOST], many[ARRAYS][MOST];
    static uint16_t narrow[MOST];
    struct tr_context on = { .k = tr_kernels_best() };
    for (int i = 0; i < MOST; i++)
        narrow[i] = (uint16_t)(0x3C00 + i % 2500);
    for (int threads = 2; threads <= 8; threads += 3) {
        struct tr_error e = { .text = "" };
        struct tr_threads *pool = tr_threads_start(threads, "optimizer-threads", &e);
        cr_assert(pool, "%s", e.text);
        for (int64_t count = 1; count <= MOST; count += count < 300 ? 97 : 2731) {
            for (int i = 0; i < ARRAYS * MOST; i++)
                one[i / MOST][i % MOST] = many[i / MOST][i % MOST] = (float)(i * 7919 % 1000) / 1000;
            struct tr_adamw step = { 1e-3f, 0.1f, 0.5f, 1.2f, 1.1f };
            struct tr_update a = { one[0], one[1], one[2], one[3], NULL, count, step, NULL };
            struct tr_update b = { many[0], many[1], many[2], many[3], NULL, count, step, NULL };
            tr_update(&on, &a, NULL);
            tr_update(&on, &b, pool);
            cr_assert_arr_eq(one, many, sizeof one, "%ld elements, %d threads", (long)count, threads);
            a.g = b.g = NULL, a.narrow = b.narrow = narrow;
            tr_update(&on, &a, NULL);
            tr_update(&on, &b, pool);
            cr_assert_arr_eq(one, many, sizeof one, "%ld of bfloat16, %d threads", (long)count, threads);
            a.m = b.m = NULL; /* SGD */
            tr_update(&on, &a, NULL);
            tr_update(&on, &b, pool);
            cr_assert_arr_eq(one, many, sizeof one, "%ld elements, %d threads", (long)count, threads);
        }
        tr_threads_stop(pool);
    }
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* What a rank computes between two updates, its other threads sleep through: they would take the cores of
 * other ranks. Threads that spin take as much time of a processor as has passed. */
Test(offload, threads_sleep_between_updates)
{
    enum { COUNT = 16384, ROUNDS = 100, BETWEEN_MS = 5 };
    static float p[COUNT], g[COUNT];
    struct tr_context on = { .k = tr_kernels_best() };
    struct tr_update u = { .p = p, .g = g, .count = COUNT, .a = { .rate = 1, .scale = 1 } };
    struct tr_error e = { .text = "" };
    struct tr_threads *pool = tr_threads_start(2, "optimizer-threads", &e);
    cr_assert(pool, "%s", e.text);
    double begin = cpu_seconds(), spent;
    for (int i = 0; i < ROUNDS; i++) {
        tr_update(&on, &u, pool);
        nanosleep(&(struct timespec){ .tv_nsec = BETWEEN_MS * 1000000 }, NULL);
    }
    spent = cpu_seconds() - begin;
    tr_threads_stop(pool);
    cr_expect_lt(
        spent, ROUNDS * BETWEEN_MS * 1e-3 / 4, "%g seconds of a processor for %d updates", spent, ROUNDS);
}

/* A count that the system refuses is told, and those that were started end. */
Test(offload, threads_that_cannot_be_started_are_told)
{
    struct rlimit few = { 1, 1 };
    struct tr_error e = { .text = "" };
    if (geteuid() == 0) { /* whom the limit does not bind */
        cr_assert_eq(setgid(65534) | setuid(65534), 0);
    }
    cr_assert_eq(setrlimit(RLIMIT_NPROC, &few), 0);
    cr_assert_null(tr_threads_start(4, "optimizer-threads", &e));
    cr_expect(strstr(e.text, "--optimizer-threads 4: thread 2 cannot be started"), "%s", e.text);
}
