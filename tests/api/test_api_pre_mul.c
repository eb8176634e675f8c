/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_pre_mul.c: sums of vectors that each rank multiplies by a factor of its own, on every
 * algorithm.
 *
 * Integers take all bits, so that every association gives the same; floats are small whole numbers with
 * factors that are, too (what is rounded is in test_api_exact_sums.c). The send buffer must stay as it was,
 * and in place the vector must be multiplied once. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_pre_mul, .timeout = 240);

enum { MOST = 3 * 8192 / 4 + 5, ROOM = MOST * 8 * 2 };
enum collective { ALL_REDUCE, REDUCE, REDUCE_SCATTER, COLLECTIVES };
static const char *const names[] = { "all_reduce", "reduce", "reduce_scatter" };
static const tutti_type types[] = { TUTTI_UINT64, TUTTI_FLOAT32, TUTTI_INT32, TUTTI_FLOAT64, TUTTI_BFLOAT16,
    TUTTI_INT64, TUTTI_FLOAT16, TUTTI_UINT32, TUTTI_INT8, TUTTI_UINT8 };
enum { TYPES = 10 };

static bool is_float(tutti_type type)
{
    return type == TUTTI_FLOAT16 || type == TUTTI_BFLOAT16 || type == TUTTI_FLOAT32 || type == TUTTI_FLOAT64;
}

/* Element e of a rank, and its factor (e == SIZE_MAX): raw bits of integers, whole numbers of floats. */
static uint64_t number(tutti_type type, int rank, size_t e)
{
    uint64_t bits = ranks_mix((uint64_t)rank << 32 ^ e);
    if (!is_float(type))
        return bits;
    return e == SIZE_MAX ? bits % 3 + 1 : bits % 5 - 2;
}

static void store(tutti_type type, uint64_t value, uint8_t *dst)
{
    if (is_float(type))
        ranks_encode(type, (double)(int64_t)value, dst);
    else
        memcpy(dst, &value, tutti_type_bytes(type)); /* little-endian: modulo 2^bits */
}

struct rig {
    tutti_comm *comm;
    tutti_op ops[TYPES];
    struct ranks_buffer send, recv;
    uint8_t *expected;
};

struct one {
    enum collective collective;
    int type, root;
    size_t count;
    bool in_place;
};

static tutti_status call(struct rig *rig, const struct one *c, const void *send, void *recv)
{
    tutti_type type = types[c->type];
    tutti_op op = rig->ops[c->type];
    switch (c->collective) {
    case ALL_REDUCE:
        return tutti_all_reduce(send, recv, c->count, type, op, rig->comm, tutti_no_stream());
    case REDUCE:
        return tutti_reduce(send, recv, c->count, type, op, c->root, rig->comm, tutti_no_stream());
    default:
        return tutti_reduce_scatter(send, recv, c->count, type, op, rig->comm, tutti_no_stream());
    }
}

/* Elements [first, first + count) of the sum, or of what one rank sends. */
static void sum(tutti_type type, int n, size_t first, size_t count, uint8_t *dst)
{
    for (size_t e = first; e < first + count; e++) {
        uint64_t value = 0;
        for (int r = 0; r < n; r++)
            value += number(type, r, SIZE_MAX) * number(type, r, e);
        store(type, value, dst + (e - first) * tutti_type_bytes(type));
    }
}

static void run_one(struct ranks_me *me, struct rig *rig, const struct one *c)
{
    tutti_type type = types[c->type];
    bool blocks = c->collective == REDUCE_SCATTER, has = c->collective != REDUCE || c->root == me->rank;
    size_t element = tutti_type_bytes(type), vector = c->count * (blocks ? (size_t)me->n : 1);
    size_t first = blocks ? (size_t)me->rank * c->count : 0;
    uint8_t *send = ranks_buffer_place(&rig->send, vector * element, element);
    uint8_t *recv = ranks_buffer_place(&rig->recv, has && !c->in_place ? c->count * element : 0, 0);
    ranks_at(me, "n %d rank %d: %s of %zu %s, root %d, %s", me->n, me->rank, names[c->collective], c->count,
        ranks_type_name(type), c->root, c->in_place ? "in place" : "out of place");
    for (size_t e = 0; e < vector; e++)
        store(type, number(type, me->rank, e), send + e * element);
    if (c->in_place && has)
        recv = send + first * element;
    if (!ranks_ok(me, call(rig, c, send, has ? recv : NULL), names[c->collective]))
        return;
    sum(type, me->n, first, has ? c->count : 0, rig->expected);
    ranks_same(me, type, recv, rig->expected, has ? c->count : 0, "the result");
    for (size_t e = 0; e < vector; e++)
        if (!c->in_place || !has || e < first || e >= first + c->count) {
            store(type, number(type, me->rank, e), rig->expected);
            ranks_expect(me, memcmp(send + e * element, rig->expected, element) == 0, "send was written");
        }
    ranks_buffer_check(me, &rig->send, "send");
    ranks_buffer_check(me, &rig->recv, "recv");
}

static bool rig_open(struct ranks_me *me, struct rig *rig, const char *options)
{
    tutti_config config = { .size = sizeof config, .options = options };
    *rig = (struct rig){ .comm = ranks_join(me, &config), .expected = malloc(ROOM) };
    for (int t = 0; rig->comm != NULL && t < TYPES; t++) {
        uint8_t factor[8 + 1];
        store(types[t], number(types[t], me->rank, SIZE_MAX), factor + 1); /* misaligned */
        ranks_ok(me, tutti_op_create_pre_mul_sum(rig->comm, factor + 1, types[t], 0, &rig->ops[t]),
            "op_create_pre_mul_sum");
        memset(factor, 0, sizeof factor); /* it was read */
    }
    return rig->comm != NULL && rig->expected != NULL &&
           ranks_buffer_create(me, &rig->send, ROOM, me->rank % 2 == 1) &&
           ranks_buffer_create(me, &rig->recv, ROOM, me->rank % 3 == 1);
}

static void one_algorithm(struct ranks_me *me, enum collective collective, const char *options)
{
    static const size_t counts[] = { 0, 1, 1009, MOST };
    struct rig rig;
    if (!rig_open(me, &rig, options))
        return;
    for (int i = 0; i < TYPES * 4 * 2; i++) {
        struct one c = { .collective = collective, .type = i / 8, .in_place = i & 1 };
        c.count = counts[i / 2 % 4] / (collective == REDUCE_SCATTER && i / 2 % 4 > 1 ? (size_t)me->n : 1);
        c.root = i % me->n;
        run_one(me, &rig, &c);
    }
    ranks_part(me, rig.comm);
    ranks_buffer_free(me, &rig.send);
    ranks_buffer_free(me, &rig.recv);
    free(rig.expected);
}

static void all_algorithms(struct ranks_me *me)
{
    char name[32], options[96];
    for (int c = 0; c < COLLECTIVES; c++)
        for (int k = 0; k < ranks_algorithm(NULL, names[c], k, name, sizeof name); k++) {
            snprintf(options, sizeof options, "slice=8K;algo=%s:%s", names[c], name);
            one_algorithm(me, (enum collective)c, options);
        }
    one_algorithm(me, ALL_REDUCE, "map=off");
    one_algorithm(me, REDUCE, "map=off;slice=12K");
}

Test(api_pre_mul, processes)
{
    static const int ns[] = { 1, 2, 3, 5, 9 };
    for (int i = 0; i < 5; i++)
        ranks_run(&(struct ranks_plan){ .n = ns[i], .run = all_algorithms });
}

Test(api_pre_mul, threads)
{
    for (int n = 2; n <= 8; n *= 2)
        ranks_run(&(struct ranks_plan){ .n = n, .kind = RANKS_TOGETHER, .run = all_algorithms });
}

/* A slice of all chunks is more than one call of the executor may work: what it sends first is scaled
 * first. */
static void long_slices(struct ranks_me *me)
{
    enum { BIG = 4 * (1 << 16) + 7 };
    tutti_config config = { .size = sizeof config, .options = "slice=512K;map=off;algo=all_reduce:direct" };
    tutti_comm *comm = ranks_join(me, &config);
    uint64_t factor = number(TUTTI_UINT64, me->rank, SIZE_MAX);
    uint64_t *send = malloc(BIG * sizeof *send), *expected = malloc(BIG * sizeof *send);
    tutti_op op;
    if (comm == NULL || send == NULL || expected == NULL)
        return;
    for (size_t e = 0; e < BIG; e++)
        send[e] = number(TUTTI_UINT64, me->rank, e);
    sum(TUTTI_UINT64, me->n, 0, BIG, (uint8_t *)expected);
    ranks_ok(me, tutti_op_create_pre_mul_sum(comm, &factor, TUTTI_UINT64, 0, &op), "op_create_pre_mul_sum");
    ranks_ok(me, tutti_all_reduce(send, send, BIG, TUTTI_UINT64, op, comm, tutti_no_stream()), "all_reduce");
    ranks_same(me, TUTTI_UINT64, send, expected, BIG, "the result");
    ranks_part(me, comm);
    free(send);
    free(expected);
}

Test(api_pre_mul, slices_beyond_the_budget)
{
    ranks_run(&(struct ranks_plan){ .n = 4, .run = long_slices });
}

/* --- Wrong */

static void wrong(struct ranks_me *me)
{
    tutti_comm *comm = ranks_join(me, NULL);
    tutti_op op = 77;
    float factor = 2, send[4] = { 1, 2, 3, 4 }, recv[4];
    int32_t whole[4] = { 0 };
    if (comm == NULL)
        return;
    ranks_refused(me, tutti_op_create_pre_mul_sum(NULL, &factor, TUTTI_FLOAT32, 0, &op),
        TUTTI_INVALID_ARGUMENT, "no comm", "NULL");
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, NULL, TUTTI_FLOAT32, 0, &op), TUTTI_INVALID_ARGUMENT,
        "no factor", "scalar is NULL");
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, &factor, TUTTI_FLOAT32, 0, NULL),
        TUTTI_INVALID_ARGUMENT, "no op", "op is NULL");
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, &factor, (tutti_type)12, 0, &op),
        TUTTI_INVALID_ARGUMENT, "an unknown type", "type is 12");
    ranks_refused(me, tutti_op_create_pre_mul_sum(comm, &factor, TUTTI_FLOAT32, 1, &op), TUTTI_UNSUPPORTED,
        "on a device", "on_device is 1");
    ranks_expect(me, op == 77, "op was set by a failure");
    if (!ranks_ok(
            me, tutti_op_create_pre_mul_sum(comm, &factor, TUTTI_FLOAT32, 0, &op), "op_create_pre_mul_sum"))
        return;
    ranks_refused(me, tutti_all_reduce(whole, whole, 4, TUTTI_INT32, op, comm, tutti_no_stream()),
        TUTTI_INVALID_ARGUMENT, "another type", "type is int32|float32");
    ranks_ok(me, tutti_all_reduce(send, recv, 4, TUTTI_FLOAT32, op, comm, tutti_no_stream()), "all_reduce");
    ranks_expect(me, recv[3] == 4 * 2 * (float)me->n, "2 x 4 on %d ranks is %g", me->n, recv[3]);
    ranks_meet(me);
    tutti_status status = tutti_all_reduce(
        send, recv, 4, TUTTI_FLOAT32, me->rank == 1 ? TUTTI_SUM : op, comm, tutti_no_stream());
    if (status == TUTTI_OK)
        status = tutti_barrier(comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_MISMATCH, "returned %d (%s)", status, tutti_get_last_error(NULL));
    ranks_same_error(me, comm, TUTTI_MISMATCH, "float32, sum|float32, pre-mul-sum");
    ranks_part(me, comm);
}

Test(api_pre_mul, wrong)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = wrong });
}
