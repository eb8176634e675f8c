/* SPDX-License-Identifier: BSD-3-Clause */
/* test_options.c: numbers that nobody can have meant are refused, with what would be legal; none ends the
 * program, and none is taken for another. */
#include "tests/training/options_rig.h"
#include "training/tape/inject.h"

#include <criterion/criterion.h>
#include <string.h>

Test(options, sizes_beyond_all_bounds_are_refused)
{
    static const struct {
        const char *line, *words;
    } cases[] = {
        { "--pp 4 --chunks 1073741824", "--pp 4 --chunks 1073741824: legal are 1048576 stages" },
        { "--pp 2 --chunks 1073741824 --stage-layers 1,1", "legal are 1048576 stages" },
        { "--pp 4 --chunks 1048576 --schedule interleaved", "legal are 1048576 stages" },
        { "--pp 4 --chunks 1024 --schedule interleaved", "do not divide 4 layers; legal: 1, 2, 4 stages" },
        { "--batch 1073741824", "--batch 1073741824: legal are 1 to 1048576 sequences" },
        { "--batch 1048577", "legal are 1 to 1048576 sequences" },
        { "--channels 1073741824", "multiples of 64 up to 1048576" },
        { "--context 1073741824", "multiples of 8 up to 1048576" },
        { "--layers 1073741824", "legal are 1 to 4096" },
        { "--dp 2 --bucket nan", "a number of bytes, with K, M, G or T" },
        { "--dp 2 --bucket 1e300", "a number of bytes, with K, M, G or T" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tr_options o;
        struct tr_run r;
        struct tr_error e = { "" };
        bool taken = rig_options(&o, cases[i].line, &e) && tr_run_make(&r, &o, &e);
        cr_assert(!taken, "%s is taken", cases[i].line);
        cr_expect(strstr(e.text, cases[i].words), "%s: %s", cases[i].line, e.text);
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
    struct tr_error e = { "" };
    const struct tr_injection *x;
    cr_assert(rig_options(&o, "--inject list", &e) && !tr_prepare(&p, &o, &e));
    for (int i = 0; (x = tr_injection_at(i)); i++)
        cr_expect(strstr(e.text, x->name), "%s is not named", x->name);
}
