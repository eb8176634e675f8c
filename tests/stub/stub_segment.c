/* SPDX-License-Identifier: BSD-3-Clause */
/* stub_segment.c: device memory that other processes map. A segment is a memory file with a page behind its
 * bytes that says what it is; an export is a descriptor of it, or (fds=0) a handle that tells in which
 * process it is open, so that it can be imported while that process lives. Other memory of a device lies in a
 * file as well (stub_memory.c), and is always exported by a handle. Lengths are rounded up, as
 * runtimes do. Who imports what it allocated itself is refused, and so is what is no segment; who frees what
 * another process has by a handle is told of that. */
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
    uint64_t id; /* of memory; 0: it is a segment */
};
_Static_assert(sizeof(struct trailer) <= STUB_SAYS_BYTES, "it fits where memory says what it is");

struct handle { /* in tt_dev_export.handle */
    char magic[8];
    uint64_t inode;
    int32_t pid, fd;
    uint64_t at, says, id; /* of memory in the file; where the file says what it is */
};
_Static_assert(sizeof(struct handle) <= TT_DEV_HANDLE_BYTES, "it fits an export");

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

static void handle_fill(
    struct tt_dev_export *out, const struct stub_memory *m, int fd, const struct handle *where)
{
    struct handle handle = *where;
    struct stat facts = { 0 };
    memcpy(handle.magic, magic, sizeof magic);
    fstat(fd, &facts);
    handle.inode = facts.st_ino;
    handle.pid = getpid();
    handle.fd = fd;
    *out = (struct tt_dev_export){ .bytes = m->bytes, .fd = -1 };
    memcpy(out->handle, &handle, sizeof handle);
}

/* With the lock held; false: no descriptor is left. */
static bool segment_export(const struct stub_memory *m, struct tt_dev_export *out)
{
    const struct handle where = { .says = m->bytes };
    if (!tt_stub_runtime.config.fds) {
        handle_fill(out, m, m->file.fd, &where);
        return true;
    }
    int fd = fcntl(m->file.fd, F_DUPFD_CLOEXEC, 0);
    if (fd >= 0)
        *out = (struct tt_dev_export){ .bytes = m->bytes, .fd = fd };
    return fd >= 0;
}

enum tt_dev_error tt_stub_segment_export(const struct tt_dev_segment *segment, struct tt_dev_export *out)
{
    enum tt_dev_error error = tt_stub_enter(STUB_segment_export);
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = find(segment);
    bool right = m != NULL && !m->file.imported, made = right && segment_export(m, out);
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    if (!right)
        return tt_stub_fail(TT_DEV_INVALID, STUB_segment_export, "no segment that was allocated here");
    return made ? TT_DEV_OK : tt_stub_fail(TT_DEV_UNSUPPORTED, STUB_segment_export, "no descriptor is left");
}

/* What is in the way of an export, as a runtime would have it; NULL: nothing. With the lock held. */
static const char *refuse_export(const struct stub_memory *m)
{
    if (m == NULL || m->kind != TT_DEV_DEVICE)
        return "it is no memory of a device alone";
    if (m->file.imported)
        return "it was imported";
    if (m->range != 0)
        return "it was mapped in a range, without a way to export it";
    if (!m->file.is && (!tt_stub_runtime.config.exports || tt_stub_window_file() < 0))
        return "it is of a pool";
    return NULL;
}

static void memory_export(struct stub_memory *m, struct tt_dev_export *out)
{
    struct trailer trailer = { .bytes = m->bytes, .id = m->id };
    const struct handle where = { .at = tt_stub_window_at(m), .says = tt_stub_window_says(m), .id = m->id };
    memcpy(trailer.magic, magic, sizeof magic);
    m->exported =
        pwrite(tt_stub_window_file(), &trailer, sizeof trailer, (off_t)where.says) == sizeof trailer;
    handle_fill(out, m, tt_stub_window_file(), &where);
}

enum tt_dev_error tt_stub_segment_export_of(const void *ptr, struct tt_dev_export *out, uintptr_t *base)
{
    struct tt_dev_export made;
    enum tt_dev_error error = tt_stub_enter(STUB_segment_export_of);
    if (error == TT_DEV_OK && tt_stub_used() < 0)
        error = tt_stub_fail(TT_DEV_INVALID, STUB_segment_export_of, "this thread uses no device");
    if (error != TT_DEV_OK)
        return error;
    pthread_mutex_lock(&tt_stub_runtime.lock);
    struct stub_memory *m = (struct stub_memory *)tt_stub_memory_find(ptr);
    const char *wrong = refuse_export(m);
    if (wrong == NULL && !m->file.is)
        memory_export(m, &made);
    else if (wrong == NULL && !segment_export(m, &made))
        wrong = "no descriptor is left";
    if (wrong == NULL) {
        *out = made;
        *base = m->base;
    }
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return wrong == NULL ? TT_DEV_OK
                         : tt_stub_fail(TT_DEV_UNSUPPORTED, STUB_segment_export_of, "%p: %s", ptr, wrong);
}

/* A descriptor of one's own of what was exported, and where it is there; -1: there is none. */
static int open_export(const struct tt_dev_export *from, struct handle *where)
{
    char path[64];
    *where = (struct handle){ .says = from->bytes };
    if (from->fd >= 0)
        return fcntl(from->fd, F_DUPFD_CLOEXEC, 0);
    memcpy(where, from->handle, sizeof *where);
    if (memcmp(where->magic, magic, sizeof magic) != 0)
        return -1;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", where->pid, where->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct stat facts;
    if (fd >= 0 && (fstat(fd, &facts) != 0 || facts.st_ino != where->inode)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static bool is_own(uint64_t inode)
{
    struct stat window = { 0 };
    pthread_mutex_lock(&tt_stub_runtime.lock);
    const struct stub_memory *m = tt_stub_runtime.memory;
    while (m != NULL && (!m->file.is || m->file.imported || m->file.inode != inode))
        m = m->next;
    pthread_mutex_unlock(&tt_stub_runtime.lock);
    return m != NULL || (fstat(tt_stub_window_file(), &window) == 0 && window.st_ino == inode);
}

/* What is wrong with what a descriptor is of; NULL: nothing. */
static const char *refuse_import(int fd, const struct tt_dev_export *from, const struct handle *where)
{
    struct trailer trailer;
    struct stat facts;
    if (fstat(fd, &facts) != 0 || from->bytes == 0 ||
        pread(fd, &trailer, sizeof trailer, (off_t)where->says) != sizeof trailer ||
        memcmp(trailer.magic, magic, sizeof magic) != 0 || trailer.bytes != from->bytes ||
        trailer.id != where->id)
        return "it is no segment of so many bytes, or was freed";
    return is_own(facts.st_ino) ? "it was allocated in this process" : NULL;
}

enum tt_dev_error tt_stub_segment_import(const struct tt_dev_export *from, struct tt_dev_segment *segment)
{
    struct handle where;
    struct flock lock = { .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_len = 1 };
    struct stat facts = { 0 };
    enum tt_dev_error error = tt_stub_enter(STUB_segment_import);
    if (error != TT_DEV_OK)
        return error;
    int fd = open_export(from, &where);
    if (fd < 0)
        return refuse("it is no segment, or whose it was is gone, or no descriptor is left");
    const char *wrong = refuse_import(fd, from, &where);
    lock.l_start = (off_t)where.at;
    if (wrong == NULL && from->fd < 0 && fcntl(fd, F_OFD_SETLK, &lock) != 0)
        wrong = "it cannot be locked";
    if (wrong != NULL) {
        close(fd);
        return refuse(wrong);
    }
    fstat(fd, &facts);
    struct stub_file file = { .is = true, .imported = true, .fd = fd, .inode = facts.st_ino, .at = where.at };
    return map(tt_stub_current(), from->bytes, file, segment)
               ? TT_DEV_OK
               : tt_stub_fail(TT_DEV_NO_MEMORY, STUB_segment_import, "no addresses for it");
}

enum tt_dev_error tt_stub_segment_free(struct tt_dev_segment *segment)
{
    enum tt_dev_error error = tt_stub_enter(STUB_segment_free);
    if (error != TT_DEV_OK)
        return error;
    int n = tt_stub_runtime.config.devices;
    bool lent = false;
    struct stub_memory *m = NULL;
    if (segment->device >= 0 && segment->device < n) {
        struct stub_device *device = &tt_stub_runtime.devices[segment->device];
        tt_stub_device_seize(device);
        m = find(segment);
        lent = m != NULL && tt_stub_memory_lent(m);
        if (m != NULL)
            tt_stub_memory_unmap(m);
        tt_stub_device_release(device);
    }
    if (m == NULL)
        return tt_stub_fail(TT_DEV_INVALID, STUB_segment_free, "no segment, or freed");
    *segment = (struct tt_dev_segment){ .device = -1 };
    return lent ? tt_stub_memory_freed_lent(STUB_segment_free) : TT_DEV_OK;
}
