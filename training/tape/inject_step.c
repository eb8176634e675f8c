/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_step.c: the classic silent errors of a step: reductions, micro-batches, stages, ZeRO, buckets. */
#include "training/tape/plant.h"

#include <string.h>

static void repeat_at(struct tr_tape *t, int n)
{
    struct tr_instr copy = t->instrs[n];
    tr_add_instr(t, copy.code);
    memmove(&t->instrs[n + 1], &t->instrs[n], (size_t)(t->n_instrs - n - 1) * sizeof *t->instrs);
}

static bool gradient_all_reduce_missing(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "qkv.weight", TR_DP);
}

static bool all_reduce_doubled(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_REDUCE, -1, "qkv.weight", TR_DP);
        if (i < 0)
            return false;
        repeat_at(&tapes[r], i);
        struct tr_instr *again = &tapes[r].instrs[i + 1];
        again->in[0] = again->out[0];
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

static bool sum_for_mean(struct tr_tape *tapes, int n)
{
    const struct tr_plan *p = tapes[0].placed->plan;
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++)
            if (tapes[r].instrs[i].code == TR_COMPUTE && tapes[r].instrs[i].op == TR_SOFTMAX_DX) {
                tapes[r].instrs[i].scale *= p->mesh.size[TR_DP] * p->micros;
                found = p->mesh.size[TR_DP] * p->micros > 1;
            }
    return found;
}

/* The bias is added to the partial sum, so once on each rank. */
static bool row_bias_on_every_rank(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int bias = tr_plant_find(t, TR_COMPUTE, TR_BIAS, "proj", -1);
        int reduce = bias - 1;
        if (bias < 1 ||
            (t->instrs[reduce].code != TR_ALL_REDUCE && t->instrs[reduce].code != TR_REDUCE_SCATTER))
            return false;
        t->instrs[bias].in[0] = t->instrs[reduce].in[0];
        struct tr_instr moved = t->instrs[reduce];
        t->instrs[reduce] = t->instrs[bias];
        t->instrs[bias] = moved;
        tr_plan_memory(t);
    }
    return true;
}

static bool norm_counts_replicas(struct tr_tape *tapes, int n)
{
    for (int r = 1; r < n; r++)
        if (tr_plant_find(&tapes[r], TR_NORM, -1, "ln1.weight", -1) < 0) {
            struct tr_instr copy;
            int from = tr_plant_find(&tapes[0], TR_NORM, -1, "ln1.weight", -1), to = -1;
            for (int i = 0; i < tapes[r].n_instrs && to < 0; i++)
                if (tapes[r].instrs[i].code == TR_UPDATE)
                    to = i;
            if (from < 0 || to < 0)
                return false;
            copy = tapes[0].instrs[from];
            repeat_at(&tapes[r], to);
            copy.in[0] = tr_holding_of(&tapes[r], copy.parameter)->gradient;
            copy.out[0] = tapes[r].leaves;
            tapes[r].instrs[to] = copy;
            tr_plan_memory(&tapes[r]);
            return true;
        }
    return false;
}

static bool micro_batch_dropped(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++)
            if (tapes[r].instrs[i].code == TR_COUNT && tapes[r].instrs[i].micro == 1) {
                tr_remove_instr(&tapes[r], i--);
                found = true;
            }
    return found;
}

static bool micro_batches_in_another_order(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++)
            if (tapes[r].instrs[i].code == TR_COUNT && tapes[r].instrs[i].micro < 2) {
                tapes[r].instrs[i].micro = 1 - tapes[r].instrs[i].micro;
                found = true;
            }
    return found;
}

/* What the backward pass needs gets the place of something else too early. */
static bool freed_early(struct tr_tape *tapes, int n)
{
    (void)n;
    struct tr_tape *t = &tapes[0];
    int i = tr_plant_find(t, TR_COMPUTE, TR_GELU, "gelu", -1);
    if (i < 0)
        return false;
    int gelu = t->instrs[i].out[0];
    for (int k = i + 1; k < t->n_instrs; k++)
        if (t->instrs[k].code == TR_COMPUTE && t->instrs[k].op == TR_ADD) {
            t->values[t->instrs[k].out[0]].offset = t->values[gelu].offset;
            return true;
        }
    return false;
}

static bool two_collectives_swapped(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[n - 1];
    int last = -1;
    for (int i = 0; i < t->n_instrs; i++) {
        const struct tr_instr *x = &t->instrs[i];
        if (x->code != TR_ALL_REDUCE || x->axes != 1 << TR_DP)
            continue;
        if (last >= 0) {
            struct tr_instr moved = t->instrs[last];
            t->instrs[last] = t->instrs[i];
            t->instrs[i] = moved;
            return true;
        }
        last = i;
    }
    return false;
}

static bool partial_sum_as_maximum(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_REDUCE, -1, "max", TR_TP);
        if (i < 0)
            return false;
        tapes[r].instrs[i].fold = TUTTI_SUM;
    }
    return true;
}

static bool tied_embedding_not_added(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++)
            if (tapes[r].instrs[i].code == TR_TIE) {
                tr_plant_bypass(&tapes[r], i--);
                found = true;
            }
    return found;
}

static bool layer_norm_not_reduced(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "ln1.weight", TR_TP);
}

static bool send_without_receive(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++)
        for (int i = tapes[r].n_instrs - 1; i >= 0; i--)
            if (tapes[r].instrs[i].code == TR_RECV && tapes[r].instrs[i].edge == TR_FROM_NEXT) {
                tr_remove_instr(&tapes[r], i);
                return true;
            }
    return false;
}

static bool padded_columns_count(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code != TR_COMPUTE || x->op != TR_SOFTMAX)
                continue;
            int64_t all = tr_shard_size(tapes[r].placed, tapes[r].values[x->in[0]].shard, 2);
            found |= x->valid < all;
            x->valid = all;
        }
    return found;
}

static bool contiguous_for_cyclic(struct tr_tape *tapes, int n)
{
    const struct tr_plan *p = tapes[0].placed->plan;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            if (x->code == TR_LOAD)
                x->place = (int64_t)tr_micro_batch(p) * (tapes[r].at[TR_DP] * p->micros + x->micro);
        }
    return tr_reduces_each_micro(p) && p->mesh.size[TR_DP] > 1 && p->micros > 1;
}

/* Every send is waited for at once, as one without a buffer would. */
static bool circle_of_sends(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int i = 0; i < t->n_instrs; i++)
            if (t->instrs[i].code == TR_WAIT)
                tr_remove_instr(t, i--);
        for (int i = 0; i < t->n_instrs; i++)
            if (t->instrs[i].code == TR_SEND) {
                repeat_at(t, i++);
                t->instrs[i].code = TR_WAIT;
                found = true;
            }
        tr_plan_memory(t);
    }
    return found;
}

static bool border_off_by_one(struct tr_tape *tapes, int n)
{
    (void)n;
    struct tr_tape *t = &tapes[0];
    int send = -1, out = tr_plant_find(t, TR_COMPUTE, TR_ADD, "layer0.out", -1);
    for (int i = 0; i < t->n_instrs && send < 0; i++)
        if (t->instrs[i].code == TR_SEND && t->instrs[i].edge == TR_TO_NEXT)
            send = i;
    if (send < 0 || out < 0 || t->instrs[send].in[0] == t->instrs[out].out[0])
        return false;
    int whole = t->instrs[send].in[0], less = t->instrs[out].out[0];
    for (int i = send; i < t->n_instrs; i++)
        if ((t->instrs[i].code == TR_SEND || t->instrs[i].code == TR_WAIT) && t->instrs[i].in[0] == whole)
            t->instrs[i].in[0] = less;
    tr_plan_memory(t);
    return true;
}

/* Each rank renews its part of a parameter, and the others keep what they had. */
static bool stale_parameter(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int i = tr_plant_find(&tapes[r], TR_ALL_GATHER, -1, "qkv.weight", TR_DP);
        if (i < 0)
            return false;
        tr_remove_instr(&tapes[r], i);
    }
    return true;
}

/* The backward part reads what was gathered for an earlier micro-batch. */
static bool stale_gathered_parameter(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int first = tr_plant_find(t, TR_ALL_GATHER, -1, "qkv.weight", TR_DP);
        for (int i = first + 1; first >= 0 && i < t->n_instrs; i++)
            if (t->instrs[i].code == TR_ALL_GATHER && t->instrs[i].in[0] == t->instrs[first].in[0] &&
                t->instrs[i].part != TR_F) {
                tr_remove_instr(t, i);
                first = -2;
            }
        if (first != -2)
            return false;
    }
    return true;
}

/* An activation of the next layer, which is as large, gets the place of what keep holds for the backward
 * part. */
static bool parameter_freed_before_backward(struct tr_tape *tapes, int n)
{
    (void)n;
    struct tr_tape *t = &tapes[0];
    int i = tr_plant_find(t, TR_ALL_GATHER, -1, "layer0.fc1.weight", TR_DP);
    int k = tr_plant_find(t, TR_COMPUTE, TR_LAYER_NORM, "layer1.ln1", -1);
    if (i < 0 || k < 0)
        return false;
    t->values[t->instrs[k].out[0]].offset = t->values[t->instrs[i].out[0]].offset;
    return true;
}

/* The wait for a call beside the list that makes this tensor is left out. */
static bool wait_missing(struct tr_tape *tapes, int n, const char *tail)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = tr_plant_find(t, TR_WAIT, -1, tail, -1);
        if (i < 0 || !t->instrs[i].beside)
            return false;
        tr_remove_instr(t, i);
    }
    return true;
}

static bool prefetch_not_awaited(struct tr_tape *tapes, int n)
{
    return wait_missing(tapes, n, "qkv.weight");
}

/* Of the last call on the stream: a wait for a later one would be one for it, too. */
static bool gradient_not_awaited(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = t->n_instrs - 1;
        while (i >= 0 && !(t->instrs[i].code == TR_WAIT && t->instrs[i].beside))
            i--;
        if (i < 0)
            return false;
        tr_remove_instr(t, i);
    }
    return true;
}

static bool broadcast_missing(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_BROADCAST, "qkv.weight", TR_DP);
}

/* The call begins when the last micro-batch's gradient is there, but not in the sum yet. */
static bool bucket_reduced_early(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int i = 1;
        while (i < t->n_instrs && !(t->instrs[i].beside && t->instrs[i].code == TR_ALL_REDUCE))
            i++;
        if (i == t->n_instrs || t->instrs[i - 1].code != TR_COUNT)
            return false;
        tr_move_instr(t, i, i - 1);
    }
    return true;
}

static bool beside_swapped(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[n - 1];
    int first = -1;
    for (int i = 0; i < t->n_instrs; i++)
        if (t->instrs[i].beside && t->instrs[i].code == TR_ALL_REDUCE) {
            if (first >= 0) {
                tr_move_instr(t, first, i);
                return true;
            }
            first = i;
        }
    return false;
}

static const struct tr_injection list[] = {
    { "all-reduce-missing", "a gradient is not reduced over the data-parallel ranks", "--dp 2", TR_BY_TYPES,
        gradient_all_reduce_missing },
    { "all-reduce-doubled", "a gradient is reduced twice", "--dp 2", TR_BY_TYPES, all_reduce_doubled },
    { "sum-for-mean", "the loss is averaged over a micro-batch, the gradients are summed", "--dp 2",
        TR_BY_TYPES, sum_for_mean },
    { "row-bias-on-every-rank", "the bias is added before the all-reduce", "--tp 2", TR_BY_TYPES,
        row_bias_on_every_rank },
    { "norm-counts-replicas", "a layer norm's gradient is in the norm of two ranks", "--tp 2", TR_BY_ORDER,
        norm_counts_replicas },
    { "micro-batch-dropped", "a micro-batch does not enter the gradient", "--micro 2", TR_BY_TYPES,
        micro_batch_dropped },
    { "micro-batches-swapped", "two micro-batches enter the gradient in another order", "--micro 2",
        TR_BY_TYPES, micro_batches_in_another_order },
    { "freed-early", "an activation is overwritten before the backward pass reads it", "", TR_BY_TYPES,
        freed_early },
    { "collectives-swapped", "one rank calls two collectives in another order", "--dp 2", TR_BY_ORDER,
        two_collectives_swapped },
    { "wrong-fold", "a maximum over the vocabulary is summed", "--tp 2", TR_BY_TYPES,
        partial_sum_as_maximum },
    { "tied-embedding", "the head's gradient is not added to the embedding's", "", TR_BY_TYPES,
        tied_embedding_not_added },
    { "layer-norm-not-reduced", "under sequence parallelism a layer norm's gradient has a part of the tokens",
        "--tp 2 --sp", TR_BY_TYPES, layer_norm_not_reduced },
    { "send-without-receive", "a stage sends a gradient that nobody receives", "--pp 2", TR_BY_TYPES,
        send_without_receive },
    { "padded-vocabulary", "columns that are padding are in the softmax", "--tp 2 --vocabulary 257",
        TR_BY_TYPES, padded_columns_count },
    { "contiguous-for-cyclic", "a rank has neighbouring sequences where its peers of a micro-batch need them",
        "--dp 2 --zero 2 --micro 2", TR_BY_TYPES, contiguous_for_cyclic },
    { "circle-of-sends", "neighbouring stages wait for their sends before they receive", "--pp 2 --micro 4",
        TR_BY_ORDER, circle_of_sends },
    { "border-off-by-one", "a stage sends what the layer before its last one gave", "--pp 2", TR_BY_ORDER,
        border_off_by_one },
    { "stale-parameter", "the parts of a parameter that other ranks have updated are not gathered",
        "--dp 2 --zero 1", TR_BY_TYPES, stale_parameter },
    { "stale-gather", "the backward pass gathers a parameter no more, and reads what was gathered before",
        "--dp 2 --zero 3", TR_BY_TYPES, stale_gathered_parameter },
    { "parameter-freed-early", "a gathered parameter loses its place before the backward pass reads it",
        "--dp 2 --zero 3 --zero3-keep", TR_BY_TYPES, parameter_freed_before_backward },
    { "prefetch-not-awaited", "a parameter is read while its all-gather is under way",
        "--dp 2 --zero 3 --zero3-prefetch 1", TR_BY_TYPES, prefetch_not_awaited },
    { "gradient-not-awaited", "a gradient is used while its reduction is under way", "--dp 2 --overlap",
        TR_BY_TYPES, gradient_not_awaited },
    { "broadcast-missing", "a gradient is reduced to one rank and not broadcast", "--dp 2 --dp-reduce root",
        TR_BY_TYPES, broadcast_missing },
    { "bucket-reduced-early", "a bucket is reduced before the last micro-batch is in it",
        "--dp 2 --micro 2 --bucket 64K --overlap", TR_BY_TYPES, bucket_reduced_early },
    { "beside-swapped", "one rank begins two reductions beside the backward pass in another order",
        "--dp 2 --overlap", TR_BY_ORDER, beside_swapped },
};
const struct tr_injections tr_injections_step = { list, sizeof list / sizeof *list };
