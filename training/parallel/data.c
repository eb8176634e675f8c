/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c: data parallelism: every rank has the model, and a part of the sequences.
 *
 *        batch  s0 s1 s2 s3 s4 s5 s6 s7        dp 4, micro-batches 2
 *        reduced once:        rank 0: s0 | s1      rank 1: s2 | s3      rank 2: s4 | s5      rank 3: s6 | s7
 *        for each micro-batch: rank 0: s0 | s4      rank 1: s1 | s5      rank 2: s2 | s6      rank 3: s3 | s7
 *
 * What is reduced must be a subtree of the sum over the batch, so a power of two of sequences. With dp 2, 12
 * sequences and 3 micro-batches a rank's 6 are none, but the 4 of all ranks in a micro-batch are.
 *
 * A gradient is then a sum over the sequences that are here, and its fold over dp is the gradient. reduce.c
 * says how that becomes whole. */
#include "training/parallel/registry.h"

#include <stdio.h>

const char *const tr_dp_form_names[TR_DP_FORMS] = { "ring", "root", "sharded" };

static const struct tr_option options[] = {
    { "dp", TR_WHOLE, TR_PLAN(sizes.dp), "data parallel; 0: the ranks that are left" },
    { "dp-reduce", TR_CHOICE, TR_PLAN(reduce.form),
        "gradients: ring (all-reduce), root (reduce, broadcast), sharded", TR_NAMES(tr_dp_form_names) },
    { "bucket", TR_BYTES, TR_PLAN(reduce.bucket),
        "gradients are reduced together up to so many bytes, as 64K" },
    { "overlap", TR_FLAG, TR_PLAN(reduce.overlap), "gradients are reduced beside the backward pass" },
};

static const struct tr_table sequences = { "dp", TR_DP, { { "inputs", "Sb" } } };

static bool asked(const struct tr_plan *p)
{
    return p->sizes.dp > 1;
}

static void cuts(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    (void)g;
    snprintf(to, room, "the batch: %d of its %d sequences on each rank, and the whole model",
        p->batch / p->mesh.size[TR_DP], p->batch);
}

int tr_micro_batch(const struct tr_plan *p)
{
    return p->batch / (tr_data_ranks(p) * p->micros);
}

int tr_first_sequence(const struct tr_plan *p, int dp_rank, int micro)
{
    int k = tr_micro_batch(p), ranks = tr_data_ranks(p);
    if (tr_reduces_each_micro(p))
        return (micro * ranks + dp_rank) * k;
    int each = tr_update_micros(p), update = micro / each;
    return ((update * ranks + dp_rank) * each + micro % each) * k;
}

static bool power_of_two(int n)
{
    return n > 0 && !(n & (n - 1));
}

/* A rank's sequences are no subtree of the sum over the batch, but those of all ranks in a micro-batch. */
static bool only_micros_are_subtrees(const struct tr_plan *p)
{
    int ranks = tr_data_ranks(p), each = tr_micro_batch(p);
    return ranks > 1 && !power_of_two(each * p->micros) && power_of_two(each * ranks);
}

bool tr_reduces_each_micro(const struct tr_plan *p)
{
    bool once = p->mesh.servers || p->pipeline.async; /* who applies gradients otherwise */
    return p->zero.level >= 2 ||
           (p->micros > 1 && (p->mesh.size[TR_EP] > 1 || (!once && only_micros_are_subtrees(p))));
}

/* ---- which sizes fit ---- */

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

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int dp = tr_data_ranks(p);
    (void)g;
    if (p->zero.level && (p->reduce.bucket || p->reduce.form != TR_DP_RING))
        return tr_fail(e,
            "--zero %d reduces each gradient to the parts that ranks update; --bucket and --dp-reduce %s are "
            "legal with --zero 0",
            p->zero.level, tr_dp_form_names[p->reduce.form]);
    if (p->batch > MOST_SEQUENCES)
        return tr_fail(e, "--batch %d: legal are 1 to %d sequences", p->batch, MOST_SEQUENCES);
    if (p->batch % dp)
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

const struct tr_paradigm tr_data_parallel = { .word = "dp",
    .name = "data parallel",
    .axis = TR_DP,
    TR_OPTIONS(options),
    .compared = { { "data parallel", "--dp N" } },
    .asked = asked,
    .table = &sequences,
    .check = check,
    .cuts = cuts,
    .when = "the model fits a rank, and the batch is large" };
