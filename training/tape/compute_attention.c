/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_attention.c: attention, whole or in parts that a ring brings, and the layouts of its operands. */
#include "training/tape/call.h"

#include <string.h>

/* Queries, keys and values are one operand, or q and kv are two. */
void tr_attention(const struct tr_call *c)
{
    bool back = c->i->op == TR_ATTENTION_DX || c->i->op == TR_ATTEND_DX; /* in: dy, y, lse, q, kv */
    bool apart = c->i->op == TR_ATTEND || c->i->op == TR_ATTEND_DX;
    const struct tr_operand *lse = back ? &c->in[2] : &c->out[1], *x = back ? &c->in[3] : &c->in[0];
    int64_t heads = lse->d[1], queries = lse->d[2], size = c->g->channels / c->g->heads;
    struct tr_attention a = { c->g->context, heads, size, c->block, c->i->first, queries, apart, 0 };
    int64_t y = queries * heads * size, of_q = apart ? y : 3 * y,
            of_kv = apart ? 2 * a.tokens * heads * size : of_q;
    const float *kv = apart ? x[1].p : x[0].p + size;
    float *dkv = apart ? c->out[1].p : c->out[0].p + size;
    for (int64_t s = 0; s < c->n; s++)
        if (back)
            c->k->attention_dx(c->out[0].p + s * of_q, dkv + s * of_kv, c->in[0].p + s * y,
                c->in[1].p + s * y, lse->p + s * heads * queries, x[0].p + s * of_q, kv + s * of_kv, &a,
                c->scratch);
        else
            c->k->attention(c->out[0].p + s * y, lse->p + s * heads * queries, x[0].p + s * of_q,
                kv + s * of_kv, &a, c->scratch);
}

/* Attention with the keys of the rank `turn` before, or its gradients. Round the end of the ring come keys
 * that no query here sees. */
static void attention_part(const struct tr_call *c)
{
    bool back = c->i->op == TR_ATTEND_PART_DX; /* in: dy, y, lse, q, kv */
    const struct tr_operand *q = back ? &c->in[3] : &c->in[0], *kv = q + 1;
    int64_t size = c->g->channels / c->g->heads, heads = q->d[2] / size, t = q->d[1], y = t * heads * size;
    int64_t rank = (c->cp_rank - c->i->turn + c->cp) % c->cp;
    struct tr_attention a = { t, heads, size, c->block, c->i->first, t, true, rank * t };
    for (int64_t s = 0; s < c->n; s++)
        if (back)
            c->k->attention_dx(c->out[0].p + s * y, c->out[1].p + s * 2 * y, c->in[0].p + s * y,
                c->in[1].p + s * y, c->in[2].p + s * heads * t, q->p + s * y, kv->p + s * 2 * y, &a,
                c->scratch);
        else
            c->k->attention_part(
                c->out[0].p + s * (y + 2 * heads * t), q->p + s * y, kv->p + s * 2 * y, &a, c->scratch);
}

/* Input j is of the keys of the rank j before; those of ranks behind this one no query here sees. */
static void attention_merge(const struct tr_call *c)
{
    int64_t t = c->in[0].d[1], heads = c->out[1].d[1], size = c->g->channels / c->g->heads;
    struct tr_attention a = { .heads = heads, .size = size, .queries = t };
    for (int64_t s = 0; s < c->n; s++) {
        float *part[TR_INS];
        for (int64_t rank = 0; rank <= c->cp_rank; rank++)
            part[rank] = c->in[c->cp_rank - rank].p + s * heads * t * (size + 2);
        c->k->attention_merge(c->out[0].p + s * t * heads * size, c->out[1].p + s * heads * t, part,
            c->cp_rank + 1, &a, c->scratch);
    }
}

/* The tree over the ranks that the inputs are of, in place: input j is of the rank j before, or j behind. */
static void sum_parts(const struct tr_call *c)
{
    int64_t count = c->n * c->out[0].d[1] * c->out[0].d[2];
    float *part[TR_INS];
    for (int64_t j = 0; j < c->cp; j++) {
        int64_t by = c->i->op == TR_SUM_KEYS ? -j : j;
        part[(c->cp_rank + by + c->cp) % c->cp] = c->in[j].p;
    }
    for (int64_t step = 1; step < c->cp; step *= 2)
        for (int64_t r = 0; r + step < c->cp; r += 2 * step)
            c->k->add(part[r], part[r], part[r + step], count);
    memcpy(c->out[0].p, part[0], (size_t)count * sizeof(float));
}

void tr_attention_in_parts(const struct tr_call *c)
{
    if (c->i->op == TR_ATTEND_MERGE)
        attention_merge(c);
    else if (c->i->op == TR_SUM_KEYS || c->i->op == TR_SUM_QUERIES)
        sum_parts(c);
    else
        attention_part(c);
}

/* qkv[token][head][3][size] becomes q[token][head][size] and kv[token][head][2][size], or is made of them. */
void tr_split(const struct tr_call *c)
{
    bool join = c->i->op == TR_JOIN;
    const struct tr_operand *whole = join ? &c->out[0] : &c->in[0], *part = join ? c->in : c->out;
    int64_t size = c->g->channels / c->g->heads, heads = c->n * whole->d[1] * whole->d[2] / (3 * size);
    for (int64_t h = 0; h < heads; h++) {
        float *q = part[0].p + h * size, *kv = part[1].p + 2 * h * size, *qkv = whole->p + 3 * h * size;
        memcpy(join ? qkv : q, join ? q : qkv, (size_t)size * sizeof *q);
        memcpy(join ? qkv + size : kv, join ? kv : qkv + size, 2 * (size_t)size * sizeof *q);
    }
}

/* x[sequence][token][rank][width] becomes x[sequence][rank][token][width], or comes back. */
void tr_pack(const struct tr_call *c)
{
    bool back = c->i->op == TR_UNPACK;
    int64_t t = c->in[0].d[1], width = c->in[0].d[2] / c->cp, from = 0, blocks = c->n * c->cp * t;
    for (int64_t block = 0; block < blocks; block++) { /* in the packed order */
        int64_t s = block / (c->cp * t), rank = block / t % c->cp, token = block % t;
        from = ((s * t + token) * c->cp + rank) * width;
        memcpy(c->out[0].p + (back ? from : block * width), c->in[0].p + (back ? block * width : from),
            (size_t)width * sizeof(float));
    }
}
