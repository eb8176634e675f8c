/* SPDX-License-Identifier: BSD-3-Clause */
/* test_algorithms.c: what the proof of each schedule does not say: in how many rounds it is over, and that
 * the reverse of whatever spreads is a reduction. */
#include "schedules.h"

enum { ROUNDS_N = 33, REVERSE_N = 17, BLOCKS = 8 };

static bool is_message(const struct tt_step *step)
{
    return step->peer != TT_NONE;
}

/* Step `i` of `rank` is in this round, or a later one. True if that was not known. */
static bool not_before(uint32_t **rounds, int rank, uint32_t i, uint32_t round)
{
    if (rounds[rank][i] >= round)
        return false;
    rounds[rank][i] = round;
    return true;
}

static uint32_t partner_of(const struct tt_schedule *peer, int me, const struct tt_step *step)
{
    uint32_t i = 0;
    while (peer->steps[i].peer != me || peer->steps[i].ordinal != step->ordinal ||
           (peer->steps[i].verb == TT_VERB_SEND) == (step->verb == TT_VERB_SEND))
        i++;
    return i;
}

/* The two parts of a range that wraps around, at the end of the vector or of a share of it, go in one
 * round. */
static bool wraps(const struct tt_schedule *s, const struct tt_step *a, const struct tt_step *b)
{
    uint32_t at_a = a->verb == TT_VERB_SEND ? a->src_chunk : a->dst_chunk;
    uint32_t at_b = b->verb == TT_VERB_SEND ? b->src_chunk : b->dst_chunk;
    uint32_t share = s->key.topology != NULL ? (uint32_t)s->key.topology->domains : s->chunks;
    bool from_b_to_a = at_a + share == at_b + b->nchunks, from_a_to_b = at_b + share == at_a + a->nchunks;
    bool around =
        (at_a == 0 && at_b + b->nchunks == s->chunks) || (at_b == 0 && at_a + a->nchunks == s->chunks);
    return a->peer == b->peer &&
           (around || (from_b_to_a && at_a % share == 0) || (from_a_to_b && at_b % share == 0));
}

/* A rank sends to one other in a round and receives from one, in program order; what came can be passed on in
 * the next round. Local work takes no round. */
static bool delay(const struct schedule_set *set, int rank, uint32_t **rounds)
{
    const struct tt_schedule *s = set->list[rank];
    const struct tt_step *last[2] = { NULL, NULL };
    bool changed = false;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i], *unit = step - step->fold_index;
        uint32_t sends = step->verb == TT_VERB_SEND;
        for (uint32_t k = 0; k < unit->dep_count; k++) {
            uint32_t earlier = rounds[rank][s->deps[unit->dep_first + k]];
            changed |= not_before(rounds, rank, i, earlier + is_message(step));
        }
        if (!is_message(step))
            continue;
        changed |= not_before(rounds, rank, i, 1);
        if (last[sends] != NULL)
            changed |= not_before(
                rounds, rank, i, rounds[rank][last[sends] - s->steps] + !wraps(s, last[sends], step));
        uint32_t partner = partner_of(set->list[step->peer], rank, step);
        changed |= not_before(rounds, rank, i, rounds[step->peer][partner]);
        last[sends] = step;
    }
    return changed;
}

static uint32_t rounds_of(const struct schedule_set *set)
{
    uint32_t **rounds = calloc((size_t)set->n, sizeof *rounds), most = 0;
    cr_assert(rounds != NULL);
    for (int r = 0; r < set->n; r++)
        cr_assert((rounds[r] = calloc(set->list[r]->nsteps + 1, sizeof **rounds)) != NULL);
    for (bool changed = true; changed;) {
        changed = false;
        for (int r = 0; r < set->n; r++)
            changed |= delay(set, r, rounds);
    }
    for (int r = 0; r < set->n; r++) {
        for (uint32_t i = 0; i < set->list[r]->nsteps; i++)
            most = rounds[r][i] > most ? rounds[r][i] : most;
        free(rounds[r]);
    }
    free(rounds);
    return most;
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t k = 0;
    while (1U << k < n)
        k++;
    return k;
}

static uint32_t one_log(uint32_t n)
{
    return log2_up(n);
}

static uint32_t two_logs(uint32_t n)
{
    return 2 * log2_up(n);
}

static uint32_t ring(uint32_t n)
{
    return n - 1;
}

static uint32_t two_rings(uint32_t n)
{
    return 2 * (n - 1);
}

/* With an odd one out in every round, but for powers of two. */
static uint32_t pairs(uint32_t n)
{
    return (n & (n - 1)) == 0 ? n - 1 : n;
}

static uint32_t blocks(uint32_t n)
{
    return n > 1 ? BLOCKS - 1 + log2_up(n) : 0;
}

static const struct {
    enum tt_collective collective;
    const char *name;
    uint32_t (*rounds)(uint32_t n);
} promises[] = {
    { TT_ALL_REDUCE, "ring", two_rings },
    { TT_ALL_REDUCE, "circulant", two_logs },
    { TT_REDUCE_SCATTER, "ring", ring },
    { TT_REDUCE_SCATTER, "circulant", one_log },
    { TT_ALL_GATHER, "ring", ring },
    { TT_ALL_GATHER, "bruck", one_log },
    { TT_ALL_GATHER, "circulant", one_log },
    { TT_ALL_TO_ALL, "bruck", one_log },
    { TT_ALL_TO_ALL, "pairwise", pairs },
    { TT_BROADCAST, "tree", one_log },
    { TT_BROADCAST, "circulant", blocks },
    { TT_REDUCE, "tree", one_log },
    { TT_REDUCE, "circulant", blocks },
    { TT_BARRIER, "dissemination", one_log },
};

Test(algorithms, rounds)
{
    for (size_t p = 0; p < sizeof promises / sizeof promises[0]; p++)
        for (int n = 1; n <= ROUNDS_N; n++) {
            struct schedule_set set = built(promises[p].collective, promises[p].name, n, false);
            uint32_t rounds = rounds_of(&set);
            cr_expect_eq(rounds, promises[p].rounds((uint32_t)n), "%s %s of %d ranks takes %u rounds",
                tt_collectives[promises[p].collective].name, promises[p].name, n, rounds);
            set_free(&set);
        }
}

/* Inside domains of two everything is one round. */
static uint32_t two_logs_and_one(uint32_t domains)
{
    return 2 * log2_up(domains) + 1;
}

static uint32_t two_logs_and_two(uint32_t domains)
{
    return 2 * log2_up(domains) + 2;
}

static uint32_t one_and_the_others(uint32_t domains)
{
    return 1 + domains - 1;
}

static uint32_t one_log_and_one(uint32_t domains)
{
    return log2_up(domains) + 1;
}

static uint32_t one_log_and_two(uint32_t domains)
{
    return log2_up(domains) + 2;
}

/* A share, its eight blocks in rounds across, and the shares of a domain. Of two domains nobody passes a
 * block on, and four blocks may be under way. */
static uint32_t eight_blocks_and_two(uint32_t domains)
{
    return domains == 2 ? 6 : blocks(domains) + 2;
}

/* Who is beyond a power of two waits a round before it, and one after it. */
static uint32_t one_and_doublings(uint32_t domains)
{
    return (domains & (domains - 1)) == 0 ? 1 + log2_up(domains) : 1 + log2_up(domains) + 1;
}

static const struct {
    enum tt_collective collective;
    const char *name;
    uint32_t (*rounds)(uint32_t domains);
} promises_of_pairs[] = {
    { TT_ALL_REDUCE, "hierarchical_circulant", two_logs_and_two },
    { TT_ALL_REDUCE, "hierarchical_doubling", one_and_doublings },
    { TT_REDUCE_SCATTER, "hierarchical_circulant", two_logs_and_one },
    { TT_ALL_GATHER, "hierarchical_circulant", two_logs_and_one },
    { TT_ALL_TO_ALL, "hierarchical", one_and_the_others },
    { TT_REDUCE, "hierarchical_tree", one_log_and_one },
    { TT_BROADCAST, "hierarchical_split", one_log_and_two },
    { TT_REDUCE, "hierarchical_split", one_log_and_two },
    { TT_BROADCAST, "hierarchical_circulant", eight_blocks_and_two },
    { TT_REDUCE, "hierarchical_circulant", eight_blocks_and_two },
    { TT_BARRIER, "hierarchical_dissemination", one_log_and_two },
};

Test(algorithms, rounds_over_domains_of_two)
{
    for (size_t p = 0; p < sizeof promises_of_pairs / sizeof promises_of_pairs[0]; p++)
        for (int domains = 2; domains <= ROUNDS_N; domains++) {
            const char *name = promises_of_pairs[p].name;
            enum tt_collective collective = promises_of_pairs[p].collective;
            char text[16];
            snprintf(text, sizeof text, "%dx2", domains);
            struct tt_topology *topology = topology_of(text);
            struct tt_key key = { .collective = (uint8_t)collective, .n = 2 * domains, .topology = topology };
            key.algorithm = (uint8_t)tt_algorithm_find(collective, name);
            struct schedule_set set = set_build(key, 0);
            uint32_t rounds = rounds_of(&set), promised = promises_of_pairs[p].rounds((uint32_t)domains);
            cr_expect_eq(rounds, promised, "%s %s of %d domains takes %u rounds, not %u",
                tt_collectives[collective].name, name, domains, rounds, promised);
            set_free(&set);
            topology_free(topology);
        }
}

static enum tt_collective spreads;
static tt_generator spread_by;

static void reversed(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_reverse(s, team, root, spreads, spread_by);
}

/* Proven, and with the messages of what it reverses. */
static void check_reverse(int row, int n, int root, bool in_place, const struct tt_topology *topology)
{
    const struct tt_algorithm *a = &tt_algorithms[row];
    enum tt_collective reduces = a->collective == TT_BROADCAST ? TT_REDUCE : TT_REDUCE_SCATTER;
    struct tt_key forth = { .collective = a->collective, .algorithm = (uint8_t)row, .n = n, .root = root };
    forth.topology = topology;
    struct tt_key back = { .collective = (uint8_t)reduces, .in_place = in_place, .n = n, .root = root };
    back.topology = topology;
    spreads = (enum tt_collective)a->collective;
    spread_by = a->generate;
    struct schedule_set there = set_build(forth, 0), home = set_generate(reversed, back);
    struct tt_proof proof = { .tree = TT_TREE_ANY };
    struct tt_proof_report report, of_spread;
    cr_assert(tt_verify(there.list, n, &proof, &of_spread), "%s", of_spread.text);
    cr_assert(tt_verify(home.list, n, &proof, &report), "reverse of %s %s, n %d root %d: %s",
        tt_collectives[a->collective].name, a->name, n, root, report.text);
    cr_expect_eq(report.messages, of_spread.messages);
    cr_expect_eq(report.chunks_sent, of_spread.chunks_sent);
    for (int r = 0; r < n; r++)
        for (int q = 0; q < n; q++)
            cr_expect_eq(home.list[r]->sends[q], there.list[r]->recvs[q], "%s: rank %d", a->name, r);
    set_free(&there);
    set_free(&home);
}

static void reverse_of(int row, int n)
{
    char text[48];
    snprintf(text, sizeof text, "0-%d/%d-%d", n / 2 - 1, n / 2, n - 1);
    struct tt_topology *topology = n >= 4 ? topology_of(text) : NULL;
    struct tt_requirements requirements = { .n = n, .topology = topology };
    bool rooted = tt_collectives[tt_algorithms[row].collective].rooted;
    for (int root = 0; root < (rooted ? n : 1); root += 1 + n / 6)
        for (int in_place = 0; in_place < 2; in_place++)
            if (tt_algorithm_refuse(&tt_algorithms[row], requirements) == NULL)
                check_reverse(row, n, root, in_place, topology);
    if (topology != NULL)
        topology_free(topology);
}

Test(algorithms, reverse)
{
    for (int row = 0; row < tt_algorithm_count; row++) {
        int collective = tt_algorithms[row].collective;
        for (int n = 1; n <= REVERSE_N && (collective == TT_BROADCAST || collective == TT_ALL_GATHER); n++)
            reverse_of(row, n);
    }
}

static void cannot_be_built(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 1);
    tt_send(s, tt_team_rank(team, team->me), tt_in(0));
    (void)root;
}

Test(algorithms, reverse_of_what_cannot_be_built)
{
    struct tt_key key = { .collective = TT_REDUCE, .n = 2 };
    struct tt_team team = { .n = 2 };
    struct tt_schedule s;
    cr_assert_eq(tt_schedule_begin(&s, &key, "planted"), TUTTI_OK);
    tt_reverse(&s, &team, 0, TT_BROADCAST, cannot_be_built);
    cr_assert_eq(tt_schedule_end(&s), TUTTI_INTERNAL_ERROR);
}

/* The longest message of all ranks, in chunks. */
static uint32_t longest(const struct schedule_set *set)
{
    uint32_t most = 1;
    for (int r = 0; r < set->n; r++)
        for (uint32_t i = 0; i < set->list[r]->nsteps; i++)
            if (is_message(&set->list[r]->steps[i]) && set->list[r]->steps[i].nchunks > most)
                most = set->list[r]->steps[i].nchunks;
    return most;
}

/* Slices are as long as the span allows, so what is said too high costs speed; too low is refused. */
Test(algorithms, span_is_the_longest_message)
{
    for (int row = 0; row < tt_algorithm_count; row++) {
        const struct tt_algorithm *a = &tt_algorithms[row];
        for (int n = 1; n <= REVERSE_N && !tt_collectives[a->collective].p2p; n++) {
            char text[32];
            snprintf(text, sizeof text, "2x%d", n);
            struct tt_topology *t = topology_of(text);
            bool serves = a->domains == TT_ANY_DOMAINS || t->divides;
            struct tt_key key = {
                .collective = a->collective, .algorithm = (uint8_t)row, .n = 2 * n, .topology = t
            };
            for (int odd = 0; odd < 2 && serves; odd++) {
                if (odd && a->domains != TT_ANY_DOMAINS)
                    break;
                key.n = 2 * n - odd;
                struct schedule_set set = set_build(key, 0);
                cr_expect_eq(set.list[0]->max_chunks, longest(&set), "%s %s n %d: span %u, longest %u",
                    tt_collectives[a->collective].name, a->name, key.n, set.list[0]->max_chunks,
                    longest(&set));
                set_free(&set);
            }
            topology_free(t);
        }
    }
}

static void says_too_little(struct tt_schedule *s, const struct tt_team *team, int root)
{
    tt_chunks(s, 3);
    tt_max_chunks(s, 2);
    tt_send(s, tt_team_rank(team, team->me + 1), tt_range(TT_IN, 0, 3));
    (void)root;
}

Test(algorithms, a_message_beyond_the_span_is_refused)
{
    struct tt_key key = { .collective = TT_ALL_REDUCE, .n = 2 };
    struct tt_team team = { .n = 2 };
    struct tt_schedule s;
    cr_assert_eq(tt_schedule_begin(&s, &key, "planted"), TUTTI_OK);
    says_too_little(&s, &team, 0);
    cr_assert_eq(tt_schedule_end(&s), TUTTI_INTERNAL_ERROR);
}

/* A schedule of which a message has more chunks than the shortest slot has elements cannot serve. */
Test(algorithms, ranges_are_cut_for_the_shortest_slot)
{
    enum { MANY = 100000, EACH = 8, SHORTEST = 16 << 10 };
    int32_t *domain_of = calloc(MANY, sizeof *domain_of);
    struct tt_topology topology;
    cr_assert(domain_of != NULL);
    for (int r = 0; r < MANY; r++)
        domain_of[r] = r / EACH;
    cr_assert_eq(tt_topology_create(&topology, MANY, domain_of), TUTTI_OK);
    static const struct {
        enum tt_collective collective;
        const char *name;
    } rows[] = { { TT_ALL_GATHER, "bruck" }, { TT_ALL_GATHER, "circulant" },
        { TT_ALL_GATHER, "hierarchical_circulant" }, { TT_REDUCE_SCATTER, "circulant" },
        { TT_REDUCE_SCATTER, "hierarchical_circulant" }, { TT_ALL_REDUCE, "circulant" } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tt_key key = { .collective = (uint8_t)rows[i].collective, .n = MANY, .me = MANY / 3 };
        struct tt_schedule s;
        key.topology = &topology;
        key.algorithm = (uint8_t)tt_algorithm_find(rows[i].collective, rows[i].name);
        cr_assert_eq(tt_schedule_build(&s, &key), TUTTI_OK);
        cr_expect_leq(s.max_chunks * TT_ELEMENT_BYTES, SHORTEST, "%s", rows[i].name);
        cr_expect_lt(s.nsteps, 1000, "%s has %u steps", rows[i].name, s.nsteps);
        tt_schedule_free(&s);
    }
    tt_topology_free(&topology);
    free(domain_of);
    struct schedule_set set = built(TT_ALL_GATHER, "circulant", 2100, false);
    accept(&set, (struct tt_proof){ .tree = TT_TREE_ANY });
}
