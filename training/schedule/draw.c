/* SPDX-License-Identifier: BSD-3-Clause */
/* draw.c: a schedule as a chart of characters. A column is as long as the shortest part, and shows what runs
 * in its middle. */
#include "training/schedule/walk.h"

#include <math.h>
#include <stdlib.h>

enum { COLUMNS_MAX = 1000 };

static double column_width(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t)
{
    double width = t->total;
    for (int part = 0; part < TR_PARTS; part++)
        for (int stage = 0; stage < (c->stage ? s->ranks * s->chunks : 1); stage++) {
            double cost = tr_slot_cost(c, (struct tr_slot){ part, stage, 0 });
            if (cost > 0 && cost < width)
                width = cost;
        }
    return width < t->total / COLUMNS_MAX ? t->total / COLUMNS_MAX : width;
}

static char letter_of(struct tr_slot slot)
{
    if (slot.part == TR_W)
        return 'w';
    return (char)(slot.part == TR_F ? '0' + slot.micro % 10 : 'a' + slot.micro % 20);
}

void tr_schedule_draw_times(const struct tr_schedule *s, double *const *start, double *const *end,
    double total, double width, FILE *to)
{
    int columns = width > 0 ? (int)ceil(total / width - 1e-9) : 0;
    int digits = snprintf(NULL, 0, "%d", s->ranks - 1);
    for (int r = 0; r < s->ranks; r++) {
        fprintf(to, "r%-*d|", digits, r);
        int k = 0;
        for (int column = 0; column < columns; column++) {
            double middle = (column + 0.5) * width;
            while (k < s->count[r] && end[r][k] <= middle)
                k++;
            if (k == s->count[r])
                fputc(' ', to);
            else
                fputc(start[r][k] <= middle ? letter_of(s->slots[r][k]) : '.', to);
        }
        fputs("|\n", to);
    }
}

void tr_schedule_draw(
    const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t, FILE *to)
{
    double **end = tr_new((size_t)s->ranks, sizeof *end);
    for (int r = 0; r < s->ranks; r++) {
        end[r] = tr_new((size_t)s->count[r], sizeof *end[r]);
        for (int k = 0; k < s->count[r]; k++)
            end[r][k] = t->start[r][k] + tr_slot_cost(c, s->slots[r][k]);
    }
    tr_schedule_draw_times(s, t->start, end, t->total, column_width(s, c, t), to);
    for (int r = 0; r < s->ranks; r++)
        free(end[r]);
    free(end);
}
