/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_matrix.c: every collective on every algorithm, over n, counts, types, operations, memory, in
 * place or not, by processes and by threads.
 *
 * For each n and kind of rank there is one communicator with the default choice and one per algorithm name,
 * all of small slices (8 KiB), half of them with numbers that begin just below 2^32. On each runs a walk
 * over the cases of its table, three different operations back to back: all three are filled, called with
 * a random delay at each rank, and only then looked at. The default communicator runs all cases, the others
 * a part that moves with n, so that each value meets each n. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/matrix_case.h"

TestSuite(api_matrix, .timeout = 300);

enum { SLICE = 8192, ROOM = 160 * 1024, MEMORIES = 2, IN_FLIGHT = 3, DELAY_US = 60 };

struct rig { /* what a rank has to work with */
    tutti_comm *comm;
    struct ranks_buffer buffers[IN_FLIGHT][2][MEMORIES]; /* [][send, recv][malloc, mem_alloc] */
    struct ranks_buffer expected;
    _Atomic uint32_t *arrived; /* n: barriers entered, in the shared mapping */
    uint32_t barriers;
    const char *algorithms;
};

/* --- The table of cases, common to all ranks */

enum { COUNTS = 11, OPS_TYPES = 6, TYPES = 12, OPS = 8 };
enum {
    OF_COUNTS = COUNTS * 2 * 2,
    OF_TYPES = OF_COUNTS + 2 * TYPES,
    ROWS = OF_TYPES + OPS * OPS_TYPES,
};
static const tutti_op ops[OPS] = { TUTTI_SUM, TUTTI_PROD, TUTTI_MAX, TUTTI_MIN, TUTTI_AVG, TUTTI_BIT_AND,
    TUTTI_BIT_OR, TUTTI_BIT_XOR };

static size_t count_of(int which, int n, tutti_type type)
{
    size_t slice = SLICE / tutti_type_bytes(type), ranks = (size_t)n;
    const size_t counts[COUNTS] = { 0, 1, ranks - 1, ranks, ranks + 1, 1009, slice - 1, slice, slice + 1,
        ranks * slice + 1, 2 * slice + 13 };
    return counts[which];
}

/* Row `row` for this collective: type, op, count, offset. */
static void set_row(struct matrix_case *c, int row)
{
    static const tutti_type two[] = { TUTTI_FLOAT32, TUTTI_UINT64 };
    int which = 5;
    tutti_op op = TUTTI_SUM;
    tutti_type type;
    if (row < OF_COUNTS) {
        type = two[row & 1];
        which = row / 4;
    } else if (row < OF_TYPES) {
        int t = (row - OF_COUNTS) / 2;
        type = (tutti_type)t;
        which = row & 1 ? 8 : 5;
    } else {
        int which_op = (row - OF_TYPES) / OPS_TYPES, t = (row - OF_TYPES) % OPS_TYPES;
        op = ops[which_op];
        /* Bits of the six integers; else every other type, and the rest at other n. */
        type = (tutti_type)(op >= TUTTI_BIT_AND ? t : 2 * t + (which_op + c->n) % 2);
    }
    c->vector.type = type;
    c->vector.op = matrix_shapes[c->collective].reduces ? op : RANKS_MOVE;
    c->count = count_of(which, c->n, type);
    c->offset = (row >> 1 & 1) * tutti_type_bytes(type);
    const struct matrix_shape *shape = &matrix_shapes[c->collective];
    bool blocks = shape->send == HOLDS_ALL || shape->recv == HOLDS_ALL;
    if (blocks && which == 9) /* of a block that would be too much */
        c->count = c->count / (size_t)c->n + 1;
}

static void set_case(struct matrix_case *c, const struct ranks_me *me, int index, uint64_t seed)
{
    *c = (struct matrix_case){
        .collective = (enum matrix_collective)(index % COLLECTIVES), .n = me->n, .rank = me->rank
    };
    uint64_t random = ranks_mix(seed + (uint64_t)index * 977);
    c->vector.n = me->n;
    c->vector.seed = ranks_random(&random);
    set_row(c, index / COLLECTIVES);
    c->root = (int)ranks_below(&random, (uint32_t)me->n);
    uint32_t place = ranks_below(&random, 3), memory = ranks_below(&random, 3);
    uint64_t own = c->vector.seed >> 8 >> me->rank * 2;
    c->in_place = place == 2 ? own & 1 : place == 1;
    c->registered = memory == 2 ? own & 2 : memory == 1;
    matrix_cut(c);
}

static void describe(
    struct ranks_me *me, const struct matrix_case *c, const struct rig *rig, const char *doing)
{
    ranks_at(me, "n %d rank %d, %s %s of %zu %s, %s, root %d, offset %zu, %s, %s, %s", c->n, c->rank, doing,
        matrix_shapes[c->collective].name, c->count, ranks_type_name(c->vector.type),
        ranks_op_name(c->vector.op), c->root, c->offset, c->in_place ? "in place" : "out of place",
        c->registered ? "mem_alloc" : "malloc", rig->algorithms);
}

/* Nobody leaves a barrier before all have entered it. */
static tutti_status call_barrier(struct ranks_me *me, const struct matrix_case *c, struct rig *rig)
{
    uint32_t round = ++rig->barriers;
    atomic_store(&rig->arrived[c->rank], round);
    tutti_status status = matrix_call(c, rig->comm);
    for (int r = 0; r < c->n; r++)
        ranks_expect(me, atomic_load(&rig->arrived[r]) >= round, "left before rank %d entered", r);
    return status;
}

/* --- Walks */

/* Three cases from `index` on; they differ in their collective. */
static void run_three(struct ranks_me *me, struct rig *rig, const int *indices, int count, uint64_t seed)
{
    struct matrix_case cases[IN_FLIGHT];
    for (int i = 0; i < count; i++) {
        set_case(&cases[i], me, indices[i], seed);
        describe(me, &cases[i], rig, "preparing");
        matrix_prepare(&cases[i], rig->buffers[i]);
    }
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], rig, "calling");
        ranks_delay(me, DELAY_US);
        bool barrier = cases[i].collective == BARRIER;
        tutti_status status = barrier ? call_barrier(me, &cases[i], rig) : matrix_call(&cases[i], rig->comm);
        ranks_ok(me, status, matrix_shapes[cases[i].collective].name);
    }
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], rig, "after");
        matrix_verify(me, &cases[i], rig->expected.data);
    }
}

/* Every `part`-th row of each collective, the first by `phase`. */
static void walk(struct ranks_me *me, struct rig *rig, int part, int phase, uint64_t seed)
{
    int indices[IN_FLIGHT], held = 0;
    for (int row = 0; row < ROWS; row++)
        for (int c = 0; c < COLLECTIVES; c++) {
            if ((row + c * 5 + phase) % part != 0)
                continue;
            indices[held++] = row * COLLECTIVES + c;
            if (held == IN_FLIGHT) {
                run_three(me, rig, indices, held, seed);
                held = 0;
            }
            if (me->world->slots[me->rank].failures > 0)
                return;
        }
    if (held > 0)
        run_three(me, rig, indices, held, seed);
}

/* The settings of the k-th walk (-1: the default choice); false if k is beyond all. */
static bool options_of(int k, char *options, size_t bytes)
{
    snprintf(options, bytes, "slice=%d;first_number=%s", SLICE, k & 1 ? "0" : "4294967293");
    return k < 0 || ranks_algorithms(k, options, bytes);
}

/* The communicator does take what was forced. */
static void check_choice(struct ranks_me *me, const struct rig *rig, int k)
{
    for (int c = 0; k >= 0 && c < SHIFT; c++) {
        char name[32], question[64], choice[64] = "";
        if (ranks_algorithm(NULL, matrix_shapes[c].name, k, name, sizeof name) < 2)
            continue;
        snprintf(question, sizeof question, "choice %s 4096", matrix_shapes[c].name);
        tutti_query(rig->comm, question, choice, sizeof choice);
        ranks_expect(me, strcmp(choice, name) == 0, "forced %s:%s, but the choice is '%s'",
            matrix_shapes[c].name, name, choice);
    }
}

/* What is composed over cache domains, which are even and interleaved, or uneven; false for too few ranks. */
static bool by_domain(int n, char *options, size_t bytes)
{
    static const char *const topologies[] = { "0,2/1,3", "0-1/2-4", "2x3", "0-2/3-6", "0,4/1,5/2,6/3,7" };
    bool even = n % 2 == 0;
    snprintf(options, bytes,
        "slice=%d;algo=all_reduce:hierarchical,reduce:hierarchical,broadcast:hierarchical,"
        "barrier:hierarchical%s;topology=%s",
        SLICE,
        even ? ",all_gather:hierarchical,all_gather_v:hierarchical,reduce_scatter:hierarchical,"
               "all_to_all:hierarchical"
             : "",
        n < 4 || n > 8 ? "" : topologies[n - 4]);
    return n >= 4 && n <= 8;
}

/* What is for many domains, over as many as there may be. */
static bool by_many_domains(int n, char *options, size_t bytes)
{
    snprintf(options, bytes,
        "slice=%d;algo=all_reduce:hierarchical_%s,reduce:hierarchical_%s,"
        "broadcast:hierarchical_%s,"
        "reduce_scatter:hierarchical_circulant,all_gather:hierarchical_circulant,"
        "all_gather_v:hierarchical_circulant,"
        "barrier:hierarchical_dissemination,all_to_all:hierarchical;topology=%dx2",
        SLICE, n == 4 ? "doubling" : "circulant", n == 4 ? "split" : "circulant",
        n == 4 ? "split" : "circulant", n / 2);
    return n == 4 || n == 8;
}

static bool walk_with(struct ranks_me *me, struct rig *rig, const char *options, int k)
{
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 200000 };
    rig->algorithms = options;
    ranks_at(me, "n %d rank %d: joining with %s", me->n, me->rank, options);
    rig->comm = ranks_join(me, &config);
    if (rig->comm == NULL || me->world->slots[me->rank].failures > 0)
        return false;
    if (strstr(options, "hierarchical") == NULL)
        check_choice(me, rig, k);
    int part = getenv("TUTTI_TEST_HOSTS") == NULL ? 2 : 4; /* calls between hosts take longer */
    walk(me, rig, k < 0 ? 1 : part, k + me->n + (int)me->kind, ranks_mix((uint64_t)(me->n * 100 + k)));
    ranks_part(me, rig->comm);
    return true;
}

static void walk_all(struct ranks_me *me)
{
    struct rig rig = { .arrived = me->shared };
    char options[512];
    int k = -1;
    for (int i = 0; i < IN_FLIGHT; i++)
        for (int way = 0; way < 2; way++)
            for (int m = 0; m < MEMORIES; m++)
                ranks_buffer_create(me, &rig.buffers[i][way][m], ROOM, m == 1);
    ranks_buffer_create(me, &rig.expected, ROOM, false);
    ranks_buffer_place(&rig.expected, ROOM, 0);
    for (; options_of(k, options, sizeof options); k++)
        if (!walk_with(me, &rig, options, k))
            return;
    if (by_domain(me->n, options, sizeof options) && !walk_with(me, &rig, options, k))
        return;
    if (by_many_domains(me->n, options, sizeof options) && !walk_with(me, &rig, options, k))
        return;
    for (int i = 0; i < IN_FLIGHT; i++)
        for (int way = 0; way < 2; way++)
            for (int m = 0; m < MEMORIES; m++)
                ranks_buffer_free(me, &rig.buffers[i][way][m]);
    ranks_buffer_free(me, &rig.expected);
}

static void run_matrix(int n, enum ranks_kind kind)
{
    ranks_run(&(struct ranks_plan){
        .n = n, .kind = kind, .run = walk_all, .seed = (uint64_t)n * 10 + kind, .limit_s = 200 });
}

Test(api_matrix, processes_1_2_3)
{
    run_matrix(1, RANKS_PROCESSES);
    run_matrix(2, RANKS_PROCESSES);
    run_matrix(3, RANKS_PROCESSES);
}

Test(api_matrix, processes_4_5)
{
    run_matrix(4, RANKS_PROCESSES);
    run_matrix(5, RANKS_PROCESSES);
}

Test(api_matrix, processes_7)
{
    run_matrix(7, RANKS_PROCESSES);
}

Test(api_matrix, processes_8)
{
    run_matrix(8, RANKS_PROCESSES);
}

Test(api_matrix, threads_1_2_3)
{
    run_matrix(1, RANKS_THREADS);
    run_matrix(2, RANKS_TOGETHER);
    run_matrix(3, RANKS_THREADS);
}

Test(api_matrix, threads_4_5)
{
    run_matrix(4, RANKS_TOGETHER);
    run_matrix(5, RANKS_THREADS);
}

Test(api_matrix, threads_7_8)
{
    run_matrix(7, RANKS_TOGETHER);
    run_matrix(8, RANKS_THREADS);
}
