/* SPDX-License-Identifier: BSD-3-Clause */
/* train_embed.cu: the embedding, as training/kernels/rows.h defines it, and dropout, as dropout.h does.
 *
 * Its gradient has a sum for each row that tokens name. No atomic addition may decide the order of these, so
 * a block of threads has one place of the sequence: if no place before it has the same token, the block adds
 * up all places that have. */
#include "training/kernels/cuda/philox.cuh"
#include "training/kernels/cuda/places.cuh"

struct embed_each {
    int64_t count;
    float *out;
    const float *w;
    const uint16_t *token;
    int64_t c, first, rows;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t row = token[i / c] - first;
        out[i] = row >= 0 && row < rows ? w[row * c + i % c] + 0.0f : 0.0f;
    }
};

struct clear_each {
    int64_t count;
    float *x;

    MEMBER void operator()(int64_t i) const
    {
        x[i] = 0;
    }
};

struct embed_dw_params {
    float *dw;
    const float *dy;
    const uint16_t *token;
    struct tr_embedded e;
};
struct embed_shared {
    uint32_t before[BLOCK_THREADS]; /* whether this thread found the token before */
};

/* Whether no place from `first` on, before this block's own, has the same token. */
INLINE bool is_first_place(const uint16_t *token, int64_t first, embed_shared &shared)
{
    const int64_t place = block_index();
    const uint32_t me = thread_index();
    uint32_t found = 0;
    for (int64_t t = first + me; t < place; t += BLOCK_THREADS)
        found |= token[t] == token[place] ? 1 : 0;
    shared.before[me] = found;
    for (uint32_t half = BLOCK_THREADS / 2; half > 0; half /= 2) {
        sync_block();
        if (me < half)
            shared.before[me] |= shared.before[me + half];
    }
    sync_block();
    return shared.before[0] == 0;
}

/* The sum of one sequence for one token and column: a chain in each block, and their tree. */
INLINE float embedded_sum(const embed_dw_params &p, int64_t sequence, uint16_t token, int64_t column)
{
    const struct tr_tokens &of = p.e.here;
    const int64_t blocks = of.tokens / of.block;
    counter<float> tree;
    float sum = 0;
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t begin = sequence * of.tokens + b * of.block;
        sum = 0;
        for (int64_t t = begin; t < begin + of.block; t++)
            if (p.token[t] == token)
                sum = sum + p.dy[t * of.columns + column];
        sum = tree.after(sum, b, blocks);
    }
    return sum;
}

/* With leaves each sequence has its sums; else the tree over sequences follows.
 * PTX of embed_dw_kernel: bar.sync
 * STACK of embed_dw_kernel: 128, two binary counters */
KERNEL void AT_MOST_THREADS(BLOCK_THREADS) embed_dw_kernel(const PARAMS embed_dw_params p)
{
    SHARED(embed_shared, shared);
    const struct tr_tokens &of = p.e.here;
    const uint16_t token = p.token[block_index()];
    const int64_t row = token - p.e.first, own = block_index() / of.tokens;
    const int64_t begin = p.e.leaves ? own : 0, end = p.e.leaves ? own + 1 : of.sequences;
    if (row < 0 || row >= p.e.rows || !is_first_place(p.token, begin * of.tokens, shared))
        return;
    for (int64_t j = thread_index(); j < of.columns; j += BLOCK_THREADS) {
        counter<float> tree;
        float sum = 0;
        for (int64_t s = begin; s < end; s++)
            sum = tree.after(embedded_sum(p, s, token, j), s - begin, end - begin);
        p.dw[((p.e.leaves ? own * p.e.rows : 0) + row) * of.columns + j] = sum;
    }
}

/* Of element i: its sequence, and the row of the table that is its token's. */
struct position_place {
    struct tr_positions p;

    MEMBER int64_t sequence(int64_t i) const
    {
        return i / (p.runs * p.tokens * p.columns);
    }
    MEMBER int64_t row(int64_t i) const
    {
        return token_at(p, i / p.columns);
    }
};

struct position_each {
    int64_t count;
    float *y;
    const float *x, *w;
    position_place at;

    MEMBER void operator()(int64_t i) const
    {
        y[i] = x[i] + w[at.row(i) * at.p.columns + i % at.p.columns];
    }
};
struct position_dw_each {
    int64_t count;
    float *dw;
    const float *dy;
    position_place at;

    MEMBER void operator()(int64_t i) const
    {
        const int64_t row = at.sequence(i) * at.p.rows + at.row(i);
        dw[row * at.p.columns + i % at.p.columns] = dy[i] + 0.0f;
    }
};

/* A thread has the channels of one counter. */
struct dropout_each {
    int64_t count, quarter;
    float *y;
    const float *x;
    const uint32_t *draws;
    struct tr_dropped d;

    MEMBER void operator()(int64_t n) const
    {
        const int64_t token = n / quarter, i = n % quarter, c = d.at.columns;
        const uint32_t *draw = draws + token / (d.at.runs * d.at.tokens) * TR_DRAW_WORDS;
        const uint32_t least = draw[TR_DRAW_LEAST];
        philox_words w = { { static_cast<uint32_t>(i), static_cast<uint32_t>(token_at(d.at, token)),
            draw[TR_DRAW_SEQUENCE], static_cast<uint32_t>(d.site) } };
        w.draw(draw[TR_DRAW_KEY], draw[TR_DRAW_KEY_2]);
        for (int64_t j = 0; j < 4 && j * quarter + i < c; j++) {
            const int64_t at = token * c + j * quarter + i;
            const float scaled = least == 0 ? x[at] : x[at] * d.scale;
            y[at] = w.word[j] >= least ? scaled : 0.0f;
        }
    }
};

void tr_cuda_embed(struct tr_context *x, float *out, const float *w, const uint16_t *token, int64_t tokens,
    int64_t c, int64_t first, int64_t rows)
{
    start_each(x, embed_each{ tokens * c, out, w, token, c, first, rows });
}

void tr_cuda_embed_dw(struct tr_context *x, float *dw, const float *dy, const uint16_t *token,
    const struct tr_embedded *e, float *scratch)
{
    const int64_t copies = e->leaves ? e->here.sequences : 1;
    (void)scratch;
    start_each(x, clear_each{ copies * e->rows * e->here.columns, dw });
    start(x, KERNEL_FUNCTION(embed_dw_params, embed_dw_kernel), embed_dw_params{ dw, dy, token, *e },
        e->here.sequences * e->here.tokens, BLOCK_THREADS);
}

/* Sequences are summed as they are found. */
int64_t tr_cuda_scratch_embed(const struct tr_embedded *e)
{
    (void)e;
    return 0;
}

static int64_t positions_of(const struct tr_positions *p)
{
    return p->sequences * p->runs * p->tokens * p->columns;
}

void tr_cuda_position(
    struct tr_context *x, float *y, const float *in, const float *w, const struct tr_positions *p)
{
    start_each(x, position_each{ positions_of(p), y, in, w, { *p } });
}

void tr_cuda_position_dw(struct tr_context *x, float *dw, const float *dy, const struct tr_positions *p)
{
    start_each(x, clear_each{ p->sequences * p->rows * p->columns, dw });
    start_each(x, position_dw_each{ positions_of(p), dw, dy, { *p } });
}

void tr_cuda_dropout(
    struct tr_context *x, float *y, const float *in, const uint32_t *draws, const struct tr_dropped *d)
{
    const int64_t tokens = d->at.sequences * d->at.runs * d->at.tokens,
                  quarter = quotient_up(d->at.columns, 4);
    start_each(x, dropout_each{ tokens * quarter, quarter, y, in, draws, *d });
}
