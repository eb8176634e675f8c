/* SPDX-License-Identifier: BSD-3-Clause */
/* attention_parts.c: attention in the parts that a ring brings.
 *
 * A rank's queries are runs of neighbours, and so are the keys of each rank. A part has the results of each
 * pair of runs that tr_pairs names, side by side. The tree over the runs of the sequence joins them. */
#include "training/model/autodiff.h"
#include "training/ops/attention.h"

static bool is_back(int op)
{
    return op == TR_ATTEND_PART_DX || op == TR_ATTEND_SCORES_DX;
}

/* Attention with the keys of the rank `shift` before, or its gradients. Round the end of the ring may come
 * keys that no query here sees. */
static void attention_part(const struct tr_call *c)
{
    bool kept = c->op == TR_ATTEND_SCORES || c->op == TR_ATTEND_SCORES_DX;
    bool back = is_back(c->op); /* dy, y, lse, q, kv, scores, draws */
    const struct tr_operand *q = back ? &c->in[3] : &c->in[0], *kv = q + 1;
    const struct tr_operand *draws = &c->in[(back ? 5 : 2) + (back && kept ? 1 : 0)];
    int of = (c->cp_rank - c->part + c->map.cp) % c->map.cp;
    struct tr_runs keys = tr_runs_of(&c->map, c->g->context, of);
    struct tr_pair pairs[TR_PAIRS];
    int n = tr_pairs(&c->map, c->cp_rank, of, pairs);
    int64_t t = keys.count, size = c->g->channels / c->g->heads, heads = q->d[2] / size, y = t * heads * size;
    for (int x = 0; x < n; x++) {
        const struct tr_pair *p = &pairs[x];
        int64_t at = p->queries, from = p->keys;
        struct tr_attention a = { .tokens = t,
            .heads = heads,
            .size = size,
            .block = c->block,
            .first = p->queries ? c->second : c->first,
            .queries = t,
            .separate_kv = true,
            .begin = keys.first[p->keys],
            .scores = kept ? (back ? c->in[5].p : c->out[1].p) + x * heads * t * t : NULL,
            .striped = c->striped,
            .sequences = c->n,
            .by_queries = c->runs,
            .by_keys = c->runs,
            .by_pairs = n,
            .dropped = tr_unattended_of(c, draws) };
        if (back)
            c->k->attention.dx(c->x, c->out[0].p + x * y, c->out[1].p + x * 2 * y, c->in[0].p + at * y,
                c->in[1].p + at * y, c->in[2].p + at * heads * t, q->p + at * y, kv->p + from * 2 * y, &a,
                c->scratch);
        else
            c->k->attention.part(c->x, c->out[0].p + x * (y + 2 * heads * t), q->p + at * y,
                kv->p + from * 2 * y, &a, c->scratch);
    }
}

/* What run `own` of this rank and run n of the sequence, which another rank may have, give; `size` floats of
 * each sequence. Inputs are of the ranks before, or, where this rank has the keys, behind. NULL: nothing. */
static struct tr_partial piece(const struct tr_call *c, int own, int n, bool has_keys, int64_t size)
{
    struct tr_owner other = tr_owner_of(&c->map, n);
    int cp = c->map.cp, here = c->cp_rank,
        shift = ((has_keys ? other.rank - here : here - other.rank) + cp) % cp;
    struct tr_pair pairs[TR_PAIRS];
    int count = tr_pairs(&c->map, has_keys ? other.rank : here, has_keys ? here : other.rank, pairs);
    for (int x = 0; x < count; x++)
        if (pairs[x].queries == (has_keys ? other.run : own) && pairs[x].keys == (has_keys ? own : other.run))
            return (struct tr_partial){ c->in[shift].p + x * size, count * size };
    return (struct tr_partial){ NULL, 0 };
}

/* Of the runs up to a query's own, as it sees no key behind; of stripes all. */
static void attention_merge(const struct tr_call *c)
{
    struct tr_runs runs = tr_runs_of(&c->map, c->g->context, c->cp_rank);
    int64_t t = runs.count, heads = c->out[1].d[1], size = c->g->channels / c->g->heads;
    struct tr_attention a = { .heads = heads,
        .size = size,
        .queries = t,
        .sequences = c->n,
        .by_queries = c->runs,
        .separate_kv = true };
    for (int run = 0; run < c->runs; run++) {
        int seen = c->map.striped ? c->map.cp : (int)(runs.first[run] / t) + 1;
        struct tr_partial part[TR_MOST_PARTS];
        for (int n = 0; n < seen; n++)
            part[n] = piece(c, run, n, false, heads * t * (size + 2));
        c->k->attention.merge(c->x, c->out[0].p + run * t * heads * size, c->out[1].p + run * heads * t, part,
            seen, &a, c->scratch);
    }
}

/* The tree over the runs of the sequence. */
static void sum_parts(const struct tr_call *c)
{
    int runs = c->map.cp * (int)c->runs;
    int64_t count = c->out[0].d[1] / c->runs * c->out[0].d[2];
    for (int run = 0; run < c->runs; run++) {
        struct tr_partial part[TR_MOST_PARTS];
        for (int n = 0; n < runs; n++)
            part[n] = piece(c, run, n, c->op == TR_SUM_QUERIES, count);
        c->k->fold_parts(c->x, &(struct tr_partial){ c->out[0].p + run * count, c->runs * count }, part, runs,
            count, c->n);
    }
}

static int64_t part_scratch(const struct tr_call *c)
{
    const struct tr_operand *q = &c->in[is_back(c->op) ? 3 : 0];
    int64_t here = q->d[1] / c->runs, size = c->g->channels / c->g->heads;
    struct tr_attention a = { .tokens = here,
        .heads = q->d[2] / size,
        .size = size,
        .block = c->block,
        .queries = here,
        .separate_kv = true,
        .sequences = c->n };
    return c->k->attention.scratch(&a);
}

/* Where one rank has the whole sequence, as in a graph's price, each part is a share of it. */
static double part_work(const struct tr_call *c)
{
    int of = (c->cp_rank - c->part + c->map.cp) % c->map.cp;
    struct tr_runs queries = tr_runs_of(&c->map, c->g->context, c->cp_rank),
                   keys = tr_runs_of(&c->map, c->g->context, of);
    struct tr_pair pairs[TR_PAIRS];
    int n = tr_pairs(&c->map, c->cp_rank, of, pairs);
    double seen = 0;
    for (int x = 0; x < n; x++)
        seen += tr_seen(&c->map, &(struct tr_places){ c->g->context, queries.first[pairs[x].queries],
                                     queries.count, keys.first[pairs[x].keys], keys.count });
    int products = c->op == TR_ATTEND_SCORES_DX ? 4 : is_back(c->op) ? 5 : 2;
    double work = tr_attention_work(c, products, seen, c->in[is_back(c->op) ? 1 : 0].d[2]);
    return c->map.cp == 1 ? work / c->g->attention.parts : work;
}

static int64_t merge_scratch(const struct tr_call *c)
{
    return 2 * c->in[0].d[1];
}

/* ---- the rows ---- */

/* The gradient of tensor t that part j of the keys gives. */
static int gradient_of_part(struct tr_backward *p, int t, int j)
{
    struct tr_tensor of = p->g->tensors[t];
    return tr_add_tensor(p->g, TR_D_ACTIVATION, of.unit, of.letter, of.size, "d%d.%s", j, of.name);
}

/* Each part of the keys once more; its gradients are parts of two sums. */
static void merge_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int first = 0, dq[TR_INS] = { 0 }, dkv[TR_INS] = { 0 };
    while (p->g->nodes[first].out[0] != n->in[0])
        first++;
    int q = p->g->nodes[first].in[0], kv = p->g->nodes[first].in[1];
    for (int j = 0; j < n->ins; j++) {
        const struct tr_node *part = &p->g->nodes[first + j];
        bool scores = part->op == TR_ATTEND_SCORES;
        int in[TR_INS] = { dy, n->out[0], n->out[1], q, kv }, ins = 5;
        if (scores)
            in[ins++] = part->out[1];
        if (part->ins > 2)
            in[ins++] = part->in[2];
        int out[] = { dq[j] = gradient_of_part(p, q, j), dkv[j] = gradient_of_part(p, kv, j) };
        tr_add_node(
            p->g, scores ? TR_ATTEND_SCORES_DX : TR_ATTEND_PART_DX, TR_BACKWARD, n->unit, in, ins, out, 2)
            ->shift = j;
    }
    int sum[] = { tr_gradient_of(p, q), tr_gradient_of(p, kv) };
    tr_add_node(p->g, TR_SUM_KEYS, TR_BACKWARD, n->unit, dq, n->ins, &sum[0], 1);
    tr_add_node(p->g, TR_SUM_QUERIES, TR_BACKWARD, n->unit, dkv, n->ins, &sum[1], 1);
    tr_give(p, q, sum[0], n->unit);
    tr_give(p, kv, sum[1], n->unit);
}

#define EIGHT(x) x " " x " " x " " x " " x " " x " " x " " x
#define IN_TURN(x) x "0 " x "1 " x "2 " x "3 " x "4 " x "5 " x "6 " x "7"

const struct tr_op_row tr_op_attend_part = { .name = "attend_part",
    .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St T# R -> V#", "Sc Sc R -> Sc" },
    .masked = true,
    .tokens_of = 1,
    .scratch = part_scratch,
    .work = part_work,
    .run = attention_part };
const struct tr_op_row tr_op_attend_part_dx = { .name = "attend_part_dx",
    .rules = { "R R R R R R -> R R", "Sb Sb Sb Sb Sb Sb -> Sb Sb", "St St St St T# R -> V# W#",
        "Sc Sc Sc Sc Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 4,
    .scratch = part_scratch,
    .work = part_work,
    .run = attention_part };
const struct tr_op_row tr_op_attend_scores = { .name = "attend_scores",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St T# R -> V# V#", "Sc Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 1,
    .scratch = part_scratch,
    .work = part_work,
    .run = attention_part };
const struct tr_op_row tr_op_attend_scores_dx = { .name = "attend_scores_dx",
    .rules = { "R R R R R R R -> R R", "Sb Sb Sb Sb Sb Sb Sb -> Sb Sb", "St St St St T# V# R -> V# W#",
        "Sc Sc Sc Sc Sc Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 4,
    .scratch = part_scratch,
    .work = part_work,
    .run = attention_part };
const struct tr_op_row tr_op_attend_merge = { .name = "attend_merge",
    .rules = { EIGHT("R") " -> R R", EIGHT("Sb") " -> Sb Sb", IN_TURN("V") " -> St St",
        EIGHT("Sc") " -> Sc Sc" },
    .gradient = merge_gradient,
    .scratch = merge_scratch,
    .run = attention_merge };
const struct tr_op_row tr_op_sum_keys = { .name = "sum_keys",
    .rules = { EIGHT("R") " -> R", EIGHT("Sb") " -> Sb", IN_TURN("V") " -> St", EIGHT("Sc") " -> Sc" },
    .run = sum_parts };
const struct tr_op_row tr_op_sum_queries = { .name = "sum_queries",
    .rules = { EIGHT("R") " -> R", EIGHT("Sb") " -> Sb", IN_TURN("U") " -> St", EIGHT("Sc") " -> Sc" },
    .run = sum_parts };
