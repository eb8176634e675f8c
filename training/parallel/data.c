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
#include "training/parallel/paradigms.h"

const char *const tr_dp_form_names[TR_DP_FORMS] = { "ring", "root", "sharded" };

const struct tr_paradigm tr_data_parallel = { "dp", "every rank has the model and a part of the sequences",
    TR_DP, { { "inputs", "Sb" } } };

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
    return !(n & (n - 1));
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

bool tr_data_check(const struct tr_plan *p, struct tr_error *e)
{
    if (p->reduce.bucket < 0)
        return tr_fail(e, "--bucket: legal are 0 bytes and more");
    if (p->zero.level && (p->reduce.bucket || p->reduce.form != TR_DP_RING))
        return tr_fail(e,
            "--zero %d reduces each gradient to the parts that ranks update; --bucket and --dp-reduce %s are "
            "legal with --zero 0",
            p->zero.level, tr_dp_form_names[p->reduce.form]);
    return true;
}
