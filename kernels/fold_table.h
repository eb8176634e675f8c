/* fold_table.h: the folds of one instruction set, as a constant table.
 *
 * Each instruction set is one object built from fold_loops.h with its own compiler flags, and offers one of
 * these. A table of pointers, not ifunc: ifunc resolvers run before sanitizers are ready, and tests want
 * every set side by side. */
#ifndef TT_KERNELS_FOLD_TABLE_H
#define TT_KERNELS_FOLD_TABLE_H
#include "kernels/kernels.h"

enum { TT_FOLD_TYPES = TUTTI_BFLOAT16 + 1, TT_FOLD_OPS = TUTTI_MIN + 1, TT_SHAPES = TT_TREE + 1 };

struct tt_fold_table {
    tt_fold_fn fold[TT_FOLD_TYPES][TT_FOLD_OPS][TT_SHAPES];
    uint8_t element_bytes[TT_FOLD_TYPES];
};

extern const struct tt_fold_table tt_folds_generic;
extern const struct tt_fold_table tt_folds_avx2; /* all NULL where it is not compiled in */

#endif
