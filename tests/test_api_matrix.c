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

#include "ranks.h"
#include "ranks_values.h"

TestSuite(api_matrix, .timeout = 300);

enum { SLICE = 8192, ROOM = 160 * 1024, MEMORIES = 2, IN_FLIGHT = 3, DELAY_US = 60 };
enum collective {
    ALL_REDUCE,
    REDUCE,
    BROADCAST,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_GATHER_V,
    ALL_TO_ALL,
    SHIFT, /* a send to the next rank and a receive from the one before, in a group */
    BARRIER,
    COLLECTIVES
};
static const char *const names[] = { "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather",
    "all_gather_v", "all_to_all", "send and recv", "barrier" };

struct one { /* a case, at one rank */
    enum collective collective;
    struct ranks_vector vector;
    size_t count, offset;
    int root, n, rank;
    bool in_place, registered;
    bool gaps;
    size_t counts[RANKS_MAX], places[RANKS_MAX], extent; /* all_gather_v; extent of recv in elements */
    uint8_t *send, *recv;
    struct ranks_buffer *sent, *received; /* `sent` is NULL where in place */
};

struct rig { /* what a rank has to work with */
    tutti_comm *comm;
    struct ranks_buffer buffers[IN_FLIGHT][2][MEMORIES]; /* [][send, recv][malloc, mem_alloc] */
    struct ranks_buffer expected;
    _Atomic uint32_t *arrived; /* n: barriers entered, in the shared mapping */
    uint32_t barriers;
    const char *algorithms;
};

static bool reduces(enum collective c)
{
    return c == ALL_REDUCE || c == REDUCE || c == REDUCE_SCATTER;
}

/* --- The table of cases, common to all ranks */

enum { COUNTS = 11, OPS_TYPES = 4, TYPES = 12, REDUCED_TYPES = 8, OPS = 5 };
enum {
    OF_COUNTS = COUNTS * 2 * 2,
    OF_TYPES = OF_COUNTS + 2 * TYPES,
    ROWS = OF_TYPES + OPS * OPS_TYPES,
};
static const tutti_type reduced_types[REDUCED_TYPES] = { TUTTI_INT32, TUTTI_UINT32, TUTTI_INT64, TUTTI_UINT64,
    TUTTI_FLOAT16, TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_BFLOAT16 };

static size_t count_of(int which, int n, tutti_type type)
{
    size_t slice = SLICE / tutti_type_bytes(type), ranks = (size_t)n;
    const size_t counts[COUNTS] = { 0, 1, ranks - 1, ranks, ranks + 1, 1009, slice - 1, slice, slice + 1,
        ranks * slice + 1, 2 * slice + 13 };
    return counts[which];
}

/* Row `row` for this collective: type, op, count, offset. */
static void set_row(struct one *c, int row)
{
    static const tutti_type two[] = { TUTTI_FLOAT32, TUTTI_UINT64 };
    static const tutti_type four[] = { TUTTI_FLOAT32, TUTTI_INT64, TUTTI_UINT64, TUTTI_FLOAT16 };
    int which = 5;
    tutti_op op = TUTTI_SUM;
    tutti_type type;
    if (row < OF_COUNTS) {
        type = two[row & 1];
        which = row / 4;
    } else if (row < OF_TYPES) {
        int t = (row - OF_COUNTS) / 2;
        type = reduces(c->collective) ? reduced_types[t % REDUCED_TYPES] : (tutti_type)t;
        which = row & 1 ? 8 : 5;
    } else {
        type = four[(row - OF_TYPES) % OPS_TYPES];
        op = (tutti_op)((row - OF_TYPES) / OPS_TYPES);
    }
    c->vector.type = type;
    c->vector.op = reduces(c->collective) ? op : RANKS_MOVE;
    c->count = count_of(which, c->n, type);
    c->offset = (row >> 1 & 1) * tutti_type_bytes(type);
    bool blocks = c->collective == REDUCE_SCATTER || c->collective == ALL_GATHER ||
                  c->collective == ALL_GATHER_V || c->collective == ALL_TO_ALL;
    if (blocks && which == 9) /* of a block that would be too much */
        c->count = c->count / (size_t)c->n + 1;
}

static void set_places(struct one *c)
{
    uint64_t random = c->vector.seed;
    c->gaps = ranks_below(&random, 2) == 1;
    for (int r = 0; r < c->n; r++) /* equal at all ranks */
        c->counts[r] = ranks_below(&random, 4) == 0 ? 0 : c->count > 0 ? random % (c->count + 1) : 0;
    if (c->n > 0 && ranks_below(&random, 2) == 0)
        c->counts[ranks_below(&random, (uint32_t)c->n)] = c->count;
    size_t at = 0;
    for (int i = 0; i < c->n; i++) { /* with gaps: each rank has an order and a distance of its own */
        int r = c->gaps ? (i * 3 + c->rank) % c->n : i;
        if (c->gaps && c->n % 3 == 0)
            r = c->n - 1 - i;
        c->places[r] = at;
        at += c->counts[r] + (c->gaps ? (size_t)(c->rank % 3 + 1) : 0);
    }
    c->extent = at;
}

static void set_case(struct one *c, const struct ranks_me *me, int index, uint64_t seed)
{
    *c = (struct one){ .collective = (enum collective)(index % COLLECTIVES), .n = me->n, .rank = me->rank };
    uint64_t random = ranks_mix(seed + (uint64_t)index * 977);
    c->vector.n = me->n;
    c->vector.seed = ranks_random(&random);
    set_row(c, index / COLLECTIVES);
    c->root = (int)ranks_below(&random, (uint32_t)me->n);
    uint32_t place = ranks_below(&random, 3), memory = ranks_below(&random, 3);
    uint64_t own = c->vector.seed >> 8 >> me->rank * 2;
    c->in_place = place == 2 ? own & 1 : place == 1;
    c->registered = memory == 2 ? own & 2 : memory == 1;
    if (c->collective == SHIFT || c->collective == BARRIER)
        c->in_place = false;
    if (c->collective == ALL_GATHER_V)
        set_places(c);
}

static void describe(struct ranks_me *me, const struct one *c, const struct rig *rig, const char *doing)
{
    ranks_at(me, "n %d rank %d, %s %s of %zu %s, %s, root %d, offset %zu, %s, %s, %s", c->n, c->rank, doing,
        names[c->collective], c->count, ranks_type_name(c->vector.type), ranks_op_name(c->vector.op), c->root,
        c->offset, c->in_place ? "in place" : "out of place", c->registered ? "mem_alloc" : "malloc",
        rig->algorithms);
}

/* --- One case */

static size_t send_count(const struct one *c)
{
    if (c->collective == ALL_GATHER_V)
        return c->counts[c->rank];
    bool all = c->collective == REDUCE_SCATTER || c->collective == ALL_TO_ALL;
    return all ? c->count * (size_t)c->n : c->count;
}

static size_t recv_count(const struct one *c)
{
    if (c->collective == ALL_GATHER_V)
        return c->extent;
    bool all = c->collective == ALL_GATHER || c->collective == ALL_TO_ALL;
    return all ? c->count * (size_t)c->n : c->count;
}

static void prepare(struct one *c, struct ranks_buffer (*buffers)[MEMORIES])
{
    size_t bytes = tutti_type_bytes(c->vector.type), sends = send_count(c), receives = recv_count(c);
    struct ranks_buffer *first = &buffers[0][c->registered], *second = &buffers[1][c->registered];
    if (!c->in_place) {
        c->sent = first;
        c->received = second;
        c->send = ranks_buffer_place(first, sends * bytes, c->offset);
        c->recv = ranks_buffer_place(second, receives * bytes, c->offset);
    } else { /* one buffer, as long as the longer; the shorter is a block of it */
        size_t longer = sends > receives ? sends : receives, block = (size_t)c->rank * c->count * bytes;
        c->received = second;
        c->send = c->recv = ranks_buffer_place(second, longer * bytes, c->offset);
        if (c->collective == REDUCE_SCATTER)
            c->recv += block;
        else if (c->collective == ALL_GATHER)
            c->send += block;
        else if (c->collective == ALL_GATHER_V)
            c->send += c->places[c->rank] * bytes;
    }
    if (c->collective == BARRIER || (c->collective == BROADCAST && c->rank != c->root))
        return;
    ranks_fill(&c->vector, c->rank, 0, sends, c->send);
}

static tutti_status call_shift(const struct one *c, tutti_comm *comm)
{
    if (c->n == 1) {
        memcpy(c->recv, c->send, c->count * tutti_type_bytes(c->vector.type));
        return TUTTI_OK;
    }
    tutti_group_start();
    tutti_send(c->send, c->count, c->vector.type, (c->rank + 1) % c->n, comm, tutti_no_stream());
    tutti_recv(c->recv, c->count, c->vector.type, (c->rank + c->n - 1) % c->n, comm, tutti_no_stream());
    return tutti_group_end();
}

static tutti_status call(const struct one *c, tutti_comm *comm)
{
    tutti_stream none = tutti_no_stream();
    tutti_type type = c->vector.type;
    tutti_op op = c->vector.op;
    bool at_root = c->rank == c->root, spare = c->vector.seed >> 40 & 1; /* where NULL is legal, half so */
    switch (c->collective) {
    case ALL_REDUCE:
        return tutti_all_reduce(c->send, c->recv, c->count, type, op, comm, none);
    case REDUCE:
        return tutti_reduce(
            c->send, at_root || !spare ? c->recv : NULL, c->count, type, op, c->root, comm, none);
    case BROADCAST:
        return tutti_broadcast(
            at_root || !spare ? c->send : NULL, c->recv, c->count, type, c->root, comm, none);
    case REDUCE_SCATTER:
        return tutti_reduce_scatter(c->send, c->recv, c->count, type, op, comm, none);
    case ALL_GATHER:
        return tutti_all_gather(c->send, c->recv, c->count, type, comm, none);
    case ALL_GATHER_V:
        return tutti_all_gather_v(
            c->send, c->counts[c->rank], c->recv, c->counts, c->gaps ? c->places : NULL, type, comm, none);
    case ALL_TO_ALL:
        return tutti_all_to_all(c->send, c->recv, c->count, type, comm, none);
    case SHIFT:
        return call_shift(c, comm);
    default:
        return tutti_barrier(comm, none);
    }
}

/* Nobody leaves a barrier before all have entered it. */
static tutti_status call_barrier(struct ranks_me *me, const struct one *c, struct rig *rig)
{
    uint32_t round = ++rig->barriers;
    atomic_store(&rig->arrived[c->rank], round);
    tutti_status status = call(c, rig->comm);
    for (int r = 0; r < c->n; r++)
        ranks_expect(me, atomic_load(&rig->arrived[r]) >= round, "left before rank %d entered", r);
    return status;
}

/* What recv must hold. Returns its elements; 0: recv is not for this rank. */
static size_t expect(const struct one *c, uint8_t *expected)
{
    size_t bytes = tutti_type_bytes(c->vector.type);
    switch (c->collective) {
    case REDUCE:
        if (c->rank != c->root)
            return 0;
        /* fall through */
    case ALL_REDUCE:
        ranks_reduced(&c->vector, 0, c->count, expected);
        return c->count;
    case REDUCE_SCATTER:
        ranks_reduced(&c->vector, (uint64_t)c->rank * c->count, c->count, expected);
        return c->count;
    case BROADCAST:
        ranks_fill(&c->vector, c->root, 0, c->count, expected);
        return c->count;
    case SHIFT:
        ranks_fill(&c->vector, (c->rank + c->n - 1) % c->n, 0, c->count, expected);
        return c->count;
    case ALL_GATHER:
        for (int r = 0; r < c->n; r++)
            ranks_fill(&c->vector, r, 0, c->count, expected + (size_t)r * c->count * bytes);
        return c->count * (size_t)c->n;
    case ALL_TO_ALL:
        for (int r = 0; r < c->n; r++)
            ranks_fill(&c->vector, r, (uint64_t)c->rank * c->count, c->count,
                expected + (size_t)r * c->count * bytes);
        return c->count * (size_t)c->n;
    default:
        return 0;
    }
}

static void verify_gather_v(struct ranks_me *me, const struct one *c, struct rig *rig)
{
    size_t bytes = tutti_type_bytes(c->vector.type);
    char name[32];
    for (int r = 0; r < c->n; r++) {
        snprintf(name, sizeof name, "block %d", r);
        ranks_fill(&c->vector, r, 0, c->counts[r], rig->expected.data);
        ranks_same(
            me, c->vector.type, c->recv + c->places[r] * bytes, rig->expected.data, c->counts[r], name);
        size_t end = c->places[r] + c->counts[r];
        if (c->gaps) /* each block is followed by one */
            ranks_buffer_untouched(
                me, c->received, "the gap behind a block of recv", end * bytes, (end + 1) * bytes);
    }
}

static void verify(struct ranks_me *me, const struct one *c, struct rig *rig)
{
    size_t bytes = tutti_type_bytes(c->vector.type), elements;
    bool sent = c->collective != BARRIER && (c->collective != BROADCAST || c->rank == c->root);
    bool kept = c->sent != NULL || (c->collective == REDUCE && c->rank != c->root);
    if (c->collective == ALL_GATHER_V)
        verify_gather_v(me, c, rig);
    elements = expect(c, rig->expected.data);
    ranks_same(me, c->vector.type, c->recv, rig->expected.data, elements, "recv");
    bool alone = c->collective == REDUCE && c->rank != c->root && !c->in_place;
    if (alone || c->collective == BARRIER)
        ranks_buffer_untouched(me, c->received, "recv off the root", 0, c->received->bytes);
    ranks_buffer_check(me, c->received, "recv");
    if (c->sent != NULL)
        ranks_buffer_check(me, c->sent, "send");
    if (!kept)
        return;
    if (sent) {
        ranks_fill(&c->vector, c->rank, 0, send_count(c), rig->expected.data);
        ranks_same(me, c->vector.type, c->send, rig->expected.data, send_count(c), "send afterwards");
    } else if (c->sent != NULL) {
        ranks_buffer_untouched(me, c->sent, "send off the root", 0, send_count(c) * bytes);
    }
}

/* --- Walks */

/* Three cases from `index` on; they differ in their collective. */
static void run_three(struct ranks_me *me, struct rig *rig, const int *indices, int count, uint64_t seed)
{
    struct one cases[IN_FLIGHT];
    for (int i = 0; i < count; i++) {
        set_case(&cases[i], me, indices[i], seed);
        describe(me, &cases[i], rig, "preparing");
        prepare(&cases[i], rig->buffers[i]);
    }
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], rig, "calling");
        ranks_delay(me, DELAY_US);
        bool barrier = cases[i].collective == BARRIER;
        tutti_status status = barrier ? call_barrier(me, &cases[i], rig) : call(&cases[i], rig->comm);
        ranks_ok(me, status, names[cases[i].collective]);
    }
    for (int i = 0; i < count; i++) {
        describe(me, &cases[i], rig, "after");
        verify(me, &cases[i], rig);
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
        if (ranks_algorithm(NULL, names[c], k, name, sizeof name) < 2)
            continue;
        snprintf(question, sizeof question, "choice %s 4096", names[c]);
        tutti_query(rig->comm, question, choice, sizeof choice);
        ranks_expect(
            me, strcmp(choice, name) == 0, "forced %s:%s, but the choice is '%s'", names[c], name, choice);
    }
}

static void walk_all(struct ranks_me *me)
{
    struct rig rig = { .arrived = me->shared };
    char options[256];
    tutti_config config = { .size = sizeof config, .options = options, .timeout_ms = 20000 };
    for (int i = 0; i < IN_FLIGHT; i++)
        for (int way = 0; way < 2; way++)
            for (int m = 0; m < MEMORIES; m++)
                ranks_buffer_create(me, &rig.buffers[i][way][m], ROOM, m == 1);
    ranks_buffer_create(me, &rig.expected, ROOM, false);
    ranks_buffer_place(&rig.expected, ROOM, 0);
    for (int k = -1; options_of(k, options, sizeof options); k++) {
        rig.algorithms = options;
        ranks_at(me, "n %d rank %d: joining with %s", me->n, me->rank, options);
        rig.comm = ranks_join(me, &config);
        if (rig.comm == NULL || me->world->slots[me->rank].failures > 0)
            return;
        check_choice(me, &rig, k);
        walk(me, &rig, k < 0 ? 1 : 2, k + me->n + (int)me->kind, ranks_mix((uint64_t)(me->n * 100 + k)));
        ranks_part(me, rig.comm);
    }
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
