/* SPDX-License-Identifier: BSD-3-Clause */
/* work.c: floating-point operations of one rank, and of attention exactly: what the mask hides is no work, so
 * they depend on the tokens that a rank has. */
#include "training/parallel/map.h"
#include "training/tape/tape.h"

/* Pairs of a query and a key that it sees, of those of this instruction. */
static double seen(const struct tr_tape *t, const struct tr_instr *i)
{
    const struct tr_plan *plan = t->placed->plan;
    int64_t tokens = t->placed->g->context, cp = plan->mesh.size[TR_CP];
    struct tr_map map = tr_map_of(plan);
    struct tr_runs queries = tr_runs_of(&map, tokens, t->at[TR_CP]);
    double sum = 0;
    if (i->op == TR_ATTENTION || i->op == TR_ATTENTION_DX)
        return tr_seen(&map, &(struct tr_places){ tokens, 0, tokens, 0, tokens });
    int64_t window = tokens / (t->placed->g->windows ? t->placed->g->windows : 1);
    if (i->op == TR_ATTEND_WINDOW || i->op == TR_ATTEND_WINDOW_DX)
        return (double)(tokens / cp / window) *
               tr_seen(&map, &(struct tr_places){ window, 0, window, 0, window });
    if (i->op == TR_ATTEND || i->op == TR_ATTEND_DX) {
        for (int r = 0; r < queries.n; r++)
            sum += tr_seen(&map, &(struct tr_places){ tokens, queries.first[r], queries.count, 0, tokens });
        return sum;
    }
    struct tr_pair pairs[TR_PAIRS];
    int of = (int)((t->at[TR_CP] - i->turn + cp) % cp), n = tr_pairs(&map, t->at[TR_CP], of, pairs);
    struct tr_runs keys = tr_runs_of(&map, tokens, of);
    for (int x = 0; x < n; x++)
        sum += tr_seen(&map, &(struct tr_places){ tokens, queries.first[pairs[x].queries], queries.count,
                                 keys.first[pairs[x].keys], keys.count });
    return sum;
}

bool tr_is_attention(const struct tr_instr *i)
{
    return i->code == TR_COMPUTE &&
           (i->op == TR_ATTENTION || i->op == TR_ATTENTION_DX || i->op == TR_ATTEND ||
               i->op == TR_ATTEND_DX || i->op == TR_ATTEND_PART || i->op == TR_ATTEND_PART_DX ||
               i->op == TR_ATTEND_SCORES || i->op == TR_ATTEND_SCORES_DX || i->op == TR_ATTEND_WINDOW ||
               i->op == TR_ATTEND_WINDOW_DX);
}

/* Among how many ranks an operation is shared: those of the axes that cut something of it. What lies whole on
 * all ranks of an axis is computed by each of them. */
static int sharers(const struct tr_placed *p, const struct tr_step *s)
{
    static const enum tr_axis axes[] = { TR_CP, TR_CU, TR_TP };
    int n = 1;
    for (size_t a = 0; a < sizeof axes / sizeof *axes; a++) {
        bool cut = false;
        for (int x = 0; x < s->ins; x++)
            cut = cut || !tr_placement_is(p->shards[s->in[x]].on[axes[a]], tr_whole);
        for (int x = 0; x < s->outs; x++)
            cut = cut || !tr_placement_is(p->shards[s->out[x]].on[axes[a]], tr_whole);
        n *= cut ? p->plan->mesh.size[axes[a]] : 1;
    }
    return n;
}

/* A score is a product of `size` pairs of numbers, and there are two products of the kind forward (scores,
 * and values weighted by them), and five backward, or four where scores are kept. */
double tr_work(const struct tr_tape *t, const struct tr_step *s, const struct tr_instr *i)
{
    const struct tr_placed *p = t->placed;
    int k = tr_micro_batch(p->plan);
    if (tr_is_attention(i)) {
        bool back = s->ins > 2, part = i->op == TR_ATTEND_PART || i->op == TR_ATTEND_SCORES;
        int products = i->op == TR_ATTEND_SCORES_DX ? 4 : back ? 5 : 2;
        int64_t channels = tr_shard_size(p, back ? s->in[1] : part ? s->in[0] : s->out[0], 2);
        return 2 * products * seen(t, i) * (double)channels * k;
    }
    struct tr_node node = { .op = s->op, .ins = s->ins, .outs = s->outs };
    for (int n = 0; n < s->ins; n++)
        node.in[n] = p->shards[s->in[n]].tensor;
    for (int n = 0; n < s->outs; n++)
        node.out[n] = p->shards[s->out[n]].tensor;
    return tr_flops(p->g, &node) * k / sharers(p, s);
}

double tr_tape_flops(const struct tr_tape *t)
{
    double sum = 0;
    for (int n = 0; n < t->n_instrs; n++)
        sum += t->instrs[n].flops;
    return sum;
}
