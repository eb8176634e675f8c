/* SPDX-License-Identifier: BSD-3-Clause */
/* test_api_exact.c: the promise about bits. Under TUTTI_COMM_EXACT they are those of the canonical tree,
 * whatever the algorithm, and of any split of the same numbers into 1, 2, 4 or 8 equal contiguous parts;
 * without it they are the same run to run, whatever the memory and the slicing.
 *
 * The numbers cancel and are denormal, so nearly every other association gives other bits; each test also
 * counts that some other order does differ, or it would show nothing. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/ranks.h"
#include "tests/rig/ranks_values.h"

TestSuite(api_exact, .timeout = 120);

enum { COUNT = 4099, FEW = 5, MOST_BYTES = COUNT * 8, PARTS = 8 };
static const tutti_type types[] = { TUTTI_FLOAT32, TUTTI_FLOAT16, TUTTI_BFLOAT16, TUTTI_FLOAT64,
    TUTTI_FLOAT8_E4M3, TUTTI_FLOAT8_E5M2 };
enum { TYPES = 6, WITH_INFINITY = 4 };

typedef uint8_t vector[MOST_BYTES];

static vector *vectors_of(int k)
{
    vector *vectors = calloc((size_t)k, sizeof *vectors);
    if (vectors == NULL)
        abort();
    return vectors;
}

/* Numbers over many magnitudes and both signs; each element has a scale of its own, now and then one of
 * denormals, so that operands meet their like. */
static void wild(tutti_type type, uint64_t seed, int which, uint8_t *dst)
{
    size_t bytes = tutti_type_bytes(type);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t scale = ranks_mix(seed + i * 31), bits = ranks_mix(seed ^ (uint64_t)which << 40 ^ i);
        double value = (double)(int64_t)bits / 0x1p63 * (bits & 7 ? 1.0 : 64.0);
        double small = type == TUTTI_FLOAT16 ? 0x1p-20 : type == TUTTI_FLOAT64 ? 0x1p-1060 : 0x1p-136;
        if (bytes == 1) { /* few of them saturate */
            value /= 16;
            small = 0x1p-5;
        }
        ranks_encode(
            type, scale % 4 == 0 ? value * small : value * (double)(1 + scale % 100), dst + i * bytes);
    }
}

/* a + b, rounded to the type; the narrow ones add in float32, which is exact enough not to round twice. */
static void add(tutti_type type, const uint8_t *a, const uint8_t *b, uint8_t *sum)
{
    if (type == TUTTI_FLOAT64) {
        double x = ranks_decode(type, a) + ranks_decode(type, b);
        memcpy(sum, &x, sizeof x);
    } else {
        ranks_encode(type, (double)((float)ranks_decode(type, a) + (float)ranks_decode(type, b)), sum);
    }
}

/* The canonical tree over k vectors, by this test's arithmetic; it uses them up, the first holds it. */
static void tree(tutti_type type, vector *vectors, int k)
{
    size_t bytes = tutti_type_bytes(type);
    for (; k > 1; k = (k + 1) / 2)
        for (int i = 0; i < k; i += 2)
            for (size_t e = 0; e < COUNT * bytes; e += bytes) {
                if (i + 1 < k)
                    add(type, vectors[i] + e, vectors[i + 1] + e, vectors[i / 2] + e);
                else
                    memmove(vectors[i / 2] + e, vectors[i] + e, bytes);
            }
}

/* Left to right: what a library would give that has no such promise. */
static size_t differs_from_chain(tutti_type type, vector *vectors, int k, const uint8_t *expected)
{
    size_t bytes = tutti_type_bytes(type), different = 0;
    for (size_t e = 0; e < COUNT * bytes; e += bytes) {
        for (int i = 1; i < k; i++)
            add(type, vectors[0] + e, vectors[i] + e, vectors[0] + e);
        different += memcmp(vectors[0] + e, expected + e, bytes) != 0;
    }
    return different;
}

static uint64_t seed_of(tutti_type type)
{
    return ranks_mix(900 + (uint64_t)type);
}

/* --- reduce_local is the canonical tree */

static void local(struct ranks_me *me)
{
    vector *vectors = vectors_of(RANKS_MAX * 3 + 1);
    uint8_t *found = vectors[RANKS_MAX * 3];
    const void *sources[RANKS_MAX * 3];
    for (int t = 0; t < TYPES; t++)
        for (int k = 1; k <= RANKS_MAX * 3; k += k < 9 ? 1 : 5) {
            tutti_type type = types[t];
            ranks_at(me, "reduce_local of %d %s", k, ranks_type_name(type));
            for (int i = 0; i < k; i++) {
                wild(type, seed_of(type), i, vectors[i]);
                sources[i] = vectors[i];
            }
            ranks_ok(me, tutti_reduce_local(sources, k, found, COUNT, type, TUTTI_SUM), "reduce_local");
            tree(type, vectors, k);
            ranks_same(me, type, found, vectors[0], COUNT, "dst");
            for (int i = 0; i < k; i++)
                wild(type, seed_of(type), i, vectors[i]);
            size_t different = differs_from_chain(type, vectors, k, found);
            ranks_expect(
                me, k < 4 || different > COUNT / 20, "only %zu elements differ from a chain", different);
            for (int i = 0; i < k; i++)
                wild(type, seed_of(type), i, vectors[i]);
            ranks_ok(me, tutti_reduce_local(sources, k, vectors[k - 1], COUNT, type, TUTTI_SUM),
                "reduce_local into its last source");
            ranks_same(me, type, vectors[k - 1], found, COUNT, "dst that is a source");
        }
    free(vectors);
}

Test(api_exact, reduce_local_is_the_canonical_tree)
{
    ranks_run(&(struct ranks_plan){ .n = 1, .run = local });
}

/* --- The same bits from every algorithm under exact */

static size_t count_for(int which)
{
    static const size_t counts[] = { COUNT, 1, 7, 1000 };
    return counts[which % 4];
}

static void reduce_all_ways(struct ranks_me *me, tutti_comm *comm, tutti_type type, const uint8_t *expected)
{
    vector *vectors = vectors_of(2);
    uint8_t *send = vectors[0], *recv = vectors[1];
    size_t bytes = tutti_type_bytes(type);
    wild(type, seed_of(type), me->rank, send);
    for (int i = 0; i < 4; i++) {
        size_t count = count_for(i), block = count / (size_t)me->n;
        ranks_ok(
            me, tutti_all_reduce(send, recv, count, type, TUTTI_SUM, comm, tutti_no_stream()), "all_reduce");
        ranks_same(me, type, recv, expected, count, "all_reduce");
        int root = i % me->n;
        ranks_ok(
            me, tutti_reduce(send, recv, count, type, TUTTI_SUM, root, comm, tutti_no_stream()), "reduce");
        if (root == me->rank)
            ranks_same(me, type, recv, expected, count, "reduce");
        ranks_ok(me, tutti_reduce_scatter(send, recv, block, type, TUTTI_SUM, comm, tutti_no_stream()),
            "reduce_scatter");
        ranks_same(me, type, recv, expected + (size_t)me->rank * block * bytes, block, "reduce_scatter");
    }
    free(vectors);
}

static void one_algorithm(struct ranks_me *me, const char *options)
{
    vector *expected = vectors_of(RANKS_MAX);
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .options = options };
    tutti_comm *comm = ranks_join(me, &config);
    if (comm == NULL)
        return;
    for (int t = 0; t < TYPES; t++) {
        ranks_at(me, "n %d rank %d: exact %s, %s", me->n, me->rank, ranks_type_name(types[t]), options);
        for (int r = 0; r < me->n; r++)
            wild(types[t], seed_of(types[t]), r, expected[r]);
        tree(types[t], expected, me->n);
        reduce_all_ways(me, comm, types[t], expected[0]);
    }
    ranks_part(me, comm);
    free(expected);
}

static void all_algorithms(struct ranks_me *me)
{
    static const char *const collectives[] = { "all_reduce", "reduce", "reduce_scatter" };
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT };
    tutti_comm *comm = ranks_join(me, &config);
    char name[32], options[128];
    int total = 0;
    for (int c = 0; comm != NULL && c < 3; c++)
        for (int k = 0; k < ranks_algorithm(comm, collectives[c], k, name, sizeof name); k++, total++) {
            snprintf(options, sizeof options, "slice=8K;algo=%s:%s", collectives[c], name);
            one_algorithm(me, options);
        }
    one_algorithm(me, "map=off");
    one_algorithm(me, "slice=64K;map=off");
    ranks_expect(me, total >= 6, "only %d algorithms serve exact", total);
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_exact, every_eligible_algorithm)
{
    ranks_run(&(struct ranks_plan){ .n = 2, .run = all_algorithms });
    ranks_run(&(struct ranks_plan){ .n = 3, .run = all_algorithms });
    ranks_run(&(struct ranks_plan){ .n = 5, .kind = RANKS_TOGETHER, .run = all_algorithms });
    ranks_run(&(struct ranks_plan){ .n = 8, .run = all_algorithms });
}

/* --- Equal contiguous parts of eight vectors on 1, 2, 4 and 8 ranks */

static void parts(struct ranks_me *me)
{
    vector *vectors = vectors_of(PARTS + 2);
    uint8_t *own = vectors[PARTS], *all = vectors[PARTS + 1];
    const void *sources[PARTS];
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT };
    tutti_comm *comm = ranks_join(me, &config);
    int each = PARTS / me->n;
    for (int t = 0; comm != NULL && t < TYPES; t++) {
        tutti_type type = types[t];
        ranks_at(me, "%d ranks with %d parts each, %s", me->n, each, ranks_type_name(type));
        for (int i = 0; i < each; i++) {
            wild(type, seed_of(type), me->rank * each + i, vectors[i]);
            sources[i] = vectors[i];
        }
        ranks_ok(me, tutti_reduce_local(sources, each, own, COUNT, type, TUTTI_SUM), "reduce_local");
        ranks_ok(
            me, tutti_all_reduce(own, all, COUNT, type, TUTTI_SUM, comm, tutti_no_stream()), "all_reduce");
        for (int i = 0; i < PARTS; i++)
            wild(type, seed_of(type), i, vectors[i]);
        tree(type, vectors, PARTS);
        ranks_same(me, type, all, vectors[0], COUNT, "the sum of the parts");
    }
    if (comm != NULL)
        ranks_part(me, comm);
    free(vectors);
}

Test(api_exact, equal_parts_on_1_2_4_8_ranks)
{
    for (int n = 1; n <= PARTS; n *= 2)
        ranks_run(&(struct ranks_plan){ .n = n, .run = parts });
}

/* --- Without exact: memory and slicing change nothing, nor does a second run */

struct digest { /* in the shared mapping, written by rank 0 */
    uint64_t of[TYPES];
};

static uint64_t digest(const uint8_t *bytes, size_t count)
{
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
    return hash;
}

static void same_bits(
    struct ranks_me *me, const char *options, bool registered, bool in_place, uint64_t *found)
{
    tutti_config config = { .size = sizeof config, .options = options };
    tutti_comm *comm = ranks_join(me, &config);
    struct ranks_buffer send, recv;
    ranks_buffer_create(me, &send, MOST_BYTES, registered);
    ranks_buffer_create(me, &recv, MOST_BYTES, registered != (me->rank == 1));
    for (int t = 0; comm != NULL && t < TYPES; t++) {
        size_t bytes = COUNT * tutti_type_bytes(types[t]);
        ranks_at(me, "n %d rank %d: %s %s, %s, %s", me->n, me->rank, options,
            registered ? "mem_alloc" : "malloc", in_place ? "in place" : "out of place",
            ranks_type_name(types[t]));
        ranks_buffer_place(&send, bytes, 0);
        ranks_buffer_place(&recv, bytes, 0);
        wild(types[t], seed_of(types[t]), me->rank, in_place ? recv.data : send.data);
        ranks_delay(me, 300);
        ranks_ok(me,
            tutti_all_reduce(in_place ? recv.data : send.data, recv.data, COUNT, types[t], TUTTI_SUM, comm,
                tutti_no_stream()),
            "all_reduce");
        uint64_t now = digest(recv.data, bytes);
        ranks_expect(me, found[t] == 0 || found[t] == now, "other bits than before");
        found[t] = now;
    }
    ranks_buffer_free(me, &send);
    ranks_buffer_free(me, &recv);
    if (comm != NULL)
        ranks_part(me, comm);
}

static void variations(struct ranks_me *me)
{
    static const char *const ways[] = { "slice=8K", "slice=128K", "slice=20K;map=off", "slice=8K", "map=off",
        "slice=64K;first_number=4294967290", "isa=generic" };
    char name[32], options[128];
    struct digest *shared = me->shared;
    for (int k = 0; k < ranks_algorithm(NULL, "all_reduce", k, name, sizeof name); k++) {
        struct digest own = { { 0 } };
        for (int w = 0; w < 7; w++) {
            snprintf(options, sizeof options, "algo=all_reduce:%s;%s", name, ways[w]);
            same_bits(me, options, w & 1, w >> 1 & 1, own.of);
            if (w < 2)
                same_bits(me, options, !(w & 1), false, own.of);
        }
        if (me->rank == 0)
            *shared = own;
        ranks_meet(me);
        ranks_expect(me, memcmp(shared, &own, sizeof own) == 0, "other bits than at rank 0");
        ranks_meet(me);
    }
}

Test(api_exact, bits_do_not_depend_on_memory_or_slicing)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = variations });
    ranks_run(&(struct ranks_plan){ .n = 4, .run = variations });
}

/* --- avg, NaN and zeros */

/* The average is the sum, rounded, then divided once: also where n is no power of two and the division
 * rounds, and where the last fold has but two operands. */
static void averages_by(struct ranks_me *me, const char *options)
{
    vector *vectors = vectors_of(RANKS_MAX + 2);
    uint8_t *recv = vectors[RANKS_MAX], *own = vectors[RANKS_MAX + 1];
    tutti_config config = { .size = sizeof config, .flags = TUTTI_COMM_EXACT, .options = options };
    tutti_comm *comm = ranks_join(me, &config);
    const void *sources[RANKS_MAX];
    for (int t = 0; comm != NULL && t < TYPES; t++) {
        tutti_type type = types[t];
        size_t bytes = tutti_type_bytes(type);
        ranks_at(me, "n %d rank %d: avg of %s", me->n, me->rank, ranks_type_name(type));
        wild(type, seed_of(type), me->rank, vectors[0]);
        ranks_ok(me, tutti_all_reduce(vectors[0], recv, COUNT, type, TUTTI_AVG, comm, tutti_no_stream()),
            "all_reduce");
        for (int r = 0; r < me->n; r++) {
            wild(type, seed_of(type), r, vectors[r]);
            sources[r] = vectors[r];
        }
        ranks_ok(me, tutti_reduce_local(sources, me->n, own, COUNT, type, TUTTI_AVG), "reduce_local");
        tree(type, vectors, me->n);
        for (size_t e = 0; e < COUNT * bytes; e += bytes) {
            double sum = ranks_decode(type, vectors[0] + e);
            double mean = type == TUTTI_FLOAT64 ? sum / me->n : (double)((float)sum / (float)me->n);
            ranks_encode(type, mean, vectors[0] + e);
        }
        ranks_same(me, type, own, vectors[0], COUNT, "avg of reduce_local");
        ranks_same(me, type, recv, vectors[0], COUNT, "avg of all_reduce");
        wild(type, seed_of(type), me->rank, own);
        ranks_ok(me, tutti_all_reduce(own, recv, FEW, type, TUTTI_AVG, comm, tutti_no_stream()),
            "all_reduce of few");
        ranks_same(me, type, recv, vectors[0], FEW, "avg of few");
    }
    if (comm != NULL)
        ranks_part(me, comm);
    free(vectors);
}

static void averages(struct ranks_me *me)
{
    averages_by(me, "algo=all_reduce:direct");
    averages_by(me, "algo=all_reduce:tree");
}

Test(api_exact, averages)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = averages });
    ranks_run(&(struct ranks_plan){ .n = 7, .kind = RANKS_THREADS, .run = averages });
}

/* A number beats NaN, -0 < +0, and a sum with NaN or of opposite infinities is NaN: at every rank. */
static void corners(struct ranks_me *me)
{
    const double nan = __builtin_nan(""), inf = __builtin_inf();
    const double given[3][6] = { { nan, -0.0, 1, nan, inf, -inf }, { 2, 0.0, nan, nan, -inf, 5 },
        { nan, -0.0, 3, nan, 7, nan } };
    const double maxima[6] = { 2, 0.0, 3, nan, inf, 5 }, minima[6] = { 2, -0.0, 1, nan, -inf, -inf };
    const bool sum_is_nan[6] = { true, false, true, true, true, true };
    tutti_comm *comm = ranks_join(me, NULL);
    uint8_t send[48], recv[48], wanted[8];
    for (int t = 0; comm != NULL && t < WITH_INFINITY * 3; t++) {
        tutti_type type = types[t / 3];
        tutti_op op = t % 3 == 0 ? TUTTI_MAX : t % 3 == 1 ? TUTTI_MIN : TUTTI_SUM;
        size_t bytes = tutti_type_bytes(type);
        ranks_at(me, "rank %d: %s of %s with NaN", me->rank, ranks_op_name(op), ranks_type_name(type));
        for (size_t i = 0; i < 6; i++)
            ranks_encode(type, given[me->rank][i], send + i * bytes);
        ranks_ok(me, tutti_all_reduce(send, recv, 6, type, op, comm, tutti_no_stream()), "all_reduce");
        for (size_t i = 0; i < 6; i++) {
            double found = ranks_decode(type, recv + i * bytes),
                   expected = op == TUTTI_MAX ? maxima[i] : minima[i];
            ranks_encode(type, expected, wanted);
            bool right = expected != expected ? found != found : memcmp(recv + i * bytes, wanted, bytes) == 0;
            if (op == TUTTI_SUM)
                right = (found != found) == sum_is_nan[i];
            ranks_expect(me, right, "element %zu is %g, expected %g", i, found, expected);
        }
    }
    if (comm != NULL)
        ranks_part(me, comm);
}

Test(api_exact, nan_and_zeros)
{
    ranks_run(&(struct ranks_plan){ .n = 3, .run = corners });
}
