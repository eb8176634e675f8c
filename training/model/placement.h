/* SPDX-License-Identifier: BSD-3-Clause */
/* placement.h: how a tensor lies on one axis of the mesh, and what collectives make of that.
 *
 * A tensor is whole on all ranks (R), cut along a dimension (S), a partial result on each, whose fold is the
 * tensor (P), or whole on the first rank alone (O). Attributes say the rest: what is cut or summed over, the
 * order in which the parts lie, whose tokens they are. A collective follows from the attribute that differs.
 *
 * Rules of operations and tables of paradigms write placements by two characters:
 *
 *   R   all ranks have the whole               Sb St Sc Sr  each has a part of the dimension with that letter
 *   F   each has a part of the flat array      E   each has the rows for the experts that are here
 *   O   the first rank has the whole, and the others nothing
 *   P+  a sum over channels or the vocabulary  Pm  a maximum       P1  one rank has it, the others +0
 *   Pb  a sum over blocks of tokens            Ps  a sum over sequences
 *
 *   Xc  as St, but the channels of each rank lie side by side, for an all-to-all; Yc as R, Pc as P+ alike
 *   Gb  as R: what is counted of the sequences of all ranks, in the order of ranks; Gr as Sr alike
 *
 *   Zt  each has a part of each half of the sequence (map.h); Yt as R, in the order of ranks
 *   Pz  as Pb, of each half apart; Pq that, with what is due at each rank side by side
 *   Hz  as R: what both halves give, not yet added; Hs that, of the tokens of Zt
 *   Nt  as St, and beside it the nearest row of each neighbour; +0 beyond the border
 *
 * And of a ring, whose ranks hand parts of the tokens on, with a digit j; in a rule, # is its node's:
 *
 *   Tj  as St, of the rank j before            Vj  what the keys of the rank j before give to the tokens here
 *   Wj  a gradient for the rank j before       Uj  a gradient for the tokens here, of the rank j behind
 *
 * The vocabulary grew out of OneFlow's SBP (Yuan et al. 2021), GSPMD (Xu et al. 2021) and DTensor; folds that
 * know which leaves they sum are Tutti's own. */
#ifndef TRAINING_MODEL_PLACEMENT_H
#define TRAINING_MODEL_PLACEMENT_H

#include <stdbool.h>

enum tr_holds { TR_R, TR_S, TR_P, TR_O };
enum tr_fold { TR_FOLD_SUM, TR_FOLD_MAX, TR_FOLD_ONE }; /* what joins partial results */
enum tr_term { TR_NO_TERM, TR_OF_KEYS, TR_OF_QUERIES };

struct tr_placement {
    char kind; /* enum tr_holds */
    char dim; /* S: what is cut: b t c r, f the flat array, e rows of experts; P: the sum is over c, t, b */
    char fold; /* P: enum tr_fold */
    char packed; /* along this dimension what is of one rank lies together; 0: all is in order */
    bool zigzag; /* S of t: a part of each half */
    bool halves; /* the sums over the two halves of a sequence are kept apart */
    bool halo; /* S of t: and the nearest row of each neighbour */
    signed char shift; /* S of t: the tokens of the rank so many before */
    char term, of; /* one summand of a sum that this rank forms: enum tr_term, and of which rank before */
};

extern const struct tr_placement tr_whole, tr_flat; /* R, F */

enum tr_move {
    TR_MOVE_ALL_REDUCE,
    TR_MOVE_REDUCE_SCATTER,
    TR_MOVE_ALL_GATHER,
    TR_MOVE_REDUCE,
    TR_MOVE_BROADCAST,
    TR_MOVE_ALL_TO_ALL,
    TR_MOVE_SHIFT,
    TR_MOVE_HALO,
    TR_MOVES
};

/* The placement that the first two characters write, with `shift` for #. */
struct tr_placement tr_placement_of(const char *text, int shift);
/* Two characters; people read Hs as Hz. */
const char *tr_placement_text(struct tr_placement p, char text[3]);
bool tr_placement_is(struct tr_placement a, struct tr_placement b);
/* A part of the tokens in the order of the sequence, of this rank's own. */
bool tr_placement_cuts_tokens(struct tr_placement p);

/* What a move makes of a placement, along `dim` where it may choose; false: it takes no such. */
bool tr_move(struct tr_placement from, enum tr_move m, char dim, struct tr_placement *to);
/* The move between two placements; -1: there is none. */
int tr_move_between(struct tr_placement from, struct tr_placement to);

#endif
