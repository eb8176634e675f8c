/* SPDX-License-Identifier: BSD-3-Clause */
/* experts.c: experts (moe.c says what they are), on rows that a router has sorted.
 *
 * A segment is what one rank has sent to one expert, by sequences, and in each by tokens. Rows lie in
 * segments: by ranks, then by experts. Rows are independent, so each segment goes through the expert's
 * matrices as it lies. What sums over tokens runs on one sequence after the other, whose rows are spread to
 * blocks of equal length with rows of 0 behind them: a chain that adds 0 stays as it is, but for the sign of
 * a 0, and + 0 makes that one.
 *
 * Which rows are whose the processor reads in the counts, so these operations work in the host's memory. */
#include "training/model/autodiff.h"
#include "training/model/moe.h"
#include "training/ops/site.h"

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
    s->c->k->gemm(s->c->x, &g, scratch);
}

static void through_experts(const struct tr_call *c)
{
    bool down = c->op == TR_EXPERT_DOWN, down_dx = c->op == TR_EXPERT_DOWN_DX,
         up_dx = c->op == TR_EXPERT_UP_DX;
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
            c->k->gelu.forward(c->x, active, x, rows * from);
        multiply(&s, y, down ? active : x, c->in[weight].p + e * s.hidden * s.channels, !back,
            back ? TR_CUT : 1, scratch, rows);
        if (down_dx)
            c->k->gelu.dx(c->x, y, y, before, rows * to);
        else if (!up_dx)
            c->k->add_bias(c->x, y, y, c->in[3].p + e * to, rows, to);
        x += rows * from, y += rows * to, before += rows * to;
    }
}

/* Rows of the blocks of a sequence, spread to blocks of `longest` rows. */
static void spread(const struct tr_call *c, float *to, const float *x, const int32_t *counts, int64_t blocks,
    int64_t longest, int64_t width)
{
    for (int64_t b = 0; b < blocks; b++) {
        int64_t here = counts[b] * width, rest = (longest - counts[b]) * width;
        tr_copy_bytes(c->x, to, x, here * TR_FLOAT_BYTES);
        c->k->fill(c->x, to + here, 0, rest * TR_FLOAT_BYTES);
        to += here + rest, x += here;
    }
}

static bool gives_leaves(const struct tr_call *c)
{
    return c->op == TR_EXPERT_UP_LEAVES || c->op == TR_EXPERT_DOWN_LEAVES;
}

static bool gives_up(const struct tr_call *c)
{
    return c->op == TR_EXPERT_UP_DW || c->op == TR_EXPERT_UP_LEAVES;
}

/* dw and db of one expert: the leaf of some blocks of one sequence, a' b and the sum of the rows of a, or of
 * b. */
static void leaf(const struct segments *s, float *dw, float *db, const float *a, const float *b,
    const int32_t *counts, int64_t blocks, bool up)
{
    const struct tr_kernels *k = s->c->k;
    struct tr_context *x = s->c->x;
    int64_t longest = 0, h = s->hidden, c = s->channels, width = up ? h : c;
    k->fill(x, dw, 0, h * c * TR_FLOAT_BYTES);
    k->fill(x, db, 0, width * TR_FLOAT_BYTES);
    for (int64_t i = 0; i < blocks; i++)
        longest = counts[i] > longest ? counts[i] : longest;
    if (longest == 0)
        return;
    float *left = s->c->scratch, *right = left + blocks * longest * h, *rest = right + blocks * longest * c;
    spread(s->c, left, a, counts, blocks, longest, h);
    spread(s->c, right, b, counts, blocks, longest, c);
    if (!up)
        k->gelu.forward(x, left, left, blocks * longest * h);
    struct tr_gemm g = { .m = h,
        .n = c,
        .k = blocks * longest,
        .a = left,
        .a_row = 1,
        .a_column = h,
        .b = right,
        .b_row = c,
        .b_column = 1,
        .c = dw,
        .c_row = c,
        .chunks = blocks,
        .chunk = longest,
        .add = true };
    k->gemm(x, &g, rest);
    k->sum_tokens(x, db, up ? left : right, &(struct tr_tokens){ 1, blocks * longest, width, longest });
}

/* Floats for the leaf of a sequence: its rows, spread, and the product. */
static int64_t leaf_scratch(const struct tr_call *c)
{
    int64_t h = tr_moe_hidden(c->g), width = c->g->channels, t = c->g->context + TR_BLOCKS;
    struct tr_gemm g = { .m = h, .n = width, .k = t, .chunks = TR_BLOCKS, .chunk = t / TR_BLOCKS };
    return tr_lines(t * (h + width) + c->k->scratch_gemm(&g));
}

/* Of a gradient, or of the leaves of one: how many experts are here. */
static int64_t experts_of(const struct tr_call *c)
{
    return c->out[0].d[gives_leaves(c)] / tr_moe_hidden(c->g);
}

/* Each leaf has the gradients of all experts that are here. */
static void weight_leaves(const struct tr_call *c)
{
    bool up = gives_up(c);
    struct segments s = segments_of(c, 2, experts_of(c));
    int64_t h = s.hidden, w = h * s.channels, width = up ? h : s.channels, blocks = s.blocks / c->runs;
    const float *first = c->in[up ? 0 : 1].p, *second = c->in[up ? 1 : 0].p; /* hidden, channels */
    for (int64_t i = 0; i < s.ranks * c->n * c->runs * s.experts; i++) {
        int64_t at = i / s.experts, e = i % s.experts, sequence = at / c->runs;
        const int32_t *mine =
            counts_of(&s, sequence / c->n, e) + sequence % c->n * s.blocks + at % c->runs * blocks;
        int64_t before = total(s.counts, mine - s.counts);
        leaf(&s, c->out[0].p + i * w, c->out[1].p + i * width, first + before * h,
            second + before * s.channels, mine, blocks, up);
    }
}

static void weight_gradients(const struct tr_call *c)
{
    bool up = gives_up(c);
    struct segments s = segments_of(c, 2, experts_of(c));
    int64_t h = s.hidden, w = h * s.channels, width = up ? h : s.channels, n = s.ranks * c->n;
    float *level[2][32], *p = c->scratch + leaf_scratch(c);
    for (int l = 0; l < 32 && (n - 1) >> l; l++, p += w + h)
        level[0][l] = p, level[1][l] = p + w;
    for (int64_t e = 0; e < s.experts; e++) {
        float *dw = c->out[0].p + e * w, *db = c->out[1].p + e * width;
        const float *first = c->in[up ? 0 : 1].p, *second = c->in[up ? 1 : 0].p; /* hidden, channels */
        for (int64_t i = 0; i < n; i++) {
            const int32_t *mine = counts_of(&s, i / c->n, e) + i % c->n * s.blocks;
            int64_t before = total(s.counts, mine - s.counts);
            leaf(&s, dw, db, first + before * h, second + before * s.channels, mine, s.blocks, up);
            c->k->tree_in(c->x, dw, level[0], w, i, n);
            c->k->tree_in(c->x, db, level[1], width, i, n);
        }
    }
}

static int64_t rows_scratch(const struct tr_call *c)
{
    int64_t h = tr_moe_hidden(c->g), width = c->g->channels, tokens = c->n * c->g->context;
    bool down = c->op == TR_EXPERT_DOWN, from_hidden = down || c->op == TR_EXPERT_UP_DX;
    struct tr_gemm g = { .m = tokens,
        .n = from_hidden ? width : h,
        .k = from_hidden ? h : width,
        .chunks = from_hidden ? TR_CUT : 1,
        .chunk = from_hidden ? h / TR_CUT : width };
    return (down ? tokens * h : 0) + c->k->scratch_gemm(&g);
}

static int64_t weight_scratch(const struct tr_call *c)
{
    int64_t h = tr_moe_hidden(c->g), sums = gives_leaves(c) ? 1 : c->n * (c->g->experts / experts_of(c));
    return leaf_scratch(c) + tr_levels(sums) * (h * c->g->channels + h);
}

/* Each rank has its share of the rows of all, whatever the run will say. */
static double work_by(const struct tr_call *c, const struct tr_operand *rows, const struct tr_tensor *w)
{
    double elements = (double)w->size[0] * (double)w->size[1];
    return 2.0 * (double)(c->n * rows->of->size[1]) * elements / (double)c->g->experts;
}

static double rows_work(const struct tr_call *c)
{
    return work_by(c, &c->in[0], c->in[c->op == TR_EXPERT_DOWN_DX ? 3 : 2].of);
}

static double weight_work(const struct tr_call *c)
{
    return work_by(c, &c->in[0], c->out[0].of);
}

/* ---- the rows ---- */

/* Gradients of an expert's weight w and bias b. */
static void give_weights(
    struct tr_backward *p, int op, int leaves_op, int unit, const int in[3], int w, int b)
{
    if (p->g->leaves != TR_NONE_AS_LEAVES) {
        tr_weight_leaves(p, leaves_op, unit, in, 3, (int[]){ w, b }, 2);
        return;
    }
    int out[] = { tr_gradient_of_parameter(p, TR_D_PARAMETER, w),
        tr_gradient_of_parameter(p, TR_D_PARAMETER, b) };
    tr_add_node(p->g, op, TR_WEIGHT, unit, in, 3, out, 2);
}

static void down_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], counts = n->in[1], w = n->in[2];
    int dx = tr_input_gradient(p, TR_EXPERT_DOWN_DX, n->unit, (int[]){ dy, x, counts, w }, 4, x);
    give_weights(p, TR_EXPERT_DOWN_DW, TR_EXPERT_DOWN_LEAVES, n->unit, (int[]){ dy, x, counts }, w, n->in[3]);
    tr_give(p, x, dx, n->unit);
}

static void up_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int x = n->in[0], counts = n->in[1], w = n->in[2];
    int dx = tr_input_gradient(p, TR_EXPERT_UP_DX, n->unit, (int[]){ dy, counts, w }, 3, x);
    give_weights(p, TR_EXPERT_UP_DW, TR_EXPERT_UP_LEAVES, n->unit, (int[]){ dy, x, counts }, w, n->in[3]);
    tr_give(p, x, dx, n->unit);
}

const struct tr_op_row tr_op_expert_up = { .name = "expert_up",
    .rules = { "R R R R -> R", "Sb Sb R R -> Sb", "St St R R -> St", "E E Sr Sr -> E" },
    .gradient = up_gradient,
    .scratch = rows_scratch,
    .work = rows_work,
    .on_host = true,
    .run = through_experts };
const struct tr_op_row tr_op_expert_up_dx = { .name = "expert_up_dx",
    .rules = { "R R R -> R", "Sb Sb R -> Sb", "St St R -> St", "E E Sr -> E" },
    .scratch = rows_scratch,
    .work = rows_work,
    .on_host = true,
    .run = through_experts };
const struct tr_op_row tr_op_expert_up_dw = { .name = "expert_up_dw",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Ps Ps", "E E E -> Sr Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .on_host = true,
    .run = weight_gradients };
const struct tr_op_row tr_op_expert_down = { .name = "expert_down",
    .rules = { "R R R R -> R", "Sb Sb R R -> Sb", "St St R R -> St", "E E Sr Sr -> E" },
    .gradient = down_gradient,
    .scratch = rows_scratch,
    .work = rows_work,
    .on_host = true,
    .run = through_experts };
const struct tr_op_row tr_op_expert_down_dx = { .name = "expert_down_dx",
    .rules = { "R R R R -> R", "Sb Sb Sb R -> Sb", "St St St R -> St", "E E E Sr -> E" },
    .scratch = rows_scratch,
    .work = rows_work,
    .on_host = true,
    .run = through_experts };
const struct tr_op_row tr_op_expert_down_dw = { .name = "expert_down_dw",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Ps Ps", "E E E -> Sr Sr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .on_host = true,
    .run = weight_gradients };
const struct tr_op_row tr_op_expert_up_leaves = { .name = "expert_up_dw",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St St St -> Pb Pb", "E E E -> Gr Gr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .on_host = true,
    .run = weight_leaves };
const struct tr_op_row tr_op_expert_down_leaves = { .name = "expert_down_dw",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St St St -> Pb Pb", "E E E -> Gr Gr" },
    .scratch = weight_scratch,
    .work = weight_work,
    .on_host = true,
    .run = weight_leaves };
