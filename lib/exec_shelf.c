/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_shelf.c: what is sent from private memory to many is copied once, where all of them read it.
 *
 *     all_gather, n = 4:  IN -> shelf <- rank 1, rank 2, rank 3      and not IN -> slot 1, slot 2, slot 3
 *
 * The shelf lies before TMP, in memory that peers map. It has a cell for each chunk that is sent and each
 * slice in flight, so long operations use the same few cells again and again, which stay in the caches, where
 * slots are taken round and round. Cells stand in a row without gaps, so that all collectives use the same
 * memory. A chunk goes on the shelf when it is first sent, and once more if it is sent after it was written:
 * by then, as the proof of the hazards has it, all who read it have released it. The copy is one of the
 * memory path, so nobody else can tell.
 *
 * A cell that another core has read since is written again line by line, unless its reader takes the lines
 * (transport.h, `once`). On far cores that makes a reduce_scatter of eight ranks three times as fast; on near
 * ones, where most lines have left the caches of cores by then, it costs up to a fifth. How far cores are
 * cannot be asked where it matters, on virtual ones, so each rank tries it. */
#include "base/clock.h"
#include "exec_internal.h"

enum { TRIAL_CALLS = 64, SLOW_LINE_NS = 16 /* measured: 1 to 8 near, 35 far */ };

/* What a call finds slow to write was read since the last one, which did not ask. One write in four: half the
 * peers may share this rank's core, and a rank may lose that core on the way. */
bool tt_trial_asks(struct tt_trial *trial)
{
    if (4 * trial->slow > trial->writes)
        trial->left = TRIAL_CALLS;
    trial->writes = 0;
    trial->slow = 0;
    bool asks = trial->left > 0;
    trial->left -= asks;
    return asks;
}

void tt_trial_note(struct tt_trial *trial, uint64_t bytes, int64_t ns)
{
    trial->writes++;
    trial->slow += (uint64_t)ns * 64 > SLOW_LINE_NS * bytes;
}

static bool *mark_of(const struct tt_op *op, const struct tt_slice *slice, unsigned buffer, uint32_t chunk)
{
    return &slice->shelved[buffer * op->schedule->chunks + chunk];
}

/* In the order of chunks, so that what goes as one message has its cells in a row. */
void tt_exec_find_cells(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    for (uint32_t i = 0; i < s->nsteps; i++)
        for (uint32_t c = 0; s->steps[i].verb == TT_VERB_SEND && c < s->steps[i].nchunks; c++)
            if (s->steps[i].src_buffer != TT_TMP)
                op->shelf_cell[s->steps[i].src_buffer * s->chunks + s->steps[i].src_chunk + c] = 1;
    for (uint32_t chunk = 0; chunk < 2 * s->chunks; chunk++)
        if (op->shelf_cell[chunk] != 0)
            op->shelf_cell[chunk] = op->shelf_cells++;
}

/* What a step sends, as a space of cells. */
static struct tt_space cells_of(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    struct tt_space space = op->shelf;
    uint64_t cell = op->shelf_cell[step->src_buffer * op->schedule->chunks + step->src_chunk];
    cell += (uint64_t)(slice - op->slices) * op->shelf_cells;
    space.base += (cell - step->src_chunk) * space.stride;
    return space;
}

static void put(struct tt_op *op, const struct tt_view *from, const struct tt_space *cells)
{
    struct tt_view to = *from;
    to.space = *cells;
    uint64_t element = op->layout.element_bytes, count = tt_view_count(from), run, room;
    int64_t began_ns = op->trial != NULL ? tt_now_ns() : 0;
    for (uint64_t at = 0; at < count; at += run) {
        const void *src = (const void *)tt_view_run(from, at, &run);
        void *dst = (void *)tt_view_run(&to, at, &room);
        run = room < run ? room : run;
        tt_copy_bytes(dst, src, run * element);
    }
    op->endpoint->path_bytes[TT_PATH_COPIED] += count * element;
    if (op->trial != NULL)
        tt_trial_note(op->trial, count * element, tt_now_ns() - began_ns);
}

void tt_exec_shelve(
    struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step, struct tt_message *message)
{
    struct tt_space cells = cells_of(op, slice, step);
    for (uint32_t i = 0; i < step->nchunks; i++) {
        bool *mark = mark_of(op, slice, step->src_buffer, step->src_chunk + i);
        struct tt_view from = tt_exec_view(op, slice, step->src_buffer, step->src_chunk + i, 1);
        if (!*mark)
            put(op, &from, &cells);
        *mark = true;
    }
    message->source.space = cells;
    message->once = op->asks && op->once[step - op->schedule->steps];
}

void tt_exec_unshelve(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (step->verb == TT_VERB_SEND || step->dst_buffer == TT_TMP)
        return;
    for (uint32_t i = 0; i < step->nchunks; i++)
        *mark_of(op, slice, step->dst_buffer, step->dst_chunk + i) = false;
}
