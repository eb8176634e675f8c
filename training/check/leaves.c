/* SPDX-License-Identifier: BSD-3-Clause */
/* leaves.c: each leaf of the vectors of the norm and of the loss has one owner among all ranks. */
#include "training/check/talk.h"

#include <stdlib.h>

/* Of each parameter, by its ordinal: whether the norm counts it; a tied head is counted as its embedding. */
static bool *counted_parameters(const struct tr_graph *g)
{
    bool *counted = tr_new((size_t)tr_ordinal(g, g->n_tensors), sizeof *counted);
    int64_t ordinal = 0;
    for (int t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].role == TR_PARAMETER)
            counted[ordinal++] = g->tensors[t].values_of == t;
    return counted;
}

/* Where the part lies that this rank has, if another one of its class has said it. */
static int64_t place_on(const struct tr_placed *p, int rank, const struct tr_leaf_part *part)
{
    struct tr_tape t;
    const struct tr_param_state h = { .parameter = part->parameter, .shard_count = part->shard_count };
    tr_tape_begin(&t, p, rank);
    if (part->code == TR_NORM)
        return tr_norm_place(&t, &h, p->plan->pipeline.async ? part->micro / tr_update_micros(p->plan) : 0);
    return tr_losses_place(&t, part->micro, part->run, part->count);
}

/* Counts in what one rank counts of a vector's leaves. */
static bool own_leaves(unsigned char *owners, const struct tr_placed *p, int rank, const struct tr_talk *k,
    enum tr_code code, bool bind, struct tr_error *e)
{
    for (int n = 0; n < k->n_parts; n++) {
        const struct tr_leaf_part *i = &k->parts[n];
        if (i->code != code)
            continue;
        bool norm = code == TR_NORM;
        int64_t place = bind ? place_on(p, rank, i) : i->place;
        int64_t leaves = norm ? i->count / tr_leaf(&p->g->tensors[i->parameter]) : i->count;
        int64_t times = norm ? 1 : i->times;
        if (rank == k->rank && place != i->place)
            return tr_fail(e, "rank %d, instruction %d: the %s of %s is at leaf %lld, where %lld is due",
                rank, i->number, norm ? "norm" : "loss", i->name, (long long)i->place, (long long)place);
        for (int64_t x = 0, at; x < leaves * times; x++)
            if (owners[at = place + x / leaves * TR_BLOCKS + x % leaves]++)
                return tr_fail(e, "rank %d, instruction %d: leaf %lld of the %s of %s is counted twice", rank,
                    i->number, (long long)at, norm ? "norm" : "loss", i->name);
    }
    return true;
}

static bool leaves_once(const struct tr_placed *p, const struct tr_talk *const *of, int n, enum tr_code code,
    bool bind, struct tr_error *e)
{
    int64_t parameters = tr_ordinal(p->g, p->g->n_tensors);
    int64_t count = code == TR_NORM ? parameters * TR_NORM_LEAVES * tr_updates(p->plan)
                                    : (int64_t)p->plan->batch * TR_BLOCKS;
    unsigned char *owners = tr_new((size_t)count, 1);
    bool *counted = counted_parameters(p->g), ok = true;
    for (int r = 0; r < n && ok; r++)
        ok = own_leaves(owners, p, r, of[r], code, bind, e);
    for (int64_t x = 0; x < count && ok; x++)
        if (!owners[x] && (code == TR_LOSSES || counted[x / TR_NORM_LEAVES % parameters]))
            ok = tr_fail(
                e, "no rank counts leaf %lld of the %s", (long long)x, code == TR_NORM ? "norm" : "loss");
    free(owners), free(counted);
    return ok;
}

bool tr_check_leaves(
    const struct tr_placed *p, const struct tr_talk *const *of, int n, bool bind, struct tr_error *e)
{
    bool norms = p->plan->servers.async; /* each worker has one */
    if (p->plan->forward)
        return true;
    return (norms || leaves_once(p, of, n, TR_NORM, bind, e)) && leaves_once(p, of, n, TR_LOSSES, bind, e);
}
