/* SPDX-License-Identifier: BSD-3-Clause */
/* file.h: files of which another program may want the old one or the new one, but never a half. */
#ifndef TRAINING_CHECKPOINT_FILE_H
#define TRAINING_CHECKPOINT_FILE_H

#include "training/error.h"

#include <stdint.h>

enum { TR_PATH = 1024 };

bool tr_read_at(int file, void *to, int64_t bytes, int64_t at, const char *path, struct tr_error *e);
bool tr_write_at(int file, const void *from, int64_t bytes, int64_t at, const char *path, struct tr_error *e);

/* The name that a file has until it is whole. What is there and no file, as a device or a pipe, stays. */
bool tr_file_part(char part[TR_PATH], const char *path, struct tr_error *e);
/* Of so many bytes, all 0. */
bool tr_file_make(const char *path, int64_t bytes, struct tr_error *e);
/* When all that is in `file` is on the disk, `part` becomes `path`, and the name is on the disk, too. */
bool tr_file_name(int file, const char *part, const char *path, struct tr_error *e);

#endif
