/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_op_errors.c: operators that are wrong, gone, another's, or not the same on all ranks; and those
 * that are destroyed while calls still need them. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_op_errors, .timeout = 120);

enum { COUNT = 96, BIG = 60000 };

static void add(void *dst, const void *left, const void *right, size_t count, void *context)
{
    for (size_t i = 0; i < count; i++)
        ((int64_t *)dst)[i] = ((const int64_t *)left)[i] + ((const int64_t *)right)[i] + *(int64_t *)context;
}

static int64_t nothing = 0, one_more = 1;

static tutti_status sum(const int64_t *send, int64_t *recv, size_t count, tutti_op op, tutti_comm *comm)
{
    return tutti_all_reduce(send, recv, count, TUTTI_INT64, op, comm, tutti_no_stream());
}

/* The sum over ranks of 100 rank + i, with `more` added at each of the n - 1 combinations. */
static void check_sum(struct ranks_me *me, const int64_t *recv, size_t count, int64_t more)
{
    int64_t n = me->n;
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += recv[i] != 50 * n * (n - 1) + n * (int64_t)i + more * (n - 1);
    ranks_expect(me, wrong == 0, "%zu of %zu sums are wrong", wrong, count);
}

static void fill(const struct ranks_me *me, int64_t *send, size_t count)
{
    for (size_t i = 0; i < count; i++)
        send[i] = 100 * me->rank + (int64_t)i;
}

/* --- Bad input */

static void creation(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_op op = 77, many[4097];
    static const size_t bytes[] = { 0, 4097, SIZE_MAX };
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_op_create(NULL, add, NULL, 8, 1, &op), TUTTI_INVALID_ARGUMENT, "no comm", "NULL");
    ranks_refused(
        me, tutti_op_create(comm, NULL, NULL, 8, 1, &op), TUTTI_INVALID_ARGUMENT, "no fn", "fn is NULL");
    ranks_refused(
        me, tutti_op_create(comm, add, NULL, 8, 1, NULL), TUTTI_INVALID_ARGUMENT, "no op", "op is NULL");
    for (int i = 0; i < 3; i++)
        ranks_refused(me, tutti_op_create(comm, add, NULL, bytes[i], 1, &op), TUTTI_INVALID_ARGUMENT,
            "element_bytes", "element_bytes|1 to 4096");
    ranks_expect(me, op == 77, "op was set by a failure");
    static const tutti_op none[] = { TUTTI_SUM, TUTTI_AVG, 200, 256, 4096, UINT32_MAX };
    for (int i = 0; i < 6; i++)
        ranks_refused(
            me, tutti_op_destroy(comm, none[i]), TUTTI_INVALID_ARGUMENT, "op_destroy", "op_destroy: op is");
    ranks_refused(me, tutti_op_destroy(NULL, 256), TUTTI_INVALID_ARGUMENT, "op_destroy", "NULL");
    for (int i = 0; i < 4096; i++)
        ranks_ok(me, tutti_op_create(comm, add, &nothing, 8, 1, &many[i]), "op_create");
    ranks_refused(me, tutti_op_create(comm, add, NULL, 8, 1, &op), TUTTI_UNSUPPORTED, "one too many", "4096");
    ranks_ok(me, tutti_op_destroy(comm, many[1000]), "op_destroy");
    ranks_ok(me, tutti_op_create(comm, add, &one_more, 8, 1, &many[4096]), "op_create in the gap");
    ranks_expect(me, many[4096] != many[1000] && many[4096] >= 256, "an id came again");
    int64_t send[COUNT], recv[COUNT];
    fill(me, send, COUNT);
    ranks_refused(
        me, sum(send, recv, COUNT, many[1000], comm), TUTTI_INVALID_ARGUMENT, "a destroyed op", "op is");
    ranks_ok(me, sum(send, recv, COUNT, many[4096], comm), "all_reduce");
    check_sum(me, recv, COUNT, 1);
    ranks_ok(me, sum(send, recv, COUNT, many[4095], comm), "all_reduce");
    check_sum(me, recv, COUNT, 0);
    ranks_part(me, comm);
}

Test(api_op_errors, creation)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = creation });
}

static void ids(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_op op, first;
    if (comm == NULL || !ranks_ok(me, tutti_op_create(comm, add, NULL, 8, 1, &first), "op_create"))
        return;
    ranks_ok(me, tutti_op_destroy(comm, first), "op_destroy");
    int again = 0;
    for (int i = 0; i < 100000; i++) {
        ranks_ok(me, tutti_op_create(comm, add, NULL, 8, 1, &op), "op_create");
        ranks_ok(me, tutti_op_destroy(comm, op), "op_destroy");
        again += op == first || op < 256;
    }
    ranks_expect(me, again == 0, "a destroyed id came again %d times", again);
    ranks_part(me, comm);
}

Test(api_op_errors, ids_do_not_come_again_soon)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = ids });
}

static void use(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL), *other = ranks_join(me, NULL);
    tutti_op sixteen = 0, eight = 0, others = 0;
    tutti_stream none = tutti_no_stream();
    int64_t send[COUNT], recv[COUNT];
    if (comm == NULL || other == NULL)
        return;
    fill(me, send, COUNT);
    ranks_ok(me, tutti_op_create(other, add, &one_more, 8, 1, &others), "op_create on the other");
    ranks_ok(me, tutti_op_create(comm, add, &nothing, 8, 1, &eight), "op_create");
    ranks_ok(me, tutti_op_create(comm, add, &nothing, 16, 0, &sixteen), "op_create");
    ranks_refused(me, sum(send, recv, 8, others, comm), TUTTI_INVALID_ARGUMENT, "another's operator",
        "op is|this communicator");
    ranks_refused(
        me, tutti_op_destroy(comm, others), TUTTI_INVALID_ARGUMENT, "another's operator", "op_destroy");
    ranks_refused(me, sum(send, recv, 9, sixteen, comm), TUTTI_INVALID_ARGUMENT, "half an element",
        "count is 9|16 bytes|a multiple of 2");
    ranks_refused(me, tutti_reduce_scatter(send, recv, 3, TUTTI_INT32, eight, comm, none),
        TUTTI_INVALID_ARGUMENT, "half an element of a block", "count is 3|a multiple of 2");
    ranks_ok(me, tutti_op_destroy(comm, eight), "op_destroy");
    ranks_ok(me, tutti_op_create(comm, add, &nothing, 6, 1, &eight), "op_create of 6 bytes");
    ranks_refused(me, tutti_all_reduce(send, recv, 12, TUTTI_FLOAT32, eight, comm, none),
        TUTTI_INVALID_ARGUMENT, "a type that does not divide it", "6 bytes|float32|a multiple of 4");
    ranks_refused(me, tutti_reduce(send, recv, 12, (tutti_type)12, eight, 0, comm, none),
        TUTTI_INVALID_ARGUMENT, "an unknown type", "type is 12");
    const void *sources[1] = { send };
    ranks_refused(me, tutti_reduce_local(sources, 1, recv, 1, TUTTI_INT64, others), TUTTI_INVALID_ARGUMENT,
        "reduce_local", "op is|built-in|communicator");
    ranks_ok(me, tutti_barrier(comm, none), "the barrier after"); /* nothing above took a number */
    ranks_ok(me, sum(send, recv, COUNT, others, other), "all_reduce on the other");
    check_sum(me, recv, COUNT, 1);
    ranks_part(me, comm);
    ranks_part(me, other);
}

Test(api_op_errors, use)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = use });
    ranks_run(&(struct ranks_plan){ .n = 3, .kind = RANKS_TOGETHER, .run = use });
}

/* --- Destroyed, but still needed */

static void outlives(struct ranks_me *me)
{
    static _Thread_local int64_t send[BIG], recv[2][BIG];
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_op first, later;
    if (comm == NULL)
        return;
    fill(me, send, BIG);
    for (int round = 0; round < 3; round++) {
        ranks_at(me, "rank %d: round %d", me->rank, round);
        ranks_ok(me, tutti_op_create(comm, add, &one_more, 8, round != 1, &first), "op_create");
        ranks_ok(me, tutti_group_start(), "group_start");
        ranks_ok(me, sum(send, recv[0], BIG, first, comm), "all_reduce");
        ranks_ok(me, tutti_op_destroy(comm, first), "op_destroy");
        ranks_ok(me, tutti_op_create(comm, add, &nothing, 8, 1, &later), "op_create in its place");
        for (int i = 0; i < 5; i++) /* the queue grows */
            ranks_ok(me, sum(send, recv[1], BIG, later, comm), "all_reduce");
        ranks_ok(me, tutti_op_destroy(comm, later), "op_destroy");
        ranks_ok(me, tutti_group_end(), "group_end");
        check_sum(me, recv[0], BIG, 1);
        check_sum(me, recv[1], BIG, 0);
    }
    ranks_part(me, comm);
}

Test(api_op_errors, a_queued_call_keeps_its_operator)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = outlives });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_THREADS, .run = outlives });
}

/* --- Not the same on all ranks */

struct difference {
    size_t bytes, odd_bytes; /* 0: the built-in sum */
    int commutes, odd_commutes;
    const char *names; /* NULL: no mismatch */
};
static const struct difference differences[] = {
    { 8, 8, 1, 2, NULL },
    { 8, 8, 0, 0, NULL },
    { 8, 16, 1, 1, "user operator (8-byte elements, commutes)|user operator (16-byte elements, commutes)" },
    { 8, 8, 1, 0, "(8-byte elements, commutes)|(8-byte elements, does not commute)" },
    { 8, 0, 1, 1, "all_reduce of 96 int64, sum|user operator (8-byte elements" },
    { 0, 64, 0, 0, "all_reduce of 96 int64, sum|user operator (64-byte elements, does not commute)" },
};

static void differ(struct ranks_me *me)
{
    int64_t send[COUNT] = { 0 }, recv[COUNT];
    for (size_t i = 0; i < sizeof differences / sizeof differences[0]; i++) {
        const struct difference *d = &differences[i];
        bool odd = me->rank == (int)i % me->n;
        tutti_comm *comm = ranks_join(me, NULL);
        tutti_op op = TUTTI_SUM;
        size_t bytes = odd ? d->odd_bytes : d->bytes;
        if (comm == NULL)
            return;
        ranks_at(me, "n %d rank %d: difference %zu", me->n, me->rank, i);
        for (int before = 0; before < me->rank; before++) /* ids differ by rank */
            ranks_ok(me, tutti_op_create(comm, add, &nothing, 8, 1, &op), "op_create");
        op = TUTTI_SUM;
        if (bytes > 0)
            ranks_ok(me,
                tutti_op_create(comm, add, &nothing, bytes, odd ? d->odd_commutes : d->commutes, &op),
                "op_create");
        ranks_meet(me); /* or what comes ends the communicator before all have their operators */
        tutti_status status = sum(send, recv, COUNT, op, comm);
        if (status == TUTTI_OK)
            status = tutti_barrier(comm, tutti_no_stream());
        ranks_expect(me, status == (d->names == NULL ? TUTTI_OK : TUTTI_MISMATCH), "returned %d (%s)", status,
            tutti_get_last_error(NULL));
        if (d->names != NULL)
            ranks_same_error(me, comm, TUTTI_MISMATCH, d->names);
        if (d->names != NULL && bytes > 0) {
            ranks_expect(me, tutti_op_create(comm, add, NULL, 8, 1, &(tutti_op){ 0 }) == TUTTI_MISMATCH,
                "an operator was created after the end");
            ranks_ok(me, tutti_op_destroy(comm, op), "op_destroy after the end");
        }
        ranks_part(me, comm);
    }
}

Test(api_op_errors, differences)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = differ });
    ranks_run(&(struct ranks_plan){ .n = 4, .kind = RANKS_TOGETHER, .run = differ });
}
