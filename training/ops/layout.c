/* SPDX-License-Identifier: BSD-3-Clause */
/* layout.c: what stands beside collectives and changes the order of elements, or which of them are here, and
 * computes nothing; and the sum of the two halves of a sequence. */
#include "training/ops/site.h"

/* Of all channels of each token, those of this rank. */
static void slice(const struct tr_call *c)
{
    int64_t whole = c->in[0].d[2] * TR_FLOAT_BYTES, here = c->out[0].d[2];
    struct tr_copy rows = { { 1, 1, c->n * c->in[0].d[1] }, { 0, 0, here * TR_FLOAT_BYTES }, { 0, 0, whole },
        here * TR_FLOAT_BYTES };
    c->k->copy(c->x, c->out[0].p, c->in[0].p + c->tp_rank * here, &rows);
}

/* x[sequence][token][rank][width] becomes x[sequence][rank][token][width], or comes back. */
static void pack(const struct tr_call *c)
{
    bool back = c->op == TR_UNPACK;
    int64_t t = c->in[0].d[1], whole = c->in[0].d[2] * TR_FLOAT_BYTES, width = whole / c->ranks;
    struct tr_copy rows = { { c->n, c->ranks, t }, { t * whole, t * width, width },
        { t * whole, width, whole }, width };
    const struct tr_operand *packed = back ? &c->in[0] : &c->out[0], *plain = back ? &c->out[0] : &c->in[0];
    tr_carry(c, packed->p, plain->p, &rows, back);
}

/* x[sequence][rank][run][token][width] becomes x[sequence][token][width] in the order of the sequence. The
 * other way, each half of a gradient is dealt out: x[sequence][half][token][width] becomes
 * x[sequence][rank][half][run][token][width]. */
static void arrange(const struct tr_call *c)
{
    bool deal = c->op == TR_DEAL;
    int64_t halves = deal ? TR_RUNS : 1, runs = c->map.cp * c->runs, width = c->in[0].d[2];
    int64_t run = c->in[0].d[1] / runs * width, whole = halves * runs * run * TR_FLOAT_BYTES;
    struct tr_copy rows = { { 1, 1, c->n }, { 0, 0, whole }, { 0, 0, whole }, run * TR_FLOAT_BYTES };
    for (int64_t x = 0; x < halves * runs; x++) { /* in the order of the sequence */
        struct tr_owner owner = tr_owner_of(&c->map, (int)(x % runs));
        int64_t dealt = ((owner.rank * halves + x / runs) * c->runs + owner.run) * run;
        c->k->copy(
            c->x, c->out[0].p + (deal ? dealt : x * run), c->in[0].p + (deal ? x * run : dealt), &rows);
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
