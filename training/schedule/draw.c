/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.c: a schedule as a chart of characters. A column is as long as the shortest part, and shows what runs
 * in its middle. */
#include "training/schedule/walk.h"

#include <math.h>

enum { COLUMNS_MAX = 1000 };

static double column_width(const struct tr_costs *c, const struct tr_timing *t)
{
    const double costs[] = { c->f, c->i, c->w };
    double width = t->total;
    for (int i = 0; i < 3; i++)
        if (costs[i] > 0 && costs[i] < width)
            width = costs[i];
    return width < t->total / COLUMNS_MAX ? t->total / COLUMNS_MAX : width;
}

static char letter_of(struct tr_slot slot)
{
    if (slot.part == TR_W)
        return 'w';
    return (char)(slot.part == TR_F ? '0' + slot.micro % 10 : 'a' + slot.micro % 20);
}

void tr_schedule_draw(
    const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t, FILE *to)
{
    double width = column_width(c, t);
    int columns = width > 0 ? (int)ceil(t->total / width - 1e-9) : 0;
    int digits = snprintf(NULL, 0, "%d", s->ranks - 1);
    for (int r = 0; r < s->ranks; r++) {
        fprintf(to, "r%-*d|", digits, r);
        int k = 0;
        for (int column = 0; column < columns; column++) {
            double middle = (column + 0.5) * width;
            while (k < s->count[r] && t->start[r][k] + tr_slot_cost(c, s->slots[r][k].part) <= middle)
                k++;
            if (k == s->count[r])
                fputc(' ', to);
            else
                fputc(t->start[r][k] <= middle ? letter_of(s->slots[r][k]) : '.', to);
        }
        fputs("|\n", to);
    }
}
