/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_context.c: attention in the parts that a ring brings, and tokens that two runs of the sequence are.
 *
 * A rank's queries are runs of neighbours, and so are the keys of each rank. A part has the results of each
 * pair of runs that tr_pairs names, side by side. The tree over the runs of the sequence joins them. */
#include "training/parallel/map.h"
#include "training/tape/call.h"

#include <string.h>

enum { MOST_RUNS = TR_RUNS * TR_INS };

/* Attention with the keys of the rank `turn` before, or its gradients. Round the end of the ring may come
 * keys that no query here sees. */
static void attention_part(const struct tr_call *c)
{
    bool kept = c->i->op == TR_ATTEND_SCORES || c->i->op == TR_ATTEND_SCORES_DX;
    bool back =
        c->i->op == TR_ATTEND_PART_DX || c->i->op == TR_ATTEND_SCORES_DX; /* dy, y, lse, q, kv, scores */
    const struct tr_operand *q = back ? &c->in[3] : &c->in[0], *kv = q + 1;
    int of = (c->cp_rank - c->i->turn + c->cp) % c->cp;
    struct tr_runs keys = tr_runs_of(&c->map, c->g->context, of);
    struct tr_pair pairs[TR_PAIRS];
    int n = tr_pairs(&c->map, c->cp_rank, of, pairs);
    int64_t t = keys.count, size = c->g->channels / c->g->heads, heads = q->d[2] / size, y = t * heads * size;
    for (int64_t x = 0; x < c->n * n; x++) {
        const struct tr_pair *p = &pairs[x % n];
        int64_t at = x / n * c->runs + p->queries, from = x / n * c->runs + p->keys;
        struct tr_attention a = { t, heads, size, c->block, p->queries ? c->i->second : c->i->first, t, true,
            keys.first[p->keys], kept ? (back ? c->in[5].p : c->out[1].p) + x * heads * t * t : NULL,
            c->i->striped };
        if (back)
            c->k->attention_dx(c->out[0].p + x * y, c->out[1].p + x * 2 * y, c->in[0].p + at * y,
                c->in[1].p + at * y, c->in[2].p + at * heads * t, q->p + at * y, kv->p + from * 2 * y, &a,
                c->scratch);
        else
            c->k->attention_part(
                c->out[0].p + x * (y + 2 * heads * t), q->p + at * y, kv->p + from * 2 * y, &a, c->scratch);
    }
}

/* What run `own` of this rank and run n of the sequence, which another rank may have, give for sequence s;
 * `size` floats. Inputs are of the ranks before, or, where this rank has the keys, behind. NULL: nothing. */
static float *piece(const struct tr_call *c, int64_t s, int own, int n, bool has_keys, int64_t size)
{
    struct tr_owner other = tr_owner_of(&c->map, n);
    int cp = c->cp, here = c->cp_rank, turn = ((has_keys ? other.rank - here : here - other.rank) + cp) % cp;
    struct tr_pair pairs[TR_PAIRS];
    int count = tr_pairs(&c->map, has_keys ? other.rank : here, has_keys ? here : other.rank, pairs);
    for (int x = 0; x < count; x++)
        if (pairs[x].queries == (has_keys ? other.run : own) && pairs[x].keys == (has_keys ? own : other.run))
            return c->in[turn].p + (s * count + x) * size;
    return NULL;
}

/* Of the runs up to a query's own, as it sees no key behind; of stripes all. */
static void attention_merge(const struct tr_call *c)
{
    struct tr_runs runs = tr_runs_of(&c->map, c->g->context, c->cp_rank);
    int64_t t = runs.count, heads = c->out[1].d[1], size = c->g->channels / c->g->heads;
    struct tr_attention a = { .heads = heads, .size = size, .queries = t };
    for (int64_t x = 0; x < c->n * c->runs; x++) {
        int run = (int)(x % c->runs), seen = c->map.striped ? c->cp : (int)(runs.first[run] / t) + 1;
        float *part[MOST_RUNS];
        for (int n = 0; n < seen; n++)
            part[n] = piece(c, x / c->runs, run, n, false, heads * t * (size + 2));
        c->k->attention_merge(
            c->out[0].p + x * t * heads * size, c->out[1].p + x * heads * t, part, seen, &a, c->scratch);
    }
}

/* left + right, in the place of one of them. What is not there is +0. */
static float *sum_of(const struct tr_call *c, float *left, float *right, int64_t count)
{
    float *to = left ? left : right;
    if (left && right)
        c->k->add(to, left, right, count);
    else
        for (int64_t i = 0; i < count && to; i++)
            to[i] = to[i] + 0.0f;
    return to;
}

/* The tree over the runs of the sequence, in place. */
static void sum_parts(const struct tr_call *c)
{
    int runs = c->cp * (int)c->runs;
    int64_t count = c->out[0].d[1] / c->runs * c->out[0].d[2];
    for (int64_t x = 0; x < c->n * c->runs; x++) {
        float *part[MOST_RUNS];
        for (int n = 0; n < runs; n++)
            part[n] = piece(c, x / c->runs, (int)(x % c->runs), n, c->i->op == TR_SUM_QUERIES, count);
        for (int step = 1; step < runs; step *= 2)
            for (int n = 0; n + step < runs; n += 2 * step)
                part[n] = sum_of(c, part[n], part[n + step], count);
        memcpy(c->out[0].p + x * count, part[0], (size_t)count * sizeof(float));
    }
}

void tr_attention_in_parts(const struct tr_call *c)
{
    if (c->i->op == TR_ATTEND_MERGE)
        attention_merge(c);
    else if (c->i->op == TR_SUM_KEYS || c->i->op == TR_SUM_QUERIES)
        sum_parts(c);
    else
        attention_part(c);
}

/* x[sequence][rank][run][token][width] becomes x[sequence][token][width] in the order of the sequence. The
 * other way, each half of a gradient is dealt out: x[sequence][half][token][width] becomes
 * x[sequence][rank][half][run][token][width]. */
void tr_arrange(const struct tr_call *c)
{
    bool deal = c->i->op == TR_DEAL;
    int64_t halves = deal ? TR_RUNS : 1, runs = c->cp * c->runs, width = c->in[0].d[2];
    int64_t run = c->g->context / runs * width;
    for (int64_t x = 0; x < c->n * halves * runs; x++) { /* in the order of the sequence */
        int64_t s = x / (halves * runs), half = x / runs % halves;
        struct tr_owner owner = tr_owner_of(&c->map, (int)(x % runs));
        int64_t dealt = (((s * c->cp + owner.rank) * halves + half) * c->runs + owner.run) * run;
        memcpy(c->out[0].p + (deal ? dealt : x * run), c->in[0].p + (deal ? x * run : dealt),
            (size_t)run * sizeof(float));
    }
}

/* x[sequence][half][token][width]: the halves are the two children of the root. */
void tr_add_halves(const struct tr_call *c)
{
    int64_t count = c->out[0].d[1] * c->out[0].d[2];
    for (int64_t s = 0; s < c->n; s++)
        c->k->add(
            c->out[0].p + s * count, c->in[0].p + 2 * s * count, c->in[0].p + (2 * s + 1) * count, count);
}
