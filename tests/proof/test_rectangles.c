/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rectangles.c: the rectangles of a collective compute what the schedules of `direct` do.
 *
 * Memory holds symbols, one an element: leaves, operands of ranks, and nodes, ordered pairs of symbols
 * (verify_symbolic.c). The rectangles run on such memory, element by element in several orders, since a
 * device promises none; the schedules are evaluated chunk by chunk. Both must leave the same expression in
 * each element, and all else as it was. */
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "exec/rectangles.h"
#include "tests/proof/schedules.h"

enum { MOST = 8, LONGEST = 64, SYMBOLS = 1 << 14, UNTOUCHED = -1 };

/* --- Symbols. */

static struct {
    int left, right; /* of a leaf: the rank, and -1 - the element of that rank's operand */
} symbols[SYMBOLS];
static int nsymbols;

static int symbol(int left, int right)
{
    int s = 0;
    while (s < nsymbols && (symbols[s].left != left || symbols[s].right != right))
        s++;
    if (s == nsymbols) {
        cr_assert_lt(nsymbols, SYMBOLS);
        symbols[nsymbols].left = left;
        symbols[nsymbols++].right = right;
    }
    return s;
}

static int leaf(int rank, uint64_t element)
{
    return symbol(rank, -1 - (int)element);
}

/* --- A case: a call, and where its elements are. */

struct call_case {
    struct tt_rect_call call;
    struct tt_layout layout;
    uint64_t starts[MOST];
    struct schedule_set set;
    int memory[2][MOST][LONGEST]; /* of each rank, in elements: a buffer of operands, of results */
    int *place[2][MOST]; /* where they are: in place, one lies in the other */
    uint64_t touched[2][MOST]; /* elements up to the last one that is loaded, or stored */
};

static const struct tt_collective_row *row_of(const struct call_case *c)
{
    return &tt_collectives[c->call.collective];
}

/* Where an element of a chunk is in a rank's buffer. */
static uint64_t position(const struct call_case *c, int side, int rank, uint32_t chunk, uint64_t element)
{
    enum tt_reach reach = (enum tt_reach)(side == TT_IN ? row_of(c)->in : row_of(c)->out);
    uint64_t first = tt_layout_chunk(&c->layout, chunk).first;
    if (reach == TT_REACH_OWN)
        return first - tt_layout_chunk(&c->layout, (uint32_t)rank).first + element;
    return (c->call.displs != NULL ? c->call.displs[chunk] : first) + element;
}

static bool has(const struct call_case *c, int side, int rank, uint32_t chunk)
{
    enum tt_reach reach = (enum tt_reach)(side == TT_IN ? row_of(c)->in : row_of(c)->out);
    return tt_reach_has(reach, c->call.n, rank, c->call.root, c->layout.chunks, chunk);
}

/* In place, the start of one of the two buffers is that of the own block in the other. */
static void set_places(struct call_case *c)
{
    for (int r = 0; r < c->call.n; r++) {
        bool own_block = row_of(c)->in_place == TT_IN_PLACE_OWN_BLOCK;
        uint64_t start = tt_layout_chunk(&c->layout, (uint32_t)r * (c->layout.chunks > 1)).first;
        start = c->call.displs != NULL ? c->call.displs[r] : start;
        c->place[TT_IN][r] = c->memory[TT_IN][r];
        c->place[TT_OUT][r] = c->memory[TT_OUT][r];
        if (!(c->call.in_place >> r & 1))
            continue;
        c->place[TT_OUT][r] = c->memory[TT_IN][r];
        if (own_block && row_of(c)->in == TT_REACH_OWN)
            c->place[TT_IN][r] += start;
        else if (own_block)
            c->place[TT_OUT][r] += start;
    }
}

static void fill(struct call_case *c)
{
    for (int side = 0; side < 2; side++)
        for (int r = 0; r < MOST; r++)
            for (int i = 0; i < LONGEST; i++)
                c->memory[side][r][i] = UNTOUCHED;
    for (int r = 0; r < c->call.n; r++)
        for (uint32_t chunk = 0; chunk < c->layout.chunks; chunk++)
            for (uint64_t e = 0; e < tt_layout_chunk(&c->layout, chunk).count && has(c, TT_IN, r, chunk);
                 e++) {
                uint64_t at = position(c, TT_IN, r, chunk, e);
                c->place[TT_IN][r][at] = leaf(r, at);
            }
}

/* --- What the rectangles do. */

static int pass_up(const int *operands, int n)
{
    int half = 1;
    if (n == 1)
        return operands[0];
    while (2 * half < n)
        half *= 2;
    return symbol(pass_up(operands, half), pass_up(operands + half, n - half));
}

static int chain(const int *operands, int n)
{
    int value = operands[0];
    for (int k = 1; k < n; k++)
        value = symbol(value, operands[k]);
    return value;
}

static void touch(uint64_t *touched, uint64_t element)
{
    *touched = element + 1 > *touched ? element + 1 : *touched;
}

static void run_element(struct call_case *c, const struct tt_rect *r, uint64_t e, bool moves)
{
    uint64_t unit = moves ? c->call.element_bytes : 1; /* what moves is counted in bytes */
    uint64_t from = r->from / c->call.element_bytes + e / unit, to = r->to / c->call.element_bytes + e / unit;
    int operands[MOST], n = 0;
    if (e % unit != 0)
        return;
    for (int k = 0; k < MOST; k++)
        if (r->sources >> k & 1) {
            cr_assert(k < c->call.n && from < LONGEST);
            operands[n++] = c->place[TT_IN][k][from];
            touch(&c->touched[TT_IN][k], from);
        }
    cr_assert(n == 1 || !moves);
    for (int j = 0; j < MOST; j++)
        if (r->dsts >> j & 1) {
            cr_assert(j < c->call.n && to < LONGEST);
            c->place[TT_OUT][j][to] = c->call.exact ? pass_up(operands, n) : chain(operands, n);
            touch(&c->touched[TT_OUT][j], to);
        }
}

enum { ASCENDING, DESCENDING, DRAWN, ORDERS };

static void run_rectangles(struct call_case *c, const struct tt_fused_params *p, bool moves, int order)
{
    static struct {
        uint32_t rect;
        uint64_t element;
    } all[MOST * MOST * LONGEST * 8], item;
    uint32_t n = 0;
    for (uint32_t r = 0; r < p->rects; r++)
        for (uint64_t e = 0; e < p->rect[r].count; e++) {
            cr_assert_lt(n, sizeof all / sizeof all[0]);
            all[n].rect = r;
            all[n++].element = e;
        }
    for (uint32_t i = n; i > 1 && order == DRAWN; i--) {
        uint32_t other = (uint32_t)rand() % i;
        item = all[i - 1];
        all[i - 1] = all[other];
        all[other] = item;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = order == DESCENDING ? n - 1 - i : i;
        run_element(c, &p->rect[all[at].rect], all[at].element, moves);
    }
}

/* --- What the schedules do. */

struct at_element {
    const struct call_case *c;
    uint64_t element;
};

static uint64_t leaf_of(int rank, uint32_t chunk, void *of)
{
    const struct at_element *at = of;
    return (uint64_t)leaf(rank, position(at->c, TT_IN, rank, chunk, at->element));
}

static uint64_t node_of(uint64_t left, uint64_t right, void *of)
{
    (void)of;
    return (uint64_t)symbol((int)left, (int)right);
}

static void expect_chunk(struct call_case *c, int (*want)[LONGEST], int rank, uint32_t chunk)
{
    for (uint64_t e = 0; e < tt_layout_chunk(&c->layout, chunk).count; e++) {
        struct at_element at = { c, e };
        uint64_t value;
        cr_assert(tt_evaluate(c->set.list, c->call.n, rank, chunk, leaf_of, node_of, &at, &value));
        want[rank][position(c, TT_OUT, rank, chunk, e)] = (int)value;
    }
}

/* The schedules fold in the shape that the kernel has, and divide by what it does. */
static void expect_shape(const struct call_case *c, const struct tt_fused_params *p, uint32_t kernel)
{
    bool folds = row_of(c)->result == TT_RESULT_REDUCED;
    enum tt_kernel shape = c->call.exact ? TT_KERNEL_FUSED_TREE : TT_KERNEL_FUSED_CHAIN;
    if (p->rects > 0)
        cr_assert_eq(kernel, tt_kernel_number(folds ? shape : TT_KERNEL_MOVE, c->call.type, c->call.op));
    else
        cr_assert_eq(kernel, 0);
    for (int r = 0; r < c->call.n; r++)
        for (uint32_t i = 0; i < c->set.schedules[r].nsteps; i++) {
            const struct tt_step *step = &c->set.schedules[r].steps[i];
            if (step->verb == TT_VERB_RECV_REDUCE && step->fold_count > 1) /* two operands have one shape */
                cr_assert_eq((step->flags & TT_FOLD_TREE) != 0, c->call.exact);
        }
    cr_assert_eq(p->divisor, folds && c->call.op == TUTTI_AVG ? (uint32_t)c->call.n : 1);
}

/* --- Both, compared. */

static void compare(struct call_case *c, const struct tt_fused_params *p, const struct tt_rect_plan *plan)
{
    static int want[MOST][LONGEST];
    bool moves = row_of(c)->result != TT_RESULT_REDUCED;
    for (int order = 0; order < ORDERS; order++) {
        fill(c);
        memset(c->touched, 0, sizeof c->touched);
        run_rectangles(c, p, moves, order);
        for (int r = 0; r < c->call.n; r++) {
            memset(want[r], 0xff, sizeof want[r]);
            for (uint32_t chunk = 0; chunk < c->layout.chunks && row_of(c)->result != TT_RESULT_NONE; chunk++)
                if (has(c, TT_OUT, r, chunk))
                    expect_chunk(c, want, r, chunk);
            for (int i = 0; i < LONGEST; i++) {
                bool is_there = want[r][i] != UNTOUCHED || !(c->call.in_place >> r & 1);
                cr_assert(!is_there || c->place[TT_OUT][r][i] == want[r][i],
                    "%s of %d, root %d, in place %#x, exact %d, order %d: rank %d, element %d",
                    row_of(c)->name, c->call.n, c->call.root, c->call.in_place, c->call.exact, order, r, i);
            }
            uint32_t bytes = c->call.element_bytes;
            cr_assert_eq(plan->extents.in[r], c->touched[TT_IN][r] * bytes);
            cr_assert_eq(plan->extents.out[r], c->touched[TT_OUT][r] * bytes);
        }
    }
}

static void run_case(struct call_case *c)
{
    struct tt_fused_params p = { .over_value = 5 };
    struct tt_rect_plan plan;
    struct tt_key key = { .collective = (uint8_t)c->call.collective,
        .algorithm = (uint8_t)tt_algorithm_find(c->call.collective, "direct"),
        .n = c->call.n,
        .root = c->call.root,
        .exact = c->call.exact && row_of(c)->result == TT_RESULT_REDUCED };
    c->set = set_build(key, c->call.in_place);
    uint32_t chunks = c->set.schedules[0].chunks;
    if (c->call.counts != NULL)
        tt_layout_v(&c->layout, c->call.counts, c->starts, chunks, 1, c->call.element_bytes);
    else
        tt_layout_even(&c->layout, c->call.total, chunks, 1, c->call.element_bytes);
    nsymbols = 0;
    set_places(c);
    cr_assert(tt_rectangles(&c->call, &p, &plan), "%s of %d", row_of(c)->name, c->call.n);
    cr_assert(p.over_value == 5 && plan.grid > 0 && plan.grid_y == (p.rects > 0 ? p.rects : 1));
    expect_shape(c, &p, plan.kernel);
    compare(c, &p, &plan);
    set_free(&c->set);
}

/* In place nowhere, everywhere, and at some ranks; an exchange is served only where it is nowhere so. */
static void run_places(struct call_case *c)
{
    bool exchanges = row_of(c)->result == TT_RESULT_EXCHANGED && c->call.n > 1;
    const uint32_t masks[] = { 0, 255, 0xa6 };
    int places = row_of(c)->in_place == TT_IN_PLACE_NEVER || exchanges ? 1 : 3;
    for (int i = 0; i < places; i++) {
        c->call.in_place = masks[i] & ((1U << c->call.n) - 1);
        run_case(c);
    }
    c->call.in_place = 0;
}

static const enum tt_collective even[] = { TT_ALL_REDUCE, TT_REDUCE_SCATTER, TT_ALL_GATHER, TT_BROADCAST,
    TT_REDUCE, TT_BARRIER, TT_ALL_TO_ALL, TT_GATHER, TT_SCATTER };

static void run_even(struct call_case *c)
{
    static const uint64_t counts[] = { 0, 1, 3, 8 };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        c->call.total = counts[i] * (row_of(c)->blocks ? (uint64_t)c->call.n : 1);
        c->call.total = c->call.collective == TT_BARRIER ? 0 : c->call.total;
        run_places(c);
    }
}

static void run_collective(enum tt_collective collective, bool exact)
{
    static struct call_case c;
    for (int n = 1; n <= MOST; n++) {
        c = (struct call_case){ .call = { .collective = collective,
                                    .n = n,
                                    .type = TUTTI_FLOAT32,
                                    .op = n % 2 ? TUTTI_SUM : TUTTI_AVG,
                                    .exact = exact,
                                    .element_bytes = 4 } };
        int roots = tt_collectives[collective].rooted ? n : 1;
        for (c.call.root = 0; c.call.root < roots; c.call.root++)
            run_even(&c);
    }
}

Test(rectangles, do_what_schedules_do)
{
    for (size_t i = 0; i < sizeof even / sizeof even[0]; i++)
        run_collective(even[i], false);
}

Test(rectangles, do_what_exact_schedules_do)
{
    run_collective(TT_ALL_REDUCE, true);
    run_collective(TT_REDUCE_SCATTER, true);
    run_collective(TT_REDUCE, true);
}

/* Uneven counts, some of them 0, packed and at displacements that go backwards and leave gaps. */
Test(rectangles, of_uneven_blocks)
{
    static const enum tt_collective some[] = { TT_ALL_GATHER_V, TT_REDUCE_SCATTER_V };
    static struct call_case c;
    size_t counts[MOST], displs[MOST];
    for (int which = 0; which < 2; which++)
        for (int n = 1; n <= MOST; n++)
            for (int how = 0; how < 8; how++) {
                c = (struct call_case){ .call = { .collective = some[which],
                                            .n = n,
                                            .type = TUTTI_FLOAT32,
                                            .op = TUTTI_SUM,
                                            .exact = how & 1,
                                            .element_bytes = 4,
                                            .counts = counts,
                                            .displs = how & 2 ? displs : NULL } };
                for (int r = 0; r < n; r++) {
                    counts[r] = how & 4 ? (size_t)(r * 5 + n) % 4 : 0;
                    displs[r] = (size_t)(n - 1 - r) * 5 + 1;
                    c.call.total += counts[r];
                }
                run_places(&c);
            }
}

/* --- What is not served. */

static bool is_served(struct tt_rect_call call)
{
    static struct tt_fused_params p;
    struct tt_rect_plan plan;
    return tt_rectangles(&call, &p, &plan);
}

Test(rectangles, are_not_of_every_call)
{
    static const size_t counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9 };
    struct tt_rect_call call = {
        .collective = TT_ALL_REDUCE, .n = 8, .type = TUTTI_FLOAT32, .element_bytes = 4, .total = 72
    };
    cr_expect(is_served(call));
    call.n = 9;
    cr_expect_not(is_served(call), "nine ranks");
    call.n = 8;
    call.op = TUTTI_BIT_AND;
    cr_expect_not(is_served(call), "no kernel has that");
    call.op = (tutti_op)TUTTI_BIT_XOR + 1000;
    cr_expect_not(is_served(call), "an operator of the user");
    call.op = TUTTI_PROD;
    call.scaled = true;
    cr_expect_not(is_served(call), "a scaled product");
    call.op = TUTTI_SUM;
    cr_expect(is_served(call));
    call.scaled = false;
    for (int c = 0; c < TT_COLLECTIVES; c++)
        if (tt_collectives[c].p2p || tt_collectives[c].counts == TT_COUNTS_OWN) {
            call.collective = (enum tt_collective)c;
            call.counts = counts;
            cr_expect_not(is_served(call), "%s", tt_collectives[c].name);
        }
    call.counts = NULL;
    call.collective = TT_ALL_TO_ALL;
    cr_expect(is_served(call));
    for (int r = 0; r < call.n; r++) {
        call.in_place = 1U << r;
        cr_expect_not(is_served(call), "rank %d exchanges in place: what it gives is overwritten", r);
    }
}

/* Operands of any type move as bytes, whatever the operation says. */
Test(rectangles, that_move_look_at_no_operation)
{
    struct tt_fused_params p;
    struct tt_rect_plan plan;
    struct tt_rect_call call = { .collective = TT_ALL_GATHER,
        .n = 2,
        .type = TUTTI_FLOAT64,
        .op = TUTTI_BIT_AND,
        .scaled = true,
        .element_bytes = 8,
        .total = 2000000 };
    cr_assert(tt_rectangles(&call, &p, &plan));
    cr_expect_eq(plan.kernel, tt_kernel_number(TT_KERNEL_MOVE, TUTTI_INT8, TUTTI_SUM));
    cr_expect(p.rects == 2 && p.rect[1].count == 8000000 && p.rect[1].to == 8000000 && p.rect[1].from == 0);
    cr_expect_eq(plan.grid, tt_fused_grid(8000000));
}
