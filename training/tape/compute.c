/* SPDX-License-Identifier: BSD-3-Clause */
/* compute.c: one function for each kind of operation: local shapes of its values, then kernels.
 *
 * Rows are independent, so what has no sum over tokens runs on all sequences of the micro-batch at once.
 * What sums over tokens runs on one sequence after the other, and the sums enter the tree over sequences. */
#include "training/tape/compute.h"

#include <math.h>
#include <string.h>

/* An operand: its memory and its local sizes. */
struct operand {
    float *p;
    int64_t d[TR_DIMS];
};

struct call {
    const struct tr_kernels *k;
    const struct tr_graph *g;
    const struct tr_instr *i;
    int64_t n, block; /* sequences; tokens of a block */
    int64_t tp, tp_rank, cp, cp_rank;
    struct operand in[TR_INS], out[TR_OUTS];
    float *scratch;
};

void *tr_at(const struct tr_runner *r, int value)
{
    return r->arena + r->tape->values[value].offset;
}

static struct operand operand(const struct tr_runner *r, int value)
{
    const struct tr_placed *p = r->tape->placed;
    struct operand o = { .p = tr_at(r, value) };
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
static void levels_of(const struct call *c, int64_t kernel_floats, int64_t count, float *level[32])
{
    float *p = c->scratch + (kernel_floats + 15) / 16 * 16;
    for (int l = 0; (c->n - 1) >> l && l < 32; l++, p += count)
        level[l] = p;
}

/* y[rows][n] = x[rows][k] w, w as b_row and b_column say. */
static void rows_times(const struct call *c, int64_t n, int64_t k, int64_t stride, int64_t b_row,
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
static int64_t valid(const struct call *c, int64_t rows, int64_t local, int64_t padded)
{
    int64_t left = rows - (local < padded ? c->tp_rank * local : 0);
    return left < 0 ? 0 : left < local ? left : local;
}

/* The weight of this instruction: whole sizes, and the chunks of its rows that are here. */
static void chunks_of(const struct tr_tensor *w, int64_t local, int64_t *chunks, int64_t *chunk)
{
    *chunk = w->size[0] / TR_CUT;
    *chunks = local / *chunk;
}

static void matmul(const struct call *c, const struct tr_tensor *w)
{
    const struct operand *x = &c->in[0], *m = &c->in[1];
    int64_t chunks, chunk;
    chunks_of(w, m->d[0], &chunks, &chunk);
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
static void weight_gradient(const struct call *c)
{
    bool column = c->i->op == TR_COLUMN_DW || c->i->op == TR_COLUMN_LEAVES; /* dw = dy' x, or x' dy */
    bool leaves = c->i->op == TR_COLUMN_LEAVES || c->i->op == TR_ROW_LEAVES;
    const struct operand *a = &c->in[column ? 0 : 1], *b = &c->in[column ? 1 : 0];
    int64_t t = a->d[1], rows = a->d[2], columns = b->d[2];
    int64_t block = t < c->block ? t : c->block; /* of a picture's one row: itself */
    float *level[32];
    if (!leaves)
        levels_of(c, tr_scratch_gemm(rows, columns, t), rows * columns, level);
    int64_t sums = c->k->free && !leaves ? 1 : c->n; /* in free order, one sum over all tokens */
    for (int64_t s = 0; s < sums; s++) {
        struct tr_gemm g = { .m = rows,
            .n = columns,
            .k = t * (c->n / sums),
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

/* The rows of a product that are the patches of sequence s, behind the scratch of that product. */
static float *patches(const struct call *c, const struct operand *x, int64_t s, int64_t kernel_floats,
    bool channels_outside, int64_t direction)
{
    float *to = c->scratch + (kernel_floats + 15) / 16 * 16;
    c->k->patches(to, x->p + s * x->d[1] * x->d[2], c->g->grid, x->d[2], channels_outside, direction);
    return to;
}

/* A convolution, or the gradient of its input, which is one with the taps the other way round. Where the rows
 * of w are summed over (channels, and backward filters), each row is one for every tap. */
static void convolve(const struct call *c, const struct tr_tensor *w)
{
    bool forward = c->i->op == TR_FILTERS || c->i->op == TR_CHANNELS;
    bool sums_rows = c->i->op == TR_CHANNELS || c->i->op == TR_FILTERS_DX;
    const struct operand *x = &c->in[0];
    int64_t t = x->d[1], k = TR_TAPS * x->d[2], n = c->out[0].d[2], chunks, chunk;
    chunks_of(w, c->in[1].d[0], &chunks, &chunk);
    struct tr_gemm g = { .m = t,
        .n = n,
        .k = k,
        .a_row = k,
        .a_column = 1,
        .b = c->in[1].p,
        .b_row = sums_rows ? n : 1,
        .b_column = sums_rows ? 1 : k,
        .c_row = n,
        .chunks = sums_rows ? chunks : 1,
        .chunk = sums_rows ? TR_TAPS * chunk : k };
    for (int64_t s = 0; s < c->n; s++) {
        g.a = patches(c, x, s, tr_scratch_gemm(t, n, k), sums_rows, forward ? 1 : -1);
        g.c = c->out[0].p + s * t * n;
        c->k->gemm(&g, c->scratch);
    }
}

/* dw = dy' patches, or for channels patches' dy, of each sequence; then the tree over sequences. */
static void convolve_gradient(const struct call *c)
{
    bool filters = c->i->op == TR_FILTERS_DW;
    const struct operand *dy = &c->in[0], *x = &c->in[1];
    int64_t t = x->d[1], k = TR_TAPS * x->d[2], rows = filters ? dy->d[2] : k,
            columns = filters ? k : dy->d[2];
    int64_t kernel = tr_scratch_gemm(rows, columns, t);
    float *level[32];
    levels_of(c, (kernel + 15) / 16 * 16 + t * k, rows * columns, level);
    for (int64_t s = 0; s < c->n; s++) {
        const float *y = dy->p + s * t * dy->d[2], *taps = patches(c, x, s, kernel, !filters, 1);
        struct tr_gemm g = { .m = rows,
            .n = columns,
            .k = t,
            .a = filters ? y : taps,
            .a_row = 1,
            .a_column = rows,
            .b = filters ? taps : y,
            .b_row = columns,
            .b_column = 1,
            .c = c->out[0].p,
            .c_row = columns,
            .chunks = t / c->block,
            .chunk = c->block };
        c->k->gemm(&g, c->scratch);
        tr_tree_in(c->k, c->out[0].p, level, rows * columns, (int)s, (int)c->n);
    }
}

/* The mean over the cells of each picture; backward each cell gets its part. */
static void mean(const struct call *c)
{
    int64_t width = c->in[0].d[2], cells = c->i->op == TR_MEAN ? c->in[0].d[1] : c->out[0].d[1];
    for (int64_t s = 0; s < c->n; s++)
        if (c->i->op == TR_MEAN) {
            float *to = c->out[0].p + s * width;
            c->k->sum_tokens(to, c->in[0].p + s * cells * width, cells, width, c->block);
            for (int64_t i = 0; i < width; i++)
                to[i] = to[i] / (float)cells;
        } else
            for (int64_t i = 0; i < cells * width; i++)
                c->out[0].p[s * cells * width + i] = c->in[0].p[s * width + i % width] / (float)cells;
}

static void embed_gradient(const struct call *c)
{
    bool leaves = c->i->op == TR_EMBED_LEAVES;
    int64_t t = c->in[0].d[1], columns = c->in[0].d[2], rows = c->out[0].d[leaves];
    const uint16_t *token = (const uint16_t *)(const void *)c->in[1].p;
    int64_t first = rows < c->g->tensors[0].size[0] ? c->tp_rank * rows : 0;
    float *level[32];
    if (!leaves)
        levels_of(c, 0, rows * columns, level);
    for (int64_t s = 0; s < c->n; s++) {
        float *dw = c->out[0].p + (leaves ? s * rows * columns : 0);
        c->k->embed_dw(dw, c->in[0].p + s * t * columns, token + s * t, t, columns, first, rows, c->block);
        if (!leaves)
            tr_tree_in(c->k, dw, level, rows * columns, (int)s, (int)c->n);
    }
}

static void position(const struct call *c)
{
    int64_t t = c->in[0].d[1], width = c->in[0].d[2];
    const float *w = c->in[1].p + c->i->first * width;
    for (int64_t s = 0; s < c->n; s++)
        c->k->add(c->out[0].p + s * t * width, c->in[0].p + s * t * width, w, t * width);
}

/* A sequence's leaf is its gradient itself: +0 is added, as the sum with the ranks that have other tokens
 * does. */
static void position_gradient(const struct call *c)
{
    int64_t t = c->in[0].d[1], width = c->in[0].d[2], whole = c->out[0].d[1] * width;
    for (int64_t s = 0; s < c->n; s++) {
        float *to = c->out[0].p + s * whole;
        memset(to, 0, (size_t)whole * sizeof *to);
        to += c->i->first * width;
        for (int64_t i = 0; i < t * width; i++)
            to[i] = c->in[0].p[s * t * width + i] + 0.0f;
    }
}

static void leaves(const struct call *c)
{
    int64_t t = c->in[0].d[1], width = c->in[0].d[2], out = c->out[0].d[1];
    for (int64_t s = 0; s < c->n; s++) {
        const float *dy = c->in[0].p + s * t * width;
        if (c->i->op == TR_BIAS_DW)
            c->k->sum_tokens(c->out[0].p + s * out, dy, t, width, c->block);
        else
            c->k->layer_norm_dw(c->out[0].p + s * out, c->out[1].p + s * out, dy, c->in[1].p + s * t * width,
                c->in[2].p + s * t, c->in[3].p + s * t, t, width, c->block);
    }
}

/* The tree over the sequences' leaves, in place; the sum is in the first. */
static void fold(const struct call *c, int64_t count)
{
    for (int64_t step = 1; step < c->n; step *= 2)
        for (int64_t s = 0; s + step < c->n; s += 2 * step)
            c->k->add(c->in[0].p + s * count, c->in[0].p + s * count, c->in[0].p + (s + step) * count, count);
    memcpy(c->out[0].p, c->in[0].p, (size_t)count * sizeof(float));
}

/* Queries, keys and values are one operand, or q and kv are two. */
static void attention(const struct call *c)
{
    bool back = c->i->op == TR_ATTENTION_DX || c->i->op == TR_ATTEND_DX; /* in: dy, y, lse, q, kv */
    bool apart = c->i->op == TR_ATTEND || c->i->op == TR_ATTEND_DX;
    const struct operand *lse = back ? &c->in[2] : &c->out[1], *x = back ? &c->in[3] : &c->in[0];
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
static void attention_part(const struct call *c)
{
    bool back = c->i->op == TR_ATTEND_PART_DX; /* in: dy, y, lse, q, kv */
    const struct operand *q = back ? &c->in[3] : &c->in[0], *kv = q + 1;
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
static void attention_merge(const struct call *c)
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
static void sum_parts(const struct call *c)
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

static void in_parts(const struct call *c)
{
    if (c->i->op == TR_ATTEND_MERGE)
        attention_merge(c);
    else if (c->i->op == TR_SUM_KEYS || c->i->op == TR_SUM_QUERIES)
        sum_parts(c);
    else
        attention_part(c);
}

/* qkv[token][head][3][size] becomes q[token][head][size] and kv[token][head][2][size], or is made of them. */
static void split(const struct call *c)
{
    bool join = c->i->op == TR_JOIN;
    const struct operand *whole = join ? &c->out[0] : &c->in[0], *part = join ? c->in : c->out;
    int64_t size = c->g->channels / c->g->heads, heads = c->n * whole->d[1] * whole->d[2] / (3 * size);
    for (int64_t h = 0; h < heads; h++) {
        float *q = part[0].p + h * size, *kv = part[1].p + 2 * h * size, *qkv = whole->p + 3 * h * size;
        memcpy(join ? qkv : q, join ? q : qkv, (size_t)size * sizeof *q);
        memcpy(join ? qkv + size : kv, join ? kv : qkv + size, 2 * (size_t)size * sizeof *q);
    }
}

/* x[sequence][token][rank][width] becomes x[sequence][rank][token][width], or comes back. */
static void pack(const struct call *c)
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

static void softmax(const struct call *c)
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
static void losses(const struct call *c)
{
    int64_t rows = c->in[0].d[1], block = rows < c->block ? rows : c->block;
    int64_t leaves = c->g->grid ? TR_BLOCKS : rows / block; /* a picture's only row is in the first */
    double *leaf = (double *)(void *)c->out[0].p;
    memset(leaf, 0, (size_t)(c->n * leaves) * sizeof *leaf);
    for (int64_t s = 0; s < c->n; s++)
        c->k->loss(leaf + s * leaves, c->in[0].p + s * rows, c->in[1].p + s * rows, c->in[2].p + s * rows,
            rows, block);
}

static void elementwise(const struct call *c)
{
    const struct operand *x = &c->in[0];
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

static struct call call_of(const struct tr_runner *r, const struct tr_instr *i)
{
    const struct tr_tape *t = r->tape;
    const struct tr_graph *g = t->placed->g;
    const struct tr_plan *plan = t->placed->plan;
    struct call c = { .k = r->k,
        .g = g,
        .i = i,
        .n = tr_micro_batch(plan),
        .block = g->context / TR_BLOCKS,
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
static bool product(const struct call *c, const struct tr_tape *t)
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
        convolve(c, weight_of(t, c->i));
        return true;
    case TR_FILTERS_DW:
    case TR_CHANNELS_DW:
        convolve_gradient(c);
        return true;
    default:
        return false;
    }
}

void tr_compute(struct tr_runner *r, const struct tr_instr *i)
{
    struct call c = call_of(r, i);
    if (product(&c, r->tape))
        return;
    switch (i->op) {
    case TR_MEAN:
    case TR_MEAN_DX:
        mean(&c);
        break;
    case TR_EMBED_DW:
    case TR_EMBED_LEAVES:
        embed_gradient(&c);
        break;
    case TR_POSITION:
        position(&c);
        break;
    case TR_POSITION_DW:
        position_gradient(&c);
        break;
    case TR_BIAS_DW:
    case TR_LAYER_NORM_DW:
        leaves(&c);
        break;
    case TR_FOLD:
        fold(&c, r->tape->values[i->out[0]].bytes / 4);
        break;
    case TR_ATTENTION:
    case TR_ATTENTION_DX:
    case TR_ATTEND:
    case TR_ATTEND_DX:
        attention(&c);
        break;
    case TR_ATTEND_PART:
    case TR_ATTEND_PART_DX:
    case TR_ATTEND_MERGE:
    case TR_SUM_KEYS:
    case TR_SUM_QUERIES:
        in_parts(&c);
        break;
    case TR_PACK:
    case TR_UNPACK:
        pack(&c);
        break;
    case TR_SPLIT:
    case TR_JOIN:
        split(&c);
        break;
    case TR_ROW_MAX:
    case TR_SOFTMAX:
    case TR_SOFTMAX_DX:
        softmax(&c);
        break;
    case TR_LOSS_LEAVES:
        losses(&c);
        break;
    default:
        elementwise(&c);
        break;
    }
}
