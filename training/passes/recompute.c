/* SPDX-License-Identifier: BSD-3-Clause */
/* recompute.c: activation recomputation (Chen et al. 2016): memory is saved, and time is spent.
 *
 *              not kept from the forward to the backward part
 *   none       nothing
 *   gelu       what GELU gives: it comes from its input, which the backward part reads anyway
 *   selective  that, and what attention gives, with the statistics of its rows: it comes from q, k and v
 *   full       all of a layer but its input
 *
 * In selective recomputation (Korthikanti et al. 2022) the scores of attention, s x s numbers of each head,
 * are what is not kept. Here no mode keeps them, since attention_dx makes them anew, block by block; so what
 * is left to save is the result.
 *
 * What is computed again is the same operation on the same numbers, so it has the same bits. Parameters that
 * ZeRO-3 has cut are gathered for it as for any other operation of the part. The collectives inside a layer,
 * which full would call again, may be spared: then what they gave is kept beside the layer's input.
 *
 * Where sequence parallelism cuts the tokens, a column-parallel product takes all of them, gathered. The
 * gradient of its weight takes them once more: they are held, b s h elements on each rank, or gathered again
 * from the part that is kept anyway (wgrad regather), as a collective that is computed again. */
#include "training/parallel/registry.h"
#include "training/passes/pass.h"

/* ---- its options, and what they go with ---- */

const char *const tr_recompute_names[TR_RECOMPUTES] = { "none", "gelu", "selective", "full" };
static const char *const comms[] = { "redo", "save" }, *const wgrads[] = { "hold", "regather" };

static const struct tr_option options[] = {
    { "recompute", TR_CHOICE, TR_PLAN(recompute.what),
        "not kept but computed again: none, gelu, selective (and attention), full",
        TR_NAMES(tr_recompute_names) },
    { "recompute-comm", TR_CHOICE, TR_PLAN(recompute.saves),
        "full: collectives of a layer are called again (redo), or save", TR_NAMES(comms) },
    { "wgrad", TR_CHOICE, TR_PLAN(recompute.regathers),
        "what --sp has cut is held whole for a weight's gradient (hold), or regather", TR_NAMES(wgrads) },
};

static bool regather_fits(const struct tr_plan *p, struct tr_error *e)
{
    if (!p->tokens.sp || p->mesh.size[TR_TP] == 1)
        return tr_fail(
            e, "--wgrad regather gathers again what --sp has cut; legal with --sp and --tp 2 and more");
    return !p->recompute.saves ||
           tr_fail(e, "--wgrad regather gathers again what --recompute-comm save keeps; legal with redo");
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->recompute.regathers && !regather_fits(p, e))
        return false;
    return !p->recompute.saves || p->recompute.what == TR_RECOMPUTE_FULL ||
           tr_fail(e,
               "--recompute-comm save keeps what collectives gave where all else of a layer is computed "
               "again; with --recompute %s none is called again; legal with --recompute full",
               tr_recompute_names[p->recompute.what]);
}

const struct tr_paradigm tr_recomputation = { .name = "recomputation", TR_OPTIONS(options), .check = check };

/* ---- what it does to a list ---- */

/* Whether another unit reads this in the forward part, which comes first; whoever reads stands behind. */
static bool is_input_of_next(const struct tr_placed *p, const struct tr_step *s, int shard)
{
    const struct tr_step *end = p->steps + p->n_steps;
    for (const struct tr_step *reads = s; reads < end && reads->phase == TR_FORWARD; reads++)
        for (int x = 0; x < reads->ins; x++)
            if (reads->in[x] == shard && reads->unit != s->unit)
                return true;
    return false;
}

static bool inside_layer(const struct tr_placed *p, const struct tr_step *s)
{
    if (s->unit < 1 || s->unit > p->g->layers)
        return false;
    for (int x = 0; x < s->outs; x++)
        if (is_input_of_next(p, s, s->out[x]))
            return false;
    return true;
}

/* What the matrix of a column-parallel product is given whole, of which a rank had a part: of the backward
 * part only the gradient of the weight reads it. */
static bool gathers_tokens(const struct tr_step *s)
{
    return s->code == TR_ALL_GATHER && s->axis == TR_TP;
}

static bool is_on(const struct tr_plan *p)
{
    return p->recompute.what != TR_RECOMPUTE_NONE || p->recompute.regathers;
}

static bool again(const struct tr_lowering *l, const struct tr_step *s)
{
    const struct tr_placed *p = l->p;
    if (s->phase != TR_FORWARD)
        return false;
    if (p->plan->recompute.regathers && gathers_tokens(s))
        return true;
    switch (p->plan->recompute.what) {
    case TR_RECOMPUTE_GELU:
    case TR_RECOMPUTE_SELECTIVE:
        return s->code == TR_COMPUTE && tr_op(s->op)->again && tr_op(s->op)->again <= p->plan->recompute.what;
    case TR_RECOMPUTE_FULL:
        return ((s->code == TR_COMPUTE && s->op != TR_ROUND) || !p->plan->recompute.saves) &&
               inside_layer(p, s);
    default:
        return false;
    }
}

const struct tr_pass tr_pass_recompute = { .on = is_on, .again = again };
