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
#include "training/passes/server.h"

#include "training/passes/pass.h"

static int workers(const struct tr_tape *t)
{
    return t->placed->plan->mesh.size[TR_DP];
}

/* Of a state's value, or of a vector of leaves, which are doubles. */
static struct tr_instr *message(
    struct tr_tape *t, enum tr_edge edge, const struct tr_param_state *h, int peer, int value)
{
    bool sends = edge == TR_TO_SERVER || edge == TR_TO_WORKER;
    struct tr_instr *i = tr_add_instr(t, sends ? TR_SEND : TR_RECV);
    i->edge = edge, i->turn = peer, i->parameter = h ? h->parameter : -1;
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

void tr_push(struct tr_tape *t)
{
    for (int n = 0; n < t->n_states; n++)
        for (int s = 0; s < t->placed->plan->mesh.servers; s++)
            with_server(t, TR_TO_SERVER, &t->states[n], s);
}

/* A tied head beside its embedding has no values of its own. */
static bool has_values(const struct tr_tape *t, const struct tr_param_state *h)
{
    return t->placed->g->tensors[h->parameter].values_of == h->parameter;
}

void tr_pull(struct tr_tape *t)
{
    for (int n = 0; n < t->n_states; n++)
        for (int s = 0; s < t->placed->plan->mesh.servers && has_values(t, &t->states[n]); s++)
            with_server(t, TR_FROM_SERVER, &t->states[n], s);
}

void tr_exchange(struct tr_tape *t)
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
    for (int level = 0; (workers(t) - 1) >> level; level++)
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

/* What is done with one push: whose it is, is chosen as it comes. */
static void lower_take(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    const struct tr_graph *g = t->placed->g;
    t->losses = vector(t, (int64_t)t->placed->plan->batch * TR_BLOCKS);
    t->leaves = vector(t, tr_ordinal(g, g->n_tensors) * TR_NORM_LEAVES);
    if (t->placed->plan->servers.live) {
        t->tickets = vector(t, (int64_t)workers(t) * t->placed->plan->batch * TR_BLOCKS);
        t->values[t->tickets].lasts = true;
    }
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
    for (int n = 0; n < t->n_states; n++)
        if (has_values(t, &t->states[n]))
            tr_passes_update(l, &t->states[n]);
    for (int n = 0; n < t->n_states; n++)
        if (has_values(t, &t->states[n]))
            message(t, TR_TO_WORKER, &t->states[n], -1, t->states[n].values);
    tr_plan_memory(t);
}

void tr_lower_server(struct tr_lowering *l)
{
    struct tr_tape *t = l->t;
    tr_hold_parameters(l);
    if (t->placed->plan->servers.async) {
        lower_take(l);
        return;
    }
    for (int n = 0; n < t->n_states; n++)
        take_all(l, &t->states[n]);
    tr_lower_end(l);
    for (int n = 0; n < t->n_states; n++)
        for (int w = 0; w < workers(t) && has_values(t, &t->states[n]); w++)
            message(t, TR_TO_WORKER, &t->states[n], w, t->states[n].values);
    tr_plan_memory(t);
}
