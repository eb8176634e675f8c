/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.c: one function for each kind of operation: local shapes of its values, then kernels.
 *
 * Rows are independent, so what has no sum over tokens runs on all sequences of the micro-batch at once.
 * What sums over tokens runs on one sequence after the other, and the sums enter the tree over sequences. */
#include "training/parallel/map.h"
#include "training/tape/experts.h"
#include "training/tape/widen.h"

#include <math.h>
#include <string.h>

void *tr_at(const struct tr_runner *r, int value)
{
    return r->arena[r->tape->values[value].host] + r->tape->values[value].offset;
}

static struct tr_operand operand(const struct tr_runner *r, int value)
{
    const struct tr_placed *p = r->tape->placed;
    struct tr_operand o = { .p = tr_at(r, value) };
    int shard = r->tape->values[value].shard;
    for (int i = 0; i < p->g->tensors[p->shards[shard].tensor].dims; i++)
        o.d[i] = tr_shard_size(p, shard, i);
    return o;
}

void tr_tree_in(const struct tr_kernels *k, float *x, float *const *level, int64_t count, int j, int n)
{
    int l = 0;
    for (; j >> l & 1; l++)
        k->add(x, level[l], x, count);
    if (j + 1 < n) {
        memcpy(level[l], x, (size_t)count * sizeof *x);
        return;
    }
    for (l = 0; !(n >> l & 1); l++)
        continue;
    for (l++; n >> l; l++)
        if (n >> l & 1)
            k->add(x, level[l], x, count);
}

/* The levels of a tree behind the scratch of the kernel that makes its leaves. */
void tr_levels_of(const struct tr_call *c, int64_t kernel_floats, int64_t count, float *level[32])
{
    float *p = c->scratch + (kernel_floats + 15) / 16 * 16;
    for (int l = 0; (c->n - 1) >> l && l < 32; l++, p += count)
        level[l] = p;
}

/* y[rows][n] = x[rows][k] w, w as b_row and b_column say. */
static void rows_times(const struct tr_call *c, int64_t n, int64_t k, int64_t stride, int64_t b_row,
    int64_t b_column, int64_t chunks, int64_t chunk)
{
    struct tr_gemm g = { .m = c->n * c->in[0].d[1],
        .n = n,
        .k = k,
        .a = c->in[0].p,
        .a_row = stride,
        .a_column = 1,
        .b = c->in[1].p,
        .b_row = b_row,
        .b_column = b_column,
        .c = c->out[0].p,
        .c_row = n,
        .chunks = chunks,
        .chunk = chunk };
    c->k->gemm(&g, c->scratch);
}

/* Of a dimension of `rows` that is padded to `local` on each of `tp` ranks: how many are here. */
static int64_t valid(const struct tr_call *c, int64_t rows, int64_t local, int64_t padded)
{
    int64_t left = rows - (local < padded ? c->tp_rank * local : 0);
    return left < 0 ? 0 : left < local ? left : local;
}

/* The weight of this instruction: whole sizes, and the chunks of its rows that are here. */
void tr_chunks_of(const struct tr_tensor *w, int64_t local, int64_t *chunks, int64_t *chunk)
{
    *chunk = w->size[0] / TR_CUT;
    *chunks = local / *chunk;
}

static void matmul(const struct tr_call *c, const struct tr_tensor *w)
{
    const struct tr_operand *x = &c->in[0], *m = &c->in[1];
    int64_t chunks, chunk;
    tr_chunks_of(w, m->d[0], &chunks, &chunk);
    switch (c->i->op) {
    case TR_COLUMN:
        rows_times(c, m->d[0], m->d[1], x->d[2], 1, m->d[1], 1, m->d[1]);
        break;
    case TR_ROW:
        rows_times(c, m->d[1], m->d[0], x->d[2], m->d[1], 1, chunks, chunk);
        break;
    case TR_COLUMN_DX:
        rows_times(c, m->d[1], valid(c, w->rows, m->d[0], w->size[0]), x->d[2], m->d[1], 1, chunks, chunk);
        break;
    default: /* TR_ROW_DX */
        rows_times(c, m->d[0], m->d[1], x->d[2], 1, m->d[1], 1, m->d[1]);
        break;
    }
}

/* dw[rows][columns] = a' b of each sequence, a[t][rows], b[t][columns]. These are leaves; or else the tree
 * over sequences follows. */
static void weight_gradient(const struct tr_call *c)
{
    bool column = c->i->op == TR_COLUMN_DW || c->i->op == TR_COLUMN_LEAVES; /* dw = dy' x, or x' dy */
    bool leaves = c->i->op == TR_COLUMN_LEAVES || c->i->op == TR_ROW_LEAVES;
    const struct tr_operand *a = &c->in[column ? 0 : 1], *b = &c->in[column ? 1 : 0];
    int64_t runs = leaves ? c->runs : 1, n = c->n * runs;
    int64_t t = a->d[1] / runs, rows = a->d[2], columns = b->d[2];
    int64_t block = t < c->block ? t : c->block; /* of a picture's one row: itself */
    float *level[32];
    if (!leaves)
        tr_levels_of(c, tr_scratch_gemm(rows, columns, t), rows * columns, level);
    int64_t sums = c->k->free && !leaves ? 1 : n; /* in free order, one sum over all tokens */
    for (int64_t s = 0; s < sums; s++) {
        struct tr_gemm g = { .m = rows,
            .n = columns,
            .k = t * (n / sums),
            .a = a->p + s * t * rows,
            .a_row = 1,
            .a_column = rows,
            .b = b->p + s * t * columns,
            .b_row = columns,
            .b_column = 1,
            .c = c->out[0].p + (leaves ? s * rows * columns : 0),
            .c_row = columns,
            .chunks = t / block,
            .chunk = block };
        c->k->gemm(&g, c->scratch);
        if (!leaves)
            tr_tree_in(c->k, c->out[0].p, level, rows * columns, (int)s, (int)sums);
    }
}

static void embed_gradient(const struct tr_call *c)
{
    bool leaves = c->i->op == TR_EMBED_LEAVES;
    int64_t runs = leaves ? c->runs : 1, t = c->in[0].d[1] / runs, columns = c->in[0].d[2],
            rows = c->out[0].d[leaves];
    const uint16_t *token = (const uint16_t *)(const void *)c->in[1].p;
    int64_t first = rows < c->g->tensors[0].size[0] ? c->tp_rank * rows : 0;
    float *level[32];
    if (!leaves)
        tr_levels_of(c, 0, rows * columns, level);
    for (int64_t s = 0; s < c->n * runs; s++) {
        float *dw = c->out[0].p + (leaves ? s * rows * columns : 0);
        c->k->embed_dw(dw, c->in[0].p + s * t * columns, token + s * t, t, columns, first, rows, c->block);
        if (!leaves)
            tr_tree_in(c->k, dw, level, rows * columns, (int)s, (int)c->n);
    }
}

/* The token of the sequence that is the t-th of run r here. */
static int64_t token_here(const struct tr_call *c, int64_t r, int64_t t)
{
    int64_t place = (r % c->runs ? c->i->second : c->i->first) + t;
    return c->i->striped ? tr_striped_token(c->g->context, place) : place;
}

/* Neighbours are one call, tokens of stripes one each. */
static void position(const struct tr_call *c)
{
    int64_t tokens = c->in[0].d[1] / c->runs, width = c->in[0].d[2], some = c->i->striped ? 1 : tokens;
    for (int64_t r = 0; r < c->n * c->runs; r++)
        for (int64_t t = 0; t < tokens; t += some) {
            int64_t at = (r * tokens + t) * width;
            c->k->add(
                c->out[0].p + at, c->in[0].p + at, c->in[1].p + token_here(c, r, t) * width, some * width);
        }
}

/* A sequence's leaf is its gradient itself: +0 is added, as the sum with the ranks that have other tokens
 * does. */
static void position_gradient(const struct tr_call *c)
{
    int64_t width = c->in[0].d[2], tokens = c->in[0].d[1] / c->runs, whole = c->out[0].d[1] * width;
    memset(c->out[0].p, 0, (size_t)(c->n * whole) * sizeof(float));
    for (int64_t r = 0; r < c->n * c->runs; r++)
        for (int64_t t = 0; t < tokens; t++) {
            float *to = c->out[0].p + r / c->runs * whole + token_here(c, r, t) * width;
            for (int64_t i = 0; i < width; i++)
                to[i] = c->in[0].p[(r * tokens + t) * width + i] + 0.0f;
        }
}

static void leaves(const struct tr_call *c)
{
    int64_t t = c->in[0].d[1] / c->runs, width = c->in[0].d[2], out = c->out[0].d[1];
    for (int64_t s = 0; s < c->n * c->runs; s++) {
        const float *dy = c->in[0].p + s * t * width;
        if (c->i->op == TR_BIAS_DW)
            c->k->sum_tokens(c->out[0].p + s * out, dy, t, width, c->block);
        else
            c->k->layer_norm_dw(c->out[0].p + s * out, c->out[1].p + s * out, dy, c->in[1].p + s * t * width,
                c->in[2].p + s * t, c->in[3].p + s * t, t, width, c->block);
    }
}

/* The tree over n leaves, in place; the sum is in the first. Of a sequence there may be two, neighbours. */
static void fold(const struct tr_call *c, int64_t n, int64_t count)
{
    for (int64_t step = 1; step < n; step *= 2)
        for (int64_t s = 0; s + step < n; s += 2 * step)
            c->k->add(c->in[0].p + s * count, c->in[0].p + s * count, c->in[0].p + (s + step) * count, count);
    memcpy(c->out[0].p, c->in[0].p, (size_t)count * sizeof(float));
}

static void softmax(const struct tr_call *c)
{
    int64_t stride = c->in[0].d[2], padded = (c->g->vocabulary + TR_PAD - 1) / TR_PAD * TR_PAD;
    int64_t rows = c->n * c->in[0].d[1], columns = c->i->valid;
    int64_t first = stride < padded ? c->tp_rank * stride : 0;
    const uint16_t *target = (const uint16_t *)(const void *)c->in[2].p;
    if (c->i->op == TR_ROW_MAX && columns == 0) /* padding alone: less than what others have */
        for (int64_t i = 0; i < rows; i++)
            c->out[0].p[i] = -INFINITY;
    else if (c->i->op == TR_ROW_MAX)
        c->k->row_max(c->out[0].p, c->in[0].p, rows, columns, stride);
    if (c->i->op == TR_ROW_MAX)
        return;
    if (c->out[0].p != c->in[0].p)
        memcpy(c->out[0].p, c->in[0].p, (size_t)(rows * stride) * sizeof(float));
    if (c->i->op == TR_SOFTMAX)
        c->k->softmax(c->out[0].p, c->out[1].p, c->out[2].p, c->in[1].p, target, rows, columns, stride, first,
            padded / TR_CUT, stride / (padded / TR_CUT));
    else
        c->k->softmax_dx(c->out[0].p, c->in[1].p, target, rows, columns, stride, first, (float)c->i->scale);
}

/* A picture has one loss, which is in its first leaf. */
static void losses(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], block = rows < c->block ? rows : c->block;
    int64_t leaves = c->g->grid ? TR_BLOCKS : rows / block; /* a picture's only row is in the first */
    double *leaf = (double *)(void *)c->out[0].p;
    memset(leaf, 0, (size_t)(c->n * leaves) * sizeof *leaf);
    for (int64_t s = 0; s < c->n; s++)
        c->k->loss(leaf + s * leaves, c->in[0].p + s * rows, c->in[1].p + s * rows, c->in[2].p + s * rows,
            rows, block);
}

static void elementwise(const struct tr_call *c)
{
    const struct tr_operand *x = &c->in[0];
    int64_t rows = c->n * x->d[1], width = x->d[2];
    switch (c->i->op) {
    case TR_LAYER_NORM:
        c->k->layer_norm(c->out[0].p, c->out[1].p, c->out[2].p, x->p, c->in[1].p, c->in[2].p, rows, width);
        break;
    case TR_LAYER_NORM_DX:
        c->k->layer_norm_dx(c->out[0].p, x->p, c->in[1].p, c->in[2].p, c->in[3].p, c->in[4].p, rows, width);
        break;
    case TR_BIAS:
        c->k->add_bias(c->out[0].p, x->p, c->in[1].p, rows, width);
        break;
    case TR_GELU:
        c->k->gelu(c->out[0].p, x->p, rows * width);
        break;
    case TR_GELU_DX:
        c->k->gelu_dx(c->out[0].p, x->p, c->in[1].p, rows * width);
        break;
    case TR_SUM_CELLS:
    case TR_MEAN:
    case TR_MEAN_DX:
        tr_mean_of_cells(c);
        break;
    case TR_ADD:
        c->k->add(c->out[0].p, x->p, c->in[1].p, rows * width);
        break;
    default: { /* TR_EMBED */
        int64_t here = c->in[0].d[0];
        int64_t first = here < c->g->tensors[0].size[0] ? c->tp_rank * here : 0;
        c->k->embed(c->out[0].p, x->p, (const uint16_t *)(const void *)c->in[1].p, c->n * c->in[1].d[1],
            c->in[0].d[1], first, here);
        break;
    }
    }
}

static struct tr_call call_of(const struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    const struct tr_plan *plan = t->placed->plan;
    struct tr_map map = tr_map_of(plan);
    struct tr_call c = { .k = r->k,
        .g = g,
        .plan = plan,
        .map = map,
        .i = i,
        .n = tr_micro_batch(plan),
        .block = g->context / TR_BLOCKS,
        .runs = tr_runs_of(&map, g->context, 0).n,
        .tp = plan->mesh.size[TR_TP],
        .tp_rank = t->at[TR_TP],
        .cp = plan->mesh.size[TR_CP],
        .cp_rank = t->at[TR_CP],
        .scratch = i->scratch < 0 ? NULL : tr_at(r, i->scratch) };
    for (int x = 0; x < i->ins; x++)
        c.in[x] = operand(r, i->in[x]);
    for (int x = 0; x < i->outs; x++)
        c.out[x] = operand(r, i->out[x]);
    return c;
}

/* The tensor that the second operand is a part of. */
static const struct tr_tensor *weight_of(const struct tr_tape *t, const struct tr_instr *i)
{
    return &t->placed->g->tensors[t->placed->shards[t->values[i->in[1]].shard].tensor];
}

/* Products with a weight, and its gradients; false: it is none of these. */
static bool product(const struct tr_call *c, const struct tr_tape *t)
{
    switch (c->i->op) {
    case TR_COLUMN:
    case TR_ROW:
    case TR_COLUMN_DX:
    case TR_ROW_DX:
        matmul(c, weight_of(t, c->i));
        return true;
    case TR_COLUMN_DW:
    case TR_ROW_DW:
    case TR_COLUMN_LEAVES:
    case TR_ROW_LEAVES:
        weight_gradient(c);
        return true;
    case TR_FILTERS:
    case TR_CHANNELS:
    case TR_FILTERS_DX:
    case TR_CHANNELS_DX:
        tr_convolve(c, weight_of(t, c->i));
        return true;
    case TR_FILTERS_DW:
    case TR_CHANNELS_DW:
    case TR_FILTERS_LEAVES:
    case TR_CHANNELS_LEAVES:
        tr_convolve_gradient(c);
        return true;
    default:
        return false;
    }
}

/* Attention, whole or in parts; false: it is none. */
static bool attends(const struct tr_call *c)
{
    switch (c->i->op) {
    case TR_ATTENTION:
    case TR_ATTENTION_DX:
    case TR_ATTEND_WINDOW:
    case TR_ATTEND_WINDOW_DX:
    case TR_ATTEND:
    case TR_ATTEND_DX:
        tr_attention(c);
        return true;
    case TR_ATTEND_PART:
    case TR_ATTEND_PART_DX:
    case TR_ATTEND_SCORES:
    case TR_ATTEND_SCORES_DX:
    case TR_ATTEND_MERGE:
    case TR_SUM_KEYS:
    case TR_SUM_QUERIES:
        tr_attention_in_parts(c);
        return true;
    default:
        return false;
    }
}

static void run(const struct tr_call *c, const struct tr_tape *t)
{
    if (product(c, t) || attends(c) || tr_group_norm(c) || tr_experts(c))
        return;
    switch (c->i->op) {
    case TR_EMBED_DW:
    case TR_EMBED_LEAVES:
        embed_gradient(c);
        break;
    case TR_POSITION:
        position(c);
        break;
    case TR_POSITION_DW:
        position_gradient(c);
        break;
    case TR_BIAS_DW:
    case TR_LAYER_NORM_DW:
        leaves(c);
        break;
    case TR_FOLD:
        fold(c, tr_count(t, c->i->in[0]) / tr_count(t, c->i->out[0]), tr_count(t, c->i->out[0]));
        break;
    case TR_PACK:
    case TR_UNPACK:
        tr_pack(c);
        break;
    case TR_SLICE:
        tr_slice(c);
        break;
    case TR_ARRANGE:
    case TR_DEAL:
        tr_arrange(c);
        break;
    case TR_HALVES:
        tr_add_halves(c);
        break;
    case TR_SPLIT:
    case TR_JOIN:
        tr_split(c);
        break;
    case TR_ROW_MAX:
    case TR_SOFTMAX:
    case TR_SOFTMAX_DX:
        softmax(c);
        break;
    case TR_LOSS_LEAVES:
        losses(c);
        break;
    default:
        elementwise(c);
        break;
    }
}

void tr_compute(struct tr_runner *r, const struct tr_instr *i)
{
    if (i->op == TR_ROUND) {
        r->k->narrow(tr_at(r, i->out[0]), tr_at(r, i->in[0]), tr_count(r->tape, i->in[0]));
        return;
    }
    struct tr_call c = call_of(r, i);
    tr_widen_operands(r, &c);
    run(&c, r->tape);
    tr_narrow_results(r, &c);
}
