/* SPDX-License-Identifier: BSD-3-Clause */
/* cost_model.c: from a cost query to schedules, slices and their simulation, and the choice. */
#include "select/cost_model.h"

#include <stdlib.h>
#include <string.h>

#include "select/simulate.h"
#include "base/status.h"

enum {
    LEAST_SLICES = 2,
    LIKENESS = 8, /* ranks have about as much to do if it differs by less than one part in so many */
    EQUAL = 256, /* times that differ by less than one part in so many are equal */
    FEWEST = 8, /* ranks: all are simulated without a look */
    FEW = 1024, /* ranks: among so many any algorithm is simulated in no time */
    CANDIDATES = 32, /* algorithms of one collective */
};
#define BYTES_LESS ((uint64_t)1 << 30)
#define SLICES_MAX ((uint64_t)1 << 31) /* what would be cut into more of them has no place in any memory */

/* The layout of a call; where one rank stands for all, all chunks are as long as the longest. */
static struct tt_layout lay_out(
    const struct tt_cost_query *q, const struct tt_schedule *s, bool representative)
{
    struct tt_layout layout;
    uint64_t most = tt_costs_product(q->slot_bytes, SLICES_MAX), bytes = q->bytes < most ? q->bytes : most;
    uint64_t count = bytes / q->element_bytes + (bytes % q->element_bytes > 0);
    uint64_t n = (uint64_t)q->requirements.n;
    if (q->blocks != NULL) {
        layout = *q->blocks;
        layout.slices =
            tt_layout_slicing(tt_layout_part_max(&layout), q->slot_bytes, q->element_bytes, s->max_chunks)
                .slices;
        return layout;
    }
    if (tt_collectives[q->collective].blocks) /* of one length each */
        count = (count + n - 1) / n * n;
    uint64_t longest = count / s->chunks + (count % s->chunks > 0);
    if (representative)
        count = longest * s->chunks;
    struct tt_slicing slicing = tt_layout_slicing(longest, q->slot_bytes, q->element_bytes, s->max_chunks);
    tt_layout_even(&layout, count, s->chunks, slicing.slices, q->element_bytes);
    return layout;
}

static uint64_t extended(uint64_t more, uint64_t fewer, uint64_t half, uint64_t rest)
{
    uint64_t each = more > fewer ? (more - fewer) / half : 0;
    return tt_costs_sum(more, tt_costs_product(each, rest));
}

/* Extends a prediction to all slices: each of the rest takes as long as one of those that `more` simulated
 * beyond `fewer`, which simulated half as many. */
static void go_on(const struct tt_simulation_result *more, const struct tt_simulation_result *fewer,
    struct tt_prediction *prediction)
{
    uint64_t half = prediction->simulated - prediction->simulated / 2,
             rest = prediction->slices - prediction->simulated;
    prediction->total = extended(more->total, fewer->total, half, rest);
    for (int i = 0; i < TT_COST_PARTS; i++)
        prediction->parts[i] = extended(more->parts[i], fewer->parts[i], half, rest);
}

static tutti_status simulate(const struct tt_cost_query *q, const struct tt_schedule *schedules, int ranks,
    const struct tt_classes *classes, uint64_t sharers, struct tt_prediction *prediction)
{
    bool representative = ranks < q->requirements.n;
    struct tt_layout layout = lay_out(q, &schedules[0], representative);
    struct tt_simulation_result result, half;
    uint64_t steps = 0;
    for (int r = 0; r < ranks; r++)
        steps += schedules[r].nsteps;
    uint32_t slices = layout.slices < TT_COST_SLICES ? layout.slices : TT_COST_SLICES;
    while (slices > LEAST_SLICES && slices * steps > TT_COST_STEPS)
        slices = slices / 2 > LEAST_SLICES ? slices / 2 : LEAST_SLICES;
    struct tt_simulation_params params = { q, schedules, ranks, classes, sharers, &layout, slices,
        q->limit != 0 ? q->limit : UINT64_MAX, true };
    tutti_status status = tt_cost_simulate(&params, &result);
    if (status != TUTTI_OK)
        return status;
    *prediction = (struct tt_prediction){ .total = result.total,
        .rank = result.rank,
        .slices = layout.slices,
        .simulated = slices,
        .representative = representative };
    memcpy(prediction->parts, result.parts, sizeof prediction->parts);
    if (slices == layout.slices || result.total == UINT64_MAX)
        return TUTTI_OK;
    params.slices = slices / 2;
    params.logs = false;
    status = tt_cost_simulate(&params, &half);
    if (status == TUTTI_OK)
        go_on(&result, &half, prediction);
    return status;
}

/* Simulates the first ranks of these classes, whose schedules need no counts of messages; NULL: all ranks,
 * and takes the schedule of rank 0, which is there. */
static tutti_status simulate_ranks(const struct tt_cost_query *q, int algorithm,
    const struct tt_classes *classes, struct tt_schedule *first, struct tt_prediction *prediction)
{
    int n = q->requirements.n, ranks = classes != NULL ? classes->count : n, built = 0;
    struct tt_schedule *schedules = calloc((size_t)ranks, sizeof *schedules);
    tutti_status status = TUTTI_OK;
    if (schedules == NULL)
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks", n);
    if (first != NULL) {
        schedules[built++] = *first;
        *first = (struct tt_schedule){ 0 };
    }
    for (; built < ranks && status == TUTTI_OK; built += status == TUTTI_OK)
        status = tt_cost_build(q, algorithm, classes != NULL ? classes->first[built] : built,
            classes != NULL ? classes->counts : NULL, &schedules[built]);
    if (status == TUTTI_OK)
        status = simulate(q, schedules, ranks, classes, 1, prediction);
    for (int r = 0; r < built; r++)
        tt_schedule_free(&schedules[r]);
    free(schedules);
    return status;
}

static tutti_status simulate_classes(
    const struct tt_cost_query *q, int algorithm, struct tt_prediction *prediction)
{
    struct tt_classes classes;
    tutti_status status = tt_classes_find(q, algorithm, &classes);
    if (status != TUTTI_OK)
        return status;
    status = simulate_ranks(q, algorithm, &classes, NULL, prediction);
    tt_classes_free(&classes);
    return status;
}

struct subjects {
    enum tt_cost_subjects which;
    int busiest; /* of one alone: this rank ... */
    uint64_t sharers; /* ... and how many of its host send as it does */
};

static tutti_status simulate_one(
    const struct tt_cost_query *q, int algorithm, struct subjects subjects, struct tt_prediction *prediction)
{
    struct tt_schedule schedule;
    tutti_status status = tt_cost_build(q, algorithm, subjects.busiest, NULL, &schedule);
    if (status != TUTTI_OK)
        return status;
    status = simulate(q, &schedule, 1, NULL, subjects.sharers, prediction);
    tt_schedule_free(&schedule);
    return status;
}

/* What a rank has to do: steps, chunks that it sends, of these to other hosts, and that it receives, and the
 * price of all. */
struct load {
    uint64_t steps, sent, away, received, price;
};

static struct load load_of(const struct tt_cost_query *q, const struct tt_schedule *s)
{
    struct load load = { .steps = s->nsteps };
    uint64_t chunk = q->bytes / s->chunks + 1;
    for (uint32_t i = 0; i < s->nsteps; i++) {
        const struct tt_step *step = &s->steps[i];
        if (step->peer == TT_NONE)
            continue;
        enum tt_level level = tt_cost_level(q, s->key.me, step->peer);
        load.price += q->costs->message[level];
        if (step->verb == TT_VERB_SEND) {
            load.sent += step->nchunks;
            load.away += level == TT_AWAY ? step->nchunks : 0;
        } else {
            load.received += step->nchunks;
            load.price = tt_costs_sum(
                load.price, tt_costs_product(q->costs->byte[level], tt_costs_product(chunk, step->nchunks)));
        }
    }
    return load;
}

static bool are_near(uint64_t a, uint64_t b)
{
    uint64_t more = a > b ? a : b;
    return more - (a < b ? a : b) <= more / LIKENESS;
}

static bool are_alike(struct load a, struct load b)
{
    return are_near(a.steps, b.steps) && are_near(a.sent, b.sent) && are_near(a.received, b.received);
}

/* Returns what it takes to build a schedule, which notes who last used each chunk. */
static uint64_t work_of(struct load load)
{
    return load.steps + load.sent + load.received;
}

/* Returns what the messages of a rank cost it at least, where that is worth a look. */
static uint64_t floor_of(const struct tt_cost_query *q, const struct tt_schedule *s)
{
    uint64_t floor = 0;
    for (uint32_t i = 0; i < s->nsteps && q->requirements.n > FEW; i++)
        if (s->steps[i].peer != TT_NONE)
            floor += q->costs->message[tt_cost_level(q, s->key.me, s->steps[i].peer)];
    return floor;
}

/* Looks at some ranks: rank 0 may be a root that does the work of all, and rank 1 is one of many. Where all
 * have about as much to do, as in a ring or where all talk to all, one stands for all. Else one is simulated
 * only if classes would take too long. It is the one for which that is dearest. */
static tutti_status pick_subjects(
    const struct tt_cost_query *q, int algorithm, const struct tt_schedule *first, struct subjects *subjects)
{
    int n = q->requirements.n;
    int others[] = { 1, n / 2, n - 1 };
    struct load of_first = load_of(q, first);
    uint64_t steps = first->nsteps, work = 0, most = of_first.price, away = of_first.away, most_away = away;
    bool alike = true;
    *subjects = (struct subjects){ TT_COST_ALL, 0, 1 };
    if (n <= FEWEST)
        return TUTTI_OK;
    for (int i = 0; i < 3 && n > 1; i++) {
        struct tt_schedule other;
        tutti_status status = tt_cost_build(q, algorithm, others[i], NULL, &other);
        if (status != TUTTI_OK)
            return status;
        struct load load = load_of(q, &other);
        tt_schedule_free(&other);
        if (i == 0)
            steps += load.steps * (uint64_t)(n - 1);
        if (steps <= TT_COST_SIMULATED)
            return TUTTI_OK;
        alike = alike && are_alike(of_first, load);
        work += work_of(load);
        subjects->busiest = load.price > most ? others[i] : subjects->busiest;
        most = load.price > most ? load.price : most;
        away += load.away;
        most_away = load.away > most_away ? load.away : most_away;
    }
    uint64_t sorted = q->sorted != 0 ? q->sorted : TT_COST_SORTED;
    if (n > 1)
        subjects->which = alike || work / 3 * (uint64_t)n > sorted ? TT_COST_ONE : TT_COST_CLASSES;
    if (most_away > 0) /* as many of a host as of the four that were looked at */
        subjects->sharers = ((uint64_t)n / q->costs->hosts * away + 4 * most_away - 1) / (4 * most_away);
    return TUTTI_OK;
}

tutti_status tt_cost_predict(const struct tt_cost_query *q, int algorithm, struct tt_prediction *prediction)
{
    struct tt_schedule first;
    struct subjects subjects;
    tutti_status status = tt_cost_build(q, algorithm, 0, NULL, &first);
    if (status != TUTTI_OK)
        return status;
    /* an element of each chunk of a message might not fit a slot */
    bool fits = first.max_chunks == 1 || (!q->requirements.long_elements &&
                                             (uint64_t)first.max_chunks * TT_ELEMENT_BYTES <= q->slot_bytes);
    if (!fits || (q->limit != 0 && floor_of(q, &first) > q->limit)) {
        tt_schedule_free(&first);
        *prediction = (struct tt_prediction){ .total = UINT64_MAX };
        return TUTTI_OK;
    }
    status = pick_subjects(q, algorithm, &first, &subjects);
    if (q->subjects != TT_COST_AS_FITS)
        subjects.which = q->subjects;
    if (status == TUTTI_OK && subjects.which == TT_COST_ALL)
        status = simulate_ranks(q, algorithm, NULL, &first, prediction);
    tt_schedule_free(&first);
    if (status == TUTTI_OK && subjects.which == TT_COST_ONE)
        status = simulate_one(q, algorithm, subjects, prediction);
    if (status == TUTTI_OK && subjects.which == TT_COST_CLASSES)
        status = simulate_classes(q, algorithm, prediction);
    return status;
}

/* --- The choice */

struct candidate {
    int algorithm;
    uint64_t floor, total; /* total UINT64_MAX: beyond the limit */
    bool done;
};

/* Lists who can serve, in the order of the registry. */
static tutti_status list_candidates(const struct tt_cost_query *q, struct candidate *list, int *count)
{
    *count = 0;
    for (int i = 0; i < tt_algorithm_count; i++) {
        const struct tt_algorithm *a = &tt_algorithms[i];
        struct tt_schedule first;
        if (a->collective != q->collective || tt_algorithm_refuse(a, q->requirements) != NULL)
            continue;
        list[*count] = (struct candidate){ .algorithm = i, .total = UINT64_MAX };
        if (q->requirements.n > FEW) {
            tutti_status status = tt_cost_build(q, i, 0, NULL, &first);
            if (status != TUTTI_OK)
                return status;
            list[*count].floor = floor_of(q, &first);
            tt_schedule_free(&first);
        }
        ++*count;
    }
    return TUTTI_OK;
}

/* Predicts the candidates, those first whose messages take least, so that what sends to each of very many
 * ranks is not simulated at all. */
static tutti_status predict_candidates(
    const struct tt_cost_query *query, struct candidate *list, int count, uint64_t *least)
{
    struct tt_cost_query q = *query;
    for (int i = 0; i < count; i++) {
        struct tt_prediction prediction;
        int next = -1;
        for (int k = 0; k < count; k++)
            if (!list[k].done && (next < 0 || list[k].floor < list[next].floor))
                next = k;
        q.limit = *least == UINT64_MAX ? 0 : *least + *least / EQUAL + 1;
        tutti_status status = tt_cost_predict(&q, list[next].algorithm, &prediction);
        if (status != TUTTI_OK)
            return status;
        list[next].done = true;
        list[next].total = prediction.total;
        *least = prediction.total < *least ? prediction.total : *least;
    }
    return TUTTI_OK;
}

tutti_status tt_cost_choose(const struct tt_cost_query *q, int *algorithm)
{
    struct candidate list[CANDIDATES];
    uint64_t least = UINT64_MAX;
    int count;
    tutti_status status = list_candidates(q, list, &count);
    if (status == TUTTI_OK && count > 1 && q->requirements.n > 1)
        status = predict_candidates(q, list, count, &least);
    if (status != TUTTI_OK)
        return status;
    if (count > 1 && q->requirements.n > 1 && least == UINT64_MAX && q->bytes > BYTES_LESS) {
        struct tt_cost_query less = *q; /* all take longer than can be told */
        less.bytes = BYTES_LESS;
        return tt_cost_choose(&less, algorithm);
    }
    *algorithm = count > 0 ? list[count - 1].algorithm : -1;
    for (int i = count - 1; i >= 0 && least != UINT64_MAX; i--)
        if (list[i].total != UINT64_MAX && list[i].total - list[i].total / EQUAL <= least)
            *algorithm = list[i].algorithm;
    return TUTTI_OK;
}
