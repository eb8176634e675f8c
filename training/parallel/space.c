/* SPDX-License-Identifier: BSD-3-Clause */
/* space.c: the cut of pictures by space (Dryden et al. 2019): each rank has some rows of every picture's
 * grid, everywhere. It takes the axis that cuts the tokens of a sequence, since these are the cells.
 *
 *        grid  row 0  row 1  row 2  row 3  row 4  row 5  row 6  row 7        cp 4, horizontal cut
 *              rank 0........ rank 1....... rank 2....... rank 3........
 *
 * A convolution of 3 x 3 cells reads one row beyond its own, which a neighbour has: a halo. So before each
 * convolution neighbours exchange a row, forward of its input, and backward of the gradient of its result.
 *
 *        x St -> halo -> Nt, filters -> y St           d.y St -> halo -> Nt, filters_dx -> d.x St
 *
 * The ranks at the border have one neighbour, and +0 beyond the other side. Of pictures each rank has the
 * halo at once, since they are drawn or read, not made. With --cnn-cut columns the cells are numbered column
 * after column, so that a part of the tokens is some columns, and the halo is a column: the vertical cut.
 *
 * What sums over cells is a sum over ranks: gradients of weights and biases, as under context parallelism
 * (context.c), and the mean over the grid, after which all ranks have the same. */
#include "training/parallel/paradigms.h"

const struct tr_table tr_space_table = { "space", TR_CP, { { "pictures", "Nt" }, { "stream", "St" } } };

bool tr_space_check(const struct tr_plan *p, struct tr_error *e)
{
    int cp = p->mesh.size[TR_CP];
    if (cp > TR_BLOCKS || TR_BLOCKS % cp)
        return tr_fail(e,
                   "--cp %d cuts the grid of a picture, which is summed in %d blocks of rows (or columns)",
                   cp, TR_BLOCKS) ||
               tr_offer_divisors(e, "cp", TR_BLOCKS);
    if (p->tokens.form != TR_CP_GATHER)
        return tr_fail(e, "--cp-attention %s: a picture has no attention; leave it out",
            tr_cp_form_names[p->tokens.form]);
    return p->tokens.map == TR_CP_CONTIGUOUS ||
           tr_fail(e,
               "--cp-map %s: a convolution reads what lies beside it, so a rank has neighbouring rows; "
               "leave it out",
               tr_cp_map_names[p->tokens.map]);
}
