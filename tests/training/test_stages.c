/* SPDX-License-Identifier: BSD-3-Clause */
/* test_stages.c: what the stages of a pipeline hold follows from the schedule, and adds up to what the plan
 * of memory has. train.sh compares it with what runs touch. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "training/commands/prepare.h"
#include "training/tape/stages.h"

static struct tr_prepared prepared;

static void prepare(char *schedule, char *chunks)
{
    char *words[] = { "--pp", "2", "--micro", "4", "--clip", "0", "--schedule", schedule, "--chunks",
        chunks };
    struct tr_options o;
    struct tr_error e;
    tr_options_default(&o);
    cr_assert(tr_options_parse(&o, 10, words, &e) && tr_prepare(&prepared, &o, &e), "%s", e.text);
}

static struct tr_stage_room room_of(int stage)
{
    return tr_stage_room(&prepared.tapes->of[tr_plan_rank(&prepared.run.plan, stage)], stage, NULL);
}

/* Where a rank has one stage, it has that one's micro-batches and that one's activations. */
Test(stages, of_a_rank_with_one)
{
    static char *const schedules[] = { "naive", "gpipe", "1f1b", "zb-h1", "zb-h2" };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        struct tr_timing t;
        struct tr_error e;
        prepare(schedules[i], "1");
        const struct tr_schedule *s = &prepared.run.schedule;
        cr_assert(
            tr_schedule_simulate(s, &(struct tr_costs){ .f = 1, .i = 1, .w = 1 }, &t, &e), "%s", e.text);
        for (int stage = 0; stage < 2; stage++) {
            struct tr_stage_room room = room_of(stage);
            int n = tr_stage_in_flight(s, stage);
            cr_expect_eq(n, t.in_flight[stage], "%s, stage %d: %d", schedules[i], stage, n);
            cr_expect_eq(room.most, prepared.tapes->of[stage].peak[TR_MEM_ACTIVATION], "%s, stage %d: %lld",
                schedules[i], stage, (long long)room.most);
            cr_expect_geq(room.most, n * room.kept, "%s, stage %d", schedules[i], stage);
        }
        tr_timing_free(&t, 2);
        tr_prepared_free(&prepared);
    }
}

/* Of several stages each has its own peak, which come at different times. */
Test(stages, of_a_rank_with_two)
{
    static char *const schedules[] = { "interleaved", "dualpipev" };
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        int64_t sum[2] = { 0 }, most[2] = { 0 };
        prepare(schedules[i], "2");
        for (int stage = 0; stage < 4; stage++) {
            struct tr_stage_room room = room_of(stage);
            int rank = tr_plan_rank(&prepared.run.plan, stage);
            sum[rank] += room.most;
            most[rank] = room.most > most[rank] ? room.most : most[rank];
        }
        for (int rank = 0; rank < 2; rank++) {
            int64_t peak = prepared.tapes->of[rank].peak[TR_MEM_ACTIVATION];
            cr_expect(most[rank] < peak && peak <= sum[rank], "%s, rank %d: %lld, %lld, %lld", schedules[i],
                rank, (long long)most[rank], (long long)peak, (long long)sum[rank]);
        }
        tr_prepared_free(&prepared);
    }
}

Test(stages, what_was_touched_is_compared)
{
    struct tr_error e = { .text = "" };
    prepare("1f1b", "1");
    const struct tr_tape *t = &prepared.tapes->of[1];
    int64_t *touched = calloc((size_t)t->n_values, sizeof *touched),
            *scratch = calloc(tr_stages_scratch(t), sizeof *scratch);
    for (int n = 0; n < t->n_values; n++)
        touched[n] = (t->values[n].bytes + 63) / 64 * 64;
    cr_expect(tr_stages_as_planned(t, touched, scratch, &e), "%s", e.text);
    for (int n = 0; n < t->n_values; n++)
        touched[n] -= touched[n] > 64 ? 64 : 0;
    cr_expect_not(tr_stages_as_planned(t, touched, scratch, &e));
    cr_expect_not_null(strstr(e.text, "rank 1: activations of stage 1: the tape predicts"), "%s", e.text);
    free(touched), free(scratch);
    tr_prepared_free(&prepared);
}
