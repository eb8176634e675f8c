/* SPDX-License-Identifier: BSD-3-Clause */
/* cifar.c: coloured pictures from a file of the user: the binary format of CIFAR-10 (Krizhevsky 2009).
 *
 *        one byte      the class
 *        3072 bytes    the picture: 32 x 32 of red, row by row, then of green, then of blue
 *        and so on     nothing stands before, between or behind */
#include "training/data/data.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, PLANES = 3, PICTURE = PLANES * SIDE * SIDE, RECORD = 1 + PICTURE };

static bool is_whole(
    const uint8_t *bytes, int64_t count, const char *path, int64_t grid, int64_t classes, struct tr_error *e)
{
    if (2 * grid < SIDE)
        return tr_fail(e,
            "%s has pictures of %d x %d pixels, and the model's have %" PRId64 " x %" PRId64
            "; legal is --grid %d and more, up to 256",
            path, SIDE, SIDE, 2 * grid, 2 * grid, SIDE / 2);
    if (count == 0 || count % RECORD)
        return tr_fail(e,
            "%s has %" PRId64 " bytes; a file of CIFAR-10 has %d for each picture, its class and 3 x %d x %d "
            "numbers, and nothing else%s",
            path, count, RECORD, SIDE, SIDE,
            count >= 2 && bytes[0] == 0x1F && bytes[1] == 0x8B ? "; unpack it first" : "");
    for (int64_t i = 0; i < count / RECORD; i++)
        if (bytes[i * RECORD] >= classes)
            return tr_fail(e,
                "%s: picture %" PRId64 " is of class %d; the model has classes 0 to %" PRId64
                " (--vocabulary %" PRId64 ")",
                path, i, bytes[i * RECORD], classes - 1, classes);
    return true;
}

bool tr_cifar_open(
    struct tr_data *d, const char *path, uint64_t seed, int64_t grid, int64_t classes, struct tr_error *e)
{
    uint8_t *bytes;
    int64_t count;
    *d = (struct tr_data){ .seed = seed };
    snprintf(d->name, sizeof d->name, "%s", path);
    if (!tr_read_file(&bytes, &count, path, e))
        return false;
    bool ok = is_whole(bytes, count, path, grid, classes, e);
    if (ok) {
        d->count = count / RECORD, d->height = d->width = SIDE, d->planes = PLANES;
        d->pixels = tr_new((size_t)d->count, PICTURE);
        d->labels = tr_new((size_t)d->count, 1);
        for (int64_t i = 0; i < d->count; i++) {
            d->labels[i] = bytes[i * RECORD];
            memcpy(d->pixels + i * PICTURE, bytes + i * RECORD + 1, PICTURE);
        }
    }
    free(bytes);
    return ok;
}
