/* SPDX-License-Identifier: BSD-3-Clause */
/* pieces.c: where what a rank holds lies in the canonical flat arrays. */
#include "training/checkpoint/pieces.h"

#include "training/tape/compute.h"

#include <string.h>

const char *const tr_kind_names[TR_KINDS] = { "values", "m", "v" };

/* Without the padding at the end of the rows. */
static struct tr_piece cut(const struct tr_tensor *w, float *at, int64_t from, int64_t count)
{
    int64_t whole = w->rows * (w->dims > 1 ? w->size[1] : 1);
    if (from + count > whole)
        count = whole - from;
    return (struct tr_piece){ at, from, count > 0 ? count : 0 };
}

int tr_kept_values(const struct tr_holding *h)
{
    return h->wide >= 0 ? h->wide : h->values;
}

struct tr_piece tr_piece_held(const struct tr_runner *r, const struct tr_holding *h, enum tr_kind kind)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    int value = kind == TR_VALUES ? tr_kept_values(h) : kind == TR_M ? h->m : h->v;
    const struct tr_holding *home = tr_holding_of((struct tr_tape *)t, g->tensors[h->parameter].values_of);
    bool lent = home && home != h;
    bool rounded = value >= 0 && t->values[value].element == TR_BFLOAT16; /* a server has the master */
    if (value < 0 || lent || rounded) /* a tied head beside its embedding has nothing of its own */
        return (struct tr_piece){ NULL, 0, 0 };
    int64_t from = value == h->values ? tr_values_from(t, h) : tr_updated_from(t, h);
    return cut(&g->tensors[h->parameter], tr_at(r, value), from, tr_count(t, value));
}

struct tr_piece tr_piece_owned(const struct tr_runner *r, const struct tr_holding *h, enum tr_kind kind)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    struct tr_piece p = tr_piece_held(r, h, kind);
    if (g->tensors[h->parameter].values_of != h->parameter || !tr_owns(t, h) || !p.at)
        return (struct tr_piece){ NULL, 0, 0 };
    if (kind == TR_VALUES && h->wide < 0)
        p.at += h->shard_from;
    return cut(&g->tensors[h->parameter], p.at, tr_updated_from(t, h), h->shard_count);
}

uint64_t tr_piece_sum(const struct tr_piece *p)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < p->count; i++) {
        uint32_t bits;
        memcpy(&bits, &p->at[i], sizeof bits);
        sum += tr_hash(((uint64_t)(p->from + i) << 32) + bits);
    }
    return sum;
}
