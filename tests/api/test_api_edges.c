/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_edges.c: arguments at the edge of what is legal: reductions without ranks that would read on or
 * write into their own operands, a settings struct that ends within a field, numbers as far as they go, a
 * type that differs where nothing travels, and blocks without elements. */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"

TestSuite(api_edges, .timeout = 120);

static void reduce_without_ranks(struct ranks_me *me)
{
    int32_t memory[64], other[64], apart[64];
    for (int i = 0; i < 64; i++)
        memory[i] = other[i] = i;
    const void *sources[] = { other, memory };
    const size_t most = (size_t)1 << 41; /* of 4 bytes: 8 TiB */
    ranks_at(me, "reduce_local");
    ranks_refused(me, tutti_reduce_local(sources, 2, apart, most + 1, TUTTI_INT32, TUTTI_SUM),
        TUTTI_INVALID_ARGUMENT, "8 TiB and more",
        "count is 2199023255553|at most 2199023255552 elements of int32");
    ranks_refused(me, tutti_reduce_local(sources, 2, apart, SIZE_MAX, TUTTI_INT8, TUTTI_SUM),
        TUTTI_INVALID_ARGUMENT, "SIZE_MAX elements", "at most 8796093022208 elements of int8");
    ranks_refused(me, tutti_reduce_local(sources, 2, memory + 1, 32, TUTTI_INT32, TUTTI_SUM),
        TUTTI_INVALID_ARGUMENT, "dst within a source",
        "sources[1]|128 bytes|overlap|legal: apart, or the same");
    ranks_refused(me,
        tutti_reduce_local((const void *[]){ memory + 31 }, 1, memory, 32, TUTTI_INT32, TUTTI_SUM),
        TUTTI_INVALID_ARGUMENT, "a source that begins in dst", "sources[0]|overlap");
    ranks_ok(me,
        tutti_reduce_local((const void *[]){ memory + 32, other }, 2, memory, 32, TUTTI_INT32, TUTTI_SUM),
        "a source right behind dst");
    ranks_expect(me, memory[5] == 37 + 5, "32 + 5 + 5 is %d", memory[5]);
    ranks_ok(me,
        tutti_reduce_local((const void *[]){ other, other + 1, other }, 3, other, 0, TUTTI_INT32, TUTTI_SUM),
        "nothing");
    ranks_ok(me, tutti_reduce_local((const void *[]){ other, other }, 2, other, 64, TUTTI_INT32, TUTTI_SUM),
        "a vector twice, in place");
    ranks_expect(me, other[63] == 126 && other[0] == 0, "63 + 63 is %d", other[63]);
}

Test(api_edges, reduce_local)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = reduce_without_ranks });
}

/* A size within a field is one that no release of the library ever had. */
static void cut_settings(struct ranks_me *me)
{
    static const size_t ends[] = { offsetof(tutti_config, flags), offsetof(tutti_config, timeout_ms),
        offsetof(tutti_config, name), offsetof(tutti_config, options), offsetof(tutti_config, on_wait),
        offsetof(tutti_config, on_wait_context), offsetof(tutti_config, device), sizeof(tutti_config),
        sizeof(tutti_config) + 1 };
    union {
        tutti_config config;
        char bytes[2 * sizeof(tutti_config)];
    } u = { .bytes = { 0 } };
    u.config.name = "cut";
    for (size_t size = 0, next = 0; size <= sizeof(tutti_config) + 1; size++) {
        tutti_comm *comm = NULL;
        u.config.size = size;
        ranks_at(me, "a config of %zu bytes", size);
        tutti_status status = tutti_comm_init_all(1, NULL, &u.config, &comm);
        if (size == ends[next] && ranks_ok(me, status, "init_all")) {
            next++;
            ranks_ok(me, tutti_comm_destroy(comm), "destroy");
        } else {
            ranks_refused(me, status, TUTTI_INVALID_ARGUMENT, "init_all",
                "the end of no field|sizeof(tutti_config)|8, 16, 24, 32, 40, 48, 56");
        }
    }
}

Test(api_edges, settings_that_end_within_a_field)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = cut_settings });
}

/* Numbers may begin at 2^63, and go on from there; slots are used again and again. */
static void count_from(struct ranks_me *me)
{
    enum { COUNT = 20000, ROUNDS = 12 };
    char options[128];
    snprintf(options, sizeof options, "first_number=%s;slice=8K;map=off", (const char *)me->context);
    tutti_config config = { .size = sizeof config, .options = options };
    tutti_comm *comm = ranks_join(me, &config);
    int32_t *send = malloc(COUNT * sizeof *send), *recv = malloc((size_t)me->n * COUNT * sizeof *recv);
    int wrong = 0;
    if (comm == NULL || send == NULL || recv == NULL)
        return;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < COUNT; i++)
            send[i] = i + me->rank + round;
        memset(recv, 0, (size_t)me->n * COUNT * sizeof *recv);
        if (me->rank == round % me->n) /* the others fill their slots, and wait */
            ranks_sleep_us(10000);
        ranks_ok(me, tutti_gather(send, recv, COUNT, TUTTI_INT32, round % me->n, comm, tutti_no_stream()),
            "gather");
        for (int r = 0; me->rank == round % me->n && r < me->n; r++)
            for (int i = 0; i < COUNT; i++)
                wrong += recv[r * COUNT + i] != i + r + round;
        ranks_ok(
            me, tutti_broadcast(send, recv, COUNT, TUTTI_INT32, 1, comm, tutti_no_stream()), "broadcast");
        for (int i = 0; i < COUNT; i++)
            wrong += recv[i] != i + 1 + round;
    }
    ranks_expect(me, wrong == 0, "%d elements are wrong", wrong);
    free(send);
    free(recv);
    ranks_part(me, comm);
}

Test(api_edges, numbers_from_2_to_63_on)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = count_from, .context = "9223372036854775808" });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = count_from, .context = "9223372036854775805" });
}

static void count_too_far(struct ranks_me *me)
{
    tutti_config config = { .size = sizeof config, .options = "first_number=18446744073709551612" };
    tutti_comm *comm;
    ranks_refused(me, tutti_comm_init_all(1, NULL, &config, &comm), TUTTI_INVALID_ARGUMENT, "init_all",
        "first_number|\"18446744073709551612\"|legal: a number from 0 to 9223372036854775808 (2^63)");
}

Test(api_edges, numbers_beyond_2_to_63)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = count_too_far });
}

/* Only the root's own block has elements, so no message tells that rank 1 means another type: the next call
 * does. */
static void another_type(struct ranks_me *me)
{
    bool gather = *(const bool *)me->context;
    int64_t send[4] = { 1, 2, 3, 4 }, recv[4];
    const size_t counts[] = { 4, 0, 0 };
    tutti_config config = { .size = sizeof config, .timeout_ms = 100000 };
    tutti_comm *comm = ranks_join(me, &config);
    tutti_type type = me->rank == 1 ? TUTTI_FLOAT64 : TUTTI_INT64;
    if (comm == NULL)
        return;
    tutti_status status =
        gather
            ? tutti_gather_v(send, counts[me->rank], recv, counts, NULL, type, 0, comm, tutti_no_stream())
            : tutti_scatter_v(send, counts, NULL, recv, counts[me->rank], type, 0, comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_OK || status == TUTTI_MISMATCH, "status %d", status);
    if (status == TUTTI_OK)
        status = tutti_barrier(comm, tutti_no_stream());
    ranks_expect(me, status == TUTTI_MISMATCH, "the barrier returned %d", status);
    ranks_meet(me);
    ranks_same_error(me, comm, TUTTI_MISMATCH, "int64|float64");
    ranks_ok(me, tutti_comm_destroy(comm), "destroy");
}

Test(api_edges, another_type_where_nothing_travels)
{
    static const bool ways[] = { true, false };
    for (int i = 0; i < 2; i++)
        ranks_run(&(struct ranks_plan){ .n = 3, .run = another_type, .context = &ways[i] });
}

/* A block of 0 elements is nowhere, also where its displacement is inside of another block. Ranks but 1 have
 * blocks, which fall with the rank, so that each is compared with each; send and recv are one memory, in
 * which their blocks take turns. */
static void empty_blocks(struct ranks_me *me)
{
    enum { BLOCK = 2, ALL = 20 };
    const size_t mine = me->rank == 1 ? 0 : BLOCK;
    const size_t counts[] = { BLOCK, 0, BLOCK }, none[] = { 0, 0, 0 };
    const size_t *pairs = me->rank == 1 ? none : counts;
    const size_t from[] = { 12, 9, 4 }, to[] = { 8, 5, 0 }; /* the empty ones inside of the other buffer's */
    const size_t among[] = { 8, 1, 0 }; /* the empty one inside of another of its buffer */
    int32_t m[ALL], own[BLOCK] = { 10 * me->rank, 10 * me->rank + 1 };
    tutti_stream stream = tutti_no_stream();
    tutti_comm *comm = ranks_join(me, NULL);
    if (comm == NULL)
        return;
    for (int again = 0; again < 3; again++) { /* the first call is checked in full, later ones are known */
        for (int i = 0; i < ALL; i++)
            m[i] = 100 * me->rank + i;
        ranks_ok(
            me, tutti_all_to_all_v(m, pairs, from, m, pairs, to, TUTTI_INT32, comm, stream), "all_to_all_v");
        for (int r = 0; r < 3 && me->rank != 1; r += 2)
            for (int i = 0; i < BLOCK; i++)
                ranks_expect(me, m[to[r] + (size_t)i] == 100 * r + (int)from[me->rank] + i, "of rank %d: %d",
                    r, m[to[r] + (size_t)i]);
        ranks_ok(
            me, tutti_all_gather_v(own, mine, m, counts, among, TUTTI_INT32, comm, stream), "all_gather_v");
        ranks_expect(
            me, m[8] == 0 && m[9] == 1 && m[0] == 20 && m[1] == 21, "%d %d %d %d", m[8], m[9], m[0], m[1]);
        ranks_ok(me, tutti_gather_v(own, mine, m, counts, among, TUTTI_INT32, 1, comm, stream), "gather_v");
        ranks_ok(me, tutti_scatter_v(m, counts, among, own, mine, TUTTI_INT32, 1, comm, stream), "scatter_v");
        ranks_expect(me, own[0] == 10 * me->rank && own[1] == own[0] + 1, "its own came back as %d %d",
            own[0], own[1]);
    }
    const size_t beyond[] = { 8, SIZE_MAX, 0 };
    memset(m, 0, sizeof m);
    ranks_ok(me, tutti_all_gather_v(own, mine, m, counts, beyond, TUTTI_INT32, comm, stream),
        "all_gather_v with an empty block beyond all memory");
    ranks_expect(me, m[9] == 1 && m[0] == 20 && m[1] == 21, "%d %d %d", m[9], m[0], m[1]);
    const size_t meeting[] = { 1, 9, 0 };
    ranks_refused(me, tutti_all_gather_v(own, mine, m, counts, meeting, TUTTI_INT32, comm, stream),
        TUTTI_INVALID_ARGUMENT, "blocks that do meet", "ranks 0 and 2 overlap");
    ranks_part(me, comm);
}

Test(api_edges, blocks_without_elements_are_nowhere)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = empty_blocks });
}
