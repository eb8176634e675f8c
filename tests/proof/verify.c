/* SPDX-License-Identifier: BSD-3-Clause */
/* verify.c: the driver of the proof, and the hazards.
 *
 * Hazards are found again from what each step touches: an access conflicts with the last write of its cell,
 * and a write with the reads since. For each such pair there must be a path of dependencies; older conflicts
 * then have one by transitivity, so the search is linear as long as most paths are one edge long, as the
 * builder makes them. A send reads until it is complete, which is what waiting for a step means. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ready.h"
#include "tests/proof/verify_internal.h"

enum { SLICES = 2, NO_STEP = UINT32_MAX };

bool tt_verify_wrong(struct tt_verifier *v, int rank, int64_t step, const char *format, ...)
{
    if (v->report->text[0] != '\0')
        return false;
    int used = 0;
    if (rank >= 0 && step >= 0)
        used =
            snprintf(v->report->text, sizeof v->report->text, "rank %d step %lld: ", rank, (long long)step);
    else if (rank >= 0)
        used = snprintf(v->report->text, sizeof v->report->text, "rank %d: ", rank);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->report->text + used, sizeof v->report->text - (size_t)used, format, arguments);
    va_end(arguments);
    return false;
}

bool tt_verify_no_memory(struct tt_verifier *v)
{
    return tt_verify_wrong(v, -1, -1, "no memory for the proof");
}

struct tt_cells_text tt_cells_name(struct tt_cells cells)
{
    static const char *const names[TT_BUFFERS] = { "in", "out", "tmp" };
    const char *name = (unsigned)cells.buffer < TT_BUFFERS ? names[cells.buffer] : "buffer ?";
    struct tt_cells_text t;
    if (cells.count == 1)
        snprintf(t.text, sizeof t.text, "%s %u", name, cells.chunk);
    else
        snprintf(t.text, sizeof t.text, "%s %u..%u", name, cells.chunk, cells.chunk + cells.count - 1);
    return t;
}

struct tt_accesses tt_step_accesses(const struct tt_step *step)
{
    struct tt_cells src = { (enum tt_buffer)step->src_buffer, step->src_chunk, step->nchunks };
    struct tt_cells right = { (enum tt_buffer)step->right_buffer, step->right_chunk, step->nchunks };
    struct tt_cells dst = { (enum tt_buffer)step->dst_buffer, step->dst_chunk, step->nchunks };
    struct tt_accesses a = { .read = { src, right }, .write = dst, .reads = 1, .writes = true };
    if (step->verb == TT_VERB_RECV)
        a.reads = 0;
    else if (step->verb == TT_VERB_REDUCE)
        a.reads = 2;
    else if (step->verb == TT_VERB_SEND)
        a.writes = false;
    return a;
}

struct reader { /* one link of a cell's list of readers since the last write */
    uint32_t step, next;
};

struct hazards {
    struct tt_verifier *v;
    const struct tt_schedule *s;
    uint32_t *writer, *readers; /* by place: the last writer, the newest link */
    struct reader *links;
    uint32_t link_count;
    uint32_t *direct; /* direct[d] == i + 1: step i waits for d by itself */
    uint32_t *seen, search; /* seen[d] == search: this search came by d */
    uint32_t *stack;
};

/* Is there a path of dependencies from `step` back to `earlier`? */
static bool waits(struct hazards *h, uint32_t step, uint32_t earlier)
{
    if (h->direct[earlier] == step + 1)
        return true;
    uint32_t depth = 0;
    h->search++;
    h->stack[depth++] = step;
    while (depth > 0) {
        const struct tt_step *at = &h->s->steps[h->stack[--depth]];
        for (uint32_t k = 0; k < at->dep_count; k++) {
            uint32_t d = h->s->deps[at->dep_first + k];
            if (d == earlier)
                return true;
            if (d > earlier && h->seen[d] != h->search) {
                h->seen[d] = h->search;
                h->stack[depth++] = d;
            }
        }
    }
    return false;
}

static bool check_read(struct hazards *h, uint32_t step, struct tt_cells cell)
{
    uint32_t place = tt_cell_place(h->s, cell.buffer, cell.chunk), writer = h->writer[place];
    if (writer != NO_STEP && !waits(h, step, writer))
        return tt_verify_wrong(h->v, h->s->key.me, step,
            "reads %s without waiting for step %u, which writes it", tt_cells_name(cell).text, writer);
    h->links[h->link_count] = (struct reader){ step, h->readers[place] };
    h->readers[place] = h->link_count++;
    return true;
}

static bool check_write(struct hazards *h, uint32_t step, struct tt_cells cell)
{
    uint32_t place = tt_cell_place(h->s, cell.buffer, cell.chunk), writer = h->writer[place];
    if (writer != NO_STEP && !waits(h, step, writer))
        return tt_verify_wrong(h->v, h->s->key.me, step,
            "writes %s without waiting for step %u, which writes it too", tt_cells_name(cell).text, writer);
    for (uint32_t l = h->readers[place]; l != NO_STEP; l = h->links[l].next)
        if (h->links[l].step != step && !waits(h, step, h->links[l].step))
            return tt_verify_wrong(h->v, h->s->key.me, step,
                "writes %s without waiting for step %u, which reads it", tt_cells_name(cell).text,
                h->links[l].step);
    h->writer[place] = step;
    h->readers[place] = NO_STEP;
    return true;
}

static bool check_unit(struct hazards *h, uint32_t i)
{
    const struct tt_step *step = &h->s->steps[i];
    struct tt_accesses a = tt_step_accesses(step);
    for (uint32_t k = 0; k < step->dep_count; k++)
        h->direct[h->s->deps[step->dep_first + k]] = i + 1;
    for (int r = 0; r < a.reads; r++)
        for (uint32_t k = 0; k < step->nchunks; k++)
            if (!check_read(h, i, tt_range(a.read[r].buffer, a.read[r].chunk + k, 1)))
                return false;
    for (uint32_t k = 0; a.writes && k < step->nchunks; k++)
        if (!check_write(h, i, tt_range(a.write.buffer, a.write.chunk + k, 1)))
            return false;
    return true;
}

static bool check_hazards_of(struct tt_verifier *v, const struct tt_schedule *s)
{
    size_t cells = 2 * (size_t)s->chunks + s->tmp_cells, steps = s->nsteps, links = 0;
    for (uint32_t i = 0; i < s->nsteps; i++)
        links += (size_t)tt_step_accesses(&s->steps[i]).reads * s->steps[i].nchunks;
    struct hazards h = { .v = v, .s = s };
    h.writer = malloc((cells + 1) * sizeof *h.writer);
    h.readers = malloc((cells + 1) * sizeof *h.readers);
    h.links = malloc((links + 1) * sizeof *h.links);
    h.direct = calloc(steps + 1, sizeof *h.direct);
    h.seen = calloc(steps + 1, sizeof *h.seen);
    h.stack = malloc((steps + 1) * sizeof *h.stack);
    bool right = h.writer != NULL && h.readers != NULL && h.links != NULL && h.direct != NULL &&
                 h.seen != NULL && h.stack != NULL;
    if (right) {
        memset(h.writer, 0xff, cells * sizeof *h.writer);
        memset(h.readers, 0xff, cells * sizeof *h.readers);
    } else {
        tt_verify_no_memory(v);
    }
    for (uint32_t i = 0; right && i < s->nsteps; i += s->steps[i].fold_count)
        right = check_unit(&h, i);
    free(h.writer);
    free(h.readers);
    free(h.links);
    free(h.direct);
    free(h.seen);
    free(h.stack);
    return right;
}

bool tt_verify_hazards(struct tt_verifier *v)
{
    for (int r = 0; r < v->n; r++)
        if (!check_hazards_of(v, v->schedules[r]))
            return false;
    return true;
}

/* Cells that one step reads and writes; the incoming value is read at its sender. */
static uint64_t touched(const struct tt_step *step)
{
    struct tt_accesses a = tt_step_accesses(step);
    return step->fold_index > 0 ? 0 : ((uint64_t)a.reads + a.writes) * step->nchunks;
}

static void count(struct tt_verifier *v)
{
    struct tt_proof_report *report = v->report;
    for (int r = 0; r < v->n; r++) {
        const struct tt_schedule *s = v->schedules[r];
        uint64_t sent = 0;
        for (uint32_t i = 0; i < s->nsteps; i++) {
            report->chunks_touched += touched(&s->steps[i]);
            if (s->steps[i].verb == TT_VERB_SEND) {
                report->messages++;
                sent += s->steps[i].nchunks;
            }
        }
        report->chunks_sent += sent;
        report->chunks_sent_max = sent > report->chunks_sent_max ? sent : report->chunks_sent_max;
        report->steps_max = s->nsteps > report->steps_max ? s->nsteps : report->steps_max;
        report->tmp_max = s->tmp_cells > report->tmp_max ? s->tmp_cells : report->tmp_max;
    }
}

bool tt_verifier_open(struct tt_verifier *v, const struct tt_schedule *const *schedules, int n,
    const struct tt_proof *proof, struct tt_proof_report *report)
{
    *report = (struct tt_proof_report){ 0 };
    *v = (struct tt_verifier){ .schedules = schedules, .n = n, .proof = proof, .report = report };
    v->slots = proof->slots > 0 ? (uint32_t)proof->slots : TT_SLOTS_AHEAD;
    v->slices = proof->slices > 0 ? (uint32_t)proof->slices : SLICES;
    uint64_t total = 0, pairs = (uint64_t)n * (uint64_t)n;
    v->base = calloc((size_t)n + 1, sizeof *v->base);
    for (int r = 0; r < n && v->base != NULL; r++) {
        v->base[r] = (uint32_t)total;
        total += schedules[r]->nsteps;
    }
    if (total + (uint64_t)n >= UINT32_MAX / 2)
        return tt_verify_wrong(v, -1, -1, "more steps than the proof can number");
    v->rank_of = malloc((total + 1) * sizeof *v->rank_of);
    v->order = malloc((total + 1) * sizeof *v->order);
    v->sender = malloc((total + 1) * sizeof *v->sender);
    v->receiver = malloc((total + 1) * sizeof *v->receiver);
    v->first_message = malloc((pairs + 1) * sizeof *v->first_message);
    if (v->base == NULL || v->rank_of == NULL || v->order == NULL || v->sender == NULL ||
        v->receiver == NULL || v->first_message == NULL)
        return tt_verify_no_memory(v);
    v->base[n] = v->total = (uint32_t)total;
    for (int r = 0; r < n; r++)
        for (uint32_t i = v->base[r]; i < v->base[r + 1]; i++)
            v->rank_of[i] = (uint32_t)r;
    v->chunks = schedules[0]->chunks;
    return true;
}

void tt_verifier_close(struct tt_verifier *v)
{
    free(v->base);
    free(v->rank_of);
    free(v->order);
    free(v->sender);
    free(v->receiver);
    free(v->first_message);
}

bool tt_verify(const struct tt_schedule *const *schedules, int n, const struct tt_proof *proof,
    struct tt_proof_report *report)
{
    struct tt_verifier v;
    bool proven = tt_verifier_open(&v, schedules, n, proof, report) && tt_verify_shapes(&v);
    if (proven) {
        count(&v);
        proven = tt_verify_messages(&v) && tt_verify_hazards(&v) && tt_verify_order(&v) &&
                 tt_verify_modes(&v) && tt_verify_values(&v) && tt_verify_barrier(&v) &&
                 tt_verify_readers(&v);
    }
    tt_verifier_close(&v);
    return proven;
}
