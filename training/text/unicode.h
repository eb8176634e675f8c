/* SPDX-License-Identifier: BSD-3-Clause */
/* unicode.h: characters of UTF-8, and which of them are letters, numbers and white space. */
#ifndef TRAINING_TEXT_UNICODE_H
#define TRAINING_TEXT_UNICODE_H

#include <stdint.h>

/* The classes by which a text is split: \p{L}, \p{N} and \s of regular expressions, and the rest. */
enum tr_class { TR_OTHER, TR_LETTER, TR_NUMBER, TR_SPACE };
enum tr_class tr_class_of_code(uint32_t code);

enum { TR_UTF8_CUT = 0, TR_UTF8_WRONG = -1, TR_UTF8_MOST = 4 };
/* The first character: its length in bytes, and its code point. CUT: it may become one when more bytes come.
 * WRONG: the first byte begins none (the shortest form alone is legal, and no surrogates). */
int tr_utf8_next(const uint8_t *bytes, int64_t count, uint32_t *code);
/* Writes a code point, and returns the length. */
int tr_utf8_put(uint8_t to[TR_UTF8_MOST], uint32_t code);

#endif
