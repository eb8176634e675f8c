/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_self.c: messages of a rank to itself, the patterns in which they occur, and groups of one thread
 * that has all ranks.
 *
 * Halo exchanges are on a torus, where the neighbours of a narrow side are one rank, or the rank itself. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_self, .timeout = 120);

static struct ranks_vector vector_of(int n, uint64_t seed)
{
    return (struct ranks_vector){ .type = TUTTI_UINT64, .op = RANKS_MOVE, .seed = seed, .n = n };
}

static uint64_t *numbers(size_t count)
{
    uint64_t *array = calloc(count + 1, sizeof *array);
    if (array == NULL)
        abort();
    return array;
}

/* --- Alone */

enum { MESSAGES = 5 };
static const size_t lengths[MESSAGES] = { 0, 1, 1000, 131072, 400001 };

/* Sends first or receives first, matched in their order; one to the next rank is among them. */
static void send_itself(struct ranks_me *me)
{
    uint64_t *sent[MESSAGES], *received[MESSAGES], token = (uint64_t)me->rank, got = 0;
    struct ranks_vector v = vector_of(me->n, 99);
    tutti_stream none = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int turn = 0; turn < 4; turn++) {
        ranks_at(me, "n %d rank %d: to itself, turn %d", me->n, me->rank, turn);
        for (int i = 0; i < MESSAGES; i++) {
            sent[i] = numbers(lengths[i]);
            received[i] = numbers(lengths[i]);
            ranks_fill(&v, i, 0, lengths[i], sent[i]);
        }
        tutti_group_start();
        for (int half = 0; half < 2; half++) {
            if (half == 0)
                ranks_ok(me, tutti_send(&token, 1, TUTTI_UINT64, (me->rank + 1) % me->n, comm, none), "send");
            for (int i = 0; i < MESSAGES; i++)
                if (half == turn % 2)
                    ranks_ok(me, tutti_send(sent[i], lengths[i], TUTTI_UINT64, me->rank, comm, none), "send");
                else
                    ranks_ok(
                        me, tutti_recv(received[i], lengths[i], TUTTI_UINT64, me->rank, comm, none), "recv");
        }
        int last = (me->rank + me->n - 1) % me->n;
        if (me->n > 1)
            ranks_ok(me, tutti_recv(&got, 1, TUTTI_UINT64, last, comm, none), "recv");
        else /* the token was the first to itself, and needs a receive that is the first, too */
            ranks_ok(me, tutti_recv(&got, 1, TUTTI_UINT64, 0, comm, none), "recv");
        tutti_status status = tutti_group_end();
        if (me->n == 1) {
            ranks_refused(me, status, TUTTI_INVALID_USAGE, "group_end", "sends itself");
        } else {
            ranks_ok(me, status, "group_end");
            ranks_expect(me, got == (uint64_t)last, "the token is %llu", (unsigned long long)got);
        }
        for (int i = 0; i < MESSAGES; i++) {
            ranks_fill(&v, i, 0, me->n > 1 ? lengths[i] : 0, sent[i]);
            ranks_same(me, TUTTI_UINT64, received[i], sent[i], me->n > 1 ? lengths[i] : 0, "recv");
            free(sent[i]);
            free(received[i]);
        }
    }
    ranks_part(me, comm);
}

Test(api_self, matched_in_order)
{
    for (int n = 1; n <= 3; n++)
        ranks_run(&(struct ranks_plan){ .n = n, .run = send_itself });
    ranks_run(&(struct ranks_plan){ .n = 2, .kind = RANKS_TOGETHER, .run = send_itself });
}

enum wrong { NO_RECV, NO_SEND, LONGER, TYPE, OVERLAP, WRONGS };

/* The whole group does nothing, and the communicator goes on. */
static void send_itself_wrongly(struct ranks_me *me)
{
    static const char *const words[WRONGS] = { "no recv", "no send", "3 uint64|4 uint64", "uint64|int64",
        "overlap" };
    uint64_t data[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, sum = 7;
    tutti_stream none = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int wrong = 0; wrong < WRONGS; wrong++) {
        ranks_at(me, "rank %d: wrong to itself, %d", me->rank, wrong);
        tutti_status expected = wrong == OVERLAP ? TUTTI_INVALID_ARGUMENT : TUTTI_INVALID_USAGE;
        tutti_group_start();
        tutti_all_reduce(data, &sum, 1, TUTTI_UINT64, TUTTI_SUM, comm, none);
        if (wrong != NO_SEND)
            tutti_send(data, 3, TUTTI_UINT64, me->rank, comm, none);
        if (wrong != NO_RECV)
            tutti_recv(data + (wrong == OVERLAP ? 2 : 4), wrong == LONGER ? 4 : 3,
                wrong == TYPE ? TUTTI_INT64 : TUTTI_UINT64, me->rank, comm, none);
        ranks_refused(me, tutti_group_end(), expected, "group_end", words[wrong]);
        ranks_expect(me, sum == 7 && data[2] == 3 && data[4] == 5, "something has started");
    }
    ranks_ok(me, tutti_all_reduce(data, &sum, 1, TUTTI_UINT64, TUTTI_SUM, comm, none), "all_reduce");
    ranks_expect(me, sum == (uint64_t)me->n, "the sum is %llu", (unsigned long long)sum);
    ranks_part(me, comm);
}

Test(api_self, wrong_groups_start_nothing)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = send_itself_wrongly });
}

/* --- Halo exchanges on a torus */

struct torus {
    int rows, columns;
    size_t count; /* of an edge towards left and right; twice that up and down */
};
enum { LEFT, RIGHT, UP, DOWN, SIDES };
static const int back[SIDES] = { RIGHT, LEFT, DOWN, UP };

static int neighbour(const struct torus *t, int rank, int side)
{
    int row = rank / t->columns, column = rank % t->columns;
    if (side == LEFT || side == RIGHT)
        column = (column + (side == LEFT ? t->columns - 1 : 1)) % t->columns;
    else
        row = (row + (side == UP ? t->rows - 1 : 1)) % t->rows;
    return row * t->columns + column;
}

/* What leaves on one side comes in on the opposite one; where both neighbours are one rank, the order of the
 * calls tells which is which. */
static void exchange_halos(struct ranks_me *me)
{
    const struct torus *t = me->context;
    uint64_t *edges[SIDES], *halos[SIDES], *expected = numbers(2 * t->count);
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int side = 0; side < SIDES; side++) {
        edges[side] = numbers(2 * t->count);
        halos[side] = numbers(2 * t->count);
    }
    for (uint64_t round = 0; round < 5; round++) {
        struct ranks_vector v = vector_of(me->n, 7 + round);
        ranks_at(me, "torus of %d x %d, rank %d, round %d", t->rows, t->columns, me->rank, (int)round);
        ranks_delay(me, 200);
        tutti_group_start();
        for (int side = 0; side < SIDES; side++) {
            size_t count = side < UP ? t->count : 2 * t->count;
            ranks_fill(&v, me->rank * SIDES + side, 0, count, edges[side]);
            ranks_ok(me,
                tutti_send(
                    edges[side], count, TUTTI_UINT64, neighbour(t, me->rank, side), comm, tutti_no_stream()),
                "send");
        }
        for (int side = 0; side < SIDES; side++) { /* what went left comes in from the right */
            size_t count = side < UP ? t->count : 2 * t->count;
            ranks_ok(me,
                tutti_recv(halos[back[side]], count, TUTTI_UINT64, neighbour(t, me->rank, back[side]), comm,
                    tutti_no_stream()),
                "recv");
        }
        ranks_ok(me, tutti_group_end(), "group_end");
        for (int side = 0; side < SIDES; side++) {
            size_t count = side < UP ? t->count : 2 * t->count;
            int from = neighbour(t, me->rank, side);
            ranks_fill(&v, from * SIDES + back[side], 0, count, expected);
            ranks_same(me, TUTTI_UINT64, halos[side], expected, count, "a halo");
        }
    }
    for (int side = 0; side < SIDES; side++) {
        free(edges[side]);
        free(halos[side]);
    }
    free(expected);
    ranks_part(me, comm);
}

Test(api_self, halos_on_a_torus)
{
    static const struct torus tori[] = { { 1, 1, 100 }, { 1, 2, 70000 }, { 1, 3, 5 }, { 2, 2, 40000 },
        { 2, 3, 1000 }, { 4, 2, 300 } };
    for (size_t i = 0; i < sizeof tori / sizeof tori[0]; i++)
        ranks_run(&(struct ranks_plan){
            .n = tori[i].rows * tori[i].columns, .run = exchange_halos, .context = &tori[i] });
}

/* --- One thread has all ranks, and arrays that do not outlive the call */

enum { ALONE = 4, BLOCK = 3000 };

static size_t length(int from, int to)
{
    return (size_t)(from + 2 * to) % 5 * (BLOCK / 5);
}

/* Element i of what rank `from` has for rank `to`. */
static uint64_t element(int from, int to, size_t i)
{
    return ranks_mix((uint64_t)(from * ALONE + to) << 32 | i);
}

struct alone {
    tutti_comm *comms[ALONE];
    uint64_t *sent[ALONE], *exchanged[ALONE], *gathered, *scattered[ALONE];
};

/* Rank 1 gathers what is given to it, and scatters what it gives. */
static void call_all(struct ranks_me *me, struct alone *a)
{
    tutti_stream none = tutti_no_stream();
    for (int r = 0; r < ALONE; r++) {
        size_t sends[ALONE], receives[ALONE], displs[ALONE], start = 0;
        for (int q = 0; q < ALONE; q++) {
            sends[q] = length(r, q);
            receives[q] = length(q, r);
            displs[q] = (size_t)q * BLOCK;
            for (size_t i = 0; i < sends[q]; i++)
                a->sent[r][start + i] = element(r, q, i);
            start += sends[q];
        }
        const uint64_t *to_one = a->sent[r] + sends[0];
        ranks_ok(me,
            tutti_all_to_all_v(
                a->sent[r], sends, NULL, a->exchanged[r], receives, displs, TUTTI_UINT64, a->comms[r], none),
            "all_to_all_v");
        ranks_ok(me,
            tutti_gather_v(
                to_one, sends[1], a->gathered, receives, displs, TUTTI_UINT64, 1, a->comms[r], none),
            "gather_v");
        ranks_ok(me,
            tutti_scatter_v(
                a->sent[1], sends, NULL, a->scattered[r], length(1, r), TUTTI_UINT64, 1, a->comms[r], none),
            "scatter_v");
        memset(sends, 0xff, sizeof sends);
        memset(receives, 0xff, sizeof receives);
        memset(displs, 0xff, sizeof displs);
    }
}

static void check_block(struct ranks_me *me, const char *call, int from, int to, const uint64_t *block)
{
    for (size_t i = 0; i < length(from, to); i++)
        if (!ranks_expect(
                me, block[i] == element(from, to, i), "%s: element %zu of %d for %d", call, i, from, to))
            return;
}

static void drive_all(struct ranks_me *me)
{
    struct alone a;
    ranks_at(me, "one thread, %d ranks", ALONE);
    if (!ranks_ok(me, tutti_comm_init_all(ALONE, NULL, NULL, a.comms), "comm_init_all"))
        return;
    a.gathered = numbers((size_t)ALONE * BLOCK);
    for (int r = 0; r < ALONE; r++) {
        a.sent[r] = numbers((size_t)ALONE * BLOCK);
        a.exchanged[r] = numbers((size_t)ALONE * BLOCK);
        a.scattered[r] = numbers(BLOCK);
    }
    tutti_group_start();
    call_all(me, &a);
    ranks_ok(me, tutti_group_end(), "group_end");
    for (int r = 0; r < ALONE; r++) {
        for (int q = 0; q < ALONE; q++)
            check_block(me, "all_to_all_v", q, r, a.exchanged[r] + q * BLOCK);
        check_block(me, "gather_v", r, 1, a.gathered + r * BLOCK);
        check_block(me, "scatter_v", 1, r, a.scattered[r]);
        tutti_comm_destroy(a.comms[r]);
        free(a.sent[r]);
        free(a.exchanged[r]);
        free(a.scattered[r]);
    }
    free(a.gathered);
}

Test(api_self, one_thread_drives_v_forms)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = drive_all });
}

/* --- Of two communicators by turns: each receive takes its own communicator's next send. */

Test(api_self, two_communicators_by_turns)
{
    enum { COMMS = 2, EACH = 3 };
    tutti_comm *comms[COMMS];
    uint64_t sent[EACH][COMMS], received[EACH][COMMS] = { { 0 } };
    for (int c = 0; c < COMMS; c++)
        cr_assert_eq(tutti_comm_init_all(1, NULL, NULL, &comms[c]), TUTTI_OK);
    tutti_group_start();
    for (int i = 0; i < EACH; i++)
        for (int c = 0; c < COMMS; c++) {
            sent[i][c] = (uint64_t)(10 * i + c + 1);
            tutti_send(&sent[i][c], 1, TUTTI_UINT64, 0, comms[c], tutti_no_stream());
        }
    for (int i = 0; i < EACH; i++)
        for (int c = COMMS; c-- > 0;) /* not in the order of the sends */
            tutti_recv(&received[i][c], 1, TUTTI_UINT64, 0, comms[c], tutti_no_stream());
    cr_expect_eq(tutti_group_end(), TUTTI_OK, "%s", tutti_get_last_error(NULL));
    cr_expect_arr_eq(received, sent, sizeof sent);
    for (int c = 0; c < COMMS; c++)
        tutti_comm_destroy(comms[c]);
}
