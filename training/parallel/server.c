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
 * each is a sum with a tree of its own. */
#include "training/parallel/server.h"

static int workers(const struct tr_tape *t)
{
    return t->placed->plan->mesh.size[TR_DP];
}

bool tr_server_check(const struct tr_plan *p, struct tr_error *e)
{
    const int *size = p->mesh.size;
    int servers = p->mesh.servers;
    if (!servers)
        return true;
    if (servers > TR_NORM_LEAVES || servers & (servers - 1))
        return tr_fail(e, "--servers %d: a tensor is cut into %d parts; legal are powers of two up to that",
            servers, TR_NORM_LEAVES);
    if (size[TR_PP] > 1 || size[TR_TP] > 1 || size[TR_CP] > 1)
        return tr_fail(e, "--servers %d: a worker is one rank; legal are --pp 1, --tp 1 and --cp 1", servers);
    if (p->offload)
        return tr_fail(
            e, "--servers %d: they hold the optimizer's states; --offload is legal without servers", servers);
    if (p->zero || p->overlap || p->bucket || p->dp_form != TR_DP_RING)
        return tr_fail(e,
            "--servers %d: gradients are pushed, and not reduced among workers; --zero, --overlap, --bucket "
            "and --dp-reduce are legal without servers",
            servers);
    return true;
}

static struct tr_instr *message(
    struct tr_tape *t, enum tr_edge edge, const struct tr_holding *h, int peer, int value)
{
    bool sends = edge == TR_TO_SERVER || edge == TR_TO_WORKER;
    struct tr_instr *i = tr_add_instr(t, sends ? TR_SEND : TR_RECV);
    i->edge = edge, i->turn = peer, i->parameter = h->parameter;
    i->count = h->shard_count, i->times = 1;
    if (sends)
        i->in[i->ins++] = value;
    else
        i->out[i->outs++] = value;
    return i;
}

/* One message with each server, of its part of the value. */
static void with_servers(struct tr_tape *t, enum tr_edge edge, const struct tr_holding *h, int value)
{
    int servers = t->placed->plan->mesh.servers;
    for (int s = 0; s < servers; s++) {
        struct tr_instr *i = message(t, edge, h, s, value);
        i->count /= servers;
        i->place = s * i->count;
    }
}

void tr_push(struct tr_tape *t)
{
    for (int n = 0; n < t->n_holdings; n++)
        with_servers(t, TR_TO_SERVER, &t->holdings[n], t->holdings[n].gradient);
}

/* A tied head beside its embedding has no values of its own. */
static bool has_values(const struct tr_tape *t, const struct tr_holding *h)
{
    return t->placed->g->tensors[h->parameter].values_of == h->parameter;
}

void tr_pull(struct tr_tape *t)
{
    for (int n = 0; n < t->n_holdings; n++)
        if (has_values(t, &t->holdings[n]))
            with_servers(t, TR_FROM_SERVER, &t->holdings[n], t->holdings[n].values);
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

/* The workers' gradients enter the sum one after the other: there is room for one, and for the tree. */
static void take_all(struct tr_tape *t, struct tr_holding *h)
{
    int shard = gradient_shard(t->placed, h->parameter);
    for (int level = 0; (workers(t) - 1) >> level; level++)
        h->level[level] = tr_add_value(t, shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
    for (int w = 0; w < workers(t); w++) {
        h->gradient = tr_add_value(t, shard, -1, TR_MEM_GRADIENT, h->shard_count * 4);
        message(t, TR_FROM_WORKER, h, w, h->gradient);
        struct tr_instr *i = tr_add_instr(t, TR_COUNT);
        i->in[i->ins++] = h->gradient, i->parameter = h->parameter, i->micro = w;
        i->count = h->shard_count, i->times = workers(t);
    }
}

void tr_lower_server(struct tr_tape *t)
{
    tr_hold_parameters(t);
    for (int n = 0; n < t->n_holdings; n++)
        take_all(t, &t->holdings[n]);
    tr_lower_end(t, NULL);
    for (int n = 0; n < t->n_holdings; n++)
        for (int w = 0; w < workers(t) && has_values(t, &t->holdings[n]); w++)
            message(t, TR_TO_WORKER, &t->holdings[n], w, t->holdings[n].values);
    tr_plan_memory(t);
}
