/* SPDX-License-Identifier: BSD-3-Clause */
/* convert_avx2.c: the conversions of fold_avx2.c for test_convert.c; convert.h says how. */
#define tt_folds_avx2 convert_folds_avx2
#include "kernels/fold_avx2.c"

#ifdef __AVX2__
#define TT_CONVERSIONS convert_avx2
#include "convert.h"
#else
#include "convert_table.h"
const struct conversions convert_avx2;
#endif
