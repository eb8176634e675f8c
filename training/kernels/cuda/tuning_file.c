/* SPDX-License-Identifier: BSD-3-Clause */
/* tuning_file.c: what was measured, as text: a head, a line for each shape, and an end that counts them.
 *
 *   tutti-train tiles 1
 *   device NVIDIA H200
 *   driver 13.0
 *   # m n k chunks batch mask along tile splits ns
 *   product 8192 2304 768 1 1 none a 128x128 1 697000
 *   product 768 768 8192 64 1 none - 128x128 16 313000
 *   end 2
 *
 * mask says which part of attention it is: none, scores, keys or queries. along names the operands whose k is
 * contiguous. Times are for people. A line that begins with # means nothing.
 *
 * What is read is legal, or refused: not what is fastest, because no line can change a result. So the driver
 * is told and not compared, and a device of another name is refused. */
#include "training/kernels/cuda/tune.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_LINE = 512, MASKS = 4, ALONGS = 4 };
static const char *const masks[MASKS] = { "none", "scores", "keys", "queries" };
static const char *const alongs[ALONGS] = { "-", "a", "b", "ab" };
static const char head[] = "tutti-train tiles 1";

/* Where it is being read, and where words go. */
struct reading {
    FILE *file;
    const char *path;
    int line;
    char text[MOST_LINE];
    char *words;
    size_t size;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reading *r, const char *format, ...)
{
    int n = snprintf(r->words, r->size, "%s, line %d: ", r->path, r->line);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < r->size)
        vsnprintf(r->words + n, r->size - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* The next line that means something, without its end. */
static bool next_line(struct reading *r)
{
    do {
        r->line++;
        if (!fgets(r->text, sizeof r->text, r->file))
            return refuse(r, "the file ends before its line \"end\": it is cut off");
        size_t length = strcspn(r->text, "\n");
        if (!r->text[length])
            return refuse(r, "the line is cut off, or longer than %d characters", MOST_LINE - 2);
        r->text[length] = 0;
    } while (r->text[0] == '#');
    return true;
}

static bool read_head(struct reading *r, struct tr_cuda_tuning *t)
{
    if (!next_line(r))
        return false;
    if (strcmp(r->text, head))
        return refuse(r, "\"%s\" stands where \"%s\" must", r->text, head);
    static const char device[] = "device ", driver[] = "driver ";
    if (!next_line(r))
        return false;
    if (strncmp(r->text, device, strlen(device)))
        return refuse(r, "\"%s\" stands where the device must", r->text);
    if (strcmp(r->text + strlen(device), t->device))
        return refuse(r,
            "this was measured on %s, and this device is %s: name another file, which will be made",
            r->text + strlen(device), t->device);
    if (!next_line(r))
        return false;
    if (strncmp(r->text, driver, strlen(driver)))
        return refuse(r, "\"%s\" stands where the driver must", r->text);
    return true;
}

/* The next word; "" behind the last one. */
static const char *next_word(char **rest)
{
    char *word = *rest + strspn(*rest, " ");
    size_t length = strcspn(word, " ");
    *rest = word + length + (word[length] != 0);
    word[length] = 0;
    return word;
}

static bool next_number(struct reading *r, char **rest, const char *what, int64_t least, int64_t *number)
{
    const char *word = next_word(rest);
    char *end;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (end == word || *end || errno || value < least || value > INT32_MAX)
        return refuse(
            r, "%s is \"%s\": legal are numbers from %" PRId64 " to %d", what, word, least, INT32_MAX);
    *number = value;
    return true;
}

static bool next_of(
    struct reading *r, char **rest, const char *what, const char *const *legal, int n, int32_t *number)
{
    const char *word = next_word(rest);
    for (int32_t i = 0; i < n; i++)
        if (!strcmp(word, legal[i])) {
            *number = i;
            return true;
        }
    char list[MOST_LINE] = "";
    for (int i = 0; i < n; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", legal[i]);
    return refuse(r, "%s is \"%s\": legal are %s", what, word, list);
}

static bool read_product(struct reading *r, char *rest, struct tr_cuda_tuned *t)
{
    static const char *const tiles[TR_CUDA_TILES] = { "128x128", "128x64", "64x64" };
    struct tr_cuda_shape *s = &t->shape;
    int32_t along;
    if (!next_number(r, &rest, "m", 1, &s->m) || !next_number(r, &rest, "n", 1, &s->n) ||
        !next_number(r, &rest, "k", 0, &s->k) || !next_number(r, &rest, "chunks", 1, &s->chunks) ||
        !next_number(r, &rest, "batch", 1, &s->batch) || !next_of(r, &rest, "mask", masks, MASKS, &s->mask) ||
        !next_of(r, &rest, "along", alongs, ALONGS, &along) ||
        !next_of(r, &rest, "tile", tiles, TR_CUDA_TILES, &t->choice.tile) ||
        !next_number(r, &rest, "splits", 1, &t->choice.splits) || !next_number(r, &rest, "ns", 0, &t->ns))
        return false;
    s->a_along = along & 1;
    s->b_along = along & 2;
    if (*rest)
        return refuse(r, "\"%s\" stands behind the line's end", rest);
    if (!tr_cuda_subtree(s->chunks, t->choice.splits))
        return refuse(
            r, "%" PRId64 " splits cut no whole subtrees of %" PRId64 " chunks", t->choice.splits, s->chunks);
    return true;
}

static bool read_all(struct reading *r, struct tr_cuda_tuning *t)
{
    if (!read_head(r, t))
        return false;
    for (t->count = 0;;) {
        if (!next_line(r))
            return false;
        char *rest = r->text;
        const char *word = next_word(&rest);
        int64_t count;
        if (!strcmp(word, "end")) {
            if (!next_number(r, &rest, "end", 0, &count))
                return false;
            if (count != t->count)
                return refuse(r, "%d products are there, and the end says %" PRId64, t->count, count);
            return fgetc(r->file) == EOF || refuse(r, "something stands behind the end");
        }
        if (strcmp(word, "product"))
            return refuse(r, "\"%s\": legal are product and end", word);
        if (t->count == TR_CUDA_MOST_TUNED)
            return refuse(r, "there are more than %d products", TR_CUDA_MOST_TUNED);
        if (!read_product(r, rest, &t->tuned[t->count]))
            return false;
        if (tr_cuda_find(t, &t->tuned[t->count].shape))
            return refuse(r, "this shape has a line before");
        t->count++;
    }
}

bool tr_cuda_tuning_read(struct tr_cuda_tuning *t, const char *path, char *words, size_t size)
{
    struct reading r = { .file = fopen(path, "r"), .path = path, .words = words, .size = size };
    if (!r.file) {
        snprintf(words, size, "%s: %s", path, strerror(errno));
        return false;
    }
    struct tr_cuda_tuning *read = malloc(sizeof *read);
    bool ok = read;
    if (read) {
        *read = *t;
        ok = read_all(&r, read);
        if (ok)
            *t = *read;
    } else {
        snprintf(words, size, "%s: no memory to read it", path);
    }
    free(read);
    fclose(r.file);
    return ok;
}

static bool write_all(const struct tr_cuda_tuning *t, FILE *f)
{
    fprintf(f, "%s\ndevice %s\ndriver %s\n# m n k chunks batch mask along tile splits ns\n", head, t->device,
        t->driver);
    for (int32_t i = 0; i < t->count; i++) {
        const struct tr_cuda_shape *s = &t->tuned[i].shape;
        const struct tr_cuda_choice *c = &t->tuned[i].choice;
        const struct tr_cuda_tile *tile = &tr_cuda_tiles[c->tile];
        fprintf(f,
            "product %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s %s %" PRId64 "x%" PRId64
            " %" PRId64 " %" PRId64 "\n",
            s->m, s->n, s->k, s->chunks, s->batch, masks[s->mask], alongs[s->a_along + 2 * s->b_along],
            tile->m, tile->n, c->splits, t->tuned[i].ns);
    }
    fprintf(f, "end %" PRId32 "\n", t->count);
    return !ferror(f);
}

bool tr_cuda_tuning_write(const struct tr_cuda_tuning *t, const char *path, char *words, size_t size)
{
    char beside[PATH_MAX];
    int n = snprintf(beside, sizeof beside, "%s.new", path);
    FILE *f = n > 0 && (size_t)n < sizeof beside ? fopen(beside, "w") : NULL;
    bool ok = f && write_all(t, f);
    if (f && fclose(f))
        ok = false;
    if (ok && rename(beside, path))
        ok = false;
    if (!ok) {
        snprintf(words, size, "%s: %s", path, strerror(errno));
        if (f)
            remove(beside);
    }
    return ok;
}
