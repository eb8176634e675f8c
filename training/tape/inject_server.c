/* SPDX-License-Identifier: BSD-3-Clause */
/* inject_server.c: the errors of parameter servers: pushes and pulls that are lost, early, doubled or in
 * another order. */
#include "training/tape/plant.h"

static struct tr_tape *server(struct tr_tape *tapes, int n)
{
    return tapes[n - 1].server >= 0 ? &tapes[n - 1] : NULL;
}

/* The first gradient of worker 0 enters the sum again. */
static bool push_applied_twice(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(t, TR_COUNT, -1, "qkv.weight", -1) : -1;
    if (i < 0)
        return false;
    struct tr_instr again = t->instrs[i];
    *tr_insert_instr(t, i + 1, TR_COUNT) = again;
    return true;
}

/* What came of worker 0 stands for worker 1's as well, and that is thrown away. */
static bool push_of_another_worker(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(t, TR_RECV, -1, "qkv.weight", -1) : -1;
    if (i < 0 || t->instrs[i + 2].code != TR_RECV)
        return false;
    t->instrs[i + 2].turn = 0;
    return true;
}

static bool workers_in_another_order(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(t, TR_COUNT, -1, "qkv.weight", -1) : -1;
    if (i < 0 || t->instrs[i + 2].code != TR_COUNT)
        return false;
    t->instrs[i].micro = 1, t->instrs[i + 2].micro = 0;
    return true;
}

/* Of the first worker. */
static bool leave_out(struct tr_tape *tapes, int n, enum tr_code code)
{
    int i = server(tapes, n) ? tr_plant_find(&tapes[0], code, -1, "qkv.weight", -1) : -1;
    if (i < 0)
        return false;
    tr_remove_instr(&tapes[0], i);
    return true;
}

static bool push_lost(struct tr_tape *tapes, int n)
{
    return leave_out(tapes, n, TR_SEND);
}

/* Workers get the values of the step before. */
static bool given_before_update(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(t, TR_SEND, -1, "qkv.weight", -1) : -1;
    if (i < 0)
        return false;
    tr_move_instr(t, i, tr_plant_find(t, TR_UPDATE, -1, "qkv.weight", -1));
    return true;
}

/* A worker goes on with the values that it has. */
static bool pull_left_out(struct tr_tape *tapes, int n)
{
    return leave_out(tapes, n, TR_RECV);
}

/* The first server's part stands where the second one's belongs. */
static bool parts_in_one_place(struct tr_tape *tapes, int n)
{
    int i = server(tapes, n) ? tr_plant_find(&tapes[0], TR_RECV, -1, "qkv.weight", -1) : -1;
    if (i < 0 || tapes[0].instrs[i + 1].turn != 1)
        return false;
    tapes[0].instrs[i + 1].place = 0;
    return true;
}

/* The optimizer takes two steps with one push. */
static bool update_twice(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(t, TR_UPDATE, -1, "qkv.weight", -1) : -1;
    if (i < 0)
        return false;
    struct tr_instr again = t->instrs[i];
    *tr_insert_instr(t, i + 1, TR_UPDATE) = again;
    return true;
}

/* The norm comes where the first gradients do. */
static bool norm_after_push(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = &tapes[0];
    int i = server(tapes, n) ? tr_plant_find(t, TR_SEND, -1, "norm", -1) : -1;
    if (i < 0)
        return false;
    tr_move_instr(t, i, i + 2);
    return true;
}

/* A worker rounds what it pushes. */
static bool push_rounded(struct tr_tape *tapes, int n)
{
    struct tr_tape *t = server(tapes, n);
    int i = t ? tr_plant_find(&tapes[0], TR_SEND, -1, "qkv.weight", -1) : -1;
    if (i < 0)
        return false;
    struct tr_value *v = &tapes[0].values[tapes[0].instrs[i].in[0]];
    v->bytes /= 2, v->element = TR_BFLOAT16;
    return true;
}

static const struct tr_injection list[] = {
    { "push-applied-twice", "a server adds a worker's gradient twice", "--dp 2 --servers 1", TR_BY_TYPES,
        push_applied_twice },
    { "push-of-another", "a server takes a worker's gradient for another's", "--dp 2 --servers 1",
        TR_BY_ORDER, push_of_another_worker },
    { "workers-swapped", "a server adds two workers' gradients in another order", "--dp 2 --servers 1",
        TR_BY_TYPES, workers_in_another_order },
    { "push-lost", "a worker does not push a gradient", "--dp 2 --servers 1", TR_BY_ORDER, push_lost },
    { "given-before-update", "a server gives the values of the step before", "--dp 2 --servers 1",
        TR_BY_TYPES, given_before_update },
    { "pull-left-out", "a worker goes on with the values of the step before", "--dp 2 --servers 1",
        TR_BY_TYPES, pull_left_out },
    { "parts-in-one-place", "what two servers give goes to one place", "--dp 2 --servers 2", TR_BY_TYPES,
        parts_in_one_place },
    { "push-rounded", "a worker rounds its part of the sum over workers",
        "--dp 2 --servers 1 --precision bfloat16", TR_BY_TYPES, push_rounded },
    { "update-twice", "a server applies one push twice", "--dp 2 --servers 1 --server-mode async",
        TR_BY_TYPES, update_twice },
    { "norm-too-late", "a worker sends its norm where the server expects a gradient",
        "--dp 2 --servers 1 --server-mode async", TR_BY_ORDER, norm_after_push },
};
const struct tr_injections tr_injections_server = { list, sizeof list / sizeof *list };
