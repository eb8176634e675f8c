/* SPDX-License-Identifier: BSD-3-Clause */
/* test_schedule.c: pipeline schedules are what their papers say, and whatever is wrong with one is found.
 *
 * `proof` says what a legal schedule is in a second way: it runs the parts one by one and refuses whatever is
 * not ready. The check must agree with it on thousands of schedules with one change each. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "training/schedule/schedule.h"

static const char *const names[] = { "naive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "dualpipev" };
enum { NAMES = 7 };

static const struct tr_costs unit = { .f = 1, .i = 1, .w = 1 };

static struct tr_schedule made(const char *name, int ranks, int chunks, int micros)
{
    struct tr_schedule s;
    struct tr_error e;
    cr_assert(tr_schedule_make(&s, name, ranks, chunks, micros, &e), "%s", e.text);
    return s;
}

static bool read_text(struct tr_schedule *s, const char *text, const char *name, struct tr_error *e)
{
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    fputs(text, file);
    rewind(file);
    bool good = tr_schedule_read(s, file, name, e);
    fclose(file);
    return good;
}

/* What a function that prints has printed. */
static const char *drawn(const struct tr_schedule *s, const struct tr_costs *c)
{
    static char text[4096];
    struct tr_timing t;
    struct tr_error e;
    cr_assert(tr_schedule_simulate(s, c, &t, &e), "%s", e.text);
    FILE *file = tmpfile();
    cr_assert_not_null(file);
    tr_schedule_draw(s, c, &t, file);
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    tr_timing_free(&t, s->ranks);
    return text;
}

/* --- What is published. */
static double total_of(const char *name, int p, int v, int m, const struct tr_costs *c)
{
    double turn = c->f + c->i + c->w;
    if (!strcmp(name, "naive"))
        return p * m * turn;
    if (!strcmp(name, "zb-h2")) /* its period */
        return m * turn + (p - 1) * (c->f + c->i - 2 * c->w);
    if (!strcmp(name, "zb-h1") || !strcmp(name, "dualpipev"))
        return m * v * turn + (p - 1) * (c->f + c->i - c->w);
    return (m * v + p - 1) * turn;
}

static int in_flight_of(const char *name, int p, int v, int m, int rank)
{
    int held = 1, behind = p - rank - 1;
    if (!strcmp(name, "gpipe"))
        held = m;
    if (!strcmp(name, "1f1b") || (!strcmp(name, "interleaved") && v == 1))
        held = behind + 1;
    if (!strcmp(name, "interleaved") && v > 1)
        held = 2 * behind + (v - 1) * p + 1;
    if (!strcmp(name, "zb-h1"))
        held = p;
    if (!strcmp(name, "zb-h2"))
        held = 2 * p - 1;
    if (!strcmp(name, "dualpipev")) /* of half a rank's layers each */
        held = 2 * p + 1;
    return held < m * v ? held : m * v;
}

static bool is_published(const char *name, int p, int v, int m)
{
    if (!strcmp(name, "dualpipev"))
        return v == 2 && m >= 2 * p;
    return v == 1 ? strcmp(name, "interleaved") || m % p == 0 : !strcmp(name, "interleaved") && m % p == 0;
}

static void compare(const char *name, int p, int v, int m, const struct tr_costs *c)
{
    struct tr_schedule s = made(name, p, v, m);
    struct tr_timing t;
    struct tr_error e;
    cr_assert(tr_schedule_simulate(&s, c, &t, &e), "%s p %d v %d m %d: %s", name, p, v, m, e.text);
    for (int r = 0; r < p; r++) {
        cr_assert_eq(t.in_flight[r], in_flight_of(name, p, v, m, r),
            "%s p %d v %d m %d: rank %d has %d in flight", name, p, v, m, r, t.in_flight[r]);
        cr_assert_float_eq(t.busy[r], m * v * (c->f + c->i + c->w), 1e-9);
    }
    double formula = tr_bubble_formula(&s, c), total = total_of(name, p, v, m, c);
    if ((!strcmp(name, "zb-h1") && m < p) || (!strcmp(name, "zb-h2") && m < 2 * p - 1)) {
        cr_assert(isnan(formula), "%s needs more micro-batches", name);
    } else if (!strcmp(name, "dualpipev") && c->i > c->f) {
        cr_assert(isnan(formula), "DualPipeV's formula is of I <= F");
    } else {
        cr_assert_float_eq(s.no_flush ? t.period : t.total, total, 1e-9, "%s p %d v %d m %d: total %g", name,
            p, v, m, t.total);
        cr_assert_float_eq(formula, 1 - t.busy[0] / total, 1e-9, "%s: formula %g", name, formula);
        cr_assert_float_eq(tr_bubble(&s, &t), formula, 1e-9, "%s p %d v %d m %d", name, p, v, m);
    }
    tr_timing_free(&t, p);
    tr_schedule_free(&s);
}

Test(schedule, times_and_activations_are_the_published_ones)
{
    const struct tr_costs costs[] = { unit, { .f = 1, .i = 1.5, .w = 0.5 }, { .f = 3, .i = 2, .w = 2 } };
    int compared = 0;
    for (int k = 0; k < NAMES; k++)
        for (int p = 1; p <= 8; p++)
            for (int m = 1; m <= 32; m++)
                for (int v = 1; v <= 4; v++)
                    for (int c = 0; c < 3 && is_published(names[k], p, v, m); c++, compared++)
                        compare(names[k], p, v, m, &costs[c]);
    cr_assert_gt(compared, 3 * 4 * 256);
}

/* The pictures that this was planned with: 4 ranks, 8 micro-batches. */
Test(schedule, charts)
{
    const char *const charts[][2] = {
        { "gpipe", "r0|01234567.........aabbccddeeffgghh|\n"
                   "r1|.01234567......aabbccddeeffgghh  |\n"
                   "r2|..01234567...aabbccddeeffgghh    |\n"
                   "r3|...01234567aabbccddeeffgghh      |\n" },
        { "1f1b", "r0|0123......aa4bb5cc6dd7ee.ff.gg.hh|\n"
                  "r1|.012....aa3bb4cc5dd6ee7ff.gg.hh  |\n"
                  "r2|..01..aa2bb3cc4dd5ee6ff7gg.hh    |\n"
                  "r3|...0aa1bb2cc3dd4ee5ff6gg7hh      |\n" },
        { "dualpipev", "r0|01234560aw1bw2cw37dd4aaee5.bbff6.ccgg7.ddhhewfwgwhw|\n"
                       "r1|.01234051aw2bw36cc4aa7dd5bbee6.ccff7.ddggeehfwgwhww|\n"
                       "r2|..01203142aw35bb4aa6cc5bb7dd6ccee7.ddffeeggfhgwhwww|\n"
                       "r3|...001122334aa4aa5bb5bb6cc6cc7dd7ddeeeeffffgghhwwww|\n" },
        { "zb-h2", "r0|0123456aw7bwcwdwewfwgwhw   |\n"
                   "r1|.01234a5b6cw7dwewfwgwhwww  |\n"
                   "r2|..012a3b4c5d6ew7fwgwhwwwww |\n"
                   "r3|...0a1b2c3d4e5f6gw7hwwwwwww|\n" },
        { "zb-h1", "r0|0123...aw4bw5cw6dw7ewfwgwhw|\n"
                   "r1|.012..a3bw4cw5dw6ew7fwgwhww|\n"
                   "r2|..01.a2b3cw4dw5ew6fw7gwhwww|\n"
                   "r3|...0a1b2c3dw4ew5fw6gw7hwwww|\n" },
    };
    for (int i = 0; i < 5; i++) {
        struct tr_schedule s = made(charts[i][0], 4, strcmp(charts[i][0], "dualpipev") ? 1 : 2, 8);
        cr_expect_str_eq(drawn(&s, &unit), charts[i][1], "%s:\n%s", charts[i][0], drawn(&s, &unit));
        tr_schedule_free(&s);
    }
}

/* Digits and letters begin again; no letter is w, which is W; a column is as long as the shortest part. */
Test(schedule, chart_of_many_micro_batches)
{
    struct tr_schedule s = made("gpipe", 1, 1, 23);
    const struct tr_costs halves = { .f = 0.5, .i = 0.5, .w = 0 };
    cr_expect_str_eq(drawn(&s, &halves), "r0|01234567890123456789012abcdefghijklmnopqrstabc|\n");
    tr_schedule_free(&s);
    s = made("1f1b", 2, 1, 2);
    const struct tr_costs late = { .f = 1, .i = 1, .w = 1, .hop = 2 };
    cr_expect_str_eq(drawn(&s, &late), "r0|01......aa.bb|\nr1|...0aa1bb    |\n");
    tr_schedule_free(&s);
    s = made("1f1b", 2, 1, 1);
    const struct tr_costs between = { .f = 1, .i = 1, .w = 1, .hop = 0.3 };
    cr_expect_str_eq(drawn(&s, &between), "r0|0....aa|\nr1|.0aa   |\n", "a column shows its middle");
    tr_schedule_free(&s);
}

/* Both ways through p - 1 messages, which no part can hide. */
Test(schedule, messages_take_time)
{
    const struct tr_costs c = { .f = 1, .i = 1, .w = 1, .hop = 0.25 };
    for (int p = 1; p <= 5; p++) {
        struct tr_schedule s = made("gpipe", p, 1, 6);
        struct tr_timing t;
        struct tr_error e;
        cr_assert(tr_schedule_simulate(&s, &c, &t, &e));
        cr_expect_float_eq(t.total, (6 + p - 1) * 3 + 2 * (p - 1) * 0.25, 1e-9);
        tr_timing_free(&t, p);
        tr_schedule_free(&s);
    }
}

Test(schedule, no_formula_where_none_is_published)
{
    const struct tr_costs w_over_f = { .f = 1, .i = 3, .w = 2 }, w_over_i = { .f = 3, .i = 1, .w = 2 };
    struct tr_schedule s = made("zb-h1", 4, 1, 8);
    cr_expect_not(isnan(tr_bubble_formula(&s, &unit)));
    cr_expect(isnan(tr_bubble_formula(&s, &w_over_f)));
    cr_expect(isnan(tr_bubble_formula(&s, &w_over_i)));
    tr_schedule_free(&s);
    struct tr_error e;
    const char *gpipe = "F0,F1,B0,B1\nF0,F1,B0,B1\n", *another = "F0,F1,B0,B1\nF0,B0,F1,B1\n";
    cr_assert(read_text(&s, gpipe, "gpipe", &e));
    cr_expect_float_eq(tr_bubble_formula(&s, &unit), 1.0 / 3, 1e-12);
    tr_schedule_free(&s);
    cr_assert(read_text(&s, another, "gpipe", &e));
    cr_expect(isnan(tr_bubble_formula(&s, &unit)), "the name is not its own");
    tr_schedule_free(&s);
}

/* --- What is wrong is named. */
Test(schedule, the_check_names_rank_position_part_and_rule)
{
    const char *const wrong[][2] = {
        { "F0,B0,F1\nF0,B0,F1,B1",
            "rank 0, none of its positions 1 to 3: B0.1 is missing, and must run once" },
        { "F0,I0", "rank 0, none of its positions 1 to 2: W0.0 is missing, and must run once" },
        { "F0,W0", "rank 0, none of its positions 1 to 2: I0.0 is missing, and must run once" },
        { "F0,F1,B0,B1,F0",
            "rank 0, position 5 (F0.0): the part is at position 1 already, and must run once" },
        { "F0.0,B0.0\nF1.0,B1.0,F0.0",
            "rank 1, position 3 (F0.0): stage 0 lies on rank 0, and its parts must run there" },
        { "B0,F0", "rank 0, position 1 (B0.0): it comes before position 2 (F0.0); backward must come after "
                   "forward" },
        { "F1,F0,B0,B1",
            "rank 0, position 1 (F0.1): it comes before position 2 (F0.0); the micro-batches of a "
            "stage must come in ascending order" },
        { "F0,F1,B1,B0",
            "rank 0, position 3 (B0.1): it comes before position 4 (B0.0); the micro-batches of a "
            "stage must come in ascending order" },
        { "F0,F1,I0,I1,W1,W0",
            "rank 0, position 5 (W0.1): it comes before position 6 (W0.0); the micro-batches "
            "of a stage must come in ascending order" },
        { "F0,F1,I0,B1,W0",
            "rank 0, position 4 (B0.1): it comes before position 5 (W0.0); the micro-batches of a "
            "stage must come in ascending order" },
        { "F0,W0,I0", "rank 0, position 2 (W0.0): it comes before position 3 (I0.0); W must come after I" },
        { "F0,I0,B0,W0",
            "rank 0, position 3 (B0.0): I0.0 of the same stage and micro-batch is at position 2; "
            "legal is B alone, or I and W without B" },
        { "F0,B0,W0",
            "rank 0, position 2 (B0.0): W0.0 of the same stage and micro-batch is at position 3; legal "
            "is B alone, or I and W without B" },
        { "F0,B0,F1,B1\nF0,F1,B0,B1",
            "rank 0, position 2 (B0.0) waits for rank 1, position 3 (B1.0); rank 1, position 2 (F1.1) waits "
            "for "
            "rank 0, position 3 (F0.1): a circle of waits, which never ends; no part may wait for itself" },
        /* Rank 0 waits, too, but nobody waits for it: it is not in the circle. */
        { "F0,F1,B0,B1\nF0,B0,F1,B1\nF0,F1,B0,B1",
            "rank 1, position 2 (B1.0) waits for rank 2, position 3 (B2.0); rank 2, position 2 (F2.1) waits "
            "for "
            "rank 1, position 3 (F1.1): a circle of waits, which never ends; no part may wait for itself" },
        { "F1.0,F0.0,B1.0,B0.0", "rank 0, position 1 (F1.0) waits for rank 0, position 2 (F0.0): a circle of "
                                 "waits, which never ends; no part may wait for itself" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct tr_schedule s;
        struct tr_timing t;
        struct tr_error e = { .text = "" };
        cr_assert(read_text(&s, wrong[i][0], "wrong", &e), "%s: %s", wrong[i][0], e.text);
        cr_expect_not(tr_schedule_check(&s, &e), "%s is legal", wrong[i][0]);
        cr_expect_str_eq(e.text, wrong[i][1], "%s:\n%s", wrong[i][0], e.text);
        cr_expect_not(tr_schedule_simulate(&s, &unit, &t, &e));
        tr_schedule_free(&s);
    }
}

Test(schedule, a_split_one_may_keep_some_parts_whole)
{
    struct tr_schedule s;
    struct tr_error e;
    cr_assert(read_text(&s, "F0,F1,I0,W0,B1", "mine", &e));
    cr_expect(tr_schedule_check(&s, &e), "%s", e.text);
    s.split = false;
    cr_expect_not(tr_schedule_check(&s, &e));
    cr_expect_str_eq(
        e.text, "rank 0, position 3 (I0.0): the schedule does not split backward parts; legal are F and B");
    tr_schedule_free(&s);
}

Test(schedule, illegal_requests_say_what_is_legal)
{
    struct tr_schedule s;
    struct tr_error e;
    cr_expect_not(tr_schedule_make(&s, "zb-v", 4, 1, 8, &e));
    cr_expect_str_eq(e.text, "there is no schedule named 'zb-v'; legal are naive, gpipe, 1f1b, interleaved, "
                             "zb-h1, zb-h2, dualpipev");
    cr_expect_not(tr_schedule_make(&s, "1f1b", 4, 2, 8, &e));
    cr_expect_str_eq(
        e.text, "schedule 1f1b has 2 chunks; legal is 1, and more for interleaved and dualpipev only");
    cr_expect_not(tr_schedule_make(&s, "interleaved", 4, 2, 6, &e));
    cr_expect_str_eq(e.text, "schedule interleaved has 6 micro-batches on 4 ranks; legal is a multiple of 4");
    cr_expect_not(tr_schedule_make(&s, "dualpipev", 4, 1, 8, &e));
    cr_expect_str_eq(e.text, "schedule dualpipev has 1 chunk; legal is 2, the arms of a V");
    cr_expect_not(tr_schedule_make(&s, "dualpipev", 4, 2, 7, &e));
    cr_expect_str_eq(e.text, "schedule dualpipev has 7 micro-batches on 4 ranks; legal are 8 and more");
    cr_expect_not(tr_schedule_make(&s, "gpipe", 0, 1, 6, &e));
    cr_expect_not(tr_schedule_make(&s, "gpipe", 1, 1, -1, &e));
    cr_expect_not(tr_schedule_make(&s, "interleaved", 1 << 20, 1 << 20, 1 << 20, &e), "2^60 cells");
    cr_expect_not_null(strstr(e.text, "at most 4194304"), "%s", e.text);
    s = made("gpipe", 2, 1, 2);
    struct tr_timing t;
    cr_expect_not(tr_schedule_simulate(&s, &(struct tr_costs){ .f = 1, .i = 1, .w = -1 }, &t, &e));
    cr_expect_str_eq(e.text, "the cost of W is -1; legal is a number from 0 to 1e100");
    cr_expect_not(tr_schedule_simulate(&s, &(struct tr_costs){ .hop = NAN }, &t, &e));
    tr_schedule_free(&s);
}

/* --- One change each. */
static unsigned random_state;

static int below(int n)
{
    random_state = random_state * 1664525U + 1013904223U;
    return (int)((random_state >> 8) % (unsigned)n);
}

enum { PROOF_STAGES = 16, PROOF_MICROS = 16 };

/* How often each part of each stage and micro-batch has run. */
struct proof {
    const struct tr_schedule *s;
    int ran[TR_PARTS][PROOF_STAGES][PROOF_MICROS];
};

static bool gave_input_gradient(const struct proof *p, int stage, int micro)
{
    return p->ran[TR_B][stage][micro] || p->ran[TR_I][stage][micro];
}

/* In a V the second half of the stages goes back. */
static int rank_of(const struct tr_schedule *s, int stage)
{
    return s->vee && stage >= s->ranks ? 2 * s->ranks - 1 - stage : stage % s->ranks;
}

static bool is_ready(const struct proof *p, int rank, struct tr_slot x)
{
    int stages = p->s->ranks * p->s->chunks, before = x.micro - 1;
    if (x.stage < 0 || x.stage >= stages || x.micro < 0 || x.micro >= p->s->micros)
        return false;
    if (rank_of(p->s, x.stage) != rank || (!p->s->split && x.part > TR_B))
        return false;
    bool first = x.micro == 0, ran_f = p->ran[TR_F][x.stage][x.micro];
    bool ran_b = p->ran[TR_B][x.stage][x.micro], ran_i = p->ran[TR_I][x.stage][x.micro];
    bool inputs = first || gave_input_gradient(p, x.stage, before);
    bool weights = first || p->ran[TR_B][x.stage][before] || p->ran[TR_W][x.stage][before];
    bool arrived = x.stage == stages - 1 || gave_input_gradient(p, x.stage + 1, x.micro);
    switch (x.part) {
    case TR_F:
        return !ran_f && (first || p->ran[TR_F][x.stage][before]) &&
               (x.stage == 0 || p->ran[TR_F][x.stage - 1][x.micro]);
    case TR_B:
        return ran_f && !ran_b && !ran_i && arrived && inputs && weights;
    case TR_I:
        return ran_f && !ran_b && !ran_i && arrived && inputs;
    default:
        return ran_i && !p->ran[TR_W][x.stage][x.micro] && weights;
    }
}

static bool is_proven_legal(const struct tr_schedule *s)
{
    struct proof p = { .s = s };
    int next[PROOF_STAGES] = { 0 };
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < s->ranks; r++)
            if (next[r] < s->count[r] && is_ready(&p, r, s->slots[r][next[r]])) {
                struct tr_slot x = s->slots[r][next[r]++];
                p.ran[x.part][x.stage][x.micro]++;
                moved = true;
            }
    }
    for (int r = 0; r < s->ranks; r++)
        if (next[r] < s->count[r])
            return false;
    for (int i = 0; i < s->ranks * s->chunks; i++)
        for (int m = 0; m < s->micros; m++)
            if (p.ran[TR_F][i][m] != 1 || p.ran[TR_B][i][m] + p.ran[TR_I][i][m] * p.ran[TR_W][i][m] != 1)
                return false;
    return true;
}

static double cost_of(const struct tr_costs *c, int part)
{
    const double costs[TR_PARTS] = { c->f, c->i + c->w, c->i, c->w };
    return costs[part];
}

/* When the part of a stage and micro-batch has ended that `slot` needs from there; -1: no part. */
static double ended(const struct tr_schedule *s, const struct tr_costs *c, const struct tr_timing *t,
    struct tr_slot slot, int stage)
{
    int rank = rank_of(s, stage);
    for (int k = 0; k < s->count[rank]; k++) {
        struct tr_slot x = s->slots[rank][k];
        bool gives = slot.part == TR_F ? x.part == TR_F : x.part == TR_B || x.part == TR_I;
        if (x.stage == stage && x.micro == slot.micro && gives)
            return t->start[rank][k] + cost_of(c, x.part);
    }
    return -1;
}

/* Each part starts when its rank is free and its input is there, and not later. */
static void expect_earliest_starts(const struct tr_schedule *s, const struct tr_costs *c)
{
    struct tr_timing t;
    struct tr_error e;
    cr_assert(tr_schedule_simulate(s, c, &t, &e), "%s", e.text);
    for (int r = 0; r < s->ranks; r++) {
        double at = 0;
        for (int k = 0; k < s->count[r]; k++) {
            struct tr_slot x = s->slots[r][k];
            int from = x.part == TR_F ? x.stage - 1 : x.stage + 1;
            if (x.part != TR_W && from >= 0 && from < s->ranks * s->chunks)
                at = fmax(at, ended(s, c, &t, x, from) + (rank_of(s, from) == r ? 0 : c->hop));
            cr_assert_float_eq(t.start[r][k], at, 1e-9, "rank %d, position %d starts at %g instead of %g", r,
                k + 1, t.start[r][k], at);
            at += cost_of(c, x.part);
        }
        cr_assert_leq(at, t.total + 1e-9);
    }
    tr_timing_free(&t, s->ranks);
}

/* A rank's slots, with room for one more. */
static void insert(struct tr_schedule *s, int rank, int k, struct tr_slot slot)
{
    size_t count = (size_t)s->count[rank], at = (size_t)k;
    struct tr_slot *slots = tr_new(count + 1, sizeof *slots);
    memcpy(slots, s->slots[rank], at * sizeof *slots);
    slots[at] = slot;
    memcpy(slots + at + 1, s->slots[rank] + at, (count - at) * sizeof *slots);
    free(s->slots[rank]);
    s->slots[rank] = slots;
    s->count[rank]++;
}

static struct tr_slot drop(struct tr_schedule *s, int rank, int k)
{
    struct tr_slot slot = s->slots[rank][k];
    int after = --s->count[rank] - k;
    memmove(&s->slots[rank][k], &s->slots[rank][k + 1], (size_t)after * sizeof slot);
    return slot;
}

/* A circle of many ranks does not fit into one sentence; its beginning does. Here the first rank wants a part
 * of its second chunk first, which is behind the first chunks of all. */
Test(schedule, a_long_circle_is_cut)
{
    struct tr_schedule s = made("interleaved", 64, 2, 64);
    insert(&s, 0, 0, drop(&s, 0, 64));
    struct tr_error e;
    cr_assert_not(tr_schedule_check(&s, &e));
    cr_expect_not_null(strstr(e.text, " waits for rank "));
    cr_expect_not_null(strstr(e.text, "; ...: a circle of waits"), "%s", e.text);
    tr_schedule_free(&s);
}

enum { DROP, DOUBLE, SWAP, MOVE, MOVE_NEAR, TO_RANK, MICRO, STAGE, PART, CHANGES };

static void change(struct tr_schedule *s, int how)
{
    int rank = below(s->ranks), other = below(s->ranks), k = below(s->count[rank]), j = below(s->count[rank]);
    struct tr_slot *a = &s->slots[rank][k], *b = &s->slots[rank][j], old = *a;
    if (how == DROP)
        drop(s, rank, k);
    if (how == DOUBLE)
        insert(s, rank, j, old);
    if (how == SWAP) {
        *a = *b;
        *b = old;
    }
    if (how == MOVE)
        insert(s, rank, below(s->count[rank] + 1), drop(s, rank, k));
    if (how == MOVE_NEAR && k > 0)
        insert(s, rank, k - 1, drop(s, rank, k));
    if (how == TO_RANK) {
        drop(s, rank, k);
        insert(s, other, below(s->count[other] + 1), old);
    }
    if (how == MICRO)
        a->micro = below(s->micros + 2) - 1;
    if (how == STAGE)
        a->stage = below(s->ranks * s->chunks + 2) - 1;
    if (how == PART)
        a->part = below(TR_PARTS);
}

static struct tr_schedule any_schedule(void)
{
    const char *name = names[below(NAMES)];
    int ranks = 1 + below(4), chunks = 1, micros = 1 + below(8);
    if (!strcmp(name, "interleaved")) {
        chunks = 1 + below(4);
        micros = ranks * (1 + below(3));
    }
    if (!strcmp(name, "dualpipev")) {
        chunks = 2;
        micros = 2 * ranks + below(4);
    }
    return made(name, ranks, chunks, micros);
}

Test(schedule, one_change_is_refused_or_proven_legal)
{
    int legal[CHANGES] = { 0 }, refused[CHANGES] = { 0 };
    random_state = 20261125;
    for (int i = 0; i < 30000; i++) {
        struct tr_schedule s = any_schedule();
        struct tr_error e = { .text = "" };
        int how = i % CHANGES;
        change(&s, how);
        bool good = tr_schedule_check(&s, &e);
        cr_assert_eq(good, is_proven_legal(&s), "change %d of %s p %d v %d m %d: the check says %s", i,
            s.name, s.ranks, s.chunks, s.micros, good ? "legal" : e.text);
        cr_assert(good || !strncmp(e.text, "rank ", 5), "%s", e.text);
        if (good)
            expect_earliest_starts(&s, &(struct tr_costs){ .f = 1, .i = 1.5, .w = 0.75, .hop = 0.25 });
        ++*(good ? &legal[how] : &refused[how]);
        tr_schedule_free(&s);
    }
    for (int how = 0; how < CHANGES; how++)
        cr_expect_gt(refused[how], 100, "change %d: %d refused, %d legal", how, refused[how], legal[how]);
    cr_expect_eq(legal[DROP] + legal[DOUBLE], 0);
    cr_expect_gt(legal[SWAP], 100);
    cr_expect_gt(legal[MOVE], 100);
    cr_expect_gt(legal[MOVE_NEAR], 300);
}

/* --- CSV. */
Test(schedule, csv_comes_back_as_it_was)
{
    random_state = 7;
    for (int i = 0; i < 500; i++) {
        struct tr_schedule s = any_schedule(), again;
        struct tr_error e;
        FILE *file = tmpfile();
        cr_assert_not_null(file);
        tr_schedule_write(&s, file);
        rewind(file);
        cr_assert(tr_schedule_read(&again, file, s.name, &e), "%s", e.text);
        fclose(file);
        cr_assert_str_eq(again.name, s.name);
        cr_assert(tr_schedule_equal(&s, &again), "%s p %d v %d m %d", s.name, s.ranks, s.chunks, s.micros);
        tr_schedule_free(&again);
        tr_schedule_free(&s);
    }
}

Test(schedule, csv_that_people_write)
{
    const char *const same[] = {
        "F0,F1,B0,B1\nF0,F1,B0,B1\n",
        "# a comment\n\n F0.0 ,,F0.1,,, B0.0\t,B0.1 # another\r\n,,\n,F1.0,F1.1,B0,B1.1",
    };
    struct tr_schedule whole = made("gpipe", 2, 1, 2), s;
    struct tr_error e;
    for (int i = 0; i < 2; i++) {
        cr_assert(read_text(&s, same[i], "a name that is longer than its room", &e), "%s", e.text);
        cr_expect(tr_schedule_equal(&s, &whole), "%s", same[i]);
        cr_expect_eq(strlen(s.name), sizeof s.name - 1);
        tr_schedule_free(&s);
    }
    tr_schedule_free(&whole);
}

Test(schedule, csv_errors_name_line_field_and_rule)
{
    const char *no_part =
        "is no part; legal are F, B, I or W, then STAGE.MICRO or MICRO, numbers from 0 to 4194303";
    const char *const bad[] = { "X0", "F", "F1.", "F-1", "F0.0x", "F4194304", "F99999999999999999999", "F 0",
        "F0.0.0", "f0", "0", "F.1", "F+1", "F0;B0" };
    struct tr_schedule s;
    struct tr_error e;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[64], expected[256];
        snprintf(text, sizeof text, "# first\nF0,B0\nF0,,%s,B0\n", bad[i]);
        snprintf(expected, sizeof expected, "line 3, field 3: '%s' %s", bad[i], no_part);
        cr_expect_not(read_text(&s, text, "bad", &e), "%s", bad[i]);
        cr_expect_str_eq(e.text, expected, "%s", e.text);
    }
    cr_expect_not(read_text(&s, "", "bad", &e));
    cr_expect_not(read_text(&s, "# nothing\n,,\n", "bad", &e));
    cr_expect_str_eq(
        e.text, "line 2: the file ends, and has no part; legal is one line of parts for each rank");
    cr_expect_not(read_text(&s, "F0.0,B0.0\nF1.0,B1,F2.0\n", "bad", &e));
    cr_expect_str_eq(e.text,
        "line 2, field 2: the stage is left out, but there are 2 ranks and a stage 2, so ranks "
        "have more than one; legal is STAGE.MICRO");
    cr_expect_not(read_text(&s, "F4000000.4000000\n", "bad", &e));
    cr_expect_not_null(strstr(e.text, "at most 4194304"), "%s", e.text);
}
