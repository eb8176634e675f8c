/* SPDX-License-Identifier: BSD-3-Clause */
/* corpus.h: text gathered from files and directories, to be learned byte by byte or by a vocabulary.
 *
 * What is gathered depends on the files alone: directories are walked in the order of their names' bytes, and
 * links in them are not followed, so that no text comes twice. */
#ifndef TRAINING_DATA_CORPUS_H
#define TRAINING_DATA_CORPUS_H

#include "training/data/data.h"

struct tr_corpus {
    uint8_t *bytes;
    int64_t count, room;
    int64_t files; /* that are in it */
    int64_t others; /* that are in the directories, and are no text */
    uint16_t *tokens; /* that somebody made of all its bytes; NULL: each byte is one */
    int64_t n_tokens;
};

/* A file, or all regular files below a directory that are mostly printable text. A file that is named here
 * and is no text is refused. On failure, too, the caller frees the corpus. */
bool tr_corpus_add(struct tr_corpus *c, const char *path, struct tr_error *e);
/* Tutti's own documents, of the source or as they are installed, and the licences that this machine has. */
bool tr_corpus_add_default(struct tr_corpus *c, struct tr_error *e);
/* A number that two people can compare: it depends on every byte and its place. */
uint64_t tr_corpus_checksum(const struct tr_corpus *c);
/* Its tokens, as llm.c has them. The file is there as a whole or not at all. */
bool tr_corpus_write(const struct tr_corpus *c, const char *path, struct tr_error *e);
void tr_corpus_free(struct tr_corpus *c);

/* The default corpus as data, without a file between. */
bool tr_data_open_default(
    struct tr_data *d, uint64_t seed, int64_t vocabulary, int64_t context, struct tr_error *e);

#endif
