/* SPDX-License-Identifier: BSD-3-Clause */
/* attention.cuh: the shape of attention on a device, and how what blocks of keys give is joined; all as
 * training/kernels/attention.h defines it. */
#ifndef TRAINING_KERNELS_CUDA_ATTENTION_CUH
#define TRAINING_KERNELS_CUDA_ATTENTION_CUH
#include "training/kernels/cuda/philox.cuh"

/* Of the keys of block b, a query sees so many from the first on. */
INLINE int64_t keys_seen(
    int64_t query, int64_t b, int64_t shift, int64_t block, int64_t first_block, bool striped)
{
    int64_t seen = query + shift - b * block + 1;
    if (striped) {
        const int64_t own = query / block + shift / block;
        seen = (stripe_of(first_block + b) <= stripe_of(first_block + own) ? 1 : 0) + query % block;
    }
    return seen < 0 ? 0 : seen < block ? seen : block;
}

/* Elements from what is of one sequence to what is of the next one. */
struct sequence_steps {
    int64_t out, lse, q, kv, dq, dkv, part, scores;
};

/* The shape, and where things lie. Head h of sequence s is number s heads + h. */
struct attending {
    int64_t sequences, heads; /* that are done at once */
    int64_t tokens, size, block, queries, blocks;
    int64_t shift; /* query t of those here sees the keys here up to t + shift */
    int64_t first_block; /* of the keys, in the sequence */
    int64_t q_size, q_step, kv_size, kv_step, out_step; /* floats from head to head, from token to token */
    int64_t row; /* floats between rows of scores */
    struct sequence_steps next;
    float scale;
    bool striped;
    struct tr_unattended dropped; /* of the first sequence and head */

    /* Keys of block b that query t sees. */
    MEMBER int64_t sees(int64_t t, int64_t b) const
    {
        return keys_seen(t, b, shift, block, first_block, striped);
    }
    /* Blocks of keys whose partials are joined for query t: none if it sees no key here. */
    MEMBER int64_t joins(int64_t t) const
    {
        const int64_t seen = t + shift < 0 ? 0 : (t + shift) / block + 1;
        return striped || seen > blocks ? blocks : seen;
    }
    MEMBER bool sees_key(int64_t t, int64_t key) const
    {
        return key % block < sees(t, key / block);
    }
    /* The token that key 0, or query t, and so many behind it, stand for. */
    MEMBER int64_t token_of_key(int64_t key) const
    {
        const int64_t place = first_block * block + key;
        return striped ? place % block * 8 + stripe_of(place / block) : place;
    }
    /* The least word that keeps a probability; 0: all are kept. */
    MEMBER uint32_t least(int64_t sequence) const
    {
        return dropped.draws == nullptr ? 0 : dropped.draws[sequence * TR_DRAW_WORDS + TR_DRAW_LEAST];
    }
    /* The words of a counter of keys, for query t. */
    MEMBER philox_words draw(int64_t sequence, int64_t head, int64_t t, int64_t counter) const
    {
        const uint32_t *by = dropped.draws + sequence * TR_DRAW_WORDS;
        philox_words w = { { static_cast<uint32_t>(counter), static_cast<uint32_t>(token_of_key(t + shift)),
            by[TR_DRAW_SEQUENCE] | 0x80000000u,
            static_cast<uint32_t>((dropped.head + head) << 12 | dropped.layer) } };
        w.draw(by[TR_DRAW_KEY], by[TR_DRAW_KEY_2]);
        return w;
    }
};

static inline attending attending_of(const struct tr_attention *s)
{
    attending d = {};
    const int64_t rows = s->heads * s->queries, out = rows * s->size, keys = s->heads * s->tokens * s->size;
    const int64_t q = s->separate_kv ? out : 3 * out, kv = s->separate_kv ? 2 * keys : q;
    d.sequences = s->sequences;
    d.heads = s->heads;
    d.next = { s->by_queries * out, s->by_queries * rows, s->by_queries * q, s->by_keys * kv, s->by_pairs * q,
        s->by_pairs * kv, s->by_pairs * (out + 2 * rows), s->by_pairs * rows * s->tokens };
    d.tokens = s->tokens;
    d.size = s->size;
    d.block = s->block;
    d.queries = s->queries;
    d.blocks = s->block > 0 ? s->tokens / s->block : 0;
    d.shift = s->first - s->begin;
    d.first_block = s->block > 0 ? s->begin / s->block : 0;
    d.q_size = s->separate_kv ? s->size : 3 * s->size;
    d.kv_size = s->separate_kv ? 2 * s->size : d.q_size;
    d.q_step = s->heads * d.q_size;
    d.kv_step = s->heads * d.kv_size;
    d.out_step = s->heads * s->size;
    d.row = quotient_up(s->tokens, 4) * 4;
    d.scale = 1 / sqrtf(static_cast<float>(s->size));
    d.striped = s->striped;
    d.dropped = s->dropped;
    return d;
}

/* Floats from sequence to sequence, from row to row, from head to head: of what queries have, q or the result
 * and its gradient, and of scores. */
struct row_layout {
    int64_t next, step, size;
};
static inline row_layout of_q(const attending &d)
{
    return { d.next.q, d.q_step, d.q_size };
}

/* score[head][query][key] = x y, where x is q or the gradient of the result, and y keys or values. Behind
 * the mask are some of them, or whatever was there.
 * train_attention.cu */
void tr_cuda_multiply_scores(struct tr_context *x, const attending &d, float *score, const row_layout &at,
    const float *of_queries, const row_layout &queries_at, const float *of_keys);

/* What some keys give a query: of the largest score m, the sum l of exp(score - m), and of the values. The
 * partial of a query that sees none has a score far below all others, so that any other makes its weight 0.
 */
#define UNSEEN (-1e30f)

/* What makes one of two partials: the largest score, and the factors of the left and of the right. */
struct joining {
    float m, left, right;

    MEMBER float of(float l, float r) const
    {
        return l * left + r * right;
    }
};
INLINE joining joining_of(float left_m, float right_m)
{
    const float most = right_m < left_m ? left_m : right_m;
    return joining{ most, exponential(left_m - most), exponential(right_m - most) };
}

#endif
