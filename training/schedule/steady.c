/* SPDX-License-Identifier: BSD-3-Clause */
/* steady.c: how much ranks idle while the pipeline is full: from the first backward part of the first rank,
 * when gradients have come all the way back, until the end of its last forward part, after which nothing new
 * comes in. Without a flush between mini-batches this goes on as long as there are any. */
#include "training/schedule/walk.h"

#include <math.h>

static void steady(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t,
    double *from, double *to)
{
    *from = *to = -1;
    for (int k = 0; k < s->count[0]; k++) {
        if (s->slots[0][k].part == TR_F)
            *to = t->start[0][k] + tr_slot_cost(c, s->slots[0][k]);
        else if (*from < 0)
            *from = t->start[0][k];
    }
}

double tr_bubble_steady(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t)
{
    double from, to, busy = 0;
    steady(s, c, t, &from, &to);
    if (from < 0 || to <= from)
        return NAN;
    for (int r = 0; r < s->ranks; r++)
        for (int k = 0; k < s->count[r]; k++) {
            double begin = fmax(t->start[r][k], from);
            double end = fmin(t->start[r][k] + tr_slot_cost(c, s->slots[r][k]), to);
            busy += end > begin ? end - begin : 0;
        }
    double all = s->ranks * (to - from), idle = all - busy;
    return idle > 1e-9 * all ? idle / all : 0;
}
