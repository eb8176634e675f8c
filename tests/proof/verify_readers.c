/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_readers.c: that a receiver which may overwrite what it reads harms nobody.
 *
 * The receiver of a message that is marked (single_reader.h) may overwrite the cells of it at its sender, at
 * any moment until it has released them. So between two writes of such a cell that send must be its only
 * read, and no step may read the cell afterwards before it is written again, in the next slices neither.
 * Other ranks read a rank's cells by its sends alone, of which each has one receiver, as was proven of the
 * messages; and without races all orders of the steps are as good as that of the program.
 *
 * A send of IN or OUT may go by a bounce cell, of which each chunk of IN and of OUT has its own. Only sends
 * read it. It is written by the first send of a slice, and by the first after each write of the chunk. */
#include <stdlib.h>
#include <string.h>

#include "base/single_reader.h"
#include "tests/proof/verify_internal.h"

enum { ROUNDS = 2 /* slices that use the same cells, one after the other */, NO_STEP = UINT32_MAX };

struct readers {
    struct tt_verifier *v;
    const struct tt_schedule *s;
    bool *marks;
    uint32_t *reader; /* by place: a step that has read the cell since it was written */
    uint32_t *owner; /* by place: the marked send of it since then */
};

/* Bounce cells of IN and OUT lie apart in place, too. */
static uint32_t place_of(const struct readers *r, struct tt_cells cell)
{
    return (uint32_t)cell.buffer * r->s->chunks + cell.chunk;
}

static bool check_read(struct readers *r, uint32_t step, struct tt_cells cell)
{
    uint32_t *reader = &r->reader[place_of(r, cell)], *owner = &r->owner[place_of(r, cell)];
    if (*owner != NO_STEP)
        return tt_verify_wrong(r->v, r->s->key.me, step,
            "reads %s, which the receiver of step %u may have overwritten", tt_cells_name(cell).text, *owner);
    if (r->marks[step] && *reader != NO_STEP)
        return tt_verify_wrong(r->v, r->s->key.me, step,
            "lets its receiver overwrite %s, which step %u reads, too", tt_cells_name(cell).text, *reader);
    *reader = step;
    if (r->marks[step])
        *owner = step;
    return true;
}

static bool check_step(struct readers *r, uint32_t i)
{
    const struct tt_step *step = &r->s->steps[i];
    struct tt_accesses a = tt_step_accesses(step);
    for (int k = 0; k < a.reads; k++)
        for (uint32_t c = 0; c < step->nchunks; c++) {
            struct tt_cells cell = tt_range(a.read[k].buffer, a.read[k].chunk + c, 1);
            if ((cell.buffer == TT_TMP || step->verb == TT_VERB_SEND) && !check_read(r, i, cell))
                return false;
        }
    for (uint32_t c = 0; a.writes && c < step->nchunks; c++) {
        uint32_t place = place_of(r, tt_range(a.write.buffer, a.write.chunk + c, 1));
        r->reader[place] = r->owner[place] = NO_STEP;
    }
    return true;
}

static bool check_schedule(struct readers *r)
{
    size_t bounce_cells = 2 * (size_t)r->s->chunks, cells = bounce_cells + r->s->tmp_cells;
    memset(r->owner, 0xff, cells * sizeof *r->owner);
    for (int round = 0; round < ROUNDS; round++) {
        memset(r->owner, 0xff, bounce_cells * sizeof *r->owner); /* a slice writes its bounce cells anew */
        memset(r->reader, 0xff, cells * sizeof *r->reader); /* and begins when all have read */
        for (uint32_t i = 0; i < r->s->nsteps; i++)
            if (r->s->steps[i].fold_index == 0 && !check_step(r, i))
                return false;
    }
    return true;
}

bool tt_verify_readers(struct tt_verifier *v)
{
    size_t steps = 0, cells = 0;
    for (int k = 0; k < v->n; k++) {
        size_t mine = 2 * (size_t)v->chunks + v->schedules[k]->tmp_cells;
        steps = v->schedules[k]->nsteps > steps ? v->schedules[k]->nsteps : steps;
        cells = mine > cells ? mine : cells;
    }
    struct readers r = { .v = v, .marks = malloc((steps + 1) * sizeof *r.marks) };
    r.reader = malloc((cells + 1) * sizeof *r.reader);
    r.owner = malloc((cells + 1) * sizeof *r.owner);
    bool right = r.marks != NULL && r.reader != NULL && r.owner != NULL;
    if (!right)
        tt_verify_no_memory(v);
    for (int k = 0; right && k < v->n; k++) {
        r.s = v->schedules[k];
        (v->proof->mark != NULL ? v->proof->mark : tt_mark_single_readers)(r.s, r.marks, r.reader);
        right = check_schedule(&r);
    }
    free(r.marks);
    free(r.reader);
    free(r.owner);
    return right;
}
