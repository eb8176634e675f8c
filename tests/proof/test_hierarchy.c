/* SPDX-License-Identifier: BSD-3-Clause */
/* test_hierarchy.c: what is composed over cache domains: proven for topologies given as text, even and
 * uneven, contiguous and interleaved; and no more than theory says crosses from domain to domain.
 *
 * The goldens and mutants of these algorithms are with all others (golden.h). */
#include "schedules.h"

enum { ALL_MIXTURES = 6 };

static const char *const topologies[] = { "2x2", "0,2/1,3", "3,0/2,1", "0-1/2-4", "0,3/1,2,4", "3x2", "2x3",
    "0,2,4/1,3,5", "0-1/2/3-5", "0-2/3-5/6", "2x4", "4x2", "0-2/3-7", "0-3/4-6", "0,7/1,6/2,5/3,4", "3x3",
    "0-3/4-7/8-10", "2x9", "0-9/10-19", "5x5", "8x4", "0-31/32-63", "0-30/31-63", "7x3", "13x2", "31x2",
    "0,8,16/1,9,17/2,10,18/3,11,19/4,12,20/5,13,21/6,14,22/7,15,23" };
enum { TOPOLOGIES = sizeof topologies / sizeof topologies[0] };

struct theory {
    uint64_t messages, chunks, chunks_max;
    uint64_t crossing; /* chunks, from domain to domain */
};

static uint64_t log2_up(uint64_t n)
{
    uint64_t k = 0;
    while ((uint64_t)1 << k < n)
        k++;
    return k;
}

static struct theory all_reduce(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, deepest = 0;
    uint64_t each = n / d, inside = 2 * (n - d), across = 2 * d * (d - 1);
    for (int k = 0; k < t->domains; k++) {
        uint64_t depth = log2_up((uint64_t)tt_topology_size(t, k));
        deepest = depth > deepest ? depth : deepest;
    }
    if (t->even) /* shares, of d chunks each */
        return (struct theory){ n * (2 * (each - 1) + 2 * (d - 1)), n * (2 * (each - 1) * d + 2 * (d - 1)),
            2 * (each - 1) * d + 2 * (d - 1), n * 2 * (d - 1) };
    return (struct theory){ inside + across, inside * d + across, 2 * (d - 1) + d * deepest, across };
}

static struct theory block_each(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains;
    return (struct theory){ n * (n - 1), n * (n - 1), n - 1, n * (d - 1) };
}

/* Whoever is the j-th from the last domain on sends blocks that begin again with the first domain, but only
 * the member whose part that is sends them as two messages; and each part goes on inside. */
static struct theory all_gather_circulant(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, each = n / d, parts = 0, next;
    for (uint64_t have = 1; have < d; have = next) {
        next = d;
        for (uint64_t half = d; half > have; half = (half + 1) / 2)
            next = half;
        parts += n;
        for (uint64_t j = 1; j < next - have; j++)
            parts += j * each % (next - have) != 0;
    }
    return (struct theory){ n * (each - 1) + each * parts, n * (n - 1), n - 1, n * (d - 1) };
}

static struct theory exchange(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, each = n / d;
    uint64_t inside = (each - 1) * d, across = (d - 1) * each;
    return (struct theory){ n * (each - 1 + d - 1), n * (inside + across), inside + across, n * across };
}

static struct theory barrier(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains;
    return (struct theory){ 2 * (n - d) + d * (d - 1), 2 * (n - d) + d * (d - 1), 0, d * (d - 1) };
}

static struct theory barrier_dissemination(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, across = d * log2_up(d);
    return (struct theory){ 2 * (n - d) + across, 2 * (n - d) + across, 0, across };
}

static struct theory one_vector(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains;
    return (struct theory){ n - 1, n - 1, 0, d - 1 };
}

/* The vector in a share of so many blocks for each member of a domain: messages of shares inside, of blocks
 * across. */
static struct theory shares_of_one_vector(const struct tt_topology *t, uint64_t blocks)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, each = n / d, chunks = each * blocks;
    return (struct theory){ d * each * (each - 1) + each * blocks * (d - 1), (n - 1) * chunks, 0,
        (d - 1) * chunks };
}

static struct theory whole_shares(const struct tt_topology *t)
{
    return shares_of_one_vector(t, 1);
}

static struct theory shares_of_eight_blocks(const struct tt_topology *t)
{
    return shares_of_one_vector(t, 8);
}

/* The messages of ceil(log2(d)) rounds of the circulant graph: see theories.h. */
static uint64_t circulant_messages(uint64_t d)
{
    uint64_t messages = 0, next;
    for (uint64_t have = 1; have < d; have = next) {
        next = d;
        for (uint64_t half = d; half > have; half = (half + 1) / 2)
            next = half;
        messages += d + next - have - 1;
    }
    return messages;
}

static struct theory all_reduce_circulant(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, each = n / d;
    struct theory theory = all_reduce(t);
    theory.messages = 2 * n * (each - 1) + 2 * each * circulant_messages(d);
    return theory;
}

static struct theory all_reduce_doubling(const struct tt_topology *t)
{
    uint64_t n = (uint64_t)t->n, d = (uint64_t)t->domains, each = n / d;
    uint64_t rounds = log2_up(d + 1) - 1, power = (uint64_t)1 << rounds, extra = d - power;
    uint64_t across = each * (power * rounds + 2 * extra), inside = n * (each - 1);
    return (struct theory){ inside + across, inside + across, each - 1 + rounds + (extra > 0), across };
}

static const struct {
    enum tt_collective collective;
    const char *name;
    struct theory (*theory)(const struct tt_topology *t);
} theories[] = {
    { TT_ALL_REDUCE, "hierarchical", all_reduce },
    { TT_ALL_REDUCE, "hierarchical_circulant", all_reduce_circulant },
    { TT_ALL_REDUCE, "hierarchical_doubling", all_reduce_doubling },
    { TT_ALL_GATHER, "hierarchical", block_each },
    { TT_ALL_GATHER, "hierarchical_circulant", all_gather_circulant },
    { TT_ALL_GATHER_V, "hierarchical", block_each },
    { TT_ALL_GATHER_V, "hierarchical_circulant", all_gather_circulant },
    { TT_REDUCE_SCATTER, "hierarchical", block_each },
    { TT_REDUCE_SCATTER, "hierarchical_circulant", all_gather_circulant },
    { TT_ALL_TO_ALL, "hierarchical", exchange },
    { TT_BROADCAST, "hierarchical", one_vector },
    { TT_REDUCE, "hierarchical", one_vector },
    { TT_REDUCE, "hierarchical_tree", one_vector },
    { TT_BROADCAST, "hierarchical_split", whole_shares },
    { TT_REDUCE, "hierarchical_split", whole_shares },
    { TT_BROADCAST, "hierarchical_circulant", shares_of_eight_blocks },
    { TT_REDUCE, "hierarchical_circulant", shares_of_eight_blocks },
    { TT_BARRIER, "hierarchical", barrier },
    { TT_BARRIER, "hierarchical_dissemination", barrier_dissemination },
};
enum { THEORIES = sizeof theories / sizeof theories[0] };

static struct theory theory_of(const struct tt_algorithm *a, const struct tt_topology *t)
{
    int i = 0;
    while (
        i < THEORIES && (theories[i].collective != a->collective || strcmp(theories[i].name, a->name) != 0))
        i++;
    cr_assert_lt(i, THEORIES, "%s %s has no theory", tt_collectives[a->collective].name, a->name);
    return theories[i].theory(t);
}

static uint64_t crossing(const struct schedule_set *set, const struct tt_topology *t)
{
    uint64_t chunks = 0;
    for (int r = 0; r < set->n; r++)
        for (uint32_t i = 0; i < set->list[r]->nsteps; i++) {
            const struct tt_step *step = &set->list[r]->steps[i];
            if (step->verb == TT_VERB_SEND && t->domain[step->peer] != t->domain[r])
                chunks += step->nchunks;
        }
    return chunks;
}

static void prove(const struct tt_algorithm *a, struct tt_key key, uint64_t in_place)
{
    const struct tt_topology *t = key.topology;
    struct schedule_set set = set_build(key, in_place);
    struct tt_proof proof = proof_of(a, key.exact, t);
    struct tt_proof_report report;
    struct theory theory = theory_of(a, t);
    char text[64];
    tt_topology_put(t, &(struct tt_text){ text, sizeof text, 0 });
    char name[64];
    snprintf(name, sizeof name, "%s %s", tt_collectives[a->collective].name, a->name);
    cr_assert(tt_verify(set.list, set.n, &proof, &report), "%s over %s, root %d exact %d: %s", name, text,
        key.root, key.exact, report.text);
    cr_expect(report.messages == theory.messages && report.chunks_sent == theory.chunks,
        "%s over %s: messages %lu, not %lu; chunks %lu, not %lu", name, text, report.messages,
        theory.messages, report.chunks_sent, theory.chunks);
    cr_expect(theory.chunks_max == 0 || report.chunks_sent_max == theory.chunks_max,
        "%s over %s: one rank sends %lu chunks, not %lu", name, text, report.chunks_sent_max,
        theory.chunks_max);
    uint64_t crosses = crossing(&set, t);
    cr_expect(crosses == theory.crossing, "%s over %s: %lu chunks cross, not %lu", name, text, crosses,
        theory.crossing);
    proof.slots = 1;
    for (proof.slices = 1; t->n <= 9 && proof.slices <= 5; proof.slices += 2)
        cr_expect(tt_verify(set.list, set.n, &proof, &report), "%s over %s: %s", name, text, report.text);
    set_free(&set);
}

static void prove_roots(int row, const struct tt_topology *t, bool exact)
{
    const struct tt_algorithm *a = &tt_algorithms[row];
    const struct tt_collective_row *collective = &tt_collectives[a->collective];
    struct tt_key key = {
        .collective = a->collective, .algorithm = (uint8_t)row, .exact = exact, .n = t->n, .topology = t
    };
    for (key.root = 0; key.root < (collective->rooted ? t->n : 1); key.root++) {
        bool in_place = collective->in_place != TT_IN_PLACE_NEVER;
        for (uint64_t place = 0; place < (in_place && t->n <= ALL_MIXTURES ? 1U << t->n : 1U); place++)
            prove(a, key, place);
        if (in_place)
            prove(a, key, UINT64_MAX);
    }
}

Test(hierarchy, proven_over_texts)
{
    for (int i = 0; i < TOPOLOGIES; i++) {
        struct tt_topology *t = topology_of(topologies[i]);
        for (int row = 0; row < tt_algorithm_count; row++)
            for (int exact = 0; exact < 2; exact++) {
                struct tt_requirements requirements = { .n = t->n, .exact = exact, .topology = t };
                if (tt_algorithms[row].domains != TT_ANY_DOMAINS &&
                    tt_algorithm_refuse(&tt_algorithms[row], requirements) == NULL)
                    prove_roots(row, t, exact);
            }
        topology_free(t);
    }
}

/* What goes across in rounds of which there are few for hundreds of domains. */
Test(hierarchy, many_domains)
{
    static const char *const texts[] = { "64x2", "85x3", "129x2" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct tt_topology *t = topology_of(texts[i]);
        for (int row = 0; row < tt_algorithm_count; row++) {
            const struct tt_algorithm *a = &tt_algorithms[row];
            struct tt_requirements requirements = { .n = t->n, .topology = t };
            if (strncmp(a->name, "hierarchical_", 13) != 0 || tt_algorithm_refuse(a, requirements) != NULL)
                continue;
            struct tt_key key = {
                .collective = a->collective, .algorithm = (uint8_t)row, .n = t->n, .topology = t
            };
            key.root = tt_collectives[a->collective].rooted ? t->n / 3 : 0;
            prove(a, key, 0);
        }
        topology_free(t);
    }
}

static const char *refusal_of(
    const char *name, enum tt_collective collective, const char *text, bool exact, bool ordered)
{
    struct tt_topology *t = topology_of(text);
    struct tt_requirements requirements = { .n = t->n, .exact = exact, .ordered = ordered, .topology = t };
    int row = tt_algorithm_find(collective, name);
    cr_assert_geq(row, 0);
    const char *why = tt_algorithm_refuse(&tt_algorithms[row], requirements);
    topology_free(t);
    return why != NULL ? why : "";
}

static const char *refusal(enum tt_collective collective, const char *text, bool exact, bool ordered)
{
    return refusal_of("hierarchical", collective, text, exact, ordered);
}

Test(hierarchy, refusals)
{
    static const char *const serves[] = { "2x2", "0-1/2-4", "0,2/1,3", "0-1/2/3-4" };
    static const char *const useless[] = { "0-3", "4x1", "0-3/4", "0/1-2/3" };
    for (int i = 0; i < 4; i++) {
        cr_expect_str_empty(refusal(TT_ALL_REDUCE, serves[i], false, false), "%s", serves[i]);
        cr_expect(
            strstr(refusal(TT_ALL_REDUCE, useless[i], false, false), "two cache domains"), "%s", useless[i]);
        cr_expect(
            strstr(refusal(TT_BARRIER, useless[i], true, false), "two cache domains"), "%s", useless[i]);
    }
    cr_expect_str_empty(refusal(TT_ALL_GATHER, "2x2", true, false));
    cr_expect(strstr(refusal(TT_ALL_GATHER, "0-1/2-4", false, false), "one size"));
    cr_expect_str_empty(refusal(TT_REDUCE, "0-3/4-6", true, true));
    cr_expect(strstr(refusal(TT_REDUCE, "2x3", true, false), "canonical"));
    cr_expect_str_empty(refusal(TT_REDUCE, "2x3", false, true));
    cr_expect(strstr(refusal(TT_REDUCE, "0,2/1,3", false, true), "rank order"));
    struct tt_requirements nobody_knows = { .n = 4 };
    int row = tt_algorithm_find(TT_BROADCAST, "hierarchical");
    cr_expect(strstr(tt_algorithm_refuse(&tt_algorithms[row], nobody_knows), "two cache domains"));
}

Test(hierarchy, refusals_of_what_doubles)
{
    static const char doubling[] = "hierarchical_doubling";
    cr_expect_str_empty(refusal_of(doubling, TT_ALL_REDUCE, "4x2", true, true));
    cr_expect_str_empty(refusal_of(doubling, TT_ALL_REDUCE, "3x3", false, true));
    cr_expect(strstr(refusal_of(doubling, TT_ALL_REDUCE, "3x2", true, false), "power of two"));
    cr_expect(strstr(refusal_of(doubling, TT_ALL_REDUCE, "2x3", true, false), "neighbours"));
    cr_expect(strstr(refusal_of(doubling, TT_ALL_REDUCE, "0,2/1,3", true, false), "neighbours"));
    cr_expect(strstr(refusal_of(doubling, TT_ALL_REDUCE, "0,2/1,3", false, true), "rank order"));
    cr_expect(strstr(refusal_of(doubling, TT_ALL_REDUCE, "0-1/2-4", false, false), "one size"));
}

Test(hierarchy, refusals_of_what_needs_neighbours)
{
    static const char circulant[] = "hierarchical_circulant";
    cr_expect_str_empty(refusal_of(circulant, TT_ALL_GATHER, "3x2", true, false));
    cr_expect(strstr(refusal_of(circulant, TT_ALL_GATHER, "0,2/1,3", false, false), "neighbouring ranks"));
    cr_expect(strstr(refusal_of(circulant, TT_ALL_GATHER, "0-1/2-4", false, false), "one size"));
    cr_expect(strstr(refusal_of(circulant, TT_ALL_GATHER, "4x1", false, false), "two cache domains"));
}

static void nothing(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)team;
    (void)root;
    tt_chunks(s, 2);
}

static void stage_inside(struct tt_schedule *s, const struct tt_team *team, int root)
{
    struct tt_sub_schedule stage = { .collective = TT_REDUCE, .in = tt_in(0), .out = tt_out(0) };
    tt_run_sub_schedule(s, &stage, team, root, nothing);
}

/* What a stage cannot do spoils the build. */
static void expect_spoilt(uint32_t chunks, struct tt_sub_schedule stage, tt_generator generate)
{
    struct tt_key key = { .collective = TT_ALL_REDUCE, .n = 2 };
    struct tt_team team = { .n = 2 };
    struct tt_schedule s;
    cr_assert_eq(tt_schedule_begin(&s, &key, "planted"), TUTTI_OK);
    if (chunks > 0)
        tt_chunks(&s, chunks);
    tt_run_sub_schedule(&s, &stage, &team, 0, generate);
    cr_expect_eq(tt_schedule_end(&s), TUTTI_INTERNAL_ERROR);
}

static void long_range(struct tt_schedule *s, const struct tt_team *team, int root)
{
    (void)root;
    tt_chunks(s, 2);
    tt_max_chunks(s, 2);
    tt_send(s, tt_team_rank(team, 1), tt_range(TT_IN, 0, 2));
}

Test(hierarchy, stages_that_do_not_fit)
{
    static const int map[] = { 0, 1 };
    struct tt_sub_schedule three = {
        .collective = TT_ALL_REDUCE, .in = tt_range(TT_IN, 0, 3), .out = tt_range(TT_OUT, 0, 3)
    };
    struct tt_sub_schedule two = {
        .collective = TT_ALL_REDUCE, .in = tt_range(TT_IN, 0, 2), .out = tt_range(TT_OUT, 0, 2)
    };
    struct tt_sub_schedule mapped = two;
    mapped.map = map;
    expect_spoilt(3, three, nothing);
    expect_spoilt(0, two, nothing);
    expect_spoilt(2, two, stage_inside);
    expect_spoilt(2, mapped, long_range);
}
