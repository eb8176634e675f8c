/* SPDX-License-Identifier: BSD-3-Clause */
/* train_attention.cu: the backward pass of causal attention as products of blocks, and how parts are merged.
 *
 * All heads run at once, as long as that fills the device: their scores and gradients of these lie in
 * scratch. Products leave out what the mask hides, tile by tile; what is behind the mask in a tile is +0, as
 * the processor has it. The forward pass is that of train_flash.cu. */
#include "training/kernels/cuda/attention.cuh"
#include "training/kernels/cuda/gemm.cuh"

/* Rows of scores that fill a device, and a multiprocessor of it. */
enum { ROWS_AT_ONCE = 96 << 10, ROWS_OF_MULTIPROCESSOR = 768 };

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
    p.mask = d.striped ? NO_MASK : mask;
    p.shift = d.shift;
    p.block = d.block;
    return p;
}

static row_layout of_out(const attending &d)
{
    return { d.next.out, d.out_step, d.size };
}
/* Scores and their gradients, in scratch. */
static row_layout of_scores(const attending &d)
{
    return { d.heads * d.queries * d.row, d.row, d.queries * d.row };
}

void tr_cuda_multiply_scores(struct tr_context *x, const attending &d, float *score, const row_layout &at,
    const float *of_queries, const row_layout &queries_at, const float *of_keys)
{
    gemm_params p = product_of(d, d.queries, d.tokens, d.size, SEEN_TILES);
    p.a = of_queries;
    p.a_row = queries_at.step;
    p.b = of_keys;
    p.b_row = d.kv_step;
    p.b_along = true;
    p.c = score;
    p.c_row = at.step;
    p.step[0] = { queries_at.next, d.next.kv, at.next };
    p.step[1] = { queries_at.size, d.kv_size, at.size };
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
    const float *of_queries, const row_layout &at)
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

/* ---- merging ---- */

struct partial {
    float m, l, o;
};
INLINE partial joined(const partial &left, const partial &right)
{
    const joining by = joining_of(left.m, right.m);
    return partial{ by.m, by.of(left.l, right.l), by.of(left.o, right.o) };
}

struct merge_each {
    int64_t count;
    float *out, *lse; /* out[query][head][size], lse[head][query] */
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
        const int64_t sequence = h / d.heads, head = h % d.heads;
        out[sequence * d.next.out + t * d.out_step + head * d.size + j] = whole.o / whole.l;
        if (j == 0)
            lse[sequence * d.next.lse + head * d.queries + t] = whole.m + logarithm(whole.l);
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
        const int64_t at = h / d.heads * d.next.out + t * d.out_step + h % d.heads * d.size;
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
            const float by = kept_part(sequence, own / d.queries, own % d.queries, key);
            change = e * (slope[at] * by - along[row]) * d.scale;
            e = e * by;
        }
        weight[at] = e;
        slope[at] = change;
    }

    /* What the probability was multiplied by on its way to the values. */
    MEMBER float kept_part(int64_t sequence, int64_t head, int64_t t, int64_t key) const
    {
        const uint32_t least = d.least(sequence);
        const int64_t token = d.token_of_key(key);
        if (least == 0)
            return 1;
        const philox_words w = d.draw(sequence, head, t, token / 64 * 16 + token % 16);
        const int64_t word = token / 16 % 4;
        const uint32_t own = word == 0   ? w.word[0]
                             : word == 1 ? w.word[1]
                             : word == 2 ? w.word[2]
                                         : w.word[3];
        return own >= least ? d.dropped.scale : 0.0f;
    }
};

void tr_cuda_attention_merge(struct tr_context *x, float *out, float *lse, const struct tr_partial *part,
    int64_t n, const struct tr_attention *s, float *scratch)
{
    (void)scratch;
    const attending d = attending_of(s);
    merge_each work = { d.sequences * d.heads * d.queries * d.size, out, lse, {}, n, d };
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
        tr_cuda_multiply_scores(x, d, weight, of_scores(d), b.q, of_q(d), b.kv);
    tr_cuda_multiply_scores(x, d, slope, of_scores(d), b.dout, of_out(d), b.kv + d.size);
    start_rows(x, along_rows{ rows, along, b.dout, b.out, d });
    start_each(x, weigh_back_each{ rows * d.tokens, weight, slope, b.kept, b.lse, along, d });
    sum_keys(x, d, b.dq, slope, b.kv);
    sum_queries(x, d, b.dkv + d.size, weight, b.dout, of_out(d));
    sum_queries(x, d, b.dkv, slope, b.q, of_q(d));
}

/* Some heads of some sequences, the first ones, that have so many rows. */
static attending first_group(const struct tr_attention *s, int64_t rows)
{
    attending d = attending_of(s);
    const int64_t most = s->queries > 0 ? quotient_up(rows, s->queries) : 1;
    d.heads = lesser(s->heads, most);
    d.sequences = lesser(s->sequences, quotient_up(most, s->heads));
    return d;
}

/* Scores, their gradients and `along`. */
int64_t tr_cuda_scratch_attention(const struct tr_attention *s)
{
    const attending d = first_group(s, ROWS_AT_ONCE);
    return d.sequences * d.heads * d.queries * (2 * d.row + 1);
}

void tr_cuda_attention_dx(struct tr_context *x, float *dq, float *dkv, const float *dout, const float *out,
    const float *lse, const float *q, const float *kv, const struct tr_attention *s, float *scratch)
{
    const int64_t fill = ROWS_OF_MULTIPROCESSOR * cuda_of(x)->multiprocessors;
    const attending first = first_group(s, lesser(fill, ROWS_AT_ONCE));
    attending d = first;
    for (int64_t i = 0; i < s->sequences; i += first.sequences)
        for (int64_t h = 0; h < s->heads; h += first.heads) {
            const int64_t of_q = i * d.next.q + h * d.q_size, of_kv = i * d.next.kv + h * d.kv_size;
            const int64_t of_dq = i * d.next.dq + h * d.q_size, of_dkv = i * d.next.dkv + h * d.kv_size;
            const int64_t of_out = i * d.next.out + h * d.size, of_lse = i * d.next.lse + h * d.queries;
            d.sequences = lesser(first.sequences, s->sequences - i);
            d.heads = lesser(first.heads, s->heads - h);
            d.dropped = s->dropped;
            d.dropped.head += h;
            if (d.dropped.draws != nullptr)
                d.dropped.draws += i * TR_DRAW_WORDS;
            const float *kept = s->scores;
            if (kept != nullptr)
                kept += i * d.next.scores + h * d.queries * d.tokens;
            attend_back(x, d,
                { dq + of_dq, dkv + of_dkv, dout + of_out, out + of_out, lse + of_lse, q + of_q, kv + of_kv,
                    kept },
                scratch);
        }
}
