/* SPDX-License-Identifier: BSD-3-Clause */
/* convert_generic.c: the conversions of fold_generic.c for test_convert.c; convert.h says how. */
#define tt_folds_generic convert_folds_generic
#include "kernels/fold_generic.c"

#define TT_CONVERSIONS convert_generic
#include "convert.h"
