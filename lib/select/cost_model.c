/* SPDX-License-Identifier: BSD-3-Clause */
/* cost_model.c: from a cost query to schedules, slices and their simulation, and the choice. */
#include "select/cost_model.h"

#include <stdlib.h>
#include <string.h>

#include "select/simulate.h"
#include "base/status.h"

enum { LEAST_SLICES = 2, EQUAL = 256 /* times that differ by less than one part in so many are equal */ };
#define BYTES_MAX ((uint64_t)1 << 30) /* beyond, the times of all algorithms grow by the same factor */

static tutti_status build(const struct tt_cost_query *q, int algorithm, int me, struct tt_schedule *schedule)
{
    const struct tt_collective_row *row = &tt_collectives[q->collective];
    struct tt_key key = { .collective = (uint8_t)q->collective,
        .algorithm = (uint8_t)algorithm,
        .exact = q->requirements.exact && (row->result == TT_RESULT_REDUCED || q->collective == TT_BARRIER),
        .n = q->requirements.n,
        .me = me,
        .topology = q->requirements.topology };
    return tt_schedule_build(schedule, &key);
}

/* The layout of a call; where one rank stands for all, all chunks are as long as the longest. */
static struct tt_layout lay_out(
    const struct tt_cost_query *q, const struct tt_schedule *s, bool representative)
{
    struct tt_layout layout;
    uint64_t bytes = q->bytes < BYTES_MAX ? q->bytes : BYTES_MAX;
    uint64_t count = bytes / q->element_bytes + (bytes % q->element_bytes > 0);
    uint64_t n = (uint64_t)q->requirements.n;
    if (tt_collectives[q->collective].blocks) /* of one length each */
        count = (count + n - 1) / n * n;
    uint64_t longest = count / s->chunks + (count % s->chunks > 0);
    if (representative)
        count = longest * s->chunks;
    struct tt_slicing slicing = tt_layout_slicing(longest, q->slot_bytes, q->element_bytes, s->max_chunks);
    tt_layout_even(&layout, count, s->chunks, slicing.slices, q->element_bytes);
    return layout;
}

/* Extends a prediction to all slices: each of the rest takes as long as one of those that `more` simulated
 * beyond `fewer`, which simulated half as many. */
static void go_on(const struct tt_simulation_result *more, const struct tt_simulation_result *fewer,
    struct tt_prediction *prediction)
{
    uint64_t half = prediction->simulated - prediction->simulated / 2,
             rest = prediction->slices - prediction->simulated;
    prediction->total += (more->total - fewer->total) / half * rest;
    for (int i = 0; i < TT_COST_PARTS; i++)
        if (more->parts[i] > fewer->parts[i])
            prediction->parts[i] += (more->parts[i] - fewer->parts[i]) / half * rest;
}

static tutti_status simulate(const struct tt_cost_query *q, const struct tt_schedule *schedules, int ranks,
    uint64_t limit, struct tt_prediction *prediction)
{
    bool representative = ranks < q->requirements.n;
    struct tt_layout layout = lay_out(q, &schedules[0], representative);
    struct tt_simulation_result result, half;
    uint64_t steps = (uint64_t)schedules[0].nsteps * (uint64_t)ranks;
    uint32_t slices = layout.slices < TT_COST_SLICES ? layout.slices : TT_COST_SLICES;
    while (slices > LEAST_SLICES && slices * steps > TT_COST_STEPS)
        slices = slices / 2 > LEAST_SLICES ? slices / 2 : LEAST_SLICES;
    struct tt_simulation_params params = { q, schedules, ranks, &layout, slices, limit };
    tutti_status status = tt_cost_simulate(&params, &result);
    if (status != TUTTI_OK)
        return status;
    *prediction = (struct tt_prediction){
        .total = result.total, .slices = layout.slices, .simulated = slices, .representative = representative
    };
    memcpy(prediction->parts, result.parts, sizeof prediction->parts);
    if (slices == layout.slices || result.total == UINT64_MAX)
        return TUTTI_OK;
    params.slices = slices / 2;
    status = tt_cost_simulate(&params, &half);
    if (status == TUTTI_OK)
        go_on(&result, &half, prediction);
    return status;
}

/* Returns the steps of all ranks, counted by those of two: rank 0 may be a root that does the work of all,
 * and rank 1 is one of many. */
static uint64_t steps_of_all(const struct tt_schedule *two, int n)
{
    return two[0].nsteps + (uint64_t)two[1].nsteps * (uint64_t)(n - 1);
}

/* Predicts UINT64_MAX for a time beyond the limit. */
static tutti_status predict_within(
    const struct tt_cost_query *q, int algorithm, uint64_t limit, struct tt_prediction *prediction)
{
    struct tt_schedule first;
    tutti_status status = build(q, algorithm, 0, &first);
    if (status != TUTTI_OK)
        return status;
    if (first.max_chunks > 1 &&
        (q->requirements.long_elements || (uint64_t)first.max_chunks * TT_ELEMENT_BYTES > q->slot_bytes)) {
        tt_schedule_free(&first); /* an element of each chunk of a message might not fit a slot */
        *prediction = (struct tt_prediction){ .total = UINT64_MAX };
        return TUTTI_OK;
    }
    int n = q->requirements.n, ranks = n, built = 1;
    struct tt_schedule *schedules = calloc((size_t)n, sizeof *schedules);
    if (schedules == NULL) {
        tt_schedule_free(&first);
        return tt_fail(TUTTI_OUT_OF_MEMORY, "no memory to predict the time of an algorithm on %d ranks", n);
    }
    schedules[0] = first;
    for (; built < ranks && status == TUTTI_OK; built += status == TUTTI_OK) {
        status = build(q, algorithm, built, &schedules[built]);
        if (status == TUTTI_OK && built == 1 && steps_of_all(schedules, n) > TT_COST_SIMULATED)
            ranks = 1;
    }
    if (status == TUTTI_OK)
        status = simulate(q, schedules, ranks, limit, prediction);
    for (int r = 0; r < built; r++)
        tt_schedule_free(&schedules[r]);
    free(schedules);
    return status;
}

tutti_status tt_cost_predict(const struct tt_cost_query *q, int algorithm, struct tt_prediction *prediction)
{
    return predict_within(q, algorithm, UINT64_MAX, prediction);
}

static bool eligible(const struct tt_cost_query *q, int algorithm)
{
    const struct tt_algorithm *a = &tt_algorithms[algorithm];
    return a->collective == q->collective && tt_algorithm_refuse(a, q->requirements) == NULL;
}

tutti_status tt_cost_choose(const struct tt_cost_query *q, int *algorithm)
{
    int best = -1, count = 0;
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < tt_algorithm_count; i++)
        if (eligible(q, i)) {
            best = i;
            count++;
        }
    for (int i = 0; i < tt_algorithm_count && count > 1 && q->requirements.n > 1; i++) {
        struct tt_prediction prediction;
        tutti_status status = eligible(q, i) ? predict_within(q, i, least, &prediction) : TUTTI_OK;
        if (status != TUTTI_OK)
            return status;
        if (eligible(q, i) && prediction.total < least - least / EQUAL) {
            least = prediction.total;
            best = i;
        }
    }
    *algorithm = best;
    return TUTTI_OK;
}
