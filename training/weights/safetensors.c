/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors.c: the head is read into a list, each entry held against the file, and data by what the list
 * says. */
#include "training/weights/safetensors.h"

#include "training/checkpoint/file.h"
#include "training/text/json.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "safetensors are little-endian; on this machine their numbers must be swapped"
#endif

enum { LENGTH = 8, MOST_HEAD = 100000000, SOME = 4096 };

/* Bytes of an element; 0: of a type that is not read. */
static int64_t element_bytes(const char *type)
{
    return !strcmp(type, "F32") ? 4 : !strcmp(type, "F16") || !strcmp(type, "BF16") ? 2 : 0;
}

void tr_safetensors_add(struct tr_safetensors *s, const char *name, int dims, const int64_t *shape)
{
    s->tensors = tr_grow(s->tensors, s->n, &s->room, sizeof *s->tensors);
    struct tr_stored *t = &s->tensors[s->n++];
    *t = (struct tr_stored){ .type = "F32", .dims = dims, .count = 1 };
    snprintf(t->name, sizeof t->name, "%s", name);
    for (int d = 0; d < dims; d++)
        t->shape[d] = shape[d], t->count *= shape[d];
}

/* ---- reading ---- */

/* [a, b, ..] of at most `most` numbers; -1: it is none. */
static int numbers(struct tr_json *j, int64_t *to, int most)
{
    int n = 0;
    if (!tr_json_sign(j, '['))
        return -1;
    if (tr_json_sign(j, ']'))
        return 0;
    do {
        if (n == most || !tr_json_whole(j, &to[n++]))
            return -1;
    } while (tr_json_sign(j, ','));
    return tr_json_sign(j, ']') ? n : -1;
}

/* What stands behind a name. */
static bool read_entry(struct tr_json *j, struct tr_stored *t, int64_t offsets[2])
{
    int found = 0;
    char key[32];
    if (!tr_json_sign(j, '{'))
        return false;
    do {
        if (!tr_json_string(j, key, sizeof key) || !tr_json_sign(j, ':'))
            return false;
        bool ok = true;
        if (!strcmp(key, "dtype"))
            ok = tr_json_string(j, t->type, sizeof t->type), found |= 1;
        else if (!strcmp(key, "shape"))
            ok = (t->dims = numbers(j, t->shape, TR_STORED_DIMS)) >= 0, found |= 2;
        else if (!strcmp(key, "data_offsets"))
            ok = numbers(j, offsets, 2) == 2, found |= 4;
        else
            ok = tr_json_skip(j);
        if (!ok)
            return false;
    } while (tr_json_sign(j, ','));
    return tr_json_sign(j, '}') && found == 7;
}

/* What the entry says is in the file. first: where the data begin. Of a type that is not read, only that. */
static bool holds(const struct tr_safetensors *s, struct tr_stored *t, const int64_t offsets[2],
    int64_t first, int64_t bytes, struct tr_error *e)
{
    int64_t data = bytes - first, each = element_bytes(t->type);
    if (offsets[0] > offsets[1] || offsets[1] > data)
        return tr_fail(e,
            "%s: %s lies from byte %" PRId64 " to %" PRId64 " of %" PRId64 " that there are; the file is cut "
            "or damaged",
            s->path, t->name, offsets[0], offsets[1], data);
    t->count = 1;
    for (int d = 0; d < t->dims; d++) {
        if (t->shape[d] && t->count > data / t->shape[d])
            return tr_fail(e, "%s: the shape of %s has more elements than the file bytes", s->path, t->name);
        t->count *= t->shape[d];
    }
    t->at = first + offsets[0];
    return !each || t->count * each == offsets[1] - offsets[0] ||
           tr_fail(e, "%s: %s has %" PRId64 " elements of %s in %" PRId64 " bytes", s->path, t->name,
               t->count, t->type, offsets[1] - offsets[0]);
}

static bool read_list(
    struct tr_safetensors *s, struct tr_json *j, int64_t first, int64_t bytes, struct tr_error *e)
{
    if (!tr_json_sign(j, '{'))
        return tr_fail(e, "%s is no file of safetensors: its head is no object of JSON", s->path);
    if (tr_json_sign(j, '}'))
        return true;
    do {
        struct tr_stored t = { .dims = 0 };
        int64_t offsets[2];
        bool named = tr_json_string(j, t.name, sizeof t.name) && tr_json_sign(j, ':');
        if (named && !strcmp(t.name, "__metadata__")) {
            named = tr_json_skip(j);
            if (named)
                continue;
        }
        if (!named || !read_entry(j, &t, offsets))
            return tr_fail(e, "%s is no file of safetensors: its head cannot be read behind %s", s->path,
                s->n ? s->tensors[s->n - 1].name : "its beginning");
        if (tr_safetensors_find(s, t.name))
            return tr_fail(e, "%s has %s twice", s->path, t.name);
        if (!holds(s, &t, offsets, first, bytes, e))
            return false;
        s->tensors = tr_grow(s->tensors, s->n, &s->room, sizeof *s->tensors);
        s->tensors[s->n++] = t;
    } while (tr_json_sign(j, ','));
    return (tr_json_sign(j, '}') && tr_json_over(j)) ||
           tr_fail(e, "%s is no file of safetensors: its head does not end where it should", s->path);
}

static bool read_head(struct tr_safetensors *s, struct tr_error *e)
{
    struct stat st;
    uint64_t length;
    if (fstat(s->file, &st) || !S_ISREG(st.st_mode))
        return tr_fail(e, "%s is not a file", s->path);
    if (st.st_size < LENGTH)
        return tr_fail(e, "%s is no file of safetensors: it has %" PRId64 " bytes, and such begin with 8",
            s->path, (int64_t)st.st_size);
    if (!tr_read_at(s->file, &length, LENGTH, 0, s->path, e))
        return false;
    if (length < 2 || length > MOST_HEAD || length > (uint64_t)st.st_size - LENGTH)
        return tr_fail(e,
            "%s is no file of safetensors, or is cut: a head of %" PRIu64 " bytes in a file of %" PRId64,
            s->path, length, (int64_t)st.st_size);
    char *head = tr_new((size_t)length, 1);
    struct tr_json j = { head, head + length };
    bool ok = tr_read_at(s->file, head, (int64_t)length, LENGTH, s->path, e) &&
              read_list(s, &j, LENGTH + (int64_t)length, st.st_size, e);
    free(head);
    return ok;
}

bool tr_safetensors_open(struct tr_safetensors *s, const char *path, struct tr_error *e)
{
    *s = (struct tr_safetensors){ .path = path, .file = open(path, O_RDONLY | O_CLOEXEC) };
    if (s->file < 0)
        return tr_fail(e, "%s cannot be read: %s", path, strerror(errno));
    if (read_head(s, e))
        return true;
    tr_safetensors_close(s);
    return false;
}

void tr_safetensors_close(struct tr_safetensors *s)
{
    if (s->file >= 0)
        close(s->file);
    free(s->tensors);
}

const struct tr_stored *tr_safetensors_find(const struct tr_safetensors *s, const char *name)
{
    for (int i = 0; i < s->n; i++)
        if (!strcmp(s->tensors[i].name, name))
            return &s->tensors[i];
    return NULL;
}

/* IEEE binary16: the bits of the same number in binary32, in which each of them is. */
static uint32_t widened(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1F, part = half & 0x3FF;
    if (exponent == 0x1F)
        return sign | 0x7F800000 | part << 13;
    if (exponent)
        return sign | (exponent + 112) << 23 | part << 13;
    if (!part)
        return sign;
    for (exponent = 113; !(part & 0x400); exponent--)
        part <<= 1;
    return sign | exponent << 23 | (part & 0x3FF) << 13;
}

bool tr_safetensors_read(
    const struct tr_safetensors *s, const struct tr_stored *t, float *to, struct tr_error *e)
{
    int64_t each = element_bytes(t->type);
    bool half = !strcmp(t->type, "F16");
    uint16_t some[SOME];
    if (!each)
        return tr_fail(e, "%s: %s is of type %s; legal are F32, F16 and BF16", s->path, t->name, t->type);
    if (each == 4)
        return tr_read_at(s->file, to, t->count * 4, t->at, s->path, e);
    for (int64_t i = 0; i < t->count; i += SOME) {
        int64_t n = t->count - i < SOME ? t->count - i : SOME;
        if (!tr_read_at(s->file, some, n * 2, t->at + i * 2, s->path, e))
            return false;
        for (int64_t k = 0; k < n; k++) {
            uint32_t bits = half ? widened(some[k]) : (uint32_t)some[k] << 16;
            memcpy(&to[i + k], &bits, sizeof bits);
        }
    }
    return true;
}

/* ---- writing ---- */

/* The head as text, with spaces at its end so that the data begin at a multiple of 8. Names are the trainer's
 * own, in which there is nothing to escape. */
static char *head_text(const struct tr_safetensors *s, size_t *length)
{
    char *text = NULL;
    FILE *to = open_memstream(&text, length);
    int64_t at = 0;
    if (!to)
        return NULL;
    fputs("{\"__metadata__\":{\"format\":\"pt\"}", to);
    for (int i = 0; i < s->n; i++) {
        const struct tr_stored *t = &s->tensors[i];
        fprintf(to, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[", t->name, t->type);
        for (int d = 0; d < t->dims; d++)
            fprintf(to, "%s%" PRId64, d ? "," : "", t->shape[d]);
        fprintf(to, "],\"data_offsets\":[%" PRId64 ",%" PRId64 "]}", at, at + t->count * 4);
        at += t->count * 4;
    }
    fputc('}', to);
    fflush(to);
    while (*length % 8) {
        fputc(' ', to);
        fflush(to);
    }
    return fclose(to) == 0 ? text : NULL;
}

bool tr_safetensors_make(struct tr_safetensors *s, const char *path, struct tr_error *e)
{
    size_t length = 0;
    char *text = head_text(s, &length);
    if (!text)
        return tr_fail(e, "%s: there is no memory for its head", path);
    uint64_t bytes = length;
    int64_t at = LENGTH + (int64_t)length;
    for (int i = 0; i < s->n; i++)
        s->tensors[i].at = at, at += s->tensors[i].count * 4;
    s->path = path;
    bool ok = tr_file_make(path, at, e);
    s->file = ok ? open(path, O_WRONLY | O_CLOEXEC) : -1;
    if (ok && s->file < 0)
        ok = tr_fail(e, "%s cannot be written: %s", path, strerror(errno));
    ok = ok && tr_write_at(s->file, &bytes, LENGTH, 0, path, e) &&
         tr_write_at(s->file, text, (int64_t)length, LENGTH, path, e);
    free(text);
    return ok;
}

bool tr_safetensors_write(
    const struct tr_safetensors *s, const struct tr_stored *t, const float *from, struct tr_error *e)
{
    return tr_write_at(s->file, from, t->count * 4, t->at, s->path, e);
}
