/* SPDX-License-Identifier: BSD-3-Clause */
/* test_options.c: numbers that nobody can have meant are refused, with what would be legal; none ends the
 * program, and none is taken for another. */
#include "tests/training/options_rig.h"
#include "training/commands/one_rank.h"
#include "training/verify/verify.h"
#include "training/data/data.h"
#include "training/errors/inject.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(options, sizes_beyond_all_bounds_are_refused)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        { "--pp 4 --chunks 1073741824", "--pp 4 --chunks 1073741824: legal are 1048576 stages" },
        { "--pp 2 --chunks 1073741824 --stage-layers 1,1", "legal are 1048576 stages" },
        { "--pp 4 --chunks 1048576 --schedule interleaved", "legal are 1048576 stages" },
        { "--pp 4 --chunks 1024 --schedule interleaved", "4096 stages do not divide 4 layers" },
        { "--batch 1073741824", "--batch 1073741824: legal are 1 to 1048576 sequences" },
        { "--batch 1048577", "legal are 1 to 1048576 sequences" },
        { "--channels 1073741824", "multiples of 64 up to 1048576" },
        { "--context 1073741824", "multiples of 8 up to 1048576" },
        { "--layers 1073741824", "legal are 1 to 4096" },
        { "--model moe:nano --cp 2 --cp-attention local", "legal with gpt and llama, not moe" },
        { "--dp 2 --bucket nan", "a number of bytes, with K, M, G or T" },
        { "--dp 2 --bucket 1e300", "a number of bytes, with K, M, G or T" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_options o;
        struct tr_run r;
        struct tr_error e = { .text = "" };
        bool taken = rig_options(&o, cases[i].line, &e) && tr_run_make(&r, &o, &e);
        cr_assert(!taken, "%s is taken", cases[i].line);
        cr_expect(strstr(e.text, cases[i].words), "%s: %s", cases[i].line, e.text);
    }
}

Test(options, a_number_may_be_small_but_not_infinite)
{
    struct tr_options o;
    struct tr_error e = { .text = "" };
    cr_expect(rig_options(&o, "--clip 1e-320 --decay 1e-400", &e), "%s", e.text);
    cr_expect(o.plan.optimizer.clip > 0 && o.plan.optimizer.decay == 0);
    cr_assert(!rig_options(&o, "--rate 1e400", &e));
    cr_expect(strstr(e.text, "not negative, nor infinite"), "%s", e.text);
}

/* Before any of them has to fit another one. */
Test(options, words_that_are_no_choice_are_refused_with_those_that_are)
{
    static const char *const cases[][2] = {
        { "--cp-attention x",
            "--cp-attention x: legal are gather, ulysses, ring, local, ulysses+ring and scores" },
        { "--optimizer adam", "--optimizer adam: legal are adamw and sgd" },
        { "--balance odd", "--balance odd: legal are even, auto and measured" },
        { "--cnn-cut cells", "--cnn-cut cells: legal are rows and columns" },
        { "--norm layer", "--norm layer: legal are none and group" },
        { "--offload half", "--offload half: legal are none, optimizer, activations and both" },
        { "--tp 0", "--tp 0: legal are 1 to 1073741824" },
        { "--zero -1", "--zero -1: legal are 0 to 1073741824" },
        { "--memory much", "--memory much: legal is a number of bytes, with K, M, G or T" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_options o;
        struct tr_error e = { .text = "" };
        cr_assert(!rig_options(&o, cases[i][0], &e), "%s is taken", cases[i][0]);
        cr_expect_str_eq(e.text, cases[i][1]);
    }
}

Test(options, what_is_given_differs_from_what_is_not)
{
    struct tr_options o;
    struct tr_error e;
    cr_assert(rig_options(&o, "--tp 2 --sp --save x --offload none --micro 1", &e), "%s", e.text);
    const char *const given[] = { "tp", "sp", "save", "offload" }, *const left[] = { "cp", "load", "micro" };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++)
        cr_expect(tr_options_given(&o, given[i]), "--%s", given[i]);
    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        cr_expect_not(tr_options_given(&o, left[i]), "--%s", left[i]);
}

/* Of what many ranks are asked for, one has what says which numbers there are, and no more. */
Test(options, one_rank_computes_what_changes_its_bits)
{
    static const char *const cases[][2] = {
        { "--dp 2 --tp 2 --sp --micro 2 --zero 1 --recompute full --overlap", "" },
        { "--model cnn:nano --norm group --grid 16 --tp 2 --cp 2 --conv-split filters --cnn-cut columns",
            "--model cnn:nano --norm group --grid 16 --conv-split filters --cnn-cut columns" },
        { "--optimizer sgd --rate 0.5 --batch 4 --seed 3 --data recall",
            "--optimizer sgd --rate 0.5 --batch 4 --seed 3 --data recall" },
        { "--dp 2 --offload both --offload-delay 1", "--offload optimizer --offload-delay 1" },
        { "--dp 2 --offload both", "" },
        { "--cp 2 --cp-map striped --cp-attention ring", "--cp-map striped" },
        { "--cp 2 --cp-map zigzag --cp-attention ring", "" },
        { "--dp 2 --precision bfloat16 --rounding stochastic", "--precision bfloat16 --rounding stochastic" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_options many, one, wanted;
        struct tr_error e;
        char left[TR_OPTION_TEXT], right[TR_OPTION_TEXT];
        cr_assert(rig_options(&many, cases[i][0], &e), "%s", e.text);
        cr_assert(rig_options(&wanted, cases[i][1], &e), "%s", e.text);
        wanted.plan.sizes.dp = 1;
        tr_one_rank_options(&one, &many);
        cr_expect(
            tr_options_same(&one, &wanted, left, right), "%s: %s, and not %s", cases[i][0], left, right);
    }
}

/* Values are of several widths, and each says of itself what it is. */
Test(options, what_differs_is_said_as_it_was_given)
{
    static const char *const cases[][3] = {
        { "--steps 7", "--steps 7", "--steps 50" },
        { "--tp 2", "--tp 2", "--tp 1" },
        { "--micro 4", "--micro 4", "--micro 1" },
        { "--zero3-persist 200", "--zero3-persist 200", "--zero3-persist 0" },
        { "--lr 0.5", "--rate 0.5", "--rate 0.001" },
        { "--sp", "--sp", "no --sp" },
        { "--optimizer sgd", "--optimizer sgd", "--optimizer adamw" },
        { "--cp-map striped", "--cp-map striped", "--cp-map contiguous" },
        { "--offload none", "--offload none", "no --offload" },
        { "--bucket 64K", "--bucket 64K", "no --bucket" },
        { "--memory 1536", "--memory 1536", "no --memory" },
        { "--host-memory 1024M", "--host-memory 1G", "no --host-memory" },
        { "--data recall", "--data recall", "no --data" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_options o, none;
        struct tr_error e = { .text = "" };
        char given[TR_OPTION_TEXT], own[TR_OPTION_TEXT];
        tr_options_default(&none);
        cr_assert(rig_options(&o, cases[i][0], &e), "%s", e.text);
        cr_assert(!tr_options_same(&o, &none, given, own), "%s", cases[i][0]);
        cr_expect_str_eq(given, cases[i][1]);
        cr_expect_str_eq(own, cases[i][2]);
    }
}

Test(options, bytes_are_a_number_that_fits)
{
    static const char *const wrong[] = { "", "K", "nan", "inf", "-1", "-5M", "0", "0.5", "1e40", "8388608T",
        "1KB", "1 K", "M1" };
    static const struct {
        const char *text;
        int64_t bytes;
    } right[] = { { "1", 1 }, { "64K", 65536 }, { "1.5K", 1536 }, { "64M", 67108864 },
        { "8388607T", INT64_C(9223370937343148032) } };
    int64_t bytes;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        cr_expect(!tr_parse_bytes(wrong[i], &bytes), "%s is taken for %lld", wrong[i], (long long)bytes);
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        cr_assert(tr_parse_bytes(right[i].text, &bytes), "%s", right[i].text);
        cr_expect_eq(bytes, right[i].bytes, "%s is taken for %lld", right[i].text, (long long)bytes);
    }
}

Test(options, inject_names_all_errors_that_can_be_planted)
{
    struct tr_options o;
    struct tr_prepared p;
    struct tr_error e = { .text = "" };
    const struct tr_injection *x;
    cr_assert(rig_options(&o, "--inject list", &e) && !tr_prepare(&p, &o, &e));
    for (int i = 0; (x = tr_injection_at(i)); i++)
        cr_expect(strstr(e.text, x->name), "%s is not named", x->name);
}

/* Why the line is refused; NULL if it is taken. */
static const char *refusal(const char *line, struct tr_error *e)
{
    struct tr_options o;
    struct tr_run r;
    if (!rig_options(&o, line, e) || !tr_run_make(&r, &o, e))
        return e->text;
    tr_run_free(&r);
    return NULL;
}

/* "; legal: --dp 1, 5 or --batch 8": each of these values after the line, which is then taken. How many. */
static int try_all(const char *line, const char *legal)
{
    char name[32] = "", words[400], *rest = words, *word;
    int tried = 0;
    snprintf(words, sizeof words, "%s", legal);
    while ((word = strtok_r(rest, " ,", &rest)) != NULL) {
        char with[256];
        struct tr_error e;
        if (!strcmp(word, "or"))
            continue;
        if (!strncmp(word, "--", 2)) {
            snprintf(name, sizeof name, "%s", word);
            continue;
        }
        snprintf(with, sizeof with, "%s %s %s", line, name, word);
        cr_expect(!refusal(with, &e), "%s: legal: %s, but %s: %s", line, legal, with, e.text);
        tried++;
    }
    return tried;
}

/* Who puts in what a refusal says is legal is not refused again. */
Test(options, what_a_refusal_names_is_legal)
{
    static const char *const own[] = { "--batch 10 --dp 4", "--batch 12 --dp 2 --micro 12",
        "--batch 12 --dp 2", "--batch 12 --micro 2 --dp 2 --zero 2", "--tp 3", "--tp 3 --model mlp:nano",
        "--cp 3", "--pp 3", "--cp 4 --tp 4 --sp", "--cp 8 --cp-map zigzag", "--cp 3 --model cnn:nano",
        "--servers 3 --dp 2", "--model moe:nano --dp 4 --ep 3", "--model moe:nano --dp 4 --ep 8",
        "--ranks 8 --dp 3", "--model cnn:nano --norm group --norm-groups 4 --tp 8",
        "--ranks 5 --dp 3 --servers 1", "--cp 4 --cp-attention ulysses+ring --cp-ulysses 3",
        "--heads 2 --cp 4 --cp-attention ulysses", "--dp 6 --zero 1 --batch 12", "--model llama:nano --tp 4",
        "--model llama:nano --cp 4 --cp-attention ulysses" };
    enum { DRAWN = 700 };
    int named = 0;
    uint64_t state = 38;
    for (size_t i = 0; i < sizeof own / sizeof *own + DRAWN; i++) {
        char line[200];
        struct tr_verify_case c;
        struct tr_error e = { .text = "" };
        tr_verify_draw(&c, &state);
        long batch = 1 + (long)(tr_next(&state) % 48), dp = 1 + (long)(tr_next(&state) % 8);
        if (i < sizeof own / sizeof *own)
            snprintf(line, sizeof line, "%s", own[i]);
        else if (snprintf(line, sizeof line, "%s --batch %ld --dp %ld", c.options, batch, dp) >=
                 (int)sizeof line)
            continue;
        const char *why = refusal(line, &e), *legal = why ? strstr(why, "; legal: --") : NULL;
        if (legal)
            named += try_all(line, legal + strlen("; legal: ")) > 0;
        else
            cr_expect(i >= sizeof own / sizeof *own, "%s: no value is named: %s", line, e.text);
    }
    cr_expect_gt(named, 100, "%d refusals name values", named);
}
