/* SPDX-License-Identifier: BSD-3-Clause */
/* paradigms.c: what the tables of a run say together, and which sizes they allow. */
#include "training/parallel/paradigms.h"

#include "training/schedule/schedule.h"

#include <stdio.h>
#include <string.h>

static bool matches(const char *pattern, const struct tr_tensor *t)
{
    if (!strcmp(pattern, "stream"))
        return t->stream;
    if (!strcmp(pattern, "inputs"))
        return t->role == TR_INPUT;
    if (t->role != TR_PARAMETER && t->role != TR_ACTIVATION && t->role != TR_INPUT)
        return false;
    if (*pattern != '*')
        return !strcmp(pattern, t->name);
    size_t tail = strlen(pattern + 1), length = strlen(t->name);
    return length >= tail && !strcmp(t->name + length - tail, pattern + 1);
}

struct tr_placement tr_table_placement(const struct tr_plan *p, const struct tr_tensor *t, enum tr_axis axis)
{
    struct tr_placement placement = tr_whole;
    const struct tr_table *table;
    for (int i = 0; p->mesh.size[axis] > 1 && (table = tr_plan_table(p, i)); i++)
        for (const struct tr_table_row *r = table->rows; table->axis == axis && r->tensors; r++)
            if (matches(r->tensors, t)) {
                placement = tr_placement_of(r->placement, 0);
                if (tr_placement_cuts_tokens(placement) && !strchr(t->letter, 't'))
                    placement = tr_whole; /* what a sequence has, and not each of its tokens */
                break;
            }
    return placement;
}

int tr_plan_rank(const struct tr_plan *p, int stage)
{
    return tr_stage_rank(stage, p->mesh.size[TR_PP], p->pipeline.vee);
}

bool tr_ends_apart(const struct tr_plan *p)
{
    return tr_plan_rank(p, p->mesh.size[TR_PP] * p->pipeline.chunks - 1) != 0;
}
