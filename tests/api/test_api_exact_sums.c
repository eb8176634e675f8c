/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_exact_sums.c: a hundred thousand sums of each float type under TUTTI_COMM_EXACT, bit for bit.
 *
 * The operands cancel and are denormal. What every collective gives, on 1 to 9 ranks, in any slicing and
 * memory, is compared with tutti_reduce_local at every rank and, element by element, with the canonical
 * tree by this test's own scalar arithmetic, a part of it at each rank. Sums with a factor per rank have
 * rounded leaves. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_exact_sums, .timeout = 240);

enum { COUNT = 100003, TYPES = 6 };
static const tutti_type types[TYPES] = { TUTTI_FLOAT32, TUTTI_FLOAT64, TUTTI_FLOAT16, TUTTI_BFLOAT16,
    TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 };

/* Operand e of a rank: magnitudes that differ by element, so that ranks cancel; a quarter near the least
 * numbers. */
static void operand(tutti_type type, int rank, size_t e, uint8_t *dst)
{
    uint64_t scale = ranks_mix(77 + (uint64_t)type * 31 + e * 131),
             bits = ranks_mix((uint64_t)rank << 40 ^ scale);
    double value = (double)(int64_t)bits / 0x1p63 * (double)(1 + scale % 30), small = 0x1p-136;
    if (type == TUTTI_FLOAT16)
        small = 0x1p-20;
    else if (type == TUTTI_FLOAT64)
        small = 0x1p-1060;
    else if (tutti_type_bytes(type) == 1)
        small = 0x1p-9;
    ranks_encode(type, scale % 4 == 0 ? value * small : value, dst);
}

static void factor(tutti_type type, int rank, uint8_t *dst)
{
    ranks_encode(type, 0.3 + 0.7 * rank, dst);
}

/* Rounded to the type; what is narrower than float64 is computed in float32. */
static double rounded(tutti_type type, double value)
{
    uint8_t code[8];
    ranks_encode(type, type == TUTTI_FLOAT64 ? value : (double)(float)value, code);
    return ranks_decode(type, code);
}

/* Element e of the sum, by the pass-up tree: pairs, an odd one goes up a level as it is. */
static void tree(tutti_type type, int n, size_t e, bool scaled, uint8_t *dst)
{
    double values[RANKS_MAX];
    uint8_t code[8];
    for (int r = 0; r < n; r++) {
        operand(type, r, e, code);
        values[r] = ranks_decode(type, code);
        factor(type, r, code);
        if (scaled)
            values[r] = rounded(type, ranks_decode(type, code) * values[r]);
    }
    for (; n > 1; n = (n + 1) / 2)
        for (int r = 0; r < n; r += 2)
            values[r / 2] = r + 1 < n ? rounded(type, values[r] + values[r + 1]) : values[r];
    ranks_encode(type, values[0], dst);
}

struct rig {
    tutti_comm *comm;
    uint8_t *operands[RANKS_MAX]; /* of all ranks */
    uint8_t *send, *recv, *expected; /* send and recv from tutti_mem_alloc at half of the ranks */
    bool registered;
};

static uint8_t *memory(struct ranks_me *me, bool registered)
{
    void *ptr = NULL;
    if (registered)
        ranks_ok(me, tutti_mem_alloc(COUNT * 8, TUTTI_MEM_HOST, &ptr), "tutti_mem_alloc");
    else
        ptr = malloc(COUNT * 8);
    if (ptr == NULL)
        abort();
    return ptr;
}

static void release(struct ranks_me *me, uint8_t *ptr, bool registered)
{
    if (registered)
        ranks_ok(me, tutti_mem_free(ptr), "tutti_mem_free");
    else
        free(ptr);
}

static void compare(
    struct ranks_me *me, struct rig *rig, tutti_type type, size_t first, size_t count, const char *what)
{
    size_t bytes = tutti_type_bytes(type);
    ranks_same(me, type, rig->recv, rig->expected + first * bytes, count, what);
    memset(rig->recv, 0xa5, COUNT * bytes);
}

/* Every reducing collective; `expected` is the whole sum. */
static void collectives(struct ranks_me *me, struct rig *rig, tutti_type type, tutti_op op)
{
    tutti_stream none = tutti_no_stream();
    size_t n = (size_t)me->n, block = COUNT / n, counts[RANKS_MAX], first = 0;
    int root = (int)type % me->n;
    uint8_t *send = rig->send, *recv = rig->recv;
    ranks_ok(me, tutti_all_reduce(send, recv, COUNT, type, op, rig->comm, none), "all_reduce");
    compare(me, rig, type, 0, COUNT, "all_reduce");
    ranks_ok(me, tutti_reduce(send, recv, COUNT, type, op, root, rig->comm, none), "reduce");
    compare(me, rig, type, 0, root == me->rank ? COUNT : 0, "reduce");
    ranks_ok(me, tutti_reduce_scatter(send, recv, block, type, op, rig->comm, none), "reduce_scatter");
    compare(me, rig, type, (size_t)me->rank * block, block, "reduce_scatter");
    for (size_t r = 0; r < n; r++) /* unequal, and some empty */
        counts[r] = r % 3 == 1 ? 0 : r + 1 < n ? block + r : block;
    for (int r = 0; r < me->rank; r++)
        first += counts[r];
    ranks_ok(me, tutti_reduce_scatter_v(send, counts, recv, type, op, rig->comm, none), "reduce_scatter_v");
    compare(me, rig, type, first, counts[me->rank], "reduce_scatter_v");
}

/* The own part of the scalar tree. */
static void compare_tree(struct ranks_me *me, const struct rig *rig, tutti_type type, bool scaled)
{
    size_t bytes = tutti_type_bytes(type), wrong = 0;
    for (size_t e = (size_t)me->rank; e < COUNT; e += (size_t)me->n) {
        uint8_t sum[8];
        tree(type, me->n, e, scaled, sum);
        wrong += memcmp(sum, rig->expected + e * bytes, bytes) != 0;
    }
    ranks_expect(me, wrong == 0, "%zu sums differ from the scalar tree", wrong);
}

static void sums(struct ranks_me *me, struct rig *rig, tutti_type type)
{
    const void *sources[RANKS_MAX];
    size_t bytes = tutti_type_bytes(type);
    uint8_t own[8];
    tutti_op op;
    for (int r = 0; r < me->n; r++) {
        sources[r] = rig->operands[r];
        for (size_t e = 0; e < COUNT; e++)
            operand(type, r, e, rig->operands[r] + e * bytes);
    }
    memcpy(rig->send, rig->operands[me->rank], COUNT * bytes);
    ranks_at(me, "n %d rank %d: %s", me->n, me->rank, ranks_type_name(type));
    ranks_ok(me, tutti_reduce_local(sources, me->n, rig->expected, COUNT, type, TUTTI_SUM), "reduce_local");
    compare_tree(me, rig, type, false);
    collectives(me, rig, type, TUTTI_SUM);
    ranks_at(me, "n %d rank %d: %s with factors", me->n, me->rank, ranks_type_name(type));
    factor(type, me->rank, own);
    ranks_ok(me, tutti_op_create_pre_mul_sum(rig->comm, own, type, 0, &op), "op_create_pre_mul_sum");
    ranks_ok(me, tutti_all_reduce(rig->send, rig->expected, COUNT, type, op, rig->comm, tutti_no_stream()),
        "all_reduce");
    compare_tree(me, rig, type, true);
    collectives(me, rig, type, op);
    ranks_ok(me, tutti_op_destroy(rig->comm, op), "op_destroy");
}

static void exact(struct ranks_me *me)
{
    static const char *const options[] = { "", "slice=8K", "slice=64K;map=off", "slice=16K;map=off" };
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .options = options[me->n % 4] };
    struct rig rig = { .comm = ranks_join(me, &config), .registered = me->rank % 2 == 1 };
    if (rig.comm == NULL)
        return;
    for (int r = 0; r < me->n; r++)
        rig.operands[r] = memory(me, false);
    rig.send = memory(me, rig.registered);
    rig.recv = memory(me, rig.registered);
    rig.expected = memory(me, false);
    for (int t = 0; t < TYPES; t++)
        sums(me, &rig, types[t]);
    ranks_part(me, rig.comm);
    for (int r = 0; r < me->n; r++)
        free(rig.operands[r]);
    release(me, rig.send, rig.registered);
    release(me, rig.recv, rig.registered);
    free(rig.expected);
}

Test(api_exact_sums, processes)
{
    for (int n = 1; n <= 9; n += 2)
        ranks_run(&(struct ranks_plan){ .n = n, .run = exact });
}

Test(api_exact_sums, threads)
{
    for (int n = 2; n <= 8; n += 2)
        ranks_run(&(struct ranks_plan){ .n = n, .kind = RANKS_TOGETHER, .run = exact });
}
