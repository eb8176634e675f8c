/* SPDX-License-Identifier: BSD-3-Clause */
/* tolerances.c: bars for what is near and not equal: three to four times the most that was found.
 *
 * In bfloat16 a sum in another order may be rounded to the next number. Where a token has some of the
 * experts, that can give a token whose choice is close others, and an expert's gradient then has another
 * token in it: 0.4 of the largest was once found. Where a token has all experts, the bars are those of other
 * models. */
#include "training/verify/tolerances.h"

#include <string.h>

/* Whether rounding may change which experts a token has. */
static bool chooses(const struct tr_options *o)
{
    return !strncmp(o->model.name, "moe", 3) &&
           !(o->model.sizes.choices && o->model.sizes.choices == o->model.sizes.experts);
}

bool tr_tolerance_of(struct tr_tolerance *f, const struct tr_options *o)
{
    static const struct tr_tolerance free_order[] = { { 4e-6, 8e-6 }, { 2e-7, 8e-6 } },
                                     bfloat16[] = { { 2e-3, 3e-2 }, { 4e-4, 3e-2 } },
                                     chosen[] = { { 2e-3, 0.8 }, { 4e-4, 0.8 } };
    bool sgd = o->plan.optimizer.sgd;
    if (!o->plan.numbers.free_order)
        return false;
    *f = !o->plan.numbers.bfloat16 ? free_order[sgd] : chooses(o) ? chosen[sgd] : bfloat16[sgd];
    return true;
}

bool tr_tolerance_kept(const struct tr_options *o, const struct tr_verdict *v)
{
    struct tr_tolerance f;
    if (!tr_tolerance_of(&f, o))
        return tr_verdict_equal(v);
    return v->off[TR_DIFF_LOSSES] <= f.losses && v->off[TR_DIFF_GRADIENTS] <= f.gradients;
}
