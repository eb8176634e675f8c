/* SPDX-License-Identifier: BSD-3-Clause */
/* formula.c: how much of the time ranks idle, as the papers have it. The tests hold the simulation against
 * these. With F, I and W of one stage, and m micro-batches on p ranks of v chunks, a rank works m v (F+I+W)
 * and idles
 *     naive                     (p-1) m (F+I+W)
 *     GPipe, 1F1B, interleaved  (p-1) (F+I+W)      (the papers divide by v, as their F is that of a rank)
 *     ZB-H1                     (p-1) (F+I-W)      (if m >= p, and W is no longer than F and than I)
 *     ZB-H2                     (p-1) (F+I-2W)     (if m >= 2p - 1, W is as short, and 2W no longer than F+I;
 *                                                   of the period, as its ranks step apart)
 *     DualPipeV                 (p-1) (F+I-W)      (if W <= I <= F <= I+W; a stage is half a rank)
 * and where stages differ
 *     naive    p m sum - m sum           (sum: F+I+W of all stages)
 *     GPipe    p total - m sum, where total = sum + (m-1) (the largest F + the largest I+W)
 *
 * For DualPipeV its authors have (p-1) (F&B + B - 3W), where F&B is a forward and a backward part that run at
 * the same time, as one piece; here they run one after the other, and what the first one gives is sent when
 * it is there. */
#include "training/schedule/walk.h"

#include <math.h>
#include <string.h>

/* A schedule that was read may bear a name that is not its own. */
static bool is_as_made(const struct tr_schedule *s)
{
    struct tr_schedule made;
    struct tr_error ignored;
    if (!tr_schedule_make(&made, s->name, s->ranks, s->chunks, s->micros, &ignored))
        return false;
    bool equal = tr_schedule_equal(s, &made);
    tr_schedule_free(&made);
    return equal;
}

/* Of stages that differ: all wait for each other (naive), or each phase is a line of micro-batches through
 * stages, which lasts as long as one takes through all of them and the others take in the slowest (GPipe). */
static double formula_of_stages(const struct tr_schedule *s, const struct tr_costs *c)
{
    double f = 0, b = 0, slowest_f = 0, slowest_b = 0, others = s->micros - 1;
    for (int k = 0; k < s->ranks * s->chunks; k++) {
        const struct tr_stage_costs *x = &c->stage[k];
        f += x->f, b += x->i + x->w;
        slowest_f = fmax(slowest_f, x->f), slowest_b = fmax(slowest_b, x->i + x->w);
    }
    double total = NAN, work = s->micros * (f + b);
    if (!strcmp(s->name, "naive"))
        total = work;
    if (!strcmp(s->name, "gpipe"))
        total = f + others * slowest_f + b + others * slowest_b;
    return 1 - work / (s->ranks * total);
}

static bool are_alike(const struct tr_stage_costs *stage, int stages)
{
    for (int k = 1; k < stages; k++)
        if (memcmp(&stage[k], &stage[0], sizeof *stage))
            return false;
    return true;
}

double tr_bubble_formula(const struct tr_schedule *s, const struct tr_costs *c)
{
    struct tr_costs alike = { .hop = c->hop };
    if (c->stage && !are_alike(c->stage, s->ranks * s->chunks))
        return is_as_made(s) ? formula_of_stages(s, c) : NAN;
    if (c->stage) {
        alike.f = c->stage[0].f, alike.i = c->stage[0].i, alike.w = c->stage[0].w;
        c = &alike;
    }
    double turn = c->f + c->i + c->w, others = s->ranks - 1;
    double work = (double)s->micros * s->chunks * turn, idle = others * turn;
    if (!is_as_made(s) || !(work > 0))
        return NAN;
    if (!strcmp(s->name, "naive"))
        idle = others * work;
    if (!strcmp(s->name, "zb-h1")) {
        if (s->micros < s->ranks || c->w > c->f || c->w > c->i)
            return NAN;
        idle = others * (c->f + c->i - c->w);
    }
    if (!strcmp(s->name, "zb-h2")) {
        idle = others * (c->f + c->i - 2 * c->w);
        if (!s->no_flush || s->micros < 2 * s->ranks - 1 || c->w > c->f || c->w > c->i || idle < 0)
            return NAN;
    }
    if (!strcmp(s->name, "dualpipev")) {
        if (c->w > c->i || c->i > c->f || c->f > c->i + c->w)
            return NAN;
        idle = others * (c->f + c->i - c->w);
    }
    return idle / (work + idle);
}
