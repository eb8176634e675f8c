/* SPDX-License-Identifier: BSD-3-Clause */
/* precision.c: mixed precision (Micikevicius et al. 2018) in bfloat16: what is read often is short, and what
 * is summed up over steps is long.
 *
 *              bytes of a parameter    float32   bfloat16
 *              value for computing        4          2
 *              gradient                   4          2
 *              master value               -          4       what the optimizer updates; the value is its
 *              AdamW's m and v            8          8       rounding
 *
 * A sum that several ranks or micro-batches have parts of stays float32, in memory and on the wire, until it
 * is whole; then it is rounded, once. So the rounding is the same for every mesh. What that costs: gradients
 * that wait for other micro-batches, or for other data-parallel ranks, have 4 bytes until then.
 *
 * With --offload optimizer the master, m and v are on the host (offload.c), and the rounding is made there: 2
 * bytes of gradient go down and 2 bytes of value come up.
 *
 * bfloat16 has the range of float32, so the loss needs no scale. */
#include "training/parallel/registry.h"
#include "training/passes/pass.h"

static bool is_on(const struct tr_plan *p)
{
    return p->numbers.bfloat16;
}

static bool check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    (void)g;
    if (p->numbers.stochastic && !p->numbers.bfloat16)
        return tr_fail(e, "--rounding stochastic rounds parameters from their masters, and with --precision "
                          "float32 they have none; legal with --precision bfloat16");
    if (p->numbers.bfloat16 && p->servers.async)
        return tr_fail(e,
            "--precision bfloat16 with --server-mode async: the simulator that its pushes are compared with "
            "has float32 alone; legal is --server-mode sync, or --precision float32");
    return true;
}

const struct tr_paradigm tr_mixed_precision = { .name = "mixed precision", .asked = is_on, .check = check };

static void hold(const struct tr_lowering *l, const struct tr_tensor *w, struct tr_held *held)
{
    (void)l, (void)w;
    held->master = true;
}

static int whole(
    struct tr_lowering *l, const struct tr_param_state *h, int gradient, const struct tr_slot *slot, int unit)
{
    struct tr_tape *t = l->t;
    const struct tr_value v = t->values[gradient];
    if (v.element != TR_FLOAT32)
        return gradient;
    int rounded = tr_add_array(t, v.shard, v.micro, TR_MEM_GRADIENT, TR_BFLOAT16, tr_count(t, gradient));
    t->values[rounded].takes = gradient;
    struct tr_instr *i = tr_add_in_slot(t, TR_COMPUTE, slot, unit);
    i->op = TR_ROUND, i->parameter = h->parameter, i->count = tr_count(t, gradient);
    i->in[i->ins++] = gradient, i->out[i->outs++] = rounded;
    return rounded;
}

const struct tr_pass tr_pass_precision = { .on = is_on, .hold = hold, .whole = whole };
