/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_norm.c: the errors of those who normalise over cells that several ranks have. */
#include "training/tape/plant.h"

/* Each rank takes the mean of its own cells for that of the picture. */
static bool mean_of_own(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "layer0.sums", TR_CP);
}

/* And the deviation. */
static bool deviation_of_own(struct tr_tape *tapes, int n)
{
    return tr_plant_leave_out(tapes, n, TR_ALL_REDUCE, "layer1.squares", TR_CP);
}

/* The gradients of scale and shift are summed over the ranks, but the gradient of what was normed takes the
 * sums of the own cells. */
static bool gradient_of_own(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        for (int i = 0; i < t->n_instrs; i++) {
            struct tr_instr *x = &t->instrs[i];
            for (int leaves = 4; x->op == TR_GROUP_NORM_DX && x->code == TR_COMPUTE && leaves < 6; leaves++)
                for (int before = 0; before < i; before++)
                    if (t->instrs[before].code == TR_ALL_REDUCE && t->instrs[before].axes == 1 << TR_CP &&
                        t->instrs[before].out[0] == x->in[leaves]) {
                        x->in[leaves] = t->instrs[before].in[0];
                        found = true;
                    }
        }
        tr_plan_memory(t);
    }
    return found;
}

#define NEEDS "--model cnn:nano --norm group --cp 2"
static const struct tr_injection list[] = {
    { "norm-mean-of-own-cells", "a norm takes the mean of a rank's cells", NEEDS, TR_BY_TYPES, mean_of_own },
    { "norm-deviation-of-own-cells", "a norm takes the deviation of a rank's cells", NEEDS, TR_BY_TYPES,
        deviation_of_own },
    { "norm-gradient-of-own-cells", "the gradient of what was normed has the sums of a rank's cells", NEEDS,
        TR_BY_TYPES, gradient_of_own },
};
const struct tr_injections tr_injections_norm = { list, sizeof list / sizeof *list };
