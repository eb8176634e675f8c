/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ledger.c: the messages and the memory that a tape predicts are those of the closed formulas.
 *
 * The formulas are the field's, of the papers that training/parallel names, for float32, and beside them the
 * terms that the canonical sums add: vectors of leaves of the loss and the norm; gradients of layer norms and
 * positions as leaves, one for each sequence, where sequence parallelism cuts the tokens, and all gradients
 * so where context parallelism does; both gradients of a tied embedding. Rows are counted as the trainer
 * holds them, as if padded to a multiple of 64. */
#include <criterion/criterion.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/account/ledger.h"

/* One rank of one run, as the formulas name it. */
struct rank {
    const struct tr_plan *plan;
    int64_t layers, c, t, v; /* layers of this rank; rows of the vocabulary, padded */
    int64_t m, k, dp, cp, cu, tp, pp, chunks,
        parameters; /* micro-batches; sequences of one; tensors of all ranks */
    int64_t first, last, tied, sp; /* 0 or 1 */
};

static int64_t padded(int64_t rows)
{
    return (rows + 63) / 64 * 64;
}

static struct rank rank_of(const struct tr_prepared *p, const struct tr_options *o, int rank)
{
    const struct tr_plan *plan = &p->run.plan;
    const struct tr_graph *g = &p->run.graph;
    int at[TR_AXES];
    tr_mesh_place(&plan->mesh, rank, at);
    return (struct rank){ .plan = plan,
        .layers = g->layers / plan->mesh.size[TR_PP],
        .c = g->channels,
        .t = g->context,
        .v = padded(g->vocabulary),
        .m = plan->micros,
        .k = plan->batch / plan->mesh.size[TR_DP] / plan->micros,
        .dp = plan->mesh.size[TR_DP],
        .cp = plan->mesh.size[TR_CP] * plan->mesh.size[TR_ULYSSES],
        .cu = plan->mesh.size[TR_ULYSSES],
        .tp = plan->mesh.size[TR_TP],
        .pp = plan->mesh.size[TR_PP],
        .chunks = plan->pipeline.chunks,
        .parameters = 2 + 12 * g->layers + 3,
        .first = at[TR_PP] == 0,
        .last = at[TR_PP] == plan->mesh.size[TR_PP] - 1,
        .tied = !o->model.sizes.untied,
        .sp = o->plan.tokens.sp && plan->mesh.size[TR_TP] > 1 };
}

/* Elements of what this rank computes gradients of. */
static int64_t psi(const struct rank *r)
{
    int64_t layer = (12 * r->c * r->c + 7 * r->c) / r->tp + 6 * r->c;
    return r->layers * layer + r->first * (r->v / r->tp + padded(r->t)) * r->c +
           r->last * (2 + r->v / r->tp) * r->c;
}

/* A tied head beside its embedding: one set of values, two gradients. */
static int64_t together(const struct rank *r)
{
    return r->tied && r->pp == 1;
}

static int64_t psi_held(const struct rank *r)
{
    return psi(r) - together(r) * r->v / r->tp * r->c;
}

static int64_t tensors(const struct rank *r)
{
    return 12 * r->layers + 2 * r->first + 3 * r->last;
}

/* ---- messages ---- */

static void add(struct tr_ledger *l, enum tr_code code, int axes, enum tr_edge edge, enum tr_cargo cargo,
    int64_t calls, int64_t bytes)
{
    if (calls)
        l->entries[l->n++] = (struct tr_entry){ code, axes, edge, cargo, calls, bytes, 0, 0 };
}

static void data_parallel(struct tr_ledger *l, const struct rank *r)
{
    int zero = r->plan->zero.level, dp = 1 << TR_DP;
    int64_t n = tensors(r), bytes = 4 * psi(r), times = zero >= 2 ? r->m : 1;
    if (r->dp == 1)
        return;
    add(l, zero ? TR_REDUCE_SCATTER : TR_ALL_REDUCE, dp, 0, TR_OF_GRADIENTS, times * n, times * bytes);
    if (zero == 1 || zero == 2)
        add(l, TR_ALL_GATHER, dp, 0, TR_OF_PARAMETERS, n - together(r), 4 * psi_held(r));
    /* forward needs all; backward the matrices and the weights of layer norms, and no bias or embedding */
    int64_t back = r->layers * 6 + r->last * 2;
    int64_t back_bytes =
        4 * (r->layers * (12 * r->c * r->c / r->tp + 2 * r->c) + r->last * (r->c + r->v / r->tp * r->c));
    if (zero == 3)
        add(l, TR_ALL_GATHER, dp, 0, TR_OF_PARAMETERS, r->m * (n + back), r->m * (bytes + back_bytes));
}

static void tensor_parallel(struct tr_ledger *l, const struct rank *r)
{
    int64_t bsh = 4 * r->k * r->t / r->cp * r->c, softmax = 3 * 4 * r->k * r->t / r->cp;
    int64_t whole = 4 * r->layers + r->first + r->last; /* two forward, two backward in each layer */
    int tp = 1 << TR_TP;
    if (r->tp == 1)
        return;
    if (!r->sp) {
        add(l, TR_ALL_REDUCE, tp, 0, TR_OF_ACTIVATIONS, r->m * (whole + 3 * r->last),
            r->m * (whole * bsh + r->last * softmax));
        return;
    }
    add(l, TR_ALL_REDUCE, tp, 0, TR_OF_ACTIVATIONS, r->m * 3 * r->last, r->m * r->last * softmax);
    add(l, TR_REDUCE_SCATTER, tp, 0, TR_OF_ACTIVATIONS, r->m * r->k * whole, r->m * whole * bsh);
    add(l, TR_ALL_GATHER, tp, 0, TR_OF_ACTIVATIONS, r->m * r->k * whole, r->m * whole * bsh);
    int64_t norms = 4 * r->layers + 2 * r->last;
    add(l, TR_ALL_REDUCE, tp, 0, TR_OF_LEAVES, r->m * (norms + r->first),
        r->m * (norms * 4 * r->k * r->c + r->first * bsh * r->cp));
}

/* Keys and values forward, their gradients backward; or queries, keys, values and the result to the ranks
 * that have the heads and back, and their gradients; or keys and values round a ring, twice, and their
 * gradients to the owner. And all gradients, one for each sequence. */
static void context_parallel(struct tr_ledger *l, const struct rank *r)
{
    int64_t calls = r->m * r->k * r->layers, kv = 4 * 2 * r->t * r->c / r->tp;
    int cp = 1 << TR_CP;
    if (r->cp == 1)
        return;
    int64_t zigzag = r->plan->tokens.map == TR_CP_ZIGZAG, positions = r->first * padded(r->t) * r->c;
    int64_t leaves = zigzag ? 2 * psi(r) - positions : psi(r); /* of each half; a position is in one */
    add(l, TR_ALL_REDUCE, cp, 0, TR_OF_LEAVES, r->m * tensors(r), 4 * r->m * r->k * leaves);
    if (r->plan->tokens.form == TR_CP_LOCAL)
        return;
    int64_t ring = r->cp / r->cu;
    if (r->cu > 1)
        add(l, TR_ALL_REDUCE, 1 << TR_ULYSSES, 0, TR_OF_LEAVES, r->m * tensors(r), 4 * r->m * r->k * leaves);
    if (r->plan->tokens.form == TR_CP_ULYSSES || r->plan->tokens.form == TR_CP_TWO)
        add(l, TR_ALL_TO_ALL, r->cu > 1 ? 1 << TR_ULYSSES : cp, 0, TR_OF_ACTIVATIONS, 4 * calls,
            calls * 4 * kv / r->cp);
    if (r->plan->tokens.form == TR_CP_ULYSSES)
        return;
    if (r->plan->tokens.form == TR_CP_SCORES || r->plan->tokens.form == TR_CP_RING ||
        r->plan->tokens.form == TR_CP_TWO) {
        int64_t shifts = 3 * (ring - 1) * r->m * r->layers;
        add(l, TR_SEND, cp, 0, TR_OF_ACTIVATIONS, shifts, shifts * r->k * kv / r->cp);
        add(l, TR_RECV, cp, 0, TR_OF_ACTIVATIONS, shifts, shifts * r->k * kv / r->cp);
        return;
    }
    add(l, TR_ALL_GATHER, cp, 0, TR_OF_ACTIVATIONS, calls, calls * kv);
    add(l, TR_REDUCE_SCATTER, cp, 0, TR_OF_ACTIVATIONS, calls, calls * kv * (1 + zigzag));
}

static void pipeline(struct tr_ledger *l, const struct rank *r)
{
    int64_t bsh = 4 * r->k * r->t / r->cp * r->c / (r->sp ? r->tp : 1);
    int64_t up = (r->chunks - r->last) * r->m, down = (r->chunks - r->first) * r->m;
    int64_t tied = r->tied && (r->first || r->last);
    int64_t embedding = 4 * r->v / r->tp * r->c / (r->plan->zero.level ? r->dp : 1);
    if (r->pp == 1)
        return;
    add(l, TR_SEND, 0, TR_TO_NEXT, TR_OF_ACTIVATIONS, up, up * bsh);
    add(l, TR_RECV, 0, TR_FROM_NEXT, TR_OF_ACTIVATIONS, up, up * bsh);
    add(l, TR_SEND, 0, TR_TO_PREVIOUS, TR_OF_ACTIVATIONS, down, down * bsh);
    add(l, TR_RECV, 0, TR_FROM_PREVIOUS, TR_OF_ACTIVATIONS, down, down * bsh);
    add(l, TR_SEND, 0, TR_HOME, TR_OF_GRADIENTS, tied, embedding);
    add(l, TR_RECV, 0, TR_HOME, TR_OF_GRADIENTS, tied, embedding);
}

static int64_t ranks_of(const struct tr_entry *x, const struct tr_mesh *m)
{
    return tr_mesh_group_size(m, x->axes);
}

/* What a rank sends at least, where the vector has equal parts. */
static int64_t sent(const struct tr_entry *x, int64_t n)
{
    switch (x->code) {
    case TR_ALL_REDUCE:
        return 2 * (n - 1) * x->bytes / n;
    case TR_SEND:
        return x->bytes;
    case TR_RECV:
        return 0;
    default:
        return (n - 1) * x->bytes / n;
    }
}

static void compare(const char *line, const struct tr_prepared *p, const struct tr_options *o, int rank)
{
    struct tr_ledger l, formula = { .n = 0 };
    struct rank r = rank_of(p, o, rank);
    char group[32];
    bool equal_parts = r.plan->mesh.n % 3 != 0;
    int64_t loss = 8 * 8 * r.plan->batch, norm = 8 * 64 * r.parameters;
    tr_ledger_predict(&l, tr_tapes_of(p->tapes, rank));
    data_parallel(&formula, &r);
    tensor_parallel(&formula, &r);
    context_parallel(&formula, &r);
    pipeline(&formula, &r);
    add(&formula, TR_ALL_REDUCE, TR_WORLD, 0, TR_OF_SCALARS, r.plan->mesh.n > 1 ? 2 : 0, loss + norm);
    cr_assert_eq(l.n, formula.n, "%s: rank %d: %d entries, not %d", line, rank, l.n, formula.n);
    for (int n = 0; n < formula.n; n++) {
        const struct tr_entry *x = &formula.entries[n];
        struct tr_entry got = tr_ledger_sum(&l, (int)x->code, x->axes, (int)x->edge, (int)x->cargo);
        cr_assert(got.calls == x->calls && got.bytes == x->bytes,
            "%s: rank %d: %s over %s of %s: %lld calls, %lld bytes; the formula says %lld, %lld", line, rank,
            tr_codes[x->code].name, tr_entry_group(x, group), tr_cargo_names[x->cargo], (long long)got.calls,
            (long long)got.bytes, (long long)x->calls, (long long)x->bytes);
        if (equal_parts)
            cr_assert_eq(got.least, sent(x, ranks_of(x, &r.plan->mesh)), "%s: rank %d: %s sends %lld bytes",
                line, rank, tr_codes[x->code].name, (long long)got.least);
    }
}

/* Every mesh of up to 8 ranks that these options make: calls `check` for each rank of each. */
static int grid(void (*check)(const char *, const struct tr_prepared *, const struct tr_options *, int))
{
    static const char *const rest[] = { "", "--micro 2", "--micro 4", "--sp --micro 2", "--zero 1 --micro 2",
        "--zero 2 --micro 2 --sp", "--zero 3 --micro 2", "--zero 3 --sp --untied", "--untied --micro 2",
        "--vocabulary 257 --zero 1", "--model gpt:micro --micro 2 --schedule gpipe", "--cp 2 --micro 2",
        "--cp 2 --sp --zero 2 --micro 2", "--cp 4 --untied --zero 3", "--cp 8 --vocabulary 257 --micro 2",
        "--cp 2 --cp-attention ring --micro 2", "--cp 4 --cp-attention ring --sp --zero 1",
        "--cp 8 --cp-attention ring --untied", "--cp 2 --cp-attention ulysses --micro 2",
        "--cp 4 --cp-attention ulysses --sp --zero 1", "--cp 2 --cp-map zigzag --zero 3",
        "--cp 4 --cp-map zigzag --untied --micro 2", "--cp 4 --cp-map zigzag --cp-attention ring",
        "--cp 4 --cp-map striped --cp-attention ring --micro 2", "--cp 4 --cp-attention local --micro 2",
        "--cp 4 --cp-attention scores --micro 2", "--cp 4 --cp-attention ulysses+ring --micro 2",
        "--cp 8 --cp-attention ulysses+ring --cp-ulysses 4", "--micro 4 --schedule zb-h1 --zero 3",
        "--micro 4 --schedule interleaved --chunks 2", "--batch 48" };
    int runs = 0;
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++)
        for (int mesh = 0; mesh < 64; mesh++) {
            int dp = mesh % 4 + 1, tp = 1 << mesh / 4 % 4, pp = 1 << mesh / 16;
            char line[160];
            struct tr_prepared p;
            struct tr_options o;
            struct tr_error e;
            snprintf(line, sizeof line, "--batch 16 --dp %d --tp %d --pp %d %s", dp, tp, pp, rest[i]);
            if (dp * tp * pp > 8 || !rig_options(&o, line, &e) || !tr_prepare(&p, &o, &e))
                continue;
            for (int rank = 0; rank < p.run.plan.mesh.n; rank++)
                check(line, &p, &o, rank);
            tr_prepared_free(&p);
            runs++;
        }
    return runs;
}

Test(ledger, equals_the_formulas)
{
    int runs = grid(compare);
    cr_expect_geq(runs, 150, "only %d runs are legal", runs);
}

/* ---- memory ---- */

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* One micro-batch: all gradients live at the end; before that, all but the last ones, and the leaves that
 * these come from. The last ones are, of a layer, the bias of qkv and the first layer norm's weight and bias;
 * and after them, on a first stage, the positions and the embedding. */
static int64_t gradients_at_peak(const struct rank *r)
{
    int64_t embedding = r->v / r->tp * r->c, positions = padded(r->t) * r->c;
    int64_t after_layers = r->first ? embedding + positions : 0;
    int64_t qkv = 3 * r->k * r->c / r->tp - 2 * r->c - after_layers;
    int64_t norm = 2 * r->k * r->c - r->c - after_layers;
    int64_t first = r->first ? r->k * r->t * r->c - embedding : 0;
    return 4 * (psi(r) + most(most(0, first), most(qkv, norm)));
}

/* float32 and Adam: 4 psi of parameters, 4 of gradients, 8 of moments, and with ZeRO 1, 2, 3 the d-th part of
 * the moments, of the gradients, of the parameters. */
static void compare_memory(
    const char *line, const struct tr_prepared *p, const struct tr_options *o, int rank)
{
    struct rank r = rank_of(p, o, rank);
    const struct tr_tape *t = tr_tapes_of(p->tapes, rank);
    int zero = r.plan->zero.level;
    int64_t lasting[TR_MEMORIES] = { 0 }, gradients = 0, parts = zero ? r.dp : 1;
    for (int n = 0; n < t->n_values; n++)
        lasting[t->values[n].memory] += t->values[n].lasts ? t->values[n].bytes : 0;
    for (int n = 0; n < t->n_states; n++)
        gradients += t->values[t->states[n].gradient].bytes;
    cr_assert_eq(
        lasting[TR_MEM_PARAMETER], 4 * psi_held(&r) / (zero == 3 ? r.dp : 1), "%s: rank %d", line, rank);
    cr_assert_eq(lasting[TR_MEM_OPTIMIZER], 8 * psi_held(&r) / parts, "%s: rank %d", line, rank);
    cr_assert_eq(gradients, 4 * psi(&r) / parts, "%s: rank %d", line, rank);

    int64_t peak = t->peak[TR_MEM_GRADIENT], rounding = 64 * tensors(&r);
    int64_t largest = most(r.v / r.tp, most(padded(r.t), 4 * r.c / r.tp)) * r.c,
            leaves = r.k * (r.t + 2) * r.c;
    if (zero < 2 || r.dp == 1)
        cr_assert_geq(peak, 4 * psi(&r), "%s: rank %d", line, rank);
    else if (r.m == 1 && r.cp == 1)
        cr_assert_leq(peak, 4 * (psi(&r) / r.dp + largest + leaves) + rounding, "%s: rank %d", line, rank);
    if (zero == 0 && r.m == 1 && r.cp == 1)
        cr_assert_eq(peak, gradients_at_peak(&r), "%s: rank %d: %lld of gradients, not %lld", line, rank,
            (long long)peak, (long long)gradients_at_peak(&r));
}

Test(memory, equals_the_formulas)
{
    cr_expect_geq(grid(compare_memory), 150);
}

/* What is kept of attention's scores: T x T / cp numbers of each head, sequence and layer; and a rank's peak
 * is so much higher than a ring's, which keeps none. */
Test(memory, scores_grow_with_the_square_of_the_context)
{
    static const char *const lines[] = { "--cp 4 --context 64", "--cp 4 --context 128",
        "--cp 4 --context 256", "--cp 2 --tp 2 --context 64 --micro 2" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tr_prepared p, without;
        struct tr_options o;
        struct tr_error e;
        char line[96];
        int64_t scores = 0;
        snprintf(line, sizeof line, "%s --cp-attention ring", lines[i]);
        rig_prepare(&without, line);
        snprintf(line, sizeof line, "%s --cp-attention scores", lines[i]);
        cr_assert(rig_options(&o, line, &e) && tr_prepare(&p, &o, &e), "%s: %s", line, e.text);
        const struct tr_tape *t = tr_tapes_of(p.tapes, 1);
        for (int v = 0; v < t->n_values; v++)
            if (t->values[v].shard >= 0 && t->values[v].micro == 0 &&
                strstr(p.run.graph.tensors[p.placed.shards[t->values[v].shard].tensor].name, "scores"))
                scores += t->values[v].bytes;
        struct rank r = rank_of(&p, &o, 1);
        int64_t formula = 4 * r.k * r.layers * p.run.graph.heads / r.tp * r.t * r.t / r.cp;
        cr_expect_eq(
            scores, formula, "%s: %lld bytes, not %lld", line, (long long)scores, (long long)formula);
        cr_expect_eq(t->peak[TR_MEM_ACTIVATION] - tr_tapes_of(without.tapes, 1)->peak[TR_MEM_ACTIVATION],
            formula, "%s", line);
        tr_prepared_free(&p);
        tr_prepared_free(&without);
    }
}

/* Buckets change how many calls there are, not what they carry. */
Test(ledger, what_is_in_a_bucket_is_gradients)
{
    static const char *const forms[] = { "", "--dp-reduce root", "--dp-reduce sharded" };
    static const char *const buckets[] = { "", "--bucket 4K", "--bucket 64K", "--bucket 1M --overlap" };
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        int64_t alone = 0;
        for (size_t b = 0; b < sizeof buckets / sizeof *buckets; b++) {
            struct tr_prepared p;
            struct tr_ledger l;
            char line[96];
            snprintf(line, sizeof line, "--dp 4 %s %s", forms[f], buckets[b]);
            rig_prepare(&p, line);
            tr_ledger_predict(&l, tr_tapes_of(p.tapes, 1));
            struct tr_entry all = tr_ledger_sum(&l, -1, 1 << TR_DP, -1, -1),
                            gradients = tr_ledger_sum(&l, -1, 1 << TR_DP, -1, TR_OF_GRADIENTS);
            alone = b ? alone : all.bytes;
            cr_expect_eq(
                gradients.bytes, all.bytes, "%s: %lld bytes of gradients", line, (long long)gradients.bytes);
            cr_expect_eq(all.bytes, alone, "%s: %lld bytes", line, (long long)all.bytes);
            tr_prepared_free(&p);
        }
    }
}

/* All ranks together send what the formula says, whatever the parts: 2 (n-1) of each vector. */
Test(ledger, sums_over_unequal_parts)
{
    struct tr_prepared p;
    int64_t bytes = 0, least = 0;
    rig_prepare(&p, "--dp 3 --batch 12");
    for (int rank = 0; rank < 3; rank++) {
        struct tr_ledger l;
        tr_ledger_predict(&l, tr_tapes_of(p.tapes, rank));
        bytes += tr_ledger_sum(&l, -1, -1, -1, -1).bytes;
        least += tr_ledger_sum(&l, -1, -1, -1, -1).least;
    }
    cr_expect_eq(3 * least, 2 * 2 * bytes);
    tr_prepared_free(&p);
}

Test(ledger, a_call_too_few_is_named)
{
    struct tr_prepared p;
    struct tr_error e;
    struct tr_ledger predicted, counted;
    rig_prepare(&p, "--tp 2");
    const struct tr_tape *t = tr_tapes_of(p.tapes, 1);
    tr_ledger_predict(&predicted, t);
    tr_ledger_begin(&counted, &predicted);
    bool left_out = false;
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        if (i->code != TR_ALL_REDUCE)
            continue;
        if (i->axes == TR_WORLD || left_out)
            tr_ledger_count(&counted, t, i, i->code, t->values[i->in[0]].bytes);
        left_out = true;
    }
    cr_expect_not(tr_ledger_equal(&counted, &predicted, t, &e));
    cr_expect_not_null(
        strstr(e.text, "rank 1: all_reduce over tp of activations: the tape predicts 21 calls"), "%s",
        e.text);
    tr_prepared_free(&p);
}
