/* SPDX-License-Identifier: BSD-3-Clause */
/* tokenizer.h: text as tokens, and back.
 *
 * Without a vocabulary a token is a byte, so any text of any language will do. With one, byte pairs are
 * merged as GPT-2 does (Sennrich et al. 2016, Radford et al. 2019): a text comes apart into words, a word is
 * bytes at first, and of two neighbours those are merged that stand first in the list of merges, until none
 * stand there. The files are those that came with GPT-2, under either of their names:
 *
 *     vocab.json or encoder.json    {"text of a token": its number}, of bytes as printable characters
 *     merges.txt or vocab.bpe       a pair of such texts a line, of which the first goes first
 */
#ifndef TRAINING_TEXT_TOKENIZER_H
#define TRAINING_TEXT_TOKENIZER_H

#include "training/error.h"

#include <stdint.h>

/* What is merged to which token, and when: the earliest first. */
struct tr_merge {
    uint32_t pair; /* first << 16 | second */
    int32_t rank; /* -1: the place is empty */
    uint16_t token;
};

struct tr_tokenizer {
    int64_t count; /* of tokens */
    struct tr_token {
        int64_t at;
        int32_t length;
    } * tokens; /* their bytes, in `bytes` */
    uint8_t *bytes;
    uint16_t of_byte[256];
    struct tr_merge *merges; /* a table by the hash of the pair */
    uint32_t mask;
};

/* folder "": bytes. Files that are not there, or that do not fit each other, are an error that says where. */
bool tr_tokenizer_open(struct tr_tokenizer *t, const char *folder, struct tr_error *e);
void tr_tokenizer_close(struct tr_tokenizer *t);

/* The tokens of a text, to be freed, and how many: at most one a byte. What is no UTF-8 has tokens, too. */
uint16_t *tr_encode(const struct tr_tokenizer *t, const uint8_t *text, int64_t count, int64_t *tokens);
/* The bytes of a token, of which a character may have more, and how many. */
const uint8_t *tr_decode(const struct tr_tokenizer *t, int64_t token, int64_t *count);

/* Where the merge of a pair stands, or would stand, in the table: vocabulary.c fills it. */
struct tr_merge *tr_merge_of(const struct tr_tokenizer *t, uint32_t pair);
bool tr_vocabulary_read(struct tr_tokenizer *t, const char *folder, struct tr_error *e);

#endif
