/* SPDX-License-Identifier: BSD-3-Clause */
/* pieces.c: where what a rank holds lies in the canonical flat arrays. */
#include "training/checkpoint/pieces.h"

#include "training/run/host.h"

#include <string.h>

enum { SOME = 1024 };

const char *const tr_kind_names[TR_KINDS] = { "values", "m", "v", "the waiting gradient" };

/* Without the padding at the end of the rows. */
static struct tr_piece cut(const struct tr_tensor *w, struct tr_piece p, int64_t from, int64_t count)
{
    int64_t whole = w->rows * (w->dims > 1 ? w->size[1] : 1);
    if (from + count > whole)
        count = whole - from;
    p.from = from, p.count = count > 0 ? count : 0;
    return p;
}

int tr_kept_values(const struct tr_param_state *h)
{
    return h->master >= 0 ? h->master : h->values;
}

struct tr_piece tr_piece_held(const struct tr_runner *r, const struct tr_param_state *h, enum tr_kind kind)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    const int values[TR_KINDS] = { tr_kept_values(h), h->m, h->v, h->waiting };
    int value = values[kind];
    const struct tr_param_state *home =
        tr_param_state_of((struct tr_tape *)t, g->tensors[h->parameter].values_of);
    bool lent = home && home != h, narrow = value >= 0 && t->values[value].element == TR_BFLOAT16;
    bool rounded = narrow && kind == TR_VALUES; /* a server has the master */
    struct tr_piece p = { .at = NULL };
    if (value < 0 || lent || rounded) /* a tied head beside its embedding has nothing of its own */
        return p;
    p.r = r, p.value = value, p.narrow = narrow;
    int64_t from = value == h->values ? tr_values_from(t, h) : tr_updated_from(t, h);
    return cut(&g->tensors[h->parameter], p, from, tr_count(t, value));
}

struct tr_piece tr_piece_rounded(const struct tr_runner *r, const struct tr_param_state *h)
{
    const struct tr_tape *t = r->tape;
    bool rounded = t->values[h->values].element == TR_BFLOAT16;
    struct tr_piece p = { .r = r, .value = h->values, .narrow = rounded };
    return cut(
        &t->placed->g->tensors[h->parameter], p, tr_values_from(t, h), rounded ? tr_count(t, h->values) : 0);
}

struct tr_piece tr_piece_owned(const struct tr_runner *r, const struct tr_param_state *h, enum tr_kind kind)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    struct tr_piece p = tr_piece_held(r, h, kind);
    if (g->tensors[h->parameter].values_of != h->parameter || !tr_owns(t, h) || !p.r)
        return (struct tr_piece){ .at = NULL };
    if (kind == TR_VALUES && h->master < 0)
        p.first = h->shard_from;
    return cut(&g->tensors[h->parameter], p, tr_updated_from(t, h), h->shard_count);
}

void tr_piece_get(const struct tr_piece *p, int64_t i, int64_t count, float *to)
{
    if (p->at)
        memcpy(to, p->at + i, (size_t)count * sizeof *to);
    else if (!p->narrow)
        tr_fetch(p->r, p->value, p->first + i, count, to);
    for (int64_t n = 0; n < count && p->narrow; n += SOME) {
        uint16_t halves[SOME];
        int64_t some = count - n < SOME ? count - n : SOME;
        tr_fetch(p->r, p->value, p->first + i + n, some, halves);
        for (int64_t x = 0; x < some; x++) {
            uint32_t bits = (uint32_t)halves[x] << 16;
            memcpy(&to[n + x], &bits, sizeof bits);
        }
    }
}

void tr_piece_put(const struct tr_piece *p, int64_t i, int64_t count, const float *from)
{
    if (!p->narrow)
        tr_store(p->r, p->value, p->first + i, count, from);
    for (int64_t n = 0; n < count && p->narrow; n += SOME) {
        uint16_t halves[SOME];
        int64_t some = count - n < SOME ? count - n : SOME;
        for (int64_t x = 0; x < some; x++) {
            uint32_t bits;
            memcpy(&bits, &from[n + x], sizeof bits);
            halves[x] = (uint16_t)(bits >> 16);
        }
        tr_store(p->r, p->value, p->first + i + n, some, halves);
    }
}

uint64_t tr_piece_sum(const struct tr_piece *p)
{
    float some[SOME];
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->count; i++) {
        uint32_t bits;
        if (i % SOME == 0)
            tr_piece_get(p, i, p->count - i < SOME ? p->count - i : SOME, some);
        memcpy(&bits, &some[i % SOME], sizeof bits);
        sum += tr_hash(((uint64_t)(p->from + i) << 32) + bits);
    }
    return sum;
}
