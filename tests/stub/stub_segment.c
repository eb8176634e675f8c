/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_segment.c: device memory that other processes map. A segment is a memory file with a page behind its
 * bytes that says what it is; an export is a descriptor of it, or (fds=0) a handle that tells in which
 * process it is open, so that it can be imported while that process lives. Lengths are rounded up, as
 * runtimes do. Who imports what it allocated itself is refused, and so is what is no segment. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stub_internal.h"

enum { GRANULE = 65536 };
static const char magic[8] = "segment";

struct trailer {
    char magic[8];
    uint64_t bytes;
};

struct handle { /* in tt_dev_export.handle */
    char magic[8];
    uint64_t inode;
    int32_t pid, fd;
};

static enum tt_dev_error refuse(const char *what)
{
    return tt_stub_fail(TT_DEV_INVALID, STUB_segment_import, "%s", what);
}

static bool file_make(uint64_t bytes, struct stub_file *file)
{
    struct trailer trailer = { .bytes = bytes };
    struct stat facts;
    memcpy(trailer.magic, magic, sizeof magic);
    file->fd = memfd_create("stub segment", MFD_CLOEXEC);
    if (file->fd < 0)
        return false;
    if (ftruncate(file->fd, (off_t)(bytes + sizeof trailer)) != 0 ||
        pwrite(file->fd, &trailer, sizeof trailer, (off_t)bytes) != sizeof trailer ||
        fstat(file->fd, &facts) != 0) {
        close(file->fd);
        return false;
    }
    file->is = true;
    file->inode = facts.st_ino;
    return true;
}

static void segment_fill(struct tt_dev_segment *segment, struct stub_memory *m)
{
    *segment = (struct tt_dev_segment){ .base = (void *)m->base,
        .bytes = m->bytes,
        .device = m->device,
        .imported = m->file.imported,
        .handle = m };
}

/* The memory of a file, mapped as any other: all streams of the device are waited for. */
static bool map(
    struct stub_device *device, uint64_t bytes, struct stub_file file, struct tt_dev_segment *segment)
{
    tt_stub_device_seize(device);
    struct stub_memory *m = tt_stub_memory_map(device, bytes, file);
    if (m != NULL)
        segment_fill(segment, m);
    tt_stub_device_release(device);
    if (m == NULL)
        close(file.fd);
    return m != NULL;
}

enum tt_dev_error tt_stub_segment_alloc(size_t bytes, struct tt_dev_segment *segment)
{
    enum tt_dev_error error = tt_stub_enter(STUB_segment_alloc);
    struct stub_file file = { .fd = -1 };
    if (error != TT_DEV_OK)
        return error;
    if (bytes == 0)
        return tt_stub_fail(TT_DEV_INVALID, STUB_segment_alloc, "bytes is 0; at least 1 is legal");
    if (bytes > tt_stub_runtime.config.memory_bytes)
        return tt_stub_fail(TT_DEV_NO_MEMORY, STUB_segment_alloc, "no room for %zu bytes", bytes);
    struct stub_device *device = tt_stub_current();
    uint64_t rounded = ((uint64_t)bytes + GRANULE - 1) / GRANULE * GRANULE;
    if (!file_make(rounded, &file) || !map(device, rounded, file, segment))
        return tt_stub_fail(TT_DEV_NO_MEMORY, STUB_segment_alloc, "no room for %zu bytes", bytes);
    return TT_DEV_OK;
}

/* With the lock held; NULL if it is none, or was freed. */
static struct stub_memory *find(const struct tt_dev_segment *segment)
{
    struct stub_memory *m = tt_stub_runtime.memory;
    while (m != NULL && (m != segment->handle || !m->file.is || m->base != (uintptr_t)segment->base))
        m = m->next;
    return m;
}

enum tt_dev_error tt_stub_segment_export(const struct tt_dev_segment *segment, struct tt_dev_export *out)
{
    struct handle handle = { .pid = getpid() };
    enum tt_dev_error error = tt_stub_enter(STUB_segment_export);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = find(segment);
    bool right = m != NULL && !m->file.imported;
    if (right) {
        memcpy(handle.magic, magic, sizeof magic);
        handle.inode = m->file.inode;
        handle.fd = m->file.fd;
        *out = (struct tt_dev_export){ .bytes = m->bytes, .fd = -1 };
        if (tt_stub_runtime.config.fds)
            out->fd = fcntl(m->file.fd, F_DUPFD_CLOEXEC, 0);
        else
            memcpy(out->handle, &handle, sizeof handle);
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return right ? TT_DEV_OK
                 : tt_stub_fail(TT_DEV_INVALID, STUB_segment_export, "no segment that was allocated here");
}

/* A descriptor of one's own of what was exported; -1: there is none. */
static int open_export(const struct tt_dev_export *from)
{
    struct handle handle;
    char path[64];
    if (from->fd >= 0)
        return fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
    memcpy(&handle, from->handle, sizeof handle);
    if (memcmp(handle.magic, magic, sizeof magic) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", handle.pid, handle.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat facts;
    if (fd >= 0 && (fstat(fd, &facts) != 0 || facts.st_ino != handle.inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_own(uint64_t inode)
{
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = tt_stub_runtime.memory;
    while (m != NULL && (!m->file.is || m->file.imported || m->file.inode != inode))
        m = m->next;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return m != NULL;
}

enum tt_dev_error tt_stub_segment_import(const struct tt_dev_export *from, struct tt_dev_segment *segment)
{
    struct trailer trailer;
    struct stat facts;
    enum tt_dev_error error = tt_stub_enter(STUB_segment_import);
    if (error != TT_DEV_OK)
        return error;
    int fd = open_export(from);
    if (fd < 0)
        return refuse("it is no segment, or whose it was is gone");
    const char *wrong = NULL;
    if (fstat(fd, &facts) != 0 || from->bytes == 0 ||
        pread(fd, &trailer, sizeof trailer, (off_t)from->bytes) != sizeof trailer ||
        memcmp(trailer.magic, magic, sizeof magic) != 0 || trailer.bytes != from->bytes)
        wrong = "it is no segment of so many bytes";
    else if (is_own(facts.st_ino))
        wrong = "it was allocated in this process";
    if (wrong != NULL) {
        close(fd);
        return refuse(wrong);
    }
    struct stub_file file = { .is = true, .imported = true, .fd = fd, .inode = facts.st_ino };
    return map(tt_stub_current(), trailer.bytes, file, segment)
               ? TT_DEV_OK
               : tt_stub_fail(TT_DEV_NO_MEMORY, STUB_segment_import, "no addresses for it");
}

enum tt_dev_error tt_stub_segment_free(struct tt_dev_segment *segment)
{
    enum tt_dev_error error = tt_stub_enter(STUB_segment_free);
    if (error != TT_DEV_OK)
        return error;
    int n = tt_stub_runtime.config.devices;
    struct stub_memory *m = NULL;
    if (segment->device >= 0 && segment->device < n) {
        struct stub_device *device = &tt_stub_runtime.devices[segment->device];
        tt_stub_device_seize(device);
        m = find(segment);
        if (m != NULL)
            tt_stub_memory_unmap(m);
        tt_stub_device_release(device);
    }
    if (m == NULL)
        return tt_stub_fail(TT_DEV_INVALID, STUB_segment_free, "no segment, or freed");
    *segment = (struct tt_dev_segment){ .device = -1 };
    return TT_DEV_OK;
}
