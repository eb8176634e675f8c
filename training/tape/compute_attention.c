/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_attention.c: attention to all keys, and the layouts of its operands. */
#include "training/tape/call.h"

#include <string.h>

/* Queries, keys and values are one operand, or q and kv are two. Queries of two runs are as if of two
 * sequences, whose gradients of kv are kept apart; and each window is a sequence of its own. */
void tr_attention(const struct tr_call *c)
{
    bool back = c->i->op == TR_ATTENTION_DX || c->i->op == TR_ATTEND_WINDOW_DX ||
                c->i->op == TR_ATTEND_DX; /* in: dy, y, lse, q, kv */
    bool separate_kv = c->i->op == TR_ATTEND || c->i->op == TR_ATTEND_DX;
    const struct tr_operand *lse = back ? &c->in[2] : &c->out[1], *x = back ? &c->in[3] : &c->in[0];
    int64_t tokens = c->g->windows ? c->g->context / c->g->windows : c->g->context;
    int64_t pieces = c->g->windows ? lse->d[2] / tokens : c->runs;
    int64_t heads = lse->d[1], queries = lse->d[2] / pieces, size = c->g->channels / c->g->heads;
    struct tr_attention a = { tokens, heads, size, c->block, c->i->first, queries, separate_kv, 0, NULL,
        c->i->striped };
    int64_t y = queries * heads * size, of_q = separate_kv ? y : 3 * y,
            of_kv = separate_kv ? 2 * tokens * heads * size : of_q;
    for (int64_t r = 0; r < c->n * pieces; r++) {
        const float *q = x[0].p + r * of_q, *kv = separate_kv ? x[1].p + r / pieces * of_kv : q + size;
        float *dkv = separate_kv ? c->out[1].p + r * of_kv : c->out[0].p + r * of_q + size;
        a.first = c->i->second && r % pieces ? c->i->second : c->i->first;
        if (back)
            c->k->attention_dx(c->out[0].p + r * of_q, dkv, c->in[0].p + r * y, c->in[1].p + r * y,
                lse->p + r * heads * queries, q, kv, &a, c->scratch);
        else
            c->k->attention(c->out[0].p + r * y, lse->p + r * heads * queries, q, kv, &a, c->scratch);
    }
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

/* Of all channels of each token, those of this rank. */
void tr_slice(const struct tr_call *c)
{
    int64_t whole = c->in[0].d[2], here = c->out[0].d[2], tokens = c->n * c->in[0].d[1];
    for (int64_t t = 0; t < tokens; t++)
        memcpy(
            c->out[0].p + t * here, c->in[0].p + t * whole + c->tp_rank * here, (size_t)here * sizeof(float));
}

/* x[sequence][token][rank][width] becomes x[sequence][rank][token][width], or comes back. */
void tr_pack(const struct tr_call *c)
{
    bool back = c->i->op == TR_UNPACK;
    int64_t ranks = c->plan->mesh.size[c->i->axis];
    int64_t t = c->in[0].d[1], width = c->in[0].d[2] / ranks, from = 0, blocks = c->n * ranks * t;
    for (int64_t block = 0; block < blocks; block++) { /* in the packed order */
        int64_t s = block / (ranks * t), rank = block / t % ranks, token = block % t;
        from = ((s * t + token) * ranks + rank) * width;
        memcpy(c->out[0].p + (back ? from : block * width), c->in[0].p + (back ? block * width : from),
            (size_t)width * sizeof(float));
    }
}
