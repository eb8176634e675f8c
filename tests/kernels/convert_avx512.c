/* SPDX-License-Identifier: BSD-3-Clause */
/* convert_avx512.c: the conversions of fold_avx512.c for test_convert.c; convert.h says how. */
#define tt_folds_avx512 convert_folds_avx512
#include "kernels/fold_avx512.c"

#ifdef __AVX512BW__
#define TT_CONVERSIONS convert_avx512
#include "convert.h"
#else
#include "convert_table.h"
const struct conversions convert_avx512;
#endif
