/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_offload.c: the errors of those who have a second memory. */
#include "training/tape/plant.h"

/* The first copy of this kind, of a parameter or of an activation; -1. */
static int find_copy(const struct tr_tape *t, enum tr_code code, bool parameter)
{
    for (int n = 0; n < t->n_instrs; n++)
        if (t->instrs[n].code == code && (t->instrs[n].parameter >= 0) == parameter)
            return n;
    return -1;
}

/* The backward part reads where the activation will be. */
static bool read_before_it_is_up(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int up = find_copy(t, TR_UP, false), reader = up;
        if (up < 0)
            return false;
        for (bool found = false; !found;)
            for (int x = 0; x < t->instrs[++reader].ins; x++)
                found |= t->instrs[reader].in[x] == t->instrs[up].out[0];
        tr_move_instr(t, up, reader);
        tr_plan_memory(t);
    }
    return true;
}

/* The backward part reads the place that the activation had. */
static bool never_up(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        struct tr_tape *t = &tapes[r];
        int up = find_copy(t, TR_UP, false), down = 0;
        if (up < 0)
            return false;
        while (t->instrs[down].code != TR_DOWN || t->instrs[down].out[0] != t->instrs[up].in[0])
            down++;
        int back = t->instrs[up].out[0], was = t->instrs[down].in[0];
        tr_remove_instr(t, up);
        for (int i = up; i < t->n_instrs; i++)
            for (int x = 0; x < t->instrs[i].ins; x++)
                if (t->instrs[i].in[x] == back)
                    t->instrs[i].in[x] = was;
    }
    return true;
}

/* The device keeps what the parameter was before the update. */
static bool parameter_not_up(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int up = find_copy(&tapes[r], TR_UP, true);
        if (up < 0)
            return false;
        tr_remove_instr(&tapes[r], up);
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

/* The host's optimizer is given the device's gradient. */
static bool gradient_not_down(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int down = find_copy(&tapes[r], TR_DOWN, true);
        if (down < 0)
            return false;
        tr_plant_bypass(&tapes[r], down);
    }
    return true;
}

/* Each rank takes the part of the parameter that it renews to be the first. */
static bool part_of_the_first_rank(struct tr_tape *tapes, int n)
{
    bool found = false;
    for (int r = 0; r < n; r++)
        for (int i = 0; i < tapes[r].n_instrs; i++) {
            struct tr_instr *x = &tapes[r].instrs[i];
            found |= x->code == TR_UP && x->place > 0;
            x->place = x->code == TR_UP ? 0 : x->place;
        }
    return found;
}

/* What comes down takes the place of the gradient that the update was to have. */
static bool waiting_gradient_lost(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int down = find_copy(&tapes[r], TR_DOWN, true), update = 0;
        while (update < down && tapes[r].instrs[update].code != TR_UPDATE)
            update++;
        if (down < 0 || update == down)
            return false;
        tr_move_instr(&tapes[r], down, update);
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

/* The rounding of the masters is copied before it is made. */
static bool up_before_it_is_rounded(struct tr_tape *tapes, int n)
{
    for (int r = 0; r < n; r++) {
        int up = find_copy(&tapes[r], TR_UP, true);
        if (up < 1 || tapes[r].instrs[up - 1].code != TR_UPDATE)
            return false;
        tr_move_instr(&tapes[r], up, up - 1);
        tr_plan_memory(&tapes[r]);
    }
    return true;
}

static const struct tr_injection list[] = {
    { "read-before-it-is-up", "an activation is read on the device before its copy came up",
        "--offload activations", TR_BY_TYPES, read_before_it_is_up },
    { "never-up", "an activation is read where it was before it went down", "--offload activations",
        TR_BY_TYPES, never_up },
    { "parameter-not-up", "what the host has updated does not come up", "--offload optimizer", TR_BY_TYPES,
        parameter_not_up },
    { "gradient-not-down", "the host's optimizer is given the device's gradient", "--offload optimizer",
        TR_BY_TYPES, gradient_not_down },
    { "part-of-the-first-rank", "what comes up is laid where the first rank's part begins",
        "--dp 2 --zero 1 --offload optimizer", TR_BY_TYPES, part_of_the_first_rank },
    { "waiting-gradient-lost", "a gradient comes down before the update has used the one that waits",
        "--offload optimizer --offload-delay 1", TR_BY_TYPES, waiting_gradient_lost },
    { "up-before-it-is-rounded", "a bfloat16 parameter comes up before the host has rounded it",
        "--precision bfloat16 --offload optimizer", TR_BY_TYPES, up_before_it_is_rounded },
};
const struct tr_injections tr_injections_offload = { list, sizeof list / sizeof *list };
