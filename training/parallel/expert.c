/* SPDX-License-Identifier: BSD-3-Clause */
/* expert.c: which meshes a model with experts may have. */
#include "training/parallel/paradigms.h"

bool tr_expert_check(const struct tr_plan *p, const struct tr_graph *g, struct tr_error *e)
{
    if (!g->experts)
        return true;
    if (p->mesh.size[TR_CP] > 1)
        return tr_fail(e,
            "--cp %d: the sums over an expert's tokens are not cut within a sequence; legal with %s is 1",
            p->mesh.size[TR_CP], g->model);
    for (int i = 0; i < p->n_paradigms; i++)
        if (p->paradigms[i] == &tr_sequence_parallel && p->mesh.size[TR_TP] > 1)
            return tr_fail(e,
                "--sp: the sums over an expert's tokens are not cut within a sequence; leave --sp out with "
                "%s",
                g->model);
    return true;
}
