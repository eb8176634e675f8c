/* SPDX-License-Identifier: BSD-3-Clause */
/* test_tokenizer.c: tokens are those of GPT-2's programs, a text comes back byte for byte, and a vocabulary
 * that does not fit itself is refused. What others make of texts stands in bpe/ (its README.md). */
#include <criterion/criterion.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "training/data/data.h"
#include "training/text/json.h"
#include "training/text/split.h"
#include "training/text/tokenizer.h"
#include "training/text/unicode.h"

static struct tr_error error;

static const char *bpe(const char *name, char path[512])
{
    const char *source = getenv("srcdir");
    snprintf(path, 512, "%s/tests/training/bpe%s%s", source ? source : ".", *name ? "/" : "", name);
    return path;
}

static void open_bpe(struct tr_tokenizer *t)
{
    char path[512];
    cr_assert(tr_tokenizer_open(t, bpe("", path), &error), "%s", error.text);
}

/* The text of these tokens, to be freed. */
static uint8_t *decoded(const struct tr_tokenizer *t, const uint16_t *tokens, int64_t count, int64_t *bytes)
{
    uint8_t *to = malloc((size_t)count * 64 + 1);
    *bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t length;
        const uint8_t *from = tr_decode(t, tokens[i], &length);
        memcpy(to + *bytes, from, (size_t)length);
        *bytes += length;
    }
    return to;
}

static void comes_back(const struct tr_tokenizer *t, const uint8_t *text, int64_t count)
{
    int64_t n, bytes;
    uint16_t *tokens = tr_encode(t, text, count, &n);
    uint8_t *back = decoded(t, tokens, n, &bytes);
    cr_expect(bytes == count && !memcmp(back, text, (size_t)count), "%" PRId64 " bytes came back as %" PRId64,
        count, bytes);
    free(tokens), free(back);
}

Test(tokenizer, has_the_tokens_of_others)
{
    struct tr_tokenizer t;
    uint8_t *file;
    int64_t size, n, wanted;
    char path[512], text[1024];
    int vectors = 0;
    open_bpe(&t);
    cr_expect_eq(t.count, 457);
    cr_assert(tr_read_file(&file, &size, bpe("vectors.json", path), &error), "%s", error.text);
    struct tr_json j = { (const char *)file, (const char *)file + size };
    cr_assert(tr_json_sign(&j, '['));
    do {
        cr_assert(tr_json_sign(&j, '[') && tr_json_string(&j, text, sizeof text) && tr_json_sign(&j, ',') &&
                  tr_json_sign(&j, '['));
        uint16_t *tokens = tr_encode(&t, (uint8_t *)text, (int64_t)strlen(text), &n);
        for (int64_t i = 0; i < n; i++)
            cr_assert((!i || tr_json_sign(&j, ',')) && tr_json_whole(&j, &wanted) && wanted == tokens[i],
                "%s: token %" PRId64 " is %d, and elsewhere %" PRId64, text, i, tokens[i], wanted);
        cr_assert(
            tr_json_sign(&j, ']') && tr_json_sign(&j, ']'), "%s: %" PRId64 " tokens are too few", text, n);
        comes_back(&t, (uint8_t *)text, (int64_t)strlen(text));
        free(tokens);
        vectors++;
    } while (tr_json_sign(&j, ','));
    cr_expect(tr_json_sign(&j, ']') && vectors == 13);
    free(file);
    tr_tokenizer_close(&t);
}

/* Bytes that are no UTF-8, and words of any length, which take no square of it. */
Test(tokenizer, any_bytes_come_back, .timeout = 20)
{
    struct tr_tokenizer t;
    enum { LONG = 1 << 20 };
    static const char some[] = " the'sx\xC3\xA9\n";
    uint8_t *text = malloc(LONG);
    uint64_t chance = 1;
    open_bpe(&t);
    for (int64_t count = 0; count < 600; count++) {
        for (int64_t i = 0; i < count; i++)
            text[i] = count % 2 ? (uint8_t)tr_next(&chance) : (uint8_t)some[tr_next(&chance) % 10];
        comes_back(&t, text, count);
    }
    for (int64_t i = 0; i < LONG; i++)
        text[i] = "the"[i % 3];
    comes_back(&t, text, LONG);
    free(text);
    tr_tokenizer_close(&t);
}

Test(tokenizer, without_a_vocabulary_a_token_is_a_byte)
{
    struct tr_tokenizer t;
    int64_t n, length;
    cr_assert(tr_tokenizer_open(&t, "", &error));
    uint16_t *tokens = tr_encode(&t, (const uint8_t *)"a\xFF", 2, &n);
    cr_expect(t.count == 256 && n == 2 && tokens[0] == 'a' && tokens[1] == 0xFF);
    cr_expect(*tr_decode(&t, 0xFF, &length) == 0xFF && length == 1);
    free(tokens);
    tr_tokenizer_close(&t);
}

/* ---- words ---- */

/* With | where one ends, as the module regex of Python splits it by GPT-2's expression. */
Test(tokenizer, words_end_where_they_do_elsewhere)
{
    static const char *const texts[] = { "I|'ll| say| it|'s| fine|,| we|'d|", "''|s|", "Hello|'|S| '|s|",
        "a|  | b|  |", "a|\n\n| b|", "x|\t|\t|y|", "12|ab| 34|.|5|", "!?|x| !?| |", " |",
        "\xC3\xA9t\xC3\xA9|\xC2\xA0|x|", "\xC2\xBD\xD9\xA3|z|", "\xE4\xBD\xA0\xE5\xA5\xBD|\xEF\xBC\x8C|a|",
        "\xFF\xFE|a|", "\xE2\x80\x83|\xE2\x80\x83|b|", "'re|x|" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[64];
        size_t count = 0, at = 0;
        for (const char *c = texts[i]; *c; c++)
            if (*c != '|')
                text[count++] = *c;
        for (const char *c = texts[i]; *c; c++) {
            const char *end = strchr(c, '|');
            int64_t got = tr_word((const uint8_t *)text + at, (int64_t)(count - at));
            cr_assert_eq(
                got, end - c, "%s: a word of %td bytes at %zu has %" PRId64, texts[i], end - c, at, got);
            at += (size_t)got;
            c = end;
        }
    }
}

Test(tokenizer, utf8_is_read_in_its_shortest_form_alone)
{
    static const struct {
        const char *bytes;
        int length;
        uint32_t code;
    } texts[] = { { "A", 1, 'A' }, { "\xC3\xA9", 2, 0xE9 }, { "\xE2\x82\xAC", 3, 0x20AC },
        { "\xF0\x9F\x98\x80", 4, 0x1F600 }, { "\xF4\x8F\xBF\xBF", 4, 0x10FFFF }, { "\xC3", TR_UTF8_CUT, 0 },
        { "\xF0\x9F\x98", TR_UTF8_CUT, 0 }, { "\x80", TR_UTF8_WRONG, 0 }, { "\xC0\x80", TR_UTF8_WRONG, 0 },
        { "\xE0\x80\x80", TR_UTF8_WRONG, 0 }, { "\xED\xA0\x80", TR_UTF8_WRONG, 0 },
        { "\xF4\x90\x80\x80", TR_UTF8_WRONG, 0 }, { "\xC3(", TR_UTF8_WRONG, 0 },
        { "\xF5", TR_UTF8_WRONG, 0 } };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint32_t code = 0;
        uint8_t back[TR_UTF8_MOST];
        int length = tr_utf8_next((const uint8_t *)texts[i].bytes, (int64_t)strlen(texts[i].bytes), &code);
        cr_expect(length == texts[i].length && code == texts[i].code, "text %zu: %d, U+%X", i, length, code);
        if (length > 0)
            cr_expect(tr_utf8_put(back, code) == length && !memcmp(back, texts[i].bytes, (size_t)length));
    }
}

Test(tokenizer, json_has_characters_by_their_numbers)
{
    static const char text[] = "\"\\u0120a\\u00e9\\ud83d\\ude00\"";
    struct tr_json j = { text, text + strlen(text) };
    char to[32];
    cr_expect(tr_json_string(&j, to, sizeof to) && !strcmp(to, "\xC4\xA0"
                                                               "a\xC3\xA9\xF0\x9F\x98\x80"));
    static const char *const wrong[] = { "\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\u12\"",
        "\"\\u0000\"" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        j = (struct tr_json){ wrong[i], wrong[i] + strlen(wrong[i]) };
        cr_expect_not(tr_json_string(&j, to, sizeof to), "%s", wrong[i]);
    }
    j = (struct tr_json){ text, text + strlen(text) };
    cr_expect_not(tr_json_string(&j, to, 9), "it has 9 bytes, and one more at its end");
}

/* ---- files that are wrong ---- */

static char folder[] = "/tmp/tutti-bpe-XXXXXX";

static void put_file(const char *name, const char *bytes, size_t count)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* A copy of one of the files in bpe/, of which one text becomes another. */
static void put_changed(const char *name, const char *from, const char *to)
{
    uint8_t *bytes;
    int64_t count;
    char path[512], text[8192];
    cr_assert(tr_read_file(&bytes, &count, bpe(name, path), &error) && count < 8000);
    snprintf(text, sizeof text, "%.*s", (int)count, (const char *)bytes);
    char *at = strstr(text, from);
    cr_assert(at, "%s has no %s", name, from);
    char *rest = strdup(at + strlen(from));
    snprintf(at, sizeof text - (size_t)(at - text), "%s%s", to, rest);
    put_file(name, text, strlen(text));
    free(rest), free(bytes);
}

static void refused(const char *words)
{
    struct tr_tokenizer t;
    error.text[0] = 0;
    cr_expect_not(tr_tokenizer_open(&t, folder, &error), "%s: taken", words);
    cr_expect(strstr(error.text, words), "\"%s\" does not say \"%s\"", error.text, words);
    cr_expect_null(t.tokens);
}

Test(tokenizer, files_that_do_not_fit_are_refused)
{
    struct tr_tokenizer t;
    cr_assert(mkdtemp(folder));
    refused("has neither vocab.json nor encoder.json; legal is a directory");
    put_changed("vocab.json", "{", "{");
    refused("has neither merges.txt nor vocab.bpe");
    put_changed("merges.txt", "#version: 0.2\n", "");
    cr_expect(tr_tokenizer_open(&t, folder, &error), "a file without its first line: %s", error.text);
    tr_tokenizer_close(&t);
    static const char *const vocabularies[][3] = { { "{", "[", "is no object of JSON" },
        { "456}", "456", "behind 457 tokens it is not JSON" }, { "\"B\":34", "\"B\":35", "token 35 twice" },
        { "\"B\":34", "\"B\":457", "has 457 tokens, and none is 34" },
        { "\"B\":34", "\"B\":65536", "legal are 0 to 65535" },
        { "\"B\":34", "\"BB\":34", "has no token for byte 66" },
        { "\"B\":34", "\"A\":34", "tokens 33 and 34 have one text" },
        { "\"B\":34", "\"\\u4e00\":34", "a character that stands for no byte" },
        { "\"B\":34", "\"\":34", "or is empty" }, { "\"B\":34", "\"B\":x", "behind 34 tokens there is no" } };
    for (size_t i = 0; i < sizeof vocabularies / sizeof *vocabularies; i++) {
        put_changed("vocab.json", vocabularies[i][0], vocabularies[i][1]);
        refused(vocabularies[i][2]);
    }
    put_changed("vocab.json", "{", "{");
    static const char *const merges[][3] = { { "\nĠ a\n", "\nĠa\n",
                                                 "merges.txt, line 5: legal are two tokens" },
        { "\nĠ a\n", "\nĠqq a\n", "line 5: its first part is no token" },
        { "\nĠ a\n", "\nĠ aqq\n", "line 5: its second part is no token" },
        { "\nĠ a\n", "\n! !\n", "line 5: what it makes is no token" } };
    for (size_t i = 0; i < sizeof merges / sizeof *merges; i++) {
        put_changed("merges.txt", merges[i][0], merges[i][1]);
        refused(merges[i][2]);
    }
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}
