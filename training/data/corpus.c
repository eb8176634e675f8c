/* SPDX-License-Identifier: BSD-3-Clause */
/* corpus.c: find text, gather it, write it as tokens.
 *
 * The default corpus needs no network and no file of its own: the documents that came with the program are
 * text enough for a first loss curve, and the licences of the machine make it longer. */
#include "training/data/corpus.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LICENCES "/usr/share/common-licenses"

/* ---- gathering ---- */

/* Bytes of any text: none is 0, and at most one in 20 is a control character that a text has no use for. */
static bool is_text(const uint8_t *bytes, int64_t count)
{
    int64_t odd = 0;
    for (int64_t i = 0; i < count; i++) {
        if (bytes[i] == 0)
            return false;
        odd += (bytes[i] < ' ' && strchr("\t\n\v\f\r\b\033", bytes[i]) == NULL) || bytes[i] == 127;
    }
    return odd * 20 <= count;
}

static void append(struct tr_corpus *c, const uint8_t *bytes, int64_t count)
{
    if (count == 0)
        return;
    if (c->count + count > c->room) {
        c->room = 2 * (c->count + count);
        uint8_t *larger = tr_new((size_t)c->room, 1);
        if (c->count > 0)
            memcpy(larger, c->bytes, (size_t)c->count);
        free(c->bytes);
        c->bytes = larger;
    }
    memcpy(c->bytes + c->count, bytes, (size_t)count);
    c->count += count;
}

static bool add_file(struct tr_corpus *c, const char *path, bool named, struct tr_error *e)
{
    uint8_t *bytes;
    int64_t count;
    if (!tr_read_file(&bytes, &count, path, e))
        return false;
    bool text = is_text(bytes, count);
    if (text)
        append(c, bytes, count);
    free(bytes);
    c->files += text;
    c->others += !text;
    if (!text && named)
        return tr_fail(e,
            "%s is no text: it has bytes that are 0, or too many control characters; text files and "
            "directories are legal",
            path);
    return true;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_entry(const struct dirent *entry)
{
    return strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
}

static int is_document(const struct dirent *entry)
{
    size_t length = strlen(entry->d_name);
    return length > 3 && strcmp(entry->d_name + length - 3, ".md") == 0;
}

static char *join(const char *folder, const char *name)
{
    size_t bytes = strlen(folder) + strlen(name) + 2;
    char *path = tr_new(bytes, 1);
    snprintf(path, bytes, "%s/%s", folder, name);
    return path;
}

/* What a directory has in itself and, if `deep`, below. */
static bool add_directory(struct tr_corpus *c, const char *path, int (*filter)(const struct dirent *),
    bool deep, struct tr_error *e)
{
    struct dirent **entries;
    int n = scandir(path, &entries, filter, by_bytes);
    if (n < 0)
        return tr_fail(e, "%s cannot be read: %s", path, strerror(errno));
    bool ok = true;
    for (int i = 0; i < n; i++) {
        char *inner = join(path, entries[i]->d_name);
        struct stat s;
        if (ok && lstat(inner, &s) != 0)
            ok = tr_fail(e, "%s cannot be looked at: %s", inner, strerror(errno));
        else if (ok && S_ISDIR(s.st_mode))
            ok = !deep || add_directory(c, inner, filter, true, e);
        else if (ok && S_ISREG(s.st_mode))
            ok = add_file(c, inner, false, e);
        free(inner);
        free(entries[i]);
    }
    free(entries);
    return ok;
}

bool tr_corpus_add(struct tr_corpus *c, const char *path, struct tr_error *e)
{
    struct stat s;
    if (stat(path, &s) != 0)
        return tr_fail(e, "%s cannot be opened: %s", path, strerror(errno));
    return S_ISDIR(s.st_mode) ? add_directory(c, path, is_entry, true, e) : add_file(c, path, true, e);
}

/* ---- the default corpus ---- */

/* The source, if this program lies in it: the first folder above it that has all of these. */
static bool find_source(char *folder, size_t bytes)
{
    static const char *const marks[] = { "README.md", "docs", "training" };
    ssize_t got = readlink("/proc/self/exe", folder, bytes - 1);
    if (got < 0)
        return false;
    folder[got] = 0;
    for (char *slash; (slash = strrchr(folder, '/')) != NULL;) {
        *slash = 0;
        size_t found = 0;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
            char *path = join(folder, marks[i]);
            found += access(path, R_OK) == 0;
            free(path);
        }
        if (found == sizeof marks / sizeof *marks)
            return true;
    }
    return false;
}

static bool add_documents(struct tr_corpus *c, struct tr_error *e)
{
    char source[4096];
    if (!find_source(source, sizeof source))
        return access(TR_DOCDIR, R_OK) != 0 || add_directory(c, TR_DOCDIR, is_document, false, e);
    char *readme = join(source, "README.md"), *docs = join(source, "docs");
    bool ok = tr_corpus_add(c, readme, e) && add_directory(c, docs, is_document, false, e);
    free(readme);
    free(docs);
    return ok;
}

bool tr_corpus_add_default(struct tr_corpus *c, struct tr_error *e)
{
    if (!add_documents(c, e) || (access(LICENCES, R_OK) == 0 && !tr_corpus_add(c, LICENCES, e)))
        return false;
    if (c->count == 0)
        return tr_fail(e,
            "there is no default corpus here: neither the source of this program, nor %s, nor %s; name text "
            "files or directories",
            TR_DOCDIR, LICENCES);
    return true;
}

bool tr_data_open_default(
    struct tr_data *d, uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e)
{
    struct tr_corpus c = { 0 };
    bool ok = tr_corpus_add_default(&c, e) &&
              tr_data_from_bytes(d, "the default corpus", c.bytes, c.count, seed, vocabulary, context, e);
    tr_corpus_free(&c);
    return ok;
}

/* ---- what becomes of it ---- */

uint64_t tr_corpus_checksum(const struct tr_corpus *c)
{
    uint64_t sum = tr_hash((uint64_t)c->count);
    for (int64_t i = 0; i < c->count; i++)
        sum = tr_hash(sum + c->bytes[i]);
    return sum;
}

static int64_t count_tokens(const struct tr_corpus *c)
{
    return c->tokens ? c->n_tokens : c->count;
}

/* The lowest byte first, as llm.c's machines have it. */
static bool write_tokens(FILE *file, const struct tr_corpus *c)
{
    uint8_t block[4 * 256] = { 0 };
    const uint32_t header[] = { 20240520, 1, (uint32_t)count_tokens(c) };
    for (int i = 0; i < 12; i++)
        block[i] = (uint8_t)(header[i / 4] >> 8 * (i % 4));
    bool ok = fwrite(block, 1, sizeof block, file) == sizeof block;
    for (int64_t i = 0; ok && i < count_tokens(c);) {
        size_t used = 0;
        for (; used < sizeof block && i < count_tokens(c); i++) {
            uint16_t token = c->tokens ? c->tokens[i] : c->bytes[i];
            block[used++] = (uint8_t)token;
            block[used++] = (uint8_t)(token >> 8);
        }
        ok = fwrite(block, 1, used, file) == used;
    }
    return ok && fflush(file) == 0;
}

bool tr_corpus_write(const struct tr_corpus *c, const char *path, struct tr_error *e)
{
    struct stat s;
    if (count_tokens(c) > INT32_MAX)
        return tr_fail(e,
            "there are %" PRId64 " tokens of text; a file of them holds at most %d: name fewer files",
            count_tokens(c), INT32_MAX);
    if (stat(path, &s) == 0 && !S_ISREG(s.st_mode))
        return tr_fail(e, "%s is there and is no regular file; name a new file, or one to replace", path);
    size_t bytes = strlen(path) + 32;
    char *temporary = tr_new(bytes, 1);
    snprintf(temporary, bytes, "%s.%ld.part", path, (long)getpid());
    FILE *file = fopen(temporary, "wbx");
    int error = errno;
    if (file != NULL) {
        bool ok = write_tokens(file, c) && fsync(fileno(file)) == 0;
        error = errno;
        if (fclose(file) != 0 && ok) {
            ok = false;
            error = errno;
        }
        if (ok && rename(temporary, path) == 0) {
            free(temporary);
            return true;
        }
        error = ok ? errno : error;
        unlink(temporary);
    }
    free(temporary);
    return tr_fail(e, "%s cannot be written: %s", path, strerror(error));
}

void tr_corpus_free(struct tr_corpus *c)
{
    free(c->bytes), free(c->tokens);
    *c = (struct tr_corpus){ 0 };
}
