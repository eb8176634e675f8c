/* SPDX-License-Identifier: BSD-3-Clause */
/* element.h: what a value's elements are. Bytes of memory and of messages, the type of Tutti's calls, and
 * where a result is rounded all follow from it.
 *
 * With --precision bfloat16, parameters, gradients and what has a number for each channel are bfloat16. A
 * value that is a partial sum on some axis stays float32 until the sum is whole: then TR_ROUND makes its
 * bfloat16, once. So a mesh does not show in the bits. An operation computes in float32: what it reads is
 * widened, and what it gives is rounded as its value says. */
#ifndef TRAINING_PLACE_ELEMENT_H
#define TRAINING_PLACE_ELEMENT_H

#include "training/place/place.h"

enum tr_element { TR_FLOAT32, TR_BFLOAT16, TR_FLOAT64, TR_TOKEN, TR_WORD, TR_ELEMENTS };
extern const char *const tr_element_names[TR_ELEMENTS];

int64_t tr_element_bytes(enum tr_element e);
tutti_type tr_element_type(enum tr_element e);
/* Of a value of this shard, as operations make it. */
enum tr_element tr_shard_element(const struct tr_placed *p, int shard);

#endif
