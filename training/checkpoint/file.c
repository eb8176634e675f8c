/* SPDX-License-Identifier: BSD-3-Clause */
/* file.c: a file is whole or it is not there: it is written beside the old one, and takes its name at the
 * end. */
#include "training/checkpoint/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool tr_read_at(int file, void *to, int64_t bytes, int64_t at, const char *path, struct tr_error *e)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(file, (char *)to + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return tr_fail(e, "%s: %" PRId64 " bytes at %" PRId64 " cannot be read: %s", path, bytes - done,
                at + done, n ? strerror(errno) : "the file ends before");
        done += n;
    }
    return true;
}

bool tr_write_at(int file, const void *from, int64_t bytes, int64_t at, const char *path, struct tr_error *e)
{
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pwrite(file, (const char *)from + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return tr_fail(e, "%s: %" PRId64 " bytes at %" PRId64 " cannot be written: %s", path,
                bytes - done, at + done, n ? strerror(errno) : "no room");
        done += n;
    }
    return true;
}

bool tr_file_make(const char *path, int64_t bytes, struct tr_error *e)
{
    int file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    bool ok = file >= 0 && ftruncate(file, (off_t)bytes) == 0;
    if (!ok)
        tr_fail(e, "%s cannot be written: %s", path, strerror(errno));
    if (file >= 0)
        close(file);
    return ok;
}

bool tr_file_name(int file, const char *part, const char *path, struct tr_error *e)
{
    char copy[TR_PATH];
    if (fsync(file))
        return tr_fail(e, "%s cannot be written: %s", part, strerror(errno));
    if (rename(part, path))
        return tr_fail(e, "%s cannot be renamed to %s: %s", part, path, strerror(errno));
    snprintf(copy, sizeof copy, "%s", path);
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
        fsync(directory);
        close(directory);
    }
    return true;
}

bool tr_file_part(char part[TR_PATH], const char *path, struct tr_error *e)
{
    struct stat s;
    if (snprintf(part, TR_PATH, "%s.part", path) >= TR_PATH)
        return tr_fail(e, "%.200s...: the name is too long", path);
    return stat(path, &s) || S_ISREG(s.st_mode) ||
           tr_fail(e, "%s is not a file; legal is the name of one, or a new name", path);
}
