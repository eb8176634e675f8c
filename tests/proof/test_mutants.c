/* SPDX-License-Identifier: BSD-3-Clause */
/* test_mutants.c: the golden texts, and every schedule that is one step away from a golden one.
 *
 * A mutant changes one step at one rank; what follows from the step (ordinals, message counts, indices of
 * dependencies, places in a fold) is made to fit again, so that the verifier must find the change itself and
 * not a torn data structure. Each mutant is refused, or listed in golden/equivalent.txt with a reason, which
 * is checked too. The list is exact: a line whose mutant is refused, or does not exist, fails as well. */
#include "golden.h"

enum { LISTED_MAX = 2048, NAME_BYTES = 128 };

static const char *golden_directory(void)
{
    static char path[512];
    const char *source = getenv("srcdir"); /* set by make check */
    snprintf(path, sizeof path, "%s/tests/golden", source != NULL ? source : ".");
    return path;
}

/* A whole file as a string; the caller frees it. */
static char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    cr_assert(file != NULL, "cannot open %s", path);
    size_t bytes = 0, capacity = 1 << 20;
    char *text = malloc(capacity);
    cr_assert(text != NULL);
    bytes = fread(text, 1, capacity - 1, file);
    text[bytes] = '\0';
    fclose(file);
    return text;
}

Test(mutants, golden_texts)
{
    for (int g = 0; g < golden_count(); g++) {
        struct schedule_set set = golden_set(g);
        char path[600], *now = golden_text(&set);
        golden_path(g, golden_directory(), path, sizeof path);
        char *then = read_text(path);
        cr_expect_str_eq(now, then, "%s is not what the generator writes", path);
        free(now);
        free(then);
        set_free(&set);
    }
}

enum kind {
    DROP,
    DUPLICATE,
    SWAP,
    DST_NEXT,
    DST_BEFORE,
    SRC_NEXT,
    SRC_BEFORE,
    RIGHT_NEXT,
    RIGHT_BEFORE,
    PEER_NEXT,
    PEER_BEFORE,
    VERB,
    FLIP_LEFT,
    FLIP_FINAL,
    FLIP_TREE,
    FLIP_TREE_OF_FOLD,
    EDGE, /* and the k-th edge by EDGE + k */
};
static const char *const kinds[] = { "dropped", "twice", "swapped with next", "dst chunk + 1",
    "dst chunk - 1", "src chunk + 1", "src chunk - 1", "right chunk + 1", "right chunk - 1", "peer + 1",
    "peer - 1", "send for receive", "LEFT flipped", "FINAL flipped", "FOLD_TREE flipped",
    "FOLD_TREE of the fold flipped", "without edge to" };

static void *copy_of(const void *from, size_t bytes, size_t room)
{
    void *copy = calloc(1, room + 1);
    cr_assert(copy != NULL);
    memcpy(copy, from, bytes);
    return copy;
}

/* With room for one more step and as many dependencies again. Followers and ordinals are for relink. */
static struct tt_schedule clone(const struct tt_schedule *s)
{
    struct tt_schedule c = *s;
    size_t steps = s->nsteps * sizeof *s->steps, deps = s->ndeps * sizeof *s->deps, n = (size_t)s->key.n;
    c.steps = copy_of(s->steps, steps, steps + sizeof *s->steps);
    c.deps = s->ndeps == 0 ? NULL : copy_of(s->deps, deps, 2 * deps);
    c.sends = copy_of(s->sends, n * sizeof *s->sends, n * sizeof *s->sends);
    c.recvs = copy_of(s->recvs, n * sizeof *s->recvs, n * sizeof *s->recvs);
    c.followers = c.follower_first = NULL;
    return c;
}

static uint32_t unit_of(const struct tt_schedule *s, uint32_t i)
{
    return i - s->steps[i].fold_index;
}

/* Let c consist of the steps order[0 .. count) of s. Neighbours that come from one fold remain a fold. */
static void reorder(struct tt_schedule *c, const struct tt_schedule *s, const uint32_t *order, uint32_t count)
{
    uint32_t place[64], ndeps = 0, first = 0;
    cr_assert_lt(s->nsteps, 64);
    memset(place, 0xff, sizeof place);
    for (uint32_t j = count; j-- > 0;)
        place[unit_of(s, order[j])] = j;
    for (uint32_t j = 0; j < count; j++) {
        struct tt_step *step = &c->steps[j];
        *step = s->steps[order[j]];
        bool more =
            j > 0 && s->steps[order[j]].fold_count > 1 && unit_of(s, order[j]) == unit_of(s, order[j - 1]);
        first = more ? first : j;
        step->fold_index = (uint8_t)(j - first);
        for (uint32_t k = first; k <= j; k++)
            c->steps[k].fold_count = (uint8_t)(j - first + 1);
        const struct tt_step *unit = &s->steps[unit_of(s, order[j])];
        step->dep_first = ndeps;
        step->dep_count = 0;
        for (uint32_t k = 0; !more && k < unit->dep_count; k++) {
            uint32_t to = place[s->deps[unit->dep_first + k]];
            if (to == UINT32_MAX)
                continue;
            c->deps[ndeps++] = to;
            step->dep_count++;
        }
    }
    c->nsteps = count;
    c->ndeps = ndeps;
}

static void rearrange(struct tt_schedule *c, const struct tt_schedule *s, uint32_t i, enum kind kind)
{
    uint32_t order[65], count = 0;
    for (uint32_t j = 0; j < s->nsteps; j++) {
        if (j != i || kind != DROP)
            order[count++] = j;
        if (j == i && kind == DUPLICATE)
            order[count++] = j;
    }
    if (kind == SWAP) {
        order[i] = i + 1;
        order[i + 1] = i;
    }
    reorder(c, s, order, count);
}

static uint32_t moved(const struct tt_schedule *s, unsigned buffer, uint32_t chunk, bool up)
{
    uint32_t cells = buffer == TT_TMP ? s->tmp_cells : s->chunks;
    return (chunk + (up ? 1 : cells - 1)) % cells;
}

static bool change(struct tt_schedule *c, const struct tt_schedule *s, uint32_t i, int kind)
{
    struct tt_step *step = &c->steps[i];
    switch (kind) {
    case DST_NEXT:
    case DST_BEFORE:
        step->dst_chunk = moved(s, step->dst_buffer, step->dst_chunk, kind == DST_NEXT);
        return step->verb != TT_VERB_SEND;
    case SRC_NEXT:
    case SRC_BEFORE:
        step->src_chunk = moved(s, step->src_buffer, step->src_chunk, kind == SRC_NEXT);
        return step->verb != TT_VERB_RECV;
    case RIGHT_NEXT:
    case RIGHT_BEFORE:
        if (step->verb == TT_VERB_REDUCE)
            step->right_chunk = moved(s, step->right_buffer, step->right_chunk, kind == RIGHT_NEXT);
        return step->verb == TT_VERB_REDUCE;
    case PEER_NEXT:
    case PEER_BEFORE:
        if (step->peer != TT_NONE)
            step->peer = (step->peer + (kind == PEER_NEXT ? 1 : s->key.n - 1)) % s->key.n;
        return step->peer != TT_NONE;
    case VERB:
        if (step->verb == TT_VERB_SEND) {
            step->verb = TT_VERB_RECV;
            step->dst_buffer = step->src_buffer;
            step->dst_chunk = step->src_chunk;
            return true;
        }
        if (step->verb == TT_VERB_RECV) {
            step->verb = TT_VERB_SEND;
            step->src_buffer = step->dst_buffer & 15U;
            step->src_chunk = step->dst_chunk;
            return true;
        }
        step->verb = TT_VERB_RECV; /* nothing is combined */
        return s->steps[i].verb == TT_VERB_RECV_REDUCE;
    case FLIP_LEFT:
        step->flags ^= TT_LEFT;
        return true;
    case FLIP_FINAL:
        step->flags ^= TT_FINAL;
        return true;
    case FLIP_TREE:
        step->flags ^= TT_FOLD_TREE;
        return true;
    default:
        for (uint32_t k = 0; step->fold_index == 0 && k < step->fold_count; k++)
            step[k].flags ^= TT_FOLD_TREE;
        return step->fold_count > 1 && step->fold_index == 0;
    }
}

/* The mutant, or false if there is none of this kind (then *c is to be freed all the same). */
static bool mutate(struct tt_schedule *c, const struct tt_schedule *s, uint32_t i, uint32_t kind)
{
    *c = clone(s);
    bool is = true;
    if (kind >= EDGE) {
        struct tt_step *step = &c->steps[i];
        is = kind - EDGE < step->dep_count;
        if (is) {
            step->dep_count--;
            for (uint32_t k = kind - EDGE; k < step->dep_count; k++)
                c->deps[step->dep_first + k] = c->deps[step->dep_first + k + 1];
        }
    } else if (kind <= SWAP) {
        is = kind != SWAP || i + 1 < s->nsteps;
        if (is)
            rearrange(c, s, i, (enum kind)kind);
    } else {
        is = change(c, s, i, (int)kind);
    }
    relink(c);
    if (!is)
        return false;
    char before[4096], after[4096];
    cr_assert_lt(tt_schedule_print(s, before, sizeof before), sizeof before);
    cr_assert_lt(tt_schedule_print(c, after, sizeof after), sizeof after);
    return strcmp(before, after) != 0; /* one chunk further may be the same chunk */
}

struct census {
    char *text; /* of the list */
    char *listed[LISTED_MAX], *reason[LISTED_MAX];
    bool met[LISTED_MAX];
    int count;
    int mutants, refused;
};

static void open_census(struct census *census)
{
    char path[600];
    snprintf(path, sizeof path, "%s/equivalent.txt", golden_directory());
    *census = (struct census){ .text = read_text(path) };
    for (char *line = strtok(census->text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *reason = strstr(line, ": ");
        if (line[0] == '#')
            continue;
        cr_assert(reason != NULL, "no reason is given: %s", line);
        *reason = '\0';
        cr_assert_lt(census->count, LISTED_MAX);
        census->reason[census->count] = reason + 2;
        census->listed[census->count++] = line;
    }
}

/* The reason that is given, or NULL. */
static const char *listed_reason(struct census *census, const char *name)
{
    for (int k = 0; k < census->count; k++)
        if (strcmp(census->listed[k], name) == 0) {
            census->met[k] = true;
            return census->reason[k];
        }
    return NULL;
}

static bool leads_to(const struct tt_schedule *s, uint32_t step, uint32_t earlier)
{
    for (uint32_t k = 0; k < s->steps[step].dep_count; k++) {
        uint32_t d = s->deps[s->steps[step].dep_first + k];
        if (d == earlier || (d > earlier && leads_to(s, d, earlier)))
            return true;
    }
    return false;
}

/* Do steps i and i + 1 of s leave each other alone? Then it is the same partial order, whichever comes first.
 * */
static bool independent(const struct tt_schedule *s, uint32_t i)
{
    const struct tt_step *a = &s->steps[i], *b = a + 1;
    bool same_queue =
        a->peer == b->peer && a->peer != TT_NONE && (a->verb == TT_VERB_SEND) == (b->verb == TT_VERB_SEND);
    return !same_queue && a->fold_count == 1 && b->fold_count == 1 && !leads_to(s, i + 1, i);
}

/* Are steps i and i + 1 of one fold, on different sides of its own operand? */
static bool opposite(const struct tt_schedule *s, uint32_t i)
{
    const struct tt_step *a = &s->steps[i], *b = a + 1;
    return b->fold_index == a->fold_index + 1 && ((a->flags ^ b->flags) & TT_LEFT) != 0 && a->peer != b->peer;
}

static bool holds(
    const char *reason, const struct tt_schedule *s, const struct tt_schedule *c, uint32_t i, uint32_t kind)
{
    if (strcmp(reason, "independent") == 0)
        return kind == SWAP && independent(s, i);
    if (strcmp(reason, "opposite") == 0)
        return kind == SWAP && opposite(s, i);
    if (strcmp(reason, "implied") == 0)
        return kind >= EDGE && leads_to(c, i, s->deps[s->steps[i].dep_first + kind - EDGE]);
    if (strcmp(reason, "paces") == 0)
        return kind >= EDGE &&
               (strcmp(s->algorithm, "pairwise") == 0 || strcmp(s->algorithm, "hierarchical_circulant") == 0);
    if (strcmp(reason, "commutes") == 0)
        return kind == FLIP_LEFT && tt_algorithms[s->key.algorithm].association == TT_ASSOCIATION_UNORDERED;
    bool cells = kind >= DST_NEXT && kind <= SRC_BEFORE;
    return strcmp(reason, "token") == 0 && s->key.collective == TT_BARRIER &&
           (cells || kind == VERB || kind == FLIP_LEFT);
}

static void try_mutant(struct census *census, struct schedule_set *set, int r, uint32_t i, uint32_t kind,
    const struct tt_proof *proof, const char *golden)
{
    const struct tt_schedule *s = &set->schedules[r];
    struct tt_schedule c;
    if (mutate(&c, s, i, kind)) {
        char name[NAME_BYTES], edge[16] = "";
        if (kind >= EDGE)
            snprintf(edge, sizeof edge, " %u", s->deps[s->steps[i].dep_first + kind - EDGE]);
        snprintf(name, sizeof name, "%s rank %d step %u %s%s", golden, r, i, kinds[kind < EDGE ? kind : EDGE],
            edge);
        struct tt_proof_report report;
        set->list[r] = &c;
        bool proven = tt_verify(set->list, set->n, proof, &report);
        const char *reason = listed_reason(census, name);
        set->list[r] = s;
        census->mutants++;
        census->refused += !proven;
        cr_expect(proven || report.text[0] != '\0', "refused without a sentence: %s", name);
        cr_expect(!proven || reason != NULL, "proven, but not listed as equivalent: %s", name);
        cr_expect(proven || reason == NULL, "listed as equivalent, but refused: %s: %s", name, report.text);
        cr_expect(reason == NULL || holds(reason, s, &c, i, kind), "the reason does not hold: %s: %s", name,
            reason);
    }
    tt_schedule_free(&c);
}

/* What four ranks out of place do not show: folds in blocks, other powers, copies, hazards in place. */
static const struct {
    const char *name;
    enum tt_collective collective;
    const char *algorithm;
    int n, root;
    bool in_place, exact;
    const char *topology;
} extras[] = {
    { "reduce_direct_n10_exact", TT_REDUCE, "direct", 10, 9, false, true, NULL },
    { "all_reduce_one_shot_in_place_exact", TT_ALL_REDUCE, "one_shot", 4, 0, true, true, NULL },
    { "all_reduce_doubling_n6_in_place", TT_ALL_REDUCE, "doubling", 6, 0, true, false, NULL },
    { "all_reduce_halving_n6_in_place", TT_ALL_REDUCE, "halving", 6, 0, true, false, NULL },
    { "broadcast_split_n3_in_place", TT_BROADCAST, "split", 3, 2, true, false, NULL },
    { "all_reduce_double_tree_n5_in_place", TT_ALL_REDUCE, "double_tree", 5, 0, true, false, NULL },
    { "reduce_scatter_circulant_n7", TT_REDUCE_SCATTER, "circulant", 7, 0, false, false, NULL },
    { "all_to_all_pairwise_n3_in_place", TT_ALL_TO_ALL, "pairwise", 3, 0, true, false, NULL },
    { "all_to_all_direct_n3_in_place", TT_ALL_TO_ALL, "direct", 3, 0, true, false, NULL },
    { "all_reduce_hierarchical_n5", TT_ALL_REDUCE, "hierarchical", 5, 0, false, false, "0-1/2-4" },
    { "all_gather_hierarchical_n4_interleaved", TT_ALL_GATHER, "hierarchical", 4, 0, true, false, "0,2/1,3" },
};
enum { EXTRAS = sizeof extras / sizeof extras[0] };

static void try_all(
    struct census *census, struct schedule_set *set, const struct tt_algorithm *a, const char *name)
{
    struct tt_proof proof = proof_of(a, set->list[0]->key.exact, set->list[0]->key.topology);
    for (int r = 0; r < set->n; r++)
        for (uint32_t i = 0; i < set->schedules[r].nsteps; i++)
            for (uint32_t kind = 0; kind < EDGE + (uint32_t)set->schedules[r].steps[i].dep_count; kind++)
                try_mutant(census, set, r, i, kind, &proof, name);
    set_free(set);
}

Test(mutants, all_are_refused_or_listed)
{
    static struct census census;
    open_census(&census);
    for (int g = 0; g < golden_count(); g++) {
        struct schedule_set set = golden_set(g);
        char name[64];
        golden_name(g, name, sizeof name);
        try_all(&census, &set, &tt_algorithms[golden_row(g)], name);
    }
    for (int e = 0; e < EXTRAS; e++) {
        int row = tt_algorithm_find(extras[e].collective, extras[e].algorithm);
        struct tt_key key = { .collective = (uint8_t)extras[e].collective, .algorithm = (uint8_t)row };
        key.n = extras[e].n;
        key.root = extras[e].root;
        key.exact = extras[e].exact;
        struct tt_topology *topology = extras[e].topology != NULL ? topology_of(extras[e].topology) : NULL;
        key.topology = topology;
        struct schedule_set set = set_build(key, extras[e].in_place ? UINT64_MAX : 0);
        try_all(&census, &set, &tt_algorithms[row], extras[e].name);
        if (topology != NULL)
            topology_free(topology);
    }
    for (int k = 0; k < census.count; k++)
        cr_expect(census.met[k], "listed as equivalent, but there is no such mutant: %s", census.listed[k]);
    cr_log_info("%d mutants: %d refused, %d equivalent\n", census.mutants, census.refused,
        census.mutants - census.refused);
    free(census.text);
}
