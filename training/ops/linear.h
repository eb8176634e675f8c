/* SPDX-License-Identifier: BSD-3-Clause */
/* linear.h: the product of rows with a weight, for who puts something behind it. */
#ifndef TRAINING_OPS_LINEAR_H
#define TRAINING_OPS_LINEAR_H

#include "training/ops/site.h"

struct tr_gemm tr_row_product(const struct tr_call *c);

#endif
