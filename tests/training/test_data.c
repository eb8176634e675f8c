/* SPDX-License-Identifier: BSD-3-Clause */
/* test_data.c: a batch is the golden program's, token for token, and a file that is not whole is refused.
 *
 * The numbers that are pinned here were printed by training/reference/gpt.c; the grammar stands below once
 * more, so that all 65,536 tokens can be compared. */
#include <criterion/criterion.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "training/data/data.h"

static struct tr_error error;

static uint64_t mix(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static void says(const char *wanted)
{
    cr_assert(strstr(error.text, wanted) != NULL, "\"%s\" does not say \"%s\"", error.text, wanted);
}

/* A new file of these bytes: its name, until `gone`. */
static char *file_of(const void *bytes, size_t count)
{
    char *path = strdup("/tmp/tutti-data-XXXXXX");
    int fd = mkstemp(path);
    cr_assert(fd >= 0 && write(fd, bytes, count) == (ssize_t)count);
    close(fd);
    return path;
}

static void gone(char *path)
{
    unlink(path);
    free(path);
}

/* llm.c's tokens: a header that promises `promised` of them, and `count` that are there. */
static char *tokens_of(int32_t version, int32_t promised, const uint16_t *tokens, size_t count)
{
    char bytes[1024 + 256] = { 0 };
    int32_t header[3] = { 20240520, version, promised };
    memcpy(bytes, header, sizeof header);
    memcpy(bytes + 1024, tokens, 2 * count);
    return file_of(bytes, 1024 + 2 * count);
}

static bool opens(struct tr_data *d, const char *path, int64_t vocabulary, int64_t context)
{
    error.text[0] = 0;
    return tr_data_open(d, path, 1, vocabulary, context, &error);
}

Test(data, hash_and_normal_have_the_golden_bits)
{
    cr_assert_eq(tr_hash(0), 0xe220a8397b1dcdafu);
    cr_assert_eq(tr_hash(12345), 0x22118258a9d111a0u);
    cr_assert_eq(tr_normal(1, 0, 0), -0x1.55c7c60b733bcp-1);
    cr_assert_eq(tr_normal(1, 5, 1000), -0x1.30808fc355ddap-2);
    cr_assert_eq(tr_normal(7, 27, 16383), -0x1.334bd005312adp-2);
}

Test(data, the_grammar_is_the_golden_one)
{
    static const int64_t sizes[] = { 2, 70, 256, 257, 65536 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        struct tr_data d;
        cr_assert(opens(&d, NULL, sizes[s], 64), "%s", error.text);
        cr_assert_eq(d.count, 65536);
        uint64_t was = 0;
        for (uint64_t i = 1; i < 65536; i++) {
            uint64_t chance = mix(2 * i + 1), rule = mix(4 * was + (chance >> 8 & 1));
            was = (chance % 8 == 0 ? chance >> 8 : rule) % (uint64_t)sizes[s];
            cr_assert_eq(d.tokens[i], was, "vocabulary %ld, token %lu", (long)sizes[s], (unsigned long)i);
        }
        tr_data_close(&d);
    }
    static const uint16_t first[] = { 0, 193, 71, 243, 149, 244, 249, 198, 22, 35, 220, 58 };
    struct tr_data d;
    cr_assert(opens(&d, NULL, 256, 64));
    cr_assert_arr_eq(d.tokens, first, sizeof first);
    cr_assert_eq(d.tokens[40000], 234);
    cr_assert_eq(d.tokens[65535], 105);
    tr_data_close(&d);
}

Test(data, sequences_are_the_golden_ones)
{
    struct tr_data d;
    cr_assert(opens(&d, NULL, 256, 64));
    cr_assert_eq(tr_data_sequence(&d, 0, 0, 64) - d.tokens, 62211);
    cr_assert_eq(tr_data_sequence(&d, 3, 7, 64) - d.tokens, 43860);
    cr_assert_eq(tr_data_sequence(&d, 999, 1, 64) - d.tokens, 52259);
    d.seed = 7;
    cr_assert_eq(tr_data_sequence(&d, 3, 7, 64) - d.tokens, 32825);
    tr_data_close(&d);
}

Test(data, a_sequence_never_leaves_the_corpus)
{
    struct tr_data d;
    char *path = file_of("abcdefghij", 10);
    cr_assert(opens(&d, path, 256, 8));
    bool seen[2] = { false, false };
    for (int64_t step = 0; step < 100; step++) {
        int64_t at = tr_data_sequence(&d, step, 0, 8) - d.tokens;
        cr_assert(at == 0 || at == 1, "%ld", (long)at);
        seen[at] = true;
    }
    cr_assert(seen[0] && seen[1]);
    tr_data_close(&d);
    gone(path);
}

Test(data, any_file_is_bytes)
{
    struct tr_data d;
    static const uint8_t bytes[] = { 0, 255, 10, 'a', 128, 0 };
    char *path = file_of(bytes, sizeof bytes);
    cr_assert(opens(&d, path, 256, 5), "%s", error.text);
    cr_assert_eq(d.count, 6);
    cr_assert_str_eq(d.name, path);
    for (int i = 0; i < 6; i++)
        cr_assert_eq(d.tokens[i], bytes[i]);
    tr_data_close(&d);
    gone(path);
}

/* Larger than what is read at once. */
Test(data, a_long_file_arrives_whole)
{
    struct tr_data d;
    size_t count = 300001;
    uint8_t *bytes = malloc(count);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(mix(i) | 128);
    char *path = file_of(bytes, count);
    cr_assert(opens(&d, path, 256, 64), "%s", error.text);
    cr_assert_eq(d.count, (int64_t)count);
    for (size_t i = 0; i < count; i++)
        cr_assert_eq(d.tokens[i], bytes[i], "byte %zu", i);
    tr_data_close(&d);
    gone(path);
    free(bytes);
}

Test(data, tokens_of_llm_c_load)
{
    struct tr_data d;
    static const uint16_t tokens[] = { 7, 0, 50256, 65535, 258 };
    char *path = tokens_of(1, 5, tokens, 5);
    cr_assert(opens(&d, path, 65536, 4), "%s", error.text);
    cr_assert_eq(d.count, 5);
    cr_assert_arr_eq(d.tokens, tokens, sizeof tokens);
    tr_data_close(&d);
    gone(path);
}

Test(data, a_file_that_was_cut_short_says_what_is_missing)
{
    struct tr_data d;
    static const uint16_t tokens[] = { 1, 2, 3, 4, 5 };
    char *path = tokens_of(1, 100, tokens, 5);
    cr_assert_not(opens(&d, path, 256, 4));
    says("promises 100 tokens"), says("there are 5;"), says(path);
    cr_assert_eq(truncate(path, 1024 + 9), 0);
    cr_assert_not(opens(&d, path, 256, 4));
    says("there are 4 and a half");
    cr_assert_eq(truncate(path, 1000), 0);
    cr_assert_not(opens(&d, path, 256, 4));
    says("after 1000 bytes");
    gone(path);
    path = tokens_of(1, -1, tokens, 5);
    cr_assert_not(opens(&d, path, 256, 4));
    says("promises -1 tokens");
    gone(path);
    path = tokens_of(1, 4, tokens, 5);
    cr_assert_not(opens(&d, path, 256, 3));
    says("there are 5;");
    cr_assert_eq(truncate(path, 1024 + 9), 0);
    cr_assert_not(opens(&d, path, 256, 3));
    says("there are 4 and a half");
    gone(path);
}

Test(data, another_version_is_refused)
{
    struct tr_data d;
    static const uint16_t tokens[] = { 1, 2, 3, 4, 5 };
    char *path = tokens_of(2, 5, tokens, 5);
    cr_assert_not(opens(&d, path, 256, 4));
    says("version 2"), says("version 1 can be read");
    gone(path);
}

Test(data, a_token_beyond_the_vocabulary_is_named)
{
    struct tr_data d;
    static const uint16_t tokens[] = { 1, 255, 3, 256, 5 };
    char *path = tokens_of(1, 5, tokens, 5);
    cr_assert(opens(&d, path, 257, 4), "%s", error.text);
    tr_data_close(&d);
    cr_assert_not(opens(&d, path, 256, 4));
    says("token 3 is 256"), says("0 to 255");
    gone(path);
    path = file_of("aaaaaaz", 7);
    cr_assert_not(opens(&d, path, 122, 4));
    says("token 6 is 122"), says("0 to 121");
    gone(path);
}

Test(data, a_corpus_that_is_too_short_says_how_much_it_takes)
{
    struct tr_data d;
    char *path = file_of("12345678", 8);
    cr_assert_not(opens(&d, path, 256, 8));
    says("has 8 tokens"), says("at least 9");
    cr_assert(opens(&d, path, 256, 7));
    tr_data_close(&d);
    gone(path);
    cr_assert_not(opens(&d, NULL, 256, 65536));
    says("has 65536 tokens"), says("at least 65537");
}

Test(data, what_is_no_file_is_refused)
{
    struct tr_data d;
    cr_assert_not(opens(&d, "/nowhere/tokens.bin", 256, 8));
    says("/nowhere/tokens.bin"), says("No such file");
    cr_assert_not(opens(&d, "/tmp", 256, 8));
    says("/tmp"), says("directory");
}

Test(data, sizes_that_no_token_has_are_refused)
{
    struct tr_data d;
    cr_assert_not(opens(&d, NULL, 65537, 8));
    says("1 to 65536");
    cr_assert_not(opens(&d, NULL, 0, 8));
    says("1 to 65536");
    cr_assert_not(opens(&d, NULL, 256, 0));
    says("1 and more");
}

/* Computed by the formula of training/reference/mlp.c. */
Test(data, rows_are_those_of_the_golden_program)
{
    static const struct {
        int64_t step, sequence;
        uint16_t targets[8];
        int first[4], last[4];
    } known[] = {
        { 0, 0, { 4, 6, 1, 6, 2, 8, 0, 1 }, { -71, 337, -148, 202 }, { -101, -155, 93, 136 } },
        { 0, 7, { 3, 1, 8, 0, 3, 3, 9, 3 }, { -354, -207, -251, -161 }, { -132, 10, -9, 64 } },
        { 3, 2, { 8, 4, 8, 6, 7, 8, 9, 1 }, { -57, -215, 235, -269 }, { -161, -88, 8, 84 } },
    };
    struct tr_rows rows = { .count = 8, .inputs = 4, .classes = 10 };
    struct tr_data d;
    tr_rows_open(&d, 1);
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint16_t targets[8];
        float inputs[8][4];
        tr_rows_targets(&d, &rows, known[k].step, known[k].sequence, targets);
        tr_rows_inputs(&d, &rows, known[k].step, known[k].sequence, inputs[0]);
        cr_assert_arr_eq(targets, known[k].targets, sizeof targets);
        for (int i = 0; i < 4; i++) {
            cr_assert_eq(inputs[0][i], (float)known[k].first[i] / 128);
            cr_assert_eq(inputs[7][i], (float)known[k].last[i] / 128);
        }
        struct tr_rows rest = { .count = 3, .inputs = 4, .classes = 10, .first = 5 };
        float last[3][4];
        tr_rows_targets(&d, &rest, known[k].step, known[k].sequence, targets);
        tr_rows_inputs(&d, &rest, known[k].step, known[k].sequence, last[0]);
        cr_assert_arr_eq(targets, known[k].targets + 5, 3 * sizeof *targets);
        cr_assert_arr_eq(last, inputs[5], sizeof last);
    }
    tr_data_close(&d);
}

/* As docs/training-models.md says: the two halves of a hash of seed and step, the number of the sequence, and
 * of all words those below are dropped. Of what is held out nothing is. */
Test(data, what_dropout_draws_by_is_of_seed_step_and_sequence)
{
    struct tr_data d = { .seed = 3 };
    uint32_t at[4], of_another_step[4], of_another_seed[4], held_out[4];
    tr_data_draws(&d, 0.25, 5, 7, at);
    tr_data_draws(&d, 0.25, 6, 7, of_another_step);
    tr_data_draws(&d, 0.25, -1, 7, held_out);
    uint64_t key = tr_hash(tr_hash(3) + 5);
    cr_assert(at[0] == (uint32_t)key && at[1] == (uint32_t)(key >> 32));
    cr_assert_eq(at[2], 7);
    cr_assert_eq(at[3], 1u << 30);
    cr_assert(at[0] != of_another_step[0] && at[1] != of_another_step[1]);
    d.seed = 4;
    tr_data_draws(&d, 0.25, 5, 7, of_another_seed);
    cr_assert(at[0] != of_another_seed[0]);
    cr_assert_eq(held_out[3], 0);
}
