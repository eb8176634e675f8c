/* SPDX-License-Identifier: BSD-3-Clause */
/* attention.c: attention of the queries that are here to all keys, or within windows; and the layouts of its
 * operands. */
#include "training/model/autodiff.h"
#include "training/ops/attention.h"

static bool is_back(int op)
{
    return op == TR_ATTENTION_DX || op == TR_ATTEND_WINDOW_DX || op == TR_ATTEND_DX;
}

static bool has_own_kv(int op)
{
    return op == TR_ATTEND || op == TR_ATTEND_DX;
}

/* Queries, keys and values are one operand, or q and kv are two. Queries of two runs are as if of two
 * sequences, whose gradients of kv are kept apart; and each window is a sequence of its own. */
static struct tr_attention shape_of(const struct tr_call *c)
{
    bool own_kv = has_own_kv(c->op);
    const struct tr_operand *lse = is_back(c->op) ? &c->in[2] : &c->out[1];
    int64_t tokens = tr_window(c->g), pieces = c->g->attention.windows ? lse->d[2] / tokens : c->runs;
    int64_t runs = own_kv ? pieces : 1;
    const struct tr_operand *draws = &c->in[(is_back(c->op) ? 4 : 1) + (own_kv ? 1 : 0)];
    return (struct tr_attention){ .tokens = tokens,
        .heads = lse->d[1],
        .size = c->g->channels / c->g->heads,
        .block = c->block,
        .first = c->first,
        .queries = lse->d[2] / pieces,
        .separate_kv = own_kv,
        .begin = c->g->attention.windows ? c->first : 0,
        .striped = c->striped,
        .sequences = c->n * (pieces / runs),
        .by_queries = runs,
        .by_keys = 1,
        .by_pairs = runs,
        .dropped = tr_unattended_of(c, draws) };
}

static void run(const struct tr_call *c)
{
    bool back = is_back(c->op), own_kv = has_own_kv(c->op); /* back: dy, y, lse, q, kv */
    const struct tr_operand *x = back ? &c->in[3] : &c->in[0];
    struct tr_attention a = shape_of(c);
    int64_t rows = a.heads * a.queries, y = rows * a.size, keys = 2 * a.tokens * a.heads * a.size;
    for (int64_t r = 0; r < a.by_queries; r++) {
        const float *q = x[0].p + r * y, *kv = own_kv ? x[1].p : q + a.size;
        float *dq = c->out[0].p + r * y, *dkv = own_kv ? c->out[1].p + r * keys : dq + a.size;
        a.first = c->second && r ? c->second : c->first;
        if (back)
            c->k->attention.dx(c->x, dq, dkv, c->in[0].p + r * y, c->in[1].p + r * y, c->in[2].p + r * rows,
                q, kv, &a, c->scratch);
        else
            c->k->attention.whole(c->x, c->out[0].p + r * y, c->out[1].p + r * rows, q, kv, &a, c->scratch);
    }
}

/* The layer is that of the result, or of what it is the gradient of. */
struct tr_unattended tr_unattended_of(const struct tr_call *c, const struct tr_operand *draws)
{
    if (!draws->p)
        return (struct tr_unattended){ .draws = NULL };
    return (struct tr_unattended){ .draws = (const uint32_t *)(const void *)draws->p,
        .layer = c->out[0].of->unit - 1,
        .head = c->head,
        .scale = (float)(1 / (1 - c->g->dropout.part)) };
}

int64_t tr_window(const struct tr_graph *g)
{
    return g->attention.windows ? g->context / g->attention.windows : g->context;
}

/* One run of queries and the keys of all, or of a window, at a time. */
static int64_t scratch(const struct tr_call *c)
{
    struct tr_attention a = shape_of(c);
    return c->k->attention.scratch(&a);
}

/* What the mask hides is no work, so it hangs on the tokens that this rank has. */
static double work(const struct tr_call *c)
{
    int64_t tokens = c->g->context, window = tr_window(c->g);
    struct tr_runs queries = tr_runs_of(&c->map, tokens, c->cp_rank);
    double seen = 0;
    if (c->op == TR_ATTENTION || c->op == TR_ATTENTION_DX)
        seen = tr_seen(&c->map, &(struct tr_places){ tokens, 0, tokens, 0, tokens });
    else if (!has_own_kv(c->op))
        seen = (double)(tokens / c->map.cp / window) *
               tr_seen(&c->map, &(struct tr_places){ window, 0, window, 0, window });
    else
        for (int r = 0; r < queries.n; r++)
            seen +=
                tr_seen(&c->map, &(struct tr_places){ tokens, queries.first[r], queries.count, 0, tokens });
    const struct tr_operand *y = is_back(c->op) ? &c->in[1] : &c->out[0];
    return tr_attention_work(c, is_back(c->op) ? 5 : 2, seen, y->d[2]);
}

double tr_attention_work(const struct tr_call *c, int products, double seen, int64_t channels)
{
    return 2 * products * seen * (double)channels * (double)c->n;
}

/* qkv[token][head][3][size] becomes q[token][head][size] and kv[token][head][2][size], or is made of them. */
static void split(const struct tr_call *c)
{
    bool join = c->op == TR_JOIN;
    const struct tr_operand *whole = join ? &c->out[0] : &c->in[0], *part = join ? c->in : c->out;
    int64_t size = c->g->channels / c->g->heads, heads = c->n * whole->d[1] * whole->d[2] / (3 * size);
    for (int x = 0; x < 2; x++) { /* q, then kv */
        int64_t bytes = (1 + x) * size * TR_FLOAT_BYTES;
        struct tr_copy rows = { { 1, 1, heads }, { 0, 0, bytes }, { 0, 0, 3 * size * TR_FLOAT_BYTES },
            bytes };
        tr_carry(c, part[x].p, whole->p + x * size, &rows, join);
    }
}

/* ---- the rows ----
 *
 * The last operand, which may be missing, is what each sequence draws by. */

static void whole_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->out[0], n->out[1], n->in[0], n->in[1] };
    int op = n->op == TR_ATTENTION ? TR_ATTENTION_DX : TR_ATTEND_WINDOW_DX;
    tr_give(p, n->in[0], tr_input_gradient(p, op, n->unit, in, 3 + n->ins, n->in[0]), n->unit);
}

static void attend_gradient(struct tr_backward *p, const struct tr_node *n, int dy)
{
    int in[] = { dy, n->out[0], n->out[1], n->in[0], n->in[1], n->in[2] };
    int out[] = { tr_gradient_of(p, n->in[0]), tr_gradient_of(p, n->in[1]) };
    tr_add_node(p->g, TR_ATTEND_DX, TR_BACKWARD, n->unit, in, 3 + n->ins, out, 2);
    tr_give(p, n->in[0], out[0], n->unit);
    tr_give(p, n->in[1], out[1], n->unit);
}

static void split_gradient(struct tr_backward *p, const struct tr_node *n, int dq)
{
    int in[] = { dq, p->d[n->out[1]] };
    tr_give(p, n->in[0], tr_input_gradient(p, TR_JOIN, n->unit, in, 2, n->in[0]), n->unit);
}

const struct tr_op_row tr_op_attention = { .name = "attention",
    .rules = { "R R -> R R", "Sb Sb -> Sb Sb", "Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 1,
    .again = TR_RECOMPUTE_SELECTIVE,
    .gradient = whole_gradient,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_attention_dx = { .name = "attention_dx",
    .rules = { "R R R R R -> R", "Sb Sb Sb Sb Sb -> Sb", "Sc Sc Sc Sc R -> Sc" },
    .masked = true,
    .tokens_of = 4,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_attend = { .name = "attend",
    .rules = { "R R R -> R R", "Sb Sb Sb -> Sb Sb", "St R R -> St St", "Sc Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 1,
    .again = TR_RECOMPUTE_SELECTIVE,
    .gradient = attend_gradient,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_attend_dx = { .name = "attend_dx",
    .rules = { "R R R R R R -> R R", "Sb Sb Sb Sb Sb Sb -> Sb Sb", "St St St St R R -> St Pb",
        "Sc Sc Sc Sc Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 4,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_attend_window = { .name = "attend_window",
    .rules = { "R R -> R R", "Sb Sb -> Sb Sb", "St R -> St St", "Sc R -> Sc Sc" },
    .masked = true,
    .tokens_of = 1,
    .again = TR_RECOMPUTE_SELECTIVE,
    .gradient = whole_gradient,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_attend_window_dx = { .name = "attend_window_dx",
    .rules = { "R R R R R -> R", "Sb Sb Sb Sb Sb -> Sb", "St St St St R -> St", "Sc Sc Sc Sc R -> Sc" },
    .masked = true,
    .tokens_of = 4,
    .scratch = scratch,
    .work = work,
    .run = run };
const struct tr_op_row tr_op_split = { .name = "split",
    .rules = { "R -> R R", "Sb -> Sb Sb", "St -> St St", "Sc -> Sc Sc" },
    .gradient = split_gradient,
    .run = split };
const struct tr_op_row tr_op_join = {
    .name = "join", .rules = { "R R -> R", "Sb Sb -> Sb", "St St -> St", "Sc Sc -> Sc" }, .run = split
};
