/* SPDX-License-Identifier: BSD-3-Clause */
/* test_async.c: what asynchronous pipelines keep, and the simulator that they are compared with. That they
 * are equal to it is what `tutti-train verify` shows. */
#include "training/verify/golden.h"
#include "training/commands/prepare.h"
#include "training/passes/versions.h"

#include <criterion/criterion.h>
#include <string.h>

static struct tr_options options_of(const char *model, enum tr_async async, long pp, int micro, int batch)
{
    struct tr_options o;
    tr_options_default(&o);
    strcpy(o.model.name, model), strcpy(o.files.data, "grammar"), o.plan.pipeline.async = async;
    o.plan.sizes.pp = pp, o.plan.micros = micro, o.plan.batch = batch, o.plan.optimizer.clip = 0;
    o.model.sizes.untied = !strncmp(model, "gpt", 3);
    return o;
}

static void versions_of(struct tr_versions *v, enum tr_async async, int stages, int micros, int stage)
{
    struct tr_plan p = { .mesh.size = { stages, 1, 1, 1, 1, 1 }, .micros = micros, .pipeline.async = async };
    struct tr_schedule s;
    struct tr_error e = { .text = "" };
    cr_assert(tr_schedule_make(&s, "1f1b", stages, 1, micros, &e), "%s", e.text);
    tr_versions_make(v, &p, s.slots[stage], s.count[stage]);
    tr_schedule_free(&s);
}

/* PipeDream: P - s versions on stage s, and what forward reads is P - 1 - s updates old. */
Test(async, stash_keeps_as_many_versions_as_are_in_flight)
{
    for (int stages = 2; stages <= 8; stages++)
        for (int stage = 0; stage < stages; stage++) {
            struct tr_versions v;
            versions_of(&v, TR_ASYNC_STASH, stages, 4 * stages, stage);
            cr_assert_eq(v.buffers, stages - stage, "%d stages, %d: %d", stages, stage, v.buffers);
            for (int k = 0; k < 4 * stages; k++) {
                int due = k - (stages - 1 - stage);
                cr_assert_eq(v.forward[k], due > 0 ? due : 0);
                cr_assert_eq(v.backward[k], v.forward[k]);
            }
            cr_assert_eq(v.buffer[v.updates], 0);
            tr_versions_free(&v);
        }
}

/* How old the weights are is told to the user by a formula; here it is what the versions say. */
static void ages_are_said(enum tr_async async, int stages, int micros, int stage)
{
    struct tr_plan p = { .mesh.size = { stages, 1, 1, 1, 1 }, .micros = micros, .pipeline.async = async };
    struct tr_versions v;
    int oldest = 0;
    versions_of(&v, async, stages, micros, stage);
    for (int k = 0; k < micros; k++) {
        int age = k / tr_update_micros(&p) - v.forward[k];
        oldest = age > oldest ? age : oldest;
    }
    cr_assert_eq(tr_staleness(&p, stage), oldest, "%s, %d stages, %d: %d, not %d", tr_async_names[async],
        stages, stage, tr_staleness(&p, stage), oldest);
    tr_versions_free(&v);
}

Test(async, weights_are_as_old_as_is_said)
{
    for (int async = TR_ASYNC_STASH; async < TR_ASYNCS; async++)
        for (int stages = 2; stages <= 8; stages++)
            for (int stage = 0; stage < stages; stage++) {
                ages_are_said((enum tr_async)async, stages, stages, stage);
                ages_are_said((enum tr_async)async, stages, 4 * stages, stage);
            }
}

Test(async, two_keeps_two_and_newest_one)
{
    for (int stages = 2; stages <= 8; stages++)
        for (int stage = 0; stage < stages; stage++) {
            struct tr_versions v;
            versions_of(&v, TR_ASYNC_TWO, stages, 4 * stages, stage);
            cr_assert_eq(v.buffers, 2);
            for (int k = 0; k < 4 * stages; k++)
                cr_assert_eq(v.forward[k], k < 2 * stages ? 0 : k / stages - 1);
            tr_versions_free(&v);
            versions_of(&v, TR_ASYNC_NEWEST, stages, 4 * stages, stage);
            cr_assert_eq(v.buffers, 1);
            for (int k = 0; k < 4 * stages; k++)
                cr_assert_eq(v.backward[k], k);
            tr_versions_free(&v);
        }
}

/* Windows that are shorter than the pipeline, too. */
Test(async, no_version_is_overwritten_before_its_last_reader)
{
    for (int stages = 2; stages <= 5; stages++)
        for (int micros = 1; micros <= 12; micros++)
            for (int stage = 0; stage < stages; stage++) {
                struct tr_versions v;
                int held[64] = { 0 };
                struct tr_schedule s;
                struct tr_error e = { .text = "" };
                versions_of(&v, TR_ASYNC_STASH, stages, micros, stage);
                cr_assert(tr_schedule_make(&s, "1f1b", stages, 1, micros, &e), "%s", e.text);
                for (int k = 0, done = 0; k < s.count[stage]; k++) {
                    struct tr_slot slot = s.slots[stage][k];
                    int version = slot.part == TR_F ? v.forward[slot.micro] : v.backward[slot.micro];
                    cr_assert_eq(held[v.buffer[version]], version);
                    if (slot.part == TR_B)
                        done++, held[v.buffer[done]] = done;
                }
                tr_schedule_free(&s);
                tr_versions_free(&v);
            }
}

/* Without other stages there are no older versions: the simulator is then the golden program. */
Test(async, simulator_of_one_stage_is_the_golden_program)
{
    static const char *const models[] = { "gpt:nano", "mlp:nano", "cnn:nano" };
    for (int m = 0; m < 3; m++) {
        struct tr_options plain = options_of(models[m], TR_ASYNC_OFF, 1, 1, 2),
                          stale = options_of(models[m], TR_ASYNC_STASH, 1, 2, 4);
        struct tr_run run;
        struct tr_golden a, b;
        struct tr_error e = { .text = "" };
        plain.steps = 4, stale.steps = 2;
        cr_assert(tr_run_make(&run, &plain, &e), "%s", e.text);
        cr_assert(tr_golden_make(&a, &plain, &run.graph, &e), "%s", e.text);
        cr_assert(tr_golden_make(&b, &stale, &run.graph, &e), "%s", e.text);
        cr_assert_eq(a.steps, b.steps);
        cr_assert_arr_eq(a.loss, b.loss, 4 * sizeof(double), "%s", models[m]);
        cr_assert_arr_eq(a.norm, b.norm, 4 * sizeof(double), "%s", models[m]);
        cr_assert_arr_eq(a.values, b.values, (size_t)a.count * sizeof(float), "%s", models[m]);
        tr_golden_free(&a), tr_golden_free(&b);
        tr_run_free(&run);
    }
}

/* With other stages each way to keep versions is another run, from the first stale gradient on. */
Test(async, ways_to_keep_versions_differ)
{
    static const enum tr_async ways[] = { TR_ASYNC_STASH, TR_ASYNC_NEWEST, TR_ASYNC_TWO };
    double loss[3], first[3];
    for (int w = 0; w < 3; w++) {
        struct tr_options o = options_of("mlp:nano", ways[w], 2, 8, 16);
        struct tr_run run;
        struct tr_golden g;
        struct tr_error e = { .text = "" };
        o.steps = 1;
        cr_assert(tr_run_make(&run, &o, &e), "%s", e.text);
        cr_assert(tr_golden_make(&g, &o, &run.graph, &e), "%s", e.text);
        loss[w] = g.loss[g.steps - 1], first[w] = g.loss[0];
        tr_golden_free(&g);
        tr_run_free(&run);
    }
    cr_assert_eq(first[0], first[1]);
    cr_assert_neq(loss[0], loss[1]);
    cr_assert_neq(loss[0], loss[2]);
}

/* The planned memory of parameters: so many times those of one version. */
Test(async, memory_of_versions_is_planned)
{
    static const enum tr_async ways[] = { TR_ASYNC_NEWEST, TR_ASYNC_STASH, TR_ASYNC_TWO };
    int64_t one[2] = { 0 };
    for (int w = 0; w < 3; w++) {
        struct tr_options o = options_of("mlp:nano", ways[w], 2, 8, 16);
        struct tr_prepared p;
        struct tr_error e = { .text = "" };
        cr_assert(tr_prepare(&p, &o, &e), "%s", e.text);
        for (int stage = 0; stage < 2; stage++) {
            int64_t bytes = p.tapes->of[stage].peak[TR_MEM_PARAMETER];
            one[stage] = w == 0 ? bytes : one[stage];
            int least = w == 0 ? 1 : w == 1 ? 2 - stage : 2;
            cr_assert(bytes <= least * one[stage] && bytes > (least - 1) * one[stage],
                "%s, stage %d: %lld bytes, of one version %lld", tr_async_names[ways[w]], stage,
                (long long)bytes, (long long)one[stage]);
        }
        tr_prepared_free(&p);
    }
}
