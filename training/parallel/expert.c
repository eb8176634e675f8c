/* SPDX-License-Identifier: BSD-3-Clause */
/* expert.c: expert parallelism (GShard, Lepikhin et al. 2020): of the ranks of dp, neighbours share the
 * experts of each layer.
 *
 *        --dp 4 --ep 2         ep          experts 0-3      experts 4-7
 *                          dp  0            rank 0           rank 1
 *                              1            rank 2           rank 3
 *
 * All four have other sequences, and all else of the model. A token goes to the ranks of its experts and what
 * they make of it comes back: rows that lie as Sb become E, and Sb again. So an expert gets the tokens of its
 * ranks of ep, and has dp / ep replicas, over which its gradient is summed; all else is summed over dp.
 *
 * An expert's gradient of a micro-batch has the sequences of all ranks of ep. These must be neighbours in the
 * sum over the batch, so with micro-batches ranks have the sequences that they have with ZeRO-2, and each
 * micro-batch's gradients are reduced. */
#include "training/parallel/registry.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct tr_option options[] = {
    { "ep", TR_WHOLE, TR_PLAN(sizes.ep), "moe: so many ranks of dp share the experts of each layer",
        .least = 1 },
};

static const struct tr_table experts = { "ep", TR_EP,
    { { "inputs", "Sb" }, { "*up.weight", "Sr" }, { "*up.bias", "Sr" }, { "*down.weight", "Sr" },
        { "*down.bias", "Sr" } } };

static void cuts(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "the experts: %" PRId64 " of the %" PRId64
        " of a layer on each rank, and the rest of the model; and the batch: %d of its %d sequences",
        g->experts / p->mesh.size[TR_EP], g->experts, p->batch / tr_data_ranks(p), p->batch);
}

int tr_data_ranks(const struct tr_plan *p)
{
    return p->mesh.size[TR_DP] * p->mesh.size[TR_EP];
}

int tr_data_rank(const struct tr_plan *p, const int at[TR_AXES])
{
    return at[TR_DP] * p->mesh.size[TR_EP] + at[TR_EP];
}

int tr_replica_axes(const struct tr_plan *p, const struct tr_tensor *w)
{
    bool shared = p->mesh.size[TR_EP] > 1 && tr_table_placement(p, w, TR_EP).kind == TR_R;
    return (p->mesh.size[TR_DP] > 1 || !shared ? 1 << TR_DP : 0) | (shared ? 1 << TR_EP : 0);
}

int tr_replicas(const struct tr_plan *p, const struct tr_tensor *w)
{
    return tr_mesh_group_size(&p->mesh, tr_replica_axes(p, w));
}

int tr_replica_rank(const struct tr_plan *p, const struct tr_tensor *w, const int at[TR_AXES])
{
    return tr_replica_axes(p, w) & 1 << TR_EP ? tr_data_rank(p, at) : at[TR_DP];
}

/* A token's choices differ, so no more of them are here than experts are. */
int64_t tr_most_rows(const struct tr_plan *p, const struct tr_graph *g)
{
    int64_t ep = p->mesh.size[TR_EP], here = g->experts / ep;
    return g->context * ep * (g->choices < here ? g->choices : here);
}

/* ---- which sizes fit ---- */

bool tr_expert_divides(long dp, long ep, struct tr_error *e)
{
    return dp % ep == 0 ||
           tr_fail(e, "--ep %ld: experts are shared among ranks of dp, of which there are %ld", ep, dp) ||
           tr_offer_divisors(e, "ep", dp < TR_NORM_LEAVES ? dp : TR_NORM_LEAVES) || tr_offer(e, "dp", ep);
}

static bool check_parts(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int ep = p->mesh.size[TR_EP];
    if (!g->experts)
        return tr_fail(
            e, "--ep %d: %s has no experts; legal with --model moe:nano or moe:micro", ep, g->model);
    if (ep & (ep - 1) || g->experts % ep || ep > TR_NORM_LEAVES)
        return tr_fail(e,
                   "--ep %d: each rank has as many of the %lld experts, and their tokens a subtree of the "
                   "sum over the batch, which is of a power of two of ranks up to %d",
                   ep, (long long)g->experts, TR_NORM_LEAVES) ||
               tr_offer_divisors(e, "ep", TR_NORM_LEAVES);
    if (p->mesh.servers)
        return tr_fail(
            e, "--ep %d with --servers: a worker has the whole model; legal with --servers is --ep 1", ep);
    if (p->numbers.bfloat16)
        return tr_fail(e,
            "--ep %d with --precision bfloat16: the rows that go to experts are float32; legal is --ep 1, or "
            "--precision float32",
            ep);
    if (p->micros > 1 && !p->zero.level && (p->reduce.bucket || p->reduce.form != TR_DP_RING))
        return tr_fail(e,
            "--ep %d with --micro %d: an expert's gradient has the sequences of several ranks, so each "
            "micro-batch is reduced, each gradient alone; --bucket and --dp-reduce root or sharded are legal "
            "with --micro 1",
            ep, p->micros);
    return true;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    if (p->mesh.size[TR_EP] > 1 && !check_parts(p, g, e))
        return false;
    if (!g->experts)
        return true;
    if (p->numbers.bfloat16 && p->micros > 1 && (g->capacity > 0 || g->balance > 0))
        return tr_fail(e,
            "--%s with --precision bfloat16 and --micro %d: it counts the tokens of a micro-batch, and "
            "the one rank that bfloat16 is compared with has the batch in one; legal is --micro 1",
            g->capacity > 0 ? "capacity-factor" : "aux-loss", p->micros);
    if (p->mesh.servers && (g->capacity > 0 || g->balance > 0))
        return tr_fail(e,
            "--%s with --servers: it counts the tokens of all workers, which exchange nothing; legal is 0",
            g->capacity > 0 ? "capacity-factor" : "aux-loss");
    return true;
}

const struct tr_paradigm tr_expert_parallel = { .word = "ep",
    .name = "expert parallel",
    .axis = TR_EP,
    TR_OPTIONS(options),
    .compared = { { "expert parallel", "--dp N --ep N" }, { "ep + ZeRO 1", "--dp N --ep N --zero 1" } },
    .table = &experts,
    .check = check,
    .cuts = cuts,
    .when = "experts are most of the model, and tokens spread evenly over them" };
