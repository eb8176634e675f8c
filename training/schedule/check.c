/* SPDX-License-Identifier: BSD-3-Clause */
/* check.c: whether a schedule is legal, and if not, which part breaks which rule.
 *
 * The rules come in an order in which each can trust the ones before: once every part is there once and on
 * its rank, order is a comparison of positions; once the order within each stage is right, only waits between
 * stages are left, and whoever is stuck then stands in a circle or waits for one. */
#include "training/schedule/walk.h"

#include <stdlib.h>
#include <string.h>

/* Where each part of each cell lies in its rank's order; -1: nowhere. */
struct table {
    const struct tr_schedule *s;
    int *at[TR_PARTS];
};

static int rank_of(const struct table *t, int stage)
{
    return tr_stage_rank(stage, t->s->ranks, t->s->vee);
}

struct words {
    char text[96];
};

static struct words part_words(int part, int stage, int micro)
{
    struct words w;
    snprintf(w.text, sizeof w.text, "%c%d.%d", "FBIW"[part], stage, micro);
    return w;
}

static struct words slot_words(const struct tr_schedule *s, int rank, int k)
{
    struct words w;
    struct tr_slot slot = s->slots[rank][k];
    char letter = slot.part >= 0 && slot.part < TR_PARTS ? "FBIW"[slot.part] : '?';
    snprintf(
        w.text, sizeof w.text, "rank %d, position %d (%c%d.%d)", rank, k + 1, letter, slot.stage, slot.micro);
    return w;
}

static bool place_slot(struct table *t, int rank, int k, struct tr_error *e)
{
    const struct tr_schedule *s = t->s;
    struct tr_slot slot = s->slots[rank][k];
    struct words at = slot_words(s, rank, k);
    int stages = s->ranks * s->chunks;
    if (slot.part < 0 || slot.part >= TR_PARTS)
        return tr_fail(e, "%s: its part is number %d; legal are F, B, I and W", at.text, slot.part);
    if (!s->split && (slot.part == TR_I || slot.part == TR_W))
        return tr_fail(e, "%s: the schedule does not split backward parts; legal are F and B", at.text);
    if (slot.stage < 0 || slot.stage >= stages)
        return tr_fail(e, "%s: there is no stage %d; legal are 0 to %d", at.text, slot.stage, stages - 1);
    if (slot.micro < 0 || slot.micro >= s->micros)
        return tr_fail(
            e, "%s: there is no micro-batch %d; legal are 0 to %d", at.text, slot.micro, s->micros - 1);
    if (rank_of(t, slot.stage) != rank)
        return tr_fail(e, "%s: stage %d lies on rank %d, and its parts must run there", at.text, slot.stage,
            rank_of(t, slot.stage));
    int *place = &t->at[slot.part][tr_cell(s, slot.stage, slot.micro)];
    if (*place >= 0)
        return tr_fail(e, "%s: the part is at position %d already, and must run once", at.text, *place + 1);
    *place = k;
    return true;
}

static bool missing(const struct table *t, int part, int stage, int micro, struct tr_error *e)
{
    int rank = rank_of(t, stage);
    return tr_fail(e, "rank %d, none of its positions 1 to %d: %s is missing, and must run once", rank,
        t->s->count[rank], part_words(part, stage, micro).text);
}

/* Each cell has F, and either B or both I and W. */
static bool has_all(const struct table *t, int stage, int micro, struct tr_error *e)
{
    size_t cell = tr_cell(t->s, stage, micro);
    int b = t->at[TR_B][cell], i = t->at[TR_I][cell], w = t->at[TR_W][cell];
    if (t->at[TR_F][cell] < 0)
        return missing(t, TR_F, stage, micro, e);
    if (b >= 0 && (i >= 0 || w >= 0))
        return tr_fail(e,
            "%s: %s of the same stage and micro-batch is at position %d; legal is B alone, or I "
            "and W without B",
            slot_words(t->s, rank_of(t, stage), b).text, part_words(i >= 0 ? TR_I : TR_W, stage, micro).text,
            (i >= 0 ? i : w) + 1);
    if (b < 0 && i < 0 && w < 0)
        return missing(t, t->s->split ? TR_I : TR_B, stage, micro, e);
    if (b < 0 && (i < 0 || w < 0))
        return missing(t, i < 0 ? TR_I : TR_W, stage, micro, e);
    return true;
}

/* Where the cell's part lies that makes what is asked for. */
static int position(const struct table *t, int makes, int stage, int micro)
{
    size_t cell = tr_cell(t->s, stage, micro);
    if (makes == TR_OUTPUT)
        return t->at[TR_F][cell];
    if (t->at[TR_B][cell] >= 0)
        return t->at[TR_B][cell];
    return t->at[makes == TR_INPUT_GRADIENT ? TR_I : TR_W][cell];
}

static bool comes_before(
    const struct table *t, int rank, int first, int second, const char *rule, struct tr_error *e)
{
    if (first < second)
        return true;
    struct tr_slot slot = t->s->slots[rank][first];
    return tr_fail(e, "%s: it comes before position %d (%s); %s", slot_words(t->s, rank, second).text,
        first + 1, part_words(slot.part, slot.stage, slot.micro).text, rule);
}

/* The order within a stage: forward, then backward, I before W, and the micro-batches one after another. */
static bool is_in_order(const struct table *t, int stage, int micro, struct tr_error *e)
{
    int rank = rank_of(t, stage);
    int f = position(t, TR_OUTPUT, stage, micro), i = position(t, TR_INPUT_GRADIENT, stage, micro);
    int w = position(t, TR_WEIGHT_GRADIENT, stage, micro);
    if (!comes_before(t, rank, f, i, "backward must come after forward", e))
        return false;
    if (i != w && !comes_before(t, rank, i, w, "W must come after I", e))
        return false;
    for (int makes = TR_OUTPUT; micro > 0 && makes <= TR_WEIGHT_GRADIENT; makes++)
        if (!comes_before(t, rank, position(t, makes, stage, micro - 1), position(t, makes, stage, micro),
                "the micro-batches of a stage must come in ascending order", e))
            return false;
    return true;
}

/* Says what the rank waits for at its slot k; returns the rank that it waits for. */
static int say_wait(const struct table *t, int rank, int k, char *text, size_t room)
{
    struct tr_slot slot = t->s->slots[rank][k];
    int other = tr_waits_for(t->s, slot), other_rank = rank_of(t, other);
    int makes = slot.part == TR_F ? TR_OUTPUT : TR_INPUT_GRADIENT;
    int there = position(t, makes, other, slot.micro);
    snprintf(text, room, "%s waits for %s", slot_words(t->s, rank, k).text,
        slot_words(t->s, other_rank, there).text);
    return other_rank;
}

/* next: where each rank is stuck, or its end. From any stuck rank the waits lead into a circle. */
static bool fail_with_circle(const struct table *t, const int *next, struct tr_error *e)
{
    char circle[sizeof e->text - 128] = "", wait[2 * sizeof(struct words) + 16];
    int rank = 0;
    while (next[rank] == t->s->count[rank])
        rank++;
    for (int i = 0; i < t->s->ranks; i++)
        rank = say_wait(t, rank, next[rank], wait, sizeof wait);
    int first = rank;
    do {
        rank = say_wait(t, rank, next[rank], wait, sizeof wait);
        size_t used = strlen(circle);
        if (used + strlen(wait) + sizeof "; ..." > sizeof circle) {
            strcat(circle, "; ...");
            break;
        }
        snprintf(circle + used, sizeof circle - used, "%s%s", used ? "; " : "", wait);
    } while (rank != first);
    return tr_fail(e, "%s: a circle of waits, which never ends; no part may wait for itself", circle);
}

static bool comes_to_an_end(const struct table *t, struct tr_error *e)
{
    const struct tr_costs no_time = { 0 };
    int *next = tr_new((size_t)t->s->ranks, sizeof *next);
    bool ended = tr_schedule_walk(t->s, &no_time, next, NULL);
    if (!ended)
        fail_with_circle(t, next, e);
    free(next);
    return ended;
}

static bool for_each_cell(const struct table *t,
    bool (*is_legal)(const struct table *t, int stage, int micro, struct tr_error *e), struct tr_error *e)
{
    for (int stage = 0; stage < t->s->ranks * t->s->chunks; stage++)
        for (int micro = 0; micro < t->s->micros; micro++)
            if (!is_legal(t, stage, micro, e))
                return false;
    return true;
}

bool tr_schedule_check(const struct tr_schedule *s, struct tr_error *e)
{
    if (!tr_schedule_sizes(s->ranks, s->chunks, s->micros, e))
        return false;
    size_t cells = tr_cell(s, s->ranks * s->chunks, 0);
    struct table t = { .s = s };
    for (int part = 0; part < TR_PARTS; part++) {
        t.at[part] = tr_new(cells, sizeof *t.at[part]);
        for (size_t i = 0; i < cells; i++)
            t.at[part][i] = -1;
    }
    bool legal = true;
    for (int r = 0; legal && r < s->ranks; r++)
        for (int k = 0; legal && k < s->count[r]; k++)
            legal = place_slot(&t, r, k, e);
    legal =
        legal && for_each_cell(&t, has_all, e) && for_each_cell(&t, is_in_order, e) && comes_to_an_end(&t, e);
    for (int part = 0; part < TR_PARTS; part++)
        free(t.at[part]);
    return legal;
}
