/* SPDX-License-Identifier: BSD-3-Clause */
/* replicas.c: the least and the greatest hash of each piece, over all ranks; where both are the same, all
 * replicas are. */
#include "training/checkpoint/replicas.h"

#include "training/checkpoint/head.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is compared: all that a checkpoint keeps, and roundings. */
enum { ROUNDED = TR_KINDS, COMPARED };

static const char *name_of(int kind)
{
    return kind == ROUNDED ? "rounded values" : tr_kind_names[kind];
}

void tr_replicas_open(struct tr_replicas *s, const struct tr_runner *r)
{
    const struct tr_placed *p = r->tape->placed;
    const struct tr_mesh *m = &p->plan->mesh;
    s->count = tr_ordinal(p->g, p->g->n_tensors) * COMPARED * m->size[TR_TP] * m->size[TR_EP] *
               tr_data_ranks(p->plan);
    s->least = tr_new((size_t)s->count, sizeof *s->least);
    s->most = tr_new((size_t)s->count, sizeof *s->most);
}

void tr_replicas_close(struct tr_replicas *s)
{
    free(s->least);
    free(s->most);
    *s = (struct tr_replicas){ 0 };
}

/* Of several servers each has a part, which no other rank has as a piece; and a server has no roundings. */
static struct tr_piece piece_of(const struct tr_runner *r, const struct tr_param_state *h, int kind)
{
    bool serves = r->tape->server >= 0;
    if (serves && (r->tape->placed->plan->mesh.servers > 1 || kind == ROUNDED))
        return (struct tr_piece){ .at = NULL };
    return kind == ROUNDED ? tr_piece_rounded(r, h) : tr_piece_held(r, h, (enum tr_kind)kind);
}

/* Ranks that hold the same piece have the same number for it. */
static int64_t number(const struct tr_runner *r, const struct tr_param_state *h, int kind)
{
    const struct tr_tape *t = r->tape;
    const struct tr_plan *plan = t->placed->plan;
    const struct tr_mesh *m = &plan->mesh;
    const struct tr_tensor *w = &t->placed->g->tensors[h->parameter];
    bool cut = tr_table_placement(plan, w, TR_TP).kind == TR_S,
         expert = tr_table_placement(plan, w, TR_EP).kind == TR_S;
    int values = kind == ROUNDED ? h->values : kind == TR_VALUES ? tr_kept_values(h) : -1;
    bool part = plan->zero.level && (values < 0 || tr_count(t, values) == h->shard_count);
    int64_t n = tr_heading_entry(t->placed->g, h->parameter) * COMPARED + kind;
    n = n * m->size[TR_TP] + (cut ? t->at[TR_TP] : 0);
    n = n * m->size[TR_EP] + (expert ? t->at[TR_EP] : 0); /* whose parts are fewer */
    return n * tr_data_ranks(plan) + (part ? tr_replica_rank(plan, w, t->at) : 0);
}

/* The hash of the piece of this number, if it is here. */
static bool hash(const struct tr_runner *r, int64_t wanted, uint64_t *sum)
{
    for (int n = 0; n < r->tape->n_states; n++)
        for (int kind = 0; kind < COMPARED; kind++) {
            struct tr_piece p = piece_of(r, &r->tape->states[n], kind);
            if (p.count && number(r, &r->tape->states[n], kind) == wanted) {
                *sum = tr_piece_sum(&p);
                return true;
            }
        }
    return false;
}

static const char *parameter_name(const struct tr_graph *g, int64_t entry)
{
    for (int i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of == i &&
            tr_heading_entry(g, i) == entry)
            return g->tensors[i].name;
    return "";
}

/* Names the ranks whose piece is not that of the first rank that has it. */
static bool differ(const struct tr_runner *r, int64_t piece, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    const struct tr_mesh *m = &p->plan->mesh;
    struct {
        uint64_t here, sum;
    } mine = { 0, 0 }, *all = tr_new((size_t)m->n, sizeof *all);
    mine.here = hash(r, piece, &mine.sum);
    char others[200] = "";
    int first = -1, used = 0, count = 0;
    tutti_status s = tutti_all_gather(&mine, all, 2, TUTTI_UINT64, ranks, tutti_no_stream());
    for (int rank = 0; rank < m->n && s == TUTTI_OK; rank++) {
        if (!all[rank].here)
            continue;
        if (first < 0)
            first = rank;
        if (all[rank].sum != all[first].sum && used < 180)
            used += snprintf(others + used, sizeof others - (size_t)used, "%s%d", count++ ? ", " : "", rank);
    }
    free(all);
    int64_t entry = piece / tr_data_ranks(p->plan) / m->size[TR_EP] / m->size[TR_TP];
    return tr_fail(e, "after step %lld: %s of %s: rank%s %s and rank %d have not the same, and should",
        (long long)r->step - 1, name_of((int)(entry % COMPARED)), parameter_name(p->g, entry / COMPARED),
        count > 1 ? "s" : "", others, first);
}

bool tr_replicas_count(
    struct tr_replicas *s, const struct tr_runner *r, tutti_comm *ranks, int64_t *several, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    size_t count = (size_t)s->count;
    memset(s->most, 0, count * sizeof *s->most);
    for (int n = 0; n < t->n_states; n++)
        for (int kind = 0; kind < COMPARED; kind++)
            if (piece_of(r, &t->states[n], kind).count)
                s->most[number(r, &t->states[n], kind)] = 1;
    if (tutti_all_reduce(s->most, s->most, count, TUTTI_UINT64, TUTTI_SUM, ranks, tutti_no_stream()))
        return tr_fail(e, "counting replicas: %s", tr_why(ranks));
    *several = 0;
    for (size_t i = 0; i < count; i++)
        *several += s->most[i] > 1;
    return true;
}

bool tr_replicas_check(
    struct tr_replicas *s, const struct tr_runner *r, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    size_t count = (size_t)s->count;
    memset(s->least, 0xFF, count * sizeof *s->least);
    memset(s->most, 0, count * sizeof *s->most);
    for (int n = 0; n < t->n_states; n++)
        for (int kind = 0; kind < COMPARED; kind++) {
            struct tr_piece p = piece_of(r, &t->states[n], kind);
            int64_t piece = number(r, &t->states[n], kind);
            if (p.count)
                s->least[piece] = s->most[piece] = tr_piece_sum(&p);
        }
    if (tutti_all_reduce(s->least, s->least, count, TUTTI_UINT64, TUTTI_MIN, ranks, tutti_no_stream()) ||
        tutti_all_reduce(s->most, s->most, count, TUTTI_UINT64, TUTTI_MAX, ranks, tutti_no_stream()))
        return tr_fail(e, "comparing replicas: %s", tr_why(ranks));
    for (int64_t i = 0; i < s->count; i++)
        if (s->least[i] < s->most[i])
            return differ(r, i, ranks, e);
    return true;
}
