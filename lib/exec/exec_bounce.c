/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_bounce.c: a chunk that goes from private memory to many peers is copied once, to a cell of the bounce
 * buffer, where all of them read it.
 *
 *     all_gather, n = 4:  IN -> bounce <- rank 1, rank 2, rank 3      and not IN -> slot 1, slot 2, slot 3
 *
 * The bounce buffer lies before TMP, in memory that peers map. It has a cell for each chunk that is sent and
 * each slice in flight, so long operations use the same few cells again and again, which stay in the caches,
 * where slots are taken round and round. Cells stand in a row without gaps, so that all collectives use the
 * same memory. A chunk is copied when it is first sent, and again if it is sent after it was written: the
 * verifier has proven that all readers have released the cell by then. The message looks to its receiver like
 * any other that is read in place.
 *
 * A cell that another core has read since is slow to write, line after line, unless its reader claims the
 * lines (transport.h, `single_reader`). On far cores that makes a reduce_scatter of eight ranks three times
 * as fast; on near ones, where most lines have left the caches of cores by then, it costs up to a fifth. A
 * virtual machine does not tell how far cores are, so each rank probes it. */
#include "base/clock.h"
#include "exec/exec_internal.h"

enum { PROBE_CALLS = 64, SLOW_LINE_NS = 16 /* a slow line takes 7 near, 35 far (perf/results/README.md) */ };

/* Decides whether readers claim lines in the call that begins. If more than a quarter of the writes of the
 * last call were slow, the lines were in another core's cache: readers claim them in the next PROBE_CALLS
 * calls. A quarter, because half the peers may share this rank's core, and a rank that is preempted looks
 * slow, too. */
bool tt_bounce_probe_claims(struct tt_bounce_probe *probe)
{
    if (4 * probe->slow > probe->writes)
        probe->left = PROBE_CALLS;
    probe->writes = 0;
    probe->slow = 0;
    bool claims = probe->left > 0;
    probe->left -= claims;
    return claims;
}

void tt_bounce_probe_note(struct tt_bounce_probe *probe, uint64_t bytes, int64_t ns)
{
    probe->writes++;
    probe->slow += (uint64_t)ns * 64 > SLOW_LINE_NS * bytes;
}

static bool *mark_of(const struct tt_op *op, const struct tt_slice *slice, unsigned buffer, uint32_t chunk)
{
    return &slice->bounced[buffer * op->schedule->chunks + chunk];
}

/* Gives cells in the order of chunks, so that the chunks of one message have theirs in a row. */
void tt_exec_find_cells(struct tt_op *op)
{
    const struct tt_schedule *s = op->schedule;
    for (uint32_t i = 0; i < s->nsteps; i++)
        for (uint32_t c = 0; s->steps[i].verb == TT_VERB_SEND && c < s->steps[i].nchunks; c++)
            if (s->steps[i].src_buffer != TT_TMP)
                op->bounce.cell[s->steps[i].src_buffer * s->chunks + s->steps[i].src_chunk + c] = 1;
    for (uint32_t chunk = 0; chunk < 2 * s->chunks; chunk++)
        if (op->bounce.cell[chunk] != 0)
            op->bounce.cell[chunk] = op->bounce.cells++;
}

/* The bounce cells of the chunks that a step sends. */
static struct tt_space cells_of(
    const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    struct tt_space space = op->bounce.space;
    uint64_t cell = op->bounce.cell[step->src_buffer * op->schedule->chunks + step->src_chunk];
    cell += (uint64_t)(slice - op->progress.slices) * op->bounce.cells;
    space.base += (cell - step->src_chunk) * space.stride;
    return space;
}

static void put(struct tt_op *op, const struct tt_view *from, const struct tt_space *cells)
{
    struct tt_view to = *from;
    to.space = *cells;
    uint64_t element = op->layout.element_bytes, count = tt_view_count(from), run, room;
    int64_t began_ns = op->bounce.probe != NULL ? tt_now_ns() : 0;
    for (uint64_t at = 0; at < count; at += run) {
        const void *src = (const void *)tt_view_run(from, at, &run);
        void *dst = (void *)tt_view_run(&to, at, &room);
        run = room < run ? room : run;
        tt_copy_bytes(dst, src, run * element);
    }
    op->endpoint->path_bytes[TT_PATH_COPIED] += count * element;
    if (op->bounce.probe != NULL)
        tt_bounce_probe_note(op->bounce.probe, count * element, tt_now_ns() - began_ns);
}

void tt_exec_bounce(
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
    message->single_reader = op->bounce.claims && op->policy.single_reader[step - op->schedule->steps];
}

void tt_exec_bounce_forget(const struct tt_op *op, const struct tt_slice *slice, const struct tt_step *step)
{
    if (step->verb == TT_VERB_SEND || step->dst_buffer == TT_TMP)
        return;
    for (uint32_t i = 0; i < step->nchunks; i++)
        *mark_of(op, slice, step->dst_buffer, step->dst_chunk + i) = false;
}
