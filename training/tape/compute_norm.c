/* SPDX-License-Identifier: BSD-3-Clause */
/* compute_norm.c: group norm (Wu, He 2018): the channels of a picture are normalised in groups, each over
 * all of its cells.
 *
 * The sums over the cells are operations of their own, for each channel, since an axis that cuts the cells
 * must complete them. A group is made of neighbouring channels and whole on its rank, so that what follows
 * from the sums is made here: one number for each group. */
#include "training/tape/call.h"

#include <math.h>

enum { LANES = 16 };

/* Lane i % 16 takes summand i, ascending, fused with a factor y[i] if there is one; then the tree. */
static float along(const float *x, const float *y, int64_t n)
{
    float lane[LANES] = { 0 };
    for (int64_t i = 0; i < n; i++)
        lane[i % LANES] = y ? fmaf(x[i], y[i], lane[i % LANES]) : lane[i % LANES] + x[i];
    for (int step = 1; step < LANES; step *= 2)
        for (int i = 0; i < LANES; i += 2 * step)
            lane[i] = lane[i] + lane[i + step];
    return lane[0];
}

/* to[channel] = the mean over its group, of what sums[channel], times factor[channel], are the sums of. */
static void means(const struct tr_call *c, float *to, const float *sums, const float *factor, int64_t width)
{
    int64_t size = c->g->channels / c->g->groups;
    for (int64_t first = 0; first < width; first += size) {
        float mean = along(sums + first, factor ? factor + first : NULL, size);
        mean = mean / (float)(c->g->context * size);
        for (int64_t i = first; i < first + size; i++)
            to[i] = mean;
    }
}

/* One over the deviation, from the sums of the squares. */
static void scales(const struct tr_call *c, float *to, const float *squares, int64_t width)
{
    means(c, to, squares, NULL, width);
    for (int64_t i = 0; i < width; i++)
        to[i] = 1 / sqrtf(to[i] + 1e-5f);
}

int64_t tr_scratch_group_norm(int64_t width)
{
    return 3 * width;
}

/* x less its mean. */
static void centre(const struct tr_call *c, int64_t s, int64_t rows, int64_t width)
{
    float *less = c->scratch;
    means(c, less, c->in[1].p + s * width, NULL, width);
    for (int64_t i = 0; i < width; i++)
        less[i] = -less[i];
    c->k->add_bias(c->out[0].p + s * rows * width, c->in[0].p + s * rows * width, less, rows, width);
}

/* The sums over a group follow from the gradients of scale and shift, each of this picture. */
static void gradient(const struct tr_call *c, int64_t s, int64_t rows, int64_t width)
{
    const float *w = c->in[3].p;
    float *scale = c->scratch, *sum = scale + width, *dot = sum + width;
    scales(c, scale, c->in[2].p + s * width, width);
    means(c, sum, w, c->in[5].p + s * width, width);
    means(c, dot, w, c->in[4].p + s * width, width);
    c->k->group_norm_dx(c->out[0].p + s * rows * width, c->in[0].p + s * rows * width,
        c->in[1].p + s * rows * width, &(struct tr_group_norm){ scale, sum, dot }, w, rows, width);
}

bool tr_group_norm(const struct tr_call *c)
{
    int64_t rows = c->in[0].d[1], width = c->in[0].d[2];
    float *scale = c->scratch;
    for (int64_t s = 0; s < c->n; s++) {
        const float *x = c->in[0].p + s * rows * width;
        switch (c->i->op) {
        case TR_CENTRE:
            centre(c, s, rows, width);
            break;
        case TR_SUM_SQUARES:
            c->k->sum_products(c->out[0].p + s * width, x, x, NULL, rows, width, c->block);
            break;
        case TR_GROUP_NORM:
            scales(c, scale, c->in[1].p + s * width, width);
            c->k->group_norm(c->out[0].p + s * rows * width, x, scale, c->in[2].p, c->in[3].p, rows, width);
            break;
        case TR_GROUP_NORM_DW:
            scales(c, scale, c->in[2].p + s * width, width);
            c->k->sum_products(
                c->out[0].p + s * width, x, c->in[1].p + s * rows * width, scale, rows, width, c->block);
            c->k->sum_tokens(c->out[1].p + s * width, x, rows, width, c->block);
            break;
        case TR_GROUP_NORM_DX:
            gradient(c, s, rows, width);
            break;
        default:
            return false;
        }
    }
    return true;
}
