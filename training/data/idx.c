/* SPDX-License-Identifier: BSD-3-Clause */
/* idx.c: pictures and their classes from files of the user: IDX, the format of MNIST (LeCun et al. 1998).
 *
 *        bytes 0-3     00 00 08 n: numbers of one byte, in n dimensions
 *        then          n sizes of four bytes each, the highest byte first
 *        then          the numbers: pictures row by row, [count][height][width]; labels, [count]
 *
 * A picture that is smaller than the model's stands in its middle, and around it there is 0: so LeNet-5 took
 * MNIST's 28 pixels for 32. Files are read whole before anything of them is believed. */
#include "training/data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 8, MOST_DIMS = 3 };

/* A file whose head was read. */
struct idx {
    uint8_t *bytes;
    int64_t size[MOST_DIMS];
    int64_t at; /* where the numbers begin */
};

static int64_t size_at(const uint8_t *p)
{
    return (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
}

/* What is in the first four bytes, if it is not an IDX file of bytes in so many dimensions. */
static bool magic_is(const uint8_t *b, int64_t count, int dims, const char *path, struct tr_error *e)
{
    const char *wanted = dims == 1 ? "labels" : "pictures";
    if (count >= 2 && b[0] == 0x1F && b[1] == 0x8B)
        return tr_fail(e, "%s is compressed; unpack it first: gunzip -k %s", path, path);
    if (count < 4 || b[0] != 0 || b[1] != 0)
        return tr_fail(e,
            "%s is no IDX file of %s: it does not begin with 00 00 08 0%d, as the files of MNIST do", path,
            wanted, dims);
    if (b[2] != BYTES)
        return tr_fail(
            e, "%s has numbers of type %02x; those of type 08, unsigned bytes, can be read", path, b[2]);
    return b[3] == dims || tr_fail(e, "%s has %d dimension%s, as %s have; %s have %d", path, b[3],
                               b[3] == 1 ? "" : "s", b[3] == 1 ? "labels" : "other files", wanted, dims);
}

static bool take(struct idx *x, int64_t count, int dims, const char *path, struct tr_error *e)
{
    if (!magic_is(x->bytes, count, dims, path, e))
        return false;
    x->at = 4 + 4 * dims;
    if (count < x->at)
        return tr_fail(e, "%s ends after %" PRId64 " bytes, in the head of %" PRId64, path, count, x->at);
    int64_t each = 1;
    for (int i = 0; i < dims; i++) {
        x->size[i] = size_at(x->bytes + 4 + 4 * i);
        if (x->size[i] < 1 || (i > 0 && x->size[i] > UINT16_MAX))
            return tr_fail(e, "%s: its head gives a size of %" PRId64 "; legal are 1 to %" PRId64, path,
                x->size[i], i ? (int64_t)UINT16_MAX : (int64_t)UINT32_MAX);
        each *= i ? x->size[i] : 1;
    }
    int64_t here = (count - x->at) / each, rest = (count - x->at) % each;
    if (here != x->size[0] || rest)
        return tr_fail(e,
            "%s: its head promises %" PRId64 " %s of %" PRId64 " byte%s, and there are %" PRId64 "%s; the "
            "file was cut short or is not whole",
            path, x->size[0], dims == 1 ? "labels" : "pictures", each, each == 1 ? "" : "s", here,
            rest ? " and a part" : "");
    return true;
}

static bool read_idx(struct idx *x, int dims, const char *path, struct tr_error *e)
{
    int64_t count;
    return tr_read_file(&x->bytes, &count, path, e) && take(x, count, dims, path, e);
}

static bool agree(const struct idx *pictures, const struct idx *labels, const struct tr_picture_files *f,
    int64_t grid, int64_t classes, struct tr_error *e)
{
    int64_t height = pictures->size[1], width = pictures->size[2], larger = height > width ? height : width;
    if (larger > 2 * grid)
        return tr_fail(e,
            "%s has pictures of %" PRId64 " x %" PRId64 " pixels, and the model's have %" PRId64 " x %" PRId64
            "; legal is --grid %" PRId64 " and more, up to 256",
            f->pictures, height, width, 2 * grid, 2 * grid, (larger + 15) / 16 * 8);
    if (pictures->size[0] != labels->size[0])
        return tr_fail(e, "%s has %" PRId64 " pictures, and %s %" PRId64 " labels; each picture has one",
            f->pictures, pictures->size[0], f->labels, labels->size[0]);
    for (int64_t i = 0; i < labels->size[0]; i++)
        if (labels->bytes[labels->at + i] >= classes)
            return tr_fail(e,
                "%s: label %" PRId64 " is %d; the model has classes 0 to %" PRId64 " (--vocabulary %" PRId64
                ")",
                f->labels, i, labels->bytes[labels->at + i], classes - 1, classes);
    return true;
}

/* The numbers alone, in memory of their own. */
static uint8_t *numbers(const struct idx *x, int64_t count)
{
    uint8_t *p = tr_new((size_t)count, 1);
    memcpy(p, x->bytes + x->at, (size_t)count);
    return p;
}

bool tr_idx_open(struct tr_data *d, const struct tr_picture_files *f, uint64_t seed, int64_t grid,
    int64_t classes, struct tr_error *e)
{
    struct idx pictures = { .bytes = NULL }, labels = { .bytes = NULL };
    *d = (struct tr_data){ .seed = seed };
    snprintf(d->name, sizeof d->name, "%s", f->pictures);
    bool ok = read_idx(&pictures, 3, f->pictures, e) && read_idx(&labels, 1, f->labels, e) &&
              agree(&pictures, &labels, f, grid, classes, e);
    if (ok) {
        d->planes = 1, d->count = pictures.size[0], d->height = pictures.size[1], d->width = pictures.size[2];
        d->pixels = numbers(&pictures, d->count * d->height * d->width);
        d->labels = numbers(&labels, d->count);
    }
    free(pictures.bytes), free(labels.bytes);
    return ok;
}
