/* SPDX-License-Identifier: BSD-3-Clause */
/* head.c: the head of a checkpoint: made, written, read, and held against the run. */
#include "training/checkpoint/head.h"

#include "training/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a checkpoint is little-endian; on this machine its numbers must be swapped"
#endif

/* docs/training-models.md tells where things lie. */
_Static_assert(sizeof(struct tr_head) == 344 && sizeof(struct tr_saved) == 96, "a checkpoint has padding");

enum { FIRST_ALIGN = 4096, MOST_ENTRIES = 1 << 20, CELLS = 64 };
static const char magic[8] = { 'T', 'U', 'T', 'T', 'I', 'C', 'K', 'P' };

int tr_heading_entry(const struct tr_graph *g, int parameter)
{
    int n = 0, home = g->tensors[parameter].values_of;
    for (int i = 0; i < home; i++)
        n += g->tensors[i].role == TR_PARAMETER && g->tensors[i].values_of == i;
    return n;
}

int64_t tr_heading_place(const struct tr_heading *h, int entry, enum tr_kind kind, int64_t element)
{
    const struct tr_saved *e = &h->entries[entry];
    int64_t array = kind == TR_WAITING && !h->head.adamw ? 1 : (int64_t)kind;
    return e->at + (array * e->rows * e->columns + element) * 4;
}

/* Bytes of a head of this version. */
static int64_t head_bytes(uint32_t version)
{
    return version == 2   ? (int64_t)offsetof(struct tr_head, capacity)
           : version == 3 ? (int64_t)offsetof(struct tr_head, course)
           : version == 4 ? (int64_t)offsetof(struct tr_head, dropout)
                          : (int64_t)sizeof(struct tr_head);
}

/* Where arrays lie depends on the size of the head. */
static void lay_out(struct tr_heading *h)
{
    int64_t at = head_bytes(h->head.version) + (int64_t)(h->head.entries * sizeof *h->entries);
    at = h->head.first = (at + FIRST_ALIGN - 1) / FIRST_ALIGN * FIRST_ALIGN;
    for (uint32_t i = 0; i < h->head.entries; i++) {
        h->entries[i].at = at;
        at = tr_heading_place(
            h, (int)i, TR_WAITING, h->entries[i].rows * h->entries[i].columns * h->head.waits);
    }
    h->head.bytes = at;
}

void tr_heading_make(struct tr_heading *h, const struct tr_graph *g, const struct tr_plan *p, uint64_t seed)
{
    h->head = (struct tr_head){ .version = TR_CHECKPOINT_VERSION,
        .layers = g->layers,
        .channels = g->channels,
        .heads = g->heads,
        .context = g->context,
        .vocabulary = g->vocabulary,
        .inputs = g->inputs,
        .adamw = !p->optimizer.sgd,
        .waits = p->offload.delay,
        .seed = (int64_t)seed,
        .batch = p->batch / tr_updates(p),
        .rate = p->optimizer.rate,
        .decay = p->optimizer.decay,
        .clip = p->optimizer.clip,
        .capacity = g->capacity,
        .balance = g->balance,
        .bfloat16 = p->numbers.bfloat16,
        .stochastic = p->numbers.stochastic,
        .course = { p->optimizer.curve, p->optimizer.warmup, p->optimizer.until, p->optimizer.least },
        .dropout = g->dropout.part };
    memcpy(h->head.magic, magic, sizeof magic);
    snprintf(h->head.model, sizeof h->head.model, "%s", g->model);
    if (g->experts) /* how many a token has shows in no parameter */
        snprintf(h->head.model, sizeof h->head.model, "moe %u of %u", (unsigned)g->choices & 0xFFFF,
            (unsigned)g->experts & 0xFFFF);
    h->updates = tr_updates(p);
    h->entries = tr_new((size_t)g->n_tensors, sizeof *h->entries);
    for (int i = 0; i < g->n_tensors; i++) {
        const struct tr_tensor *w = &g->tensors[i];
        if (w->role != TR_PARAMETER)
            continue;
        h->head.tied |= w->values_of != i;
        if (w->values_of != i)
            continue;
        struct tr_saved *to = &h->entries[h->head.entries++];
        snprintf(to->name, sizeof to->name, "%s", w->name);
        to->rows = w->rows, to->columns = w->dims > 1 ? w->size[1] : 1;
    }
    lay_out(h);
}

static uint64_t sum_words(const void *from, size_t bytes, uint64_t first)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < bytes / 4; i++) {
        uint32_t word;
        memcpy(&word, (const char *)from + 4 * i, sizeof word);
        sum += tr_hash(((first + i) << 32) + word);
    }
    return sum;
}

static uint64_t sum_heading(const struct tr_heading *h)
{
    struct tr_head head = h->head;
    size_t bytes = (size_t)head_bytes(head.version);
    head.sum = 0;
    return sum_words(&head, bytes, 0) +
           sum_words(h->entries, h->head.entries * sizeof *h->entries, bytes / 4);
}

bool tr_heading_write(struct tr_heading *h, int file, const char *path, struct tr_error *e)
{
    h->head.sum = sum_heading(h);
    return tr_write_at(file, &h->head, sizeof h->head, 0, path, e) &&
           tr_write_at(
               file, h->entries, (int64_t)(h->head.entries * sizeof *h->entries), sizeof h->head, path, e);
}

/* A sequence of a cnn is the cells of a square grid, which has an option. */
static int64_t side_of(int64_t cells)
{
    int64_t side = 1;
    while (side * side < cells)
        side++;
    return side;
}

/* The first thing in which the file and the run differ. */
static bool fits(
    const struct tr_heading *h, const char *path, const struct tr_heading *run, struct tr_error *e)
{
    const struct tr_head *a = &h->head, *b = &run->head;
    bool cells = !b->heads && b->context >= CELLS && a->context > 0 && a->context <= INT32_MAX;
    const struct {
        const char *what;
        int64_t there, here;
    } numbers[] = { { "layers", a->layers, b->layers }, { "channels", a->channels, b->channels },
        { "heads", a->heads, b->heads },
        { cells ? "grid" : "context", cells ? side_of(a->context) : a->context,
            cells ? side_of(b->context) : b->context },
        { "vocabulary", a->vocabulary, b->vocabulary },
        { cells ? "planes" : "inputs", cells ? a->inputs / 4 : a->inputs, cells ? b->inputs / 4 : b->inputs },
        { "seed", a->seed, b->seed } };
    if (strcmp(a->model, b->model))
        return tr_fail(e, "%s is of model %s, and this run is of %s", path, a->model, b->model);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i].there != numbers[i].here)
            return tr_fail(e,
                "%s is of a run with %s %" PRId64 ", and this one has %" PRId64 "; legal is --%s %" PRId64,
                path, numbers[i].what, numbers[i].there, numbers[i].here, numbers[i].what, numbers[i].there);
    if (a->tied != b->tied)
        return tr_fail(e, "%s has a %s head, and this run has not; legal is to start it %s --untied", path,
            a->tied ? "tied" : "separate", a->tied ? "without" : "with");
    if (a->adamw != b->adamw)
        return tr_fail(e, "%s is of optimizer %s, and this run has %s; legal is --optimizer %s", path,
            a->adamw ? "adamw" : "sgd", b->adamw ? "adamw" : "sgd", a->adamw ? "adamw" : "sgd");
    if (a->waits != b->waits)
        return tr_fail(e,
            "%s has %s gradient that waits (--offload-delay 1), and this run has %s; legal is %s", path,
            a->waits ? "a" : "no", b->waits ? "one" : "none",
            a->waits ? "--offload optimizer --offload-delay 1" : "to leave --offload-delay out");
    if (a->step % run->updates)
        return tr_fail(e,
            "%s is of a run after %" PRId64 " updates, and a step of this one makes %d, of which it may not "
            "begin in the middle; legal is another --micro",
            path, a->step, run->updates);
    for (uint32_t i = 0; i < a->entries && i < b->entries; i++) {
        const struct tr_saved *x = &h->entries[i], *y = &run->entries[i];
        if (strcmp(x->name, y->name) || x->rows != y->rows || x->columns != y->columns || x->at != y->at)
            return tr_fail(e,
                "%s has %s of %" PRId64 " x %" PRId64 " where this run has %s of %" PRId64 " x %" PRId64,
                path, x->name, x->rows, x->columns, y->name, y->rows, y->columns);
    }
    if (a->entries != b->entries || a->bytes != b->bytes || a->first != b->first)
        return tr_fail(e,
            "%s has %" PRIu32 " parameters in %" PRId64 " bytes, and this run %" PRIu32 " in %" PRId64, path,
            a->entries, a->bytes, b->entries, b->bytes);
    return true;
}

/* The part of the head that its version has. */
static bool read_head(struct tr_head *head, int file, int64_t bytes, const char *path, struct tr_error *e)
{
    int64_t oldest = head_bytes(TR_CHECKPOINT_OLDEST), known = bytes < oldest ? bytes : oldest;
    if (!tr_read_at(file, head, known, 0, path, e))
        return false;
    if (memcmp(head->magic, magic, sizeof magic))
        return tr_fail(e, "%s is no checkpoint of tutti-train: it does not begin with TUTTICKP", path);
    if (known < oldest || head->bytes > bytes)
        return tr_fail(e, "%s is cut: it has %" PRId64 " bytes, and its head says %" PRId64, path, bytes,
            known < oldest ? 0 : head->bytes);
    if (head->version < TR_CHECKPOINT_OLDEST || head->version > TR_CHECKPOINT_VERSION)
        return tr_fail(e, "%s is of version %" PRIu32 "; legal are %d to %d", path, head->version,
            TR_CHECKPOINT_OLDEST, TR_CHECKPOINT_VERSION);
    int64_t all = head_bytes(head->version);
    if (bytes < all)
        return tr_fail(e, "%s is damaged: the checksum of its head is wrong", path);
    return tr_read_at(file, (char *)head + oldest, all - oldest, oldest, path, e);
}

/* Without a run to hold it against: arrays lie where a head of its version has them. */
static bool lies_so(struct tr_heading *h, const char *path, struct tr_error *e)
{
    struct tr_heading as = { .head = h->head, .entries = tr_new(h->head.entries, sizeof *h->entries) };
    bool ok = h->head.waits == 0 || h->head.waits == 1;
    for (uint32_t i = 0; i < h->head.entries; i++) {
        int64_t rows = h->entries[i].rows, columns = h->entries[i].columns;
        ok = ok && rows > 0 && columns > 0 && rows <= h->head.bytes / columns;
        as.entries[i] = h->entries[i];
        h->entries[i].name[sizeof h->entries[i].name - 1] = 0;
    }
    if (ok)
        lay_out(&as);
    for (uint32_t i = 0; ok && i < h->head.entries; i++)
        ok = as.entries[i].at == h->entries[i].at;
    ok = ok && as.head.bytes == h->head.bytes && as.head.first == h->head.first;
    free(as.entries);
    return ok || tr_fail(e, "%s is damaged: its head does not say where its arrays lie", path);
}

bool tr_heading_read(
    struct tr_heading *h, int file, const char *path, struct tr_heading *run, struct tr_error *e)
{
    struct stat s;
    *h = (struct tr_heading){ .entries = NULL };
    if (fstat(file, &s) || !S_ISREG(s.st_mode))
        return tr_fail(e, "%s is not a file", path);
    if (!read_head(&h->head, file, s.st_size, path, e))
        return false;
    int64_t table = (int64_t)h->head.entries * (int64_t)sizeof *h->entries,
            head = head_bytes(h->head.version);
    bool sane = h->head.entries <= MOST_ENTRIES && head + table <= s.st_size;
    h->entries = tr_new(sane ? h->head.entries : 1, sizeof *h->entries);
    if (sane && !tr_read_at(file, h->entries, table, head, path, e))
        return false;
    if (!sane || h->head.bytes != s.st_size || sum_heading(h) != h->head.sum)
        return tr_fail(e, "%s is damaged: the checksum of its head is wrong", path);
    h->head.model[sizeof h->head.model - 1] = h->head.data.name[sizeof h->head.data.name - 1] = 0;
    if (!run)
        return lies_so(h, path, e);
    run->head.version = h->head.version;
    lay_out(run);
    if (!fits(h, path, run, e))
        return false;
    h->head.step /= run->updates, h->head.batch *= run->updates;
    return true;
}

bool tr_heading_open(struct tr_heading *h, int *file, const char *path, struct tr_error *e)
{
    *file = open(path, O_RDONLY | O_CLOEXEC);
    if (*file < 0)
        return tr_fail(e, "%s cannot be read: %s", path, strerror(errno));
    if (tr_heading_read(h, *file, path, NULL, e))
        return true;
    free(h->entries);
    close(*file);
    return false;
}
