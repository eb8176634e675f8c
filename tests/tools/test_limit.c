/* SPDX-License-Identifier: BSD-3-Clause */
/* test_limit.c: what collperf says that must move, against a list by hand, and that its streams move it. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "perf/collperf/stream.h"
#include "perf/collperf/table.h"

TestSuite(limit);

enum { N = 4, BYTES = 4096, QUARTER = BYTES / N, THREE = QUARTER / N * (N - 1) };

static const struct {
    const char *collective;
    struct perf_pass apart, in_place; /* ways, targets, bytes */
} rows[PERF_COLLECTIVES] = {
    { "all_reduce", { N, N, QUARTER, false, false }, { N, N, QUARTER, true, false } },
    { "reduce_scatter", { N, 1, QUARTER, false, false }, { N, 1, QUARTER, true, false } },
    { "reduce_scatter_v", { N, 1, QUARTER, false, false }, { N, 1, QUARTER, true, false } },
    { "reduce", { N, 1, QUARTER, false, false }, { N, 1, QUARTER, true, false } },
    { "all_gather", { 1, N, QUARTER, false, false }, { 1, N - 1, QUARTER, true, true } },
    { "all_gather_v", { 1, N, QUARTER, false, false }, { 1, N - 1, QUARTER, true, true } },
    { "broadcast", { 1, N, QUARTER, false, false }, { 1, N - 1, QUARTER, true, true } },
    { "gather", { 1, 1, QUARTER, false, false }, { 1, 1, THREE, true, true } },
    { "gather_v", { 1, 1, QUARTER, false, false }, { 1, 1, THREE, true, true } },
    { "scatter", { 1, 1, QUARTER, false, false }, { 1, 1, THREE, true, true } },
    { "scatter_v", { 1, 1, QUARTER, false, false }, { 1, 1, THREE, true, true } },
    { "all_to_all", { 1, 1, BYTES, false, false }, { 1, 1, 3 * QUARTER, true, false } },
    { "all_to_all_v", { 1, 1, BYTES, false, false }, { 1, 1, 3 * QUARTER, true, false } },
    { "sendrecv", { 1, 1, BYTES, false, false }, { 1, 1, 3 * QUARTER, true, false } },
    { "barrier", { 0, 0, 0, false, false }, { 0, 0, 0, false, false } },
};

static void expect_pass(const char *name, bool in_place, struct perf_pass got, const struct perf_pass *want)
{
    cr_expect(got.ways == want->ways && got.targets == want->targets && got.bytes == want->bytes &&
                  got.in_place == want->in_place && got.behind == want->behind,
        "%s%s: %d ways, %d targets, %d bytes", name, in_place ? " in place" : "", got.ways, got.targets,
        (int)got.bytes);
}

Test(limit, what_each_collective_must_move)
{
    static const struct perf_type type = { "float", "float32", TUTTI_FLOAT32, PERF_FLOAT, 4, 24 };
    size_t counts[2 * N];
    for (int i = 0; i < PERF_COLLECTIVES; i++) {
        const struct perf_collective *c = perf_collective_find(rows[i].collective);
        cr_assert_not_null(c);
        struct perf_point p = { .collective = c, .type = &type, .n = N, .rank = 1 };
        perf_point_shape(&p, BYTES, counts);
        expect_pass(c->name, false, perf_point_pass(&p, false), &rows[i].apart);
        if (c->in_place != PERF_IN_PLACE_NEVER || !c->moves)
            expect_pass(c->name, true, perf_point_pass(&p, true), &rows[i].in_place);
    }
}

Test(limit, who_rewrites_what)
{
    static const struct perf_type type = { "float", "float32", TUTTI_FLOAT32, PERF_FLOAT, 4, 24 };
    static const struct {
        const char *collective;
        uint64_t root, other;
    } inputs[] = { { "all_reduce", BYTES, BYTES }, { "broadcast", BYTES, 0 }, { "reduce", BYTES, BYTES },
        { "scatter", BYTES, 0 }, { "gather", QUARTER, QUARTER }, { "all_gather", QUARTER, QUARTER } };
    size_t counts[2 * N];
    for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
        for (int rank = 0; rank < 2; rank++) {
            const struct perf_collective *c = perf_collective_find(inputs[i].collective);
            struct perf_point p = { .collective = c, .type = &type, .n = N, .rank = rank, .root = 0 };
            perf_point_shape(&p, BYTES, counts);
            cr_expect_eq(perf_point_input(&p), rank == 0 ? inputs[i].root : inputs[i].other, "%s, rank %d",
                c->name, rank);
        }
}

/* Every word of every source is in every target, and what lies around the targets is left alone. */
static void check_streams(int ways, int targets, uint64_t bytes, enum perf_stream_kind kind)
{
    struct perf_pass pass = { ways, targets, bytes, false, false };
    size_t words = bytes / sizeof(uint64_t), guard = PERF_STREAM_LINE / sizeof(uint64_t);
    uint64_t *from = aligned_alloc(PERF_STREAM_LINE, (size_t)ways * bytes);
    uint64_t *to = aligned_alloc(PERF_STREAM_LINE, (size_t)targets * bytes + (2 * PERF_STREAM_LINE));
    cr_assert(from != NULL && to != NULL);
    for (size_t i = 0; i < (size_t)ways * words; i++)
        from[i] = (i + 1) * 0x9e3779b97f4a7c15;
    memset(to, 0xee, (size_t)targets * bytes + (2 * PERF_STREAM_LINE));
    perf_stream_run(&pass, (uint8_t *)from, (uint8_t *)(to + guard), kind);
    for (size_t i = 0; i < guard; i++)
        cr_assert(to[i] == 0xeeeeeeeeeeeeeeee && to[guard + (size_t)targets * words + i] == to[i]);
    for (size_t i = 0; i < words; i++) {
        uint64_t sum = 0;
        for (size_t w = 0; w < (size_t)ways; w++)
            sum += from[w * words + i];
        for (size_t t = 0; t < (size_t)targets; t++)
            cr_assert_eq(
                to[guard + t * words + i], sum, "%d ways, %d targets, word %d", ways, targets, (int)i);
    }
    free(from);
    free(to);
}

Test(limit, streams_read_and_write_all_they_say)
{
    for (int ways = 1; ways <= 9; ways++)
        for (int targets = 1; targets <= 9; targets++)
            for (int kind = 0; kind < PERF_STREAM_KINDS; kind++)
                for (uint64_t lines = 1; lines <= 150; lines += 63 + (lines == 1))
                    check_streams(ways, targets, lines * PERF_STREAM_LINE, kind);
}
