/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c: tokens from a file, from bytes in memory or from the made-up grammar, and the sequences of a batch.
 *
 * Hash, grammar and choice are written as in the golden program, integers until the last step, so that each
 * machine and each rank sees the same batch. A file is read whole before anything of it is believed. */
#include "training/data/data.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { HEADER_BYTES = 4 * 256, MAGIC = 20240520, GRAMMAR_TOKENS = 1 << 16 };

/* SplitMix64: 64 bits that depend on all bits of x (Steele, Lea, Flood 2014). */
uint64_t tr_hash(uint64_t x)
{
    x += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t tr_next(uint64_t *state)
{
    uint64_t x = tr_hash(*state);
    *state += 0x9E3779B97F4A7C15u;
    return x;
}

/* The sum of eight numbers of 16 bits, less its mean, over its deviation. */
double tr_normal(uint64_t seed, int64_t tensor, int64_t element)
{
    uint64_t key = tr_hash(tr_hash(seed) + (uint64_t)tensor) + 2 * (uint64_t)element;
    int64_t sum = 0;
    for (uint64_t half = 0; half < 2; half++)
        for (uint64_t bits = tr_hash(key + half), i = 0; i < 4; i++, bits >>= 16)
            sum += (int64_t)(bits & 0xFFFF);
    return (double)(2 * sum - 8 * 65535) / (2 * 65536.0 * 0.816496580927726); /* the root of 8 / 12 */
}

/* A token follows from the one before by a rule, or at times by chance. */
static void make_grammar(struct tr_data *d, int64_t vocabulary)
{
    d->count = GRAMMAR_TOKENS;
    d->tokens = tr_new(GRAMMAR_TOKENS, sizeof d->tokens[0]);
    for (int64_t i = 1; i < d->count; i++) {
        uint64_t chance = tr_hash((uint64_t)i * 2 + 1);
        uint64_t next = chance % 8 ? tr_hash(d->tokens[i - 1] * 4u + (chance >> 8) % 2) : chance >> 8;
        d->tokens[i] = (uint16_t)(next % (uint64_t)vocabulary);
    }
}

/* ---- files ---- */

bool tr_read_file(uint8_t **bytes, int64_t *count, const char *path, struct tr_error *e)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return tr_fail(e, "%s cannot be opened: %s", path, strerror(errno));
    size_t room = 1 << 16, got = 0, n;
    uint8_t *p = tr_new(room, 1);
    while ((n = fread(p + got, 1, room - got, file)) > 0) {
        got += n;
        if (got < room)
            continue;
        uint8_t *larger = tr_new(room, 2);
        memcpy(larger, p, got);
        free(p);
        p = larger, room *= 2;
    }
    int error = ferror(file) ? errno : 0;
    fclose(file);
    if (error != 0) {
        free(p);
        return tr_fail(e, "%s cannot be read: %s", path, strerror(error));
    }
    *bytes = p, *count = (int64_t)got;
    return true;
}

/* The numbers of the file are those of the machines that llm.c runs on: the lowest byte first. */
static int64_t int32_at(const uint8_t *p)
{
    uint32_t x = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return x <= INT32_MAX ? (int64_t)x : (int64_t)x - ((int64_t)1 << 32);
}

static bool take_tokens(
    struct tr_data *d, const uint8_t *bytes, int64_t count, const char *name, struct tr_error *e)
{
    if (count < HEADER_BYTES)
        return tr_fail(e,
            "%s begins as llm.c's tokens do, and ends after %" PRId64 " bytes, in the header of %d", name,
            count, HEADER_BYTES);
    int64_t version = int32_at(bytes + 4), promised = int32_at(bytes + 8), here = (count - HEADER_BYTES) / 2;
    if (version != 1)
        return tr_fail(
            e, "%s is of version %" PRId64 " of llm.c's tokens; version 1 can be read", name, version);
    if (promised != here || count % 2 != 0)
        return tr_fail(e,
            "%s: its header promises %" PRId64 " tokens of 2 bytes, and there are %" PRId64
            "%s; the file was cut short or is not whole",
            name, promised, here, count % 2 != 0 ? " and a half" : "");
    d->count = here;
    d->tokens = tr_new((size_t)here, sizeof d->tokens[0]);
    for (int64_t i = 0; i < here; i++)
        d->tokens[i] = (uint16_t)(bytes[HEADER_BYTES + 2 * i] | bytes[HEADER_BYTES + 2 * i + 1] << 8);
    return true;
}

static void take_text(struct tr_data *d, const uint8_t *bytes, int64_t count)
{
    d->count = count;
    d->tokens = tr_new((size_t)count, sizeof d->tokens[0]);
    for (int64_t i = 0; i < count; i++)
        d->tokens[i] = bytes[i];
}

static bool check_tokens(const struct tr_data *d, int64_t vocabulary, int64_t context, struct tr_error *e)
{
    for (int64_t i = 0; i < d->count; i++)
        if (d->tokens[i] >= vocabulary)
            return tr_fail(e, "%s: token %" PRId64 " is %d; the vocabulary of %" PRId64 " has 0 to %" PRId64,
                d->name, i, d->tokens[i], vocabulary, vocabulary - 1);
    if (d->count <= context)
        return tr_fail(e,
            "%s has %" PRId64 " tokens; a context of %" PRId64 " needs at least %" PRId64
            ", for each target is the token after its input",
            d->name, d->count, context, context + 1);
    return true;
}

static bool check_sizes(int64_t vocabulary, int64_t context, struct tr_error *e)
{
    if (vocabulary < 1 || vocabulary > 65536)
        return tr_fail(e, "the vocabulary is %" PRId64 "; 1 to 65536 are legal", vocabulary);
    if (context < 1)
        return tr_fail(e, "the context is %" PRId64 " tokens; 1 and more are legal", context);
    return true;
}

bool tr_data_from_bytes(struct tr_data *d, const char *name, const uint8_t *bytes, int64_t count,
    uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e)
{
    *d = (struct tr_data){ .seed = seed };
    if (!check_sizes(vocabulary, context, e))
        return false;
    snprintf(d->name, sizeof d->name, "%s", name);
    bool tokens = count >= 4 && int32_at(bytes) == MAGIC;
    if (!tokens)
        take_text(d, bytes, count);
    if ((!tokens || take_tokens(d, bytes, count, name, e)) && check_tokens(d, vocabulary, context, e))
        return true;
    tr_data_close(d);
    return false;
}

bool tr_data_open(struct tr_data *d, const char *path, uint64_t seed, int64_t vocabulary, int64_t context,
    struct tr_error *e)
{
    *d = (struct tr_data){ .name = "the made-up grammar", .seed = seed };
    if (path != NULL) {
        uint8_t *bytes;
        int64_t count;
        struct stat s;
        if (stat(path, &s) == 0 && !S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode)) /* before an open that waits */
            return tr_fail(e,
                "%s is a pipe or a device, and each rank reads all of it; legal is a file, which tutti-train "
                "data makes of a pipe, too",
                path);
        if (!tr_read_file(&bytes, &count, path, e))
            return false;
        bool ok = tr_data_from_bytes(d, path, bytes, count, seed, vocabulary, context, e);
        free(bytes);
        return ok;
    }
    if (!check_sizes(vocabulary, context, e))
        return false;
    make_grammar(d, vocabulary);
    if (check_tokens(d, vocabulary, context, e))
        return true;
    tr_data_close(d);
    return false;
}

bool tr_data_hold_out(struct tr_data *d, int64_t context, struct tr_error *e)
{
    int64_t held = d->count / 10;
    if (!d->tokens || d->stride)
        return tr_fail(e,
            "--eval-every holds out the last tenth of a text, and this run learns %s; legal is a "
            "text",
            d->name);
    if (held <= context)
        return tr_fail(e,
            "%s has %" PRId64 " tokens, of which --eval-every holds out %" PRId64 "; a context of %" PRId64
            " needs at least %" PRId64,
            d->name, d->count, held, context, context + 1);
    d->learned = d->count - held;
    return true;
}

static uint64_t hash_bytes(uint64_t hash, const void *bytes, int64_t count)
{
    for (int64_t i = 0; i < count; i += 8) {
        uint64_t word = 0;
        memcpy(&word, (const char *)bytes + i, (size_t)(count - i < 8 ? count - i : 8));
        hash = tr_hash(hash ^ word);
    }
    return hash;
}

uint64_t tr_data_hash(const struct tr_data *d)
{
    uint64_t hash = tr_hash((uint64_t)d->count);
    if (d->tokens)
        hash = hash_bytes(hash, d->tokens, d->count * (int64_t)sizeof *d->tokens);
    if (d->pixels)
        hash = hash_bytes(hash, d->pixels, d->count * d->planes * d->height * d->width);
    return d->labels ? hash_bytes(hash, d->labels, d->count) : hash;
}

void tr_data_short_name(const struct tr_data *d, char *name, size_t room)
{
    const char *slash = strrchr(d->name, '/');
    snprintf(name, room, "%s", slash && slash[1] ? slash + 1 : d->name);
}

void tr_data_close(struct tr_data *d)
{
    free(d->tokens), free(d->pixels), free(d->labels);
    d->tokens = NULL, d->pixels = d->labels = NULL;
    d->count = 0;
}

const uint16_t *tr_data_sequence(const struct tr_data *d, int64_t step, int64_t i, int64_t context)
{
    uint64_t key = tr_hash(tr_hash(tr_hash(d->seed) + (uint64_t)step) + (uint64_t)i);
    if (d->stride)
        return d->tokens + (int64_t)(key % (uint64_t)(d->count / d->stride)) * d->stride;
    if (step < 0)
        return d->tokens + d->learned + key % (uint64_t)(d->count - d->learned - context);
    return d->tokens + key % (uint64_t)((d->learned ? d->learned : d->count) - context);
}

void tr_data_draws(const struct tr_data *d, double dropout, int64_t step, int64_t i, uint32_t to[4])
{
    uint64_t key = tr_hash(tr_hash(d->seed) + (uint64_t)step);
    to[0] = (uint32_t)key, to[1] = (uint32_t)(key >> 32), to[2] = (uint32_t)i;
    to[3] = step < 0 ? 0 : (uint32_t)(dropout * 4294967296.0);
}
