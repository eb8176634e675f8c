/* SPDX-License-Identifier: BSD-3-Clause */
/* fold_table.h: the folds of one instruction set, as a constant table.
 *
 * Each instruction set is one object built from fold_loops.h with its own compiler flags, and offers one of
 * these. A table of pointers, not ifunc: ifunc resolvers run before sanitizers are ready, and tests want
 * every set side by side. */
#ifndef TT_KERNELS_FOLD_TABLE_H
#define TT_KERNELS_FOLD_TABLE_H
#include "kernels/kernels.h"

enum tt_fold_row {
    TT_ROW_SUM,
    TT_ROW_PROD,
    TT_ROW_MAX,
    TT_ROW_MIN,
    TT_ROW_AND,
    TT_ROW_OR,
    TT_ROW_XOR,
    TT_ROWS
};
/* TT_ROWS if there is none. */
static inline enum tt_fold_row tt_fold_row_of(tutti_op op)
{
    switch (op) {
    case TUTTI_SUM:
    case TUTTI_AVG:
        return TT_ROW_SUM;
    case TUTTI_PROD:
        return TT_ROW_PROD;
    case TUTTI_MAX:
        return TT_ROW_MAX;
    case TUTTI_MIN:
        return TT_ROW_MIN;
    case TUTTI_BIT_AND:
        return TT_ROW_AND;
    case TUTTI_BIT_OR:
        return TT_ROW_OR;
    case TUTTI_BIT_XOR:
        return TT_ROW_XOR;
    default:
        return TT_ROWS;
    }
}
enum { TT_FOLD_TYPES = TUTTI_FLOAT8_E5M2 + 1, TT_SHAPES = TT_TREE + 1 };

struct tt_fold_table {
    tt_fold_fn fold[TT_FOLD_TYPES][TT_ROWS][TT_SHAPES];
    tt_spread_fn spread[TT_FOLD_TYPES]; /* of sums; NULL where there is none */
    tt_few_fn few[TT_FOLD_TYPES]; /* the same */
    tt_convert_fn widen[TT_FOLD_TYPES], narrow[TT_FOLD_TYPES]; /* to and from float32; NULL: there is none */
    /* Copies whole lines of 64 bytes past the caches; `to` is aligned to a line. */
    void (*stream)(uint8_t *to, const uint8_t *from, uint64_t bytes);
    /* Copies whole blocks of TT_COPY_BLOCK bytes from anywhere to anywhere; NULL: memcpy is no slower. */
    void (*copy)(uint8_t *to, const uint8_t *from, uint64_t bytes);
};
enum { TT_COPY_BLOCK = 256 };

extern const struct tt_fold_table tt_folds_generic;
extern const struct tt_fold_table tt_folds_avx2, tt_folds_avx512; /* all NULL where not compiled in */
const struct tt_fold_table *tt_fold_table_best(void); /* of the set that tt_isa_best tells */

/* x[i] / divisor in place, truncated towards zero. */
void tt_divide_integers(void *x, size_t count, tutti_type type, uint32_t divisor);

#endif
