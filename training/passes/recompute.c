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
#include "training/passes/pass.h"

/* Whether another unit reads this in the forward part. */
static bool is_input_of_next(const struct tr_placed *p, const struct tr_step *s, int shard)
{
    for (int n = 0; n < p->n_steps; n++)
        for (int x = 0; x < p->steps[n].ins; x++)
            if (p->steps[n].in[x] == shard && p->steps[n].phase == TR_FORWARD && p->steps[n].unit != s->unit)
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
