/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: copies between the two memories, and what else the processor has of values: parameters at first,
 * and after a step.
 *
 * For the kernels of the processor both are memory of this machine. What the tape says of them holds for a
 * device with a memory of its own: nothing but these copies goes from one to the other. */
#include "training/run/host.h"

#include "training/run/bfloat16.h"
#include "training/run/compute.h"

#include <stddef.h>
#include <stdlib.h>

enum { PIECE = 1024 };

static unsigned char *element_at(const struct tr_runner *r, int value, int64_t n)
{
    return (unsigned char *)tr_at(r, value) + n * tr_element_bytes(r->tape->values[value].element);
}

void tr_fetch(const struct tr_runner *r, int value, int64_t from, int64_t count, void *to)
{
    int64_t bytes = count * tr_element_bytes(r->tape->values[value].element);
    r->arena.b->copy(r->x, to, element_at(r, value, from), bytes);
}

void tr_store(const struct tr_runner *r, int value, int64_t from, int64_t count, const void *elements)
{
    int64_t bytes = count * tr_element_bytes(r->tape->values[value].element);
    r->arena.b->copy(r->x, element_at(r, value, from), elements, bytes);
}

/* bfloat16 is the upper half of float32. */
static double number_of(uint16_t half)
{
    union {
        uint32_t bits;
        float number;
    } x = { .bits = (uint32_t)half << 16 };
    return (double)x.number;
}

void tr_fetch_numbers(const struct tr_runner *r, int value, int64_t from, int64_t count, double *to)
{
    enum tr_element e = r->tape->values[value].element;
    if (e == TR_FLOAT64) {
        tr_fetch(r, value, from, count, to);
        return;
    }
    for (int64_t i = 0; i < count; i += PIECE) {
        int64_t n = count - i < PIECE ? count - i : PIECE;
        float floats[PIECE];
        uint16_t halves[PIECE];
        tr_fetch(r, value, from + i, n, e == TR_BFLOAT16 ? (void *)halves : floats);
        for (int64_t x = 0; x < n; x++)
            to[i + x] = e == TR_BFLOAT16 ? number_of(halves[x]) : (double)floats[x];
    }
}

/* ---- copies between the memories ---- */

bool tr_copies_open(struct tr_runner *r, struct tr_error *e)
{
    struct tr_copying *c = &r->copies;
    if (!r->arena.b->apart || !c->predicted.n)
        return true;
    tr_waits_make(&c->waits, r->tape);
    c->points = tr_new((size_t)r->tape->n_instrs, sizeof *c->points);
    return r->arena.b->make_stream(r->x, &c->stream, e) &&
           r->arena.b->record(r->x, c->stream, &c->last) == TUTTI_OK;
}

void tr_copies_close(struct tr_runner *r)
{
    if (r->copies.stream.handle)
        r->arena.b->end_stream(r->x, r->copies.stream);
    if (r->copies.points)
        tr_waits_free(&r->copies.waits);
    free(r->copies.points);
}

/* An audit looks at the memory after each instruction, and so all is in the list's order there. */
static bool beside(const struct tr_runner *r)
{
    return r->copies.stream.handle && !r->audited;
}

/* A step begins with what the one before has done, whatever of that the copies use. */
void tr_copies_before(struct tr_runner *r, int n)
{
    const struct tr_copying *c = &r->copies;
    const struct tr_backend *b = r->arena.b;
    uint64_t begin;
    if (!beside(r))
        return;
    if (n == 0 && b->record(r->x, r->own, &begin) == TUTTI_OK)
        b->after(r->x, c->stream, r->own, begin);
    if (c->waits.copy[n] >= 0)
        b->after(r->x, r->own, c->stream, c->points[c->waits.copy[n]]);
}

/* And it ends when the copies do. */
void tr_copies_after(struct tr_runner *r, int n)
{
    struct tr_copying *c = &r->copies;
    if (!beside(r))
        return;
    if (c->waits.awaited[n])
        r->arena.b->record(r->x, r->own, &c->points[n]);
    if (n == r->tape->n_instrs - 1)
        r->arena.b->after(r->x, r->own, c->stream, c->last);
}

void tr_copies_wait(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_copying *c = &r->copies;
    if (!beside(r)) {
        r->arena.b->sync(r->x);
        return;
    }
    int copy = c->waits.copy[i - r->tape->instrs];
    r->arena.b->wait(r->x, c->stream, copy >= 0 ? c->points[copy] : c->last);
}

void tr_host_copy(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_value *from = &r->tape->values[i->in[0]];
    const struct tr_backend *b = r->arena.b;
    struct tr_copying *c = &r->copies;
    ptrdiff_t n = i - r->tape->instrs;
    tutti_stream on = beside(r) ? c->stream : r->own;
    if (beside(r) && c->waits.after[n] >= 0)
        b->after(r->x, on, r->own, c->points[c->waits.after[n]]);
    if (beside(r))
        tr_mark_beside(r, i, false, on);
    b->copy_later(r->x, on, element_at(r, i->out[0], i->place), tr_at(r, i->in[0]), from->bytes);
    if (beside(r)) {
        tr_mark_beside(r, i, true, on);
        b->record(r->x, on, &c->last);
        c->points[n] = c->last;
    }
    tr_ledger_count(&r->copies.counted, r->tape, i, i->code, from->bytes);
}

void tr_host_follow(struct tr_runner *r)
{
    for (int n = 0; n < r->tape->n_states; n++) {
        const struct tr_param_state *h = &r->tape->states[n];
        if (h->on_host >= 0 && h->master < 0)
            r->arena.b->copy(r->x, tr_at(r, h->on_host), element_at(r, h->values, h->shard_from),
                h->shard_count * (int64_t)sizeof(float));
    }
}

/* ---- parameters ---- */

/* Elements of the whole tensor, from `from` on; the padding is 0. */
static void fill(const struct tr_runner *r, const struct tr_tensor *w, int64_t tensor, float *to,
    int64_t from, int64_t count)
{
    int64_t whole = w->rows * (w->dims > 1 ? w->size[1] : 1);
    for (int64_t i = 0; i < count; i++)
        if (from + i >= whole)
            to[i] = 0;
        else if (w->deviation > 0)
            to[i] = (float)(w->deviation * tr_normal(r->data->seed, tensor, from + i));
        else
            to[i] = w->first;
}

/* The values of a parameter, or its masters, from element `from` of the whole tensor on. */
static void initialise_value(struct tr_runner *r, const struct tr_param_state *h, int value, int64_t from)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    int of = g->tensors[h->parameter].values_of;
    int64_t count = tr_count(t, value);
    for (int64_t i = 0; i < count; i += PIECE) {
        float piece[PIECE];
        uint16_t rounded[PIECE];
        int64_t some = count - i < PIECE ? count - i : PIECE;
        bool rounds = t->values[value].element == TR_BFLOAT16;
        fill(r, &g->tensors[of], tr_ordinal(g, of), piece, from + i, some);
        if (rounds)
            tr_round_masters(r, &r->host, h->parameter, rounded, piece, from + i, some, 0);
        tr_store(r, value, i, some, rounds ? (void *)rounded : piece);
    }
}

void tr_initialise(struct tr_runner *r, const struct tr_param_state *h)
{
    const struct tr_tape *t = r->tape;
    initialise_value(r, h, h->values, tr_values_from(t, h));
    if (h->master >= 0)
        initialise_value(r, h, h->master, tr_updated_from(t, h));
    const int zeros[] = { h->m, h->m >= 0 ? h->v : -1, h->waiting }; /* no gradient waits yet */
    for (int i = 0; i < 3; i++)
        if (zeros[i] >= 0)
            r->arena.b->clear(r->x, tr_at(r, zeros[i]), 0, t->values[zeros[i]].bytes);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void tr_runner_read(const struct tr_runner *r, int parameter, int what, float *to)
{
    const struct tr_tape *t = r->tape;
    const struct tr_tensor *w = &t->placed->g->tensors[parameter];
    for (int n = 0; n < t->n_states; n++) {
        const struct tr_param_state *h = &t->states[n];
        bool works = t->mesh->servers && t->server < 0;
        bool rounded = h->master < 0 && t->values[h->values].element == TR_BFLOAT16;
        if (h->parameter != parameter || (works && what) || (rounded && !what))
            continue; /* a worker's gradient is a part of the sum, and servers have the masters */
        bool master = !what && h->master >= 0;
        int value = what ? h->gradient : master ? h->master : h->values;
        int64_t count = what || master ? h->shard_count : tr_count(t, value),
                columns = w->dims > 1 ? w->size[1] : 1;
        int64_t from = what || master ? tr_updated_from(t, h) : tr_values_from(t, h);
        int64_t here = w->rows * columns - from; /* the padding has no place there */
        for (int64_t i = 0; i < count && i < here; i += PIECE) {
            double numbers[PIECE];
            int64_t some = least(PIECE, least(count, here) - i);
            tr_fetch_numbers(r, value, i, some, numbers);
            for (int64_t x = 0; x < some; x++)
                to[from + i + x] = (float)numbers[x];
        }
    }
}
