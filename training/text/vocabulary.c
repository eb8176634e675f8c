/* SPDX-License-Identifier: BSD-3-Clause */
/* vocabulary.c: reads a vocabulary in the format of GPT-2. In its files a byte is a printable character, so
 * that any token can be seen: most bytes that print stand for themselves, and the others, in their order, are
 * those from U+0100 on. Nothing in them is believed: each number and each pair is held against the rest. */
#include "training/text/tokenizer.h"

#include "training/data/data.h"
#include "training/text/unicode.h"
#include "training/text/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_TOKENS = 65536, MOST_TEXT = 1024, FIRST_OTHER = 0x100 };

/* ---- bytes as characters ---- */

static bool stands_for_itself(uint32_t byte)
{
    return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xFF && byte != 0xAD);
}

/* The byte that a character stands for; -1: none. */
static int byte_of(uint32_t code)
{
    uint32_t others = FIRST_OTHER;
    if (code < FIRST_OTHER)
        return stands_for_itself(code) ? (int)code : -1;
    for (uint32_t byte = 0; byte < 0x100; byte++)
        if (!stands_for_itself(byte) && others++ == code)
            return (int)byte;
    return -1;
}

/* Of a text in these characters its bytes, in the same place, and how many; -1: there is another one. */
static int64_t to_bytes(uint8_t *text, int64_t count)
{
    int64_t n = 0;
    for (int64_t at = 0; at < count;) {
        uint32_t code = 0;
        int length = tr_utf8_next(text + at, count - at, &code), byte = length > 0 ? byte_of(code) : -1;
        if (byte < 0)
            return -1;
        text[n++] = (uint8_t)byte;
        at += length;
    }
    return n;
}

/* ---- tokens by their bytes ---- */

struct index {
    const struct tr_tokenizer *t;
    int32_t *token; /* -1: the place is empty */
    uint32_t mask;
};

static uint32_t table_mask(int64_t entries)
{
    uint32_t size = 2;
    while (size < 2 * entries)
        size *= 2;
    return size - 1;
}

/* Where the token with these bytes stands, or would. */
static int32_t *token_of(const struct index *x, const uint8_t *bytes, int64_t count)
{
    uint64_t hash = 0;
    for (int64_t i = 0; i < count; i++)
        hash = hash * 257 + bytes[i];
    for (uint32_t at = (uint32_t)tr_hash(hash) & x->mask;; at = (at + 1) & x->mask) {
        int64_t length;
        const uint8_t *there = x->token[at] < 0 ? NULL : tr_decode(x->t, x->token[at], &length);
        if (!there || (length == count && !memcmp(there, bytes, (size_t)count)))
            return &x->token[at];
    }
}

static bool make_index(struct index *x, const struct tr_tokenizer *t, const char *path, struct tr_error *e)
{
    *x = (struct index){ .t = t, .mask = table_mask(t->count) };
    x->token = tr_new((size_t)x->mask + 1, sizeof *x->token);
    memset(x->token, -1, ((size_t)x->mask + 1) * sizeof *x->token);
    for (int64_t i = 0; i < t->count; i++) {
        int64_t length;
        const uint8_t *bytes = tr_decode(t, i, &length);
        int32_t *place = token_of(x, bytes, length);
        if (*place >= 0)
            return tr_fail(e, "%s: tokens %" PRId32 " and %" PRId64 " have one text", path, *place, i);
        *place = (int32_t)i;
    }
    return true;
}

/* ---- the vocabulary ---- */

/* The next of the object: its text behind those of the others, and its number. */
static bool read_token(
    struct tr_tokenizer *t, struct tr_json *j, int64_t *used, const char *path, struct tr_error *e)
{
    char text[MOST_TEXT];
    int64_t number;
    if (!tr_json_string(j, text, sizeof text) || !tr_json_sign(j, ':') || !tr_json_whole(j, &number))
        return tr_fail(e, "%s: behind %" PRId64 " tokens there is no \"text\": number of at most %d bytes",
            path, t->count, MOST_TEXT - 1);
    int64_t length = to_bytes((uint8_t *)text, (int64_t)strlen(text));
    if (length < 1)
        return tr_fail(e,
            "%s: the text of token %" PRId64 " has a character that stands for no byte, or is empty; legal "
            "is a vocabulary of byte pairs, as GPT-2's",
            path, number);
    if (number >= MOST_TOKENS)
        return tr_fail(e, "%s has token %" PRId64 "; legal are 0 to %d, as tokens of a text have 16 bits",
            path, number, MOST_TOKENS - 1);
    if (t->tokens[number].length)
        return tr_fail(e, "%s has token %" PRId64 " twice", path, number);
    memcpy(t->bytes + *used, text, (size_t)length);
    t->tokens[number] = (struct tr_token){ *used, (int32_t)length };
    *used += length;
    t->count++;
    return true;
}

static bool read_tokens(
    struct tr_tokenizer *t, const uint8_t *bytes, int64_t count, const char *path, struct tr_error *e)
{
    struct tr_json j = { (const char *)bytes, (const char *)bytes + count };
    int64_t used = 0;
    t->bytes = tr_new(count ? (size_t)count : 1, 1); /* none is longer than it stands there */
    t->tokens = tr_new(MOST_TOKENS, sizeof *t->tokens);
    bool ok = tr_json_sign(&j, '{') || tr_fail(e, "%s is no object of JSON, as a vocabulary is", path);
    while (ok && (ok = read_token(t, &j, &used, path, e)) && tr_json_sign(&j, ','))
        ;
    if (ok && !(tr_json_sign(&j, '}') && tr_json_over(&j)))
        ok = tr_fail(e, "%s: behind %" PRId64 " tokens it is not JSON, or is cut", path, t->count);
    for (int64_t i = 0; ok && i < t->count; i++)
        ok = t->tokens[i].length ||
             tr_fail(e, "%s has %" PRId64 " tokens, and none is %" PRId64, path, t->count, i);
    return ok;
}

static bool find_bytes(struct tr_tokenizer *t, const struct index *x, const char *path, struct tr_error *e)
{
    for (int i = 0; i < 256; i++) {
        uint8_t byte = (uint8_t)i;
        int32_t token = *token_of(x, &byte, 1);
        if (token < 0)
            return tr_fail(e, "%s has no token for byte %d, and a text may have any", path, i);
        t->of_byte[i] = (uint16_t)token;
    }
    return true;
}

/* ---- the merges ---- */

/* A line without its end, and where the next one begins. */
static int64_t line_at(const uint8_t *text, int64_t count, int64_t *next)
{
    const uint8_t *end = memchr(text, '\n', (size_t)count);
    int64_t length = end ? end - text : count;
    *next = end ? length + 1 : length;
    return length > 0 && text[length - 1] == '\r' ? length - 1 : length;
}

/* "A B": both parts and what they become are tokens. */
static bool read_merge(struct tr_tokenizer *t, const struct index *x, int32_t rank, uint8_t *line,
    int64_t length, struct tr_error *why)
{
    uint8_t both[2 * MOST_TEXT];
    uint8_t *space = memchr(line, ' ', (size_t)length);
    if (!space || length >= MOST_TEXT)
        return tr_fail(why, "legal are two tokens with a space between");
    int64_t first = to_bytes(line, space - line), second = to_bytes(space + 1, length - (space + 1 - line));
    int32_t a = first > 0 ? *token_of(x, line, first) : -1,
            b = second > 0 ? *token_of(x, space + 1, second) : -1;
    if (a < 0 || b < 0)
        return tr_fail(why, "its %s part is no token of the vocabulary", a < 0 ? "first" : "second");
    memcpy(both, line, (size_t)first), memcpy(both + first, space + 1, (size_t)second);
    int32_t whole = *token_of(x, both, first + second);
    if (whole < 0)
        return tr_fail(why, "what it makes is no token of the vocabulary");
    struct tr_merge *m = tr_merge_of(t, (uint32_t)a << 16 | (uint32_t)b);
    if (m->rank < 0)
        *m = (struct tr_merge){ (uint32_t)a << 16 | (uint32_t)b, rank, (uint16_t)whole };
    return true;
}

static bool read_merges(struct tr_tokenizer *t, const struct index *x, uint8_t *text, int64_t count,
    const char *path, struct tr_error *e)
{
    static const char version[] = "#version";
    struct tr_error why;
    int64_t lines = 1, number = 1;
    for (int64_t i = 0; i < count; i++)
        lines += text[i] == '\n';
    t->mask = table_mask(lines);
    t->merges = tr_new((size_t)t->mask + 1, sizeof *t->merges);
    for (uint32_t i = 0; i <= t->mask; i++)
        t->merges[i].rank = -1;
    for (int64_t at = 0, next; at < count; at += next, number++) {
        int64_t length = line_at(text + at, count - at, &next);
        bool head =
            number == 1 && length >= (int64_t)strlen(version) && !memcmp(text, version, strlen(version));
        if (length && !head && !read_merge(t, x, (int32_t)number, text + at, length, &why))
            return tr_fail(e, "%s, line %" PRId64 ": %s", path, number, why.text);
    }
    return true;
}

/* ---- the files ---- */

/* The path of the file that is there, under one of two names. */
static bool find_file(char path[1024], const char *folder, const char *const names[2], struct tr_error *e)
{
    for (int i = 0; i < 2; i++) {
        int length = snprintf(path, 1024, "%s/%s", folder, names[i]);
        if (length < 1024 && access(path, R_OK) == 0)
            return true;
    }
    return tr_fail(e,
        "%s has neither %s nor %s; legal is a directory with the vocabulary and the merges of GPT-2, "
        "vocab.json and merges.txt",
        folder, names[0], names[1]);
}

bool tr_vocabulary_read(struct tr_tokenizer *t, const char *folder, struct tr_error *e)
{
    static const char *const vocabularies[] = { "vocab.json", "encoder.json" }, *const pairs[] = {
        "merges.txt", "vocab.bpe"
    };
    char vocabulary[1024], merges[1024];
    uint8_t *bytes = NULL, *lines = NULL;
    int64_t n_bytes, n_lines;
    struct index x = { .token = NULL };
    bool ok = find_file(vocabulary, folder, vocabularies, e) && find_file(merges, folder, pairs, e) &&
              tr_read_file(&bytes, &n_bytes, vocabulary, e) && tr_read_file(&lines, &n_lines, merges, e) &&
              read_tokens(t, bytes, n_bytes, vocabulary, e) && make_index(&x, t, vocabulary, e) &&
              find_bytes(t, &x, vocabulary, e) && read_merges(t, &x, lines, n_lines, merges, e);
    free(bytes), free(lines), free(x.token);
    return ok;
}
