/* SPDX-License-Identifier: BSD-3-Clause */
/* paradigms.c: what the tables of a run say together, and which sizes they allow. */
#include "training/parallel/paradigms.h"

#include "training/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

static bool matches(const char *pattern, const struct tr_tensor *t)
{
    if (!strcmp(pattern, "stream"))
        return t->stream;
    if (!strcmp(pattern, "inputs"))
        return t->role == TR_INPUT;
    if (t->role != TR_PARAMETER && t->role != TR_ACTIVATION && t->role != TR_INPUT)
        return false;
    if (*pattern != '*')
        return !strcmp(pattern, t->name);
    size_t tail = strlen(pattern + 1), length = strlen(t->name);
    return length >= tail && !strcmp(t->name + length - tail, pattern + 1);
}

bool tr_plan_has(const struct tr_plan *p, const struct tr_paradigm *paradigm)
{
    for (int i = 0; i < p->n_paradigms; i++)
        if (p->paradigms[i] == paradigm)
            return true;
    return false;
}

struct tr_placement tr_table_placement(const struct tr_plan *p, const struct tr_tensor *t, enum tr_axis axis)
{
    for (int i = p->n_paradigms - 1; i >= 0 && p->mesh.size[axis] > 1; i--)
        for (const struct tr_table_row *r = p->paradigms[i]->rows; r->tensors; r++)
            if (p->paradigms[i]->axis == axis && matches(r->tensors, t))
                return tr_placement_of(r->placement, 0);
    return tr_whole;
}

int tr_plan_rank(const struct tr_plan *p, int stage)
{
    return tr_stage_rank(stage, p->mesh.size[TR_PP], p->pipeline.vee);
}

bool tr_ends_apart(const struct tr_plan *p)
{
    return tr_plan_rank(p, p->mesh.size[TR_PP] * p->pipeline.chunks - 1) != 0;
}

static bool power_of_two(int n)
{
    return n > 0 && !(n & (n - 1));
}

static bool check_tensor(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    int64_t parts = TR_CUT;
    while (g->heads && g->heads % parts)
        parts /= 2;
    if (tp <= parts && parts % tp == 0)
        return true;
    if (g->heads)
        tr_fail(e, "--tp %d: a sum is cut into %d parts, and %lld heads must be cut alike", tp, TR_CUT,
            (long long)g->heads);
    else
        tr_fail(e, "--tp %d: a sum is cut into %d parts", tp, TR_CUT);
    return tr_offer_divisors(e, "tp", (long)parts);
}

/* Tensor parallelism cuts the channels that a norm takes in groups. */
static bool check_groups(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    if (!g->groups || g->groups % tp == 0 || (g->layers == 1 && g->split == TR_CONV_PAIRS))
        return true;
    return tr_fail(e,
               "--tp %d with --norm-groups %lld: the sums of a group of channels are made on one rank, which "
               "must have all of it",
               tp, (long long)g->groups) ||
           tr_offer_divisors(e, "tp", TR_CUT) || tr_offer_divisors(e, "norm-groups", (long)g->channels);
}

enum { MOST_SEQUENCES = 1 << 20 }; /* the loss of each has leaves, which all ranks have */

/* Sizes that cut a batch otherwise, and the batches around it that are cut evenly. */
static bool offer_sizes(const struct tr_plan *p, struct tr_error *e)
{
    int dp = tr_data_ranks(p);
    long part = (long)dp * p->micros, batch = part;
    if (p->batch % dp == 0)
        tr_offer_divisors(e, "micro", p->batch / dp);
    tr_offer_divisors(e, "dp", p->batch);
    while (2 * batch <= p->batch)
        batch *= 2;
    return tr_offer(e, "batch", batch) || tr_offer(e, "batch", 2 * batch);
}

static bool check_data(const struct tr_plan *p, struct tr_error *e)
{
    int dp = tr_data_ranks(p);
    if (p->batch > MOST_SEQUENCES)
        return tr_fail(e, "--batch %d: legal are 1 to %d sequences", p->batch, MOST_SEQUENCES);
    if (p->batch < 1 || p->micros < 1 || p->batch % dp)
        return tr_fail(e, "--dp %d does not divide a batch of %d sequences", dp, p->batch) ||
               offer_sizes(p, e);
    if (p->batch / dp % p->micros)
        return tr_fail(
                   e, "--micro %d does not divide the %d sequences of a rank", p->micros, p->batch / dp) ||
               offer_sizes(p, e);
    int each = tr_micro_batch(p), per_rank = each * tr_update_micros(p);
    bool once = !tr_reduces_each_micro(p);
    if ((dp > 1 && once && !power_of_two(per_rank)) || (tr_update_micros(p) > 1 && !power_of_two(each)))
        return tr_fail(e,
                   "%d sequences a rank in %d micro-batch%s: canonical sums need a power of two in each part "
                   "of the batch",
                   per_rank, tr_update_micros(p), tr_update_micros(p) > 1 ? "es" : "") ||
               offer_sizes(p, e);
    if (!once && p->micros > 1 && !power_of_two(dp * each))
        return tr_fail(e,
                   "--zero %d with --micro %d sums %d sequences at a time: canonical sums need a power "
                   "of two",
                   p->zero.level, p->micros, dp * each) ||
               offer_sizes(p, e);
    if (!once && dp > 1 && !power_of_two(each))
        return tr_fail(e,
                   "--zero %d: %d sequences of a rank in a micro-batch: canonical sums need a power of two",
                   p->zero.level, each) ||
               offer_sizes(p, e);
    if (!once && !p->zero.level && p->mesh.size[TR_EP] == 1 &&
        (p->reduce.bucket || p->reduce.form != TR_DP_RING))
        return tr_fail(e,
                   "%d sequences a rank are no part of a canonical sum, so each micro-batch is reduced, each "
                   "gradient alone; --bucket and --dp-reduce root or sharded need a power of two",
                   per_rank) ||
               offer_sizes(p, e);
    return true;
}

static bool check_pipeline(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int stages = p->mesh.size[TR_PP] * p->pipeline.chunks;
    if (p->pipeline.stage_layers[0] == 0 && g->layers % stages)
        return tr_fail(e, "--pp %d with --chunks %d: %d stages do not divide %lld layers",
                   p->mesh.size[TR_PP], p->pipeline.chunks, stages, (long long)g->layers) ||
               tr_offer_divisors(e, "pp", (long)g->layers) || tr_offer_divisors(e, "chunks", (long)g->layers);
    return true;
}

bool tr_plan_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    return tr_server_check(p, e) && tr_zero_check(p, e) && tr_offload_check(p, e) &&
           tr_recompute_check(p, e) && tr_precision_check(p, e) && tr_data_check(p, e) &&
           check_tensor(p, g, e) && check_groups(p, g, e) && tr_context_check(p, g, e) &&
           tr_expert_check(p, g, e) && check_data(p, e) && check_pipeline(p, g, e) && tr_async_check(p, g, e);
}
