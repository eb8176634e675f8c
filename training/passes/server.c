/* SPDX-License-Identifier: BSD-3-Clause */
/* server.c: parameter servers (Li et al. 2014): workers have the model and a part of the sequences, and push
 * their gradients; servers have the parameters and the optimizer, update, and workers pull.
 *
 *        workers 0 .. W-1         servers 0 .. S-1, each with 1/S of every tensor
 *        forward, backward
 *        push         ----->      take one of each worker, in the order of workers; their sum by the tree
 *                  loss and norm: leaves over the world
 *                                 update
 *        pull         <-----      give
 *
 * Worker w has the sequences that rank w of data parallelism has, so the sum over workers is the canonical
 * tree, and the bits are those of data parallelism. A tied embedding's two gradients are pushed both, since
 * each is a sum with a tree of its own.
 *
 * In bfloat16 the masters are on the servers. What a worker pushes is a part of a sum, and so float32 as all
 * such parts; the server rounds the sum, once, and gives rounded values, of half the bytes.
 *
 * Asynchronously each push is applied by itself: with a norm of its own, which comes along, and as the
 * optimizer's next step. The worker then has the values as they are. It visits the servers one after the
 * other, so that whoever waits for a worker at one of them waits for nothing else. What a server does is a
 * list for one push; run/server.c chooses whose. */
#include "training/parallel/registry.h"
#include "training/passes/pass.h"

/* ---- its options, and what they go with ---- */

static const char *const modes[] = { "sync", "async" };

static const struct tr_option options[] = {
    { "servers", TR_WHOLE, TR_PLAN(sizes.servers),
        "parameter servers among the ranks; the others are workers" },
    { "server-mode", TR_CHOICE, TR_PLAN(servers.async),
        "sync: all gradients, then one update; async: each as it comes", TR_NAMES(modes) },
    { "staleness", TR_WHOLE, TR_PLAN(servers.staleness),
        "async: a worker waits while more than N steps before the slowest" },
    { "arrivals", TR_TEXT, TR_PLAN(servers.arrivals),
        "async: live, seed:N (an order by a seed), or a file of workers" },
    { "arrivals-log", TR_TEXT, TR_PLAN(servers.arrivals_log),
        "async: write who came to this file, which --arrivals reads" },
    { "workers", TR_TEXT, TR_PLAN(servers.workers), "compare server: numbers of workers, as 1..8, or 2,4" },
    { "slow", TR_TEXT, TR_PLAN(servers.slow),
        "RANK:FACTOR, a worker that takes so many times as long to compute" },
};

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    const int *size = p->mesh.size;
    int servers = p->mesh.servers;
    if (!servers && (p->servers.async || p->servers.staleness >= 0))
        return tr_fail(e, "%s: there is no server; legal with --servers",
            p->servers.async ? "--server-mode async" : "--staleness");
    if (!servers)
        return true;
    if (p->servers.staleness >= 0 && !p->servers.async)
        return tr_fail(e, "--staleness %ld: all workers go on together; legal with --server-mode async",
            p->servers.staleness);
    if (servers > TR_NORM_LEAVES || servers & (servers - 1))
        return tr_fail(e, "--servers %d: a tensor is cut into %d parts, of which each has as many", servers,
                   TR_NORM_LEAVES) ||
               tr_offer_divisors(e, "servers", TR_NORM_LEAVES);
    if (size[TR_PP] > 1 || size[TR_TP] > 1 || size[TR_CP] > 1)
        return tr_fail(e, "--servers %d: a worker is one rank; legal are --pp 1, --tp 1 and --cp 1", servers);
    if (p->offload.what)
        return tr_fail(
            e, "--servers %d: they hold the optimizer's states; --offload is legal without servers", servers);
    if (p->zero.level || p->reduce.overlap || p->reduce.bucket || p->reduce.form != TR_DP_RING)
        return tr_fail(e,
            "--servers %d: gradients are pushed, and not reduced among workers; --zero, --overlap, --bucket "
            "and --dp-reduce are legal without servers",
            servers);
    return true;
}

const struct tr_paradigm tr_parameter_servers = {
    .name = "parameter servers", TR_OPTIONS(options), .check = check
};

/* ---- what it does to a list ---- */

static int workers(const struct tr_tape *t)
{
    return t->placed->plan->mesh.size[TR_DP];
}

static bool is_async(const struct tr_tape *t)
{
    return t->placed->plan->servers.async;
}

/* Of a state's value, or of a vector of leaves, which are doubles. */
static struct tr_instr *message(
    struct tr_tape *t, enum tr_edge edge, const struct tr_param_state *h, int peer, int value)
{
    bool sends = edge == TR_TO_SERVER || edge == TR_TO_WORKER;
    struct tr_instr *i = tr_add_instr(t, sends ? TR_SEND : TR_RECV);
    i->edge = edge, i->peer = peer, i->parameter = h ? h->parameter : -1;
    i->count = h ? h->shard_count : t->values[value].bytes / 8, i->times = 1;
    if (sends)
        i->in[i->ins++] = value;
    else
        i->out[i->outs++] = value;
    return i;
}

static void with_server(struct tr_tape *t, enum tr_edge edge, const struct tr_param_state *h, int server)
{
    struct tr_instr *i = message(t, edge, h, server, edge == TR_TO_SERVER ? h->gradient : h->values);
    i->count /= t->placed->plan->mesh.servers; /* its part */
    i->place = server * i->count;
}

/* A tied head beside its embedding has no values of its own. */
static bool has_values(const struct tr_tape *t, const struct tr_param_state *h)
{
    return t->placed->g->tensors[h->parameter].values_of == h->parameter;
}

/* ---- a worker ---- */

static void push(struct tr_tape *t)
{
    for (int n = 0; n < t->n_states; n++)
        for (int s = 0; s < t->placed->plan->mesh.servers; s++)
            with_server(t, TR_TO_SERVER, &t->states[n], s);
}

static void pull(struct tr_tape *t)
{
    for (int n = 0; n < t->n_states; n++)
        for (int s = 0; s < t->placed->plan->mesh.servers && has_values(t, &t->states[n]); s++)
            with_server(t, TR_FROM_SERVER, &t->states[n], s);
}

/* Both, asynchronously, with the leaves of its loss and norm. */
static void exchange(struct tr_tape *t)
{
    static const enum tr_edge edges[] = { TR_TO_SERVER, TR_FROM_SERVER };
    for (int s = 0; s < t->placed->plan->mesh.servers; s++) {
        message(t, TR_TO_SERVER, NULL, s, t->losses);
        message(t, TR_TO_SERVER, NULL, s, t->leaves);
        for (int way = 0; way < 2; way++)
            for (int n = 0; n < t->n_states; n++)
                if (has_values(t, &t->states[n]))
                    with_server(t, edges[way], &t->states[n], s);
    }
}

/* ---- a server ---- */

/* The shard of a parameter's gradient, as a worker has it. */
static int gradient_shard(const struct tr_placed *p, int parameter)
{
    int shard = 0;
    while (p->g->tensors[p->shards[shard].tensor].role != TR_D_PARAMETER ||
           p->g->tensors[p->shards[shard].tensor].of != parameter)
        shard++;
    return shard;
}

/* The workers' gradients enter the sum one after the other: there is room for one, and for the tree. The sum
 * is rounded, where values are. */
static void take_all(struct tr_lowering *l, struct tr_param_state *h)
{
    struct tr_tape *t = l->t;
    int shard = gradient_shard(t->placed, h->parameter);
    for (int level = 0; level < tr_waiting_sums(t->step.free_order, workers(t)); level++)
        h->level[level] = tr_add_value(t, shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
    for (int w = 0; w < workers(t); w++) {
        h->gradient = tr_add_value(t, shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
        message(t, TR_FROM_WORKER, h, w, h->gradient);
        struct tr_instr *i = tr_add_instr(t, TR_ACCUMULATE);
        i->in[i->ins++] = h->gradient, i->parameter = h->parameter, i->micro = w;
        i->count = h->shard_count, i->times = workers(t);
    }
    h->gradient = tr_passes_whole(l, h, h->gradient, NULL, -1);
}

static int vector(struct tr_tape *t, int64_t doubles)
{
    return tr_add_array(t, -1, -1, TR_MEM_BUFFER, TR_FLOAT64, doubles);
}

/* What comes with a push. */
static void make_vectors(struct tr_tape *t)
{
    const struct tr_plan *plan = t->placed->plan;
    t->losses = vector(t, (int64_t)plan->batch * TR_BLOCKS);
    tr_lower_leaves(t);
    if (plan->servers.live) {
        t->tickets = vector(t, (int64_t)workers(t) * plan->batch * TR_BLOCKS);
        t->values[t->tickets].lasts = true;
    }
}

/* One push, of which a tied head is a part already: whose it is, is chosen as it comes. */
static void take_one(struct tr_tape *t)
{
    message(t, TR_FROM_WORKER, NULL, -1, t->losses);
    message(t, TR_FROM_WORKER, NULL, -1, t->leaves);
    for (int n = 0; n < t->n_states; n++) {
        struct tr_param_state *h = &t->states[n];
        if (!has_values(t, h))
            continue;
        h->gradient =
            tr_add_value(t, gradient_shard(t->placed, h->parameter), -1, TR_MEM_GRADIENT, h->shard_count * 4);
        message(t, TR_FROM_WORKER, h, -1, h->gradient);
    }
}

/* To all workers; or asynchronously to the one whose push it was. */
static void give(struct tr_tape *t)
{
    bool async = is_async(t);
    for (int n = 0; n < t->n_states; n++)
        for (int w = 0; w < (async ? 1 : workers(t)) && has_values(t, &t->states[n]); w++)
            message(t, TR_TO_WORKER, &t->states[n], async ? -1 : w, t->states[n].values);
}

/* ---- the row ---- */

static bool is_on(const struct tr_plan *p)
{
    return p->mesh.servers > 0;
}

static void hold(const struct tr_lowering *l, const struct tr_tensor *w, struct tr_held *held)
{
    (void)w;
    if (l->t->server >= 0)
        held->ways = l->p->plan->mesh.servers, held->way = l->t->server, held->part = true;
    else
        held->elsewhere = true;
}

/* A server runs no part of the schedule. It sums up and ties, but asynchronously a worker does. */
static void begin(struct tr_lowering *l)
{
    bool serves = l->t->server >= 0, async = is_async(l->t);
    l->summed_elsewhere = serves == async;
    if (serves)
        l->n_slots = 0;
    if (serves && async)
        make_vectors(l->t);
}

static bool reduce(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    bool serves = t->server >= 0, async = is_async(t);
    for (int n = 0; n < t->n_states && serves && !async; n++)
        take_all(l, &t->states[n]);
    if (serves && async)
        take_one(t);
    if (!serves && !async)
        push(t);
    return true;
}

/* Not by a worker. */
static bool update(struct tr_lowering *l, struct tr_param_state *h)
{
    (void)h;
    return l->t->server < 0;
}

/* What is updated goes to the workers. */
static void rewrite(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    if (t->server >= 0)
        give(t);
    else if (is_async(t))
        exchange(t);
    else
        pull(t);
}

const struct tr_pass tr_pass_server = {
    .on = is_on, .hold = hold, .begin = begin, .reduce = reduce, .update = update, .rewrite = rewrite
};
