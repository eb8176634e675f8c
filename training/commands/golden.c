/* SPDX-License-Identifier: BSD-3-Clause */
/* golden.c: run the golden program in a child, and read what it prints and writes. */
#include "training/commands/golden.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 20, WORD = 600 };

int64_t tr_golden_offset(const struct tr_graph *graph, int parameter)
{
    int64_t n = 0;
    for (int i = 0; i < parameter; i++)
        if (graph->tensors[i].role == TR_PARAMETER)
            n += graph->tensors[i].rows * (graph->tensors[i].dims > 1 ? graph->tensors[i].size[1] : 1);
    return n;
}

static void *shared(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* The child: its output goes into the pipe, its arrays into memory files. */
static void child(const struct tr_options *o, const struct tr_graph *g, int out, int grads, int params)
{
    static char words[WORDS][WORD];
    char *argv[WORDS + 1];
    int n = 0;
    snprintf(words[n++], WORD, "gpt");
    snprintf(words[n++], WORD, "layers=%" PRId64, g->layers);
    snprintf(words[n++], WORD, "channels=%" PRId64, g->channels);
    snprintf(words[n++], WORD, "heads=%" PRId64, g->heads);
    snprintf(words[n++], WORD, "context=%" PRId64, g->context);
    snprintf(words[n++], WORD, "vocab=%" PRId64, g->vocabulary);
    snprintf(words[n++], WORD, "tied=%d", !o->untied);
    snprintf(words[n++], WORD, "batch=%ld", o->batch);
    snprintf(words[n++], WORD, "steps=%ld", o->steps);
    snprintf(words[n++], WORD, "seed=%ld", o->seed);
    snprintf(words[n++], WORD, "sgd=%d", !strcmp(o->optimizer, "sgd"));
    snprintf(words[n++], WORD, "lr=%a", o->rate);
    snprintf(words[n++], WORD, "clip=%a", o->clip);
    snprintf(words[n++], WORD, "decay=%a", o->decay);
    snprintf(words[n++], WORD, "grads=/dev/fd/%d", grads);
    snprintf(words[n++], WORD, "params=/dev/fd/%d", params);
    if (*o->data && strcmp(o->data, "grammar"))
        snprintf(words[n++], WORD, "data=%s", o->data);
    for (int i = 0; i < n; i++)
        argv[i] = words[i];
    argv[n] = NULL;
    dup2(out, STDOUT_FILENO);
    _exit(tr_golden_gpt(n, argv) || fflush(stdout) ? 1 : 0);
}

static bool read_steps(struct tr_golden *g, int64_t steps, FILE *from)
{
    for (int64_t s = 0; s < steps; s++) {
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

bool tr_golden_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e)
{
    int64_t count = tr_golden_offset(graph, graph->n_tensors);
    size_t bytes = (size_t)count * sizeof(float), steps = (size_t)o->steps * sizeof(double);
    int out[2], status = 1;
    *g = (struct tr_golden){ count, shared(steps), shared(steps), shared(bytes), shared(bytes) };
    int grads = memfd_create("gradients", 0), params = memfd_create("parameters", 0);
    if (!g->loss || !g->norm || !g->gradients || !g->values || grads < 0 || params < 0 || pipe(out))
        return tr_fail(e, "the golden program cannot be run: no memory, or no descriptors");
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(out[0]);
        child(o, graph, out[1], grads, params);
    }
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    bool ok = pid > 0 && from && read_steps(g, o->steps, from);
    if (pid > 0 && waitpid(pid, &status, 0) != pid)
        status = 1;
    ok = ok && status == 0 && read_array(g->gradients, count, grads) && read_array(g->values, count, params);
    if (from)
        fclose(from);
    close(grads);
    close(params);
    return ok || tr_fail(e, "the golden program failed");
}

void tr_golden_free(struct tr_golden *g, int64_t steps)
{
    munmap(g->loss, (size_t)steps * sizeof(double));
    munmap(g->norm, (size_t)steps * sizeof(double));
    munmap(g->gradients, (size_t)g->count * sizeof(float));
    munmap(g->values, (size_t)g->count * sizeof(float));
}
