/* SPDX-License-Identifier: BSD-3-Clause */
/* safetensors.h: tensors by name in one file, as Hugging Face's libraries read and write them.
 *
 * The file: 8 bytes with the length of a head, little-endian; the head, an object of JSON that has for each
 * name "dtype", "shape" and "data_offsets" (from and to, counted from the end of the head); then the data,
 * row by row. https://github.com/huggingface/safetensors describes it. */
#ifndef TRAINING_WEIGHTS_SAFETENSORS_H
#define TRAINING_WEIGHTS_SAFETENSORS_H

#include "training/error.h"

#include <stdint.h>

enum { TR_STORED_NAME = 128, TR_STORED_DIMS = 4 };

struct tr_stored {
    char name[TR_STORED_NAME];
    char type[8]; /* "F32", "F16", "BF16": those that are read; F32 is written */
    int dims;
    int64_t shape[TR_STORED_DIMS];
    int64_t count; /* elements */
    int64_t at; /* bytes from the beginning of the file */
};

struct tr_safetensors {
    const char *path; /* stays the caller's */
    int file;
    int n, room;
    struct tr_stored *tensors;
};

/* A file that is none, is cut, or whose head says what cannot be, is an error that says what. */
bool tr_safetensors_open(struct tr_safetensors *s, const char *path, struct tr_error *e);
/* NULL: there is none of this name. */
const struct tr_stored *tr_safetensors_find(const struct tr_safetensors *s, const char *name);
/* All elements as float32; a type that is not read is an error that names it. */
bool tr_safetensors_read(
    const struct tr_safetensors *s, const struct tr_stored *t, float *to, struct tr_error *e);
void tr_safetensors_close(struct tr_safetensors *s);

/* Writing: names and shapes first, then the head, then the data of each in any order; then close. */
void tr_safetensors_add(struct tr_safetensors *s, const char *name, int dims, const int64_t *shape);
bool tr_safetensors_make(struct tr_safetensors *s, const char *path, struct tr_error *e);
bool tr_safetensors_write(
    const struct tr_safetensors *s, const struct tr_stored *t, const float *from, struct tr_error *e);

#endif
