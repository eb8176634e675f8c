/* SPDX-License-Identifier: BSD-3-Clause */
/* verify_symbolic.c: what a schedule computes.
 *
 * Cells hold symbols: leaf(r, c) is IN(c) of rank r, a node is an ordered pair. Symbols are hash-consed, so
 * two cells hold the same expression exactly if they hold the same number. An operand that is not rounded
 * before it is used (inside a chain fold) is another symbol than one that is. The steps run once, in the
 * order found by the graph: without races and cycles every other order gives the same symbols.
 *
 * A value is complete when it has n operands; that they are n different ranks is checked when the symbol is
 * made. FINAL must stand on exactly the steps that complete a value, and a complete value is not reduced
 * again: so each result passes one FINAL, and an average divides once. */
#include <stdlib.h>
#include <string.h>

#include "tests/proof/verify_internal.h"

enum { NOTHING = UINT32_MAX };

struct symbol {
    uint32_t left, right;
    uint32_t operands : 31, unrounded : 1;
};

struct run {
    struct tt_verifier *v;
    uint32_t leaves; /* symbols below are leaves: rank * chunks + chunk; then symbols[number - leaves] */
    struct symbol *symbols;
    uint32_t count, capacity;
    uint32_t *table, table_size; /* open addressing; numbers of nodes, or NOTHING */
    uint32_t **cells; /* of each rank, by place */
    uint32_t *memory; /* in which they lie */
    uint32_t *stack, *ranks, *stamp; /* n + 1 entries: a walk over a tree, its leaves, who was seen when */
    uint32_t *other; /* n + 1 entries: the operands or the walk of the tree to compare with */
    uint32_t model; /* the result of the first chunk */
    uint32_t
        distance; /* from the root or the owner of a chunk to its first operand; NOTHING: not known yet */
    uint32_t stamps;
    int rank; /* what runs, for messages */
    int64_t step;
};

static uint32_t operands_of(const struct run *run, uint32_t symbol)
{
    return symbol < run->leaves ? 1 : run->symbols[symbol - run->leaves].operands;
}

/* The ranks of the leaves, left to right, into run->ranks; there are at most n. */
static uint32_t list_ranks(struct run *run, uint32_t symbol)
{
    uint32_t depth = 0, count = 0;
    run->stack[depth++] = symbol;
    while (depth > 0) {
        uint32_t at = run->stack[--depth];
        if (at < run->leaves) {
            run->ranks[count++] = at / run->v->chunks;
        } else {
            run->stack[depth++] = run->symbols[at - run->leaves].right;
            run->stack[depth++] = run->symbols[at - run->leaves].left;
        }
    }
    return count;
}

/* No rank twice. Afterwards stamp[r] == stamps for the ranks that are there. */
static bool check_once(struct run *run, uint32_t symbol)
{
    uint32_t count = list_ranks(run, symbol);
    run->stamps++;
    for (uint32_t k = 0; k < count; k++) {
        if (run->stamp[run->ranks[k]] == run->stamps)
            return tt_verify_wrong(
                run->v, run->rank, run->step, "combines the value of rank %u twice", run->ranks[k]);
        run->stamp[run->ranks[k]] = run->stamps;
    }
    return true;
}

static uint32_t slot_of(const struct run *run, const struct symbol *s)
{
    uint64_t key = ((uint64_t)s->left << 32 | s->right) ^ (uint64_t)s->unrounded << 63;
    key = (key ^ key >> 31) * 0x9e3779b97f4a7c15U;
    uint32_t at = (uint32_t)(key >> 32) & (run->table_size - 1);
    while (run->table[at] != NOTHING) {
        const struct symbol *other = &run->symbols[run->table[at]];
        if (other->left == s->left && other->right == s->right && other->unrounded == s->unrounded)
            break;
        at = (at + 1) & (run->table_size - 1);
    }
    return at;
}

static bool grow(struct run *run)
{
    uint32_t wanted = run->capacity == 0 ? 1024 : 2 * run->capacity;
    struct symbol *symbols = realloc(run->symbols, wanted * sizeof *symbols);
    if (symbols == NULL)
        return tt_verify_no_memory(run->v);
    run->symbols = symbols;
    uint32_t *table = malloc(2 * (size_t)wanted * sizeof *table);
    if (table == NULL)
        return tt_verify_no_memory(run->v);
    free(run->table);
    run->table = table;
    run->table_size = 2 * wanted;
    run->capacity = wanted;
    memset(table, 0xff, 2 * (size_t)wanted * sizeof *table);
    for (uint32_t k = 0; k < run->count; k++)
        run->table[slot_of(run, &run->symbols[k])] = k;
    return true;
}

/* left (+) right, or NOTHING once something is wrong. A barrier only passes a token on. */
static uint32_t combine(struct run *run, uint32_t left, uint32_t right, bool unrounded)
{
    uint32_t n = (uint32_t)run->v->n;
    if (left == NOTHING || right == NOTHING)
        return NOTHING;
    if (run->v->schedules[0]->key.collective == TT_BARRIER)
        return left;
    struct symbol s = { .left = left, .right = right, .unrounded = unrounded };
    uint32_t a = operands_of(run, left), b = operands_of(run, right);
    if (a == n || b == n) {
        tt_verify_wrong(run->v, run->rank, run->step, "reduces a value that is complete already");
        return NOTHING;
    }
    if (a + b > n) {
        tt_verify_wrong(run->v, run->rank, run->step, "combines %u values; there are %u ranks", a + b, n);
        return NOTHING;
    }
    s.operands = (a + b) & 0x7fffffffU;
    if (run->count == run->capacity && !grow(run))
        return NOTHING;
    uint32_t at = slot_of(run, &s);
    if (run->table[at] == NOTHING) {
        run->symbols[run->count] = s;
        run->table[at] = run->count++;
        if (a + b == n && !check_once(run, run->table[at] + run->leaves))
            return NOTHING;
    }
    return run->table[at] + run->leaves;
}

/* The pass-up tree over operands[0 .. count): pairs (0,1), (2,3) ..., an odd one passes up. Overwrites them.
 * */
static uint32_t pass_up(struct run *run, uint32_t *operands, uint32_t count)
{
    while (count > 1) {
        for (uint32_t k = 0; k < count; k += 2)
            operands[k / 2] = k + 1 < count ? combine(run, operands[k], operands[k + 1], false) : operands[k];
        count = (count + 1) / 2;
    }
    return operands[0];
}

static uint32_t chain(struct run *run, const uint32_t *operands, uint32_t count)
{
    uint32_t value = operands[0];
    for (uint32_t k = 1; k < count; k++)
        value = combine(run, value, operands[k], k + 1 < count);
    return value;
}

static uint32_t read_cell(struct run *run, int rank, uint32_t step, struct tt_cells cells, uint32_t k)
{
    const struct tt_schedule *s = run->v->schedules[rank];
    uint32_t value = run->cells[rank][tt_cell_place(s, cells.buffer, cells.chunk + k)];
    if (value == NOTHING)
        tt_verify_wrong(run->v, rank, step, "reads %s, which holds nothing yet",
            tt_cells_name(tt_range(cells.buffer, cells.chunk + k, 1)).text);
    return value;
}

/* What message of `unit` + index brings for its k-th chunk. */
static uint32_t incoming(struct run *run, uint32_t unit, uint32_t index, uint32_t k)
{
    struct tt_verifier *v = run->v;
    const struct tt_step *recv = tt_step_at(v, unit + index);
    size_t pair = (size_t)recv->peer * (size_t)v->n + v->rank_of[unit];
    uint32_t sender = v->sender[v->first_message[pair] + recv->ordinal];
    return read_cell(
        run, recv->peer, sender - v->base[recv->peer], tt_step_accesses(tt_step_at(v, sender)).read[0], k);
}

/* The operands in their order: incoming ones marked LEFT, src, the others. NOTHING in any if it cannot be
 * read. */
static uint32_t reduce_incoming(struct run *run, uint32_t unit, uint32_t own, uint32_t k)
{
    const struct tt_step *first = tt_step_at(run->v, unit);
    uint32_t operands[TT_FOLD_MAX + 1], count = 0;
    for (int left = 1; left >= 0; left--) {
        for (uint32_t i = 0; i < first->fold_count; i++)
            if (((first[i].flags & TT_LEFT) != 0) == (left != 0))
                operands[count++] = incoming(run, unit, i, k);
        if (left)
            operands[count++] = own;
    }
    for (uint32_t i = 0; i < count; i++)
        if (operands[i] == NOTHING)
            return NOTHING;
    return first->flags & TT_FOLD_TREE ? pass_up(run, operands, count) : chain(run, operands, count);
}

/* The value that chunk k of a unit's dst gets. */
static uint32_t result_of(struct run *run, uint32_t unit, uint32_t k)
{
    const struct tt_step *step = tt_step_at(run->v, unit);
    struct tt_accesses a = tt_step_accesses(step);
    uint32_t operand[2] = { NOTHING, NOTHING };
    for (int i = 0; i < a.reads; i++)
        if ((operand[i] = read_cell(run, run->rank, (uint32_t)run->step, a.read[i], k)) == NOTHING)
            return NOTHING;
    switch (step->verb) {
    case TT_VERB_RECV:
        return incoming(run, unit, 0, k);
    case TT_VERB_RECV_REDUCE:
        return reduce_incoming(run, unit, operand[0], k);
    case TT_VERB_REDUCE:
        return combine(run, operand[0], operand[1], false);
    default:
        return operand[0];
    }
}

static bool run_unit(struct run *run, uint32_t unit)
{
    struct tt_verifier *v = run->v;
    const struct tt_step *step = tt_step_at(v, unit);
    const struct tt_schedule *s = v->schedules[v->rank_of[unit]];
    struct tt_accesses a = tt_step_accesses(step);
    run->rank = s->key.me;
    run->step = unit - v->base[run->rank];
    bool reduces = step->verb == TT_VERB_RECV_REDUCE || step->verb == TT_VERB_REDUCE;
    for (uint32_t k = 0; a.writes && k < step->nchunks; k++) {
        uint32_t value = result_of(run, unit, k), operands;
        if (value == NOTHING)
            return false;
        operands = operands_of(run, value);
        if (reduces && operands == (uint32_t)v->n && !(step->flags & TT_FINAL))
            return tt_verify_wrong(v, run->rank, run->step, "completes %s, but is not marked FINAL",
                tt_cells_name(a.write).text);
        if (reduces && operands != (uint32_t)v->n && (step->flags & TT_FINAL))
            return tt_verify_wrong(
                v, run->rank, run->step, "is marked FINAL, but has %u of %d operands", operands, v->n);
        run->cells[run->rank][tt_cell_place(s, a.write.buffer, a.write.chunk + k)] = value;
    }
    return true;
}

static bool open_run(struct run *run, struct tt_verifier *v)
{
    size_t n = (size_t)v->n, all = 0;
    *run = (struct run){ .v = v, .rank = -1, .step = -1, .model = NOTHING, .distance = NOTHING };
    if (n * v->chunks >= NOTHING / 2)
        return tt_verify_wrong(v, -1, -1, "more values than the proof can number");
    run->leaves = (uint32_t)n * v->chunks;
    for (size_t r = 0; r < n; r++)
        all += 2 * (size_t)v->chunks + v->schedules[r]->tmp_cells;
    run->cells = malloc(n * sizeof *run->cells);
    run->memory = malloc(all * sizeof *run->memory);
    run->stack = malloc((n + 1) * sizeof *run->stack);
    run->ranks = malloc((n + 1) * sizeof *run->ranks);
    run->stamp = calloc(n + 1, sizeof *run->stamp);
    run->other = malloc((n + 1) * sizeof *run->other);
    if (run->cells == NULL || run->memory == NULL || run->stack == NULL || run->ranks == NULL ||
        run->stamp == NULL || run->other == NULL)
        return tt_verify_no_memory(v);
    memset(run->memory, 0xff, all * sizeof *run->memory);
    all = 0;
    for (int r = 0; r < v->n; r++) {
        const struct tt_schedule *s = v->schedules[r];
        enum tt_reach reach = (enum tt_reach)tt_collectives[s->key.collective].in;
        run->cells[r] = run->memory + all;
        all += 2 * (size_t)v->chunks + s->tmp_cells;
        for (uint32_t c = 0; c < v->chunks; c++)
            if (tt_reach_has(reach, v->n, r, s->key.root, v->chunks, c))
                run->cells[r][tt_cell_place(s, TT_IN, c)] = (uint32_t)r * v->chunks + c;
    }
    return true;
}

static void close_run(struct run *run)
{
    free(run->symbols);
    free(run->table);
    free(run->cells);
    free(run->memory);
    free(run->stack);
    free(run->ranks);
    free(run->stamp);
    free(run->other);
}

static bool run_all(struct run *run)
{
    for (uint32_t k = 0; k < run->v->ordered; k++)
        if (!run_unit(run, run->v->order[k]))
            return false;
    run->step = -1;
    return true;
}

/* The same tree, whichever the leaves. */
static bool same_shape(struct run *run, uint32_t a, uint32_t b)
{
    uint32_t depth = 0;
    run->stack[depth] = a;
    run->other[depth++] = b;
    while (depth > 0) {
        a = run->stack[--depth];
        b = run->other[depth];
        if (a < run->leaves && b < run->leaves)
            continue;
        if (a < run->leaves || b < run->leaves)
            return false;
        const struct symbol *p = &run->symbols[a - run->leaves], *q = &run->symbols[b - run->leaves];
        if (p->unrounded != q->unrounded)
            return false;
        run->stack[depth] = p->left;
        run->other[depth++] = q->left;
        run->stack[depth] = p->right;
        run->other[depth++] = q->right;
    }
    return true;
}

/* Every rank once. */
static bool check_complete(struct run *run, uint32_t symbol, uint32_t c)
{
    uint32_t n = (uint32_t)run->v->n;
    if (operands_of(run, symbol) == n)
        return true;
    check_once(run, symbol);
    for (uint32_t r = 0; r < n; r++)
        if (run->stamp[r] != run->stamps)
            return tt_verify_wrong(run->v, run->rank, -1, "out %u lacks the value of rank %u", c, r);
    return false;
}

static uint32_t owner_of(const struct tt_verifier *v, uint32_t c)
{
    return (uint32_t)((uint64_t)c * (uint32_t)v->n / v->chunks);
}

/* A rotation begins at the root, else always as far from the owner of the chunk. */
static bool check_first(struct run *run, uint32_t c, uint32_t first)
{
    const struct tt_key *key = &run->v->schedules[0]->key;
    bool rooted = tt_collectives[key->collective].rooted;
    uint32_t n = (uint32_t)run->v->n, from = rooted ? (uint32_t)key->root : owner_of(run->v, c);
    uint32_t distance = (first + n - from) % n;
    if (run->distance == NOTHING)
        run->distance = rooted ? 0 : distance;
    if (distance != run->distance)
        return tt_verify_wrong(run->v, run->rank, -1, "out %u begins with rank %u; that should be rank %u", c,
            first, (from + run->distance) % n);
    return true;
}

/* The result of chunk c has the shape that the proof promises. */
static bool check_tree(struct run *run, uint32_t symbol, uint32_t c)
{
    struct tt_verifier *v = run->v;
    uint32_t n = (uint32_t)v->n;
    if (!check_complete(run, symbol, c))
        return false;
    if (v->proof->tree == TT_TREE_ANY)
        return true;
    list_ranks(run, symbol);
    uint32_t first = 0;
    if (v->proof->tree == TT_TREE_ROTATED && !check_first(run, c, first = run->ranks[0]))
        return false;
    for (uint32_t k = 0; k < n; k++)
        if (run->ranks[k] != (first + k) % n)
            return tt_verify_wrong(
                v, run->rank, -1, "out %u: operand %u is of rank %u, out of order", c, k, run->ranks[k]);
    if (run->model == NOTHING)
        run->model = symbol;
    if (v->proof->tree != TT_TREE_ORDERED_BY_CHUNK && !same_shape(run, run->model, symbol))
        return tt_verify_wrong(v, run->rank, -1, "out %u is another tree than the first chunk", c);
    if (v->proof->tree != TT_TREE_CANONICAL)
        return true;
    for (uint32_t r = 0; r < n; r++)
        run->other[r] = r * v->chunks + c;
    if (pass_up(run, run->other, n) != symbol)
        return tt_verify_wrong(v, run->rank, -1, "out %u is not the canonical tree", c);
    return true;
}

/* `agreed`: the symbol of this chunk at the first rank that has it, or NOTHING. */
static bool check_result(struct run *run, const struct tt_schedule *s, uint32_t c, uint32_t *agreed)
{
    struct tt_verifier *v = run->v;
    int r = s->key.me, result = tt_collectives[s->key.collective].result;
    uint32_t value = run->cells[r][tt_cell_place(s, TT_OUT, c)];
    run->rank = r;
    if (value == NOTHING)
        return tt_verify_wrong(v, r, -1, "out %u holds nothing at the end", c);
    if (result == TT_RESULT_REDUCED && *agreed == NOTHING) {
        *agreed = value;
        return check_tree(run, value, c);
    }
    if (result == TT_RESULT_REDUCED)
        return value == *agreed ||
               tt_verify_wrong(v, r, -1, "out %u is associated otherwise than at another rank", c);
    uint32_t from = result == TT_RESULT_ROOT ? (uint32_t)s->key.root : owner_of(v, c);
    uint32_t given = result == TT_RESULT_EXCHANGED ? (uint32_t)r : c;
    if (value != from * v->chunks + given)
        return tt_verify_wrong(v, r, -1, "out %u is not the value of rank %u", c, from);
    return true;
}

static bool check_results(struct run *run)
{
    struct tt_verifier *v = run->v;
    for (uint32_t c = 0; c < v->chunks; c++) {
        uint32_t agreed = NOTHING;
        for (int r = 0; r < v->n; r++) {
            const struct tt_schedule *s = v->schedules[r];
            const struct tt_collective_row *row = &tt_collectives[s->key.collective];
            if (row->result != TT_RESULT_NONE &&
                tt_reach_has((enum tt_reach)row->out, v->n, r, s->key.root, v->chunks, c) &&
                !check_result(run, s, c, &agreed))
                return false;
        }
    }
    return true;
}

bool tt_verify_values(struct tt_verifier *v)
{
    struct run run;
    bool right = open_run(&run, v) && run_all(&run) && check_results(&run);
    close_run(&run);
    return right;
}

/* Which ranks a rank has heard of, by messages and dependencies alone: an acknowledgement tells nothing,
 * since a short message is complete when it is sent. */
static void hear(struct tt_verifier *v, uint64_t *heard, size_t words, uint32_t number)
{
    uint32_t rank = v->rank_of[number];
    const struct tt_step *step = tt_step_at(v, number);
    uint64_t *mine = heard + number * words, *end = heard + (v->total + (size_t)rank) * words;
    mine[rank / 64] |= (uint64_t)1 << rank % 64;
    for (uint32_t k = 0; k < step->dep_count; k++) {
        size_t other = v->base[rank] + v->schedules[rank]->deps[step->dep_first + k];
        for (size_t w = 0; w < words; w++)
            mine[w] |= heard[other * words + w];
    }
    for (uint32_t k = 0; tt_step_receives(step) && k < step->fold_count; k++) {
        size_t pair = (size_t)step[k].peer * (size_t)v->n + rank;
        size_t other = v->sender[v->first_message[pair] + step[k].ordinal];
        for (size_t w = 0; w < words; w++)
            mine[w] |= heard[other * words + w];
    }
    for (size_t w = 0; w < words; w++)
        end[w] |= mine[w];
}

bool tt_verify_barrier(struct tt_verifier *v)
{
    if (v->schedules[0]->key.collective != TT_BARRIER || v->n == 1)
        return true;
    size_t words = ((size_t)v->n + 63) / 64;
    uint64_t *heard = calloc((v->total + (size_t)v->n) * words, sizeof *heard);
    if (heard == NULL)
        return tt_verify_no_memory(v);
    for (uint32_t k = 0; k < v->ordered; k++)
        hear(v, heard, words, v->order[k]);
    bool right = true;
    for (size_t r = 0; r < (size_t)v->n; r++)
        for (size_t q = 0; q < (size_t)v->n && right; q++)
            if (!(heard[(v->total + r) * words + q / 64] >> q % 64 & 1))
                right = tt_verify_wrong(v, (int)r, -1, "may leave the barrier before rank %zu has come", q);
    free(heard);
    return right;
}

/* Values of the nodes below and including `symbol`: operands have lower numbers than what is made of them. */
static bool evaluate(struct run *run, uint32_t symbol, tt_leaf_fn leaf, tt_combine_fn combine_values,
    void *context, uint64_t *value)
{
    uint32_t chunks = run->v->chunks;
    if (symbol < run->leaves) {
        *value = leaf((int)(symbol / chunks), symbol % chunks, context);
        return true;
    }
    uint32_t top = symbol - run->leaves;
    uint64_t *values = malloc(((size_t)top + 1) * sizeof *values);
    bool *needed = calloc((size_t)top + 1, sizeof *needed);
    bool ready = values != NULL && needed != NULL;
    for (uint32_t k = top + 1; ready && k-- > 0;) {
        needed[k] = needed[k] || k == top;
        for (int side = 0; needed[k] && side < 2; side++) {
            uint32_t operand = side == 0 ? run->symbols[k].left : run->symbols[k].right;
            if (operand >= run->leaves)
                needed[operand - run->leaves] = true;
        }
    }
    for (uint32_t k = 0; ready && k <= top; k++) {
        uint64_t operand[2];
        for (int side = 0; needed[k] && side < 2; side++) {
            uint32_t number = side == 0 ? run->symbols[k].left : run->symbols[k].right;
            operand[side] = number < run->leaves ? leaf((int)(number / chunks), number % chunks, context)
                                                 : values[number - run->leaves];
        }
        if (needed[k])
            values[k] = combine_values(operand[0], operand[1], context);
    }
    if (ready)
        *value = values[top];
    free(values);
    free(needed);
    return ready;
}

bool tt_evaluate(const struct tt_schedule *const *schedules, int n, int rank, uint32_t chunk, tt_leaf_fn leaf,
    tt_combine_fn combine_values, void *context, uint64_t *value)
{
    struct tt_proof proof = { .tree = TT_TREE_ANY };
    struct tt_proof_report report;
    struct tt_verifier v;
    bool right = tt_verifier_open(&v, schedules, n, &proof, &report) && tt_verify_shapes(&v) &&
                 tt_verify_messages(&v) && tt_verify_order(&v);
    if (right) {
        const struct tt_schedule *s = schedules[rank];
        enum tt_reach reach = (enum tt_reach)tt_collectives[s->key.collective].out;
        struct run run;
        right = open_run(&run, &v) && run_all(&run) &&
                tt_reach_has(reach, n, rank, s->key.root, s->chunks, chunk);
        if (right) {
            uint32_t symbol = run.cells[rank][tt_cell_place(s, TT_OUT, chunk)];
            right = symbol != NOTHING && evaluate(&run, symbol, leaf, combine_values, context, value);
        }
        close_run(&run);
    }
    tt_verifier_close(&v);
    return right;
}
