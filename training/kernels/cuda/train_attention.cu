/* SPDX-License-Identifier: BSD-3-Clause */
/* train_attention.cu: causal attention as products of blocks, as training/kernels/attention.h defines it.
 *
 * All heads run at once, and all blocks of keys: their scores, and what each block of keys gives each query,
 * lie in scratch. Products leave out what the mask hides, tile by tile; what is behind the mask in a tile is
 * never read in the forward pass and is +0 in the backward pass, as the processor has it. */
#include "training/kernels/cuda/gemm.cuh"

enum { HEADS_AT_ONCE = 96 }; /* enough of them to fill any device */
/* The score of a query that sees no key: any other makes its weight 0. */
#define UNSEEN (-1e30f)

/* Elements from what is of one sequence to what is of the next one. */
struct sequence_steps {
    int64_t out, lse, q, kv, dq, dkv, part, scores;
};

/* The shape, and where things lie. In scratch head h of sequence s is number s heads + h. */
struct attending {
    int64_t sequences; /* that are done at once */
    int64_t tokens, heads, size, block, queries, blocks;
    int64_t shift; /* query t of those here sees the keys here up to t + shift */
    int64_t first_block; /* of the keys, in the sequence */
    int64_t q_size, q_step, kv_size, kv_step; /* floats from head to head, from token to token */
    int64_t row; /* floats between rows of scores */
    struct sequence_steps next;
    float scale;
    bool striped;

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
};

static attending attending_of(const struct tr_attention *s)
{
    attending d = {};
    const int64_t rows = s->heads * s->queries, out = rows * s->size, keys = s->heads * s->tokens * s->size;
    const int64_t q = s->separate_kv ? out : 3 * out, kv = s->separate_kv ? 2 * keys : q;
    d.sequences = lesser(s->sequences, quotient_up(HEADS_AT_ONCE, s->heads));
    d.next = { s->by_queries * out, s->by_queries * rows, s->by_queries * q, s->by_keys * kv, s->by_pairs * q,
        s->by_pairs * kv, s->by_pairs * (out + 2 * rows), s->by_pairs * rows * s->tokens };
    d.tokens = s->tokens;
    d.heads = s->heads;
    d.size = s->size;
    d.block = s->block;
    d.queries = s->queries;
    d.blocks = s->tokens / s->block;
    d.shift = s->first - s->begin;
    d.first_block = s->begin / s->block;
    d.q_size = s->separate_kv ? s->size : 3 * s->size;
    d.kv_size = s->separate_kv ? 2 * s->size : d.q_size;
    d.q_step = s->heads * d.q_size;
    d.kv_step = s->heads * d.kv_size;
    d.row = quotient_up(s->tokens, 4) * 4;
    d.scale = 1 / sqrtf(static_cast<float>(s->size));
    d.striped = s->striped;
    return d;
}

/* ---- products, all heads in one ---- */

/* One of them for each sequence and head. */
static gemm_params product_of(const attending &d, int64_t m, int64_t n, int64_t k, enum mask mask)
{
    gemm_params p = {};
    p.m = m;
    p.n = n;
    p.k = k;
    p.a_along = true;
    p.chunks = 1;
    p.chunk = k;
    p.batch[0] = d.sequences;
    p.batch[1] = d.heads;
    p.batch[2] = 1;
    p.mask = d.striped && mask != SEEN_KEYS ? NO_MASK : mask;
    p.shift = d.shift;
    p.block = d.block;
    p.first_block = d.first_block;
    p.striped = d.striped;
    return p;
}

/* What queries have, q or the result and its gradient: floats from sequence to sequence, from query to
 * query, from head to head. */
struct query_layout {
    int64_t next, step, size;
};
static query_layout of_q(const attending &d)
{
    return { d.next.q, d.q_step, d.q_size };
}
static query_layout of_out(const attending &d)
{
    return { d.next.out, d.heads * d.size, d.size };
}

/* score[head][query][key] = x y, where x is q or the gradient of the result, and y keys or values. */
static void multiply_scores(struct tr_context *x, const attending &d, float *score, const float *of_queries,
    const query_layout &at, const float *of_keys)
{
    gemm_params p = product_of(d, d.queries, d.tokens, d.size, SEEN_TILES);
    p.a = of_queries;
    p.a_row = at.step;
    p.b = of_keys;
    p.b_row = d.kv_step;
    p.b_along = true;
    p.c = score;
    p.c_row = d.row;
    p.step[0] = { at.next, d.next.kv, d.heads * d.queries * d.row };
    p.step[1] = { at.size, d.kv_size, d.queries * d.row };
    tr_cuda_multiply(x, p);
}

/* o[head][block][query][size] = the values of a block of keys by their weights, of the keys that are seen. */
static void multiply_values(
    struct tr_context *x, const attending &d, float *o, const float *weight, const float *values)
{
    gemm_params p = product_of(d, d.queries, d.size, d.block, SEEN_KEYS);
    p.a = weight;
    p.a_row = d.row;
    p.b = values;
    p.b_row = d.kv_step;
    p.c = o;
    p.c_row = d.size;
    p.batch[2] = d.blocks;
    p.step[0] = { d.heads * d.queries * d.row, d.next.kv, d.heads * d.blocks * d.queries * d.size };
    p.step[1] = { d.queries * d.row, d.kv_size, d.blocks * d.queries * d.size };
    p.step[2] = { d.block, d.block * d.kv_step, d.queries * d.size };
    tr_cuda_multiply(x, p);
}

/* to = the sum over the keys, by blocks of them, of slopes and keys. */
static void sum_keys(
    struct tr_context *x, const attending &d, float *to, const float *slope, const float *keys)
{
    gemm_params p = product_of(d, d.queries, d.size, d.tokens, KEY_CHUNKS);
    p.a = slope;
    p.a_row = d.row;
    p.b = keys;
    p.b_row = d.kv_step;
    p.c = to;
    p.c_row = d.q_step;
    p.chunks = d.blocks;
    p.chunk = d.block;
    p.step[0] = { d.heads * d.queries * d.row, d.next.kv, d.next.dq };
    p.step[1] = { d.queries * d.row, d.kv_size, d.q_size };
    tr_cuda_multiply(x, p);
}

/* to = the sum over the queries, by blocks of them, of weights and what queries have. */
static void sum_queries(struct tr_context *x, const attending &d, float *to, const float *weight,
    const float *of_queries, const query_layout &at)
{
    gemm_params p = product_of(d, d.tokens, d.size, d.queries, QUERY_CHUNKS);
    p.a = weight;
    p.a_row = d.row;
    p.a_along = false;
    p.b = of_queries;
    p.b_row = at.step;
    p.c = to;
    p.c_row = d.kv_step;
    p.chunks = d.queries / d.block;
    p.chunk = d.block;
    p.step[0] = { d.heads * d.queries * d.row, at.next, d.next.dkv };
    p.step[1] = { d.queries * d.row, at.size, d.kv_size };
    tr_cuda_multiply(x, p);
}

/* ---- forward ---- */

/* What some keys give a query: of the largest score m, the sum l of exp(score - m), and of the values. */
struct partial {
    float m, l, o;
};
INLINE partial joined(const partial &left, const partial &right)
{
    const float most = right.m < left.m ? left.m : right.m;
    const float x = exponential(left.m - most), y = exponential(right.m - most);
    return partial{ most, left.l * x + right.l * y, left.o * x + right.o * y };
}

/* m[head][block][query], l likewise, and o[head][block][query][size]. */
struct partials {
    float *m, *l, *o;
};

/* Scores of query t and block b become weights, in place. */
struct weigh_rows {
    int64_t rows;
    float *score;
    partials to;
    attending d;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const int64_t t = row % d.queries, b = row / d.queries % d.blocks, h = row / d.queries / d.blocks;
        const int64_t seen = here && b < d.joins(t) ? d.sees(t, b) : 0;
        float *x = score + (h * d.queries + t) * d.row + b * d.block, most = -INFINITY, sum = 0;
        for (int64_t i = lane; i < seen; i += LANES)
            most = greater(most, x[i] * d.scale);
        most = greatest_lane(most);
        for (int64_t i = lane; i < seen; i += LANES) {
            const float e = exponential(x[i] * d.scale - most);
            x[i] = e;
            sum = sum + e;
        }
        sum = fold_lanes(sum);
        if (lane == 0 && here) {
            to.m[row] = seen > 0 ? most : UNSEEN;
            to.l[row] = sum;
        }
    }
};

/* The products of queries and keys, before they become weights: +0 behind the mask. Of stripes all are kept,
 * as these have the mask in every block. */
struct keep_scores {
    int64_t count;
    float *to;
    const float *score;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t key = i % d.tokens, row = i / d.tokens, each = d.heads * d.queries;
        to[row / each * d.next.scores + row % each * d.tokens + key] =
            d.striped || key <= row % d.queries + d.shift ? score[row * d.row + key] : 0.0f;
    }
};

/* The tree over the blocks of query t, for element j of its values. */
INLINE partial joined_blocks(const partials &of, const attending &d, int64_t h, int64_t t, int64_t j)
{
    counter<partial> tree;
    partial part = { 0, 0, 0 };
    const int64_t blocks = d.joins(t);
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t at = (h * d.blocks + b) * d.queries + t;
        part = tree.after(partial{ of.m[at], of.l[at], of.o[at * d.size + j] }, b, blocks);
    }
    return part;
}

/* out[query][head][size] and lse[head][query]. */
struct results {
    float *out, *lse;

    MEMBER void put(const partial &part, const attending &d, int64_t h, int64_t t, int64_t j) const
    {
        const int64_t sequence = h / d.heads, head = h % d.heads;
        out[sequence * d.next.out + (t * d.heads + head) * d.size + j] = part.o / part.l;
        if (j == 0)
            lse[sequence * d.next.lse + head * d.queries + t] = part.m + logarithm(part.l);
    }
};

struct finish_each {
    int64_t count;
    results to;
    partials of;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t j = i % d.size, t = i / d.size % d.queries, h = i / d.size / d.queries;
        to.put(joined_blocks(of, d, h, t, j), d, h, t, j);
    }
};

/* Of head h in a part: m[query], l[query], o[query][size]. */
struct part_each {
    int64_t count;
    float *part;
    partials of;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t j = i % d.size, t = i / d.size % d.queries, h = i / d.size / d.queries;
        float *to = part + h / d.heads * d.next.part + h % d.heads * d.queries * (d.size + 2);
        const partial whole = joined_blocks(of, d, h, t, j);
        to[2 * d.queries + t * d.size + j] = whole.o;
        if (j == 0) {
            to[t] = whole.m;
            to[d.queries + t] = whole.l;
        }
    }
};

struct merge_each {
    int64_t count;
    results to;
    struct tr_partial part[TR_MOST_PARTS];
    int64_t n;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t j = i % d.size, t = i / d.size % d.queries, h = i / d.size / d.queries;
        counter<partial> tree;
        partial whole = { 0, 0, 0 };
        for (int64_t p = 0; p < n; p++) {
            const float *from =
                part[p].p + h / d.heads * part[p].next + h % d.heads * d.queries * (d.size + 2);
            whole = tree.after(
                partial{ from[t], from[d.queries + t], from[2 * d.queries + t * d.size + j] }, p, n);
        }
        to.put(whole, d, h, t, j);
    }
};

/* ---- backward ---- */

/* along[head][query] = the product of the rows of the result's gradient and of the result. */
struct along_rows {
    int64_t rows;
    float *along;
    const float *dout, *out;
    attending d;

    MEMBER void operator()(int64_t row, int64_t lane, bool here) const
    {
        const int64_t t = row % d.queries, h = row / d.queries;
        const int64_t at = h / d.heads * d.next.out + (t * d.heads + h % d.heads) * d.size;
        float sum = 0;
        for (int64_t i = lane; i < d.size; i += LANES)
            sum = fused(dout[at + i], out[at + i], sum);
        sum = fold_lanes(sum);
        if (lane == 0 && here)
            along[row] = sum;
    }
};

/* Scores become weights, and their gradients those of the scores; +0 behind the mask. Scores were kept, or
 * are where the weights will be. */
struct weigh_back_each {
    int64_t count;
    float *weight, *slope;
    const float *kept, *lse, *along;
    attending d;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t key = i % d.tokens, row = i / d.tokens, at = row * d.row + key;
        const int64_t each = d.heads * d.queries, sequence = row / each, own = row % each;
        float e = 0, change = 0;
        if (d.sees_key(row % d.queries, key)) {
            const float score =
                kept != nullptr ? kept[sequence * d.next.scores + own * d.tokens + key] : weight[at];
            e = exponential(score * d.scale - lse[sequence * d.next.lse + own]);
            change = e * (slope[at] - along[row]) * d.scale;
        }
        weight[at] = e;
        slope[at] = change;
    }
};

/* ---- the set's functions ---- */

/* Forward: scores and partials. Backward: scores twice, and `along`. */
int64_t tr_cuda_scratch_attention(const struct tr_attention *s)
{
    const attending d = attending_of(s);
    const int64_t rows = d.sequences * d.heads * d.queries, forward = d.row + d.blocks * (d.size + 2);
    return rows * (forward > 2 * d.row + 1 ? forward : 2 * d.row + 1);
}

/* Calls `some` with as many sequences as are done at once, from the first of them on, until all are done. */
template <class Some> static void in_groups(const struct tr_attention *s, const Some &some)
{
    attending d = attending_of(s);
    const int64_t most = d.sequences;
    for (int64_t first = 0; first < s->sequences; first += most) {
        d.sequences = lesser(most, s->sequences - first);
        some(d, first);
    }
}

/* Of one group of sequences all partials of all queries. */
static partials attend(
    struct tr_context *x, const attending &d, const float *q, const float *kv, float *scores, float *scratch)
{
    const int64_t rows = d.sequences * d.heads * d.queries;
    float *o = scratch + rows * d.row, *m = o + rows * d.blocks * d.size;
    const partials to = { m, m + rows * d.blocks, o };
    multiply_scores(x, d, scratch, q, of_q(d), kv);
    if (scores != nullptr)
        start_each(x, keep_scores{ rows * d.tokens, scores, scratch, d });
    start_rows(x, weigh_rows{ rows * d.blocks, scratch, to, d });
    multiply_values(x, d, o, scratch, kv + d.size);
    return to;
}

static int64_t elements_of(const attending &d)
{
    return d.sequences * d.heads * d.queries * d.size;
}

void tr_cuda_attention(struct tr_context *x, float *out, float *lse, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    in_groups(s, [=](const attending &d, int64_t i) {
        const partials of = attend(x, d, q + i * d.next.q, kv + i * d.next.kv, nullptr, scratch);
        start_each(x, finish_each{ elements_of(d), { out + i * d.next.out, lse + i * d.next.lse }, of, d });
    });
}

void tr_cuda_attention_part(struct tr_context *x, float *part, const float *q, const float *kv,
    const struct tr_attention *s, float *scratch)
{
    in_groups(s, [=](const attending &d, int64_t i) {
        float *scores = s->scores != nullptr ? s->scores + i * d.next.scores : nullptr;
        const partials of = attend(x, d, q + i * d.next.q, kv + i * d.next.kv, scores, scratch);
        start_each(x, part_each{ elements_of(d), part + i * d.next.part, of, d });
    });
}

void tr_cuda_attention_merge(struct tr_context *x, float *out, float *lse, const struct tr_partial *part,
    int64_t n, const struct tr_attention *s, float *scratch)
{
    (void)scratch;
    attending d = attending_of(s);
    d.sequences = s->sequences;
    merge_each work = { elements_of(d), { out, lse }, {}, n, d };
    for (int64_t i = 0; i < n && i < TR_MOST_PARTS; i++)
        work.part[i] = part[i];
    start_each(x, work);
}

/* The arrays of one group of sequences. */
struct backward {
    float *dq, *dkv;
    const float *dout, *out, *lse, *q, *kv, *kept;
};

static void attend_back(struct tr_context *x, const attending &d, const backward &b, float *scratch)
{
    const int64_t rows = d.sequences * d.heads * d.queries;
    float *weight = scratch, *slope = weight + rows * d.row, *along = slope + rows * d.row;
    if (b.kept == nullptr)
        multiply_scores(x, d, weight, b.q, of_q(d), b.kv);
    multiply_scores(x, d, slope, b.dout, of_out(d), b.kv + d.size);
    start_rows(x, along_rows{ rows, along, b.dout, b.out, d });
    start_each(x, weigh_back_each{ rows * d.tokens, weight, slope, b.kept, b.lse, along, d });
    sum_keys(x, d, b.dq, slope, b.kv);
    sum_queries(x, d, b.dkv + d.size, weight, b.dout, of_out(d));
    sum_queries(x, d, b.dkv, slope, b.q, of_q(d));
}

void tr_cuda_attention_dx(struct tr_context *x, float *dq, float *dkv, const float *dout, const float *out,
    const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    in_groups(s, [=](const attending &d, int64_t i) {
        const float *kept = s->scores != nullptr ? s->scores + i * d.next.scores : nullptr;
        attend_back(x, d,
            { dq + i * d.next.dq, dkv + i * d.next.dkv, dout + i * d.next.out, out + i * d.next.out,
                lse + i * d.next.lse, q + i * d.next.q, kv + i * d.next.kv, kept },
            scratch);
    });
}
