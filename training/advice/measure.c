/* SPDX-License-Identifier: BSD-3-Clause */
/* measure.c: ranks that compute and call, by the clock. The model is the one that is planned, with two layers
 * at most: a layer is like another one. */
#include "training/advice/measure.h"

#include "training/commands/one_rank.h"
#include "training/commands/prepare.h"
#include "training/launch.h"
#include "training/run/run.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LAYERS = 2, SEQUENCES = 8, STEPS_NS = 300000000, CALLS_NS = 50000000 };
enum { BURST = 8 }; /* calls between looks at the clock */

struct probe {
    const struct tr_options *o;
    struct tr_measured *of; /* in memory that all share */
};

/* One rank's share of the batch, a power of two as sums want it. */
static void options_of(struct tr_options *to, const struct tr_options *o, bool bfloat16)
{
    long share = o->plan.batch / (o->ranks > 0 ? o->ranks : 1), sequences = 1;
    tr_one_rank_options(to, o);
    while (2 * sequences <= share && 2 * sequences <= SEQUENCES)
        sequences *= 2;
    to->plan.batch = (int)sequences;
    to->plan.numbers.bfloat16 = bfloat16;
    if (!bfloat16)
        to->plan.numbers.stochastic = false;
}

static bool prepare(struct tr_prepared *p, struct tr_options *o, struct tr_error *e)
{
    if (!tr_prepare(p, o, e))
        return false;
    if (p->run.graph.layers <= LAYERS)
        return true;
    tr_prepared_free(p);
    o->model.sizes.layers = LAYERS;
    return tr_prepare(p, o, e);
}

static int64_t memory_of_each(long ranks)
{
    return (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE) / ranks;
}

static bool fits_here(const struct tr_prepared *p, int64_t memory, struct tr_error *e)
{
    int64_t need = tr_tapes_of(p->tapes, 0)->arena;
    return need <= memory ||
           tr_fail(e,
               "--measure: two layers of this model need %lld bytes in each rank, and this machine has %lld; "
               "legal are fewer ranks, or --machine with a name or a file",
               (long long)need, (long long)memory);
}

static bool meet(tutti_comm *world, struct tr_error *e)
{
    return !world || tutti_barrier(world, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "%s", tutti_get_last_error(NULL));
}

/* Steps for a while, after one that makes all pages. */
static bool compute(double *rate, struct tr_runner *r, tutti_comm *world, struct tr_error *e)
{
    double flops = 0;
    if (!tr_runner_step(r, e) || !meet(world, e))
        return false;
    int64_t began = tr_now_ns(), now = began;
    while (now - began < STEPS_NS && tr_runner_step(r, e)) {
        flops += r->flops;
        now = tr_now_ns();
    }
    *rate = 1e9 * flops / (double)(now - began);
    return now - began >= STEPS_NS;
}

static bool measure_rate(
    double *rate, const struct probe *b, bool bfloat16, tutti_comm *world, struct tr_error *e)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_data data;
    struct tr_runner r = { .tape = NULL };
    options_of(&o, b->o, bfloat16);
    const struct tr_kernels *k = tr_options_kernels(&o, e);
    if (!k || !prepare(&p, &o, e))
        return false;
    bool opened = fits_here(&p, memory_of_each(b->o->ranks), e) && tr_open_data(&data, &o, &p.run.graph, e);
    bool ok = opened && tr_runner_open(&r, tr_tapes_of(p.tapes, 0), k, &data, NULL, e) &&
              compute(rate, &r, world, e);
    if (opened) {
        tr_runner_close(&r);
        tr_data_close(&data);
    }
    tr_prepared_free(&p);
    return ok;
}

/* Rank 0's clock says when it is enough, and all do as many calls. */
static bool measure_calls(double *seconds, float *at, size_t count, tutti_comm *world, struct tr_error *e)
{
    int64_t began = 0, calls = -BURST, spent = 0;
    for (float go = 1; go > 0; calls += BURST) {
        for (int i = 0; i < BURST; i++)
            if (tutti_all_reduce(at, at, count, TUTTI_FLOAT32, TUTTI_SUM, world, tutti_no_stream()) !=
                TUTTI_OK)
                return tr_fail(e, "%s", tutti_get_last_error(NULL));
        int64_t now = tr_now_ns();
        began = began ? began : now; /* the first calls open what calls need */
        spent = now - began;
        go = spent < CALLS_NS;
        if (tutti_broadcast(&go, &go, 1, TUTTI_FLOAT32, 0, world, tutti_no_stream()) != TUTTI_OK)
            return tr_fail(e, "%s", tutti_get_last_error(NULL));
    }
    *seconds = 1e-9 * (double)spent / (double)calls;
    return true;
}

static bool probe(tutti_comm *world, void *context, struct tr_error *e)
{
    const struct probe *b = context;
    struct tr_measured *m = &b->of[world ? tutti_comm_rank(world) : 0];
    if (!measure_rate(&m->rate[0], b, false, world, e) || !measure_rate(&m->rate[1], b, true, world, e))
        return false;
    float *at = world ? tr_new(TR_MANY, sizeof *at) : NULL;
    bool ok = !world || (measure_calls(&m->few, at, TR_FEW, world, e) &&
                            measure_calls(&m->many, at, TR_MANY, world, e));
    free(at);
    return ok;
}

/* As network.c takes an all_reduce apart: 2 (n - 1) messages, each of an n-th. */
static void set_network(struct tr_machine *m, const struct tr_measured *of, int n)
{
    double turns = 2.0 * (n - 1), bytes = (double)TR_MANY * sizeof(float) / n;
    double more = of->many > of->few ? of->many - of->few : of->many;
    m->latency[TR_INSIDE] = of->few / turns;
    m->message[TR_INSIDE] = 0;
    m->rate[TR_INSIDE] = turns * bytes / more;
}

void tr_machine_from(struct tr_machine *m, const struct tr_measured *of, int n)
{
    for (int k = 0; k < 2; k++) {
        m->peak[k] = 0;
        for (int r = 0; r < n; r++)
            m->peak[k] += of[r].rate[k] / n;
    }
    m->efficiency = 1;
    if (n > 1)
        set_network(m, &of[0], n);
}

bool tr_machine_measure(struct tr_machine *m, const struct tr_options *o)
{
    int n = (int)o->ranks;
    size_t bytes = (size_t)n * sizeof(struct tr_measured);
    struct tr_error e;
    struct tr_machine read;
    struct tr_measured *of = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (of == MAP_FAILED) {
        tr_fail(&e, "--measure: no memory to share");
        return tr_refuse(1, &e) == 0;
    }
    bool ok = tr_launch(n, probe, &(struct probe){ o, of }) == 0 && tr_machine_read(&read, "host", &e);
    if (ok) {
        *m = read;
        strcpy(m->name, "this machine");
        m->memory = memory_of_each(n);
        tr_machine_from(m, of, n);
    }
    munmap(of, bytes);
    return ok;
}
