/* exec_shelf.c: what is sent from private memory to many is copied once, where all of them read it.
 *
 *     all_gather, n = 4:  IN -> shelf <- rank 1, rank 2, rank 3      and not IN -> slot 1, slot 2, slot 3
 *
 * The shelf lies before TMP, in memory that peers map. It has a cell for each chunk that is sent and each
 * slice in flight, so long operations use the same few cells again and again, which stay in the caches, where
 * slots are taken round and round. Cells stand in a row without gaps, so that all collectives use the same
 * memory. A chunk goes on the shelf when it is first sent, and once more if it is
 * sent after it was written: by then, as the proof of the hazards has it, all who read it have released it.
 * The copy is one of the memory path, so nobody else can tell. */
#include "exec_internal.h"

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
    for (uint64_t at = 0; at < count; at += run) {
        const void *src = (const void *)tt_view_run(from, at, &run);
        void *dst = (void *)tt_view_run(&to, at, &room);
        run = room < run ? room : run;
        tt_copy_bytes(dst, src, run * element);
    }
    op->endpoint->path_bytes[TT_PATH_COPIED] += count * element;
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
}

void tt_exec_unshelve(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (step->verb == TT_VERB_SEND || step->dst_buffer == TT_TMP)
        return;
    for (uint32_t i = 0; i < step->nchunks; i++)
        *mark_of(op, slice, step->dst_buffer, step->dst_chunk + i) = false;
}
