/* SPDX-License-Identifier: BSD-3-Clause */
/* golden.c: run the golden program in a child, and read what it prints and writes. */
#include "training/verify/golden.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 40, WORD = 600 };

int64_t tr_golden_offset(const struct tr_graph *graph, int parameter)
{
    int64_t n = 0;
    for (int i = 0; i < parameter; i++)
        if (graph->tensors[i].role == TR_PARAMETER)
            n += graph->tensors[i].rows * (graph->tensors[i].dims > 1 ? graph->tensors[i].size[1] : 1);
    return n;
}

/* In a step of the run. */
static long updates(const struct tr_options *o)
{
    return !o->plan.pipeline.async                  ? 1
           : o->plan.pipeline.async == TR_ASYNC_TWO ? o->plan.micros / o->plan.sizes.pp
                                                    : o->plan.micros;
}

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

struct words {
    char word[WORDS][WORD];
    int n;
};

static void __attribute__((format(printf, 2, 3))) say(struct words *w, const char *format, ...)
{
    va_list args;
    if (w->n == WORDS) /* without the rest it would be another run */
        _exit(2);
    va_start(args, format);
    vsnprintf(w->word[w->n++], WORD, format, args);
    va_end(args);
}

/* Of a llama: what fc2 has as rows. */
static int64_t hidden_channels(const struct tr_graph *g)
{
    int t = 0;
    while (strcmp(g->tensors[t].name, "layer0.fc2.weight"))
        t++;
    return g->tensors[t].rows;
}

static void sizes(struct words *w, const struct tr_options *o, const struct tr_graph *g)
{
    say(w, "layers=%" PRId64, g->layers);
    if (g->grid) {
        say(w, "channels=%" PRId64, g->channels);
        say(w, "size=%" PRId64, g->grid);
        say(w, "columns=%d", g->cut.columns);
        say(w, "split=%d", g->cut.split);
        say(w, "norm=%d", g->groups > 0);
        say(w, "groups=%" PRId64, g->groups ? g->groups : 1);
        say(w, "classes=%" PRId64, g->vocabulary);
        say(w, "planes=%" PRId64, o->model.sizes.planes > 1 ? o->model.sizes.planes : 1);
        if (*o->files.labels || o->model.sizes.planes > 1)
            say(w, "data=%s", o->files.data);
        if (*o->files.labels)
            say(w, "labels=%s", o->files.labels);
        return;
    }
    if (g->inputs) {
        say(w, "width=%" PRId64, g->channels);
        say(w, "inputs=%" PRId64, g->inputs);
        say(w, "classes=%" PRId64, g->vocabulary);
        return;
    }
    say(w, "channels=%" PRId64, g->channels);
    say(w, "heads=%" PRId64, g->heads);
    say(w, "context=%" PRId64, g->context);
    say(w, "vocab=%" PRId64, g->vocabulary);
    if (g->attention.kv_heads) {
        say(w, "kv=%" PRId64, g->attention.kv_heads);
        say(w, "hidden=%" PRId64, hidden_channels(g));
    } else
        say(w, "tied=%d", !o->model.sizes.untied);
    if (g->dropout.part > 0)
        say(w, "dropout=%a", g->dropout.part);
    if (g->experts) {
        say(w, "experts=%" PRId64, g->experts);
        say(w, "top=%" PRId64, g->choices);
    }
    if (*o->files.data && strcmp(o->files.data, "grammar"))
        say(w, "data=%s", o->files.data);
    if (g->attention.windows)
        say(w, "parts=%d", g->attention.windows);
    if (o->plan.tokens.map == TR_CP_STRIPED)
        say(w, "stripes=1");
}

/* Which sequences count together, where experts have a capacity or a loss of balance: a micro-batch's. */
static void groups(struct words *w, const struct tr_options *o)
{
    struct tr_run run;
    struct tr_error e;
    if (!tr_run_make(&run, o, &e))
        return;
    say(w, "capacity=%a", o->model.sizes.capacity);
    say(w, "balance=%a", o->model.sizes.balance);
    say(w, "micros=%d", run.plan.micros);
    say(w, "run=%d",
        tr_micro_batch(&run.plan) * (tr_reduces_each_micro(&run.plan) ? tr_data_ranks(&run.plan) : 1));
    tr_run_free(&run);
}

static void rates(struct words *w, const struct tr_options *o)
{
    const struct tr_optimizer *p = &o->plan.optimizer;
    say(w, "curve=%d", p->curve);
    say(w, "warmup=%ld", p->warmup);
    say(w, "until=%ld", p->until ? p->until : o->steps * updates(o));
    say(w, "least=%a", p->least);
}

/* The child: its output goes into the pipe, its arrays into memory files. */
static void child(const struct tr_options *o, const struct tr_graph *g, int out, int grads, int params)
{
    static struct words w;
    char *argv[WORDS + 1] = { NULL };
    say(&w, "%s", g->model);
    sizes(&w, o, g);
    if (g->capacity > 0 || g->balance > 0)
        groups(&w, o);
    say(&w, "batch=%ld", o->plan.batch / updates(o));
    say(&w, "steps=%ld", o->steps * updates(o));
    say(&w, "seed=%ld", o->seed);
    say(&w, "sgd=%d", o->plan.optimizer.sgd);
    say(&w, "lr=%a", o->plan.optimizer.rate);
    if (o->plan.optimizer.curve != TR_CURVE_CONSTANT || o->plan.optimizer.warmup)
        rates(&w, o);
    say(&w, "clip=%a", o->plan.optimizer.clip > 0 ? o->plan.optimizer.clip : INFINITY);
    say(&w, "decay=%a", o->plan.optimizer.decay);
    say(&w, "delay=%d", o->plan.offload.delay);
    if (o->plan.numbers.bfloat16) {
        say(&w, "bf16=1");
        say(&w, "stochastic=%d", o->plan.numbers.stochastic);
    }
    say(&w, "grads=/dev/fd/%d", grads);
    say(&w, "params=/dev/fd/%d", params);
    if (o->plan.pipeline.async) {
        say(&w, "keep=%s", tr_async_names[o->plan.pipeline.async]);
        say(&w, "stages=%ld", o->plan.sizes.pp);
        say(&w, "window=%ld", updates(o));
    }
    for (int i = 0; i < w.n; i++)
        argv[i] = w.word[i];
    dup2(out, STDOUT_FILENO);
    bool async = o->plan.pipeline.async != TR_ASYNC_OFF;
    int status = g->grid                 ? (async ? tr_versions_cnn : tr_golden_cnn)(w.n, argv)
                 : g->inputs             ? (async ? tr_versions_mlp : tr_golden_mlp)(w.n, argv)
                 : g->experts            ? tr_golden_moe(w.n, argv)
                 : g->attention.kv_heads ? (async ? tr_versions_llama : tr_golden_llama)(w.n, argv)
                                         : (async ? tr_versions_gpt : tr_golden_gpt)(w.n, argv);
    _exit(status || fflush(stdout));
}

static bool read_steps(struct tr_golden *g, FILE *from)
{
    for (int64_t s = 0; s < g->steps; s++) {
        int64_t step;
        if (fscanf(from, "step %" SCNd64 " loss %*f %la norm %*f %la\n", &step, &g->loss[s], &g->norm[s]) !=
                3 ||
            step != s)
            return false;
    }
    return true;
}

static bool read_array(float *to, int64_t count, int fd)
{
    size_t bytes = (size_t)count * sizeof *to, done = 0;
    while (done < bytes) {
        ssize_t n = pread(fd, (char *)to + done, bytes - done, (off_t)done);
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

bool tr_golden_room(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e)
{
    int64_t count = tr_golden_offset(graph, graph->n_tensors);
    size_t bytes = (size_t)count * sizeof(float), steps = (size_t)(o->steps * updates(o)) * sizeof(double);
    *g = (struct tr_golden){ .count = count,
        .steps = o->steps * updates(o),
        .loss = shared(steps),
        .norm = shared(steps),
        .gradients = shared(bytes),
        .values = shared(bytes) };
    return (g->loss && g->norm && g->gradients && g->values) ||
           tr_fail(e, "there is no memory for the golden program's arrays");
}

bool tr_golden_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e)
{
    int out[2], status = 1;
    if (!tr_golden_room(g, o, graph, e))
        return false;
    int64_t count = g->count;
    int grads = memfd_create("gradients", 0), params = memfd_create("parameters", 0);
    if (grads < 0 || params < 0 || pipe(out))
        return tr_fail(e, "the golden program cannot be run: no memory, or no descriptors");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(out[0]);
        child(o, graph, out[1], grads, params);
    }
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    bool ok = pid > 0 && from && read_steps(g, from);
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        status = 1;
    ok = ok && status == 0 && read_array(g->gradients, count, grads) && read_array(g->values, count, params);
    if (from)
        fclose(from);
    close(grads);
    close(params);
    return ok || tr_fail(e, "the golden program failed");
}

void tr_golden_free(struct tr_golden *g)
{
    munmap(g->loss, (size_t)g->steps * sizeof(double));
    munmap(g->norm, (size_t)g->steps * sizeof(double));
    munmap(g->gradients, (size_t)g->count * sizeof(float));
    munmap(g->values, (size_t)g->count * sizeof(float));
}
