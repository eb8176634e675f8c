/* SPDX-License-Identifier: BSD-3-Clause */
/* bfloat16.h: kernels work on float32. Their bfloat16 operands are widened into scratch before, and their
 * bfloat16 results rounded from there afterwards; long arrays go through in pieces. */
#ifndef TRAINING_RUN_BFLOAT16_H
#define TRAINING_RUN_BFLOAT16_H

#include "training/ops/site.h"
#include "training/run/compute.h"

/* Operands become their float32 images, which lie before the kernels' scratch, or where a result is made in
 * the place of the first; then results are rounded. */
void tr_operands_to_float(const struct tr_runner *r, const struct tr_instr *i, struct tr_call *c);
void tr_results_to_bfloat16(const struct tr_runner *r, const struct tr_instr *i, const struct tr_call *c);

/* sum = a + b, all of one element type; sum may be a or b. */
void tr_add_values(
    const struct tr_runner *r, enum tr_element e, void *sum, const void *a, const void *b, int64_t count);
/* Values by rounding their masters, in that context; they begin with element `from` of the whole tensor,
 * after so many updates. */
void tr_round_masters(const struct tr_runner *r, struct tr_context *x, int parameter, uint16_t *values,
    const float *masters, int64_t from, int64_t count, int64_t updates);

#endif
