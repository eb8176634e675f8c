/* SPDX-License-Identifier: BSD-3-Clause */
/* router.c: which experts a token has; its way to them, and what comes back.
 *
 * A token has a row for each choice. Rows lie in the order of experts, and those of one in the order of
 * tokens; so where a row lies follows from the choices, and is told to nobody.
 *
 * Who looks at choices and counts here is the processor, so these operations work in the host's memory. */
#include "training/model/autodiff.h"
#include "training/ops/site.h"

#include <math.h>

/* A choice that a full expert has refused has no row. */
static bool admitted(const struct tr_call *c, int32_t choice)
{
    return choice < c->g->experts;
}

/* Where the next row of each expert lies, in the order of experts and tokens. */
static int32_t *first_rows(const struct tr_call *c, const int32_t *choice, int64_t count)
{
    int32_t *next = (int32_t *)(void *)c->scratch, sum = 0;
    c->k->fill(c->x, next, 0, c->g->experts * (int64_t)sizeof *next);
    for (int64_t i = 0; i < count; i++)
        if (admitted(c, choice[i]))
            next[choice[i]]++;
    for (int64_t e = 0; e < c->g->experts; e++) {
        int32_t rows = next[e];
        next[e] = sum, sum += rows;
    }
    return next;
}

/* The most probable expert that is none of the n chosen so far; of equals the lower. */
static int32_t choose(const float *p, int64_t experts, const int32_t *chosen, int64_t n)
{
    int32_t best = -1;
    for (int32_t e = 0; e < experts; e++) {
        bool before = false;
        for (int64_t i = 0; i < n; i++)
            before |= chosen[i] == e;
        if (!before && (best < 0 || p[e] > p[best]))
            best = e;
    }
    return best;
}

static void gate(const struct tr_call *c)
{
    int64_t rows = c->n * c->in[0].d[1], padded = c->in[0].d[2], n = c->g->experts, top = c->g->choices;
    float *p = c->out[0].p, *max = c->scratch, *sum = max + rows, *wanted = sum + rows;
    int32_t *choice = tr_integers(&c->out[1]);
    uint16_t *none = (uint16_t *)(void *)(wanted + rows);
    struct tr_copy real = { { 1, 1, rows }, { 0, 0, n * TR_FLOAT_BYTES }, { 0, 0, padded * TR_FLOAT_BYTES },
        n * TR_FLOAT_BYTES };
    c->k->copy(c->x, p, c->in[0].p, &real);
    c->k->fill(c->x, none, 0, rows * (int64_t)sizeof *none);
    c->k->softmax.max(c->x, max, p, rows, n, n);
    c->k->softmax.forward(c->x, p, sum, wanted, max, none, rows, n, n, 0, padded / TR_CUT, TR_CUT);
    for (int64_t t = 0; t < rows; t++, p += n, choice += top) {
        for (int64_t e = 0; e < n; e++)
            p[e] = p[e] / sum[t];
        for (int64_t j = 0; j < top; j++)
            choice[j] = choose(p, n, choice, j);
    }
}

/* The gradient of the loss of balance by the probability of each expert, A E f / tokens: alike for all tokens
 * of a micro-batch, of all ranks. */
static void balance_gradient(const struct tr_call *c, float *each)
{
    const struct tr_graph *g = c->g;
    int64_t sequences = c->n * c->data_ranks, experts = g->experts, parts = sequences * TR_BLOCKS;
    double tokens = (double)(sequences * g->context);
    double factor = g->balance * (double)experts / ((double)g->choices * tokens * tokens * (double)c->micros);
    const int32_t *wanted = tr_integers(&c->in[3]);
    for (int64_t e = 0; e < experts; e++) {
        int64_t all = 0;
        for (int64_t i = 0; i < parts; i++)
            all += wanted[i * experts + e];
        each[e] = (float)(factor * (double)all);
    }
}

static void gate_gradient(const struct tr_call *c)
{
    int64_t rows = c->n * c->in[0].d[1], padded = c->out[0].d[2], n = c->g->experts, top = c->g->choices;
    const float *chosen = c->in[0].p, *p = c->in[1].p;
    const int32_t *choice = tr_integers(&c->in[2]);
    float *out = c->out[0].p, *each = c->scratch;
    c->k->fill(c->x, each, 0, n * TR_FLOAT_BYTES);
    if (c->op == TR_BALANCE_DX)
        balance_gradient(c, each);
    for (int64_t t = 0; t < rows; t++, chosen += top, choice += top, p += n, out += padded) {
        float along = 0;
        for (int64_t e = 0; e < padded; e++)
            out[e] = e < n ? each[e] : 0;
        for (int64_t j = 0; j < top; j++)
            if (admitted(c, choice[j]))
                out[choice[j]] = chosen[j] + out[choice[j]];
        for (int64_t e = 0; e < n; e++)
            along = along + p[e] * out[e];
        for (int64_t e = 0; e < n; e++)
            out[e] = p[e] * (out[e] - along);
    }
}

static void count_wanted(const struct tr_call *c)
{
    int64_t block = c->block * c->g->choices, blocks = c->n * c->out[0].d[1];
    const int32_t *choice = tr_integers(&c->in[0]);
    int32_t *wanted = tr_integers(&c->out[0]);
    c->k->fill(c->x, wanted, 0, blocks * c->g->experts * (int64_t)sizeof *wanted);
    for (int64_t i = 0; i < blocks * block; i++)
        wanted[i / block * c->g->experts + choice[i]]++;
}

/* What experts are wanted by so many blocks is added to the sums. */
static void add_wanted(int32_t *sums, const int32_t *wanted, int64_t blocks, int64_t experts)
{
    for (int64_t i = 0; i < blocks * experts; i++)
        sums[i % experts] += wanted[i];
}

/* An expert takes the first ones, in the order of sequences and tokens of all ranks. What is here of a
 * sequence comes after blocks that other ranks may have. */
static void admit(const struct tr_call *c)
{
    int64_t n = c->g->experts, runs = c->n * c->runs, each = c->in[0].d[1] / c->runs * c->g->choices;
    double tokens = (double)(c->n * c->data_ranks * c->g->context);
    double most = ceil(c->g->capacity * (double)c->g->choices * tokens / (double)n);
    const int32_t *choice = tr_integers(&c->in[0]), *wanted = tr_integers(&c->in[1]);
    int32_t *some = tr_integers(&c->out[0]), *before = (int32_t *)(void *)c->scratch, *taken = before + n;
    int64_t done = 0; /* blocks that are in `before` */
    c->k->fill(c->x, before, 0, n * (int64_t)sizeof *before);
    for (int64_t r = 0; r < runs; r++) {
        int64_t first = (r % c->runs ? c->second : c->first) / c->block,
                blocks = (c->earlier + r / c->runs) * TR_BLOCKS + first;
        add_wanted(before, wanted + done * n, blocks - done, n);
        for (int64_t e = 0; e < n; e++)
            taken[e] = before[e];
        done = blocks;
        for (int64_t i = r * each; i < (r + 1) * each; i++)
            some[i] = (double)taken[choice[i]]++ < most ? choice[i] : (int32_t)n;
    }
}

static void dispatch(const struct tr_call *c)
{
    int64_t t = c->in[0].d[1], width = c->in[0].d[2], top = c->g->choices, blocks = c->out[1].d[1];
    const int32_t *choice = tr_integers(&c->in[1]);
    int32_t *counts = tr_integers(&c->out[1]), *next = first_rows(c, choice, c->n * t * top);
    c->k->fill(c->x, counts, 0, c->g->experts * c->n * blocks * (int64_t)sizeof *counts);
    for (int64_t i = 0; i < c->n * t * top; i++) {
        int64_t token = i / top, sequence = token / t, block = token % t / c->block;
        if (!admitted(c, choice[i]))
            continue;
        counts[(choice[i] * c->n + sequence) * blocks + block]++;
        tr_copy_bytes(c->x, c->out[0].p + next[choice[i]]++ * width, c->in[0].p + token * width,
            width * TR_FLOAT_BYTES);
    }
}

/* Of each token the sum over its rows, from +0, in the order of its choices; with p each times its
 * probability. */
static void gather(const struct tr_call *c, const float *p, const int32_t *choice)
{
    int64_t rows = c->n * c->out[0].d[1], width = c->out[0].d[2], top = c->g->choices;
    int32_t *next = first_rows(c, choice, rows * top);
    c->k->fill(c->x, c->out[0].p, 0, rows * width * TR_FLOAT_BYTES);
    for (int64_t i = 0; i < rows * top; i++) {
        if (!admitted(c, choice[i]))
            continue;
        const float *row = c->in[0].p + next[choice[i]]++ * width;
        float *y = c->out[0].p + i / top * width, factor = p ? p[i / top * c->g->experts + choice[i]] : 1;
        for (int64_t x = 0; x < width; x++)
            y[x] = y[x] + factor * row[x];
    }
}

/* The sum of the products, each rounded, by 16 lanes and their tree. */
static float rounded_dot(const float *x, const float *y, int64_t n)
{
    enum { LANES = 16 };
    float lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i += LANES)
        for (int64_t l = 0; l < LANES; l++) /* channels are a multiple of 64 */
            lane[l] = lane[l] + x[i + l] * y[i + l];
    for (int step = 1; step < LANES; step *= 2)
        for (int l = 0; l < LANES; l += 2 * step)
            lane[l] = lane[l] + lane[l + step];
    return lane[0];
}

static void combine_gradient(const struct tr_call *c)
{
    int64_t rows = c->n * c->in[0].d[1], width = c->in[0].d[2], top = c->g->choices;
    const int32_t *choice = tr_integers(&c->in[3]);
    int32_t *next = first_rows(c, choice, rows * top);
    for (int64_t i = 0; i < rows * top; i++) {
        c->out[1].p[i] = 0;
        if (!admitted(c, choice[i]))
            continue;
        const float *dy = c->in[0].p + i / top * width, p = c->in[2].p[i / top * c->g->experts + choice[i]];
        int64_t at = next[choice[i]]++ * width;
        for (int64_t x = 0; x < width; x++)
            c->out[0].p[at + x] = p * dy[x];
        c->out[1].p[i] = rounded_dot(dy, c->in[1].p + at, width);
    }
}

static void combine(const struct tr_call *c)
{
    gather(c, c->in[1].p, tr_integers(&c->in[2]));
}

static void dispatch_gradient(const struct tr_call *c)
{
    gather(c, NULL, tr_integers(&c->in[1]));
}

/* Of the gate: two numbers and a target of each token, and one more. */
static int64_t gate_scratch(const struct tr_call *c)
{
    return 4 * c->n * c->g->context;
}

static int64_t experts_scratch(const struct tr_call *c)
{
    return c->g->experts;
}

static int64_t admit_scratch(const struct tr_call *c)
{
    return 2 * c->g->experts;
}

/* ---- the rows ---- */

/* What the operation that reads these choices makes of them; -1: there is none. */
static int made_by(const struct tr_backward *p, int op, int choices, int out)
{
    for (int i = 0; i < p->g->n_nodes; i++)
        for (int x = 0; x < p->g->nodes[i].ins && p->g->nodes[i].op == op; x++)
            if (p->g->nodes[i].in[x] == choices)
                return p->g->nodes[i].out[out];
    return -1;
}

static void give_combine(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int down = n->in[0], probabilities = n->in[1], choices = n->in[2];
    struct tr_tensor of = p->g->tensors[choices];
    int in[] = { dy, down, probabilities, choices, made_by(p, TR_DISPATCH, choices, 1) },
        out[] = { tr_gradient_of(p, down),
            tr_add_tensor(p->g, TR_D_ACTIVATION, of.unit, of.letter, of.size, "d.chosen.%s", of.name) };
    tr_add_node(p->g, TR_COMBINE_DX, TR_BACKWARD, n->unit, in, 5, out, 2);
    p->g->tensors[out[1]].wide = true;
    p->d[down] = out[0], p->d[probabilities] = out[1];
}

static void give_gate(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int choices = n->out[1], some = made_by(p, TR_ADMIT, choices, 0),
        wanted = made_by(p, TR_WANTED, choices, 0), dx = tr_gradient_of(p, n->in[0]);
    int in[] = { dy, n->out[0], some < 0 ? choices : some, wanted };
    bool balanced = p->g->balance > 0;
    p->g->tensors[dx].wide = true;
    tr_add_node(
        p->g, balanced ? TR_BALANCE_DX : TR_GATE_DX, TR_BACKWARD, n->unit, in, balanced ? 4 : 3, &dx, 1);
    tr_give(p, n->in[0], dx, n->unit);
}

static void give_dispatch(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->in[1] };
    tr_give(p, n->in[0], tr_input_gradient(p, TR_DISPATCH_DX, n->unit, in, 2, n->in[0]), n->unit);
}

const struct tr_op_row tr_op_gate = { .name = "gate",
    .rules = { "R -> R R", "Sb -> Sb Sb", "St -> St St" },
    .gradient = give_gate,
    .scratch = gate_scratch,
    .on_host = true,
    .run = gate };
const struct tr_op_row tr_op_gate_dx = { .name = "gate_dx",
    .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St" },
    .on_host = true,
    .run = gate_gradient,
    .scratch = experts_scratch };
const struct tr_op_row tr_op_balance_dx = { .name = "balance_dx",
    .rules = { "R R R R -> R", "Sb Sb Sb Gb -> Sb", "St St St R -> St" },
    .on_host = true,
    .run = gate_gradient,
    .scratch = experts_scratch };
const struct tr_op_row tr_op_wanted = {
    .name = "wanted", .rules = { "R -> R", "Sb -> Sb", "St -> St" }, .on_host = true, .run = count_wanted
};
const struct tr_op_row tr_op_admit = { .name = "admit",
    .rules = { "R R -> R", "Sb Gb -> Sb", "St R -> St" },
    .tokens_of = 1,
    .on_host = true,
    .run = admit,
    .scratch = admit_scratch };
const struct tr_op_row tr_op_dispatch = { .name = "dispatch",
    .rules = { "R R -> R R", "Sb Sb -> Sb Sb", "St St -> St St" },
    .gradient = give_dispatch,
    .on_host = true,
    .run = dispatch,
    .scratch = experts_scratch };
const struct tr_op_row tr_op_dispatch_dx = { .name = "dispatch_dx",
    .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> St" },
    .on_host = true,
    .run = dispatch_gradient,
    .scratch = experts_scratch };
const struct tr_op_row tr_op_combine = { .name = "combine",
    .rules = { "R R R -> R", "Sb Sb Sb -> Sb", "St St St -> St" },
    .gradient = give_combine,
    .on_host = true,
    .run = combine,
    .scratch = experts_scratch };
const struct tr_op_row tr_op_combine_dx = { .name = "combine_dx",
    .rules = { "R R R R R -> R R", "Sb Sb Sb Sb Sb -> Sb Sb", "St St St St St -> St St" },
    .on_host = true,
    .run = combine_gradient,
    .scratch = experts_scratch };
