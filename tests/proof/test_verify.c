/* SPDX-License-Identifier: BSD-3-Clause */
/* test_verify.c: every algorithm is proven, for every number of ranks to 64 and some to 1024, with the
 * association and the longest message that the registry promises, and moves exactly the chunks that theory
 * says.
 *
 * That the verifier refuses what is wrong is the matter of test_planted.c and test_mutants.c. */
#include "schedules.h"
#include "theories.h"

enum { N_MAX = 64, ALL_ROOTS = 9, ALL_MIXTURES = 8 };

static void prove(const struct schedule_set *set, const struct tt_algorithm *a, bool touches)
{
    const struct tt_key *key = &set->list[0]->key;
    struct tt_proof proof = proof_of(a, key->exact, key->topology);
    struct tt_proof_report report;
    bool proven = tt_verify(set->list, set->n, &proof, &report);
    cr_assert(proven, "%s %s n %d root %d exact %d: %s", tt_collectives[a->collective].name, a->name, set->n,
        key->root, key->exact, report.text);
    cr_assert_eq(report.text[0], '\0');
    int t = theory_of(a);
    cr_assert_geq(t, 0, "%s %s has no theory", tt_collectives[a->collective].name, a->name);
    struct theory theory = theories[t].theory((uint64_t)set->n, (uint64_t)key->root);
    cr_assert(report.messages == theory.messages && report.chunks_sent == theory.sent &&
                  report.chunks_sent_max == theory.sent_max,
        "%s %s n %d: messages %lu, not %lu; chunks %lu, not %lu; of one rank %lu, not %lu",
        tt_collectives[a->collective].name, a->name, set->n, report.messages, theory.messages,
        report.chunks_sent, theory.sent, report.chunks_sent_max, theory.sent_max);
    cr_assert(!touches || report.chunks_touched == theory.touched, "%s %s n %d root %d: touches %lu, not %lu",
        tt_collectives[a->collective].name, a->name, set->n, key->root, report.chunks_touched,
        theory.touched);
}

static bool is_tried(const struct tt_algorithm *a, int n, int root)
{
    if (!tt_collectives[a->collective].rooted)
        return root == 0;
    return n <= ALL_ROOTS || root <= 1 || root == n / 2 || root == n - 1;
}

/* All roots, exact where it may be, out of place and in place. */
static void prove_all(int index, int n)
{
    const struct tt_algorithm *a = &tt_algorithms[index];
    bool in_place = tt_collectives[a->collective].in_place != TT_IN_PLACE_NEVER;
    for (int exact = 0; exact <= 1; exact++) {
        if (tt_algorithm_refuse(a, (struct tt_requirements){ .n = n, .exact = exact }) != NULL)
            continue;
        for (int root = 0; root < n; root++) {
            if (!is_tried(a, n, root))
                continue;
            struct tt_key key = { .collective = a->collective,
                .algorithm = (uint8_t)index,
                .exact = (uint8_t)exact,
                .n = n,
                .root = root };
            for (int place = 0; place <= in_place; place++) {
                struct schedule_set set = set_build(key, place ? UINT64_MAX : 0);
                prove(&set, a, place == 0);
                set_free(&set);
            }
        }
    }
}

static void prove_range(int first, int last)
{
    for (int index = 0; index < tt_algorithm_count; index++)
        for (int n = first; n <= last; n++)
            if (!tt_collectives[tt_algorithms[index].collective].p2p)
                prove_all(index, n);
}

Test(verify, every_algorithm_to_48_ranks)
{
    prove_range(1, 48);
}

Test(verify, every_algorithm_from_49_ranks)
{
    prove_range(49, N_MAX);
}

/* Powers of two and their neighbours, and primes. */
Test(verify, many_ranks)
{
    static const int sizes[] = { 127, 128, 129, 251, 257, 509, 1021, 1023, 1024 };
    for (int t = 0; t < THEORIES; t++)
        for (size_t k = 0; k < sizeof sizes / sizeof sizes[0] && sizes[k] <= theories[t].n_max; k++) {
            int index = tt_algorithm_find(theories[t].collective, theories[t].name);
            struct tt_key key = {
                .collective = (uint8_t)theories[t].collective, .algorithm = (uint8_t)index, .n = sizes[k]
            };
            bool in_place = tt_collectives[key.collective].in_place != TT_IN_PLACE_NEVER && k % 2 == 0;
            key.exact = k % 3 == 0 && tt_algorithm_refuse(&tt_algorithms[index],
                                          (struct tt_requirements){ .n = key.n, .exact = true }) == NULL;
            key.root = tt_collectives[key.collective].rooted ? key.n / 3 : 0;
            struct schedule_set set = set_build(key, in_place ? UINT64_MAX : 0);
            prove(&set, &tt_algorithms[index], !in_place);
            set_free(&set);
        }
}

/* Four million steps. */
Test(verify, ring_of_1024)
{
    int index = tt_algorithm_find(TT_ALL_REDUCE, "ring");
    struct tt_key key = { .collective = TT_ALL_REDUCE, .algorithm = (uint8_t)index, .n = 1024 };
    struct schedule_set set = set_build(key, UINT64_MAX);
    prove(&set, &tt_algorithms[index], false);
    set_free(&set);
}

/* Ranks may differ in whether they work in place: every mixture. */
static void prove_mixtures(int index, int n, int exact, int root)
{
    const struct tt_algorithm *a = &tt_algorithms[index];
    struct tt_key key = { .collective = a->collective,
        .algorithm = (uint8_t)index,
        .exact = (uint8_t)exact,
        .n = n,
        .root = root };
    struct schedule_set out = set_build(key, 0), in = set_build(key, UINT64_MAX), mixed = { .n = n };
    const struct tt_schedule *list[ALL_MIXTURES];
    mixed.list = list;
    for (unsigned mixture = 1; mixture + 1 < 1U << n; mixture++) {
        for (int r = 0; r < n; r++)
            list[r] = mixture >> r & 1 ? in.list[r] : out.list[r];
        prove(&mixed, a, false);
    }
    set_free(&out);
    set_free(&in);
}

Test(verify, in_place_mixtures)
{
    for (int index = 0; index < tt_algorithm_count; index++) {
        const struct tt_algorithm *a = &tt_algorithms[index];
        if (tt_collectives[a->collective].in_place == TT_IN_PLACE_NEVER)
            continue;
        for (int n = 2; n <= ALL_MIXTURES; n++)
            for (int exact = 0; exact <= 1; exact++)
                for (int root = 0;
                     root < n &&
                     tt_algorithm_refuse(a, (struct tt_requirements){ .n = n, .exact = exact }) == NULL;
                     root++)
                    if (is_tried(a, n, root))
                        prove_mixtures(index, n, exact, root);
    }
}

Test(verify, point_to_point)
{
    for (int n = 2; n <= 8; n += 2) {
        struct schedule_set set = set_point_to_point(n);
        struct tt_proof proof = { .tree = TT_TREE_ANY };
        struct tt_proof_report report;
        cr_assert(tt_verify(set.list, n, &proof, &report), "%s", report.text);
        cr_assert_eq(report.messages, (uint64_t)n / 2);
        set_free(&set);
    }
    struct schedule_set self = built(TT_P2P_RECV, "point", 1, false); /* what a rank sends itself */
    accept(&self, (struct tt_proof){ .tree = TT_TREE_ANY });
}

Test(verify, report)
{
    int index = tt_algorithm_find(TT_REDUCE_SCATTER, "ring");
    struct tt_key key = { .collective = TT_REDUCE_SCATTER, .algorithm = (uint8_t)index, .n = 4 };
    struct schedule_set set = set_build(key, 0);
    struct tt_proof proof = proof_of(&tt_algorithms[index], false, NULL);
    struct tt_proof_report report;
    memset(&report, 0xff, sizeof report);
    cr_assert(tt_verify(set.list, 4, &proof, &report), "%s", report.text);
    cr_assert_str_eq(report.text, "");
    cr_assert_eq(report.messages, 12);
    cr_assert_eq(report.steps_max, 6);
    cr_assert_eq(report.tmp_max, 4);
    set_free(&set);
}

/* More slices and fewer slots than by default change nothing for what is in the registry. */
Test(verify, slices_and_slots)
{
    for (int index = 0; index < tt_algorithm_count; index++) {
        const struct tt_algorithm *a = &tt_algorithms[index];
        if (tt_collectives[a->collective].p2p || a->domains != TT_ANY_DOMAINS)
            continue;
        for (int n = 2; n <= 9; n++) {
            struct tt_key key = { .collective = a->collective, .algorithm = (uint8_t)index, .n = n };
            struct schedule_set set = set_build(key, 0);
            struct tt_proof proof = proof_of(a, false, NULL);
            struct tt_proof_report report;
            proof.slots = 1;
            for (proof.slices = 1; proof.slices <= 5; proof.slices++)
                cr_assert(tt_verify(set.list, n, &proof, &report), "%s: %s", a->name, report.text);
            set_free(&set);
        }
    }
}

static uint64_t digit(int rank, uint32_t chunk, void *context)
{
    cr_assert_eq(chunk, *(uint32_t *)context);
    return (uint64_t)rank + 1;
}

/* Neither commutative nor associative. */
static uint64_t mix(uint64_t left, uint64_t right, void *context)
{
    (void)context;
    return 3 * left + 5 * (right << 7 | right >> 57) + 1;
}

static bool value_of(const struct schedule_set *set, int rank, uint32_t chunk, uint64_t *value)
{
    return tt_evaluate(set->list, set->n, rank, chunk, digit, mix, &chunk, value);
}

Test(verify, evaluate_follows_the_tree)
{
    struct tt_key key = {
        .collective = TT_ALL_REDUCE, .algorithm = (uint8_t)tt_algorithm_find(TT_ALL_REDUCE, "ring"), .n = 3
    };
    struct schedule_set ring = set_build(key, 0);
    uint64_t value = 0;
    for (int rank = 0; rank < 3; rank++)
        for (uint32_t c = 0; c < 3; c++) { /* chunk c begins at rank c + 1 and ends at rank c */
            uint64_t sum = mix(mix((c + 1) % 3 + 1, (c + 2) % 3 + 1, NULL), c + 1, NULL);
            cr_assert(value_of(&ring, rank, c, &value));
            cr_assert_eq(value, sum);
        }
    key = (struct tt_key){ .collective = TT_REDUCE,
        .algorithm = (uint8_t)tt_algorithm_find(TT_REDUCE, "direct"),
        .exact = 1,
        .n = 5,
        .root = 2 };
    struct schedule_set exact = set_build(key, 0);
    cr_assert(value_of(&exact, 2, 0, &value));
    cr_assert_eq(value, mix(mix(mix(1, 2, NULL), mix(3, 4, NULL), NULL), 5, NULL));
    key.exact = 0;
    struct schedule_set chain = set_build(key, 0);
    cr_assert(value_of(&chain, 2, 0, &value));
    cr_assert_eq(value, mix(mix(mix(mix(1, 2, NULL), 3, NULL), 4, NULL), 5, NULL));
    value = 7;
    cr_assert_not(value_of(&chain, 1, 0, &value), "rank 1 has no result of a reduce to rank 2");
    chain.schedules[1].steps[0].peer = 3;
    cr_assert_not(value_of(&chain, 2, 0, &value), "a schedule that does not match");
    cr_assert_eq(value, 7);
    set_free(&ring);
    set_free(&exact);
    set_free(&chain);
}

Test(verify, evaluate_what_is_only_moved)
{
    int index = tt_algorithm_find(TT_BROADCAST, "split");
    struct tt_key key = { .collective = TT_BROADCAST, .algorithm = (uint8_t)index, .n = 4, .root = 2 };
    struct schedule_set set = set_build(key, 0);
    uint64_t value = 0;
    cr_assert(value_of(&set, 1, 3, &value));
    cr_assert_eq(value, 3);
    set_free(&set);
}
