/* SPDX-License-Identifier: BSD-3-Clause */
/* oracle.c: what asynchronous parameter servers compute, on one rank: the oracle of a scripted order.
 *
 * There are no messages here: one array of each parameter and of Adam's moments, of which each server has a
 * part, and for each worker the copy that it was given last. Servers take their next push when that worker
 * has come to them; which of them goes first makes no difference. A worker's gradient is computed by the
 * worker's own list, up to its first push, whose instructions verify holds against the golden program. The
 * rest (norm, clipping, optimizer, who waits for whom, who is given what) is written anew: in common with the
 * servers are the kernels, the reading of orders, and the lines that are printed. */
#include "training/verify/oracle.h"

#include "training/commands/commands.h"
#include "training/commands/server_report.h"

#include "training/checkpoint/pieces.h"
#include "training/run/host.h"
#include "training/run/server.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct worker {
    struct tr_runner runner;
    double loss, norm; /* of its gradient, which it brings to each server */
    int at; /* the server */
    bool waits; /* for it */
};

struct server {
    const int *order;
    long updates, *clocks, *given; /* of each worker: its pushes; updates that are in what it was given */
};

struct simulation {
    const struct tr_prepared *p;
    const struct tr_kernels *k;
    const struct tr_listener *to;
    struct worker *workers;
    struct server *servers;
    int n, n_servers;
    float **values, **m, **v; /* of each state; NULL: it has no values of its own */
};

static int64_t count_of(const struct simulation *s, int state)
{
    const struct tr_tape *t = tr_tapes_of(s->p->tapes, 0);
    return t->values[t->states[state].values].bytes / 4;
}

static bool open_all(
    struct simulation *s, const struct tr_push_order *a, const struct tr_data *d, struct tr_error *e)
{
    const struct tr_tape *t = tr_tapes_of(s->p->tapes, 0);
    size_t n = (size_t)t->n_states;
    s->workers = tr_new((size_t)s->n, sizeof *s->workers);
    s->servers = tr_new((size_t)s->n_servers, sizeof *s->servers);
    for (int x = 0; x < s->n_servers; x++)
        s->servers[x] = (struct server){ .order = a->order[x],
            .clocks = tr_new((size_t)s->n, sizeof(long)),
            .given = tr_new((size_t)s->n, sizeof(long)) };
    s->values = tr_new(n, sizeof(float *)), s->m = tr_new(n, sizeof(float *)),
    s->v = tr_new(n, sizeof(float *));
    for (int w = 0; w < s->n; w++)
        if (!tr_runner_open(&s->workers[w].runner, tr_tapes_of(s->p->tapes, w), s->k, d, NULL, e))
            return false;
    for (int h = 0; h < t->n_states; h++) {
        int parameter = t->states[h].parameter;
        size_t count = (size_t)count_of(s, h);
        if (s->p->run.graph.tensors[parameter].values_of != parameter)
            continue;
        s->values[h] = tr_new(count, sizeof(float));
        s->m[h] = tr_new(count, sizeof(float)), s->v[h] = tr_new(count, sizeof(float));
        tr_fetch(&s->workers[0].runner, t->states[h].values, 0, (int64_t)count, s->values[h]);
    }
    return true;
}

static void close_all(struct simulation *s)
{
    for (int h = 0; h < tr_tapes_of(s->p->tapes, 0)->n_states; h++)
        free(s->values[h]), free(s->m[h]), free(s->v[h]);
    for (int w = 0; w < s->n; w++)
        tr_runner_close(&s->workers[w].runner);
    for (int x = 0; x < s->n_servers; x++)
        free(s->servers[x].clocks), free(s->servers[x].given);
    free(s->servers);
    free(s->values), free(s->m), free(s->v), free(s->workers);
}

/* Of a vector of leaves. */
static double sum(const struct worker *w, int value)
{
    int64_t count = tr_count(w->runner.tape, value);
    double s = 0;
    tr_fetch(&w->runner, value, 0, count, w->runner.staged.sums);
    for (int64_t i = 0; i < count; i++)
        s += w->runner.staged.sums[i];
    return s;
}

static bool compute(struct worker *w, struct tr_error *e)
{
    const struct tr_tape *t = w->runner.tape;
    const struct tr_placed *p = t->placed;
    for (int n = 0; t->instrs[n].code != TR_SEND; n++)
        if (!tr_runner_instr(&w->runner, n, e))
            return false;
    w->runner.step++;
    w->loss = sum(w, t->losses) / (double)(p->plan->batch * tr_targets(p->g)) * p->plan->mesh.size[TR_DP];
    w->norm = sqrt(sum(w, t->leaves));
    return (isfinite(w->loss) && isfinite(w->norm)) ||
           tr_fail(e, "a gradient of worker %d has the loss %g and the norm %g", t->rank, w->loss, w->norm);
}

/* The server's part of the worker's gradient. */
static void apply(struct simulation *s, int server, const struct worker *w)
{
    const struct tr_tape *t = w->runner.tape;
    const struct tr_plan *plan = &s->p->run.plan;
    double step = (double)++s->servers[server].updates;
    float scale = plan->optimizer.clip > 0 && w->norm > plan->optimizer.clip
                      ? (float)(plan->optimizer.clip / w->norm)
                      : 1;
    for (int h = 0; h < t->n_states; h++) {
        int64_t count = count_of(s, h) / s->n_servers, from = server * count;
        if (!s->values[h])
            continue;
        float *gradient = tr_new((size_t)count, sizeof *gradient);
        tr_fetch(&w->runner, t->states[h].gradient, from, count, gradient);
        struct tr_adamw a = { .rate = (float)plan->optimizer.rate,
            .scale = scale,
            .decay =
                s->p->run.graph.tensors[t->states[h].parameter].dims > 1 ? (float)plan->optimizer.decay : 0,
            .correct1 = (float)(1 / (1 - pow(0.9, step))),
            .correct2 = (float)(1 / (1 - pow(0.95, step))) };
        struct tr_update u = { .p = s->values[h] + from, .g = gradient, .count = count, .a = a };
        if (!plan->optimizer.sgd)
            u.m = s->m[h] + from, u.v = s->v[h] + from;
        s->k->update(&(struct tr_context){ .k = s->k }, &u);
        free(gradient);
    }
}

static long slowest(const struct simulation *s, int server)
{
    long least = s->servers[server].clocks[0];
    for (int w = 1; w < s->n; w++)
        least = s->servers[server].clocks[w] < least ? s->servers[server].clocks[w] : least;
    return least;
}

/* Workers that wait are given the server's part if none is too many steps behind them. */
static void give(struct simulation *s, int server)
{
    long bound = s->p->run.plan.servers.staleness, least = slowest(s, server);
    for (int w = 0; w < s->n; w++) {
        struct worker *x = &s->workers[w];
        if (!x->waits || x->at != server || (bound >= 0 && s->servers[server].clocks[w] > least + bound))
            continue;
        for (int h = 0; h < x->runner.tape->n_states; h++) {
            int64_t count = count_of(s, h) / s->n_servers, from = server * count;
            if (s->values[h])
                tr_store(&x->runner, x->runner.tape->states[h].values, from, count, s->values[h] + from);
        }
        x->waits = false, x->at = (server + 1) % s->n_servers;
        s->servers[server].given[w] = s->servers[server].updates;
    }
}

/* The server's next push, if that worker has come. */
static bool take(
    struct simulation *s, const struct tr_options *o, int server, bool *moved, struct tr_error *e)
{
    struct server *x = &s->servers[server];
    long number = x->updates;
    if (number == s->n * o->steps)
        return true;
    int worker = x->order[number];
    struct worker *w = &s->workers[worker];
    if (w->at != server || w->waits)
        return true;
    if (server == 0 && !compute(w, e))
        return false;
    struct tr_push push = { .number = number,
        .worker = worker,
        .clock = x->clocks[worker],
        .behind = number - x->given[worker],
        .ahead = x->clocks[worker] - slowest(s, server),
        .loss = w->loss,
        .norm = w->norm };
    apply(s, server, w);
    if (server == 0)
        s->to->push(s->to->context, &push);
    x->clocks[worker]++;
    w->waits = true;
    give(s, server);
    *moved = true;
    return true;
}

static bool run_orders(struct simulation *s, const struct tr_options *o, struct tr_error *e)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int server = 0; server < s->n_servers; server++)
            if (!take(s, o, server, &moved, e))
                return false;
    }
    for (int h = 0; h < tr_tapes_of(s->p->tapes, 0)->n_states; h++) {
        int parameter = tr_tapes_of(s->p->tapes, 0)->states[h].parameter;
        const struct tr_tensor *t = &s->p->run.graph.tensors[parameter];
        if (s->values[h])
            s->to->values(s->to->context, parameter, s->values[h], t->rows * (t->dims > 1 ? t->size[1] : 1));
    }
    return true;
}

bool tr_oracle_run(
    const struct tr_options *o, const struct tr_prepared *p, const struct tr_listener *to, struct tr_error *e)
{
    struct simulation s = { .p = p,
        .to = to,
        .n = p->run.plan.mesh.size[TR_DP],
        .n_servers = p->run.plan.mesh.servers,
        .k = tr_options_kernels(o, e) };
    struct tr_push_order a;
    struct tr_data data;
    if (!s.k)
        return false;
    if (!p->run.plan.servers.async || p->run.plan.servers.live)
        return tr_fail(
            e, "simulate takes --servers, --server-mode async and an order: --arrivals seed:N or a file");
    if (!tr_server_report_check(o, &p->run.plan, e) ||
        !tr_push_order_make(
            &a, o->plan.servers.arrivals, &p->run.plan.mesh, p->run.plan.servers.staleness, o->steps, e))
        return false;
    bool ok = tr_open_data(&data, o, &p->run.graph, e);
    if (ok) {
        ok = open_all(&s, &a, &data, e) && run_orders(&s, o, e);
        close_all(&s);
        tr_data_close(&data);
    }
    tr_push_order_free(&a);
    return ok;
}

/* ---- who listens ---- */

struct golden {
    const struct tr_graph *graph;
    struct tr_golden *g;
};

static void keep_push(void *context, const struct tr_push *push)
{
    struct golden *to = context;
    to->g->loss[push->number] = push->loss, to->g->norm[push->number] = push->norm;
}

static void keep_values(void *context, int parameter, float *values, int64_t count)
{
    struct golden *to = context;
    memcpy(to->g->values + tr_golden_offset(to->graph, parameter), values, (size_t)count * sizeof *values);
}

bool tr_oracle_make(
    struct tr_golden *g, const struct tr_options *o, const struct tr_graph *graph, struct tr_error *e)
{
    struct tr_options pushes = *o;
    struct tr_prepared p;
    pushes.steps *= o->plan.sizes.dp;
    if (!tr_golden_room(g, &pushes, graph, e) || !tr_prepare(&p, o, e))
        return false;
    struct golden to = { graph, g };
    bool ok = tr_oracle_run(o, &p, &(struct tr_listener){ keep_push, keep_values, &to }, e);
    tr_prepared_free(&p);
    return ok;
}

struct printer {
    const struct tr_options *options;
    uint64_t sum;
};

static void print_push(void *context, const struct tr_push *push)
{
    struct printer *to = context;
    tr_say_push(stdout, to->options, push);
}

static void add_values(void *context, int parameter, float *values, int64_t count)
{
    struct printer *to = context;
    struct tr_piece piece = { .at = values, .count = count };
    (void)parameter;
    to->sum += tr_piece_sum(&piece);
}

int tr_command_simulate(int argc, char **argv)
{
    struct tr_options o;
    struct tr_error e;
    struct tr_prepared p;
    int status;
    if (!tr_begin(&o, argc, argv,
            "simulate [OPTION]...: what asynchronous parameter servers compute, on one rank", true, &status))
        return status;
    *o.plan.servers.arrivals_log = 0; /* servers write it */
    if (!tr_prepare(&p, &o, &e))
        return tr_refuse(1, &e);
    struct printer to = { &o, 0 };
    bool ok = tr_oracle_run(&o, &p, &(struct tr_listener){ print_push, add_values, &to }, &e);
    if (ok)
        tr_say_values(stdout, &o, to.sum);
    status = ok ? 0 : tr_refuse(1, &e);
    tr_prepared_free(&p);
    return status;
}
