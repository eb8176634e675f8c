/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c: what stands beside collectives and changes the order of elements, or which of them are here, and
 * computes nothing; and the sum of the two halves of a sequence. */
#include "training/ops/site.h"

#include <string.h>

/* Of all channels of each token, those of this rank. */
static void slice(const struct tr_call *c)
{
    int64_t whole = c->in[0].d[2], here = c->out[0].d[2], tokens = c->n * c->in[0].d[1];
    for (int64_t t = 0; t < tokens; t++)
        memcpy(
            c->out[0].p + t * here, c->in[0].p + t * whole + c->tp_rank * here, (size_t)here * sizeof(float));
}

/* x[sequence][token][rank][width] becomes x[sequence][rank][token][width], or comes back. */
static void pack(const struct tr_call *c)
{
    bool back = c->op == TR_UNPACK;
    int64_t t = c->in[0].d[1], width = c->in[0].d[2] / c->ranks, from = 0, blocks = c->n * c->ranks * t;
    for (int64_t block = 0; block < blocks; block++) { /* in the packed order */
        int64_t s = block / (c->ranks * t), rank = block / t % c->ranks, token = block % t;
        from = ((s * t + token) * c->ranks + rank) * width;
        memcpy(c->out[0].p + (back ? from : block * width), c->in[0].p + (back ? block * width : from),
            (size_t)width * sizeof(float));
    }
}

/* x[sequence][rank][run][token][width] becomes x[sequence][token][width] in the order of the sequence. The
 * other way, each half of a gradient is dealt out: x[sequence][half][token][width] becomes
 * x[sequence][rank][half][run][token][width]. */
static void arrange(const struct tr_call *c)
{
    bool deal = c->op == TR_DEAL;
    int64_t halves = deal ? TR_RUNS : 1, runs = c->map.cp * c->runs, width = c->in[0].d[2];
    int64_t run = c->g->context / runs * width;
    for (int64_t x = 0; x < c->n * halves * runs; x++) { /* in the order of the sequence */
        int64_t s = x / (halves * runs), half = x / runs % halves;
        struct tr_owner owner = tr_owner_of(&c->map, (int)(x % runs));
        int64_t dealt = (((s * c->map.cp + owner.rank) * halves + half) * c->runs + owner.run) * run;
        memcpy(c->out[0].p + (deal ? dealt : x * run), c->in[0].p + (deal ? x * run : dealt),
            (size_t)run * sizeof(float));
    }
}

/* x[sequence][half][token][width]: the halves are the two children of the root. */
static void add_halves(const struct tr_call *c)
{
    c->k->fold(c->x, c->out[0].p, c->in[0].p, TR_RUNS, c->out[0].d[1] * c->out[0].d[2], c->n);
}

const struct tr_op_row tr_op_pack = {
    .name = "pack", .rules = { "R -> R", "Sb -> Sb", "St -> Xc", "Sc -> Sc", "P+ -> Pc" }, .run = pack
};
const struct tr_op_row tr_op_unpack = {
    .name = "unpack", .rules = { "R -> R", "Sb -> Sb", "Xc -> St", "Sc -> Sc", "Yc -> R" }, .run = pack
};
const struct tr_op_row tr_op_arrange = {
    .name = "arrange", .rules = { "R -> R", "Sb -> Sb", "Yt -> R", "Sc -> Sc" }, .run = arrange
};
const struct tr_op_row tr_op_deal = {
    .name = "deal", .rules = { "R -> R", "Sb -> Sb", "Pz -> Pq", "Sc -> Sc" }, .run = arrange
};
const struct tr_op_row tr_op_halves = {
    .name = "halves", .rules = { "R -> R", "Sb -> Sb", "Hs -> Zt", "Sc -> Sc" }, .run = add_halves
};
const struct tr_op_row tr_op_slice = { .name = "slice", .rules = { "R -> Sc" }, .run = slice };
