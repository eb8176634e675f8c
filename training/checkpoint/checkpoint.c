/* SPDX-License-Identifier: BSD-3-Clause */
/* checkpoint.c: all ranks write, or read, the parts of the arrays that are theirs.
 *
 * Each rank writes what it owns at the place where it belongs; rank 0 makes the file before, and after all
 * are done writes the head and gives the file its name. Reading, each rank takes what it holds, and the sums
 * over what it owns, added up over the ranks, must be those of the head. */
#include "training/checkpoint/checkpoint.h"

#include "training/checkpoint/file.h"
#include "training/checkpoint/head.h"
#include "training/run/host.h"
#include "training/run/bfloat16.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SOME = 4096 };

static bool in_step(tutti_comm *ranks, struct tr_error *e)
{
    return !ranks || tutti_barrier(ranks, tutti_no_stream()) == TUTTI_OK ||
           tr_fail(e, "checkpoint: %s", tr_why(ranks));
}

/* The sums of what this rank owns, then of all ranks. */
static bool sum_up(
    const struct tr_runner *r, uint64_t *sums, size_t count, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    memset(sums, 0, count * sizeof *sums);
    for (int n = 0; n < t->n_states; n++)
        for (int kind = 0; kind < TR_KINDS; kind++) {
            struct tr_piece p = tr_piece_owned(r, &t->states[n], kind);
            sums[tr_heading_entry(t->placed->g, t->states[n].parameter) * TR_KINDS + kind] +=
                tr_piece_sum(&p);
        }
    return !ranks ||
           tutti_all_reduce(sums, sums, count, TUTTI_UINT64, TUTTI_SUM, ranks, tutti_no_stream()) ==
               TUTTI_OK ||
           tr_fail(e, "checkpoint: %s", tr_why(ranks));
}

/* ---- saving ---- */

/* As float32, some elements at a time. */
static bool write_piece(const struct tr_piece *p, int file, int64_t at, const char *path, struct tr_error *e)
{
    float some[SOME];
    bool ok = true;
    for (int64_t i = 0; i < p->count && ok; i += SOME) {
        int64_t n = p->count - i < SOME ? p->count - i : SOME;
        tr_piece_get(p, i, n, some);
        ok = tr_write_at(file, some, n * 4, at + i * 4, path, e);
    }
    return ok;
}

static bool write_pieces(
    const struct tr_runner *r, const struct tr_heading *h, int file, const char *path, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    for (int n = 0; n < t->n_states; n++)
        for (int kind = 0; kind < TR_KINDS; kind++) {
            struct tr_piece p = tr_piece_owned(r, &t->states[n], kind);
            int entry = tr_heading_entry(t->placed->g, t->states[n].parameter);
            if (!write_piece(&p, file, tr_heading_place(h, entry, kind, p.from), path, e))
                return false;
        }
    return fsync(file) == 0 || tr_fail(e, "%s cannot be written: %s", path, strerror(errno));
}

static bool write_file(const struct tr_runner *r, struct tr_heading *h, const char *part, const char *path,
    tutti_comm *ranks, struct tr_error *e)
{
    bool first = !ranks || tutti_comm_rank(ranks) == 0;
    size_t sums = (size_t)h->head.entries * TR_KINDS;
    if (first && !tr_file_make(part, h->head.bytes, e))
        return false;
    if (!in_step(ranks, e))
        return false;
    int file = open(part, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return tr_fail(e, "%s cannot be opened by rank %d: %s; legal is a directory that all ranks see", part,
            r->tape->rank, strerror(errno));
    uint64_t *sum = tr_new(sums, sizeof *sum);
    /* No rank has the sums before all have written. */
    bool ok = write_pieces(r, h, file, part, e) && sum_up(r, sum, sums, ranks, e);
    for (size_t i = 0; i < sums && ok; i++)
        h->entries[i / TR_KINDS].sums[i % TR_KINDS] = sum[i];
    if (ok && first)
        ok = tr_heading_write(h, file, part, e) && tr_file_name(file, part, path, e);
    free(sum);
    close(file);
    return ok && in_step(ranks, e);
}

bool tr_checkpoint_save(const struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    struct tr_heading h;
    char part[TR_PATH];
    if (!tr_file_part(part, path, e))
        return false;
    tr_heading_make(&h, p->g, p->plan, r->data->seed);
    h.head.step = r->step * h.updates;
    h.head.norm = r->result.norm;
    tr_data_short_name(r->data, h.head.data.name, sizeof h.head.data.name);
    h.head.data.count = r->data->count, h.head.data.hash = r->data->hash;
    bool ok = write_file(r, &h, part, path, ranks, e);
    if (!ok)
        unlink(part);
    free(h.entries);
    return ok;
}

bool tr_checkpoint_writable(const char *path, struct tr_error *e)
{
    char part[TR_PATH];
    if (!tr_file_part(part, path, e) || !tr_file_make(part, 0, e))
        return false;
    unlink(part);
    return true;
}

/* ---- loading ---- */

static bool open_file(struct tr_heading *h, int *file, const char *path, const struct tr_graph *g,
    const struct tr_plan *p, uint64_t seed, struct tr_error *e)
{
    struct tr_heading run;
    *file = open(path, O_RDONLY | O_CLOEXEC);
    if (*file < 0)
        return tr_fail(e, "%s cannot be read: %s", path, strerror(errno));
    tr_heading_make(&run, g, p, seed);
    bool ok = tr_heading_read(h, *file, path, &run, e);
    free(run.entries);
    if (ok)
        return true;
    free(h->entries);
    close(*file);
    return false;
}

bool tr_checkpoint_peek(struct tr_head *head, const char *path, const struct tr_graph *g,
    const struct tr_plan *p, uint64_t seed, struct tr_error *e)
{
    struct tr_heading h;
    int file;
    if (!open_file(&h, &file, path, g, p, seed, e))
        return false;
    *head = h.head;
    free(h.entries);
    close(file);
    return true;
}

/* The bfloat16 values are those that the run which wrote the file had: rounded masters, of other ranks as
 * well where the optimizer is cut. */
static bool read_rounded(const struct tr_runner *r, const struct tr_heading *h,
    const struct tr_param_state *of, int file, const char *path, struct tr_error *e)
{
    float masters[SOME];
    uint16_t rounded[SOME];
    const struct tr_tape *t = r->tape;
    const struct tr_saved *entry = &h->entries[tr_heading_entry(t->placed->g, of->parameter)];
    int64_t from = tr_values_from(t, of), whole = entry->rows * entry->columns,
            count = tr_count(t, of->values);
    struct tr_context host = r->host;
    count = from + count > whole ? whole - from : count; /* without the padding */
    for (int64_t i = 0; i < count; i += SOME) {
        int64_t n = count - i < SOME ? count - i : SOME;
        if (!tr_read_at(file, masters, n * 4, entry->at + (from + i) * 4, path, e))
            return false;
        tr_round_masters(
            r, &host, of->parameter, rounded, masters, from + i, n, h->head.step - h->head.waits);
        tr_store(r, of->values, i, n, rounded);
    }
    return true;
}

static bool read_piece(const struct tr_piece *p, int file, int64_t at, const char *path, struct tr_error *e)
{
    float some[SOME];
    bool ok = true;
    for (int64_t i = 0; i < p->count && ok; i += SOME) {
        int64_t n = p->count - i < SOME ? p->count - i : SOME;
        ok = tr_read_at(file, some, n * 4, at + i * 4, path, e);
        if (ok)
            tr_piece_put(p, i, n, some);
    }
    return ok;
}

static bool read_pieces(const struct tr_runner *r, const struct tr_heading *h, int kinds, int file,
    const char *path, struct tr_error *e)
{
    const struct tr_tape *t = r->tape;
    for (int n = 0; n < t->n_states; n++) {
        for (int kind = 0; kind < kinds; kind++) {
            struct tr_piece p = tr_piece_held(r, &t->states[n], kind);
            int entry = tr_heading_entry(t->placed->g, t->states[n].parameter);
            if (!read_piece(&p, file, tr_heading_place(h, entry, kind, p.from), path, e))
                return false;
        }
        bool rounded = t->values[t->states[n].values].element == TR_BFLOAT16;
        if (rounded && !read_rounded(r, h, &t->states[n], file, path, e))
            return false;
    }
    return true;
}

/* The first kinds of arrays, with their checksums. */
static bool read_kinds(struct tr_runner *r, const struct tr_heading *h, size_t kinds, int file,
    const char *path, tutti_comm *ranks, struct tr_error *e)
{
    size_t sums = (size_t)h->head.entries * TR_KINDS;
    uint64_t *sum = tr_new(sums, sizeof *sum);
    bool ok = read_pieces(r, h, (int)kinds, file, path, e) && sum_up(r, sum, sums, ranks, e);
    for (size_t i = 0; i < sums && ok; i++)
        if (i % TR_KINDS < kinds && sum[i] != h->entries[i / TR_KINDS].sums[i % TR_KINDS])
            ok = tr_fail(e, "%s is damaged: the checksum of %s of %s is wrong", path,
                tr_kind_names[i % TR_KINDS], h->entries[i / TR_KINDS].name);
    free(sum);
    return ok;
}

bool tr_checkpoint_load(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    struct tr_heading h;
    int file;
    if (!open_file(&h, &file, path, p->g, p->plan, r->data->seed, e))
        return false;
    bool ok = read_kinds(r, &h, TR_KINDS, file, path, ranks, e);
    r->step = h.head.step;
    r->result.norm = h.head.norm;
    tr_host_follow(r);
    free(h.entries);
    close(file);
    return ok;
}

/* Where values lie depends on what lies between them, and so the file is held against a run that had that. */
bool tr_checkpoint_load_values(struct tr_runner *r, const char *path, tutti_comm *ranks, struct tr_error *e)
{
    const struct tr_placed *p = r->tape->placed;
    struct tr_plan as = *p->plan;
    struct tr_heading h;
    int file;
    if (!tr_heading_open(&h, &file, path, e))
        return false;
    as.optimizer.sgd = !h.head.adamw, as.offload.delay = (int)h.head.waits;
    uint64_t seed = (uint64_t)h.head.seed;
    free(h.entries), close(file);
    if (!open_file(&h, &file, path, p->g, &as, seed, e))
        return false;
    bool ok = read_kinds(r, &h, TR_VALUES + 1, file, path, ranks, e);
    free(h.entries);
    close(file);
    return ok;
}
