/* SPDX-License-Identifier: BSD-3-Clause */
/* split.h: a text comes apart into words, each of which is made into tokens by itself. */
#ifndef TRAINING_TEXT_SPLIT_H
#define TRAINING_TEXT_SPLIT_H

#include <stdint.h>

/* Bytes of the first word, at least 1 of `count`. A byte that is no UTF-8 counts as a sign. */
int64_t tr_word(const uint8_t *text, int64_t count);

#endif
