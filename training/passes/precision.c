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
#include "training/passes/precision.h"

int tr_round_gradient(struct tr_tape *t, int gradient, int parameter, const struct tr_slot *slot, int unit)
{
    if (!t->placed->plan->numbers.bfloat16 || t->values[gradient].element != TR_FLOAT32)
        return gradient;
    int rounded = tr_add_array(t, t->values[gradient].shard, t->values[gradient].micro, TR_MEM_GRADIENT,
        TR_BFLOAT16, tr_count(t, gradient));
    t->values[rounded].takes = gradient;
    struct tr_instr *i = tr_add_instr(t, TR_COMPUTE);
    i->op = TR_ROUND, i->parameter = parameter, i->count = tr_count(t, gradient);
    tr_put_in_slot(i, slot, unit);
    i->in[i->ins++] = gradient, i->out[i->outs++] = rounded;
    return rounded;
}
