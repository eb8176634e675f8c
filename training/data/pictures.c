/* SPDX-License-Identifier: BSD-3-Clause */
/* pictures.c: digits with noise, drawn as the golden program draws them, or a picture of the user's: whole
 * numbers over 128. */
#include "training/data/data.h"

/* The digits 0 to F as seven bars show them: bars a to g, from the lowest bit. */
static const unsigned char digits[16] = { 0x3F, 0x06, 0x5B, 0x4F, 0x66, 0x6D, 0x7D, 0x07, 0x7F, 0x6F, 0x77,
    0x7C, 0x39, 0x5E, 0x79, 0x71 };

void tr_pictures_open(struct tr_data *d, uint64_t seed)
{
    *d = (struct tr_data){ .name = "made-up digits", .seed = seed, .planes = 1 };
}

static uint64_t key_of(const struct tr_data *d, int64_t step, int64_t number)
{
    return tr_hash(tr_hash(tr_hash(d->seed) + (uint64_t)step) + (uint64_t)number);
}

/* The bar that runs through a point of a digit of 5 x 9, or -1: a above, b and c on the right, d below, e and
 * f on the left, g in the middle. */
static int bar_at(int64_t i, int64_t j)
{
    static const int across[3] = { 0, 6, 3 }, down[2][2] = { { 5, 1 }, { 4, 2 } };
    if (i < 0 || i > 8 || j < 0 || j > 4 || (i % 4 == 0) == (j % 4 == 0))
        return -1;
    return i % 4 == 0 ? across[i / 4] : down[i / 4][j / 4];
}

uint16_t tr_pictures_target(const struct tr_data *d, int64_t classes, int64_t step, int64_t number)
{
    uint64_t key = key_of(d, step, number);
    return (uint16_t)(d->labels ? d->labels[key % (uint64_t)d->count] : key % (uint64_t)classes);
}

/* A digit that is drawn: its place, and how many pixels wide a point of it is. */
struct drawing {
    int64_t top, left, point;
    unsigned char bars;
    uint64_t key;
};

static int64_t drawn_pixel(const struct drawing *g, int64_t side, int64_t i, int64_t j)
{
    bool below = i >= g->top && j >= g->left;
    int bar = below ? bar_at((i - g->top) / g->point, (j - g->left) / g->point) : -1;
    int64_t ink = bar >= 0 && g->bars >> bar & 1 ? 128 : 0;
    return ink + (int64_t)(tr_hash(g->key + 1 + (uint64_t)(i * side + j)) % 128) - 64;
}

/* In the middle of what the model takes; planes are counted through all pictures. */
static int64_t given_pixel(const struct tr_data *d, int64_t plane, int64_t side, int64_t i, int64_t j)
{
    i -= (side - d->height) / 2, j -= (side - d->width) / 2;
    bool inside = i >= 0 && i < d->height && j >= 0 && j < d->width;
    return inside ? d->pixels[(plane * d->height + i) * d->width + j] : 0;
}

void tr_pictures_draw(const struct tr_data *d, const struct tr_cells *c, int64_t classes, int64_t step,
    int64_t number, float *to)
{
    uint64_t key = key_of(d, step, number);
    int64_t side = 2 * c->grid, cell = 4 * d->planes, place = (int64_t)(key >> 32);
    int64_t picture = d->pixels ? (int64_t)(key % (uint64_t)d->count) : -1;
    struct drawing digit = { .point = c->grid / 8, .key = key };
    if (picture < 0) {
        digit.bars = digits[tr_pictures_target(d, classes, step, number)];
        digit.top = place % (side - 9 * digit.point + 1);
        digit.left = (place >> 16) % (side - 5 * digit.point + 1);
    }
    for (int64_t n = 0; n < c->rows * c->grid * cell; n++) {
        int64_t row = c->first + n / cell / c->grid, column = n / cell % c->grid;
        int64_t plane = picture * d->planes + n % cell / 4;
        int64_t i = 2 * (c->columns ? column : row) + n % 4 / 2, j = 2 * (c->columns ? row : column) + n % 2;
        bool there = row >= 0 && row < c->grid;
        to[n] = 0;
        if (there)
            to[n] =
                (float)(picture < 0 ? drawn_pixel(&digit, side, i, j) : given_pixel(d, plane, side, i, j)) /
                128;
    }
}
