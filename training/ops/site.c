/* SPDX-License-Identifier: BSD-3-Clause */
/* site.c: what operations have in common: trees over sequences, and parts of weights. */
#include "training/ops/site.h"

void tr_levels_of(const struct tr_call *c, int64_t kernel_floats, int64_t count, float *level[32])
{
    float *p = c->scratch + tr_lines(kernel_floats);
    for (int l = 0; (c->n - 1) >> l && l < 32; l++, p += count)
        level[l] = p;
}

void tr_carry(const struct tr_call *c, float *to, float *from, const struct tr_copy *pieces, bool back)
{
    const struct tr_copy *p = pieces;
    struct tr_copy turned = { { p->n[0], p->n[1], p->n[2] }, { p->from[0], p->from[1], p->from[2] },
        { p->to[0], p->to[1], p->to[2] }, p->bytes };
    c->k->copy(c->x, back ? from : to, back ? to : from, back ? &turned : p);
}

struct tr_tokens tr_tokens_of(const struct tr_call *c, int64_t runs)
{
    const struct tr_operand *x = &c->in[0];
    return (struct tr_tokens){ c->n * runs, x->d[1] / runs, x->d[2], c->block };
}

void tr_chunks_of(const struct tr_tensor *w, int64_t local, int64_t *chunks, int64_t *chunk)
{
    *chunk = w->size[0] / TR_CUT;
    *chunks = local / *chunk;
}

int64_t tr_first_row(const struct tr_call *c, const struct tr_tensor *whole, int64_t local)
{
    return local < whole->size[0] ? c->tp_rank * local : 0;
}
