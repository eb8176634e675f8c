/* SPDX-License-Identifier: BSD-3-Clause */
/* make.c: the published schedules.
 *
 * All of them but DualPipeV (dualpipe.c) have one form: a rank first runs some forward parts, its warm-up;
 * then forward and backward parts take turns; last come the backward parts that are left. How long the
 * warm-up is makes the schedule: none (naive), all (GPipe), as far as the rank is from the last one
 * (1F1B), and so on. ZB-H1 is 1F1B with split backward parts, whose W lags behind I by the number of the
 * rank: each rank then holds as many activations as the first one holds anyway, and has work left for the
 * time when others still wait. ZB-H2 has twice that warm-up and lag: where F, I and W last alike, no rank
 * waits between its first part and its last one. But the last ranks begin and end later than the first ones,
 * so that nothing is won unless ranks go into the next step without each other. */
#include "training/schedule/walk.h"

#include <stdlib.h>
#include <string.h>

static int64_t no_warm_up(const struct tr_schedule *s, int rank)
{
    (void)s, (void)rank;
    return 0;
}

static int64_t all_is_warm_up(const struct tr_schedule *s, int rank)
{
    (void)rank;
    return s->micros;
}

static int64_t until_last_rank(const struct tr_schedule *s, int rank)
{
    return s->ranks - rank - 1;
}

/* As many forward parts as fill the time until the first gradient is back. */
static int64_t there_and_back(const struct tr_schedule *s, int rank)
{
    return 2 * until_last_rank(s, rank);
}

/* The gradient of a rank's last chunk is back only after the ranks behind it ran forward and backward. */
static int64_t through_all_chunks(const struct tr_schedule *s, int rank)
{
    if (s->chunks == 1)
        return until_last_rank(s, rank);
    return 2 * until_last_rank(s, rank) + (int64_t)(s->chunks - 1) * s->ranks;
}

static const struct kind {
    const char *name;
    int64_t (*warm_up)(const struct tr_schedule *s, int rank);
    bool chunked, vee;
    int lag; /* of W behind I, in parts, times the number of the rank */
    bool split, no_flush;
} kinds[] = {
    { "naive", no_warm_up, false, false, 0, false, false },
    { "gpipe", all_is_warm_up, false, false, 0, false, false },
    { "1f1b", until_last_rank, false, false, 0, false, false },
    { "interleaved", through_all_chunks, true, false, 0, false, false },
    { "zb-h1", until_last_rank, false, false, 1, true, false },
    { "zb-h2", there_and_back, false, false, 2, true, true },
    { "dualpipev", NULL, true, true, 0, true, false }, /* dualpipe.c */
};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

/* A rank's turn number k: its chunks take turns, each for as many micro-batches as there are ranks; backward
 * the last chunk comes first. */
static void add(struct tr_schedule *s, int rank, int part, int64_t k)
{
    int64_t chunk = k / s->ranks % s->chunks, round = k / s->ranks / s->chunks;
    if (part != TR_F)
        chunk = s->chunks - 1 - chunk;
    struct tr_slot *slot = &s->slots[rank][s->count[rank]++];
    slot->part = part;
    slot->stage = (int)(chunk * s->ranks + rank);
    slot->micro = (int)(round * s->ranks + k % s->ranks);
}

static void fill_rank(struct tr_schedule *s, int rank, int64_t warm_up, int64_t lag)
{
    int64_t turns = (int64_t)s->micros * s->chunks;
    if (warm_up > turns)
        warm_up = turns;
    for (int64_t k = 0; k < turns + warm_up; k++) {
        if (k < turns)
            add(s, rank, TR_F, k);
        int64_t back = k - warm_up;
        if (back >= 0)
            add(s, rank, s->split ? TR_I : TR_B, back);
        if (s->split && back >= lag)
            add(s, rank, TR_W, back - lag);
    }
    for (int64_t k = turns > lag ? turns - lag : 0; s->split && k < turns; k++)
        add(s, rank, TR_W, k);
}

static const struct kind *find_kind(const char *name, struct tr_error *e)
{
    for (int i = 0; i < KINDS; i++)
        if (!strcmp(name, kinds[i].name))
            return &kinds[i];
    char legal[128] = "";
    for (int i = 0; i < KINDS; i++) {
        strcat(legal, i ? ", " : "");
        strcat(legal, kinds[i].name);
    }
    tr_fail(e, "there is no schedule named '%s'; legal are %s", name, legal);
    return NULL;
}

bool tr_schedule_sizes(int ranks, int chunks, int micros, struct tr_error *e)
{
    if (ranks < 1 || chunks < 1 || micros < 1)
        return tr_fail(e, "a schedule has %d ranks, %d chunks and %d micro-batches; legal is 1 or more",
            ranks, chunks, micros);
    if (micros > TR_CELLS_MAX / ((int64_t)ranks * chunks))
        return tr_fail(e,
            "a schedule has %d ranks times %d chunks times %d micro-batches; legal is a product of at most "
            "%d",
            ranks, chunks, micros, TR_CELLS_MAX);
    return true;
}

static bool has_vee_sizes(const char *name, int ranks, int chunks, int micros, struct tr_error *e)
{
    if (chunks != 2)
        return tr_fail(e, "schedule %s has %d chunk%s; legal is 2, the arms of a V", name, chunks,
            chunks == 1 ? "" : "s");
    if (micros < 2 * ranks)
        return tr_fail(e, "schedule %s has %d micro-batches on %d ranks; legal are %d and more", name, micros,
            ranks, 2 * ranks);
    return true;
}

static bool has_sizes(
    const struct kind *kind, const char *name, int ranks, int chunks, int micros, struct tr_error *e)
{
    if (chunks > 1 && !kind->chunked)
        return tr_fail(e,
            "schedule %s has %d chunks; legal is 1, and more for interleaved and dualpipev only", name,
            chunks);
    if (kind->vee)
        return has_vee_sizes(name, ranks, chunks, micros, e);
    if (kind->chunked && micros % ranks)
        return tr_fail(e, "schedule %s has %d micro-batches on %d ranks; legal is a multiple of %d", name,
            micros, ranks, ranks);
    return true;
}

bool tr_schedule_make(
    struct tr_schedule *s, const char *name, int ranks, int chunks, int micros, struct tr_error *e)
{
    const struct kind *kind = find_kind(name, e);
    if (!kind || !tr_schedule_sizes(ranks, chunks, micros, e) ||
        !has_sizes(kind, name, ranks, chunks, micros, e))
        return false;
    *s = (struct tr_schedule){ .ranks = ranks,
        .chunks = chunks,
        .micros = micros,
        .vee = kind->vee && ranks > 1,
        .no_flush = kind->no_flush,
        .split = kind->split };
    strcpy(s->name, kind->name);
    s->count = tr_new((size_t)ranks, sizeof *s->count);
    s->slots = tr_new((size_t)ranks, sizeof *s->slots);
    for (int r = 0; r < ranks; r++) {
        s->slots[r] = tr_new((size_t)micros * (size_t)chunks * (kind->split ? 3 : 2), sizeof *s->slots[r]);
        if (kind->vee)
            tr_fill_dualpipev(s, r);
        else
            fill_rank(s, r, kind->warm_up(s, r), (int64_t)kind->lag * r);
    }
    return true;
}

bool tr_schedule_equal(const struct tr_schedule *a, const struct tr_schedule *b)
{
    if (a->ranks != b->ranks || a->chunks != b->chunks || a->micros != b->micros || a->vee != b->vee ||
        a->split != b->split)
        return false;
    for (int r = 0; r < a->ranks; r++)
        if (a->count[r] != b->count[r] ||
            memcmp(a->slots[r], b->slots[r], (size_t)a->count[r] * sizeof *a->slots[r]))
            return false;
    return true;
}

void tr_schedule_free(struct tr_schedule *s)
{
    for (int r = 0; s->slots && r < s->ranks; r++)
        free(s->slots[r]);
    free(s->slots);
    free(s->count);
    *s = (struct tr_schedule){ 0 };
}

void tr_schedule_forward(struct tr_schedule *s)
{
    for (int r = 0; r < s->ranks; r++) {
        int all = s->count[r];
        s->count[r] = 0;
        for (int i = 0; i < all; i++)
            if (s->slots[r][i].part == TR_F)
                s->slots[r][s->count[r]++] = s->slots[r][i];
    }
}
