/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder_attach.c: the recorder of a process, from outside.
 *
 * The file is found among the descriptors of the process by its name and mapped read-only, so this works
 * while the process hangs, and cannot disturb it. The kernel admits only the user of the process, and root.
 * The file's seal says that it cannot shrink under the reader. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "observe/recorder.h"
#include "observe/recorder_file.h"

/* Opens this directory entry and returns the descriptor if it is a recorder, else -1. */
static int open_recorder(int directory, const char *name)
{
    static const char recorder[] = "/memfd:" TT_RECORDER_NAME " (deleted)";
    char target[sizeof recorder + 1];
    ssize_t length = readlinkat(directory, name, target, sizeof target);
    if (length != sizeof recorder - 1 || memcmp(target, recorder, sizeof recorder - 1) != 0)
        return -1;
    return openat(directory, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static tutti_status put_mapped(struct tt_text *t, int64_t pid, int fd, enum tt_recorder_form form)
{
    struct stat about;
    const char *why = "it can shrink";
    tutti_status status = TUTTI_UNSUPPORTED;
    if (fstat(fd, &about) != 0)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "attach: the recorder of process %lld", (long long)pid);
    uint64_t bytes = (uint64_t)about.st_size;
    void *file = bytes > 0 ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (file == MAP_FAILED)
        return tt_fail_errno(TUTTI_SYSTEM_ERROR, "attach: the recorder of process %lld", (long long)pid);
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals >= 0 && (seals & F_SEAL_SHRINK) && tt_recorder_check(file, bytes, &why))
        status = TUTTI_OK;
    if (status != TUTTI_OK)
        tt_fail(status, "attach: the recorder of process %lld cannot be read: %s", (long long)pid, why);
    else if (tt_recorder_put_file(t, file, bytes, form) == 0 && form == TT_RECORDER_TEXT)
        tt_put(t, "process %lld has no communicator now\n", (long long)pid);
    munmap(file, bytes);
    return status;
}

bool tt_recorder_attach(struct tt_text *t, int64_t pid, bool json)
{
    enum tt_recorder_form form = json ? TT_RECORDER_JSON : TT_RECORDER_TEXT;
    char path[64];
    snprintf(path, sizeof path, "/proc/%lld/fd", (long long)pid);
    DIR *directory = opendir(path);
    if (directory == NULL) {
        tt_fail_errno(TUTTI_INVALID_ARGUMENT, "attach: process %lld", (long long)pid);
        return false;
    }
    int fd = -1;
    for (struct dirent *entry; fd < 0 && (entry = readdir(directory)) != NULL;)
        fd = open_recorder(dirfd(directory), entry->d_name);
    closedir(directory);
    if (fd < 0) {
        tt_fail(TUTTI_INVALID_ARGUMENT,
            "attach: process %lld has made no communicator of Tutti, or it is another user's",
            (long long)pid);
        return false;
    }
    tutti_status status = put_mapped(t, pid, fd, form);
    close(fd);
    return status == TUTTI_OK;
}
