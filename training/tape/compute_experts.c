/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_experts.c: experts (moe.c says what they are), on rows that a router has sorted.
 *
 * A segment is what one rank has sent to one expert, by sequences, and in each by tokens. Rows lie in
 * segments: by ranks, then by experts. Rows are independent, so each segment goes through the expert's
 * matrices as it lies. What sums over tokens runs on one sequence after the other, whose rows are spread to
 * blocks of equal length with rows of 0 behind them: a chain that adds 0 stays as it is, but for the sign of
 * a 0, and + 0 makes that one. */
#include "training/tape/experts.h"

#include "training/model/moe.h"

#include <string.h>

/* What an operation on rows works on. */
struct segments {
    const struct tr_call *c;
    const int32_t *counts; /* [rank][expert][sequence][block] */
    int64_t ranks, experts; /* experts that are here */
    int64_t blocks, hidden, channels;
};

static struct segments segments_of(const struct tr_call *c, int counts, int64_t experts)
{
    return (struct segments){ .c = c,
        .counts = (const int32_t *)(const void *)c->in[counts].p,
        .ranks = c->g->experts / experts,
        .experts = experts,
        .blocks = c->in[counts].d[1],
        .hidden = tr_moe_hidden(c->g),
        .channels = c->g->channels };
}

static const int32_t *counts_of(const struct segments *s, int64_t rank, int64_t expert)
{
    return s->counts + (rank * s->experts + expert) * s->c->n * s->blocks;
}

static int64_t total(const int32_t *counts, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += counts[i];
    return sum;
}

/* y = x w of each segment, w[hidden][channels] of the expert, or its transpose. */
static void multiply(const struct segments *s, float *y, const float *x, const float *w, bool up,
    int64_t chunks, float *scratch, int64_t rows)
{
    int64_t k = up ? s->channels : s->hidden, n = up ? s->hidden : s->channels;
    struct tr_gemm g = { .m = rows,
        .n = n,
        .k = k,
        .a = x,
        .a_row = k,
        .a_column = 1,
        .b = w,
        .b_row = up ? 1 : s->channels,
        .b_column = up ? s->channels : 1,
        .c = y,
        .c_row = n,
        .chunks = chunks,
        .chunk = k / chunks };
    s->c->k->gemm(&g, scratch);
}

static void through_experts(const struct tr_call *c)
{
    bool down = c->i->op == TR_EXPERT_DOWN, down_dx = c->i->op == TR_EXPERT_DOWN_DX,
         up_dx = c->i->op == TR_EXPERT_UP_DX;
    int weight = down_dx ? 3 : 2, counts = down_dx ? 2 : 1;
    struct segments s = segments_of(c, counts, c->in[weight].d[0] / tr_moe_hidden(c->g));
    bool back = down || up_dx; /* from hidden channels */
    int64_t from = back ? s.hidden : s.channels, to = back ? s.channels : s.hidden;
    const float *x = c->in[0].p, *before = c->in[1].p;
    float *y = c->out[0].p, *active = c->scratch;
    float *scratch = down ? active + c->n * c->g->context * s.hidden : active;
    for (int64_t i = 0; i < s.ranks * s.experts; i++) {
        int64_t e = i % s.experts, rows = total(counts_of(&s, i / s.experts, e), c->n * s.blocks);
        if (rows == 0)
            continue;
        if (down)
            c->k->gelu(active, x, rows * from);
        multiply(&s, y, down ? active : x, c->in[weight].p + e * s.hidden * s.channels, !back,
            back ? TR_CUT : 1, scratch, rows);
        if (down_dx)
            c->k->gelu_dx(y, y, before, rows * to);
        else if (!up_dx)
            c->k->add_bias(y, y, c->in[3].p + e * to, rows, to);
        x += rows * from, y += rows * to, before += rows * to;
    }
}

/* Rows of the blocks of a sequence, spread to blocks of `longest` rows. */
static void spread(
    float *to, const float *x, const int32_t *counts, int64_t blocks, int64_t longest, int64_t width)
{
    for (int64_t b = 0; b < blocks; b++) {
        size_t here = (size_t)(counts[b] * width), rest = (size_t)((longest - counts[b]) * width);
        memcpy(to, x, here * sizeof *to);
        memset(to + here, 0, rest * sizeof *to);
        to += here + rest, x += here;
    }
}

/* dw and db of one expert: the leaf of one sequence, a' b and the sum of the rows of a, or of b. */
static void leaf(const struct segments *s, float *dw, float *db, const float *a, const float *b,
    const int32_t *counts, bool up)
{
    const struct tr_kernels *k = s->c->k;
    int64_t longest = 0, h = s->hidden, c = s->channels, width = up ? h : c;
    memset(dw, 0, (size_t)(h * c) * sizeof *dw);
    memset(db, 0, (size_t)width * sizeof *db);
    for (int64_t i = 0; i < s->blocks; i++)
        longest = counts[i] > longest ? counts[i] : longest;
    if (longest == 0)
        return;
    float *left = s->c->scratch, *right = left + s->blocks * longest * h,
          *rest = right + s->blocks * longest * c;
    spread(left, a, counts, s->blocks, longest, h);
    spread(right, b, counts, s->blocks, longest, c);
    if (!up)
        k->gelu(left, left, s->blocks * longest * h);
    struct tr_gemm g = { .m = h,
        .n = c,
        .k = s->blocks * longest,
        .a = left,
        .a_row = 1,
        .a_column = h,
        .b = right,
        .b_row = c,
        .b_column = 1,
        .c = dw,
        .c_row = c,
        .chunks = s->blocks,
        .chunk = longest,
        .add = true };
    k->gemm(&g, rest);
    k->sum_tokens(db, up ? left : right, s->blocks * longest, width, longest);
}

static void weight_gradients(const struct tr_call *c)
{
    bool up = c->i->op == TR_EXPERT_UP_DW;
    struct segments s = segments_of(c, 2, c->out[0].d[0] / tr_moe_hidden(c->g));
    int64_t h = s.hidden, w = h * s.channels, width = up ? h : s.channels, n = s.ranks * c->n,
            t = c->g->context;
    float *level[2][32], *p = c->scratch + tr_experts_leaf(c->g, t);
    for (int l = 0; l < 32 && (n - 1) >> l; l++, p += w + h)
        level[0][l] = p, level[1][l] = p + w;
    for (int64_t e = 0; e < s.experts; e++) {
        float *dw = c->out[0].p + e * w, *db = c->out[1].p + e * width;
        const float *first = c->in[up ? 0 : 1].p, *second = c->in[up ? 1 : 0].p; /* hidden, channels */
        for (int64_t i = 0; i < n; i++) {
            const int32_t *mine = counts_of(&s, i / c->n, e) + i % c->n * s.blocks;
            int64_t before = total(s.counts, mine - s.counts);
            leaf(&s, dw, db, first + before * h, second + before * s.channels, mine, up);
            tr_tree_in(c->k, dw, level[0], w, (int)i, (int)n);
            tr_tree_in(c->k, db, level[1], width, (int)i, (int)n);
        }
    }
}

/* ---- */

int64_t tr_experts_leaf(const struct tr_graph *g, int64_t tokens)
{
    int64_t h = tr_moe_hidden(g), spread_rows = (tokens + TR_BLOCKS) * (h + g->channels);
    return (spread_rows + tr_scratch_gemm(h, g->channels, tokens + TR_BLOCKS) + 15) / 16 * 16;
}

int64_t tr_experts_scratch(const struct tr_graph *g, int op, int64_t sequences, int64_t leaves)
{
    int64_t h = tr_moe_hidden(g), c = g->channels, tokens = sequences * g->context, levels = 0;
    while ((leaves - 1) >> levels)
        levels++;
    switch (op) {
    case TR_GATE:
        return 4 * tokens;
    case TR_GATE_DX:
    case TR_BALANCE_DX:
    case TR_ADMIT:
    case TR_DISPATCH:
    case TR_COMBINE:
    case TR_COMBINE_DX:
    case TR_DISPATCH_DX:
        return g->experts;
    case TR_EXPERT_UP:
    case TR_EXPERT_DOWN_DX:
        return tr_scratch_gemm(tokens, h, c);
    case TR_EXPERT_DOWN:
        return tokens * h + tr_scratch_gemm(tokens, c, h);
    case TR_EXPERT_UP_DX:
        return tr_scratch_gemm(tokens, c, h);
    case TR_EXPERT_DOWN_DW:
    case TR_EXPERT_UP_DW:
        return tr_experts_leaf(g, g->context) + levels * (h * c + h);
    default:
        return 0;
    }
}

bool tr_experts(const struct tr_call *c)
{
    switch (c->i->op) {
    case TR_EXPERT_UP:
    case TR_EXPERT_DOWN:
    case TR_EXPERT_DOWN_DX:
    case TR_EXPERT_UP_DX:
        through_experts(c);
        return true;
    case TR_EXPERT_DOWN_DW:
    case TR_EXPERT_UP_DW:
        weight_gradients(c);
        return true;
    default:
        return tr_router(c);
    }
}
