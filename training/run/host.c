/* SPDX-License-Identifier: BSD-3-Clause */
/* host.c: copies between the two memories.
 *
 * For the kernels of the processor both are memory of this machine. What the tape says of them holds for a
 * device with a memory of its own: nothing but these copies goes from one to the other. */
#include "training/run/host.h"

#include "training/run/compute.h"

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
    enum { PIECE = 1024 };
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

void tr_host_copy(struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_value *from = &r->tape->values[i->in[0]];
    r->arena.b->copy_later(r->x, element_at(r, i->out[0], i->place), tr_at(r, i->in[0]), from->bytes);
    tr_ledger_count(&r->copies_counted, r->tape, i, i->code, from->bytes);
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
