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

const char *tr_table_placement(const struct tr_plan *p, const struct tr_tensor *t, enum tr_axis axis)
{
    for (int i = p->n_paradigms - 1; i >= 0 && p->mesh.size[axis] > 1; i--)
        for (const struct tr_table_row *r = p->paradigms[i]->rows; r->tensors; r++)
            if (p->paradigms[i]->axis == axis && matches(r->tensors, t))
                return r->placement;
    return "R";
}

/* "1, 2, 4": what divides n, up to `most`. */
static const char *divisors(int64_t n, int64_t most, char text[64])
{
    int used = 0;
    text[0] = 0;
    for (int64_t i = 1; i <= n && i <= most && used < 56; i++)
        if (n % i == 0)
            used += snprintf(text + used, 64 - (size_t)used, "%s%lld", used ? ", " : "", (long long)i);
    return text;
}

int tr_plan_rank(const struct tr_plan *p, int stage)
{
    return tr_stage_rank(stage, p->mesh.size[TR_PP], p->vee);
}

bool tr_ends_apart(const struct tr_plan *p)
{
    return tr_plan_rank(p, p->mesh.size[TR_PP] * p->chunks - 1) != 0;
}

static bool power_of_two(int n)
{
    return n > 0 && !(n & (n - 1));
}

static bool check_tensor(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    char text[64];
    int64_t parts = TR_CUT;
    while (g->heads && g->heads % parts)
        parts /= 2;
    if ((tp > parts || parts % tp) && !g->heads)
        return tr_fail(
            e, "--tp %d: a sum is cut into %d parts; legal: %s", tp, TR_CUT, divisors(parts, parts, text));
    if (tp > parts || parts % tp)
        return tr_fail(e, "--tp %d: a sum is cut into %d parts, and %lld heads must be cut alike; legal: %s",
            tp, TR_CUT, (long long)g->heads, divisors(parts, parts, text));
    return true;
}

/* Tensor parallelism cuts the channels that a norm takes in groups. */
static bool check_groups(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int tp = p->mesh.size[TR_TP];
    int64_t parts = TR_CUT;
    char text[64];
    if (!g->groups || g->groups % tp == 0 || (g->layers == 1 && g->split == TR_CONV_PAIRS))
        return true;
    while (g->groups % parts)
        parts /= 2;
    return tr_fail(e,
        "--tp %d with --norm-groups %lld: the sums of a group of channels are made on one rank, which must "
        "have all of it; legal: --tp %s, or another number of groups",
        tp, (long long)g->groups, divisors(parts, parts, text));
}

enum { MOST_SEQUENCES = 1 << 20 }; /* the loss of each has leaves, which all ranks have */

static bool check_data(const struct tr_plan *p, struct tr_error *e)
{
    int dp = tr_data_ranks(p);
    char text[64];
    if (p->batch > MOST_SEQUENCES)
        return tr_fail(e, "--batch %d: legal are 1 to %d sequences", p->batch, MOST_SEQUENCES);
    if (p->batch < 1 || p->micros < 1 || p->batch % dp)
        return tr_fail(e, "--dp %d does not divide a batch of %d sequences; legal: %s", dp, p->batch,
            divisors(p->batch, p->batch, text));
    if (p->batch / dp % p->micros)
        return tr_fail(e, "--micro %d does not divide the %d sequences of a rank; legal: %s", p->micros,
            p->batch / dp, divisors(p->batch / dp, p->batch, text));
    int each = tr_micro_batch(p), per_rank = each * tr_update_micros(p);
    bool once = !tr_reduces_each_micro(p);
    if ((dp > 1 && once && !power_of_two(per_rank)) || (tr_update_micros(p) > 1 && !power_of_two(each)))
        return tr_fail(e,
            "%d sequences a rank in %d micro-batches: canonical sums need a power of two in each part of the "
            "batch; choose --batch, --dp and --micro so",
            per_rank, tr_update_micros(p));
    if (!once && p->micros > 1 && !power_of_two(dp * each))
        return tr_fail(e, "--zero %d with --micro %d sums %d sequences at a time: legal are powers of two",
            p->zero, p->micros, dp * each);
    if (!once && dp > 1 && !power_of_two(each))
        return tr_fail(
            e, "--zero %d: %d sequences of a rank in a micro-batch; legal are powers of two", p->zero, each);
    return true;
}

static bool check_pipeline(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int stages = p->mesh.size[TR_PP] * p->chunks;
    char text[64];
    if (p->stage_layers[0] == 0 && g->layers % stages)
        return tr_fail(e, "--pp %d with --chunks %d: %d stages do not divide %lld layers; legal: %s stages",
            p->mesh.size[TR_PP], p->chunks, stages, (long long)g->layers,
            divisors(g->layers, g->layers, text));
    return true;
}

bool tr_plan_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    return tr_server_check(p, e) && tr_zero_check(p, e) && tr_offload_check(p, e) &&
           tr_recompute_check(p, e) && tr_mixed_check(p, e) && tr_data_check(p, e) && check_tensor(p, g, e) &&
           check_groups(p, g, e) && tr_context_check(p, g, e) && tr_expert_check(p, g, e) &&
           check_data(p, e) && check_pipeline(p, g, e) && tr_async_check(p, g, e);
}
