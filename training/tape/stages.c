/* SPDX-License-Identifier: BSD-3-Clause */
/* stages.c: the activations of each stage, from the lives of the values of a tape. */
#include "training/tape/stages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int tr_stage_in_flight(const struct tr_schedule *s, int stage)
{
    int rank = tr_stage_rank(stage, s->ranks, s->vee), now = 0, most = 0;
    for (int n = 0; n < s->count[rank]; n++) {
        const struct tr_slot *slot = &s->slots[rank][n];
        if (slot->stage != stage || slot->part == TR_I)
            continue;
        now += slot->part == TR_F ? 1 : -1;
        most = now > most ? now : most;
    }
    return most;
}

static bool is_activation(const struct tr_tape *t, const struct tr_value *v, int stage)
{
    return v->memory == TR_MEM_ACTIVATION && !v->host && v->within < 0 && v->first >= 0 &&
           t->instrs[v->first].stage == stage;
}

static int64_t bytes_of(const struct tr_tape *t, int value, const int64_t *bytes)
{
    return bytes ? bytes[value] : (t->values[value].bytes + 63) / 64 * 64;
}

/* Who is written in the place of a value as that ends leaves it no more than the rest of that place. */
static void left_at_end(int64_t *left, const struct tr_tape *t, const int64_t *bytes)
{
    for (int n = 0; n < t->n_values; n++)
        left[n] = bytes_of(t, n, bytes);
    for (int n = 0; n < t->n_values; n++) {
        int from = t->values[n].takes;
        if (from >= 0 && t->values[n].first == t->values[from].last) {
            int64_t rest = left[from] - bytes_of(t, n, bytes);
            left[from] = rest > 0 ? rest : 0;
        }
    }
}

size_t tr_stages_scratch(const struct tr_tape *t)
{
    return (size_t)t->n_instrs + 2 + (size_t)t->n_values;
}

static struct tr_stage_room room_of(
    const struct tr_tape *t, int stage, const int64_t *bytes, int64_t *scratch)
{
    int64_t *change = scratch, *left = change + t->n_instrs + 2;
    memset(change, 0, ((size_t)t->n_instrs + 2) * sizeof *change);
    left_at_end(left, t, bytes);
    struct tr_stage_room room = { 0, 0 };
    for (int n = 0; n < t->n_values; n++) {
        const struct tr_value *v = &t->values[n];
        if (!is_activation(t, v, stage))
            continue;
        int64_t whole = bytes_of(t, n, bytes);
        change[v->first] += v->first < v->last ? whole : left[n];
        change[v->last] -= v->first < v->last ? whole - left[n] : 0;
        change[v->last + 1] -= left[n];
        if (v->micro == 0 && t->instrs[v->first].part == TR_F && t->instrs[v->last].part != TR_F)
            room.kept += whole;
    }
    int64_t now = 0;
    for (int i = 0; i < t->n_instrs; i++) {
        now += change[i];
        room.most = now > room.most ? now : room.most;
    }
    return room;
}

struct tr_stage_room tr_stage_room(const struct tr_tape *t, int stage, const int64_t *bytes)
{
    int64_t *scratch = tr_new(tr_stages_scratch(t), sizeof *scratch);
    struct tr_stage_room room = room_of(t, stage, bytes, scratch);
    free(scratch);
    return room;
}

bool tr_stages_as_planned(
    const struct tr_tape *t, const int64_t *touched, int64_t *scratch, struct tr_error *e)
{
    const struct tr_plan *p = t->placed->plan;
    for (int s = 0; s < p->mesh.size[TR_PP] * p->pipeline.chunks; s++) {
        if (!tr_has_stage(t, s))
            continue;
        int64_t planned = room_of(t, s, NULL, scratch).most, found = room_of(t, s, touched, scratch).most;
        if (planned != found)
            return tr_fail(e,
                "rank %d: activations of stage %d: the tape predicts a peak of %" PRId64
                " bytes, and %" PRId64 " were touched",
                t->rank, s, planned, found);
    }
    return true;
}
