/* SPDX-License-Identifier: BSD-3-Clause */
/* site_of.h: a step of the placed graph as an operation sees it on one rank. */
#ifndef TRAINING_TAPE_SITE_OF_H
#define TRAINING_TAPE_SITE_OF_H

#include "training/ops/site.h"
#include "training/place/element.h"

/* On the rank that stands at `at`; with no memory. */
struct tr_call tr_site_of(const struct tr_placed *p, const struct tr_step *s, const int at[TR_AXES]);
/* Floating-point operations of it. */
double tr_work(const struct tr_placed *p, const struct tr_step *s, const struct tr_call *c);
/* Whether the float32 image of the first operand, of so many elements, lies where the first result, of so
 * many, is made: in its image, or in itself. The operation works in place. */
bool tr_shares_image(int op, enum tr_element in, int64_t ins, enum tr_element out, int64_t outs);
/* Scratch in bytes that the bfloat16 operands and results of this step take, beside that of its kernels. */
int64_t tr_float_image_bytes(const struct tr_placed *p, const struct tr_step *s);

#endif
