/* SPDX-License-Identifier: BSD-3-Clause */
/* context.c: context parallelism: each rank has a part of the tokens of every sequence, everywhere.
 *
 *        sequence  t0 t1 t2 t3 t4 t5 t6 t7        cp 4:  rank 0: t0 t1   rank 1: t2 t3   rank 2: t4 t5   ...
 *
 * Layer norms, matrices and the loss look at one token at a time, so they need no other rank. Attention does:
 * a query sees all keys before it. What stands there follows from what attention is given.
 *
 *   gather   q St, kv St -> all-gather -> R         each rank has its queries and all keys and values;
 *            d.kv Pb -> reduce-scatter -> St        backward, a sum over the queries that are here
 *   ulysses  qkv St -> all-to-all -> Sc             each rank has some heads, with all tokens of them
 *            (Jacobs et al. 2023)                   (the result goes back alike; backward the same again)
 *   ring     kv St -> shift -> T1 -> shift -> T2    keys and values go round; what each rank's give to the
 *            (Liu et al. 2023)                      queries here is kept, and joined by the canonical tree;
 *            d.kv W1 -> shift -> U1                 backward, each gradient goes to its owner, who sums
 *   scores   as ring, and the scores of each shift  the historic form (Li et al. 2021): T x T / cp numbers
 *            are kept for the backward pass         of each head, sequence and layer, and none made anew
 *   ulysses+ring    two levels (Fang, Zhao 2024): in a group, on axis cu, ranks exchange tokens for heads;
 *                   from group to group, on axis cp, keys and values of these heads go round
 *   local    qkv St -> y St                         nothing is exchanged, and no rank sees what is before its
 *                                                   part: other mathematics, to show what is lost
 *
 * By which map the tokens are cut, map.h says; with zigzag, St above is Zt, and Pb is Pz; striped is another
 * order of the sequence, of which ranks have neighbours.
 *
 * A gradient of a weight is a sum over the tokens that are here: Pb. It becomes whole for each sequence,
 * before the tree over sequences: one tree cannot have both the tokens of a rank and the sequences of one as
 * its subtrees. So these gradients are leaves, and cp reduces as many as there are sequences. */
#include "training/parallel/registry.h"

#include <inttypes.h>
#include <stdio.h>

const char *const tr_cp_map_names[TR_CP_MAPS] = { "contiguous", "zigzag", "striped" };

struct tr_map tr_map_of(const struct tr_plan *p)
{
    int cp = p->mesh.size[TR_CP];
    return (struct tr_map){
        .cp = cp, .zigzag = p->tokens.map == TR_CP_ZIGZAG && cp > 1, .striped = p->tokens.map == TR_CP_STRIPED
    };
}

void tr_mapped(const struct tr_plan *p, enum tr_axis axis, struct tr_placement *place)
{
    if (axis != TR_CP || !tr_map_of(p).zigzag || place->dim != 't')
        return;
    place->zigzag |= place->kind == TR_S;
    place->halves |= place->kind == TR_P;
}

const char *const tr_cp_form_names[TR_CP_FORMS] = { "gather", "ulysses", "ring", "local", "ulysses+ring",
    "scores" };

static const struct tr_option options[] = {
    { "cp", TR_WHOLE, TR_PLAN(sizes.cp),
        "context parallel: each rank has a part of every sequence, or picture", .least = 1 },
    { "cp-attention", TR_CHOICE, TR_PLAN(tokens.form),
        "gather (all-gather of keys and values), ulysses (all-to-all), ring (shifts), ulysses+ring, scores, "
        "local",
        TR_NAMES(tr_cp_form_names) },
    { "cp-ulysses", TR_WHOLE, TR_PLAN(sizes.ulysses),
        "ulysses+ring: ranks that exchange tokens for heads; 0: two" },
    { "cp-map", TR_CHOICE, TR_PLAN(tokens.map),
        "tokens of a rank: contiguous; for equal work of attention zigzag or striped",
        TR_NAMES(tr_cp_map_names) },
};

static const struct tr_table tables[TR_CP_FORMS] = {
    { "cp", TR_CP, { { "inputs", "St" }, { "stream", "St" } } },
    { "ulysses", TR_CP, { { "inputs", "St" }, { "stream", "St" }, { "*attention", "Sc" } } },
    { "ring", TR_CP, { { "inputs", "St" }, { "stream", "St" } } },
    { "local", TR_CP, { { "inputs", "St" }, { "stream", "St" } } },
    { "ring", TR_CP, { { "inputs", "St" }, { "stream", "St" } } },
    { "scores", TR_CP, { { "inputs", "St" }, { "stream", "St" } } },
};
static const struct tr_table striped = { "striped", TR_CP, { { "inputs", "St" }, { "stream", "St" } } };
static const struct tr_table zigzag = { "zigzag", TR_CP, { { "inputs", "Zt" }, { "stream", "Zt" } } };
/* Of TR_CP_TWO: inside each group. */
static const struct tr_table inside = { "ulysses", TR_ULYSSES,
    { { "inputs", "St" }, { "stream", "St" }, { "*.q", "Sc" }, { "*.kv", "Sc" }, { "*attention", "Sc" } } };

static const struct tr_table *table(const struct tr_plan *p, int i)
{
    if (i > 0)
        return i == 1 && p->tokens.form == TR_CP_TWO ? &inside : NULL;
    if (p->tokens.space)
        return &tr_space_table;
    return p->tokens.map == TR_CP_ZIGZAG    ? &zigzag
           : p->tokens.map == TR_CP_STRIPED ? &striped
                                            : &tables[p->tokens.form];
}

/* Gradients of matrices come as leaves, and attention takes keys and values as they come. */
static void model(const struct tr_plan *p, struct tr_model_options *to)
{
    int cp = p->mesh.size[TR_CP];
    enum tr_cp_form form = p->tokens.form;
    bool goes_round = form == TR_CP_RING || form == TR_CP_TWO || form == TR_CP_SCORES;
    if (p->sizes.cp == 1)
        return;
    to->leaves = TR_ALL_AS_LEAVES;
    to->separate_kv = form == TR_CP_GATHER;
    to->scores = form == TR_CP_SCORES;
    to->parts = goes_round && p->sizes.cp <= TR_BLOCKS ? cp : 0;
    to->windows = form == TR_CP_LOCAL ? cp : 0;
}

static void cuts(const struct tr_plan *p, const struct tr_graph *g, char *to, size_t room)
{
    snprintf(to, room,
        "each sequence: %" PRId64 " of its %" PRId64 " tokens on each rank, and the whole model",
        g->context / p->mesh.size[TR_CP], g->context);
}

/* ---- which sizes fit ---- */

static bool check_map(const struct tr_plan *p, bool sp, struct tr_error *e)
{
    int cp = p->mesh.size[TR_CP];
    if (p->tokens.form == TR_CP_LOCAL)
        return tr_fail(e,
            "--cp-map zigzag gives a rank tokens of two places, and --cp-attention local attends within one; "
            "legal with gather and ring");
    if (p->tokens.form == TR_CP_SCORES)
        return tr_fail(e, "--cp-map zigzag with --cp-attention scores, which keeps those of neighbouring "
                          "tokens; legal with gather and ring");
    if (p->tokens.form == TR_CP_TWO)
        return tr_fail(e, "--cp-map zigzag with --cp-attention ulysses+ring, which cuts neighbouring tokens "
                          "once more; legal with gather and ring");
    if (p->tokens.form == TR_CP_ULYSSES)
        return tr_fail(e, "--cp-map zigzag makes the work of attention equal, and with --cp-attention "
                          "ulysses it is: each rank has all tokens of its heads; legal with gather and ring");
    if (2 * cp > TR_BLOCKS)
        return tr_fail(e,
                   "--cp %d --cp-map zigzag cuts a sequence into %d runs, and it is summed in %d blocks", cp,
                   2 * cp, TR_BLOCKS) ||
               tr_offer_divisors(e, "cp", TR_BLOCKS / 2);
    return !sp || cp == 1 ||
           tr_fail(e, "--sp cuts the neighbouring tokens of a rank, and --cp-map zigzag gives it tokens of "
                      "two places; legal is --cp-map contiguous, or no --sp");
}

/* Stripes are an order of the sequence, so all that cuts neighbours can cut them. */
static bool check_stripes(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    if (!g->heads || g->experts)
        return tr_fail(
            e, "--cp-map striped makes the work of causal attention equal; legal with gpt, not %s", g->model);
    if (p->tokens.form == TR_CP_LOCAL || p->tokens.form == TR_CP_SCORES || p->tokens.form == TR_CP_ULYSSES)
        return tr_fail(e, "--cp-map striped with --cp-attention %s, %s; legal with %s, %s and %s",
            tr_cp_form_names[p->tokens.form],
            p->tokens.form == TR_CP_LOCAL ? "which attends among neighbours"
            : p->tokens.form == TR_CP_SCORES
                ? "which keeps the scores of neighbours"
                : "whose work is equal, as each rank has all tokens of its heads",
            tr_cp_form_names[TR_CP_GATHER], tr_cp_form_names[TR_CP_RING], tr_cp_form_names[TR_CP_TWO]);
    return true;
}

/* Where ranks exchange tokens for heads; a group of heads has its keys and values on one rank. */
static bool check_heads(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int cu = p->mesh.size[TR_ULYSSES], cp = p->mesh.size[TR_CP] * cu, tp = p->mesh.size[TR_TP];
    int64_t heads = g->attention.kv_heads ? g->attention.kv_heads : g->heads;
    const char *of = g->attention.kv_heads ? " of keys and values" : "";
    if (cu > 1 && heads % (tp * cu))
        return tr_fail(e,
                   "--cp-ulysses %d: attention's %lld heads%s are cut into tp x cp-ulysses = %d parts, which "
                   "must divide them",
                   cu, (long long)heads, of, tp * cu) ||
               tr_offer_divisors(e, "cp-ulysses", (long)heads) || tr_offer_divisors(e, "tp", TR_CUT);
    if (p->tokens.form == TR_CP_ULYSSES && heads % (tp * cp))
        return tr_fail(e,
                   "--cp %d --cp-attention ulysses: attention's %lld heads%s are cut into tp x cp = %d "
                   "parts, "
                   "which must divide them; --cp-attention gather cuts none",
                   cp, (long long)heads, of, tp * cp) ||
               tr_offer_divisors(e, "cp", (long)heads) || tr_offer_divisors(e, "tp", TR_CUT);
    return true;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    int cu = p->mesh.size[TR_ULYSSES], cp = p->mesh.size[TR_CP] * cu, tp = p->mesh.size[TR_TP];
    bool sp = p->tokens.sp;
    if (p->tokens.space)
        return tr_space_check(p, e);
    if (p->tokens.map == TR_CP_STRIPED && !check_stripes(p, g, e))
        return false;
    if (cp > TR_BLOCKS || TR_BLOCKS % cp)
        return tr_fail(e, "--cp %d: a sequence is summed in %d blocks of its tokens", cp, TR_BLOCKS) ||
               tr_offer_divisors(e, "cp", TR_BLOCKS);
    if (sp && cp > 1 && cp * tp > TR_BLOCKS)
        return tr_fail(e,
                   "--cp %d with --tp %d --sp cuts the tokens into %d parts, and they are summed in %d "
                   "blocks; leave --sp out, or make fewer parts",
                   cp, tp, cp * tp, TR_BLOCKS) ||
               tr_offer_divisors(e, "cp", TR_BLOCKS / tp) || tr_offer_divisors(e, "tp", TR_BLOCKS / cp);
    if (p->tokens.form == TR_CP_LOCAL && cp > 1 && g->experts)
        return tr_fail(e,
            "--cp-attention local is another model, and the golden program of a mixture of experts has none "
            "of it to be held to; legal with gpt and llama, not %s",
            g->model);
    if (p->tokens.map == TR_CP_ZIGZAG && !check_map(p, sp, e))
        return false;
    return check_heads(p, g, e);
}

const struct tr_paradigm tr_context_parallel = { .word = "cp",
    .name = "context parallel",
    .axis = TR_CP,
    TR_OPTIONS(options),
    .compared = { { "context parallel", "--cp N" } },
    .choose = table,
    .model = model,
    .check = check,
    .cuts = cuts,
    .when = "sequences are long: activations, not the model, fill a rank" };
