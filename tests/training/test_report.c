/* SPDX-License-Identifier: BSD-3-Clause */
/* test_report.c: what is told of a step follows from the executor's clock. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "training/commands/prepare.h"
#include "training/report/report.h"

/* What a function that prints has printed. */
static char text[16384];
static FILE *file;

static FILE *begin(void)
{
    file = tmpfile();
    cr_assert_not_null(file);
    return file;
}

static const char *end(void)
{
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

/* A step of the first of two stages, as if it were the only rank: computing takes 10 ns an instruction,
 * receiving 1000, all else 100. */
Test(report, follows_from_the_clock)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_error e;
    struct tr_report report;
    struct tr_runner r = { .step = 1 };
    int64_t recv = 0, talk = 0, pipeline = 0;
    tr_options_default(&o);
    o.plan.sizes.pp = 2, o.plan.micros = 4;
    cr_assert(tr_prepare(&p, &o, &e), "%s", e.text);
    const struct tr_tape *t = &p.tapes->of[0];
    r.tape = t, r.timed.known = true;
    r.clock = tr_new((size_t)t->n_instrs + 1, sizeof *r.clock);
    tr_ledger_predict(&r.predicted, t);
    r.predicted.entries[0].wire = 1000, r.predicted.entries[1].wire = 77; /* as Tutti would tell */
    for (int n = 0; n < t->n_instrs; n++) {
        const struct tr_instr *i = &t->instrs[n];
        bool talks =
            i->code == TR_ALL_REDUCE || i->code == TR_SEND || i->code == TR_WAIT || i->code == TR_TIE;
        int64_t ns = i->code == TR_RECV ? 1000 : talks ? 100 : 10;
        r.clock[n + 1] = r.clock[n] + ns;
        recv += i->code == TR_RECV ? ns : 0, talk += talks ? ns : 0;
        pipeline = i->part >= 0 ? r.clock[n + 1] : pipeline;
    }
    cr_assert(tr_report_make(&report, &r, &p.run.schedule, &e), "%s", e.text);
    double step = (double)r.clock[t->n_instrs];
    cr_expect_eq(recv, 4 * 1000);
    cr_expect_float_eq(report.ms, step / 1e6, 1e-9);
    cr_expect_float_eq(report.tokens, 8 * 64 / step * 1e9, 1);
    cr_expect_float_eq(report.measured, (double)recv / (2 * (double)pipeline), 1e-9);
    cr_expect_float_eq(report.exposed, (double)talk / step, 1e-9);
    cr_expect_float_eq(report.formula, 0.2, 1e-9);
    cr_expect_float_eq(report.simulated, 0.2, 1e-9);
    cr_expect_eq(report.sent, 1077);
    cr_expect_eq(report.peak, t->peak_total);
    r.timed.known = false; /* of a device these are the times at which instructions were begun there */
    cr_assert(tr_report_make(&report, &r, &p.run.schedule, &e), "%s", e.text);
    cr_expect(isnan(report.measured) && isnan(report.exposed) && isnan(report.simulated));
    cr_expect_float_eq(report.ms, step / 1e6, 1e-9);
    free(r.clock);
    tr_prepared_free(&p);
}

static const struct tr_report of_pipeline = { .step = 12,
    .loss = 5.558892,
    .norm = 1.44249,
    .ms = 111.84,
    .tokens = 4578.4,
    .formula = 0.2,
    .simulated = 0.205,
    .measured = 0.381,
    .exposed = 0.163,
    .sent = 448512,
    .peak = 4943360 };

Test(report, line)
{
    tr_line(begin(), &of_pipeline);
    cr_expect_str_eq(end(),
        "    12   5.558892   1.442490     111.8      4578     20.0    20.5    38.1     16.3"
        "        448512       4943360\n");
    struct tr_report r = of_pipeline;
    r.formula = r.simulated = r.measured = NAN;
    tr_line(begin(), &r);
    cr_expect_not_null(strstr(end(), "4578        -       -       -     16.3"), "%s", text);
    tr_line_hex(begin(), &r);
    cr_expect_eq(strncmp(end(), "step 12 loss 5.558892 0x1.63c4e", 30), 0, "%s", text);
}

Test(report, json)
{
    struct tr_runner runner = { .step = 13 };
    struct tr_report r = of_pipeline;
    r.loss = 0.5, r.formula = NAN;
    tr_json_step(begin(), &r, &runner);
    const char *first = strstr(end(), "{\"event\": \"step\", \"step\": 12, \"loss\": 0.5, ");
    cr_expect_eq(first, text, "%s", text);
    cr_expect_not_null(strstr(text, "\"bubble_formula\": null, "), "%s", text);
    cr_expect_not_null(
        strstr(text, ", \"sent\": 448512, \"peak\": 4943360, \"messages\": []}\n"), "%s", text);
}

/* A call that is refused leaves the communicator as it was, without an error of its own. */
Test(report, a_call_that_is_refused_has_a_reason)
{
    tutti_id id;
    tutti_comm *comm, *part;
    cr_assert_eq(tutti_get_id(&id), TUTTI_OK);
    cr_assert_eq(tutti_comm_init_rank(1, 0, &id, NULL, &comm), TUTTI_OK);
    cr_assert_eq(tutti_comm_split(comm, -7, 0, NULL, &part), TUTTI_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tr_why(comm), "color"), "%s", tr_why(comm));
    cr_expect_eq(tutti_comm_destroy(comm), TUTTI_OK);
}
