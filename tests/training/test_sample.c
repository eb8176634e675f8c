/* SPDX-License-Identifier: BSD-3-Clause */
/* test_sample.c: which token follows, as often as its score says; characters are written when they are whole;
 * and a list that is forward alone has nothing of learning in it. tests/training/sample.sh runs it. */
#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/training/options_rig.h"
#include "training/check/check.h"
#include "training/sample/sample.h"

enum { DRAWS = 20000 };

static void count_draws(const struct tr_drawing *d, const float *scores, int count, int *times)
{
    memset(times, 0, (size_t)count * sizeof *times);
    for (int n = 0; n < DRAWS; n++) {
        int64_t token = tr_draw(d, scores, count, n);
        cr_assert(token >= 0 && token < count);
        times[token]++;
    }
}

Test(sample, without_a_temperature_the_highest_score_follows)
{
    const float scores[] = { 1, 3, 3, -2 };
    for (uint64_t seed = 0; seed < 20; seed++)
        cr_expect_eq(tr_draw(&(struct tr_drawing){ 0, 0, seed }, scores, 4, (int64_t)seed), 1);
    cr_expect_eq(tr_draw(&(struct tr_drawing){ 1e-300, 0, 1 }, scores, 2, 0), 1, "next to no temperature");
}

/* exp(score / temperature), within four deviations: the numbers by chance are always the same. */
Test(sample, a_token_follows_as_often_as_its_score_says)
{
    const float scores[] = { 0, 1, 2, 0.5f };
    for (double temperature = 0.5; temperature < 3; temperature *= 2) {
        int times[4];
        double sum = 0;
        count_draws(&(struct tr_drawing){ temperature, 0, 7 }, scores, 4, times);
        for (int i = 0; i < 4; i++)
            sum += exp(scores[i] / temperature);
        for (int i = 0; i < 4; i++) {
            double p = exp(scores[i] / temperature) / sum, deviation = sqrt(DRAWS * p * (1 - p));
            cr_expect(fabs(times[i] - DRAWS * p) < 4 * deviation,
                "temperature %g: token %d %d times, not %.0f", temperature, i, times[i], DRAWS * p);
        }
    }
}

Test(sample, none_but_the_top_k_are_drawn)
{
    const float scores[] = { 1, 2, 2, 0, 2 };
    int times[5];
    count_draws(&(struct tr_drawing){ 1, 2, 3 }, scores, 5, times);
    cr_expect(
        times[1] > DRAWS / 3 && times[2] > DRAWS / 3 && times[1] + times[2] == DRAWS, "the first of equals");
    count_draws(&(struct tr_drawing){ 5, 4, 3 }, scores, 5, times);
    cr_expect(times[0] && times[1] && times[2] && times[4] && !times[3]);
    count_draws(&(struct tr_drawing){ 5, 9, 3 }, scores, 5, times);
    cr_expect(times[3], "so many there are not");
}

/* Each choice has its own number, and another seed has others. */
Test(sample, choices_have_numbers_of_their_own)
{
    float scores[64] = { 0 };
    int same = 0, again = 0, other = 0;
    for (int n = 0; n < 200; n++) {
        int64_t a = tr_draw(&(struct tr_drawing){ 1, 0, 5 }, scores, 64, n);
        same += a == tr_draw(&(struct tr_drawing){ 1, 0, 5 }, scores, 64, n);
        again += a == tr_draw(&(struct tr_drawing){ 1, 0, 5 }, scores, 64, n + 1);
        other += a == tr_draw(&(struct tr_drawing){ 1, 0, 6 }, scores, 64, n);
    }
    cr_expect(same == 200 && again < 20 && other < 20, "%d, %d and %d are the same", same, again, other);
}

Test(sample, scores_that_are_no_numbers_are_told)
{
    const float scores[] = { 0, NAN }, endless[] = { 0, INFINITY };
    cr_expect_eq(tr_draw(&(struct tr_drawing){ 1, 0, 1 }, scores, 2, 0), -1);
    cr_expect_eq(tr_draw(&(struct tr_drawing){ 0, 0, 1 }, endless, 2, 0), -1);
}

Test(sample, characters_are_written_when_they_are_whole)
{
    char text[64] = "";
    struct tr_writer w = { .to = fmemopen(text, sizeof text, "w") };
    cr_assert(tr_write_text(&w, (const uint8_t *)"a\xE2\x82", 3));
    cr_expect_str_eq(text, "a", "a character is cut");
    cr_assert(tr_write_text(&w, (const uint8_t *)"\xAC\xFF", 2));
    cr_expect_str_eq(text, "a\xE2\x82\xAC\xEF\xBF\xBD");
    cr_assert(tr_write_text(&w, (const uint8_t *)"\xF0\x9F", 2) && tr_write_end(&w));
    cr_expect_str_eq(text, "a\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\n");
    fclose(w.to);
}

/* ---- lists that are forward alone ---- */

static void forward(struct tr_prepared *p, const char *line)
{
    struct tr_options o;
    struct tr_error e;
    cr_assert(rig_options(&o, line, &e), "%s", e.text);
    o.plan.forward = true;
    o.plan.batch = o.plan.micros = 1;
    cr_assert(tr_prepare(p, &o, &e), "%s: %s", line, e.text);
}

Test(sample, nothing_of_learning_is_in_the_list)
{
    static const char *const lines[] = { "", "--model llama:nano", "--tp 2 --sp", "--pp 2",
        "--cp 2 --cp-attention ring", "--tp 2 --pp 2 --cp 2", "--untied --pp 4" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct tr_prepared p;
        int scores = 0;
        forward(&p, lines[i]);
        for (int r = 0; r < p.run.plan.mesh.n; r++) {
            const struct tr_tape *t = tr_tapes_of(p.tapes, r);
            cr_expect(
                t->peak[TR_MEM_OPTIMIZER] == 0 && t->peak[TR_MEM_GRADIENT] == 0, "%s: rank %d", lines[i], r);
            for (int n = 0; n < t->n_instrs; n++) {
                scores += t->instrs[n].code == TR_SCORES;
                cr_expect(t->instrs[n].part == TR_F || t->instrs[n].code == TR_WAIT, "%s: instruction %d",
                    lines[i], n);
            }
        }
        int parts = p.run.plan.mesh.size[TR_TP] * p.run.plan.mesh.size[TR_CP];
        cr_expect_eq(scores, parts, "%s: %d parts of the scores", lines[i], scores);
        tr_prepared_free(&p);
    }
}

/* The check takes nothing on trust: columns or tokens that the scores are not of are named. */
Test(sample, scores_of_other_columns_or_tokens_are_found)
{
    struct tr_prepared p;
    forward(&p, "--tp 2 --cp 2");
    for (int what = 0; what < 3; what++) {
        struct tr_tape *t = (struct tr_tape *)tr_tapes_of(p.tapes, 3);
        struct tr_error e = { .text = "" };
        struct tr_instr *i = t->instrs;
        while (i->code != TR_SCORES)
            i++;
        int64_t *member = what == 0 ? &i->place : what == 1 ? &i->valid : &i->first;
        *member -= 8;
        cr_expect_not(tr_check_types(t, &e), "member %d", what);
        cr_expect(
            strstr(e.text, what < 2 ? "its columns are taken for others" : "its tokens are taken to begin"),
            "%s", e.text);
        *member += 8;
        cr_expect(tr_check_types(t, &e), "%s", e.text);
    }
    tr_prepared_free(&p);
}
