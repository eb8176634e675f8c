/* SPDX-License-Identifier: BSD-3-Clause */
/* exec_rig.c: see exec_rig.h. What bind.c does is written here once more, on purpose: from the meaning of
 * collective.h and layout.h, with poison round everything that a rank may not touch. */
#include "exec_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "tests/proof/verify.h"
#include "fences.h"

enum { GUARD = 64, SCRIBBLE = 0x5c };
enum { LEAF = 1U << 31 };

struct rig_node { /* left (+) right, or IN(right) of rank left without its LEAF bit */
    uint32_t left, right;
};

uint64_t rig_folded_bytes;

static uint64_t rotated(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 29;
}

uint64_t rig_merkle(uint64_t left, uint64_t right)
{
    return mixed(3 * left + 5 * rotated(right, 17));
}

static uint64_t operand(const void *source, size_t i)
{
    return ((const uint64_t *)source)[i];
}

void rig_fold_chain(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    (void)divisor;
    for (size_t i = 0; i < count; i++) {
        uint64_t value = operand(sources[0], i);
        for (int s = 1; s < k; s++)
            value = rig_merkle(value, operand(sources[s], i));
        ((uint64_t *)dst)[i] = value;
    }
    rig_folded_bytes += count * sizeof(uint64_t);
}

void rig_fold_tree(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    (void)divisor;
    for (size_t i = 0; i < count; i++) {
        uint64_t values[TT_FOLD_OPERANDS] = { 0 };
        for (int s = 0; s < k; s++)
            values[s] = operand(sources[s], i);
        for (int left = k; left > 1; left = (left + 1) / 2)
            for (int s = 0; s < left; s += 2)
                values[s / 2] = s + 1 < left ? rig_merkle(values[s], values[s + 1]) : values[s];
        ((uint64_t *)dst)[i] = values[0];
    }
    rig_folded_bytes += count * sizeof(uint64_t);
}

/* Past the caches, or as if. */
void rig_spread(
    void *dst, void *also, int past, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    rig_fold_chain(dst, sources, k, count, divisor);
    if (also != NULL)
        memcpy(also, dst, count * sizeof(uint64_t));
    if (also == NULL || past != 0)
        fences_owe();
}

/* A token is not worth a hash: any of them will do. */
static void fold_token(void *dst, const void *const *sources, int k, size_t count, uint32_t divisor)
{
    (void)divisor;
    (void)k;
    memmove(dst, sources[0], count * sizeof(int32_t));
}

static void *reserve(size_t count, size_t bytes)
{
    void *memory = calloc(count + 1, bytes);
    if (memory == NULL)
        abort();
    return memory;
}

/* --- Plans. */

/* Halves of neighbours for powers of two and odd n, else of every second one. */
static struct tt_topology domains_of(int n)
{
    struct tt_topology topology;
    int32_t *domain_of = reserve((size_t)n, sizeof *domain_of);
    bool halves = (n & (n - 1)) == 0 || n % 2 != 0;
    for (int r = 0; r < n; r++)
        domain_of[r] = halves ? (n == 16 ? 4 : 2) * r / n : r % 2;
    if (tt_topology_create(&topology, n, domain_of) != TUTTI_OK)
        abort();
    free(domain_of);
    return topology;
}

bool rig_serves(int algorithm, int n, bool exact)
{
    const struct tt_algorithm *a = &tt_algorithms[algorithm];
    bool reduces = tt_collectives[a->collective].result == TT_RESULT_REDUCED;
    struct tt_topology topology = domains_of(n);
    struct tt_requirements requirements = { .n = n, .exact = exact, .topology = &topology };
    bool serves = !tt_collectives[a->collective].p2p && (reduces || !exact) &&
                  tt_algorithm_refuse(a, requirements) == NULL;
    tt_topology_free(&topology);
    return serves;
}

static bool exists(const struct rig_plan *p, uint8_t reach, int rank, uint32_t chunk)
{
    return tt_reach_has((enum tt_reach)reach, p->n, rank, p->root, p->schedules[rank].chunks, chunk);
}

static bool in_place_at(const struct rig_plan *p, int rank)
{
    const struct tt_collective_row *row = &tt_collectives[p->collective];
    bool wanted = p->in_place == RIG_IN_PLACE || (p->in_place == RIG_MIXED && rank % 2 == 1);
    bool both = (row->in != TT_REACH_ROOT && row->out != TT_REACH_ROOT) || rank == p->root;
    return wanted && both && row->in_place != TT_IN_PLACE_NEVER;
}

struct rig_plan *rig_plan_create(
    enum tt_collective collective, int algorithm, int n, int root, bool exact, enum rig_in_place in_place)
{
    struct rig_plan *p = reserve(1, sizeof *p);
    *p = (struct rig_plan){ .collective = collective,
        .algorithm = algorithm,
        .n = n,
        .root = root,
        .exact = exact,
        .in_place = in_place };
    p->topology = domains_of(n);
    p->schedules = reserve((size_t)n, sizeof *p->schedules);
    p->list = reserve((size_t)n, sizeof *p->list);
    for (int me = 0; me < n; me++) {
        struct tt_key key = { .collective = (uint8_t)collective,
            .algorithm = (uint8_t)algorithm,
            .in_place = in_place_at(p, me),
            .exact = exact,
            .n = n,
            .me = me,
            .root = root,
            .topology = &p->topology };
        if (tt_schedule_build(&p->schedules[me], &key) != TUTTI_OK)
            abort();
        p->list[me] = &p->schedules[me];
    }
    p->results = reserve((size_t)n * p->schedules[0].chunks, sizeof *p->results);
    return p;
}

void rig_plan_free(struct rig_plan *p)
{
    for (int r = 0; r < p->n; r++)
        tt_schedule_free(&p->schedules[r]);
    tt_topology_free(&p->topology);
    free(p->schedules);
    free(p->list);
    free(p->nodes);
    free(p->index);
    free(p->results);
    free(p);
}

static uint32_t *place_of(struct rig_plan *p, uint32_t left, uint32_t right)
{
    uint32_t at = (uint32_t)mixed((uint64_t)left << 32 | right) % p->nindex;
    while (p->index[at] != 0 &&
           (p->nodes[p->index[at] - 1].left != left || p->nodes[p->index[at] - 1].right != right))
        at = (at + 1) % p->nindex;
    return &p->index[at];
}

static uint64_t node_of(struct rig_plan *p, uint32_t left, uint32_t right)
{
    if (3 * p->nnodes >= p->nindex) { /* grow, and find all places anew */
        p->nindex = 2 * p->nindex + 64;
        p->nodes = realloc(p->nodes, p->nindex * sizeof *p->nodes);
        free(p->index);
        p->index = reserve(p->nindex, sizeof *p->index);
        for (uint32_t i = 0; i < p->nnodes; i++)
            *place_of(p, p->nodes[i].left, p->nodes[i].right) = i + 1;
    }
    uint32_t *place = place_of(p, left, right);
    if (*place == 0) {
        p->nodes[p->nnodes++] = (struct rig_node){ left, right };
        *place = p->nnodes;
    }
    return *place - 1;
}

static uint64_t leaf(int rank, uint32_t chunk, void *context)
{
    return node_of(context, (uint32_t)rank | LEAF, chunk);
}

static uint64_t combination(uint64_t left, uint64_t right, void *context)
{
    return node_of(context, (uint32_t)left, (uint32_t)right);
}

/* The number, plus 1, of the expression that OUT(chunk) of this rank must hold. */
static uint32_t result_of(struct rig_plan *p, int rank, uint32_t chunk)
{
    uint32_t *result = &p->results[(uint32_t)rank * p->schedules[0].chunks + chunk];
    uint64_t node;
    if (*result != 0)
        return *result;
    if (!tt_evaluate(p->list, p->n, rank, chunk, leaf, combination, p, &node))
        abort();
    return *result = (uint32_t)node + 1;
}

void rig_plan_evaluate(struct rig_plan *p)
{
    for (int r = 0; r < p->n; r++)
        for (uint32_t c = 0; c < p->schedules[r].chunks; c++)
            if (exists(p, tt_collectives[p->collective].out, r, c))
                result_of(p, r, c);
}

/* --- Runs. */

static const struct tt_collective_row *row_of(const struct rig_run *run)
{
    return &tt_collectives[run->plan->collective];
}

/* Uneven blocks, some empty. */
static void cut_blocks(struct rig_run *run)
{
    size_t n = (size_t)run->plan->n;
    uint64_t left = run->count, random = run->seed;
    run->counts = reserve(2 * n, sizeof *run->counts);
    for (size_t r = 0; r < n; r++) {
        run->counts[r] = run->counts[n + r] = r + 1 == n ? left : tt_sim_random(&random) % (left + 1);
        left -= run->counts[r];
        run->in_extent = run->out_extent += r % 3; /* gaps */
    }
}

/* In an uneven exchange rank i has for rank j what part i + j is long. Each block is placed before the one
 * before it, with gaps. */
static void cut_rank(struct rig_run *run, int rank)
{
    struct rig_rank *r = &run->ranks[rank];
    size_t n = (size_t)run->plan->n, at = 0;
    const size_t *counts = run->counts + (row_of(run)->result == TT_RESULT_EXCHANGED ? rank : 0);
    r->counts = reserve(n, sizeof *r->counts);
    r->displs = reserve(n, sizeof *r->displs);
    r->starts = reserve(n, sizeof *r->starts);
    memcpy(r->counts, counts, n * sizeof *counts);
    for (size_t c = n; c-- > 0;) {
        r->displs[c] = at;
        at += counts[c] + c % 3;
    }
}

/* Where only own counts are known, slices are pieces of one length, and a rank has as many as its longest
 * block. */
static void lay_out(struct rig_run *run, int rank)
{
    struct rig_rank *r = &run->ranks[rank];
    struct tt_op *op = &r->op;
    uint32_t chunks = run->plan->schedules[0].chunks, slices = 1;
    op->one_sided = row_of(run)->counts == TT_COUNTS_OWN;
    if (run->counts == NULL) {
        tt_layout_even(&op->layout, run->count, chunks, run->slices, run->element_bytes);
        return;
    }
    tt_layout_v(&op->layout, r->counts, r->starts, chunks, run->slices, run->element_bytes);
    if (!op->one_sided)
        return;
    uint64_t piece = run->count / run->slices / 2 + 1;
    for (uint32_t c = 0; c < chunks; c++)
        if (exists(run->plan, row_of(run)->in, rank, c) || exists(run->plan, row_of(run)->out, rank, c))
            while (slices * piece < r->counts[c])
                slices++;
    op->layout.slices = slices;
    op->layout.slice_elements = piece;
    op->given = op->layout;
}

/* What lies in IN(chunk) of a rank, at element i of the vector. */
static uint64_t input(const struct rig_run *run, int rank, uint64_t i)
{
    return mixed(run->seed + 1 + (uint64_t)rank * UINT64_C(0x100000001b3) + i);
}

static uint8_t *element_of(const struct rig_run *run, int rank, enum tt_buffer buffer, uint32_t chunk)
{
    const struct tt_space *space = &run->ranks[rank].op.spaces[buffer];
    uint64_t start = space->displs != NULL ? space->displs[chunk]
                                           : tt_layout_chunk(&run->ranks[rank].op.layout, chunk).first;
    return (uint8_t *)(space->base + (uintptr_t)(start * run->element_bytes));
}

static void bind(struct rig_run *run, int rank)
{
    struct rig_rank *r = &run->ranks[rank];
    struct tt_op *op = &r->op;
    const struct tt_schedule *schedule = &run->plan->schedules[rank];
    if (tt_op_create(schedule, op) != TUTTI_OK)
        abort();
    if (run->counts != NULL)
        cut_rank(run, rank);
    lay_out(run, rank);
    uint64_t stride = tt_layout_part_max(&op->layout) * run->element_bytes + run->element_bytes;
    uint64_t in_bytes = run->in_extent * run->element_bytes, out_bytes = run->out_extent * run->element_bytes;
    op->window_bytes[TT_TMP] = stride * schedule->tmp_cells;
    r->tmp_bytes = TT_WINDOW * op->window_bytes[TT_TMP];
    uint64_t shift = run->seed % 2 * run->element_bytes;
    r->bytes = shift + in_bytes + out_bytes + r->tmp_bytes + 4 * GUARD;
    r->memory = reserve(r->bytes, 1);
    memset(r->memory, RIG_POISON, r->bytes);
    r->in = r->memory + GUARD + shift;
    r->out = r->in + in_bytes + GUARD;
    r->tmp = r->out + out_bytes + GUARD;
    op->spaces[TT_OUT] = (struct tt_space){ .base = (uintptr_t)r->out };
    op->spaces[TT_IN] = (struct tt_space){ .base = (uintptr_t)r->in };
    if (row_of(run)->out != TT_REACH_OWN)
        op->spaces[TT_OUT].displs = r->displs;
    if (row_of(run)->in != TT_REACH_OWN)
        op->spaces[TT_IN].displs = r->displs;
    if (schedule->key.in_place)
        op->spaces[TT_IN] = op->spaces[TT_OUT];
    op->spaces[TT_TMP] = (struct tt_space){ .base = (uintptr_t)r->tmp, .stride = stride };
    op->messages.signature = (uint32_t)run->seed | 1;
    op->streams = (uint8_t)(run->seed % 4);
    if (row_of(run)->result == TT_RESULT_REDUCED) {
        op->arithmetic.folds[TT_CHAIN] = rig_fold_chain;
        op->arithmetic.folds[TT_TREE] = rig_fold_tree;
        op->arithmetic.spread = run->seed / 4 % 2 == 0 ? rig_spread : NULL;
    } else if (run->plan->collective == TT_BARRIER) {
        op->arithmetic.folds[TT_CHAIN] = op->arithmetic.folds[TT_TREE] = fold_token;
    }
}

static void fill(struct rig_run *run, int rank)
{
    const struct tt_layout *layout = &run->ranks[rank].op.layout;
    for (uint32_t c = 0; c < layout->chunks; c++) {
        struct tt_part part = tt_layout_chunk(layout, c);
        if (!exists(run->plan, row_of(run)->in, rank, c))
            continue;
        uint8_t *at = element_of(run, rank, TT_IN, c);
        for (uint64_t i = 0; i < part.count; i++) {
            uint64_t value = input(run, rank, part.first + i);
            memcpy(at + i * run->element_bytes, &value, run->element_bytes);
        }
    }
}

struct rig_run *rig_run_create(struct rig_plan *plan, uint64_t count, uint32_t slices, uint64_t seed)
{
    struct rig_run *run = reserve(1, sizeof *run);
    size_t chunks = plan->schedules[0].chunks;
    *run = (struct rig_run){ .plan = plan, .count = count, .seed = seed, .slices = slices };
    run->element_bytes = plan->collective == TT_BARRIER ? sizeof(int32_t) : sizeof(uint64_t);
    if (plan->collective == TT_BARRIER)
        run->count = run->slices = 1;
    bool even = row_of(run)->counts == TT_COUNTS_EVEN;
    if (even && row_of(run)->result == TT_RESULT_EXCHANGED) /* blocks of one length */
        run->count += (chunks - run->count % chunks) % chunks;
    run->in_extent = run->out_extent = run->count;
    if (!even)
        cut_blocks(run);
    run->ranks = reserve((size_t)plan->n, sizeof *run->ranks);
    run->expected = reserve(run->count, sizeof *run->expected);
    run->expected_of = reserve(chunks, sizeof *run->expected_of);
    for (int r = 0; r < plan->n; r++) {
        bind(run, r);
        fill(run, r);
    }
    return run;
}

void rig_run_free(struct rig_run *run)
{
    for (int r = 0; r < run->plan->n; r++) {
        tt_op_destroy(&run->ranks[r].op);
        free(run->ranks[r].memory);
        free(run->ranks[r].counts);
        free(run->ranks[r].displs);
        free(run->ranks[r].starts);
    }
    free(run->ranks);
    free(run->counts);
    free(run->expected);
    free(run->expected_of);
    free(run);
}

/* --- What must be there when an operation has ended at a rank. */

static uint64_t evaluate(const struct rig_run *run, uint32_t node, uint64_t element_in_chunk)
{
    struct rig_node it = run->plan->nodes[node];
    if (it.left & LEAF) {
        int rank = (int)(it.left & ~(uint32_t)LEAF);
        uint64_t start = tt_layout_chunk(&run->ranks[rank].op.layout, it.right).first;
        return input(run, rank, start + element_in_chunk);
    }
    return rig_merkle(evaluate(run, it.left, element_in_chunk), evaluate(run, it.right, element_in_chunk));
}

static const uint64_t *expected_of(struct rig_run *run, int rank, uint32_t chunk, const uint64_t *sample)
{
    struct tt_part part = tt_layout_chunk(&run->ranks[rank].op.layout, chunk);
    if (sample != NULL && chunk > 0 && chunk + 1 < run->ranks[rank].op.layout.chunks) {
        if (run->expected_of[chunk] == 0)
            memcpy(run->expected + part.first, sample, part.count * sizeof *sample);
        run->expected_of[chunk] = 1;
        return run->expected + part.first;
    }
    uint32_t result = result_of(run->plan, sample != NULL ? 0 : rank, chunk);
    if (run->expected_of[chunk] != result)
        for (uint64_t i = 0; i < part.count; i++)
            run->expected[part.first + i] = evaluate(run, result - 1, i);
    run->expected_of[chunk] = result;
    return run->expected + part.first;
}

void rig_fail(struct rig_world *w, const struct rig_run *run, int rank, const char *what, uint64_t at)
{
    const struct rig_plan *p = run->plan;
    if (w->failure[0] != '\0')
        return;
    snprintf(w->failure, sizeof w->failure,
        "%s %s n %d root %d in_place %d exact %d count %llu slices %u seed %llu: rank %d: %s (%llu)",
        tt_collectives[p->collective].name, p->schedules[0].algorithm, p->n, p->root, (int)p->in_place,
        p->exact, (unsigned long long)run->count, run->slices, (unsigned long long)run->seed, rank, what,
        (unsigned long long)at);
}

/* OUT and IN are right; what is right is overwritten with poison, so that then all must be poison. */
static void check_chunk(struct rig_world *w, struct rig_run *run, int rank, uint32_t chunk)
{
    const struct tt_collective_row *row = &tt_collectives[run->plan->collective];
    struct tt_part part = tt_layout_chunk(&run->ranks[rank].op.layout, chunk);
    uint64_t bytes = part.count * run->element_bytes;
    bool has_out = exists(run->plan, row->out, rank, chunk);
    bool in_is_out = has_out && run->plan->schedules[rank].key.in_place;
    if (has_out) {
        uint8_t *out = element_of(run, rank, TT_OUT, chunk);
        const uint64_t *right = expected_of(run, rank, chunk, w->sampled ? (const void *)out : NULL);
        for (uint64_t i = 0; i < part.count; i++)
            if (memcmp(out + i * sizeof *right, &right[i], sizeof *right) != 0) {
                rig_fail(w, run, rank, "wrong value at element", part.first + i);
                break;
            }
        memset(out, RIG_POISON, bytes);
    }
    if (!in_is_out && exists(run->plan, row->in, rank, chunk)) {
        uint8_t *in = element_of(run, rank, TT_IN, chunk);
        for (uint64_t i = 0; i < part.count; i++) {
            uint64_t right = input(run, rank, part.first + i);
            if (memcmp(in + i * run->element_bytes, &right, run->element_bytes) != 0)
                rig_fail(w, run, rank, "IN was changed at element", part.first + i);
        }
        memset(in, RIG_POISON, bytes);
    }
}

void rig_check(struct rig_world *w, struct rig_run *run, int rank)
{
    struct rig_rank *r = &run->ranks[rank];
    for (uint32_t c = 0; c < r->op.layout.chunks; c++)
        check_chunk(w, run, rank, c);
    memset(r->tmp, RIG_POISON, r->tmp_bytes);
    if (r->memory[0] != RIG_POISON || memcmp(r->memory, r->memory + 1, r->bytes - 1) != 0)
        rig_fail(w, run, rank, "wrote where it may not", 0);
    for (int other = 0; run->plan->collective == TT_BARRIER && other < run->plan->n; other++)
        if (!run->ranks[other].begun)
            rig_fail(w, run, rank, "left the barrier before it was entered by rank", (uint64_t)other);
    memset(r->memory, SCRIBBLE, r->bytes);
}
