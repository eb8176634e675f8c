/* SPDX-License-Identifier: BSD-3-Clause */
/* schedules.h: the schedules of all ranks of one operation, for the tests of the verifier, the goldens and
 * the mutants. Static functions, since all test files are linked into one program. */
#ifndef TT_TESTS_SCHEDULES_H
#define TT_TESTS_SCHEDULES_H
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/algorithms.h"
#include "tests/proof/verify.h"

struct schedule_set {
    int n;
    struct tt_schedule *schedules;
    const struct tt_schedule **list; /* what tt_verify takes */
};

static inline void set_open(struct schedule_set *set, int n)
{
    set->n = n;
    set->schedules = calloc((size_t)n, sizeof *set->schedules);
    set->list = calloc((size_t)n, sizeof *set->list);
    cr_assert(set->schedules != NULL && set->list != NULL);
    for (int r = 0; r < n; r++)
        set->list[r] = &set->schedules[r];
}

static inline void set_free(struct schedule_set *set)
{
    for (int r = 0; r < set->n; r++)
        tt_schedule_free(&set->schedules[r]);
    free(set->schedules);
    free(set->list);
}

/* `key` serves all ranks but for `me`; bit r % 64 of `in_place` is that of rank r. */
static inline struct schedule_set set_build(struct tt_key key, uint64_t in_place)
{
    struct schedule_set set;
    set_open(&set, key.n);
    for (int r = 0; r < key.n; r++) {
        key.me = r;
        key.in_place = in_place >> (r % 64) & 1;
        cr_assert_eq(tt_schedule_build(&set.schedules[r], &key), TUTTI_OK);
    }
    return set;
}

/* The same from a generator that no registry knows. */
static inline struct schedule_set set_generate(tt_generator generate, struct tt_key key)
{
    struct schedule_set set;
    set_open(&set, key.n);
    for (int r = 0; r < key.n; r++) {
        struct tt_team team = { .n = key.n, .me = r };
        key.me = r;
        cr_assert_eq(tt_schedule_begin(&set.schedules[r], &key, "planted"), TUTTI_OK);
        generate(&set.schedules[r], &team, key.root);
        cr_assert_eq(tt_schedule_end(&set.schedules[r]), TUTTI_OK);
    }
    return set;
}

/* Ranks 0, 2, 4 ... send, each to the next. */
static inline struct schedule_set set_point_to_point(int n)
{
    struct schedule_set set;
    set_open(&set, n);
    for (int r = 0; r < n; r++) {
        enum tt_collective collective = r % 2 == 0 ? TT_P2P_SEND : TT_P2P_RECV;
        struct tt_key key = { .collective = (uint8_t)collective, .n = n, .me = r, .root = r ^ 1 };
        key.algorithm = (uint8_t)tt_algorithm_find(collective, "point");
        cr_assert_eq(tt_schedule_build(&set.schedules[r], &key), TUTTI_OK);
    }
    return set;
}

/* Free it with topology_free. */
static inline struct tt_topology *topology_of(const char *text)
{
    int n = tt_topology_ranks(text);
    cr_assert_gt(n, 0, "%s", text);
    struct tt_topology *t = calloc(1, sizeof *t);
    int32_t *domain_of = calloc((size_t)n, sizeof *domain_of);
    cr_assert(t != NULL && domain_of != NULL);
    tt_topology_parse(text, domain_of);
    cr_assert_eq(tt_topology_create(t, n, domain_of), TUTTI_OK);
    free(domain_of);
    return t;
}

static inline void topology_free(struct tt_topology *t)
{
    tt_topology_free(t);
    free(t);
}

/* What the registry promises. */
static inline struct tt_proof proof_of(
    const struct tt_algorithm *a, bool exact, const struct tt_topology *topology)
{
    struct tt_proof proof = { .tree = TT_TREE_ANY };
    if (a->association == TT_ASSOCIATION_ORDERED)
        proof.tree = TT_TREE_ORDERED;
    if (a->association == TT_ASSOCIATION_ORDERED_BY_CHUNK)
        proof.tree = TT_TREE_ORDERED_BY_CHUNK;
    if (a->association == TT_ASSOCIATION_BY_DOMAIN && topology->ordered)
        proof.tree = TT_TREE_ORDERED;
    if (a->association == TT_ASSOCIATION_ROTATED)
        proof.tree = TT_TREE_ROTATED;
    if (a->association != TT_ASSOCIATION_NONE && exact)
        proof.tree = TT_TREE_CANONICAL;
    return proof;
}

/* After a step has changed: ordinals, message counts and followers anew, dependencies as they are. */
static inline void relink(struct tt_schedule *s)
{
    memset(s->sends, 0, (size_t)s->key.n * sizeof *s->sends);
    memset(s->recvs, 0, (size_t)s->key.n * sizeof *s->recvs);
    for (uint32_t i = 0; i < s->nsteps; i++) {
        struct tt_step *step = &s->steps[i];
        if (step->peer < 0 || step->peer >= s->key.n)
            continue;
        step->ordinal = step->verb == TT_VERB_SEND ? s->sends[step->peer]++ : s->recvs[step->peer]++;
    }
    uint32_t at = 0;
    s->followers = realloc(s->followers, ((size_t)s->ndeps + 1) * sizeof *s->followers);
    s->follower_first = realloc(s->follower_first, ((size_t)s->nsteps + 2) * sizeof *s->follower_first);
    cr_assert(s->followers != NULL && s->follower_first != NULL);
    for (uint32_t i = 0; i < s->nsteps; i++) {
        s->follower_first[i] = at;
        for (uint32_t j = 0; j < s->nsteps; j++)
            for (uint32_t k = 0; k < s->steps[j].dep_count; k++)
                if (s->deps[s->steps[j].dep_first + k] == i)
                    s->followers[at++] = j;
    }
    s->follower_first[s->nsteps] = at;
}

/* Step `step` no longer waits for `earlier`. */
static inline void drop_edge(struct tt_schedule *s, uint32_t step, uint32_t earlier)
{
    struct tt_step *p = &s->steps[step];
    uint32_t kept = 0;
    for (uint32_t k = 0; k < p->dep_count; k++)
        if (s->deps[p->dep_first + k] != earlier)
            s->deps[p->dep_first + kept++] = s->deps[p->dep_first + k];
    cr_assert_lt(kept, p->dep_count, "step %u does not wait for %u", step, earlier);
    p->dep_count = (uint16_t)kept;
    relink(s);
}

/* Refused, and for this reason. Frees the set. */
static inline void refuse_with(struct schedule_set *set, struct tt_proof proof, const char *sentence)
{
    struct tt_proof_report report;
    cr_expect_not(
        tt_verify(set->list, set->n, &proof, &report), "proven, but should be refused: %s", sentence);
    cr_expect(
        strstr(report.text, sentence) != NULL, "refused with \"%s\", not \"%s\"", report.text, sentence);
    set_free(set);
}

static inline void refuse(struct schedule_set *set, const char *sentence)
{
    refuse_with(set, (struct tt_proof){ .tree = TT_TREE_ANY }, sentence);
}

static inline void accept(struct schedule_set *set, struct tt_proof proof)
{
    struct tt_proof_report report;
    cr_expect(tt_verify(set->list, set->n, &proof, &report), "refused: %s", report.text);
    set_free(set);
}

static inline struct schedule_set built(
    enum tt_collective collective, const char *algorithm, int n, bool in_place)
{
    int index = tt_algorithm_find(collective, algorithm);
    cr_assert_geq(index, 0);
    struct tt_key key = { .collective = (uint8_t)collective, .algorithm = (uint8_t)index, .n = n };
    return set_build(key, in_place ? UINT64_MAX : 0);
}

static inline struct schedule_set generated(
    enum tt_collective collective, tt_generator generate, int n, bool in_place)
{
    struct tt_key key = { .collective = (uint8_t)collective, .n = n, .in_place = in_place };
    return set_generate(generate, key);
}

#endif
