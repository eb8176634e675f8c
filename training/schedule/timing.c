/* SPDX-License-Identifier: BSD-3-Clause */
/* timing.c: when each part of a schedule runs, and how much of the time ranks idle.
 *
 * A part starts once its rank is free and its input is there, so the times do not depend on the order in
 * which this file visits ranks: it runs each rank as far as its inputs allow, until nothing moves. */
#include "training/schedule/walk.h"

#include <stdlib.h>

size_t tr_cell(const struct tr_schedule *s, int stage, int micro)
{
    return (size_t)stage * (size_t)s->micros + (size_t)micro;
}

int tr_stage_rank(int stage, int ranks, bool vee)
{
    int at = stage % ranks;
    return vee && stage >= ranks ? ranks - 1 - at : at;
}

int tr_waits_for(const struct tr_schedule *s, struct tr_slot slot)
{
    if (slot.part == TR_W)
        return -1;
    if (slot.part == TR_F)
        return slot.stage - 1;
    return slot.stage + 1 < s->ranks * s->chunks ? slot.stage + 1 : -1;
}

double tr_slot_cost(const struct tr_costs *c, struct tr_slot slot)
{
    struct tr_stage_costs x = { c->f, c->i, c->w };
    if (c->stage)
        x = c->stage[slot.stage];
    return slot.part == TR_F ? x.f : slot.part == TR_I ? x.i : slot.part == TR_W ? x.w : x.i + x.w;
}

/* ended: of each cell, when its output and its input gradient were made; negative: not yet. */
struct walk {
    const struct tr_schedule *s;
    const struct tr_costs *c;
    double *ended[2];
    double *idle_from; /* of each rank */
};

/* Runs one slot if its input is there. */
static bool run_slot(struct walk *w, int rank, struct tr_slot slot, double *start)
{
    int makes = slot.part == TR_F ? TR_OUTPUT : TR_INPUT_GRADIENT;
    int other = tr_waits_for(w->s, slot);
    double at = w->idle_from[rank];
    if (other >= 0) {
        double there = w->ended[makes][tr_cell(w->s, other, slot.micro)];
        if (there < 0)
            return false;
        if (tr_stage_rank(other, w->s->ranks, w->s->vee) != rank)
            there += w->c->hop;
        at = there > at ? there : at;
    }
    *start = at;
    w->idle_from[rank] = at + tr_slot_cost(w->c, slot);
    if (slot.part != TR_W)
        w->ended[makes][tr_cell(w->s, slot.stage, slot.micro)] = w->idle_from[rank];
    return true;
}

bool tr_schedule_walk(const struct tr_schedule *s, const struct tr_costs *c, int *next, double **start)
{
    size_t cells = tr_cell(s, s->ranks * s->chunks, 0);
    struct walk w = { .s = s, .c = c, .idle_from = tr_new((size_t)s->ranks, sizeof(double)) };
    for (int makes = 0; makes < 2; makes++) {
        w.ended[makes] = tr_new(cells, sizeof(double));
        for (size_t i = 0; i < cells; i++)
            w.ended[makes][i] = -1;
    }
    for (int r = 0; r < s->ranks; r++)
        next[r] = 0;
    bool moved, all;
    do {
        moved = false;
        all = true;
        for (int r = 0; r < s->ranks; r++) {
            double unused;
            for (int k = next[r]; k < s->count[r]; k = ++next[r], moved = true)
                if (!run_slot(&w, r, s->slots[r][k], start ? &start[r][k] : &unused))
                    break;
            all = all && next[r] == s->count[r];
        }
    } while (moved && !all);
    free(w.ended[0]);
    free(w.ended[1]);
    free(w.idle_from);
    return all;
}

/* What a rank's order alone tells: how long it works, and how many activations it holds at most. */
static void sum_up_rank(const struct tr_schedule *s, const struct tr_costs *c, struct tr_timing *t, int rank)
{
    int held = 0;
    for (int k = 0; k < s->count[rank]; k++) {
        int part = s->slots[rank][k].part;
        double cost = tr_slot_cost(c, s->slots[rank][k]);
        t->busy[rank] += cost;
        held += part == TR_F ? 1 : part == TR_I ? 0 : -1;
        if (held > t->in_flight[rank])
            t->in_flight[rank] = held;
        double end = t->start[rank][k] + cost;
        if (end > t->total)
            t->total = end;
        if (end - t->start[rank][0] > t->period)
            t->period = end - t->start[rank][0];
    }
}

bool tr_schedule_simulate(
    const struct tr_schedule *s, const struct tr_costs *c, struct tr_timing *t, struct tr_error *e)
{
    const double costs[] = { c->f, c->i, c->w, c->hop };
    for (int i = 0; i < 4; i++)
        if (!(costs[i] >= 0 && costs[i] <= 1e100))
            return tr_fail(e, "the cost of %s is %g; legal is a number from 0 to 1e100",
                (const char *[]){ "F", "I", "W", "a message" }[i], costs[i]);
    if (!tr_schedule_check(s, e))
        return false;
    size_t ranks = (size_t)s->ranks;
    *t = (struct tr_timing){
        .busy = tr_new(ranks, sizeof *t->busy),
        .in_flight = tr_new(ranks, sizeof *t->in_flight),
        .start = tr_new(ranks, sizeof *t->start),
    };
    for (int r = 0; r < s->ranks; r++)
        t->start[r] = tr_new((size_t)s->count[r], sizeof *t->start[r]);
    int *next = tr_new(ranks, sizeof *next);
    tr_schedule_walk(s, c, next, t->start); /* comes to an end, says the check */
    free(next);
    for (int r = 0; r < s->ranks; r++)
        sum_up_rank(s, c, t, r);
    return true;
}

void tr_timing_free(struct tr_timing *t, int ranks)
{
    for (int r = 0; t->start && r < ranks; r++)
        free(t->start[r]);
    free(t->start);
    free(t->busy);
    free(t->in_flight);
    *t = (struct tr_timing){ 0 };
}

double tr_bubble(const struct tr_schedule *s, const struct tr_timing *t)
{
    double busy = 0;
    for (int r = 0; r < s->ranks; r++)
        busy += t->busy[r];
    double all = s->ranks * (s->no_flush ? t->period : t->total), idle = all - busy;
    return idle > 0 ? idle / all : 0;
}
